//! Floats of eight and four bits: decoding, and rounding to them.
//!
//! In a tensor each takes a byte. No arithmetic is done in these types: elements are widened to `f32` before it and
//! rounded to nearest, ties to even, after it. Only files pack two 4-bit floats into a byte.

use super::DType;

/// The fields of a small float, and its infinities and NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    exponent_bits: i32,
    fraction_bits: i32,
    bias: i32,
    special: Special,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    /// Infinities and NaN as in IEEE formats.
    Ieee,
    /// No infinity; all bits set is NaN.
    OneNan,
    /// No infinity and no negative zero, whose bits are NaN.
    NegativeZeroIsNan,
    /// Numbers only.
    None,
}

impl Format {
    const fn of(dtype: DType) -> Option<Format> {
        let (exponent_bits, fraction_bits, bias, special) = match dtype {
            DType::F8E4M3 => (4, 3, 7, Special::OneNan),
            DType::F8E4M3Fnuz => (4, 3, 8, Special::NegativeZeroIsNan),
            DType::F8E5M2 => (5, 2, 15, Special::Ieee),
            DType::F8E5M2Fnuz => (5, 2, 16, Special::NegativeZeroIsNan),
            DType::F4E2M1 => (2, 1, 1, Special::None),
            _ => return None,
        };
        Some(Format { exponent_bits, fraction_bits, bias, special })
    }

    const fn sign(self) -> u8 {
        1 << (self.exponent_bits + self.fraction_bits)
    }

    /// The bits of the greatest number, without a sign.
    const fn greatest(self) -> u8 {
        let all = self.sign() - 1;
        match self.special {
            Special::OneNan => all - 1,
            Special::Ieee => all - (1 << self.fraction_bits),
            Special::NegativeZeroIsNan | Special::None => all,
        }
    }

    const fn nan(self) -> u8 {
        match self.special {
            Special::NegativeZeroIsNan => self.sign(),
            Special::Ieee | Special::OneNan => self.sign() - 1,
            // The format has no NaN; negative zero is the least misleading value.
            Special::None => self.sign(),
        }
    }

    fn decode(self, bits: u8) -> f32 {
        let sign = if bits & self.sign() == 0 { 1.0 } else { -1.0 };
        let size = bits & (self.sign() - 1);
        match self.special {
            Special::NegativeZeroIsNan if bits == self.sign() => return f32::NAN,
            Special::Ieee if size == self.greatest() + 1 => return sign * f32::INFINITY,
            _ if size > self.greatest() => return f32::NAN,
            _ => {}
        }
        let exponent = i32::from(size >> self.fraction_bits);
        let fraction = f32::from(size & ((1 << self.fraction_bits) - 1)) * power_of_two(-self.fraction_bits);
        sign * match exponent {
            0 => fraction * power_of_two(1 - self.bias),
            _ => (1.0 + fraction) * power_of_two(exponent - self.bias),
        }
    }

    fn encode(self, value: f32, saturate: bool) -> u8 {
        if value.is_nan() {
            return self.nan();
        }
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        // Two bits beyond the exponent's range are enough: all larger values overflow.
        let size = f64::from(value.abs()).min(f64::from(power_of_two(self.bias + 3)) * 4.0);
        let least = 1 - self.bias;
        let exponent = if size == 0.0 { least } else { (((size.to_bits() >> 52) as i32) - 1023).max(least) };
        // In units of the last place; rounding up may carry into the exponent.
        let units = (size / 2f64.powi(exponent - self.fraction_bits)).round_ties_even() as i32;
        let rounded = ((exponent - least) << self.fraction_bits) + units;
        if rounded > i32::from(self.greatest()) || value.is_infinite() {
            return match self.special {
                _ if saturate => sign | self.greatest(),
                Special::None => sign | self.greatest(),
                Special::Ieee => sign | (self.greatest() + 1),
                Special::OneNan => sign | self.nan(),
                Special::NegativeZeroIsNan => self.nan(),
            };
        }
        match (rounded, self.special) {
            (0, Special::NegativeZeroIsNan) => 0,
            _ => sign | rounded as u8,
        }
    }
}

fn power_of_two(exponent: i32) -> f32 {
    2f32.powi(exponent)
}

/// How a value between two powers of two is rounded to one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum PowerRounding {
    Up,
    Down,
    Nearest,
}

/// The value of a byte of that type; NaN for a type that is no small float.
#[must_use]
pub fn decode(dtype: DType, bits: u8) -> f32 {
    match (Format::of(dtype), dtype) {
        (Some(format), _) => format.decode(bits),
        (None, DType::F8E8M0) if bits < 255 => 2f64.powi(i32::from(bits) - 127) as f32,
        _ => f32::NAN,
    }
}

