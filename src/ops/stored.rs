//! Tensors of `f32` or `bf16` as kernels take them that read and write either.
//!
//! When a graph is rewritten, nodes of such kernels get the attribute [`STORED`]: they are then given `bf16` as it is, where an
//! adapter would otherwise convert it.

use half::bf16;
use kiln_kernels::cpu::{Activations, ActivationsMut, Stored};

use crate::graph::NodeError;
use crate::tensor::{DType, Tensor};

/// The attribute: ONNX's number of the type that is written.
pub(super) const STORED: &str = "to";

/// How a tensor lies in memory: anything but `bf16` is said to be `f32`, and found out when it is read.
pub(super) fn stored(tensor: &Tensor) -> Stored {
    if tensor.dtype() == DType::BF16 { Stored::Bf16 } else { Stored::F32 }
}

/// A tensor that a kernel reads.
pub(super) fn activations(tensor: &Tensor) -> Result<Activations<'_>, NodeError> {
    Ok(match stored(tensor) {
        Stored::F32 => Activations::F32(tensor.as_slice()?),
        Stored::Bf16 => Activations::Bf16(bytemuck::cast_slice(tensor.as_slice::<bf16>()?)),
    })
}

/// A tensor that a kernel writes.
pub(super) fn activations_mut(tensor: &mut Tensor) -> Result<ActivationsMut<'_>, NodeError> {
    Ok(match stored(tensor) {
        Stored::F32 => ActivationsMut::F32(tensor.as_mut_slice()?),
        Stored::Bf16 => ActivationsMut::Bf16(bytemuck::cast_slice_mut(tensor.as_mut_slice::<bf16>()?)),
    })
}
