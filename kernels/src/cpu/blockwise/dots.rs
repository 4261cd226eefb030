//! The product of a few rows of bytes: codes are multiplied as integers.
//!
//! A word of codes becomes vectors of unsigned bytes. Each vector is multiplied with four bytes of every row
//! ([`Products::Fours`]), or with pairs of bytes ([`Products::Pairs`]): as many pairs are added in 16 bits as fit. The
//! sum over a block is an exact integer. At the end of a block it becomes an `f32`, the zero points are taken off where
//! blocks have their own, and the sum, times the step of the row's block and the scale of the weights' block, is added
//! to the sum of the row.
//!
//! Codes are unpacked once for all rows of a call. Memory limits one or two rows, which read several panels side by
//! side and a few words of each at a time.

use std::ops::Range;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::FAMILY;
use super::bytes::ByteRows;
use super::layout::BlockPanels;
use super::pairs::{ManyPairs, RowsOfC};
use super::products::Products;
use super::streams::{Ahead, STREAMS, StreamKernels, Streams};
use super::words::{BYTES, ByteWords, COUNT, GROUP, HEADS, ONES, OTHER};
use crate::cpu::{CodeKey, CodeSource, Emitted};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Given, Gpr, Mem, Vreg, arg};
use crate::parallel::Piece;
use crate::problem::blockwise::{BlockFormat, Codes, ZeroPoints};

/// Most rows that are multiplied side by side.
const MOST_ROWS: usize = 6;

/// What shapes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct BlockDotCode {
    /// Level.
    pub isa: Isa,
    /// The instructions that multiply.
    pub products: Products,
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
    /// How far ahead it prefetches.
    pub ahead: Ahead,
    /// Whether a block has at most the words whose pairs of products fit 16 bits. False where code is the same for all
    /// lengths of blocks: of few rows, in fours, and where pairs are widened.
    pub short: bool,
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
    /// The sums to begin with, or null; and bytes from row to row, 0 where all rows begin with the bias.
    from: *const f32,
    from_stride: usize,
    /// Bytes from the columns of a panel to those of the next, in a row of C and of the sums to begin with.
    column_stride: usize,
}

impl Arguments for DotArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = BlockDotCode;

    fn extents(&self, key: &BlockDotCode, extents: &mut Extents<'_>) {
        let (panels, count, rows) = (key.panels(), usize::from(key.streams), usize::from(key.rows));
        let words = self.blocks.saturating_mul(self.words).saturating_add(self.last);
        let blocks = self.blocks.saturating_add(usize::from(self.last > 0));
        extents.read("heads of rows", self.heads).over(blocks, 8 * rows).bytes(8 * rows);
        let word = 4 * key.products.parts(key.codes) * rows;
        extents.read("bytes of rows", self.bytes).over(words, word).bytes(word);
        let panel = panels.panel_bytes(key.isa, words, blocks);
        extents.read("panels", self.panels).over(count, self.panel_stride).bytes(panel);
        let columns = panels.width(key.isa) * 4;
        extents.write("C", self.c).over(rows, self.ldc).over(count, self.column_stride).bytes(columns);
        if !self.from.is_null() {
            let from = extents.read("what sums begin with", self.from).over(rows, self.from_stride);
            from.over(count, self.column_stride).bytes(columns);
        }
    }
}

/// The kernels of some rows by the panels of a matrix.
#[derive(Clone, Debug)]
pub(super) struct Dots {
    pub(super) rows: ByteRows,
    /// As many panels side by side as the level has registers for.
    pub(super) kernels: StreamKernels<BlockDotCode>,
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
    /// Whether integers of that format are multiplied exactly: sums over a block are exact as `f32`.
    pub(super) fn takes(format: &BlockFormat) -> bool {
        format.codes.are_integers() && format.block() <= 256
    }

