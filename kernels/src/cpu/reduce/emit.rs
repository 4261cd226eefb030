//! Instructions that fold rows into elements and columns into rows. Lengths and strides are arguments; no shape is
//! known here.
//!
//! Several chains fold independently and are folded into one at the end. A fold with NaN must give NaN, which the
//! processor's maximum and minimum do not do by themselves: NaN in the accumulator stays because it is the second
//! operand, and NaN in the new vector is blended in by a comparison.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::{Fold, Map, Pass, PostOp};
use crate::cpu::chain::UnaryOp;
use crate::cpu::loops::{self, Place};
use crate::cpu::vecmath::{self, MAGNITUDE};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::asm::Predicate;
use crate::jit::{Arguments, Asm, Extents, Gpr, Mask, Mem, Vreg, arg, counted_down};

/// The key of a pass's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ReduceCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// The pass; not [`Fold::LogAddExp`], which is softmax code.
    pub pass: Pass,
    /// The order in which elements are folded.
    pub order: Order,
    /// Whether `centre` is subtracted from each element first.
    pub centred: bool,
}

/// The order in which a pass folds an array of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Order {
    /// Each row into one element.
    Rows,
    /// Each column into one element, eight vectors of columns from top to bottom: their results stay in registers.
    Columns,
    /// Each column into one element, four rows at a time from end to end: results stay in L1, and rows are read from
    /// memory in their order.
    Streams,
}

/// Arguments; the same for rows and columns.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ReduceArgs {
    /// First element of the first row.
    pub src: *const f32,
    /// The first result; the others follow.
    pub dst: *mut f32,
    /// Rows, at least 1.
    pub rows: usize,
    /// Elements of a row.
    pub length: usize,
    /// Bytes from row to row.
    pub stride: usize,
    /// The factor of each result.
    pub scale: f32,
    /// The centre that centred code subtracts: one element for all rows, or one for each column.
    pub centre: *const f32,
}

/// The part of the code's key that determines the memory that a call touches.
#[derive(Clone, Copy, Debug)]
pub struct ReduceKernel {
    /// The order in which the code folds.
    pub order: Order,
    /// Whether a centre is subtracted.
    pub centred: bool,
}

impl Arguments for ReduceArgs {
    const FAMILY: &'static str = super::FAMILY;
    type Kernel = ReduceKernel;

    fn extents(&self, &ReduceKernel { order, centred }: &ReduceKernel, extents: &mut Extents<'_>) {
        let (rows, length) = (counted_down(self.rows), self.length.saturating_mul(4));
        extents.read("input", self.src).over(rows, self.stride).bytes(length);
        let (results, centres) = if order == Order::Rows { (rows.saturating_mul(4), 4) } else { (length, length) };
        extents.write("output", self.dst).bytes(results);
        if centred {
            extents.read("centre", self.centre).bytes(centres);
        }
    }
}

const SRC: Gpr = Gpr::RSI;
const DST: Gpr = Gpr::RDX;
const ROWS: Gpr = Gpr::RCX;
const STRIDE: Gpr = Gpr::R11;

/// How far ahead a row is prefetched, in bytes: a page, because hardware prefetchers stop at the end of a page. The
/// maximum of rows of 2048 took 0.83 of its time with it (AVX-512). With 2 KiB, sums of such rows took longer than
/// without any prefetch.
const AHEAD: i32 = 4096;

const CENTRE: Gpr = Gpr::RBX;
/// The centre, in every lane, where rows are folded.
const CENTRE_OF_ROWS: Vreg = Vreg(14);

/// Vectors of columns that are folded together.
const WIDE: u8 = 8;

/// Accumulators are the registers from 0 on, up to [`WIDE`].
const SCALE: Vreg = Vreg(8);
const VALUE: Vreg = Vreg(9);
const TEMPS: [Vreg; 4] = [Vreg(10), Vreg(11), Vreg(12), Vreg(13)];

