//! Quantised products and convolutions on the processor's [matrix unit](crate::cpu::matrix).
//!
//! Left-hand bytes keep their zero point, which is taken off what sums start from; signed and unsigned ones have kernels of
//! their own. Windows of one position that do not step read the input where it is. For others a run goes through *bands* of
//! lines of outputs, and copies what a band reads into scratch with its padding ([`copy`]; [`Grid`] says where positions
//! lie), so that the unit reads neighbouring positions as the rows of a tile.
//!
//! A step of a row is 64 bytes, whatever the channels: what lies behind them are other bytes of the same buffer, which weights of
//! zero multiply. Only behind the last position there is nothing, so tile rows that reach there are copied.
//!
//! Where there are few channels, a line of the window is one tap, over lines copied with their padding.

mod copy;
mod end;

use std::mem::MaybeUninit;
use std::ops::Range;

use self::copy::Copy;
pub use self::end::EndCode;
pub(crate) use self::end::FAMILY;
use self::end::{End, EndArgs};
use super::bytes::Added;
use super::driver::{Operands, QuantizedBlocks};
use super::tile::{Form, Output};
use super::weights::{Layout, Panelling};
use crate::cpu::CodeSource;
use crate::cpu::conv::ConvShape;
use crate::cpu::conv::shape::Phase;
use crate::cpu::conv::unit::cuts;
use crate::cpu::conv::unit::grid::Grid;
use crate::cpu::gemm::model::second_cache;
use crate::cpu::gemm::rows::part;
use crate::cpu::gemm::shared::Shared;
use crate::cpu::matrix::fetch::Lines;
use crate::cpu::matrix::{Factors, Held, Multiply, MultiplyArgs, MultiplyCode, PANEL, STEP_BYTES, TALLEST, TILE_ROWS};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::Given;
use crate::parallel::Parallel;

/// Tile rows by panels whose sums are put down before they are ended: 8 KiB of them, which stay in the first cache beside what is
/// multiplied. 32 KiB took up to 1.06 times as long.
const SUMS: usize = 4;

/// Tile rows from which on panels are fetched before they are needed.
const MANY: usize = 8;

/// The sums of [`SUMS`] tile rows.
#[repr(align(64))]
struct Sums(MaybeUninit<[i32; SUMS * TILE_ROWS * PANEL]>);

/// Bytes that scratch is aligned to.
const ALIGNMENT: usize = 64;

/// A product or convolution on the matrix unit.
#[derive(Clone, Debug)]
pub(super) struct OnUnit {
    shape: ConvShape,
    output: Output,
    pub(super) panelling: Panelling,
    grid: Grid,
    phase: Phase,
    copy: Copy,
    /// Distances of taps in bytes.
    taps: Vec<isize>,
    /// Steps of each.
    steps: usize,
    /// Whether the input is read where it is.
    in_place: bool,
    /// Whether all weights of a group stay in the second cache.
    near: bool,
    /// Lines of outputs of a band.
    band: usize,
    row_tasks: usize,
    unit_tasks: usize,
    /// For unsigned and signed bytes.
    multiply: [Multiply; 2],
    end: End,
}

/// The buffers of one run, as tasks see them.
struct Buffers<'a> {
    operands: &'a Operands<'a>,
    /// The copy.
    bytes: Shared<u8>,
    y: Shared<u8>,
}

/// What the chunks of a task have in common.
struct Part<'a> {
    lines: &'a Range<usize>,
    held: Held<'a>,
    args: MultiplyArgs,
    /// Distances of taps in the group that was last.
    taps: Vec<isize>,
    group: usize,
}

/// Some lines of outputs, and where its tile rows start.
struct Band {
    lines: Range<usize>,
    starts: Vec<usize>,
}

/// Grid and phase of a convolution; a line of the window is one tap of `lines`.
fn plan(shape: &ConvShape, lines: bool) -> (Grid, Phase) {
    let mut phases = shape.phases();
    let grid = if lines { Grid::of_lines(shape, &phases) } else { Grid::new(shape, &phases, false) };
    let mut phase = phases.swap_remove(0);
    if lines {
        phase.taps = phase.taps.iter().step_by(shape.kernel[2]).copied().collect();
    }
    (grid, phase)
}

