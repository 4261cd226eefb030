//! The reduction of a micro-kernel: over taps and over the elements of each, for every row of the table of
//! [`operands`](super::operands). Micro-kernels of floating-point and of integer products start sums before it and
//! apply their epilogue behind it.
//!
//! Sums are registers `[set][row][vector]`, starting with the first register. Registers behind them hold a step's
//! right-hand columns, the broadcast left-hand element and a product.

use super::operands::{Operands, UPPER};
use super::tile_size::MOST_ROWS;
use crate::isa::Isa;
use crate::jit::{Asm, Cond, Gpr, Label, Mem, Src, Vreg};

/// Steps of the reduction in one iteration of the unrolled loop.
pub(crate) const UNROLL: usize = 4;

/// The fewest tiles over which the prefetch of the next panel is spread: each tile prefetches at most half the bytes
/// that it reads.
pub(crate) const PREFETCH_TILES: usize = 2;

/// Left-hand row pointers.
pub(crate) const ROWS: [Gpr; MOST_ROWS] =
    [Gpr::RAX, Gpr::RCX, Gpr::RDX, Gpr::RBX, Gpr::RSI, Gpr::R8, Gpr::R9, Gpr::R10];
/// Right-hand side.
pub(crate) const B: Gpr = Gpr::R11;
/// Byte offset in the left-hand rows.
pub(crate) const AT: Gpr = Gpr::R12;
/// Byte offset at which the loop over groups, pairs or single steps ends.
pub(crate) const END: Gpr = Gpr::R13;
/// The row pointers of the next tap in the indirection table, or the stride of taps.
pub(crate) const TABLE: Gpr = Gpr::R14;
/// Taps left.
pub(crate) const TAPS: Gpr = Gpr::R15;
/// Stride of left-hand rows while their pointers are computed, then stride of right-hand rows.
const STRIDE: Gpr = Gpr::RBP;
/// Address to prefetch from, where right-hand rows are packed.
const NEXT: Gpr = STRIDE;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Where the kernel's argument struct has the arguments that every reduction reads.
#[derive(Clone, Copy)]
pub(crate) struct Fields {
    /// The first left-hand row, and the stride of rows.
    pub(crate) a: Mem,
    pub(crate) lda: Mem,
    /// Pointers `[tap][row]`, and the number of taps.
    pub(crate) table: Mem,
    pub(crate) taps: Mem,
    /// Byte offsets in left-hand rows: of the first step, of the end of whole groups of [`UNROLL`] steps, of the end.
    pub(crate) first: Mem,
    pub(crate) unrolled: Mem,
    pub(crate) end: Mem,
    /// The right-hand side.
    pub(crate) b: Mem,
}

/// The [`Fields`] of an argument struct whose fields have these names.
macro_rules! fields {
    ($args:ident) => {
        $crate::cpu::gemm::reduction::Fields {
            a: $crate::jit::arg!($args.a),
            lda: $crate::jit::arg!($args.lda),
            table: $crate::jit::arg!($args.table),
            taps: $crate::jit::arg!($args.taps),
            first: $crate::jit::arg!($args.first),
            unrolled: $crate::jit::arg!($args.unrolled),
            end: $crate::jit::arg!($args.end),
            b: $crate::jit::arg!($args.b),
        }
    };
}
pub(crate) use fields;

/// Where the arguments have the prefetch of the loop over groups: its address, which the loop advances past the
/// prefetched bytes, and the bytes of each step.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch {
    pub(crate) from: Mem,
    pub(crate) step: Mem,
}

/// The reduction of tiles of one height.
pub(crate) struct Reduction {
    pub(crate) operands: Operands,
    pub(crate) rows: usize,
    pub(crate) vectors: usize,
    /// Sets of sums, one for each step in turn.
    pub(crate) sets: usize,
    pub(crate) fields: Fields,
    /// Stride of right-hand rows, where they are not packed.
    pub(crate) ldb: Option<Mem>,
    /// Byte offset at which whole pairs of steps end, where a word holds two.
    pub(crate) paired: Option<Mem>,
    /// The prefetch, if there is one.
    pub(crate) prefetch: Option<Prefetch>,
    /// Whether right-hand vectors are memory operands of the multiply-add: vectors of a single row are used once, and
    /// need no registers of their own.
    pub(crate) from_memory: bool,
    /// The register that holds [`UPPER`], where one is free.
    pub(crate) upper: Option<Vreg>,
}

