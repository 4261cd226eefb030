//! Attention over a cache of keys and values, in which the sequences of a batch have different lengths: the lengths,
//! the pages with the rows of each sequence, sinks and the rows of a bias are arguments of a run. A sink is where the
//! sum of a softmax starts.

use std::ops::Range;

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
    /// Where the rows of each batch are.
    pub pages: Pages<'a>,
    /// How many keys a query sees, its own among them, where the shape has a window.
    pub window: usize,
    /// Scores that enter the sum of a softmax without a key.
    pub sink: Option<Sink<'a>>,
    /// A bias of scores; present exactly where the shape has a mask.
    pub bias: Option<Bias<'a>>,
}

/// Where a cache has the rows of its batches: in pages, which have the same number of rows of every head.
#[derive(Clone, Copy, Debug)]
pub struct Pages<'a> {
    /// For each batch, the pages of its keys in their order; several batches may read the same page. Empty where each
    /// batch has one page, that of its own number.
    pub table: &'a [usize],
    /// Pages of a batch in the table.
    pub of_batch: usize,
    /// Keys of a page.
    pub keys: usize,
    /// From page to page.
    pub page: usize,
    /// From head to head.
    pub head: usize,
}

impl Pages<'_> {
    /// Keys that a batch has room for.
    fn room(&self) -> usize {
        if self.table.is_empty() { self.keys } else { self.keys.saturating_mul(self.of_batch) }
    }

    /// The row of a key of a batch's head; `None` where it is too large to count. The table has a page for the key.
    fn row(&self, batch: usize, head: usize, key: usize) -> Option<usize> {
        let (page, key) = match self.table {
            [] => (batch, key),
            table => (table[batch * self.of_batch + key / self.keys], key % self.keys),
        };
        page.checked_mul(self.page)?.checked_add(head.checked_mul(self.head)?)?.checked_add(key)
    }

    /// Parts of the first `keys` keys that follow each other.
    fn parts(&self, keys: usize) -> impl Iterator<Item = Range<usize>> {
        let step = if self.table.is_empty() { keys } else { self.keys };
        (0..keys).step_by(step.max(1)).map(move |start| start..keys.min(start + step))
    }
}

/// The rows of one batch and one head of keys.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) cache: &'a Cache<'a>,
    pub(super) batch: usize,
    pub(super) head: usize,
}

impl<'a> Line<'a> {
    /// The row of a key. `check_rows` has looked at the rows of all keys that the batch has.
    pub(super) fn row(&self, key: usize) -> usize {
        self.cache.pages.row(self.batch, self.head, key).unwrap_or(0)
    }

    /// Parts of the batch's keys whose rows follow each other.
    pub(super) fn parts(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let Line { cache, batch, .. } = *self;
        cache.pages.parts(cache.keys[batch])
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
    /// If the shape is for no cache or for one that is held in another way; if a batch has more keys than the shape or
    /// than its pages; if pages are no multiples of blocks; if the cache has no length for a batch or no scale for an
    /// element; or if an operand is shorter than the shape and the cache say.
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
            && self.suits(&cache.pages, cache.keys)
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

    /// Whether pages have room for these keys of the batches, and no block of keys is in two of them.
    fn suits(&self, pages: &Pages<'_>, keys: &[usize]) -> bool {
        let most = keys.iter().copied().max().unwrap_or(0);
        let is_whole = pages.table.is_empty() || most <= pages.keys || pages.keys.is_multiple_of(self.blocks.keys());
        let has_pages = pages.table.is_empty() || Some(pages.table.len()) == pages.of_batch.checked_mul(keys.len());
        is_whole && has_pages && most <= pages.room()
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
            let end = |batch: usize, last: usize| {
                let row = cache.pages.row(batch, heads.max(1) - 1, last)?;
                row.checked_mul(step)?.checked_add(run)
            };
            let ends = cache.keys.iter().enumerate().flat_map(|(batch, &keys)| {
                let lasts = cache.pages.parts(keys).map(|part| part.end - 1);
                lasts.map(move |last| end(batch, last).unwrap_or(usize::MAX))
            });
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
