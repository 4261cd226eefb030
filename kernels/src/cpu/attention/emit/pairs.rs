//! Operands of AMX as bf16 pairs: queries and keys as pairs of neighbouring features, values as pairs of neighbouring
//! rows, and weights as pairs of neighbouring keys, padded with zeros to whole AMX steps of 32.
//!
//! Sums and largest scores of rows stay in `f32`, and so do the weights that are summed: only the operands of AMX are
//! rounded.

use super::{KEYS, MOST, ROW, SEEN, VALUE, sum};
use crate::cpu::Stored;
use crate::cpu::attention::FAMILY;
use crate::jit::{Arguments, Asm, Extents, Gpr, Mask, Mem, Vreg, arg, counted_down};

/// Arguments of [`Form::Round`](super::Form::Round): rows of elements, times a factor, become rows of AMX steps.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RoundArgs {
    /// The first row.
    pub from: *const u8,
    /// Bytes from row to row.
    pub from_stride: usize,
    /// The words of the first row.
    pub to: *mut f32,
    /// Bytes from row to row.
    pub to_stride: usize,
    /// Rows, at least 1.
    pub rows: usize,
    /// Whole AMX steps of a row.
    pub steps: usize,
    /// Elements of the first and the second half of the partial step behind them; nothing is written where both are 0.
    pub rest: [usize; 2],
    /// The factor of elements.
    pub scale: f32,
}

/// Arguments of [`Form::Interleave`](super::Form::Interleave): up to 32 columns of rows become a packed panel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct InterleaveArgs {
    /// The first row.
    pub from: *const u8,
    /// Bytes from row to row.
    pub from_stride: usize,
    /// The panel: 32 words for each pair of rows.
    pub to: *mut f32,
    /// Whole pairs of rows.
    pub pairs: usize,
    /// Nonzero where a last row without a second one follows.
    pub odd: usize,
    /// Rows of zero words after that.
    pub empty: usize,
    /// Columns of the first and the second vector, at most 16 each.
    pub lanes: [usize; 2],
    /// [`INTERLEAVED`].
    pub order: *const u16,
}

impl Arguments for RoundArgs {
    const FAMILY: &'static str = FAMILY;
    /// Element type of rows.
    type Kernel = Stored;

    fn extents(&self, stored: &Stored, extents: &mut Extents<'_>) {
        let (rows, rest) = (counted_down(self.rows), self.rest[0] + self.rest[1]);
        let elements = self.steps * 32 + rest;
        extents.read("rows", self.from).over(rows, self.from_stride).bytes(elements * stored.bytes());
        let steps = self.steps + usize::from(rest > 0);
        extents.write("words", self.to).over(rows, self.to_stride).bytes(steps * STEP_WORD_BYTES as usize);
    }
}

impl Arguments for InterleaveArgs {
    const FAMILY: &'static str = FAMILY;
    /// Element type of rows.
    type Kernel = Stored;

    fn extents(&self, stored: &Stored, extents: &mut Extents<'_>) {
        let columns = if self.lanes[1] > 0 { 16 + self.lanes[1] } else { self.lanes[0] };
        let (pair, row) = (2 * self.from_stride, columns * stored.bytes());
        extents.read("rows", self.from).over(self.pairs, pair).over(2, self.from_stride).bytes(row);
        extents.read("rows", self.from).from((self.pairs * pair) as isize).over(self.odd, pair).bytes(row);
        let lines = self.pairs.saturating_add(self.odd).saturating_add(self.empty);
        extents.write("panel", self.to).over(lines, STEP_BYTES as usize).bytes(STEP_BYTES as usize);
        extents.constant("the interleaving order", &INTERLEAVED);
        extents.read("the interleaving order", self.order).bytes(size_of_val(&INTERLEAVED));
    }
}

/// Indices that interleave the 16-bit elements of the lower and the upper half of a vector.
pub static INTERLEAVED: [u16; 32] = {
    let mut order = [0; 32];
    let mut at = 0;
    while at < 32 {
        order[at] = (at / 2 + at % 2 * 16) as u16;
        at += 1;
    }
    order
};

