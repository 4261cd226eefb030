//! Hyperbolic sine and cosine, and the inverses of all three.
//!
//! With E = exp|x| - 1, sinh|x| = (E + E / (E + 1)) / 2, which keeps the digits of a small x. The code computes a
//! quarter of E, which is finite up to where the result overflows. cosh x = (exp|x| + exp(-|x|)) / 2 cancels nothing.
//!
//! The inverses are logarithms of 1 + f with an f that keeps the digits of small arguments:
//! - asinh|x|: f = |x| + x^2 / (1 + sqrt(1 + x^2));
//! - acosh(1 + y): f = y + sqrt(y^2 + 2 y);
//! - atanh|x|: half the logarithm, f = 2 |x| / (1 - |x|).
//!
//! The first two are log(2 |x|) where the square could overflow. These are the usual identities, as in fdlibm (Sun
//! Microsystems); the polynomials are those of [`exp`] and [`log`](super::log).

use super::interleaved::Interleaved;
use super::{MAGNITUDE, SIGN, exp, log};
use crate::jit::Vreg;
use crate::jit::asm::Predicate;

/// The results of both overflow from here on.
const OVERFLOW: f32 = 89.42;
/// Up to here sinh x rounds to x: x^2 / 6 is below a twelfth of an ulp.
const STRAIGHT: f32 = 0.000_244_140_63;
/// From here on asinh and acosh are log(2 x) to less than an ulp.
const LARGE: f32 = 33_554_432.0;

/// Temporaries of sinh and cosh.
pub(super) const TEMPS: usize = 4;
/// Temporaries of the inverses.
pub(super) const INVERSE_TEMPS: usize = 5;

/// v = sinh(v)
pub(super) fn sinh(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (p, scale, x) = (temps[0], temps[1], temps[2]);
    asm.vmov(x, v);
    asm.vand(v, v, MAGNITUDE);
    exp::quarter_of_exp(asm, v, p, scale, OVERFLOW);
    // v = E / 4: the scale less a quarter is exact or far below the rounding of the product.
    asm.vadd(v, scale, -0.25);
    asm.vfma231(v, scale, p);
    // E + 1 may be infinite; the quotient is then zero.
    asm.vadd(p, v, v);
    asm.vadd(p, p, p);
    asm.vadd(p, p, 1.0);
    asm.vdiv(p, v, p);
    asm.vadd(v, v, p);
    asm.vadd(v, v, v);
    // Denormals have lost bits.
    asm.vand(scale, x, SIGN);
    asm.vor(v, v, scale);
    asm.vand(scale, x, MAGNITUDE);
    let straight = asm.mask(temps[3]);
    asm.compare(straight, Predicate::Less, scale, STRAIGHT);
    asm.select(v, straight, x, v);
}

/// v = cosh(v)
pub(super) fn cosh(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (p, scale) = (temps[0], temps[1]);
    asm.vand(v, v, MAGNITUDE);
    exp::quarter_of_exp(asm, v, p, scale, OVERFLOW);
    // p = exp|v| / 4
    asm.vfma213(p, scale, scale);
    let sixteenth = asm.held(scale, 0.0625);
    asm.vdiv(v, sixteenth, p);
    asm.vadd(v, v, p);
    asm.vadd(v, v, v);
}

/// v = asinh(v)
pub(super) fn asinh(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (f, square, x) = (temps[0], temps[1], temps[4]);
    asm.vmov(x, v);
    asm.vand(v, v, MAGNITUDE);
    asm.vmul(square, v, v);
    asm.vadd(f, square, 1.0);
    asm.vsqrt(f, f);
    asm.vadd(f, f, 1.0);
    asm.vdiv(f, square, f);
    asm.vadd(f, f, v);
    log_of_twice(asm, v, temps);
    asm.vand(x, x, SIGN);
    asm.vor(v, v, x);
}

/// v = acosh(v): NaN below 1.
pub(super) fn acosh(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (f, root, x) = (temps[0], temps[1], temps[4]);
    let below = asm.mask(temps[2]);
    asm.compare(below, Predicate::Less, v, 1.0);
    asm.vload(root, f32::NAN);
    asm.select(v, below, root, v);
    asm.vmov(x, v);
    asm.vadd(f, v, -1.0);
    asm.vadd(root, f, f);
    asm.vfma231(root, f, f);
    asm.vsqrt(root, root);
    asm.vadd(f, f, root);
    log_of_twice(asm, v, temps);
}

/// v = log(1 + f) with f in `temps[0]`, or log(2 v) where v is large; `temps[4]` is v or -v and stays.
fn log_of_twice(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (f, quarter) = (temps[0], temps[1]);
    let large = asm.mask(temps[2]);
    asm.compare(large, Predicate::GreaterEqual, v, LARGE);
    asm.vmul(quarter, v, 0.25);
    asm.select(v, large, quarter, f);
    log::log1p(asm, v, &temps[..4]);
    // log(v / 4) and 3 ln 2: the logarithm takes no argument above 2^126.
    asm.vand(temps[0], temps[4], MAGNITUDE);
    let large = asm.mask(temps[1]);
    asm.compare(large, Predicate::GreaterEqual, temps[0], LARGE);
    asm.mask_to_f32(temps[0], large);
    asm.vfma231(v, temps[0], 3.0 * std::f32::consts::LN_2);
}

/// v = atanh(v): NaN outside -1..=1.
pub(super) fn atanh(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (divisor, nan, sign) = (temps[0], temps[1], temps[4]);
    asm.vand(sign, v, SIGN);
    asm.vand(v, v, MAGNITUDE);
    let outside = asm.mask(temps[2]);
    asm.compare(outside, Predicate::Greater, v, 1.0);
    asm.vload(nan, f32::NAN);
    asm.select(v, outside, nan, v);
    let one = asm.held(divisor, 1.0);
    asm.vsub(divisor, one, v);
    asm.vadd(v, v, v);
    asm.vdiv(v, v, divisor);
    log::log1p(asm, v, &temps[..4]);
    asm.vmul(v, v, 0.5);
    asm.vor(v, v, sign);
}
