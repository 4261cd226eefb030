//! The micro-kernel as its drivers see it: what shapes its instructions, its arguments, and how it is called.

use std::cell::Cell;
use std::sync::Arc;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::Tiles;
use super::operands::{self, Operands};
pub use super::reduction::MOST_ROWS;
pub(crate) use super::reduction::{PREFETCH_TILES, UNROLL};
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::cpu::{CodeKey, CodeSource, Elements, MOST_PARTS, PartSet};
use crate::error::{KernelError, Result};
use crate::isa::{Extension, Isa};
use crate::jit::{Arguments, Code, Extents, Given};

/// Most vectors that a tile is wide.
pub const MOST_VECTORS: usize = 4;

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
}

impl RightColumns {
    /// For packed panels of these elements.
    pub(crate) fn packed(elements: Elements) -> RightColumns {
        match elements {
            Elements::F32 => RightColumns::Packed,
            // Of products packed for AMX, only single rows are left for vectors.
            Elements::Bf16 | Elements::Bf16Tiles => RightColumns::Pairs,
            Elements::Bf16Dot => RightColumns::Dots,
        }
    }

    /// What is multiplied.
    pub(crate) const fn operands(self) -> Operands {
        match self {
            RightColumns::Packed | RightColumns::Plain => operands::F32,
            RightColumns::Pairs => operands::BF16_WIDENED,
            RightColumns::Dots => operands::BF16_PAIRS,
        }
    }

    /// The extension that such code needs besides its level.
    pub(crate) fn extension(self) -> Option<Extension> {
        self.operands().extension
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
    /// Whether terms are added in one order for every number of rows: that of the kernel of one row, whose last panels
    /// this one computes. Otherwise equal columns would have different sums.
    pub in_order: bool,
}

impl TileCode {
    /// Columns of a tile.
    #[must_use]
    pub fn width(&self) -> usize {
        usize::from(self.vectors) * self.isa.lanes()
    }

