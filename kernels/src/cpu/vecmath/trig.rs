//! Sine, cosine and tangent.
//!
//! v = n pi/2 + r with an integer n and |r| <= pi/4 and a little, by Cody and Waite: pi/2 is split into three parts of
//! 24 bits, and a fused product of n and the first part leaves no rounding. The sine of r is r + r^3 S(r^2) and its
//! cosine 1 - r^2/2 + r^4 C(r^2); n says which one is the result, and its sign.
//!
//! From 2^18 on n has too many bits for that. Such arguments are first brought into +-pi, by a product with the bits of
//! 1 / (2 pi) that matter for their exponent (Payne and Hanek): exponents are grouped by 16, and a table has 72 of
//! these bits for each group. The code of this part is skipped where no lane needs it.

use super::interleaved::Interleaved;
use super::{MAGNITUDE, SIGN, horner};
use crate::jit::asm::{Predicate, Rounding, Src};
use crate::jit::{Asm, Mask, Vreg};

/// S for |r| <= 0.81: relative error of the sine 4.7e-9, a twelfth of an ulp.
const S: [f32; 3] = [-0.166_666_52, 0.008_332_008_5, -0.000_194_943_98];
/// C for |r| <= 0.81: relative error of the cosine 1.6e-10.
const C: [f32; 3] = [0.041_666_64, -0.001_388_712_6, 2.441_122_2e-5];

/// pi/2 in three parts, all positive: n times a negative part would take the sign from -0.0.
const HALF_PI: [u32; 3] = [0x3fc9_0fda, 0x33a2_2168, 0x27c2_34c4];

/// 1.5 * 2^23: added to a small number, it leaves the nearest integer in the low bits.
const INTEGER: f32 = 12_582_912.0;

/// From here on arguments are reduced by tables.
const LARGE: f32 = 262_144.0;
/// The exponent field of [`LARGE`].
const LARGE_EXPONENT: u32 = 127 + 18;

/// For q from 0 to 6: 2^(16 q) / (2 pi) without multiples of 32, in three parts. Divided by 2^(16 q), an argument is a
/// multiple of 2^-5, so that multiples of 32 make whole turns.
const TURNS: [&[u32; 8]; 3] = [
    &[0x3e22_f983, 0xbfcf_9236, 0xc08d_8ddf, 0xc16f_ab58, 0x4127_f09d, 0x411d_5f48, 0xc138_2b2d, 0],
    &[0x31dc_9c88, 0xb2dd_f56b, 0xb42d_603e, 0xb376_2a0c, 0x34be_8faa, 0xb42c_b224, 0x34ee_06db, 0],
    &[0x24a9_4fe1, 0xa376_2a0c, 0x27ea_fa3f, 0x26fa_9a6f, 0xa832_23f2, 0x265b_6296, 0x2725_664f, 0],
];

/// Temporaries of all functions here.
pub(super) const TEMPS: usize = 5;

/// v = sin(v)
pub(super) fn sin(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    wave(asm, v, temps, 0);
}

/// v = cos(v), which is sin(v + pi/2).
pub(super) fn cos(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    wave(asm, v, temps, 1);
}

/// v = the sine of `quarters` quarters of a turn more.
fn wave(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg], quarters: u32) {
    let (n, sign, cosine, odd) = (temps[0], temps[1], temps[3], temps[4]);
    let sine = sine_and_cosine(asm, v, temps);
    if quarters != 0 {
        asm.viadd(n, n, Src::Const(quarters));
    }
    let swapped = is_odd(asm, n, odd);
    asm.select(v, swapped, cosine, sine);
    // Of four quarters, the last two are negative.
    asm.vishl(sign, n, 30);
    asm.vand(sign, sign, SIGN);
    asm.vxor(v, v, sign);
}

/// v = tan(v): a quarter further it is the negative reciprocal.
pub(super) fn tan(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let (n, divisor, cosine, odd) = (temps[0], temps[1], temps[3], temps[4]);
    let sine = sine_and_cosine(asm, v, temps);
    let swapped = is_odd(asm, n, odd);
    asm.select(divisor, swapped, sine, cosine);
    asm.select(v, swapped, cosine, sine);
    asm.vishl(n, n, 31);
    asm.vxor(v, v, n);
    asm.vdiv(v, v, divisor);
}

