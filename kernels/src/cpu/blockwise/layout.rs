//! Packed panels of block-quantised weights, and packing them.
//!
//! A panel is as many columns as a tile is wide. It holds its blocks one after another, each as
//!
//! ```text
//! scales  f32 [width] | zero points  u8 or f32 [width], if any | codes  32-bit words [words of a block][width]
//! ```
//!
//! where a word holds neighbours in the reduction of one column, the first in its lowest bits. One vector load has
//! words of as many columns as the vector has lanes. The last block may have fewer words, and the part of a word beyond
//! the reduction is unused.

use super::FAMILY;
use crate::error::{KernelError, Result};
use crate::problem::blockwise::{BlockFormat, BlockSource, CodeBytes, Offsets, ZeroPoints};

/// Sizes of packed block-quantised weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPanels {
    /// Length of the reduction.
    pub k: usize,
    /// Columns.
    pub n: usize,
    /// Columns of a panel.
    pub width: usize,
    /// How they are quantised.
    pub format: BlockFormat,
}

impl Offsets {
    /// The offset of an element.
    fn of(self, inner: usize, column: usize) -> usize {
        inner * self.inner + column * self.column
    }

    /// Elements up to the last of `inner` by `columns` elements.
    fn reach(self, inner: usize, columns: usize) -> Option<usize> {
        let last = (inner.checked_sub(1)?.checked_mul(self.inner)?)
            .checked_add(columns.checked_sub(1)?.checked_mul(self.column)?)?;
        last.checked_add(1)
    }
}

impl BlockPanels {
    /// Words of a column.
    pub(super) fn words(&self) -> usize {
        self.k.div_ceil(self.format.codes.per_word())
    }

    /// Words of a column in a whole block.
    pub(super) fn block_words(&self) -> usize {
        self.format.block() / self.format.codes.per_word()
    }

