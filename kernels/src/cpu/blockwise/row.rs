//! The product of one row: codes become numbers in registers, as fast as memory gives them.
//!
//! Several panels are read side by side, as in the product of one row by weights of `f32` ([`gemm`](crate::cpu::gemm)).
//! Each block's terms are added up in registers of their own. At its end, the zero points times the sum of the block's
//! left-hand elements are taken off, and the rest, times the scales, is added to the sums of the row.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::FAMILY;
use super::decoder::Decoder;
use super::layout::BlockPanels;
use super::streams::{Ahead, STREAMS, StreamKernels, Streams, WORDS};
use crate::cpu::{CodeKey, CodeSource, Emitted};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Given, Gpr, Mem, Src, Vreg, arg};
use crate::parallel::Piece;
use crate::problem::blockwise::{BlockFormat, Codes, ENTRIES, ZeroPoints};

/// What shapes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct BlockRowCode {
    /// Level.
    pub isa: Isa,
    /// Vectors that a panel is wide.
    pub vectors: u8,
    /// Panels that are read side by side: 1, 2 or 4.
    pub streams: u8,
    /// What codes mean.
    pub codes: Codes,
    /// Where zero points come from.
    pub zeros: ZeroPoints,
    /// How far ahead it prefetches.
    pub ahead: Ahead,
}

/// The arguments of one call.
#[repr(C)]
struct RowArgs {
    /// The left-hand row, padded with zeros to whole words.
    left: *const f32,
    /// The sums of its blocks, where there are zero points.
    sums: *const f32,
    /// The first of the panels, and bytes from one to the next.
    panels: *const u8,
    panel_stride: usize,
    /// Whole blocks, words of a column in each, and in the block behind them.
    blocks: usize,
    words: usize,
    last: usize,
    /// The numbers of codes.
    table: *const f32,
    c: *mut f32,
    /// The bias, or null.
    bias: *const f32,
    /// Bytes from the columns of a panel to those of the next, in C and in the bias.
    column_stride: usize,
}

impl Arguments for RowArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = BlockRowCode;

    fn extents(&self, key: &BlockRowCode, extents: &mut Extents<'_>) {
        let (panels, count) = (key.panels(), usize::from(key.streams));
        let words = self.blocks.saturating_mul(self.words).saturating_add(self.last);
        let heads = self.blocks.saturating_add(usize::from(self.last > 0));
        extents
            .read("the left-hand row", self.left)
            .over(words, key.codes.per_word() * 4)
            .bytes(4 * key.codes.per_word());
        if key.zeros != ZeroPoints::Middle {
            extents.read("the sums of blocks", self.sums).over(heads, 4).bytes(4);
        }
        let panel = panels.panel_bytes(key.isa, words, heads);
        extents.read("panels", self.panels).over(count, self.panel_stride).bytes(panel);
        extents.read("the numbers of codes", self.table).bytes(ENTRIES * 4);
        let columns = panels.width(key.isa) * 4;
        extents.write("C", self.c).over(count, self.column_stride).bytes(columns);
        if !self.bias.is_null() {
            extents.read("bias", self.bias).over(count, self.column_stride).bytes(columns);
        }
    }
}

/// The kernels of one row by the panels of a matrix.
#[derive(Clone, Debug)]
pub(super) struct Row {
    panels: BlockPanels,
    table: [f32; ENTRIES],
    /// As many panels side by side as the level has registers for.
    pub(super) kernels: StreamKernels<BlockRowCode>,
}

/// Operands of a call: a row padded to whole words, sums of its blocks, the first panel, and where its result goes.
#[derive(Clone, Copy)]
pub(super) struct RowOperands {
    pub(super) left: *const f32,
    pub(super) sums: *const f32,
    pub(super) panels: *const u8,
    pub(super) bias: *const f32,
    pub(super) c: *mut f32,
}

impl Row {
    /// The kernels for panels of a matrix, which prefetch as far ahead as is best for a single row.
    pub(super) fn new(isa: Isa, panels: BlockPanels, ahead: Ahead, source: &dyn CodeSource) -> Result<Row> {
        let BlockFormat { codes, zeros, .. } = panels.format;
        let vectors = (panels.width / isa.lanes()) as u8;
        let key = |streams: usize| BlockRowCode { isa, vectors, streams: streams as u8, codes, zeros, ahead };
        let fits = |streams| key(streams).registers() <= usize::from(isa.registers());
        let make = |streams| Emitted::new(key(streams), CodeKey::BlockRow, source);
        let kernels = StreamKernels::new(&panels, STREAMS, fits, make)?;
        Ok(Row { panels, table: codes.table(), kernels })
    }

    /// Operands that are the kernels' own.
    pub(super) fn given(&self, given: Given) -> Given {
        given.read("the numbers of codes", &self.table)
    }

    /// Computes the columns of some panels. The first panel, its bias and its columns of C are those of `operands`.
    ///
    /// # Safety
    ///
    /// `given` holds what [`Row::given`] adds, the row, the sums, the panels, and C and bias, if there is one, over
    /// whole panels. No other task touches those columns of C.
    pub(super) unsafe fn run(&self, operands: RowOperands, panels: Piece, given: &Given) {
        let (words, each) = (self.panels.words(), self.panels.block_words());
        let args = RowArgs {
            left: operands.left,
            sums: operands.sums,
            panels: operands.panels,
            panel_stride: panels.stride * self.panels.panel_bytes(),
            blocks: words / each,
            words: each,
            last: words % each,
            table: self.table.as_ptr(),
            c: operands.c,
            bias: operands.bias,
            column_stride: panels.stride * self.panels.width * 4,
        };
        // SAFETY: the caller's contract; the struct is the one that the emitter reads.
        unsafe { self.kernels.of(panels.count).call(&args, given) }
    }
}

