//! Element types: of packed weights and how they are multiplied, and of activations in memory.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

/// How packed weights are stored and multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Elements {
    /// In `f32`.
    #[default]
    F32,
    /// As bf16 pairs that are widened to `f32` in registers: products and sums are those of `f32`.
    Bf16,
    /// As bf16 pairs. The other operand is rounded to `bf16` too, and pairs are multiplied and added by the rules of
    /// [`Extension::Bf16`](crate::isa::Extension::Bf16): the second product of a pair first, denormals as zeros.
    /// AVX-512 only.
    Bf16Dot,
    /// As bf16 pairs, padded with zeros to whole AMX steps, in panels of its width. The other operand is rounded to
    /// `bf16` too, except in products of one row, which are computed as for `Bf16`. AVX-512 with
    /// [`Extension::Amx`](crate::isa::Extension::Amx) only.
    Bf16Tiles,
    /// As `f16`, row after row, widened to `f32` in registers: products and sums are those of `f32`. For weights that a
    /// model stores as `f16`, which lose nothing.
    F16,
}

/// The element type of activations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Stored {
    /// `f32`, as computed.
    #[default]
    F32,
    /// Rounded to the nearest `bf16`, ties to even, denormals to zero.
    Bf16,
}

impl Elements {
    /// Rows that take the room of one row of 32-bit words.
    #[must_use]
    pub const fn rows_of_a_word(self) -> usize {
        match self {
            Elements::F32 => 1,
            Elements::Bf16 | Elements::Bf16Dot | Elements::Bf16Tiles | Elements::F16 => 2,
        }
    }

    /// The elements of a product of two computed matrices, where a product by weights has these elements. Rounding both
    /// operands pays where pairs are multiplied without widening.
    #[must_use]
    pub const fn of_computed(self) -> Elements {
        match self {
            Elements::Bf16Dot | Elements::Bf16Tiles => self,
            Elements::F32 | Elements::Bf16 | Elements::F16 => Elements::F32,
        }
    }
}

impl Stored {
    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Stored::F32 => 4,
            Stored::Bf16 => 2,
        }
    }
}
