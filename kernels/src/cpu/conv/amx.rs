//! Convolutions in `bf16` on [AMX](crate::cpu::amx).
//!
//! Activations are `f32` or `bf16` on both sides. A run goes through *bands* of output lines. For each band it copies
//! the input that the band reads into scratch, converted to bf16 pairs, channels padded with zeros to whole AMX steps
//! and the convolution's padding written out ([`im2col`]; [`grid`] says where positions lie). AMX then reads
//! neighbouring positions as the rows of a tile, and each packed panel of weights is multiplied with all tile rows of
//! the band. Bands are short enough that the copy stays in L2. With many lines each task has bands of its own, and
//! threads meet once; with few lines all threads share the work of each band.
//!
//! Input stored as `bf16` is read in place if one output reads each position (1x1, stride 1) and its positions are a
//! whole number of steps long, or a whole number of one shorter length. Only the last positions are copied, as many as
//! a tile row has: a tile row that starts there would read past the end.
//!
//! With few channels a whole line of the window is one tap, and the copy is an im2col of lines: for each output it
//! holds the elements that a line of the window reads. This choice depends on the weights alone, because their layout
//! does.

pub(crate) mod grid;
mod im2col;
pub(crate) mod order;

use std::ops::Range;

use self::grid::Grid;
use self::im2col::{Im2col, PaddedLine};
use self::order::{Step, steps};
use super::blocks::{ConvBlocks, ConvStored};
use super::extras::EpilogueOperands;
use super::input::{self, ConvPart};
use super::shape::Phase;
use super::weights::Weights;
use crate::cpu::amx::prefetch::{LINE, PrefetchLines, Share};
use crate::cpu::amx::{
    self, BLOCK, Block, Columns, Factors, FusedEpilogue, Held, Multiply, MultiplyArgs, MultiplyCode, PANEL, STEP,
    STEP_WORDS, Stretch, TALLEST, TILE_ROWS,
};
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::Panels;
use crate::cpu::gemm::model::l2_bytes;
use crate::cpu::gemm::rows::part;
use crate::cpu::{Activations, ActivationsMut, CodeSource, PackedWeights, Stored};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::Given;
use crate::memory::Collect;
use crate::parallel::{Disjoint, Parallel, Serial};
use crate::problem::conv::ConvShape;

/// Tile rows by panels whose sums wait for their epilogue: 16 KiB of sums, which stay in L1 beside the operands.
const SUMS: usize = 8;

/// The sums of [`SUMS`] tile rows by a panel.
type Sums = amx::Sums<f32, { SUMS * BLOCK }>;

/// Tile rows of a chunk, which is multiplied with all panels, where the weights stay in L2.
const CHUNK_IN_L2: usize = 4;

/// Number of tile rows from which on panels are prefetched.
const MANY: usize = 8;

/// Factor of the length of bands that are read in place.
const LONGER: usize = 8;

/// Words by which scratch may have to be moved to start at a cache line.
const ALIGNMENT: usize = 16;

/// A convolution on AMX.
#[derive(Clone, Debug)]
pub(super) struct Amx {
    shape: ConvShape,
    stored: ConvStored,
    /// Whether the input is read in place.
    in_place: bool,
    /// Steps of the reduction of a tap, words from one step to the next, and words of each step that are multiplied.
    steps: usize,
    step: usize,
    words: usize,
    beyond_l2: BeyondL2,
    /// Whether each task has bands of its own, so that no task waits for another.
    private: bool,
    /// Output lines of a band.
    band: usize,
    row_tasks: usize,
    unit_tasks: usize,
    grid: Grid,
    im2col: Im2col,
    phases: Vec<PhasePlan>,
    /// Words of one group's packed weights.
    group_len: usize,
    /// Whether all weights of a group stay in L2.
    weights_in_l2: bool,
    /// Micro-kernels with epilogue, for whole panels and for a group's last panel if that is partial.
    whole: Option<Multiply>,
    last: Option<Multiply>,
}

/// A phase of the convolution: the part that is known before the data.
#[derive(Clone, Debug)]
struct PhasePlan {
    phase: Phase,
    panels: Panels,
    /// Word offset of the phase's weights in those of a group.
    weights: usize,
    /// Byte offset of each tap from a tile row's address.
    taps: Vec<isize>,
}

