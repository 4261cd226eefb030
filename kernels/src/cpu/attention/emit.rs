//! Instructions of attention besides its tiles: what turns scores into weights, and the path of single queries.
//!
//! - [`Form::Weigh`]: rows of scores become exponentials, less the largest score that the row has met so far. What
//!   earlier keys gave is to be multiplied by the row's factor then, because the largest may have grown.
//! - [`Form::Scale`]: rows times their factors.
//! - [`Form::Dots`]: one query times rows of keys, a vector of scores at a time.
//! - [`Form::Blend`]: rows of values, weighted, added up in registers: keys and values are read once, front to back.
//!
//! Rows of scores have room for a vector behind their last key.

use std::cell::Cell;
use std::mem::offset_of;

use serde::{Deserialize, Serialize};

use crate::cpu::chain::UnaryOp;
use crate::cpu::sweep::{self, Place};
use crate::cpu::vecmath;
use crate::isa::Isa;
use crate::jit::asm::Predicate;
use crate::jit::{Asm, Cond, Gpr, Mem, Vreg};

/// What one piece of code does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Form {
    /// Scores to weights.
    Weigh(Adjust),
    /// Rows times factors.
    Scale,
    /// A query times rows of keys.
    Dots,
    /// The weighted sum of rows of values.
    Blend,
}

/// What happens to a score before the softmax, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Adjust {
    /// It is bent to stay within a cap.
    pub cap: bool,
    /// It is replaced where a condition does not hold.
    pub select: bool,
    /// A mask is added.
    pub mask: bool,
}

impl Adjust {
    fn any(self) -> bool {
        self.cap || self.select || self.mask
    }
}

/// All that shapes the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AttentionCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// What it does.
    pub form: Form,
}

/// What is kept of a row of scores while its keys go by.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RowState {
    /// The largest score so far.
    pub most: f32,
    /// The sum of exponentials, relative to it.
    pub sum: f32,
    /// What earlier results have to be multiplied by.
    pub factor: f32,
    /// Makes the struct four numbers long.
    pub unused: f32,
}

/// Elements of scratch that a [`RowState`] takes.
pub(super) const STATE: usize = size_of::<RowState>() / 4;

/// Arguments of [`Form::Weigh`]; strides are in bytes. What changes from row to row is a cell, because the code itself
/// changes it.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct WeighArgs {
    /// Scores of the first row; weights afterwards.
    pub scores: *mut f32,
    /// From row to row.
    pub stride: usize,
    /// Rows, at least 1.
    pub rows: usize,
    /// Keys of a row; weights of those that it does not see are zero.
    pub keys: usize,
    /// Keys that the first row sees: below 1 for none, beyond `keys` for all.
    pub visible: Cell<isize>,
    /// How many more each next row sees.
    pub step: isize,
    /// Keys that the current row sees: the code's own.
    pub seen: Cell<usize>,
    /// Added to the first row.
    pub mask: *const f32,
    /// From row to row.
    pub mask_stride: usize,
    /// All bits where a score of the first row is kept, none where it is replaced.
    pub keep: *const f32,
    /// From row to row.
    pub keep_stride: usize,
    /// What replaces it.
    pub fill: f32,
    /// The cap.
    pub cap: f32,
    /// One over it.
    pub cap_inverse: f32,
    /// The first row's state.
    pub state: *mut RowState,
}

/// Arguments of [`Form::Scale`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ScaleArgs {
    /// The first row.
    pub data: *mut f32,
    /// Bytes from row to row.
    pub stride: usize,
    /// Rows, at least 1.
    pub rows: usize,
    /// Elements of a row, at least 1.
    pub columns: usize,
    /// The first row's state, which has the factor.
    pub state: *const RowState,
}

