//! Tensors of `f32` or `bf16` for kernels that read and write either type.
//!
//! The pass `bf16` gives nodes of such kernels the attribute [`STORED`]. They are then handed `bf16` without the
//! adapter that would convert it to `f32` ([`super::convert`]), read activations of either type, and write the type
//! that the attribute names; without it everything is `f32`.

use half::bf16;
use kiln_kernels::cpu::{Activations, ActivationsMut, Stored};
use kiln_model::NodeDesc;
use kiln_run::NodeError;
use kiln_tensor::{DType, Tensor};

use super::OpError;

/// The attribute: ONNX's number of the type that is written.
pub(super) const STORED: &str = "to";

/// The type that a fused node states for its output, if it states one.
pub(super) fn output(node: &NodeDesc) -> Result<Option<Stored>, OpError> {
    if node.domain == "kiln" && node.attrs.contains_key(STORED) { written(node).map(Some) } else { Ok(None) }
}

/// The type that a node's attribute names.
pub(super) fn written(node: &NodeDesc) -> Result<Stored, OpError> {
    match node.attributes().dtype(STORED) {
        Some(DType::F32) => Ok(Stored::F32),
        Some(DType::BF16) => Ok(Stored::Bf16),
        other => Err(OpError::invalid(node, format!("activations that are written as {other:?}"))),
    }
}

/// The type that a tensor is stored in. Any type but `bf16` counts as `f32` here, and is refused when elements are
/// read.
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