/// The buffers of one run, as tasks see them.
#[derive(Clone, Copy)]
struct Buffers<'a> {
    /// The input; a single part where it is read in place.
    parts: &'a [ConvPart<'a>],
    weights: PackedWeights<'a>,
    y: Disjoint<'a, u8>,
    extras: EpilogueOperands<'a>,
    /// Scratch: the copy of a band.
    words: Disjoint<'a, f32>,
}

/// What the chunks of a task share.
struct Part<'a> {
    plan: &'a PhasePlan,
    lines: &'a Range<usize>,
    whole: Option<Held<'a>>,
    last: Option<Held<'a>>,
    args: MultiplyArgs,
    /// Byte offsets of taps in `group`, the group of the last chunk.
    taps: Vec<isize>,
    group: usize,
    stretches: Vec<Stretch>,
}

/// The output lines of a band, and for each phase the positions at which its tile rows start.
struct Band {
    lines: Range<usize>,
    starts: Vec<Vec<usize>>,
}

/// Tile rows of a chunk: their addresses and their positions in the band.
struct Chunk<'a> {
    rows: &'a [*const u8],
    starts: &'a [usize],
    /// The first output of the rows, if outputs follow each other.
    output: Option<usize>,
}

/// The panels of one call.
struct CallPanels {
    group: usize,
    /// Column of the output that the first panel's first column is.
    column: usize,
    count: usize,
}

/// Blocks of one height, the first output column of their panels, and how many columns of the panels are outputs.
struct Rows<'a> {
    height: usize,
    starts: &'a [usize],
    column: usize,
    columns: usize,
}

/// The first operands that are read after a chunk, and the share of them that the chunk prefetches.
struct Next<'a> {
    /// Tile rows of the next chunk.
    rows: &'a [*const u8],
    /// The share of a call in prefetching these rows. Calls are counted in panels: those before this call, of all
    /// panels that are multiplied with this chunk.
    rows_share: Share,
    /// The first output of those rows, if outputs follow each other.
    output: Option<usize>,
    /// The next panels, numbered over all groups.
    panels: Range<usize>,
    /// The chunks that prefetch these panels: those before this one, of all.
    panels_share: Share,
}

/// Which tensors are larger than the L2 of all threads together, so that most of their lines come from memory.
/// Prefetching data that a cache holds costs more than it gains: mobilenet_v2's layers of 0.2 to 1.2 MB took up to 1.3
/// times as long.
#[derive(Clone, Copy, Debug)]
struct BeyondL2 {
    /// The input, if it is read in place.
    input: bool,
    output: bool,
}

impl BeyondL2 {
    fn new(shape: &ConvShape, stored: ConvStored, in_place: bool, threads: usize) -> BeyondL2 {
        let beyond = |len: usize, stored: Stored| len * stored.bytes() > l2_bytes() * 3 / 2 * threads;
        BeyondL2 {
            input: in_place && beyond(shape.input_len(), stored.input),
            output: beyond(shape.output_len(), stored.output),
        }
    }
}

/// Whether scratch can be counted for these blocks and a shape whose weights suit AMX.
pub(super) fn fits(blocks: &ConvBlocks, shape: &ConvShape) -> bool {
    let words = shape.groups() as u128 * Weights::amx_words(&shape.weights()) as u128;
    let all = grid::most_positions(shape).and_then(|positions| positions.checked_mul(words));
    blocks.vectors() * Isa::Avx512.lanes() == PANEL && all.is_some_and(|words| words <= isize::MAX as u128 / 64)
}

/// Whether all packed weights of a group stay in L2 beside the copy that they are multiplied with.
fn weights_in_l2(panels: &[Panels]) -> bool {
    panels.iter().map(Panels::len).sum::<usize>() * 4 <= l2_bytes() / 2
}

/// Output lines of a band on `threads` threads: as many as make the copy take half of each thread's share of L2, so
/// that it is still there when it is read; with a quarter, threads meet twice as often. Weights that do not stay in L2
/// are read again for each band, so bands are then longer.
pub(super) fn band(shape: &ConvShape, threads: usize) -> usize {
    let weights = shape.weights();
    let grid = Grid::new(shape, &shape.phases(), weights.gathers());
    let line = grid.regions() * grid.line() * shape.groups() * weights.amx_words() * 4;
    let weights_in_l2 = weights_in_l2(&weights.amx_panels());
    let bytes = if weights_in_l2 { l2_bytes() / 2 } else { l2_bytes() };
    grid.band(line, bytes * threads, weights_in_l2)
}

