//! Several vectors through the same function at once: each instruction is emitted for every vector before the next one.
//!
//! A function is a chain of some twenty dependent instructions of three to four cycles each. Emitted one vector after
//! another, they would overlap only within the processor's scheduling window, which holds two to three such chains;
//! interleaved, instructions of independent vectors overlap at once. Vectors also share the load of a constant, which
//! would otherwise take as many load slots as the arithmetic takes execution slots.
//!
//! The registers of a vector are one block, and blocks follow each other, so that a function is written once, for the
//! registers of the first vector. Independent of what functions compute.

use crate::isa::Isa;
use crate::jit::asm::{Predicate, Rounding, Src};
use crate::jit::{Asm, Mask, Vreg};

/// The registers of the vectors in flight (copies).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copies {
    /// Their number.
    pub(crate) count: u8,
    /// The first register of the first copy; the registers before it are shared.
    pub(crate) first: u8,
    /// Registers of a copy.
    pub(crate) each: u8,
    /// The register of the current constant, where one is left for it.
    pub(crate) constant: Option<Vreg>,
}

impl Copies {
    /// One vector, in any registers.
    pub(crate) const ONE: Copies = Copies { count: 1, first: 0, each: u8::MAX, constant: None };

    /// The register of copy `copy` that corresponds to `reg` of the first copy.
    pub(crate) fn register(&self, reg: Vreg, copy: u8) -> Vreg {
        let block = self.first..self.first.saturating_add(self.each);
        if block.contains(&reg.0) { Vreg(reg.0 + copy * self.each) } else { reg }
    }
}

/// The assembler as functions use it: one call emits an instruction for every copy.
pub(crate) struct Interleaved<'a> {
    asm: &'a mut Asm,
    copies: Copies,
}

/// Defines `name(dst, a, b)` with a source as last operand.
macro_rules! three_operands {
    ($($name:ident),*) => {
        impl Interleaved<'_> {
            $(pub(super) fn $name(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
                let b = self.shared(b.into());
                self.each(|asm, copies, copy| {
                    let b = match b {
                        Src::Reg(reg) => Src::Reg(copies.register(reg, copy)),
                        other => other,
                    };
                    asm.$name(copies.register(dst, copy), copies.register(a, copy), b);
                });
            })*
        }
    };
}

/// Defines `name(dst, src)` over two registers.
macro_rules! two_operands {
    ($($name:ident),*) => {
        impl Interleaved<'_> {
            $(pub(super) fn $name(&mut self, dst: Vreg, src: Vreg) {
                self.each(|asm, copies, copy| asm.$name(copies.register(dst, copy), copies.register(src, copy)));
            })*
        }
    };
}

/// Defines `name(dst, src, bits)`.
macro_rules! shifts {
    ($($name:ident),*) => {
        impl Interleaved<'_> {
            $(pub(super) fn $name(&mut self, dst: Vreg, src: Vreg, bits: u8) {
                self.each(|asm, copies, copy| asm.$name(copies.register(dst, copy), copies.register(src, copy), bits));
            })*
        }
    };
}

three_operands!(vadd, vsub, vmul, vdiv, vmax, vmin, vfma231, vfma213, vfnma231, vand, vor, vxor, viadd, visub);
two_operands!(vsqrt, vmov, vcvt_i32, vcvt_f32);
shifts!(vishl, vishr, visar);