/// Emits the code of that key.
pub fn emit(code: &ReduceCode, asm: &mut Asm) -> Result<()> {
    if code.pass.fold == Fold::LogAddExp {
        let reason = "sums of exponentials are softmax code".to_owned();
        return Err(KernelError::Unsupported { family: super::FAMILY, reason });
    }
    asm.prologue();
    asm.load(SRC, arg!(ReduceArgs.src));
    asm.load(DST, arg!(ReduceArgs.dst));
    asm.load(STRIDE, arg!(ReduceArgs.stride));
    asm.vbroadcast(SCALE, arg!(ReduceArgs.scale));
    if code.centred {
        asm.load(CENTRE, arg!(ReduceArgs.centre));
        if code.order == Order::Rows {
            asm.vbroadcast(CENTRE_OF_ROWS, Mem::at(CENTRE, 0));
        }
    }
    match code.order {
        Order::Rows => rows(code, asm),
        Order::Columns => columns(code, asm),
        Order::Streams => streams(code, asm),
    }
    asm.epilogue();
    Ok(())
}

fn rows(code: &ReduceCode, asm: &mut Asm) {
    let pass = code.pass;
    loops::prepare_rows(asm, arg!(ReduceArgs.length));
    asm.load(ROWS, arg!(ReduceArgs.rows));
    asm.repeat(ROWS, |asm| {
        start(pass.fold, asm, loops::UNROLL);
        loops::row(asm, |asm, place| {
            place.plus(AHEAD).prefetch(asm, SRC);
            step(code, asm, place, SRC);
        });
        // Pairs of accumulators, then the two sums.
        for (to, from) in [(0, 1), (2, 3), (0, 2)] {
            fold(pass.fold, asm, Vreg(to), Vreg(to), Vreg(from));
        }
        across(pass.fold, asm);
        apply(pass.post_op, asm, Vreg(0));
        asm.vstore_one(Mem::at(DST, 0), Vreg(0));
        asm.add(SRC, STRIDE);
        asm.add_imm(DST, 4);
    });
}

fn columns(code: &ReduceCode, asm: &mut Asm) {
    let pass = code.pass;
    loops::columns(asm, arg!(ReduceArgs.length), &[SRC, DST, CENTRE], WIDE, |asm, vectors, tail| {
        start(pass.fold, asm, vectors);
        loops::down(asm, arg!(ReduceArgs.rows), SRC, STRIDE, vectors, tail, |asm, at, place| {
            step(code, asm, place, at)
        });
        for vector in 0..vectors {
            apply(pass.post_op, asm, Vreg(vector));
            loops::across(asm, vector, tail).store(asm, DST, Vreg(vector));
        }
    });
}

/// Rows that are folded together: results are loaded and stored once for all these rows.
const TOGETHER: usize = 4;
const STREAMS: [Gpr; TOGETHER] = [SRC, Gpr::R12, Gpr::R13, Gpr::R14];

fn streams(code: &ReduceCode, asm: &mut Asm) {
    let pass = code.pass;
    loops::prepare_rows(asm, arg!(ReduceArgs.length));
    loops::row(asm, |asm, place| {
        start(pass.fold, asm, 1);
        place.store(asm, DST, Vreg(0));
    });
    asm.load(ROWS, arg!(ReduceArgs.rows));
    for together in [TOGETHER, 1] {
        asm.while_at_least(ROWS, together as i32, |asm| {
            let streams = &STREAMS[..together];
            for pair in streams.windows(2) {
                asm.mov(pair[1], pair[0]);
                asm.add(pair[1], STRIDE);
            }
            loops::row(asm, |asm, place| {
                place.load(asm, Vreg(place.vector), DST);
                streams.iter().for_each(|&stream| step(code, asm, place, stream));
                place.store(asm, DST, Vreg(place.vector));
            });
            asm.mov(SRC, streams[together - 1]);
            asm.add(SRC, STRIDE);
        });
    }
    loops::row(asm, |asm, place| {
        place.load(asm, Vreg(0), DST);
        apply(pass.post_op, asm, Vreg(0));
        place.store(asm, DST, Vreg(0));
    });
}

