//! The processor's matrix unit (AMX): products of `bf16` and of bytes on tiles of sixteen rows.
//!
//! A *tile row* is sixteen left-hand rows; a *step* is 64 bytes of each row, 32 elements of the reduction or 64. A *block* is one or
//! two tile rows by a panel of 32 columns, whose sums stay in the unit's registers for the whole reduction. The unit can
//! neither add a bias nor keep to fewer columns, so its sums are put down first. [`multiply`] ends them at once, as an [`Ending`] says, or
//! it puts down the raw sums of several blocks, which stay in the nearest caches, and [`finish`] reads them once, applies factor, bias,
//! residual and activation, and writes what belongs to the result: so where a reduction goes in parts.
//!
//! Left-hand rows are found through a table of tile rows and a list of *taps*, so that matrix products and convolutions
//! share both. The right-hand side lies in panels of pairs as [`pack_pairs`](super::gemm::Panels::pack_pairs) makes them, 32
//! columns wide, the reduction of each tap filled up with zeros to whole steps. Left-hand rows have zeros there, too, if they
//! are numbers: bytes of any value may stand there.
//!
//! Of rows that are shorter than a step no more is read than they have: the unit is configured for shorter steps then.
//!
//! Bytes lie in quadruples instead of pairs, and what becomes of their sums is in [`quantized`](super::quantized).

mod ending;
pub(crate) mod fetch;
mod finish;
mod multiply;

pub(crate) use ending::Stretch;
pub use ending::{Columns, Ending};
pub(crate) use finish::FAMILY as FINISH;
pub use finish::FinishCode;
pub(crate) use finish::{Finish, FinishArgs};
pub(crate) use multiply::{FAMILY, Held, Multiply, MultiplyArgs, TALLEST};
pub use multiply::{Factors, MultiplyCode};

/// Rows of a tile.
pub const TILE_ROWS: usize = 16;
/// Elements of the reduction in a step.
pub const STEP: usize = 32;
/// Columns of a panel.
pub const PANEL: usize = 32;
/// Words, of two elements each, of a step of a row.
pub const STEP_WORDS: usize = STEP / 2;
/// Bytes of a step of a row.
pub const STEP_BYTES: usize = 64;

/// What the unit's registers are configured as: eight tiles.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
struct TileConfig([u8; 64]);

impl TileConfig {
    /// Whole tiles, but for steps of that many words: rows of the left-hand side have no more, panels no more rows.
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

/// The first tile that holds a panel's rows, and the first that holds left-hand ones; those before are sums.
const RIGHT_TILES: usize = 4;
const LEFT_TILES: usize = 6;

/// Configurations for steps of 1 to 16 words.
static CONFIGS: [TileConfig; STEP_WORDS] = {
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
