//! Powers: a^b = exp(b ln a), with the signs and special cases of C's `powf`.
//!
//! An error of ln a grows by b ln a, up to 88, so the logarithm and the product are kept in two parts each. As in
//! [`log`](super::log), a = 2^e (1 + f). With s = f / (2 + f), ln(1 + f) = 2 s + 2/3 s^3 + s^5 (2/5 + 2/7 s^2 + ...).
//! The first two terms have two parts each; what follows is below a thousandth of 2 s, where one part is enough.

use super::exp::{EXP_HI, EXP_LO, LN2_HI, LN2_LO, Q};
use super::interleaved::{Copies, Interleaved};
use super::log::parts;
use super::{MAGNITUDE, SIGN, horner, mask};
use crate::jit::asm::{Predicate, Rounding, Src};
use crate::jit::{Asm, Mask, Vreg};

/// The third and later terms of ln((1 + s) / (1 - s)), divided by s^5, in powers of s^2: Taylor's series. The first
/// term left out is 2^-33 of the sum for |s| <= 0.172.
const SERIES: [f32; 4] = [2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0];

/// 2/3 in two parts.
const TWO_THIRDS: f32 = 2.0 / 3.0;
const TWO_THIRDS_LO: f32 = (2.0f64 / 3.0 - TWO_THIRDS as f64) as f32;

/// Above it in magnitude, b ln a gives zero or infinity, and has no second part.
const LARGE: f32 = 1000.0;

/// Temporary registers that [`pow`] destroys.
pub(super) const TEMPS: usize = 7;

/// dst = a^b. `dst` may be the register of `a` or `b`.
pub(super) fn pow(asm: &mut Asm, dst: Vreg, a: Vreg, b: Src, temps: &[Vreg]) {
    let &[y, minus_low, magnitude, x, n, v, scratch, ..] = temps else { unreachable!("seven temporaries") };
    let mask = mask(asm, scratch);
    logarithm(asm, a, [x, n, v, minus_low, magnitude, scratch, y], mask);
    asm.vload(y, b);
    // b ln a = v - minus_low, where v is the rounded product.
    asm.vmul(v, y, x);
    asm.vmov(minus_low, v);
    asm.vfnma231(minus_low, y, x);
    asm.vfnma231(minus_low, y, n);
    asm.vand(x, v, MAGNITUDE);
    asm.compare(mask, Predicate::Less, x, LARGE);
    asm.vzero(x);
    asm.select(minus_low, mask, minus_low, x);
    // NaN stays: for it, these instructions give their second operand.
    asm.vload(x, EXP_HI);
    asm.vmin(v, x, v);
    asm.vload(x, EXP_LO);
    asm.vmax(v, x, v);
    // 2^n exp(v), as in `exp`.
    asm.vmul(n, v, std::f32::consts::LOG2_E);
    asm.vround(n, n, Rounding::NearestEven);
    asm.vfnma231(v, n, LN2_HI);
    asm.vfnma231(v, n, LN2_LO);
    asm.vsub(v, v, minus_low);
    horner(&mut Interleaved::new(asm, Copies::ONE), x, v, &Q);
    asm.vfma213(x, v, 1.0);
    asm.vfma213(v, x, 1.0);
    asm.vscale(v, v, n, x, minus_low);
    // 1 and -1 to any power; infinite and unknown powers have not given it.
    asm.vload(x, 1.0);
    asm.compare(mask, Predicate::Equal, magnitude, 1.0);
    asm.select(v, mask, x, v);
    negative(asm, [v, a, y], [x, n, minus_low, magnitude], mask);
    // Anything to the power of 0.
    asm.vload(x, 1.0);
    asm.compare(mask, Predicate::Equal, y, 0.0);
    asm.select(dst, mask, x, v);
}

