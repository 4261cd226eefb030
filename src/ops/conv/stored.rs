//! Convolutions whose activations are stored as `bf16`: what the node says.
//!
//! A fused convolution with the attribute [`STORED`] reads inputs and residuals of `f32` or `bf16` as they come and writes what the
//! attribute names; without it everything is `f32`.

use kiln_kernels::cpu::conv::ConvStored;
use kiln_kernels::cpu::{Elements, Stored};

use super::super::stored::{STORED, stored};
use super::super::{OpError, optional, required};
use super::{Conv, KnownWeights};
use crate::graph::{NodeDesc, NodeError};
use crate::tensor::{DType, Tensor};

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

impl Conv {
    /// Whether its kernels take `bf16`: those of the matrix unit and depthwise ones do, on tensors that are not turned around first.
    pub(super) fn takes_halves(&self) -> bool {
        let takes = |known: &KnownWeights| known.elements == Elements::Bf16Tiles || known.depthwise;
        self.channels_last && self.weights.as_ref().is_some_and(takes)
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
