//! Nodes on a device: the same nodes, whose work is a sequence of the device's kernels and libraries.
//!
//! For a graph that runs on a device, placement (of sessions) marks the nodes that run there and puts copies on the
//! edges between them and the others ([`transfer`]). A marked node infers its outputs as on the processor; instead of
//! an executor it gets a [`Sequence`] ([`Node::prepare_device`]), whose solvers and kernels come from the same cache.
//! Tensors between such nodes are in the device's memory ([`Tensor::elsewhere`]).

mod copy;
mod finish;
mod sequence;
pub mod transfer;

use std::sync::Arc;

pub use finish::Addend;
pub use sequence::{DeviceCx, Operand, Sequence};

use kiln_tensor::{DType, Tensor, TensorSpec};

use super::node::InferByValue;
use super::node::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use crate::exec::gpu::GpuCx;

/// The attribute ([`Attr::Int`](kiln_model::Attr::Int)) of nodes that run on the device.
pub const ON_DEVICE: &str = "on_device";

/// The fused operator that copies a value to the device.
pub const TO_DEVICE: &str = "ToDevice";

/// The fused operator that copies a value from the device.
pub const TO_HOST: &str = "ToHost";

/// A node that runs on a device.
pub struct OnDevice {
    node: Box<dyn Node>,
    gpu: Arc<GpuCx>,
    /// Which element types its operands on the device may have.
    carries: fn(DType) -> bool,
}

impl OnDevice {
    /// `node` on the device, for elements of the types that `carries` takes.
    #[must_use]
    pub fn new(node: Box<dyn Node>, gpu: Arc<GpuCx>, carries: fn(DType) -> bool) -> OnDevice {
        OnDevice { node, gpu, carries }
    }
}

impl Node for OnDevice {
    fn family(&self) -> &'static str {
        self.node.family()
    }

    fn value_inputs(&self) -> u64 {
        self.node.value_inputs()
    }

    fn by_value(&self) -> Option<&dyn InferByValue> {
        self.node.by_value()
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        self.node.check(inputs, outputs)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        // Placement used the types that the model declares; a kernel would misread elements of another type.
        let there = inputs.iter().flatten().filter(|tensor| tensor.is_elsewhere()).map(|tensor| tensor.dtype());
        if let Some(other) = there.chain(outputs.iter().map(|spec| spec.dtype)).find(|dtype| !(self.carries)(*dtype)) {
            return Err(NodeError::Unsupported(format!("{} of {other} on a device", self.family())));
        }
        let mut device = DeviceCx::new(cx, outputs);
        self.node.prepare_device(&mut device, inputs, outputs)?;
        Ok(Prepared::new(Arc::new(device.finish())))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        prepared.get::<Sequence>()?.run(&self.gpu, io)
    }
}
