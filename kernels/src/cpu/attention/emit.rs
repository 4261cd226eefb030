//! Instructions of attention besides its tiles: what turns scores into weights, and the path of single queries.
//!
//! - [`Form::Weigh`]: rows of scores become exponentials, less the largest score that the row has met so far. What
//!   earlier keys gave is to be multiplied by the row's factor then, because the largest may have grown.
//! - [`Form::Scale`]: rows times their factors.
//! - [`stream`]: single queries, keys and values where they are.
//! - [`pairs`]: operands of AMX, and weights as bf16 pairs.
//!
//! Rows of scores have room for a vector behind their last key.

/// Address of an argument, in this file and in those below.
macro_rules! arg {
    ($args:ident, $field:ident) => {
        Mem::at(ARGS, offset_of!($args, $field) as i32)
    };
}

pub mod pairs;
pub mod stream;

use std::cell::Cell;
use std::mem::offset_of;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::FAMILY;
use crate::cpu::Stored;
use crate::cpu::chain::UnaryOp;
use crate::cpu::sweep::{self, Place};
use crate::cpu::vecmath;
use crate::isa::Isa;
use crate::jit::asm::Predicate;
use crate::jit::{Arguments, Asm, Cond, Extents, Gpr, Mem, Vreg, counted_down};

/// What one piece of code does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Form {
    /// Scores to weights.
    Weigh(Adjust),
    /// Rows times factors, stored as is said.
    Scale(Stored),
    /// A query times rows of keys.
    Dots,
    /// The weighted sum of rows of values.
    Blend,
    /// Scores to weights in bf16 pairs, in place: those of 32 keys after each other, padded with zeros.
    WeighPairs(Adjust),
    /// `bf16` rows as pairs of neighbouring elements.
    Round(Stored),
    /// `bf16` rows two by two, as pairs of an element of a row and of the next row.
    Interleave(Stored),
}

impl Form {
    /// Whether it makes bf16 pairs.
    pub(crate) fn makes_pairs(self) -> bool {
        matches!(self, Form::WeighPairs(_) | Form::Scale(Stored::Bf16) | Form::Round(_) | Form::Interleave(_))
    }
}

/// What happens to a score before the softmax, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
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
    /// The factor of earlier results.
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
    /// The score that replaces it.
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
    pub from: *const f32,
    /// Bytes from row to row.
    pub from_stride: usize,
    /// Where it goes, which may be where it is if both are `f32`.
    pub to: *mut u8,
    /// Bytes from row to row.
    pub to_stride: usize,
    /// Rows, at least 1.
    pub rows: usize,
    /// Elements of a row, at least 1.
    pub columns: usize,
    /// The first row's state, which has the factor.
    pub state: *const RowState,
}

impl Arguments for WeighArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = AttentionCode;

    fn extents(&self, code: &AttentionCode, extents: &mut Extents<'_>) {
        let (rows, keys) = (counted_down(self.rows), self.keys.saturating_mul(4));
        let (adjust, room) = match code.form {
            Form::WeighPairs(adjust) => (adjust, keys.max(self.keys.div_ceil(32) * 64)),
            // Zeros go from the first key that is not seen by whole vectors.
            Form::Weigh(adjust) if self.visible.get() < self.keys as isize => {
                (adjust, (self.keys + code.isa.lanes() - 1) * 4)
            }
            Form::Weigh(adjust) => (adjust, keys),
            _ => return,
        };
        extents.write("scores", self.scores).over(rows, self.stride).bytes(room);
        extents.write("states", self.state).over(rows, size_of::<RowState>()).bytes(size_of::<RowState>());
        if adjust.mask {
            extents.read("mask", self.mask).over(rows, self.mask_stride).bytes(keys);
        }
        if adjust.select {
            extents.read("condition", self.keep).over(rows, self.keep_stride).bytes(keys);
        }
    }
}

impl Arguments for ScaleArgs {
    const FAMILY: &'static str = FAMILY;
    /// How results are stored.
    type Kernel = Stored;

    fn extents(&self, stored: &Stored, extents: &mut Extents<'_>) {
        let rows = counted_down(self.rows);
        extents.read("rows", self.from).over(rows, self.from_stride).bytes(self.columns * 4);
        extents.write("results", self.to).over(rows, self.to_stride).bytes(self.columns * stored.bytes());
        extents.read("states", self.state).over(rows, size_of::<RowState>()).bytes(size_of::<RowState>());
    }
}

const ARGS: Gpr = Gpr::RDI;

/// Emits the code of that key.
pub fn emit(code: &AttentionCode, asm: &mut Asm) {
    asm.prologue();
    match code.form {
        Form::Weigh(adjust) => weigh(asm, adjust, Weights::Floats),
        Form::WeighPairs(adjust) => weigh(asm, adjust, Weights::Pairs),
        Form::Scale(stored) => scale(asm, stored),
        Form::Dots => stream::dots(asm),
        Form::Blend => stream::blend(asm),
        Form::Round(stored) => pairs::round(asm, stored),
        Form::Interleave(stored) => pairs::interleave(asm, stored),
    }
    asm.epilogue();
}

