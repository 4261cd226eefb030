//! The natural logarithm, and softplus.
//!
//! x = 2^e m with m in [sqrt 1/2, sqrt 2), so log x = e ln 2 + log(1 + f), f = m - 1, which is exact, and
//! log(1 + f) = f + f^2 (f P(f) - 1/2).

use super::exp::{self, LN2_HI, LN2_LO};
use super::interleaved::Interleaved;
use super::{SIGN, horner};
use crate::jit::asm::{Predicate, Src};
use crate::jit::{Mask, Vreg};

/// P for f in [sqrt 1/2 - 1, sqrt 2 - 1]: relative error 5.9e-9, a tenth of an ulp.
const P: [f32; 8] = [
    0.333_333_3,
    -0.250_008_26,
    0.200_012_49,
    -0.166_231_87,
    0.142_012_12,
    -0.131_615_36,
    0.127_659_96,
    -0.076_360_025,
];

/// Bits of sqrt 1/2, rounded up: mantissas start there.
const ROOT_HALF: u32 = 0x3f35_04f3;
/// 1.0 minus sqrt 1/2 in bits: added to a float, it moves the exponent at sqrt 1/2 instead of at 1.
const TO_ROOT_HALF: u32 = 0x3f80_0000 - ROOT_HALF;

/// v = log(v): -inf for zero, NaN below zero.
pub(super) fn log(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (a, b, c, d) = (temps[0], temps[1], temps[2], temps[3]);
    let denormal = asm.mask(a);
    parts(asm, v, [a, b, c], denormal);
    log_of_parts(asm, c, a, b, d);
    // Infinity and NaN stay, zero gives -inf, negative numbers give NaN.
    let special = asm.mask(a);
    asm.compare(special, Predicate::Less, v, f32::INFINITY);
    asm.select(c, special, c, v);
    asm.compare(special, Predicate::Equal, v, 0.0);
    asm.vload(b, f32::NEG_INFINITY);
    asm.select(c, special, b, c);
    asm.compare(special, Predicate::Less, v, 0.0);
    asm.vload(b, f32::NAN);
    asm.select(v, special, b, c);
}

/// The parts of x = 2^e (1 + m) for a positive x. `m` may be the register of x, or the one of the mask; `temp` is
/// destroyed.
pub(super) fn parts(asm: &mut Interleaved<'_>, x: Vreg, [m, e, temp]: [Vreg; 3], denormal: Mask) {
    // Denormals are scaled by 2^23 into the normal range; `temp` corrects the exponent.
    asm.compare(denormal, Predicate::Less, x, f32::MIN_POSITIVE);
    asm.vmul(e, x, 8_388_608.0);
    asm.select(e, denormal, e, x);
    asm.mask_to_f32(temp, denormal);
    asm.vmul(temp, temp, -23.0);
    asm.viadd(m, e, Src::Const(TO_ROOT_HALF));
    asm.vishr(e, m, 23);
    asm.vcvt_f32(e, e);
    asm.vadd(e, e, -127.0);
    asm.vadd(e, e, temp);
    asm.vand(m, m, Src::Const(0x007f_ffff));
    asm.viadd(m, m, Src::Const(ROOT_HALF));
    asm.vadd(m, m, -1.0);
}

/// c = log(1 + m) + e ln 2, small parts first; `square` is overwritten.
fn log_of_parts(asm: &mut Interleaved<'_>, c: Vreg, m: Vreg, e: Vreg, square: Vreg) {
    horner(asm, c, m, &P);
    asm.vfma213(c, m, -0.5);
    asm.vmul(square, m, m);
    asm.vmul(c, c, square);
    asm.vfma231(c, e, LN2_LO);
    asm.vadd(c, c, m);
    asm.vfma231(c, e, LN2_HI);
}

/// v = log(1 + v) for v >= 0, up to 2^126; infinity and NaN stay. 1 + v = 2^e (1 + m) by the exponent of its rounded
/// sum, and m is computed from v, so that a small v keeps its digits.
pub(super) fn log1p(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (e, c, m, square) = (temps[0], temps[1], temps[2], temps[3]);
    asm.vadd(e, v, 1.0);
    asm.visub(e, e, Src::Const(ROOT_HALF));
    asm.visar(e, e, 23);
    // c = 2^-e, m = 2^-e v + (2^-e - 1)
    asm.vishl(c, e, 23);
    let one = asm.held(m, 1.0);
    asm.visub(c, one, c);
    asm.vadd(m, c, -1.0);
    asm.vfma231(m, c, v);
    asm.vcvt_f32(e, e);
    log_of_parts(asm, c, m, e, square);
    let finite = asm.mask(m);
    asm.compare(finite, Predicate::Less, v, f32::INFINITY);
    asm.select(v, finite, c, v);
}

/// log(1 + e^x) = max(x, 0) + log1p(e^-|x|)
pub(super) fn softplus(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let positive = temps[3];
    asm.vzero(positive);
    asm.vmax(positive, positive, v);
    asm.vor(v, v, SIGN);
    exp::exp(asm, v, temps);
    log1p_unit(asm, v, temps);
    asm.vadd(v, v, positive);
}

/// v = log(1 + v) for v in [0, 1]: above sqrt 2 - 1 it is ln 2 + log(1 + (v - 1) / 2), whose argument P covers too.
fn log1p_unit(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (a, b, c) = (temps[0], temps[1], temps[2]);
    let upper = asm.mask(a);
    asm.compare(upper, Predicate::Greater, v, std::f32::consts::SQRT_2 - 1.0);
    asm.vadd(b, v, -1.0);
    asm.vmul(b, b, 0.5);
    asm.select(v, upper, b, v);
    asm.mask_to_f32(c, upper);
    asm.vmul(c, c, std::f32::consts::LN_2);
    horner(asm, a, v, &P);
    asm.vfma213(a, v, -0.5);
    asm.vmul(b, v, v);
    asm.vfma213(a, b, v);
    asm.vadd(v, a, c);
}
