//! The micro-kernel of depthwise windows over lines of bytes (AVX-512 with VNNI).
//!
//! An instruction multiplies four bytes of each channel, which lie below each other in four lines of the input. The
//! kernel loads sixteen channels of a position from each line, interleaves these bytes in registers, and adds their
//! products to every output that has the position in its window. So lines stay as they are, a byte an element, and a
//! position is interleaved once for all outputs of a tile.

use std::cell::Cell;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::epilogue::{Epilogue, GROUPED, Packed, Rounding};
use super::tile::Form;
use crate::cpu::conv::Weights;
use crate::cpu::epilogue::{self, Column, Operand};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Cond, Extents, Gpr, Label, Mem, Vreg, arg};
use crate::problem::quantized::Output;

/// The name of the code.
pub(crate) const FAMILY: &str = "quantized lines";

/// Most outputs of a tile, which lie side by side.
pub(crate) const MOST_ROWS: usize = 8;

/// Lines whose bytes are multiplied at a time: four bytes fill a lane.
pub(crate) const GROUP: usize = 4;

/// The most positions of a window's line: their weights stay in registers.
const MOST_TAPS: usize = 8;

/// The most positions that a tile reads, which is what bounds its instructions.
const MOST_POSITIONS: usize = 40;

/// The order of bytes that interleaves four channels of each of four lines in a group of 128 bits. [`GROUPED`] brings
/// these channels into a group.
pub(crate) static INTERLEAVED: [u32; 4] = [0x0C08_0400, 0x0D09_0501, 0x0E0A_0602, 0x0F0B_0703];

/// What shapes the instructions: one code for all sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct LinesCode {
    /// Level.
    pub isa: Isa,
    /// Lines that are interleaved, at most four.
    pub lines: u8,
    /// Positions of a window's line.
    pub taps: u8,
    /// Positions from one output to the next.
    pub stride: u8,
    /// Positions from one tap to the next.
    pub dilation: u8,
    /// Type and rounding of the output.
    pub output: Output,
}

impl LinesCode {
    /// The code for windows of that size, or `None` where lines are interleaved in memory: below AVX-512, in other
    /// forms than [`Form::Bytes`], and for windows whose code would be long.
    pub(crate) fn of(
        isa: Isa,
        weights: &Weights,
        form: Form,
        [stride, dilation]: [usize; 2],
        output: Output,
    ) -> Option<LinesCode> {
        let [_, height, taps] = weights.kernel;
        let positions = (MOST_ROWS - 1).checked_mul(stride)?.checked_add((taps.max(1) - 1).checked_mul(dilation)?)?;
        let fits =
            isa == Isa::Avx512 && form == Form::Bytes && (1..=MOST_TAPS).contains(&taps) && height > 0 && dilation > 0;
        if !fits || positions >= MOST_POSITIONS {
            return None;
        }
        let [lines, taps, stride, dilation] = [height.min(GROUP), taps, stride, dilation].map(|number| number as u8);
        Some(LinesCode { isa, lines, taps, stride, dilation, output })
    }

    /// Positions that a tile of `rows` outputs reads.
    fn positions(&self, rows: usize) -> usize {
        let [taps, stride, dilation] = [self.taps, self.stride, self.dilation].map(usize::from);
        (rows.max(1) - 1) * stride + (taps.max(1) - 1) * dilation + 1
    }
}

/// The arguments of one call: `tiles` tiles of `rows` outputs beside each other, over the same channels. Strides are in
/// bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LinesArgs {
    /// Outputs of each tile, 1 to [`MOST_ROWS`].
    pub(crate) rows: usize,
    /// Tiles still to do, at least 1.
    pub(crate) tiles: Cell<usize>,
    /// Vectors of channels, at least 1.
    pub(crate) vectors: usize,
    /// Pointers `[group][line]` to the first position, [`GROUP`] for each group.
    pub(crate) table: *const *const u8,
    /// Groups of lines, at least 1.
    pub(crate) groups: usize,
    /// Offset of the tile's first position and channel in each line.
    pub(crate) at: Cell<usize>,
    /// From one tile's first position to the next one's.
    pub(crate) tile_stride: usize,
    /// From one position to the next.
    pub(crate) channels: usize,
    /// Weights `[vector][group][tap]`, each a vector.
    pub(crate) weights: *const u8,
    /// The first output.
    pub(crate) c: Cell<*mut u8>,
    /// From one output to the next.
    pub(crate) ldc: usize,
    /// From the outputs of one tile to those of the next.
    pub(crate) c_tile_stride: usize,
    /// Start value of each channel's sum, its factor and its addend.
    pub(crate) start: *const i32,
    pub(crate) scale: *const f32,
    pub(crate) shift: *const f32,
    /// Bounds before rounding, and what is added after it.
    pub(crate) low: f32,
    pub(crate) high: f32,
    pub(crate) zero: i32,
    /// [`GROUPED`], and [`INTERLEAVED`].
    pub(crate) lanes: *const u32,
    pub(crate) bytes: *const u32,
}