/// Whether scratch for that convolution can be counted.
pub(super) fn fits(shape: &ConvShape) -> bool {
    let along = |dim: usize| {
        let reach = (shape.kernel[dim] - 1) * shape.dilations[dim];
        (shape.input[dim].max(shape.output[dim]) + shape.pads[dim] + reach + TILE_ROWS) as u128
    };
    let regions: u128 = (0..3).map(|dim| shape.strides[dim].min(shape.kernel[dim]) as u128).product();
    let steps = shape.strides.iter().map(|&stride| stride as u128).product::<u128>();
    let position = (shape.channels as u128).checked_mul(regions * steps);
    let positions = (0..3).try_fold(shape.batch as u128, |total, dim| total.checked_mul(along(dim)));
    let all = positions.and_then(|positions| positions.checked_mul(position?));
    all.is_some_and(|bytes| bytes <= isize::MAX as u128 / 64)
}

/// Lines of outputs of a band on that many threads: those whose copy takes a quarter of a thread's second cache, so that it is
/// there still when it is read. Weights that do not stay there are fetched once for each band, so then bands are longer.
pub(super) fn band(isa: Isa, shape: &ConvShape, panelling: &Panelling, lines: bool, threads: usize) -> usize {
    let (grid, _) = plan(shape, lines);
    let line = grid.regions() * grid.line() * Copy::new(shape, lines).position();
    let near = near(isa, panelling);
    let bytes = if near { second_cache(isa) / 4 } else { second_cache(isa) };
    // Lines that two bands read are copied twice.
    let band = (bytes * threads / line.max(1)).saturating_sub(grid.halo()).max(2 * grid.halo());
    // A second band that is short costs all weights once more.
    let band = if !near && grid.lines() <= band + band / 2 { grid.lines() } else { band };
    band.clamp(1, grid.lines().max(1))
}

/// Whether all packed weights of a group stay in the second cache beside what they are multiplied with.
fn near(isa: Isa, panelling: &Panelling) -> bool {
    panelling.panels * panelling.panel_bytes() <= second_cache(isa) / 2
}

