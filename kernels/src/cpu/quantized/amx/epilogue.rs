//! The epilogue kernel for integer sums of AMX: it converts them to the output's type and stores the output's columns.
//!
//! Up to four vectors of columns at a time go down all rows, so that their factors and addends stay in registers.
//! Results have the same bits as those of [`Epilogue`]. Where four vectors of bytes are packed at once, the lower bound
//! is applied after rounding, as the rounded bound.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::amx::{Area, LANES};
use crate::cpu::epilogue::{self, Column, Nan, Operand, Stage};
use crate::cpu::quantized::bytes::{Added, Plus};
use crate::cpu::quantized::epilogue::{Epilogue, Rounding, scaled};
use crate::cpu::rounding::nearest_even;
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Cond, Extents, Gpr, Mask, Mem, Vreg, arg, counted_down};
use crate::problem::quantized::Output;

/// What shapes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct QuantizedEpilogueCode {
    /// Level: AVX-512.
    pub isa: Isa,
    /// Type and rounding of the output.
    pub output: Output,
    /// Whether a residual of bytes is added to the output ([`Plus`]).
    pub added: Added,
}

/// The name of the code.
pub(crate) const FAMILY: &str = "quantized epilogue";

/// Vectors whose bytes are stored together.
const TOGETHER: usize = 4;

/// The 16-bit elements of packed bytes in the order of columns: packing works within groups of 128 bits.
static ORDER: [u16; 32] = {
    let mut order = [0; 32];
    let mut at = 0;
    while at < 32 {
        let (vector, group) = (at / 8, at / 2 % 4);
        order[at] = (2 * (4 * group + vector) + at % 2) as u16;
        at += 1;
    }
    order
};

/// 1.5 times 2^23: a sum of it and a number of a magnitude below 2^22 is an integer, rounded to the nearest with ties to
/// even, because the numbers between 2^23 and 2^24 are the integers. Subtracting it again is exact.
const WHOLE: f32 = 12_582_912.0;

/// The arguments of one call. The residual has the strides of the result.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct EpilogueArgs {
    pub(crate) area: Area<i32>,
    /// Each column's factor and addend.
    scale: *const f32,
    shift: *const f32,
    order: *const [u16; 32],
    low: f32,
    high: f32,
    zero: i32,
    /// The zero point twice, and the lower bound four times, as packing needs them.
    zeros: u32,
    lows: u32,
    /// The first element of the tensor that is added.
    pub(crate) other: *const u8,
    /// Factors of the result's and the residual's bytes, seen as unsigned, and the addend of the sum.
    own_scale: f32,
    other_scale: f32,
    plus: f32,
    /// Bounds of the first rounding, [`WHOLE`], and the zero point less [`WHOLE`].
    first_low: f32,
    first_high: f32,
    whole: f32,
    back: f32,
    /// Byte distance from a row to the row whose lines are prefetched with it, of the result and of the residual.
    pub(crate) ahead: usize,
}

impl EpilogueArgs {
    /// Arguments without columns, and with a residual if there is one, which is added to the rounded result.
    pub(crate) fn new(epilogue: &Epilogue<'_>, plus: Option<&Plus<'_>>) -> EpilogueArgs {
        let (mut low, mut high, mut zero) = (epilogue.low, epilogue.high, epilogue.zero);
        let (mut scales, mut shift) = ([0.0; 2], 0.0);
        if let Some(plus) = plus {
            let terms = plus.terms(epilogue.zero);
            (low, high, zero) = (terms.rounding.low, terms.rounding.high, terms.rounding.zero);
            (scales, shift) = (terms.scales, terms.shift);
        }
        let least = nearest_even(low.min(high)).wrapping_add(zero) as u8;
        let moved = if epilogue.output == Output::Signed { 128 } else { 0 };
        EpilogueArgs {
            area: Area::of_columns(0),
            scale: std::ptr::null(),
            shift: std::ptr::null(),
            order: &raw const ORDER,
            low,
            high,
            zero,
            zeros: u32::from(zero as u16) * 0x0001_0001,
            lows: u32::from(least) * 0x0101_0101,
            other: std::ptr::null(),
            own_scale: scales[0],
            other_scale: scales[1],
            plus: shift,
            first_low: epilogue.low,
            first_high: epilogue.high,
            whole: WHOLE,
            back: (epilogue.zero + moved) as f32 - WHOLE,
            ahead: 0,
        }
    }

