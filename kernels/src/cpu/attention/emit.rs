//! Instructions of attention besides its products: the softmax of scores.
//!
//! - [`Form::Weigh`]: one block of keys of an online softmax. The scores of a row become weights, exponentials of the
//!   scores less the row's maximum so far. Where a block has a larger score, sums and results of earlier blocks have to
//!   be multiplied by a factor, which is kept in the row's state.
//! - [`Form::Scale`]: rows times their factors.
//! - [`pairs`]: operands of AMX, and weights as bf16 pairs.
//!
//! A row of scores has memory for one vector behind its last key.

pub mod pairs;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};
use std::cell::Cell;

use super::FAMILY;
use crate::cpu::Stored;
use crate::cpu::chain::UnaryOp;
use crate::cpu::loops::{self, Place};
use crate::cpu::vecmath;
use crate::isa::Isa;
use crate::jit::asm::Predicate;
use crate::jit::{Arguments, Asm, Extents, Gpr, Mem, Vreg, arg, counted_down};

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Form {
    /// Weights in place of scores.
    Weigh(Adjust),
    /// Rows times factors, stored as this type.
    Scale(Stored),
    /// Weights in place of scores, as bf16 pairs: words of 32 keys after each other, padded with zeros.
    WeighPairs(Adjust),
    /// Rows rounded to bf16 pairs of neighbouring elements.
    Round(Stored),
    /// Rows rounded to bf16 pairs of an element and the one below it.
    Interleave(Stored),
}

impl Form {
    /// Whether its results are bf16 pairs.
    pub(crate) fn makes_pairs(self) -> bool {
        matches!(self, Form::WeighPairs(_) | Form::Scale(Stored::Bf16) | Form::Round(_) | Form::Interleave(_))
    }
}

/// Changes to a score before the softmax, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Adjust {
    /// c tanh(s / c) with the cap c.
    pub cap: bool,
    /// Replaced by the fill value where the condition does not hold.
    pub select: bool,
    /// The mask is added.
    pub mask: bool,
}

impl Adjust {
    fn any(self) -> bool {
        self.cap || self.select || self.mask
    }
}

/// What determines the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct AttentionCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// What the code computes.
    pub form: Form,
}

/// The state of a row of scores between blocks of keys (online softmax).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RowState {
    /// The largest score so far.
    pub most: f32,
    /// The sum of exponentials of scores less `most`.
    pub sum: f32,
    /// The factor that results of earlier keys have to be multiplied by.
    pub factor: f32,
    /// Pads the struct to four elements.
    pub unused: f32,
}

/// Elements of scratch of one [`RowState`].
pub(super) const STATE: usize = size_of::<RowState>() / 4;

/// Arguments of [`Form::Weigh`]; strides are in bytes. Fields that the code itself updates from row to row are cells.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct WeighArgs {
    /// Scores of the first row, overwritten by weights.
    pub scores: *mut f32,
    /// From row to row of scores.
    pub stride: usize,
    /// Rows, at least 1.
    pub rows: usize,
    /// Keys of a row; weights of keys that the row does not see are zero.
    pub keys: usize,
    /// Keys that the first row sees: none if below 1, all if `keys` or more.
    pub visible: Cell<isize>,
    /// How many more keys each next row sees.
    pub step: isize,
    /// Keys that the current row sees: written by the code.
    pub seen: Cell<usize>,
    /// The mask of the first row.
    pub mask: *const f32,
    /// From row to row of the mask.
    pub mask_stride: usize,
    /// The condition of the first row: an element has all bits set where the score is kept, none where it is replaced.
    pub keep: *const f32,
    /// From row to row of the condition.
    pub keep_stride: usize,
    /// The score that replaces those that are not kept.
    pub fill: f32,
    /// The cap.
    pub cap: f32,
    /// 1 / cap.
    pub cap_inverse: f32,
    /// The state of the first row.
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
    /// The first result; the same address as `from` is allowed where both are `f32`.
    pub to: *mut u8,
    /// Bytes from row to row.
    pub to_stride: usize,
    /// Rows, at least 1.
    pub rows: usize,
    /// Elements of a row, at least 1.
    pub columns: usize,
    /// The state of the first row, which has its factor.
    pub state: *const RowState,
}

