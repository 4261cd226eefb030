//! Functions of two vectors and the selection between two, emitted in three-operand form. Knows registers, never memory
//! layouts; the [parent](super) describes NaN and masks.

use super::{mask, pow};
use crate::cpu::chain::BinaryOp;
use crate::jit::asm::{Predicate, Src};
use crate::jit::{Asm, Vreg};

/// Whether [`emit_binary`] has code for that function.
#[must_use]
pub fn emits_binary(op: BinaryOp) -> bool {
    op != BinaryOp::Fmod
}

/// Temporary registers that [`emit_binary`] destroys.
#[must_use]
pub fn binary_temps(op: BinaryOp) -> usize {
    match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::And | BinaryOp::Or => 0,
        BinaryOp::Max | BinaryOp::Min | BinaryOp::PRelu => 2,
        BinaryOp::Equal
        | BinaryOp::Less
        | BinaryOp::LessOrEqual
        | BinaryOp::Greater
        | BinaryOp::GreaterOrEqual
        | BinaryOp::Xor => 1,
        BinaryOp::Pow => pow::TEMPS,
        // Never emitted.
        BinaryOp::Fmod => 0,
    }
}

/// Emits `dst = op(a, b)`; `dst` may be `a` or `b`'s register, `temps` are other registers. `b` may be a constant or
/// lie in memory. The mask rule of [`super::emit_unary`] holds.
pub fn emit_binary(asm: &mut Asm, op: BinaryOp, dst: Vreg, a: Vreg, b: Src, temps: &[Vreg]) {
    debug_assert!(emits_binary(op) && temps.len() >= binary_temps(op), "{op:?} {temps:?}");
    match op {
        BinaryOp::Add => asm.vadd(dst, a, b),
        BinaryOp::Sub => asm.vsub(dst, a, b),
        // Booleans are 0 and 1 here, so their product is "and", the larger "or".
        BinaryOp::Mul | BinaryOp::And => asm.vmul(dst, a, b),
        BinaryOp::Or => asm.vmax(dst, a, b),
        BinaryOp::Div => asm.vdiv(dst, a, b),
        BinaryOp::Max | BinaryOp::Min => extreme(asm, op, dst, a, b, temps),
        BinaryOp::PRelu => {
            let negative = mask(asm, temps[0]);
            asm.compare(negative, Predicate::Less, a, 0.0);
            asm.vmul(temps[1], a, b);
            asm.select(dst, negative, temps[1], a);
        }
        BinaryOp::Equal => flag(asm, Predicate::Equal, dst, a, b, temps),
        BinaryOp::Less => flag(asm, Predicate::Less, dst, a, b, temps),
        BinaryOp::LessOrEqual => flag(asm, Predicate::LessEqual, dst, a, b, temps),
        BinaryOp::Greater => flag(asm, Predicate::Greater, dst, a, b, temps),
        BinaryOp::GreaterOrEqual => flag(asm, Predicate::GreaterEqual, dst, a, b, temps),
        BinaryOp::Xor => flag(asm, Predicate::NotEqual, dst, a, b, temps),
        BinaryOp::Pow => pow::pow(asm, dst, a, b, temps),
        BinaryOp::Fmod => {}
    }
}

/// dst = on where condition is not zero, else off: the chain's `Select`. `temp` holds the mask on AVX2.
pub fn emit_select(asm: &mut Asm, dst: Vreg, condition: Vreg, on: Vreg, off: Vreg, temp: Vreg) {
    let mask = mask(asm, temp);
    asm.compare(mask, Predicate::NotEqual, condition, 0.0);
    asm.select(dst, mask, on, off);
}

/// Max or min in which NaN wins from either side. The instruction gives its second operand when one is NaN, so only a
/// NaN in `a` has to be put back; where `b` is a known number, exchanging the operands is enough.
fn extreme(asm: &mut Asm, op: BinaryOp, dst: Vreg, a: Vreg, b: Src, temps: &[Vreg]) {
    let pick = |asm: &mut Asm, dst, a, b: Src| match op {
        BinaryOp::Max => asm.vmax(dst, a, b),
        _ => asm.vmin(dst, a, b),
    };
    if let Src::Const(bits) = b
        && !f32::from_bits(bits).is_nan()
    {
        asm.vload(temps[1], b);
        pick(asm, dst, temps[1], Src::Reg(a));
        return;
    }
    let nan = mask(asm, temps[0]);
    pick(asm, temps[1], a, b);
    asm.compare(nan, Predicate::Unordered, a, a);
    asm.select(dst, nan, a, temps[1]);
}

fn flag(asm: &mut Asm, predicate: Predicate, dst: Vreg, a: Vreg, b: Src, temps: &[Vreg]) {
    let mask = mask(asm, temps[0]);
    asm.compare(mask, predicate, a, b);
    asm.mask_to_f32(dst, mask);
}
