//! Keys and values as a cache holds them: numbers, or codes times a scale, which a run widens a block at a time.

use std::ops::Range;

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::cpu::halves;
use crate::cpu::multiversion::multiversion;
use crate::isa::Isa;
use crate::problem::attention::Held;

/// The rows of keys or of values of a cache, dense where they are not `f32`.
#[derive(Clone, Copy, Debug)]
pub enum Cells<'a> {
    /// Numbers.
    F32(&'a [f32]),
    /// Codes of 8 bits with a sign.
    Bytes(&'a [i8], Scales<'a>),
    /// Codes of 4 bits: [`Held::Nibbles`].
    Nibbles(&'a [u8], Scales<'a>),
    /// Numbers of 16 bits.
    F16(&'a [f16]),
}

/// The scales of codes: one number for all, or one for each head and element of a row [heads, size].
#[derive(Clone, Copy, Debug)]
pub struct Scales<'a>(pub &'a [f32]);

impl<'a> Scales<'a> {
    /// The scales of a head with rows of `size` elements: one number, or `size` numbers.
    fn of_head(self, head: usize, size: usize) -> &'a [f32] {
        match self.0 {
            [_] => self.0,
            all => &all[head * size..][..size],
        }
    }
}

impl<'a> Cells<'a> {
    /// How they are held.
    #[must_use]
    pub fn held(&self) -> Held {
        match self {
            Cells::F32(_) => Held::F32,
            Cells::Bytes(..) => Held::Bytes,
            Cells::Nibbles(..) => Held::Nibbles,
            Cells::F16(_) => Held::F16,
        }
    }

    /// Bytes of all rows.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Cells::F32(numbers) => size_of_val(*numbers),
            Cells::Bytes(codes, _) => codes.len(),
            Cells::Nibbles(codes, _) => codes.len(),
            Cells::F16(numbers) => size_of_val(*numbers),
        }
    }

    /// The bytes of numbers that are read in place.
    pub(super) fn in_place(&self) -> &'a [u8] {
        match self {
            Cells::F32(numbers) => bytemuck::cast_slice(numbers),
            Cells::F16(numbers) => bytemuck::cast_slice(numbers.reinterpret_cast()),
            Cells::Bytes(..) | Cells::Nibbles(..) => &[],
        }
    }

    /// Whether there are scales for `heads` heads with rows of `size` elements.
    pub(super) fn has_scales(&self, heads: usize, size: usize) -> bool {
        match self {
            Cells::F32(_) | Cells::F16(_) => true,
            Cells::Bytes(_, Scales(scales)) | Cells::Nibbles(_, Scales(scales)) => {
                scales.len() == 1 || heads.checked_mul(size) == Some(scales.len())
            }
        }
    }

    /// Writes the numbers of these rows of a head to `to`, which has `size` elements for each.
    ///
    /// # Panics
    ///
    /// Where the rows or their scales are not there.
    pub fn widen(&self, isa: Isa, rows: Range<usize>, head: usize, size: usize, to: &mut [f32]) {
        let row = self.held().row_bytes(size);
        match *self {
            Cells::F32(numbers) => to.copy_from_slice(&numbers[rows.start * size..rows.end * size]),
            Cells::Bytes(codes, scales) => {
                bytes(isa, &codes[rows.start * row..rows.end * row], scales.of_head(head, size), to);
            }
            Cells::Nibbles(codes, scales) => {
                let codes = &codes[rows.start * row..rows.end * row];
                nibbles(isa, codes, scales.of_head(head, size), size.max(1), to);
            }
            Cells::F16(numbers) => halves::widen(isa, &numbers[rows.start * size..rows.end * size], to),
        }
    }
}

multiversion! {
    /// Turns codes into numbers: `scales` has one number, or one for each element of the row.
    fn bytes(codes: &[i8], scales: &[f32], to: &mut [f32]) {
        match *scales {
            [scale] => to.iter_mut().zip(codes).for_each(|(to, &code)| *to = f32::from(code) * scale),
            _ => {
                let size = scales.len().max(1);
                for (to, codes) in to.chunks_exact_mut(size).zip(codes.chunks_exact(size)) {
                    to.iter_mut().zip(codes).zip(scales).for_each(|((to, &code), scale)| *to = f32::from(code) * scale);
                }
            }
        }
    }
}

