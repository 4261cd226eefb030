//! Assembles the micro-kernel.
//!
//! Each number of rows has code of its own, which does one tile after another. A tile's accumulators start from zero,
//! bias or C, run over taps and elements, and are stored. Activations that take many instructions are then applied to
//! the stored tile, vector by vector out of L1, and the pointers move to the next tile.
//!
//! A tile of few rows has too few accumulators to keep the multiply-adds busy (latency times throughput is 8). It has
//! several sets of them, one for each element of the unrolled loop in turn, which are added up at the end.

use std::mem::offset_of;

use super::tile::{LeftRows, MOST_ROWS, PREFETCH_TILES, RightColumns, TileArgs, TileCode, UNROLL, most_rows};
use crate::cpu::activation::{self, Place};
use crate::isa::Isa;
use crate::jit::{Asm, Cond, Gpr, Label, Mem, Src, Vreg};

/// The argument struct.
const ARGS: Gpr = Gpr::RDI;
/// Left-hand row pointers during the reduction.
const ROWS: [Gpr; MOST_ROWS] = [Gpr::RAX, Gpr::RCX, Gpr::RDX, Gpr::RBX, Gpr::RSI, Gpr::R8, Gpr::R9, Gpr::R10];
/// Right-hand side.
const B: Gpr = Gpr::R11;
/// Byte offset in the left-hand rows.
const AT: Gpr = Gpr::R12;
/// Byte offset at which the unrolled group, pair or element loop ends.
const END: Gpr = Gpr::R13;
/// The row pointers of the next tap in the indirection table, or the stride of taps.
const TABLE: Gpr = Gpr::R14;
/// Taps left.
const TAPS: Gpr = Gpr::R15;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Registers for the right-hand side of a single row with columns of bf16 pairs.
const LONE_PAIR: usize = 1;
/// Mask of the upper half of a word: the second element of a bf16 pair, as `f32`.
const UPPER: Src = Src::Const(0xFFFF_0000);
/// Stride of left-hand rows while their pointers are computed, then stride of right-hand rows.
const STRIDE: Gpr = Gpr::RBP;
/// Address to prefetch from, where right-hand rows are packed.
const NEXT: Gpr = STRIDE;

// Outside the reduction the row pointers' registers are free.
const T0: Gpr = Gpr::RAX;
const T1: Gpr = Gpr::RCX;
const C: Gpr = Gpr::RDX;
const LDC: Gpr = Gpr::RBX;
const OTHER: Gpr = Gpr::RSI;
const COUNT: Gpr = Gpr::R8;

macro_rules! arg {
    ($field:ident) => {
        Mem::at(ARGS, offset_of!(TileArgs, $field) as i32)
    };
}

/// Assembles the part of the micro-kernel for tiles of `rows` rows, at most [`most_rows`].
pub(super) fn tile(asm: &mut Asm, key: &TileCode, rows: usize) {
    let memory = key.activation.is_some_and(|op| activation::place(op, spare(asm, key)) == Place::Memory);
    let (again, unfinished) = (asm.label(), asm.label());
    asm.prologue();
    asm.align(16);
    asm.bind(again);
    Variant::new(asm, key, rows, memory).emit(unfinished);
    if memory {
        activate_stored(asm, key, rows);
    }
    asm.bind(unfinished);
    advance(asm, key);
    asm.load(T0, arg!(tiles));
    asm.sub_imm(T0, 1);
    asm.store(arg!(tiles), T0);
    asm.cmp_imm(T0, 0);
    asm.jump_if(Cond::Greater, again);
    asm.epilogue();
}

/// Registers that the tallest tile leaves free after the reduction.
fn spare(asm: &Asm, key: &TileCode) -> usize {
    let vectors = usize::from(key.vectors);
    usize::from(asm.registers()) - most_rows(key.isa, vectors) * vectors
}

