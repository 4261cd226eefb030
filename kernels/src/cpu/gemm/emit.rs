//! Assembles the micro-kernel.
//!
//! Each number of rows has its own code, which computes one tile after another. A tile's accumulators start from zero,
//! bias or C, run over taps and elements ([`reduction`](super::reduction)), and are stored. Activations of many
//! instructions are then applied to the stored tile, vector by vector out of L1, and the pointers move to the next
//! tile. Where C is `bf16`, such activations are applied before sums are rounded, on a copy of the tile on the stack.
//!
//! A tile of few rows has too few accumulators to keep the multiply-adds busy (latency times throughput is 8). It has
//! several sets of accumulators, which take the elements of the unrolled loop in turn and are added up at the end.

use super::operands::Load;
use super::reduction::{AT, END, Fields, Prefetch, Reduction, TABLE, fields};
use super::tile::{FAMILY, LeftRows, RightColumns, TileArgs, TileCode};
use super::tile_size::most_rows;
use crate::cpu::Stored;
use crate::cpu::activation::{self, Place};
use crate::cpu::epilogue::{Column, Operand, Stage, StoredVector};
use crate::error::{KernelError, Result};
use crate::jit::{Asm, Cond, Gpr, Label, Mask, Mem, Vreg, arg};

/// Registers for the right-hand side of a single row whose columns are widened.
const LONE_WIDENED: usize = 1;

// Outside the reduction the row pointers' registers are free.
const T0: Gpr = Gpr::RAX;
const T1: Gpr = Gpr::RCX;
const C: Gpr = Gpr::RDX;
const LDC: Gpr = Gpr::RBX;
const OTHER: Gpr = Gpr::RSI;
const COUNT: Gpr = Gpr::R8;

/// The arguments that the reduction reads.
const FIELDS: Fields = fields!(TileArgs);

