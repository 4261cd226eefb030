//! Rounds left-hand rows to pairs of `bf16`, for kernels that multiply pairs.
//!
//! The processor rounds to nearest even and takes denormals for zeros; only AVX-512 kernels multiply pairs, so there is
//! no other form.

use std::mem::offset_of;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cpu::{CodeKey, CodeSource};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Asm, Code, Cond, Gpr, Mem, Vreg};

/// What shapes the instructions: nothing but the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HalveCode {
    /// Level: AVX-512.
    pub isa: Isa,
}

/// The name of the code.
pub(crate) const FAMILY: &str = "halve";

/// The arguments of one call.
#[repr(C)]
struct HalveArgs {
    from: *const f32,
    to: *mut f32,
    /// Bytes between the words of a group and of the next.
    step: usize,
    /// Whole groups of two vectors of elements.
    groups: usize,
    /// Elements of the first and the second vector after them, and words that they become.
    rest: [usize; 3],
}

/// What rounds a row.
#[derive(Clone, Debug)]
pub(crate) struct Halve {
    code: Arc<Code>,
    lanes: usize,
}

impl Halve {
    pub(crate) fn new(isa: Isa, source: &dyn CodeSource) -> Result<Halve> {
        Ok(Halve { code: source.code(&CodeKey::Halve(HalveCode { isa }))?, lanes: isa.lanes() })
    }

    /// Rounds a row to half as many words, the last of an odd row with a zero.
    pub(super) fn row(&self, row: &[f32], words: &mut [f32]) {
        assert_eq!(words.len(), row.len().div_ceil(2), "half as many words as elements");
        let last = row.len() % (2 * self.lanes);
        // SAFETY: groups of as many words as lanes and what is left are all words.
        unsafe { self.groups(row, words.as_mut_ptr(), self.lanes, last.div_ceil(2)) };
    }

    /// Rounds a row to groups of as many words as a vector has lanes, `step` words from one to the next; the last is filled up
    /// with zeros.
    ///
    /// # Safety
    ///
    /// All groups are writable and nobody else's.
    pub(crate) unsafe fn spread(&self, row: &[f32], to: *mut f32, step: usize) {
        // SAFETY: the caller's contract.
        unsafe { self.groups(row, to, step, self.lanes) };
    }

    /// # Safety
    ///
    /// All groups are writable, of the last, if it is not whole, `last` words.
    unsafe fn groups(&self, row: &[f32], to: *mut f32, step: usize, last: usize) {
        let rest = row.len() % (2 * self.lanes);
        let args = HalveArgs {
            from: row.as_ptr(),
            to,
            step: step * 4,
            groups: row.len() / (2 * self.lanes),
            rest: [rest.min(self.lanes), rest.saturating_sub(self.lanes), last],
        };
        // SAFETY: groups and rest together are the row, and the words that it becomes.
        unsafe { self.code.call(&args) };
    }
}

impl HalveCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) {
        let bytes = asm.vector_bytes();
        let (from, to, count, step, t0, t1) = (Gpr::RSI, Gpr::RDX, Gpr::R8, Gpr::R9, Gpr::RAX, Gpr::RCX);
        let arg = |offset: usize| Mem::at(Gpr::RDI, offset as i32);
        let (low, high) = (Vreg(0), Vreg(1));
        let (next, rest, done) = (asm.label(), asm.label(), asm.label());
        asm.prologue();
        asm.load(from, arg(offset_of!(HalveArgs, from)));
        asm.load(to, arg(offset_of!(HalveArgs, to)));
        asm.load(step, arg(offset_of!(HalveArgs, step)));
        asm.load(count, arg(offset_of!(HalveArgs, groups)));
        asm.test(count);
        asm.jump_if(Cond::Equal, rest);
        asm.bind(next);
        asm.vload(high, Mem::at(from, bytes));
        asm.vround_bf16(low, high, Mem::at(from, 0));
        asm.vstore(Mem::at(to, 0), low);
        asm.add_imm(from, 2 * bytes);
        asm.add(to, step);
        asm.sub_imm(count, 1);
        asm.test(count);
        asm.jump_if(Cond::NotEqual, next);
        asm.bind(rest);
        let lanes = |asm: &mut Asm, index: usize| {
            asm.load(t0, arg(offset_of!(HalveArgs, rest) + 8 * index));
            let mask = asm.mask(0, Vreg(asm.registers() - 1));
            asm.mask_first(mask, t0, t1);
            mask
        };
        asm.load(t0, arg(offset_of!(HalveArgs, rest)));
        asm.test(t0);
        asm.jump_if(Cond::Equal, done);
        // Masked lanes are zero, so that an odd row ends in a pair with zero.
        let mask = lanes(asm, 0);
        asm.vload_masked(low, mask, Mem::at(from, 0));
        let mask = lanes(asm, 1);
        asm.vload_masked(high, mask, Mem::at(from, bytes));
        asm.vround_bf16(low, high, low);
        let mask = lanes(asm, 2);
        asm.vstore_masked(Mem::at(to, 0), mask, low);
        asm.bind(done);
        asm.epilogue();
    }
}
