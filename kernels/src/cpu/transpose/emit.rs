//! Instructions that transpose tiles of 4-byte and 8-byte elements. Strides and counts are arguments; no shape is known
//! here.
//!
//! A tile is square, with as many rows as a vector has lanes (`L`). Its rows are loaded whole, interleaved within
//! 128-bit groups in two rounds (pairs, then pairs of pairs), and the groups are then exchanged between registers. No
//! step needs a mask: the driver lets the last tile overlap the one before it.
//!
//! Images with two to seven channels have planes too narrow for a square tile, and two forms of their own. These move
//! whole vectors, but only the first few lanes matter: the next row overwrites the others, or they are ignored. Up to
//! four channels lie in one 128-bit group. More channels take the square tile of AVX2, on every level.

use std::ops::RangeInclusive;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Gpr, Mem, Vreg, arg, counted_down};

/// How tiles are stored to the rows of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Stores {
    /// Ordinary stores.
    Near,
    /// Ordinary stores to rows that are far apart, each on its own pages, where hardware prefetchers do not follow.
    /// With each tile the code prefetches the rows below it, which the next round of the outer loop writes.
    Ahead,
    /// Streaming stores of whole cache lines. Every row of a tile is an aligned vector, and the driver ends with a
    /// fence.
    Stream,
}

/// The operation of a piece of transposition code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Form {
    /// Square tiles, in a loop within a loop.
    Tile(Stores),
    /// Square tiles of 8-byte elements, in the same loops.
    WideTile(Stores),
    /// A matrix of that many rows ([`NARROW`]) becomes a dense matrix of that many columns.
    Interleave(u8),
    /// A dense matrix of that many columns ([`NARROW`]) becomes a matrix of that many rows.
    Deinterleave(u8),
}

/// The widths of [`Form::Interleave`] and [`Form::Deinterleave`].
pub(super) const NARROW: RangeInclusive<u8> = 2..=7;
/// The widths among them that need vectors of 8 lanes: those of AVX2.
pub(super) const HALF_TILE: RangeInclusive<u8> = 5..=7;

/// What determines the instructions of a transposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct TransposeCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// The operation.
    pub form: Form,
}

/// Arguments of every form; strides are in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TransposeArgs {
    /// First element of the first tile.
    pub src: *const u8,
    /// First element of the first transposed tile.
    pub dst: *mut u8,
    /// From one row of the input to the next.
    pub src_stride: usize,
    /// From one row of the output to the next.
    pub dst_stride: usize,
    /// Tiles of the inner loop, at least 1.
    pub inner: usize,
    /// From one tile of the inner loop to the next in the input (square tiles only; for narrow forms the width
    /// determines it).
    pub inner_src: usize,
    /// The same in the output.
    pub inner_dst: usize,
    /// Rounds of the outer loop, at least 1 (square tiles only).
    pub outer: usize,
    /// From the end of the inner loop in the input to the start of its next round.
    pub outer_src: isize,
    /// The same in the output.
    pub outer_dst: isize,
}

/// The part of the code's key that determines the memory that a call touches.
#[derive(Clone, Copy, Debug)]
pub struct TransposeKernel {
    /// The level, whose vectors give a tile its side.
    pub isa: Isa,
    /// The operation.
    pub form: Form,
}

impl Arguments for TransposeArgs {
    const FAMILY: &'static str = "transpose";
    type Kernel = TransposeKernel;

