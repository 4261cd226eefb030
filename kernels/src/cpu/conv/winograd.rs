//! Winograd convolutions: 3x3 windows with fewer multiplications.
//!
//! The output is cut into small squares, *tiles*. A tile's inputs, the square with a border of one tap on each side,
//! are transformed into *points*, and so are weights; at each point, tiles by channels times channels by filters is a
//! matrix product of its own, on the same micro-kernel as any other; the products of a tile are transformed into its
//! outputs ([`matrices`]). That is 2.25 times fewer multiplications for tiles of 2x2 outputs, and 4 times fewer for
//! 4x4.
//!
//! All stages stay in L2. Tiles are done in *groups*: a group's points stay there while they are multiplied with one
//! block of filters after another, and a block's products are transformed into outputs, with residual and activation,
//! before the next block ([`stages`]; [`grid`] has the cut and the layout). The transforms are emitted, with vectors of
//! channels or filters ([`emit`], [`filters`]; in Rust in [`portable`]). A tile reads and writes through an indirection
//! table: padding is a pointer to zeros, outputs beyond the border are null. The bias starts the sums of the one point
//! that reaches all outputs.
//!
//! Weights are the panels of any other strategy, and are transformed in each run: kept transformed they would be up to
//! four times as large, and reading them from memory would take longer than the transform. Where there are many groups
//! and few weights, one transform ahead serves all groups; else a panel's weights are transformed along the way, by the
//! task that multiplies with them. Weights of `f16` are widened before, a run at a time.
//!
//! Threads take groups of their own, or, where weights are many, share the transform of a group's inputs and then
//! divide its filters.

mod args;
mod code;
pub(super) mod cost;
mod emit;
mod filters;
mod grid;
mod matrices;
mod portable;
mod stages;

pub(crate) use args::FAMILY;
pub use code::{WinogradCode, WinogradSide};
pub(super) use grid::{Grid, fits};
pub use matrices::WinogradTile;

use self::code::Kernel;
use self::grid::{Filters, Layout, panels};
use self::stages::{Part, cuts};
use super::blocks::{ConvBlocks, ConvStored};
use super::extras::EpilogueOperands;
use super::input::ConvPart;
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::micro_kernel::MicroKernel;
use crate::cpu::gemm::rows::part;
use crate::cpu::gemm::tile::{LeftRows, RightColumns, TileCode};
use crate::cpu::gemm::{Panels, Widen};
use crate::cpu::{ActivationsMut, CodeSource, Elements, PackedWeights};
use crate::error::Result;
use crate::isa::Isa;
use crate::memory;
use crate::parallel::{Disjoint, Parallel};
use crate::problem::conv::ConvShape;

/// A Winograd convolution.
#[derive(Clone, Debug)]
pub(super) struct Winograd {
    shape: ConvShape,
    blocks: ConvBlocks,
    isa: Isa,
    tile: WinogradTile,
    stored: ConvStored,
    activation: Option<UnaryOp>,
    input: Kernel,
    filters: Kernel,
    output: Kernel,
    product: MicroKernel,
    /// The kernel that widens weights, where they are `f16`.
    widen: Option<Widen>,
    grid: Grid,
    panels: Panels,
    layout: Layout,
    /// Zeros, as many as a position has bytes.
    zeros: Vec<u8>,
}

/// Whether a convolution can be computed by Winograd: 3x3 windows without dilation, at stride 1.
#[must_use]
pub fn suits(shape: &ConvShape) -> bool {
    !shape.transposed
        && shape.groups() == 1
        && shape.kernel() == [1, 3, 3]
        && shape.strides() == [1; 3]
        && shape.dilations() == [1; 3]
        && shape.pads()[0] == 0
        && shape.input()[0] == shape.output()[0]
}

/// The buffers of one run, as tasks see them.
struct Buffers<'a> {
    parts: &'a [ConvPart<'a>],
    weights: PackedWeights<'a>,
    y: Disjoint<'a, u8>,
    extras: EpilogueOperands<'a>,
    scratch: Disjoint<'a, f32>,
}

