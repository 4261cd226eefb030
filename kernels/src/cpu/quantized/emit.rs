//! Assembles the quantised micro-kernel.
//!
//! One code holds a variant for every number of rows. A variant starts its sums from each column's start value, runs
//! over taps and groups, and applies the epilogue, all in registers. What leads from tile to tile is common.

use std::mem::offset_of;

use super::tile::{Form, LeftRows, Output, QuantizedArgs, QuantizedCode, UNROLL, most_rows};
use crate::cpu::gemm::tile::MOST_ROWS;
use crate::jit::{Asm, Cond, Gpr, JoinedRow, Label, Mem, Vreg};

const ARGS: Gpr = Gpr::RDI;
/// Left-hand row pointers during the reduction.
const ROWS: [Gpr; MOST_ROWS] = [Gpr::RAX, Gpr::RCX, Gpr::RDX, Gpr::RBX, Gpr::RSI, Gpr::R8, Gpr::R9, Gpr::R10];
const B: Gpr = Gpr::R11;
/// Byte offset in the left-hand rows, and its end.
const AT: Gpr = Gpr::R12;
const END: Gpr = Gpr::R13;
/// The next tap's row pointers, and taps left.
const TABLE: Gpr = Gpr::R14;
const TAPS: Gpr = Gpr::R15;
const STRIDE: Gpr = Gpr::RBP;

// Outside the reduction the row pointers' registers are free.
const T0: Gpr = Gpr::RAX;
const C: Gpr = Gpr::RDX;
const LDC: Gpr = Gpr::RBX;
const SCALE: Gpr = Gpr::RSI;
const SHIFT: Gpr = Gpr::R8;

macro_rules! arg {
    ($field:ident) => {
        Mem::at(ARGS, offset_of!(QuantizedArgs, $field) as i32)
    };
}

/// Assembles the micro-kernel of `key`, whose width [`most_rows`] knows.
pub(super) fn tile(asm: &mut Asm, key: &QuantizedCode) {
    let tallest = most_rows(key.isa, usize::from(key.vectors));
    let (again, next, done) = (asm.label(), asm.label(), asm.label());
    let variants: Vec<(usize, Label)> = (1..=tallest).rev().map(|rows| (rows, asm.label())).collect();
    asm.prologue();
    asm.bind(again);
    asm.load(T0, arg!(rows));
    for &(rows, label) in &variants {
        asm.cmp_imm(T0, rows as i32);
        asm.jump_if(Cond::Equal, label);
    }
    asm.jump(done);
    for &(rows, label) in &variants {
        asm.align(16);
        asm.bind(label);
        Variant { asm, key, rows, vectors: usize::from(key.vectors) }.emit();
        asm.jump(next);
    }
    asm.bind(next);
    match key.left {
        LeftRows::Strided | LeftRows::Own => {
            asm.load(T0, arg!(a));
            asm.add_mem(T0, arg!(a_tile_stride));
            asm.store(arg!(a), T0);
        }
        // The register already points at the next tile's part.
        LeftRows::Table => asm.store(arg!(table), TABLE),
    }
    asm.load(T0, arg!(c));
    asm.add_mem(T0, arg!(c_tile_stride));
    asm.store(arg!(c), T0);
    asm.load(T0, arg!(tiles));
    asm.sub_imm(T0, 1);
    asm.store(arg!(tiles), T0);
    asm.cmp_imm(T0, 0);
    asm.jump_if(Cond::Greater, again);
    asm.bind(done);
    asm.epilogue();
}

/// The code for one number of rows.
struct Variant<'a> {
    asm: &'a mut Asm,
    key: &'a QuantizedCode,
    rows: usize,
    vectors: usize,
}