/// Arguments of [`Form::Dots`] and [`Form::Blend`]. Rows are those of keys or values.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StreamArgs {
    /// The query, or the weights.
    pub left: *const f32,
    /// The first row.
    pub rows: *const f32,
    /// Bytes from row to row.
    pub stride: usize,
    /// Rows, at least 1.
    pub count: usize,
    /// Elements of a row, at least 1.
    pub columns: usize,
    /// The scores, or the sum.
    pub out: *mut f32,
    /// Not 0 where the sum goes on from what is there ([`Form::Blend`]).
    pub resume: usize,
    /// Factor of the scores ([`Form::Dots`]).
    pub scale: f32,
}

const ARGS: Gpr = Gpr::RDI;

macro_rules! arg {
    ($args:ident, $field:ident) => {
        Mem::at(ARGS, offset_of!($args, $field) as i32)
    };
}

/// Emits the code of that key.
pub fn emit(code: &AttentionCode, asm: &mut Asm) {
    asm.prologue();
    match code.form {
        Form::Weigh(adjust) => weigh(asm, adjust),
        Form::Scale => scale(asm),
        Form::Dots => dots(asm),
        Form::Blend => blend(asm),
    }
    asm.epilogue();
}

const ROW: Gpr = Gpr::RSI;
const ROWS: Gpr = Gpr::RCX;
const STATE_AT: Gpr = Gpr::R12;
const MASK: Gpr = Gpr::RDX;
const KEEP: Gpr = Gpr::RBX;
const SEEN: Gpr = Gpr::R13;
const KEYS: Gpr = Gpr::R14;

const CHAINS: u8 = sweep::UNROLL;

const fn largest(chain: u8) -> Vreg {
    Vreg(chain)
}

const fn sum(chain: u8) -> Vreg {
    Vreg(CHAINS + chain)
}

const VALUE: Vreg = Vreg(8);
const TEMPS: [Vreg; 4] = [Vreg(9), Vreg(10), Vreg(11), Vreg(12)];
/// What is subtracted from scores.
const MOST: Vreg = Vreg(13);
/// What earlier results are multiplied by.
const FACTOR: Vreg = Vreg(14);
// Needed only before there are sums.
const FILL: Vreg = Vreg(4);
const CAP: Vreg = Vreg(5);
const CAP_INVERSE: Vreg = Vreg(6);

fn state(field: usize) -> Mem {
    Mem::at(STATE_AT, field as i32)
}

fn weigh(asm: &mut Asm, adjust: Adjust) {
    asm.load(ROW, arg!(WeighArgs, scores));
    asm.load(ROWS, arg!(WeighArgs, rows));
    asm.load(STATE_AT, arg!(WeighArgs, state));
    asm.load(KEYS, arg!(WeighArgs, keys));
    asm.load(MASK, arg!(WeighArgs, mask));
    asm.load(KEEP, arg!(WeighArgs, keep));
    let (next, some, all, blind, fill) = (asm.label(), asm.label(), asm.label(), asm.label(), asm.label());
    asm.bind(next);
    asm.load(SEEN, arg!(WeighArgs, visible));
    asm.cmp(SEEN, KEYS);
    asm.jump_if(Cond::Less, some);
    asm.mov(SEEN, KEYS);
    asm.bind(some);
    asm.cmp_imm(SEEN, 0);
    asm.jump_if(Cond::Greater, all);
    asm.jump(blind);
    asm.bind(all);
    asm.store(arg!(WeighArgs, seen), SEEN);
    sweep::prepare_rows(asm, arg!(WeighArgs, seen));
    greatest(asm, adjust);
    exponentials(asm);
    asm.jump(fill);
    // A row that sees nothing stays as it is.
    asm.bind(blind);
    asm.mov_imm(SEEN, 0);
    asm.vload(VALUE, 1.0);
    asm.vstore_one(state(offset_of!(RowState, factor)), VALUE);
    asm.bind(fill);
    hide(asm);
    asm.add_mem(ROW, arg!(WeighArgs, stride));
    asm.add_mem(MASK, arg!(WeighArgs, mask_stride));
    asm.add_mem(KEEP, arg!(WeighArgs, keep_stride));
    asm.add_imm(STATE_AT, size_of::<RowState>() as i32);
    asm.load(SEEN, arg!(WeighArgs, visible));
    asm.add_mem(SEEN, arg!(WeighArgs, step));
    asm.store(arg!(WeighArgs, visible), SEEN);
    asm.sub_imm(ROWS, 1);
    asm.test(ROWS);
    asm.jump_if(Cond::NotEqual, next);
}

