//! Assembles the transforms: a small matrix applied to the rows and then to the columns of a tile, for a vector of
//! channels at a time.
//!
//! A tile's vectors are more than there are registers, so the results of the first pass wait on the stack. Both passes
//! are written from the matrices: a row is a sum of its columns, ones first, because adding is cheaper than multiplying
//! and has ports of its own. A pass is a loop over the rows or columns of a tile: written out it would take six times
//! as long to emit and be no faster.

use std::mem::offset_of;

use smallvec::SmallVec;

use super::args::{InputArgs, OutputArgs};
use super::matrices::{MOST_SIDE, Rows, WinogradTile};
use crate::cpu::Stored;
use crate::cpu::activation::{self, Place};
use crate::cpu::chain::UnaryOp;
use crate::cpu::epilogue::{Column, Operand, Stage, StoredVector};
use crate::jit::{Asm, Cond, Gpr, Label, Mask, Mem, Src, Vreg};

/// The argument struct.
const ARGS: Gpr = Gpr::RDI;
/// The tile's pointers: of inputs, or of outputs.
const TABLE: Gpr = Gpr::RAX;
/// The tile's first point.
const POINTS: Gpr = Gpr::RCX;
/// Byte offset of the channels.
const CHANNEL: Gpr = Gpr::RDX;
/// Where whole vectors of channels end.
const WHOLE: Gpr = Gpr::RBX;
/// The address in an entry of the table.
const PLACE: Gpr = Gpr::RSI;
/// Stride of points.
const STEP: Gpr = Gpr::R8;
/// The point that is loaded or stored.
const POINT: Gpr = Gpr::R9;
/// Tiles left.
const TILES: Gpr = Gpr::R10;
const T0: Gpr = Gpr::R11;
const T1: Gpr = Gpr::R12;
/// Byte offset of the channels in the output.
const OFFSET: Gpr = Gpr::R13;
/// Whether there is a residual, and the byte offset from the output to it.
const RESIDUAL: Gpr = Gpr::R14;
const OTHER: Gpr = Gpr::R15;
/// Byte offset in the table from the tile's first row or column to the current one. Masks are made before it is in use.
const PLACE_AT: Gpr = T1;
/// Bytes of a pointer.
const POINTER: i32 = 8;

/// Factors of a matrix: in registers as far as those go, else in the table of constants.
struct Factors(SmallVec<[(f32, Vreg); 12]>);

impl Factors {
    /// Loads the factors of `rows` into `registers`.
    fn load(asm: &mut Asm, rows: Rows, registers: impl Iterator<Item = u8>) -> Factors {
        let mut distinct: SmallVec<[f32; 12]> = SmallVec::new();
        for factor in rows.iter().flat_map(|row| row.iter()).map(|factor| factor.abs()) {
            if factor != 0.0 && factor != 1.0 && !distinct.contains(&factor) {
                distinct.push(factor);
            }
        }
        let held: SmallVec<[(f32, Vreg); 12]> = distinct.into_iter().zip(registers.map(Vreg)).collect();
        for &(factor, register) in &held {
            asm.vload(register, factor);
        }
        Factors(held)
    }

    fn get(&self, factor: f32) -> Src {
        let held = self.0.iter().find(|(have, _)| *have == factor);
        held.map_or_else(|| Src::from(factor), |&(_, register)| Src::from(register))
    }

