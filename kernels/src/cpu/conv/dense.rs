//! Convolutions that reduce over channels: the strategies that run on the micro-kernel of matrix products.
//!
//! Their unit is the 32-bit *word* that one step of the reduction multiplies: an element of `f32`, or two neighbouring
//! channels of `bf16`. Channels are last, so a position stored as `bf16` already is a row of pairs. Input in `f32` is
//! converted first, all of it.
//!
//! Weights of `f16` are widened in registers where few tiles read them; where many tiles do, each part of a panel that
//! a block of tiles multiplies is first widened into the task's scratch. Both give the bits of the same weights in
//! `f32`.
//!
//! The rows of a phase are cut into tiles. A tile's rows of C have one stride, so in a transposed convolution, whose
//! neighbouring outputs belong to different phases, no tile leaves its line. A task computes some blocks of tiles by
//! some panels, numbered over all groups. For each block it makes the indirection table once and uses it for all its
//! panels: groups read the same rows at an offset.

mod cut;

use std::ops::Range;

use smallvec::SmallVec;

use self::cut::{Cut, Part};
use super::blocks::{ConvBlocks, ConvStored, Strategy};
use super::extras::EpilogueOperands;
use super::shape::Phase;
use super::table::{Field, MOST_POINTERS, Tables};
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::micro_kernel::MicroKernel;
use crate::cpu::gemm::most_rows;
use crate::cpu::gemm::rows::{Run, part};
use crate::cpu::gemm::tile::{LeftRows, RightColumns, TileArgs, TileCode};
use crate::cpu::gemm::{Bf16Convert, Panels, Tiles, Widen};
use crate::cpu::{Activations, ActivationsMut, CodeSource, Elements, PackedWeights, Stored};
use crate::error::Result;
use crate::isa::Isa;
use crate::memory;
use crate::parallel::{Disjoint, Parallel, for_each_chunk};
use crate::problem::conv::ConvShape;
use crate::problem::description::count;

/// Words that a task converts from `f32` at a time: source and result stay in L1.
const CONVERTED: usize = 2048;

/// Most tiles of a block that each widen `f16` in registers. That costs one conversion more for each tile; widening
/// into scratch costs a load and a store once.
const FEW_TILES: usize = 4;

/// Most elements that all tasks together widen into scratch; beyond them, tiles widen in registers.
const MOST_WIDENED: usize = 1 << 24;

/// A convolution on tiles.
#[derive(Clone, Debug)]
pub(super) struct Dense {
    shape: ConvShape,
    blocks: ConvBlocks,
    isa: Isa,
    code: TileCode,
    tile: MicroKernel,
    /// The conversion of the input to pairs, where it comes in `f32`.
    convert: Option<Bf16Convert>,
    /// The kernel that widens parts of panels of `f16` into scratch, where tasks do so before they multiply the parts.
    widen: Option<Widen>,
    phases: Vec<PhasePlan>,
    /// Elements of scratch of a task that widens.
    room: usize,
    /// Words of a position of the input, of all groups.
    position: usize,
    /// Words of a position that a group reads.
    group_words: usize,
    /// Words of one group's packed weights.
    group_len: usize,
    /// Zeros, as many bytes as a tap may read.
    zeros: Vec<u8>,
}

/// A phase of the convolution: the part that is known before the data.
#[derive(Clone, Debug)]
struct PhasePlan {
    phase: Phase,
    tables: Tables,
    /// Rows of C without a gap between them: all rows, or a line.
    segment: usize,
    segments: usize,
    tiles: Tiles,
    panels: Panels,
    /// Steps of the reduction.
    steps: usize,
    /// Offset of the phase's weights in those of a group.
    weights: usize,
    /// How the reduction is cut.
    cut: Cut,
}

/// The buffers of one run, as tasks see them.
struct Buffers<'a> {
    field: Field<'a, u8>,
    weights: PackedWeights<'a>,
    y: Disjoint<'a, u8>,
    extras: EpilogueOperands<'a>,
    widened: Disjoint<'a, f32>,
}

/// Tiles of one height below each other, the first element of their output, and where their table starts.
struct Placed {
    run: Run,
    y: usize,
    table: usize,
}

/// A block of tiles, whose indirection tables follow each other.
struct Block<'a> {
    runs: &'a [Placed],
    table: &'a [*const u8],
    /// Tiles of all runs.
    tiles: usize,
    /// The number of their task.
    task: usize,
}

