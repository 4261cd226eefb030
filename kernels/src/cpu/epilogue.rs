//! Epilogues: the stages that a vector of finished sums goes through before it is stored.
//!
//! The micro-kernels of `f32`, bf16 pairs and int8, the epilogues of AMX and the kernels of convolutions choose the
//! stages, the places of their operands, and the order in which vectors pass through them. The code of each stage
//! stands here, once for all kernels.

use super::activation;
use super::chain::UnaryOp;
use crate::jit::{Asm, Mask, Mem, Src, Vreg};
use crate::problem::elements::Stored;

/// A vector of columns among those of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Column {
    /// Its number: the operand of this column is this many vectors behind the first column's.
    pub(crate) vector: usize,
    /// Its lanes, where it is partial.
    pub(crate) mask: Option<Mask>,
}

impl Column {
    /// The first vector, or the only one.
    pub(crate) fn first(mask: Option<Mask>) -> Column {
        Column { vector: 0, mask }
    }
}

/// Where an operand of a stage is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// In one register for all vectors of columns.
    Register(Vreg),
    /// In consecutive registers, one for each vector of columns.
    Registers(Vreg),
    /// In memory, readable as whole vectors of `f32`: an operand of the instruction itself.
    Memory(Mem),
    /// In memory: elements that are loaded into a register, widened; for a partial vector, only its lanes.
    Loaded(StoredVector),
    /// As [`Operand::Loaded`], but whole vectors of `f32` are operands of the instruction itself.
    Folded(StoredVector),
}

/// A vector of elements in memory, and the register that it is loaded into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredVector {
    pub(crate) stored: Stored,
    pub(crate) from: Mem,
    pub(crate) to: Vreg,
}

impl Operand {
    /// Emits the code that makes the operand of a vector of columns a source of an instruction.
    fn source(self, asm: &mut Asm, column: Column) -> Src {
        match self {
            Operand::Register(register) => register.into(),
            Operand::Registers(first) => Vreg(first.0 + column.vector as u8).into(),
            Operand::Memory(from) => from.plus(column.vector as i32 * asm.vector_bytes()).into(),
            Operand::Folded(StoredVector { stored: Stored::F32, from, .. }) if column.mask.is_none() => {
                Operand::Memory(from).source(asm, column)
            }
            Operand::Loaded(vector) | Operand::Folded(vector) => {
                let StoredVector { stored, from, to } = vector;
                let from = from.plus((column.vector * asm.lanes() * stored.bytes()) as i32);
                stored.load(asm, to, column.mask, from);
                to.into()
            }
        }
    }
}

/// The result of a bound for NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nan {
    /// NaN: results are `f32`, or the conversion to integers takes care of it.
    Stays,
    /// The bound: results are integers.
    Bounded,
}

/// One operation on a vector of sums.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage<'a> {
    /// 32-bit integers to `f32`.
    Convert,
    /// Times a factor.
    Scale(Operand),
    /// Plus a bias, a residual, or an addend of columns.
    Add(Operand),
    /// Times the factor in the register, plus an addend, rounded once.
    ScaleAdd(Vreg, Operand),
    /// The activation, with registers that it may destroy.
    Activate(UnaryOp, &'a [Vreg]),
    /// At least the value in every lane of the register.
    AtLeast(Vreg, Nan),
    /// At most that value.
    AtMost(Vreg, Nan),
    /// `f32` to the nearest 32-bit integers, ties to even.
    Round,
    /// Integers plus the zero point in every lane of the register.
    Offset(Vreg),
    /// The lowest byte of each integer, with the others cleared: a store of signed bytes on AVX2 needs them so.
    LowByte,
}

impl Stage<'_> {
    /// Emits the operation on sums that share one operand.
    pub(crate) fn emit_all(&self, asm: &mut Asm, values: impl IntoIterator<Item = Vreg>) {
        values.into_iter().for_each(|value| self.emit(asm, value, Column::default()));
    }

    /// Emits the operation on the sums of a vector of columns.
    pub(crate) fn emit(&self, asm: &mut Asm, value: Vreg, column: Column) {
        match *self {
            Stage::Convert => asm.vcvt_f32(value, value),
            Stage::Scale(factor) => {
                let factor = factor.source(asm, column);
                asm.vmul(value, value, factor);
            }
            Stage::Add(addend) => {
                let addend = addend.source(asm, column);
                asm.vadd(value, value, addend);
            }
            Stage::ScaleAdd(factor, addend) => {
                let addend = addend.source(asm, column);
                asm.vfma213(value, factor, addend);
            }
            Stage::Activate(op, temps) => activation::emit(asm, op, value, temps),
            // The second operand is the result where either is NaN.
            Stage::AtLeast(bound, Nan::Stays) => asm.vmax(value, bound, value),
            Stage::AtLeast(bound, Nan::Bounded) => asm.vmax(value, value, bound),
            Stage::AtMost(bound, Nan::Stays) => asm.vmin(value, bound, value),
            Stage::AtMost(bound, Nan::Bounded) => asm.vmin(value, value, bound),
            Stage::Round => asm.vcvt_i32(value, value),
            Stage::Offset(zero) => asm.viadd(value, value, zero),
            Stage::LowByte => asm.vand(value, value, f32::from_bits(0xFF)),
        }
    }
}

/// Emits stages one after the other on the sums of a vector of columns.
pub(crate) fn emit(asm: &mut Asm, stages: &[Stage<'_>], value: Vreg, column: Column) {
    stages.iter().for_each(|stage| stage.emit(asm, value, column));
}
