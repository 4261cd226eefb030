//! The epilogue of integer sums: its stages in emitted code, and the same operations in Rust in the same
//! order, so that all levels agree bit by bit.

use crate::cpu::epilogue::{Nan, Operand, Stage};
use crate::cpu::rounding::nearest_even;
use crate::isa::Isa;
use crate::jit::{Asm, Mask, Mem, Vreg};
use crate::problem::quantized::Output;

impl Output {
    /// Emits the store of a vector of results; with a mask, of its lanes only (for bytes, AVX-512 only). `scratch` may
    /// be destroyed; on AVX2 it is another register than `value`, which is destroyed too.
    pub(crate) fn store(self, asm: &mut Asm, to: Mem, mask: Option<Mask>, value: Vreg, scratch: Vreg) {
        match (self.bytes(), mask) {
            (1, Some(mask)) => asm.vstore_u8_masked(to, mask, value),
            (1, None) => asm.vstore_u8(to, value, scratch),
            (_, mask) => asm.vstore_lanes(to, mask, value),
        }
    }
}

/// The stages that turn sums into the numbers that they stand for: a factor and an addend for each column.
pub(crate) const fn scaled(factors: Operand, addends: Operand) -> [Stage<'static>; 3] {
    [Stage::Convert, Stage::Scale(factors), Stage::Add(addends)]
}

/// Registers that hold the bounds and the zero point in every lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounding {
    pub(crate) low: Vreg,
    pub(crate) high: Vreg,
    pub(crate) zero: Vreg,
}

impl Rounding {
    /// The stages that clamp numbers to `f32`.
    pub(crate) const fn to_floats(self) -> [Stage<'static>; 2] {
        [Stage::AtLeast(self.low, Nan::Stays), Stage::AtMost(self.high, Nan::Stays)]
    }

    /// The stages that clamp numbers and round them; NaN becomes a bound, which rounds to an integer in range.
    pub(crate) const fn to_integers(self) -> [Stage<'static>; 3] {
        let (low, high) = (Stage::AtLeast(self.low, Nan::Bounded), Stage::AtMost(self.high, Nan::Bounded));
        [low, high, Stage::Round]
    }

    /// As [`Rounding::to_integers`], and the zero point is added.
    pub(crate) const fn to_bytes(self) -> [Stage<'static>; 4] {
        let [low, high, round] = self.to_integers();
        [low, high, round, Stage::Offset(self.zero)]
    }
}

impl Output {
    /// Whether results of that level are [`Packed`].
    pub(crate) fn is_packed(self, isa: Isa) -> bool {
        self.bytes() == 1 && isa == Isa::Avx512
    }

    /// The stages from sums to results, with registers of [`Rounding`]; to results less their zero point where they are
    /// packed.
    pub(crate) fn stages(
        self,
        isa: Isa,
        factors: Operand,
        addends: Operand,
        rounding: Rounding,
    ) -> Vec<Stage<'static>> {
        let scaled = scaled(factors, addends);
        match self {
            Output::Sums => Vec::new(),
            Output::Unsigned | Output::Signed if self.is_packed(isa) => [&scaled[..], &rounding.to_integers()].concat(),
            Output::Floats => [&scaled[..], &rounding.to_floats()].concat(),
            Output::Unsigned => [&scaled[..], &rounding.to_bytes()].concat(),
            Output::Signed => [&scaled[..], &rounding.to_bytes(), &[Stage::LowByte]].concat(),
        }
    }
}

/// The order of lanes that [`Packed`] reads: lane i of each group of 128 bits goes to group i. Four channels of each of
/// four lines come together by it too.
pub(crate) static GROUPED: [u32; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];

/// Bytes of four vectors that are packed together, on AVX-512: half the instructions of one vector after the other.
pub(crate) struct Packed {
    pub(crate) signed: bool,
    /// The zero point, in every word.
    pub(crate) zero: Vreg,
    /// [`GROUPED`].
    pub(crate) order: Vreg,
}

impl Packed {
    /// Adds the zero point to integers that are then in the range of bytes. Their bytes become the groups of 128 bits
    /// of the first of `vectors`, one to four; all are destroyed.
    pub(crate) fn emit(&self, asm: &mut Asm, vectors: &[Vreg]) {
        for pair in vectors.chunks(2) {
            asm.vpack_words(pair[0], pair[0], pair[pair.len() - 1]);
            asm.vadd_words_saturated(pair[0], pair[0], self.zero);
        }
        let first = vectors[0];
        asm.vpack_bytes(first, first, vectors[if vectors.len() > 2 { 2 } else { 0 }], self.signed);
        asm.vlookup(first, self.order, first);
    }
}

/// Requantisation of every column: factors, addends, bounds and zero point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epilogue<'a> {
    pub(crate) output: Output,
    /// Each column's factor and addend; empty where sums are stored.
    pub(crate) scale: &'a [f32],
    pub(crate) shift: &'a [f32],
    /// Bounds before rounding, and the zero point, which is added after it.
    pub(crate) low: f32,
    pub(crate) high: f32,
    pub(crate) zero: i32,
}

impl Epilogue<'_> {
    /// Applies the epilogue to the sums of columns from `column` on, and writes exactly their outputs to `to`.
    #[inline(always)]
    pub(crate) fn row(&self, sums: &[i32], column: usize, to: &mut [u8]) {
        if self.output == Output::Sums {
            for (to, sum) in to.chunks_exact_mut(4).zip(sums) {
                to.copy_from_slice(&sum.to_ne_bytes());
            }
            return;
        }
        let (scale, shift) = (&self.scale[column..][..sums.len()], &self.shift[column..][..sums.len()]);
        let real = sums.iter().zip(scale).zip(shift).map(|((&sum, &scale), &shift)| sum as f32 * scale + shift);
        if self.output == Output::Floats {
            for (to, value) in to.chunks_exact_mut(4).zip(real) {
                // NaN stays, because no comparison with it holds.
                let value = if self.low > value { self.low } else { value };
                let value = if self.high < value { self.high } else { value };
                to.copy_from_slice(&value.to_ne_bytes());
            }
        } else {
            for (to, value) in to.iter_mut().zip(real) {
                let value = if value > self.low { value } else { self.low };
                let value = if value < self.high { value } else { self.high };
                *to = (nearest_even(value) + self.zero) as u8;
            }
        }
    }
}