/// Bytes of 32 elements of `f32`, and of the words that they become.
const STEP_BYTES: i32 = 128;
const STEP_WORD_BYTES: i32 = 64;

/// Bytes from the start of a row of scores to the current scores, and to their weights, which never overtake them.
const SCORES_AT: Gpr = Gpr::RAX;
pub(super) const WEIGHTS_AT: Gpr = Gpr::R11;
const END: Gpr = Gpr::R8;
const REST: Gpr = Gpr::R9;
const COUNT: Gpr = Gpr::R10;
const SCRATCH: Gpr = Gpr::R15;

/// Two vectors of scores, and temporaries of each.
const SCORES: [Vreg; 2] = [Vreg(16), Vreg(17)];
const WHOLE: [Vreg; 2] = [Vreg(18), Vreg(19)];
const POWERS: [Vreg; 2] = [Vreg(20), Vreg(21)];
/// The largest score times -log2(e).
const MOST_LOG2: Vreg = Vreg(22);

/// c of 2^x = 1 + c0 x + c1 x^2 + c2 x^3 for |x| <= 1/2: relative error 1.0e-4, a twentieth of that of rounding to
/// `bf16`. It is exact at zero, so that equal weights stay equal and the largest is 1.
const C: [f32; 3] = [0.693_282_9, 0.242_211, 0.055_008_95];

/// 1.5 * 2^23 + 127: adding it to |x| < 2^22 leaves the nearest whole number and 127, the exponent field of its power
/// of two, in the low bits of the sum.
const EXPONENT_MAGIC: f32 = 12_582_912.0 + 127.0;

/// Registers of constants, loaded once for all rows.
const HELD: [(Vreg, f32); 7] = [
    (LOG2_E, std::f32::consts::LOG2_E),
    // The exponent field is zero there, and so is the power.
    (LEAST, -127.0),
    (MAGIC, EXPONENT_MAGIC),
    (C0, C[0]),
    (C1, C[1]),
    (C2, C[2]),
    (ONE, 1.0),
];
const LOG2_E: Vreg = Vreg(25);
const LEAST: Vreg = Vreg(26);
const MAGIC: Vreg = Vreg(27);
const C0: Vreg = Vreg(28);
const C1: Vreg = Vreg(29);
const C2: Vreg = Vreg(30);
const ONE: Vreg = Vreg(31);

/// The masks of the two vectors of a partial step.
fn step_masks(asm: &Asm) -> [Mask; 2] {
    // On AVX-512 these are mask registers, which take no vector.
    [2, 3].map(|index| asm.mask(index, VALUE))
}

/// Loads what [`exponentials`] needs for every row.
pub(super) fn prepare(asm: &mut Asm) {
    HELD.into_iter().for_each(|(register, value)| asm.vload(register, value));
}

/// The second pass over a row of scores.
pub(super) fn exponentials(asm: &mut Asm) {
    asm.vmul(MOST_LOG2, MOST, -std::f32::consts::LOG2_E);
    asm.mov_imm(SCORES_AT, 0);
    asm.mov_imm(WEIGHTS_AT, 0);
    asm.mov(END, SEEN);
    asm.and_imm(END, -32);
    asm.shl_imm(END, 2);
    asm.while_less(SCORES_AT, END, 16, |asm| {
        step(asm, None);
        asm.add_imm(SCORES_AT, STEP_BYTES);
    });
    asm.mov(REST, SEEN);
    asm.and_imm(REST, 31);
    asm.unless_zero(REST, |asm| {
        let masks = step_masks(asm);
        asm.mov_imm(COUNT, 0);
        asm.mask_first(masks[1], COUNT, SCRATCH);
        asm.if_at_least(REST, 16, |asm| {
            asm.mov(COUNT, REST);
            asm.sub_imm(COUNT, 16);
            asm.mask_first(masks[1], COUNT, SCRATCH);
            asm.mov_imm(REST, 16);
        });
        asm.mask_first(masks[0], REST, SCRATCH);
        step(asm, Some(masks));
    });
}

