//! Planes with a narrow side, of elements of 1 and 2 bytes: two to four rows are interleaved into one, or one row is
//! deinterleaved, as for the channels of images at the input and the output of a network.
//!
//! Plain loops of constant widths, which the compiler vectorises with shuffles where the level is AVX2.

use crate::Isa;
use crate::cpu::multiversion::multiversion;

/// Widths of a narrow side that have loops.
pub(super) const WIDTHS: std::ops::RangeInclusive<usize> = 2..=4;

#[inline(always)]
fn interleave<T: Copy, const WIDTH: usize>(rows: [&[T]; WIDTH], to: &mut [T]) {
    let length = to.len() / WIDTH;
    let rows = rows.map(|row| &row[..length]);
    for (at, to) in to.chunks_exact_mut(WIDTH).enumerate() {
        for (to, row) in to.iter_mut().zip(&rows) {
            *to = row[at];
        }
    }
}

#[inline(always)]
fn deinterleave<T: Copy, const WIDTH: usize>(from: &[T], rows: [&mut &mut [T]; WIDTH]) {
    let length = from.len() / WIDTH;
    let mut rows = rows.map(|row| &mut row[..length]);
    for (at, from) in from.chunks_exact(WIDTH).enumerate() {
        for (row, from) in rows.iter_mut().zip(from) {
            row[at] = *from;
        }
    }
}

/// Elements that have such loops.
pub(super) trait NarrowElement: Copy {
    /// Writes the elements of the rows interleaved. [`WIDTHS`] has the number of rows, and each row has all elements
    /// that `to` takes from it.
    fn interleave(isa: Isa, rows: &[&[Self]], to: &mut [Self]);

    /// Writes every n-th element of `from` to each of n rows.
    fn deinterleave(isa: Isa, from: &[Self], rows: &mut [&mut [Self]]);
}

macro_rules! narrow_element {
    ($interleave:ident, $deinterleave:ident, $element:ty) => {
        multiversion! {
            fn $interleave(rows: &[&[$element]], to: &mut [$element]) {
                match *rows {
                    [a, b] => interleave([a, b], to),
                    [a, b, c] => interleave([a, b, c], to),
                    [a, b, c, d] => interleave([a, b, c, d], to),
                    _ => {}
                }
            }
        }

        multiversion! {
            fn $deinterleave(from: &[$element], rows: &mut [&mut [$element]]) {
                match rows {
                    [a, b] => deinterleave(from, [a, b]),
                    [a, b, c] => deinterleave(from, [a, b, c]),
                    [a, b, c, d] => deinterleave(from, [a, b, c, d]),
                    _ => {}
                }
            }
        }

        impl NarrowElement for $element {
            fn interleave(isa: Isa, rows: &[&[Self]], to: &mut [Self]) {
                $interleave(isa, rows, to);
            }

            fn deinterleave(isa: Isa, from: &[Self], rows: &mut [&mut [Self]]) {
                $deinterleave(isa, from, rows);
            }
        }
    };
}

narrow_element!(interleave_bytes, deinterleave_bytes, u8);
narrow_element!(interleave_words, deinterleave_words, [u8; 2]);
