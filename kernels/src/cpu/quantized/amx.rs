//! Quantised products and convolutions on [AMX](crate::cpu::amx).
//!
//! Left-hand bytes keep their zero point, which is subtracted in the start values of sums; signed and unsigned bytes
//! have micro-kernels of their own. Windows of one position without stride read the input in place. For other windows a
//! run goes through *bands* of output lines and copies a band's input into scratch with its padding ([`im2col`];
//! [`Grid`] says where positions lie), so that AMX reads neighbouring positions as the rows of a tile.
//!
//! A step of a row is 64 bytes, whatever the channels: the bytes behind them are multiplied by weights of zero. Behind
//! the last position there is nothing to read, so tile rows that reach beyond it are copied.
//!
//! With few channels a line of the window is one tap, over lines copied with their padding.

mod epilogue;
mod im2col;

use std::ops::Range;

use self::epilogue::EpilogueArgs;
pub(crate) use self::epilogue::FAMILY;
pub use self::epilogue::QuantizedEpilogueCode;
use self::im2col::Im2col;
use super::blocks::QuantizedBlocks;
use super::bytes::Added;
use super::operands::Operands;
use super::tile::Form;
use super::weights::Panelling;
use crate::cpu::amx::prefetch::{PrefetchLines, Share};
use crate::cpu::amx::{
    self, BLOCK, Block, Factors, Held, Multiply, MultiplyArgs, MultiplyCode, PANEL, STEP_BYTES, TALLEST, TILE_ROWS,
};
use crate::cpu::conv::ConvShape;
use crate::cpu::conv::amx::grid::{self, Grid};
use crate::cpu::conv::amx::order::{Step, steps};
use crate::cpu::conv::shape::Phase;
use crate::cpu::gemm::model::l2_bytes;
use crate::cpu::gemm::rows::part;
use crate::cpu::{CodeKey, CodeSource, Emitted};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::Given;
use crate::memory::Collect;
use crate::parallel::{Disjoint, Parallel};
use crate::problem::quantized::Output;

/// Tile rows by panels of a chunk: 8 KiB of sums, which stay in L1 beside the operands. 32 KiB took up to 1.06 times as
/// long.
const SUMS: usize = 4;

/// Number of tile rows from which on panels are prefetched.
const MANY: usize = 8;

/// The sums of a chunk.
type Sums = amx::Sums<i32, { SUMS * BLOCK }>;

/// Bytes that scratch is aligned to.
const ALIGNMENT: usize = 64;

/// A product or convolution on AMX.
#[derive(Clone, Debug)]
pub(super) struct Amx {
    shape: ConvShape,
    output: Output,
    pub(super) panelling: Panelling,
    grid: Grid,
    phase: Phase,
    im2col: Im2col,
    /// Byte offset of each tap from a tile row's address.
    taps: Vec<isize>,
    /// Steps of each tap.
    steps: usize,
    /// Whether the input is read in place.
    in_place: bool,
    /// Whether all weights of a group stay in L2.
    weights_in_l2: bool,
    /// Output lines of a band.
    band: usize,
    row_tasks: usize,
    unit_tasks: usize,
    /// The micro-kernels for unsigned and for signed left-hand bytes.
    multiply: [Multiply; 2],
    kernel: Emitted<QuantizedEpilogueCode>,
}

/// The buffers of one run, as tasks see them.
struct Buffers<'a> {
    operands: &'a Operands<'a>,
    /// Scratch: the copy of a band.
    bytes: Disjoint<'a, u8>,
    y: Disjoint<'a, u8>,
}

/// What the chunks of a task share.
struct Part<'a> {
    lines: &'a Range<usize>,
    held: Held<'a>,
    args: MultiplyArgs,
    /// The epilogue's arguments, whose factors serve all chunks.
    end: EpilogueArgs,
    /// Byte offsets of taps in `group`, the group of the last chunk.
    taps: Vec<isize>,
    group: usize,
}

/// Tile rows by panels of one group, all of whose sums are stored before the epilogue.
struct Chunk<'a> {
    /// Addresses of tile rows.
    rows: &'a [*const u8],
    /// Their positions in the band.
    starts: &'a [usize],
    /// Panels, numbered over all groups.
    panels: Range<usize>,
    /// Room for the sums.
    sums: *mut i32,
}

