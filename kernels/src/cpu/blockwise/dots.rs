//! The product of a few rows of bytes: codes are multiplied as the integers that they are (AVX512_VNNI, `vpdpbusd`).
//!
//! A word of codes becomes vectors of unsigned bytes, each of which is multiplied with four bytes of every row. The sum
//! over a block is an exact integer; its end makes it an `f32`, takes off the zero points where blocks have their own,
//! and adds it to the sum of the row, times the step of the row's block and the scale of the weights'.

use std::ops::Range;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::FAMILY;
use super::bytes::ByteRows;
use super::format::{BlockFormat, Codes, ZeroPoints};
use super::layout::BlockPanels;
use crate::cpu::{CodeKey, CodeSource, Emitted};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Given, Gpr, Mem, Src, Vreg, arg};

/// Panels that are read side by side at most.
pub(super) const STREAMS: usize = 4;

/// Rows that are multiplied side by side at most.
const MOST_ROWS: usize = 6;

/// Bytes from what is read to what is prefetched.
const AHEAD: i32 = 2048;

/// What shapes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct BlockDotCode {
    /// Level.
    pub isa: Isa,
    /// Rows.
    pub rows: u8,
    /// Vectors that a panel is wide.
    pub vectors: u8,
    /// Panels that are read side by side: 1, 2 or 4.
    pub streams: u8,
    /// What codes mean: integers.
    pub codes: Codes,
    /// Where zero points come from.
    pub zeros: ZeroPoints,
}

/// The arguments of one call.
#[repr(C)]
struct DotArgs {
    /// The rows' blocks: starts or sums, and steps.
    heads: *const u32,
    /// The rows' bytes.
    bytes: *const u32,
    /// The first of the panels, and bytes from one to the next.
    panels: *const u8,
    panel_stride: usize,
    /// Whole blocks, words of a column in each, and in the block behind them.
    blocks: usize,
    words: usize,
    last: usize,
    c: *mut f32,
    /// Bytes from row to row of C.
    ldc: usize,
    /// What sums begin with, or null; and bytes from row to row: none where all rows begin with the bias.
    from: *const f32,
    from_stride: usize,
}

impl Arguments for DotArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = BlockDotCode;

    fn extents(&self, key: &BlockDotCode, extents: &mut Extents<'_>) {
        let (streams, width) = (usize::from(key.streams), usize::from(key.vectors) * key.isa.lanes());
        let rows = usize::from(key.rows);
        let words = self.blocks.saturating_mul(self.words).saturating_add(self.last);
        let blocks = self.blocks.saturating_add(usize::from(self.last > 0));
        extents.read("heads of rows", self.heads).over(blocks, 8 * rows).bytes(8 * rows);
        extents
            .read("bytes of rows", self.bytes)
            .over(words, key.codes.per_word() * rows)
            .bytes(key.codes.per_word() * rows);
        let head = width * (4 + key.zeros.bytes());
        let panel = words.saturating_mul(width * 4).saturating_add(blocks.saturating_mul(head));
        extents.read("panels", self.panels).over(streams, self.panel_stride).bytes(panel);
        extents.write("C", self.c).over(rows, self.ldc).bytes(streams * width * 4);
        if !self.from.is_null() {
            extents.read("what sums begin with", self.from).over(rows, self.from_stride).bytes(streams * width * 4);
        }
    }
}

/// The kernels of some rows by the panels of a matrix.
#[derive(Clone, Debug)]
pub(super) struct Dots {
    pub(super) rows: ByteRows,
    /// Of several panels side by side, as many as the level has registers for, and of one.
    several: Option<Emitted<BlockDotCode>>,
    one: Emitted<BlockDotCode>,
    pub(super) streams: usize,
}

/// Operands of a call: heads and bytes of its rows, a panel, and where results go.
#[derive(Clone, Copy)]
pub(super) struct DotOperands {
    pub(super) rows: *const u32,
    /// The first panel.
    pub(super) panels: *const u8,
    /// Null where sums begin with zeros.
    pub(super) bias: *const f32,
    pub(super) c: *mut f32,
    /// Bytes from row to row of C.
    pub(super) ldc: usize,
}

impl Dots {
    /// Whether the integers of that format are multiplied exactly: sums over a block are exact as `f32`.
    pub(super) fn takes(format: &BlockFormat) -> bool {
        format.codes.are_integers() && format.block() <= 256
    }

