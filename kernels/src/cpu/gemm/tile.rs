//! The contract of the micro-kernel: the key that shapes its instructions, and its arguments.

use std::cell::Cell;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::operands::{self, Operands};
use super::reduction::{PREFETCH_TILES, UNROLL};
use super::tile_size::MOST_VECTORS;
use crate::cpu::chain::UnaryOp;
use crate::cpu::{Elements, Stored};
use crate::isa::{Extension, Isa};
use crate::jit::{Arguments, Extents};

/// Where a tile's left-hand rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum LeftRows {
    /// At a constant stride.
    Strided,
    /// At a constant stride, with a second constant stride from tap to tap.
    Lines,
    /// Behind an indirection table: a pointer for each tap and row of the tile.
    Table,
}

/// Where a tile's right-hand columns are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum RightColumns {
    /// In packed panels of `f32`.
    Packed,
    /// In a row-major matrix. Such tiles are whole: the driver packs a last, narrower panel.
    Plain,
    /// In packed panels of bf16 pairs, which are widened to `f32` in registers.
    Pairs,
    /// In packed panels of bf16 pairs, multiplied as pairs (`vdpbf16ps`). Left-hand rows hold pairs too, and the
    /// reduction counts pairs.
    Dots,
    /// In packed panels of `f16`, which is widened to `f32` in registers.
    Halves,
}

impl RightColumns {
    /// For packed panels of these elements.
    pub(crate) fn packed(elements: Elements) -> RightColumns {
        match elements {
            Elements::F32 => RightColumns::Packed,
            // With products packed for AMX, vectors compute only single rows.
            Elements::Bf16 | Elements::Bf16Tiles => RightColumns::Pairs,
            Elements::Bf16Dot => RightColumns::Dots,
            Elements::F16 => RightColumns::Halves,
        }
    }

    /// The operand types.
    pub(crate) const fn operands(self) -> Operands {
        match self {
            RightColumns::Packed | RightColumns::Plain => operands::F32,
            RightColumns::Pairs => operands::BF16_WIDENED,
            RightColumns::Dots => operands::BF16_PAIRS,
            RightColumns::Halves => operands::F16_WIDENED,
        }
    }
}

/// What shapes the instructions of a micro-kernel: it serves all sizes, strides and tails, with a part for each number
/// of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct TileCode {
    /// Level.
    pub isa: Isa,
    /// Vectors that a tile is wide, 1 to [`MOST_VECTORS`].
    pub vectors: u8,
    /// Where left-hand rows are.
    pub left: LeftRows,
    /// Where right-hand columns are.
    pub right: RightColumns,
    /// Applied before the last store.
    pub activation: Option<UnaryOp>,
    /// Type of the residual; `f32` where there is none.
    pub residual: Stored,
    /// Type of C, rounded once, when it is stored.
    pub output: Stored,
    /// Whether terms are added in one order for every number of rows: the order of the kernel of one row. This is set
    /// for the last panels of that kernel's product, which this kernel computes (otherwise equal columns would have
    /// different sums), and where all kernels must add in one order
    /// ([`CodeSource::in_order`](crate::cpu::CodeSource::in_order)).
    pub in_order: bool,
}

impl TileCode {
    /// The micro-kernel that stores plain sums, in `f32`.
    pub(crate) fn sums(isa: Isa, vectors: u8, left: LeftRows, right: RightColumns) -> TileCode {
        let (residual, output) = (Stored::F32, Stored::F32);
        TileCode { isa, vectors, left, right, activation: None, residual, output, in_order: false }
    }

    /// Columns of a tile.
    #[must_use]
    pub fn width(&self) -> usize {
        usize::from(self.vectors) * self.isa.lanes()
    }

    /// The extension that the code needs besides its level.
    pub(crate) fn extension(&self) -> Option<Extension> {
        self.right.operands().extension.or(self.output.extension())
    }
}

/// The family's name in verbose lines and symbols.
pub(crate) const FAMILY: &str = "tile";

