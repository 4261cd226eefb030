//! The exponential and the functions made from it: sigmoid, SiLU, tanh, Mish, the Elu family.
//!
//! x = n ln 2 + r with an integer n and |r| <= ln 2 / 2, so exp(x) = 2^n exp(r), and exp(r) = 1 + r + r^2 q(r). The
//! same q gives expm1(r) = r + r^2 q(r) without cancellation, which tanh and Elu need near zero. ln 2 is split in two:
//! the high part has 15 bits, so that n times it is exact.

use std::f32::consts::LOG2_E;

use super::interleaved::Interleaved;
use super::{MAGNITUDE, SIGN, clamp, horner};
use crate::jit::Vreg;
use crate::jit::asm::Rounding;

/// q of expm1(r) = r + r^2 q(r) for |r| <= ln 2 / 2: relative error 1.4e-8, a quarter of an ulp.
pub(super) const Q: [f32; 5] = [0.499_999_97, 0.166_665_46, 0.041_667_435, 0.008_366_262, 0.001_387_065_7];

/// ln 2 in two parts; 0x3f317200 has nine trailing zero bits.
pub(super) const LN2_HI: f32 = 0.693_145_75;
pub(super) const LN2_LO: f32 = 1.428_606_8e-6;

/// 1.5 * 2^23 + 127: adding it to |n| < 2^22 leaves n + 127, the exponent field of 2^n, in the low bits of the sum.
const EXPONENT_MAGIC: f32 = 12_582_912.0 + 127.0;

/// Below it exp is zero after rounding; the smallest denormal is exp(-103.28).
pub(super) const EXP_LO: f32 = -104.5;
/// Above 88.73 exp overflows; 89 makes n = 128 and the scaling gives infinity.
pub(super) const EXP_HI: f32 = 89.0;

/// v = exp(v).
pub(super) fn exp(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    exp_below(asm, v, temps, EXP_HI);
}

/// v = exp(min(v, hi)), down to denormals and zero.
fn exp_below(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg], hi: f32) {
    let (n, p, scratch) = (temps[0], temps[1], temps[2]);
    clamp(asm, v, n, EXP_LO, hi);
    asm.vmul(n, v, LOG2_E);
    asm.vround(n, n, Rounding::NearestEven);
    asm.vfnma231(v, n, LN2_HI);
    asm.vfnma231(v, n, LN2_LO);
    horner(asm, p, v, &Q);
    asm.vfma213(p, v, 1.0);
    // The last step lands in v, which leaves p free for the scaling.
    asm.vfma213(v, p, 1.0);
    asm.vscale(v, v, n, p, scratch);
}

/// Temporaries of [`super::emit_exp_nonpositive`].
pub const EXP_NONPOSITIVE_TEMPS: usize = 2;

/// v = exp(v) for v <= 0 (softmax): results below the smallest normal number become zero, which costs less than the
/// whole range. NaN stays.
pub(super) fn exp_nonpositive(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (n, p) = (temps[0], temps[1]);
    // n >= -127: the exponent field of 2^n is then zero or more, and a field of zero is 0.0, which flushes smaller
    // results.
    let least = asm.held(n, -88.0);
    asm.vmax(v, least, v);
    let scale = reduce(asm, v, n, p, 1.0, EXPONENT_MAGIC);
    // scale lives in p; the polynomial goes through n.
    horner(asm, n, v, &Q);
    asm.vfma213(n, v, 1.0);
    asm.vfma213(v, n, 1.0);
    asm.vmul(v, v, scale);
}

/// Splits v * factor into r (left in v) and 2^n, whose register is returned: `scale`. `n` is destroyed. `magic` is
/// [`EXPONENT_MAGIC`], with which n must lie in -127..=127, or less, for the scale of a lower power.
fn reduce(asm: &mut Interleaved<'_>, v: Vreg, n: Vreg, scale: Vreg, factor: f32, magic: f32) -> Vreg {
    asm.vload(n, magic);
    asm.vfma231(n, v, factor * LOG2_E);
    asm.vishl(scale, n, 23);
    asm.vadd(n, n, -magic);
    if factor != 1.0 {
        asm.vmul(v, v, factor);
    }
    asm.vfnma231(v, n, LN2_HI);
    asm.vfnma231(v, n, LN2_LO);
    scale
}

