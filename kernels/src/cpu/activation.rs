//! Fused activations: which functions kernels apply to their results, where, and the instructions for it.
//!
//! A tile's accumulators fill the registers. Activations of a few instructions are applied right there, before the
//! store. Longer ones would repeat their code for every accumulator and find too few registers for their constants:
//! they are applied to the stored tile, which is still in L1, by a loop over vectors.
//!
//! [`is_fusible`] is what passes over graphs ask before they fuse a function into a product or a convolution, and what
//! both ask before they are built: at one level as at all others, so that what is fused runs wherever a session does.

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

/// Where `op` is best applied by a kernel with that many free registers.
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

/// Whether products and convolutions, of every strategy and at every level, apply that function to their results. Of
/// those that they refuse nothing is to be fused.
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
