//! Assembles the quantised micro-kernel.
//!
//! One code holds a variant for every number of rows. A variant starts its sums from each column's start value, runs
//! over taps and groups ([`reduction`](crate::cpu::gemm::reduction)), and applies the epilogue, all in registers.
//! Variants share the code that moves to the next tile.

use super::epilogue::{Packed, Rounding};
use super::tile::{FAMILY, Form, LeftRows, QuantizedArgs, QuantizedCode, most_rows};
use crate::cpu::epilogue::{self, Column, Operand, Stage};
use crate::cpu::gemm::reduction::{AT, B, Fields, ROWS, Reduction, TABLE, TAPS, fields};
use crate::error::{KernelError, Result};
use crate::jit::{Asm, Cond, Gpr, JoinedRow, Label, Mem, Vreg, arg};
use crate::problem::quantized::Output;

// Outside the reduction the row pointers' registers are free.
const T0: Gpr = Gpr::RAX;
const C: Gpr = Gpr::RDX;
const LDC: Gpr = Gpr::RBX;
const SCALE: Gpr = Gpr::RSI;
const SHIFT: Gpr = Gpr::R8;

/// The arguments that the reduction reads.
const FIELDS: Fields = fields!(QuantizedArgs);

impl QuantizedCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        let on_vectors = !self.form.is_in_steps() && self.form.usable(self.isa);
        if most_rows(self.isa, usize::from(self.vectors)) == 0 || !on_vectors {
            let reason = format!("{:?} in tiles of {} vectors at {}", self.form, self.vectors, self.isa);
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        tile(asm, self);
        Ok(())
    }
}

/// Assembles the micro-kernel of `key`, whose width [`most_rows`] knows.
fn tile(asm: &mut Asm, key: &QuantizedCode) {
    let tallest = most_rows(key.isa, usize::from(key.vectors));
    let (again, next, done) = (asm.label(), asm.label(), asm.label());
    let variants: Vec<(usize, Label)> = (1..=tallest).rev().map(|rows| (rows, asm.label())).collect();
    asm.prologue();
    asm.bind(again);
    asm.load(T0, arg!(QuantizedArgs.rows));
    for &(rows, label) in &variants {
        asm.cmp_imm(T0, rows as i32);
        asm.jump_if(Cond::Equal, label);
    }
    asm.jump(done);
    for &(rows, label) in &variants {
        asm.align(16);
        asm.bind(label);
        Variant::new(key, rows).emit(asm);
        asm.jump(next);
    }
    asm.bind(next);
    match key.left {
        LeftRows::Strided | LeftRows::Own => {
            asm.load(T0, arg!(QuantizedArgs.a));
            asm.add_mem(T0, arg!(QuantizedArgs.a_tile_stride));
            asm.store(arg!(QuantizedArgs.a), T0);
        }
        // The register already points at the next tile's part.
        LeftRows::Table => asm.store(arg!(QuantizedArgs.table), TABLE),
    }
    asm.load(T0, arg!(QuantizedArgs.c));
    asm.add_mem(T0, arg!(QuantizedArgs.c_tile_stride));
    asm.store(arg!(QuantizedArgs.c), T0);
    asm.load(T0, arg!(QuantizedArgs.tiles));
    asm.sub_imm(T0, 1);
    asm.store(arg!(QuantizedArgs.tiles), T0);
    asm.cmp_imm(T0, 0);
    asm.jump_if(Cond::Greater, again);
    asm.bind(done);
    asm.epilogue();
}

/// The code for one number of rows.
struct Variant<'a> {
    key: &'a QuantizedCode,
    reduction: Reduction,
}

impl<'a> Variant<'a> {
    fn new(key: &'a QuantizedCode, rows: usize) -> Variant<'a> {
        let reduction = Reduction {
            operands: key.form.operands(),
            rows,
            vectors: usize::from(key.vectors),
            sets: 1,
            fields: FIELDS,
            ldb: None,
            paired: None,
            prefetch: None,
            from_memory: false,
            upper: None,
        };
        Variant { key, reduction }
    }

    fn sum(&self, row: usize, vector: usize) -> Vreg {
        self.reduction.sum(0, row, vector)
    }

    /// A register behind the sums.
    fn free(&self, index: usize) -> Vreg {
        self.reduction.free(index)
    }

    fn emit(&self, asm: &mut Asm) {
        asm.load(C, arg!(QuantizedArgs.start));
        let bytes = asm.vector_bytes();
        for vector in 0..self.reduction.vectors {
            asm.vload(self.sum(0, vector), Mem::at(C, vector as i32 * bytes));
            for row in 1..self.reduction.rows {
                asm.vmov(self.sum(row, vector), self.sum(0, vector));
            }
        }
        self.reduction.begin(asm);
        match self.key.left {
            LeftRows::Strided => {
                self.reduction.strided_rows(asm);
                self.reduction.steps(asm);
            }
            LeftRows::Own => {
                self.reduction.strided_rows(asm);
                self.own(asm);
            }
            LeftRows::Table => self.reduction.through_table(asm),
        }
        self.epilogue(asm);
    }

    /// The reduction over the taps of columns that have elements of their own.
    fn own(&self, asm: &mut Asm) {
        asm.load(TABLE, arg!(QuantizedArgs.table));
        asm.load(TAPS, arg!(QuantizedArgs.taps));
        asm.unless_zero(TAPS, |asm| {
            asm.align(32);
            asm.repeat(TAPS, |asm| self.own_tap(asm));
        });
    }

    /// One tap of such columns.
    fn own_tap(&self, asm: &mut Asm) {
        let (bytes, vectors) = (asm.vector_bytes(), self.reduction.vectors);
        asm.load(AT, Mem::at(TABLE, 0));
        for vector in 0..vectors {
            asm.vload(self.free(vector), Mem::at(B, vector as i32 * bytes));
        }
        let product = self.free(vectors);
        for (row, &pointer) in ROWS[..self.reduction.rows].iter().enumerate() {
            for vector in 0..vectors {
                let left = Mem::indexed(AT, pointer, 1, vector as i32 * bytes);
                let (sum, right) = (self.sum(row, vector), self.free(vector));
                if self.key.form == Form::Bytes {
                    asm.vload(product, left);
                    asm.vdot_bytes(sum, product, right);
                } else {
                    asm.vmul_pairs(product, right, left);
                    asm.viadd(sum, sum, product);
                }
            }
        }
        asm.add_imm(TABLE, 8);
        asm.add_imm(B, vectors as i32 * bytes);
    }

    /// Registers of the bounds and the zero point.
    fn rounding(&self) -> Rounding {
        let [low, high, zero] = [0, 1, 2].map(|index| self.free(index));
        Rounding { low, high, zero }
    }

    /// The stages of each vector of sums.
    fn stages(&self) -> Vec<Stage<'static>> {
        let [factors, addends] = [SCALE, SHIFT].map(|list| Operand::Memory(Mem::at(list, 0)));
        self.key.output.stages(self.key.isa, factors, addends, self.rounding())
    }

