//! Convolutions whose activations are stored as `bf16`: what the node says, and tensors as the kernels take them.
//!
//! A fused convolution with the attribute [`STORED`] reads inputs and residuals of `f32` or `bf16` as they come and writes what the
//! attribute names; without it everything is `f32`.

use half::bf16;
use kiln_kernels::cpu::conv::ConvStored;
use kiln_kernels::cpu::{Activations, ActivationsMut, Elements, Stored};

use super::super::{OpError, optional, required};
use super::Conv;
use crate::graph::{NodeDesc, NodeError};
use crate::tensor::{DType, Tensor};

/// The attribute: ONNX's number of the type that is written.
pub(super) const STORED: &str = "to";

/// What a node says that it writes, if it says so.
pub(super) fn output(node: &NodeDesc) -> Result<Option<Stored>, OpError> {
    if node.domain != "kiln" || !node.attrs.contains_key(STORED) {
        return Ok(None);
    }
    match node.dtype(STORED) {
        Some(DType::F32) => Ok(Some(Stored::F32)),
        Some(DType::BF16) => Ok(Some(Stored::Bf16)),
        other => Err(OpError::invalid(node, format!("a convolution that writes {other:?}"))),
    }
}

/// The type of tensors that are stored so.
pub(super) fn dtype(stored: Stored) -> DType {
    match stored {
        Stored::F32 => DType::F32,
        Stored::Bf16 => DType::BF16,
    }
}

fn stored(tensor: &Tensor) -> Stored {
    if tensor.dtype() == DType::BF16 { Stored::Bf16 } else { Stored::F32 }
}

/// A tensor as kernels read it.
pub(super) fn activations(tensor: &Tensor) -> Result<Activations<'_>, NodeError> {
    Ok(match stored(tensor) {
        Stored::F32 => Activations::F32(tensor.as_slice()?),
        Stored::Bf16 => Activations::Bf16(bytemuck::cast_slice(tensor.as_slice::<bf16>()?)),
    })
}

/// A tensor as kernels write it.
pub(super) fn activations_mut(tensor: &mut Tensor) -> Result<ActivationsMut<'_>, NodeError> {
    Ok(match stored(tensor) {
        Stored::F32 => ActivationsMut::F32(tensor.as_mut_slice()?),
        Stored::Bf16 => ActivationsMut::Bf16(bytemuck::cast_slice_mut(tensor.as_mut_slice::<bf16>()?)),
    })
}

impl Conv {
    /// Whether its kernels take `bf16`: those of the matrix unit do, on tensors that are not turned around first.
    pub(super) fn takes_halves(&self) -> bool {
        let known = self.weights.as_ref();
        self.channels_last && known.is_some_and(|known| known.elements == Elements::Bf16Tiles)
    }

    /// How the activations of these inputs lie.
    pub(super) fn stored(&self, inputs: &[Option<&Tensor>]) -> Result<ConvStored, NodeError> {
        Ok(ConvStored {
            input: stored(required(inputs, 0)?),
            residual: optional(inputs, 3).map_or(Stored::F32, stored),
            output: self.output.unwrap_or_default(),
        })
    }
}
