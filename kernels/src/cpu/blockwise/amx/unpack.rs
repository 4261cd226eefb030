//! Codes of a packed panel as signed bytes, in the order of AMX's right-hand tiles.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::amx::LANES;
use crate::cpu::blockwise::FAMILY;
use crate::cpu::blockwise::layout::BlockPanels;
use crate::cpu::blockwise::products::Products;
use crate::cpu::{CodeKey, CodeSource, Emitted};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Given, Gpr, Mem, Src, Vreg, arg};
use crate::problem::blockwise::{Codes, ZeroPoints};

/// Bytes of a row of a tile: four elements of the reduction of sixteen columns.
const LINE: usize = 64;

/// What shapes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct BlockUnpackCode {
    /// Level: AVX-512.
    pub isa: Isa,
    /// Vectors that a panel is wide: 1 or 2.
    pub vectors: u8,
    /// What codes mean: integers.
    pub codes: Codes,
    /// Where zero points come from: they stand between blocks.
    pub zeros: ZeroPoints,
}

/// The arguments of one call.
#[repr(C)]
struct UnpackArgs {
    /// The first block.
    from: *const u8,
    /// The lines of the first vector of columns, and bytes to those of the next.
    to: *mut u8,
    to_stride: usize,
    /// Whole blocks, words of a column in each, and in the block behind them.
    blocks: usize,
    words: usize,
    last: usize,
}

impl Arguments for UnpackArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = BlockUnpackCode;

    fn extents(&self, code: &BlockUnpackCode, extents: &mut Extents<'_>) {
        let vectors = usize::from(code.vectors);
        let words = self.blocks.saturating_mul(self.words).saturating_add(self.last);
        let blocks = self.blocks.saturating_add(usize::from(self.last > 0));
        let bytes = words.saturating_mul(vectors * LINE).saturating_add(blocks.saturating_mul(code.head_bytes()));
        extents.read("panels", self.from).bytes(bytes);
        let lines = code.parts() * LINE;
        extents.write("scratch", self.to).over(vectors, self.to_stride).over(words, lines).bytes(lines);
    }
}

/// Unpacks blocks of panels of a matrix.
#[derive(Clone, Debug)]
pub(super) struct Unpack {
    panels: BlockPanels,
    kernel: Emitted<BlockUnpackCode>,
}

impl Unpack {
    pub(super) fn new(isa: Isa, panels: BlockPanels, source: &dyn CodeSource) -> Result<Unpack> {
        let vectors = (panels.width / isa.lanes()) as u8;
        let code = BlockUnpackCode { isa, vectors, codes: panels.format.codes, zeros: panels.format.zeros };
        Ok(Unpack { panels, kernel: Emitted::new(code, CodeKey::BlockUnpack, source)? })
    }

    /// Bytes of `blocks` blocks of a vector of columns.
    pub(super) fn len(&self, blocks: usize) -> usize {
        blocks * self.panels.format.block() * LANES
    }

    /// Unpacks `blocks` blocks of `panel` from block `first` on: for each vector of columns [`Unpack::len`] bytes. The
    /// last block of a column is filled up with zeros.
    pub(super) fn run(&self, panel: &[u8], first: usize, blocks: usize, to: &mut [u8], given: &Given) {
        let each = self.panels.block_words();
        let words = self.panels.words().min((first + blocks) * each) - first * each;
        let (own, line) = (self.len(blocks), Products::Tiles.parts(self.panels.format.codes) * LINE);
        let to = &mut to[..self.panels.width / LANES * own];
        to.chunks_exact_mut(own).for_each(|to| to[words * line..].fill(0));
        let args = UnpackArgs {
            from: panel[first * self.panels.block_bytes()..].as_ptr(),
            to: to.as_mut_ptr(),
            to_stride: own,
            blocks: words / each,
            words: each,
            last: words % each,
        };
        assert!(panel.len() >= self.panels.panel_bytes());
        // SAFETY: the struct is the one that the emitter reads. The panel holds every word that is read, and `to` holds
        // the lines of those words for each vector.
        unsafe { self.kernel.call(&args, given) }
    }
}