impl Dense {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        blocks: ConvBlocks,
        stored: ConvStored,
        activation: Option<UnaryOp>,
        class_panels: &[Panels],
        source: &dyn CodeSource,
    ) -> Result<Dense> {
        let left = if blocks.strategy == Strategy::Pointwise { LeftRows::Strided } else { LeftRows::Table };
        let elements = blocks.elements;
        let ConvStored { input, residual, output } = stored;
        let [position, group_words] =
            [shape.channels(), shape.group_channels()].map(|count| elements.left_words(count));
        let convert = elements == Elements::Bf16Dot && input == Stored::F32;
        let convert = convert.then(|| Bf16Convert::new(isa, source)).transpose()?;
        let starts = class_panels.iter().scan(0, |next, panels| {
            let start = *next;
            *next += panels.len();
            Some(start)
        });
        let starts: Vec<usize> = starts.collect();
        let most = most_rows(isa, blocks.vectors());
        let plan = |phase: Phase| {
            let rows = phase.rows(shape.batch());
            let segment = if shape.transposed { phase.count[2] } else { rows };
            PhasePlan {
                tables: Tables::new(&phase, shape.input(), position * 4),
                segment,
                segments: rows.checked_div(segment).unwrap_or(0),
                tiles: Tiles::new(segment, most),
                panels: class_panels[phase.class],
                steps: phase.taps.len() * group_words,
                weights: starts[phase.class],
                cut: match output {
                    Stored::F32 => Cut::new(isa, [phase.taps.len(), group_words], class_panels[phase.class].width),
                    Stored::Bf16 => Cut::none([phase.taps.len(), group_words]),
                },
                phase,
            }
        };
        let phases: Vec<PhasePlan> = shape.phases().into_iter().map(plan).collect();
        let taps = phases.iter().map(|plan| plan.tables.taps()).max().unwrap_or(0);
        let row_block = blocks.row_block().min(MOST_POINTERS / (taps * most).max(1)).max(1);
        let blocks = ConvBlocks { row_block: count(row_block), ..blocks };
        let tasks = phases.len() * blocks.row_tasks() * blocks.unit_tasks();
        let most_rows = |plan: &PhasePlan| plan.cut.parts().map(|part| part.rows.len()).max().unwrap_or(0);
        let room = phases.iter().map(|plan| most_rows(plan) * plan.panels.width).max().unwrap_or(0);
        let tiles = phases.iter().map(|plan| plan.segments * plan.tiles.count()).max().unwrap_or(0);
        let many = tiles.div_ceil(blocks.row_tasks()).min(blocks.row_block()) > FEW_TILES;
        let widens = elements == Elements::F16 && many && tasks.saturating_mul(room) <= MOST_WIDENED;
        let widen = widens.then(|| Widen::new(isa, source)).transpose()?;
        let columns = if widens { RightColumns::Packed } else { RightColumns::packed(elements) };
        let sums = TileCode::sums(isa, blocks.vectors() as u8, left, columns);
        let code = TileCode { activation, residual, output, ..sums };
        let tile = MicroKernel::new(code, phases.iter().map(|plan| plan.tiles), source)?;
        let group_len = class_panels.iter().map(Panels::len).sum();
        let zeros = memory::zeroed(position * 4);
        let room = if widens { room } else { 0 };
        Ok(Dense {
            shape,
            blocks,
            isa,
            code,
            tile,
            convert,
            widen,
            room,
            phases,
            position,
            group_words,
            group_len,
            zeros,
        })
    }

    /// Bytes held besides code.
    pub(super) fn bytes(&self) -> usize {
        let taps = self.phases.iter().map(|plan| plan.phase.taps.len() * 64).sum::<usize>();
        self.zeros.len() + self.phases.len() * size_of::<PhasePlan>() + taps
    }

    /// Whether partial sums wait in the output for the rest of the reduction.
    pub(super) fn reduces_in_parts(&self) -> bool {
        self.phases.iter().any(|plan| plan.cut.parts().nth(1).is_some())
    }

    /// Elements of scratch that [`Dense::run`] needs.
    pub(super) fn scratch_len(&self) -> usize {
        if self.convert.is_some() { self.shape.input_len() / 2 } else { self.tasks() * self.room }
    }

    /// Tasks in all.
    fn tasks(&self) -> usize {
        self.phases.len() * self.blocks.row_tasks() * self.blocks.unit_tasks()
    }

    /// Convolves. The driver has checked that every buffer is as long as the shape says.
    pub(super) fn run(
        &self,
        x: Activations<'_>,
        weights: PackedWeights<'_>,
        mut y: ActivationsMut<'_>,
        extras: EpilogueOperands<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) {
        let (words, widened) = scratch.split_at_mut(if self.convert.is_some() { self.scratch_len() } else { 0 });
        let data: &[u8] = match (&self.convert, x) {
            (Some(convert), Activations::F32(x)) => {
                for_each_chunk(parallel, words, CONVERTED, &|chunk, words| {
                    convert.row(&x[2 * chunk * CONVERTED..][..2 * words.len()], words);
                });
                bytemuck::cast_slice(words)
            }
            _ => x.bytes(),
        };
        let field = Field { data, zeros: &self.zeros };
        let given = extras.given.clone().read("zeros", &self.zeros);
        let extras = EpilogueOperands { given: &given, ..extras };
        let (y, widened) = (Disjoint::new(y.bytes_mut()), Disjoint::new(widened));
        let buffers = Buffers { field, weights, y, extras, widened };
        let (rows, columns) = (self.blocks.row_tasks(), self.blocks.unit_tasks());
        parallel.run(self.tasks(), &|task| {
            let plan = &self.phases[task / (rows * columns)];
            let tiles = part(plan.segments * plan.tiles.count(), rows, task / columns % rows);
            let all = self.shape.groups() * plan.panels.count();
            self.task(&buffers, task, tiles, part(all, columns, task % columns), parallel);
        });
    }

    fn task(
        &self,
        buffers: &Buffers<'_>,
        task: usize,
        tiles: Range<usize>,
        group_panels: Range<usize>,
        parallel: &dyn Parallel,
    ) {
        let plan = &self.phases[task / (self.blocks.row_tasks() * self.blocks.unit_tasks())];
        if group_panels.is_empty() {
            return;
        }
        let shape = &self.shape;
        let mut args = TileArgs::empty();
        args.lda = self.position * 4;
        args.ldc = plan.phase.stride[2] * shape.filters() * self.code.output.bytes();
        buffers.extras.add_residual(&mut args, &self.code, buffers.y.at(0));
        let mut table = Vec::new();
        // Blocks of equal length: a short last block would read all weights for its few tiles alone.
        let blocks = tiles.len().div_ceil(self.blocks.row_block());
        for block in (0..blocks).map(|index| part(tiles.len(), blocks, index)) {
            let block = tiles.start + block.start..tiles.start + block.end;
            table.clear();
            let placed = self.place(&buffers.field, plan, block.clone(), &mut table);
            for group_panel in group_panels.clone() {
                if parallel.is_stopped() {
                    return;
                }
                self.aim(&mut args, buffers, plan, group_panel);
                // The next block of rows begins with the first panel again.
                let next = if group_panel + 1 < group_panels.end { group_panel + 1 } else { group_panels.start };
                let next = buffers.weights.at(self.weights_at(plan, next));
                let tiles = Block { runs: &placed, table: &table, tiles: block.len(), task };
                self.panel(&mut args, buffers, plan, &tiles, group_panel, next);
            }
        }
    }

    /// Multiplies a block of tiles with one panel, one part of the reduction after the other.
    fn panel(
        &self,
        args: &mut TileArgs,
        buffers: &Buffers<'_>,
        plan: &PhasePlan,
        block: &Block<'_>,
        group_panel: usize,
        next: *const u8,
    ) {
        let &Block { runs, table, tiles, .. } = block;
        let shape = &self.shape;
        let width = plan.panels.width;
        let (group, panel) = (group_panel / plan.panels.count(), group_panel % plan.panels.count());
        let column = group * shape.group_filters() + panel * width;
        let first = group * self.group_words;
        let (b, row) = (args.b, self.row_bytes(plan));
        let given = buffers.extras.given.clone().read("table", table);
        for part in plan.cut.parts() {
            args.taps = part.taps.len();
            args.reduce_over(first + part.channels.start, part.channels.len());
            args.b = match &self.widen {
                Some(widen) => {
                    self.widened(widen, buffers, block.task, self.weights_at(plan, group_panel), &part, width).cast()
                }
                None => b.wrapping_add(part.rows.start * row),
            };
            args.resume = usize::from(part.rows.start > 0);
            args.unfinished = usize::from(part.rows.end < plan.steps);
            args.summarise();
            let next = if args.unfinished > 0 { b.wrapping_add(part.rows.end * row) } else { next };
            args.prefetch(Some(next), row, tiles);
            for Placed { run, y, table: start } in runs {
                args.rows = run.height;
                args.tiles.set(run.count);
                args.a.set(buffers.field.data.as_ptr().wrapping_add(run.row * args.lda));
                args.a_tile_stride = run.height * args.lda;
                args.table.set(table[start + part.taps.start * run.count * run.height..].as_ptr());
                args.c.set(buffers.y.at((y + column) * self.code.output.bytes()));
                args.c_tile_stride = run.height * args.ldc;
                // SAFETY: pointers of the table lie inside the input or point at zeros, as many as a position has
                // bytes; tasks have disjoint rows or columns of C, phases have disjoint rows.
                unsafe { self.tile.call(args, &given) };
            }
        }
    }

    /// Bytes of a row of packed panels, for each step of the reduction.
    fn row_bytes(&self, plan: &PhasePlan) -> usize {
        plan.panels.width * if self.blocks.elements == Elements::F16 { 2 } else { 4 }
    }

    /// Widens a part of a panel of `f16`, which starts at word `panel` of the weights, in the task's part of scratch.
    fn widened(
        &self,
        widen: &Widen,
        buffers: &Buffers<'_>,
        task: usize,
        panel: usize,
        part: &Part,
        width: usize,
    ) -> *const f32 {
        // SAFETY: scratch has a room for each task.
        let to = unsafe { buffers.widened.part(task * self.room..(task + 1) * self.room) };
        if let PackedWeights::F16(halves) = buffers.weights {
            let first = 2 * panel + part.rows.start * width;
            let count = part.rows.len() * width;
            widen.run(&halves[first..first + count], &mut to[..count]);
        }
        to.as_ptr()
    }

    /// The runs of a block of tiles, with their tables.
    fn place(
        &self,
        field: &Field<'_, u8>,
        plan: &PhasePlan,
        block: Range<usize>,
        table: &mut Vec<*const u8>,
    ) -> SmallVec<[Placed; 8]> {
        let mut placed = SmallVec::new();
        let per = plan.tiles.count();
        let mut next = block.start;
        while next < block.end {
            let segment = next / per;
            let end = block.end.min((segment + 1) * per);
            for run in plan.tiles.runs(next - segment * per..end - segment * per) {
                let run = Run { row: segment * plan.segment + run.row, ..run };
                let start = table.len();
                if self.code.left == LeftRows::Table {
                    self.table(field, plan, &run, table);
                }
                placed.push(Placed { run, y: self.output_at(&plan.phase, run.row), table: start });
            }
            next = end;
        }
        placed
    }

    /// Appends the pointers `[part of the taps][tile][tap][row]` of a run.
    fn table(&self, field: &Field<'_, u8>, plan: &PhasePlan, run: &Run, table: &mut Vec<*const u8>) {
        let taps = plan.tables.taps();
        let tile = |tile: usize, to: &mut Vec<*const u8>| {
            plan.tables.tile(field, run.row + tile * run.height, run.height, to);
        };
        memory::reserve(table, run.count * run.height * taps);
        if plan.cut.most_taps() >= taps {
            (0..run.count).for_each(|index| tile(index, table));
            return;
        }
        let start = table.len();
        table.resize(start + run.count * run.height * taps, field.zeros.as_ptr());
        let mut whole = memory::with_capacity(taps * run.height);
        for index in 0..run.count {
            whole.clear();
            tile(index, &mut whole);
            for part in (0..taps).step_by(plan.cut.most_taps()).map(|tap| tap..taps.min(tap + plan.cut.most_taps())) {
                let to = start + (part.start * run.count + index * part.len()) * run.height;
                let from = &whole[part.start * run.height..part.end * run.height];
                table[to..to + from.len()].copy_from_slice(from);
            }
        }
    }

    /// Offset of a row's outputs.
    fn output_at(&self, phase: &Phase, row: usize) -> usize {
        if !self.shape.transposed {
            return row * self.shape.filters();
        }
        let [depth, height, width] = self.shape.output();
        let (w, rest) = (row % phase.count[2], row / phase.count[2]);
        let (h, rest) = (rest % phase.count[1], rest / phase.count[1]);
        let (d, image) = (rest % phase.count[0], rest / phase.count[0]);
        let at = |dim: usize, index: usize| phase.start[dim] + index * phase.stride[dim];
        (((image * depth + at(0, d)) * height + at(1, h)) * width + at(2, w)) * self.shape.filters()
    }

    /// Offset of a panel's weights in words.
    fn weights_at(&self, plan: &PhasePlan, group_panel: usize) -> usize {
        let (group, panel) = (group_panel / plan.panels.count(), group_panel % plan.panels.count());
        group * self.group_len + plan.weights + panel * plan.panels.panel_len()
    }

    /// Sets weights, bias, columns and the group's channels of the input for a panel.
    fn aim(&self, args: &mut TileArgs, buffers: &Buffers<'_>, plan: &PhasePlan, group_panel: usize) {
        let (group, panel) = (group_panel / plan.panels.count(), group_panel % plan.panels.count());
        let width = plan.panels.width;
        args.keep_columns(plan.panels.columns_of(panel), width, self.isa.lanes());
        args.b = buffers.weights.at(self.weights_at(plan, group_panel));
        let column = group * self.shape.group_filters() + panel * width;
        args.bias = buffers.extras.bias.map_or(std::ptr::null(), |bias| bias.as_ptr().wrapping_add(column));
    }
}
