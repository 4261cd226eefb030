//! The product of one row: as fast as memory gives the right-hand side.
//!
//! A tile reads one panel front to back, and with one row nothing is read twice: the time is that of the reads. A core
//! that reads a single stream waits, because its prefetchers look only a limited way ahead in each stream. On Zen 3
//! with weights in huge pages, one stream is read at 21 GB/s, two at 20, four at 25, eight at 25. So this kernel reads
//! [`STREAMS`] panels side by side, each from a part of the matrix of its own
//! ([`Pieces`](crate::parallel::Pieces)). The micro-kernel computes the remaining panels.
//!
//! Hardware prefetchers also stop at the end of a 4 KiB page, whatever the system's pages are. So the kernel prefetches
//! lines [`AHEAD`] of its reads, at the level where that was measured: with AVX-512 a loop over 132 MiB took 6.0 to 6.4
//! ms instead of 7.5 to 7.9. At times when the machine's memory was slower, it took no less.
//!
//! It knows nothing of threads and batches: see [`matmul`](super::matmul).

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::operands::UPPER;
use super::panels::Panels;
use super::reduction::UNROLL;
use super::tile::{RightColumns, TileArgs};
use super::tile_size::MOST_VECTORS;
use crate::cpu::activation::{self, Place};
use crate::cpu::chain::UnaryOp;
use crate::cpu::epilogue::{Column, Operand, Stage};
use crate::cpu::{CodeKey, CodeSource, Emitted};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Given, Gpr, Mem, Vreg, arg};
use crate::parallel::Piece;

/// Panels that are read side by side. More are not faster, and fill the registers.
pub(super) const STREAMS: usize = 4;

/// Bytes from a read to its prefetch: from 1 to 4 KiB do as well.
const AHEAD: i32 = 2048;

/// The name of the code.
pub(crate) const FAMILY: &str = "row";

/// What shapes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct RowCode {
    /// Level.
    pub isa: Isa,
    /// Vectors that a panel is wide.
    pub vectors: u8,
    /// The elements of panels: `f32`, bf16 pairs that are widened, or `f16`.
    pub right: RightColumns,
    /// Applied before the last store.
    pub activation: Option<UnaryOp>,
}

/// The arguments of one call. Strides are in bytes.
#[repr(C)]
struct RowArgs {
    left: *const f32,
    /// The first of the panels.
    panels: *const f32,
    /// From one panel to the next.
    panel_stride: usize,
    /// Byte offsets in the left-hand row: ends of the last whole group of [`UNROLL`], of the last pair, and of the row.
    unrolled: usize,
    paired: usize,
    end: usize,
    c: *mut f32,
    /// The bias, or null.
    bias: *const f32,
    /// From the columns of a panel to those of the next, in C, bias and residual.
    column_stride: usize,
    /// Not 0 if sums are multiplied by `scale`.
    scaled: usize,
    scale: f32,
    /// Not 0 if a residual is added before the activation, and the byte offset from C to it.
    residual: usize,
    residual_offset: isize,
}

impl Arguments for RowArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = RowCode;

    fn extents(&self, key: &RowCode, extents: &mut Extents<'_>) {
        let columns = usize::from(key.vectors) * key.isa.lanes();
        let paired = if key.pairs() { self.paired } else { 0 };
        let end = self.unrolled.max(paired).max(self.end);
        extents.read("the left-hand row", self.left).bytes(end);
        let panel = key.right.operands().column_bytes(end.div_ceil(4)) * columns;
        extents.read("panels", self.panels).over(STREAMS, self.panel_stride).bytes(panel);
        let row = columns * 4;
        extents.write("C", self.c).over(STREAMS, self.column_stride).bytes(row);
        if !self.bias.is_null() {
            extents.read("bias", self.bias).over(STREAMS, self.column_stride).bytes(row);
        }
        if self.residual != 0 {
            let residual = extents.read("residual", self.c).from(self.residual_offset);
            residual.over(STREAMS, self.column_stride).bytes(row);
        }
    }
}

/// The kernel of one row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    kernel: Emitted<RowCode>,
    panels: Panels,
}

impl Row {
    /// The kernel for panels of a matrix, `key.vectors` wide.
    pub(super) fn new(key: RowCode, panels: Panels, source: &dyn CodeSource) -> Result<Row> {
        Ok(Row { kernel: Emitted::new(key, CodeKey::Row, source)?, panels })
    }

    /// Whether the kernel computes a piece: [`STREAMS`] panels without padding.
    pub(super) fn takes(&self, panels: Piece) -> bool {
        panels.count == STREAMS && panels.units().all(|panel| panel < self.panels.columns / self.panels.width)
    }