/// Leaves n in the low bits of `temps[0]`, the sine of r in the register that is returned, and its cosine in
/// `temps[3]`; `temps[1]` and the temporaries from the fifth on are free.
fn sine_and_cosine(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) -> Vreg {
    let (n, square, sine, cosine) = (temps[0], temps[1], temps[2], temps[3]);
    let large = is_large(asm, v, temps);
    let registers = [v, temps[0], temps[1], temps[2], temps[3], temps[4]];
    asm.where_any(large, registers, into_one_turn);
    asm.vload(n, INTEGER);
    asm.vfma231(n, v, std::f32::consts::FRAC_2_PI);
    // As a float, n is never -0.0, which would take the sign from a zero.
    asm.vadd(square, n, -INTEGER);
    for part in HALF_PI {
        asm.vfnma231(v, square, Src::Const(part));
    }
    asm.vmul(square, v, v);
    horner(asm, sine, square, &S);
    // The sum turns -0.0 into 0.0, so that -0.0 has the sine -0.0.
    asm.vfma213(sine, square, 0.0);
    asm.vfma213(sine, v, v);
    horner(asm, cosine, square, &C);
    asm.vfma213(cosine, square, -0.5);
    asm.vfma213(cosine, square, 1.0);
    sine
}

/// The mask of lanes whose argument needs tables; infinity is among them and NaN is not. `temps[0]` is destroyed, and
/// `temps[4]` holds the mask on AVX2.
fn is_large(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) -> Mask {
    let large = asm.mask(temps[4]);
    asm.vand(temps[0], v, MAGNITUDE);
    asm.compare(large, Predicate::GreaterEqual, temps[0], LARGE);
    large
}

/// The mask of lanes in which the integer n is odd.
fn is_odd(asm: &mut Interleaved<'_>, n: Vreg, temp: Vreg) -> Mask {
    let odd = asm.mask(temp);
    // -1.0 or 1.0, by the lowest bit.
    asm.vishl(temp, n, 31);
    asm.vor(temp, temp, 1.0);
    asm.compare(odd, Predicate::Less, temp, 0.0);
    odd
}

/// Brings large lanes of v into +-pi, with an absolute error of 6e-7; others stay as they are. Infinity becomes NaN.
fn into_one_turn(asm: &mut Asm, large: Mask, registers: [Vreg; 6]) {
    let [v, scaled, turns, high, low, temp] = registers;
    // The number q of the group of exponents.
    let group = |asm: &mut Asm, q: Vreg| {
        asm.vand(q, v, MAGNITUDE);
        asm.vishr(q, q, 23);
        asm.visub(q, q, Src::Const(LARGE_EXPONENT));
        asm.vishr(q, q, 4);
    };
    // The high part of v times a part of the table, and the part that its rounding has lost. `scaled` is v / 2^(16 q),
    // by its exponent: at least 2^18 and less than 2^34.
    let product = |asm: &mut Asm, table, high: Vreg, low: Vreg, temp: Vreg| {
        group(asm, scaled);
        asm.vload_table(low, table);
        asm.vlookup(low, scaled, low);
        asm.vishl(scaled, scaled, 27);
        asm.visub(scaled, v, scaled);
        asm.vmul(high, low, scaled);
        asm.vxor(temp, high, SIGN);
        asm.vfma213(low, scaled, temp);
    };
    // Drops whole turns.
    let fraction = |asm: &mut Asm, x: Vreg, temp: Vreg| {
        asm.vround(temp, x, Rounding::NearestEven);
        asm.vsub(x, x, temp);
    };
    product(asm, TURNS[0], turns, low, temp);
    fraction(asm, turns, temp);
    fraction(asm, low, temp);
    asm.vadd(turns, turns, low);
    product(asm, TURNS[1], high, low, temp);
    fraction(asm, high, temp);
    asm.vadd(turns, turns, high);
    group(asm, high);
    asm.vload_table(temp, TURNS[2]);
    asm.vlookup(temp, high, temp);
    asm.vfma213(temp, scaled, low);
    fraction(asm, turns, high);
    asm.vadd(turns, turns, temp);
    // Turns infinity into NaN.
    asm.vmul(temp, v, 0.0);
    asm.vadd(turns, turns, temp);
    asm.vmul(turns, turns, std::f32::consts::TAU);
    // On AVX2 the mask's register has had other values.
    asm.vand(high, v, MAGNITUDE);
    asm.compare(large, Predicate::GreaterEqual, high, LARGE);
    asm.select(v, large, turns, v);
}