    /// Rows of a group that are multiplied side by side, out of `m` rows: groups have this many rows or one less, and
    /// are as few as possible.
    pub(super) fn rows_of(isa: Isa, products: Products, panels: &BlockPanels, m: usize) -> usize {
        let most = (1..=MOST_ROWS).rev().find(|&rows| {
            let rows = ByteRows { panels: *panels, rows, products };
            BlockDotCode::new(isa, &rows, 1, Ahead::default())
                .is_some_and(|key| key.registers() <= usize::from(isa.registers()))
        });
        let most = most.unwrap_or(1);
        m.div_ceil(m.div_ceil(most).max(1)).max(1)
    }

    /// The kernels of `rows` rows by panels of a matrix, which read at most `most` panels side by side. `ahead` is the
    /// best distance for a single row.
    pub(super) fn new(isa: Isa, rows: ByteRows, most: usize, ahead: Ahead, source: &dyn CodeSource) -> Result<Dots> {
        let key = |streams| {
            let refused = || KernelError::Unsupported { family: FAMILY, reason: format!("{rows:?}") };
            BlockDotCode::new(isa, &rows, streams, ahead).ok_or_else(refused)
        };
        let fits = |streams| {
            key(streams).is_ok_and(|key| key.registers() <= usize::from(isa.registers()) && key.has_streams())
        };
        let make = |streams| Emitted::new(key(streams)?, CodeKey::BlockDot, source);
        Ok(Dots { rows, kernels: StreamKernels::new(&rows.panels, most, fits, make)? })
    }

    /// Computes the blocks `blocks` of the columns of some panels. The first panel, its bias and its columns of C are
    /// those of `operands`. C has the sums of earlier blocks.
    ///
    /// # Safety
    ///
    /// `given` holds heads and bytes of the rows, the panels, and C and bias, if there is one, over whole panels. No
    /// other task touches those columns of C.
    pub(super) unsafe fn run(&self, operands: DotOperands, blocks: Range<usize>, panels: Piece, given: &Given) {
        let (of, rows) = (&self.rows.panels, self.rows.rows);
        let (each, first) = (of.block_words(), blocks.start * of.block_words());
        let words = of.words().min(blocks.end * each) - first;
        let (from, from_stride) = match blocks.start {
            0 => (operands.bias, 0),
            _ => (operands.c.cast_const(), operands.ldc),
        };
        let args = DotArgs {
            heads: operands.rows.wrapping_add(2 * rows * blocks.start),
            bytes: operands.rows.wrapping_add(self.rows.heads_len() + rows * self.rows.parts() * first),
            panels: operands.panels.wrapping_add(blocks.start * of.block_bytes()),
            panel_stride: panels.stride * of.panel_bytes(),
            blocks: words / each,
            words: each,
            last: words % each,
            c: operands.c,
            ldc: operands.ldc,
            from,
            from_stride,
            column_stride: panels.stride * of.width * 4,
        };
        // SAFETY: the caller's contract; the struct is the one that the emitter reads.
        unsafe { self.kernels.of(panels.count).call(&args, given) }
    }
}

/// Blocks left.
const BLOCKS: Gpr = Gpr::R10;

impl BlockDotCode {
    fn new(isa: Isa, rows: &ByteRows, streams: usize, ahead: Ahead) -> Option<BlockDotCode> {
        let BlockFormat { codes, zeros, .. } = rows.panels.format;
        let vectors = u8::try_from(rows.panels.width / isa.lanes()).ok()?;
        let (count, streams) = (u8::try_from(rows.rows).ok()?, u8::try_from(streams).ok()?);
        let (products, ahead) = (rows.products, ahead.of_rows(rows.rows));
        let code = BlockDotCode { isa, products, rows: count, vectors, streams, codes, zeros, ahead, short: false };
        let depends = code.many_in_pairs().is_some() && !products.widens(codes);
        Some(BlockDotCode { short: depends && rows.panels.block_words() <= usize::from(GROUP), ..code })
    }

    fn panels(&self) -> Streams {
        Streams { vectors: self.vectors, count: self.streams, zeros: self.zeros }
    }

    /// Vectors of all panels.
    fn vectors(&self) -> u8 {
        self.panels().all()
    }

    /// Whether rows are so few that memory limits their products in fours. Some words of a vector of columns are then
    /// read before those of the next vector, which memory gives faster than one word of each vector.
    fn is_of_few(&self) -> bool {
        self.rows <= 2
    }

