//! Convolutions in `bf16` on the processor's [matrix unit](crate::cpu::matrix).
//!
//! Activations are `f32` or `bf16`, before and after. A run goes through *bands* of lines of outputs. For each band it copies what
//! the band reads into scratch, rounded, channels filled up with zeros to whole steps and padding written out ([`copy`];
//! [`grid`] says where positions lie), so that the unit reads neighbouring positions as the rows of a tile. Then each panel of
//! weights is multiplied with all tile rows of the band: bands are short enough to stay in the second cache. Where lines are many,
//! each task has bands of its own, and threads meet once; where they are few, all share the work of each band.
//!
//! Positions of `bf16` that are whole steps long, or some of one shorter length, and each seen by one output are read where
//! they are. Only what a tile row would
//! read behind the last of them makes a copy necessary, of as many positions as a tile row has.
//!
//! Where there are few channels, a whole line of the kernel is one tap: the copy holds for each output what a line of the kernel
//! sees of a line of the input. Whether it is so depends on the weights alone, whose layout follows.

mod ahead;
mod chunk;
mod copy;
pub(crate) mod grid;

use std::ops::Range;

use self::ahead::{Far, Next};
use self::chunk::{Chunk, Sums};
use self::copy::Copy;
use self::grid::Grid;
use super::driver::{Beside, ConvBlocks, ConvStored};
use super::input::{self, ConvPart};
use super::shape::{ConvShape, Phase};
use super::weights::Weights;
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::Panels;
use crate::cpu::gemm::model::second_cache;
use crate::cpu::gemm::rows::part;
use crate::cpu::gemm::shared::Shared;
use crate::cpu::matrix::{
    Columns, Ending, Factors, Held, Multiply, MultiplyArgs, MultiplyCode, PANEL, STEP, STEP_WORDS, Stretch, TALLEST,
    TILE_ROWS,
};
use crate::cpu::{Activations, ActivationsMut, CodeSource, Stored};
use crate::error::Result;
use crate::isa::Isa;
use crate::parallel::{Parallel, Serial};

/// Tile rows by panels whose sums are put down before they are ended: 16 KiB of them, which stay in the first cache beside what is
/// multiplied.
const SUMS: usize = 8;

/// Tile rows that see all panels before the next ones do, where weights stay near.
const NEAR: usize = 4;

/// Tile rows from which on panels are fetched before they are needed.
const MANY: usize = 8;

/// How many times as long bands are of which nothing is copied.
const LONGER: usize = 8;

/// Words that scratch may have to be moved by, to begin with a cache line.
const ALIGNMENT: usize = 16;

/// A convolution on the matrix unit.
#[derive(Clone, Debug)]
pub(super) struct OnUnit {
    shape: ConvShape,
    stored: ConvStored,
    /// Whether the input is read where it is.
    in_place: bool,
    /// Steps of the reduction of a tap, the distance of one and the next in words, and words that count of each.
    steps: usize,
    step: usize,
    words: usize,
    far: Far,
    /// Whether each task has bands of its own, so that none waits for another.
    private: bool,
    /// Lines of outputs of a band.
    band: usize,
    row_tasks: usize,
    unit_tasks: usize,
    grid: Grid,
    copy: Copy,
    phases: Vec<PhasePlan>,
    /// Words of one group's packed weights.
    group_len: usize,
    /// Whether all weights of a group stay in the second cache.
    near: bool,
    /// What multiplies whole panels, and a group's last where that is not whole.
    whole: Option<Multiply>,
    last: Option<Multiply>,
}

/// What is known of a phase before the data.
#[derive(Clone, Debug)]
struct PhasePlan {
    phase: Phase,
    panels: Panels,
    /// Where the phase's weights start in each group.
    weights: usize,
    /// Distances of taps in bytes.
    taps: Vec<isize>,
}

/// The buffers of one run, as tasks see them.
#[derive(Clone, Copy)]
struct Buffers<'a> {
    /// The input, in one part where it is read where it is.
    parts: &'a [ConvPart<'a>],
    weights: &'a [f32],
    y: Shared<u8>,
    extras: Beside<'a>,
    /// The copy.
    words: Shared,
}