impl TileCode {
    /// Assembles the kernel of tiles of `rows` rows, 1 to [`most_rows`].
    pub(crate) fn emit(&self, rows: usize, asm: &mut Asm) -> Result<()> {
        if !(1..=most_rows(self.isa, usize::from(self.vectors))).contains(&rows) {
            let vectors = self.vectors;
            let reason = format!("a tile of {rows} rows and {vectors} vectors in the registers of {}", self.isa);
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        if !self.right.operands().suits(self.isa) {
            let reason = format!("products of {:?} on {}", self.right, self.isa);
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        activation::check(FAMILY, self.activation)?;
        tile(asm, self, rows);
        Ok(())
    }
}

/// Assembles the part of the micro-kernel for tiles of `rows` rows, at most [`most_rows`].
fn tile(asm: &mut Asm, key: &TileCode, rows: usize) {
    let memory = key.activation.is_some_and(|op| activation::place(op, spare(asm, key)) == Place::Memory);
    let (again, unfinished) = (asm.label(), asm.label());
    asm.prologue();
    asm.align(16);
    asm.bind(again);
    Variant::new(asm, key, rows, memory).emit(asm, unfinished);
    if memory {
        activate_stored(asm, key, rows);
    }
    asm.bind(unfinished);
    advance(asm, key);
    asm.load(T0, arg!(TileArgs.tiles));
    asm.sub_imm(T0, 1);
    asm.store(arg!(TileArgs.tiles), T0);
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
    key: &'a TileCode,
    reduction: Reduction,
    /// Whether the activation is applied after the store.
    memory: bool,
}

/// Registers for the operands that a step of the reduction loads.
fn loads(right: RightColumns, vectors: usize, rows: usize) -> usize {
    match rows {
        1 if right.operands().is_plain() => 0,
        1 => LONE_WIDENED,
        _ => vectors,
    }
}

/// The number of sums of an element of a tile, which take its products by turns: more than one where a tile of few rows
/// would wait for its own additions.
pub(super) fn sets(registers: usize, vectors: usize, right: RightColumns, rows: usize) -> usize {
    let fits = |sets: usize| rows * vectors * sets + loads(right, vectors, rows) < registers;
    // `vdpbf16ps` has a latency of 6 cycles, and 2 start in each.
    let most = if right == RightColumns::Dots { 12 } else { 8 };
    let busy = |sets: usize| rows * vectors * sets >= most;
    let sets = [1, 2, 4].into_iter().filter(|&sets| fits(sets)).find(|&sets| busy(sets));
    sets.unwrap_or_else(|| if fits(4) { 4 } else { 1 })
}

impl<'a> Variant<'a> {
    fn new(asm: &Asm, key: &'a TileCode, rows: usize, memory: bool) -> Variant<'a> {
        let (vectors, operands) = (usize::from(key.vectors), key.right.operands());
        let pairs = operands.load == Load::Bf16Pairs;
        let loads = loads(key.right, vectors, rows);
        let last = usize::from(asm.registers()) - 1;
        let sets = if key.in_order { 1 } else { sets(usize::from(asm.registers()), vectors, key.right, rows) };
        let plain = key.right == RightColumns::Plain;
        let prefetch = Prefetch { from: arg!(TileArgs.prefetched), step: arg!(TileArgs.prefetch_step) };
        let reduction = Reduction {
            operands,
            rows,
            vectors,
            sets,
            fields: FIELDS,
            ldb: plain.then_some(arg!(TileArgs.ldb)),
            paired: pairs.then_some(arg!(TileArgs.paired)),
            prefetch: (rows > 1 && key.left != LeftRows::Lines && !plain).then_some(prefetch),
            from_memory: rows == 1,
            upper: (pairs && rows * vectors * sets + loads < last).then_some(Vreg(last as u8)),
        };
        Variant { key, reduction, memory }
    }

    /// One tile. If the reduction goes on elsewhere and the activation would follow the store, jumps to `unfinished`.
    fn emit(&self, asm: &mut Asm, unfinished: Label) {
        self.start(asm);
        self.reduce(asm);
        let store = asm.label();
        self.adjust(asm, store);
        if let Some(op) = self.key.activation.filter(|_| !self.memory) {
            let temps: Vec<Vreg> = (self.temps()..asm.registers()).map(Vreg).collect();
            Stage::Activate(op, &temps).emit_all(asm, self.reduction.sums(0));
        }
        asm.bind(store);
        let output = self.key.output;
        match (self.memory, output) {
            (true, Stored::Bf16) => {
                asm.spill((self.reduction.rows * self.reduction.vectors) as u8);
                for (index, sum) in self.reduction.sums(0).enumerate() {
                    asm.vstore(asm.slot(index as u8), sum);
                }
            }
            _ => self.each(asm, output, |asm, at, value, mask| output.store(asm, at, mask, value, value)),
        }
        if self.memory && self.goes_on() {
            asm.load(T0, arg!(TileArgs.unfinished));
            asm.test(T0);
            asm.jump_if(Cond::NotEqual, unfinished);
        }
    }

    /// Whether the reduction may go on from sums that were stored in C.
    fn goes_on(&self) -> bool {
        self.key.output == Stored::F32
    }

    fn sum(&self, row: usize, vector: usize) -> Vreg {
        self.reduction.sum(0, row, vector)
    }

    /// The first register behind the first set of sums, to which the others have been added.
    fn temps(&self) -> u8 {
        (self.reduction.rows * self.reduction.vectors) as u8
    }

    /// Starts the accumulators: from C if the reduction goes on, else from the bias or zero.
    fn start(&self, asm: &mut Asm) {
        let (resume, zero, ready) = (asm.label(), asm.label(), asm.label());
        if self.goes_on() {
            asm.load(T0, arg!(TileArgs.resume));
            asm.test(T0);
            asm.jump_if(Cond::NotEqual, resume);
        }
        asm.load(C, arg!(TileArgs.bias));
        asm.test(C);
        asm.jump_if(Cond::Equal, zero);
        self.bias(asm);
        asm.jump(ready);
        if self.goes_on() {
            asm.bind(resume);
            self.each(asm, Stored::F32, |asm, at, value, mask| asm.vload_lanes(value, mask, at));
            asm.jump(ready);
        }
        asm.bind(zero);
        self.reduction.sums(0).for_each(|sum| asm.vzero(sum));
        asm.bind(ready);
        for set in 1..self.reduction.sets {
            self.reduction.sums(set).for_each(|sum| asm.vzero(sum));
        }
    }

    /// Loads the bias, whose address is in C's register, into the first row and copies it to the others.
    fn bias(&self, asm: &mut Asm) {
        let (bytes, vectors) = (asm.vector_bytes(), self.reduction.vectors);
        let at = |vector: usize| Mem::at(C, vector as i32 * bytes);
        asm.load(T0, arg!(TileArgs.partial));
        asm.unless_zero_else(
            T0,
            |asm| {
                for vector in 0..vectors {
                    let mask = keep(asm, vector);
                    asm.vload_masked(self.sum(0, vector), mask, at(vector));
                }
            },
            |asm| (0..vectors).for_each(|vector| asm.vload(self.sum(0, vector), at(vector))),
        );
        for row in 1..self.reduction.rows {
            (0..vectors).for_each(|vector| asm.vmov(self.sum(row, vector), self.sum(0, vector)));
        }
    }

    /// Emits `step` for every accumulator and its address in C, or its address if C were of type `stored`: whole
    /// vectors, or masked ones if the tile is partial.
    fn each(&self, asm: &mut Asm, stored: Stored, step: impl Fn(&mut Asm, Mem, Vreg, Option<Mask>)) {
        let Reduction { rows, vectors, .. } = self.reduction;
        let bytes = (asm.lanes() * stored.bytes()) as i32;
        let at = |vector: usize| Mem::at(C, vector as i32 * bytes);
        let load = |asm: &mut Asm, register: Gpr, from: Mem| {
            asm.load(register, from);
            self.key.output.emit_rescale(asm, register, stored);
        };
        let next_row = |asm: &mut Asm, row: usize| {
            if row + 1 < rows {
                asm.add(C, LDC);
            }
        };
        load(asm, C, arg!(TileArgs.c));
        load(asm, LDC, arg!(TileArgs.ldc));
        asm.load(T0, arg!(TileArgs.partial));
        asm.if_zero_else(
            T0,
            |asm| {
                for row in 0..rows {
                    (0..vectors).for_each(|vector| step(asm, at(vector), self.sum(row, vector), None));
                    next_row(asm, row);
                }
            },
            |asm| {
                for vector in 0..vectors {
                    let mask = keep(asm, vector);
                    if vector > 0 {
                        load(asm, C, arg!(TileArgs.c));
                    }
                    for row in 0..rows {
                        step(asm, at(vector), self.sum(row, vector), Some(mask));
                        next_row(asm, row);
                    }
                }
            },
        );
    }

    /// The reduction, over taps and over the elements of each tap; then all sets are added into one.
    fn reduce(&self, asm: &mut Asm) {
        let reduction = &self.reduction;
        reduction.begin(asm);
        match self.key.left {
            LeftRows::Strided => {
                reduction.strided_rows(asm);
                reduction.steps(asm);
            }
            LeftRows::Lines => reduction.through_lines(asm, arg!(TileArgs.tap_stride)),
            LeftRows::Table => reduction.through_table(asm),
        }
        for set in 1..reduction.sets {
            for (sum, other) in reduction.sums(0).zip(reduction.sums(set)) {
                asm.vadd(sum, sum, other);
            }
        }
    }

    /// Scale and residual, if any. Sums whose reduction goes on elsewhere jump to `store`, past the activation.
    fn adjust(&self, asm: &mut Asm, store: Label) {
        let free = Vreg(self.temps());
        asm.load(T0, arg!(TileArgs.special));
        asm.unless_zero(T0, |asm| {
            asm.load(T0, arg!(TileArgs.scaled));
            asm.unless_zero(T0, |asm| {
                asm.vbroadcast(free, arg!(TileArgs.scale));
                Stage::Scale(Operand::Register(free)).emit_all(asm, self.reduction.sums(0));
            });
            if self.goes_on() {
                asm.load(T0, arg!(TileArgs.unfinished));
                asm.test(T0);
                asm.jump_if(Cond::NotEqual, store);
            }
            asm.load(OTHER, arg!(TileArgs.residual));
            asm.unless_zero(OTHER, |asm| {
                asm.load(OTHER, arg!(TileArgs.residual_offset));
                let stored = self.key.residual;
                self.each(asm, stored, |asm, at, value, mask| {
                    let from = Mem::indexed(at.base, OTHER, 1, at.disp);
                    let residual = Operand::Folded(StoredVector { stored, from, to: free });
                    Stage::Add(residual).emit(asm, value, Column::first(mask));
                });
            });
        });
    }
}

/// The mask of the columns of C in a vector of the tile. Overwrites both scratch registers, and on AVX2 the last vector
/// register.
fn keep(asm: &mut Asm, vector: usize) -> Mask {
    asm.load(T0, arg!(TileArgs.lanes).plus(vector as i32 * 8));
    first_lanes(asm)
}

/// The mask of the first lanes, whose number is in the first scratch register.
fn first_lanes(asm: &mut Asm) -> Mask {
    let mask = asm.mask(0, Vreg(asm.registers() - 1));
    asm.mask_first(mask, T0, T1);
    mask
}

/// Applies the activation to the stored tile, vector column by vector column, so that each mask is made once.
fn activate_stored(asm: &mut Asm, key: &TileCode, rows: usize) {
    let Some(op) = key.activation else { return };
    let (bytes, vector_bytes) = ((asm.lanes() * key.output.bytes()) as i32, asm.vector_bytes());
    // In `f32` the tile is already in place.
    let set_aside = key.output == Stored::Bf16;
    let temps: Vec<Vreg> = (1..asm.registers() - 1).map(Vreg).collect();
    let lanes = key.isa.lanes() as i32;
    let (column, partial, next, end) = (asm.label(), asm.label(), asm.label(), asm.label());
    let activate_rows = |asm: &mut Asm, mask: Option<Mask>| {
        let row = asm.label();
        asm.bind(row);
        if set_aside {
            asm.vload(Vreg(0), Mem::at(OTHER, 0));
            asm.add_imm(OTHER, i32::from(key.vectors) * vector_bytes);
        } else {
            asm.vload_lanes(Vreg(0), mask, Mem::at(C, 0));
        }
        Stage::Activate(op, &temps).emit_all(asm, [Vreg(0)]);
        key.output.store(asm, Mem::at(C, 0), mask, Vreg(0), Vreg(0));
        asm.add(C, LDC);
        asm.sub_imm(COUNT, 1);
        asm.cmp_imm(COUNT, 0);
        asm.jump_if(Cond::Greater, row);
    };
    // The reduction's registers that count taps and elements are free: AT is the vector's offset in bytes, END the
    // address of its number of lanes.
    asm.mov_imm(AT, 0);
    asm.lea(END, arg!(TileArgs.lanes));
    asm.bind(column);
    asm.load(T0, Mem::at(END, 0));
    asm.test(T0);
    asm.jump_if(Cond::Equal, end);
    asm.load(C, arg!(TileArgs.c));
    asm.add(C, AT);
    asm.load(LDC, arg!(TileArgs.ldc));
    if set_aside {
        asm.lea(OTHER, asm.slot(0));
        (0..vector_bytes / bytes).for_each(|_| asm.add(OTHER, AT));
    }
    asm.mov_imm(COUNT, rows as i64);
    asm.cmp_imm(T0, lanes);
    asm.jump_if(Cond::Less, partial);
    activate_rows(asm, None);
    asm.jump(next);
    asm.bind(partial);
    let mask = first_lanes(asm);
    activate_rows(asm, Some(mask));
    asm.bind(next);
    asm.add_imm(END, 8);
    asm.add_imm(AT, bytes);
    asm.cmp_imm(AT, i32::from(key.vectors) * bytes);
    asm.jump_if(Cond::Less, column);
    asm.bind(end);
    if set_aside {
        asm.unspill();
    }
}

/// Advances left-hand rows and C to the next tile. The table's register already points at the next tile's part.
fn advance(asm: &mut Asm, key: &TileCode) {
    match key.left {
        LeftRows::Strided | LeftRows::Lines => {
            asm.load(T0, arg!(TileArgs.a));
            asm.add_mem(T0, arg!(TileArgs.a_tile_stride));
            asm.store(arg!(TileArgs.a), T0);
        }
        LeftRows::Table => asm.store(arg!(TileArgs.table), TABLE),
    }
    asm.load(T0, arg!(TileArgs.c));
    asm.add_mem(T0, arg!(TileArgs.c_tile_stride));
    asm.store(arg!(TileArgs.c), T0);
}
