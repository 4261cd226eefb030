//! Sums, products and extremes of blocks of `f32`, of which most get one update.
//!
//! A block that gets one update is combined as it is: a sum or a product of two `f32`, computed in `f64` and rounded, is
//! that of `f32`. A block that gets several is kept in `f64` until all have been combined, so that it is rounded once.

use kiln_kernels::memory::{self, Pace};
use kiln_run::NodeError;

use super::Put;
use crate::generic::{Arithmetic, Binary};

/// What is known of a block: no update, one, several; from then on, one more than this and its place among the blocks
/// that are kept wide.
const NONE: u32 = 0;
const ONE: u32 = 1;
const SEVERAL: u32 = 2;

/// Fewer updates than this can be numbered.
pub(super) const MOST: usize = (u32::MAX - SEVERAL) as usize;

/// Combines updates with the blocks of `values` that they go to.
pub(super) fn combine(step: Binary, put: &Put, updates: &[f32], values: &mut [f32]) -> Result<(), NodeError> {
    let block = put.block.max(1);
    let mut state = memory::zeroed::<u32>(values.len() / block);
    let mut pace = Pace::default();
    for &place in &put.places {
        pace.step(1);
        state[place] = if state[place] == NONE { ONE } else { SEVERAL };
    }
    let mut update_wide = memory::zeroed::<f64>(block);
    let (mut wide, mut kept): (Vec<f64>, Vec<usize>) = (Vec::new(), Vec::new());
    for (&place, update) in put.places.iter().zip(updates.chunks_exact(block)) {
        pace.step(1 + block / 2);
        let now = &mut values[place * block..][..block];
        if state[place] == ONE {
            once(step, now, update)?;
            continue;
        }
        if state[place] == SEVERAL {
            memory::reserve(&mut wide, block);
            memory::reserve(&mut kept, 1);
            wide.extend(now.iter().map(|&value| f64::from(value)));
            kept.push(place);
            state[place] = SEVERAL + kept.len() as u32;
        }
        let slot = (state[place] - SEVERAL) as usize - 1;
        update_wide.iter_mut().zip(update).for_each(|(to, &value)| *to = f64::from(value));
        f64::long_binary(step, &mut wide[slot * block..][..block], &update_wide)?;
    }
    for (&place, wide) in kept.iter().zip(wide.chunks_exact(block)) {
        pace.step(1 + block / 2);
        let to = &mut values[place * block..][..block];
        to.iter_mut().zip(wide).for_each(|(to, &value)| *to = value as f32);
    }
    Ok(())
}

/// Combines a block with its only update.
fn once(step: Binary, values: &mut [f32], update: &[f32]) -> Result<(), NodeError> {
    fn each(values: &mut [f32], update: &[f32], combine: impl Fn(f32, f32) -> f32) {
        values.iter_mut().zip(update).for_each(|(value, &update)| *value = combine(*value, update));
    }
    match step {
        Binary::Add => each(values, update, |a, b| a + b),
        Binary::Mul => each(values, update, |a, b| a * b),
        // NaN wins on either side.
        Binary::Max => each(values, update, |a, b| if a.is_nan() || a > b && !b.is_nan() { a } else { b }),
        Binary::Min => each(values, update, |a, b| if a.is_nan() || a < b && !b.is_nan() { a } else { b }),
        other => return Err(crate::refused(format!("a scatter by {other:?}"))),
    }
    Ok(())
}