/// The arguments of one call: `tiles` tiles of `rows` rows below each other, over the same columns.
///
/// Fields that the kernel advances from tile to tile are cells. Strides are in bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct TileArgs {
    /// Rows of each tile, 1 to [`most_rows`](super::most_rows).
    pub(crate) rows: usize,
    /// Tiles still to do.
    pub(crate) tiles: Cell<usize>,
    /// The first left-hand row, if they do not come through a table.
    pub(crate) a: Cell<*const u8>,
    /// From one left-hand row to the next (leading dimension of A).
    pub(crate) lda: usize,
    /// From the left-hand rows of one tile to those of the next.
    pub(crate) a_tile_stride: usize,
    /// Pointers `[tile][tap][row]`, if left-hand rows come through a [`LeftRows::Table`].
    pub(crate) table: Cell<*const *const u8>,
    /// Taps: the reduction runs over each tap's rows in turn. 1 for strided rows.
    pub(crate) taps: usize,
    /// From the left-hand rows of one tap to those of the next, if they are [`LeftRows::Lines`].
    pub(crate) tap_stride: usize,
    /// Byte offset in each left-hand row at which the reduction starts.
    pub(crate) first: usize,
    /// Byte offset at which the reduction's last whole group of [`UNROLL`] elements ends.
    pub(crate) unrolled: usize,
    /// Byte offset at which the reduction's last whole pair of elements ends.
    pub(crate) paired: usize,
    /// Byte offset at which the reduction ends.
    pub(crate) end: usize,
    /// The first right-hand column.
    pub(crate) b: *const u8,
    /// Address to prefetch from while multiplying, or null: the right-hand side of the next call. Unused where rows are
    /// [`LeftRows::Lines`] or columns are not packed.
    pub(crate) prefetched: Cell<*const u8>,
    /// Bytes prefetched with each element of the reduction: at most half the bytes that the element reads.
    pub(crate) prefetch_step: usize,
    /// From one right-hand row to the next, if they are [`RightColumns::Plain`] (leading dimension of B).
    pub(crate) ldb: usize,
    /// The first row of C.
    pub(crate) c: Cell<*mut u8>,
    /// From one row of C to the next (leading dimension of C).
    pub(crate) ldc: usize,
    /// From the rows of C of one tile to those of the next.
    pub(crate) c_tile_stride: usize,
    /// Added to every row, or null.
    pub(crate) bias: *const f32,
    /// Not 0 if sums start from C, which is `f32`, and to which the bias has been added before.
    pub(crate) resume: usize,
    /// Not 0 if `scaled`, `unfinished` or `residual` is not 0.
    pub(crate) special: usize,
    /// Not 0 if sums, which include the bias, are multiplied by `scale`. A product with both packs the scale instead.
    pub(crate) scaled: usize,
    /// The factor.
    pub(crate) scale: f32,
    /// Not 0 if the reduction goes on in another call: neither residual nor activation is applied. C is `f32` then.
    pub(crate) unfinished: usize,
    /// Not 0 if a residual is added before the activation.
    pub(crate) residual: usize,
    /// Byte offset from an element of C to that of the residual. Where their types differ, it starts from twice or half
    /// the element's address ([`Stored::residual_offset`]).
    pub(crate) residual_offset: isize,
    /// Not 0 if the last columns of the tile are padding.
    pub(crate) partial: usize,
    /// Columns of C in each vector of the tile.
    pub(crate) lanes: [usize; MOST_VECTORS],
}