    fn extents(&self, &TransposeKernel { isa, form }: &TransposeKernel, extents: &mut Extents<'_>) {
        let (inner, lanes, vector) = (counted_down(self.inner), isa.lanes(), isa.lanes() * 4);
        let (src, dst) = (self.src, self.dst);
        match form {
            Form::Tile(_) | Form::WideTile(_) => {
                let side = if matches!(form, Form::Tile(_)) { lanes } else { lanes / 2 };
                // The outer strides are counted from where the inner loop ends.
                let outer = |step: isize, covered: usize| covered.wrapping_mul(inner).wrapping_add_signed(step);
                let rounds = counted_down(self.outer);
                let tiles = extents.read("input", src).over(rounds, outer(self.outer_src, self.inner_src));
                tiles.over(inner, self.inner_src).over(side, self.src_stride).bytes(vector);
                let tiles = extents.write("output", dst).over(rounds, outer(self.outer_dst, self.inner_dst));
                tiles.over(inner, self.inner_dst).over(side, self.dst_stride).bytes(vector);
            }
            Form::Interleave(width) => {
                let (rows, dense) = (usize::from(width), usize::from(width) * 4);
                extents.read("input", src).over(inner, vector).over(rows, self.src_stride).bytes(vector);
                extents.write("output", dst).over(inner, lanes * dense).over(lanes, dense).bytes(vector);
            }
            Form::Deinterleave(width) => {
                let (rows, dense) = (usize::from(width), usize::from(width) * 4);
                extents.read("input", src).over(inner, lanes * dense).over(lanes, dense).bytes(vector);
                extents.write("output", dst).over(inner, vector).over(rows, self.dst_stride).bytes(vector);
            }
        }
    }
}

const SRC: Gpr = Gpr::RSI;
const DST: Gpr = Gpr::RDX;
const SRC_STRIDE: Gpr = Gpr::R8;
const SRC_STRIDE3: Gpr = Gpr::R9;
const DST_STRIDE: Gpr = Gpr::R10;
const DST_STRIDE3: Gpr = Gpr::R11;
const INNER: Gpr = Gpr::RCX;
const OUTER: Gpr = Gpr::RBX;
const AT: Gpr = Gpr::RAX;

/// Emits the code of that key.
pub fn emit(code: &TransposeCode, asm: &mut Asm) -> Result<()> {
    asm.prologue();
    asm.load(SRC, arg!(TransposeArgs.src));
    asm.load(DST, arg!(TransposeArgs.dst));
    asm.load(SRC_STRIDE, arg!(TransposeArgs.src_stride));
    asm.load(DST_STRIDE, arg!(TransposeArgs.dst_stride));
    asm.lea(SRC_STRIDE3, Mem::indexed(SRC_STRIDE, SRC_STRIDE, 2, 0));
    asm.lea(DST_STRIDE3, Mem::indexed(DST_STRIDE, DST_STRIDE, 2, 0));
    match code.form {
        Form::Tile(stores) => tiles(asm, asm.lanes() as u8, stores, transpose),
        Form::WideTile(stores) => tiles(asm, asm.lanes() as u8 / 2, stores, transpose_wide),
        Form::Interleave(rows @ 2..=4) => narrow(asm, |asm| interleave(asm, rows)),
        Form::Deinterleave(columns @ 2..=4) => narrow(asm, |asm| deinterleave(asm, columns)),
        Form::Interleave(rows) if takes_half_tile(asm, rows) => narrow(asm, |asm| interleave_tile(asm, rows)),
        Form::Deinterleave(columns) if takes_half_tile(asm, columns) => {
            narrow(asm, |asm| deinterleave_tile(asm, columns));
        }
        Form::Interleave(width) | Form::Deinterleave(width) => {
            let reason = format!("no narrow form is {width} wide at {} lanes", asm.lanes());
            return Err(KernelError::Unsupported { family: "transpose", reason });
        }
    }
    asm.epilogue();
    Ok(())
}

/// The address of row `row` of a matrix; `base` is the address of row `row & !3`.
fn row_of_four(base: Gpr, stride: Gpr, stride3: Gpr, row: u8) -> Mem {
    match row % 4 {
        0 => Mem::at(base, 0),
        1 => Mem::indexed(base, stride, 1, 0),
        2 => Mem::indexed(base, stride, 2, 0),
        _ => Mem::indexed(base, stride3, 1, 0),
    }
}

