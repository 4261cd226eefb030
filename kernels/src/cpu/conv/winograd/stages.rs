//! The steps of a run that one task does: inputs to points, weights to points, products, and products to outputs.

use std::ops::Range;

use super::args::{FilterArgs, InputArgs, OutputArgs, Transform};
use super::code::Kernel;
use super::grid::{Filters, Grid, Layout, RUN, TAPS};
use super::{Buffers, Winograd, filters, portable};
use crate::cpu::conv::blocks::{ConvBlocks, ConvStored};
use crate::cpu::conv::input::ConvPart;
use crate::cpu::gemm::Tiles;
use crate::cpu::gemm::most_rows;
use crate::cpu::gemm::tile::TileArgs;
use crate::cpu::{Elements, PackedWeights};
use crate::isa::Isa;
use crate::memory;

/// Where the runs of a panel's nine taps start, and their stride in bytes.
struct Taps {
    from: *const u8,
    stride: usize,
}

/// The part of a product that one task computes: some panels of filters with the points of a group.
pub(super) struct Part {
    /// The group's tiles.
    pub(super) tiles: Range<usize>,
    /// The panels.
    pub(super) panels: Range<usize>,
    /// Where the group's points are in scratch.
    pub(super) points: usize,
    /// Where the task's own part of scratch is: its weights, then its products.
    pub(super) own: usize,
}

impl Winograd {
    /// What determines the extents of a transform.
    fn kernel(&self) -> Transform {
        Transform { isa: self.isa, tile: self.tile, stored: self.stored, pairs: self.pairs() }
    }

    /// Transforms the inputs of some tiles of a group into rows of points from `points` in scratch on.
    pub(super) fn transform(&self, buffers: &Buffers<'_>, tiles: Range<usize>, points: usize) {
        // Tiles of a call: few enough that their table stays in L1.
        const STRIP: usize = 8;
        let mut table = Vec::with_capacity(STRIP * self.tile.points());
        for strip in tiles.clone().step_by(STRIP) {
            let strip = strip..tiles.end.min(strip + STRIP);
            let mut to = points + (strip.start - tiles.start) * self.layout.input_row;
            for part in buffers.parts {
                table.clear();
                strip.clone().for_each(|tile| self.inputs(part, tile, &mut table));
                let whole = part.channels / self.isa.lanes() * self.isa.lanes();
                let args = InputArgs {
                    table: table.as_ptr(),
                    tiles: strip.len(),
                    to: buffers.scratch.at(to),
                    to_stride: self.layout.input_row * 4,
                    point_stride: self.layout.input_point * 4,
                    whole: whole * 4,
                    rest: part.channels - whole,
                };
                let given = buffers.extras.given.clone().read("table", &table);
                // SAFETY: the table has a pointer for each channel, which lies inside a part of the input or points at
                // zeros; the channels of all parts fill the rows of a group's points, and no other task has these
                // tiles.
                unsafe {
                    match &self.input {
                        Kernel::Emitted(code) => code.call(&args, &self.kernel(), &given),
                        Kernel::Portable => {
                            given.check(&args, &self.kernel());
                            portable::input(self.tile, &args);
                        }
                    }
                }
                to += part.channels;
            }
        }
    }

    /// Appends pointers to the inputs of a tile in one part of the input.
    fn inputs(&self, part: &ConvPart<'_>, tile: usize, table: &mut Vec<*const u8>) {
        let ([_, height, width], side) = (self.shape.input(), self.tile.side());
        let (x, position) = (part.x.as_ptr(), part.channels * self.stored.input.bytes());
        let [plane, row, column] = self.place(tile);
        // A position before the first wraps to one beyond any size.
        let (row, column) = (row.wrapping_sub(self.shape.pads()[1]), column.wrapping_sub(self.shape.pads()[2]));
        let inside = |start: usize, size: usize| start < size && size - start >= side;
        let at = |row: usize, column: usize| x.wrapping_add(((plane * height + row) * width + column) * position);
        if inside(row, height) && inside(column, width) {
            for row in row..row + side {
                let first = at(row, column);
                table.extend((0..side).map(|column| first.wrapping_add(column * position)));
            }
            return;
        }
        for row in (0..side).map(|index| row.wrapping_add(index)) {
            table.extend(
                (0..side)
                    .map(|index| column.wrapping_add(index))
                    .map(|column| if row < height && column < width { at(row, column) } else { self.zeros.as_ptr() }),
            );
        }
    }

    /// Plane, first output row and first output column of a tile.
    fn place(&self, tile: usize) -> [usize; 3] {
        let (column, rest) = (tile % self.grid.columns, tile / self.grid.columns);
        let outputs = self.tile.outputs();
        [rest / self.grid.rows, rest % self.grid.rows * outputs, column * outputs]
    }

