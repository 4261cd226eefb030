//! Lower precision on request: what a caller may ask for, and how weights are then packed and multiplied.
//!
//! `bf16` is the upper half of an `f32`: its range, and 8 bits of precision. Weights that are known at load are rounded
//! to it once (to nearest, ties to even; NaN stays NaN), when they are packed, and stored as bf16 pairs along the
//! reduction (VNNI layout): a 32-bit *word* holds row `2i` of a column in its lower half and row `2i + 1` in its upper
//! half. The processor's dot product of pairs reads words. Without it, one load gives two vectors of `f32`: a shift by
//! 16 gives the first row, clearing the lower half the second.
//!
//! Sums are always in `f32`. Knows no matrices and no layouts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cpu::amx::{PANEL, STEP, STEP_WORDS};
use crate::cpu::gemm::panel_vectors;
use crate::cpu::packed::PackedElement;
use crate::cpu::peak::Peaks;
use crate::isa::{Extension, Isa};
use crate::problem::elements::Elements;

/// The precision that a caller may ask for. Under each, equal inputs give equal results on one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Precision {
    /// Everything in `f32`.
    #[default]
    F32,
    /// Weights known at load in `bf16`; the other side too, where the processor multiplies bf16 pairs.
    Bf16,
    /// Weights of products known at load as integers of 8 bits, in blocks with a scale each; the rest in `f32`.
    Int8,
    /// Weights of products known at load as integers of 4 bits, in blocks with a scale each; the rest in `f32`.
    Int4,
}

impl Precision {
    /// The elements of packed weights for that precision, level and machine: bf16 pairs are multiplied without widening
    /// where that is faster ([`Peaks`]). An emulated level has all extensions.
    #[must_use]
    pub fn elements(self, isa: Isa) -> Elements {
        let emulated = isa > Isa::detect();
        let pairs_pay = || emulated || Peaks::of_process().is_some_and(|peaks| peaks.pairs_pay());
        match self {
            Precision::F32 | Precision::Int8 | Precision::Int4 => Elements::F32,
            Precision::Bf16 if isa == Isa::Avx512 && Extension::Amx.present() => Elements::Bf16Tiles,
            Precision::Bf16 if isa == Isa::Avx512 && pairs_pay() => Elements::Bf16Dot,
            Precision::Bf16 => Elements::Bf16,
        }
    }

    /// Bits of the integers that replace weights of products; `None` where weights stay numbers.
    #[must_use]
    pub const fn code_bits(self) -> Option<u8> {
        match self {
            Precision::F32 | Precision::Bf16 => None,
            Precision::Int8 => Some(8),
            Precision::Int4 => Some(4),
        }
    }
}

impl Elements {
    /// Words of `rows` consecutive rows in each column.
    #[must_use]
    pub const fn words(self, rows: usize) -> usize {
        match self {
            Elements::F32 => rows,
            Elements::Bf16 | Elements::Bf16Dot | Elements::F16 => rows.div_ceil(2),
            Elements::Bf16Tiles => rows.div_ceil(STEP) * STEP_WORDS,
        }
    }

    /// Words of `elements` consecutive elements of a left-hand row, as the kernel that multiplies reads them.
    #[must_use]
    pub const fn left_words(self, elements: usize) -> usize {
        match self {
            Elements::F32 | Elements::Bf16 | Elements::F16 => elements,
            Elements::Bf16Dot | Elements::Bf16Tiles => self.words(elements),
        }
    }

    /// The panel width, in vectors, of a right-hand matrix of that many columns.
    #[must_use]
    pub fn panel_vectors(self, isa: Isa, columns: usize) -> usize {
        if self == Elements::Bf16Tiles { PANEL / isa.lanes() } else { panel_vectors(isa, columns) }
    }

    /// Whether kernels of that level can multiply these elements.
    #[must_use]
    pub const fn suit(self, isa: Isa) -> bool {
        matches!(
            (self, isa),
            (Elements::F32 | Elements::Bf16 | Elements::F16, _)
                | (Elements::Bf16Dot | Elements::Bf16Tiles, Isa::Avx512)
        )
    }
}

impl From<Elements> for PackedElement {
    fn from(elements: Elements) -> PackedElement {
        match elements {
            Elements::F32 => PackedElement::F32,
            Elements::Bf16 | Elements::Bf16Dot | Elements::Bf16Tiles => PackedElement::Bf16,
            Elements::F16 => PackedElement::F16,
        }
    }
}

/// The nearest `bf16`, ties to even. A NaN becomes a quiet one with as much of its payload as fits.
#[must_use]
pub fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    // Adds half of the last place, less the smallest amount unless the place is odd. Beyond the largest finite number
    // the carry makes an infinity.
    ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}

/// The `f32` of a `bf16`, exactly.
#[must_use]
pub fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// A text that names no precision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: expected f32, bf16, int8 or int4")]
pub struct PrecisionError(String);

impl FromStr for Precision {
    type Err = PrecisionError;

    fn from_str(text: &str) -> Result<Precision, PrecisionError> {
        match text {
            "f32" => Ok(Precision::F32),
            "bf16" => Ok(Precision::Bf16),
            "int8" => Ok(Precision::Int8),
            "int4" => Ok(Precision::Int4),
            other => Err(PrecisionError(other.to_owned())),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::Int8 => "int8",
            Precision::Int4 => "int4",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bf16_is_its_own_nearest_and_ties_go_to_even() {
        for half in 0..=u16::MAX {
            let value = from_bf16(half);
            if value.is_nan() {
                assert_eq!(to_bf16(value), half | 0x40);
                continue;
            }
            assert_eq!(to_bf16(value), half);
            if value.is_finite() {
                // The tie between this number and its neighbour away from zero, and the numbers around the tie.
                let tie = value.to_bits() | 0x8000;
                let even = half + (half & 1);
                assert_eq!(to_bf16(f32::from_bits(tie)), even);
                assert_eq!(to_bf16(f32::from_bits(tie - 1)), half);
                assert_eq!(to_bf16(f32::from_bits(tie + 1)), half + 1);
            }
        }
        // A NaN whose payload lies in the lower half alone must not become an infinity.
        assert!(from_bf16(to_bf16(f32::from_bits(0x7F80_0001))).is_nan());
    }
}
