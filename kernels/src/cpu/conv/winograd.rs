//! Convolutions of three by three taps with fewer multiplications.
//!
//! The output is cut into small squares, *tiles*. A tile's inputs, the square with a border of one tap on each side,
//! are transformed into *points*; at each point, tiles by channels times channels by filters is a matrix product of its
//! own, on the same tile kernels as any other, with weights that were transformed when they were packed
//! ([`matrices`]); the products of a tile are transformed into its outputs. That is 2.25 times fewer multiplications
//! for squares of two, and 4 times fewer for squares of four.
//!
//! All of that stays near: tiles are done in *groups*, so that a group's points lie in the second cache while they are
//! multiplied with one block of filters after another, and a block's products are turned into outputs, with residual
//! and activation, before the next block. Both transforms are emitted and vectorised over channels ([`emit`]; in Rust
//! in [`portable`]). What a tile reads or writes is a table of pointers: padding is a pointer to zeros, outputs beyond
//! the border are null. The bias starts the sums of the one point that reaches all outputs.
//!
//! Threads take groups of their own, or, where there are too few, first share the transform of all groups and then
//! divide them by filters.

pub(super) mod cost;
mod emit;
pub(super) mod matrices;
mod portable;

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use matrices::WinogradTile;

use super::driver::{ConvBlocks, ConvExtras};
use super::shape::ConvShape;
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::model::second_cache;
use crate::cpu::gemm::rows::part;
use crate::cpu::gemm::shared::Shared;
use crate::cpu::gemm::tile::{LeftRows, RightColumns, Tile, TileArgs, TileCode, most_rows};
use crate::cpu::gemm::{Panels, Tiles};
use crate::cpu::{CodeKey, CodeSource};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Asm, Code};
use crate::parallel::Parallel;

/// What shapes the instructions of a transform: one blob serves all sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WinogradCode {
    /// Level.
    pub isa: Isa,
    /// Size of the tiles.
    pub tile: WinogradTile,
    /// Which of the two it is.
    pub side: WinogradSide,
}

/// The two transforms that happen while convolving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WinogradSide {
    /// Inputs to points.
    Input,
    /// Products to outputs.
    Output {
        /// Applied before the store.
        activation: Option<UnaryOp>,
    },
}

impl WinogradCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        match self.side {
            WinogradSide::Input => emit::input(asm, self.tile),
            WinogradSide::Output { activation } => {
                activation::check(FAMILY, activation)?;
                emit::output(asm, self.tile, activation);
            }
        }
        Ok(())
    }
}

/// The name of the transforms' code.
pub(crate) const FAMILY: &str = "winograd";

/// The arguments of an input transform. Distances are in bytes.
#[derive(Debug)]
#[repr(C)]
struct InputArgs {
    /// Pointers `[tile][position]` to the inputs' channels.
    table: *const *const f32,
    /// Tiles, at least 1.
    tiles: usize,
    /// The first tile's row of the first point.
    to: *mut f32,
    /// Distance of tiles' rows.
    to_step: usize,
    /// Distance of points.
    point_step: usize,
    /// Bytes of the channels that fill whole vectors.
    whole: usize,
    /// Channels beyond; their vector is filled up with zeros.
    rest: usize,
}

/// The arguments of an output transform. Distances are in bytes.
#[derive(Debug)]
#[repr(C)]
struct OutputArgs {
    /// The first tile's row of the first point.
    from: *const f32,
    /// Distance of tiles' rows.
    from_step: usize,
    /// Distance of points.
    point_step: usize,
    /// Tiles, at least 1.
    tiles: usize,
    /// Pointers `[tile][output]`, null where there is no such output.
    table: *const *mut f32,
    /// How far from there the first filter of this call is.
    column: usize,
    /// Not 0 where a tensor is added before the activation.
    residual: usize,
    /// Distance from an element of the output to that tensor's.
    residual_offset: isize,
    /// Bytes of the filters that fill whole vectors.
    whole: usize,
    /// Filters beyond.
    rest: usize,
}

#[derive(Clone, Debug)]
enum Kernel {
    Emitted(Arc<Code>),
    Portable,
}

impl Kernel {
    fn new(key: WinogradCode, source: &dyn CodeSource) -> Result<Kernel> {
        if key.isa.is_jit() { source.code(&CodeKey::Winograd(key)).map(Kernel::Emitted) } else { Ok(Kernel::Portable) }
    }
}

/// A convolution on transformed tiles.
#[derive(Clone, Debug)]
pub(super) struct Winograd {
    shape: ConvShape,
    blocks: ConvBlocks,
    isa: Isa,
    tile: WinogradTile,
    activation: Option<UnaryOp>,
    input: Kernel,
    output: Kernel,
    product: Tile,
    grid: Grid,
    panels: Panels,
    layout: Layout,
    /// As many zeros as there are channels.
    zeros: Vec<f32>,
}