impl Reduction {
    /// The register of a sum.
    pub(crate) fn sum(&self, set: usize, row: usize, vector: usize) -> Vreg {
        Vreg(((set * self.rows + row) * self.vectors + vector) as u8)
    }

    /// The registers of the sums of a set.
    pub(crate) fn sums(&self, set: usize) -> impl Iterator<Item = Vreg> + use<> {
        let count = self.rows * self.vectors;
        (set * count..(set + 1) * count).map(|index| Vreg(index as u8))
    }

    /// A register behind the sums of all sets.
    pub(crate) fn free(&self, index: usize) -> Vreg {
        Vreg((self.sets * self.rows * self.vectors + index) as u8)
    }

    /// The start: the right-hand side's address, and masks.
    pub(crate) fn begin(&self, asm: &mut Asm) {
        asm.load(B, self.fields.b);
        if let Some(upper) = self.upper {
            asm.vload(upper, UPPER);
        }
    }

    /// Computes pointers to left-hand rows at a constant stride.
    pub(crate) fn strided_rows(&self, asm: &mut Asm) {
        asm.load(ROWS[0], self.fields.a);
        asm.load(STRIDE, self.fields.lda);
        for row in 1..self.rows {
            asm.lea(ROWS[row], Mem::indexed(ROWS[row - 1], STRIDE, 1, 0));
        }
    }

    /// The reduction through an indirection table, whose register then points at the next tile's part.
    pub(crate) fn through_table(&self, asm: &mut Asm) {
        asm.load(TABLE, self.fields.table);
        asm.load(TAPS, self.fields.taps);
        asm.unless_zero(TAPS, |asm| {
            asm.repeat(TAPS, |asm| {
                for (row, &pointer) in ROWS[..self.rows].iter().enumerate() {
                    asm.load(pointer, Mem::at(TABLE, row as i32 * 8));
                }
                asm.add_imm(TABLE, self.rows as i32 * 8);
                self.steps(asm);
            });
        });
    }

    /// The reduction over taps that are `stride` apart in strided rows.
    pub(crate) fn through_lines(&self, asm: &mut Asm, stride: Mem) {
        self.strided_rows(asm);
        asm.load(TABLE, stride);
        asm.load(TAPS, self.fields.taps);
        asm.unless_zero(TAPS, |asm| {
            asm.repeat(TAPS, |asm| {
                self.steps(asm);
                ROWS[..self.rows].iter().for_each(|&pointer| asm.add(pointer, TABLE));
            });
        });
    }

    /// The reduction over one tap's steps, whole groups first.
    pub(crate) fn steps(&self, asm: &mut Asm) {
        let (group, rest) = (asm.label(), asm.label());
        if let Some(ldb) = self.ldb {
            asm.load(STRIDE, ldb);
        }
        asm.load(AT, self.fields.first);
        asm.load(END, self.fields.unrolled);
        asm.cmp(AT, END);
        asm.jump_if(Cond::GreaterEqual, rest);
        if let Some(prefetch) = &self.prefetch {
            self.prefetching(asm, prefetch, group, rest);
        }
        // A loop aligned to a cache line is decoded and predicted from the fewest lines.
        asm.align(32);
        asm.bind(group);
        for step in 0..UNROLL {
            self.step(asm, step, step % self.sets);
        }
        self.forward(asm, UNROLL);
        asm.cmp(AT, END);
        asm.jump_if(Cond::Less, group);
        asm.bind(rest);
        if let Some(paired) = self.paired {
            asm.load(END, paired);
            asm.while_less(AT, END, 1, |asm| {
                self.step(asm, 0, 0);
                self.step(asm, 1, 1 % self.sets);
                self.forward(asm, 2);
            });
        }
        // Single steps; for a last bf16 pair, its first element.
        asm.load(END, self.fields.end);
        asm.while_less(AT, END, 1, |asm| {
            self.step(asm, 0, 0);
            self.forward(asm, 1);
        });
    }