/// Sets accumulators to the fold of no elements.
fn start(fold: Fold, asm: &mut Asm, accumulators: u8) {
    let neutral = match fold {
        Fold::Add | Fold::LogAddExp => 0.0,
        Fold::Mul => 1.0,
        Fold::Max => f32::NEG_INFINITY,
        Fold::Min => f32::INFINITY,
    };
    (0..accumulators).for_each(|vector| asm.vload(Vreg(vector), neutral));
}

/// Folds one vector into its accumulator. Lanes beyond the row are zero after the load.
fn step(code: &ReduceCode, asm: &mut Asm, place: Place, base: Gpr) {
    let (pass, accumulator) = (code.pass, Vreg(place.vector));
    match (pass.fold, pass.map, place.tail) {
        _ if code.centred => {
            place.load(asm, VALUE, base);
            if code.order == Order::Rows {
                asm.vsub(VALUE, VALUE, CENTRE_OF_ROWS);
            } else {
                place.load(asm, TEMPS[2], CENTRE);
                asm.vsub(VALUE, VALUE, TEMPS[2]);
            }
            place.clear_unused(asm, VALUE, TEMPS[0]);
        }
        (Fold::Add, Map::Identity, None) => return asm.vadd(accumulator, accumulator, place.address(base)),
        (Fold::Mul, Map::Identity, None) => return asm.vmul(accumulator, accumulator, place.address(base)),
        _ => place.load(asm, VALUE, base),
    }
    match pass.map {
        Map::Identity => {}
        Map::Abs => asm.vand(VALUE, VALUE, MAGNITUDE),
        Map::Square if pass.fold == Fold::Add => return asm.vfma231(accumulator, VALUE, VALUE),
        Map::Square => asm.vmul(VALUE, VALUE, VALUE),
    }
    place.fold(asm, accumulator, TEMPS[0], |asm, to, from| fold(pass.fold, asm, to, from, VALUE));
}

/// The mask of NaN lanes.
fn nan(asm: &Asm) -> Mask {
    asm.mask(1, TEMPS[1])
}

/// to = fold(accumulator, value)
fn fold(fold: Fold, asm: &mut Asm, to: Vreg, accumulator: Vreg, value: Vreg) {
    let mask = nan(asm);
    match fold {
        Fold::Add | Fold::LogAddExp => asm.vadd(to, accumulator, value),
        Fold::Mul => asm.vmul(to, accumulator, value),
        Fold::Max | Fold::Min => {
            if fold == Fold::Max {
                asm.vmax(to, value, accumulator);
            } else {
                asm.vmin(to, value, accumulator);
            }
            asm.compare(mask, Predicate::Unordered, value, value);
            asm.select(to, mask, value, to);
        }
    }
}

/// Folds the lanes of the first accumulator into one element.
fn across(fold: Fold, asm: &mut Asm) {
    let (all, scratch) = (Vreg(0), TEMPS[0]);
    match fold {
        Fold::Add | Fold::LogAddExp => asm.vreduce_add(all, all, scratch),
        Fold::Mul => asm.vreduce_mul(all, all, scratch),
        Fold::Max | Fold::Min => {
            // Counts the NaN lanes.
            let (nans, mask) = (VALUE, nan(asm));
            asm.compare(mask, Predicate::Unordered, all, all);
            asm.mask_to_f32(nans, mask);
            asm.vreduce_add(nans, nans, scratch);
            if fold == Fold::Max {
                asm.vreduce_max(all, all, scratch);
            } else {
                asm.vreduce_min(all, all, scratch);
            }
            asm.compare(mask, Predicate::Greater, nans, 0.0);
            asm.vload(scratch, f32::NAN);
            asm.select(all, mask, scratch, all);
        }
    }
}

fn apply(post_op: PostOp, asm: &mut Asm, value: Vreg) {
    // Without a scale this is 1, which changes nothing.
    asm.vmul(value, value, SCALE);
    match post_op {
        PostOp::None => {}
        PostOp::Sqrt => asm.vsqrt(value, value),
        PostOp::Log => vecmath::emit_unary(asm, UnaryOp::Log, value, &TEMPS),
    }
}