    /// Moves to `columns` columns from `column` on, in the order of the factors.
    pub(crate) fn at(&mut self, epilogue: &Epilogue<'_>, column: usize, columns: usize) {
        self.area = Area::of_columns(columns);
        self.scale = epilogue.scale.get(column..).unwrap_or_default().as_ptr();
        self.shift = epilogue.shift.get(column..).unwrap_or_default().as_ptr();
    }
}

impl Arguments for EpilogueArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = QuantizedEpilogueCode;

    fn extents(&self, code: &QuantizedEpilogueCode, extents: &mut Extents<'_>) {
        let (columns, bytes) = (self.area.columns(), code.output.bytes());
        let whole = columns.next_multiple_of(LANES);
        self.area.extents(whole, bytes, extents);
        if code.output != Output::Sums {
            extents.read("factors", self.scale).bytes(whole * 4);
            extents.read("addends", self.shift).bytes(whole * 4);
        }
        if bytes == 1 {
            extents.constant("the order of bytes", &ORDER);
            extents.read("the order of bytes", self.order).bytes(size_of_val(&ORDER));
        }
        if code.added != Added::Nothing {
            let rows = counted_down(self.area.rows);
            extents.read("what is added", self.other).over(rows, self.area.to_stride).bytes(columns);
        }
    }
}

/// The current columns in the first row.
const FROM_COLUMN: Gpr = Gpr::RSI;
const TO_COLUMN: Gpr = Gpr::RDX;
const FROM: Gpr = Gpr::R11;
const TO: Gpr = Gpr::R12;
const FROM_STEP: Gpr = Gpr::R8;
const TO_STRIDE: Gpr = Gpr::R9;
const SCALE: Gpr = Gpr::R13;
const SHIFT: Gpr = Gpr::R15;
const VECTORS: Gpr = Gpr::R14;
const ROWS: Gpr = Gpr::R10;
/// Byte offset from the result to the residual.
const OTHER: Gpr = Gpr::RBX;
const T0: Gpr = Gpr::RAX;
const T1: Gpr = Gpr::RCX;
/// Byte offset from the result to the line of the result, and of the residual, that is prefetched.
const AHEAD: Gpr = T0;
const OTHER_AHEAD: Gpr = T1;

const fn value(vector: usize) -> Vreg {
    Vreg(vector as u8)
}
const fn factor(vector: usize) -> Vreg {
    Vreg((TOGETHER + vector) as u8)
}
const fn addend(vector: usize) -> Vreg {
    Vreg((2 * TOGETHER + vector) as u8)
}
const ROUNDING: Rounding = Rounding { low: Vreg(12), high: Vreg(13), zero: Vreg(14) };
const ZEROS: Vreg = Vreg(15);
const LOWS: Vreg = Vreg(16);
const ORDERS: Vreg = Vreg(17);
const OWN_SCALE: Vreg = Vreg(18);
const OTHER_SCALE: Vreg = Vreg(19);
const PLUS: Vreg = Vreg(20);
/// The bounds of the rounding before the residual is added.
const FIRST_LOW: Vreg = Vreg(21);
const FIRST_HIGH: Vreg = Vreg(22);
const WHOLES: Vreg = Vreg(23);
const BACK: Vreg = Vreg(28);
const fn other(vector: usize) -> Vreg {
    Vreg((24 + vector) as u8)
}