/// Some of a chunk's tile rows by some of its panels.
struct Piece {
    tiles: Range<usize>,
    panels: Range<usize>,
}

impl Chunk<'_> {
    /// Columns of the sums.
    fn width(&self) -> usize {
        self.panels.len() * PANEL
    }

    fn whole(&self) -> Piece {
        Piece { tiles: 0..self.rows.len(), panels: self.panels.clone() }
    }

    /// Two halves of the panels, or of the tile rows by the one panel.
    fn halves(&self) -> [Piece; 2] {
        [0, 1].map(|half| {
            let Piece { tiles, panels } = self.whole();
            match panels.len() {
                0 | 1 => Piece { tiles: self.half(half), panels },
                count => {
                    let own = part(count, 2, half);
                    Piece { tiles, panels: panels.start + own.start..panels.start + own.end }
                }
            }
        })
    }

    /// The first or second half of the tile rows.
    fn half(&self, half: usize) -> Range<usize> {
        part(self.rows.len(), 2, half)
    }
}

/// The output lines of a band, and the positions at which its tile rows start.
struct Band {
    lines: Range<usize>,
    starts: Vec<usize>,
}

/// Grid and phase of a convolution; with `lines`, a line of the window is one tap.
fn plan(shape: &ConvShape, lines: bool) -> (Grid, Phase) {
    let mut phases = shape.phases();
    let grid = if lines { Grid::of_lines(shape, &phases) } else { Grid::new(shape, &phases, false) };
    let mut phase = phases.swap_remove(0);
    if lines {
        phase.taps = phase.taps.iter().step_by(shape.kernel()[2]).copied().collected();
    }
    (grid, phase)
}

/// Whether scratch for this convolution can be counted.
pub(super) fn fits(shape: &ConvShape) -> bool {
    let steps = shape.strides().iter().map(|&stride| stride as u128).product::<u128>();
    let position = (shape.channels() as u128).checked_mul(steps);
    let all = grid::most_positions(shape).and_then(|positions| positions.checked_mul(position?));
    all.is_some_and(|bytes| bytes <= isize::MAX as u128 / 64)
}

/// Output lines of a band on `threads` threads: the copy takes a quarter of a thread's L2, so that it is still there
/// when it is read. Weights that do not stay in L2 are read again for each band, so bands are then longer.
pub(super) fn band(shape: &ConvShape, panelling: &Panelling, lines: bool, threads: usize) -> usize {
    let (grid, _) = plan(shape, lines);
    let line = grid.regions() * grid.line() * Im2col::new(shape, lines).position();
    let weights_in_l2 = weights_in_l2(panelling);
    let bytes = if weights_in_l2 { l2_bytes() / 4 } else { l2_bytes() };
    grid.band(line, bytes * threads, weights_in_l2)
}

/// Whether all packed weights of a group stay in L2 beside the copy that they are multiplied with.
fn weights_in_l2(panelling: &Panelling) -> bool {
    panelling.panels * panelling.panel_bytes() <= l2_bytes() / 2
}

