//! The instructions that multiply codes with rows in lower precision. Sums of bytes are exact, so that all instructions
//! on bytes give the same bits.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::isa::{Extension, Extensions, Isa};
use crate::problem::blockwise::Codes;

/// Which instructions multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Products {
    /// Four products are added to a sum of 32 bits (`vpdpbusd`).
    Fours,
    /// Products are added in pairs. The products of bytes and codes of up to four bits fit 16 bits, with several pairs
    /// added (`vpmaddubsw`). Codes of eight bits and bytes are widened to 16 bits, and their pairs have 32
    /// (`vpmaddwd`).
    Pairs,
    /// Rows and dequantised codes are rounded to `bf16`, and sixteen rows are multiplied by sixteen columns at a time
    /// (`tdpbf16ps` of AMX), where rows are many.
    Bf16Tiles,
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
            (Products::Bf16Tiles, _) => Some(Extension::Amx),
        }
    }

    /// Whether kernels of that level can multiply so on this machine.
    pub(super) fn usable(self, isa: Isa) -> bool {
        let has_level = if self == Products::Bf16Tiles { isa == Isa::Avx512 } else { isa.is_jit() };
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

    /// The rows from which AMX takes less time than these instructions, or than rows of `f32`. Measured on an Intel Xeon
    /// (family 6, model 207): AMX meets VNNI at 16 to 24 rows. Vectors without VNNI take twice as long, and rows of `f32`
    /// that do not read codes.
    pub(super) fn least_rows_of_tiles(on_vectors: Option<Products>) -> u64 {
        match on_vectors {
            Some(Products::Fours | Products::Bf16Tiles) => 24,
            Some(Products::Pairs) => 12,
            None => 4,
        }
    }
}
