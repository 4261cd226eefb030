//! Convolutions whose activations are stored as `bf16`: which convolutions take it, and the type of each operand.

use kiln_kernels::cpu::Stored;
use kiln_kernels::cpu::conv::ConvStored;
use kiln_run::NodeError;
use kiln_tensor::Tensor;

use super::super::stored::stored;
use super::super::{optional, required};
use super::Conv;

impl Conv {
    /// Whether its kernels take `bf16` on one side at least: on tensors that are channels-last already, with weights
    /// that were packed at load.
    pub(super) fn takes_bf16(&self) -> bool {
        self.channels_last && self.weights.is_some()
    }

    /// The types that the activations of these inputs are stored in.
    pub(super) fn stored(&self, inputs: &[Option<&Tensor>]) -> Result<ConvStored, NodeError> {
        Ok(ConvStored {
            input: stored(required(inputs, 0)?),
            residual: optional(inputs, 3).map_or(Stored::F32, stored),
            output: self.output.unwrap_or_default(),
        })
    }
}