impl Winograd {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        blocks: ConvBlocks,
        tile: WinogradTile,
        stored: ConvStored,
        activation: Option<UnaryOp>,
        source: &dyn CodeSource,
    ) -> Result<Winograd> {
        let (left, right) = (LeftRows::Strided, RightColumns::Packed);
        let product = TileCode::sums(isa, blocks.vectors() as u8, left, right);
        let kernel = |side: WinogradSide, whole: bool| Kernel::new(WinogradCode { isa, tile, side }, whole, source);
        let fills = |size: usize| size.is_multiple_of(isa.lanes());
        let grid = Grid::new(&shape, tile, blocks.row_block());
        let panels = panels(&shape, product.width());
        let pairs = blocks.elements == Elements::Bf16Dot;
        let ConvStored { input, residual, output } = stored;
        let lines = pairs || panels.panel_len().is_multiple_of(filters::LINE_ELEMENTS);
        Ok(Winograd {
            shape,
            blocks,
            isa,
            tile,
            stored,
            activation,
            input: kernel(WinogradSide::Input(input), fills(shape.channels()))?,
            filters: kernel(WinogradSide::Filters { pairs }, lines)?,
            output: kernel(WinogradSide::Output { activation, residual, output }, fills(shape.filters()))?,
            product: MicroKernel::new(product, cuts(isa, &blocks, &grid), source)?,
            widen: (blocks.elements == Elements::F16).then(|| Widen::new(isa, source)).transpose()?,
            grid,
            panels,
            layout: Layout::new(isa, tile, &blocks, &grid, &panels),
            zeros: memory::zeroed(shape.channels() * input.bytes()),
        })
    }

    /// Whether weights are bf16 pairs.
    fn pairs(&self) -> bool {
        self.blocks.elements == Elements::Bf16Dot
    }

    /// Elements of scratch that [`Winograd::run`] needs.
    pub(super) fn scratch_len(&self) -> usize {
        self.layout.scratch(&self.blocks)
    }

    /// Bytes held besides code.
    pub(super) fn bytes(&self) -> usize {
        self.zeros.len()
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
        let given = extras.given.clone().read("zeros", &self.zeros);
        let extras = EpilogueOperands { given: &given, ..extras };
        let (y, scratch) = (Disjoint::new(y.bytes_mut()), Disjoint::new(scratch));
        let buffers = Buffers { parts, weights, y, extras, scratch };
        let (rows, units) = (self.blocks.row_tasks(), self.blocks.unit_tasks());
        let (groups, panels) = (self.grid.groups(), self.panels.count());
        if self.layout.filters == Filters::Ahead {
            let (side, point, panel_len) = (self.tile.side(), self.layout.filter_point, self.panels.panel_len());
            parallel.run(rows, &|task| {
                let mine = part(panels * side, rows, task);
                for panel in mine.start / side..mine.end.div_ceil(side) {
                    let all = panel * side..(panel + 1) * side;
                    let rows = mine.start.max(all.start) - all.start..mine.end.min(all.end) - all.start;
                    let to = panel * panel_len;
                    self.panel_filters(&buffers, rows, panel, self.layout.task(task), |row| to + row * side * point);
                }
            });
        }
        if units == 1 {
            parallel.run(rows, &|task| {
                let points = self.layout.inputs(&self.blocks, task);
                for group in part(groups, rows, task) {
                    if parallel.is_stopped() {
                        return;
                    }
                    let tiles = self.grid.group(group);
                    self.transform(&buffers, tiles.clone(), points);
                    self.multiply(&buffers, &Part { tiles, panels: 0..panels, points, own: self.layout.task(task) });
                }
            });
            return;
        }
        // A group at a time for each row of tasks; the tasks of a row share its group.
        for first in (0..groups).step_by(rows) {
            let here = rows.min(groups - first);
            let points = |task: usize| self.layout.inputs(&self.blocks, task / units);
            parallel.run(here * units, &|task| {
                let tiles = self.grid.group(first + task / units);
                let mine = part(tiles.len(), units, task % units);
                let to = points(task) + mine.start * self.layout.input_row;
                self.transform(&buffers, tiles.start + mine.start..tiles.start + mine.end, to);
            });
            parallel.run(here * units, &|task| {
                let (tiles, panels) = (self.grid.group(first + task / units), part(panels, units, task % units));
                self.multiply(&buffers, &Part { tiles, panels, points: points(task), own: self.layout.task(task) });
            });
        }
    }
}

#[cfg(test)]
mod tests;