impl QuantizedEpilogueCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        if self.added != Added::Nothing && self.output.bytes() != 1 {
            let reason = format!("a sum with {:?}", self.output);
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        asm.prologue();
        for (register, field) in [
            (FROM_COLUMN, arg!(EpilogueArgs.area.from)),
            (TO_COLUMN, arg!(EpilogueArgs.area.to)),
            (FROM_STEP, arg!(EpilogueArgs.area.from_stride)),
            (TO_STRIDE, arg!(EpilogueArgs.area.to_stride)),
            (SCALE, arg!(EpilogueArgs.scale)),
            (SHIFT, arg!(EpilogueArgs.shift)),
            (VECTORS, arg!(EpilogueArgs.area.vectors)),
            (T0, arg!(EpilogueArgs.order)),
        ] {
            asm.load(register, field);
        }
        if self.output != Output::Sums {
            asm.vbroadcast(ROUNDING.low, arg!(EpilogueArgs.low));
            asm.vbroadcast(ROUNDING.high, arg!(EpilogueArgs.high));
        }
        if self.output.bytes() == 1 {
            asm.vbroadcast(ROUNDING.zero, arg!(EpilogueArgs.zero));
            asm.vbroadcast(ZEROS, arg!(EpilogueArgs.zeros));
            asm.vbroadcast(LOWS, arg!(EpilogueArgs.lows));
            asm.vload(ORDERS, Mem::at(T0, 0));
        }
        if self.added != Added::Nothing {
            asm.load(OTHER, arg!(EpilogueArgs.other));
            asm.sub(OTHER, TO_COLUMN);
            for (register, field) in [
                (OWN_SCALE, arg!(EpilogueArgs.own_scale)),
                (OTHER_SCALE, arg!(EpilogueArgs.other_scale)),
                (PLUS, arg!(EpilogueArgs.plus)),
                (FIRST_LOW, arg!(EpilogueArgs.first_low)),
                (FIRST_HIGH, arg!(EpilogueArgs.first_high)),
                (WHOLES, arg!(EpilogueArgs.whole)),
                (BACK, arg!(EpilogueArgs.back)),
            ] {
                asm.vbroadcast(register, field);
            }
        }
        let mask = asm.mask(0, Vreg(asm.registers() - 1));
        asm.load(T0, arg!(EpilogueArgs.area.rest));
        asm.mask_first(mask, T0, T1);
        if self.output.bytes() == 1 {
            asm.load(AHEAD, arg!(EpilogueArgs.ahead));
        }
        if self.added != Added::Nothing {
            asm.lea(OTHER_AHEAD, Mem::indexed(OTHER, AHEAD, 1, 0));
        }
        asm.for_each_group(VECTORS, TOGETHER as i32, 1, |asm| self.columns(asm, TOGETHER, None));
        let (single, rest) = (asm.label(), asm.label());
        asm.bind(single);
        asm.cmp_imm(VECTORS, -(TOGETHER as i32));
        asm.jump_if(Cond::Equal, rest);
        self.columns(asm, 1, None);
        asm.sub_imm(VECTORS, 1);
        asm.jump(single);
        asm.bind(rest);
        asm.load(T0, arg!(EpilogueArgs.area.rest));
        asm.unless_zero(T0, |asm| self.columns(asm, 1, Some(mask)));
        asm.epilogue();
        Ok(())
    }

    /// Some vectors of columns, or the first lanes of one vector, in all rows; then the pointers move to the next
    /// columns.
    fn columns(&self, asm: &mut Asm, count: usize, mask: Option<Mask>) {
        if self.output != Output::Sums {
            for vector in 0..count {
                asm.vload(factor(vector), Mem::at(SCALE, vector as i32 * 64));
                asm.vload(addend(vector), Mem::at(SHIFT, vector as i32 * 64));
            }
        }
        asm.mov(FROM, FROM_COLUMN);
        asm.mov(TO, TO_COLUMN);
        asm.load(ROWS, arg!(EpilogueArgs.area.rows));
        asm.align(16);
        asm.repeat(ROWS, |asm| self.row(asm, count, mask));
        asm.add_imm(FROM_COLUMN, count as i32 * 64);
        asm.add_imm(TO_COLUMN, (count * LANES * self.output.bytes()) as i32);
        asm.add_imm(SCALE, count as i32 * 64);
        asm.add_imm(SHIFT, count as i32 * 64);
    }

    /// Those columns of one row, and the move to the next row.
    fn row(&self, asm: &mut Asm, count: usize, mask: Option<Mask>) {
        let packed = count == TOGETHER && self.output.bytes() == 1;
        let last = self.last_stages(packed);
        if packed {
            if self.added != Added::Nothing {
                asm.prefetch(Mem::indexed(TO, OTHER_AHEAD, 1, 0));
            }
            asm.prefetch(Mem::indexed(TO, AHEAD, 1, 0));
        }
        for vector in 0..count {
            let (value, column) = (value(vector), Column { vector, mask });
            asm.vload(value, Mem::at(FROM, vector as i32 * 64));
            if self.output != Output::Sums {
                let scaled = scaled(Operand::Registers(factor(0)), Operand::Registers(addend(0)));
                epilogue::emit(asm, &scaled, value, column);
            }
            if self.added != Added::Nothing {
                self.plus(asm, value, column);
            }
            epilogue::emit(asm, &last, value, column);
        }
        if packed {
            self.store_packed(asm);
        } else {
            let bytes = LANES * self.output.bytes();
            for vector in 0..count {
                let to = Mem::at(TO, (vector * bytes) as i32);
                self.output.store(asm, to, mask, value(vector), value(vector));
            }
        }
        asm.add(FROM, FROM_STEP);
        asm.add(TO, TO_STRIDE);
    }

    /// Rounds a vector of numbers to the numbers of their bytes, and adds the residual.
    fn plus(&self, asm: &mut Asm, value: Vreg, column: Column) {
        let other = other(column.vector);
        let rounding = [
            Stage::AtLeast(FIRST_LOW, Nan::Bounded),
            Stage::AtMost(FIRST_HIGH, Nan::Bounded),
            Stage::Add(Operand::Register(WHOLES)),
            Stage::Add(Operand::Register(BACK)),
        ];
        epilogue::emit(asm, &rounding, value, column);
        let from = Mem::indexed(TO, OTHER, 1, (column.vector * LANES) as i32);
        match column.mask {
            Some(mask) => asm.vload_u8_masked(other, mask, from),
            None => asm.vload_u8(other, from),
        }
        if self.output == Output::Signed {
            asm.vxor(other, other, f32::from_bits(0x80));
        }
        Stage::Convert.emit(asm, other, column);
        if self.added == Added::First {
            Stage::ScaleAdd(OWN_SCALE, Operand::Register(PLUS)).emit(asm, value, column);
            asm.vfma231(value, other, OTHER_SCALE);
        } else {
            Stage::ScaleAdd(OTHER_SCALE, Operand::Register(PLUS)).emit(asm, other, column);
            Stage::ScaleAdd(OWN_SCALE, Operand::Register(other)).emit(asm, value, column);
        }
    }

    /// The stages before numbers are stored: the results are integers that are not packed yet, or still numbers.
    fn last_stages(&self, packed: bool) -> Vec<Stage<'static>> {
        match self.output {
            Output::Sums => Vec::new(),
            Output::Floats => ROUNDING.to_floats().to_vec(),
            // NaN becomes the least integer, which is below the lower bound.
            Output::Unsigned | Output::Signed if packed => {
                vec![Stage::AtMost(ROUNDING.high, Nan::Stays), Stage::Round]
            }
            Output::Unsigned | Output::Signed => ROUNDING.to_bytes().to_vec(),
        }
    }

    /// Stores a row of bytes of four vectors of integers.
    fn store_packed(&self, asm: &mut Asm) {
        let signed = self.output == Output::Signed;
        let [a, b, c, d] = [0, 1, 2, 3].map(value);
        asm.vpack_words(a, a, b);
        asm.vpack_words(c, c, d);
        asm.vadd_words_saturated(a, a, ZEROS);
        asm.vadd_words_saturated(c, c, ZEROS);
        asm.vpack_bytes(a, a, c, signed);
        asm.vmax_bytes(a, a, LOWS, signed);
        asm.vpermute_16(a, ORDERS, a);
        asm.vstore(Mem::at(TO, 0), a);
    }
}