impl LinesArgs {
    /// Arguments with the epilogue of the channels from `channel` on, and nothing else.
    pub(crate) fn with_epilogue(start: &[i32], epilogue: &Epilogue<'_>, channel: usize) -> LinesArgs {
        LinesArgs {
            rows: 0,
            tiles: 0.into(),
            vectors: 0,
            table: std::ptr::null(),
            groups: 0,
            at: 0.into(),
            tile_stride: 0,
            channels: 0,
            weights: std::ptr::null(),
            c: std::ptr::null_mut::<u8>().into(),
            ldc: 0,
            c_tile_stride: 0,
            start: start.get(channel..).unwrap_or_default().as_ptr(),
            scale: epilogue.scale.get(channel..).unwrap_or_default().as_ptr(),
            shift: epilogue.shift.get(channel..).unwrap_or_default().as_ptr(),
            low: epilogue.low,
            high: epilogue.high,
            zero: epilogue.zero,
            lanes: GROUPED.as_ptr(),
            bytes: INTERLEAVED.as_ptr(),
        }
    }
}

impl Arguments for LinesArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = LinesCode;

    fn extents(&self, code: &LinesCode, extents: &mut Extents<'_>) {
        if !(1..=MOST_ROWS).contains(&self.rows) {
            return;
        }
        let (tiles, lanes) = (self.tiles.get().max(1), self.vectors.max(1).saturating_mul(code.isa.lanes()));
        let output = extents.write("output", self.c.get()).over(tiles, self.c_tile_stride).over(self.rows, self.ldc);
        output.bytes(lanes.saturating_mul(code.output.bytes()));
        extents.read("what sums start from", self.start).bytes(lanes.saturating_mul(4));
        if code.output != Output::Sums {
            extents.read("factors", self.scale).bytes(lanes.saturating_mul(4));
            extents.read("addends", self.shift).bytes(lanes.saturating_mul(4));
        }
        let groups = self.groups.max(1);
        let lines = extents.list("the table of lines", self.table, groups.saturating_mul(GROUP));
        for line in lines.chunks(GROUP).flat_map(|group| &group[..usize::from(code.lines).min(group.len())]) {
            let read = extents.read("a line", line.wrapping_add(self.at.get()));
            read.over(tiles, self.tile_stride).over(code.positions(self.rows), self.channels).bytes(lanes);
        }
        let weights = groups.saturating_mul(usize::from(code.taps)).saturating_mul(4);
        extents.read("weights", self.weights).bytes(lanes.saturating_mul(weights));
        extents.read("order", self.lanes).bytes(size_of_val(&GROUPED));
        extents.read("order of bytes", self.bytes).bytes(size_of_val(&INTERLEAVED));
    }
}

// Lines, and after the window factors and addends.
const LINES: [Gpr; GROUP] = [Gpr::RAX, Gpr::RCX, Gpr::RDX, Gpr::RBX];
const SCALE: Gpr = Gpr::RAX;
const SHIFT: Gpr = Gpr::RCX;
const LDC: Gpr = Gpr::RDX;
/// Offset in the lines of the position in turn, and of the tile's first one.
const POSITION: Gpr = Gpr::RSI;
const FIRST: Gpr = Gpr::R8;
/// Bytes of a position.
const CHANNELS: Gpr = Gpr::RBP;
const WEIGHTS: Gpr = Gpr::R11;
const TABLE: Gpr = Gpr::R12;
const GROUPS: Gpr = Gpr::R13;
const VECTORS: Gpr = Gpr::R14;
/// Offset of the vector's channels in lists of 32-bit numbers.
const COLUMN: Gpr = Gpr::R15;
const C: Gpr = Gpr::R9;
const T0: Gpr = Gpr::R10;