    /// Blocks of a column.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.k.div_ceil(self.format.block())
    }

    /// Bytes of a block's scales and zero points.
    pub(super) fn head_bytes(&self) -> usize {
        self.width * self.format.head_bytes()
    }

    /// Bytes from a block to the next.
    pub(super) fn block_bytes(&self) -> usize {
        self.head_bytes() + self.block_words() * self.width * 4
    }

    /// Bytes of a panel.
    #[must_use]
    pub fn panel_bytes(&self) -> usize {
        self.blocks() * self.head_bytes() + self.words() * self.width * 4
    }

    /// Panels.
    #[must_use]
    pub fn count(&self) -> usize {
        self.n.div_ceil(self.width)
    }

    /// Bytes of all panels, a multiple of four.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.count() * self.panel_bytes()
    }

    /// Columns of a panel that are columns of the matrix.
    pub(super) fn columns_of(&self, panel: usize) -> usize {
        (self.n - panel * self.width).min(self.width)
    }

    /// Whether the format is one, and memory can hold all of it, with room to count in.
    #[must_use]
    pub fn is_addressable(&self) -> bool {
        const MOST: usize = isize::MAX as usize / 64;
        if !self.format.is_valid() || self.width == 0 {
            return false;
        }
        let rounded = self.k.checked_next_multiple_of(self.format.block());
        let columns = self.n.checked_next_multiple_of(self.width);
        rounded.zip(columns).and_then(|(k, n)| k.checked_mul(n)).is_some_and(|all| all <= MOST)
    }

    /// Packs weights.
    ///
    /// # Errors
    ///
    /// For a format that is not valid, sizes that cannot be addressed, and operands that are shorter than these sizes
    /// say.
    pub fn pack(&self, source: &BlockSource<'_>, out: &mut [u8]) -> Result<()> {
        if !self.is_addressable() {
            return Err(KernelError::Unsupported { family: FAMILY, reason: format!("weights of {self:?}") });
        }
        if self.k == 0 || self.n == 0 {
            return Ok(());
        }
        self.check(source, out.len())?;
        for (panel, out) in out.chunks_exact_mut(self.panel_bytes()).take(self.count()).enumerate() {
            for (block, out) in out.chunks_mut(self.block_bytes()).enumerate() {
                let (head, words) = out.split_at_mut(self.head_bytes());
                self.pack_head(source, panel, block, head);
                let first = block * self.block_words();
                for (word, out) in words.chunks_exact_mut(self.width * 4).enumerate() {
                    self.pack_words(&source.codes, source.signed, panel, first + word, out);
                }
            }
        }
        Ok(())
    }

    fn check(&self, source: &BlockSource<'_>, room: usize) -> Result<()> {
        let blocks = source.at.reach(self.blocks(), self.n);
        let codes = match source.codes {
            CodeBytes::Packed { bytes, stride } => {
                let last = self.words() * 4;
                (bytes.len(), stride.checked_mul(self.n - 1).and_then(|start| start.checked_add(last)))
            }
            CodeBytes::Apart { bytes, at } => (bytes.len(), at.reach(self.k, self.n)),
        };
        let has = |zeros: ZeroPoints| if self.format.zeros == zeros { blocks } else { Some(0) };
        for (operand, have, need) in [
            ("packed weights", room, Some(self.bytes())),
            ("codes", codes.0, codes.1),
            ("scales", source.scales.len(), blocks),
            ("zero points", source.zero_bytes.len(), has(ZeroPoints::Bytes)),
            ("zero points", source.zeros.len(), has(ZeroPoints::F32)),
        ] {
            let need = need.unwrap_or(usize::MAX);
            if have < need {
                return Err(KernelError::Bounds { family: FAMILY, operand, have, need });
            }
        }
        Ok(())
    }

    /// Scales and zero points of a block; zeros in columns that the matrix does not have.
    fn pack_head(&self, source: &BlockSource<'_>, panel: usize, block: usize, head: &mut [u8]) {
        head.fill(0);
        let (scales, zeros) = head.split_at_mut(self.width * 4);
        let columns = self.columns_of(panel);
        let at = |column: usize| source.at.of(block, panel * self.width + column);
        let floats = |to: &mut [u8], from: &[f32]| {
            for (column, to) in to.as_chunks_mut::<4>().0[..columns].iter_mut().enumerate() {
                *to = from[at(column)].to_ne_bytes();
            }
        };
        floats(scales, source.scales);
        match self.format.zeros {
            ZeroPoints::Middle => {}
            ZeroPoints::F32 => floats(zeros, source.zeros),
            ZeroPoints::Bytes => {
                zeros[..columns].iter_mut().enumerate().for_each(|(column, to)| *to = source.zero_bytes[at(column)]);
            }
        }
    }

    /// The words `word` of a panel's columns; zeros in columns that the matrix does not have.
    fn pack_words(&self, codes: &CodeBytes<'_>, signed: bool, panel: usize, word: usize, out: &mut [u8]) {
        let (format, first) = (self.format.codes, panel * self.width);
        let (bits, each) = (format.bits(), format.per_word());
        // The highest bit of each code: unsigned integers become signed ones less the middle.
        let flip = match format.are_integers() && !signed {
            true => u32::MAX / ((1 << bits) - 1) * u32::from(format.middle()),
            false => 0,
        };
        out.fill(0);
        let words = out.as_chunks_mut::<4>().0[..self.columns_of(panel)].iter_mut().enumerate();
        match *codes {
            CodeBytes::Packed { bytes, stride } => words.for_each(|(column, to)| {
                let at = (first + column) * stride + word * 4;
                let bytes = [0, 1, 2, 3].map(|byte| bytes[at + byte]);
                *to = (u32::from_le_bytes(bytes) ^ flip).to_ne_bytes();
            }),
            CodeBytes::Apart { bytes, at } => {
                let inner = word * each..self.k.min((word + 1) * each);
                let mask = (1u32 << bits) - 1;
                words.for_each(|(column, to)| {
                    let codes = inner.clone().map(|inner| u32::from(bytes[at.of(inner, first + column)]) & mask);
                    let word = codes.enumerate().fold(0, |word, (index, code)| word | code << (index * bits));
                    *to = (word ^ flip).to_ne_bytes();
                });
            }
        }
    }

    /// Dequantises the blocks of a packed panel from block `first` on, as rows of `width` columns, for all rows of
    /// `to`.
    pub(super) fn widen(&self, panel: &[u8], first: usize, to: &mut [f32]) {
        let (codes, each) = (self.format.codes, self.format.codes.per_word());
        let float = |bytes: &[u8], at: usize| f32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[4 * at + byte]));
        let blocks = panel[first * self.block_bytes()..].chunks(self.block_bytes());
        for (block, to) in blocks.zip(to.chunks_mut(self.format.block() * self.width)) {
            let (head, words) = block.split_at(self.head_bytes());
            let (scales, zeros) = head.split_at(self.width * 4);
            let middle = f32::from(codes.middle());
            for (inner, to) in to.chunks_exact_mut(self.width).enumerate() {
                for (column, to) in to.iter_mut().enumerate() {
                    let at = (inner / each * self.width + column) * 4;
                    let word = u32::from_ne_bytes([0, 1, 2, 3].map(|byte| words[at + byte]));
                    let code = codes.number((word >> (inner % each * codes.bits()) & 0xFF) as u8);
                    let zero = match self.format.zeros {
                        ZeroPoints::Middle => 0.0,
                        ZeroPoints::Bytes => f32::from(zeros[column]) - middle,
                        ZeroPoints::F32 => float(zeros, column) - middle,
                    };
                    *to = (code - zero) * float(scales, column);
                }
            }
        }
    }
}
