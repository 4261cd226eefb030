//! Blocks of a packed panel as rows of `f32`, which the micro-kernel of `f32` multiplies with many rows, or as pairs of
//! `bf16`, which AMX multiplies.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::FAMILY;
use super::decoder::Decoder;
use super::layout::BlockPanels;
use crate::cpu::attention::emit::pairs::INTERLEAVED;
use crate::cpu::{CodeKey, CodeSource, Emitted};
use crate::error::{KernelError, Result};
use crate::isa::{Extension, Isa};
use crate::jit::{Arguments, Asm, Extents, Given, Gpr, Mem, Src, Vreg, arg};
use crate::problem::blockwise::{BlockFormat, Codes, ENTRIES, ZeroPoints};

/// What codes become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum ExpandedNumbers {
    /// Rows of `f32`.
    F32,
    /// Rows of words, each two neighbours in the reduction as `bf16`, the first in the lower half. The level is
    /// AVX-512.
    Bf16Pairs,
}

/// What shapes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct BlockExpandCode {
    /// Level.
    pub isa: Isa,
    /// Vectors that a panel is wide.
    pub vectors: u8,
    /// What codes mean.
    pub codes: Codes,
    /// Where zero points come from.
    pub zeros: ZeroPoints,
    /// What codes become.
    pub numbers: ExpandedNumbers,
}

/// The arguments of one call.
#[repr(C)]
struct ExpandArgs {
    /// The first block.
    from: *const u8,
    /// Rows of as many words as a panel has columns.
    to: *mut f32,
    /// Whole blocks, words of a column in each, and in the block behind them.
    blocks: usize,
    words: usize,
    last: usize,
    /// The numbers of codes, and the order of pairs.
    table: *const f32,
    pairs: *const [u16; 32],
}

impl Arguments for ExpandArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = BlockExpandCode;

    fn extents(&self, key: &BlockExpandCode, extents: &mut Extents<'_>) {
        let width = usize::from(key.vectors) * key.isa.lanes();
        let words = self.blocks.saturating_mul(self.words).saturating_add(self.last);
        let heads = self.blocks.saturating_add(usize::from(self.last > 0));
        let head = width * (4 + key.zeros.bytes());
        let bytes = words.saturating_mul(width * 4).saturating_add(heads.saturating_mul(head));
        extents.read("panels", self.from).bytes(bytes);
        extents.read("the numbers of codes", self.table).bytes(ENTRIES * 4);
        if key.numbers == ExpandedNumbers::Bf16Pairs {
            extents.constant("the order of pairs", &INTERLEAVED);
            extents.read("the order of pairs", self.pairs).bytes(size_of_val(&INTERLEAVED));
        }
        let rows = key.numbers.rows(key.codes) * width * 4;
        extents.write("scratch", self.to).over(words, rows).bytes(rows);
    }
}

impl ExpandedNumbers {
    /// The extension that the processor needs besides the level.
    pub(crate) fn extension(self) -> Option<Extension> {
        (self == ExpandedNumbers::Bf16Pairs).then_some(Extension::Bf16)
    }

    /// Rows that a word of codes becomes.
    const fn rows(self, codes: Codes) -> usize {
        match self {
            ExpandedNumbers::F32 => codes.per_word(),
            ExpandedNumbers::Bf16Pairs => codes.per_word() / 2,
        }
    }
}

/// Dequantises blocks of panels: in emitted code, or in Rust where no code may be emitted.
#[derive(Clone, Debug)]
pub(super) struct Expand {
    panels: BlockPanels,
    /// Rows that a word of codes becomes.
    rows: usize,
    table: [f32; ENTRIES],
    kernel: Option<Emitted<BlockExpandCode>>,
}

impl Expand {
    /// Dequantisation for panels of a matrix.
    pub(super) fn new(
        isa: Isa,
        panels: BlockPanels,
        numbers: ExpandedNumbers,
        source: &dyn CodeSource,
    ) -> Result<Expand> {
        let BlockFormat { codes, zeros, .. } = panels.format;
        let key = BlockExpandCode { isa, vectors: (panels.width / isa.lanes()) as u8, codes, zeros, numbers };
        let kernel = isa.is_jit().then(|| Emitted::new(key, CodeKey::BlockExpand, source)).transpose()?;
        Ok(Expand { panels, rows: numbers.rows(codes), table: codes.table(), kernel })
    }

    /// Words that `elements` elements of each column become.
    pub(super) fn len(&self, elements: usize) -> usize {
        elements.div_ceil(self.panels.format.codes.per_word()) * self.rows * self.panels.width
    }

    /// Operands that are the kernel's own.
    pub(super) fn given(&self, given: Given) -> Given {
        given.read("the numbers of codes", &self.table)
    }

    /// Dequantises the blocks of `panel` from block `first` on: as many whole words as `to` has rows for.
    pub(super) fn run(&self, panel: &[u8], first: usize, to: &mut [f32], given: &Given) {
        let Some(kernel) = &self.kernel else { return self.panels.widen(panel, first, to) };
        let (width, each) = (self.panels.width, self.panels.block_words());
        let words = to.len() / (width * self.rows);
        let args = ExpandArgs {
            from: panel[first * self.panels.block_bytes()..].as_ptr(),
            to: to.as_mut_ptr(),
            blocks: words / each,
            words: each,
            last: words % each,
            table: self.table.as_ptr(),
            pairs: &raw const INTERLEAVED,
        };
        assert!(first * each + words <= self.panels.words() && panel.len() >= self.panels.panel_bytes());
        // SAFETY: the struct is the one that the emitter reads. The panel holds every word that is read, as was
        // asserted, and `to` holds the rows of those words.
        unsafe { kernel.call(&args, given) }
    }
}