/// The code for one number of rows.
struct Variant<'a> {
    asm: &'a mut Asm,
    key: &'a TileCode,
    rows: usize,
    vectors: usize,
    /// Sets of accumulators.
    sets: usize,
    /// Whether the activation is applied after the store.
    memory: bool,
    /// The register that holds [`UPPER`], where one is free.
    upper: Option<Vreg>,
}

impl<'a> Variant<'a> {
    fn new(asm: &'a mut Asm, key: &'a TileCode, rows: usize, memory: bool) -> Variant<'a> {
        let vectors = usize::from(key.vectors);
        let pairs = key.right == RightColumns::Pairs;
        let loads = match rows {
            1 if pairs => LONE_PAIR,
            1 => 0,
            _ => vectors,
        };
        let last = usize::from(asm.registers()) - 1;
        let fits = |sets: usize| rows * vectors * sets + loads <= last;
        // `vdpbf16ps` has a latency of 6 cycles, and 2 start in each.
        let most = if key.right == RightColumns::Dots { 12 } else { 8 };
        let busy = |sets: usize| rows * vectors * sets >= most;
        let sets = [1, 2, 4].into_iter().filter(|&sets| fits(sets)).find(|&sets| busy(sets));
        let sets = if key.in_order { 1 } else { sets.unwrap_or_else(|| if fits(4) { 4 } else { 1 }) };
        let upper = (pairs && rows * vectors * sets + loads < last).then_some(Vreg(last as u8));
        Variant { asm, key, rows, vectors, sets, memory, upper }
    }

    /// One tile. If the reduction goes on elsewhere and the activation would follow the store, jumps to `unfinished`.
    fn emit(&mut self, unfinished: Label) {
        self.start();
        self.reduce();
        let store = self.asm.label();
        self.adjust(store);
        if let Some(op) = self.key.activation.filter(|_| !self.memory) {
            let count = self.rows * self.vectors;
            let temps: Vec<Vreg> = (count as u8..self.asm.registers()).map(Vreg).collect();
            for value in 0..count {
                activation::emit(self.asm, op, Vreg(value as u8), &temps);
            }
        }
        self.asm.bind(store);
        self.each(|asm, at, value, mask| match mask {
            Some(mask) => asm.vstore_masked(at, mask, value),
            None => asm.vstore(at, value),
        });
        if self.memory {
            self.asm.load(T0, arg!(unfinished));
            self.asm.test(T0);
            self.asm.jump_if(Cond::NotEqual, unfinished);
        }
    }

    fn sum(&self, set: usize, row: usize, vector: usize) -> Vreg {
        Vreg(((set * self.rows + row) * self.vectors + vector) as u8)
    }

    /// The first register after the accumulators of `sets` sets.
    fn free(&self, sets: usize) -> u8 {
        (sets * self.rows * self.vectors) as u8
    }

    /// Starts the accumulators: from C if the reduction goes on, else from the bias or zero.
    fn start(&mut self) {
        let (resume, zero, ready) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.load(T0, arg!(resume));
        self.asm.test(T0);
        self.asm.jump_if(Cond::NotEqual, resume);
        self.asm.load(C, arg!(bias));
        self.asm.test(C);
        self.asm.jump_if(Cond::Equal, zero);
        self.bias();
        self.asm.jump(ready);
        self.asm.bind(resume);
        self.each(|asm, at, value, mask| match mask {
            Some(mask) => asm.vload_masked(value, mask, at),
            None => asm.vload(value, at),
        });
        self.asm.jump(ready);
        self.asm.bind(zero);
        for row in 0..self.rows {
            for vector in 0..self.vectors {
                self.asm.vzero(self.sum(0, row, vector));
            }
        }
        self.asm.bind(ready);
        for set in 1..self.sets {
            for row in 0..self.rows {
                for vector in 0..self.vectors {
                    self.asm.vzero(self.sum(set, row, vector));
                }
            }
        }
    }

    /// Loads the bias, whose address is in C's register, into the first row and copies it to the others.
    fn bias(&mut self) {
        let (whole, loaded) = (self.asm.label(), self.asm.label());
        let bytes = self.asm.vector_bytes();
        self.asm.load(T0, arg!(partial));
        self.asm.test(T0);
        self.asm.jump_if(Cond::Equal, whole);
        for vector in 0..self.vectors {
            let mask = self.keep(vector);
            self.asm.vload_masked(self.sum(0, 0, vector), mask, Mem::at(C, vector as i32 * bytes));
        }
        self.asm.jump(loaded);
        self.asm.bind(whole);
        for vector in 0..self.vectors {
            self.asm.vload(self.sum(0, 0, vector), Mem::at(C, vector as i32 * bytes));
        }
        self.asm.bind(loaded);
        for row in 1..self.rows {
            for vector in 0..self.vectors {
                self.asm.vmov(self.sum(0, row, vector), self.sum(0, 0, vector));
            }
        }
    }

    /// The mask of the columns of C in a vector of the tile. Overwrites both scratch registers, and on AVX2 the last
    /// vector register.
    fn keep(&mut self, vector: usize) -> crate::jit::Mask {
        keep_mask(self.asm, |asm| asm.load(T0, arg!(lanes).plus(vector as i32 * 8)))
    }

    /// Emits `step` for every accumulator and its address in C: whole vectors, or masked ones if the tile is partial.
    fn each(&mut self, mut step: impl FnMut(&mut Asm, Mem, Vreg, Option<crate::jit::Mask>)) {
        let (partial, done) = (self.asm.label(), self.asm.label());
        let bytes = self.asm.vector_bytes();
        self.asm.load(C, arg!(c));
        self.asm.load(LDC, arg!(ldc));
        self.asm.load(T0, arg!(partial));
        self.asm.test(T0);
        self.asm.jump_if(Cond::NotEqual, partial);
        for row in 0..self.rows {
            for vector in 0..self.vectors {
                let value = self.sum(0, row, vector);
                step(self.asm, Mem::at(C, vector as i32 * bytes), value, None);
            }
            if row + 1 < self.rows {
                self.asm.add(C, LDC);
            }
        }
        self.asm.jump(done);
        self.asm.bind(partial);
        for vector in 0..self.vectors {
            let mask = self.keep(vector);
            if vector > 0 {
                self.asm.load(C, arg!(c));
            }
            for row in 0..self.rows {
                let value = self.sum(0, row, vector);
                step(self.asm, Mem::at(C, vector as i32 * bytes), value, Some(mask));
                if row + 1 < self.rows {
                    self.asm.add(C, LDC);
                }
            }
        }
        self.asm.bind(done);
    }

    /// The reduction, over taps and over the elements of each.
    fn reduce(&mut self) {
        self.asm.load(B, arg!(b));
        if let Some(upper) = self.upper {
            self.asm.vload(upper, UPPER);
        }
        match self.key.left {
            LeftRows::Strided => {
                self.strided_rows();
                self.elements();
            }
            LeftRows::Lines => {
                let (next, done) = (self.asm.label(), self.asm.label());
                self.strided_rows();
                self.asm.load(TABLE, arg!(tap_stride));
                self.asm.load(TAPS, arg!(taps));
                self.asm.test(TAPS);
                self.asm.jump_if(Cond::Equal, done);
                self.asm.bind(next);
                self.elements();
                for &pointer in &ROWS[..self.rows] {
                    self.asm.add(pointer, TABLE);
                }
                self.asm.sub_imm(TAPS, 1);
                self.asm.test(TAPS);
                self.asm.jump_if(Cond::NotEqual, next);
                self.asm.bind(done);
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
                self.elements();
                self.asm.sub_imm(TAPS, 1);
                self.asm.test(TAPS);
                self.asm.jump_if(Cond::NotEqual, next);
                self.asm.bind(done);
            }
        }
        for set in 1..self.sets {
            for row in 0..self.rows {
                for vector in 0..self.vectors {
                    self.asm.vadd(self.sum(0, row, vector), self.sum(0, row, vector), self.sum(set, row, vector));
                }
            }
        }
    }

    /// Computes pointers to left-hand rows at a constant stride.
    fn strided_rows(&mut self) {
        self.asm.load(ROWS[0], arg!(a));
        self.asm.load(STRIDE, arg!(lda));
        for row in 1..self.rows {
            self.asm.lea(ROWS[row], Mem::indexed(ROWS[row - 1], STRIDE, 1, 0));
        }
    }

    /// The reduction over one tap's elements, whole groups first.
    fn elements(&mut self) {
        let (group, rest, one, done) = (self.asm.label(), self.asm.label(), self.asm.label(), self.asm.label());
        if self.key.right == RightColumns::Plain {
            self.asm.load(STRIDE, arg!(ldb));
        }
        self.asm.load(AT, arg!(first));
        self.asm.load(END, arg!(unrolled));
        self.asm.cmp(AT, END);
        self.asm.jump_if(Cond::GreaterEqual, rest);
        if self.rows > 1 && self.key.left != LeftRows::Lines && self.key.right != RightColumns::Plain {
            self.fetching(group, rest);
        }
        // A loop aligned to a cache line is decoded and predicted from as few lines as possible.
        self.asm.align(32);
        self.asm.bind(group);
        for step in 0..UNROLL {
            self.element(step, step % self.sets);
        }
        self.forward(UNROLL);
        self.asm.cmp(AT, END);
        self.asm.jump_if(Cond::Less, group);
        self.asm.bind(rest);
        if self.key.right == RightColumns::Pairs {
            let (pair, odd) = (self.asm.label(), self.asm.label());
            self.asm.load(END, arg!(paired));
            self.asm.cmp(AT, END);
            self.asm.jump_if(Cond::GreaterEqual, odd);
            self.asm.bind(pair);
            self.element(0, 0);
            self.element(1, 1 % self.sets);
            self.forward(2);
            self.asm.cmp(AT, END);
            self.asm.jump_if(Cond::Less, pair);
            self.asm.bind(odd);
        }
        // Single elements; of a widened pair, the first element of a last half pair.
        self.asm.load(END, arg!(end));
        self.asm.cmp(AT, END);
        self.asm.jump_if(Cond::GreaterEqual, done);
        self.asm.bind(one);
        self.element(0, 0);
        self.forward(1);
        self.asm.cmp(AT, END);
        self.asm.jump_if(Cond::Less, one);
        self.asm.bind(done);
    }

    /// The loop over groups that also prefetches; jumps to `plain` if there is nothing to prefetch.
    fn fetching(&mut self, plain: Label, rest: Label) {
        let next = self.asm.label();
        self.asm.load(NEXT, arg!(prefetched));
        self.asm.test(NEXT);
        self.asm.jump_if(Cond::Equal, plain);
        self.asm.align(32);
        self.asm.bind(next);
        let most = self.bytes_of(UNROLL) / (PREFETCH_TILES * UNROLL) as i32;
        for step in 0..UNROLL {
            for line in (0..most).step_by(LINE) {
                let at = Mem::at(NEXT, line);
                // Into L2: a panel is larger than L1, which holds the operands in use.
                match self.key.isa {
                    Isa::Avx512 => self.asm.prefetch_l2(at),
                    Isa::Portable | Isa::Avx2 => self.asm.prefetch(at),
                }
            }
            self.asm.add_mem(NEXT, arg!(prefetch_step));
            self.element(step, step % self.sets);
        }
        self.forward(UNROLL);
        self.asm.cmp(AT, END);
        self.asm.jump_if(Cond::Less, next);
        self.asm.store(arg!(prefetched), NEXT);
        self.asm.jump(rest);
    }

    /// Bytes of the right-hand side for `elements` elements of the reduction; a last odd element takes a whole pair.
    fn bytes_of(&self, elements: usize) -> i32 {
        let words = if self.key.right == RightColumns::Pairs { elements.div_ceil(2) } else { elements };
        words as i32 * self.vectors as i32 * self.asm.vector_bytes()
    }

    /// Advances by `elements` elements. Plain right-hand rows have been advanced one by one already.
    fn forward(&mut self, steps: usize) {
        self.asm.add_imm(AT, steps as i32 * 4);
        if self.key.right != RightColumns::Plain {
            self.asm.add_imm(B, self.bytes_of(steps));
        }
    }

    /// Multiplies element `step` from the current one into set `set`. The second of a pair follows the first.
    fn element(&mut self, step: usize, set: usize) {
        let bytes = self.asm.vector_bytes();
        let base = if self.key.right == RightColumns::Plain { 0 } else { self.bytes_of(step + 1) - self.bytes_of(1) };
        let right = |vector: usize| Mem::at(B, base + vector as i32 * bytes);
        let left = |row: usize| Mem::indexed(ROWS[row], AT, 1, step as i32 * 4);
        let free = self.free(self.sets);
        let multiply: fn(&mut Asm, Vreg, Vreg, Src) = match self.key.right {
            RightColumns::Dots => |asm, sum, a, b| asm.vdot_bf16(sum, a, b),
            _ => |asm, sum, a, b| asm.vfma231(sum, a, b),
        };
        if self.rows == 1 {
            let element = Vreg(free);
            self.asm.vbroadcast(element, left(0));
            for vector in 0..self.vectors {
                let columns = match self.key.right {
                    RightColumns::Pairs => Src::Reg(self.half(step, right(vector), Vreg(free + 1))),
                    // Each right-hand vector is used once, so it need not pass through a register of its own.
                    _ => Src::Mem(right(vector)),
                };
                multiply(self.asm, self.sum(set, 0, vector), element, columns);
            }
        } else {
            for vector in 0..self.vectors {
                let columns = Vreg(free + vector as u8);
                match self.key.right {
                    RightColumns::Pairs => {
                        self.half(step, right(vector), columns);
                    }
                    _ => self.asm.vload(columns, right(vector)),
                }
            }
            let element = Vreg(free + self.vectors as u8);
            for row in 0..self.rows {
                self.asm.vbroadcast(element, left(row));
                for vector in 0..self.vectors {
                    multiply(self.asm, self.sum(set, row, vector), element, Vreg(free + vector as u8).into());
                }
            }
        }
        if self.key.right == RightColumns::Plain {
            self.asm.add(B, STRIDE);
        }
    }

    /// Widens the even or odd rows of a vector of bf16 pairs to `f32` in `to`.
    fn half(&mut self, step: usize, words: Mem, to: Vreg) -> Vreg {
        match (step % 2, self.upper) {
            (0, _) => {
                self.asm.vload(to, words);
                self.asm.vishl(to, to, 16);
            }
            (_, Some(upper)) => self.asm.vand(to, upper, words),
            (_, None) => {
                self.asm.vload(to, words);
                self.asm.vand(to, to, UPPER);
            }
        }
        to
    }

    /// Scale and residual, if any. Sums whose reduction goes on elsewhere jump to `store`, past the activation.
    fn adjust(&mut self, store: Label) {
        let (unscaled, done) = (self.asm.label(), self.asm.label());
        self.asm.load(T0, arg!(special));
        self.asm.test(T0);
        self.asm.jump_if(Cond::Equal, done);
        self.asm.load(T0, arg!(scaled));
        self.asm.test(T0);
        self.asm.jump_if(Cond::Equal, unscaled);
        let free = Vreg(self.free(1));
        self.asm.vbroadcast(free, arg!(scale));
        for value in 0..self.free(1) {
            self.asm.vmul(Vreg(value), Vreg(value), free);
        }
        self.asm.bind(unscaled);
        self.asm.load(T0, arg!(unfinished));
        self.asm.test(T0);
        self.asm.jump_if(Cond::NotEqual, store);
        self.asm.load(OTHER, arg!(residual));
        self.asm.test(OTHER);
        self.asm.jump_if(Cond::Equal, done);
        self.asm.load(OTHER, arg!(residual_offset));
        self.each(|asm, at, value, mask| {
            let other = Mem::indexed(at.base, OTHER, 1, at.disp);
            match mask {
                Some(mask) => {
                    asm.vload_masked(free, mask, other);
                    asm.vadd(value, value, free);
                }
                None => asm.vadd(value, value, other),
            }
        });
        self.asm.bind(done);
    }
}