/// The first pass over a row: adjusts scores and finds the largest.
fn greatest(asm: &mut Asm, adjust: Adjust) {
    (0..CHAINS).for_each(|chain| asm.vload(largest(chain), f32::NEG_INFINITY));
    if adjust.select {
        asm.vbroadcast(FILL, arg!(WeighArgs, fill));
    }
    if adjust.cap {
        asm.vbroadcast(CAP, arg!(WeighArgs, cap));
        asm.vbroadcast(CAP_INVERSE, arg!(WeighArgs, cap_inverse));
    }
    sweep::row(asm, |asm, place| {
        let most = largest(place.chain);
        if !adjust.any() && place.tail.is_none() {
            return asm.vmax(most, most, place.of(ROW));
        }
        place.load(asm, VALUE, ROW);
        if adjust.cap {
            asm.vmul(VALUE, VALUE, CAP_INVERSE);
            vecmath::emit_unary(asm, UnaryOp::Tanh, VALUE, &TEMPS);
            asm.vmul(VALUE, VALUE, CAP);
        }
        if adjust.select {
            place.load(asm, TEMPS[0], KEEP);
            asm.vand(VALUE, VALUE, TEMPS[0]);
            asm.vandn(TEMPS[0], TEMPS[0], FILL);
            asm.vor(VALUE, VALUE, TEMPS[0]);
        }
        if adjust.mask {
            add(asm, place, MASK);
        }
        if adjust.any() {
            place.store(asm, ROW, VALUE);
        }
        // NaN may get lost here: the exponential brings it back.
        place.fold(asm, most, TEMPS[0], |asm, to, most| asm.vmax(to, most, VALUE));
    });
    for (to, from) in [(0, 1), (2, 3), (0, 2)] {
        asm.vmax(largest(to), largest(to), largest(from));
    }
    asm.vreduce_max(largest(0), largest(0), VALUE);
}

fn add(asm: &mut Asm, place: Place, base: Gpr) {
    if place.tail.is_none() {
        return asm.vadd(VALUE, VALUE, place.of(base));
    }
    place.load(asm, TEMPS[0], base);
    asm.vadd(VALUE, VALUE, TEMPS[0]);
}

/// The second pass: the row's new state, and weights in place of scores.
fn exponentials(asm: &mut Asm) {
    let old = largest(1);
    asm.vbroadcast(old, state(offset_of!(RowState, most)));
    asm.vmax(MOST, old, largest(0));
    asm.vstore_one(state(offset_of!(RowState, most)), MOST);
    // Where nothing but minus infinity was met, zero is subtracted: weights are zero then, not NaN, and a later block of
    // keys may still have something to see.
    let nothing = asm.mask(1, TEMPS[1]);
    asm.compare(nothing, Predicate::Equal, MOST, f32::NEG_INFINITY);
    asm.vzero(VALUE);
    asm.select(MOST, nothing, VALUE, MOST);
    asm.vsub(FACTOR, old, MOST);
    vecmath::emit_exp_nonpositive(asm, FACTOR, &TEMPS[..vecmath::EXP_NONPOSITIVE_TEMPS]);
    asm.vstore_one(state(offset_of!(RowState, factor)), FACTOR);
    (0..CHAINS).for_each(|chain| asm.vzero(sum(chain)));
    sweep::row(asm, |asm, place| {
        place.load(asm, VALUE, ROW);
        asm.vsub(VALUE, VALUE, MOST);
        vecmath::emit_exp_nonpositive(asm, VALUE, &TEMPS[..vecmath::EXP_NONPOSITIVE_TEMPS]);
        place.only(asm, VALUE, TEMPS[0]);
        place.store(asm, ROW, VALUE);
        asm.vadd(sum(place.chain), sum(place.chain), VALUE);
    });
    for (to, from) in [(0, 1), (2, 3), (0, 2)] {
        asm.vadd(sum(to), sum(to), sum(from));
    }
    asm.vreduce_add(sum(0), sum(0), VALUE);
    asm.vbroadcast(VALUE, state(offset_of!(RowState, sum)));
    asm.vfma231(sum(0), VALUE, FACTOR);
    asm.vstore_one(state(offset_of!(RowState, sum)), sum(0));
}