multiversion! {
    /// As [`bytes`], of rows of `size` codes, two in a byte.
    fn nibbles(codes: &[u8], scales: &[f32], size: usize, to: &mut [f32]) {
        let number = |code: u8| f32::from(code as i8 - 8);
        for (to, codes) in to.chunks_exact_mut(size).zip(codes.chunks_exact(size.div_ceil(2))) {
            match *scales {
                [scale] => {
                    for (to, &code) in to.chunks_mut(2).zip(codes) {
                        to[0] = number(code & 15) * scale;
                        if let [_, second] = to {
                            *second = number(code >> 4) * scale;
                        }
                    }
                }
                _ => {
                    for ((to, &code), scales) in to.chunks_mut(2).zip(codes).zip(scales.chunks(2)) {
                        to[0] = number(code & 15) * scales[0];
                        if let ([_, second], [_, scale]) = (to, scales) {
                            *second = number(code >> 4) * scale;
                        }
                    }
                }
            }
        }
    }
}

/// Writes the codes of a row to `to`, which has the bytes of one: multiples of the scale, rounded to the nearest, ties
/// to even, and clamped. As ONNX Runtime does, a row is multiplied by 1 / scale, and by 1 where the scale is 0. Numbers
/// of `f16` are rounded in the same way; those that are too large become infinities.
///
/// # Panics
///
/// Where `scales` has neither one number nor those of the head.
pub fn quantize(isa: Isa, held: Held, row: &[f32], scales: Scales<'_>, head: usize, to: &mut [u8]) {
    let of_head = || scales.of_head(head, row.len());
    match held {
        Held::F32 => to.chunks_exact_mut(4).zip(row).for_each(|(to, number)| to.copy_from_slice(&number.to_ne_bytes())),
        Held::Bytes => to_bytes(isa, row, of_head(), to),
        Held::Nibbles => to_nibbles(isa, row, of_head(), to),
        Held::F16 => to_halves(isa, row, to),
    }
}

/// A part of a row at a time, because the bytes of a row need not be aligned.
fn to_halves(isa: Isa, row: &[f32], to: &mut [u8]) {
    const PART: usize = 64;
    for (row, to) in row.chunks(PART).zip(to.chunks_mut(2 * PART)) {
        let mut rounded = [f16::ZERO; PART];
        halves::narrow(isa, row, &mut rounded);
        to.chunks_exact_mut(2).zip(rounded).for_each(|(to, number)| to.copy_from_slice(&number.to_ne_bytes()));
    }
}

#[inline(always)]
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 1.0 } else { 1.0 / scale }
}

multiversion! {
    fn to_bytes(row: &[f32], scales: &[f32], to: &mut [u8]) {
        let code = |number: f32, inverse: f32| (number * inverse).round_ties_even().clamp(-128.0, 127.0) as i8 as u8;
        match *scales {
            [scale] => {
                let inverse = inverse(scale);
                to.iter_mut().zip(row).for_each(|(to, &number)| *to = code(number, inverse));
            }
            _ => {
                let numbers = row.iter().zip(scales);
                to.iter_mut().zip(numbers).for_each(|(to, (&number, &scale))| *to = code(number, inverse(scale)));
            }
        }
    }
}

