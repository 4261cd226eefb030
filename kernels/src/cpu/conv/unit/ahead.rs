//! What a chunk has fetched while it is multiplied: what the next one reads, and where it will write.

use std::ops::Range;

use super::chunk::Chunk;
use super::{Buffers, OnUnit, Part};
use crate::cpu::Stored;
use crate::cpu::conv::driver::ConvStored;
use crate::cpu::conv::shape::{ConvShape, Phase};
use crate::cpu::gemm::model::second_cache;
use crate::cpu::matrix::fetch::{LINE, Lines};
use crate::cpu::matrix::{PANEL, TALLEST, TILE_ROWS};
use crate::isa::Isa;

/// What is read for the first time after a chunk, and which part of it the chunk has fetched.
pub(super) struct Next<'a> {
    /// Tile rows.
    pub(super) rows: &'a [*const u8],
    /// Panels before and in all that share their fetching.
    pub(super) rows_part: (usize, usize),
    /// The first output that they make, where outputs follow each other.
    pub(super) output: Option<usize>,
    /// Panels, counted as units.
    pub(super) panels: Range<usize>,
    /// Chunks that share their fetching.
    pub(super) panels_part: (usize, usize),
}

/// What is larger than the second caches of all threads, so that memory is where most of it has to come from. What is near is
/// slower to fetch than to use: mobilenet_v2's layers of 0.2 to 1.2 MB took up to 1.3 times as long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Far {
    /// Input that is read where it is.
    pub(super) input: bool,
    pub(super) output: bool,
}

impl Far {
    pub(super) fn new(isa: Isa, (shape, stored): (&ConvShape, ConvStored), in_place: bool, threads: usize) -> Far {
        let far = |len: usize, stored: Stored| len * stored.bytes() > second_cache(isa) * 3 / 2 * threads;
        Far { input: in_place && far(shape.input_len(), stored.input), output: far(shape.output_len(), stored.output) }
    }
}

impl OnUnit {
    /// Has the call of a chunk and some panels of a group, the first of which is for that column, fetch what it should.
    pub(super) fn fetch(
        &self,
        buffers: &Buffers<'_>,
        part: &mut Part<'_>,
        (chunk, next): (&Chunk<'_>, &Next<'_>),
        (group, column, panels): (usize, usize, usize),
    ) {
        if !self.far.input && !self.far.output && next.panels.is_empty() {
            return;
        }
        let (plan, shape) = (part.plan, &self.shape);
        let (count, panel_len) = (plan.panels.count(), plan.panels.panel_len());
        let (before, all) = next.rows_part;
        // A single panel is multiplied as fast as rows come, fetched or not.
        let worth = self.far.input && all > 1;
        let left = next.rows.first().filter(|_| worth).map(|&row| {
            let bytes = next.rows.len() * TILE_ROWS * self.place() * 4;
            let share = (bytes / all).next_multiple_of(LINE);
            Lines::all(row.wrapping_add(before * share), share)
        });
        let right = (!next.panels.is_empty() && next.panels.start / count == group).then(|| {
            let (before, all) = next.panels_part;
            let bytes = next.panels.len() * panel_len * 4;
            let share = (bytes / all / panels).next_multiple_of(LINE);
            let weights = group * self.group_len + plan.weights + next.panels.start % count * panel_len;
            let start: *const u8 = buffers.weights.as_ptr().wrapping_add(weights).cast();
            Lines::all(start.wrapping_add(before * share * panels), share)
        });
        let bytes = self.stored.output.bytes();
        let result = next.output.filter(|_| self.far.output).map(|output| Lines {
            at: buffers.y.at((output * shape.filters + column) * bytes).cast_const(),
            count: next.rows.len() * TILE_ROWS,
            step: shape.filters * bytes,
            panel_step: PANEL * bytes,
        });
        let steps = (chunk.rows.len() / TALLEST).max(1) * plan.taps.len() * self.steps;
        part.args.fetches.set(&[left, right, result], steps);
    }

    /// The first output of tile rows, where outputs follow each other.
    pub(super) fn first_output(&self, phase: &Phase, lines: &Range<usize>, starts: &[usize]) -> Option<usize> {
        let first = *starts.first()?;
        if self.grid.is_dense(phase) {
            return Some(lines.start * self.grid.line() + first);
        }
        if phase.stride != [1; 3] {
            return None;
        }
        let output = |line: usize| self.grid.output(phase, lines.start + line, self.shape.output);
        let (line, place) = (first / self.grid.line(), first % self.grid.line());
        let before = |at: usize| if at == line { place.min(phase.count[2]) } else { 0 };
        (line..lines.len()).find_map(|at| Some(output(at)? + before(at)))
    }
}
