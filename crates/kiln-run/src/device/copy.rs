//! Copies of tensors from the processor to a device.

use std::sync::Arc;

use kiln_tensor::{DType, Elsewhere, Tensor, TensorSpec};

use crate::error::NodeError;
use crate::exec::gpu::GpuCx;

/// Bytes of a tensor's elements.
pub(super) fn bytes_of(spec: &TensorSpec) -> Result<u64, NodeError> {
    Ok((spec.elements()? * spec.dtype.size()) as u64)
}

/// A copy of the tensor on the device.
///
/// # Errors
///
/// For strings, which no device holds, and if the device has no room.
pub fn to_device(gpu: &GpuCx, tensor: &Tensor) -> Result<Tensor, NodeError> {
    if tensor.dtype() == DType::String {
        return Err(NodeError::Unsupported("strings on a device".to_owned()));
    }
    let region = gpu.arena.take(bytes_of(tensor.spec())?)?;
    gpu.device.upload(tensor.bytes(), &region)?;
    gpu.traffic.count_to_device(region.bytes());
    Ok(Tensor::elsewhere(tensor.spec().clone(), Arc::new(Elsewhere::new(region))))
}