const ROW: Gpr = Gpr::RSI;
const ROWS: Gpr = Gpr::RCX;
const STATE_AT: Gpr = Gpr::R12;
const TO: Gpr = Gpr::RDX;
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
/// The factor of earlier results.
const FACTOR: Vreg = Vreg(14);
// Needed only before there are sums.
const FILL: Vreg = Vreg(4);
const CAP: Vreg = Vreg(5);
const CAP_INVERSE: Vreg = Vreg(6);

fn state(field: usize) -> Mem {
    Mem::at(STATE_AT, field as i32)
}

/// What weights become.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weights {
    Floats,
    Pairs,
}

fn weigh(asm: &mut Asm, adjust: Adjust, weights: Weights) {
    asm.load(ROW, arg!(WeighArgs, scores));
    asm.load(ROWS, arg!(WeighArgs, rows));
    asm.load(STATE_AT, arg!(WeighArgs, state));
    asm.load(KEYS, arg!(WeighArgs, keys));
    asm.load(MASK, arg!(WeighArgs, mask));
    asm.load(KEEP, arg!(WeighArgs, keep));
    if weights == Weights::Pairs {
        pairs::prepare(asm);
    }
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
    renew(asm);
    match weights {
        Weights::Floats => exponentials(asm),
        Weights::Pairs => pairs::exponentials(asm),
    }
    add_up(asm);
    asm.jump(fill);
    // A row that sees nothing stays as it is.
    asm.bind(blind);
    asm.mov_imm(if weights == Weights::Pairs { pairs::WEIGHTS_AT } else { SEEN }, 0);
    asm.vload(VALUE, 1.0);
    asm.vstore_one(state(offset_of!(RowState, factor)), VALUE);
    asm.bind(fill);
    match weights {
        Weights::Floats => hide(asm),
        Weights::Pairs => pairs::hide(asm),
    }
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

/// The row's new state, but for the sum.
fn renew(asm: &mut Asm) {
    let old = largest(1);
    asm.vbroadcast(old, state(offset_of!(RowState, most)));
    asm.vmax(MOST, old, largest(0));
    asm.vstore_one(state(offset_of!(RowState, most)), MOST);
    // Where nothing but minus infinity was met, zero is subtracted: weights are zero then, not NaN, and a later block
    // of keys may still have something to see.
    let nothing = asm.mask(1, TEMPS[1]);
    asm.compare(nothing, Predicate::Equal, MOST, f32::NEG_INFINITY);
    asm.vzero(VALUE);
    asm.select(MOST, nothing, VALUE, MOST);
    asm.vsub(FACTOR, old, MOST);
    vecmath::emit_exp_nonpositive(asm, FACTOR, &TEMPS[..vecmath::EXP_NONPOSITIVE_TEMPS]);
    asm.vstore_one(state(offset_of!(RowState, factor)), FACTOR);
    (0..CHAINS).for_each(|chain| asm.vzero(sum(chain)));
}

/// The second pass: weights in place of scores.
fn exponentials(asm: &mut Asm) {
    sweep::row(asm, |asm, place| {
        place.load(asm, VALUE, ROW);
        asm.vsub(VALUE, VALUE, MOST);
        vecmath::emit_exp_nonpositive(asm, VALUE, &TEMPS[..vecmath::EXP_NONPOSITIVE_TEMPS]);
        place.only(asm, VALUE, TEMPS[0]);
        place.store(asm, ROW, VALUE);
        asm.vadd(sum(place.chain), sum(place.chain), VALUE);
    });
}

/// Adds the weights to the row's sum.
fn add_up(asm: &mut Asm) {
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

fn scale(asm: &mut Asm, stored: Stored) {
    asm.load(ROW, arg!(ScaleArgs, from));
    asm.load(TO, arg!(ScaleArgs, to));
    asm.load(ROWS, arg!(ScaleArgs, rows));
    asm.load(STATE_AT, arg!(ScaleArgs, state));
    sweep::prepare_rows(asm, arg!(ScaleArgs, columns));
    let next = asm.label();
    asm.bind(next);
    asm.vbroadcast(FACTOR, state(offset_of!(RowState, factor)));
    sweep::row(asm, |asm, place| {
        place.load(asm, VALUE, ROW);
        asm.vmul(VALUE, VALUE, FACTOR);
        match stored {
            Stored::F32 => place.store(asm, TO, VALUE),
            Stored::Bf16 => place.store_bf16(asm, TO, VALUE),
        }
    });
    asm.add_mem(ROW, arg!(ScaleArgs, from_stride));
    asm.add_mem(TO, arg!(ScaleArgs, to_stride));
    asm.add_imm(STATE_AT, size_of::<RowState>() as i32);
    asm.sub_imm(ROWS, 1);
    asm.test(ROWS);
    asm.jump_if(Cond::NotEqual, next);
}
