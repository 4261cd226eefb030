//! Instructions of layer and RMS normalisation: the mean, the mean square around it, then the result. A row stays in the
//! first-level cache between the passes. Knows lengths as arguments.

use serde::{Deserialize, Serialize};

use crate::cpu::sweep;
use crate::isa::Isa;
use crate::jit::{Asm, Cond, Gpr, Mem, Vreg};

/// All that shapes the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
}

/// Arguments; steps are in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RowNormArgs {
    /// First element of the first row.
    pub src: *const f32,
    /// Where it goes.
    pub dst: *mut f32,
    /// Factors of the first row.
    pub scale: *const f32,
    /// Summands of the first row.
    pub bias: *const f32,
    /// Where the first row's mean goes.
    pub mean: *mut f32,
    /// Where its reciprocal deviation goes.
    pub deviation: *mut f32,
    /// Rows, at least 1.
    pub rows: usize,
    /// Elements of a row, at least 1.
    pub length: usize,
    /// From row to row.
    pub stride: usize,
    /// From one row's factors to the next's.
    pub scale_step: usize,
    /// From one row's summands to the next's.
    pub bias_step: usize,
    /// One by the length.
    pub reciprocal: f32,
    /// Added to the mean square.
    pub epsilon: f32,
}

macro_rules! arg {
    ($field:ident) => {
        Mem::at(Gpr::RDI, std::mem::offset_of!(RowNormArgs, $field) as i32)
    };
}

const SRC: Gpr = Gpr::RSI;
const DST: Gpr = Gpr::RDX;
const ROWS: Gpr = Gpr::RCX;
const SCALE: Gpr = Gpr::R11;
const BIAS: Gpr = Gpr::RBX;
const MEANS: Gpr = Gpr::R12;
const DEVIATIONS: Gpr = Gpr::R13;

/// The accumulators are the first registers, up to [`sweep::UNROLL`].
const MEAN: Vreg = Vreg(4);
const DEVIATION: Vreg = Vreg(5);
const RECIPROCAL: Vreg = Vreg(6);
const EPSILON: Vreg = Vreg(7);
const VALUE: Vreg = Vreg(8);
const TEMP: Vreg = Vreg(9);

/// Emits the code of that key.
pub fn emit(code: &RowNormCode, asm: &mut Asm) {
    asm.prologue();
    for (register, argument) in [
        (SRC, arg!(src)),
        (DST, arg!(dst)),
        (SCALE, arg!(scale)),
        (BIAS, arg!(bias)),
        (MEANS, arg!(mean)),
        (DEVIATIONS, arg!(deviation)),
        (ROWS, arg!(rows)),
    ] {
        asm.load(register, argument);
    }
    asm.vbroadcast(RECIPROCAL, arg!(reciprocal));
    asm.vbroadcast(EPSILON, arg!(epsilon));
    sweep::prepare_rows(asm, arg!(length));
    let next = asm.label();
    asm.bind(next);
    mean(code, asm);
    deviation(code, asm);
    result(code, asm);
    if code.moments {
        asm.vstore_one(Mem::at(MEANS, 0), MEAN);
        asm.vstore_one(Mem::at(DEVIATIONS, 0), DEVIATION);
        asm.add_imm(MEANS, 4);
        asm.add_imm(DEVIATIONS, 4);
    }
    asm.add_mem(SRC, arg!(stride));
    asm.add_mem(DST, arg!(stride));
    if code.scale {
        asm.add_mem(SCALE, arg!(scale_step));
    }
    if code.bias {
        asm.add_mem(BIAS, arg!(bias_step));
    }
    asm.sub_imm(ROWS, 1);
    asm.test(ROWS);
    asm.jump_if(Cond::NotEqual, next);
    asm.epilogue();
}

/// All lanes of all accumulators, times one by the length, in every lane of `dst`.
fn average(asm: &mut Asm, dst: Vreg) {
    for (to, from) in [(0, 1), (2, 3), (0, 2)] {
        asm.vadd(Vreg(to), Vreg(to), Vreg(from));
    }
    asm.vreduce_add(dst, Vreg(0), TEMP);
    asm.vmul(dst, dst, RECIPROCAL);
}

fn mean(code: &RowNormCode, asm: &mut Asm) {
    if !code.centred {
        return asm.vzero(MEAN);
    }
    (0..sweep::UNROLL).for_each(|chain| asm.vzero(Vreg(chain)));
    sweep::row(asm, |asm, place| {
        let sum = Vreg(place.chain);
        if place.tail.is_none() {
            asm.vadd(sum, sum, place.of(SRC));
        } else {
            place.load(asm, VALUE, SRC);
            asm.vadd(sum, sum, VALUE);
        }
    });
    average(asm, MEAN);
}

fn deviation(code: &RowNormCode, asm: &mut Asm) {
    (0..sweep::UNROLL).for_each(|chain| asm.vzero(Vreg(chain)));
    sweep::row(asm, |asm, place| {
        place.load(asm, VALUE, SRC);
        if code.centred {
            asm.vsub(VALUE, VALUE, MEAN);
            place.only(asm, VALUE, TEMP);
        }
        asm.vfma231(Vreg(place.chain), VALUE, VALUE);
    });
    average(asm, DEVIATION);
    asm.vadd(DEVIATION, DEVIATION, EPSILON);
    asm.vsqrt(DEVIATION, DEVIATION);
    asm.vload(TEMP, 1.0);
    asm.vdiv(DEVIATION, TEMP, DEVIATION);
}

fn result(code: &RowNormCode, asm: &mut Asm) {
    sweep::row(asm, |asm, place| {
        place.load(asm, VALUE, SRC);
        if code.centred {
            asm.vsub(VALUE, VALUE, MEAN);
        }
        asm.vmul(VALUE, VALUE, DEVIATION);
        if code.scale {
            place.load(asm, TEMP, SCALE);
            asm.vmul(VALUE, VALUE, TEMP);
        }
        if code.bias {
            place.load(asm, TEMP, BIAS);
            asm.vadd(VALUE, VALUE, TEMP);
        }
        place.store(asm, DST, VALUE);
    });
}
