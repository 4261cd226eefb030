//! Instructions that find the greatest or least elements of lines. Lengths and strides are arguments; no shape is known
//! here.
//!
//! A lane holds the best element that it has seen and its place; a comparison decides whether both are replaced. So NaN
//! replaces nothing, and is replaced by nothing. In a line whose elements follow each other, all lanes start with the
//! first element, and each takes elements of its own. At the end, the lanes that hold the best element of all are
//! compared by their places. Where the first element is NaN, all lanes still hold it, and no lane is worse than
//! another. Of lines that lie side by side, each has a lane.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::Wanted;
use crate::cpu::loops::{self, Place};
use crate::isa::Isa;
use crate::jit::asm::{Predicate, Src};
use crate::jit::{Arguments, Asm, Extents, Gpr, Mask, Mem, Vreg, arg, counted_down};

/// What determines the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ExtremeCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// Which element is looked for.
    pub wanted: Wanted,
    /// Whether the last of equal elements is found.
    pub last: bool,
    /// Whether lines lie side by side, instead of their elements.
    pub columns: bool,
}

/// Arguments of some lines.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ExtremeArgs {
    /// First element of the first line.
    pub src: *const f32,
    /// The place in the first line; the others follow.
    pub dst: *mut i64,
    /// Lines, at least 1.
    pub lines: usize,
    /// Elements of a line, at least 1.
    pub length: usize,
    /// Bytes from line to line; for lines side by side, from element to element.
    pub stride: usize,
}

impl Arguments for ExtremeArgs {
    const FAMILY: &'static str = super::FAMILY;
    /// Whether lines lie side by side.
    type Kernel = bool;

    fn extents(&self, columns: &bool, extents: &mut Extents<'_>) {
        let (rows, row) = if *columns { (self.length, self.lines) } else { (self.lines, self.length) };
        extents.read("input", self.src).over(counted_down(rows), self.stride).bytes(row.saturating_mul(4));
        extents.write("output", self.dst).bytes(self.lines.saturating_mul(8));
    }
}

const SRC: Gpr = Gpr::RSI;
const DST: Gpr = Gpr::RDX;
const ROWS: Gpr = Gpr::RCX;
const STRIDE: Gpr = Gpr::R11;
const TEMPS: [Gpr; 2] = [Gpr::R12, Gpr::R13];

/// How far ahead a row is prefetched, in bytes, as reductions do.
const AHEAD: i32 = 4096;

const VALUE: Vreg = Vreg(12);
const SCRATCH: Vreg = Vreg(13);

/// The best elements of a vector's lanes so far.
fn best(vector: u8) -> Vreg {
    Vreg(vector)
}

/// Their places.
fn found(asm: &Asm, vector: u8) -> Vreg {
    if asm.lanes() > 8 { Vreg(16 + vector) } else { Vreg(4 + vector) }
}

/// The places of the next elements of a vector of a row. Those of the first vector also serve a row of columns.
fn at(vector: u8) -> Vreg {
    Vreg(8 + vector)
}

/// The mask of the lanes that are replaced.
fn replaced(asm: &Asm) -> Mask {
    asm.mask(1, Vreg(14))
}

/// Emits the code of that key.
pub fn emit(code: &ExtremeCode, asm: &mut Asm) {
    asm.prologue();
    asm.load(SRC, arg!(ExtremeArgs.src));
    asm.load(DST, arg!(ExtremeArgs.dst));
    asm.load(STRIDE, arg!(ExtremeArgs.stride));
    if code.columns {
        columns(code, asm);
    } else {
        rows(code, asm);
    }
    asm.epilogue();
}

/// The lanes of [`VALUE`] that replace the best elements of a vector, and their places.
fn replace(code: &ExtremeCode, asm: &mut Asm, vector: u8, places: Vreg) {
    let (mask, best, found) = (replaced(asm), best(vector), found(asm, vector));
    let predicate = match (code.wanted, code.last) {
        (Wanted::Greatest, false) => Predicate::Greater,
        (Wanted::Greatest, true) => Predicate::GreaterEqual,
        (Wanted::Least, false) => Predicate::Less,
        (Wanted::Least, true) => Predicate::LessEqual,
    };
    asm.compare(mask, predicate, VALUE, best);
    asm.select(best, mask, VALUE, best);
    asm.select(found, mask, places, found);
}