/// How the output is cut into tiles, and tiles into groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// Rows of tiles of a plane.
    rows: usize,
    /// Tiles of a row.
    columns: usize,
    /// All tiles in groups of nearly equal size.
    groups: Tiles,
    /// All tiles.
    total: usize,
}

impl Grid {
    /// The cut of a shape that [`suits`], in groups of at most `most` tiles.
    pub(super) fn new(shape: &ConvShape, tile: WinogradTile, most: usize) -> Grid {
        let [depth, height, width] = shape.output;
        let (rows, columns) = (height.div_ceil(tile.outputs()), width.div_ceil(tile.outputs()));
        let total = shape.batch * depth * rows * columns;
        Grid { rows, columns, groups: Tiles::new(total, most), total }
    }

    /// Tiles.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Groups.
    pub(super) fn groups(&self) -> usize {
        self.groups.count()
    }

    /// Tiles of the largest group.
    pub(super) fn largest(&self) -> usize {
        self.total.div_ceil(self.groups.count().max(1))
    }

    fn group(&self, index: usize) -> Range<usize> {
        self.groups.start(index)..self.groups.start(index + 1)
    }
}

/// Where points lie in scratch, in elements.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// A tile's row of channels at a point.
    input_row: usize,
    /// All rows of a point.
    input_point: usize,
    /// All points of a group.
    input_group: usize,
    /// Panels of filters that are multiplied before their products are transformed.
    panel_block: usize,
    product_row: usize,
    product_point: usize,
    product_group: usize,
}

/// Elements of a cache line.
const LINE: usize = 16;

impl Layout {
    fn new(isa: Isa, tile: WinogradTile, tiles: usize, panels: &Panels) -> Layout {
        // A transform touches all points of a tile in turn. An odd number of lines between points puts them all into
        // different places of the first cache.
        let apart = |elements: usize| (elements.div_ceil(LINE) | 1) * LINE;
        let input_row = panels.rows.next_multiple_of(isa.lanes());
        let input_point = apart(tiles * input_row);
        // The points of a group are read once for each block of filters, its products twice in all: the products may
        // take a quarter of the second cache.
        let panel = tile.points() * tiles * panels.width * 4;
        let panel_block = (second_cache(isa) / 4 / panel.max(1)).clamp(1, panels.count().max(1));
        let product_row = panel_block * panels.width;
        let product_point = apart(tiles * product_row);
        Layout {
            input_row,
            input_point,
            input_group: tile.points() * input_point,
            panel_block,
            product_row,
            product_point,
            product_group: tile.points() * product_point,
        }
    }
}

/// Whether a convolution can be computed on tiles: three by three taps, next to each other, moving by one.
#[must_use]
pub fn suits(shape: &ConvShape) -> bool {
    !shape.transposed
        && shape.groups == 1
        && shape.kernel == [1, 3, 3]
        && shape.strides == [1; 3]
        && shape.dilations == [1; 3]
        && shape.pads[0] == 0
        && shape.input[0] == shape.output[0]
}

/// Whether a driver can take these blocks for a shape that [`suits`]: no part without work, and scratch that can be
/// counted.
pub(super) fn fits(blocks: &ConvBlocks, shape: &ConvShape, isa: Isa, tile: WinogradTile) -> bool {
    let grid = Grid::new(shape, tile, blocks.row_block);
    let panels = panels(shape, blocks.vectors * isa.lanes());
    let points = tile.points();
    // Points are at most 36 times as many as channels and filters, rounded up to whole vectors, panels and lines.
    let rows = grid.total.checked_add(grid.groups() + blocks.row_tasks * blocks.unit_tasks);
    let row = (shape.channels + shape.filters).checked_add(8 * LINE);
    let bytes = rows.zip(row).and_then(|(rows, row)| rows.checked_mul(row)?.checked_mul(8 * points));
    blocks.row_tasks <= grid.groups().max(1)
        && blocks.unit_tasks <= panels.count().max(1)
        && bytes.is_some_and(|bytes| bytes <= isize::MAX as usize)
}

/// The panels of one point's weights.
fn panels(shape: &ConvShape, width: usize) -> Panels {
    Panels { rows: shape.channels, columns: shape.filters, width }
}

/// The buffers of one run, as tasks see them.
struct Buffers<'a> {
    x: &'a [f32],
    weights: &'a [f32],
    y: Shared,
    extras: ConvExtras<'a>,
    scratch: Shared,
}

