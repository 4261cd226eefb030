//! Fused activations: where a kernel applies one to its results, and the instructions for it.
//!
//! A tile's accumulators fill the registers. Activations of a few instructions are applied right there, before the
//! store. Longer ones would repeat their code for every accumulator and find too few registers for their constants:
//! they are applied to the stored tile, which is still in the nearest cache, by a loop over vectors.

use super::chain::UnaryOp;
use super::vecmath;
use crate::error::{KernelError, Result};
use crate::jit::{Asm, Vreg};

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

/// Refuses an activation that there is no code for.
pub(crate) fn check(family: &'static str, op: Option<UnaryOp>) -> Result<()> {
    match op.filter(|&op| !vecmath::emits(op)) {
        None => Ok(()),
        Some(op) => Err(KernelError::Unsupported { family, reason: format!("no code for the activation {op:?}") }),
    }
}

/// Applies `op` to a register.
pub(crate) fn emit(asm: &mut Asm, op: UnaryOp, value: Vreg, temps: &[Vreg]) {
    vecmath::emit_unary(asm, op, value, temps);
}