impl<'a> Interleaved<'a> {
    /// An assembler for `copies`.
    pub(crate) fn new(asm: &'a mut Asm, copies: Copies) -> Interleaved<'a> {
        Interleaved { asm, copies }
    }

    fn each(&mut self, emit: impl Fn(&mut Asm, &Copies, u8)) {
        let copies = self.copies;
        (0..copies.count).for_each(|copy| emit(self.asm, &copies, copy));
    }

    /// The source itself; for a constant that several copies read, the register that it was loaded into.
    fn shared(&mut self, src: Src) -> Src {
        match (src, self.copies.constant) {
            (Src::Const(_), Some(constant)) if self.copies.count > 1 => {
                self.asm.vload(constant, src);
                Src::Reg(constant)
            }
            _ => src,
        }
    }

    /// A register with the constant, valid until the next one is loaded: `temp`, or the shared one.
    pub(super) fn held(&mut self, temp: Vreg, value: f32) -> Vreg {
        match self.shared(value.into()) {
            Src::Reg(shared) => shared,
            other => {
                self.each(|asm, copies, copy| asm.vload(copies.register(temp, copy), other));
                temp
            }
        }
    }

    pub(super) fn vload(&mut self, dst: Vreg, src: f32) {
        let src = self.shared(src.into());
        self.each(|asm, copies, copy| asm.vload(copies.register(dst, copy), src));
    }

    pub(super) fn vzero(&mut self, dst: Vreg) {
        self.each(|asm, copies, copy| asm.vzero(copies.register(dst, copy)));
    }

    pub(super) fn vround(&mut self, dst: Vreg, src: Vreg, rounding: Rounding) {
        self.each(|asm, copies, copy| asm.vround(copies.register(dst, copy), copies.register(src, copy), rounding));
    }

    /// x * 2^n, as [`Asm::vscale`].
    pub(super) fn vscale(&mut self, dst: Vreg, x: Vreg, n: Vreg, scratch0: Vreg, scratch1: Vreg) {
        if self.asm.isa() == Isa::Avx512 || self.copies.count == 1 {
            let registers = [dst, x, n, scratch0, scratch1];
            return self.each(|asm, copies, copy| {
                let [dst, x, n, scratch0, scratch1] = registers.map(|reg| copies.register(reg, copy));
                asm.vscale(dst, x, n, scratch0, scratch1);
            });
        }
        // As `Asm::vscale`, for all copies: two powers of two, each for half of n.
        self.vcvt_i32(scratch0, n);
        self.visar(scratch1, scratch0, 1);
        self.visub(scratch0, scratch0, scratch1);
        self.vishl(scratch1, scratch1, 23);
        self.vishl(scratch0, scratch0, 23);
        self.viadd(scratch1, scratch1, 1.0);
        self.viadd(scratch0, scratch0, 1.0);
        self.vmul(dst, x, scratch1);
        self.vmul(dst, dst, scratch0);
    }

    /// The mask register that functions use: [`super::MASK`], or `vector` on AVX2. Each copy has its own.
    pub(super) fn mask(&self, vector: Vreg) -> Mask {
        self.asm.mask(super::MASK, vector)
    }

    pub(super) fn compare(&mut self, mask: Mask, predicate: Predicate, a: Vreg, b: impl Into<Src>) {
        let b = self.shared(b.into());
        self.each(|asm, copies, copy| {
            let b = match b {
                Src::Reg(reg) => Src::Reg(copies.register(reg, copy)),
                other => other,
            };
            asm.compare(mask_of(copies, mask, copy), predicate, copies.register(a, copy), b);
        });
    }

    pub(super) fn select(&mut self, dst: Vreg, mask: Mask, on: Vreg, off: Vreg) {
        self.each(|asm, copies, copy| {
            let [dst, on, off] = [dst, on, off].map(|reg| copies.register(reg, copy));
            asm.select(dst, mask_of(copies, mask, copy), on, off);
        });
    }

    /// Emits `body` for each copy whose mask has a set lane, on the copy's own registers.
    pub(super) fn where_any<const N: usize>(
        &mut self,
        mask: Mask,
        registers: [Vreg; N],
        body: impl Fn(&mut Asm, Mask, [Vreg; N]),
    ) {
        self.each(|asm, copies, copy| {
            let mask = mask_of(copies, mask, copy);
            asm.if_any(mask, |asm| body(asm, mask, registers.map(|reg| copies.register(reg, copy))));
        });
    }

    pub(super) fn mask_to_f32(&mut self, dst: Vreg, mask: Mask) {
        self.each(|asm, copies, copy| asm.mask_to_f32(copies.register(dst, copy), mask_of(copies, mask, copy)));
    }
}

/// The mask register of a copy: numbers count downwards from the first copy's.
fn mask_of(copies: &Copies, mask: Mask, copy: u8) -> Mask {
    match mask {
        Mask::Vector(vector) => Mask::Vector(copies.register(vector, copy)),
        Mask::Opmask(k) => Mask::Opmask(k.saturating_sub(copy)),
    }
}
