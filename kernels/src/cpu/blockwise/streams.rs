//! Panels that are read side by side: how many, and where the values of a vector of columns are.

use std::ops::Range;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::layout::BlockPanels;
use crate::cpu::Emitted;
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Asm, Gpr, Mem, Vreg};
use crate::parallel::Pieces;
use crate::problem::blockwise::ZeroPoints;

/// Most panels that are read side by side.
pub(super) const STREAMS: usize = 4;

/// Bytes that are prefetched ahead of the words of a panel, where four are read side by side.
const FAR: i32 = 2048;

/// How far ahead of the words that it reads a kernel prefetches.
///
/// Several rows are best with [`Ahead::Far`]: on a Zen 4 eight of them took a tenth longer without. A single row asks for
/// words faster than memory gives them, and it depends on the processor which is faster: on a Zen 4, [`Ahead::Far`] took
/// 20 to 30 % longer for a row of bytes; on a Zen 5 it took 7 to 25 % less than a prefetch of 256 bytes. So the best for
/// a single row is measured (`cpu::machine::Figures`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Ahead {
    /// The processor's own prefetchers alone.
    #[default]
    Nothing,
    /// [`FAR`] bytes of each of four panels.
    Far,
}

impl Ahead {
    /// Whether kernels of that level prefetch at all.
    #[must_use]
    pub fn matters(isa: Isa) -> bool {
        isa == Isa::Avx512
    }

    /// The distance for some rows, where this one is the best for a single row.
    pub(super) fn of_rows(self, rows: usize) -> Ahead {
        if rows == 1 { self } else { Ahead::Far }
    }

    /// Emits the prefetch of what lies this far from `at`, in one of `streams` panels that a single row reads side by
    /// side. As many bytes are on their way from memory, however many panels they belong to.
    pub(super) fn prefetch(self, asm: &mut Asm, at: Mem, streams: u8) {
        if Ahead::matters(asm.isa()) && self == Ahead::Far {
            asm.prefetch(at.plus(FAR * STREAMS as i32 / i32::from(streams.max(1))));
        }
    }
}

/// Kernels of one row or of some, each for another number of panels side by side.
#[derive(Clone, Debug)]
pub(super) struct StreamKernels<K> {
    /// Panels and the kernel, most panels first. The last is the kernel of one panel.
    kernels: SmallVec<[(usize, Emitted<K>); 3]>,
}

impl<K> StreamKernels<K> {
    /// The kernels for at most `most` panels side by side that `fit` and that the matrix has whole.
    pub(super) fn new(
        panels: &BlockPanels,
        most: usize,
        fits: impl Fn(usize) -> bool,
        make: impl Fn(usize) -> Result<Emitted<K>>,
    ) -> Result<StreamKernels<K>> {
        let most = most.min(panels.n / panels.width);
        let several = [STREAMS, STREAMS / 2].into_iter().filter(|&count| count <= most && fits(count));
        let kernels = several.chain([1]).map(|count| Ok((count, make(count)?))).collect::<Result<_>>()?;
        Ok(StreamKernels { kernels })
    }

    /// Most panels side by side.
    pub(super) fn most(&self) -> usize {
        self.kernels[0].0
    }

    /// The pieces in which kernels compute panels: as many side by side as they can.
    pub(super) fn pieces(&self, panels: Range<usize>) -> Pieces {
        Pieces::new(panels, self.sizes())
    }

    /// Panels of a piece, and of one of the last pieces.
    pub(super) fn sizes(&self) -> [usize; 2] {
        [self.most(), self.kernels.get(1).map_or(1, |&(count, _)| count)]
    }

    /// The kernel of that many panels side by side, which is one of [`StreamKernels::sizes`] or 1.
    pub(super) fn of(&self, panels: usize) -> &Emitted<K> {
        let kernel = self.kernels.iter().find(|&&(count, _)| count == panels);
        &kernel.unwrap_or_else(|| panic!("a kernel of {panels} panels")).1
    }
}

/// The first panel's current words, and the offsets from them to the second and fourth panel's. Before and after the
/// reduction, these are the offsets of their columns in C.
pub(super) const WORDS: Gpr = Gpr::RDX;
const STRIDE: Gpr = Gpr::R8;
const THREE_STRIDES: Gpr = Gpr::R9;
/// The scales of the current block of the first panel.
pub(super) const HEAD: Gpr = Gpr::RAX;