    /// The epilogue and the stores.
    fn epilogue(&self, asm: &mut Asm) {
        let Rounding { low, high, zero } = self.rounding();
        let stages = self.stages();
        if self.key.output != Output::Sums {
            asm.load(SCALE, arg!(QuantizedArgs.scale));
            asm.load(SHIFT, arg!(QuantizedArgs.shift));
            asm.vbroadcast(low, arg!(QuantizedArgs.low));
            asm.vbroadcast(high, arg!(QuantizedArgs.high));
        }
        if self.key.output.bytes() == 1 {
            asm.vbroadcast(zero, arg!(QuantizedArgs.zero));
        }
        asm.load(C, arg!(QuantizedArgs.c));
        asm.load(LDC, arg!(QuantizedArgs.ldc));
        let Reduction { rows: all, vectors, .. } = self.reduction;
        if self.key.output.is_packed(self.key.isa) {
            return self.packed(asm, &stages);
        }
        // Two vectors of eight lanes, twice, fill a register with bytes.
        let joined = asm.lanes() == 8 && vectors == 2 && self.key.output.bytes() == 1;
        let together = if joined { 2 } else { 1 };
        for first in (0..all).step_by(together) {
            let rows = first..all.min(first + together);
            for row in rows.clone() {
                for vector in 0..vectors {
                    epilogue::emit(asm, &stages, self.sum(row, vector), Column { vector, mask: None });
                }
            }
            match joined {
                true => self.store_joined(asm, rows.start, rows.len() == 2),
                false => self.store(asm, first),
            }
            if rows.end < all {
                rows.for_each(|_| asm.add(C, LDC));
            }
        }
    }

    /// The epilogue and the stores of bytes, four vectors at a time.
    fn packed(&self, asm: &mut Asm, stages: &[Stage<'_>]) {
        let packed =
            Packed { signed: self.key.output == Output::Signed, zero: self.rounding().zero, order: self.free(3) };
        asm.load(T0, arg!(QuantizedArgs.order));
        asm.vload(packed.order, Mem::at(T0, 0));
        asm.vpack_words(packed.zero, packed.zero, packed.zero);
        let Reduction { rows: all, vectors, .. } = self.reduction;
        let places: Vec<(usize, usize)> =
            (0..all).flat_map(|row| (0..vectors).map(move |vector| (row, vector))).collect();
        let mut stored = 0;
        for four in places.chunks(4) {
            let sums: Vec<Vreg> = four.iter().map(|&(row, vector)| self.sum(row, vector)).collect();
            for (&(_, vector), &sum) in four.iter().zip(&sums) {
                epilogue::emit(asm, stages, sum, Column { vector, mask: None });
            }
            packed.emit(asm, &sums);
            for (&(row, vector), group) in four.iter().zip(0..) {
                if row > stored {
                    asm.add(C, LDC);
                    stored = row;
                }
                match (vectors, group) {
                    (4, 0) => asm.vstore(Mem::at(C, 0), sums[0]),
                    (4, _) => {}
                    _ => asm.vstore_group(Mem::at(C, vector as i32 * 16), sums[0], group),
                }
            }
        }
    }

    /// Stores one row vector by vector.
    fn store(&self, asm: &mut Asm, row: usize) {
        let (output, bytes) = (self.key.output, asm.lanes() * self.key.output.bytes());
        for vector in 0..self.reduction.vectors {
            output.store(asm, Mem::at(C, (vector * bytes) as i32), None, self.sum(row, vector), self.free(3));
        }
    }

    /// Stores one or two rows of bytes of two vectors each.
    fn store_joined(&self, asm: &mut Asm, row: usize, two: bool) {
        let row_at = |to: Mem, row: usize| JoinedRow { to, lanes: [self.sum(row, 0), self.sum(row, 1)] };
        let first = row_at(Mem::at(C, 0), row);
        let second = two.then(|| row_at(Mem::indexed(C, LDC, 1, 0), row + 1));
        asm.vstore_u8_joined(first, second, self.free(3));
    }
}