    /// `out` = the sum of the first registers, times the factors of `row`.
    fn sum(&self, asm: &mut Asm, row: &[f32], out: Vreg) {
        // Every row has a column with factor 1. Columns that are only subtracted come before those that are multiplied.
        let rank = |factor: f32| if factor == 1.0 { 0 } else { 1 + u8::from(factor != -1.0) };
        let columns = || row.iter().zip(0u8..).filter(|(factor, _)| **factor != 0.0);
        let ranked = (0..3).flat_map(|wanted| columns().filter(move |(factor, _)| rank(**factor) == wanted));
        let terms: SmallVec<[(f32, Vreg); MOST_SIDE]> =
            ranked.map(|(&factor, column)| (factor, Vreg(column))).collect();
        let mut sum = terms[0].1;
        if terms.get(1).is_none_or(|(factor, _)| factor.abs() != 1.0) {
            asm.vmov(out, sum);
            sum = out;
        }
        for &(factor, value) in &terms[1..] {
            if factor == 1.0 {
                asm.vadd(out, sum, value);
            } else if factor == -1.0 {
                asm.vsub(out, sum, value);
            } else if factor > 0.0 {
                asm.vfma231(out, value, self.get(factor));
            } else {
                asm.vfnma231(out, value, self.get(-factor));
            }
            sum = out;
        }
    }
}

/// Emits `vector` for the whole vectors of channels and, where there may be a `rest`, once more under a mask for the
/// channels beyond. `rest` is the address of their number.
fn channels(asm: &mut Asm, whole: Mem, rest: Option<Mem>, mut vector: impl FnMut(&mut Asm, Option<Mask>)) {
    let (next, last, done) = (asm.label(), asm.label(), asm.label());
    let bytes = asm.vector_bytes();
    asm.mov_imm(CHANNEL, 0);
    asm.load(WHOLE, whole);
    asm.cmp(CHANNEL, WHOLE);
    asm.jump_if(Cond::GreaterEqual, last);
    asm.bind(next);
    vector(asm, None);
    asm.add_imm(CHANNEL, bytes);
    asm.cmp(CHANNEL, WHOLE);
    asm.jump_if(Cond::Less, next);
    asm.bind(last);
    if let Some(rest) = rest {
        asm.load(T0, rest);
        asm.test(T0);
        asm.jump_if(Cond::Equal, done);
        let mask = asm.mask(0, Vreg(asm.registers() - 1));
        asm.mask_first(mask, T0, T1);
        vector(asm, Some(mask));
    }
    asm.bind(done);
}

/// Repeats `step` for `count` rows or columns of the tile, `stride` places apart. [`place`] and [`slot`] are those of
/// the first row or column.
fn repeat(asm: &mut Asm, count: usize, stride: usize, step: impl FnOnce(&mut Asm)) {
    let next = asm.label();
    asm.mov_imm(PLACE_AT, 0);
    asm.bind(next);
    step(asm);
    asm.add_imm(PLACE_AT, stride as i32 * POINTER);
    asm.cmp_imm(PLACE_AT, (count * stride) as i32 * POINTER);
    asm.jump_if(Cond::Less, next);
}

/// Where the tile's pointer number `index` is, counted from the row or column that is being repeated.
fn place(index: usize) -> Mem {
    Mem::indexed(TABLE, PLACE_AT, 1, index as i32 * POINTER)
}

/// Where its vector waits on the stack.
fn slot(asm: &Asm, index: usize) -> Mem {
    Mem { index: Some((PLACE_AT, (asm.vector_bytes() / POINTER) as u8)), ..asm.slot(index as u8) }
}

/// The steps that end outputs, in this order.
#[derive(Clone, Copy)]
pub(super) struct Epilogue {
    /// Type of the residual, where there is one.
    pub(super) residual: Stored,
    /// The activation.
    pub(super) activation: Option<UnaryOp>,
    /// Type of the output, rounded once.
    pub(super) output: Stored,
}

impl Epilogue {
    /// Where the activation is applied, with `free` free registers.
    fn place(&self, free: usize) -> Option<Place> {
        self.activation.map(|op| activation::place(op, free))
    }

    /// Whether outputs wait on the stack for a long activation, because stored outputs are rounded.
    fn sets_aside(&self, free: usize) -> bool {
        self.output == Stored::Bf16 && self.place(free) == Some(Place::Memory)
    }
}