/// Zeros from the first key that the row does not see on, by whole vectors: there is room for one behind the last key.
fn hide(asm: &mut Asm) {
    let (next, done) = (asm.label(), asm.label());
    asm.vzero(VALUE);
    asm.bind(next);
    asm.cmp(SEEN, KEYS);
    asm.jump_if(Cond::GreaterEqual, done);
    asm.vstore(Mem::indexed(ROW, SEEN, 4, 0), VALUE);
    asm.add_imm(SEEN, asm.lanes() as i32);
    asm.jump(next);
    asm.bind(done);
}

fn scale(asm: &mut Asm) {
    asm.load(ROW, arg!(ScaleArgs, data));
    asm.load(ROWS, arg!(ScaleArgs, rows));
    asm.load(STATE_AT, arg!(ScaleArgs, state));
    sweep::prepare_rows(asm, arg!(ScaleArgs, columns));
    let next = asm.label();
    asm.bind(next);
    asm.vbroadcast(FACTOR, state(offset_of!(RowState, factor)));
    sweep::row(asm, |asm, place| {
        place.load(asm, VALUE, ROW);
        asm.vmul(VALUE, VALUE, FACTOR);
        place.store(asm, ROW, VALUE);
    });
    asm.add_mem(ROW, arg!(ScaleArgs, stride));
    asm.add_imm(STATE_AT, size_of::<RowState>() as i32);
    asm.sub_imm(ROWS, 1);
    asm.test(ROWS);
    asm.jump_if(Cond::NotEqual, next);
}

const LEFT: Gpr = Gpr::RSI;
const RIGHT: Gpr = Gpr::RDX;
const OUT: Gpr = Gpr::RCX;
const STRIDE: Gpr = Gpr::R8;
const STRIDE3: Gpr = Gpr::R9;
const COUNT: Gpr = Gpr::R10;
const AT: Gpr = Gpr::RAX;
const VECTORS: Gpr = Gpr::R11;
const REST: Gpr = Gpr::RBX;
/// The first of each four rows that are multiplied side by side.
const FOURS: [Gpr; 4] = [Gpr::R12, Gpr::R13, Gpr::R14, Gpr::R15];

/// Loads what both streaming forms share: pointers, bytes of a row in whole vectors, elements behind them.
fn stream(asm: &mut Asm) {
    asm.load(LEFT, arg!(StreamArgs, left));
    asm.load(RIGHT, arg!(StreamArgs, rows));
    asm.load(OUT, arg!(StreamArgs, out));
    asm.load(STRIDE, arg!(StreamArgs, stride));
    asm.load(COUNT, arg!(StreamArgs, count));
    asm.load(REST, arg!(StreamArgs, columns));
}

/// Row `row` of those that are multiplied side by side.
fn row_of(row: u8) -> Mem {
    let base = FOURS[usize::from(row / 4)];
    match row % 4 {
        0 => Mem::at(base, 0),
        1 => Mem::indexed(base, STRIDE, 1, 0),
        2 => Mem::indexed(base, STRIDE, 2, 0),
        _ => Mem::indexed(base, STRIDE3, 1, 0),
    }
}