impl Variant<'_> {
    fn sum(&self, row: usize, vector: usize) -> Vreg {
        Vreg((row * self.vectors + vector) as u8)
    }

    /// A register behind the sums.
    fn free(&self, index: usize) -> Vreg {
        Vreg((self.rows * self.vectors + index) as u8)
    }

    fn emit(&mut self) {
        self.asm.load(C, arg!(start));
        let bytes = self.asm.vector_bytes();
        for vector in 0..self.vectors {
            self.asm.vload(self.sum(0, vector), Mem::at(C, vector as i32 * bytes));
            for row in 1..self.rows {
                self.asm.vmov(self.sum(row, vector), self.sum(0, vector));
            }
        }
        self.reduce();
        self.epilogue();
    }

    /// The reduction, over taps and over the groups of each.
    fn reduce(&mut self) {
        self.asm.load(B, arg!(b));
        match self.key.left {
            LeftRows::Strided => {
                self.strided();
                self.groups();
            }
            LeftRows::Own => {
                self.strided();
                self.own();
            }
            LeftRows::Table => {
                let (next, done) = (self.asm.label(), self.asm.label());
                self.asm.load(TABLE, arg!(table));
                self.asm.load(TAPS, arg!(taps));
                self.asm.test(TAPS);
                self.asm.jump_if(Cond::Equal, done);
                self.asm.bind(next);
                for (row, &pointer) in ROWS[..self.rows].iter().enumerate() {
                    self.asm.load(pointer, Mem::at(TABLE, row as i32 * 8));
                }
                self.asm.add_imm(TABLE, self.rows as i32 * 8);
                self.groups();
                self.asm.sub_imm(TAPS, 1);
                self.asm.test(TAPS);
                self.asm.jump_if(Cond::NotEqual, next);
                self.asm.bind(done);
            }
        }
    }

    /// Computes pointers to rows at a constant stride.
    fn strided(&mut self) {
        self.asm.load(ROWS[0], arg!(a));
        self.asm.load(STRIDE, arg!(lda));
        for row in 1..self.rows {
            self.asm.lea(ROWS[row], Mem::indexed(ROWS[row - 1], STRIDE, 1, 0));
        }
    }

    /// The reduction over the taps of columns that have elements of their own.
    fn own(&mut self) {
        let (next, done) = (self.asm.label(), self.asm.label());
        let bytes = self.asm.vector_bytes();
        self.asm.load(TABLE, arg!(table));
        self.asm.load(TAPS, arg!(taps));
        self.asm.test(TAPS);
        self.asm.jump_if(Cond::Equal, done);
        self.asm.align(32);
        self.asm.bind(next);
        self.asm.load(AT, Mem::at(TABLE, 0));
        for vector in 0..self.vectors {
            self.asm.vload(self.free(vector), Mem::at(B, vector as i32 * bytes));
        }
        let product = self.free(self.vectors);
        for (row, &pointer) in ROWS[..self.rows].iter().enumerate() {
            for vector in 0..self.vectors {
                let left = Mem::indexed(AT, pointer, 1, vector as i32 * bytes);
                let (sum, right) = (self.sum(row, vector), self.free(vector));
                if self.key.form == Form::Bytes {
                    self.asm.vload(product, left);
                    self.asm.vdot_bytes(sum, product, right);
                } else {
                    self.asm.vmul_pairs(product, right, left);
                    self.asm.viadd(sum, sum, product);
                }
            }
        }
        self.asm.add_imm(TABLE, 8);
        self.asm.add_imm(B, self.vectors as i32 * bytes);
        self.asm.sub_imm(TAPS, 1);
        self.asm.test(TAPS);
        self.asm.jump_if(Cond::NotEqual, next);
        self.asm.bind(done);
    }

    /// The reduction over one tap's groups, several at a time first.
    fn groups(&mut self) {
        let (several, rest, one, done) = (self.asm.label(), self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.load(AT, arg!(first));
        self.asm.load(END, arg!(unrolled));
        self.asm.cmp(AT, END);
        self.asm.jump_if(Cond::GreaterEqual, rest);
        self.asm.align(32);
        self.asm.bind(several);
        (0..UNROLL).for_each(|step| self.group(step));
        self.forward(UNROLL);
        self.asm.cmp(AT, END);
        self.asm.jump_if(Cond::Less, several);
        self.asm.bind(rest);
        self.asm.load(END, arg!(end));
        self.asm.cmp(AT, END);
        self.asm.jump_if(Cond::GreaterEqual, done);
        self.asm.bind(one);
        self.group(0);
        self.forward(1);
        self.asm.cmp(AT, END);
        self.asm.jump_if(Cond::Less, one);
        self.asm.bind(done);
    }

    fn forward(&mut self, steps: usize) {
        self.asm.add_imm(AT, steps as i32 * 4);
        self.asm.add_imm(B, (steps * self.vectors) as i32 * self.weight_vector());
    }

    /// Bytes of a panel that fill one vector register.
    fn weight_vector(&self) -> i32 {
        self.asm.vector_bytes() / 4 * (self.key.form.group() * self.key.form.weight_bytes()) as i32
    }

    /// One group of the reduction.
    fn group(&mut self, step: usize) {
        let weights = self.weight_vector();
        for vector in 0..self.vectors {
            let from = Mem::at(B, (step * self.vectors + vector) as i32 * weights);
            let to = self.free(vector);
            match self.key.form {
                Form::Widened => self.asm.vload_i8_as_i16(to, from),
                Form::Words | Form::Bytes | Form::Tiles | Form::Few => self.asm.vload(to, from),
            }
        }
        let (left, product) = (self.free(self.vectors), self.free(self.vectors + 1));
        for (row, &pointer) in ROWS[..self.rows].iter().enumerate() {
            self.asm.vbroadcast(left, Mem::indexed(pointer, AT, 1, step as i32 * 4));
            for vector in 0..self.vectors {
                let (sum, right) = (self.sum(row, vector), self.free(vector));
                if self.key.form == Form::Bytes {
                    self.asm.vdot_bytes(sum, left, right);
                } else {
                    self.asm.vmul_pairs(product, left, right);
                    self.asm.viadd(sum, sum, product);
                }
            }
        }
    }

    /// The epilogue and the stores.
    fn epilogue(&mut self) {
        let [low, high, zero] = [0, 1, 2].map(|index| self.free(index));
        if self.key.output != Output::Sums {
            self.asm.load(SCALE, arg!(scale));
            self.asm.load(SHIFT, arg!(shift));
            self.asm.vbroadcast(low, arg!(low));
            self.asm.vbroadcast(high, arg!(high));
        }
        if self.key.output.bytes() == 1 {
            self.asm.vbroadcast(zero, arg!(zero));
        }
        self.asm.load(C, arg!(c));
        self.asm.load(LDC, arg!(ldc));
        // Two vectors of eight lanes, twice, fill a register with bytes.
        let joined = self.asm.lanes() == 8 && self.vectors == 2 && self.key.output.bytes() == 1;
        let together = if joined { 2 } else { 1 };
        for first in (0..self.rows).step_by(together) {
            let rows = first..self.rows.min(first + together);
            for row in rows.clone() {
                (0..self.vectors).for_each(|vector| self.result(row, vector));
            }
            match self.key.output.bytes() {
                1 if joined => self.store_joined(rows.start, rows.len() == 2),
                1 => self.store_bytes(first),
                _ => {
                    let bytes = self.asm.vector_bytes();
                    for vector in 0..self.vectors {
                        self.asm.vstore(Mem::at(C, vector as i32 * bytes), self.sum(first, vector));
                    }
                }
            }
            if rows.end < self.rows {
                rows.for_each(|_| self.asm.add(C, LDC));
            }
        }
    }

    /// The epilogue of one vector of sums.
    fn result(&mut self, row: usize, vector: usize) {
        let [low, high, zero] = [0, 1, 2].map(|index| self.free(index));
        let value = self.sum(row, vector);
        let column = vector as i32 * self.asm.vector_bytes();
        if self.key.output == Output::Sums {
            return;
        }
        self.asm.vcvt_f32(value, value);
        self.asm.vmul(value, value, Mem::at(SCALE, column));
        self.asm.vadd(value, value, Mem::at(SHIFT, column));
        if self.key.output == Output::Floats {
            // The second operand is the result where either is NaN, which is to stay.
            self.asm.vmax(value, low, value);
            self.asm.vmin(value, high, value);
            return;
        }
        // Here NaN becomes a bound, which rounds to an integer in range.
        self.asm.vmax(value, value, low);
        self.asm.vmin(value, value, high);
        self.asm.vcvt_i32(value, value);
        self.asm.viadd(value, value, zero);
        if self.key.output == Output::Signed {
            self.asm.vand(value, value, f32::from_bits(0xFF));
        }
    }

    /// Stores one row of bytes vector by vector.
    fn store_bytes(&mut self, row: usize) {
        let (bytes, scratch) = (self.asm.vector_bytes(), self.free(3));
        for vector in 0..self.vectors {
            self.asm.vstore_u8(Mem::at(C, vector as i32 * bytes / 4), self.sum(row, vector), scratch);
        }
    }

    /// Stores one or two rows of bytes of two vectors each.
    fn store_joined(&mut self, row: usize, two: bool) {
        let row_at = |to: Mem, row: usize| JoinedRow { to, lanes: [self.sum(row, 0), self.sum(row, 1)] };
        let first = row_at(Mem::at(C, 0), row);
        let second = two.then(|| row_at(Mem::indexed(C, LDC, 1, 0), row + 1));
        self.asm.vstore_u8_joined(first, second, self.free(3));
    }
}