const FROM: Gpr = Gpr::RSI;
const TO: Gpr = Gpr::RDX;
const STRIDE: Gpr = Gpr::R8;
const BLOCKS: Gpr = Gpr::R10;
const COUNT: Gpr = Gpr::R11;
/// The highest bit of each code, the bits of the first code of each byte, and the middle of codes less than nothing.
const FLIP: Vreg = Vreg(0);
const LOWEST: Vreg = Vreg(1);
const LESS: Vreg = Vreg(2);
const WORDS: Vreg = Vreg(3);
const BYTES: Vreg = Vreg(4);

impl BlockUnpackCode {
    /// Bytes of a block's scales and zero points.
    fn head_bytes(&self) -> usize {
        usize::from(self.vectors) * LANES * (4 + self.zeros.bytes())
    }

    /// Lines that one line of words unpacks to.
    fn parts(&self) -> usize {
        Products::Tiles.parts(self.codes)
    }

    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        if self.isa != Isa::Avx512 || !self.codes.are_integers() || !(1..=2).contains(&self.vectors) {
            return Err(KernelError::Unsupported { family: FAMILY, reason: format!("a kernel of {self:?}") });
        }
        asm.prologue();
        asm.load(FROM, arg!(UnpackArgs.from));
        asm.load(TO, arg!(UnpackArgs.to));
        asm.load(STRIDE, arg!(UnpackArgs.to_stride));
        asm.load(BLOCKS, arg!(UnpackArgs.blocks));
        if self.parts() > 1 {
            let repeated = |byte: u8| Src::Const(u32::from_ne_bytes([byte; 4]));
            let (bits, middle) = (self.codes.bits(), self.codes.middle());
            let flip = (0..8 / bits).fold(0, |byte, at| byte | middle << (at * bits));
            asm.vload(FLIP, repeated(flip));
            asm.vload(LOWEST, repeated(u8::MAX >> (8 - bits)));
            asm.vload(LESS, repeated(middle.wrapping_neg()));
        }
        asm.for_each(BLOCKS, 1, |asm| {
            asm.load(COUNT, arg!(UnpackArgs.words));
            self.block(asm);
        });
        asm.load(COUNT, arg!(UnpackArgs.last));
        asm.unless_zero(COUNT, |asm| self.block(asm));
        asm.epilogue();
        Ok(())
    }

    /// A block of as many words as the register counts.
    fn block(&self, asm: &mut Asm) {
        asm.add_imm(FROM, self.head_bytes() as i32);
        asm.align(16);
        asm.repeat(COUNT, |asm| {
            for vector in 0..usize::from(self.vectors) {
                self.word(asm, vector);
            }
            asm.add_imm(FROM, (usize::from(self.vectors) * LINE) as i32);
            asm.add_imm(TO, (self.parts() * LINE) as i32);
        });
    }

    /// A word of each column of a vector.
    fn word(&self, asm: &mut Asm, vector: usize) {
        let from = Mem::at(FROM, (vector * LINE) as i32);
        let to = |part: usize| match vector {
            0 => Mem::at(TO, (part * LINE) as i32),
            _ => Mem::indexed(TO, STRIDE, 1, (part * LINE) as i32),
        };
        if self.parts() == 1 {
            // Codes of eight bits are packed as signed bytes.
            asm.vload(WORDS, from);
            asm.vstore(to(0), WORDS);
            return;
        }
        asm.vxor(WORDS, FLIP, from);
        for part in 0..self.parts() {
            if part > 0 {
                asm.vishr(BYTES, WORDS, (part * self.codes.bits()) as u8);
            }
            asm.vand(BYTES, if part > 0 { BYTES } else { WORDS }, LOWEST);
            asm.vadd_bytes_saturated(BYTES, BYTES, LESS);
            asm.vstore(to(part), BYTES);
        }
    }
}