/// Tiles of `lanes` rows; `transpose` transposes the tile in the first registers and returns the first register of the
/// result.
fn tiles(asm: &mut Asm, lanes: u8, stores: Stores, transpose: fn(&mut Asm) -> u8) {
    asm.load(OUTER, arg!(TransposeArgs.outer));
    asm.repeat(OUTER, |asm| {
        asm.load(INNER, arg!(TransposeArgs.inner));
        asm.align(16);
        asm.repeat(INNER, |asm| {
            tile(asm, lanes, stores, transpose);
            asm.add_mem(SRC, arg!(TransposeArgs.inner_src));
            asm.add_mem(DST, arg!(TransposeArgs.inner_dst));
        });
        asm.add_mem(SRC, arg!(TransposeArgs.outer_src));
        asm.add_mem(DST, arg!(TransposeArgs.outer_dst));
    });
}

fn tile(asm: &mut Asm, lanes: u8, stores: Stores, transpose: fn(&mut Asm) -> u8) {
    asm.mov(AT, SRC);
    for row in 0..lanes {
        asm.vload(Vreg(row), row_of_four(AT, SRC_STRIDE, SRC_STRIDE3, row));
        if row % 4 == 3 && row + 1 < lanes {
            asm.lea(AT, Mem::indexed(AT, SRC_STRIDE, 4, 0));
        }
    }
    let first = transpose(asm);
    asm.mov(AT, DST);
    let last = if stores == Stores::Ahead { 2 * lanes } else { lanes };
    for row in 0..last {
        let to = row_of_four(AT, DST_STRIDE, DST_STRIDE3, row);
        match stores {
            _ if row >= lanes => asm.prefetch(to),
            Stores::Stream => asm.vstore_stream(to, Vreg(first + row)),
            Stores::Near | Stores::Ahead => asm.vstore(to, Vreg(first + row)),
        }
        if row % 4 == 3 && row + 1 < last {
            asm.lea(AT, Mem::indexed(AT, DST_STRIDE, 4, 0));
        }
    }
}

/// Transposes the square tile of 8-byte elements in the first registers: pairs within 128-bit groups, then the groups.
fn transpose_wide(asm: &mut Asm) -> u8 {
    let lanes = asm.lanes() as u8 / 2;
    for pair in (0..lanes).step_by(2) {
        asm.vunpack_lo_64(Vreg(lanes + pair), Vreg(pair), Vreg(pair + 1));
        asm.vunpack_hi_64(Vreg(lanes + pair + 1), Vreg(pair), Vreg(pair + 1));
    }
    if lanes == 4 {
        for odd in [0, 1] {
            asm.vshuffle_128(Vreg(8 + odd), Vreg(4 + odd), Vreg(6 + odd), 0x20);
            asm.vshuffle_128(Vreg(10 + odd), Vreg(4 + odd), Vreg(6 + odd), 0x31);
        }
        return 8;
    }
    // Group l of register 8 + 2p + k has column 2l + k of rows 2p and 2p + 1.
    for k in 0..2 {
        let column = |column: u8| Vreg(2 * column + k);
        transpose_groups(asm, [8 + k, 10 + k, 12 + k, 14 + k].map(Vreg), [0, 1, 2, 3].map(column));
    }
    0
}

/// A transposition of 4 x 4 groups of 128 bits: even groups by 0x88, odd groups by 0xdd, twice.
fn transpose_groups(asm: &mut Asm, from: [Vreg; 4], to: [Vreg; 4]) {
    let (even0, odd0, even1, odd1) = (Vreg(16), Vreg(17), Vreg(18), Vreg(19));
    asm.vshuffle_128(even0, from[0], from[1], 0x88);
    asm.vshuffle_128(odd0, from[0], from[1], 0xdd);
    asm.vshuffle_128(even1, from[2], from[3], 0x88);
    asm.vshuffle_128(odd1, from[2], from[3], 0xdd);
    asm.vshuffle_128(to[0], even0, even1, 0x88);
    asm.vshuffle_128(to[2], even0, even1, 0xdd);
    asm.vshuffle_128(to[1], odd0, odd1, 0x88);
    asm.vshuffle_128(to[3], odd0, odd1, 0xdd);
}

