//! The instructions that multiply codes with rows of bytes. All sums are exact, so that all of them give the same bits.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::format::Codes;
use crate::isa::{Extension, Extensions, Isa};

/// Which instructions multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Products {
    /// Four products are added to a sum of 32 bits (`vpdpbusd`).
    Fours,
    /// Products are added in pairs. Those of codes of up to four bits and bytes fit 16 bits, several of them
    /// (`vpmaddubsw`); codes of eight bits and bytes are widened to 16 bits, and their pairs have 32 (`vpmaddwd`).
    Pairs,
}

impl Products {
    /// The fastest of code of that level with these extensions.
    #[must_use]
    pub fn pick(isa: Isa, extensions: Extensions) -> Option<Products> {
        let has = |products: &Products| products.extension(isa).is_none_or(|needed| extensions.contains(needed));
        [Products::Fours, Products::Pairs].into_iter().filter(|_| isa.is_jit()).find(has)
    }

    /// What the processor has to have besides the level.
    #[must_use]
    pub fn extension(self, isa: Isa) -> Option<Extension> {
        match (self, isa) {
            (Products::Fours, Isa::Avx512) => Some(Extension::Vnni),
            (Products::Fours, Isa::Portable | Isa::Avx2) => Some(Extension::AvxVnni),
            (Products::Pairs, _) => None,
        }
    }

    /// Whether kernels of that level can multiply so on this machine.
    pub(super) fn usable(self, isa: Isa) -> bool {
        isa.is_jit() && self.extension(isa).is_none_or(Extension::usable)
    }

    /// Whether codes and rows are widened to 16 bits.
    pub(super) fn widens(self, codes: Codes) -> bool {
        self == Products::Pairs && codes == Codes::Int8
    }

    /// Words of 32 bits that elements of a row take for each word of codes. A word of codes is unpacked in as many
    /// parts.
    pub(super) const fn parts(self, codes: Codes) -> usize {
        match (self, codes) {
            (Products::Pairs, Codes::Int8) => 2,
            _ => codes.per_word() / 4,
        }
    }
}