    /// Computes the columns of a piece that the kernel [takes](Row::takes). `args` holds the arguments that do not
    /// depend on the panel; `left` and `c` are the whole rows, `right` is the first panel of the matrix.
    ///
    /// # Safety
    ///
    /// `given` holds the left-hand row over the reduction, the panels, bias, residual and C. No other task touches
    /// those columns of C.
    #[allow(clippy::too_many_arguments, reason = "both sides of a product, and where it goes")]
    pub(super) unsafe fn run(
        &self,
        args: &TileArgs,
        left: *const f32,
        right: *const f32,
        bias: *const f32,
        c: *mut f32,
        panels: Piece,
        given: &Given,
    ) {
        let column = panels.first * self.panels.width;
        let args = RowArgs {
            left,
            panels: right.wrapping_add(panels.first * self.panels.panel_len()),
            panel_stride: panels.stride * self.panels.panel_len() * 4,
            unrolled: args.unrolled,
            paired: args.paired,
            end: args.end,
            c: c.wrapping_add(column),
            bias: if bias.is_null() { bias } else { bias.wrapping_add(column) },
            column_stride: panels.stride * self.panels.width * 4,
            scaled: usize::from(args.scale != 1.0),
            scale: args.scale,
            residual: args.residual,
            residual_offset: args.residual_offset,
        };
        // SAFETY: the caller's contract; the struct is the one that the emitter reads.
        unsafe { self.kernel.call(&args, given) };
    }
}

