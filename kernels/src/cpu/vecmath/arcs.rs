//! The inverses of sine, cosine and tangent.
//!
//! For z = t^2, asin t = t + t z P(z) up to t = 1/2. Above, asin t = pi/2 - 2 asin sqrt((1 - t) / 2), whose argument is
//! at most 1/2 again, and 1 - t is exact. The arc cosine is pi/2 - asin x up to 1/2 and 2 asin sqrt((1 - x) / 2) above,
//! which keeps its digits where it is near zero. Outside -1..=1 the root is NaN.
//!
//! atan t = t + t z A(z) up to t = 1. Above, it is pi/2 - atan(1 / t).
//!
//! The identities are those of the Cephes library (S. Moshier); the polynomials are fits of this project, as the
//! [parent](super) says. Signs are taken off first and put back.

use super::interleaved::Interleaved;
use super::{MAGNITUDE, SIGN, horner};
use crate::jit::asm::{Predicate, Src};
use crate::jit::{Mask, Vreg};

/// P for z in [0, 1/4]: relative error of the arc sine 4.9e-9, a twelfth of an ulp.
const P: [f32; 5] = [0.166_667_52, 0.074_953_094, 0.045_469_15, 0.024_184_778, 0.042_158_306];
/// A for z in [0, 1]: relative error of the arc tangent 2.6e-9.
const A: [f32; 9] = [
    -0.333_333,
    0.199_985_3,
    -0.142_640_16,
    0.109_508_805,
    -0.083_993_06,
    0.057_881_39,
    -0.031_096_986,
    0.010_868_685,
    -0.001_782_820_7,
];

/// pi/2 and pi are these and a little less.
const HALF_PI: f32 = std::f32::consts::FRAC_PI_2;
const HALF_PI_LO: f32 = -4.371_139e-8;
const PI: u32 = 0x4049_0fdb;
const PI_LO: u32 = 0xb3bb_bd2e;

/// Temporaries of all functions here.
pub(super) const TEMPS: usize = 4;

/// v = asin(v)
pub(super) fn asin(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (x, above, arc) = (temps[0], temps[2], temps[3]);
    let upper = arc_of_magnitude(asm, v, temps);
    // pi/2 - 2 arc
    asm.vload(above, HALF_PI_LO);
    asm.vfnma231(above, arc, 2.0);
    asm.vadd(above, above, HALF_PI);
    asm.select(v, upper, above, arc);
    asm.vand(x, x, SIGN);
    asm.vor(v, v, x);
}

/// v = acos(v)
pub(super) fn acos(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (x, other, arc) = (temps[0], temps[2], temps[3]);
    let upper = arc_of_magnitude(asm, v, temps);
    // All bits are set where x is negative.
    asm.visar(other, x, 31);
    asm.vand(x, x, SIGN);
    asm.vxor(arc, arc, x);
    // 2 arc, or pi less that where x is negative.
    asm.vadd(v, arc, arc);
    asm.vand(x, other, Src::Const(PI_LO));
    asm.vadd(v, v, x);
    asm.vand(other, other, Src::Const(PI));
    asm.vadd(v, v, other);
    // pi/2 - arc
    asm.vload(other, HALF_PI_LO);
    asm.vsub(other, other, arc);
    asm.vadd(other, other, HALF_PI);
    asm.select(v, upper, v, other);
}

/// v = atan(v)
pub(super) fn atan(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (sign, square, arc) = (temps[0], temps[2], temps[3]);
    asm.vand(sign, v, SIGN);
    asm.vand(v, v, MAGNITUDE);
    let upper = asm.mask(temps[1]);
    asm.compare(upper, Predicate::Greater, v, 1.0);
    // The smaller of v and 1 by the larger; NaN stays in the dividend.
    let one = asm.held(arc, 1.0);
    asm.vmax(square, v, one);
    asm.vmin(v, one, v);
    asm.vdiv(v, v, square);
    asm.vmul(square, v, v);
    horner(asm, arc, square, &A);
    asm.vmul(arc, arc, square);
    asm.vfma213(arc, v, v);
    // pi/2 - arc
    asm.vload(square, HALF_PI_LO);
    asm.vsub(square, square, arc);
    asm.vadd(square, square, HALF_PI);
    asm.select(v, upper, square, arc);
    asm.vor(v, v, sign);
}

/// Leaves v in `temps[0]` and the arc sine of |v|, or of sqrt((1 - |v|) / 2) where |v| is above 1/2, in `temps[3]`. The
/// mask of the latter is returned; on AVX2 it is in `temps[1]`. v and `temps[2]` are free.
fn arc_of_magnitude(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) -> Mask {
    let (x, square, arc) = (temps[0], temps[2], temps[3]);
    asm.vmov(x, v);
    asm.vand(v, v, MAGNITUDE);
    let upper = asm.mask(temps[1]);
    asm.compare(upper, Predicate::Greater, v, 0.5);
    asm.vload(square, 0.5);
    asm.vfnma231(square, v, 0.5);
    asm.vmul(arc, v, v);
    asm.select(square, upper, square, arc);
    asm.vsqrt(arc, square);
    asm.select(v, upper, arc, v);
    horner(asm, arc, square, &P);
    asm.vmul(arc, arc, square);
    asm.vfma213(arc, v, v);
    upper
}