/// Weights of 32 keys, or of those under the masks.
fn step(asm: &mut Asm, masks: Option<[Mask; 2]>) {
    for (half, &scores) in SCORES.iter().enumerate() {
        let at = Mem::indexed(ROW, SCORES_AT, 1, half as i32 * 64);
        asm.vload_lanes(scores, masks.map(|masks| masks[half]), at);
    }
    powers(asm);
    for (half, &scores) in SCORES.iter().enumerate() {
        if let Some(masks) = masks {
            asm.vzero(VALUE);
            asm.select(scores, masks[half], scores, VALUE);
        }
        asm.vadd(sum(half as u8), sum(half as u8), scores);
    }
    asm.vround_bf16(VALUE, SCORES[1], SCORES[0]);
    asm.vstore(Mem::indexed(ROW, WEIGHTS_AT, 1, 0), VALUE);
    asm.add_imm(WEIGHTS_AT, STEP_WORD_BYTES);
}

/// SCORES = exp(scores - most), for scores that are at most that: 2^n 2^x with a whole number n and |x| <= 1/2. Results
/// below the smallest normal number are zero; NaN stays.
fn powers(asm: &mut Asm) {
    let mut each = |emit: fn(&mut Asm, Vreg, Vreg, Vreg)| {
        (0..2).for_each(|half| emit(asm, SCORES[half], WHOLE[half], POWERS[half]));
    };
    each(|asm, x, _, _| asm.vfma213(x, LOG2_E, MOST_LOG2));
    // x86 returns the second operand where either is NaN.
    each(|asm, x, _, _| asm.vmax(x, LEAST, x));
    each(|asm, x, whole, _| asm.vadd(whole, x, MAGIC));
    each(|asm, _, whole, power| asm.vishl(power, whole, 23));
    each(|asm, _, whole, _| asm.vsub(whole, whole, MAGIC));
    each(|asm, x, whole, _| asm.vsub(x, x, whole));
    let sums: fn(&mut Asm, Vreg, Vreg, Vreg) = |asm, x, sum, _| {
        asm.vload(sum, C2);
        for c in [C1, C0, ONE] {
            asm.vfma213(sum, x, c);
        }
    };
    each(sums);
    each(|asm, x, sum, power| asm.vmul(x, sum, power));
}

/// Writes zeros from the first step without a key that the row sees to the last step with a key that some row sees.
pub(super) fn clear_unseen(asm: &mut Asm) {
    asm.lea(END, Mem::at(KEYS, 31));
    asm.and_imm(END, -32);
    asm.shl_imm(END, 1);
    asm.vzero(VALUE);
    asm.while_less_compact(WEIGHTS_AT, END, |asm| {
        asm.vstore(Mem::indexed(ROW, WEIGHTS_AT, 1, 0), VALUE);
        asm.add_imm(WEIGHTS_AT, STEP_WORD_BYTES);
    });
}

const FROM: Gpr = Gpr::RSI;
const TO: Gpr = Gpr::RDX;
const ROWS: Gpr = Gpr::RCX;
const FROM_AT: Gpr = Gpr::RBX;
const TO_AT: Gpr = Gpr::R12;
const LEFT: Gpr = Gpr::R13;
const STRIDE: Gpr = Gpr::R14;
const LOW: Vreg = Vreg(0);
const HIGH: Vreg = Vreg(1);
const FACTOR: Vreg = Vreg(2);
const ORDER: Vreg = Vreg(3);
const ZERO: Vreg = Vreg(4);

/// Masks with as many lanes as the two integers at an argument say.
fn load_masks(asm: &mut Asm, lengths: Mem) -> [Mask; 2] {
    let masks = step_masks(asm);
    for (half, &mask) in masks.iter().enumerate() {
        asm.load(COUNT, lengths.plus(half as i32 * 8));
        asm.mask_first(mask, COUNT, SCRATCH);
    }
    masks
}

