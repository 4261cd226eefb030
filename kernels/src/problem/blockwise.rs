//! Block-quantised weights: the meaning of their codes, and where they are before they are packed.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

/// Entries of a look-up table.
pub(crate) const ENTRIES: usize = 16;

/// Bits of a word, which holds neighbours in the reduction, the first in its lowest bits.
pub(crate) const WORD: usize = u32::BITS as usize;

/// The meaning of the bits of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Codes {
    /// An integer of two bits, packed as a signed integer: the stored integer less 2.
    Int2,
    /// An integer of four bits, packed less 8.
    Int4,
    /// An integer of eight bits, packed less 128.
    Int8,
    /// NormalFloat of four bits: quantiles of the normal distribution (bitsandbytes).
    Nf4,
    /// A float of four bits, as bitsandbytes scales it to a largest number of 1.
    Fp4,
}

/// Where the zero points of blocks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum ZeroPoints {
    /// All are the middle of the codes (2, 8 or 128), which is the zero of signed integers. Codes that are no integers
    /// have no other zero points.
    Middle,
    /// A byte each.
    Bytes,
    /// An `f32` each.
    F32,
}

/// How weights are quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct BlockFormat {
    /// The meaning of codes.
    pub codes: Codes,
    /// Where zero points come from.
    pub zeros: ZeroPoints,
    /// Weights of a column that share a scale: a multiple of 16, at most [`BlockFormat::LONGEST`].
    pub block: u32,
}

const NF4: [f32; ENTRIES] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// The numbers of FP4 codes without the sign, which is the highest bit.
const FP4: [f32; ENTRIES / 2] = [0.0, 0.005_208_333_3, 0.666_666_7, 1.0, 0.333_333_34, 0.5, 0.166_666_67, 0.25];

impl Codes {
    /// Bits of a code.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            Codes::Int2 => 2,
            Codes::Int4 | Codes::Nf4 | Codes::Fp4 => 4,
            Codes::Int8 => 8,
        }
    }

    /// Codes of a word.
    #[must_use]
    pub const fn per_word(self) -> usize {
        WORD / self.bits()
    }

    /// Whether codes are integers; only integers have zero points.
    #[must_use]
    pub const fn are_integers(self) -> bool {
        matches!(self, Codes::Int2 | Codes::Int4 | Codes::Int8)
    }

    /// The middle of unsigned codes, which is packed as 0.
    #[must_use]
    pub const fn middle(self) -> u8 {
        1 << (self.bits() - 1)
    }

    /// The number of a packed code, before zero point and scale.
    #[must_use]
    pub fn number(self, code: u8) -> f32 {
        let code = usize::from(code) & ((1 << self.bits()) - 1);
        match self {
            Codes::Nf4 => NF4[code],
            Codes::Fp4 => FP4[code % FP4.len()] * if code < FP4.len() { 1.0 } else { -1.0 },
            Codes::Int2 | Codes::Int4 | Codes::Int8 => {
                let middle = usize::from(self.middle());
                (code ^ middle) as f32 - middle as f32
            }
        }
    }

    /// The numbers of the lowest four bits of a word, which are looked up.
    pub(crate) fn table(self) -> [f32; ENTRIES] {
        std::array::from_fn(|index| self.number(index as u8))
    }
}

impl ZeroPoints {
    /// Bytes of a zero point in a packed panel.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            ZeroPoints::Middle => 0,
            ZeroPoints::Bytes => 1,
            ZeroPoints::F32 => 4,
        }
    }
}

impl BlockFormat {
    /// The longest block.
    pub const LONGEST: u32 = 1 << 16;

    /// Whether kernels take the format.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let zeros = self.codes.are_integers() || self.zeros == ZeroPoints::Middle;
        zeros && self.block > 0 && self.block.is_multiple_of(16) && self.block <= BlockFormat::LONGEST
    }

    /// Weights of a block.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block as usize
    }

    /// Bytes of a block's scale and zero point in a packed panel.
    pub(crate) const fn head_bytes(&self) -> usize {
        4 + self.zeros.bytes()
    }
}

/// The codes of weights before they are packed.
#[derive(Clone, Copy, Debug)]
pub enum CodeBytes<'a> {
    /// Column after column of `stride` bytes, several codes a byte, the first code of the reduction in the lowest bits.
    Packed {
        /// The bytes.
        bytes: &'a [u8],
        /// From a column to the next, in bytes.
        stride: usize,
    },
    /// A byte for each code.
    Apart {
        /// The bytes.
        bytes: &'a [u8],
        /// The places of the bytes.
        at: Offsets,
    },
}

/// Distances in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// From an element or block of the reduction to the next.
    pub inner: usize,
    /// From a column to the next.
    pub column: usize,
}

/// Block-quantised weights before they are packed.
#[derive(Clone, Copy, Debug)]
pub struct BlockSource<'a> {
    /// The codes.
    pub codes: CodeBytes<'a>,
    /// Whether codes that are integers are signed.
    pub signed: bool,
    /// A scale for each block.
    pub scales: &'a [f32],
    /// A zero point for each block, as a byte, where the format has these; for signed integers, plus the middle.
    pub zero_bytes: &'a [u8],
    /// A zero point for each block, where the format has them in `f32`.
    pub zeros: &'a [f32],
    /// The places of scales and zero points.
    pub at: Offsets,
}
