//! Convolutions in `bf16` on the processor's [matrix unit](crate::cpu::matrix).
//!
//! Activations are `f32` before and after. A run goes through *bands* of lines of outputs. For each band it rounds what the band
//! reads into scratch, channels filled up with zeros to whole steps and padding written out ([`copy`]; [`grid`] says where
//! positions lie), so that the unit reads neighbouring positions as the rows of a tile. Then each panel of weights is
//! multiplied with all tile rows of the band: bands are short enough to stay in the second cache.
//!
//! Where there are few channels, a whole line of the kernel is one tap: the copy holds for each output what a line of the kernel
//! sees of a line of the input. Whether it is so depends on the weights alone, whose layout follows.

mod copy;
mod grid;

use std::mem::MaybeUninit;
use std::ops::Range;

use self::copy::Copy;
use self::grid::Grid;
use super::driver::{ConvBlocks, ConvExtras};
use super::shape::{ConvShape, Phase};
use super::weights::Weights;
use crate::cpu::CodeSource;
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::Panels;
use crate::cpu::gemm::model::second_cache;
use crate::cpu::gemm::rows::part;
use crate::cpu::gemm::shared::Shared;
use crate::cpu::matrix::{Finish, FinishArgs, Multiply, MultiplyArgs, PANEL, STEP_WORDS, TALLEST, TILE_ROWS};
use crate::error::Result;
use crate::isa::Isa;
use crate::parallel::Parallel;

/// Tile rows whose sums are put down before they are ended: 32 KiB of them.
const SUMS: usize = 16;

/// The sums of [`SUMS`] tile rows.
#[repr(align(64))]
struct Sums(MaybeUninit<[f32; SUMS * TILE_ROWS * PANEL]>);

/// Words that scratch may have to be moved by, to begin with a cache line.
const ALIGNMENT: usize = 16;

/// A convolution on the matrix unit.
#[derive(Clone, Debug)]
pub(super) struct OnUnit {
    shape: ConvShape,
    /// Lines of outputs of a band.
    band: usize,
    row_tasks: usize,
    unit_tasks: usize,
    grid: Grid,
    copy: Copy,
    phases: Vec<PhasePlan>,
    /// Words of one group's packed weights.
    group_len: usize,
    multiply: Multiply,
    finish: Finish,
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
struct Buffers<'a> {
    x: &'a [f32],
    weights: &'a [f32],
    y: Shared,
    extras: ConvExtras<'a>,
    /// The copy.
    words: Shared,
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

/// Lines of outputs of a band whose copy takes half of the second cache of each of that many threads.
pub(super) fn band(isa: Isa, shape: &ConvShape, threads: usize) -> usize {
    let phases = shape.phases();
    let weights = shape.weights();
    let grid = Grid::new(shape, &phases, weights.gathers());
    let line = grid.regions() * grid.line() * shape.groups * weights.unit_words() * 4;
    let lines = second_cache(isa) / 2 * threads / line.max(1);
    // Lines that two bands read are copied twice.
    lines.saturating_sub(grid.halo()).max(2 * grid.halo()).clamp(1, grid.lines().max(1))
}

impl OnUnit {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        blocks: ConvBlocks,
        activation: Option<UnaryOp>,
        class_panels: &[Panels],
        source: &dyn CodeSource,
    ) -> Result<OnUnit> {
        let weights = shape.weights();
        let mut phases = shape.phases();
        let grid = Grid::new(&shape, &phases, weights.gathers());
        if weights.gathers() {
            // Of each line of the kernel the first position stands for all.
            phases.iter_mut().for_each(|phase| phase.taps = phase.taps.iter().step_by(shape.kernel[2]).copied().collect());
        }
        let band = blocks.row_block.min(grid.lines()).max(1);
        let copy = Copy::new(isa, &shape, source)?;
        let starts = class_panels.iter().scan(0, |next, panels| {
            let start = *next;
            *next += panels.len();
            Some(start)
        });
        let starts: Vec<usize> = starts.collect();
        let plan = |phase: Phase| {
            let distance = |at| (grid.tap(at, grid.region(band)) * copy.position() * 4) as isize;
            PhasePlan {
                panels: class_panels[phase.class],
                weights: starts[phase.class],
                taps: phase.taps.iter().map(|tap| distance(tap.at)).collect(),
                phase,
            }
        };
        Ok(OnUnit {
            shape,
            band,
            row_tasks: blocks.row_tasks,
            unit_tasks: blocks.unit_tasks,
            phases: phases.into_iter().map(plan).collect(),
            group_len: class_panels.iter().map(Panels::len).sum(),
            multiply: Multiply::new(isa, 1..=TALLEST, source)?,
            finish: Finish::new(isa, activation, source)?,
            copy,
            grid,
        })
    }

    /// Elements of scratch that [`OnUnit::run`] needs.
    pub(super) fn scratch_len(&self) -> usize {
        self.grid.regions() * self.grid.region(self.band) * self.copy.position() + ALIGNMENT
    }

    /// Bytes held besides code.
    pub(super) fn bytes(&self) -> usize {
        let taps = self.phases.iter().map(|plan| plan.taps.len() * 32).sum::<usize>();
        self.phases.len() * size_of::<PhasePlan>() + taps
    }

