//! Sums, products and extremes of blocks of `f32`.
//!
//! A block that gets one update is combined as it is: a sum or a product of two `f32`, computed in `f64` and rounded, is
//! that of `f32`. A block that gets several is kept in `f64` until all have been combined, so that it is rounded once.
//! Extremes are never rounded.

use kiln_kernels::memory::{self, Pace};
use kiln_run::NodeError;

use super::Put;
use crate::generic::Binary;

/// What is known of a block: no update, one, several; from then on, one more than this and its place among the blocks
/// that are kept wide.
const NONE: u32 = 0;
const ONE: u32 = 1;
const SEVERAL: u32 = 2;

/// Fewer updates than this can be numbered.
pub(super) const MOST: usize = (u32::MAX - SEVERAL) as usize;

/// Combines updates with the blocks of `values` that they go to.
pub(super) fn combine(step: Binary, put: &Put, updates: &[f32], values: &mut [f32]) -> Result<(), NodeError> {
    match step {
        Binary::Add => rounded_once(put, updates, values, |a, b| a + b, |a, b| a + b),
        Binary::Mul => rounded_once(put, updates, values, |a, b| a * b, |a, b| a * b),
        // NaN wins on either side.
        Binary::Max => each(put, updates, values, |a, b| if a.is_nan() || a > b && !b.is_nan() { a } else { b }),
        Binary::Min => each(put, updates, values, |a, b| if a.is_nan() || a < b && !b.is_nan() { a } else { b }),
        other => return Err(crate::refused(format!("a scatter by {other:?}"))),
    }
    Ok(())
}

/// Combines blocks in the order of their updates.
fn each(put: &Put, updates: &[f32], values: &mut [f32], combine: impl Fn(f32, f32) -> f32) {
    let (block, mut pace) = (put.block.max(1), Pace::default());
    for (&place, update) in put.places.iter().zip(updates.chunks_exact(block)) {
        pace.step(1 + block / 2);
        let now = &mut values[place * block..][..block];
        now.iter_mut().zip(update).for_each(|(value, &update)| *value = combine(*value, update));
    }
}

/// Combines blocks that get one update by `once`, and keeps those that get several wide.
fn rounded_once(
    put: &Put,
    updates: &[f32],
    values: &mut [f32],
    once: impl Fn(f32, f32) -> f32,
    wide: impl Fn(f64, f64) -> f64,
) {
    let (block, mut pace) = (put.block.max(1), Pace::default());
    let (mut state, mut several) = (memory::zeroed::<u32>(values.len() / block), 0);
    for &place in &put.places {
        pace.step(1);
        several += usize::from(state[place] == ONE);
        state[place] = if state[place] == NONE { ONE } else { SEVERAL };
    }
    let (mut sums, mut kept) = (memory::zeroed::<f64>(several * block), memory::with_capacity(several));
    for (&place, update) in put.places.iter().zip(updates.chunks_exact(block)) {
        pace.step(1 + block / 2);
        let now = &mut values[place * block..][..block];
        if state[place] == ONE {
            now.iter_mut().zip(update).for_each(|(value, &update)| *value = once(*value, update));
            continue;
        }
        if state[place] == SEVERAL {
            kept.push(place);
            state[place] = SEVERAL + kept.len() as u32;
            let first = now.iter().zip(update).map(|(&value, &update)| wide(f64::from(value), f64::from(update)));
            sums[(kept.len() - 1) * block..][..block].iter_mut().zip(first).for_each(|(sum, first)| *sum = first);
            continue;
        }
        let slot = (state[place] - SEVERAL) as usize - 1;
        let sums = &mut sums[slot * block..][..block];
        sums.iter_mut().zip(update).for_each(|(sum, &update)| *sum = wide(*sum, f64::from(update)));
    }
    for (&place, sums) in kept.iter().zip(sums.chunks_exact(block)) {
        pace.step(1 + block / 2);
        let to = &mut values[place * block..][..block];
        to.iter_mut().zip(sums).for_each(|(to, &sum)| *to = sum as f32);
    }
}