/// What chunks of a task have in common.
struct Part<'a> {
    plan: &'a PhasePlan,
    lines: &'a Range<usize>,
    whole: Option<Held<'a>>,
    last: Option<Held<'a>>,
    args: MultiplyArgs,
    /// Distances of taps in the group that was last.
    taps: Vec<isize>,
    group: usize,
    stretches: Vec<Stretch>,
}

/// Some lines of outputs, and for each phase where its tile rows start.
struct Band {
    lines: Range<usize>,
    starts: Vec<Vec<usize>>,
}

/// Whether a driver can take these blocks for a shape whose weights suit the unit: scratch that can be counted.
pub(super) fn fits(blocks: &ConvBlocks, shape: &ConvShape) -> bool {
    let along = |dim: usize| {
        let reach = (shape.kernel[dim] - 1) * shape.dilations[dim];
        (shape.input[dim].max(shape.output[dim]) + shape.pads[dim] + reach + TILE_ROWS) as u128
    };
    let regions: u128 = (0..3).map(|dim| shape.strides[dim].min(shape.kernel[dim]) as u128).product();
    let words = shape.groups as u128 * Weights::unit_words(&shape.weights()) as u128;
    let positions = (0..3).try_fold(shape.batch as u128, |total, dim| total.checked_mul(along(dim)));
    let all = positions.and_then(|positions| positions.checked_mul(regions)?.checked_mul(words));
    blocks.vectors * Isa::Avx512.lanes() == PANEL && all.is_some_and(|words| words <= isize::MAX as u128 / 64)
}

/// Whether all packed weights of a group stay in the second cache beside what they are multiplied with.
fn near(isa: Isa, panels: &[Panels]) -> bool {
    panels.iter().map(Panels::len).sum::<usize>() * 4 <= second_cache(isa) / 2
}

/// Lines of outputs of a band on that many threads: those whose copy takes half of what a thread may count on of its second cache,
/// so that it is there still when it is read; with a quarter threads meet twice as often. Weights that do not stay there are fetched
/// once for each band, so then bands are longer.
pub(super) fn band(isa: Isa, shape: &ConvShape, threads: usize) -> usize {
    let weights = shape.weights();
    let grid = Grid::new(shape, &shape.phases(), weights.gathers());
    let line = grid.regions() * grid.line() * shape.groups * weights.unit_words() * 4;
    let near = near(isa, &weights.unit_panels());
    let bytes = if near { second_cache(isa) / 2 } else { second_cache(isa) };
    // Lines that two bands read are copied twice.
    let band = (bytes * threads / line.max(1)).saturating_sub(grid.halo()).max(2 * grid.halo());
    // A second band that is short costs all weights once more.
    let band = if !near && grid.lines() <= band + band / 2 { grid.lines() } else { band };
    band.clamp(1, grid.lines().max(1))
}

/// Whether each task copies its own lines, those that it shares with a neighbour too: where it has so many that these, and that
/// lines cannot be shared out evenly, cost less than two meetings of all threads for each band.
fn has_private_bands(grid: &Grid, blocks: &ConvBlocks) -> bool {
    let least = blocks.row_tasks.saturating_mul(grid.halo().saturating_mul(8).max(16));
    blocks.unit_tasks == 1 && grid.lines() >= least
}

/// Fewest words of a step of several: every step loads tiles anew, and short ones load more than they multiply.
const SHORTEST: usize = 8;

/// Words of the steps in which the unit can read positions as they lie: whole ones, a single shorter one, or several of one length. A
/// multiplication takes as long as its step has words.
fn step_in_place(shape: &ConvShape) -> Option<usize> {
    let words = shape.channels / 2;
    if shape.group_channels().is_multiple_of(STEP) {
        return Some(STEP_WORDS);
    }
    if shape.groups != 1 || !shape.channels.is_multiple_of(2) {
        return None;
    }
    if words < STEP_WORDS {
        return Some(words);
    }
    (SHORTEST..STEP_WORDS).rev().find(|&step| words.is_multiple_of(step))
}

