//! The operands that emitters name: registers, addresses, masks, labels, conditions and sources.
//!
//! Plain data without encodings, which are in the sibling files of [`asm`](super) and in [`evex`](crate::jit::evex).

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

/// A tile register, 0 to 7. Its configuration sets its rows and the bytes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile(pub u8);

/// A lane mask: a vector register of all-ones/all-zeros lanes on AVX2, a mask register k1-k7 on AVX-512.
///
/// Emitters get a mask from [`Asm::mask`](super::Asm::mask), which maps a small index to `k(index + 1)` on AVX-512, and
/// on AVX2 to the vector register that the emitter passes.
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

    /// The address `bytes` further on.
    #[must_use]
    pub const fn plus(self, bytes: i32) -> Mem {
        Mem { base: self.base, index: self.index, disp: self.disp + bytes }
    }
}

/// A jump target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(pub(crate) dynasmrt::DynamicLabel);

/// Conditions of [`Asm::jump_if`](super::Asm::jump_if) after [`Asm::cmp`](super::Asm::cmp) or
/// [`Asm::test`](super::Asm::test).
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

/// Predicates of [`Asm::compare`](super::Asm::compare). Ordered predicates are false where an operand is NaN.
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

/// Rounding of [`Asm::vround`](super::Asm::vround).
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