    fn words_of_bytes(&self) -> ByteWords {
        ByteWords { products: self.products, codes: self.codes, rows: self.rows, panels: self.panels() }
    }

    /// The kernel's instructions where its rows are so many that multiply-adds limit their products in pairs.
    fn many_in_pairs(&self) -> Option<ManyPairs> {
        let is_one = self.products == Products::Pairs && !self.is_of_few();
        is_one.then(|| ManyPairs { words: self.words_of_bytes(), ahead: self.ahead, short: self.short })
    }

    /// Registers: of each row and vector a sum and an integer sum over the block; two constants; elements of rows,
    /// unsigned bytes of codes and words. Pairs need a row's bytes and ones besides.
    fn registers(&self) -> usize {
        let (rows, vectors) = (usize::from(self.rows), usize::from(self.vectors()));
        if let Some(pairs) = self.many_in_pairs() {
            return pairs.registers();
        }
        let others = match self.products {
            Products::Fours | Products::Bf16Tiles => 1 + 2 * usize::from(self.codes_at_once()),
            Products::Pairs => rows + 1 + 3,
        };
        2 * rows * vectors + 2 + others
    }

    /// Elements of rows that are in registers at once; for products in pairs, each row's sum of pairs.
    fn elements(&self) -> u8 {
        match self.products {
            Products::Fours | Products::Bf16Tiles => 1,
            Products::Pairs => self.rows,
        }
    }

    /// Vectors of words, and of their unsigned bytes, that are in registers at once.
    fn codes_at_once(&self) -> u8 {
        match self.products {
            Products::Fours if !self.is_of_few() => self.vectors(),
            _ => 1,
        }
    }

    fn total(&self, row: u8, vector: u8) -> Vreg {
        Vreg(row * self.vectors() + vector)
    }

    fn part(&self, row: u8, vector: u8) -> Vreg {
        Vreg((self.rows + row) * self.vectors() + vector)
    }

    /// A row's element: four bytes, or a value that belongs to a block.
    fn element(&self, row: u8) -> Vreg {
        Vreg(2 * self.rows * self.vectors() + row)
    }

    /// The highest bit of each code, which makes packed codes unsigned.
    fn flip(&self) -> Vreg {
        self.element(self.elements())
    }

    /// The bits of the first code of each byte, or of each 16 bits.
    fn lowest(&self) -> Vreg {
        self.element(self.elements() + 1)
    }

    /// Unsigned bytes of codes.
    fn code(&self, index: u8) -> Vreg {
        self.element(self.elements() + 2 + index)
    }

    fn words(&self, vector: u8) -> Vreg {
        self.code(self.codes_at_once() + vector)
    }

    /// A row's bytes or words, then their products.
    fn pairs(&self) -> Vreg {
        self.words(1)
    }

    /// Two ones of 16 bits.
    fn ones(&self) -> Vreg {
        self.words(2)
    }

    /// All rows by all vectors.
    fn sums(&self) -> impl Iterator<Item = (u8, u8)> + use<> {
        let (rows, vectors) = (self.rows, self.vectors());
        (0..rows).flat_map(move |row| (0..vectors).map(move |vector| (row, vector)))
    }

    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        let fits = self.registers() <= usize::from(asm.registers());
        let counts = (1..=MOST_ROWS as u8).contains(&self.rows) && self.has_streams();
        if !self.codes.are_integers() || !fits || !counts || self.products == Products::Bf16Tiles {
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
        if self.many_in_pairs().is_none() {
            self.store_totals(asm);
        }
        asm.epilogue();
        Ok(())
    }

    fn store_totals(&self, asm: &mut Asm) {
        asm.load(OTHER, arg!(DotArgs.c));
        self.panels().load_strides(asm, arg!(DotArgs.column_stride));
        for row in 0..self.rows {
            for vector in 0..self.vectors() {
                let at = self.panels().columns(asm, OTHER, vector);
                asm.vstore(at, self.total(row, vector));
            }
            asm.add_mem(OTHER, arg!(DotArgs.ldc));
        }
    }