    /// Rows that are multiplied side by side, of `m` rows: groups of as many or of one less are as few as can be.
    pub(super) fn rows_of(isa: Isa, panels: &BlockPanels, m: usize) -> usize {
        let most = (1..=MOST_ROWS).rev().find(|&rows| {
            BlockDotCode::new(isa, panels, rows, 1).is_some_and(|key| key.registers() <= usize::from(isa.registers()))
        });
        let most = most.unwrap_or(1);
        m.div_ceil(m.div_ceil(most).max(1)).max(1)
    }

    /// The kernels of so many rows for panels of a matrix, at most `most` of which are read side by side.
    pub(super) fn new(
        isa: Isa,
        panels: BlockPanels,
        [rows, most]: [usize; 2],
        source: &dyn CodeSource,
    ) -> Result<Dots> {
        let key = |streams| {
            let refused = || KernelError::Unsupported { family: FAMILY, reason: format!("{rows} rows by {panels:?}") };
            BlockDotCode::new(isa, &panels, rows, streams).ok_or_else(refused)
        };
        let streams = [STREAMS, 2].into_iter().find(|&streams| {
            streams <= most
                && panels.n / panels.width >= streams
                && key(streams).is_ok_and(|key| key.registers() <= usize::from(isa.registers()))
        });
        let streams = streams.unwrap_or(1);
        let make = |streams| Emitted::new(key(streams)?, CodeKey::BlockDot, source);
        let several = (streams > 1).then(|| make(streams)).transpose()?;
        Ok(Dots { rows: ByteRows { panels, rows }, several, one: make(1)?, streams })
    }

    /// Computes the blocks `blocks` of the columns of `streams` panels, one or as many as the kernels read side by side.
    /// What earlier blocks came to is in C.
    ///
    /// # Safety
    ///
    /// `given` holds heads and bytes of the rows, the panels, and C and bias, if there is one, over whole panels. No
    /// other task touches those columns of C.
    pub(super) unsafe fn run(&self, operands: DotOperands, blocks: Range<usize>, streams: usize, given: &Given) {
        let (of, rows) = (&self.rows.panels, self.rows.rows);
        let (each, first) = (of.block_words(), blocks.start * of.block_words());
        let words = of.words().min(blocks.end * each) - first;
        let (from, from_stride) = match blocks.start {
            0 => (operands.bias, 0),
            _ => (operands.c.cast_const(), operands.ldc),
        };
        let per_word = rows * of.format.codes.per_word() / 4;
        let args = DotArgs {
            heads: operands.rows.wrapping_add(2 * rows * blocks.start),
            bytes: operands.rows.wrapping_add(self.rows.heads_len() + per_word * first),
            panels: operands.panels.wrapping_add(blocks.start * of.block_bytes()),
            panel_stride: of.panel_bytes(),
            blocks: words / each,
            words: each,
            last: words % each,
            c: operands.c,
            ldc: operands.ldc,
            from,
            from_stride,
        };
        let kernel = self.several.as_ref().filter(|_| streams > 1).unwrap_or(&self.one);
        // SAFETY: the caller's contract; the struct is the one that the emitter reads.
        unsafe { kernel.call(&args, given) }
    }
}

const BYTES: Gpr = Gpr::RSI;
/// The first panel's current words, and the offsets from them to the second and fourth panel's.
const WORDS: Gpr = Gpr::RDX;
const PANEL_STRIDE: Gpr = Gpr::R8;
const THREE_STRIDES: Gpr = Gpr::R9;
/// The scales of the current block of the first panel.
const HEAD: Gpr = Gpr::RAX;
/// The heads of the rows' current block.
const HEADS: Gpr = Gpr::RCX;
/// Blocks left, and words left of a block.
const BLOCKS: Gpr = Gpr::R10;
const COUNT: Gpr = Gpr::R11;
const OTHER: Gpr = Gpr::RBX;

impl BlockDotCode {
    fn new(isa: Isa, panels: &BlockPanels, rows: usize, streams: usize) -> Option<BlockDotCode> {
        let BlockFormat { codes, zeros, .. } = panels.format;
        let vectors = u8::try_from(panels.width / isa.lanes()).ok()?;
        let (rows, streams) = (u8::try_from(rows).ok()?, u8::try_from(streams).ok()?);
        Some(BlockDotCode { isa, rows, vectors, streams, codes, zeros })
    }

    /// Vectors of all panels.
    fn vectors(&self) -> u8 {
        self.streams * self.vectors
    }