impl LinesCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        let [lines, taps] = [self.lines, self.taps].map(usize::from);
        let window = (1..=GROUP).contains(&lines) && (1..=MOST_TAPS).contains(&taps) && self.dilation > 0;
        if self.isa != Isa::Avx512 || !window || self.positions(MOST_ROWS) > MOST_POSITIONS {
            return Err(KernelError::Unsupported { family: FAMILY, reason: format!("{self:?}") });
        }
        let (again, next, done) = (asm.label(), asm.label(), asm.label());
        let variants: Vec<(usize, Label)> = (1..=MOST_ROWS).rev().map(|rows| (rows, asm.label())).collect();
        asm.prologue();
        asm.load(T0, arg!(LinesArgs.lanes));
        asm.vload(LANE_ORDER, Mem::at(T0, 0));
        asm.load(T0, arg!(LinesArgs.bytes));
        asm.vbroadcast_group(BYTE_ORDER, Mem::at(T0, 0));
        if self.output != Output::Sums {
            asm.vbroadcast(ROUNDING.low, arg!(LinesArgs.low));
            asm.vbroadcast(ROUNDING.high, arg!(LinesArgs.high));
        }
        if self.output.bytes() == 1 {
            asm.vbroadcast(ROUNDING.zero, arg!(LinesArgs.zero));
            asm.vpack_words(ROUNDING.zero, ROUNDING.zero, ROUNDING.zero);
        }
        asm.load(CHANNELS, arg!(LinesArgs.channels));
        asm.bind(again);
        asm.load(FIRST, arg!(LinesArgs.at));
        asm.load(WEIGHTS, arg!(LinesArgs.weights));
        asm.load(C, arg!(LinesArgs.c));
        asm.load(VECTORS, arg!(LinesArgs.vectors));
        asm.mov_imm(COLUMN, 0);
        asm.load(T0, arg!(LinesArgs.rows));
        for &(rows, label) in &variants {
            asm.cmp_imm(T0, rows as i32);
            asm.jump_if(Cond::Equal, label);
        }
        asm.jump(done);
        for &(rows, label) in &variants {
            asm.align(16);
            asm.bind(label);
            asm.repeat(VECTORS, |asm| self.vector(asm, rows));
            asm.jump(next);
        }
        asm.bind(next);
        for (place, step) in
            [(arg!(LinesArgs.at), arg!(LinesArgs.tile_stride)), (arg!(LinesArgs.c), arg!(LinesArgs.c_tile_stride))]
        {
            asm.load(T0, place);
            asm.add_mem(T0, step);
            asm.store(place, T0);
        }
        asm.load(T0, arg!(LinesArgs.tiles));
        asm.sub_imm(T0, 1);
        asm.store(arg!(LinesArgs.tiles), T0);
        asm.cmp_imm(T0, 0);
        asm.jump_if(Cond::Greater, again);
        asm.bind(done);
        asm.epilogue();
        Ok(())
    }

    /// The outputs of a tile in one vector of channels.
    fn vector(&self, asm: &mut Asm, rows: usize) {
        let bytes = asm.vector_bytes();
        asm.load(T0, arg!(LinesArgs.start));
        asm.vload(sum(0), Mem::indexed(T0, COLUMN, 1, 0));
        (1..rows).for_each(|row| asm.vmov(sum(row), sum(0)));
        asm.load(TABLE, arg!(LinesArgs.table));
        asm.load(GROUPS, arg!(LinesArgs.groups));
        asm.repeat(GROUPS, |asm| {
            for (&line, at) in LINES[..self.lines.into()].iter().zip(0..) {
                asm.load(line, Mem::at(TABLE, at * 8));
            }
            for tap in 0..self.taps {
                asm.vload(weight(tap), Mem::at(WEIGHTS, i32::from(tap) * bytes));
            }
            asm.mov(POSITION, FIRST);
            self.window(asm, rows);
            asm.add_imm(WEIGHTS, i32::from(self.taps) * bytes);
            asm.add_imm(TABLE, GROUP as i32 * 8);
        });
        self.results(asm, rows);
        let lanes = asm.lanes() as i32;
        asm.add_imm(FIRST, lanes);
        asm.add_imm(C, lanes * self.output.bytes() as i32);
        asm.add_imm(COLUMN, bytes);
    }

    /// Adds the products of a group of lines, position after position.
    fn window(&self, asm: &mut Asm, rows: usize) {
        // The outputs that have the position in their window, and the tap that is there.
        let read = |position: usize| {
            let [taps, stride, dilation] = [self.taps, self.stride, self.dilation].map(usize::from);
            (0..rows).filter_map(move |row| {
                let place = position.checked_sub(row * stride)?;
                let tap = place / dilation;
                (place % dilation == 0 && tap < taps).then_some((row, tap as u8))
            })
        };
        let mut passed = 0;
        for position in (0..self.positions(rows)).filter(|&position| read(position).next().is_some()) {
            (passed..position).for_each(|_| asm.add(POSITION, CHANNELS));
            passed = position;
            // Lanes of further lines, whose weights are zero, repeat the first one.
            asm.vbroadcast_group(BYTES, Mem::indexed(LINES[0], POSITION, 1, 0));
            for line in 1..self.lines {
                let from = Mem::indexed(LINES[usize::from(line)], POSITION, 1, 0);
                asm.vinsert_group(BYTES, BYTES, from, line);
            }
            asm.vlookup(BYTES, LANE_ORDER, BYTES);
            asm.vshuffle_bytes(BYTES, BYTES, BYTE_ORDER);
            read(position).for_each(|(row, tap)| asm.vdot_bytes(sum(row), BYTES, weight(tap)));
        }
    }

    /// The epilogue and the stores.
    fn results(&self, asm: &mut Asm, rows: usize) {
        let [factors, addends] = [SCALE, SHIFT].map(|list| Operand::Memory(Mem::at(list, 0)));
        let stages = self.output.stages(self.isa, factors, addends, ROUNDING);
        if self.output != Output::Sums {
            for (list, from) in [(SCALE, arg!(LinesArgs.scale)), (SHIFT, arg!(LinesArgs.shift))] {
                asm.load(list, from);
                asm.add(list, COLUMN);
            }
        }
        asm.load(LDC, arg!(LinesArgs.ldc));
        asm.mov(T0, C);
        let packed = Packed { signed: self.output == Output::Signed, zero: ROUNDING.zero, order: LANE_ORDER };
        let all: Vec<Vreg> = (0..rows).map(sum).collect();
        for sums in all.chunks(4) {
            sums.iter().for_each(|&sum| epilogue::emit(asm, &stages, sum, Column { vector: 0, mask: None }));
            if self.output.is_packed(self.isa) {
                packed.emit(asm, sums);
            }
            for (&sum, group) in sums.iter().zip(0..) {
                match self.output.is_packed(self.isa) {
                    true => asm.vstore_group(Mem::at(T0, 0), sums[0], group),
                    false => self.output.store(asm, Mem::at(T0, 0), None, sum, BYTES),
                }
                asm.add(T0, LDC);
            }
        }
    }
}