impl Arguments for TileArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = TileCode;

    fn extents(&self, key: &TileCode, extents: &mut Extents<'_>) {
        // The loop over tiles runs at least once.
        let (tiles, width) = (self.tiles.get().max(1), key.width());
        let own = match self.partial {
            0 => width,
            _ => (0..key.vectors.into()).fold(0, |own, vector| match self.lanes[vector] {
                0 => own,
                lanes => vector * key.isa.lanes() + lanes,
            }),
        };
        let c = self.c.get();
        let rows = extents.write("C", c).over(tiles, self.c_tile_stride).over(self.rows, self.ldc);
        rows.bytes(own * key.output.bytes());
        if !self.bias.is_null() && self.resume == 0 {
            extents.read("bias", self.bias).bytes(own * 4);
        }
        if self.special != 0 && self.residual != 0 && self.unfinished == 0 {
            let [first, tile, row] =
                [c.addr(), self.c_tile_stride, self.ldc].map(|at| key.output.rescale(at, key.residual));
            let residual = extents.read("residual", c.with_addr(first)).from(self.residual_offset);
            residual.over(tiles, tile).over(self.rows, row).bytes(own * key.residual.bytes());
        }
        let end = match key.right {
            RightColumns::Pairs => self.unrolled.max(self.paired).max(self.end),
            _ => self.unrolled.max(self.end),
        };
        let (first, bytes) = (self.first as isize, end.saturating_sub(self.first));
        let taps = if key.left == LeftRows::Strided { 1 } else { self.taps };
        match key.left {
            LeftRows::Strided | LeftRows::Lines => {
                let rows = extents.read("the left-hand rows", self.a.get()).from(first);
                let rows = rows.over(tiles, self.a_tile_stride).over(self.rows, self.lda);
                rows.over(taps, self.tap_stride).bytes(bytes);
            }
            LeftRows::Table => {
                let pointers = tiles.saturating_mul(taps).saturating_mul(self.rows);
                for &row in extents.list("the table of left-hand rows", self.table.get(), pointers) {
                    extents.read("the left-hand rows", row).from(first).bytes(bytes);
                }
            }
        }
        let elements = bytes.div_ceil(4);
        let right = extents.read("the right-hand side", self.b);
        match key.right {
            RightColumns::Plain => right.over(taps, elements * self.ldb).over(elements, self.ldb).bytes(width * 4),
            RightColumns::Packed | RightColumns::Dots => {
                right.over(taps, elements * width * 4).bytes(elements * width * 4)
            }
            RightColumns::Halves => right.over(taps, elements * width * 2).bytes(elements * width * 2),
            RightColumns::Pairs => {
                let words = elements.div_ceil(2) * width;
                right.over(taps, words * 4).bytes(words * 4);
            }
        }
    }
}

impl TileArgs {
    /// Arguments without tiles, bias or residual.
    pub(crate) fn empty() -> TileArgs {
        TileArgs {
            rows: 0,
            tiles: Cell::new(0),
            a: Cell::new(std::ptr::null()),
            lda: 0,
            a_tile_stride: 0,
            table: Cell::new(std::ptr::null()),
            taps: 1,
            tap_stride: 0,
            first: 0,
            unrolled: 0,
            paired: 0,
            end: 0,
            b: std::ptr::null(),
            prefetched: Cell::new(std::ptr::null()),
            prefetch_step: 0,
            ldb: 0,
            c: Cell::new(std::ptr::null_mut()),
            ldc: 0,
            c_tile_stride: 0,
            bias: std::ptr::null(),
            resume: 0,
            special: 0,
            scaled: 0,
            scale: 1.0,
            unfinished: 0,
            residual: 0,
            residual_offset: 0,
            partial: 0,
            lanes: [0; MOST_VECTORS],
        }
    }

    /// Sets the range of each left-hand row that the reduction runs over, in elements.
    pub(crate) fn reduce_over(&mut self, first: usize, count: usize) {
        self.first = first * 4;
        self.unrolled = (first + count / UNROLL * UNROLL) * 4;
        self.paired = (first + count / 2 * 2) * 4;
        self.end = (first + count) * 4;
    }

    /// Sets how many of the tile's `width` columns are columns of C.
    pub(crate) fn keep_columns(&mut self, columns: usize, width: usize, lanes: usize) {
        self.partial = usize::from(columns < width);
        for (vector, count) in self.lanes.iter_mut().enumerate() {
            *count = columns.saturating_sub(vector * lanes).min(lanes);
        }
    }

