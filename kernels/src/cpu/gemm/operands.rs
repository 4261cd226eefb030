//! The table of operand types: the factors of a product, how the right-hand side gets from a packed panel into
//! registers, and which instruction multiplies and adds. Packing and the micro-kernels read it: a new type of operands
//! is a row here, and a name among the keys of its code ([`RightColumns`](super::tile::RightColumns),
//! [`Form`](crate::cpu::quantized::Form) or [`Factors`](crate::cpu::amx::Factors)).

use crate::cpu::PackedElement;
use crate::isa::{Extension, Isa};
use crate::jit::{Asm, Mem, Src, Tile, Vreg};

/// How a vector of columns gets from a packed panel into a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Unchanged.
    Whole,
    /// One element of each bf16 pair, the first in even steps, widened to `f32`.
    Bf16Pairs,
    /// `f16`, widened to `f32`.
    Halves,
    /// Signed bytes, widened to 16-bit integers.
    SignedBytes,
}

/// The instructions that multiply and add.
#[derive(Clone, Copy)]
pub(crate) enum MultiplyAdd {
    /// sum += left * right on vectors. The last register is scratch.
    Vectors(fn(&mut Asm, Vreg, Vreg, Src, Vreg)),
    /// sum += left * right on tile registers.
    Tiles(fn(&mut Asm, Tile, Tile, Tile)),
}

/// A row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Operands {
    /// Elements of the reduction that share 32 bits of a left-hand row, which one step multiplies (KR).
    pub(crate) group: usize,
    /// Elements of a packed panel.
    pub(crate) right: PackedElement,
    /// How the right-hand side is loaded.
    pub(crate) load: Load,
    /// The instructions that multiply and add.
    pub(crate) multiply: MultiplyAdd,
    /// The extension that the processor needs; the level is that of the extension, or AVX2 without one.
    pub(crate) extension: Option<Extension>,
}

/// `f32` on both sides.
pub(crate) const F32: Operands = Operands {
    group: 1,
    right: PackedElement::F32,
    load: Load::Whole,
    multiply: MultiplyAdd::Vectors(|asm, sum, left, right, _| asm.vfma231(sum, left, right)),
    extension: None,
};

/// `f32` by bf16 pairs, which are widened.
pub(crate) const BF16_WIDENED: Operands = Operands { right: PackedElement::Bf16, load: Load::Bf16Pairs, ..F32 };

/// `f32` by `f16`, which is widened.
pub(crate) const F16_WIDENED: Operands = Operands { right: PackedElement::F16, load: Load::Halves, ..F32 };

/// bf16 pairs on both sides, multiplied as pairs (`vdpbf16ps`).
pub(crate) const BF16_PAIRS: Operands = Operands {
    group: 2,
    right: PackedElement::Bf16,
    load: Load::Whole,
    multiply: MultiplyAdd::Vectors(|asm, sum, left, right, _| asm.vdot_bf16(sum, left, right)),
    extension: Some(Extension::Bf16),
};

/// Pairs of 16-bit integers on both sides (`vpmaddwd`, then an addition).
pub(crate) const INT16_PAIRS: Operands = Operands {
    group: 2,
    right: PackedElement::Int16,
    load: Load::Whole,
    multiply: MultiplyAdd::Vectors(|asm, sum, left, right, product| {
        asm.vmul_pairs(product, left, right);
        asm.viadd(sum, sum, product);
    }),
    extension: None,
};

/// Pairs of 16-bit integers by pairs of bytes, which are widened.
pub(crate) const INT8_WIDENED: Operands =
    Operands { right: PackedElement::Int8, load: Load::SignedBytes, ..INT16_PAIRS };

/// Unsigned bytes by signed ones, four at a time (VNNI, `vpdpbusd`).
pub(crate) const INT8: Operands = Operands {
    group: 4,
    right: PackedElement::Int8,
    load: Load::Whole,
    multiply: MultiplyAdd::Vectors(|asm, sum, left, right, _| asm.vdot_bytes(sum, left, right)),
    extension: Some(Extension::Vnni),
};

/// bf16 pairs on AMX.
pub(crate) const AMX_BF16: Operands =
    Operands { multiply: MultiplyAdd::Tiles(Asm::tile_dot_bf16), extension: Some(Extension::Amx), ..BF16_PAIRS };