/// The logarithm of |a|: `high` + `low`, and |a| in `magnitude`.
fn logarithm(asm: &mut Asm, a: Vreg, [high, low, c, e, f, s, cube]: [Vreg; 7], mask: Mask) {
    // |a| = 2^e (1 + f). `s` may be the mask's register until it is written.
    asm.vand(f, a, MAGNITUDE);
    parts(&mut Interleaved::new(asm, Copies::ONE), f, [f, e, c], mask);
    // s = f / (2 + f), and f becomes what is missing of it: (f - s (2 + f)) / (2 + f). `low` is what the rounding of
    // 2 + f has lost.
    asm.vadd(high, f, 2.0);
    asm.vadd(low, high, -2.0);
    asm.vsub(low, f, low);
    asm.vload(c, 1.0);
    asm.vdiv(c, c, high);
    asm.vmul(s, f, c);
    asm.vfnma231(f, s, high);
    asm.vfnma231(f, s, low);
    asm.vmul(f, f, c);
    // What is missing of s grows the series by as much times 2 (1 + s^2 + ...).
    asm.vmul(c, s, s);
    asm.vfma213(f, c, f);
    // s^3 is `cube`, and `low` becomes what its rounding has added.
    asm.vmov(low, c);
    asm.vfnma231(low, s, s);
    asm.vmul(cube, c, s);
    asm.vmov(high, cube);
    asm.vfnma231(high, s, c);
    asm.vfma231(high, s, low);
    asm.vmov(low, high);
    // c = 2/3 s^3, rounded; `high` becomes what is missing of it, and the terms behind it.
    horner(&mut Interleaved::new(asm, Copies::ONE), high, c, &SERIES);
    asm.vmul(high, high, c);
    asm.vmul(high, high, cube);
    asm.vfma231(high, cube, TWO_THIRDS_LO);
    asm.vfnma231(high, low, TWO_THIRDS);
    asm.vmul(c, cube, TWO_THIRDS);
    asm.vmov(low, c);
    asm.vfnma231(low, cube, TWO_THIRDS);
    asm.vsub(high, high, low);
    // f collects all small parts.
    asm.vadd(f, f, f);
    asm.vadd(f, f, high);
    asm.vfma231(f, e, LN2_LO);
    // e LN2_HI + 2 s + c, the larger ones first. e LN2_HI is exact, and each sum's rounding goes to f.
    asm.vadd(s, s, s);
    asm.vmul(e, e, LN2_HI);
    asm.vadd(cube, e, s);
    asm.vsub(high, cube, e);
    asm.vsub(s, s, high);
    asm.vadd(f, f, s);
    asm.vadd(high, cube, c);
    asm.vsub(s, high, cube);
    asm.vsub(c, c, s);
    asm.vadd(f, f, c);
    asm.vadd(c, high, f);
    asm.vsub(high, c, high);
    asm.vsub(low, f, high);
    asm.vmov(high, c);
    // Infinity and NaN stay, zero gives -inf.
    asm.vand(f, a, MAGNITUDE);
    asm.compare(mask, Predicate::Less, f, f32::INFINITY);
    asm.select(high, mask, high, f);
    asm.vload(c, f32::NEG_INFINITY);
    asm.compare(mask, Predicate::Equal, f, 0.0);
    asm.select(high, mask, c, high);
}

/// What `v` = |a|^y becomes where a has a sign: odd powers keep it, and powers that are no whole numbers of finite
/// negative numbers are NaN.
fn negative(asm: &mut Asm, [v, a, y]: [Vreg; 3], [x, whole, half, zero]: [Vreg; 4], mask: Mask) {
    asm.vround(whole, y, Rounding::Down);
    asm.vmul(half, y, 0.5);
    asm.vround(x, half, Rounding::Down);
    asm.vzero(zero);
    asm.compare(mask, Predicate::NotEqual, half, x);
    asm.vand(x, a, SIGN);
    asm.select(x, mask, x, zero);
    asm.compare(mask, Predicate::Equal, y, whole);
    asm.select(x, mask, x, zero);
    asm.vor(v, v, x);
    asm.vload(x, f32::NAN);
    asm.select(x, mask, v, x);
    asm.compare(mask, Predicate::Less, a, 0.0);
    asm.select(x, mask, x, v);
    asm.compare(mask, Predicate::Greater, a, f32::NEG_INFINITY);
    asm.select(v, mask, x, v);
}