pub(super) fn round(asm: &mut Asm, stored: Stored) {
    asm.load(FROM, arg!(RoundArgs.from));
    asm.load(TO, arg!(RoundArgs.to));
    asm.load(ROWS, arg!(RoundArgs.rows));
    asm.load(REST, arg!(RoundArgs.rest));
    let masks = load_masks(asm, arg!(RoundArgs.rest));
    asm.vbroadcast(FACTOR, arg!(RoundArgs.scale));
    asm.repeat(ROWS, |asm| {
        asm.mov(FROM_AT, FROM);
        asm.mov(TO_AT, TO);
        asm.load(LEFT, arg!(RoundArgs.steps));
        asm.for_each(LEFT, 16, |asm| {
            round_step(asm, stored, None);
            asm.add_imm(FROM_AT, 2 * half_step(stored));
            asm.add_imm(TO_AT, STEP_WORD_BYTES);
        });
        asm.unless_zero(REST, |asm| round_step(asm, stored, Some(masks)));
        asm.add_mem(FROM, arg!(RoundArgs.from_stride));
        asm.add_mem(TO, arg!(RoundArgs.to_stride));
    });
}

/// Bytes of the elements that become half an AMX step.
fn half_step(stored: Stored) -> i32 {
    (16 * stored.bytes()) as i32
}

/// An AMX step of a row, with zeros in the lanes outside the masks.
fn round_step(asm: &mut Asm, stored: Stored, masks: Option<[Mask; 2]>) {
    for (half, value) in [LOW, HIGH].into_iter().enumerate() {
        let mask = masks.map(|masks| masks[half]);
        stored.load(asm, value, mask, Mem::at(FROM_AT, half as i32 * half_step(stored)));
        asm.vmul(value, value, FACTOR);
        if let Some(mask) = mask {
            // Zero times a factor that is not finite would not be zero.
            asm.vzero(ZERO);
            asm.select(value, mask, value, ZERO);
        }
    }
    asm.vround_bf16(LOW, HIGH, LOW);
    asm.vstore(Mem::at(TO_AT, 0), LOW);
}

pub(super) fn interleave(asm: &mut Asm, stored: Stored) {
    asm.load(FROM, arg!(InterleaveArgs.from));
    asm.load(TO, arg!(InterleaveArgs.to));
    asm.load(STRIDE, arg!(InterleaveArgs.from_stride));
    asm.load(SCRATCH, arg!(InterleaveArgs.order));
    asm.vload(ORDER, Mem::at(SCRATCH, 0));
    asm.vzero(ZERO);
    let masks = load_masks(asm, arg!(InterleaveArgs.lanes));
    // Pairs of rows, then a row with zeros, then zeros.
    for (count, rows) in
        [(arg!(InterleaveArgs.pairs), 2), (arg!(InterleaveArgs.odd), 1), (arg!(InterleaveArgs.empty), 0)]
    {
        asm.load(LEFT, count);
        asm.for_each(LEFT, 16, |asm| {
            interleave_rows(asm, stored, rows, masks);
            asm.lea(FROM, Mem::indexed(FROM, STRIDE, 2, 0));
            asm.add_imm(TO, STEP_BYTES);
        });
    }
}

/// A line of the panel: two rows, one row and zeros, or zeros.
fn interleave_rows(asm: &mut Asm, stored: Stored, rows: usize, masks: [Mask; 2]) {
    for (half, mask) in masks.into_iter().enumerate() {
        let (at, from) = (half as i32 * 64, half as i32 * half_step(stored));
        let mut line = ZERO;
        if rows > 0 {
            let mut second = ZERO;
            stored.load(asm, LOW, Some(mask), Mem::at(FROM, from));
            if rows > 1 {
                stored.load(asm, HIGH, Some(mask), Mem::indexed(FROM, STRIDE, 1, from));
                second = HIGH;
            }
            asm.vround_bf16(LOW, second, LOW);
            asm.vpermute_16(LOW, ORDER, LOW);
            line = LOW;
        }
        asm.vstore(Mem::at(TO, at), line);
    }
}