    /// Spreads the prefetch of `next`, as many bytes as one tile reads, evenly over `tiles` tiles. The slowest prefetch
    /// that suffices keeps memory busy throughout and leaves room for reads from the caches. A row of the right-hand
    /// side has `row_bytes` bytes. Without `next`, or with too few tiles to hide it, nothing is prefetched.
    pub(crate) fn prefetch(&mut self, next: Option<*const u8>, row_bytes: usize, tiles: usize) {
        let next = next.filter(|_| tiles >= PREFETCH_TILES);
        self.prefetched.set(next.unwrap_or(std::ptr::null()));
        self.prefetch_step = row_bytes.div_ceil(tiles.max(PREFETCH_TILES));
    }

    /// Sets `special` from the flags that it summarises.
    pub(crate) fn summarise(&mut self) {
        self.special = self.scaled | self.unfinished | self.residual;
    }
}

// Only where calls are checked: elsewhere a call that these tests expect to be refused would run.
#[cfg(all(test, any(debug_assertions, fuzzing, feature = "extents")))]
mod tests {
    use super::*;
    use crate::jit::Given;

    const KEY: TileCode = TileCode {
        isa: Isa::Avx2,
        vectors: 1,
        left: LeftRows::Strided,
        right: RightColumns::Packed,
        activation: None,
        residual: Stored::F32,
        output: Stored::F32,
        in_order: false,
    };

    /// The extents of two tiles of three rows of five elements by a panel, with buffers of these lengths.
    fn describe(left: LeftRows, [rows, panel, c]: [usize; 3]) {
        let (a, b, mut c) = (vec![0.0f32; rows], vec![0.0f32; panel], vec![0.0f32; c]);
        let table: Vec<*const u8> = (0..6).map(|row| a.as_ptr().wrapping_add(row * 5).cast()).collect();
        let mut args = TileArgs::empty();
        args.reduce_over(0, 5);
        (args.rows, args.lda, args.ldc) = (3, 20, 28);
        (args.a_tile_stride, args.c_tile_stride) = (3 * 20, 3 * 28);
        args.tiles.set(2);
        args.keep_columns(7, 8, 8);
        args.a.set(a.as_ptr().cast());
        args.table.set(table.as_ptr());
        args.b = b.as_ptr().cast();
        args.c.set(c.as_mut_ptr().cast());
        let given = Given::new().read("left", &a).read("right", &b).write("C", &mut c).read("table", &table);
        // SAFETY: nothing runs; only extents are computed.
        unsafe { given.check(&args, &TileCode { left, ..KEY }) };
    }

    #[test]
    fn a_tile_touches_its_rows_a_whole_panel_and_its_own_columns() {
        describe(LeftRows::Strided, [6 * 5, 5 * 8, 6 * 7]);
        describe(LeftRows::Table, [6 * 5, 5 * 8, 6 * 7]);
    }

    #[test]
    #[should_panic(expected = "tile: reads 120 bytes of the left-hand rows")]
    fn a_left_hand_side_that_is_an_element_short_is_refused() {
        describe(LeftRows::Strided, [6 * 5 - 1, 5 * 8, 6 * 7]);
    }

    #[test]
    #[should_panic(expected = "tile: reads 20 bytes of the left-hand rows")]
    fn a_table_that_points_an_element_too_far_is_refused() {
        describe(LeftRows::Table, [6 * 5 - 1, 5 * 8, 6 * 7]);
    }

    #[test]
    #[should_panic(expected = "tile: reads 160 bytes of the right-hand side")]
    fn a_panel_that_is_an_element_short_is_refused() {
        describe(LeftRows::Strided, [6 * 5, 5 * 8 - 1, 6 * 7]);
    }

    #[test]
    #[should_panic(expected = "tile: writes 168 bytes of C")]
    fn a_result_that_is_an_element_short_is_refused() {
        describe(LeftRows::Strided, [6 * 5, 5 * 8, 6 * 7 - 1]);
    }
}