/// Transposes the square tile in the first `lanes` registers; returns the first register of the result.
fn transpose(asm: &mut Asm) -> u8 {
    let lanes = asm.lanes() as u8;
    for pair in (0..lanes).step_by(2) {
        asm.vunpack_lo_32(Vreg(lanes + pair), Vreg(pair), Vreg(pair + 1));
        asm.vunpack_hi_32(Vreg(lanes + pair + 1), Vreg(pair), Vreg(pair + 1));
    }
    // Register 4g + k now gets column 4l + k of rows 4g..4g+3 in its 128-bit group l.
    for group in (0..lanes).step_by(4) {
        let pairs = lanes + group;
        asm.vunpack_lo_64(Vreg(group), Vreg(pairs), Vreg(pairs + 2));
        asm.vunpack_hi_64(Vreg(group + 1), Vreg(pairs), Vreg(pairs + 2));
        asm.vunpack_lo_64(Vreg(group + 2), Vreg(pairs + 1), Vreg(pairs + 3));
        asm.vunpack_hi_64(Vreg(group + 3), Vreg(pairs + 1), Vreg(pairs + 3));
    }
    if lanes == 8 {
        for k in 0..4 {
            asm.vshuffle_128(Vreg(8 + k), Vreg(k), Vreg(4 + k), 0x20);
            asm.vshuffle_128(Vreg(12 + k), Vreg(k), Vreg(4 + k), 0x31);
        }
        return 8;
    }
    for k in 0..4 {
        let rows = [k, 4 + k, 8 + k, 12 + k].map(Vreg);
        transpose_groups(asm, rows, rows);
    }
    0
}

/// A loop over blocks of a row, each with as many elements as a vector has lanes.
fn narrow(asm: &mut Asm, block: impl FnOnce(&mut Asm)) {
    asm.load(INNER, arg!(TransposeArgs.inner));
    asm.align(16);
    asm.repeat(INNER, block);
}

/// Whether a narrow form of that width is a square tile of 8 lanes.
fn takes_half_tile(asm: &Asm, width: u8) -> bool {
    asm.lanes() == 8 && HALF_TILE.contains(&width)
}

fn interleave_tile(asm: &mut Asm, rows: u8) {
    let (lanes, width) = (asm.lanes() as u8, i32::from(rows) * 4);
    asm.lea(AT, Mem::indexed(SRC, SRC_STRIDE, 4, 0));
    for row in 0..lanes {
        // Rows that do not exist are given as row 0: their lanes are overwritten later.
        let from = match row {
            _ if row >= rows => Mem::at(SRC, 0),
            0..4 => row_of_four(SRC, SRC_STRIDE, SRC_STRIDE3, row),
            _ => row_of_four(AT, SRC_STRIDE, SRC_STRIDE3, row),
        };
        asm.vload(Vreg(row), from);
    }
    let first = transpose(asm);
    for column in 0..lanes {
        asm.vstore(Mem::at(DST, i32::from(column) * width), Vreg(first + column));
    }
    asm.add_imm(SRC, i32::from(lanes) * 4);
    asm.add_imm(DST, i32::from(lanes) * width);
}

fn deinterleave_tile(asm: &mut Asm, columns: u8) {
    let (lanes, width) = (asm.lanes() as u8, i32::from(columns) * 4);
    for row in 0..lanes {
        asm.vload(Vreg(row), Mem::at(SRC, i32::from(row) * width));
    }
    let first = transpose(asm);
    asm.lea(AT, Mem::indexed(DST, DST_STRIDE, 4, 0));
    for column in 0..columns {
        let base = if column < 4 { DST } else { AT };
        asm.vstore(row_of_four(base, DST_STRIDE, DST_STRIDE3, column), Vreg(first + column));
    }
    asm.add_imm(SRC, i32::from(lanes) * width);
    asm.add_imm(DST, i32::from(lanes) * 4);
}