impl OnUnit {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        (output, added): (Output, Added),
        blocks: QuantizedBlocks,
        lines: bool,
        source: &dyn CodeSource,
    ) -> Result<OnUnit> {
        let panelling = Panelling::of(isa, &shape.weights(), Form::Tiles, lines);
        let (grid, phase) = plan(&shape, lines);
        let copy = Copy::new(&shape, lines);
        let in_place = shape.is_pointwise();
        // Where nothing is copied, bands do nothing but keep tables short.
        let band = if in_place { grid.lines() } else { blocks.row_block.min(grid.lines()) }.max(1);
        let distance = |at| (grid.tap(at, grid.region(band)) * copy.position()) as isize;
        let multiply = |factors| Multiply::of(MultiplyCode { isa, factors, ending: None }, 1..=TALLEST, source);
        Ok(OnUnit {
            taps: phase.taps.iter().map(|tap| distance(tap.at)).collect(),
            steps: panelling.run_groups * Form::Tiles.group() / STEP_BYTES,
            near: near(isa, &panelling),
            multiply: [multiply(Factors::Bytes)?, multiply(Factors::SignedBytes)?],
            end: End::new(EndCode { isa, output, added }, source)?,
            row_tasks: blocks.row_tasks,
            unit_tasks: blocks.unit_tasks,
            shape,
            output,
            panelling,
            grid,
            phase,
            copy,
            in_place,
            band,
        })
    }

    /// Bytes behind a row's first channel of a group that a tap reads.
    fn reach(&self) -> usize {
        self.steps * STEP_BYTES
    }

    /// Positions where a tile row may start that is read where it is.
    fn own(&self) -> usize {
        let channels = self.shape.channels;
        // What the last row of a tile reads behind its own channels.
        let behind = self.reach().saturating_sub(self.shape.group_channels());
        let last = (self.grid.lines() * self.grid.line() * channels).checked_sub(TILE_ROWS * channels + behind);
        last.map_or(0, |last| last / channels.max(1) + 1)
    }

    /// Words of scratch that [`OnUnit::run`] needs.
    pub(super) fn scratch_len(&self) -> usize {
        let places = match self.in_place {
            true => self.grid.lines() * self.grid.line() - self.own() + TILE_ROWS,
            false => self.grid.regions() * self.grid.region(self.band),
        };
        (places * self.copy.position() + self.reach() + ALIGNMENT).div_ceil(4)
    }

    /// Computes all outputs; `scratch` is [`OnUnit::scratch_len`] long at least.
    pub(super) fn run(&self, operands: &Operands<'_>, y: &mut [u8], scratch: &mut [i32], parallel: &dyn Parallel) {
        let scratch: &mut [u8] = bytemuck::cast_slice_mut(scratch);
        let aligned = scratch.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let scratch = &mut scratch[aligned..];
        if self.in_place {
            let last = &operands.x[self.own() * self.shape.channels..];
            scratch[..last.len()].copy_from_slice(last);
        }
        let buffers = Buffers { operands, bytes: Shared::new(scratch), y: Shared::new(y) };
        let (rows, units, lines) = (self.row_tasks, self.unit_tasks, self.grid.lines());
        let bands = lines.div_ceil(self.band);
        let all = self.panelling.groups * self.panelling.panels;
        let mut band = Band { lines: 0..0, starts: Vec::new() };
        for index in 0..bands {
            if parallel.is_stopped() {
                return;
            }
            band.lines = part(lines, bands, index);
            band.starts.clear();
            self.grid.cover(&self.phase, band.lines.clone(), self.shape.output, &mut band.starts);
            if band.starts.is_empty() {
                continue;
            }
            if !self.in_place {
                self.copy.run(&buffers, &self.grid, (&band.lines, self.band), rows * units, parallel);
            }
            parallel.run(rows * units, &|task| {
                let tiles = part(band.starts.len(), rows, task / units);
                self.task(&buffers, &band, tiles, part(all, units, task % units), parallel);
            });
        }
    }

    /// Some tile rows by some panels.
    fn task(
        &self,
        buffers: &Buffers<'_>,
        band: &Band,
        tiles: Range<usize>,
        units: Range<usize>,
        parallel: &dyn Parallel,
    ) {
        if tiles.is_empty() || units.is_empty() {
            return;
        }
        let starts = &band.starts[tiles];
        let rows: Vec<*const u8> = starts.iter().map(|&start| self.tile_row(buffers, &band.lines, start)).collect();
        let taps = self.taps.clone();
        let mut args = MultiplyArgs::empty();
        (args.row_step, args.left_step) = (self.copy.position(), STEP_BYTES);
        (args.taps, args.tap_count, args.steps) = (taps.as_ptr(), taps.len(), self.steps);
        (args.right_next, args.out_next) = (self.panelling.panel_bytes(), PANEL * 4);
        let multiply = &self.multiply[usize::from(buffers.operands.signed)];
        let mut part = Part { lines: &band.lines, held: multiply.hold(), args, taps, group: 0 };
        let mut sums = Sums(MaybeUninit::uninit());
        let panels = self.panelling.panels.clamp(1, SUMS / TALLEST);
        let tiles = SUMS / panels;
        let chunks = || rows.chunks(tiles).zip(starts.chunks(tiles));
        if self.near {
            for chunk in chunks() {
                if parallel.is_stopped() {
                    return;
                }
                cuts(&units, self.panelling.panels, panels)
                    .for_each(|cut| self.chunk(buffers, &mut part, chunk, cut, &mut sums));
            }
            return;
        }
        let count = rows.chunks(tiles).len();
        for cut in cuts(&units, self.panelling.panels, panels) {
            if parallel.is_stopped() {
                return;
            }
            // Few blocks read a panel nearly as fast as it comes, in order and once, as processors expect it.
            let next = (rows.len() >= MANY && cut.end < units.end).then_some(cut.end);
            for (index, chunk) in chunks().enumerate() {
                if let Some(next) = next {
                    self.fetch(buffers, &mut part, chunk.0.len(), (next, cut.len()), (index, count));
                }
                self.chunk(buffers, &mut part, chunk, cut.clone(), &mut sums);
            }
        }
    }

    /// Has the next call, of some tile rows by `panels` panels, fetch its share of as many that follow.
    fn fetch(
        &self,
        buffers: &Buffers<'_>,
        part: &mut Part<'_>,
        tiles: usize,
        (next, panels): (usize, usize),
        (index, count): (usize, usize),
    ) {
        let all = self.panelling.groups * self.panelling.panels;
        let bytes = panels.min(all - next) * self.panelling.panel_bytes();
        let share = (bytes / count / panels).next_multiple_of(STEP_BYTES);
        let weights = buffers.operands.weights[next * self.panelling.panel_bytes()..].as_ptr();
        let lines = Lines::all(weights.wrapping_add(index * share * panels), share);
        let steps = (tiles / TALLEST).max(1) * self.taps.len() * self.steps;
        part.args.fetches.set(&[None, Some(lines), None], steps);
    }

    /// A chunk: tile rows by panels of one group, of which all sums are put down before they are ended.
    fn chunk(
        &self,
        buffers: &Buffers<'_>,
        part: &mut Part<'_>,
        (rows, starts): (&[*const u8], &[usize]),
        units: Range<usize>,
        sums: &mut Sums,
    ) {
        let (group, first) = (units.start / self.panelling.panels, units.start % self.panelling.panels);
        if part.group != group {
            let further = (group * self.shape.group_channels()) as isize;
            part.taps.iter_mut().zip(&self.taps).for_each(|(tap, plain)| *tap = plain + further);
            part.group = group;
        }
        let width = units.len() * PANEL;
        let given = buffers.operands.given.clone().write("sums", std::slice::from_mut(sums));
        let given = given.read("taps", &part.taps).read("tile rows", rows);
        let sums = sums.0.as_mut_ptr().cast::<i32>();
        let pairs = rows.len() / TALLEST;
        let args = &mut part.args;
        (args.out_step, args.panels) = (width * 4, units.len());
        args.right = buffers.operands.weights[units.start * self.panelling.panel_bytes()..].as_ptr().cast();
        args.start = buffers.operands.start[units.start * PANEL..].as_ptr();
        for (height, from, blocks) in [(TALLEST, 0, pairs), (1, pairs * TALLEST, rows.len() % TALLEST)] {
            if blocks > 0 {
                (args.blocks, args.rows) = (blocks, rows[from..].as_ptr());
                args.out = sums.wrapping_add(from * TILE_ROWS * width).cast();
                // SAFETY: all places that tile rows of this band read were counted into scratch, or lie in the input;
                // there is room for the sums of a chunk, of which a block writes its own. The list of taps lives as
                // long as the part.
                unsafe { part.held.call(height, args, &given) };
                args.fetches.stop();
            }
        }
        let columns = width.min(self.shape.group_filters() - first * PANEL);
        let finish = &buffers.operands.finish;
        let mut end = match &buffers.operands.plus {
            Some(plus) => EndArgs::plus(finish, plus, units.start * PANEL, columns),
            None => EndArgs::new(finish, units.start * PANEL, columns),
        };
        (end.from_step, end.to_step) = (width * 4, self.shape.filters * self.output.bytes());
        let column = group * self.shape.group_filters() + first * PANEL;
        self.finish(buffers, part.lines, (starts, sums), column, end, &given);
    }

    /// Where a tile row of a band starts.
    fn tile_row(&self, buffers: &Buffers<'_>, lines: &Range<usize>, start: usize) -> *const u8 {
        let mut at = start;
        if self.in_place {
            let (position, own) = (lines.start * self.grid.line() + start, self.own());
            if position < own {
                return buffers.operands.x[position * self.shape.channels..].as_ptr();
            }
            at = position - own;
        }
        buffers.bytes.at(at * self.copy.position()).cast_const()
    }

    /// Ends the sums of tile rows from a column on: writes those that belong to outputs.
    fn finish(
        &self,
        buffers: &Buffers<'_>,
        lines: &Range<usize>,
        (starts, sums): (&[usize], *const i32),
        column: usize,
        mut args: EndArgs,
        given: &Given,
    ) {
        let (line, last) = (self.grid.line(), lines.len() * self.grid.line());
        // Lines without gaps between their outputs are one.
        let dense = self.grid.is_dense(&self.phase);
        let (stride, count) = if dense { (last, last) } else { (line, self.phase.count[2]) };
        let mut tile = 0;
        while tile < starts.len() {
            let next = starts[tile..].windows(2).take_while(|pair| pair[1] == pair[0] + TILE_ROWS).count() + 1;
            let (start, sums) = (starts[tile], sums.wrapping_byte_add(tile * TILE_ROWS * args.from_step));
            let end = (start + next * TILE_ROWS).min(last);
            let mut at = start;
            while at < end {
                let (index, place) = (at / stride, at % stride);
                let rows = count.saturating_sub(place).min(end - at);
                let output = self.grid.output(&self.phase, lines.start + index, self.shape.output);
                if let (Some(output), true) = (output, rows > 0) {
                    args.from = sums.wrapping_byte_add((at - start) * args.from_step);
                    let element = (output + place) * self.shape.filters + column;
                    args.to = buffers.y.at(element * self.output.bytes());
                    if let Some(plus) = &buffers.operands.plus {
                        args.other = plus.data[element..].as_ptr();
                    }
                    args.rows = rows;
                    // SAFETY: these sums have just been put down; factors and addends are whole panels, and tasks have
                    // disjoint rows or columns of the result.
                    unsafe { self.end.call(&args, given) };
                }
                at += (stride - place).min(end - at);
            }
            tile += next;
        }
    }
}

/// How such weights are packed.
pub(super) fn layout(form: Form, lines: bool) -> Layout {
    Layout::Panels { form, vectors: PANEL / Isa::Avx512.lanes(), lines }
}