/// Panels of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    /// Vectors that a panel is wide.
    pub(super) vectors: u8,
    /// Panels: 1, 2 or 4.
    pub(super) count: u8,
    /// Where zero points come from, which lie behind the scales.
    pub(super) zeros: ZeroPoints,
}

impl Streams {
    /// Whether a kernel can have them.
    pub(super) fn are_some(self) -> bool {
        self.vectors > 0 && [1, 2, 4].contains(&self.count)
    }

    /// Vectors of all panels.
    pub(super) fn all(self) -> u8 {
        self.count * self.vectors
    }

    /// Columns of a panel.
    pub(super) fn width(self, isa: Isa) -> usize {
        usize::from(self.vectors) * isa.lanes()
    }

    /// Bytes of a block's scales and zero points.
    pub(super) fn head_bytes(self, isa: Isa) -> usize {
        self.width(isa) * (4 + self.zeros.bytes())
    }

    /// Bytes of a panel with `words` words a column in `blocks` blocks.
    pub(super) fn panel_bytes(self, isa: Isa, words: usize, blocks: usize) -> usize {
        words.saturating_mul(self.width(isa) * 4).saturating_add(blocks.saturating_mul(self.head_bytes(isa)))
    }

    /// Emits addresses: of the first panel, and the bytes from one to the next.
    pub(super) fn begin(self, asm: &mut Asm, panels: Mem, stride: Mem) {
        asm.load(WORDS, panels);
        self.load_strides(asm, stride);
    }

    /// Emits the bytes from a panel to the next, or from its columns in a row of C to those of the next.
    pub(super) fn load_strides(self, asm: &mut Asm, stride: Mem) {
        if self.count > 1 {
            asm.load(STRIDE, stride);
            asm.lea(THREE_STRIDES, Mem::indexed(STRIDE, STRIDE, 2, 0));
        }
    }

    /// The address of a vector's columns in the row of C, or of the bias, at `row`.
    pub(super) fn columns(self, asm: &Asm, row: Gpr, vector: u8) -> Mem {
        self.at(row, vector, 0, asm.vector_bytes())
    }

    /// Emits the step over a block's scales and zero points, whose address stays in [`HEAD`].
    pub(super) fn begin_block(self, asm: &mut Asm) {
        asm.mov(HEAD, WORDS);
        asm.add_imm(WORDS, self.head_bytes(asm.isa()) as i32);
    }

    /// The address of a vector's words, `ahead` words of a column from the current ones.
    pub(super) fn words(self, asm: &Asm, vector: u8, ahead: u8) -> Mem {
        self.at(WORDS, vector, i32::from(ahead) * self.word_bytes(asm), asm.vector_bytes())
    }

    /// Bytes from a word of all columns of a panel to the next.
    pub(super) fn word_bytes(self, asm: &Asm) -> i32 {
        i32::from(self.vectors) * asm.vector_bytes()
    }

    /// The address of the scales of a vector's columns.
    pub(super) fn scales(self, asm: &Asm, vector: u8) -> Mem {
        self.at(HEAD, vector, 0, asm.vector_bytes())
    }

    /// Emits the load of the zero points of a vector's columns, as numbers.
    pub(super) fn load_zero_points(self, asm: &mut Asm, vector: u8, to: Vreg) {
        let behind = self.word_bytes(asm);
        if self.zeros == ZeroPoints::Bytes {
            asm.vload_u8(to, self.at(HEAD, vector, behind, asm.lanes() as i32));
            asm.vcvt_f32(to, to);
        } else {
            asm.vload(to, self.at(HEAD, vector, behind, asm.vector_bytes()));
        }
    }

    /// The address `bytes` from `base` in the panel of a vector, plus `each` for each vector before it in the panel.
    fn at(self, base: Gpr, vector: u8, bytes: i32, each: i32) -> Mem {
        let at = bytes + i32::from(vector % self.vectors) * each;
        match vector / self.vectors {
            0 => Mem::at(base, at),
            3 => Mem::indexed(base, THREE_STRIDES, 1, at),
            stream => Mem::indexed(base, STRIDE, stream, at),
        }
    }
}
