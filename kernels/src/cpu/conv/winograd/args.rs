//! The arguments of the transforms, and the memory that their calls touch.

use super::matrices::WinogradTile;
use crate::cpu::conv::blocks::ConvStored;
use crate::isa::Isa;
use crate::jit::{Arguments, Extents};

/// The name of the transforms' code.
pub(crate) const FAMILY: &str = "winograd";

/// The arguments of an input transform. Strides are in bytes.
#[derive(Debug)]
#[repr(C)]
pub(super) struct InputArgs {
    /// Pointers `[tile][position]` to the inputs' channels.
    pub(super) table: *const *const u8,
    /// Tiles, at least 1.
    pub(super) tiles: usize,
    /// The first tile's row of the first point.
    pub(super) to: *mut f32,
    /// Stride of tiles' rows.
    pub(super) to_stride: usize,
    /// Stride of points.
    pub(super) point_stride: usize,
    /// Bytes of points of the channels that fill whole vectors.
    pub(super) whole: usize,
    /// Channels behind them; their vector is padded with zeros.
    pub(super) rest: usize,
}

/// The arguments of a transform of weights. Strides are in bytes.
#[derive(Debug)]
#[repr(C)]
pub(super) struct FilterArgs {
    /// The first tap's rows of a panel.
    pub(super) from: *const u8,
    /// Stride of taps.
    pub(super) tap_stride: usize,
    /// The row's first point of that panel.
    pub(super) to: *mut f32,
    /// Stride of points.
    pub(super) point_stride: usize,
    /// Bytes of a tap in whole vectors; for pairs, in whole rows of the panel.
    pub(super) bytes: usize,
    /// Bytes of a row of the panel: a row of pairs becomes two of points.
    pub(super) row_bytes: usize,
    /// The row of points to make.
    pub(super) row: usize,
}

/// The arguments of an output transform. Strides are in bytes.
#[derive(Debug)]
#[repr(C)]
pub(super) struct OutputArgs {
    /// The first tile's row of the first point.
    pub(super) from: *const f32,
    /// Stride of tiles' rows.
    pub(super) from_stride: usize,
    /// Stride of points.
    pub(super) point_stride: usize,
    /// Tiles, at least 1.
    pub(super) tiles: usize,
    /// Pointers `[tile][output]`, null where there is no such output.
    pub(super) table: *const *mut u8,
    /// Byte offset from those pointers to the first filter of this call.
    pub(super) column: usize,
    /// Not 0 where a tensor is added before the activation.
    pub(super) residual: usize,
    /// Byte offset from an element of the output to that of the residual. Where their types differ, it starts from
    /// twice or half the element's address.
    pub(super) residual_offset: isize,
    /// Bytes of products of the filters that fill whole vectors.
    pub(super) whole: usize,
    /// Filters behind them.
    pub(super) rest: usize,
}

/// The parts of a transform's code that, besides its arguments, decide the extents of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transform {
    /// Level.
    pub(super) isa: Isa,
    /// Size of the tiles.
    pub(super) tile: WinogradTile,
    /// Types of activations.
    pub(super) stored: ConvStored,
    /// Whether weights are bf16 pairs.
    pub(super) pairs: bool,
}

impl Arguments for InputArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = Transform;

    fn extents(&self, &Transform { isa, tile, stored, .. }: &Transform, extents: &mut Extents<'_>) {
        let tiles = self.tiles.max(1);
        for &input in extents.list("the table of inputs", self.table, tiles.saturating_mul(tile.points())) {
            extents.read("input", input).bytes((self.whole / 4 + self.rest) * stored.input.bytes());
        }
        let vector = if self.rest > 0 { isa.lanes() * 4 } else { 0 };
        let points = extents.write("points", self.to).over(tiles, self.to_stride);
        points.over(tile.points(), self.point_stride).bytes(self.whole + vector);
    }
}

impl Arguments for FilterArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = Transform;

    fn extents(&self, &Transform { isa, tile, pairs, .. }: &Transform, extents: &mut Extents<'_>) {
        let bytes = self.bytes.next_multiple_of(isa.lanes() * 4);
        extents.read("weights", self.from).over(9, self.tap_stride).bytes(bytes);
        let rows = if pairs { 2 } else { 1 };
        extents.write("points", self.to).over(tile.side(), self.point_stride).bytes(rows * bytes);
    }
}

impl Arguments for OutputArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = Transform;

    fn extents(&self, &Transform { isa, tile, stored, .. }: &Transform, extents: &mut Extents<'_>) {
        let tiles = self.tiles.max(1);
        let vector = if self.rest > 0 { isa.lanes() * 4 } else { 0 };
        let products = extents.read("products", self.from).over(tiles, self.from_stride);
        products.over(tile.points(), self.point_stride).bytes(self.whole + vector);
        let outputs = tiles.saturating_mul(tile.outputs() * tile.outputs());
        for &output in
            extents.list("the table of outputs", self.table, outputs).iter().filter(|output| !output.is_null())
        {
            let (first, elements) = (output.wrapping_add(self.column), self.whole / 4 + self.rest);
            extents.write("output", first).bytes(elements * stored.output.bytes());
            if self.residual != 0 {
                let first = first.with_addr(stored.output.rescale(first.addr(), stored.residual));
                let residual = extents.read("residual", first.cast_const()).from(self.residual_offset);
                residual.bytes(elements * stored.residual.bytes());
            }
        }
    }
}