fn sum(row: usize) -> Vreg {
    Vreg(row as u8)
}

fn weight(tap: u8) -> Vreg {
    Vreg(MOST_ROWS as u8 + tap)
}

/// The interleaved bytes of a position.
const BYTES: Vreg = Vreg(16);
const LANE_ORDER: Vreg = Vreg(17);
const BYTE_ORDER: Vreg = Vreg(18);
const ROUNDING: Rounding = Rounding { low: Vreg(19), high: Vreg(20), zero: Vreg(21) };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CodeKey;

    #[test]
    fn long_windows_and_other_forms_are_interleaved_in_memory() {
        let of = |form: Form, kernel: [usize; 3], along_line: [usize; 2]| {
            let weights = Weights { groups: 8, channels: 8, filters: 8, kernel, transposed: None };
            LinesCode::of(Isa::Avx512, &weights, form, along_line, Output::Sums).is_some()
        };
        assert!(of(Form::Bytes, [1, 3, 3], [1, 1]) && of(Form::Bytes, [3, 9, 8], [4, 1]));
        assert!(!of(Form::Bytes, [1, 3, 9], [1, 1]), "more taps than registers");
        assert!(!of(Form::Bytes, [1, 3, 3], [6, 1]) && !of(Form::Bytes, [1, 3, 3], [1, 17]), "more positions");
        assert!(!of(Form::Words, [1, 3, 3], [1, 1]));
    }

    #[test]
    fn codes_that_no_window_has_are_refused() {
        let isa = Isa::Avx512;
        let code = LinesCode { isa, lines: 3, taps: 3, stride: 1, dilation: 1, output: Output::Unsigned };
        let emits = |code: LinesCode| CodeKey::QuantizedLines(code).emit(0).is_ok();
        assert!(emits(code));
        for wrong in [
            LinesCode { isa: Isa::Avx2, ..code },
            LinesCode { lines: 0, ..code },
            LinesCode { lines: 5, ..code },
            LinesCode { taps: 0, ..code },
            LinesCode { taps: 9, ..code },
            LinesCode { stride: 255, ..code },
            LinesCode { dilation: 0, ..code },
        ] {
            assert!(!emits(wrong), "{wrong:?}");
        }
    }
}
