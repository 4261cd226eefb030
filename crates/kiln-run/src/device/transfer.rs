//! Copies between the processor and a device as nodes of the graph, so that they are shown, timed and counted like all
//! steps.

use std::sync::Arc;

use kiln_kernels::gpu::Region;

use super::super::node::InferByValue;
use super::super::node::{Io, Node, NodeError, Prepared, RunCx, Specs};
pub use super::copy::to_device;
use kiln_tensor::Tensor;

use crate::exec::gpu::GpuCx;

/// Copies its input to the device.
pub struct ToDevice(pub Arc<GpuCx>);

/// Copies its input from the device.
pub struct ToHost(pub Arc<GpuCx>);

fn one_spec(inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
    let input = inputs.first().copied().flatten().ok_or_else(|| NodeError::Input("input 0 is missing".to_owned()))?;
    Ok(Specs::from_elem(input.spec().clone(), 1))
}

impl InferByValue for ToDevice {
    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        one_spec(inputs)
    }
}

impl Node for ToDevice {
    fn family(&self) -> &'static str {
        "to_device"
    }

    fn by_value(&self) -> Option<&dyn InferByValue> {
        Some(self)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let tensor = to_device(&self.0, io.input(0)?)?;
        io.push(tensor);
        Ok(())
    }
}

impl InferByValue for ToHost {
    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        one_spec(inputs)
    }
}

impl Node for ToHost {
    fn family(&self) -> &'static str {
        "to_host"
    }

    fn by_value(&self) -> Option<&dyn InferByValue> {
        Some(self)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let mut output = io.alloc(0)?;
        let input = io.input(0)?;
        let region: &Region =
            input.away().ok_or_else(|| NodeError::Input("the tensor is not on the device".to_owned()))?;
        self.0.device.download(region, output.bytes_mut())?;
        self.0.traffic.count_to_host(region.bytes());
        io.push(output);
        Ok(())
    }
}