/// The numbers of a vector's lanes.
const LANE_NUMBERS: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
const NEXT_NUMBERS: [u32; 8] = [8, 9, 10, 11, 12, 13, 14, 15];
/// For each lane of a vector of 64-bit elements, the place that it takes: for the first four elements, and for the
/// next.
const FIRST_PLACES: [u32; 8] = [0, 0, 1, 1, 2, 2, 3, 3];
const NEXT_PLACES: [u32; 8] = [4, 4, 5, 5, 6, 6, 7, 7];
/// The lower halves of 64-bit elements.
const LOWER: [u32; 8] = [u32::MAX, 0, u32::MAX, 0, u32::MAX, 0, u32::MAX, 0];

/// The numbers of the lanes of a vector with more than eight.
const ALL_NUMBERS: Vreg = Vreg(24);

/// dst = the first table, and behind it the next one where there are lanes for it.
fn two_tables(asm: &mut Asm, dst: Vreg, first: &'static [u32; 8], next: &'static [u32; 8]) {
    asm.vload_table(dst, first);
    if asm.lanes() > 8 {
        let whole = replaced(asm);
        asm.vload_table(SCRATCH, next);
        asm.mov_imm(TEMPS[0], 8);
        asm.mask_first(whole, TEMPS[0], TEMPS[1]);
        asm.select(dst, whole, dst, SCRATCH);
    }
}

fn rows(code: &ExtremeCode, asm: &mut Asm) {
    let lanes = asm.lanes() as u32;
    if lanes > 8 {
        two_tables(asm, ALL_NUMBERS, &LANE_NUMBERS, &NEXT_NUMBERS);
    }
    loops::prepare_rows(asm, arg!(ExtremeArgs.length));
    asm.load(ROWS, arg!(ExtremeArgs.lines));
    asm.repeat(ROWS, |asm| {
        if lanes > 8 {
            asm.vmov(at(0), ALL_NUMBERS);
        } else {
            asm.vload_table(at(0), &LANE_NUMBERS);
        }
        asm.vbroadcast(best(0), Mem::at(SRC, 0));
        asm.vzero(found(asm, 0));
        for vector in 1..loops::UNROLL {
            asm.viadd(at(vector), at(0), Src::Const(lanes * u32::from(vector)));
            asm.vmov(best(vector), best(0));
            asm.vzero(found(asm, vector));
        }
        loops::groups(asm, |asm, places| {
            places.iter().for_each(|place| element(code, asm, place));
            let step = Src::Const(lanes * places.len() as u32);
            // Less than a group is followed by even less, which the first vector takes.
            let advanced = if places.len() == usize::from(loops::UNROLL) { loops::UNROLL } else { 1 };
            if places[0].tail.is_none() {
                (0..advanced).for_each(|vector| asm.viadd(at(vector), at(vector), step));
            }
        });
        across(code, asm);
        asm.mov_imm(TEMPS[0], 0);
        asm.store(Mem::at(DST, 0), TEMPS[0]);
        asm.vstore_one(Mem::at(DST, 0), found(asm, 0));
        asm.add(SRC, STRIDE);
        asm.add_imm(DST, 8);
    });
}

/// A vector of a row.
fn element(code: &ExtremeCode, asm: &mut Asm, place: &Place) {
    place.plus(AHEAD).prefetch(asm, SRC);
    place.load(asm, VALUE, SRC);
    if let Some(mask) = place.tail {
        // The elements behind the row are NaN, which replaces nothing.
        asm.vload(SCRATCH, f32::NAN);
        asm.select(VALUE, mask, VALUE, SCRATCH);
    }
    replace(code, asm, place.vector, at(place.vector));
}

