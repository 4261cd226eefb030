//! Instructions of layer and RMS normalisation: the mean, the mean square around it, then the result. A row stays in L1
//! between the passes. Lengths are arguments.
//!
//! Between two passes, a sum across lanes, a root and a division take some 100 cycles a row in which nothing else runs.
//! That is as long as the passes over a few hundred elements. Rows therefore go in pairs: one wait serves both rows,
//! sums have twice as many accumulators, and factors and summands are read once for two rows.
//!
//! Memory would be idle while a row is computed. Before the last pass the cache lines of the results are prefetched,
//! because stores wait for their lines as loads do; during the last pass, the second row of the next pair (hardware
//! prefetchers follow the first one, which begins where this pair ends). On AVX-512, rows of 1024 from memory took 0.55
//! of their time with these prefetches.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::FAMILY;
use crate::cpu::{Stored, loops};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Gpr, Mem, Vreg, arg};

/// What determines the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct RowNormCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// Whether the mean is subtracted.
    pub centred: bool,
    /// Whether there are factors.
    pub scale: bool,
    /// Whether there are summands.
    pub bias: bool,
    /// Whether each row's moments are stored.
    pub moments: bool,
    /// Element type of the results; anything but `f32` with AVX-512 only.
    pub output: Stored,
}

/// Arguments; strides are in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RowNormArgs {
    /// First element of the first row.
    pub src: *const f32,
    /// First element of the first result.
    pub dst: *mut u8,
    /// Factors of the first row.
    pub scale: *const f32,
    /// Summands of the first row.
    pub bias: *const f32,
    /// Where the first row's mean goes.
    pub mean: *mut f32,
    /// Where its reciprocal deviation goes.
    pub deviation: *mut f32,
    /// Pairs of rows, which come first; 0 where each row has factors or summands of its own.
    pub pairs: usize,
    /// Single rows, after the pairs.
    pub rows: usize,
    /// Elements of a row, at least 1.
    pub length: usize,
    /// From a row of the input to the next.
    pub stride: usize,
    /// From a row of results to the next.
    pub dst_stride: usize,
    /// From a row of factors to the next; 0 where all rows share them.
    pub scale_step: usize,
    /// From a row of summands to the next; 0 where all rows share them.
    pub bias_step: usize,
    /// 1 / length.
    pub reciprocal: f32,
    /// Added to the mean square.
    pub epsilon: f32,
}

impl Arguments for RowNormArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = RowNormCode;

    fn extents(&self, code: &RowNormCode, extents: &mut Extents<'_>) {
        let rows = self.pairs.saturating_mul(2).saturating_add(self.rows);
        let length = self.length.saturating_mul(4);
        extents.read("input", self.src).over(rows, self.stride).bytes(length);
        let output = extents.write("output", self.dst).over(rows, self.dst_stride);
        output.bytes(self.length.saturating_mul(code.output.bytes()));
        if code.scale {
            extents.read("scale", self.scale).over(rows, self.scale_step).bytes(length);
        }
        if code.bias {
            extents.read("bias", self.bias).over(rows, self.bias_step).bytes(length);
        }
        if code.moments {
            extents.write("means", self.mean).over(rows, 4).bytes(4);
            extents.write("deviations", self.deviation).over(rows, 4).bytes(4);
        }
    }
}

/// Addresses of the current row, or of both rows of a pair: input, then output.
const SRC: [Gpr; 2] = [Gpr::RSI, Gpr::R14];
const DST: [Gpr; 2] = [Gpr::RDX, Gpr::RBP];
const ROWS: Gpr = Gpr::RCX;
const SCALE: Gpr = Gpr::R11;
const BIAS: Gpr = Gpr::RBX;
const MEANS: Gpr = Gpr::R12;
const DEVIATIONS: Gpr = Gpr::R13;
/// The second row of the next pair; not in use where results are stored as `f32`.
const NEXT: Gpr = Gpr::R15;

/// Accumulator `vector` of row `row` of a pair: the first registers.
const fn sum(row: u8, vector: u8) -> Vreg {
    Vreg(row * loops::UNROLL + vector)
}

const fn mean_of(row: u8) -> Vreg {
    Vreg(8 + row)
}

const fn deviation_of(row: u8) -> Vreg {
    Vreg(10 + row)
}

const VALUE: Vreg = Vreg(12);
const FACTOR: Vreg = Vreg(13);
const TEMP: Vreg = Vreg(14);

/// Emits the code of that key.
pub fn emit(code: &RowNormCode, asm: &mut Asm) {
    asm.prologue();
    for (register, argument) in [
        (SRC[0], arg!(RowNormArgs.src)),
        (DST[0], arg!(RowNormArgs.dst)),
        (SCALE, arg!(RowNormArgs.scale)),
        (BIAS, arg!(RowNormArgs.bias)),
        (MEANS, arg!(RowNormArgs.mean)),
        (DEVIATIONS, arg!(RowNormArgs.deviation)),
    ] {
        asm.load(register, argument);
    }
    loops::prepare_rows(asm, arg!(RowNormArgs.length));
    for (rows, argument) in [(2, arg!(RowNormArgs.pairs)), (1, arg!(RowNormArgs.rows))] {
        asm.load(ROWS, argument);
        asm.for_each(ROWS, 1, |asm| together(code, asm, rows));
    }
    asm.epilogue();
}

