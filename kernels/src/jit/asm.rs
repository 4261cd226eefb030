//! The assembler of every emitter: one set of vector operations, encoded as VEX (AVX2) or EVEX (AVX-512).
//!
//! An emitter is written once. It asks [`Asm::lanes`] and [`Asm::registers`] and never which encoding is in use.
//! dynasm encodes general-purpose and VEX instructions; [`evex`](super::evex) encodes the rest into the same buffer.
//!
//! # ABI of every kernel
//!
//! System V, one argument: `extern "sysv64" fn(args: *const u8)`, where `args` points at a `#[repr(C)]` struct of the
//! family. [`Asm::prologue`] saves rbx, rbp, r12-r15 and leaves `args` in rdi; [`Asm::epilogue`] restores them,
//! clears upper halves (`vzeroupper`) and returns. Vector registers are all caller-saved. rsp is never an operand,
//! except through [`Asm::spill`].

use crate::error::Result;
use crate::isa::Isa;

/// A general-purpose 64-bit register by its encoding number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpr(pub u8);

#[allow(missing_docs, reason = "the processor's own names")]
impl Gpr {
    pub const RAX: Gpr = Gpr(0);
    pub const RCX: Gpr = Gpr(1);
    pub const RDX: Gpr = Gpr(2);
    pub const RBX: Gpr = Gpr(3);
    pub const RBP: Gpr = Gpr(5);
    pub const RSI: Gpr = Gpr(6);
    pub const RDI: Gpr = Gpr(7);
    pub const R8: Gpr = Gpr(8);
    pub const R9: Gpr = Gpr(9);
    pub const R10: Gpr = Gpr(10);
    pub const R11: Gpr = Gpr(11);
    pub const R12: Gpr = Gpr(12);
    pub const R13: Gpr = Gpr(13);
    pub const R14: Gpr = Gpr(14);
    pub const R15: Gpr = Gpr(15);
}

/// A vector register: ymm of 8 `f32` lanes on AVX2, zmm of 16 on AVX-512.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vreg(pub u8);

/// A lane mask: a vector register of all-ones/all-zeros lanes on AVX2, a mask register k1-k7 on AVX-512.
///
/// Emitters get one from [`Asm::mask`], which maps a small index to `k(index + 1)`, or to the vector register
/// that the emitter gives up for it on AVX2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// AVX2.
    Vector(Vreg),
    /// AVX-512.
    Opmask(u8),
}

/// A memory operand `[base + index * scale + disp]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mem {
    /// Base register.
    pub base: Gpr,
    /// Index register (never rsp) and its scale 1, 2, 4 or 8.
    pub index: Option<(Gpr, u8)>,
    /// Displacement in bytes.
    pub disp: i32,
}

impl Mem {
    /// `[base + disp]`
    #[must_use]
    pub const fn at(base: Gpr, disp: i32) -> Mem {
        Mem { base, index: None, disp }
    }

    /// `[base + index * scale + disp]`
    #[must_use]
    pub const fn indexed(base: Gpr, index: Gpr, scale: u8, disp: i32) -> Mem {
        Mem { base, index: Some((index, scale)), disp }
    }

    /// The same address, `bytes` further.
    #[must_use]
    pub const fn plus(self, bytes: i32) -> Mem {
        Mem { base: self.base, index: self.index, disp: self.disp + bytes }
    }
}

/// A jump target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(pub(crate) dynasmrt::DynamicLabel);

/// Conditions of [`Asm::jump_if`] after [`Asm::cmp`] or [`Asm::test`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the field's names; signed comparisons")]
pub enum Cond {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Predicates of [`Asm::compare`]. Ordered ones are false where an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Predicate {
    /// Ordered, quiet.
    Equal,
    /// Unordered, quiet: true for NaN.
    NotEqual,
    /// Ordered, quiet.
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Either operand is NaN.
    Unordered,
}

/// Rounding of [`Asm::round`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Rounding {
    NearestEven,
    Down,
    Up,
    Zero,
}

/// A vector or memory source, so that an operation may read its last operand from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Src {
    /// A register.
    Reg(Vreg),
    /// A whole vector at an address (unaligned allowed).
    Mem(Mem),
    /// The same `f32` in every lane, from the kernel's constant table.
    Const(u32),
}

impl From<Vreg> for Src {
    fn from(reg: Vreg) -> Src {
        Src::Reg(reg)
    }
}

impl From<Mem> for Src {
    fn from(mem: Mem) -> Src {
        Src::Mem(mem)
    }
}

impl From<f32> for Src {
    fn from(value: f32) -> Src {
        Src::Const(value.to_bits())
    }
}

/// An assembler for one kernel.
pub struct Asm {
    isa: Isa,
}

