//! The instructions that multiply codes with rows of bytes. All sums are exact, so that all instructions give the same
//! bits.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::isa::{Extension, Extensions, Isa};
use crate::problem::blockwise::{BlockFormat, Codes};

/// Bytes of a row in a step of AMX.
const STEP_BYTES: usize = 64;

/// Cycles that the end of a block takes for a row: its sum becomes an `f32`, and is scaled and added.
const END_OF_ROW: u64 = 2;

/// Cycles of two tile loads and a product, of storing a tile, and of unpacking a line of a tile.
const STEP: u64 = 16;
const STORE: u64 = 16;
const UNPACK: u64 = 2;

/// Cycles of configuring and releasing tiles.
const CONFIGURE: u64 = 200;

/// Rows that are multiplied, and their elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatrixRows {
    pub(super) m: u64,
    pub(super) k: u64,
}

/// Which instructions multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Products {
    /// Four products are added to a sum of 32 bits (`vpdpbusd`).
    Fours,
    /// Products are added in pairs. The products of bytes and codes of up to four bits fit 16 bits, with several pairs
    /// added (`vpmaddubsw`). Codes of eight bits and bytes are widened to 16 bits, and their pairs have 32
    /// (`vpmaddwd`).
    Pairs,
    /// Sixteen rows by sixteen columns over a block (`tdpbssd` of AMX), where rows are many.
    Tiles,
}

impl Products {
    /// The fastest on vectors of code of that level with these extensions.
    #[must_use]
    pub fn pick(isa: Isa, extensions: Extensions) -> Option<Products> {
        let has = |products: &Products| products.extension(isa).is_none_or(|needed| extensions.contains(needed));
        [Products::Fours, Products::Pairs].into_iter().filter(|_| isa.is_jit()).find(has)
    }

    /// The extension that the processor needs besides the level.
    #[must_use]
    pub fn extension(self, isa: Isa) -> Option<Extension> {
        match (self, isa) {
            (Products::Fours, Isa::Avx512) => Some(Extension::Vnni),
            (Products::Fours, Isa::Portable | Isa::Avx2) => Some(Extension::AvxVnni),
            (Products::Pairs, _) => None,
            (Products::Tiles, _) => Some(Extension::Amx),
        }
    }

    /// Whether kernels of that level can multiply so on this machine.
    pub(super) fn usable(self, isa: Isa) -> bool {
        let has_level = if self == Products::Tiles { isa == Isa::Avx512 } else { isa.is_jit() };
        has_level && self.extension(isa).is_none_or(Extension::usable)
    }

    /// Whether codes and rows are widened to 16 bits.
    pub(super) fn widens(self, codes: Codes) -> bool {
        self == Products::Pairs && codes == Codes::Int8
    }

    /// Words of 32 bits that elements of a row take for each word of codes. A word of codes is unpacked in the same
    /// number of parts.
    pub(super) const fn parts(self, codes: Codes) -> usize {
        match (self, codes) {
            (Products::Pairs, Codes::Int8) => 2,
            _ => codes.per_word() / 4,
        }
    }

    /// Whether it multiplies blocks of that format: on AMX those that are whole steps, or one shorter step.
    pub(super) fn takes(self, format: &BlockFormat) -> bool {
        let block = format.block();
        self != Products::Tiles || block <= STEP_BYTES || block.is_multiple_of(STEP_BYTES)
    }

    /// These instructions on vectors, or AMX where there is AMX and it multiplies those rows in less time.
    pub(super) fn or_tiles(self, isa: Isa, extensions: Extensions, format: &BlockFormat, rows: MatrixRows) -> Products {
        let has_tiles = isa == Isa::Avx512 && extensions.contains(Extension::Amx) && Products::Tiles.takes(format);
        if has_tiles && self.tiles_pay(rows, u64::from(format.block)) { Products::Tiles } else { self }
    }

    /// Whether AMX multiplies rows in fewer cycles than these instructions on vectors. It is an estimate from the
    /// cycles of instructions whose operands are in L1; it has not been measured on a machine.
    fn tiles_pay(self, MatrixRows { m, k }: MatrixRows, block: u64) -> bool {
        let blocks = k.div_ceil(block.max(1));
        // For a vector of columns: the products of a row by a block, two instructions a cycle, and the end of the
        // block.
        let row = block.div_ceil(8) * if self == Products::Fours { 1 } else { 2 } + END_OF_ROW;
        let tile_row = block.div_ceil(64) * STEP + STORE + 16 * END_OF_ROW;
        let on_vectors = m.saturating_mul(row).saturating_mul(blocks);
        let unpacking = block / 4 * UNPACK;
        let on_tiles = m.div_ceil(16).saturating_mul(tile_row).saturating_add(unpacking).saturating_mul(blocks);
        on_tiles.saturating_add(CONFIGURE) < on_vectors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::blockwise::ZeroPoints;

    #[test]
    fn many_rows_are_multiplied_on_amx_where_blocks_are_steps() {
        let amx = Extensions::default().with(Extension::Amx);
        let chosen = |products: Products, extensions, block, m| {
            let format = BlockFormat { codes: Codes::Int4, zeros: ZeroPoints::Middle, block };
            products.or_tiles(Isa::Avx512, extensions, &format, MatrixRows { m, k: 4096 })
        };
        for block in [32, 64, 128, 256] {
            assert_eq!(chosen(Products::Fours, amx, block, 512), Products::Tiles, "{block}");
            assert_eq!(chosen(Products::Fours, amx, block, 1), Products::Fours, "{block}");
            assert_eq!(chosen(Products::Fours, Extensions::default(), block, 512), Products::Fours, "{block}");
        }
        // The end of a block of 16 takes as long as its products, on vectors and on AMX.
        assert_eq!(chosen(Products::Fours, amx, 16, 512), Products::Fours);
        assert_eq!(chosen(Products::Pairs, amx, 16, 512), Products::Tiles);
        assert_eq!(chosen(Products::Fours, amx, 80, 512), Products::Fours, "a step and a quarter");
        assert_eq!(chosen(Products::Fours, amx, 32, u64::MAX), Products::Fours, "more than can be counted");
        // Vectors without VNNI take longer, so that AMX pays earlier.
        let least = |products| (1..64).find(|&m| chosen(products, amx, 64, m) == Products::Tiles);
        assert!(least(Products::Pairs) < least(Products::Fours));
    }
}
