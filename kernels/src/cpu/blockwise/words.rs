//! Words of codes and of rows of bytes, and how kernels step over them.

use super::products::Products;
use super::streams::{Streams, WORDS};
use crate::jit::{Asm, Gpr, Mem, Src};
use crate::problem::blockwise::Codes;

/// Words of codes whose pairs of products are added in 16 bits: eight pairs of up to 15 times 128 times 2 for codes of
/// four bits, sixteen pairs of up to 3 times 128 times 2 for codes of two bits.
pub(super) const GROUP: u8 = 4;

/// Two ones of 16 bits.
pub(super) const ONES: Src = Src::Const(0x0001_0001);

/// The rows' current bytes.
pub(super) const BYTES: Gpr = Gpr::RSI;
/// The heads of the rows' current block.
pub(super) const HEADS: Gpr = Gpr::RCX;
/// Words left of a block.
pub(super) const COUNT: Gpr = Gpr::R11;
/// An address or a count for a while.
pub(super) const OTHER: Gpr = Gpr::RBX;

/// Words of a kernel of rows of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteWords {
    pub(super) products: Products,
    /// What codes mean: integers.
    pub(super) codes: Codes,
    pub(super) rows: u8,
    pub(super) panels: Streams,
}

impl ByteWords {
    /// Parts in which a word of codes is unpacked.
    pub(super) fn parts(self) -> u8 {
        self.products.parts(self.codes) as u8
    }

    /// Whether codes and rows are widened to 16 bits.
    pub(super) fn widens(self) -> bool {
        self.products.widens(self.codes)
    }

    /// The highest bit of each code, which makes packed codes unsigned.
    pub(super) fn highest_bits(self) -> Src {
        let bits = self.codes.bits();
        repeated((0..8 / bits).fold(0, |byte, at| byte | self.codes.middle() << (at * bits)))
    }

    /// The bits of the first code of each byte, or of each 16 bits.
    pub(super) fn lowest_bits(self) -> Src {
        if self.widens() { Src::Const(0x00FF_00FF) } else { repeated(u8::MAX >> (8 - self.codes.bits())) }
    }

    /// The address of a row's bytes for a part of a word, `ahead` words from the current one.
    pub(super) fn bytes(self, ahead: u8, part: u8, row: u8) -> Mem {
        let part = i32::from(ahead) * i32::from(self.parts()) + i32::from(part);
        Mem::at(BYTES, 4 * (part * i32::from(self.rows) + i32::from(row)))
    }

    /// Emits the step over `words` words.
    pub(super) fn advance(self, asm: &mut Asm, words: u8) {
        asm.add_imm(BYTES, 4 * i32::from(words) * i32::from(self.parts()) * i32::from(self.rows));
        asm.add_imm(WORDS, i32::from(words) * self.panels.word_bytes(asm));
    }
}

/// The same byte everywhere.
fn repeated(byte: u8) -> Src {
    Src::Const(u32::from_ne_bytes([byte; 4]))
}