/// The transform of inputs of type `stored`: from a table of pointers to a row of each point.
pub(super) fn input(asm: &mut Asm, tile: WinogradTile, stored: Stored, rest: bool) {
    macro_rules! arg {
        ($field:ident) => {
            Mem::at(ARGS, offset_of!(InputArgs, $field) as i32)
        };
    }
    let (side, rows) = (tile.side(), tile.input());
    let next = asm.label();
    asm.prologue();
    asm.spill(tile.points() as u8);
    asm.load(TABLE, arg!(table));
    asm.load(POINTS, arg!(to));
    asm.load(STEP, arg!(point_stride));
    asm.load(TILES, arg!(tiles));
    // Inputs, then four sums in turn, then factors; the last register is the mask on AVX2.
    let first = side as u8;
    let sums = [first, first + 1, first + 2, first + 3].map(Vreg);
    let factors = Factors::load(asm, rows, first + 4..asm.registers() - 1);
    asm.bind(next);
    channels(asm, arg!(whole), rest.then_some(arg!(rest)), |asm, mask| {
        let offset = if stored == Stored::F32 { CHANNEL } else { OFFSET };
        asm.mov(offset, CHANNEL);
        Stored::F32.emit_rescale(asm, offset, stored);
        repeat(asm, side, 1, |asm| {
            for row in 0..side {
                asm.load(PLACE, place(row * side));
                stored.load(asm, Vreg(row as u8), mask, Mem::indexed(PLACE, offset, 1, 0));
            }
            for (row, line) in rows.iter().enumerate() {
                let sum = sums[row % sums.len()];
                factors.sum(asm, line, sum);
                asm.vstore(slot(asm, row * side), sum);
            }
        });
        asm.lea(POINT, Mem::indexed(POINTS, CHANNEL, 1, 0));
        repeat(asm, side, side, |asm| {
            for column in 0..side {
                asm.vload(Vreg(column as u8), slot(asm, column));
            }
            for (column, line) in rows.iter().enumerate() {
                let sum = sums[column % sums.len()];
                factors.sum(asm, line, sum);
                // Rows of points are whole vectors.
                asm.vstore(Mem::at(POINT, 0), sum);
                asm.add(POINT, STEP);
            }
        });
    });
    asm.add_imm(TABLE, tile.points() as i32 * 8);
    asm.add_mem(POINTS, arg!(to_stride));
    asm.sub_imm(TILES, 1);
    asm.cmp_imm(TILES, 0);
    asm.jump_if(Cond::Greater, next);
    asm.unspill();
    asm.epilogue();
}

/// The transform of products: from a row of each point through a table of pointers, null where the tile reaches
/// beyond the output.
pub(super) fn output(asm: &mut Asm, tile: WinogradTile, epilogue: Epilogue, rest: bool) {
    macro_rules! arg {
        ($field:ident) => {
            Mem::at(ARGS, offset_of!(OutputArgs, $field) as i32)
        };
    }
    let (side, outputs, rows) = (tile.side(), tile.outputs(), tile.output());
    let next = asm.label();
    asm.prologue();
    asm.spill((side * outputs) as u8);
    asm.load(TABLE, arg!(table));
    asm.load(POINTS, arg!(from));
    asm.load(STEP, arg!(point_stride));
    asm.load(TILES, arg!(tiles));
    asm.load(RESIDUAL, arg!(residual));
    asm.load(OTHER, arg!(residual_offset));
    let first = (side + outputs) as u8;
    let factors = Factors::load(asm, rows, first..asm.registers() - 1);
    // Once a column of outputs is summed up, the registers of its terms are free.
    let temps: Vec<Vreg> = (0..side as u8).map(Vreg).collect();
    asm.bind(next);
    channels(asm, arg!(whole), rest.then_some(arg!(rest)), |asm, mask| {
        asm.lea(POINT, Mem::indexed(POINTS, CHANNEL, 1, 0));
        repeat(asm, side, outputs, |asm| {
            for column in 0..side {
                asm.vload(Vreg(column as u8), Mem::at(POINT, 0));
                asm.add(POINT, STEP);
            }
            for (column, line) in rows.iter().enumerate() {
                let sum = Vreg((side + column) as u8);
                factors.sum(asm, line, sum);
                asm.vstore(slot(asm, column), sum);
            }
        });
        asm.mov(OFFSET, CHANNEL);
        Stored::F32.emit_rescale(asm, OFFSET, epilogue.output);
        asm.add_mem(OFFSET, arg!(column));
        repeat(asm, outputs, 1, |asm| {
            for row in 0..side {
                asm.vload(Vreg(row as u8), slot(asm, row * outputs));
            }
            for (row, line) in rows.iter().enumerate() {
                factors.sum(asm, line, Vreg((side + row) as u8));
            }
            let results = (0..outputs).map(|row| (row * outputs, Vreg((side + row) as u8)));
            finish(asm, &epilogue, results, &temps, mask);
        });
        if let (Some(op), Some(Place::Memory)) = (epilogue.activation, epilogue.place(side)) {
            again(asm, op, &epilogue, tile, mask);
        }
    });
    asm.add_imm(TABLE, (outputs * outputs) as i32 * 8);
    asm.add_mem(POINTS, arg!(from_stride));
    asm.sub_imm(TILES, 1);
    asm.cmp_imm(TILES, 0);
    asm.jump_if(Cond::Greater, next);
    asm.unspill();
    asm.epilogue();
}