    /// Convolves. The driver has checked that every buffer is as long as the shape says.
    pub(super) fn run(
        &self,
        x: &[f32],
        weights: &[f32],
        y: &mut [f32],
        extras: ConvExtras<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) {
        let aligned = scratch.as_ptr().align_offset(ALIGNMENT * 4).min(ALIGNMENT);
        let words = Shared::new(&mut scratch[aligned..]);
        let buffers = Buffers { x, weights, y: Shared::new(y), extras, words };
        let (rows, units, lines) = (self.row_tasks, self.unit_tasks, self.grid.lines());
        let bands = lines.div_ceil(self.band);
        let mut band = Band { lines: 0..0, starts: vec![Vec::new(); self.phases.len()] };
        for index in 0..bands {
            band.lines = part(lines, bands, index);
            for (plan, starts) in self.phases.iter().zip(&mut band.starts) {
                starts.clear();
                self.grid.cover(&plan.phase, band.lines.clone(), self.shape.output, starts);
            }
            if band.starts.iter().all(Vec::is_empty) {
                continue;
            }
            self.copy.run(&buffers, &self.grid, (&band.lines, self.band), rows * units, parallel);
            parallel.run(self.phases.len() * rows * units, &|task| {
                let phase = task / (rows * units);
                let tiles = part(band.starts[phase].len(), rows, task / units % rows);
                let all = self.shape.groups * self.phases[phase].panels.count();
                self.task(&buffers, phase, &band, tiles, part(all, units, task % units));
            });
        }
    }

    /// Some tile rows of a phase by some panels.
    fn task(&self, buffers: &Buffers<'_>, phase: usize, band: &Band, tiles: Range<usize>, units: Range<usize>) {
        let plan = &self.phases[phase];
        let position = self.copy.position();
        let starts = &band.starts[phase][tiles];
        let at = |start: &usize| buffers.words.at(start * position).cast_const().cast::<u8>();
        let rows: Vec<*const u8> = starts.iter().map(at).collect();
        let mut taps = plan.taps.clone();
        let mut args = MultiplyArgs::empty();
        (args.row_step, args.left_step) = (position * 4, STEP_WORDS * 4);
        args.steps = self.copy.steps();
        let mut sums = Sums(MaybeUninit::uninit());
        for unit in units {
            let (group, panel) = (unit / plan.panels.count(), unit % plan.panels.count());
            let further = (group * self.copy.steps() * STEP_WORDS * 4) as isize;
            taps.iter_mut().zip(&plan.taps).for_each(|(tap, plain)| *tap = plain + further);
            (args.taps, args.tap_count) = (taps.as_ptr(), taps.len());
            let weights = group * self.group_len + plan.weights + panel * plan.panels.panel_len();
            args.right = buffers.weights.as_ptr().wrapping_add(weights);
            let column = group * self.shape.group_filters() + panel * PANEL;
            let mut end = FinishArgs::of_columns(plan.panels.columns_of(panel));
            end.bias = buffers.extras.bias.map_or(std::ptr::null(), |bias| bias.as_ptr().wrapping_add(column));
            if let Some(residual) = buffers.extras.residual {
                end.residual = 1;
                end.residual_offset = (residual.as_ptr() as isize).wrapping_sub(buffers.y.at(0) as isize);
            }
            end.to_step = plan.phase.stride[2] * self.shape.filters * 4;
            for (rows, starts) in rows.chunks(SUMS).zip(starts.chunks(SUMS)) {
                let pairs = rows.len() / TALLEST;
                for (height, from, blocks) in [(TALLEST, 0, pairs), (1, pairs * TALLEST, rows.len() % TALLEST)] {
                    if blocks > 0 {
                        args.blocks = blocks;
                        args.rows = rows[from..].as_ptr();
                        args.out = sums.0.as_mut_ptr().cast::<f32>().wrapping_add(from * TILE_ROWS * PANEL);
                        // SAFETY: all places that tile rows of this band read were counted into scratch, whose length
                        // was checked as that of the panels; sums are ours, and a block writes those of its tile rows.
                        unsafe { self.multiply.call(height, &args) };
                    }
                }
                self.finish(buffers, plan, &band.lines, starts, sums.0.as_ptr().cast(), column, &mut end);
            }
        }
    }

    /// Ends the sums of tile rows: writes those that belong to outputs.
    #[expect(clippy::too_many_arguments, reason = "the innermost step of three loops, whose state it takes")]
    fn finish(
        &self,
        buffers: &Buffers<'_>,
        plan: &PhasePlan,
        lines: &Range<usize>,
        starts: &[usize],
        sums: *const f32,
        column: usize,
        args: &mut FinishArgs,
    ) {
        let shape = &self.shape;
        let (line, last) = (self.grid.line(), lines.len() * self.grid.line());
        // Lines without gaps between their outputs are one.
        let (stride, count) = if self.grid.is_dense(&plan.phase) { (last, last) } else { (line, plan.phase.count[2]) };
        let mut tile = 0;
        while tile < starts.len() {
            let next = starts[tile..].windows(2).take_while(|pair| pair[1] == pair[0] + TILE_ROWS).count() + 1;
            let (start, sums) = (starts[tile], sums.wrapping_add(tile * TILE_ROWS * PANEL));
            let end = (start + next * TILE_ROWS).min(last);
            let mut at = start;
            while at < end {
                let (index, place) = (at / stride, at % stride);
                let rows = count.saturating_sub(place).min(end - at);
                let output = self.grid.output(&plan.phase, lines.start + index, shape.output);
                if let (Some(output), true) = (output, rows > 0) {
                    let output = output + place * plan.phase.stride[2];
                    args.from = sums.wrapping_add((at - start) * PANEL);
                    args.to = buffers.y.at(output * shape.filters + column);
                    args.rows = rows;
                    // SAFETY: these sums have just been put down; C's rows, bias and residual are inside buffers that were
                    // checked; tasks have disjoint rows or columns of C, phases have disjoint rows.
                    unsafe { self.finish.call(args) };
                }
                at += (stride - place).min(end - at);
            }
            tile += next;
        }
    }
}

#[cfg(test)]
mod tests;