impl OnUnit {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        (blocks, stored): (ConvBlocks, ConvStored),
        activation: Option<UnaryOp>,
        class_panels: &[Panels],
        source: &dyn CodeSource,
    ) -> Result<OnUnit> {
        let weights = shape.weights();
        let mut phases = shape.phases();
        let grid = Grid::new(&shape, &phases, weights.gathers());
        if weights.gathers() {
            // Of each line of the kernel the first position stands for all.
            phases
                .iter_mut()
                .for_each(|phase| phase.taps = phase.taps.iter().step_by(shape.kernel[2]).copied().collect());
        }
        let may_stay = stored.input == Stored::Bf16 && shape.is_pointwise();
        let lies_in = step_in_place(&shape).filter(|_| may_stay);
        let in_place = lies_in.is_some();
        // Where nothing is copied and weights stay near, bands do nothing but keep tables short.
        let longer = if in_place && near(isa, class_panels) { LONGER } else { 1 };
        let private = !in_place && has_private_bands(&grid, &blocks);
        let (wanted, most) = match private {
            true => {
                ((blocks.row_block / blocks.row_tasks).max(2 * grid.halo()), grid.lines().div_ceil(blocks.row_tasks))
            }
            false => (blocks.row_block.saturating_mul(longer), grid.lines()),
        };
        let band = wanted.min(most).max(1);
        let copy = Copy::new(isa, &shape, source)?;
        let starts = class_panels.iter().scan(0, |next, panels| {
            let start = *next;
            *next += panels.len();
            Some(start)
        });
        let starts: Vec<usize> = starts.collect();
        let plan = |phase: Phase| {
            let distance = |at| (grid.tap(at, grid.region(band)) * copy.position() * 4) as isize;
            let taps = phase.taps.iter().map(|tap| distance(tap.at)).collect();
            PhasePlan { panels: class_panels[phase.class], weights: starts[phase.class], taps, phase }
        };
        let ConvStored { residual, output, .. } = stored;
        let multiply = |columns: usize| {
            let ending = Ending { columns: Columns::of(columns), activation, residual, output };
            let code = MultiplyCode { isa, factors: Factors::Halves, ending: Some(ending) };
            (columns > 0).then(|| Multiply::of(code, 1..=TALLEST, source)).transpose()
        };
        let columns = shape.group_filters();
        Ok(OnUnit {
            near: near(isa, class_panels),
            group_len: class_panels.iter().map(Panels::len).sum(),
            shape,
            band,
            row_tasks: blocks.row_tasks,
            unit_tasks: blocks.unit_tasks,
            phases: phases.into_iter().map(plan).collect(),
            whole: multiply(columns / PANEL * PANEL)?,
            last: multiply(columns % PANEL)?,
            far: Far::new(isa, (&shape, stored), in_place, blocks.row_tasks.saturating_mul(blocks.unit_tasks)),
            in_place,
            words: lies_in.unwrap_or(copy.words()),
            step: lies_in.unwrap_or(STEP_WORDS),
            steps: lies_in.map_or(copy.steps(), |step| shape.group_channels() / 2 / step),
            private,
            stored,
            copy,
            grid,
        })
    }

    /// Elements of scratch that [`OnUnit::run`] needs.
    pub(super) fn scratch_len(&self) -> usize {
        let copies = if self.private { self.row_tasks } else { 1 };
        copies * self.copied() + ALIGNMENT
    }

    /// Words that are copied at a time.
    fn copied(&self) -> usize {
        let positions = if self.in_place { 2 * TILE_ROWS } else { self.grid.regions() * self.grid.region(self.band) };
        positions * self.copy.position()
    }

    /// Bytes held besides code.
    pub(super) fn bytes(&self) -> usize {
        let taps = self.phases.iter().map(|plan| plan.taps.len() * 32).sum::<usize>();
        self.phases.len() * size_of::<PhasePlan>() + taps
    }

    /// Whether what is copied may come from several tensors.
    pub(super) fn takes_parts(&self, channels: &[usize]) -> bool {
        !self.in_place && self.copy.takes_parts() && input::starts_at(channels, STEP)
    }

    /// Convolves. The driver has checked that every buffer is as long as the shape says.
    pub(super) fn run(
        &self,
        parts: &[ConvPart<'_>],
        weights: &[f32],
        mut y: ActivationsMut<'_>,
        extras: Beside<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) {
        let aligned = scratch.as_ptr().align_offset(ALIGNMENT * 4).min(ALIGNMENT);
        let words = Shared::new(&mut scratch[aligned..]);
        let buffers = Buffers { parts, weights, y: Shared::from_ptr(y.as_mut_ptr()), extras, words };
        if self.in_place {
            self.copy_last(&buffers);
        }
        if !self.private {
            return self.bands(&buffers, 0..self.grid.lines(), [self.row_tasks, self.unit_tasks], parallel);
        }
        parallel.run(self.row_tasks, &|task| {
            let own = Buffers { words: Shared::from_ptr(buffers.words.at(task * self.copied())), ..buffers };
            let lines = part(self.grid.lines(), self.row_tasks, task);
            self.bands(&own, lines, [1, 1], &Alone(parallel));
        });
    }

    /// Some lines, band by band, each in so many parts of its rows and of the panels.
    fn bands(&self, buffers: &Buffers<'_>, lines: Range<usize>, [rows, units]: [usize; 2], parallel: &dyn Parallel) {
        let bands = lines.len().div_ceil(self.band);
        let mut band = Band { lines: 0..0, starts: vec![Vec::new(); self.phases.len()] };
        for index in 0..bands {
            if parallel.is_stopped() {
                return;
            }
            let own = part(lines.len(), bands, index);
            band.lines = lines.start + own.start..lines.start + own.end;
            for (plan, starts) in self.phases.iter().zip(&mut band.starts) {
                starts.clear();
                self.grid.cover(&plan.phase, band.lines.clone(), self.shape.output, starts);
            }
            if band.starts.iter().all(Vec::is_empty) {
                continue;
            }
            if !self.in_place {
                self.copy.run(buffers, &self.grid, (&band.lines, self.band), rows * units, parallel);
            }
            parallel.run(self.phases.len() * rows * units, &|task| {
                let phase = task / (rows * units);
                let tiles = part(band.starts[phase].len(), rows, task / units % rows);
                let all = self.shape.groups * self.phases[phase].panels.count();
                self.task(buffers, phase, &band, tiles, part(all, units, task % units));
            });
        }
    }

    /// Some tile rows of a phase by some panels.
    fn task(&self, buffers: &Buffers<'_>, phase: usize, band: &Band, tiles: Range<usize>, units: Range<usize>) {
        if tiles.is_empty() || units.is_empty() {
            return;
        }
        let plan = &self.phases[phase];
        let starts = &band.starts[phase][tiles];
        let rows: Vec<*const u8> = starts.iter().map(|&start| self.tile_row(buffers, &band.lines, start)).collect();
        let taps = plan.taps.clone();
        let mut args = MultiplyArgs::empty();
        (args.row_step, args.left_step, args.right_step) = (self.place() * 4, self.step * 4, self.step * PANEL * 4);
        (args.taps, args.tap_count, args.steps) = (taps.as_ptr(), taps.len(), self.steps);
        args.right_next = plan.panels.panel_len() * 4;
        let [tiles, panels] = self.chunk_size(plan, rows.len());
        let [whole, last] = [&self.whole, &self.last].map(|code| code.as_ref().map(|code| code.hold_for(self.words)));
        let (lines, stretches) = (&band.lines, Vec::with_capacity(tiles));
        let mut part = Part { plan, lines, whole, last, args, taps, group: 0, stretches };
        let mut sums = Sums::new();
        let chunks: Vec<Chunk<'_>> = rows
            .chunks(tiles)
            .zip(starts.chunks(tiles))
            .map(|(rows, starts)| {
                let output = self.first_output(&plan.phase, &band.lines, starts);
                Chunk { rows, starts, output }
            })
            .collect();
        let next_rows = |index: usize| chunks.get(index + 1).map_or(&[][..], |chunk| chunk.rows);
        let next_output = |index: usize| chunks.get(index + 1).and_then(|chunk| chunk.output);
        if self.near {
            for (index, chunk) in chunks.iter().enumerate() {
                for cut in cuts(&units, plan.panels.count(), panels) {
                    let rows_part = (cut.start - units.start, units.len());
                    let (rows, output) = (next_rows(index), next_output(index));
                    let next = Next { rows, rows_part, output, panels: 0..0, panels_part: (0, 1) };
                    self.chunk(buffers, &mut part, (chunk, &next), cut, &mut sums);
                }
            }
        } else {
            for cut in cuts(&units, plan.panels.count(), panels) {
                // All rows are near once the first panels have seen them.
                let fresh = cut.start == units.start;
                // Few blocks read a panel nearly as fast as it comes, in order and once, as processors expect it.
                let after = cut.start + 1..units.end.min(cut.end + 1);
                let panels = if rows.len() >= MANY { after } else { 0..0 };
                for (index, chunk) in chunks.iter().enumerate() {
                    let next = Next {
                        rows: if fresh { next_rows(index) } else { &[] },
                        rows_part: (0, cut.len()),
                        output: next_output(index),
                        panels: panels.clone(),
                        panels_part: (index, chunks.len()),
                    };
                    self.chunk(buffers, &mut part, (chunk, &next), cut.clone(), &mut sums);
                }
            }
        }
    }

    /// Tile rows and panels of a chunk: panels that stay near are all seen by some rows, others by as many rows as there is room for.
    fn chunk_size(&self, plan: &PhasePlan, tiles: usize) -> [usize; 2] {
        if self.near {
            return [NEAR, plan.panels.count().max(1)];
        }
        let spare = SUMS / tiles.next_multiple_of(TALLEST).min(SUMS);
        let panels = spare.min(plan.panels.count().next_power_of_two()).clamp(1, SUMS / TALLEST);
        [SUMS / panels, panels]
    }

    /// Words of a position that is read.
    fn place(&self) -> usize {
        if self.in_place { self.shape.channels / 2 } else { self.copy.position() }
    }

    /// Where a tile row of a band starts.
    fn tile_row(&self, buffers: &Buffers<'_>, lines: &Range<usize>, start: usize) -> *const u8 {
        let mut at = start;
        if self.in_place {
            let (position, own) = (lines.start * self.grid.line() + start, self.own());
            if position < own {
                return buffers.parts[0].x.as_ptr().wrapping_add(position * self.shape.channels * Stored::Bf16.bytes());
            }
            at = position - own;
        }
        buffers.words.at(at * self.place()).cast_const().cast()
    }

    /// Positions where a tile row may start that is read where it is.
    fn own(&self) -> usize {
        (self.grid.lines() * self.grid.line()).saturating_sub(TILE_ROWS - 1)
    }

    /// Copies the positions of tile rows that end behind the last.
    fn copy_last(&self, buffers: &Buffers<'_>) {
        let Activations::Bf16(x) = buffers.parts[0].x else { return };
        let last = &x[self.own() * self.shape.channels..];
        let len = 2 * TILE_ROWS * self.shape.channels;
        // SAFETY: scratch was checked to hold as many positions, and no task runs yet. Any bits are words of any type.
        let to = unsafe { std::slice::from_raw_parts_mut(buffers.words.at(0).cast::<u16>(), len) };
        to[..last.len()].copy_from_slice(last);
        to[last.len()..].fill(0);
    }
}

/// One of several threads: what it runs, it runs by itself, and it stops with the others.
struct Alone<'a>(&'a dyn Parallel);

impl Parallel for Alone<'_> {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        Serial.run(tasks, task);
    }

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

/// Cuts units into pieces of up to `most`, each of one group of `count`.
pub(crate) fn cuts(units: &Range<usize>, count: usize, most: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let (mut next, end) = (units.start, units.end);
    std::iter::from_fn(move || {
        let start = next;
        next = end.min(start + most).min((start / count + 1) * count);
        (start < end).then_some(start..next)
    })
}

#[cfg(test)]
mod tests;