/// The byte nearest to a value. A value that is too large becomes the largest finite one with `saturate`, else
/// infinity, or NaN if the format has no infinity.
#[must_use]
pub fn encode(dtype: DType, value: f32, saturate: bool) -> u8 {
    match Format::of(dtype) {
        Some(format) => format.encode(value, saturate),
        None => encode_power(value, saturate, PowerRounding::Up),
    }
}

/// The power of two for a value, in the format that has only an exponent. Its sign is lost, and NaN is 255.
#[must_use]
pub fn encode_power(value: f32, saturate: bool, rounding: PowerRounding) -> u8 {
    let size = f64::from(value.abs());
    let greatest: u8 = if saturate { 254 } else { 255 };
    if value.is_nan() {
        return 255;
    }
    if value.is_infinite() {
        return greatest;
    }
    if size == 0.0 {
        return 0;
    }
    // `f64` holds every `f32` with a normal exponent.
    let bits = size.to_bits();
    let (exponent, fraction) = (((bits >> 52) as i32) - 1023, bits & ((1 << 52) - 1));
    let up = match rounding {
        PowerRounding::Up => fraction != 0,
        PowerRounding::Down => false,
        PowerRounding::Nearest => fraction >= 1 << 51,
    };
    (exponent + i32::from(up) + 127).clamp(0, i32::from(greatest)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMATS: [DType; 5] = [DType::F8E4M3, DType::F8E4M3Fnuz, DType::F8E5M2, DType::F8E5M2Fnuz, DType::F4E2M1];

    #[test]
    fn every_number_survives_and_values_between_go_to_the_nearer_even_on_ties() {
        for dtype in FORMATS {
            let count = if dtype == DType::F4E2M1 { 16 } else { 256 };
            let numbers: Vec<(u8, f32)> = (0..count as u16).map(|b| (b as u8, decode(dtype, b as u8))).collect();
            for &(bits, value) in &numbers {
                if !value.is_nan() && !value.is_infinite() {
                    assert_eq!(encode(dtype, value, true), bits, "{dtype} {bits:#x} {value}");
                }
            }
            for pair in numbers[..count / 2].windows(2) {
                let [(low, a), (high, b)] = [pair[0], pair[1]];
                if a.is_finite() && b.is_finite() {
                    let even = if low % 2 == 0 { low } else { high };
                    assert_eq!(encode(dtype, (a + b) / 2.0, true), even, "{dtype} between {a} and {b}");
                    assert_eq!(encode(dtype, a + (b - a) * 0.49, true), low);
                    assert_eq!(encode(dtype, a + (b - a) * 0.51, true), high);
                }
            }
        }
    }

    #[test]
    fn greatest_numbers_are_those_of_the_formats() {
        for (dtype, greatest) in FORMATS.into_iter().zip([448.0, 240.0, 57344.0, 57344.0, 6.0]) {
            for large in [greatest, 1e10, f32::INFINITY] {
                assert_eq!(decode(dtype, encode(dtype, large, true)), greatest, "{dtype}");
                assert_eq!(decode(dtype, encode(dtype, -large, true)), -greatest, "{dtype}");
            }
        }
        assert!(decode(DType::F8E4M3, encode(DType::F8E4M3, 1e9, false)).is_nan());
        assert_eq!(decode(DType::F8E5M2, encode(DType::F8E5M2, -1e9, false)), f32::NEG_INFINITY);
        assert_eq!(encode(DType::F8E4M3Fnuz, -0.0, true), 0);
        assert_eq!(encode(DType::F8E4M3, -0.0, true), 0x80);
    }

    #[test]
    fn powers_of_two_round_as_they_are_told() {
        let exponents = |value| {
            [PowerRounding::Up, PowerRounding::Down, PowerRounding::Nearest].map(|mode| encode_power(value, true, mode))
        };
        assert_eq!(exponents(1.0), [127, 127, 127]);
        assert_eq!(exponents(1.4), [128, 127, 127]);
        assert_eq!(exponents(1.5), [128, 127, 128]);
        assert_eq!(exponents(f32::MAX), [254, 254, 254]);
        assert_eq!(exponents(f32::NAN), [255, 255, 255]);
        assert_eq!(decode(DType::F8E8M0, 130), 8.0);
        assert_eq!(decode(DType::F8E8M0, 0), 2f32.powi(-127));
    }
}