const FROM: Gpr = Gpr::RSI;
const TO: Gpr = Gpr::RDX;
const BLOCKS: Gpr = Gpr::R10;
const COUNT: Gpr = Gpr::R11;
const OTHER: Gpr = Gpr::RBX;

impl BlockExpandCode {
    fn scale(vector: u8) -> Vreg {
        Vreg(vector)
    }

    fn zero(&self, vector: u8) -> Vreg {
        Vreg(self.vectors + vector)
    }

    fn words(&self) -> Vreg {
        Vreg(2 * self.vectors)
    }

    fn number(&self) -> Vreg {
        Vreg(2 * self.vectors + 1)
    }

    /// The number before it in its pair, and the order of pairs.
    fn before(&self) -> Vreg {
        Vreg(2 * self.vectors + 2)
    }

    fn order(&self) -> Vreg {
        Vreg(2 * self.vectors + 3)
    }

    fn decoder(&self) -> Decoder {
        Decoder::new(self.isa, self.codes, Vreg(2 * self.vectors + 4))
    }

    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        let is_format = self.codes.are_integers() || self.zeros == ZeroPoints::Middle;
        let is_level = self.numbers == ExpandedNumbers::F32 || self.isa == Isa::Avx512;
        let registers = 2 * usize::from(self.vectors) + 4 + Decoder::registers(self.isa, self.codes);
        if !is_format || !is_level || self.vectors == 0 || registers > usize::from(asm.registers()) {
            return Err(KernelError::Unsupported { family: FAMILY, reason: format!("a kernel of {self:?}") });
        }
        asm.prologue();
        self.decoder().begin(asm, arg!(ExpandArgs.table), OTHER);
        if self.numbers == ExpandedNumbers::Bf16Pairs {
            asm.load(OTHER, arg!(ExpandArgs.pairs));
            asm.vload(self.order(), Mem::at(OTHER, 0));
        }
        asm.load(FROM, arg!(ExpandArgs.from));
        asm.load(TO, arg!(ExpandArgs.to));
        asm.load(BLOCKS, arg!(ExpandArgs.blocks));
        asm.for_each(BLOCKS, 1, |asm| {
            asm.load(COUNT, arg!(ExpandArgs.words));
            self.block(asm);
        });
        asm.load(COUNT, arg!(ExpandArgs.last));
        asm.unless_zero(COUNT, |asm| self.block(asm));
        asm.epilogue();
        Ok(())
    }

    /// A block with as many words as the register counts.
    fn block(&self, asm: &mut Asm) {
        let (lanes, bytes) = (asm.lanes() as i32, asm.vector_bytes());
        let scales = i32::from(self.vectors) * bytes;
        for vector in 0..self.vectors {
            asm.vload(BlockExpandCode::scale(vector), Mem::at(FROM, i32::from(vector) * bytes));
            let (zero, middle) = (self.zero(vector), Src::from(f32::from(self.codes.middle())));
            match self.zeros {
                ZeroPoints::Middle => continue,
                ZeroPoints::Bytes => {
                    asm.vload_u8(zero, Mem::at(FROM, scales + i32::from(vector) * lanes));
                    asm.vcvt_f32(zero, zero);
                }
                ZeroPoints::F32 => asm.vload(zero, Mem::at(FROM, scales + i32::from(vector) * bytes)),
            }
            asm.vsub(zero, zero, middle);
        }
        let width = usize::from(self.vectors) * asm.lanes();
        asm.add_imm(FROM, (width * (4 + self.zeros.bytes())) as i32);
        asm.align(32);
        asm.repeat(COUNT, |asm| self.word(asm));
    }

    /// One word of each column.
    fn word(&self, asm: &mut Asm) {
        let bytes = asm.vector_bytes();
        let row = i32::from(self.vectors) * bytes;
        for vector in 0..self.vectors {
            asm.vload(self.words(), Mem::at(FROM, i32::from(vector) * bytes));
            let to = |index: usize| Mem::at(TO, index as i32 * row + i32::from(vector) * bytes);
            for index in 0..self.numbers.rows(self.codes) {
                match self.numbers {
                    ExpandedNumbers::F32 => self.dequantise(asm, vector, index, self.number()),
                    ExpandedNumbers::Bf16Pairs => {
                        self.dequantise(asm, vector, 2 * index, self.before());
                        self.dequantise(asm, vector, 2 * index + 1, self.number());
                        asm.vround_bf16(self.number(), self.number(), self.before());
                        asm.vpermute_16(self.number(), self.order(), self.number());
                    }
                }
                asm.vstore(to(index), self.number());
            }
        }
        asm.add_imm(FROM, row);
        asm.add_imm(TO, self.numbers.rows(self.codes) as i32 * row);
    }

    /// to = the numbers of code `index` of the words.
    fn dequantise(&self, asm: &mut Asm, vector: u8, index: usize, to: Vreg) {
        self.decoder().number(asm, index, self.words(), to);
        if self.zeros != ZeroPoints::Middle {
            asm.vsub(to, to, self.zero(vector));
        }
        asm.vmul(to, to, BlockExpandCode::scale(vector));
    }
}