/// Residual, activation and store of some outputs, each with its place in the table.
fn finish(
    asm: &mut Asm,
    epilogue: &Epilogue,
    results: impl Iterator<Item = (usize, Vreg)> + Clone,
    temps: &[Vreg],
    mask: Option<Mask>,
) {
    let plain = asm.label();
    asm.test(RESIDUAL);
    asm.jump_if(Cond::Equal, plain);
    for (index, value) in results.clone() {
        let outside = aim(asm, index);
        asm.add(PLACE, OFFSET);
        epilogue.output.emit_rescale(asm, PLACE, epilogue.residual);
        let from = Mem::indexed(PLACE, OTHER, 1, 0);
        let residual = Operand::Folded(StoredVector { stored: epilogue.residual, from, to: temps[0] });
        Stage::Add(residual).emit(asm, value, Column::first(mask));
        asm.bind(outside);
    }
    asm.bind(plain);
    if let (Some(op), Some(Place::Registers)) = (epilogue.activation, epilogue.place(temps.len())) {
        Stage::Activate(op, temps).emit_all(asm, results.clone().map(|(_, value)| value));
    }
    for (index, value) in results {
        if epilogue.sets_aside(temps.len()) {
            asm.vstore(slot(asm, index), value);
            continue;
        }
        let outside = aim(asm, index);
        epilogue.output.store(asm, Mem::indexed(PLACE, OFFSET, 1, 0), mask, value, value);
        asm.bind(outside);
    }
}

/// Loads an output's pointer. The code jumps to the returned label if the output does not exist.
fn aim(asm: &mut Asm, index: usize) -> Label {
    let outside = asm.label();
    asm.load(PLACE, place(index));
    asm.test(PLACE);
    asm.jump_if(Cond::Equal, outside);
    outside
}

/// Applies a long activation, output by output, to outputs that were just stored or that wait on the stack. It may use
/// any register below the factors.
fn again(asm: &mut Asm, op: UnaryOp, epilogue: &Epilogue, tile: WinogradTile, mask: Option<Mask>) {
    let (side, outputs) = (tile.side(), tile.outputs());
    let temps: Vec<Vreg> = (1..(side + outputs) as u8).map(Vreg).collect();
    repeat(asm, outputs * outputs, 1, |asm| {
        let outside = aim(asm, 0);
        asm.add(PLACE, OFFSET);
        if epilogue.sets_aside(side) {
            asm.vload(Vreg(0), slot(asm, 0));
        } else {
            epilogue.output.load(asm, Vreg(0), mask, Mem::at(PLACE, 0));
        }
        Stage::Activate(op, &temps).emit_all(asm, [Vreg(0)]);
        epilogue.output.store(asm, Mem::at(PLACE, 0), mask, Vreg(0), Vreg(0));
        asm.bind(outside);
    });
}