impl Winograd {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        blocks: ConvBlocks,
        tile: WinogradTile,
        activation: Option<UnaryOp>,
        source: &dyn CodeSource,
    ) -> Result<Winograd> {
        let (left, right) = (LeftRows::Strided, RightColumns::Packed);
        let product = TileCode { isa, vectors: blocks.vectors as u8, left, right, activation: None };
        let kernel = |side: WinogradSide| Kernel::new(WinogradCode { isa, tile, side }, source);
        let grid = Grid::new(&shape, tile, blocks.row_block);
        let panels = panels(&shape, product.width());
        Ok(Winograd {
            shape,
            blocks,
            isa,
            tile,
            activation,
            input: kernel(WinogradSide::Input)?,
            output: kernel(WinogradSide::Output { activation })?,
            product: Tile::new(product, source)?,
            grid,
            panels,
            layout: Layout::new(isa, tile, grid.largest(), &panels),
            zeros: vec![0.0; shape.channels],
        })
    }

    /// Elements of scratch that [`Winograd::run`] needs.
    pub(super) fn scratch_len(&self) -> usize {
        let tasks = self.blocks.row_tasks * self.blocks.unit_tasks;
        let inputs = if self.blocks.unit_tasks == 1 { tasks } else { self.grid.groups() };
        inputs * self.layout.input_group + tasks * self.layout.product_group
    }

    /// Bytes held besides code.
    pub(super) fn bytes(&self) -> usize {
        self.zeros.len() * 4
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
        let buffers = Buffers { x, weights, y: Shared::new(y), extras, scratch: Shared::new(scratch) };
        let (rows, units) = (self.blocks.row_tasks, self.blocks.unit_tasks);
        let (groups, tasks) = (self.grid.groups(), rows * units);
        let panels = self.panels.count();
        let Layout { input_group, product_group, .. } = self.layout;
        if units == 1 {
            parallel.run(rows, &|task| {
                let points = task * (input_group + product_group);
                for group in part(groups, rows, task) {
                    let tiles = self.grid.group(group);
                    self.transform(&buffers, tiles.clone(), points);
                    self.multiply(&buffers, tiles, 0..panels, points, points + input_group);
                }
            });
            return;
        }
        parallel.run(tasks, &|task| {
            for group in 0..groups {
                let tiles = self.grid.group(group);
                let mine = part(tiles.len(), tasks, task);
                let points = group * input_group + mine.start * self.layout.input_row;
                self.transform(&buffers, tiles.start + mine.start..tiles.start + mine.end, points);
            }
        });
        parallel.run(tasks, &|task| {
            let products = groups * input_group + task * product_group;
            for group in part(groups, rows, task / units) {
                let mine = part(panels, units, task % units);
                self.multiply(&buffers, self.grid.group(group), mine, group * input_group, products);
            }
        });
    }

    /// Transforms the inputs of some tiles of a group into rows of points from `points` in scratch on.
    fn transform(&self, buffers: &Buffers<'_>, tiles: Range<usize>, points: usize) {
        // Tiles of a call: few enough that their table stays in the nearest cache.
        const STRIP: usize = 8;
        let lanes = self.isa.lanes();
        let whole = self.shape.channels / lanes * lanes;
        let mut table = Vec::with_capacity(STRIP * self.tile.points());
        for strip in tiles.clone().step_by(STRIP) {
            table.clear();
            let strip = strip..tiles.end.min(strip + STRIP);
            strip.clone().for_each(|tile| self.inputs(buffers, tile, &mut table));
            let args = InputArgs {
                table: table.as_ptr(),
                tiles: strip.len(),
                to: buffers.scratch.at(points + (strip.start - tiles.start) * self.layout.input_row),
                to_step: self.layout.input_row * 4,
                point_step: self.layout.input_point * 4,
                whole: whole * 4,
                rest: self.shape.channels - whole,
            };
            // SAFETY: pointers of the table lie inside the input or point at zeros, of which there are as many as
            // channels; the rows of a group's points are inside scratch, which was checked, and no other task has
            // these tiles.
            unsafe {
                match &self.input {
                    Kernel::Emitted(code) => code.call(&args),
                    Kernel::Portable => portable::input(self.tile, &args),
                }
            }
        }
    }

    /// Appends pointers to the inputs of a tile.
    fn inputs(&self, buffers: &Buffers<'_>, tile: usize, table: &mut Vec<*const f32>) {
        let ([_, height, width], channels, side) = (self.shape.input, self.shape.channels, self.tile.side());
        let [plane, row, column] = self.place(tile);
        // A position before the first wraps to one beyond any size.
        let (row, column) = (row.wrapping_sub(self.shape.pads[1]), column.wrapping_sub(self.shape.pads[2]));
        let inside = |start: usize, size: usize| start < size && size - start >= side;
        let at = |row: usize, column: usize| {
            buffers.x.as_ptr().wrapping_add(((plane * height + row) * width + column) * channels)
        };
        if inside(row, height) && inside(column, width) {
            for row in row..row + side {
                let first = at(row, column);
                table.extend((0..side).map(|column| first.wrapping_add(column * channels)));
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
    fn outputs(&self, buffers: &Buffers<'_>, tile: usize, table: &mut Vec<*mut f32>) {
        let ([_, height, width], outputs) = (self.shape.output, self.tile.outputs());
        let [plane, row, column] = self.place(tile);
        for row in row..row + outputs {
            table.extend((column..column + outputs).map(|column| {
                let at = ((plane * height + row) * width + column) * self.shape.filters;
                if row < height && column < width { buffers.y.at(at) } else { std::ptr::null_mut() }
            }));
        }
    }

    /// Multiplies the points of a group with some panels of filters, and transforms the products into outputs.
    fn multiply(
        &self,
        buffers: &Buffers<'_>,
        tiles: Range<usize>,
        panels: Range<usize>,
        points: usize,
        products: usize,
    ) {
        let Layout { input_row, input_point, panel_block, product_row, product_point, .. } = self.layout;
        let width = self.panels.width;
        let mut table = Vec::with_capacity(tiles.len() * self.tile.outputs().pow(2));
        tiles.clone().for_each(|tile| self.outputs(buffers, tile, &mut table));
        let rows = Tiles::new(tiles.len(), most_rows(self.isa, self.blocks.vectors));
        let mut args = TileArgs::empty();
        args.lda = input_row * 4;
        args.ldc = product_row * 4;
        args.reduce_over(0, self.shape.channels);
        for block in panels.clone().step_by(panel_block) {
            let block = block..panels.end.min(block + panel_block);
            for point in 0..self.tile.points() {
                for panel in block.clone() {
                    args.keep_columns(self.panels.columns_of(panel), width, self.isa.lanes());
                    let weights = point * self.panels.len() + panel * self.panels.panel_len();
                    args.b = buffers.weights.as_ptr().wrapping_add(weights);
                    let bias = buffers.extras.bias.filter(|_| point == self.tile.bias_point());
                    args.bias = bias.map_or(std::ptr::null(), |bias| bias.as_ptr().wrapping_add(panel * width));
                    for run in rows.runs(0..rows.count()) {
                        args.rows = run.height;
                        args.tiles.set(run.count);
                        args.a.set(buffers.scratch.at(points + point * input_point + run.row * input_row));
                        args.a_step = run.height * args.lda;
                        let column = (panel - block.start) * width;
                        let to = products + point * product_point + run.row * product_row + column;
                        args.c.set(buffers.scratch.at(to));
                        args.c_step = run.height * args.ldc;
                        // SAFETY: points, products and packed weights are inside buffers that were checked, bias has
                        // an element for each filter, and this task's products are nobody else's.
                        unsafe { self.product.call(&args) };
                    }
                }
            }
            self.finish(buffers, &table, block, products);
        }
    }

    /// Transforms a group's products with a block of panels into outputs.
    fn finish(&self, buffers: &Buffers<'_>, table: &[*mut f32], block: Range<usize>, products: usize) {
        let (lanes, width) = (self.isa.lanes(), self.panels.width);
        let (first, end) = (block.start * width, self.panels.columns.min(block.end * width));
        let whole = (end - first) / lanes * lanes;
        let residual = buffers.extras.residual;
        let args = OutputArgs {
            from: buffers.scratch.at(products),
            from_step: self.layout.product_row * 4,
            point_step: self.layout.product_point * 4,
            tiles: table.len() / self.tile.outputs().pow(2),
            table: table.as_ptr(),
            column: first * 4,
            residual: usize::from(residual.is_some()),
            // Both were checked to be as long as the output, so that one distance holds for every element.
            residual_offset: residual
                .map_or(0, |residual| (residual.as_ptr() as isize).wrapping_sub(buffers.y.at(0) as isize)),
            whole: whole * 4,
            rest: end - first - whole,
        };
        if args.tiles == 0 {
            return;
        }
        // SAFETY: products are inside scratch; pointers of the table that are not null are outputs of these tiles,
        // which with these filters belong to this task.
        unsafe {
            match &self.output {
                Kernel::Emitted(code) => code.call(&args),
                Kernel::Portable => portable::output(self.tile, self.activation, &args),
            }
        }
    }
}

#[cfg(test)]
mod tests;