    /// The loop over groups that also prefetches; jumps to `plain` if there is nothing to prefetch.
    fn prefetching(&self, asm: &mut Asm, prefetch: &Prefetch, plain: Label, rest: Label) {
        let next = asm.label();
        asm.load(NEXT, prefetch.from);
        asm.test(NEXT);
        asm.jump_if(Cond::Equal, plain);
        asm.align(32);
        asm.bind(next);
        let most = self.bytes_of(asm, UNROLL) / (PREFETCH_TILES * UNROLL) as i32;
        for step in 0..UNROLL {
            for line in (0..most).step_by(LINE) {
                let at = Mem::at(NEXT, line);
                // Into L2: a panel is larger than L1, which holds the operands in use.
                match asm.isa() {
                    Isa::Avx512 => asm.prefetch_l2(at),
                    Isa::Portable | Isa::Avx2 => asm.prefetch(at),
                }
            }
            asm.add_mem(NEXT, prefetch.step);
            self.step(asm, step, step % self.sets);
        }
        self.forward(asm, UNROLL);
        asm.cmp(AT, END);
        asm.jump_if(Cond::Less, next);
        asm.store(prefetch.from, NEXT);
        asm.jump(rest);
    }

    /// Bytes of a vector of columns in a packed panel.
    fn vector_bytes(&self, asm: &Asm) -> i32 {
        (self.operands.column_bytes(1) * asm.lanes()) as i32
    }

    /// Bytes of a packed panel over `steps` steps.
    fn bytes_of(&self, asm: &Asm, steps: usize) -> i32 {
        (self.operands.column_bytes(steps) * asm.lanes() * self.vectors) as i32
    }

    /// Advances by `steps` steps. Right-hand rows at a stride have been advanced one by one already.
    fn forward(&self, asm: &mut Asm, steps: usize) {
        asm.add_imm(AT, steps as i32 * 4);
        if self.ldb.is_none() {
            let bytes = self.bytes_of(asm, steps);
            asm.add_imm(B, bytes);
        }
    }

    /// Multiplies step `step` from the current one into set `set`. The second step of a word follows the first.
    fn step(&self, asm: &mut Asm, step: usize, set: usize) {
        let (operands, bytes) = (&self.operands, self.vector_bytes(asm));
        let base = if self.ldb.is_some() { 0 } else { self.bytes_of(asm, step + 1) - self.bytes_of(asm, 1) };
        let right = |vector: usize| Mem::at(B, base + vector as i32 * bytes);
        let left = |row: usize| Mem::indexed(ROWS[row], AT, 1, step as i32 * 4);
        if self.from_memory {
            let (element, scratch) = (self.free(0), self.free(1));
            asm.vbroadcast(element, left(0));
            for vector in 0..self.vectors {
                let columns = match operands.is_plain() {
                    true => Src::Mem(right(vector)),
                    false => {
                        operands.load(asm, step, scratch, right(vector), self.upper);
                        Src::Reg(scratch)
                    }
                };
                operands.multiply(asm, self.sum(set, 0, vector), element, columns, scratch);
            }
        } else {
            for vector in 0..self.vectors {
                operands.load(asm, step, self.free(vector), right(vector), self.upper);
            }
            let (element, product) = (self.free(self.vectors), self.free(self.vectors + 1));
            for row in 0..self.rows {
                asm.vbroadcast(element, left(row));
                for vector in 0..self.vectors {
                    operands.multiply(asm, self.sum(set, row, vector), element, self.free(vector).into(), product);
                }
            }
        }
        if self.ldb.is_some() {
            asm.add(B, STRIDE);
        }
    }
}
