//! Tensors of `f32` or `bf16` as kernels take them that read and write either.
//!
//! When a graph is rewritten, nodes of such kernels get the attribute [`STORED`]: they are then given `bf16` as it is, where an
//! adapter would otherwise convert it. They read activations of either type as they come and write what the attribute names;
//! without it everything is `f32`.

use half::bf16;
use kiln_kernels::cpu::{Activations, ActivationsMut, Stored};

use super::OpError;
use crate::graph::{NodeDesc, NodeError};
use crate::tensor::{DType, Tensor};

/// The attribute: ONNX's number of the type that is written.
pub(super) const STORED: &str = "to";

/// What a node of our own says that it writes, if it says so.
pub(super) fn output(node: &NodeDesc) -> Result<Option<Stored>, OpError> {
    if node.domain == "kiln" && node.attrs.contains_key(STORED) { written(node).map(Some) } else { Ok(None) }
}

/// What the attribute of a node names.
pub(super) fn written(node: &NodeDesc) -> Result<Stored, OpError> {
    match node.dtype(STORED) {
        Some(DType::F32) => Ok(Stored::F32),
        Some(DType::BF16) => Ok(Stored::Bf16),
        other => Err(OpError::invalid(node, format!("activations that are written as {other:?}"))),
    }
}

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