/// Unsigned bytes by signed ones on AMX.
pub(crate) const AMX_UNSIGNED: Operands =
    Operands { multiply: MultiplyAdd::Tiles(Asm::tile_dot_bytes), extension: Some(Extension::Amx), ..INT8 };

/// Signed bytes on both sides on AMX.
pub(crate) const AMX_SIGNED: Operands =
    Operands { multiply: MultiplyAdd::Tiles(Asm::tile_dot_signed_bytes), ..AMX_UNSIGNED };

impl Operands {
    /// Bytes of a left-hand element.
    pub(crate) const fn left_bytes(&self) -> usize {
        4 / self.group
    }

    /// Bytes of a column of a packed panel over `steps` steps of the reduction. A bf16 pair that is widened takes two
    /// steps; a last odd step takes the whole word.
    pub(crate) const fn column_bytes(&self, steps: usize) -> usize {
        match self.load {
            Load::Bf16Pairs => steps.div_ceil(2) * 4,
            Load::Whole | Load::Halves | Load::SignedBytes => steps * self.group * self.right.bytes(),
        }
    }

    /// Whether a vector of columns in memory can be an operand of the instruction.
    pub(crate) fn is_plain(&self) -> bool {
        self.load == Load::Whole
    }

    /// Whether kernels of that level can have these operands, on a processor with the extensions that they need.
    pub(crate) fn suits(&self, isa: Isa) -> bool {
        self.extension.is_none_or(|extension| extension.level() == isa)
    }

    /// Whether kernels with these operands can be made at that level on this machine.
    pub(crate) fn usable(&self, isa: Isa) -> bool {
        self.suits(isa) && self.extension.is_none_or(Extension::usable)
    }

    /// Emits the load of a vector of columns for step `step`. `upper` holds the mask of upper halves, where a register
    /// is free for it.
    pub(crate) fn load(&self, asm: &mut Asm, step: usize, to: Vreg, from: Mem, upper: Option<Vreg>) {
        match (self.load, step % 2, upper) {
            (Load::Whole, ..) => asm.vload(to, from),
            (Load::SignedBytes, ..) => asm.vload_i8_as_i16(to, from),
            (Load::Halves, ..) => asm.vload_f16(to, from),
            (Load::Bf16Pairs, 0, _) => {
                asm.vload(to, from);
                asm.vishl(to, to, 16);
            }
            (Load::Bf16Pairs, _, Some(upper)) => asm.vand(to, upper, from),
            (Load::Bf16Pairs, _, None) => {
                asm.vload(to, from);
                asm.vand(to, to, UPPER);
            }
        }
    }

    /// Emits sum += left * right on vectors; `scratch` may be overwritten.
    pub(crate) fn multiply(&self, asm: &mut Asm, sum: Vreg, left: Vreg, right: Src, scratch: Vreg) {
        // Keys of vector kernels name no row of AMX.
        if let MultiplyAdd::Vectors(emit) = self.multiply {
            emit(asm, sum, left, right, scratch);
        }
    }
}

/// Mask of the upper half of a word: the second element of a bf16 pair, as `f32`.
pub(crate) const UPPER: Src = Src::Const(0xFFFF_0000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_columns_are_as_long_as_their_elements() {
        // Eight elements of the reduction in each row of the table.
        for (operands, bytes) in [
            (F32, 32),
            (BF16_WIDENED, 16),
            (F16_WIDENED, 16),
            (BF16_PAIRS, 16),
            (INT16_PAIRS, 16),
            (INT8_WIDENED, 8),
            (INT8, 8),
            (AMX_BF16, 16),
            (AMX_UNSIGNED, 8),
            (AMX_SIGNED, 8),
        ] {
            assert_eq!(operands.column_bytes(8 / operands.group), bytes);
            assert_eq!(operands.left_bytes() * operands.group, 4);
        }
        assert_eq!(
            [1, 2, 3].map(|steps| BF16_WIDENED.column_bytes(steps)),
            [4, 4, 8],
            "a last single element takes a word"
        );
    }

    #[test]
    fn extensions_need_wide_vectors() {
        assert!(F32.suits(Isa::Avx2) && INT8_WIDENED.suits(Isa::Avx2));
        for operands in [BF16_PAIRS, INT8, AMX_BF16, AMX_SIGNED] {
            assert!(!operands.suits(Isa::Avx2) && operands.suits(Isa::Avx512));
        }
    }
}