#[allow(unused_variables, clippy::todo, missing_docs, reason = "signatures first")]
impl Asm {
    /// An empty kernel of that level; an error for [`Isa::Portable`].
    pub fn new(isa: Isa) -> Result<Asm> {
        Ok(Asm { isa })
    }
    /// The finished bytes: code, then the constant table on its own 64-byte line.
    pub fn finish(self, family: &'static str) -> Result<Vec<u8>> {
        todo!()
    }
    pub fn isa(&self) -> Isa {
        self.isa
    }
    /// `f32` lanes of a vector register.
    pub fn lanes(&self) -> usize {
        self.isa.lanes()
    }
    /// Bytes of a vector register.
    pub fn vector_bytes(&self) -> i32 {
        self.isa.lanes() as i32 * 4
    }
    /// Vector registers that may be named.
    pub fn registers(&self) -> u8 {
        self.isa.registers()
    }

    // --- control ---
    pub fn prologue(&mut self) {
        todo!()
    }
    pub fn epilogue(&mut self) {
        todo!()
    }
    pub fn label(&mut self) -> Label {
        todo!()
    }
    pub fn bind(&mut self, label: Label) {
        todo!()
    }
    /// Pads with multi-byte NOPs to a multiple of `bytes` (a power of two up to 64).
    pub fn align(&mut self, bytes: usize) {
        todo!()
    }
    pub fn jump(&mut self, label: Label) {
        todo!()
    }
    pub fn jump_if(&mut self, cond: Cond, label: Label) {
        todo!()
    }

    // --- general-purpose registers, all 64 bits ---
    pub fn mov(&mut self, dst: Gpr, src: Gpr) {
        todo!()
    }
    pub fn mov_imm(&mut self, dst: Gpr, imm: i64) {
        todo!()
    }
    pub fn load(&mut self, dst: Gpr, src: Mem) {
        todo!()
    }
    pub fn store(&mut self, dst: Mem, src: Gpr) {
        todo!()
    }
    pub fn lea(&mut self, dst: Gpr, src: Mem) {
        todo!()
    }
    pub fn add(&mut self, dst: Gpr, src: Gpr) {
        todo!()
    }
    pub fn add_imm(&mut self, dst: Gpr, imm: i32) {
        todo!()
    }
    pub fn add_mem(&mut self, dst: Gpr, src: Mem) {
        todo!()
    }
    pub fn sub(&mut self, dst: Gpr, src: Gpr) {
        todo!()
    }
    pub fn sub_imm(&mut self, dst: Gpr, imm: i32) {
        todo!()
    }
    pub fn imul(&mut self, dst: Gpr, src: Gpr) {
        todo!()
    }
    pub fn shl_imm(&mut self, dst: Gpr, bits: u8) {
        todo!()
    }
    pub fn shr_imm(&mut self, dst: Gpr, bits: u8) {
        todo!()
    }
    pub fn and_imm(&mut self, dst: Gpr, imm: i32) {
        todo!()
    }
    /// Flags of `a - b`.
    pub fn cmp(&mut self, a: Gpr, b: Gpr) {
        todo!()
    }
    pub fn cmp_imm(&mut self, a: Gpr, imm: i32) {
        todo!()
    }
    /// Flags of `a & a`: Equal when zero.
    pub fn test(&mut self, a: Gpr) {
        todo!()
    }
    /// `prefetcht0`
    pub fn prefetch(&mut self, mem: Mem) {
        todo!()
    }

