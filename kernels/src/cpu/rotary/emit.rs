//! Instructions of rotations of rows of heads.
//!
//! Pairs whose elements lie apart are two vectors, x and y, and two vectors of angles. A vector of neighbouring pairs
//! has half as many pairs as lanes. Their angles are loaded under a mask and spread to both elements of each pair. In a
//! copy, the elements of each pair change places, and the copy's products for first elements change their sign. Adding
//! `-(s y)` gives the same bits as subtracting `s y`.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::loops::{self, Place};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Gpr, Mask, Mem, Vreg, arg, counted_down};

/// What determines the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct RotaryCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// Whether the elements of a pair are neighbours, instead of as far apart as there are pairs.
    pub interleaved: bool,
}

/// Arguments of a run of rows.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RotaryArgs {
    /// First element of the first row.
    pub src: *const f32,
    /// First element of the result, which may be the same element.
    pub dst: *mut f32,
    /// First line of cosines.
    pub cosines: *const f32,
    /// First line of sines.
    pub sines: *const f32,
    /// The number of the first row's line.
    pub lines: *const usize,
    /// Bytes to the number of the next row's line; 0 where all rows have the same line.
    pub step: usize,
    /// Rows, at least 1.
    pub rows: usize,
    /// Pairs of a row, equal to the angles of a line.
    pub pairs: usize,
    /// Elements behind the pairs that are copied.
    pub rest: usize,
    /// Bytes from row to row, on both sides.
    pub stride: usize,
}

impl Arguments for RotaryArgs {
    const FAMILY: &'static str = super::FAMILY;
    type Kernel = ();

    fn extents(&self, (): &(), extents: &mut Extents<'_>) {
        let (rows, line) = (counted_down(self.rows), self.pairs.saturating_mul(4));
        let row = line.saturating_mul(2).saturating_add(self.rest.saturating_mul(4));
        extents.read("input", self.src).over(rows, self.stride).bytes(row);
        extents.write("output", self.dst).over(rows, self.stride).bytes(row);
        let listed = if self.step == 0 { 1 } else { rows };
        for &number in extents.list("lines", self.lines, listed) {
            let from = number.saturating_mul(line).min(isize::MAX as usize) as isize;
            extents.read("cosines", self.cosines).from(from).bytes(line);
            extents.read("sines", self.sines).from(from).bytes(line);
        }
    }
}

const SRC: Gpr = Gpr::RSI;
const DST: Gpr = Gpr::RDX;
const ROWS: Gpr = Gpr::RCX;
const LINES: Gpr = Gpr::R11;
/// The angles of the row.
const COSINES: Gpr = Gpr::RBX;
const SINES: Gpr = Gpr::RBP;
/// The second elements of pairs that lie apart, later the elements that are copied; on both sides.
const OTHER: [Gpr; 2] = [Gpr::R13, Gpr::R14];
const TEMP: Gpr = Gpr::R12;

const X: Vreg = Vreg(0);
const Y: Vreg = Vreg(1);
const COSINE: Vreg = Vreg(2);
const SINE: Vreg = Vreg(3);
const SUM: Vreg = Vreg(4);
const PRODUCT: Vreg = Vreg(5);
/// For pairs of neighbours: the signs, and for each lane the angle that it takes.
const SIGNS: Vreg = Vreg(10);
const SPREAD: Vreg = Vreg(11);

/// The sign of the first of each pair.
const FIRST_NEGATIVE: [u32; 8] = [1 << 31, 0, 1 << 31, 0, 1 << 31, 0, 1 << 31, 0];
/// The angles of the elements of four pairs, and of the next four.
const FIRST_ANGLES: [u32; 8] = [0, 0, 1, 1, 2, 2, 3, 3];
const NEXT_ANGLES: [u32; 8] = [4, 4, 5, 5, 6, 6, 7, 7];
/// Selectors of four elements, two bits each: neighbours change places.
const SWAP: u8 = 0b10_11_00_01;

/// The mask of the angles of a whole vector of neighbours, and the mask of the last angles.
fn angle_masks(asm: &Asm) -> [Mask; 2] {
    [asm.mask(1, Vreg(12)), asm.mask(2, Vreg(13))]
}

