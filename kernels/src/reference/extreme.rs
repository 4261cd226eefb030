//! The plain form of a search for the greatest or least elements of lines.

use crate::problem::extreme::Wanted;

/// Lines that are searched at once.
const LANES: usize = 16;

/// The places of the wanted elements in lines side by side. A line has `length` elements, at least one, and its
/// elements are `stride` apart.
pub fn find(wanted: Wanted, last: bool, input: &[f32], length: usize, stride: usize, found: &mut [i64]) {
    match (wanted, last) {
        (Wanted::Greatest, false) => replace(input, length, stride, found, |new, old| new > old),
        (Wanted::Greatest, true) => replace(input, length, stride, found, |new, old| new >= old),
        (Wanted::Least, false) => replace(input, length, stride, found, |new, old| new < old),
        (Wanted::Least, true) => replace(input, length, stride, found, |new, old| new <= old),
    }
}

fn replace(input: &[f32], length: usize, stride: usize, found: &mut [i64], replaces: impl Fn(f32, f32) -> bool) {
    for (block, found) in found.chunks_mut(LANES).enumerate() {
        let first = block * LANES;
        let mut best = [0.0; LANES];
        let best = &mut best[..found.len()];
        best.copy_from_slice(&input[first..first + found.len()]);
        found.fill(0);
        for place in 1..length {
            let row = &input[place * stride + first..][..found.len()];
            for ((&value, best), found) in row.iter().zip(&mut *best).zip(&mut *found) {
                if replaces(value, *best) {
                    (*best, *found) = (value, place as i64);
                }
            }
        }
    }
}
