//! Products of 16-bit and 8-bit integers that are summed in 32 bits, and the moves between those widths.
//!
//! Pairs of 16-bit products and quadruples of 8-bit ones are exact in 32 bits, and further sums wrap. Pairs of 8-bit
//! products ([`Asm::vmul_bytes`]) saturate where 16 bits do not hold them.

use dynasmrt::DynasmApi;

use super::{Asm, Mask, Mem, Src, Vreg};
use crate::jit::evex::{self, Operands};
use crate::jit::vex;

/// A row of sixteen lanes in two vectors of AVX2, and the address of its sixteen bytes.
#[derive(Clone, Copy, Debug)]
pub struct JoinedRow {
    /// The address of the first byte.
    pub to: Mem,
    /// Lanes 0 to 7, and 8 to 15.
    pub lanes: [Vreg; 2],
}

impl Asm {
    /// Each 32-bit lane of dst = the sum of the products of the two signed 16-bit halves of a's and b's lane. `b` is a
    /// register or memory.
    pub fn vmul_pairs(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        let b = b.into();
        self.check_vectors(dst.0 | a.0);
        self.no_constant(b);
        if self.wide() {
            self.evex(&evex::VPMADDWD, Operands::of(dst.0, a.0), b);
        } else {
            self.vex(vex::Form::twin(&evex::VPMADDWD), dst.0, a.0, b);
        }
    }

    /// Each 16-bit half of a lane of dst = the sum of the products of a's two unsigned bytes and b's two signed bytes,
    /// saturated. `b` is a register or memory.
    pub fn vmul_bytes(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        let b = b.into();
        self.check_vectors(dst.0 | a.0);
        self.no_constant(b);
        if self.wide() {
            self.evex(&evex::VPMADDUBSW, Operands::of(dst.0, a.0), b);
        } else {
            self.vex(vex::Form::twin(&evex::VPMADDUBSW), dst.0, a.0, b);
        }
    }

    /// dst = a + b on signed bytes, saturated.
    pub fn vadd_bytes_saturated(&mut self, dst: Vreg, a: Vreg, b: Vreg) {
        self.check_vectors(dst.0 | a.0 | b.0);
        if self.wide() {
            self.evex(&evex::VPADDSB, Operands::of(dst.0, a.0), b.into());
        } else {
            self.vex(vex::Form::twin(&evex::VPADDSB), dst.0, a.0, b.into());
        }
    }

    /// dst = a + b on 16-bit integers, wrapping.
    pub fn vadd_words(&mut self, dst: Vreg, a: Vreg, b: Vreg) {
        self.check_vectors(dst.0 | a.0 | b.0);
        if self.wide() {
            self.evex(&evex::VPADDW, Operands::of(dst.0, a.0), b.into());
        } else {
            self.vex(vex::Form::twin(&evex::VPADDW), dst.0, a.0, b.into());
        }
    }

    /// Each 32-bit lane of dst += the sum of the products of a's four unsigned bytes and b's four signed bytes. Needs
    /// [`Extension::Vnni`](crate::isa::Extension), or on AVX2 `AvxVnni`, which the kernel names when it is sealed. `b`
    /// is a register or memory.
    pub fn vdot_bytes(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        let b = b.into();
        self.check_vectors(dst.0 | a.0);
        self.no_constant(b);
        if self.wide() {
            self.evex(&evex::VPDPBUSD, Operands::of(dst.0, a.0), b);
        } else {
            self.vex(vex::Form::twin(&evex::VPDPBUSD), dst.0, a.0, b);
        }
    }

    /// Twice `lanes()` signed bytes as 16-bit integers.
    pub fn vload_i8_as_i16(&mut self, dst: Vreg, src: Mem) {
        self.check_vectors(dst.0);
        if self.wide() {
            self.evex(&evex::VPMOVSXBW, Operands::of(dst.0, 0), src.into());
            return;
        }
        // dynasm has no 256-bit form with a memory operand. It differs from the 128-bit form in one bit, the length, in
        // the last byte of the prefix.
        const LENGTH_256: u8 = 0x7D;
        let start = self.len();
        x64_mem!(self, src, imm 0, [vpmovsxbw Rx(dst.0), QWORD] []);
        self.ops.replace(start + 2, |_| LENGTH_256);
    }

    /// `lanes()` numbers of `f16` as `f32`, exactly; a signalling NaN becomes a quiet one.
    pub fn vload_f16(&mut self, dst: Vreg, src: Mem) {
        self.check_vectors(dst.0);
        if self.wide() {
            self.evex(&evex::VCVTPH2PS, Operands::of(dst.0, 0), src.into());
        } else {
            x64_mem!(self, src, imm 0, [vcvtph2ps Ry(dst.0), OWORD] []);
        }
    }

