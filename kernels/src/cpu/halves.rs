//! `f16` to `f32` and back, slice by slice: by F16C where the level has it.
//!
//! Widening is exact, narrowing rounds to the nearest, ties to even, denormals included. A NaN stays one. Where two
//! slices differ in length, the rest of the longer one is left.

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::isa::Isa;

/// Numbers of `f16` as `f32`.
pub fn widen(isa: Isa, from: &[f16], to: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if isa.min(Isa::detect()) >= Isa::Avx2 {
        // SAFETY: the processor has just been found to have F16C.
        return unsafe { f16c::widen(from.reinterpret_cast(), to) };
    }
    let _ = isa;
    to.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f32());
}

/// Numbers of `f32` rounded to `f16`.
pub fn narrow(isa: Isa, from: &[f32], to: &mut [f16]) {
    #[cfg(target_arch = "x86_64")]
    if isa.min(Isa::detect()) >= Isa::Avx2 {
        // SAFETY: the processor has just been found to have F16C.
        return unsafe { f16c::narrow(from, to.reinterpret_cast_mut()) };
    }
    let _ = isa;
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = f16::from_f32(from));
}

#[cfg(target_arch = "x86_64")]
mod f16c {
    use std::arch::x86_64::{__m128i, __m256, _MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph};

    use bytemuck::cast;

    /// Elements of a vector.
    const LANES: usize = 8;

    #[inline]
    #[target_feature(enable = "avx,f16c")]
    fn wide(halves: [u16; LANES]) -> [f32; LANES] {
        cast::<__m256, _>(_mm256_cvtph_ps(cast(halves)))
    }

    #[inline]
    #[target_feature(enable = "avx,f16c")]
    fn narrowed(numbers: [f32; LANES]) -> [u16; LANES] {
        cast::<__m128i, _>(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(cast(numbers)))
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn widen(from: &[u16], to: &mut [f32]) {
        let count = from.len().min(to.len());
        let (from, to) = (from[..count].as_chunks::<LANES>(), to[..count].as_chunks_mut::<LANES>());
        for (to, from) in to.0.iter_mut().zip(from.0) {
            *to = wide(*from);
        }
        let mut last = [0; LANES];
        last[..from.1.len()].copy_from_slice(from.1);
        to.1.copy_from_slice(&wide(last)[..to.1.len()]);
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn narrow(from: &[f32], to: &mut [u16]) {
        let count = from.len().min(to.len());
        let (from, to) = (from[..count].as_chunks::<LANES>(), to[..count].as_chunks_mut::<LANES>());
        for (to, from) in to.0.iter_mut().zip(from.0) {
            *to = narrowed(*from);
        }
        let mut last = [0.0; LANES];
        last[..from.1.len()].copy_from_slice(from.1);
        to.1.copy_from_slice(&narrowed(last)[..to.1.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_is_widened_exactly_and_narrowed_to_itself_at_every_level() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        for isa in Isa::ALL {
            for from in [&all[..], &all[3..20], &all[..5], &[]] {
                let (mut wide, mut back) = (vec![0.0; from.len()], vec![f16::ZERO; from.len()]);
                widen(isa, from, &mut wide);
                narrow(isa, &wide, &mut back);
                for ((from, wide), back) in from.iter().zip(wide).zip(back) {
                    let same = wide.to_bits() == from.to_f32().to_bits() && back.to_bits() == from.to_bits();
                    assert!(same || from.is_nan() && wide.is_nan() && back.is_nan(), "{isa}: {from:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_rounded_to_even_and_beyond_the_largest_to_infinity() {
        // Numbers halfway between neighbours, a little more and a little less, denormals, and numbers that are too
        // large.
        let halfway = (0..=0x7BFFu16).map(|bits| {
            let [low, high] = [bits, bits + 1].map(|bits| f16::from_bits(bits).to_f64());
            if high.is_finite() { ((low + high) / 2.0) as f32 } else { 65520.0 }
        });
        let numbers: Vec<f32> = halfway
            .flat_map(|number| [number, f32::from_bits(number.to_bits() + 1), f32::from_bits(number.to_bits() - 1)])
            .flat_map(|number| [number, -number])
            .chain([65519.996, 65520.0, f32::MAX, f32::MIN_POSITIVE, 1e-40, 0.0, f32::INFINITY])
            .collect();
        let expected: Vec<u16> = numbers.iter().map(|&number| f16::from_f32(number).to_bits()).collect();
        for isa in Isa::ALL {
            let mut found = vec![f16::ZERO; numbers.len()];
            narrow(isa, &numbers, &mut found);
            assert!(found.iter().zip(&expected).all(|(found, &expected)| found.to_bits() == expected), "{isa}");
        }
    }
}
