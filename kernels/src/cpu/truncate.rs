//! Floats as integers, truncated as x86 processors do: in 32 or 64 signed bits, and the least integer of these for NaN
//! and for what is out of their range. Shorter integers are the low bits of 32.

use super::multiversion::multiversion;

/// The value where it is in the range of integers whose least one is `least`, which is a float too, and `least`
/// otherwise.
#[inline(always)]
fn in_range(value: f32, least: f32) -> f32 {
    // NaN is in no range.
    if (least..-least).contains(&value) { value } else { least }
}

/// Without a branch, and by the processor's own conversion, so that it is vectorised: the compiler takes Rust's
/// saturating one element by element.
#[inline(always)]
fn short(value: f32) -> i32 {
    // SAFETY: the value is from -2^31 to below 2^31, and no NaN.
    unsafe { in_range(value, i32::MIN as f32).to_int_unchecked() }
}

#[inline(always)]
fn long(value: f32) -> i64 {
    // SAFETY: the value is from -2^63 to below 2^63, and no NaN.
    unsafe { in_range(value, i64::MIN as f32).to_int_unchecked() }
}

multiversion! {
    /// Integers of 8 bits, signed or not.
    pub fn to_8_bits(from: &[f32], to: &mut [u8]) {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = short(from) as u8);
    }
}

multiversion! {
    /// Integers of 16 bits, signed or not.
    pub fn to_16_bits(from: &[f32], to: &mut [u16]) {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = short(from) as u16);
    }
}

multiversion! {
    /// Signed integers of 32 bits.
    pub fn to_i32(from: &[f32], to: &mut [i32]) {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = short(from));
    }
}

multiversion! {
    /// Signed integers of 64 bits.
    pub fn to_i64(from: &[f32], to: &mut [i64]) {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = long(from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn every_level_truncates_alike_and_gives_the_least_integer_out_of_range() {
        let numbers = [
            0.0,
            -0.9,
            1.9,
            -1.9,
            255.7,
            256.5,
            -129.0,
            65_536.5,
            2_147_483_500.0,
            2_147_483_648.0,
            -2_147_483_648.0,
            -3e9,
            9.3e18,
            -9.3e18,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
        ];
        let shorts = [
            0,
            0,
            1,
            -1,
            255,
            256,
            -129,
            65_536,
            2_147_483_520,
            i32::MIN,
            i32::MIN,
            i32::MIN,
            i32::MIN,
            i32::MIN,
            i32::MIN,
            i32::MIN,
            i32::MIN,
        ];
        let longs: Vec<i64> = numbers
            .iter()
            .map(|&number| if number.abs() < 9e18 { f64::from(number) as i64 } else { i64::MIN })
            .collect();
        // Long enough for whole vectors and a rest.
        let from: Vec<f32> = numbers.iter().copied().cycle().take(101).collect();
        for isa in Isa::ALL {
            let (mut bytes, mut pairs, mut fours, mut eights) = ([0; 101], [0; 101], [0; 101], [0; 101]);
            to_8_bits(isa, &from, &mut bytes);
            to_16_bits(isa, &from, &mut pairs);
            to_i32(isa, &from, &mut fours);
            to_i64(isa, &from, &mut eights);
            for at in 0..from.len() {
                let (short, long) = (shorts[at % shorts.len()], longs[at % longs.len()]);
                let found = (bytes[at], pairs[at], fours[at], eights[at]);
                assert_eq!(found, (short as u8, short as u16, short, long), "{isa}: {}", from[at]);
            }
        }
    }
}