/// Whether each task copies its own lines, including those that it shares with a neighbour. It does if it has enough
/// lines: copying some lines twice and an uneven split then cost less than two meetings of all threads for each band.
fn has_private_bands(grid: &Grid, blocks: &ConvBlocks) -> bool {
    let least = blocks.row_tasks().saturating_mul(grid.halo().saturating_mul(8).max(16));
    blocks.unit_tasks() == 1 && grid.lines() >= least
}

/// Fewest words of a step, where a tap has several: each step loads tiles again, and short ones load more than they
/// multiply.
const SHORTEST: usize = 8;

/// Words of the steps in which AMX can read positions in place: whole steps, a single shorter one, or several of one
/// length. A multiplication takes as long as its step has words.
fn step_in_place(shape: &ConvShape) -> Option<usize> {
    let words = shape.channels() / 2;
    if shape.group_channels().is_multiple_of(STEP) {
        return Some(STEP_WORDS);
    }
    if shape.groups() != 1 || !shape.channels().is_multiple_of(2) {
        return None;
    }
    if words < STEP_WORDS {
        return Some(words);
    }
    (SHORTEST..STEP_WORDS).rev().find(|&step| words.is_multiple_of(step))
}

impl Amx {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        blocks: ConvBlocks,
        stored: ConvStored,
        activation: Option<UnaryOp>,
        class_panels: &[Panels],
        source: &dyn CodeSource,
    ) -> Result<Amx> {
        let weights = shape.weights();
        let mut phases = shape.phases();
        let grid = Grid::new(&shape, &phases, weights.gathers());
        if weights.gathers() {
            // The first position of each line of the window stands for the whole line.
            phases
                .iter_mut()
                .for_each(|phase| phase.taps = phase.taps.iter().step_by(shape.kernel()[2]).copied().collected());
        }
        let may_stay = stored.input == Stored::Bf16 && shape.is_pointwise();
        let lies_in = step_in_place(&shape).filter(|_| may_stay);
        let in_place = lies_in.is_some();
        // Without a copy, and with weights in L2, bands only keep the tables of tile rows short.
        let longer = if in_place && weights_in_l2(class_panels) { LONGER } else { 1 };
        let private = !in_place && has_private_bands(&grid, &blocks);
        let (wanted, most) = match private {
            true => (
                (blocks.row_block() / blocks.row_tasks()).max(2 * grid.halo()),
                grid.lines().div_ceil(blocks.row_tasks()),
            ),
            false => (blocks.row_block().saturating_mul(longer), grid.lines()),
        };
        let band = wanted.min(most).max(1);
        let im2col = Im2col::new(isa, &shape, source)?;
        let starts = class_panels.iter().scan(0, |next, panels| {
            let start = *next;
            *next += panels.len();
            Some(start)
        });
        let starts: Vec<usize> = starts.collect();
        let plan = |phase: Phase| {
            let distance = |at| (grid.tap(at, grid.region(band)) * im2col.position() * 4) as isize;
            let taps = phase.taps.iter().map(|tap| distance(tap.at)).collected();
            PhasePlan { panels: class_panels[phase.class], weights: starts[phase.class], taps, phase }
        };
        let ConvStored { residual, output, .. } = stored;
        let multiply = |columns: usize| {
            let epilogue = FusedEpilogue { columns: Columns::of(columns), activation, residual, output };
            let code = MultiplyCode { isa, factors: Factors::Bf16, epilogue: Some(epilogue) };
            (columns > 0).then(|| Multiply::of(code, 1..=TALLEST, source)).transpose()
        };
        let columns = shape.group_filters();
        Ok(Amx {
            weights_in_l2: weights_in_l2(class_panels),
            group_len: class_panels.iter().map(Panels::len).sum(),
            shape,
            band,
            row_tasks: blocks.row_tasks(),
            unit_tasks: blocks.unit_tasks(),
            phases: phases.into_iter().map(plan).collect(),
            whole: multiply(columns / PANEL * PANEL)?,
            last: multiply(columns % PANEL)?,
            beyond_l2: BeyondL2::new(&shape, stored, in_place, blocks.row_tasks().saturating_mul(blocks.unit_tasks())),
            in_place,
            words: lies_in.unwrap_or(im2col.words()),
            step: lies_in.unwrap_or(STEP_WORDS),
            steps: lies_in.map_or(im2col.steps(), |step| shape.group_channels() / 2 / step),
            private,
            stored,
            im2col,
            grid,
        })
    }

    /// Elements of scratch that [`Amx::run`] needs.
    pub(super) fn scratch_len(&self) -> usize {
        let copies = if self.private { self.row_tasks } else { 1 };
        copies * self.copied() + ALIGNMENT
    }

    /// Words of one copy.
    fn copied(&self) -> usize {
        let positions = if self.in_place { 2 * TILE_ROWS } else { self.grid.regions() * self.grid.region(self.band) };
        positions * self.im2col.position()
    }

    /// Bytes held besides code.
    pub(super) fn bytes(&self) -> usize {
        let taps = self.phases.iter().map(|plan| plan.taps.len() * 32).sum::<usize>();
        self.phases.len() * size_of::<PhasePlan>() + taps
    }

    /// Whether the copy can gather its channels from several tensors.
    pub(super) fn takes_parts(&self, channels: &[usize]) -> bool {
        !self.in_place && self.im2col.takes_parts() && input::starts_at(channels, STEP)
    }

    /// Convolves. The driver has checked that every buffer is as long as the shape says.
    pub(super) fn run(
        &self,
        parts: &[ConvPart<'_>],
        weights: PackedWeights<'_>,
        mut y: ActivationsMut<'_>,
        extras: EpilogueOperands<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) {
        let aligned = scratch.as_ptr().align_offset(ALIGNMENT * 4).min(ALIGNMENT);
        let words = Disjoint::new(&mut scratch[aligned..]);
        let buffers = Buffers { parts, weights, y: Disjoint::new(y.bytes_mut()), extras, words };
        if self.in_place {
            self.copy_last(&buffers);
        }
        if !self.private {
            return self.bands(&buffers, 0..self.grid.lines(), [self.row_tasks, self.unit_tasks], parallel);
        }
        parallel.run(self.row_tasks, &|task| {
            let own = Buffers { words: buffers.words.from(task * self.copied()), ..buffers };
            let lines = part(self.grid.lines(), self.row_tasks, task);
            self.bands(&own, lines, [1, 1], &Alone(parallel));
        });
    }

    /// Computes lines band by band, each band split into `rows` parts of its tile rows by `columns` parts of its
    /// panels.
    fn bands(&self, buffers: &Buffers<'_>, lines: Range<usize>, [rows, columns]: [usize; 2], parallel: &dyn Parallel) {
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
                self.grid.cover(&plan.phase, band.lines.clone(), self.shape.output(), starts);
            }
            if band.starts.iter().all(Vec::is_empty) {
                continue;
            }
            if !self.in_place {
                self.copy(buffers, &band.lines, rows * columns, parallel);
            }
            parallel.run(self.phases.len() * rows * columns, &|task| {
                let phase = task / (rows * columns);
                let tiles = part(band.starts[phase].len(), rows, task / columns % rows);
                let all = self.shape.groups() * self.phases[phase].panels.count();
                self.task(buffers, phase, &band, tiles, part(all, columns, task % columns));
            });
        }
    }

    /// Copies the input that the lines of a band read, in `tasks` tasks.
    fn copy(&self, buffers: &Buffers<'_>, lines: &Range<usize>, tasks: usize, parallel: &dyn Parallel) {
        let position = self.im2col.position();
        parallel.run(tasks, &|task| {
            let mut padded = PaddedLine::default();
            for line in self.grid.copied_lines(lines, self.band, tasks, task) {
                // SAFETY: lines of regions are disjoint parts of scratch.
                let to = unsafe { buffers.words.part(line.places.start * position..line.places.end * position) };
                self.im2col.copy(buffers.parts, &self.grid, &line, &mut padded, to);
            }
        });
    }

    /// A task: some tile rows of a phase by some panels, numbered over all groups.
    fn task(&self, buffers: &Buffers<'_>, phase: usize, band: &Band, tiles: Range<usize>, group_panels: Range<usize>) {
        if tiles.is_empty() || group_panels.is_empty() {
            return;
        }
        let plan = &self.phases[phase];
        let starts = &band.starts[phase][tiles];
        let rows = starts.iter().map(|&start| self.tile_row(buffers, &band.lines, start)).collected();
        let taps = plan.taps.clone();
        let mut args = MultiplyArgs::empty();
        (args.row_stride, args.left_stride, args.right_stride) =
            (self.position_words() * 4, self.step * 4, self.step * PANEL * 4);
        (args.taps, args.tap_count, args.steps) = (taps.as_ptr(), taps.len(), self.steps);
        args.panel_stride = plan.panels.panel_len() * 4;
        let [tiles, panels] = self.chunk_size(plan, rows.len());
        let [whole, last] = [&self.whole, &self.last].map(|code| code.as_ref().map(|code| code.hold_for(self.words)));
        let (lines, stretches) = (&band.lines, Vec::with_capacity(tiles));
        let mut part = Part { plan, lines, whole, last, args, taps, group: 0, stretches };
        let mut sums = Sums::uninit();
        let chunks: Vec<Chunk<'_>> = rows
            .chunks(tiles)
            .zip(starts.chunks(tiles))
            .map(|(rows, starts)| {
                let output = self.first_output(&plan.phase, &band.lines, starts);
                Chunk { rows, starts, output }
            })
            .collect();
        for Step { chunk, panels } in
            steps(self.weights_in_l2, chunks.len(), &group_panels, plan.panels.count(), panels)
        {
            let next = self.next(&chunks, chunk, &panels, &group_panels, rows.len());
            self.chunk(buffers, &mut part, &chunks[chunk], &next, panels, &mut sums);
        }
    }

    /// The operands that are read after chunk `index` of a task with `tile_rows` tile rows has been multiplied with
    /// `panels`.
    fn next<'a>(
        &self,
        chunks: &[Chunk<'a>],
        index: usize,
        panels: &Range<usize>,
        group_panels: &Range<usize>,
        tile_rows: usize,
    ) -> Next<'a> {
        let (rows, output) = chunks.get(index + 1).map_or((&[][..], None), |chunk| (chunk.rows, chunk.output));
        if self.weights_in_l2 {
            let rows_share = Share { before: panels.start - group_panels.start, of: group_panels.len() };
            return Next { rows, rows_share, output, panels: 0..0, panels_share: Share::ALL };
        }
        // All rows are in L2 once the first panels have been multiplied with them.
        let fresh = panels.start == group_panels.start;
        // Few blocks read a panel nearly as fast as it comes from memory, in order and once, which hardware prefetchers
        // follow.
        let after = panels.start + 1..group_panels.end.min(panels.end + 1);
        Next {
            rows: if fresh { rows } else { &[] },
            rows_share: Share { before: 0, of: panels.len() },
            output,
            panels: if tile_rows >= MANY { after } else { 0..0 },
            panels_share: Share { before: index, of: chunks.len() },
        }
    }

    /// Tile rows and panels of a chunk. Panels that stay in L2 are all multiplied with few rows; others with as many
    /// rows as there is room for sums.
    fn chunk_size(&self, plan: &PhasePlan, tiles: usize) -> [usize; 2] {
        if self.weights_in_l2 {
            return [CHUNK_IN_L2, plan.panels.count().max(1)];
        }
        let spare = SUMS / tiles.next_multiple_of(TALLEST).min(SUMS);
        let panels = spare.min(plan.panels.count().next_power_of_two()).clamp(1, SUMS / TALLEST);
        [SUMS / panels, panels]
    }

    /// Words from one position to the next in the rows that AMX reads.
    fn position_words(&self) -> usize {
        if self.in_place { self.shape.channels() / 2 } else { self.im2col.position() }
    }

    /// Address of the tile row that starts at position `start` of a band.
    fn tile_row(&self, buffers: &Buffers<'_>, lines: &Range<usize>, start: usize) -> *const u8 {
        let mut at = start;
        if self.in_place {
            let (position, in_place) = (lines.start * self.grid.line() + start, self.in_place_starts());
            if position < in_place {
                return buffers.parts[0]
                    .x
                    .as_ptr()
                    .wrapping_add(position * self.shape.channels() * Stored::Bf16.bytes());
            }
            at = position - in_place;
        }
        buffers.words.at(at * self.position_words()).cast_const().cast()
    }

    /// Positions at which a tile row can start and be read in place.
    fn in_place_starts(&self) -> usize {
        (self.grid.lines() * self.grid.line()).saturating_sub(TILE_ROWS - 1)
    }

    /// Copies the last positions to scratch, for tile rows that read past the end of the input.
    fn copy_last(&self, buffers: &Buffers<'_>) {
        let Activations::Bf16(x) = buffers.parts[0].x else { return };
        let last = &x[self.in_place_starts() * self.shape.channels()..];
        let len = 2 * TILE_ROWS * self.shape.channels();
        // SAFETY: no task runs yet.
        let to: &mut [u16] = bytemuck::cast_slice_mut(unsafe { buffers.words.part(0..len / 2) });
        to[..last.len()].copy_from_slice(last);
        to[last.len()..].fill(0);
    }

    /// Multiplies a chunk's tile rows with panels of one group, and applies the epilogue.
    fn chunk(
        &self,
        buffers: &Buffers<'_>,
        part: &mut Part<'_>,
        chunk: &Chunk<'_>,
        next: &Next<'_>,
        group_panels: Range<usize>,
        sums: &mut Sums,
    ) {
        let (plan, filters) = (part.plan, self.shape.group_filters());
        let (group, first) = (group_panels.start / plan.panels.count(), group_panels.start % plan.panels.count());
        if part.group != group {
            let further = (group * self.im2col.steps() * STEP_WORDS * 4) as isize;
            part.taps.iter_mut().zip(&plan.taps).for_each(|(tap, plain)| *tap = plain + further);
            part.group = group;
        }
        let column = |panel: usize| group * filters + panel * PANEL;
        let right = |panel: usize| {
            let weights = group * self.group_len + plan.weights + panel * plan.panels.panel_len();
            buffers.weights.at(weights).cast()
        };
        let panels = CallPanels { group, column: column(first), count: group_panels.len() };
        self.prefetch(buffers, part, chunk, next, &panels);
        (part.args.out_stride, part.args.out) = (PANEL * 4, sums.first());
        let given = buffers.extras.given.clone().write("sums", std::slice::from_mut(sums));
        let given = given.read("taps", &part.taps).read("tile rows", chunk.rows);
        // Only a group's last panel may be partial.
        let whole = (filters / PANEL - first).min(group_panels.len());
        for Block { height, first: from, count } in Block::all(chunk.rows.len()) {
            (part.args.blocks, part.args.rows) = (count, chunk.rows[from..].as_ptr());
            let starts = &chunk.starts[from..from + count * height];
            for (panel, count, columns) in
                [(first, whole, PANEL), (first + whole, group_panels.len() - whole, filters % PANEL)]
            {
                if count > 0 {
                    (part.args.right, part.args.panels) = (right(panel), count);
                    self.panels(buffers, part, &Rows { height, starts, column: column(panel), columns }, &given);
                    part.args.prefetch_nothing();
                }
            }
        }
    }

    /// Multiplies with panels that are all whole, or with one partial panel.
    fn panels(&self, buffers: &Buffers<'_>, part: &mut Part<'_>, rows: &Rows<'_>, given: &Given) {
        let step = part.plan.phase.stride[2] * self.shape.filters();
        let sums = part.args.out.cast_const();
        let mut stretches = std::mem::take(&mut part.stretches);
        stretches.clear();
        let phase = &part.plan.phase;
        self.grid.outputs(phase, part.lines, rows.starts, self.shape.output(), |row, position, rows_here| {
            let element = position * self.shape.filters() + rows.column;
            let to = buffers.y.at(element * self.stored.output.bytes());
            let residual = self.residual(buffers, element);
            stretches.push(Stretch { from: sums.wrapping_add(row * PANEL), to, residual, rows: rows_here });
        });
        let epilogue = &mut part.args.epilogue;
        epilogue.to_stride = step * self.stored.output.bytes();
        epilogue.residual_stride = step * self.stored.residual.bytes();
        epilogue.set(&mut stretches, buffers.extras.bias, rows.column, rows.columns);
        let given = given.clone().write("stretches", &mut stretches);
        let held = if rows.columns == PANEL { &part.whole } else { &part.last };
        if let Some(held) = held {
            // SAFETY: all positions that tile rows of this band read were counted into scratch; there is room for the
            // sums of a chunk by a panel. The lists outlive the call. Tasks have disjoint rows or columns of the
            // result, phases have disjoint rows.
            unsafe { held.call(rows.height, &mut part.args, &given) };
        }
        part.stretches = stretches;
    }

    /// Address of the residual of an element of the output; null without one.
    fn residual(&self, buffers: &Buffers<'_>, element: usize) -> *const u8 {
        buffers.extras.residual.map_or(std::ptr::null(), |distance| {
            let residual = buffers.y.at(0).cast_const().wrapping_byte_offset(distance);
            residual.wrapping_add(element * self.stored.residual.bytes())
        })
    }

    /// Sets the prefetch streams of the call for `chunk` and `panels`: its share of the next rows and panels, and the
    /// lines of the result that the next rows are written to.
    fn prefetch(
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
            let bytes = next.rows.len() * TILE_ROWS * self.position_words() * 4;
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
    fn first_output(&self, phase: &Phase, lines: &Range<usize>, starts: &[usize]) -> Option<usize> {
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

/// One of several threads: it runs tasks by itself, and stops when the others do.
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

#[cfg(test)]
mod tests;