impl Arguments for WeighArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = AttentionCode;

    fn extents(&self, code: &AttentionCode, extents: &mut Extents<'_>) {
        let (rows, keys) = (counted_down(self.rows), self.keys.saturating_mul(4));
        let (adjust, room) = match code.form {
            Form::WeighPairs(adjust) => (adjust, keys.max(self.keys.div_ceil(32) * 64)),
            // Zeros are written by whole vectors, from the first key that is not seen.
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
    /// Element type of results.
    type Kernel = Stored;

    fn extents(&self, stored: &Stored, extents: &mut Extents<'_>) {
        let rows = counted_down(self.rows);
        extents.read("rows", self.from).over(rows, self.from_stride).bytes(self.columns * 4);
        extents.write("results", self.to).over(rows, self.to_stride).bytes(self.columns * stored.bytes());
        extents.read("states", self.state).over(rows, size_of::<RowState>()).bytes(size_of::<RowState>());
    }
}

/// Emits the code of that key.
pub fn emit(code: &AttentionCode, asm: &mut Asm) {
    asm.prologue();
    match code.form {
        Form::Weigh(adjust) => weigh(asm, adjust, Weights::Floats),
        Form::WeighPairs(adjust) => weigh(asm, adjust, Weights::Pairs),
        Form::Scale(stored) => scale(asm, stored),
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

const VECTORS: u8 = loops::UNROLL;

const fn largest(vector: u8) -> Vreg {
    Vreg(vector)
}

const fn sum(vector: u8) -> Vreg {
    Vreg(VECTORS + vector)
}

const VALUE: Vreg = Vreg(8);
const TEMPS: [Vreg; 4] = [Vreg(9), Vreg(10), Vreg(11), Vreg(12)];
/// The largest score, which is subtracted.
const MOST: Vreg = Vreg(13);
/// The factor of earlier results.
const FACTOR: Vreg = Vreg(14);
// In use only before there are sums.
const FILL: Vreg = Vreg(4);
const CAP: Vreg = Vreg(5);
const CAP_INVERSE: Vreg = Vreg(6);

/// The type of weights.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weights {
    Floats,
    Pairs,
}

fn weigh(asm: &mut Asm, adjust: Adjust, weights: Weights) {
    asm.load(ROW, arg!(WeighArgs.scores));
    asm.load(ROWS, arg!(WeighArgs.rows));
    asm.load(STATE_AT, arg!(WeighArgs.state));
    asm.load(KEYS, arg!(WeighArgs.keys));
    asm.load(MASK, arg!(WeighArgs.mask));
    asm.load(KEEP, arg!(WeighArgs.keep));
    if weights == Weights::Pairs {
        pairs::prepare(asm);
    }
    asm.repeat(ROWS, |asm| {
        weigh_row(asm, adjust, weights);
        asm.add_mem(ROW, arg!(WeighArgs.stride));
        asm.add_mem(MASK, arg!(WeighArgs.mask_stride));
        asm.add_mem(KEEP, arg!(WeighArgs.keep_stride));
        asm.add_imm(STATE_AT, size_of::<RowState>() as i32);
        asm.load(SEEN, arg!(WeighArgs.visible));
        asm.add_mem(SEEN, arg!(WeighArgs.step));
        asm.store(arg!(WeighArgs.visible), SEEN);
    });
}

/// The weights of one row.
fn weigh_row(asm: &mut Asm, adjust: Adjust, weights: Weights) {
    asm.load(SEEN, arg!(WeighArgs.visible));
    asm.min(SEEN, KEYS);
    asm.if_at_least_else(
        SEEN,
        1,
        |asm| {
            asm.store(arg!(WeighArgs.seen), SEEN);
            loops::prepare_rows(asm, arg!(WeighArgs.seen));
            maximum(asm, adjust);
            update_maximum(asm);
            match weights {
                Weights::Floats => exponentials(asm),
                Weights::Pairs => pairs::exponentials(asm),
            }
            update_sum(asm);
        },
        |asm| {
            // A row that sees no key keeps its results.
            asm.mov_imm(if weights == Weights::Pairs { pairs::WEIGHTS_AT } else { SEEN }, 0);
            asm.vload(VALUE, 1.0);
            asm.vstore_one(arg!(STATE_AT, RowState.factor), VALUE);
        },
    );
    match weights {
        Weights::Floats => clear_unseen(asm),
        Weights::Pairs => pairs::clear_unseen(asm),
    }
}

/// The first pass over a row: adjusts its scores and takes their maximum.
fn maximum(asm: &mut Asm, adjust: Adjust) {
    (0..VECTORS).for_each(|vector| asm.vload(largest(vector), f32::NEG_INFINITY));
    if adjust.select {
        asm.vbroadcast(FILL, arg!(WeighArgs.fill));
    }
    if adjust.cap {
        asm.vbroadcast(CAP, arg!(WeighArgs.cap));
        asm.vbroadcast(CAP_INVERSE, arg!(WeighArgs.cap_inverse));
    }
    loops::row(asm, |asm, place| {
        let most = largest(place.vector);
        if !adjust.any() && place.tail.is_none() {
            return asm.vmax(most, most, place.address(ROW));
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
        // The maximum may lose a NaN, which the exponential brings back.
        place.fold(asm, most, TEMPS[0], |asm, to, most| asm.vmax(to, most, VALUE));
    });
    for (to, from) in [(0, 1), (2, 3), (0, 2)] {
        asm.vmax(largest(to), largest(to), largest(from));
    }
    asm.vreduce_max(largest(0), largest(0), VALUE);
}

/// VALUE += the row at `base`.
fn add(asm: &mut Asm, place: Place, base: Gpr) {
    if place.tail.is_none() {
        return asm.vadd(VALUE, VALUE, place.address(base));
    }
    place.load(asm, TEMPS[0], base);
    asm.vadd(VALUE, VALUE, TEMPS[0]);
}

/// Updates the maximum of the row's state, and computes the factor of earlier results.
fn update_maximum(asm: &mut Asm) {
    let old = largest(1);
    asm.vbroadcast(old, arg!(STATE_AT, RowState.most));
    asm.vmax(MOST, old, largest(0));
    asm.vstore_one(arg!(STATE_AT, RowState.most), MOST);
    // Where all scores are minus infinity, zero is subtracted: weights are zero then and not NaN, and a later block may
    // have keys that the row sees.
    let nothing = asm.mask(1, TEMPS[1]);
    asm.compare(nothing, Predicate::Equal, MOST, f32::NEG_INFINITY);
    asm.vzero(VALUE);
    asm.select(MOST, nothing, VALUE, MOST);
    asm.vsub(FACTOR, old, MOST);
    vecmath::emit_exp_nonpositive(asm, FACTOR, &TEMPS[..vecmath::EXP_NONPOSITIVE_TEMPS]);
    asm.vstore_one(arg!(STATE_AT, RowState.factor), FACTOR);
    (0..VECTORS).for_each(|vector| asm.vzero(sum(vector)));
}

/// The second pass: weights in place of scores.
fn exponentials(asm: &mut Asm) {
    loops::row(asm, |asm, place| {
        place.load(asm, VALUE, ROW);
        asm.vsub(VALUE, VALUE, MOST);
        vecmath::emit_exp_nonpositive(asm, VALUE, &TEMPS[..vecmath::EXP_NONPOSITIVE_TEMPS]);
        place.clear_unused(asm, VALUE, TEMPS[0]);
        place.store(asm, ROW, VALUE);
        asm.vadd(sum(place.vector), sum(place.vector), VALUE);
    });
}

/// Updates the sum of the row's state.
fn update_sum(asm: &mut Asm) {
    for (to, from) in [(0, 1), (2, 3), (0, 2)] {
        asm.vadd(sum(to), sum(to), sum(from));
    }
    asm.vreduce_add(sum(0), sum(0), VALUE);
    asm.vbroadcast(VALUE, arg!(STATE_AT, RowState.sum));
    asm.vfma231(sum(0), VALUE, FACTOR);
    asm.vstore_one(arg!(STATE_AT, RowState.sum), sum(0));
}

/// Writes zeros from the first key that the row does not see, by whole vectors: a row has memory for one behind its
/// last key.
fn clear_unseen(asm: &mut Asm) {
    asm.vzero(VALUE);
    asm.while_less_compact(SEEN, KEYS, |asm| {
        asm.vstore(Mem::indexed(ROW, SEEN, 4, 0), VALUE);
        asm.add_imm(SEEN, asm.lanes() as i32);
    });
}

fn scale(asm: &mut Asm, stored: Stored) {
    asm.load(ROW, arg!(ScaleArgs.from));
    asm.load(TO, arg!(ScaleArgs.to));
    asm.load(ROWS, arg!(ScaleArgs.rows));
    asm.load(STATE_AT, arg!(ScaleArgs.state));
    loops::prepare_rows(asm, arg!(ScaleArgs.columns));
    asm.repeat(ROWS, |asm| {
        asm.vbroadcast(FACTOR, arg!(STATE_AT, RowState.factor));
        loops::row(asm, |asm, place| {
            place.load(asm, VALUE, ROW);
            asm.vmul(VALUE, VALUE, FACTOR);
            place.store_as(stored, asm, TO, VALUE);
        });
        asm.add_mem(ROW, arg!(ScaleArgs.from_stride));
        asm.add_mem(TO, arg!(ScaleArgs.to_stride));
        asm.add_imm(STATE_AT, size_of::<RowState>() as i32);
    });
}