/// Emits the code of that key.
pub fn emit(code: &RotaryCode, asm: &mut Asm) {
    asm.prologue();
    asm.load(SRC, arg!(RotaryArgs.src));
    asm.load(DST, arg!(RotaryArgs.dst));
    asm.load(LINES, arg!(RotaryArgs.lines));
    asm.load(ROWS, arg!(RotaryArgs.rows));
    if code.interleaved {
        prepare_neighbours(asm);
    }
    prepare_pairs(code, asm);
    asm.repeat(ROWS, |asm| {
        angles(asm);
        if code.interleaved {
            loops::row(asm, neighbours);
        } else {
            asm.load(TEMP, arg!(RotaryArgs.pairs));
            asm.shl_imm(TEMP, 2);
            others(asm);
            loops::row(asm, apart);
        }
        asm.load(TEMP, arg!(RotaryArgs.rest));
        asm.unless_zero(TEMP, |asm| {
            asm.load(TEMP, arg!(RotaryArgs.pairs));
            asm.shl_imm(TEMP, 3);
            others(asm);
            loops::prepare_rows(asm, arg!(RotaryArgs.rest));
            loops::row(asm, |asm, place| {
                place.load(asm, X, OTHER[0]);
                place.store(asm, OTHER[1], X);
            });
            prepare_pairs(code, asm);
        });
        asm.load(TEMP, arg!(RotaryArgs.stride));
        asm.add(SRC, TEMP);
        asm.add(DST, TEMP);
    });
    asm.epilogue();
}

/// Loads the registers that all rows of neighbours share.
fn prepare_neighbours(asm: &mut Asm) {
    let [whole, _] = angle_masks(asm);
    asm.vload_table(SIGNS, &FIRST_NEGATIVE);
    asm.vload_table(SPREAD, &FIRST_ANGLES);
    if asm.lanes() > 8 {
        // The lanes behind the first eight take the next angles.
        asm.vload_table(X, &NEXT_ANGLES);
        asm.mov_imm(COSINES, 8);
        asm.mask_first(whole, COSINES, TEMP);
        asm.select(SPREAD, whole, SPREAD, X);
    }
    asm.mov_imm(COSINES, asm.lanes() as i64 / 2);
    asm.mask_first(whole, COSINES, TEMP);
}

/// The loop bounds of a row's pairs, and the mask of the last angles of neighbours.
fn prepare_pairs(code: &RotaryCode, asm: &mut Asm) {
    if !code.interleaved {
        return loops::prepare_rows(asm, arg!(RotaryArgs.pairs));
    }
    let [_, last] = angle_masks(asm);
    asm.load(COSINES, arg!(RotaryArgs.pairs));
    asm.and_imm(COSINES, asm.lanes() as i32 / 2 - 1);
    asm.mask_first(last, COSINES, TEMP);
    loops::prepare_doubled(asm, arg!(RotaryArgs.pairs));
}

/// The angles of this row, and the advance to the next number of a line.
fn angles(asm: &mut Asm) {
    asm.load(COSINES, Mem::at(LINES, 0));
    asm.load(TEMP, arg!(RotaryArgs.pairs));
    asm.shl_imm(TEMP, 2);
    asm.imul(COSINES, TEMP);
    asm.mov(SINES, COSINES);
    asm.add_mem(COSINES, arg!(RotaryArgs.cosines));
    asm.add_mem(SINES, arg!(RotaryArgs.sines));
    asm.add_mem(LINES, arg!(RotaryArgs.step));
}

/// Computes [`OTHER`], which is [`TEMP`] bytes behind the row's first element.
fn others(asm: &mut Asm) {
    for (other, first) in OTHER.into_iter().zip([SRC, DST]) {
        asm.mov(other, first);
        asm.add(other, TEMP);
    }
}

/// A vector of pairs whose elements lie apart.
fn apart(asm: &mut Asm, place: Place) {
    for (vector, base) in [(X, SRC), (Y, OTHER[0]), (COSINE, COSINES), (SINE, SINES)] {
        place.load(asm, vector, base);
    }
    asm.vmul(SUM, COSINE, X);
    asm.vmul(PRODUCT, SINE, Y);
    asm.vsub(SUM, SUM, PRODUCT);
    place.store(asm, DST, SUM);
    asm.vmul(X, SINE, X);
    asm.vmul(Y, COSINE, Y);
    asm.vadd(X, X, Y);
    place.store(asm, OTHER[1], X);
}

/// A vector of neighbours.
fn neighbours(asm: &mut Asm, place: Place) {
    let [whole, last] = angle_masks(asm);
    place.load(asm, X, SRC);
    asm.vpermute_32(Y, X, SWAP);
    let mut angle = place.at_half(asm);
    angle.tail = Some(if place.tail.is_some() { last } else { whole });
    for (vector, base) in [(COSINE, COSINES), (SINE, SINES)] {
        angle.load(asm, vector, base);
        asm.vlookup(vector, SPREAD, vector);
    }
    asm.vmul(X, COSINE, X);
    asm.vmul(Y, SINE, Y);
    asm.vxor(Y, Y, SIGNS);
    asm.vadd(X, X, Y);
    place.store(asm, DST, X);
}
