//! Attention over a cache of keys and values, in which the sequences of a batch have different lengths: the lengths, and
//! where each sequence and head has its rows, are arguments of a run.

use super::shape::{AttentionShape, KeyRange};
use super::{Attention, FAMILY, Operands};
use crate::error::{KernelError, Result};
use crate::parallel::Parallel;

/// Where a cache has its keys and values. Both have the same layout; distances are in elements.
#[derive(Clone, Copy, Debug)]
pub struct Cache<'a> {
    /// The keys of each batch, those of the queries among them: at most the shape's.
    pub keys: &'a [usize],
    /// From batch to batch.
    pub batch: usize,
    /// From head to head.
    pub head: usize,
    /// How many keys a query sees, its own among them, where the shape has a window.
    pub window: usize,
}

/// The keys that the queries of one batch see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The keys that there are.
    pub(super) keys: usize,
    /// For causal attention, the keys before the first query's own.
    pub(super) before: Option<usize>,
    /// How many a query sees at most, its own among them.
    window: Option<usize>,
}

impl Seen {
    /// The keys of that batch.
    pub(super) fn of(shape: &AttentionShape, cache: Option<&Cache<'_>>, batch: usize) -> Seen {
        match cache {
            None => Seen { keys: shape.keys(), before: shape.causal(), window: None },
            Some(cache) => {
                let keys = cache.keys[batch];
                let before = shape.causal.map(|_| keys - shape.queries());
                Seen { keys, before, window: (shape.range == KeyRange::Window).then_some(cache.window) }
            }
        }
    }

    /// The end of the keys that a query sees.
    pub(super) fn end(&self, query: usize) -> usize {
        self.before.map_or(self.keys, |before| self.keys.min(query + before + 1))
    }

    /// The first key that a query sees.
    pub(super) fn start(&self, query: usize) -> usize {
        self.window.map_or(0, |window| self.end(query).saturating_sub(window))
    }
}

impl Attention {
    /// Computes attention over a cache. `operands.key` and `operands.value` are the cache's, of which a batch reads the
    /// rows of its keys alone.
    ///
    /// # Errors
    ///
    /// Where the shape is for no cache, a batch has more keys than the shape or fewer than causal queries, or an operand
    /// is shorter than the shape and the cache say.
    pub fn run_cached(
        &self,
        operands: &Operands<'_>,
        cache: &Cache<'_>,
        output: &mut [f32],
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let Operands { query, key, value, mask, keep } = *operands;
        let operands = Operands { query: query.into(), key: key.into(), value: value.into(), mask, keep };
        let output = output.into();
        self.check(&operands, &output, scratch)?;
        self.check_cache(cache, [key.len(), value.len()])?;
        self.run_as_stored(&operands, Some(cache), output, scratch, parallel)
    }

    fn check_cache(&self, cache: &Cache<'_>, have: [usize; 2]) -> Result<()> {
        let shape = &self.shape;
        let least = if shape.causal.is_some() { shape.queries() } else { 0 };
        let fits = shape.is_cached()
            && cache.keys.len() == shape.batch()
            && cache.keys.iter().all(|keys| (least..=shape.keys()).contains(keys));
        if !fits {
            let reason = format!("{:?} over a cache with keys {:?}", shape.range, cache.keys);
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        let heads = shape.heads() / shape.shared();
        let operands = [
            ("keys", shape.key.row(), shape.size(), have[0]),
            ("values", shape.value.row(), shape.value_size(), have[1]),
        ];
        for (operand, row, run, have) in operands {
            let end = |(batch, &keys): (usize, &usize)| {
                let starts =
                    batch.checked_mul(cache.batch)?.checked_add((heads.max(1) - 1).checked_mul(cache.head)?)?;
                match keys {
                    0 => Some(0),
                    keys => starts.checked_add((keys - 1).checked_mul(row)?)?.checked_add(run),
                }
            };
            let ends = cache.keys.iter().enumerate().map(|batch| end(batch).unwrap_or(usize::MAX));
            let need = if heads == 0 { 0 } else { ends.max().unwrap_or(0) };
            if have < need {
                return Err(KernelError::Bounds { family: FAMILY, operand, have, need });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