multiversion! {
    fn to_nibbles(row: &[f32], scales: &[f32], to: &mut [u8]) {
        let code = |number: f32, scale: f32| {
            let code = (number * inverse(scale)).round_ties_even().clamp(-8.0, 7.0) as i8;
            (code + 8) as u8
        };
        let scale = |at: usize| if let [scale] = *scales { scale } else { scales[at] };
        for (at, (to, pair)) in to.iter_mut().zip(row.chunks(2)).enumerate() {
            let second = pair.get(1).map_or(0, |&number| code(number, scale(2 * at + 1)));
            *to = code(pair[0], scale(2 * at)) | second << 4;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels() -> [Isa; 2] {
        [Isa::Portable, Isa::detect()]
    }

    #[test]
    fn rows_are_rounded_to_even_and_clamped() {
        let row = [0.5, 1.5, -0.5, -2.5, 127.4, 200.0, -128.6, f32::NEG_INFINITY, f32::NAN];
        for isa in levels() {
            let mut to = [0u8; 9];
            quantize(isa, Held::Bytes, &row, Scales(&[1.0]), 0, &mut to);
            assert_eq!(to.map(|byte| byte as i8), [0, 2, 0, -2, 127, 127, -128, -128, 0]);
            let mut to = [0u8; 5];
            quantize(isa, Held::Nibbles, &row, Scales(&[1.0]), 0, &mut to);
            // The codes plus 8 of 0, 2, 0, -2, 7, 7, -8, -8 and 0; the last byte has one code.
            assert_eq!(to, [0xa8, 0x68, 0xff, 0x00, 0x08]);
        }
    }

    #[test]
    fn numbers_of_16_bits_are_the_nearest_ones_and_come_back_as_they_are() {
        // 2,049 lies between 2,048 and 2,050, 65,520 between the largest number and the next one, were there one.
        let row = [1.0, -0.5, 2049.0, 2051.0, 65519.0, 65520.0, -1e9, 5.9604645e-8, 2.9802322e-8, f32::NAN];
        let expected = [1.0, -0.5, 2048.0, 2052.0, 65504.0, f32::INFINITY, f32::NEG_INFINITY, 5.9604645e-8, 0.0];
        let long: Vec<f32> = row.iter().copied().cycle().take(13 * row.len()).collect();
        for isa in levels() {
            let mut bytes = vec![0u8; Held::F16.row_bytes(long.len())];
            quantize(isa, Held::F16, &long, Scales(&[]), 0, &mut bytes);
            let halves: Vec<f16> = bytes.chunks_exact(2).map(|half| f16::from_ne_bytes([half[0], half[1]])).collect();
            let mut numbers = vec![7.0; long.len()];
            // Widened as one row, and as the second of two rows.
            Cells::F16(&halves).widen(isa, 0..1, 0, long.len(), &mut numbers);
            for row in numbers.chunks_exact(row.len()) {
                assert_eq!(row[..9], expected, "{isa}");
                assert!(row[9].is_nan(), "{isa}");
            }
            let mut second = [7.0; 9];
            Cells::F16(&halves[..]).widen(isa, 1..10, 0, 1, &mut second);
            assert_eq!(second[..8], expected[1..], "{isa}");
        }
    }

    #[test]
    fn a_scale_is_for_all_or_for_an_element_of_a_head() {
        let scales = [1.0, 2.0, 4.0, 0.5, 0.25, 0.0];
        for (isa, held) in levels().into_iter().flat_map(|isa| [(isa, Held::Bytes), (isa, Held::Nibbles)]) {
            for (head, row) in [(0, [3.0, -4.0, 8.0]), (1, [-1.5, 1.0, 5.0])] {
                let mut codes = vec![0u8; 2 * held.row_bytes(3)];
                let (first, second) = codes.split_at_mut(held.row_bytes(3));
                quantize(isa, held, &[0.0; 3], Scales(&scales), head, first);
                quantize(isa, held, &row, Scales(&scales), head, second);
                let signed: Vec<i8> = codes.iter().map(|&code| code as i8).collect();
                let cells = match held {
                    Held::Nibbles => Cells::Nibbles(&codes, Scales(&scales)),
                    _ => Cells::Bytes(&signed, Scales(&scales)),
                };
                let mut numbers = [1.0; 6];
                cells.widen(isa, 0..2, head, 3, &mut numbers);
                // Codes of a scale of 0 are the numbers themselves.
                let last = if head == 0 { row[2] } else { 0.0 };
                assert_eq!(numbers, [0.0, 0.0, 0.0, row[0], row[1], last], "{isa} {held:?}");
            }
        }
    }
}