    /// Assembles the kernel of tiles of `rows` rows, 1 to [`most_rows`].
    pub(crate) fn emit(&self, rows: usize, asm: &mut crate::jit::Asm) -> Result<()> {
        if !(1..=most_rows(self.isa, usize::from(self.vectors))).contains(&rows) {
            let vectors = self.vectors;
            let reason = format!("a tile of {rows} rows and {vectors} vectors in the registers of {}", self.isa);
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        if !self.right.operands().suits(self.isa) {
            let reason = format!("products of {:?} on {}", self.right, self.isa);
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        activation::check(FAMILY, self.activation)?;
        super::emit::tile(asm, self, rows);
        Ok(())
    }
}

/// The family's name in verbose lines and symbols.
pub(crate) const FAMILY: &str = "tile";

/// Most rows of a tile that is `vectors` wide; 0 where no such tile is emitted.
///
/// Rows times vectors accumulators, a register for each vector of the right-hand side and one for the broadcast
/// element of the left-hand side must fit. From 8 accumulators on the latency of the multiply-add (4 cycles, two a
/// cycle) is hidden.
#[must_use]
pub const fn most_rows(isa: Isa, vectors: usize) -> usize {
    match (isa, vectors) {
        (Isa::Portable | Isa::Avx2, 1) => 8,
        (Isa::Portable | Isa::Avx2, 2) => 6,
        (Isa::Portable | Isa::Avx2, 3) => 4,
        (Isa::Avx512, 1..=3) => 8,
        (Isa::Avx512, 4) => 6,
        _ => 0,
    }
}

/// The panel width, in vectors, for a right-hand matrix of `columns` columns: the one that wastes least of its last
/// panel, and among equals the one whose tile computes most for what it loads.
#[must_use]
pub fn panel_vectors(isa: Isa, columns: usize) -> usize {
    // Share of the peak that the tallest tile of each width reaches with its operands in L1 and L2, in percent: a
    // narrow tile loads about as often as it multiplies.
    let efficiency: &[(usize, usize)] = match isa {
        Isa::Avx512 => &[(4, 98), (3, 97), (2, 96), (1, 85)],
        Isa::Portable | Isa::Avx2 => &[(2, 98), (3, 97), (1, 85)],
    };
    least_waste(isa, columns, efficiency)
}

/// Of widths in vectors, each with the share of the peak that its tallest tile reaches in percent, the one that takes
/// least time for so many columns, those that fill up its last panel among them.
pub(crate) fn least_waste(isa: Isa, columns: usize, efficiency: &[(usize, usize)]) -> usize {
    let vectors = columns.div_ceil(isa.lanes()).max(1);
    let cost = |&(width, percent): &(usize, usize)| vectors.div_ceil(width) * width * 100_000 / percent;
    efficiency.iter().min_by_key(|candidate| cost(candidate)).map_or(1, |&(width, _)| width)
}

/// The arguments of one call: `tiles` tiles of `rows` rows below each other, over the same columns.
///
/// Fields that the kernel advances from tile to tile are cells. Strides are in bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct TileArgs {
    /// Rows of each tile, 1 to [`most_rows`].
    pub(crate) rows: usize,
    /// Tiles still to do.
    pub(crate) tiles: Cell<usize>,
    /// The first left-hand row, if they do not come through a table.
    pub(crate) a: Cell<*const f32>,
    /// From one left-hand row to the next (leading dimension of A).
    pub(crate) lda: usize,
    /// From the left-hand rows of one tile to those of the next.
    pub(crate) a_tile_stride: usize,
    /// Pointers `[tile][tap][row]`, if left-hand rows come through a [`LeftRows::Table`].
    pub(crate) table: Cell<*const *const f32>,
    /// Taps: the reduction runs over each tap's rows in turn. 1 for strided rows.
    pub(crate) taps: usize,
    /// From the left-hand rows of one tap to those of the next, if they are [`LeftRows::Lines`].
    pub(crate) tap_stride: usize,
    /// Byte offset in each left-hand row at which the reduction starts.
    pub(crate) first: usize,
    /// Byte offset at which its last whole group of [`UNROLL`] elements ends.
    pub(crate) unrolled: usize,
    /// Byte offset at which its last whole pair of elements ends.
    pub(crate) paired: usize,
    /// Byte offset at which it ends.
    pub(crate) end: usize,
    /// The first right-hand column.
    pub(crate) b: *const f32,
    /// Address to prefetch from while multiplying, or null: the right-hand side of the next call. Unused where rows are
    /// [`LeftRows::Lines`] or columns are not packed.
    pub(crate) prefetched: Cell<*const f32>,
    /// Bytes prefetched with each element of the reduction, at most half of what it reads.
    pub(crate) prefetch_step: usize,
    /// From one right-hand row to the next, if they are [`RightColumns::Plain`] (leading dimension of B).
    pub(crate) ldb: usize,
    /// The first row of C.
    pub(crate) c: Cell<*mut f32>,
    /// From one row of C to the next (leading dimension of C).
    pub(crate) ldc: usize,
    /// From the rows of C of one tile to those of the next.
    pub(crate) c_tile_stride: usize,
    /// Added to every row, or null.
    pub(crate) bias: *const f32,
    /// Not 0 if sums start from C, to which the bias has been added before.
    pub(crate) resume: usize,
    /// Not 0 if `scaled`, `unfinished` or `residual` is not 0.
    pub(crate) special: usize,
    /// Not 0 if sums, which include the bias, are multiplied by `scale`. A product with both packs the scale instead.
    pub(crate) scaled: usize,
    /// The factor.
    pub(crate) scale: f32,
    /// Not 0 if the reduction goes on in another call: neither residual nor activation is applied.
    pub(crate) unfinished: usize,
    /// Not 0 if a residual is added before the activation.
    pub(crate) residual: usize,
    /// Byte offset from an element of C to that of the residual.
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
        extents.write("C", c).over(tiles, self.c_tile_stride).over(self.rows, self.ldc).bytes(own * 4);
        if !self.bias.is_null() && self.resume == 0 {
            extents.read("bias", self.bias).bytes(own * 4);
        }
        if self.special != 0 && self.residual != 0 && self.unfinished == 0 {
            let residual = extents.read("residual", c).from(self.residual_offset);
            residual.over(tiles, self.c_tile_stride).over(self.rows, self.ldc).bytes(own * 4);
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

    /// Spreads the prefetch of `next`, as many bytes as one tile reads, evenly over `tiles` tiles. As slow a prefetch
    /// as suffices keeps memory busy throughout and leaves room for reads from the caches. A row of the right-hand side
    /// has `row_bytes` bytes. Without `next`, or with too few tiles to hide it, nothing is prefetched.
    pub(crate) fn prefetch(&mut self, next: Option<*const f32>, row_bytes: usize, tiles: usize) {
        let next = next.filter(|_| tiles >= PREFETCH_TILES);
        self.prefetched.set(next.unwrap_or(std::ptr::null()));
        self.prefetch_step = row_bytes.div_ceil(tiles.max(PREFETCH_TILES));
    }

    /// Sets `special` from the flags that it summarises.
    pub(crate) fn summarise(&mut self) {
        self.special = self.scaled | self.unfinished | self.residual;
    }
}

/// A micro-kernel that can be called, for the numbers of rows that it was made for.
#[derive(Clone, Debug)]
pub(crate) enum Tile {
    /// Machine code: a part for each number of rows, that of one row first.
    Emitted(TileCode, [Option<Arc<Code>>; MOST_PARTS]),
    /// The Rust version, where no code may be emitted.
    Portable(TileCode),
}

// A part for each number of rows.
const _: () = assert!(MOST_ROWS <= MOST_PARTS);

impl Tile {
    /// The micro-kernel for every height of the tiles in `cuts`: emitted, or the Rust one at [`Isa::Portable`].
    pub(crate) fn new(key: TileCode, cuts: impl IntoIterator<Item = Tiles>, source: &dyn CodeSource) -> Result<Tile> {
        if !key.isa.is_jit() {
            return Ok(Tile::Portable(key));
        }
        let heights = cuts.into_iter().flat_map(|tiles| tiles.heights());
        let wanted = heights.fold(PartSet::default(), |parts, height| parts.and(height - 1));
        if wanted.is_empty() {
            return Ok(Tile::Emitted(key, Default::default()));
        }
        let emitted = source.parts(&CodeKey::Tile(key), wanted)?;
        Ok(Tile::Emitted(key, Arc::unwrap_or_clone(emitted).into_parts()))
    }

    /// Computes the tiles that `args` describes.
    ///
    /// # Safety
    ///
    /// `given` holds: every left-hand row over the reduction, the right-hand columns (whole panels where packed), and
    /// bias, residual and C over the columns of C. No other task touches those elements of C.
    ///
    /// # Panics
    ///
    /// Where `rows` is not among the heights that it was made for.
    pub(crate) unsafe fn call(&self, args: &TileArgs, given: &Given) {
        match self {
            Tile::Emitted(key, parts) => match parts.get(args.rows.wrapping_sub(1)) {
                // SAFETY: the caller vouches for the pointers; the struct is the one that the emitter reads, and this
                // is the part for its number of rows.
                Some(Some(code)) => unsafe { code.call(args, key, given) },
                _ => unmade(args.rows),
            },
            // SAFETY: the same contract.
            Tile::Portable(key) => unsafe {
                given.check(args, key);
                super::portable::tile(key, args);
            },
        }
    }
}

/// The panic for a height that the driver did not ask for: it names all heights when it is built.
#[cold]
#[inline(never)]
fn unmade(rows: usize) -> ! {
    panic!("a tile of {rows} rows, for which no code was asked");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_are_as_wide_as_wastes_least() {
        for (isa, columns, vectors) in [
            (Isa::Avx2, 1, 1),
            (Isa::Avx2, 8, 1),
            (Isa::Avx2, 9, 2),
            (Isa::Avx2, 24, 3),
            (Isa::Avx2, 64, 2),
            (Isa::Avx2, 96, 2),
            (Isa::Avx2, 1000, 2),
            (Isa::Avx512, 16, 1),
            (Isa::Avx512, 64, 4),
            (Isa::Avx512, 96, 3),
            (Isa::Avx512, 160, 2),
            (Isa::Avx512, 3072, 4),
        ] {
            assert_eq!(panel_vectors(isa, columns), vectors, "{isa}: {columns} columns");
        }
    }

    const KEY: TileCode = TileCode {
        isa: Isa::Avx2,
        vectors: 1,
        left: LeftRows::Strided,
        right: RightColumns::Packed,
        activation: None,
        in_order: false,
    };

    /// The extents of two tiles of three rows of five elements by a panel, with buffers of these lengths.
    fn describe(left: LeftRows, [rows, panel, c]: [usize; 3]) {
        let (a, b, mut c) = (vec![0.0f32; rows], vec![0.0f32; panel], vec![0.0f32; c]);
        let table: Vec<*const f32> = (0..6).map(|row| a.as_ptr().wrapping_add(row * 5)).collect();
        let mut args = TileArgs::empty();
        args.reduce_over(0, 5);
        (args.rows, args.lda, args.ldc) = (3, 20, 28);
        (args.a_tile_stride, args.c_tile_stride) = (3 * 20, 3 * 28);
        args.tiles.set(2);
        args.keep_columns(7, 8, 8);
        args.a.set(a.as_ptr());
        args.table.set(table.as_ptr());
        args.b = b.as_ptr();
        args.c.set(c.as_mut_ptr());
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

    #[test]
    fn every_emitted_tile_fits_the_registers() {
        for isa in Isa::ALL {
            for vectors in 1..=MOST_VECTORS {
                let rows = most_rows(isa, vectors);
                assert!(rows <= MOST_ROWS && (rows == 0 || rows * vectors + vectors < usize::from(isa.registers())));
            }
        }
    }
}