    /// Registers: of each row and vector a sum and an integer sum over the block; of each vector its words; of each row
    /// its bytes; unsigned bytes of codes, and two constants.
    fn registers(&self) -> usize {
        let (rows, vectors) = (usize::from(self.rows), usize::from(self.streams) * usize::from(self.vectors));
        2 * rows * vectors + vectors + rows + 3
    }

    fn total(&self, row: u8, vector: u8) -> Vreg {
        Vreg(row * self.vectors() + vector)
    }

    fn part(&self, row: u8, vector: u8) -> Vreg {
        Vreg((self.rows + row) * self.vectors() + vector)
    }

    fn words(&self, vector: u8) -> Vreg {
        Vreg(2 * self.rows * self.vectors() + vector)
    }

    fn element(&self, row: u8) -> Vreg {
        Vreg((2 * self.rows + 1) * self.vectors() + row)
    }

    fn after_elements(&self, index: u8) -> Vreg {
        Vreg((2 * self.rows + 1) * self.vectors() + self.rows + index)
    }

    fn code(&self) -> Vreg {
        self.after_elements(0)
    }

    /// The highest bit of each code, which makes packed codes unsigned.
    fn flip(&self) -> Vreg {
        self.after_elements(1)
    }

    /// The bits of the first code of each byte.
    fn lowest(&self) -> Vreg {
        self.after_elements(2)
    }

    /// Codes of a byte.
    fn parts(&self) -> u8 {
        (8 / self.codes.bits()) as u8
    }