/// The mask of the first lanes; `count` loads their number into the first scratch register.
fn keep_mask(asm: &mut Asm, count: impl FnOnce(&mut Asm)) -> crate::jit::Mask {
    count(asm);
    let mask = asm.mask(0, Vreg(asm.registers() - 1));
    asm.mask_first(mask, T0, T1);
    mask
}

/// Applies the activation to the stored tile, vector column by vector column, so that each mask is made once.
fn activate_stored(asm: &mut Asm, key: &TileCode, rows: usize) {
    let Some(op) = key.activation else { return };
    let bytes = asm.vector_bytes();
    let temps: Vec<Vreg> = (1..asm.registers() - 1).map(Vreg).collect();
    let lanes = key.isa.lanes() as i32;
    let (column, whole, partial, row, next) = (asm.label(), asm.label(), asm.label(), asm.label(), asm.label());
    let end = asm.label();
    // The reduction's registers that count taps and elements are free: AT is the vector's offset in bytes, END the
    // address of its number of lanes.
    asm.mov_imm(AT, 0);
    asm.lea(END, arg!(lanes));
    asm.bind(column);
    asm.load(T0, Mem::at(END, 0));
    asm.test(T0);
    asm.jump_if(Cond::Equal, end);
    asm.load(C, arg!(c));
    asm.add(C, AT);
    asm.load(LDC, arg!(ldc));
    asm.mov_imm(COUNT, rows as i64);
    asm.cmp_imm(T0, lanes);
    asm.jump_if(Cond::Less, partial);
    asm.bind(whole);
    asm.vload(Vreg(0), Mem::at(C, 0));
    activation::emit(asm, op, Vreg(0), &temps);
    asm.vstore(Mem::at(C, 0), Vreg(0));
    asm.add(C, LDC);
    asm.sub_imm(COUNT, 1);
    asm.cmp_imm(COUNT, 0);
    asm.jump_if(Cond::Greater, whole);
    asm.jump(next);
    asm.bind(partial);
    let mask = keep_mask(asm, |_| ());
    asm.bind(row);
    asm.vload_masked(Vreg(0), mask, Mem::at(C, 0));
    activation::emit(asm, op, Vreg(0), &temps);
    asm.vstore_masked(Mem::at(C, 0), mask, Vreg(0));
    asm.add(C, LDC);
    asm.sub_imm(COUNT, 1);
    asm.cmp_imm(COUNT, 0);
    asm.jump_if(Cond::Greater, row);
    asm.bind(next);
    asm.add_imm(END, 8);
    asm.add_imm(AT, bytes);
    asm.cmp_imm(AT, i32::from(key.vectors) * bytes);
    asm.jump_if(Cond::Less, column);
    asm.bind(end);
}

/// Advances left-hand rows and C to the next tile. The table's register already points at the next tile's part.
fn advance(asm: &mut Asm, key: &TileCode) {
    match key.left {
        LeftRows::Strided | LeftRows::Lines => {
            asm.load(T0, arg!(a));
            asm.add_mem(T0, arg!(a_tile_stride));
            asm.store(arg!(a), T0);
        }
        LeftRows::Table => asm.store(arg!(table), TABLE),
    }
    asm.load(T0, arg!(c));
    asm.add_mem(T0, arg!(c_tile_stride));
    asm.store(arg!(c), T0);
}