const LEFT: Gpr = Gpr::RSI;
/// Byte offset in the left-hand row, and its end.
const AT: Gpr = Gpr::RAX;
const END: Gpr = Gpr::RCX;
/// The first panel's current row, and the offsets from it to the second and fourth panel's. Before and after the
/// reduction, these are the offsets of their columns in C.
const FIRST: Gpr = Gpr::RDX;
const STRIDE: Gpr = Gpr::R8;
const THREE_STRIDES: Gpr = Gpr::R9;
const C: Gpr = Gpr::R10;
const OTHER: Gpr = Gpr::R11;
impl RowCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        let vectors = usize::from(self.vectors);
        // Besides the sums: two elements of the row, a word and its lower half.
        if vectors == 0 || vectors > MOST_VECTORS || STREAMS * vectors + 4 > usize::from(asm.registers()) {
            let reason = format!("{STREAMS} panels of {vectors} vectors do not fit the registers of {}", self.isa);
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        if !matches!(self.right, RightColumns::Packed | RightColumns::Pairs | RightColumns::Halves) {
            let reason = format!("a row by {:?}", self.right);
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        activation::check(FAMILY, self.activation)?;
        asm.prologue();
        self.start(asm);
        self.reduce(asm);
        self.epilogue(asm);
        asm.epilogue();
        Ok(())
    }

    /// Whether panels hold bf16 pairs.
    fn pairs(&self) -> bool {
        self.right == RightColumns::Pairs
    }

    fn sums(&self) -> u8 {
        STREAMS as u8 * self.vectors
    }

    /// The address `at` bytes from `base` in a panel, or in its columns.
    fn stream(stream: u8, base: Gpr, at: i32) -> Mem {
        match stream {
            0 => Mem::at(base, at),
            3 => Mem::indexed(base, THREE_STRIDES, 1, at),
            _ => Mem::indexed(base, STRIDE, stream, at),
        }
    }

    /// Loads the bytes from a panel, or its columns, to the next.
    fn load_strides(asm: &mut Asm, stride: Mem) {
        asm.load(STRIDE, stride);
        asm.lea(THREE_STRIDES, Mem::indexed(STRIDE, STRIDE, 2, 0));
    }

    /// Address of a sum's vector in C, bias or residual.
    fn vector(&self, asm: &Asm, base: Gpr, sum: u8) -> Mem {
        RowCode::stream(sum / self.vectors, base, i32::from(sum % self.vectors) * asm.vector_bytes())
    }

    /// Sums from bias or zero.
    fn start(&self, asm: &mut Asm) {
        RowCode::load_strides(asm, arg!(RowArgs.column_stride));
        asm.load(OTHER, arg!(RowArgs.bias));
        asm.unless_zero_else(
            OTHER,
            |asm| {
                for sum in 0..self.sums() {
                    let at = self.vector(asm, OTHER, sum);
                    asm.vload(Vreg(sum), at);
                }
            },
            |asm| (0..self.sums()).for_each(|sum| asm.vzero(Vreg(sum))),
        );
    }

    /// The reduction: groups of [`UNROLL`] elements, then whole bf16 pairs, then single elements.
    fn reduce(&self, asm: &mut Asm) {
        asm.load(LEFT, arg!(RowArgs.left));
        asm.load(FIRST, arg!(RowArgs.panels));
        RowCode::load_strides(asm, arg!(RowArgs.panel_stride));
        asm.mov_imm(AT, 0);
        let steps = [(arg!(RowArgs.unrolled), UNROLL), (arg!(RowArgs.paired), 2), (arg!(RowArgs.end), 1)];
        for (end, elements) in steps.into_iter().filter(|&(_, elements)| elements != 2 || self.pairs()) {
            asm.load(END, end);
            asm.while_less(AT, END, 32, |asm| self.elements(asm, elements));
        }
    }

    /// The reduction over `elements` elements, and the move to those behind them.
    fn elements(&self, asm: &mut Asm, elements: usize) {
        let rows = if self.pairs() { elements.div_ceil(2) } else { elements };
        for row in 0..rows {
            match self.pairs() {
                true => self.pair(asm, row as i32, elements.min(2)),
                false => self.element(asm, row as i32),
            }
            if elements == UNROLL && self.isa == Isa::Avx512 {
                self.prefetch(asm, row as i32);
            }
        }
        asm.add_imm(AT, elements as i32 * 4);
        let bytes = i32::from(self.vectors) * self.right_bytes(asm);
        asm.add_imm(FIRST, rows as i32 * bytes);
    }

    /// Bytes of a panel that a vector is loaded from.
    fn right_bytes(&self, asm: &Asm) -> i32 {
        (self.right.operands().column_bytes(1) * asm.lanes()) as i32
    }

    /// Address of the vector for a sum in row `row` of its panel.
    fn column(&self, asm: &Asm, row: i32, sum: u8) -> Mem {
        let (stream, vector) = (sum / self.vectors, sum % self.vectors);
        let at = (row * i32::from(self.vectors) + i32::from(vector)) * self.right_bytes(asm);
        RowCode::stream(stream, FIRST, at)
    }

    /// Prefetches the lines [`AHEAD`] of row `row` of each panel: a vector is one line; of `f16`, half a line.
    fn prefetch(&self, asm: &mut Asm, row: i32) {
        const LINE: i32 = 64;
        for sum in 0..self.sums() {
            let at = self.column(asm, row, sum);
            if at.disp % LINE == 0 {
                asm.prefetch(at.plus(AHEAD));
            }
        }
    }

    /// Multiplies one element of the left-hand row with a row of the panels.
    fn element(&self, asm: &mut Asm, row: i32) {
        let (element, widened) = (Vreg(self.sums()), Vreg(self.sums() + 1));
        asm.vbroadcast(element, Mem::indexed(LEFT, AT, 1, row * 4));
        for sum in 0..self.sums() {
            let at = self.column(asm, row, sum);
            if self.right == RightColumns::Halves {
                asm.vload_f16(widened, at);
                asm.vfma231(Vreg(sum), element, widened);
            } else {
                asm.vfma231(Vreg(sum), element, at);
            }
        }
    }

    /// Multiplies two elements of the left-hand row, or a last odd one, with a row of bf16 pairs.
    fn pair(&self, asm: &mut Asm, row: i32, elements: usize) {
        let [even, odd, word, half] = [0, 1, 2, 3].map(|index| Vreg(self.sums() + index));
        asm.vbroadcast(even, Mem::indexed(LEFT, AT, 1, row * 8));
        if elements == 2 {
            asm.vbroadcast(odd, Mem::indexed(LEFT, AT, 1, row * 8 + 4));
        }
        for sum in 0..self.sums() {
            let at = self.column(asm, row, sum);
            asm.vload(word, at);
            asm.vishl(half, word, 16);
            asm.vfma231(Vreg(sum), even, half);
            if elements == 2 {
                asm.vand(word, word, UPPER);
                asm.vfma231(Vreg(sum), odd, word);
            }
        }
    }

    /// The epilogue: scale, residual, activation, store.
    fn epilogue(&self, asm: &mut Asm) {
        asm.load(OTHER, arg!(RowArgs.scaled));
        asm.unless_zero(OTHER, |asm| {
            let scale = Vreg(self.sums());
            asm.vbroadcast(scale, arg!(RowArgs.scale));
            Stage::Scale(Operand::Register(scale)).emit_all(asm, (0..self.sums()).map(Vreg));
        });
        asm.load(C, arg!(RowArgs.c));
        RowCode::load_strides(asm, arg!(RowArgs.column_stride));
        asm.load(OTHER, arg!(RowArgs.residual));
        asm.unless_zero(OTHER, |asm| {
            asm.load(OTHER, arg!(RowArgs.residual_offset));
            asm.add(OTHER, C);
            for sum in 0..self.sums() {
                let residual = Stage::Add(Operand::Memory(RowCode::stream(sum / self.vectors, OTHER, 0)));
                let vector = (sum % self.vectors).into();
                residual.emit(asm, Vreg(sum), Column { vector, mask: None });
            }
        });
        let temps = |first: u8, asm: &Asm| (first..asm.registers()).map(Vreg).collect::<Vec<_>>();
        let free = usize::from(asm.registers() - self.sums());
        let place = self.activation.map(|op| (op, activation::place(op, free)));
        if let Some((op, Place::Registers)) = place {
            let temps = temps(self.sums(), asm);
            Stage::Activate(op, &temps).emit_all(asm, (0..self.sums()).map(Vreg));
        }
        for sum in 0..self.sums() {
            let at = self.vector(asm, C, sum);
            asm.vstore(at, Vreg(sum));
        }
        if let Some((op, Place::Memory)) = place {
            let temps = temps(1, asm);
            asm.mov_imm(END, STREAMS as i64);
            asm.repeat(END, |asm| {
                for vector in 0..i32::from(self.vectors) {
                    let at = Mem::at(C, vector * asm.vector_bytes());
                    asm.vload(Vreg(0), at);
                    Stage::Activate(op, &temps).emit_all(asm, [Vreg(0)]);
                    asm.vstore(at, Vreg(0));
                }
                asm.add(C, STRIDE);
            });
        }
    }
}