/// The place of the best element of all lanes, in every lane of the first places.
fn across(code: &ExtremeCode, asm: &mut Asm) {
    let is_greatest = code.wanted == Wanted::Greatest;
    let better = |asm: &mut Asm, dst, a, b| if is_greatest { asm.vmax(dst, a, b) } else { asm.vmin(dst, a, b) };
    better(asm, VALUE, best(0), best(1));
    better(asm, SCRATCH, best(2), best(3));
    better(asm, VALUE, VALUE, SCRATCH);
    if is_greatest {
        asm.vreduce_max(VALUE, VALUE, SCRATCH);
    } else {
        asm.vreduce_min(VALUE, VALUE, SCRATCH);
    }
    // A lane with a worse element has no place.
    let (mask, worse) = (replaced(asm), if is_greatest { Predicate::Less } else { Predicate::Greater });
    asm.vload(SCRATCH, Src::Const(if code.last { u32::MAX } else { i32::MAX as u32 }));
    for vector in 0..loops::UNROLL {
        let found = found(asm, vector);
        asm.compare(mask, worse, best(vector), VALUE);
        asm.select(found, mask, SCRATCH, found);
    }
    for (to, from) in [(0, 1), (2, 3), (0, 2)] {
        let (to, from) = (found(asm, to), found(asm, from));
        if code.last {
            asm.vimax(to, to, from);
        } else {
            asm.vimin(to, to, from);
        }
    }
    let all = found(asm, 0);
    if code.last {
        asm.vreduce_imax(all, all, SCRATCH);
    } else {
        asm.vreduce_imin(all, all, SCRATCH);
    }
}

/// For each lane of 64-bit elements the place that it takes, in the first half of a vector of places and in the second.
const SPREAD: [Vreg; 2] = [Vreg(9), Vreg(10)];
const LOW: Vreg = Vreg(11);

fn columns(code: &ExtremeCode, asm: &mut Asm) {
    let wide = if asm.lanes() > 8 { 8 } else { 4 };
    two_tables(asm, SPREAD[0], &FIRST_PLACES, &NEXT_PLACES);
    asm.viadd(SPREAD[1], SPREAD[0], Src::Const(asm.lanes() as u32 / 2));
    asm.vload_table(LOW, &LOWER);
    // A place has twice as many bytes as an element.
    loops::columns(asm, arg!(ExtremeArgs.lines), &[SRC, DST, DST], wide, |asm, vectors, tail| {
        for vector in 0..vectors {
            loops::across(asm, vector, tail).load(asm, best(vector), SRC);
            asm.vzero(found(asm, vector));
        }
        asm.vzero(at(0));
        loops::down_together(asm, arg!(ExtremeArgs.length), SRC, STRIDE, vectors, tail, |asm, row, places| {
            for place in places {
                place.load(asm, VALUE, row);
                replace(code, asm, place.vector, at(0));
            }
            asm.viadd(at(0), at(0), Src::Const(1));
        });
        let halves = tail.map(|_| half_masks(asm));
        for vector in 0..vectors {
            for (half, spread) in SPREAD.into_iter().enumerate() {
                asm.vlookup(VALUE, spread, found(asm, vector));
                asm.vand(VALUE, VALUE, LOW);
                let to = Mem::at(DST, (2 * i32::from(vector) + half as i32) * asm.vector_bytes());
                asm.vstore_lanes(to, halves.map(|masks| masks[half]), VALUE);
            }
        }
    });
}

/// The masks of the last places, as 64-bit elements: for the first vector of places, and for the second.
fn half_masks(asm: &mut Asm) -> [Mask; 2] {
    // The best elements are no longer needed.
    let masks = [asm.mask(2, best(0)), asm.mask(3, best(1))];
    let (rest, first) = (ROWS, TEMPS[0]);
    asm.load(rest, arg!(ExtremeArgs.lines));
    asm.and_imm(rest, asm.lanes() as i32 - 1);
    asm.shl_imm(rest, 1);
    asm.mov_imm(first, asm.lanes() as i64);
    asm.min(first, rest);
    asm.mask_first(masks[0], first, TEMPS[1]);
    asm.sub(rest, first);
    asm.mask_first(masks[1], rest, TEMPS[1]);
    masks
}