impl Amx {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        output: Output,
        added: Added,
        blocks: QuantizedBlocks,
        lines: bool,
        source: &dyn CodeSource,
    ) -> Result<Amx> {
        let panelling = Panelling::of(isa, &shape.weights(), Form::Tiles, lines);
        let (grid, phase) = plan(&shape, lines);
        let im2col = Im2col::new(&shape, lines);
        let in_place = shape.is_pointwise();
        // Without a copy, bands only keep tables short.
        let band = if in_place { grid.lines() } else { blocks.row_block().min(grid.lines()) }.max(1);
        let distance = |at| (grid.tap(at, grid.region(band)) * im2col.position()) as isize;
        let multiply = |factors| Multiply::of(MultiplyCode { isa, factors, epilogue: None }, 1..=TALLEST, source);
        Ok(Amx {
            taps: phase.taps.iter().map(|tap| distance(tap.at)).collected(),
            steps: panelling.run_groups * Form::Tiles.group() / STEP_BYTES,
            weights_in_l2: weights_in_l2(&panelling),
            multiply: [multiply(Factors::Bytes)?, multiply(Factors::SignedBytes)?],
            kernel: Emitted::new(QuantizedEpilogueCode { isa, output, added }, CodeKey::QuantizedEpilogue, source)?,
            row_tasks: blocks.row_tasks(),
            unit_tasks: blocks.unit_tasks(),
            shape,
            output,
            panelling,
            grid,
            phase,
            im2col,
            in_place,
            band,
        })
    }

    /// Bytes of a row that a tap reads, from the group's first channel on.
    fn reach(&self) -> usize {
        self.steps * STEP_BYTES
    }

    /// Positions at which a tile row can start and be read in place.
    fn in_place_starts(&self) -> usize {
        let channels = self.shape.channels();
        // Bytes that the last row of a tile reads behind its own channels.
        let behind = self.reach().saturating_sub(self.shape.group_channels());
        let last = (self.grid.lines() * self.grid.line() * channels).checked_sub(TILE_ROWS * channels + behind);
        last.map_or(0, |last| last / channels.max(1) + 1)
    }

    /// Words of scratch that [`Amx::run`] needs.
    pub(super) fn scratch_len(&self) -> usize {
        let places = match self.in_place {
            true => self.grid.lines() * self.grid.line() - self.in_place_starts() + TILE_ROWS,
            false => self.grid.regions() * self.grid.region(self.band),
        };
        (places * self.im2col.position() + self.reach() + ALIGNMENT).div_ceil(4)
    }

    /// Computes all outputs; `scratch` is [`Amx::scratch_len`] long at least.
    pub(super) fn run(&self, operands: &Operands<'_>, y: &mut [u8], scratch: &mut [i32], parallel: &dyn Parallel) {
        let scratch: &mut [u8] = bytemuck::cast_slice_mut(scratch);
        let aligned = scratch.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let scratch = &mut scratch[aligned..];
        if self.in_place {
            let last = &operands.x[self.in_place_starts() * self.shape.channels()..];
            scratch[..last.len()].copy_from_slice(last);
        }
        let buffers = Buffers { operands, bytes: Disjoint::new(scratch), y: Disjoint::new(y) };
        let (rows, columns, lines) = (self.row_tasks, self.unit_tasks, self.grid.lines());
        let bands = lines.div_ceil(self.band);
        let all = self.panelling.groups * self.panelling.panels;
        let mut band = Band { lines: 0..0, starts: Vec::new() };
        for index in 0..bands {
            if parallel.is_stopped() {
                return;
            }
            band.lines = part(lines, bands, index);
            band.starts.clear();
            self.grid.cover(&self.phase, band.lines.clone(), self.shape.output(), &mut band.starts);
            if band.starts.is_empty() {
                continue;
            }
            if !self.in_place {
                self.copy(&buffers, &band.lines, rows * columns, parallel);
            }
            parallel.run(rows * columns, &|task| {
                let tiles = part(band.starts.len(), rows, task / columns);
                self.task(&buffers, &band, tiles, part(all, columns, task % columns), parallel);
            });
        }
    }

    /// Copies the input that the lines of a band read, in `tasks` tasks.
    fn copy(&self, buffers: &Buffers<'_>, lines: &Range<usize>, tasks: usize, parallel: &dyn Parallel) {
        let position = self.im2col.position();
        let Operands { x, left_zero, .. } = *buffers.operands;
        parallel.run(tasks, &|task| {
            for line in self.grid.copied_lines(lines, self.band, tasks, task) {
                // SAFETY: lines of regions are disjoint parts of scratch.
                let to = unsafe { buffers.bytes.part(line.places.start * position..line.places.end * position) };
                self.im2col.copy(x, &self.grid, &line, left_zero as u8, to);
            }
        });
    }

    /// A task: some tile rows by some panels, numbered over all groups.
    fn task(
        &self,
        buffers: &Buffers<'_>,
        band: &Band,
        tiles: Range<usize>,
        group_panels: Range<usize>,
        parallel: &dyn Parallel,
    ) {
        if tiles.is_empty() || group_panels.is_empty() {
            return;
        }
        let starts = &band.starts[tiles];
        let rows = starts.iter().map(|&start| self.tile_row(buffers, &band.lines, start)).collected();
        let taps = self.taps.clone();
        let mut args = MultiplyArgs::empty();
        (args.row_stride, args.left_stride) = (self.im2col.position(), STEP_BYTES);
        (args.taps, args.tap_count, args.steps) = (taps.as_ptr(), taps.len(), self.steps);
        (args.panel_stride, args.out_panel_stride) = (self.panelling.panel_bytes(), PANEL * 4);
        let multiply = &self.multiply[usize::from(buffers.operands.signed)];
        let end = EpilogueArgs::new(&buffers.operands.epilogue, buffers.operands.plus.as_ref());
        let mut part = Part { lines: &band.lines, held: multiply.hold(), args, end, taps, group: 0 };
        let mut sums = [Sums::uninit(), Sums::uninit()];
        let given = buffers.operands.given.clone().write("sums", &mut sums).read("tile rows", &rows);
        let turns = sums.each_mut().map(Sums::first);
        let panels = self.panelling.panels.clamp(1, SUMS / TALLEST);
        let tiles = SUMS / panels;
        let chunks = rows.len().div_ceil(tiles);
        let mut waiting = None;
        let order = steps(self.weights_in_l2, chunks, &group_panels, self.panelling.panels, panels);
        // After some 400 ns without a product of tiles, the next one comes 260 ns late (docs/performance/intel-amx.md).
        // An epilogue with a residual takes longer, so each half of a chunk is multiplied before half of the last
        // chunk's epilogue.
        let in_turns = buffers.operands.plus.is_some();
        let mut turn = 0;
        for Step { chunk: index, panels } in order {
            if parallel.is_stopped() {
                return;
            }
            let own = index * tiles..rows.len().min((index + 1) * tiles);
            // Few blocks read a panel nearly as fast as it comes from memory, in order and once, which hardware
            // prefetchers follow.
            if !self.weights_in_l2 && rows.len() >= MANY && panels.end < group_panels.end {
                let share = Share { before: index, of: chunks };
                self.prefetch(buffers, &mut part, own.len(), &panels, share);
            }
            let chunk = Chunk { rows: &rows[own.clone()], starts: &starts[own], panels, sums: turns[turn] };
            let given = given.clone().read("taps", self.taps_of(&mut part, &chunk));
            if !in_turns {
                self.multiply(buffers, &mut part, &chunk, chunk.whole(), &given);
                self.finish(buffers, &mut part, &chunk, 0..chunk.rows.len(), &given);
                continue;
            }
            for (half, piece) in chunk.halves().into_iter().enumerate() {
                self.multiply(buffers, &mut part, &chunk, piece, &given);
                if let Some(before) = &waiting {
                    self.finish(buffers, &mut part, before, before.half(half), &given);
                }
            }
            (waiting, turn) = (Some(chunk), 1 - turn);
        }
        if let Some(last) = waiting {
            self.finish(buffers, &mut part, &last, 0..last.rows.len(), &given);
        }
    }

    /// Sets the prefetch streams of the next call, for `tiles` tile rows by the panels of `cut`: the call's share of
    /// the same number of panels behind these.
    fn prefetch(&self, buffers: &Buffers<'_>, part: &mut Part<'_>, tiles: usize, cut: &Range<usize>, share: Share) {
        let (next, panels) = (cut.end, cut.len());
        let all = self.panelling.groups * self.panelling.panels;
        let bytes = panels.min(all - next) * self.panelling.panel_bytes();
        let bytes = (bytes / share.of / panels).next_multiple_of(STEP_BYTES);
        let weights = buffers.operands.weights.at(next * self.panelling.panel_words());
        let lines = PrefetchLines::all(weights.wrapping_add(share.before * bytes * panels), bytes);
        let steps = (tiles / TALLEST).max(1) * self.taps.len() * self.steps;
        part.args.prefetch(&[None, Some(lines), None], steps);
    }

    /// The taps of a chunk's group.
    fn taps_of<'a>(&self, part: &'a mut Part<'_>, chunk: &Chunk<'_>) -> &'a [isize] {
        let group = chunk.panels.start / self.panelling.panels;
        if part.group != group {
            let further = (group * self.shape.group_channels()) as isize;
            part.taps.iter_mut().zip(&self.taps).for_each(|(tap, plain)| *tap = plain + further);
            part.group = group;
        }
        &part.taps
    }

    /// Stores the sums of a piece of a chunk.
    fn multiply(&self, buffers: &Buffers<'_>, part: &mut Part<'_>, chunk: &Chunk<'_>, piece: Piece, given: &Given) {
        let Piece { tiles, panels } = piece;
        let (args, width) = (&mut part.args, chunk.width());
        (args.out_stride, args.panels) = (width * 4, panels.len());
        args.right = buffers.operands.weights.at(panels.start * self.panelling.panel_words()).cast();
        args.start = buffers.operands.start[panels.start * PANEL..].as_ptr();
        let sums = chunk.sums.wrapping_add((panels.start - chunk.panels.start) * PANEL);
        for Block { height, first, count } in Block::all(tiles.len()) {
            let from = tiles.start + first;
            (args.blocks, args.rows) = (count, chunk.rows[from..].as_ptr());
            args.out = sums.wrapping_add(from * TILE_ROWS * width).cast();
            // SAFETY: all positions that tile rows of this band read were counted into scratch, or lie in the input;
            // there is room for the sums of a chunk, and a block writes only its own sums. The list of taps lives as
            // long as the part.
            unsafe { part.held.call(height, args, given) };
            args.prefetch_nothing();
        }
    }

    /// Applies the epilogue to some of a chunk's tile rows, whose sums have been stored.
    fn finish(
        &self,
        buffers: &Buffers<'_>,
        part: &mut Part<'_>,
        chunk: &Chunk<'_>,
        tiles: Range<usize>,
        given: &Given,
    ) {
        let (group, first) = (chunk.panels.start / self.panelling.panels, chunk.panels.start % self.panelling.panels);
        let columns = chunk.width().min(self.shape.group_filters() - first * PANEL);
        let end = &mut part.end;
        end.at(&buffers.operands.epilogue, chunk.panels.start * PANEL, columns);
        let sums = chunk.sums.wrapping_add(tiles.start * TILE_ROWS * chunk.width()).cast_const();
        (end.area.from, end.area.from_stride, end.area.to_stride) =
            (sums, chunk.width() * 4, self.shape.filters() * self.output.bytes());
        end.ahead = chunk.rows.len() * TILE_ROWS * end.area.to_stride;
        let column = group * self.shape.group_filters() + first * PANEL;
        self.epilogue(buffers, part.lines, &chunk.starts[tiles], column, end, given);
    }

    /// Address of the tile row that starts at position `start` of a band.
    fn tile_row(&self, buffers: &Buffers<'_>, lines: &Range<usize>, start: usize) -> *const u8 {
        let mut at = start;
        if self.in_place {
            let (position, in_place) = (lines.start * self.grid.line() + start, self.in_place_starts());
            if position < in_place {
                return buffers.operands.x[position * self.shape.channels()..].as_ptr();
            }
            at = position - in_place;
        }
        buffers.bytes.at(at * self.im2col.position()).cast_const()
    }

    /// Applies the epilogue to the sums of tile rows from a column on, and writes the rows that are outputs. `args`
    /// serve all rows.
    fn epilogue(
        &self,
        buffers: &Buffers<'_>,
        lines: &Range<usize>,
        starts: &[usize],
        column: usize,
        args: &mut EpilogueArgs,
        given: &Given,
    ) {
        let (filters, sums) = (self.shape.filters(), args.area.from);
        self.grid.outputs(&self.phase, lines, starts, self.shape.output(), |row, position, rows| {
            let element = position * filters + column;
            args.area.from = sums.wrapping_byte_add(row * args.area.from_stride);
            args.area.to = buffers.y.at(element * self.output.bytes());
            if let Some(plus) = &buffers.operands.plus {
                args.other = plus.data[element..].as_ptr();
            }
            args.area.rows = rows;
            // SAFETY: these sums have been stored; factors and addends are whole panels, and tasks have disjoint rows
            // or columns of the result.
            unsafe { self.kernel.call(args, given) };
        });
    }
}