    // --- masks ---
    /// The mask register number `index` (0-6), which is `k(index + 1)` on AVX-512 and `vector` on AVX2.
    pub fn mask(&self, index: u8, vector: Vreg) -> Mask {
        todo!()
    }
    /// Sets the first `count` lanes, 0 to `lanes()`; `scratch` is destroyed.
    pub fn mask_first(&mut self, mask: Mask, count: Gpr, scratch: Gpr) {
        todo!()
    }
    /// mask = a <predicate> b, lane by lane.
    pub fn compare(&mut self, mask: Mask, predicate: Predicate, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    /// dst = mask ? on : off
    pub fn select(&mut self, dst: Vreg, mask: Mask, on: Vreg, off: Vreg) {
        todo!()
    }
    /// dst = mask ? 1.0 : 0.0
    pub fn mask_to_f32(&mut self, dst: Vreg, mask: Mask) {
        todo!()
    }

    // --- moving vectors; addresses need no alignment ---
    pub fn vzero(&mut self, dst: Vreg) {
        todo!()
    }
    pub fn vmov(&mut self, dst: Vreg, src: Vreg) {
        todo!()
    }
    pub fn vload(&mut self, dst: Vreg, src: impl Into<Src>) {
        todo!()
    }
    pub fn vstore(&mut self, dst: Mem, src: Vreg) {
        todo!()
    }
    /// Lanes outside the mask are zero, and their memory is not touched.
    pub fn vload_masked(&mut self, dst: Vreg, mask: Mask, src: Mem) {
        todo!()
    }
    /// Lanes outside the mask are not written.
    pub fn vstore_masked(&mut self, dst: Mem, mask: Mask, src: Vreg) {
        todo!()
    }
    /// One `f32` from memory into every lane.
    pub fn vbroadcast(&mut self, dst: Vreg, src: Mem) {
        todo!()
    }
    /// Lane 0 into every lane.
    pub fn vbroadcast_lane0(&mut self, dst: Vreg, src: Vreg) {
        todo!()
    }
    /// One `f32` into lane 0, zero elsewhere.
    pub fn vload_one(&mut self, dst: Vreg, src: Mem) {
        todo!()
    }
    /// Lane 0 to memory.
    pub fn vstore_one(&mut self, dst: Mem, src: Vreg) {
        todo!()
    }
    /// `lanes()` bytes, zero-extended to 32-bit integers.
    pub fn vload_u8(&mut self, dst: Vreg, src: Mem) {
        todo!()
    }
    /// Non-temporal store; the address is aligned to the vector.
    pub fn vstore_stream(&mut self, dst: Mem, src: Vreg) {
        todo!()
    }

    // --- f32 arithmetic: dst = a op b ---
    pub fn vadd(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    pub fn vsub(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    pub fn vmul(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    pub fn vdiv(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    /// x86 semantics: b where either operand is NaN or both are zero.
    pub fn vmax(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    pub fn vmin(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    pub fn vsqrt(&mut self, dst: Vreg, src: Vreg) {
        todo!()
    }
    pub fn vround(&mut self, dst: Vreg, src: Vreg, rounding: Rounding) {
        todo!()
    }
    /// dst = a * b + dst
    pub fn vfma231(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    /// dst = dst * a + b
    pub fn vfma213(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    /// dst = -(a * b) + dst
    pub fn vfnma231(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }

    // --- bits and integers ---
    pub fn vand(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    pub fn vor(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    pub fn vxor(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    /// !a & b
    pub fn vandn(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    /// f32 to i32, rounding to nearest even.
    pub fn vcvt_i32(&mut self, dst: Vreg, src: Vreg) {
        todo!()
    }
    pub fn vcvt_f32(&mut self, dst: Vreg, src: Vreg) {
        todo!()
    }
    pub fn viadd(&mut self, dst: Vreg, a: Vreg, b: impl Into<Src>) {
        todo!()
    }
    pub fn vishl(&mut self, dst: Vreg, src: Vreg, bits: u8) {
        todo!()
    }
    pub fn vishr(&mut self, dst: Vreg, src: Vreg, bits: u8) {
        todo!()
    }
    /// x * 2^n for an f32 `n` that holds an integer in -252..=252; exact down to denormals, +inf and 0 beyond.
    /// `scratch0` and `scratch1` are destroyed (AVX-512 uses neither).
    pub fn vscale(&mut self, dst: Vreg, x: Vreg, n: Vreg, scratch0: Vreg, scratch1: Vreg) {
        todo!()
    }

    // --- across lanes; the result is in every lane of dst, `scratch` is destroyed ---
    pub fn vreduce_add(&mut self, dst: Vreg, src: Vreg, scratch: Vreg) {
        todo!()
    }
    pub fn vreduce_max(&mut self, dst: Vreg, src: Vreg, scratch: Vreg) {
        todo!()
    }
    pub fn vreduce_min(&mut self, dst: Vreg, src: Vreg, scratch: Vreg) {
        todo!()
    }
    pub fn vreduce_mul(&mut self, dst: Vreg, src: Vreg, scratch: Vreg) {
        todo!()
    }

    // --- permutations for transposing; within 128-bit lanes and between them ---
    pub fn vunpack_lo_32(&mut self, dst: Vreg, a: Vreg, b: Vreg) {
        todo!()
    }
    pub fn vunpack_hi_32(&mut self, dst: Vreg, a: Vreg, b: Vreg) {
        todo!()
    }
    pub fn vunpack_lo_64(&mut self, dst: Vreg, a: Vreg, b: Vreg) {
        todo!()
    }
    pub fn vunpack_hi_64(&mut self, dst: Vreg, a: Vreg, b: Vreg) {
        todo!()
    }
    /// `vperm2f128` on AVX2, `vshuff32x4` on AVX-512: selects 128-bit groups by `imm`.
    pub fn vshuffle_128(&mut self, dst: Vreg, a: Vreg, b: Vreg, imm: u8) {
        todo!()
    }

    // --- spilling ---
    /// Reserves `slots` vector-sized, vector-aligned places on the stack until [`Asm::unspill`]; the frame register rbp holds rsp.
    pub fn spill(&mut self, slots: u8) {
        todo!()
    }
    /// The address of a spill slot.
    pub fn slot(&self, index: u8) -> Mem {
        todo!()
    }
    /// Releases the slots of [`Asm::spill`].
    pub fn unspill(&mut self) {
        todo!()
    }
}
