//! Functions of one or two vectors of `f32`, emitted into other kernels: chains, activations of products and
//! convolutions, softmax, attention.
//!
//! Every function works in place on one register and asks its caller for temporaries ([`temps`]); constants come from
//! the assembler's table, so no register is held between calls. On AVX-512 the mask register [`MASK`] is destroyed; on
//! AVX2 masks live in the temporaries.
//!
//! Bounds that the tests hold over all of `f32` (an ulp is that of the exact result):
//!
//! | function | bound |
//! |---|---|
//! | exp | 1 ulp down to denormals |
//! | log | 2 ulp |
//! | tanh, sigmoid, expm1 of Elu | 4 ulp |
//! | SiLU, Mish, tanh-GELU | 4 ulp plus 1e-36 absolute (the sigmoid is denormal there) |
//! | erf | 6e-7 absolute |
//! | sin, cos | 2 ulp below 2^18, 6e-7 absolute from there on |
//! | tan | 4 ulp below 2^18 |
//! | asin, acos, atan | 2 ulp |
//! | sinh, cosh, asinh, acosh, atanh | 3 ulp |
//! | GELU | 1e-6 absolute, 3 ulp above 5 |
//! | powers | 1.5 ulp |
//!
//! NaN stays NaN, and infinities give what the formulas of [`UnaryOp`] give. Polynomials and rationals are minimax fits
//! of this project: Lawson's iteratively reweighted least squares on a grid of 3000 points, coefficients rounded to
//! `f32` one after the other with the rest refitted; the error stated beside each is that of the rounded fit in exact
//! arithmetic.
//!
//! This file knows operations and registers, never loops or memory. Next: [`functions`] for the rows, [`exp`], [`log`],
//! [`erf`], [`trig`], [`arcs`], [`sinh`] and [`pow`] for the transcendental ones; `cpu/chain/emit.rs` for a caller.

mod arcs;
pub mod binary;
mod erf;
mod exp;
pub mod functions;
mod interleaved;
mod log;
mod pow;
mod sinh;
mod trig;

#[cfg(test)]
mod tests;

use crate::jit::asm::{Predicate, Src};
use crate::jit::{Asm, Mask, Vreg};

pub use crate::problem::functions::UnaryOp;
pub use binary::{binary_temps, emit_binary, emit_select, emits_binary};
pub use exp::EXP_NONPOSITIVE_TEMPS;
pub(crate) use interleaved::{Copies, Interleaved};

/// The mask number ([`Asm::mask`]) that emitted functions destroy on AVX-512: the last, k7.
pub const MASK: u8 = 6;

/// The sign bit of an `f32`.
pub(crate) const SIGN: Src = Src::Const(0x8000_0000);
/// All bits of an `f32` but the sign.
pub(crate) const MAGNITUDE: Src = Src::Const(0x7fff_ffff);

/// Whether [`emit_unary`] has code for that function; programs with others are interpreted.
#[must_use]
pub fn emits(op: UnaryOp) -> bool {
    op.is_emitted()
}

/// Temporary registers that [`emit_unary`] destroys for that function.
#[must_use]
pub fn temps(op: UnaryOp) -> usize {
    op.temps()
}

/// About how many instructions [`emit_unary`] makes, for cost models. A division counts as four.
#[must_use]
pub fn instructions(op: UnaryOp) -> u32 {
    op.instructions()
}

/// Emits `value = op(value)`. `temps` holds at least [`temps`]`(op)` registers other than `value`; they are destroyed,
/// as is mask number [`MASK`] on AVX-512. Nothing is emitted for a function without code ([`emits`]): callers refuse
/// such functions before.
pub fn emit_unary(asm: &mut Asm, op: UnaryOp, value: Vreg, temps: &[Vreg]) {
    emit_unary_interleaved(&mut Interleaved::new(asm, Copies::ONE), op, value, temps);
}

/// Emits [`emit_unary`] for vectors side by side; `value` and `temps` are the first copy's. On AVX-512 a mask for each
/// copy is destroyed: [`MASK`] and the masks below it.
pub(crate) fn emit_unary_interleaved(asm: &mut Interleaved<'_>, op: UnaryOp, value: Vreg, temps: &[Vreg]) {
    debug_assert!(emits(op) && temps.len() >= self::temps(op) && !temps.contains(&value), "{op:?} {temps:?}");
    op.emit(asm, value, temps);
}

/// The mask that functions of two vectors use: [`MASK`], or `vector` on AVX2.
fn mask(asm: &Asm, vector: Vreg) -> Mask {
    asm.mask(MASK, vector)
}

/// v = max(lo, min(hi, v)); NaN stays, because x86 gives the second operand for it.
fn clamp(asm: &mut Interleaved<'_>, v: Vreg, temp: Vreg, lo: f32, hi: f32) {
    let bound = asm.held(temp, hi);
    asm.vmin(v, bound, v);
    let bound = asm.held(temp, lo);
    asm.vmax(v, bound, v);
}

/// v = exp(v) for v <= 0 (softmax): results below the smallest normal number become zero, which costs less than the
/// whole range. NaN stays.
pub fn emit_exp_nonpositive(asm: &mut Asm, v: Vreg, temps: &[Vreg]) {
    exp::exp_nonpositive(&mut Interleaved::new(asm, Copies::ONE), v, temps);
}

/// [`emit_exp_nonpositive`] for vectors side by side.
pub(crate) fn emit_exp_nonpositive_interleaved(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    exp::exp_nonpositive(asm, v, temps);
}

/// v = 1 where the comparison holds, else 0.
fn flag(asm: &mut Interleaved<'_>, v: Vreg, temp: Vreg, predicate: Predicate, with: Src) {
    let mask = asm.mask(temp);
    asm.compare(mask, predicate, v, with);
    asm.mask_to_f32(v, mask);
}

fn sign(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let mask = asm.mask(temps[0]);
    let one = temps[1];
    asm.vand(one, v, SIGN);
    asm.vor(one, one, 1.0);
    asm.compare(mask, Predicate::Equal, v, 0.0);
    asm.select(one, mask, v, one);
    asm.compare(mask, Predicate::Unordered, v, v);
    asm.select(v, mask, v, one);
}

/// Horner's rule: p = c[0] + x (c[1] + x (c[2] + ...)).
fn horner(asm: &mut Interleaved<'_>, p: Vreg, x: Vreg, coefficients: &[f32]) {
    let mut rest = coefficients.iter().rev();
    if let Some(&highest) = rest.next() {
        asm.vload(p, highest);
    }
    for &c in rest {
        asm.vfma213(p, x, c);
    }
}
