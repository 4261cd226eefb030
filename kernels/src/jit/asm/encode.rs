//! This crate's macros over dynasm: `x64!` for any instruction, `x64_mem!` for one with a memory operand, `x64_src!`
//! for one whose last operand is a [`Src`](super::Src).
//!
//! dynasm decides the form of an address when Kiln is compiled, but addresses are known when a kernel is emitted, so
//! `x64_mem!` has the four forms (with or without a SIB byte, 8- or 32-bit displacement) and picks one.

use super::{Asm, Mem};

/// The number of rsp, which as an index in a SIB byte means "no index".
pub(super) const RSP: u8 = 4;

/// A memory operand as fields of the four forms.
pub(super) struct Address {
    pub(super) base: u8,
    pub(super) index: u8,
    pub(super) scale: u8,
    pub(super) disp: i32,
    pub(super) sib: bool,
}

impl Asm {
    /// Splits an address into fields. rsp and r12 as a base need a SIB byte; dynasm would not notice, since it gets the
    /// number only when the kernel is emitted.
    pub(super) fn address(&mut self, mem: Mem) -> Address {
        self.check_address(mem);
        let base = mem.base.0 & 15;
        let (index, scale) = mem.index.map_or((RSP, 1), |(index, scale)| (index.0 & 15, scale));
        let sib = mem.index.is_some() || base & 7 == RSP;
        Address { base, index, scale, disp: mem.disp, sib }
    }

    /// Writes the scale into the SIB byte, `tail` bytes before the end. In dynasm the scale is a constant, so the
    /// instruction is emitted with scale 1 first.
    pub(super) fn patch_scale(&mut self, address: &Address, tail: usize) {
        if address.scale != 1 {
            let sib = (address.scale.trailing_zeros() as u8) << 6 | (address.index & 7) << 3 | (address.base & 7);
            self.ops.replace(self.len() - tail - 1, |_| sib);
        }
    }
}

/// Assembles instructions for x86-64 into the kernel's buffer.
macro_rules! x64 {
    ($asm:expr; $($code:tt)*) => {
        dynasmrt::dynasm!($asm.ops ; .arch x64 ; $($code)*)
    };
}

/// Assembles `head [mem] tail`, with `imm` bytes of immediate in the tail.
macro_rules! x64_mem {
    ($asm:expr, $mem:expr, imm $imm:literal, [$($head:tt)*] [$($tail:tt)*]) => {{
        let address = $asm.address($mem);
        let (base, index) = (address.base, address.index);
        match (address.sib, i8::try_from(address.disp)) {
            (false, Ok(disp)) => x64!($asm; $($head)* [BYTE Rq(base) + disp] $($tail)*),
            (false, Err(_)) => {
                let disp = address.disp;
                x64!($asm; $($head)* [DWORD Rq(base) + disp] $($tail)*);
            }
            (true, Ok(disp)) => {
                x64!($asm; $($head)* [BYTE Rq(base) + Rq(index) * 1 + disp] $($tail)*);
                $asm.patch_scale(&address, 1 + $imm);
            }
            (true, Err(_)) => {
                let disp = address.disp;
                x64!($asm; $($head)* [DWORD Rq(base) + Rq(index) * 1 + disp] $($tail)*);
                $asm.patch_scale(&address, 4 + $imm);
            }
        }
    }};
}

/// Assembles `head src tail` for a ymm register, an address or an entry of the constant table.
macro_rules! x64_src {
    ($asm:expr, $src:expr, imm $imm:literal, [$($head:tt)*] [$($tail:tt)*]) => {
        match $src {
            Src::Reg(reg) => {
                $asm.check_vectors(reg.0);
                x64!($asm; $($head)* Ry(reg.0) $($tail)*);
            }
            Src::Mem(mem) => x64_mem!($asm, mem, imm $imm, [$($head)*] [$($tail)*]),
            Src::Const(bits) => {
                let label = $asm.constant(crate::jit::asm::Constant::Splat(bits));
                x64!($asm; $($head)* [=>label] $($tail)*);
            }
        }
    };
}