fn interleave(asm: &mut Asm, rows: u8) {
    let lanes = asm.lanes() as i32;
    for row in 0..rows {
        asm.vload(Vreg(row), row_of_four(SRC, SRC_STRIDE, SRC_STRIDE3, row));
    }
    // Rows that do not exist are given as row 0: their lanes are overwritten later.
    let row = |row: u8| if row < rows { Vreg(row) } else { Vreg(0) };
    asm.vunpack_lo_32(Vreg(4), row(0), row(1));
    asm.vunpack_hi_32(Vreg(5), row(0), row(1));
    asm.vunpack_lo_32(Vreg(6), row(2), row(3));
    asm.vunpack_hi_32(Vreg(7), row(2), row(3));
    asm.vunpack_lo_64(Vreg(8), Vreg(4), Vreg(6));
    asm.vunpack_hi_64(Vreg(9), Vreg(4), Vreg(6));
    asm.vunpack_lo_64(Vreg(10), Vreg(5), Vreg(7));
    asm.vunpack_hi_64(Vreg(11), Vreg(5), Vreg(7));
    let width = i32::from(rows) * 4;
    for column in 0..lanes {
        let (group, k) = ((column / 4) as u8, (column % 4) as u8);
        let mut from = Vreg(8 + k);
        if group > 0 {
            // Moves group `group` to the front. AVX2 selects a half twice, AVX-512 a quarter.
            let selector = if lanes == 8 { 0x11 } else { group };
            asm.vshuffle_128(Vreg(12 + k), from, from, selector);
            from = Vreg(12 + k);
        }
        asm.vstore(Mem::at(DST, column * width), from);
    }
    asm.add_imm(SRC, lanes * 4);
    asm.add_imm(DST, lanes * width);
}

fn deinterleave(asm: &mut Asm, columns: u8) {
    let lanes = asm.lanes() as u8;
    let width = i32::from(columns) * 4;
    for row in 0..lanes {
        asm.vload(Vreg(row), Mem::at(SRC, i32::from(row) * width));
    }
    // Four of the registers after the rows hold pairs of rows.
    let pairs = lanes;
    for group in (0..lanes).step_by(4) {
        asm.vunpack_lo_32(Vreg(pairs), Vreg(group), Vreg(group + 1));
        asm.vunpack_lo_32(Vreg(pairs + 1), Vreg(group + 2), Vreg(group + 3));
        if columns > 2 {
            asm.vunpack_hi_32(Vreg(pairs + 2), Vreg(group), Vreg(group + 1));
            asm.vunpack_hi_32(Vreg(pairs + 3), Vreg(group + 2), Vreg(group + 3));
            asm.vunpack_lo_64(Vreg(group + 2), Vreg(pairs + 2), Vreg(pairs + 3));
            if columns > 3 {
                asm.vunpack_hi_64(Vreg(group + 3), Vreg(pairs + 2), Vreg(pairs + 3));
            }
        }
        asm.vunpack_lo_64(Vreg(group), Vreg(pairs), Vreg(pairs + 1));
        asm.vunpack_hi_64(Vreg(group + 1), Vreg(pairs), Vreg(pairs + 1));
    }
    for k in 0..columns {
        let out = Vreg(pairs + 4 + k % 4);
        if lanes == 8 {
            asm.vshuffle_128(out, Vreg(k), Vreg(4 + k), 0x20);
        } else {
            asm.vshuffle_128(Vreg(pairs), Vreg(k), Vreg(4 + k), 0x00);
            asm.vshuffle_128(Vreg(pairs + 1), Vreg(8 + k), Vreg(12 + k), 0x00);
            asm.vshuffle_128(out, Vreg(pairs), Vreg(pairs + 1), 0x88);
        }
        asm.vstore(row_of_four(DST, DST_STRIDE, DST_STRIDE3, k), out);
    }
    asm.add_imm(SRC, i32::from(lanes) * width);
    asm.add_imm(DST, i32::from(lanes) * 4);
}
