//! Planes with a narrow side, of elements of 1 and 2 bytes: two to four rows are interleaved into one, or one is
//! divided into such rows, as an image's channels are at both ends of a network.
//!
//! Plain loops of constant widths, which the compiler vectorises with shuffles where the level is AVX2.

use crate::Isa;
use crate::cpu::multiversion::multiversion;

/// Widths of a narrow side that have loops.
pub(super) const WIDTHS: std::ops::RangeInclusive<usize> = 2..=4;

#[inline(always)]
fn join<T: Copy, const WIDTH: usize>(rows: [&[T]; WIDTH], to: &mut [T]) {
    let length = to.len() / WIDTH;
    let rows = rows.map(|row| &row[..length]);
    for (at, to) in to.chunks_exact_mut(WIDTH).enumerate() {
        for (to, row) in to.iter_mut().zip(&rows) {
            *to = row[at];
        }
    }
}

#[inline(always)]
fn part<T: Copy, const WIDTH: usize>(from: &[T], rows: [&mut &mut [T]; WIDTH]) {
    let length = from.len() / WIDTH;
    let mut rows = rows.map(|row| &mut row[..length]);
    for (at, from) in from.chunks_exact(WIDTH).enumerate() {
        for (row, from) in rows.iter_mut().zip(from) {
            row[at] = *from;
        }
    }
}

/// Elements that have such loops.
pub(super) trait Zip: Copy {
    /// Writes the elements of the rows interleaved. There are as many rows as [`WIDTHS`] allows, each at least as long
    /// as `to` takes of it.
    fn join(isa: Isa, rows: &[&[Self]], to: &mut [Self]);

    /// Writes every n-th element of `from` to each of n rows.
    fn part(isa: Isa, from: &[Self], rows: &mut [&mut [Self]]);
}

macro_rules! zip {
    ($join:ident, $part:ident, $element:ty) => {
        multiversion! {
            fn $join(rows: &[&[$element]], to: &mut [$element]) {
                match *rows {
                    [a, b] => join([a, b], to),
                    [a, b, c] => join([a, b, c], to),
                    [a, b, c, d] => join([a, b, c, d], to),
                    _ => {}
                }
            }
        }

        multiversion! {
            fn $part(from: &[$element], rows: &mut [&mut [$element]]) {
                match rows {
                    [a, b] => part(from, [a, b]),
                    [a, b, c] => part(from, [a, b, c]),
                    [a, b, c, d] => part(from, [a, b, c, d]),
                    _ => {}
                }
            }
        }

        impl Zip for $element {
            fn join(isa: Isa, rows: &[&[Self]], to: &mut [Self]) {
                $join(isa, rows, to);
            }

            fn part(isa: Isa, from: &[Self], rows: &mut [&mut [Self]]) {
                $part(isa, from, rows);
            }
        }
    };
}

zip!(join_bytes, part_bytes, u8);
zip!(join_words, part_words, [u8; 2]);