    /// Addresses, constants, and the sums to begin with.
    fn start(&self, asm: &mut Asm) {
        asm.load(BYTES, arg!(DotArgs.bytes));
        asm.load(HEADS, arg!(DotArgs.heads));
        asm.load(BLOCKS, arg!(DotArgs.blocks));
        if let Some(pairs) = self.many_in_pairs() {
            let (c, ldc) = (arg!(DotArgs.c), arg!(DotArgs.ldc));
            pairs.start(asm, RowsOfC { c, ldc, from: arg!(DotArgs.from), from_stride: arg!(DotArgs.from_stride) });
            return self.panels().begin(asm, arg!(DotArgs.panels), arg!(DotArgs.panel_stride));
        }
        asm.vload(self.flip(), self.words_of_bytes().highest_bits());
        asm.vload(self.lowest(), self.words_of_bytes().lowest_bits());
        if self.products == Products::Pairs && !self.words_of_bytes().widens() {
            asm.vload(self.ones(), ONES);
        }
        asm.load(OTHER, arg!(DotArgs.from));
        self.panels().load_strides(asm, arg!(DotArgs.column_stride));
        asm.unless_zero_else(
            OTHER,
            |asm| {
                for row in 0..self.rows {
                    for vector in 0..self.vectors() {
                        let at = self.panels().columns(asm, OTHER, vector);
                        asm.vload(self.total(row, vector), at);
                    }
                    asm.add_mem(OTHER, arg!(DotArgs.from_stride));
                }
            },
            |asm| self.sums().for_each(|(row, vector)| asm.vzero(self.total(row, vector))),
        );
        self.panels().begin(asm, arg!(DotArgs.panels), arg!(DotArgs.panel_stride));
    }

    /// A block with as many words as the register counts.
    fn block(&self, asm: &mut Asm) {
        if let Some(pairs) = self.many_in_pairs() {
            return pairs.block(asm);
        }
        self.panels().begin_block(asm);
        for (row, vector) in self.sums() {
            match self.zeros {
                ZeroPoints::Middle => asm.vbroadcast(self.part(row, vector), Mem::at(HEADS, 4 * i32::from(row))),
                ZeroPoints::Bytes | ZeroPoints::F32 => asm.vzero(self.part(row, vector)),
            }
        }
        asm.align(32);
        match self.products {
            Products::Fours if self.is_of_few() => {
                asm.while_at_least(COUNT, i32::from(GROUP), |asm| self.words_in_fours(asm, GROUP));
                asm.for_each(COUNT, 1, |asm| self.words_in_fours(asm, 1));
            }
            Products::Fours | Products::Bf16Tiles => asm.repeat(COUNT, |asm| self.word(asm)),
            Products::Pairs => {
                asm.while_at_least(COUNT, i32::from(GROUP), |asm| self.words_in_pairs(asm, GROUP));
                asm.for_each(COUNT, 1, |asm| self.words_in_pairs(asm, 1));
            }
        }
        self.sums().for_each(|(row, vector)| asm.vcvt_f32(self.part(row, vector), self.part(row, vector)));
        if self.zeros != ZeroPoints::Middle {
            self.take_zero_points(asm);
        }
        for row in 0..self.rows {
            let (step, scale) = (self.element(row % self.elements()), self.code(0));
            asm.vbroadcast(step, Mem::at(HEADS, 4 * i32::from(self.rows + row)));
            for vector in 0..self.vectors() {
                let scales = self.panels().scales(asm, vector);
                asm.vmul(scale, step, scales);
                asm.vfma231(self.total(row, vector), self.part(row, vector), scale);
            }
        }
        asm.add_imm(HEADS, 8 * i32::from(self.rows));
    }

    /// Takes the zero points of a block off, times the sums of the rows' bytes.
    fn take_zero_points(&self, asm: &mut Asm) {
        for vector in 0..self.vectors() {
            let zeros = self.code(0);
            self.panels().load_zero_points(asm, vector, zeros);
            for row in 0..self.rows {
                let sum = self.element(row % self.elements());
                asm.vbroadcast(sum, Mem::at(HEADS, 4 * i32::from(row)));
                asm.vfnma231(self.part(row, vector), zeros, sum);
            }
        }
    }