fn dots(asm: &mut Asm) {
    let lanes = asm.lanes() as u8;
    stream(asm);
    asm.lea(STRIDE3, Mem::indexed(STRIDE, STRIDE, 2, 0));
    asm.mov(VECTORS, REST);
    asm.and_imm(VECTORS, -i32::from(lanes));
    asm.shl_imm(VECTORS, 2);
    asm.and_imm(REST, i32::from(lanes) - 1);
    let tail = asm.mask(0, sweep::TAIL);
    asm.mask_first(tail, REST, AT);
    // As many rows at a time as a vector has lanes, so that their sums are one vector; then row by row.
    for rows in [lanes, 1] {
        let (next, done) = (asm.label(), asm.label());
        asm.bind(next);
        asm.cmp_imm(COUNT, i32::from(rows));
        asm.jump_if(Cond::Less, done);
        products(asm, rows);
        let total = if rows > 1 { fold(asm, lanes) } else { Vreg(0) };
        let (factor, scratch) = (Vreg(lanes), Vreg(lanes + 1));
        asm.vbroadcast(factor, arg!(StreamArgs, scale));
        if rows > 1 {
            asm.vmul(total, total, factor);
            asm.vstore(Mem::at(OUT, 0), total);
        } else {
            asm.vreduce_add(total, total, scratch);
            asm.vmul(total, total, factor);
            asm.vstore_one(Mem::at(OUT, 0), total);
        }
        asm.add_imm(OUT, i32::from(rows) * 4);
        for _ in 0..rows.div_ceil(8) {
            asm.lea(RIGHT, Mem::indexed(RIGHT, STRIDE, rows.min(8), 0));
        }
        asm.sub_imm(COUNT, i32::from(rows));
        asm.jump(next);
        asm.bind(done);
    }
}

/// The first `rows` registers become sums of products of the query with a row each.
fn products(asm: &mut Asm, rows: u8) {
    let bytes = asm.vector_bytes();
    let (query, right) = (Vreg(asm.lanes() as u8), Vreg(asm.lanes() as u8 + 1));
    let fours = usize::from(rows.div_ceil(4));
    asm.mov(FOURS[0], RIGHT);
    for four in 1..fours {
        asm.lea(FOURS[four], Mem::indexed(FOURS[four - 1], STRIDE, 4, 0));
    }
    (0..rows).for_each(|row| asm.vzero(Vreg(row)));
    asm.mov_imm(AT, 0);
    let (next, rest, done) = (asm.label(), asm.label(), asm.label());
    asm.cmp(AT, VECTORS);
    asm.jump_if(Cond::GreaterEqual, rest);
    asm.align(16);
    asm.bind(next);
    asm.vload(query, Mem::indexed(LEFT, AT, 1, 0));
    (0..rows).for_each(|row| asm.vfma231(Vreg(row), query, row_of(row)));
    FOURS[..fours].iter().for_each(|&four| asm.add_imm(four, bytes));
    asm.add_imm(AT, bytes);
    asm.cmp(AT, VECTORS);
    asm.jump_if(Cond::Less, next);
    asm.bind(rest);
    asm.test(REST);
    asm.jump_if(Cond::Equal, done);
    let tail = asm.mask(0, sweep::TAIL);
    asm.vload_masked(query, tail, Mem::indexed(LEFT, AT, 1, 0));
    for row in 0..rows {
        asm.vload_masked(right, tail, row_of(row));
        asm.vfma231(Vreg(row), query, right);
    }
    asm.bind(done);
}