    /// Appends pointers to the outputs of a tile.
    fn outputs(&self, buffers: &Buffers<'_>, tile: usize, table: &mut Vec<*mut u8>) {
        let ([_, height, width], outputs) = (self.shape.output(), self.tile.outputs());
        let [plane, row, column] = self.place(tile);
        for row in row..row + outputs {
            table.extend((column..column + outputs).map(|column| {
                let at = ((plane * height + row) * width + column) * self.shape.filters() * self.stored.output.bytes();
                if row < height && column < width { buffers.y.at(at) } else { std::ptr::null_mut() }
            }));
        }
    }

    /// Transforms the weights of a panel to some rows of points, one run of all taps after another. Each row starts in
    /// scratch where `to` says. Widened weights are in the task's `own` part of scratch.
    pub(super) fn panel_filters(
        &self,
        buffers: &Buffers<'_>,
        rows: Range<usize>,
        panel: usize,
        own: usize,
        to: impl Fn(usize) -> usize,
    ) {
        let panel_len = self.panels.panel_len();
        let longest = if self.pairs() { RUN - RUN % (2 * self.panels.width) } else { RUN };
        for run in (0..panel_len).step_by(longest) {
            let run = run..panel_len.min(run + longest);
            let taps = self.taps(buffers, panel, &run, own);
            for row in rows.clone() {
                self.filters(buffers, row, &taps, &run, to(row));
            }
        }
    }

    /// Where a run of the taps of a panel is: in place, or widened.
    fn taps(&self, buffers: &Buffers<'_>, panel: usize, run: &Range<usize>, own: usize) -> Taps {
        let tap = self.panels.panel_len();
        let (Some(widen), PackedWeights::F16(halves)) = (&self.widen, buffers.weights) else {
            let each = if self.pairs() { 2 } else { 1 };
            let first = TAPS * tap * panel + run.start;
            return Taps { from: buffers.weights.at(first / each), stride: tap / each * 4 };
        };
        let Layout { along, product_group, widened, widened_tap, .. } = self.layout;
        let start = own + along + product_group;
        // SAFETY: each task has this much in its own part of scratch.
        let to = unsafe { buffers.scratch.part(start..start + widened) };
        let first = panel * 2 * Elements::F16.words(TAPS * self.panels.rows) * self.panels.width + run.start;
        for (index, to) in to.chunks_exact_mut(widened_tap).enumerate() {
            widen.run(&halves[first + index * tap..][..run.len()], &mut to[..run.len()]);
        }
        Taps { from: to.as_ptr().cast(), stride: widened_tap * 4 }
    }

    /// Transforms a run of taps to one row of points, which starts at `to` in scratch.
    fn filters(&self, buffers: &Buffers<'_>, row: usize, taps: &Taps, run: &Range<usize>, to: usize) {
        let each = if self.pairs() { 2 } else { 1 };
        let args = FilterArgs {
            from: taps.from,
            tap_stride: taps.stride,
            to: buffers.scratch.at(to + run.start),
            point_stride: self.layout.filter_point * 4,
            bytes: run.len() / each * 4,
            row_bytes: self.panels.width * 4,
            row,
        };
        let given = buffers.extras.given;
        // SAFETY: weights were checked to be packed panels of nine taps; no other task writes this panel's points
        // there.
        unsafe {
            match &self.filters {
                Kernel::Emitted(code) => code.call(&args, &self.kernel(), given),
                Kernel::Portable => {
                    given.check(&args, &self.kernel());
                    filters::portable(self.tile, &args);
                }
            }
        }
    }

    /// Multiplies the points of a group with some panels of filters, and transforms the products into outputs.
    pub(super) fn multiply(&self, buffers: &Buffers<'_>, part: &Part) {
        let Layout { panel_block, filter_point, .. } = self.layout;
        let (side, panel_len) = (self.tile.side(), self.panels.panel_len());
        let mut table = memory::with_capacity(part.tiles.len() * self.tile.outputs().pow(2));
        part.tiles.clone().for_each(|tile| self.outputs(buffers, tile, &mut table));
        let product = Products::new(self, buffers, part);
        for first in part.panels.clone().step_by(panel_block) {
            let block = first..part.panels.end.min(first + panel_block);
            match self.layout.filters {
                Filters::Ahead => {
                    for point in 0..self.tile.points() {
                        for panel in block.clone() {
                            let weights = point * filter_point + panel * panel_len;
                            product.multiply(point, panel, panel - first, weights, panel_len);
                        }
                    }
                }
                Filters::Along => {
                    for panel in block.clone() {
                        let to = |row: usize| part.own + row * side * filter_point;
                        self.panel_filters(buffers, 0..side, panel, part.own, to);
                        for point in 0..self.tile.points() {
                            let weights = part.own + point * filter_point;
                            product.multiply(point, panel, panel - first, weights, filter_point);
                        }
                    }
                }
            }
            self.epilogue(buffers, &table, block, part.own + self.layout.along);
        }
    }