    /// `lanes()` bytes in memory = the lowest byte of each 32-bit lane of src. On AVX2 `src` and `scratch` are
    /// destroyed, and every lane of src must be in 0 to 255.
    pub fn vstore_u8(&mut self, dst: Mem, src: Vreg, scratch: Vreg) {
        self.check_vectors(src.0 | scratch.0);
        if self.wide() {
            self.evex(&evex::VPMOVDB, Operands::of(src.0, 0), dst.into());
            return;
        }
        if src == scratch {
            self.refuse("a scratch register of vstore_u8 that is its source");
        }
        x64!(self; vpackssdw Ry(src.0), Ry(src.0), Ry(src.0); vpackuswb Ry(src.0), Ry(src.0), Ry(src.0));
        self.vstore_one(dst, src);
        self.vshuffle_128(scratch, src, src, 1);
        self.vstore_one(dst.plus(4), scratch);
    }

    /// Bytes outside the mask are not written. AVX-512 only, as is packing four vectors.
    pub fn vstore_u8_masked(&mut self, dst: Mem, mask: Mask, src: Vreg) {
        let k = self.opmask(mask);
        self.packing(&evex::VPMOVDB, src, Operands::of(src.0, 0).merging(k), dst.into());
    }

    /// In each 128-bit group: a's lanes, then b's, as 16-bit integers, saturated.
    pub fn vpack_words(&mut self, dst: Vreg, a: Vreg, b: Vreg) {
        self.packing(&evex::VPACKSSDW, dst, Operands::of(dst.0, a.0), b.into());
    }

    /// In each 128-bit group: a's 16-bit integers, then b's, as signed or unsigned bytes, saturated.
    pub fn vpack_bytes(&mut self, dst: Vreg, a: Vreg, b: Vreg, signed: bool) {
        let form = if signed { &evex::VPACKSSWB } else { &evex::VPACKUSWB };
        self.packing(form, dst, Operands::of(dst.0, a.0), b.into());
    }

    /// dst = a + b on signed 16-bit integers, saturated.
    pub fn vadd_words_saturated(&mut self, dst: Vreg, a: Vreg, b: Vreg) {
        self.packing(&evex::VPADDSW, dst, Operands::of(dst.0, a.0), b.into());
    }

    /// dst = the larger of a's and b's bytes, signed or unsigned.
    pub fn vmax_bytes(&mut self, dst: Vreg, a: Vreg, b: Vreg, signed: bool) {
        let form = if signed { &evex::VPMAXSB } else { &evex::VPMAXUB };
        self.packing(form, dst, Operands::of(dst.0, a.0), b.into());
    }

    fn packing(&mut self, form: &evex::Form, dst: Vreg, operands: Operands, rm: Src) {
        self.check_vectors(dst.0);
        if let Src::Reg(register) = rm {
            self.check_vectors(register.0);
        }
        if self.wide() {
            self.evex(form, operands, rm);
        } else {
            self.refuse("packed bytes outside of AVX-512");
        }
    }

    /// Stores the lanes of `first`, and of `second` where there is one, as bytes. AVX2 only; the vectors and `scratch`
    /// are destroyed, and every lane must be in 0 to 255.
    pub fn vstore_u8_joined(&mut self, first: JoinedRow, second: Option<JoinedRow>, scratch: Vreg) {
        let JoinedRow { to, lanes: [a, b] } = first;
        self.check_vectors(a.0 | b.0 | scratch.0);
        if self.wide() {
            self.refuse("joined stores of bytes outside of AVX2");
            return;
        }
        x64!(self; vpackssdw Ry(a.0), Ry(a.0), Ry(b.0));
        let mut other = a;
        if let Some(JoinedRow { lanes: [c, d], .. }) = second {
            self.check_vectors(c.0 | d.0);
            x64!(self; vpackssdw Ry(c.0), Ry(c.0), Ry(d.0));
            other = c;
        }
        // Packing works within groups of 128 bits: now the lower group has bytes 0 to 3 and 8 to 11 of each row. The
        // upper group has the others, which belong between these.
        x64!(self; vpackuswb Ry(a.0), Ry(a.0), Ry(other.0));
        self.vshuffle_128(scratch, a, a, 1);
        if let Some(JoinedRow { to, lanes: [c, _] }) = second {
            self.vunpack_hi_32(c, a, scratch);
            self.vstore_half(to, c);
        }
        self.vunpack_lo_32(a, a, scratch);
        self.vstore_half(to, a);
    }

    /// The 16 bytes at the address = the lower half of src. AVX2 only.
    fn vstore_half(&mut self, dst: Mem, src: Vreg) {
        x64_mem!(self, dst, imm 0, [vmovups] [, Rx(src.0)]);
    }

    /// Refuses a constant: the table holds 32-bit elements, which these forms cannot broadcast.
    fn no_constant(&mut self, src: Src) {
        if matches!(src, Src::Const(_)) {
            self.refuse("a constant as an operand of short products");
        }
    }
}