/// Adds up the lanes of each of the first `lanes` registers: lane i of the result is the sum of register i.
fn fold(asm: &mut Asm, lanes: u8) -> Vreg {
    let temp = Vreg(lanes);
    // Four registers become one whose 128-bit groups each hold four sums of four lanes.
    for four in (0..lanes).step_by(4) {
        for pair in [four, four + 2] {
            asm.vunpack_lo_32(temp, Vreg(pair), Vreg(pair + 1));
            asm.vunpack_hi_32(Vreg(pair), Vreg(pair), Vreg(pair + 1));
            asm.vadd(Vreg(pair), Vreg(pair), temp);
        }
        asm.vunpack_lo_64(temp, Vreg(four), Vreg(four + 2));
        asm.vunpack_hi_64(Vreg(four), Vreg(four), Vreg(four + 2));
        asm.vadd(Vreg(four), Vreg(four), temp);
    }
    // Even groups by the one selector, odd groups by the other.
    let mut join = |to: u8, other: u8, even: u8, odd: u8| {
        asm.vshuffle_128(temp, Vreg(to), Vreg(other), even);
        asm.vshuffle_128(Vreg(to), Vreg(to), Vreg(other), odd);
        asm.vadd(Vreg(to), Vreg(to), temp);
    };
    if lanes == 8 {
        join(0, 4, 0x20, 0x31);
    } else {
        join(0, 4, 0x88, 0xdd);
        join(8, 12, 0x88, 0xdd);
        join(0, 8, 0x88, 0xdd);
    }
    Vreg(0)
}

fn blend(asm: &mut Asm) {
    let lanes = asm.lanes() as i32;
    stream(asm);
    // Columns by as many vectors at a time as there are; what is left, behind a mask.
    for vectors in [8u8, 4, 2, 1, 0] {
        let (next, done) = (asm.label(), asm.label());
        let columns = i32::from(vectors) * lanes;
        asm.bind(next);
        if vectors == 0 {
            asm.test(REST);
            asm.jump_if(Cond::Equal, done);
            let tail = asm.mask(0, sweep::TAIL);
            asm.mask_first(tail, REST, AT);
            column(asm, 1, true);
        } else {
            asm.cmp_imm(REST, columns);
            asm.jump_if(Cond::Less, done);
            column(asm, vectors, false);
            asm.add_imm(RIGHT, columns * 4);
            asm.add_imm(OUT, columns * 4);
            asm.sub_imm(REST, columns);
            asm.jump(next);
        }
        asm.bind(done);
    }
}

/// A few vectors of columns, down all rows.
fn column(asm: &mut Asm, vectors: u8, partial: bool) {
    let bytes = asm.vector_bytes();
    let tail = asm.mask(0, sweep::TAIL);
    let (weight, value) = (Vreg(12), Vreg(13));
    let (zero, ready, next) = (asm.label(), asm.label(), asm.label());
    asm.load(AT, arg!(StreamArgs, resume));
    asm.test(AT);
    asm.jump_if(Cond::Equal, zero);
    for vector in 0..vectors {
        let at = Mem::at(OUT, i32::from(vector) * bytes);
        if partial { asm.vload_masked(Vreg(vector), tail, at) } else { asm.vload(Vreg(vector), at) }
    }
    asm.jump(ready);
    asm.bind(zero);
    (0..vectors).for_each(|vector| asm.vzero(Vreg(vector)));
    asm.bind(ready);
    asm.mov(FOURS[0], RIGHT);
    asm.mov_imm(AT, 0);
    asm.align(16);
    asm.bind(next);
    asm.vbroadcast(weight, Mem::indexed(LEFT, AT, 4, 0));
    for vector in 0..vectors {
        let at = Mem::at(FOURS[0], i32::from(vector) * bytes);
        if partial {
            asm.vload_masked(value, tail, at);
            asm.vfma231(Vreg(vector), weight, value);
        } else {
            asm.vfma231(Vreg(vector), weight, at);
        }
    }
    asm.add(FOURS[0], STRIDE);
    asm.add_imm(AT, 1);
    asm.cmp(AT, COUNT);
    asm.jump_if(Cond::Less, next);
    for vector in 0..vectors {
        let at = Mem::at(OUT, i32::from(vector) * bytes);
        if partial { asm.vstore_masked(at, tail, Vreg(vector)) } else { asm.vstore(at, Vreg(vector)) }
    }
}
