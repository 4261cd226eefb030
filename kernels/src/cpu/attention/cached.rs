//! Attention over a cache of keys and values, in which the sequences of a batch have different lengths: the lengths,
//! where each sequence and head has its rows, sinks and the rows of a bias are arguments of a run. A sink is where the
//! sum of a softmax starts.

use super::held::Cells;
use super::{Attention, FAMILY, Operands};
use crate::error::{KernelError, Result};
use crate::parallel::Parallel;
use crate::problem::attention::{AttentionShape, KeyRange, Strides};

/// A cache, and the part of it that the queries of a run see. Keys and values have the same layout; distances are in
/// rows.
#[derive(Clone, Copy, Debug)]
pub struct Cache<'a> {
    /// The rows of keys.
    pub key: Cells<'a>,
    /// The rows of values.
    pub value: Cells<'a>,
    /// The keys of each batch: at most the shape's.
    pub keys: &'a [usize],
    /// For causal attention, the keys before the first query's own key, in each batch. A query beyond the last key sees
    /// all keys.
    pub before: &'a [usize],
    /// For each batch, the batch of the cache that it reads; several may read the same. Empty where each reads its own.
    pub places: &'a [usize],
    /// From batch to batch.
    pub batch: usize,
    /// From head to head.
    pub head: usize,
    /// How many keys a query sees, its own among them, where the shape has a window.
    pub window: usize,
    /// Scores that enter the sum of a softmax without a key.
    pub sink: Option<Sink<'a>>,
    /// A bias of scores; present exactly where the shape has a mask.
    pub bias: Option<Bias<'a>>,
}

impl Cache<'_> {
    /// The rows before those of a batch's head; `None` where they are too many to count.
    pub(super) fn first_row(&self, batch: usize, head: usize) -> Option<usize> {
        let place = self.places.get(batch).copied().unwrap_or(batch);
        place.checked_mul(self.batch)?.checked_add(head.checked_mul(self.head)?)
    }
}

/// A score for each query that belongs to no key.
#[derive(Clone, Copy, Debug)]
pub struct Sink<'a> {
    /// The scores.
    pub scores: &'a [f32],
    /// From head to head.
    pub head: usize,
    /// From query to query.
    pub row: usize,
}

/// A bias that is added to scores.
#[derive(Clone, Copy, Debug)]
pub struct Bias<'a> {
    /// Rows, those of queries, with an element for each key.
    pub elements: &'a [f32],
    /// From batch to batch.
    pub batch: usize,
    /// From head to head.
    pub head: usize,
    /// From query to query.
    pub row: usize,
    /// The element of the first key, in each batch.
    pub first: &'a [usize],
}

impl Bias<'_> {
    /// Distances in elements.
    pub(super) fn strides(&self) -> Strides {
        let [batch, head, row] = [self.batch, self.head, self.row].map(|elements| elements as u64);
        Strides { batch, head, row }
    }
}

/// The keys that the queries of one batch see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The keys that there are.
    pub(super) keys: usize,
    /// For causal attention, the keys before the first query's own.
    pub(super) before: Option<usize>,
    /// The most keys that a query sees, its own among them.
    window: Option<usize>,
}

impl Seen {
    /// The keys of that batch.
    pub(super) fn of(shape: &AttentionShape, cache: Option<&Cache<'_>>, batch: usize) -> Seen {
        match cache {
            None => Seen { keys: shape.keys(), before: shape.causal(), window: None },
            Some(cache) => {
                let keys = cache.keys[batch];
                let before = shape.causal.map(|_| cache.before[batch]);
                Seen { keys, before, window: (shape.range == KeyRange::Window).then_some(cache.window) }
            }
        }
    }

    /// The end of the keys that a query sees.
    pub(super) fn end(&self, query: usize) -> usize {
        self.before.map_or(self.keys, |before| self.keys.min((query + 1).saturating_add(before)))
    }

    /// The first key that a query sees.
    pub(super) fn start(&self, query: usize) -> usize {
        self.window.map_or(0, |window| self.end(query).saturating_sub(window))
    }
}

