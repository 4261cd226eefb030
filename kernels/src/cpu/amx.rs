//! AMX, the processor's matrix extension: products of `bf16` and of int8 on tile registers of 16 rows by 64 bytes.
//!
//! A *tile row* is sixteen left-hand rows. An AMX *step* is 64 bytes of each row: 32 `bf16` or 64 int8 elements of the
//! reduction. An AMX *block* is one or two tile rows by a packed panel of 32 columns; its sums stay in tile registers
//! for the whole reduction. AMX can neither add a bias nor mask columns, so sums are stored to memory before their
//! epilogue. [`multiply`] applies it panel by panel where a [`FusedEpilogue`] says so. Otherwise it stores the raw sums
//! of several blocks, which stay in L1 and L2, and the kernel of [`epilogue`] reads them once: the reduction may then
//! go in parts, and sums may be scaled.
//!
//! Left-hand rows are found through a table of pointers, one for each tile row, and a list of byte offsets, one for
//! each *tap*, so that matrix products and convolutions share the kernel. The right-hand side lies in packed panels of
//! bf16 pairs ([`pack_pairs`](super::gemm::Panels::pack_pairs)), 32 columns wide; the reduction of each tap is padded
//! with zeros to whole steps. Left-hand `bf16` rows are padded with zeros too, because NaN times zero is NaN; for int8
//! the zeros on the right suffice.
//!
//! Rows shorter than a step are not read beyond their end: AMX is then configured for shorter steps.
//!
//! For int8, groups of four elements take the place of bf16 pairs (KR = 4); their epilogue is in
//! [`quantized`](super::quantized).

mod epilogue;
mod fused;
mod multiply;
pub(crate) mod prefetch;
mod registers;

use std::mem::MaybeUninit;

pub use epilogue::EpilogueCode;
pub(crate) use epilogue::FAMILY as EPILOGUE;
pub(crate) use epilogue::{Area, EpilogueArgs, LANES};
pub(crate) use fused::Stretch;
pub use fused::{Columns, FusedEpilogue};
pub(crate) use multiply::{FAMILY, Held, Multiply, MultiplyArgs};
pub use multiply::{Factors, MultiplyCode};

/// Rows of a tile register.
pub const TILE_ROWS: usize = 16;
/// `bf16` elements of the reduction in a step.
pub const STEP: usize = 32;
/// Columns of a packed panel.
pub const PANEL: usize = 32;
/// 32-bit words of a row in a step, each a bf16 pair.
pub const STEP_WORDS: usize = STEP / 2;
/// Bytes of a row in a step.
pub const STEP_BYTES: usize = 64;

/// Most tile rows of a block.
pub(crate) const TALLEST: usize = 2;

/// Sums of a tile row by a panel.
pub(crate) const BLOCK: usize = TILE_ROWS * PANEL;

/// Memory of `COUNT` sums that are stored before they are read, aligned to cache lines.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Sums<T, const COUNT: usize>(MaybeUninit<[T; COUNT]>);

impl<T: Copy, const COUNT: usize> Sums<T, COUNT> {
    /// Sums that have not been stored.
    pub(crate) fn uninit() -> Sums<T, COUNT> {
        Sums(MaybeUninit::uninit())
    }

    /// Stores one value in every sum.
    pub(crate) fn fill(&mut self, value: T) {
        self.0.write([value; COUNT]);
    }

    /// The address of the first.
    pub(crate) fn first(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }
}

/// Blocks of one height below each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Tile rows of each.
    pub(crate) height: usize,
    /// The first tile row.
    pub(crate) first: usize,
    /// Blocks.
    pub(crate) count: usize,
}

impl Block {
    /// Cuts tile rows into the tallest blocks and a rest.
    pub(crate) fn all(tile_rows: usize) -> impl Iterator<Item = Block> {
        let tallest = tile_rows / TALLEST;
        let rest = Block { height: 1, first: tallest * TALLEST, count: tile_rows % TALLEST };
        [Block { height: TALLEST, first: 0, count: tallest }, rest].into_iter().filter(|block| block.count > 0)
    }
}

/// The 64-byte memory operand of `ldtilecfg`: shapes of the eight tile registers.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileConfig([u8; 64]);

impl TileConfig {
    /// Whole tiles, but for steps of `words` words: left-hand tiles have shorter rows, right-hand tiles fewer rows.
    const fn of_words(words: usize) -> TileConfig {
        let mut bytes = [0; 64];
        // The palette, then for each tile the bytes of its rows as a 16-bit number, then its rows.
        bytes[0] = 1;
        let mut tile = 0;
        while tile < 8 {
            bytes[16 + 2 * tile] = if tile >= LEFT_TILES { words as u8 * 4 } else { 64 };
            bytes[48 + tile] = if tile >= RIGHT_TILES && tile < LEFT_TILES { words } else { TILE_ROWS } as u8;
            tile += 1;
        }
        TileConfig(bytes)
    }
}

/// The first register of right-hand tiles and the first of left-hand tiles. Registers 0 to 3 hold sums.
pub(crate) const RIGHT_TILES: usize = 4;
pub(crate) const LEFT_TILES: usize = 6;

/// Configurations for steps of 1 to 16 words.
pub(crate) static CONFIGS: [TileConfig; STEP_WORDS] = {
    let mut configs = [TileConfig::of_words(STEP_WORDS); STEP_WORDS];
    let mut words = 1;
    while words < STEP_WORDS {
        configs[words - 1] = TileConfig::of_words(words);
        words += 1;
    }
    configs
};

#[cfg(test)]
mod tests;
