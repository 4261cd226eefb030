//! Operations across lanes: reductions whose result is in every lane, and the permutations of a transposition.

use dynasmrt::DynasmApi;

use super::{Asm, Vreg};
use crate::jit::evex::{self, Operands};
use crate::jit::vex;

/// Defines `name(dst, a, b)` over three registers.
macro_rules! permutations {
    ($($(#[$doc:meta])* $name:ident = $vex:ident, $evex:ident;)*) => {
        impl Asm {
            $($(#[$doc])*
            pub fn $name(&mut self, dst: Vreg, a: Vreg, b: Vreg) {
                self.check_vectors(dst.0 | a.0 | b.0);
                if self.wide() {
                    self.evex(&evex::$evex, Operands::of(dst.0, a.0), b.into());
                } else {
                    x64!(self; $vex Ry(dst.0), Ry(a.0), Ry(b.0));
                }
            })*
        }
    };
}

permutations! {
    /// In each 128-bit group: a0 b0 a1 b1.
    vunpack_lo_32 = vunpcklps, VUNPCKLPS;
    /// In each 128-bit group: a2 b2 a3 b3.
    vunpack_hi_32 = vunpckhps, VUNPCKHPS;
    /// In each 128-bit group: a0 a1 b0 b1.
    vunpack_lo_64 = vunpcklpd, VUNPCKLPD;
    /// In each 128-bit group: a2 a3 b2 b3.
    vunpack_hi_64 = vunpckhpd, VUNPCKHPD;
}

/// Selectors of four elements, two bits each: one swaps the two halves, the other swaps within each half.
const SWAP_HALVES: u8 = 0b01_00_11_10;
const SWAP_PAIRS: u8 = 0b10_11_00_01;

/// One step of a reduction: `dst = dst op other`.
type Fold = fn(&mut Asm, Vreg, Vreg, Vreg);

impl Asm {
    /// The sum of all lanes, in every lane of dst; `scratch` is destroyed.
    pub fn vreduce_add(&mut self, dst: Vreg, src: Vreg, scratch: Vreg) {
        self.reduce(dst, src, scratch, |asm, dst, a, b| asm.vadd(dst, a, b));
    }

    /// The product of all lanes, in every lane of dst; `scratch` is destroyed.
    pub fn vreduce_mul(&mut self, dst: Vreg, src: Vreg, scratch: Vreg) {
        self.reduce(dst, src, scratch, |asm, dst, a, b| asm.vmul(dst, a, b));
    }

    /// The largest lane, in every lane of dst; `scratch` is destroyed. With NaN or zeros of both signs the result is
    /// unspecified, but it is the same in every lane.
    pub fn vreduce_max(&mut self, dst: Vreg, src: Vreg, scratch: Vreg) {
        self.reduce(dst, src, scratch, |asm, dst, a, b| asm.vmax(dst, a, b));
        self.vbroadcast_lane0(dst, dst);
    }

    /// The smallest lane, as [`Asm::vreduce_max`].
    pub fn vreduce_min(&mut self, dst: Vreg, src: Vreg, scratch: Vreg) {
        self.reduce(dst, src, scratch, |asm, dst, a, b| asm.vmin(dst, a, b));
        self.vbroadcast_lane0(dst, dst);
    }

    /// The smallest lane of signed 32-bit integers, in every lane of dst; `scratch` is destroyed.
    pub fn vreduce_imin(&mut self, dst: Vreg, src: Vreg, scratch: Vreg) {
        self.reduce(dst, src, scratch, |asm, dst, a, b| asm.vimin(dst, a, b));
    }

    /// The largest lane, as [`Asm::vreduce_imin`].
    pub fn vreduce_imax(&mut self, dst: Vreg, src: Vreg, scratch: Vreg) {
        self.reduce(dst, src, scratch, |asm, dst, a, b| asm.vimax(dst, a, b));
    }

    /// Swaps ever smaller halves and folds. Each lane then folds the same pairs, so all lanes have the same sum: `a +
    /// b` and `b + a` are the same number.
    fn reduce(&mut self, dst: Vreg, src: Vreg, scratch: Vreg, fold: Fold) {
        if scratch == dst || scratch == src {
            self.refuse("a scratch register of a reduction that is in use");
        }
        if self.wide() {
            self.vshuffle_128(scratch, src, src, SWAP_HALVES);
            fold(self, dst, src, scratch);
            self.vshuffle_128(scratch, dst, dst, SWAP_PAIRS);
        } else {
            self.vshuffle_128(scratch, src, src, 1);
        }
        fold(self, dst, if self.wide() { dst } else { src }, scratch);
        for selector in [SWAP_HALVES, SWAP_PAIRS] {
            self.vpermute_32(scratch, dst, selector);
            fold(self, dst, dst, scratch);
        }
    }

    /// In each 128-bit group: the four elements that `imm` selects, two bits each.
    pub fn vpermute_32(&mut self, dst: Vreg, src: Vreg, imm: u8) {
        self.check_vectors(dst.0 | src.0);
        if self.wide() {
            self.evex_immediate(&evex::VPERMILPS, Operands::of(dst.0, 0), src.into(), imm);
        } else {
            let imm = imm as i8;
            x64!(self; vpermilps Ry(dst.0), Ry(src.0), BYTE imm);
        }
    }

    /// Element i of dst, of 16 bits, is the element of src whose index is element i of `order`. AVX-512 only.
    pub fn vpermute_16(&mut self, dst: Vreg, order: Vreg, src: Vreg) {
        self.check_vectors(dst.0 | order.0 | src.0);
        if self.wide() {
            self.evex(&evex::VPERMW, Operands::of(dst.0, order.0), src.into());
        } else {
            self.refuse("a permutation of 16-bit elements outside of AVX-512");
        }
    }

    /// Each byte of dst holds an index in its lowest seven bits, and becomes the byte with that index of `low` followed
    /// by `high`, 64 bytes each. Needs [`Extension::Vbmi`](crate::isa::Extension), which the kernel names when it is
    /// sealed.
    pub fn vlookup_bytes(&mut self, dst: Vreg, low: Vreg, high: Vreg) {
        self.check_vectors(dst.0 | low.0 | high.0);
        if self.wide() {
            self.evex(&evex::VPERMI2B, Operands::of(dst.0, low.0), high.into());
        } else {
            self.refuse("a permutation of bytes outside of AVX-512");
        }
    }

    /// Each byte of dst is a byte of `table` in the same 128-bit group. The lowest four bits of the byte of `index` are
    /// its number. Where the highest bit of that byte is set, the result is 0; the bits between do not count.
    pub fn vshuffle_bytes(&mut self, dst: Vreg, table: Vreg, index: Vreg) {
        self.check_vectors(dst.0 | table.0 | index.0);
        if self.wide() {
            self.evex(&evex::VPSHUFB, Operands::of(dst.0, table.0), index.into());
        } else {
            self.vex(vex::Form::twin(&evex::VPSHUFB), dst.0, table.0, index.into());
        }
    }

    /// Element i of dst is the element of `table`, a vector, whose number is the lowest bits of lane i of `index`: four
    /// bits on AVX-512, three on AVX2.
    pub fn vlookup(&mut self, dst: Vreg, index: Vreg, table: Vreg) {
        self.check_vectors(dst.0 | index.0 | table.0);
        if self.wide() {
            self.evex(&evex::VPERMPS, Operands::of(dst.0, index.0), table.into());
        } else {
            self.vex(vex::Form::twin(&evex::VPERMPS), dst.0, index.0, table.into());
        }
    }

    /// `vperm2f128` on AVX2, `vshuff32x4` on AVX-512: selects 128-bit groups by `imm`.
    pub fn vshuffle_128(&mut self, dst: Vreg, a: Vreg, b: Vreg, imm: u8) {
        self.check_vectors(dst.0 | a.0 | b.0);
        if self.wide() {
            self.evex_immediate(&evex::VSHUFF32X4, Operands::of(dst.0, a.0), b.into(), imm);
        } else {
            let imm = imm as i8;
            x64!(self; vperm2f128 Ry(dst.0), Ry(a.0), Ry(b.0), BYTE imm);
        }
    }
}