impl Attention {
    /// Computes attention over a cache. A batch reads the rows of its own keys only.
    ///
    /// # Errors
    ///
    /// If the shape is for no cache or for one that is held in another way; if a batch has more keys than the shape; if
    /// the cache has no length for a batch or no scale for an element; or if an operand is shorter than the shape and
    /// the cache say.
    pub fn run_cached(
        &self,
        query: &[f32],
        cache: &Cache<'_>,
        output: &mut [f32],
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let (mask, nothing) = (cache.bias.map(|bias| bias.elements), &[][..]);
        // Keys and values are the cache's.
        let operands = Operands { query: query.into(), key: nothing.into(), value: nothing.into(), mask, keep: None };
        let output = output.into();
        self.check(&operands, &output, scratch)?;
        self.check_lengths(cache)?;
        self.check_rows(cache)?;
        self.check_beside(cache)?;
        self.run_as_stored(&operands, Some(cache), output, scratch, parallel)
    }

    /// Whether the cache is of the shape's kind, and has lengths and scales.
    fn check_lengths(&self, cache: &Cache<'_>) -> Result<()> {
        let shape = &self.shape;
        let heads = shape.heads() / shape.shared();
        let is_held = |cells: &Cells<'_>, size: usize| cells.held() == shape.held && cells.has_scales(heads, size);
        let fits = shape.is_cached()
            && is_held(&cache.key, shape.size())
            && is_held(&cache.value, shape.value_size())
            && cache.keys.len() == shape.batch()
            && cache.keys.iter().all(|keys| *keys <= shape.keys())
            && (cache.places.is_empty() || cache.places.len() == shape.batch())
            && (shape.causal.is_none() || cache.before.len() == shape.batch())
            && cache.bias.is_some() == shape.mask.is_some();
        match fits {
            true => Ok(()),
            false => {
                let held = [cache.key.held(), cache.value.held()];
                let reason = format!("{:?} of {:?} over {held:?} with keys {:?}", shape.range, shape.held, cache.keys);
                Err(KernelError::Unsupported { family: FAMILY, reason })
            }
        }
    }

    /// Whether the rows of all batches are there.
    fn check_rows(&self, cache: &Cache<'_>) -> Result<()> {
        let shape = &self.shape;
        let heads = shape.heads() / shape.shared();
        let operands = [
            ("keys", shape.key.row(), shape.size(), &cache.key),
            ("values", shape.value.row(), shape.value_size(), &cache.value),
        ];
        for (operand, row, size, cells) in operands {
            // Rows of all other types are dense.
            let (step, run) = match cells {
                Cells::F32(_) => (row.saturating_mul(4), size.saturating_mul(4)),
                _ => (cells.held().row_bytes(size), cells.held().row_bytes(size)),
            };
            let end = |(batch, &keys): (usize, &usize)| {
                let first = cache.first_row(batch, heads.max(1) - 1)?;
                match keys {
                    0 => Some(0),
                    keys => first.checked_add(keys - 1)?.checked_mul(step)?.checked_add(run),
                }
            };
            let ends = cache.keys.iter().enumerate().map(|batch| end(batch).unwrap_or(usize::MAX));
            let (have, need) = (cells.bytes(), if heads == 0 { 0 } else { ends.max().unwrap_or(0) });
            if have < need {
                return Err(KernelError::Bounds { family: FAMILY, operand, have, need });
            }
        }
        Ok(())
    }

    /// Whether the scores of sinks and the rows of the bias are there.
    fn check_beside(&self, cache: &Cache<'_>) -> Result<()> {
        let shape = &self.shape;
        let last = |head: usize, row: usize| {
            let head = shape.heads().saturating_sub(1).checked_mul(head)?;
            head.checked_add(shape.queries().saturating_sub(1).checked_mul(row)?)
        };
        let mut sizes = Vec::new();
        if let Some(Sink { scores, head, row }) = cache.sink {
            sizes.push(("sink", scores.len(), last(head, row).and_then(|last| last.checked_add(1))));
        }
        if let Some(Bias { elements, batch, head, row, first }) = cache.bias {
            sizes.push(("first elements of the mask", first.len(), Some(shape.batch())));
            for (at, (first, keys)) in first.iter().zip(cache.keys).enumerate() {
                let last = last(head, row).zip(at.checked_mul(batch)).and_then(|(last, at)| last.checked_add(at));
                let ends = last.and_then(|last| last.checked_add(*first)?.checked_add(*keys));
                sizes.push(("mask", elements.len(), ends));
            }
        }
        let is_empty = shape.units() == 0 || shape.queries() == 0;
        let needs = sizes.into_iter().map(|(operand, have, need)| (operand, have, need.unwrap_or(usize::MAX)));
        match needs.filter(|_| !is_empty).find(|&(_, have, need)| have < need) {
            None => Ok(()),
            Some((operand, have, need)) => Err(KernelError::Bounds { family: FAMILY, operand, have, need }),
        }
    }
}

#[cfg(test)]
mod tests;
