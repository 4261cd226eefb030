//! The scratch of a task: where its panels, scores, states and tiles lie.

use super::emit::STATE;
use super::paired::whole_rows;
use super::shape::AttentionBlocks;
use crate::cpu::amx::PANEL;
use crate::problem::attention::{AttentionShape, KeyRange};

/// Offsets of the parts of a task's scratch, in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScratchLayout {
    pub(super) values: usize,
    pub(super) scores: usize,
    pub(super) keep: usize,
    pub(super) state: usize,
    /// For bf16 pairs: rounded queries, and sums of values.
    pub(super) queries: usize,
    pub(super) context: usize,
    /// The numbers of a block's keys, then of its values, where they are not read in place.
    pub(super) tile: usize,
    pub(super) end: usize,
    /// Elements from one row of scores to the next: one vector more than the keys of a block.
    pub(super) row: usize,
}

impl ScratchLayout {
    /// `panels`: elements of packed keys, of packed values and of rounded queries. `context`: elements of a row of sums
    /// of values, where products of pairs store them to scratch.
    pub(super) fn new(
        shape: &AttentionShape,
        blocks: &AttentionBlocks,
        [keys, values, queries]: [usize; 3],
        context: Option<usize>,
        lanes: usize,
    ) -> ScratchLayout {
        let mut end = 0;
        // Each part starts on a cache line.
        let mut part = |len: usize| {
            let start = end;
            end += len.next_multiple_of(16);
            start
        };
        // AMX computes whole tile rows only, and both products of pairs whole panels.
        let (rows, row) = match context {
            Some(_) => (whole_rows(blocks.rows()), blocks.keys().next_multiple_of(PANEL) + lanes),
            None => (blocks.rows(), blocks.keys() + lanes),
        };
        part(keys);
        let values = part(values);
        let scores = part(rows * row);
        let is_selected = shape.keep.is_some() || shape.range == KeyRange::Window;
        let keep = part(if is_selected { rows * row } else { 0 });
        let state = part(rows * STATE);
        let queries = part(queries);
        let context = part(rows * context.unwrap_or(0));
        ScratchLayout { values, scores, keep, state, queries, context, tile: end, end, row }
    }

    /// Adds a tile of the numbers of a block's keys, then of its values.
    pub(super) fn add_tile(&mut self, shape: &AttentionShape, blocks: &AttentionBlocks) {
        self.end += (blocks.keys() * shape.size().max(shape.value_size())).next_multiple_of(16);
    }
}