/// v = exp(v * factor) - 1 for v * factor in -87..=87, accurate near zero.
fn expm1(asm: &mut Interleaved<'_>, v: Vreg, p: Vreg, scale: Vreg, factor: f32) {
    reduce(asm, v, p, scale, factor, EXPONENT_MAGIC);
    horner(asm, p, v, &Q);
    asm.vmul(p, p, v);
    asm.vfma213(p, v, v);
    // s (p + 1) - 1 = s p + (s - 1), where s - 1 is exact or far below the rounding of s p.
    asm.vadd(v, scale, -1.0);
    asm.vfma231(v, scale, p);
}

/// For 0 <= v, made at most `hi` < 89.7: a quarter of exp(v) is scale (p + 1), where scale is a power of two and p is
/// accurate near zero. NaN stays in p; v is destroyed.
pub(super) fn quarter_of_exp(asm: &mut Interleaved<'_>, v: Vreg, p: Vreg, scale: Vreg, hi: f32) {
    let bound = asm.held(p, hi);
    asm.vmin(v, bound, v);
    reduce(asm, v, p, scale, 1.0, EXPONENT_MAGIC - 2.0);
    horner(asm, p, v, &Q);
    asm.vmul(p, p, v);
    asm.vfma213(p, v, v);
}

/// v = 1 / (1 + exp(-v)), as e / (1 + e): the relative error of e cancels where e is large, and e is accurate where
/// the result is small. 88 keeps e finite, where the quotient is 1.
pub(super) fn sigmoid(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    exp_below(asm, v, temps, 88.0);
    asm.vadd(temps[0], v, 1.0);
    asm.vdiv(v, v, temps[0]);
}

/// v = v * sigmoid(v)
pub(super) fn silu(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let x = temps[3];
    asm.vmov(x, v);
    sigmoid(asm, v, temps);
    asm.vmul(v, v, x);
}

/// 0.5 x (1 + tanh(u)) = x * sigmoid(2 u), with 2 u = x (C1 + C3 x^2).
pub(super) fn gelu_tanh(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    /// 2 sqrt(2 / pi)
    const C1: f32 = 1.595_769_2;
    /// 0.044715 C1
    const C3: f32 = 0.071_354_814;
    let x = temps[3];
    asm.vmov(x, v);
    asm.vmul(v, v, v);
    asm.vmul(v, v, C3);
    asm.vadd(v, v, C1);
    asm.vmul(v, v, x);
    sigmoid(asm, v, temps);
    asm.vmul(v, v, x);
}

/// x tanh(ln(1 + e^x)) = x m / (m + 2) with m = e (e + 2), e = e^x. From x = 20 on the quotient is 1; at 40 m is still
/// finite.
pub(super) fn mish(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let x = temps[3];
    asm.vmov(x, v);
    exp_below(asm, v, temps, 40.0);
    asm.vadd(temps[0], v, 2.0);
    asm.vmul(v, v, temps[0]);
    asm.vadd(temps[0], v, 2.0);
    asm.vdiv(v, v, temps[0]);
    asm.vmul(v, v, x);
}

/// tanh|x| = e / (e + 2) with e = expm1(2 |x|); the sign is put back. From 9.02 on the result rounds to 1.
pub(super) fn tanh(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (p, scale, sign) = (temps[0], temps[1], temps[2]);
    asm.vand(sign, v, SIGN);
    asm.vand(v, v, MAGNITUDE);
    let bound = asm.held(p, 9.02);
    asm.vmin(v, bound, v);
    expm1(asm, v, p, scale, 2.0);
    asm.vadd(p, v, 2.0);
    asm.vdiv(v, v, p);
    asm.vor(v, v, sign);
}

/// v = gamma (max(v, 0) + alpha expm1(inner min(v, 0))), which is Elu, Selu and Celu. expm1 is -1 from -18 on.
pub(super) fn elu(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg], inner: f32, alpha: f32, gamma: f32) {
    let (p, scale, positive) = (temps[0], temps[1], temps[2]);
    asm.vzero(p);
    asm.vmax(positive, p, v);
    asm.vmin(v, p, v);
    if inner != 1.0 {
        asm.vmul(v, v, inner);
    }
    let bound = asm.held(p, -18.0);
    asm.vmax(v, bound, v);
    expm1(asm, v, p, scale, 1.0);
    asm.vmul(v, v, alpha);
    asm.vadd(v, v, positive);
    if gamma != 1.0 {
        asm.vmul(v, v, gamma);
    }
}
