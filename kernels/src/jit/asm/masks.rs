//! Lane masks: mask registers on AVX-512, vectors of all-ones or all-zeros lanes on AVX2.

use dynasmrt::{DynasmApi, DynasmLabelApi};

use super::{Asm, Constant, Gpr, Mask, Mem, Predicate, Src, Vreg};
use crate::jit::evex::{self, Operands};
use crate::jit::vex;

/// `vmovd` from a general-purpose register.
const MOVD: vex::Form = vex::Form::new(1, 1, 0x6E).half();
const BROADCAST: vex::Form = vex::Form::twin(&evex::VPBROADCASTD);
/// `vpcmpgtd`.
const GREATER: vex::Form = vex::Form::new(1, 1, 0x66);

impl Predicate {
    /// The immediate of `vcmpps`: the quiet form, so that a NaN raises no exception flag.
    fn immediate(self) -> u8 {
        match self {
            Predicate::Equal => 0x00,
            Predicate::NotEqual => 0x04,
            Predicate::Less => 0x11,
            Predicate::LessEqual => 0x12,
            Predicate::Greater => 0x1E,
            Predicate::GreaterEqual => 0x1D,
            Predicate::Unordered => 0x03,
        }
    }
}

impl Asm {
    /// The mask register number `index` (0-6), which is `k(index + 1)` on AVX-512 and `vector` on AVX2.
    #[must_use]
    pub fn mask(&self, index: u8, vector: Vreg) -> Mask {
        // k0 as a write mask means "all lanes", so it is never used.
        if self.wide() { Mask::Opmask(index.saturating_add(1)) } else { Mask::Vector(vector) }
    }

    /// Sets the first `count` lanes, 0 to `lanes()`; `scratch` is destroyed, and so are the flags.
    pub fn mask_first(&mut self, mask: Mask, count: Gpr, scratch: Gpr) {
        self.check_gprs(count.0 | scratch.0);
        if count == scratch {
            self.refuse("a count of mask_first that is its own scratch register");
        }
        if self.wide() {
            // (1 << count) - 1
            let k = self.opmask(mask);
            x64!(self; xor Rd(scratch.0), Rd(scratch.0); bts Rq(scratch.0), Rq(count.0); sub Rd(scratch.0), BYTE 1);
            evex::kmovw(&mut self.ops, k, scratch.0);
        } else {
            // count > lane number
            let lanes = self.vector_mask(mask);
            let (word, len) = vex::vector(MOVD, lanes, 0, vex::Place::register(count.0));
            self.ops.append_long(word, len);
            self.vex(BROADCAST, lanes, 0, Vreg(lanes).into());
            self.vex_relative(GREATER, lanes, lanes, Constant::LaneNumbers);
        }
    }

    /// dst = the vector at the address; with a mask only its lanes, and zero in the others.
    pub fn vload_lanes(&mut self, dst: Vreg, mask: Option<Mask>, src: Mem) {
        match mask {
            Some(mask) => self.vload_masked(dst, mask, src),
            None => self.vload(dst, src),
        }
    }

    /// The vector at the address = src; with a mask only its lanes.
    pub fn vstore_lanes(&mut self, dst: Mem, mask: Option<Mask>, src: Vreg) {
        match mask {
            Some(mask) => self.vstore_masked(dst, mask, src),
            None => self.vstore(dst, src),
        }
    }

    /// mask = a \<predicate\> b, lane by lane.
    pub fn compare(&mut self, mask: Mask, predicate: Predicate, a: Vreg, b: impl Into<Src>) {
        self.compare_src(mask, predicate, a, b.into());
    }

    fn compare_src(&mut self, mask: Mask, predicate: Predicate, a: Vreg, b: Src) {
        self.check_vectors(a.0);
        if self.wide() {
            let k = self.opmask(mask);
            self.evex_immediate(&evex::VCMPPS, Operands::of(k, a.0), b, predicate.immediate());
        } else {
            let lanes = self.vector_mask(mask);
            // dynasm 5.1 misplaces the operands of `vcmpps` itself, and has a separate mnemonic for each predicate.
            match predicate {
                Predicate::Equal => x64_src!(self, b, imm 1, [vcmpeqps Ry(lanes), Ry(a.0),] []),
                Predicate::NotEqual => x64_src!(self, b, imm 1, [vcmpneqps Ry(lanes), Ry(a.0),] []),
                Predicate::Less => x64_src!(self, b, imm 1, [vcmplt_oqps Ry(lanes), Ry(a.0),] []),
                Predicate::LessEqual => x64_src!(self, b, imm 1, [vcmple_oqps Ry(lanes), Ry(a.0),] []),
                Predicate::Greater => x64_src!(self, b, imm 1, [vcmpgt_oqps Ry(lanes), Ry(a.0),] []),
                Predicate::GreaterEqual => x64_src!(self, b, imm 1, [vcmpge_oqps Ry(lanes), Ry(a.0),] []),
                Predicate::Unordered => x64_src!(self, b, imm 1, [vcmpunordps Ry(lanes), Ry(a.0),] []),
            }
        }
    }

    /// Sets the flags: equal where no lane of the mask is set.
    pub(super) fn test_mask(&mut self, mask: Mask) {
        if self.wide() {
            let k = self.opmask(mask);
            evex::kortestw(&mut self.ops, k);
        } else {
            let lanes = self.vector_mask(mask);
            x64!(self; vtestps Ry(lanes), Ry(lanes));
        }
    }

    /// dst = mask ? on : off
    pub fn select(&mut self, dst: Vreg, mask: Mask, on: Vreg, off: Vreg) {
        self.check_vectors(dst.0 | on.0 | off.0);
        if self.wide() {
            let k = self.opmask(mask);
            self.evex(&evex::VBLENDMPS, Operands::of(dst.0, off.0).merging(k), on.into());
        } else {
            let lanes = self.vector_mask(mask);
            x64!(self; vblendvps Ry(dst.0), Ry(off.0), Ry(on.0), Ry(lanes));
        }
    }

    /// dst = mask ? 1.0 : 0.0
    pub fn mask_to_f32(&mut self, dst: Vreg, mask: Mask) {
        self.check_vectors(dst.0);
        if self.wide() {
            let k = self.opmask(mask);
            self.evex(&evex::VBROADCASTSS, Operands::of(dst.0, 0).zeroing(k), Src::from(1.0));
        } else {
            let lanes = self.vector_mask(mask);
            self.vand(dst, Vreg(lanes), 1.0);
        }
    }

    /// The number of a mask register, k1-k7.
    pub(super) fn opmask(&mut self, mask: Mask) -> u8 {
        match mask {
            Mask::Opmask(k @ 1..=7) => k,
            _ => {
                self.refuse("a mask that is none of k1-k7 in AVX-512 code");
                1
            }
        }
    }

    /// The number of the vector register that holds a mask.
    pub(super) fn vector_mask(&mut self, mask: Mask) -> u8 {
        match mask {
            Mask::Vector(vector) => {
                self.check_vectors(vector.0);
                vector.0
            }
            Mask::Opmask(_) => {
                self.refuse("a mask register in AVX2 code");
                0
            }
        }
    }
}
