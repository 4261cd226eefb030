//! Prefetches of a chunk: what the next chunk reads, and the lines that it will write.

use std::ops::Range;

use super::chunk::{CallPanels, Chunk};
use super::{Buffers, OnAmx, Part};
use crate::cpu::Stored;
use crate::cpu::amx::prefetch::{LINE, PrefetchLines, Share};
use crate::cpu::amx::{PANEL, TALLEST, TILE_ROWS};
use crate::cpu::conv::driver::ConvStored;
use crate::cpu::conv::shape::{ConvShape, Phase};
use crate::cpu::gemm::model::l2_bytes;
use crate::isa::Isa;

/// What is first read after a chunk, and the share of it that the chunk prefetches.
pub(super) struct Next<'a> {
    /// Tile rows of the next chunk.
    pub(super) rows: &'a [*const u8],
    /// The calls that prefetch them are counted in panels: those before this call, of all that are multiplied with this
    /// chunk.
    pub(super) rows_share: Share,
    /// The first output of those rows, if outputs follow each other.
    pub(super) output: Option<usize>,
    /// The next panels, numbered over all groups.
    pub(super) panels: Range<usize>,
    /// The chunks that prefetch them: those before this one, of all.
    pub(super) panels_share: Share,
}

/// Which tensors are larger than the L2 of all threads together, so that most of them comes from memory. Prefetching
/// what is in a cache costs more than it gains: mobilenet_v2's layers of 0.2 to 1.2 MB took up to 1.3 times as long.
#[derive(Clone, Copy, Debug)]
pub(super) struct BeyondL2 {
    /// The input, if it is read in place.
    pub(super) input: bool,
    pub(super) output: bool,
}

impl BeyondL2 {
    pub(super) fn new(isa: Isa, shape: &ConvShape, stored: ConvStored, in_place: bool, threads: usize) -> BeyondL2 {
        let beyond = |len: usize, stored: Stored| len * stored.bytes() > l2_bytes(isa) * 3 / 2 * threads;
        BeyondL2 {
            input: in_place && beyond(shape.input_len(), stored.input),
            output: beyond(shape.output_len(), stored.output),
        }
    }
}

impl OnAmx {
    /// Sets the prefetch streams of the call for `chunk` and `panels`: its share of the next rows and panels, and the
    /// lines of the result that the next rows are written to.
    pub(super) fn prefetch(
        &self,
        buffers: &Buffers<'_>,
        part: &mut Part<'_>,
        chunk: &Chunk<'_>,
        next: &Next<'_>,
        panels: &CallPanels,
    ) {
        if !self.beyond_l2.input && !self.beyond_l2.output && next.panels.is_empty() {
            return;
        }
        let (plan, shape) = (part.plan, &self.shape);
        let (count, panel_len) = (plan.panels.count(), plan.panels.panel_len());
        let Share { before, of } = next.rows_share;
        // A single panel is multiplied as fast as rows come, prefetched or not.
        let worth = self.beyond_l2.input && of > 1;
        let left = next.rows.first().filter(|_| worth).map(|&row| {
            let bytes = next.rows.len() * TILE_ROWS * self.place() * 4;
            let share = (bytes / of).next_multiple_of(LINE);
            PrefetchLines::all(row.wrapping_add(before * share), share)
        });
        let right = (!next.panels.is_empty() && next.panels.start / count == panels.group).then(|| {
            let Share { before, of } = next.panels_share;
            let bytes = next.panels.len() * panel_len * 4;
            let share = (bytes / of / panels.count).next_multiple_of(LINE);
            let weights = panels.group * self.group_len + plan.weights + next.panels.start % count * panel_len;
            PrefetchLines::all(buffers.weights.at(weights).wrapping_add(before * share * panels.count), share)
        });
        let bytes = self.stored.output.bytes();
        let result = next.output.filter(|_| self.beyond_l2.output).map(|output| PrefetchLines {
            at: buffers.y.at((output * shape.filters() + panels.column) * bytes).cast_const(),
            count: next.rows.len() * TILE_ROWS,
            step: shape.filters() * bytes,
            panel_step: PANEL * bytes,
        });
        let steps = (chunk.rows.len() / TALLEST).max(1) * plan.taps.len() * self.steps;
        part.args.prefetch(&[left, right, result], steps);
    }

    /// The first output of the tile rows at `starts`, if outputs follow each other.
    pub(super) fn first_output(&self, phase: &Phase, lines: &Range<usize>, starts: &[usize]) -> Option<usize> {
        let first = *starts.first()?;
        if self.grid.is_dense(phase) {
            return Some(lines.start * self.grid.line() + first);
        }
        if phase.stride != [1; 3] {
            return None;
        }
        let output = |line: usize| self.grid.output(phase, lines.start + line, self.shape.output());
        let (line, place) = (first / self.grid.line(), first % self.grid.line());
        let before = |at: usize| if at == line { place.min(phase.count[2]) } else { 0 };
        (line..lines.len()).find_map(|at| Some(output(at)? + before(at)))
    }
}