/// Emits the passes over one or two rows, and the advance to the next.
fn together(code: &RowNormCode, asm: &mut Asm, rows: u8) {
    if rows == 2 {
        for (side, stride) in [(SRC, arg!(RowNormArgs.stride)), (DST, arg!(RowNormArgs.dst_stride))] {
            asm.mov(side[1], side[0]);
            asm.add_mem(side[1], stride);
        }
    }
    mean(code, asm, rows);
    deviation(code, asm, rows);
    result(code, asm, rows);
    for row in 0..rows {
        if code.moments {
            asm.vstore_one(Mem::at(MEANS, 0), mean_of(row));
            asm.vstore_one(Mem::at(DEVIATIONS, 0), deviation_of(row));
            asm.add_imm(MEANS, 4);
            asm.add_imm(DEVIATIONS, 4);
        }
        asm.add_mem(SRC[0], arg!(RowNormArgs.stride));
        asm.add_mem(DST[0], arg!(RowNormArgs.dst_stride));
        if code.scale {
            asm.add_mem(SCALE, arg!(RowNormArgs.scale_step));
        }
        if code.bias {
            asm.add_mem(BIAS, arg!(RowNormArgs.bias_step));
        }
    }
}

fn clear(asm: &mut Asm, rows: u8) {
    (0..rows * loops::UNROLL).for_each(|register| asm.vzero(Vreg(register)));
}

/// Sums all lanes of all accumulators of each row, and multiplies by 1 / length: in every lane of `dst`.
fn average(asm: &mut Asm, rows: u8, dst: fn(u8) -> Vreg) {
    for (to, from) in [(0, 1), (2, 3), (0, 2)] {
        (0..rows).for_each(|row| asm.vadd(sum(row, to), sum(row, to), sum(row, from)));
    }
    asm.vbroadcast(FACTOR, arg!(RowNormArgs.reciprocal));
    for row in 0..rows {
        asm.vreduce_add(dst(row), sum(row, 0), TEMP);
        asm.vmul(dst(row), dst(row), FACTOR);
    }
}

fn mean(code: &RowNormCode, asm: &mut Asm, rows: u8) {
    if !code.centred {
        return (0..rows).for_each(|row| asm.vzero(mean_of(row)));
    }
    clear(asm, rows);
    loops::row(asm, |asm, place| {
        for row in 0..rows {
            let (sum, src) = (sum(row, place.vector), SRC[usize::from(row)]);
            if place.tail.is_none() {
                asm.vadd(sum, sum, place.address(src));
            } else {
                place.load(asm, VALUE, src);
                asm.vadd(sum, sum, VALUE);
            }
        }
    });
    average(asm, rows, mean_of);
}

fn deviation(code: &RowNormCode, asm: &mut Asm, rows: u8) {
    clear(asm, rows);
    loops::row(asm, |asm, place| {
        for row in 0..rows {
            if code.output == Stored::F32 {
                place.prefetch(asm, DST[usize::from(row)]);
            }
            place.load(asm, VALUE, SRC[usize::from(row)]);
            if code.centred {
                asm.vsub(VALUE, VALUE, mean_of(row));
                place.clear_unused(asm, VALUE, TEMP);
            }
            asm.vfma231(sum(row, place.vector), VALUE, VALUE);
        }
    });
    average(asm, rows, deviation_of);
    asm.vbroadcast(FACTOR, arg!(RowNormArgs.epsilon));
    asm.vload(VALUE, 1.0);
    for row in 0..rows {
        let deviation = deviation_of(row);
        asm.vadd(deviation, deviation, FACTOR);
        asm.vsqrt(deviation, deviation);
        asm.vdiv(deviation, VALUE, deviation);
    }
}

fn result(code: &RowNormCode, asm: &mut Asm, rows: u8) {
    if code.output == Stored::F32 {
        asm.mov(NEXT, SRC[usize::from(rows) - 1]);
        (0..rows).for_each(|_| asm.add_mem(NEXT, arg!(RowNormArgs.stride)));
    }
    loops::row(asm, |asm, place| {
        if code.output == Stored::F32 {
            place.prefetch(asm, NEXT);
        }
        if code.scale {
            place.load(asm, FACTOR, SCALE);
        }
        if code.bias {
            place.load(asm, TEMP, BIAS);
        }
        for row in 0..rows {
            place.load(asm, VALUE, SRC[usize::from(row)]);
            if code.centred {
                asm.vsub(VALUE, VALUE, mean_of(row));
            }
            asm.vmul(VALUE, VALUE, deviation_of(row));
            match (code.scale, code.bias) {
                (true, true) => asm.vfma213(VALUE, FACTOR, TEMP),
                (true, false) => asm.vmul(VALUE, VALUE, FACTOR),
                (false, true) => asm.vadd(VALUE, VALUE, TEMP),
                (false, false) => {}
            }
            place.store_as(code.output, asm, DST[usize::from(row)], VALUE);
        }
    });
}