    /// One word of each column, four products at a time.
    fn word(&self, asm: &mut Asm) {
        (0..self.vectors()).for_each(|vector| self.load_words(asm, vector, 0, self.words(vector)));
        for part in 0..self.words_of_bytes().parts() {
            let codes: Vec<Vreg> = (0..self.vectors())
                .map(|vector| self.unsigned(asm, part, self.words(vector), self.code(vector)))
                .collect();
            for row in 0..self.rows {
                asm.vbroadcast(self.element(0), self.words_of_bytes().bytes(0, part, row));
                for (vector, codes) in (0..).zip(&codes) {
                    asm.vdot_bytes(self.part(row, vector), *codes, self.element(0));
                }
            }
        }
        self.words_of_bytes().advance(asm, 1);
    }

    /// `count` words of each column, one vector of columns after another, four products at a time.
    fn words_in_fours(&self, asm: &mut Asm, count: u8) {
        for vector in 0..self.vectors() {
            for word in 0..count {
                self.load_words(asm, vector, word, self.words(0));
                for part in 0..self.words_of_bytes().parts() {
                    let codes = self.unsigned(asm, part, self.words(0), self.code(0));
                    for row in 0..self.rows {
                        asm.vbroadcast(self.element(0), self.words_of_bytes().bytes(word, part, row));
                        asm.vdot_bytes(self.part(row, vector), codes, self.element(0));
                    }
                }
            }
        }
        self.words_of_bytes().advance(asm, count);
    }

    /// `count` words of each column, one vector of columns after another; their pairs of products fit their sums.
    fn words_in_pairs(&self, asm: &mut Asm, count: u8) {
        let pairs = self.pairs();
        for vector in 0..self.vectors() {
            for (word, part) in
                (0..count).flat_map(|word| (0..self.words_of_bytes().parts()).map(move |part| (word, part)))
            {
                if part == 0 {
                    self.load_words(asm, vector, word, self.words(0));
                }
                let codes = self.unsigned(asm, part, self.words(0), self.code(0));
                for row in 0..self.rows {
                    let sum = self.element(row);
                    asm.vbroadcast(pairs, self.words_of_bytes().bytes(word, part, row));
                    if self.words_of_bytes().widens() {
                        asm.vmul_pairs(pairs, codes, pairs);
                        asm.viadd(self.part(row, vector), self.part(row, vector), pairs);
                    } else if (word, part) == (0, 0) {
                        asm.vmul_bytes(sum, codes, pairs);
                    } else {
                        asm.vmul_bytes(pairs, codes, pairs);
                        asm.vadd_words(sum, sum, pairs);
                    }
                }
            }
            for row in (0..self.rows).filter(|_| !self.words_of_bytes().widens()) {
                asm.vmul_pairs(self.element(row), self.element(row), self.ones());
                asm.viadd(self.part(row, vector), self.part(row, vector), self.element(row));
            }
        }
        self.words_of_bytes().advance(asm, count);
    }

    /// Whether a kernel can have its panels: many rows in pairs read one.
    fn has_streams(&self) -> bool {
        self.panels().are_some() && (self.streams == 1 || self.many_in_pairs().is_none())
    }

    /// Loads unsigned words of a vector of columns, `ahead` of the current ones.
    fn load_words(&self, asm: &mut Asm, vector: u8, ahead: u8, to: Vreg) {
        let at = self.panels().words(asm, vector, ahead);
        asm.vxor(to, self.flip(), at);
        self.ahead.prefetch(asm, at, if self.rows == 1 { self.streams } else { STREAMS as u8 });
    }

    /// Code number `part` of each byte, or of each 16 bits, of a vector of words, in place or in `to`.
    fn unsigned(&self, asm: &mut Asm, part: u8, words: Vreg, to: Vreg) -> Vreg {
        if self.words_of_bytes().parts() == 1 {
            return words;
        }
        let mut from = words;
        if part > 0 {
            asm.vishr(to, words, part * self.codes.bits() as u8);
            from = to;
        }
        asm.vand(to, from, self.lowest());
        to
    }
}
