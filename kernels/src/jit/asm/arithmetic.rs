//! Lane-by-lane arithmetic on `f32`, on bits and on 32-bit integers.

use dynasmrt::DynasmApi;

use super::{Asm, Rounding, Src, Vreg};
use crate::jit::evex::{self, Operands};
use crate::jit::vex;

/// Defines `name(dst, a, b)` with a source as last operand: the EVEX form, which has an equivalent in VEX.
macro_rules! three_operands {
    ($($(#[$doc:meta])* $name:ident = $evex:ident;)*) => {
        impl Asm {
            $($(#[$doc])*
            pub fn $name(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
                // A function without generics, so that its body is compiled once, not for each type of source.
                fn encode(asm: &mut Asm, dst: Vreg, a: Vreg, b: Src) {
                    asm.check_vectors(dst.0 | a.0);
                    if asm.wide() {
                        asm.evex(&evex::$evex, Operands::of(dst.0, a.0), b);
                    } else {
                        const TWIN: vex::Form = vex::Form::twin(&evex::$evex);
                        asm.vex(TWIN, dst.0, a.0, b);
                    }
                }
                encode(self, dst, a, b.into());
            })*
        }
    };
}

/// Defines `name(dst, src)` over two registers.
macro_rules! two_operands {
    ($($(#[$doc:meta])* $name:ident = $vex:ident, $evex:ident;)*) => {
        impl Asm {
            $($(#[$doc])*
            pub fn $name(&mut self, dst: Vreg, src: Vreg) {
                self.check_vectors(dst.0 | src.0);
                if self.wide() {
                    self.evex(&evex::$evex, Operands::of(dst.0, 0), src.into());
                } else {
                    x64!(self; $vex Ry(dst.0), Ry(src.0));
                }
            })*
        }
    };
}

/// Defines `name(dst, src, bits)` on 32-bit integers.
macro_rules! shifts {
    ($($(#[$doc:meta])* $name:ident = $vex:ident, $evex:ident;)*) => {
        impl Asm {
            $($(#[$doc])*
            pub fn $name(&mut self, dst: Vreg, src: Vreg, bits: u8) {
                self.check_vectors(dst.0 | src.0);
                if self.wide() {
                    self.evex_immediate(&evex::$evex, Operands::of(0, dst.0), src.into(), bits);
                } else {
                    let bits = bits as i8;
                    x64!(self; $vex Ry(dst.0), Ry(src.0), BYTE bits);
                }
            })*
        }
    };
}

three_operands! {
    /// dst = a + b
    vadd = VADDPS;
    /// dst = a - b
    vsub = VSUBPS;
    /// dst = a * b
    vmul = VMULPS;
    /// dst = a / b
    vdiv = VDIVPS;
    /// x86 semantics: b where either operand is NaN or both are zero.
    vmax = VMAXPS;
    /// x86 semantics: b where either operand is NaN or both are zero.
    vmin = VMINPS;
    /// dst = a * b + dst
    vfma231 = VFMADD231PS;
    /// dst = dst * a + b
    vfma213 = VFMADD213PS;
    /// dst = -(a * b) + dst
    vfnma231 = VFNMADD231PS;
    /// dst = a & b
    vand = VANDPS;
    /// dst = a | b
    vor = VORPS;
    /// dst = a ^ b
    vxor = VXORPS;
    /// !a & b
    vandn = VANDNPS;
    /// dst = a + b on 32-bit integers, wrapping
    viadd = VPADDD;
    /// dst = a - b on 32-bit integers, wrapping
    visub = VPSUBD;
    /// dst = the smaller of a and b on signed 32-bit integers
    vimin = VPMINSD;
    /// dst = the larger of a and b on signed 32-bit integers
    vimax = VPMAXSD;
}

two_operands! {
    /// dst = the square root, correctly rounded
    vsqrt = vsqrtps, VSQRTPS;
    /// f32 to i32, rounding to nearest even; `i32::MIN` where that is out of range or NaN.
    vcvt_i32 = vcvtps2dq, VCVTPS2DQ;
    /// i32 to f32, rounding to nearest even.
    vcvt_f32 = vcvtdq2ps, VCVTDQ2PS;
}

shifts! {
    /// dst = src << bits on 32-bit integers; 0 from 32 bits on.
    vishl = vpslld, VPSLLD;
    /// dst = src >> bits on unsigned 32-bit integers; 0 from 32 bits on.
    vishr = vpsrld, VPSRLD;
    /// dst = src >> bits on signed 32-bit integers; the sign everywhere from 32 bits on.
    visar = vpsrad, VPSRAD;
}

impl Asm {
    /// dst += the sums of products of the pairs of `bf16` in each 32-bit lane of `a` and `b`. Needs
    /// [`Extension::Bf16`](crate::isa::Extension); the kernel says so when it is sealed.
    pub fn vdot_bf16(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        self.bf16(&evex::VDPBF16PS, dst, a, b.into());
    }

    /// dst = a bf16 pair in each 32-bit lane: the lower half is `low` rounded, the upper half `high`. Needs
    /// [`Extension::Bf16`](crate::isa::Extension).
    pub fn vround_bf16(&mut self, dst: Vreg, high: Vreg, low: impl Into<Src>) {
        self.bf16(&evex::VCVTNE2PS2BF16, dst, high, low.into());
    }

    fn bf16(&mut self, form: &evex::Form, dst: Vreg, a: Vreg, b: Src) {
        self.check_vectors(dst.0 | a.0);
        if self.wide() {
            self.evex(form, Operands::of(dst.0, a.0), b);
        } else {
            self.refuse("an instruction on bf16 outside of AVX-512");
        }
    }

    /// Rounds to an integer that stays an `f32`.
    pub fn vround(&mut self, dst: Vreg, src: Vreg, rounding: Rounding) {
        self.check_vectors(dst.0 | src.0);
        // Bit 3 suppresses the exception for inexact results. VRNDSCALEPS has the same modes for a scale of 2^0.
        let mode: u8 = 8 | match rounding {
            Rounding::NearestEven => 0,
            Rounding::Down => 1,
            Rounding::Up => 2,
            Rounding::Zero => 3,
        };
        if self.wide() {
            self.evex_immediate(&evex::VRNDSCALEPS, Operands::of(dst.0, 0), src.into(), mode);
        } else {
            let mode = mode as i8;
            x64!(self; vroundps Ry(dst.0), Ry(src.0), BYTE mode);
        }
    }

    /// x * 2^n for an f32 `n` that holds an integer in -252..=252; exact down to denormals, +inf and 0 beyond.
    /// `scratch0` and `scratch1` are destroyed (AVX-512 uses neither).
    ///
    /// AVX2 multiplies by two powers of two, each half of `n`, because 2^n itself may be no `f32`. A result that is
    /// denormal is rounded once, as on AVX-512, wherever |x| is 2^-50 or more.
    pub fn vscale(&mut self, dst: Vreg, x: Vreg, n: Vreg, scratch0: Vreg, scratch1: Vreg) {
        self.check_vectors(dst.0 | x.0 | n.0);
        if self.wide() {
            self.evex(&evex::VSCALEFPS, Operands::of(dst.0, x.0), n.into());
            return;
        }
        let operands = [dst, x, n];
        if scratch0 == scratch1 || operands.contains(&scratch0) || operands.contains(&scratch1) {
            self.refuse("a scratch register of vscale that is in use");
        }
        // 2^m is the f32 whose exponent field is m + 127: (m << 23) + the bits of 1.0.
        let one = Src::from(1.0);
        self.vcvt_i32(scratch0, n);
        self.visar(scratch1, scratch0, 1);
        self.visub(scratch0, scratch0, scratch1);
        self.vishl(scratch1, scratch1, 23);
        self.vishl(scratch0, scratch0, 23);
        self.viadd(scratch1, scratch1, one);
        self.viadd(scratch0, scratch0, one);
        self.vmul(dst, x, scratch1);
        self.vmul(dst, dst, scratch0);
    }
}
