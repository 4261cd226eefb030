//! The error function and GELU as rationals of the square.
//!
//! erf(x) = x P(x^2) / Q(x^2) up to a clamp, chosen so that the rounded quotient is exactly 1 at the clamp and never
//! more: then 1 + erf(x) is exactly 0 for very negative x, however large the factor before it. The coefficients have a
//! free common factor; of several dozen factors, the one with the smallest rounding errors was taken. GELU has its own
//! pair, with the 1/sqrt 2 and the 1/2 of its definition folded in.

use super::interleaved::Interleaved;
use super::{clamp, horner};
use crate::jit::Vreg;

/// Relative error of the fit 2.1e-8; of the whole function in `f32` 2.8e-7 absolute and 4.7 ulp.
const ERF_P: [f32; 6] = [0.828_653_45, 0.142_135_75, 0.038_996_726, 0.002_851_874_3, 0.000_208_978_47, 1.459_027_1e-6];
const ERF_Q: [f32; 6] = [0.734_375, 0.370_755_64, 0.084_710_6, 0.011_167_913, 0.000_870_663_27, 2.748_029_3e-5];
/// The first argument at which the quotient is 1.
const ERF_CLAMP: f32 = 3.705_5;

/// x P(x^2) / Q(x^2) = erf(x / sqrt 2) / 2; GELU made of it is within 7.5e-7 absolute.
const GELU_P: [f32; 6] = [0.236_871_97, 0.020_105_405, 0.002_774_936_8, 9.992_776e-5, 3.735_135_6e-6, 1.328_997_8e-8];
const GELU_Q: [f32; 6] = [0.593_75, 0.149_354_92, 0.017_004_976, 0.001_117_372_7, 4.344_499_8e-5, 7.019_529_6e-7];
/// The first argument at which the quotient is 1/2.
const GELU_CLAMP: f32 = 5.201_306_3;

/// v = erf(v)
pub(super) fn erf(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    odd_rational(asm, v, temps, &ERF_P, &ERF_Q, ERF_CLAMP);
}

/// v = v Phi(v) = v / 2 + v (erf(v / sqrt 2) / 2)
pub(super) fn gelu(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg]) {
    let x = temps[2];
    asm.vmov(x, v);
    odd_rational(asm, v, temps, &GELU_P, &GELU_Q, GELU_CLAMP);
    asm.vmul(temps[0], x, 0.5);
    asm.vfma213(v, x, temps[0]);
}

/// v = c P(c^2) / Q(c^2) with c = v clamped to both signs of `bound`.
fn odd_rational(asm: &mut Interleaved<'_>, v: Vreg, temps: &[Vreg], p: &[f32], q: &[f32], bound: f32) {
    let (square, polynomial) = (temps[0], temps[1]);
    clamp(asm, v, square, -bound, bound);
    asm.vmul(square, v, v);
    horner(asm, polynomial, square, p);
    asm.vmul(v, v, polynomial);
    horner(asm, polynomial, square, q);
    asm.vdiv(v, v, polynomial);
}
