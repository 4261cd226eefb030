//! Fused activations: which functions kernels apply to their results, where, and the instructions for it.
//!
//! A tile's accumulators fill the registers. An activation of a few instructions is applied to each accumulator, before
//! the store. A longer one would repeat its code for every accumulator and find too few registers for its constants: it
//! is applied to the stored tile, which is still in L1, by a loop over vectors.
//!
//! Passes over graphs call [`is_fusible`] before they fuse a function into a product or a convolution, and both call it
//! before they are built. The answer is the same at all levels, so that a fused function runs at each level.

use super::chain::UnaryOp;
use super::vecmath;
use crate::error::{KernelError, Result};
use crate::jit::{Asm, Vreg};

#[cfg(test)]
mod tests;

/// Where an activation is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To each accumulator before it is stored.
    Registers,
    /// To what was stored.
    Memory,
}

/// Where a kernel with `free` free registers applies `op`.
pub(crate) fn place(op: UnaryOp, free: usize) -> Place {
    let short = matches!(
        op,
        UnaryOp::Abs
            | UnaryOp::Neg
            | UnaryOp::Relu
            | UnaryOp::Clip { .. }
            | UnaryOp::LeakyRelu { .. }
            | UnaryOp::HardSigmoid { .. }
            | UnaryOp::HardSwish
    );
    if short && vecmath::temps(op) <= free { Place::Registers } else { Place::Memory }
}

/// Whether products and convolutions, of every strategy and at every level, can apply `op` to their results. A pass
/// fuses no other function.
#[must_use]
pub fn is_fusible(op: UnaryOp) -> bool {
    vecmath::emits(op)
}

/// Refuses an activation that is not [fusible](is_fusible).
pub(crate) fn check(family: &'static str, op: Option<UnaryOp>) -> Result<()> {
    match op.filter(|&op| !is_fusible(op)) {
        None => Ok(()),
        Some(op) => Err(KernelError::Unsupported { family, reason: format!("no code for the activation {op:?}") }),
    }
}

/// Applies `op` to a register.
pub(crate) fn emit(asm: &mut Asm, op: UnaryOp, value: Vreg, temps: &[Vreg]) {
    vecmath::emit_unary(asm, op, value, temps);
}
