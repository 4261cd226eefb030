//! The description of attention: sizes, strides and options, and the operands of a run.
//!
//! Each operand has a stride of batches, of heads and of rows, so that heads side by side within a position are read,
//! and written, in place.

use kiln_key::{F32Bits, Mutate};
use serde::{Deserialize, Serialize};

use super::description::sizes;
use super::elements::{Elements, Stored};

/// Strides in elements; 0 where an operand is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Strides {
    /// From batch to batch.
    pub batch: u64,
    /// From head to head.
    pub head: u64,
    /// From row to row: from position to position, or from feature to feature of keys that are stored by columns.
    pub row: u64,
}

/// How a run learns which keys its batches have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum KeyRange {
    /// From the shape: all batches have its keys.
    #[default]
    Shape,
    /// From each run: each batch has its own number of keys, at most the shape's.
    Cache,
    /// As `Cache`, and queries see only the last of their keys.
    Window,
}

/// How a cache holds its keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Held {
    /// As `f32`, read in place.
    #[default]
    F32,
    /// As codes of 8 bits with a sign, times a scale.
    Bytes,
    /// As codes of 4 bits, times a scale. A code is the number plus 8; the first of two is in the low half of a byte. A
    /// row starts with a byte.
    Nibbles,
    /// As `f16`, read in place by single queries and widened a block at a time for several.
    F16,
}

impl Held {
    /// Bytes of a row of `size` numbers.
    #[must_use]
    pub fn row_bytes(self, size: usize) -> usize {
        match self {
            Held::F32 => size.saturating_mul(4),
            Held::F16 => size.saturating_mul(2),
            Held::Bytes => size,
            Held::Nibbles => size.div_ceil(2),
        }
    }

    /// Whether its rows are codes, which have scales.
    #[must_use]
    pub fn is_quantized(self) -> bool {
        matches!(self, Held::Bytes | Held::Nibbles)
    }

    /// Bytes of an element that is read in place; `None` where elements are not read in place.
    pub(crate) fn element_bytes(self) -> Option<usize> {
        match self {
            Held::F32 => Some(4),
            Held::F16 => Some(2),
            Held::Bytes | Held::Nibbles => None,
        }
    }
}

/// Attention: softmax(scale Q K^T, adjusted) V, for each batch and head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct AttentionShape {
    /// Batches.
    pub batch: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of queries that share a head of keys and values.
    pub shared: u64,
    /// Queries of a head.
    pub queries: u64,
    /// Keys of a head.
    pub keys: u64,
    /// Features of a query and of a key.
    pub size: u64,
    /// Features of a value.
    pub value_size: u64,
    /// Strides of queries; the features of a query are contiguous.
    pub query: Strides,
    /// Strides of keys; `head` is the stride of heads of keys.
    pub key: Strides,
    /// Whether the keys of one feature are contiguous, instead of the features of one key.
    pub key_columns: bool,
    /// Strides of values; `head` is the stride of heads of values.
    pub value: Strides,
    /// Strides of results.
    pub output: Strides,
    /// Strides of the mask, which is added to scores; its rows are those of queries and have an element for each key.
    /// Over a cache they are 0, and each run gives its own.
    pub mask: Option<Strides>,
    /// Strides of the condition that keeps scores, with such rows.
    pub keep: Option<Strides>,
    /// Whether a nonzero condition drops a score instead.
    pub inverted: bool,
    /// The replacement for scores that are not kept.
    pub fill: F32Bits,
    /// Factor of the products.
    pub scale: F32Bits,
    /// Caps scores s to c tanh(s / c).
    pub cap: Option<F32Bits>,
    /// For causal attention, the keys before the first query's own: query i sees keys 0 to i + that number. `None`: all
    /// keys.
    pub causal: Option<u64>,
    /// How a run learns which keys its batches have. With a cache, the number in `causal` means nothing: the run gives
    /// it for each batch.
    pub range: KeyRange,
    /// How a cache holds keys and values.
    pub held: Held,
    /// Whether a query that sees no key gives zeros instead of NaN.
    pub blind_is_zero: bool,
    /// Element type of queries, keys and values.
    pub stored: Stored,
    /// Element type of results.
    pub written: Stored,
    /// Operand type of the products: `f32`, or [`Elements::Bf16Dot`] or [`Elements::Bf16Tiles`] where products of
    /// several queries may be products of pairs.
    pub elements: Elements,
}

/// The operands of attention.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a, A = &'a [f32]> {
    /// Queries.
    pub query: A,
    /// Keys.
    pub key: A,
    /// Values.
    pub value: A,
    /// Added to scores; present exactly where the shape has a mask.
    pub mask: Option<&'a [f32]>,
    /// Nonzero where a score is kept (or dropped, where the shape says so); present exactly where the shape has a
    /// condition.
    pub keep: Option<&'a [u8]>,
}

sizes!(Strides { batch: usize, head: usize, row: usize });

sizes!(AttentionShape {
    batch: usize,
    heads: usize,
    shared: usize,
    queries: usize,
    keys: usize,
    size: usize,
    value_size: usize,
    causal: Option<usize>,
});

impl AttentionShape {
    /// Heads of all batches.
    #[must_use]
    pub fn units(&self) -> usize {
        self.batch() * self.heads()
    }

    /// Whether the keys of batches are those of a cache.
    #[must_use]
    pub fn is_cached(&self) -> bool {
        self.range != KeyRange::Shape
    }

    /// The elements that each operand must have: query, key, value, output, mask, condition. `None` where a count
    /// overflows. For keys and values in a cache, the run gives the numbers.
    #[must_use]
    pub fn needs(&self) -> Option<[usize; 6]> {
        let shared = self.heads() / self.shared().max(1);
        let span = |heads: usize, steps: Strides, rows: usize, run: usize| -> Option<usize> {
            let dims = [(self.batch(), steps.batch()), (heads, steps.head()), (rows, steps.row())];
            if dims.iter().any(|&(size, _)| size == 0) || run == 0 {
                return Some(0);
            }
            let last = dims.iter().try_fold(0usize, |at, &(size, step)| at.checked_add((size - 1).checked_mul(step)?));
            last?.checked_add(run).filter(|&elements| elements <= isize::MAX as usize / 16)
        };
        let (key_rows, key_run) =
            if self.key_columns { (self.size(), self.keys()) } else { (self.keys(), self.size()) };
        let beside = |steps: Option<Strides>| match steps {
            Some(steps) => span(self.heads(), steps, self.queries(), self.keys()),
            None => Some(0),
        };
        let cached = |steps: Strides, rows: usize, run: usize| match self.is_cached() {
            true => Some(0),
            false => span(shared, steps, rows, run),
        };
        Some([
            span(self.heads(), self.query, self.queries(), self.size())?,
            cached(self.key, key_rows, key_run)?,
            cached(self.value, self.keys(), self.value_size())?,
            span(self.heads(), self.output, self.queries(), self.value_size())?,
            if self.is_cached() { 0 } else { beside(self.mask)? },
            beside(self.keep)?,
        ])
    }
}