    /// All rows by all vectors.
    fn sums(&self) -> impl Iterator<Item = (u8, u8)> + use<> {
        let (rows, vectors) = (self.rows, self.vectors());
        (0..rows).flat_map(move |row| (0..vectors).map(move |vector| (row, vector)))
    }

    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        let fits = self.registers() <= usize::from(asm.registers());
        let counts =
            (1..=MOST_ROWS as u8).contains(&self.rows) && self.vectors > 0 && [1, 2, 4].contains(&self.streams);
        if !self.codes.are_integers() || !fits || !counts {
            return Err(KernelError::Unsupported { family: FAMILY, reason: format!("a kernel of {self:?}") });
        }
        asm.prologue();
        self.start(asm);
        asm.for_each(BLOCKS, 1, |asm| {
            asm.load(COUNT, arg!(DotArgs.words));
            self.block(asm);
        });
        asm.load(COUNT, arg!(DotArgs.last));
        asm.unless_zero(COUNT, |asm| self.block(asm));
        asm.load(OTHER, arg!(DotArgs.c));
        for row in 0..self.rows {
            for vector in 0..self.vectors() {
                let at = Mem::at(OTHER, i32::from(vector) * asm.vector_bytes());
                asm.vstore(at, self.total(row, vector));
            }
            asm.add_mem(OTHER, arg!(DotArgs.ldc));
        }
        asm.epilogue();
        Ok(())
    }

    /// Addresses, constants, and what sums begin with.
    fn start(&self, asm: &mut Asm) {
        let repeated = |bits: u8| Src::from(f32::from_bits(u32::from_ne_bytes([bits; 4])));
        let each =
            |code: u8| (0..self.parts()).fold(0, |byte, at| byte | code << (usize::from(at) * self.codes.bits()));
        asm.vload(self.flip(), repeated(each(self.codes.middle())));
        asm.vload(self.lowest(), repeated(u8::MAX >> (8 - self.codes.bits())));
        asm.load(BYTES, arg!(DotArgs.bytes));
        asm.load(HEADS, arg!(DotArgs.heads));
        asm.load(WORDS, arg!(DotArgs.panels));
        asm.load(PANEL_STRIDE, arg!(DotArgs.panel_stride));
        asm.lea(THREE_STRIDES, Mem::indexed(PANEL_STRIDE, PANEL_STRIDE, 2, 0));
        asm.load(BLOCKS, arg!(DotArgs.blocks));
        asm.load(OTHER, arg!(DotArgs.from));
        let bytes = asm.vector_bytes();
        asm.unless_zero_else(
            OTHER,
            |asm| {
                for row in 0..self.rows {
                    for vector in 0..self.vectors() {
                        asm.vload(self.total(row, vector), Mem::at(OTHER, i32::from(vector) * bytes));
                    }
                    asm.add_mem(OTHER, arg!(DotArgs.from_stride));
                }
            },
            |asm| self.sums().for_each(|(row, vector)| asm.vzero(self.total(row, vector))),
        );
    }

    /// Address of something `bytes` from `base` in the panel of a vector, plus `each` for each vector before it there.
    fn of_panel(&self, base: Gpr, vector: u8, bytes: i32, each: i32) -> Mem {
        let at = bytes + i32::from(vector % self.vectors) * each;
        match vector / self.vectors {
            0 => Mem::at(base, at),
            3 => Mem::indexed(base, THREE_STRIDES, 1, at),
            stream => Mem::indexed(base, PANEL_STRIDE, stream, at),
        }
    }

    /// A block of as many words as the register counts.
    fn block(&self, asm: &mut Asm) {
        let (width, bytes) = (usize::from(self.vectors) * asm.lanes(), asm.vector_bytes());
        asm.mov(HEAD, WORDS);
        asm.add_imm(WORDS, (width * (4 + self.zeros.bytes())) as i32);
        for (row, vector) in self.sums() {
            match self.zeros {
                ZeroPoints::Middle => asm.vbroadcast(self.part(row, vector), Mem::at(HEADS, 4 * i32::from(row))),
                ZeroPoints::Bytes | ZeroPoints::F32 => asm.vzero(self.part(row, vector)),
            }
        }
        asm.align(32);
        asm.repeat(COUNT, |asm| self.word(asm));
        self.sums().for_each(|(row, vector)| asm.vcvt_f32(self.part(row, vector), self.part(row, vector)));
        if self.zeros != ZeroPoints::Middle {
            self.take_zero_points(asm);
        }
        for row in 0..self.rows {
            asm.vbroadcast(self.element(row), Mem::at(HEADS, 4 * i32::from(self.rows + row)));
        }
        for (row, vector) in self.sums() {
            let scales = self.of_panel(HEAD, vector, 0, bytes);
            asm.vmul(self.code(), self.element(row), scales);
            asm.vfma231(self.total(row, vector), self.part(row, vector), self.code());
        }
        asm.add_imm(HEADS, 8 * i32::from(self.rows));
    }

    /// Takes the zero points of a block off, times the sums of the rows' bytes.
    fn take_zero_points(&self, asm: &mut Asm) {
        let bytes = asm.vector_bytes();
        let scales = i32::from(self.vectors) * bytes;
        for row in 0..self.rows {
            asm.vbroadcast(self.element(row), Mem::at(HEADS, 4 * i32::from(row)));
        }
        for vector in 0..self.vectors() {
            let zeros = self.code();
            if self.zeros == ZeroPoints::Bytes {
                asm.vload_u8(zeros, self.of_panel(HEAD, vector, scales, asm.lanes() as i32));
                asm.vcvt_f32(zeros, zeros);
            } else {
                asm.vload(zeros, self.of_panel(HEAD, vector, scales, bytes));
            }
            (0..self.rows).for_each(|row| asm.vfnma231(self.part(row, vector), zeros, self.element(row)));
        }
    }

    /// One word of each column.
    fn word(&self, asm: &mut Asm) {
        let bytes = asm.vector_bytes();
        for vector in 0..self.vectors() {
            let at = self.of_panel(WORDS, vector, 0, bytes);
            asm.vxor(self.words(vector), self.flip(), at);
            asm.prefetch(at.plus(AHEAD));
        }
        for part in 0..self.parts() {
            for row in 0..self.rows {
                let at = 4 * (i32::from(part) * i32::from(self.rows) + i32::from(row));
                asm.vbroadcast(self.element(row), Mem::at(BYTES, at));
            }
            for vector in 0..self.vectors() {
                let codes = self.unsigned(asm, part, vector);
                (0..self.rows).for_each(|row| asm.vdot_bytes(self.part(row, vector), codes, self.element(row)));
            }
        }
        asm.add_imm(BYTES, 4 * i32::from(self.parts()) * i32::from(self.rows));
        asm.add_imm(WORDS, i32::from(self.vectors) * bytes);
    }

    /// Code number `part` of each byte of a vector of words.
    fn unsigned(&self, asm: &mut Asm, part: u8, vector: u8) -> Vreg {
        let words = self.words(vector);
        if self.parts() == 1 {
            return words;
        }
        let mut from = words;
        if part > 0 {
            asm.vishr(self.code(), words, part * self.codes.bits() as u8);
            from = self.code();
        }
        asm.vand(self.code(), from, self.lowest());
        self.code()
    }
}
