//! The nearest whole number of a small one, in loops that the compiler vectorises.
//!
//! The standard library's rounding is a call on processors with only SSE2, and its conversions saturate, for which there
//! are no vector instructions.

/// 3 * 2^22 has its last bit worth 1, so that adding it rounds, in the processor's own mode, and leaves the integer in
/// the low bits.
const ONES: f32 = 12_582_912.0;

/// The nearest integer, ties to even, of a number of at most 22 bits.
#[inline(always)]
pub(crate) fn nearest_even(value: f32) -> i32 {
    (value + ONES).to_bits() as i32 - ONES.to_bits() as i32
}

/// As [`nearest_even`], as a float.
#[inline(always)]
pub(crate) fn nearest_whole(value: f32) -> f32 {
    (value + ONES) - ONES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_to_the_even_neighbour() {
        for (value, expected) in [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (255.0, 255), (-383.0, -383)] {
            assert_eq!(nearest_even(value), expected, "{value}");
        }
        for step in -4096..4096 {
            let value = step as f32 / 16.0;
            assert_eq!(nearest_even(value), value.round_ties_even() as i32);
            assert_eq!(nearest_whole(value), value.round_ties_even());
        }
    }
}
