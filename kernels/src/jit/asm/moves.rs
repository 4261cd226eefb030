//! Moving vectors between registers and memory. Addresses need no alignment unless an operation says so.

use dynasmrt::DynasmApi;

use super::{Asm, Constant, Mask, Mem, Src, Vreg};
use crate::jit::evex::{self, Operands};
use crate::jit::vex::Form;

const LOAD: Form = Form::twin(&evex::VMOVUPS_LOAD);
const STORE: Form = Form::twin(&evex::VMOVUPS_STORE);
/// `vmovaps` between registers.
const COPY: Form = Form::new(1, 0, 0x28);
const XOR: Form = Form::twin(&evex::VXORPS);
/// `vmaskmovps`.
const MASKED_LOAD: Form = Form::new(2, 1, 0x2C);
const MASKED_STORE: Form = Form::new(2, 1, 0x2E);
const BROADCAST: Form = Form::twin(&evex::VPBROADCASTD);

impl Asm {
    /// dst = 0 in every lane
    pub fn vzero(&mut self, dst: Vreg) {
        self.check_vectors(dst.0);
        if self.wide() {
            self.evex(&evex::VPXORD, Operands::of(dst.0, dst.0), dst.into());
        } else {
            self.vex(XOR, dst.0, dst.0, dst.into());
        }
    }

    /// dst = src; nothing where they are the same.
    pub fn vmov(&mut self, dst: Vreg, src: Vreg) {
        self.check_vectors(dst.0 | src.0);
        if dst == src {
            return;
        }
        if self.wide() {
            self.evex(&evex::VMOVUPS_LOAD, Operands::of(dst.0, 0), src.into());
        } else {
            self.vex(COPY, dst.0, 0, src.into());
        }
    }

    /// dst = a register, a vector from memory, or a constant in every lane
    pub fn vload(&mut self, dst: Vreg, src: impl Into<Src>) {
        self.vload_src(dst, src.into());
    }

    fn vload_src(&mut self, dst: Vreg, src: Src) {
        self.check_vectors(dst.0);
        match src {
            Src::Reg(reg) => self.vmov(dst, reg),
            // Zeroing a register costs no load and, on every processor of interest, no execution slot.
            Src::Const(0) => self.vzero(dst),
            Src::Const(_) if self.wide() => self.evex(&evex::VBROADCASTSS, Operands::of(dst.0, 0), src),
            Src::Mem(_) if self.wide() => self.evex(&evex::VMOVUPS_LOAD, Operands::of(dst.0, 0), src),
            Src::Mem(_) | Src::Const(_) => self.vex(LOAD, dst.0, 0, src),
        }
    }

    /// dst = the table's values, twice over on AVX-512, for [`Asm::vlookup`] with an index below eight.
    pub fn vload_table(&mut self, dst: Vreg, table: &'static [u32; 8]) {
        self.check_vectors(dst.0);
        if self.wide() {
            self.evex_relative(&evex::VMOVUPS_LOAD, Operands::of(dst.0, 0), Constant::Table(table));
        } else {
            self.vex_relative(LOAD, dst.0, 0, Constant::Table(table));
        }
    }

    /// The vector at the address = src
    pub fn vstore(&mut self, dst: Mem, src: Vreg) {
        self.check_vectors(src.0);
        if self.wide() {
            self.evex(&evex::VMOVUPS_STORE, Operands::of(src.0, 0), dst.into());
        } else {
            self.vex(STORE, src.0, 0, dst.into());
        }
    }

    /// Non-temporal store; the address is aligned to the vector.
    pub fn vstore_stream(&mut self, dst: Mem, src: Vreg) {
        self.check_vectors(src.0);
        if self.wide() {
            self.evex(&evex::VMOVNTPS, Operands::of(src.0, 0), dst.into());
        } else {
            x64_mem!(self, dst, imm 0, [vmovntps] [, Ry(src.0)]);
        }
    }

    /// Lanes outside the mask are zero, and their memory is not touched.
    pub fn vload_masked(&mut self, dst: Vreg, mask: Mask, src: Mem) {
        self.check_vectors(dst.0);
        if self.wide() {
            let k = self.opmask(mask);
            self.evex(&evex::VMOVUPS_LOAD, Operands::of(dst.0, 0).zeroing(k), src.into());
        } else {
            let lanes = self.vector_mask(mask);
            self.vex(MASKED_LOAD, dst.0, lanes, src.into());
        }
    }