const LEFT: Gpr = Gpr::RSI;
const SUMS: Gpr = Gpr::RCX;
/// Blocks left, and words left of a block.
const BLOCKS: Gpr = Gpr::R10;
const COUNT: Gpr = Gpr::R11;
const OTHER: Gpr = Gpr::RBX;

impl BlockRowCode {
    fn panels(&self) -> Streams {
        Streams { vectors: self.vectors, count: self.streams, zeros: self.zeros }
    }

    /// Vectors of all panels.
    fn vectors(&self) -> u8 {
        self.panels().all()
    }

    /// Registers: for each vector its sum, its sum over the block and its words; an element and a number; tables.
    fn registers(&self) -> usize {
        3 * usize::from(self.vectors()) + 2 + Decoder::registers(self.isa, self.codes)
    }

    fn total(vector: u8) -> Vreg {
        Vreg(vector)
    }

    fn part(&self, vector: u8) -> Vreg {
        Vreg(self.vectors() + vector)
    }

    fn words(&self, vector: u8) -> Vreg {
        Vreg(2 * self.vectors() + vector)
    }

    fn element(&self) -> Vreg {
        Vreg(3 * self.vectors())
    }

    fn number(&self) -> Vreg {
        Vreg(3 * self.vectors() + 1)
    }

    fn decoder(&self) -> Decoder {
        Decoder::new(self.isa, self.codes, Vreg(3 * self.vectors() + 2))
    }

    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        let is_format = self.codes.are_integers() || self.zeros == ZeroPoints::Middle;
        let fits = self.registers() <= usize::from(asm.registers());
        if !is_format || !fits || !self.panels().are_some() {
            return Err(KernelError::Unsupported { family: FAMILY, reason: format!("a kernel of {self:?}") });
        }
        asm.prologue();
        self.start(asm);
        asm.for_each(BLOCKS, 1, |asm| {
            asm.load(COUNT, arg!(RowArgs.words));
            self.block(asm);
        });
        asm.load(COUNT, arg!(RowArgs.last));
        asm.unless_zero(COUNT, |asm| self.block(asm));
        asm.load(OTHER, arg!(RowArgs.c));
        self.panels().load_strides(asm, arg!(RowArgs.column_stride));
        for vector in 0..self.vectors() {
            let at = self.panels().columns(asm, OTHER, vector);
            asm.vstore(at, BlockRowCode::total(vector));
        }
        asm.epilogue();
        Ok(())
    }

    /// Addresses, tables, and sums from bias or zero.
    fn start(&self, asm: &mut Asm) {
        self.decoder().begin(asm, arg!(RowArgs.table), OTHER);
        asm.load(LEFT, arg!(RowArgs.left));
        asm.load(SUMS, arg!(RowArgs.sums));
        asm.load(BLOCKS, arg!(RowArgs.blocks));
        asm.load(OTHER, arg!(RowArgs.bias));
        self.panels().load_strides(asm, arg!(RowArgs.column_stride));
        asm.unless_zero_else(
            OTHER,
            |asm| {
                for vector in 0..self.vectors() {
                    let at = self.panels().columns(asm, OTHER, vector);
                    asm.vload(BlockRowCode::total(vector), at);
                }
            },
            |asm| (0..self.vectors()).for_each(|vector| asm.vzero(BlockRowCode::total(vector))),
        );
        self.panels().begin(asm, arg!(RowArgs.panels), arg!(RowArgs.panel_stride));
    }

    /// A block with as many words as the register counts.
    fn block(&self, asm: &mut Asm) {
        self.panels().begin_block(asm);
        (0..self.vectors()).for_each(|vector| asm.vzero(self.part(vector)));
        asm.align(32);
        asm.repeat(COUNT, |asm| self.word(asm));
        if self.zeros != ZeroPoints::Middle {
            asm.vbroadcast(self.element(), Mem::at(SUMS, 0));
            asm.add_imm(SUMS, 4);
            for vector in 0..self.vectors() {
                self.zero_points(asm, vector);
                asm.vfnma231(self.part(vector), self.number(), self.element());
            }
        }
        for vector in 0..self.vectors() {
            let scales = self.panels().scales(asm, vector);
            asm.vfma231(BlockRowCode::total(vector), self.part(vector), scales);
        }
    }

    /// The zero points of a vector's columns, less the middle, as packed codes are.
    fn zero_points(&self, asm: &mut Asm, vector: u8) {
        let to = self.number();
        self.panels().load_zero_points(asm, vector, to);
        asm.vsub(to, to, Src::from(f32::from(self.codes.middle())));
    }

    /// One word of each column.
    fn word(&self, asm: &mut Asm) {
        let decoder = self.decoder();
        for vector in 0..self.vectors() {
            let at = self.panels().words(asm, vector, 0);
            asm.vload(self.words(vector), at);
            self.ahead.prefetch(asm, at, self.streams);
        }
        for index in 0..self.codes.per_word() {
            asm.vbroadcast(self.element(), Mem::at(LEFT, 4 * index as i32));
            for vector in 0..self.vectors() {
                decoder.number(asm, index, self.words(vector), self.number());
                asm.vfma231(self.part(vector), self.element(), self.number());
            }
        }
        asm.add_imm(LEFT, 4 * self.codes.per_word() as i32);
        asm.add_imm(WORDS, self.panels().word_bytes(asm));
    }
}
