//! How the output is cut into tiles and groups of tiles, and where points lie in scratch. Knows no pointers.

use std::ops::Range;

use super::matrices::WinogradTile;
use super::suits;
use crate::cpu::Elements;
use crate::cpu::conv::blocks::ConvBlocks;
use crate::cpu::gemm::model::l2_bytes;
use crate::cpu::gemm::{Panels, Tiles};
use crate::isa::Isa;
use crate::problem::conv::ConvShape;

/// How the output is cut into tiles, and tiles into groups.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu::conv) struct Grid {
    /// Rows of tiles of a plane.
    pub(super) rows: usize,
    /// Tiles of a row.
    pub(super) columns: usize,
    /// All tiles in groups of nearly equal size.
    groups: Tiles,
    /// All tiles.
    total: usize,
}

impl Grid {
    /// The cut of a shape that [`suits`], in groups of at most `most` tiles.
    pub(in crate::cpu::conv) fn new(shape: &ConvShape, tile: WinogradTile, most: usize) -> Grid {
        let [depth, height, width] = shape.output();
        let (rows, columns) = (height.div_ceil(tile.outputs()), width.div_ceil(tile.outputs()));
        let total = shape.batch() * depth * rows * columns;
        Grid { rows, columns, groups: Tiles::new(total, most), total }
    }

    /// Tiles.
    pub(in crate::cpu::conv) fn total(&self) -> usize {
        self.total
    }

    /// Groups.
    pub(in crate::cpu::conv) fn groups(&self) -> usize {
        self.groups.count()
    }

    /// Tiles of the largest group.
    pub(super) fn largest(&self) -> usize {
        self.total.div_ceil(self.groups.count().max(1))
    }

    /// The sizes of groups that occur.
    pub(super) fn sizes(&self) -> impl Iterator<Item = usize> {
        self.groups.heights()
    }

    /// The tiles of a group.
    pub(super) fn group(&self, index: usize) -> Range<usize> {
        self.groups.start(index)..self.groups.start(index + 1)
    }
}

/// When weights are transformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filters {
    /// All weights, once a run, before groups are multiplied.
    Ahead,
    /// A panel's points at a time, by the task that multiplies with them.
    Along,
}

/// Bytes of transformed weights that are worth keeping from group to group: they stay in L3 beside the groups' points.
const KEPT: usize = 3 << 20;

/// Whether all transformed weights together are few enough to be [`KEPT`].
pub(super) fn few(tile: WinogradTile, panels: &Panels) -> bool {
    tile.points() * panels.len() * 4 <= KEPT
}

impl Filters {
    /// When a run transforms its weights: ahead, where several groups would transform them again and the points are
    /// few.
    fn of(blocks: &ConvBlocks, grid: &Grid, tile: WinogradTile, panels: &Panels) -> Filters {
        let again = blocks.unit_tasks() == 1 && grid.groups() > 1;
        if again && few(tile, panels) { Filters::Ahead } else { Filters::Along }
    }
}

/// The layout of points in scratch, in elements: first the weights' points that are made ahead, then the part of each
/// task, then the points that tasks share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// A tile's row of channels at a point.
    pub(super) input_row: usize,
    /// All rows of a point.
    pub(super) input_point: usize,
    /// All points of a group.
    pub(super) input_group: usize,
    /// Panels of filters that are multiplied before their products are transformed.
    pub(super) panel_block: usize,
    pub(super) product_row: usize,
    pub(super) product_point: usize,
    pub(super) product_group: usize,
    /// When weights are transformed.
    pub(super) filters: Filters,
    /// The weights of a point: all panels ahead, one panel along.
    pub(super) filter_point: usize,
    /// All weights that are made ahead.
    pub(super) ahead: usize,
    /// The weights that a task makes along.
    pub(super) along: usize,
    /// A run of weights of `f16` that a task widens at a time, and the stride of its taps.
    pub(super) widened: usize,
    pub(super) widened_tap: usize,
}

/// Elements of a tap that are transformed to all rows of points before the next elements: nine such runs stay in L1
/// meanwhile. A whole number of vectors; for pairs, a whole number of the panel's rows.
pub(super) const RUN: usize = 1024;

