//! Loads and stores of `f32` vectors that are `bf16` in memory: the upper halves of the numbers, rounded to nearest
//! even.
//!
//! AVX-512 only; stores also need [`Extension::Bf16`](crate::isa::Extension), which the kernel names when it is sealed.

use super::{Asm, Mask, Mem, Src, Vreg};
use crate::jit::evex::{self, Form, Operands};

/// Bits of an `f32` that `bf16` drops.
const LOWER: u8 = 16;

impl Asm {
    /// dst = `lanes()` elements of `bf16` as `f32`, exactly.
    pub fn vload_bf16(&mut self, dst: Vreg, src: Mem) {
        self.bf16_elements(&evex::VPMOVZXWD, dst, Operands::of(dst.0, 0), src.into());
        self.vishl(dst, dst, LOWER);
    }

    /// Lanes outside the mask are zero, and their memory is not touched.
    pub fn vload_bf16_masked(&mut self, dst: Vreg, mask: Mask, src: Mem) {
        let k = self.opmask(mask);
        self.bf16_elements(&evex::VPMOVZXWD, dst, Operands::of(dst.0, 0).zeroing(k), src.into());
        self.vishl(dst, dst, LOWER);
    }

    /// `lanes()` elements at the address = src rounded. `scratch` is destroyed; it may be `src`.
    pub fn vstore_bf16(&mut self, dst: Mem, src: Vreg, scratch: Vreg) {
        self.vround_bf16(scratch, src, src);
        self.bf16_elements(&evex::VMOVUPS_STORE_HALF, scratch, Operands::of(scratch.0, 0), dst.into());
    }

    /// Elements outside the mask are not written.
    pub fn vstore_bf16_masked(&mut self, dst: Mem, mask: Mask, src: Vreg, scratch: Vreg) {
        let k = self.opmask(mask);
        self.vround_bf16(scratch, src, src);
        self.bf16_elements(&evex::VPMOVZXWD, scratch, Operands::of(scratch.0, 0), scratch.into());
        self.bf16_elements(&evex::VPMOVDW, scratch, Operands::of(scratch.0, 0).merging(k), dst.into());
    }

    fn bf16_elements(&mut self, form: &Form, vector: Vreg, operands: Operands, rm: Src) {
        self.check_vectors(vector.0);
        if self.wide() {
            self.evex(form, operands, rm);
        } else {
            self.refuse("elements of bf16 outside of AVX-512");
        }
    }
}
