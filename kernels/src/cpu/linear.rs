//! Rows of `f32` from stored bytes and back: the operations of dequantising and quantising, on elements that share a
//! scale and a zero point, or have one each.
//!
//! Plain loops that the compiler vectorises; an element's result does not depend on the others. Where two slices differ
//! in length, the rest of the longer one is left.

use super::multiversion::multiversion;
use super::rounding::nearest_even;

multiversion! {
    /// Bytes as numbers.
    pub fn widen(from: &[u8], signed: bool, to: &mut [f32]) {
        if signed {
            to.iter_mut().zip(from).for_each(|(to, &byte)| *to = f32::from(byte as i8));
        } else {
            to.iter_mut().zip(from).for_each(|(to, &byte)| *to = f32::from(byte));
        }
    }
}

multiversion! {
    /// Numbers less one number for all.
    pub fn subtract(values: &mut [f32], by: f32) {
        values.iter_mut().for_each(|value| *value -= by);
    }
}

multiversion! {
    /// Numbers less one number each.
    pub fn subtract_each(values: &mut [f32], by: &[f32]) {
        values.iter_mut().zip(by).for_each(|(value, by)| *value -= by);
    }
}

multiversion! {
    /// Numbers times one number for all.
    pub fn multiply(values: &mut [f32], by: f32) {
        values.iter_mut().for_each(|value| *value *= by);
    }
}

multiversion! {
    /// Numbers times one number each.
    pub fn multiply_each(values: &mut [f32], by: &[f32]) {
        values.iter_mut().zip(by).for_each(|(value, by)| *value *= by);
    }
}

/// The numbers of a quantised type, at most 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The least.
    pub least: i32,
    /// The greatest.
    pub greatest: i32,
}

impl Bounds {
    #[inline(always)]
    fn quantized(self, value: f32, scale: f32, zero: i32) -> i32 {
        // Quotients that are further from zero are beyond the bounds with any zero point.
        const FAR: f32 = (1 << 18) as f32;
        let quotient = value / scale;
        let near = if quotient > -FAR { quotient } else { -FAR };
        let near = if near < FAR { near } else { FAR };
        let near = if quotient.is_nan() { 0.0 } else { near };
        nearest_even(near).wrapping_add(zero).clamp(self.least, self.greatest)
    }
}

multiversion! {
    /// Numbers divided by one scale, rounded to even, plus a zero point, within bounds. NaN becomes the zero point.
    pub fn quantize(from: &[f32], scale: f32, zero: i32, bounds: Bounds, to: &mut [i32]) {
        to.iter_mut().zip(from).for_each(|(to, &value)| *to = bounds.quantized(value, scale, zero));
    }
}

multiversion! {
    /// As [`quantize()`], with a scale and a zero point for each number.
    pub fn quantize_each(from: &[f32], scales: &[f32], zeros: &[i32], bounds: Bounds, to: &mut [i32]) {
        let factors = scales.iter().zip(zeros);
        for ((to, &value), (&scale, &zero)) in to.iter_mut().zip(from).zip(factors) {
            *to = bounds.quantized(value, scale, zero);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn every_level_gives_what_single_elements_give() {
        let bytes: Vec<u8> = (0..=255).chain(3..40).collect();
        let numbers: Vec<f32> = (0..333).map(|at| (at as f32 - 150.0) * 0.37).collect();
        let by: Vec<f32> = (0..333).map(|at| 0.1 + at as f32 * 0.011).collect();
        for isa in [Isa::Portable, Isa::Avx2] {
            for signed in [false, true] {
                let mut wide = vec![0.0; bytes.len()];
                widen(isa, &bytes, signed, &mut wide);
                let expected = |byte: u8| if signed { f32::from(byte as i8) } else { f32::from(byte) };
                assert!(wide.iter().zip(&bytes).all(|(&value, &byte)| value == expected(byte)));
            }
            type Each = fn(Isa, &mut [f32], &[f32]);
            type All = fn(Isa, &mut [f32], f32);
            let forms: [(All, Each, fn(f32, f32) -> f32); 2] =
                [(subtract, subtract_each, |a, b| a - b), (multiply, multiply_each, |a, b| a * b)];
            for (all, each, single) in forms {
                let (mut one, mut many) = (numbers.clone(), numbers.clone());
                all(isa, &mut one, 0.3);
                each(isa, &mut many, &by);
                for (at, &number) in numbers.iter().enumerate() {
                    assert_eq!([one[at], many[at]], [single(number, 0.3), single(number, by[at])]);
                }
            }
        }
    }

    #[test]
    fn quantising_gives_what_conversions_that_saturate_give() {
        let numbers: Vec<f32> = (0..1 << 12).map(|at| f32::from_bits((at * 0x0010_0007u32).rotate_left(3))).collect();
        for (least, greatest) in [(0, 255), (-128, 127), (0, 65_535), (-32_768, 32_767), (-8, 7)] {
            for (scale, zero) in [(1.0, 0), (0.37, least), (1e-30, greatest), (1e30, 3), (0.0, 1), (-2.0, least)] {
                let mut steps = vec![0; numbers.len()];
                quantize(Isa::detect(), &numbers, scale, zero, Bounds { least, greatest }, &mut steps);
                for (&number, &found) in numbers.iter().zip(&steps) {
                    let step = (number / scale).round_ties_even() as i32;
                    let expected = step.saturating_add(zero).clamp(least, greatest);
                    assert_eq!(found, expected, "{number} by {scale} from {zero}, {least} to {greatest}");
                }
            }
        }
    }

    #[test]
    fn quantising_rounds_to_even_and_saturates() {
        let from = [0.5f32, 1.5, -2.5, 1e9, f32::NEG_INFINITY, f32::NAN, 3e38, -0.0, 7.49];
        let bounds = Bounds { least: -128, greatest: 127 };
        for isa in [Isa::Portable, Isa::Avx2] {
            let (mut one, mut each) = ([0; 9], [0; 9]);
            quantize(isa, &from, 1.0, 3, bounds, &mut one);
            quantize_each(isa, &from, &[1.0; 9], &[3; 9], bounds, &mut each);
            assert_eq!(one, [3, 5, 1, 127, -128, 3, 127, 3, 10]);
            assert_eq!(each, one);
        }
    }
}