/// Taps of a window.
pub(super) const TAPS: usize = 9;

/// Elements of a cache line.
const LINE: usize = 16;

/// `elements` rounded up to an odd number of lines, so that runs at this stride, which are read in turn, map to
/// different sets of L1.
fn apart(elements: usize) -> usize {
    (elements.div_ceil(LINE) | 1) * LINE
}

impl Layout {
    pub(super) fn new(isa: Isa, tile: WinogradTile, blocks: &ConvBlocks, grid: &Grid, panels: &Panels) -> Layout {
        let tiles = grid.largest();
        let input_row = panels.rows.next_multiple_of(isa.lanes());
        let input_point = apart(tiles * input_row);
        // The points of a group are read once for each block of filters, its products twice in all: the products may
        // take a quarter of L2.
        let panel = tile.points() * tiles * panels.width * 4;
        let panel_block = (l2_bytes() / 4 / panel.max(1)).clamp(1, panels.count().max(1));
        let product_row = panel_block * panels.width;
        let product_point = apart(tiles * product_row);
        let filters = Filters::of(blocks, grid, tile, panels);
        let filter_point = apart(if filters == Filters::Ahead { panels.len() } else { panels.panel_len() });
        let (ahead, along) = match filters {
            Filters::Ahead => (tile.points() * filter_point, 0),
            Filters::Along => (0, tile.points() * filter_point),
        };
        let widened_tap = apart(RUN);
        let widened = if blocks.elements == Elements::F16 { TAPS * widened_tap } else { 0 };
        Layout {
            input_row,
            input_point,
            input_group: tile.points() * input_point,
            panel_block,
            product_row,
            product_point,
            product_group: tile.points() * product_point,
            filters,
            filter_point,
            ahead,
            along,
            widened,
            widened_tap,
        }
    }

    /// Elements of scratch for that cut.
    pub(super) fn scratch(&self, blocks: &ConvBlocks) -> usize {
        self.inputs(blocks, blocks.row_tasks())
    }

    /// Where a task's own weights start; its products follow them, and then the weights that it widens.
    pub(super) fn task(&self, task: usize) -> usize {
        self.ahead + task * (self.along + self.product_group + self.widened)
    }

    /// The start of the points of inputs that tasks of this row share.
    pub(super) fn inputs(&self, blocks: &ConvBlocks, row: usize) -> usize {
        self.task(blocks.row_tasks() * blocks.unit_tasks()) + row * self.input_group
    }
}

/// The panels of one point's weights.
pub(super) fn panels(shape: &ConvShape, width: usize) -> Panels {
    Panels { rows: shape.channels(), columns: shape.filters(), width }
}

/// Whether a driver can take these blocks for a shape that [`suits`]: no part without work, and scratch that can be
/// counted.
pub(in crate::cpu::conv) fn fits(blocks: &ConvBlocks, shape: &ConvShape, isa: Isa, tile: WinogradTile) -> bool {
    debug_assert!(suits(shape), "the caller asks for shapes on tiles only");
    let grid = Grid::new(shape, tile, blocks.row_block());
    let panels = panels(shape, blocks.vectors() * isa.lanes());
    let points = tile.points();
    // Points are at most 36 times as many as channels and filters, rounded up to whole vectors, panels and lines; a
    // task also has the points of a panel, and a run that it widens.
    let rows = grid.total().checked_add(grid.groups() + blocks.row_tasks() * blocks.unit_tasks());
    let row = (shape.channels() + shape.filters()).checked_add(8 * LINE);
    let filters = (panels.panel_len() + LINE + TAPS * apart(RUN)).checked_mul(blocks.row_tasks() * blocks.unit_tasks());
    let elements = rows.zip(row).and_then(|(rows, row)| rows.checked_mul(row)?.checked_add(filters?));
    let bytes = elements.and_then(|elements| elements.checked_mul(8 * points)?.checked_add(KEPT));
    blocks.row_tasks() <= grid.groups().max(1)
        && blocks.unit_tasks() <= panels.count().max(1)
        && bytes.is_some_and(|bytes| bytes <= isize::MAX as usize)
}