    /// Transforms a group's products with a block of panels into outputs.
    fn epilogue(&self, buffers: &Buffers<'_>, table: &[*mut u8], block: Range<usize>, products: usize) {
        let (lanes, width) = (self.isa.lanes(), self.panels.width);
        let (first, end) = (block.start * width, self.panels.columns.min(block.end * width));
        let whole = (end - first) / lanes * lanes;
        let (y, ConvStored { residual, output, .. }) = (buffers.y.at(0).cast_const(), self.stored);
        let added = buffers.extras.residual;
        let offset = added.map(|distance| output.residual_offset(y, y.wrapping_offset(distance), residual));
        let args = OutputArgs {
            from: buffers.scratch.at(products),
            from_stride: self.layout.product_row * 4,
            point_stride: self.layout.product_point * 4,
            tiles: table.len() / self.tile.outputs().pow(2),
            table: table.as_ptr(),
            column: first * output.bytes(),
            residual: usize::from(added.is_some()),
            residual_offset: offset.unwrap_or(0),
            whole: whole * 4,
            rest: end - first - whole,
        };
        if args.tiles == 0 {
            return;
        }
        let given = buffers.extras.given.clone().read("table", table);
        // SAFETY: pointers of the table that are not null are outputs of these tiles, which with these filters belong
        // to this task.
        unsafe {
            match &self.output {
                Kernel::Emitted(code) => code.call(&args, &self.kernel(), &given),
                Kernel::Portable => {
                    given.check(&args, &self.kernel());
                    portable::output(self.tile, self.activation, &args);
                }
            }
        }
    }
}

/// How the tiles of a group, which are rows of a product, are cut into tiles of the kernel.
fn cut(isa: Isa, blocks: &ConvBlocks, group: usize) -> Tiles {
    Tiles::new(group, most_rows(isa, blocks.vectors()))
}

/// The cuts of the rows of all groups.
pub(super) fn cuts(isa: Isa, blocks: &ConvBlocks, grid: &Grid) -> impl Iterator<Item = Tiles> {
    grid.sizes().map(move |group| cut(isa, blocks, group))
}

/// The products of a task.
struct Products<'a> {
    winograd: &'a Winograd,
    buffers: &'a Buffers<'a>,
    part: &'a Part,
    /// How the group's tiles, which are rows here, are cut into tiles of the kernel.
    rows: Tiles,
}

impl<'a> Products<'a> {
    fn new(winograd: &'a Winograd, buffers: &'a Buffers<'a>, part: &'a Part) -> Products<'a> {
        let rows = cut(winograd.isa, &winograd.blocks, part.tiles.len());
        Products { winograd, buffers, part, rows }
    }

    /// Multiplies the rows of a point with panel `panel`, number `place` of its block. The panel's weights start at
    /// `weights` in scratch, and those of the next product `next` further on.
    fn multiply(&self, point: usize, panel: usize, place: usize, weights: usize, next: usize) {
        let Winograd { layout, panels, isa, .. } = self.winograd;
        let (width, scratch) = (panels.width, &self.buffers.scratch);
        let mut args = TileArgs::empty();
        args.lda = layout.input_row * 4;
        args.ldc = layout.product_row * 4;
        args.reduce_over(0, panels.rows);
        args.keep_columns(panels.columns_of(panel), width, isa.lanes());
        args.b = scratch.at(weights).cast_const().cast();
        args.prefetch(Some(args.b.wrapping_add(4 * next)), width * 4, self.rows.count());
        let bias = self.buffers.extras.bias.filter(|_| point == self.winograd.tile.bias_point());
        args.bias = bias.map_or(std::ptr::null(), |bias| bias.as_ptr().wrapping_add(panel * width));
        let points = self.part.points + point * layout.input_point;
        let products = self.part.own + layout.along + point * layout.product_point + place * width;
        for run in self.rows.runs(0..self.rows.count()) {
            args.rows = run.height;
            args.tiles.set(run.count);
            args.a.set(scratch.at(points + run.row * layout.input_row).cast_const().cast());
            args.a_tile_stride = run.height * args.lda;
            args.c.set(scratch.at(products + run.row * layout.product_row).cast());
            args.c_tile_stride = run.height * args.ldc;
            // SAFETY: points, products and transformed weights are inside scratch, and this task's products are no
            // other's.
            unsafe { self.winograd.product.call(&args, self.buffers.extras.given) };
        }
    }
}
