//! Attention executors: the key is the sizes, where each operand lies, and what is done to scores; the choice is how the
//! work is cut. The computing is done by [`kiln_kernels::cpu::attention`], and the graph is not known here.

use kiln_kernels::cpu::attention::{Attention, AttentionBlocks, AttentionShape, Steps};
use kiln_kernels::cpu::{Elements, Stored};
use kiln_kernels::{Isa, Result as KernelResult};
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::family::Family;
use crate::cache::{F32Bits, Key, Mutate};
use crate::record::Recorded;

/// Distances of an operand's batches, heads and rows in elements; 0 repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Lying {
    /// From batch to batch.
    pub batch: u64,
    /// From head to head.
    pub head: u64,
    /// From row to row.
    pub row: u64,
}

impl Lying {
    fn steps(self) -> Steps {
        Steps { batch: self.batch as usize, head: self.head as usize, row: self.row as usize }
    }
}

/// Everything that determines an attention executor. The fields are those of [`AttentionShape`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "attention", value = Attention, laws = crate::record::laws::check)]
pub struct AttentionKey {
    /// Instruction-set level.
    pub isa: Isa,
    /// Threads that work may be split for.
    pub threads: u32,
    /// Batches.
    pub batch: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of queries to one of keys and values.
    pub shared: u64,
    /// Queries of a head.
    pub queries: u64,
    /// Keys of a head.
    pub keys: u64,
    /// Features of queries and keys.
    pub size: u64,
    /// Features of values.
    pub value_size: u64,
    /// Queries.
    pub query: Lying,
    /// Keys.
    pub key: Lying,
    /// Whether keys are stored feature by feature.
    pub key_columns: bool,
    /// Values.
    pub value: Lying,
    /// Results.
    pub output: Lying,
    /// The mask that is added to scores.
    pub mask: Option<Lying>,
    /// The condition that keeps scores.
    pub keep: Option<Lying>,
    /// Whether the condition drops them instead.
    pub inverted: bool,
    /// What replaces scores that are not kept.
    pub fill: F32Bits,
    /// Factor of products.
    pub scale: F32Bits,
    /// Cap of scores.
    pub cap: Option<F32Bits>,
    /// Keys before the first query's own, where later ones are hidden.
    pub causal: Option<u64>,
    /// Whether a query that sees nothing gives zeros.
    pub blind_is_zero: bool,
    /// What products are of.
    pub elements: Elements,
    /// What queries, keys and values consist of.
    pub stored: Stored,
    /// What results consist of.
    pub written: Stored,
}

/// How the work is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionChoice {
    /// Whether queries are taken one by one, keys and values where they are.
    pub stream: bool,
    /// Queries that are done together.
    pub rows: u32,
    /// Keys that are done together.
    pub keys: u32,
    /// Whether values are packed first.
    pub pack_values: bool,
    /// Parts that heads are split into.
    pub head_tasks: u32,
    /// Parts that queries are split into.
    pub query_tasks: u32,
}

impl AttentionChoice {
    fn blocks(&self) -> AttentionBlocks {
        AttentionBlocks {
            stream: self.stream,
            rows: self.rows as usize,
            keys: self.keys as usize,
            pack_values: self.pack_values,
            head_tasks: self.head_tasks as usize,
            query_tasks: self.query_tasks as usize,
        }
    }
}

impl AttentionKey {
    /// The shape as the driver takes it.
    fn shape(&self) -> AttentionShape {
        AttentionShape {
            batch: self.batch as usize,
            heads: self.heads as usize,
            shared: self.shared as usize,
            queries: self.queries as usize,
            keys: self.keys as usize,
            size: self.size as usize,
            value_size: self.value_size as usize,
            query: self.query.steps(),
            key: self.key.steps(),
            key_columns: self.key_columns,
            value: self.value.steps(),
            output: self.output.steps(),
            mask: self.mask.map(Lying::steps),
            keep: self.keep.map(Lying::steps),
            inverted: self.inverted,
            fill: self.fill.get(),
            scale: self.scale.get(),
            cap: self.cap.map(F32Bits::get),
            causal: self.causal.map(|before| before as usize),
            blind_is_zero: self.blind_is_zero,
            elements: self.elements,
            stored: self.stored,
            written: self.written,
        }
    }
}

impl Recorded for AttentionKey {
    const REVISION: u32 = 3;
    type Choice = AttentionChoice;
}

impl Family for AttentionKey {
    fn choose(&self, _: &BuildCx) -> AttentionChoice {
        let blocks = AttentionBlocks::pick(self.isa, &self.shape(), self.threads as usize);
        // The model's numbers are small.
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        AttentionChoice {
            stream: blocks.stream,
            rows: count(blocks.rows),
            keys: count(blocks.keys),
            pack_values: blocks.pack_values,
            head_tasks: count(blocks.head_tasks),
            query_tasks: count(blocks.query_tasks),
        }
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        let possible = self.elements == Elements::F32 || self.elements == cx.elements();
        possible && self.isa == cx.isa && self.threads as usize == cx.threads
    }

    fn table_bytes(&self) -> Option<u64> {
        self.shape().is_valid().then_some(0)
    }

    fn accepts(&self, choice: &AttentionChoice, _: &BuildCx) -> bool {
        choice.blocks().fits(&self.shape(), self.isa)
    }

    fn build(&self, choice: &AttentionChoice, cx: &BuildCx) -> KernelResult<Attention> {
        Attention::new(self.isa, self.shape(), choice.blocks(), cx)
    }
}

#[cfg(test)]
mod tests {}