    /// Lanes outside the mask are not written.
    pub fn vstore_masked(&mut self, dst: Mem, mask: Mask, src: Vreg) {
        self.check_vectors(src.0);
        if self.wide() {
            let k = self.opmask(mask);
            self.evex(&evex::VMOVUPS_STORE, Operands::of(src.0, 0).merging(k), dst.into());
        } else {
            let lanes = self.vector_mask(mask);
            self.vex(MASKED_STORE, src.0, lanes, dst.into());
        }
    }

    /// Four bytes from memory into every lane.
    pub fn vbroadcast(&mut self, dst: Vreg, src: Mem) {
        self.check_vectors(dst.0);
        // As loads, `vpbroadcastd` and `vbroadcastss` take the same port, and sums of f32 are as fast with either. On a
        // Zen 4 a block of products by `vpdpbusd` takes 137 cycles behind `vbroadcastss` and 120 behind `vpbroadcastd`.
        if self.wide() {
            self.evex(&evex::VPBROADCASTD, Operands::of(dst.0, 0), src.into());
        } else {
            self.vex(BROADCAST, dst.0, 0, src.into());
        }
    }

    /// Sixteen bytes from memory into every 128-bit group.
    pub fn vbroadcast_group(&mut self, dst: Vreg, src: Mem) {
        self.check_vectors(dst.0);
        if self.wide() {
            self.evex(&evex::VBROADCASTF32X4, Operands::of(dst.0, 0), src.into());
        } else {
            self.vex(Form::twin(&evex::VBROADCASTF32X4), dst.0, 0, src.into());
        }
    }

    /// dst = src, but for the 128-bit group of that number, which comes from memory. AVX-512 only.
    pub fn vinsert_group(&mut self, dst: Vreg, src: Vreg, from: Mem, group: u8) {
        self.check_vectors(dst.0 | src.0);
        if self.wide() && group < 4 {
            self.evex_immediate(&evex::VINSERTF32X4, Operands::of(dst.0, src.0), from.into(), group);
        } else {
            self.refuse("a group of a vector from memory outside of AVX-512");
        }
    }

    /// Sixteen bytes in memory = the 128-bit group of that number. AVX-512 only.
    pub fn vstore_group(&mut self, to: Mem, src: Vreg, group: u8) {
        self.check_vectors(src.0);
        if self.wide() && group < 4 {
            self.evex_immediate(&evex::VEXTRACTF32X4, Operands::of(src.0, 0), to.into(), group);
        } else {
            self.refuse("a store of a group of a vector outside of AVX-512");
        }
    }

    /// Lane 0 into every lane.
    pub fn vbroadcast_lane0(&mut self, dst: Vreg, src: Vreg) {
        self.check_vectors(dst.0 | src.0);
        if self.wide() {
            self.evex(&evex::VBROADCASTSS, Operands::of(dst.0, 0), src.into());
        } else {
            x64!(self; vbroadcastss Ry(dst.0), Rx(src.0));
        }
    }

    /// One `f32` into lane 0, zero elsewhere.
    pub fn vload_one(&mut self, dst: Vreg, src: Mem) {
        self.check_vectors(dst.0);
        if self.wide() {
            self.evex(&evex::VMOVSS_LOAD, Operands::of(dst.0, 0), src.into());
        } else {
            x64_mem!(self, src, imm 0, [vmovss Rx(dst.0), DWORD] []);
        }
    }

    /// Lane 0 to memory.
    pub fn vstore_one(&mut self, dst: Mem, src: Vreg) {
        self.check_vectors(src.0);
        if self.wide() {
            self.evex(&evex::VMOVSS_STORE, Operands::of(src.0, 0), dst.into());
        } else {
            x64_mem!(self, dst, imm 0, [vmovss DWORD] [, Rx(src.0)]);
        }
    }

    /// `lanes()` bytes, zero-extended to 32-bit integers.
    pub fn vload_u8(&mut self, dst: Vreg, src: Mem) {
        self.check_vectors(dst.0);
        if self.wide() {
            self.evex(&evex::VPMOVZXBD, Operands::of(dst.0, 0), src.into());
        } else {
            // dynasm has the register form of the 256-bit extension only.
            x64_mem!(self, src, imm 0, [vmovq Rx(dst.0), QWORD] []);
            x64!(self; vpmovzxbd Ry(dst.0), Rx(dst.0));
        }
    }

    /// As [`Asm::vload_u8`]; lanes outside the mask are zero, and their memory is not touched. AVX-512 only.
    pub fn vload_u8_masked(&mut self, dst: Vreg, mask: Mask, src: Mem) {
        self.check_vectors(dst.0);
        if self.wide() {
            let k = self.opmask(mask);
            self.evex(&evex::VPMOVZXBD, Operands::of(dst.0, 0).zeroing(k), src.into());
        } else {
            self.refuse("masked bytes outside of AVX-512");
        }
    }
}
