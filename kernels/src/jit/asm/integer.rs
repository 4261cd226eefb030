//! General-purpose registers, all 64 bits wide: moves, address arithmetic, comparisons.

use dynasmrt::DynasmApi;

use super::{Asm, Gpr, Mem};
use crate::jit::vex;

/// Defines `name(dst, src)` over two registers: the opcode of the form that writes its rm operand.
macro_rules! two_registers {
    ($($(#[$doc:meta])* $name:ident = $op:literal;)*) => {
        impl Asm {
            $($(#[$doc])*
            pub fn $name(&mut self, dst: Gpr, src: Gpr) {
                self.integers($op, dst, src);
            })*
        }
    };
}

/// Defines `name(dst, imm)`, with the short form for an immediate of one byte: three bits of the opcode.
macro_rules! register_immediate {
    ($($(#[$doc:meta])* $name:ident = $op:literal;)*) => {
        impl Asm {
            $($(#[$doc])*
            pub fn $name(&mut self, dst: Gpr, imm: i32) {
                match i8::try_from(imm) {
                    Ok(_) => self.immediate(0x83, $op, dst, imm, 1),
                    Err(_) => self.immediate(0x81, $op, dst, imm, 4),
                }
            })*
        }
    };
}

two_registers! {
    /// dst += src
    add = 0x01;
    /// dst -= src
    sub = 0x29;
    /// Flags of `a - b`.
    cmp = 0x39;
}

register_immediate! {
    /// dst += imm
    add_imm = 0;
    /// dst -= imm
    sub_imm = 5;
    /// dst &= imm, sign-extended
    and_imm = 4;
    /// Flags of `dst - imm`.
    cmp_imm = 7;
}

impl Asm {
    /// dst = src; nothing where they are the same.
    pub fn mov(&mut self, dst: Gpr, src: Gpr) {
        if dst != src {
            self.integers(0x89, dst, src);
        }
    }

    /// dst *= src
    pub fn imul(&mut self, dst: Gpr, src: Gpr) {
        self.check_gprs(dst.0 | src.0);
        x64!(self; imul Rq(dst.0), Rq(src.0));
    }

    /// An instruction on a register and an immediate of that many bytes.
    #[inline(never)]
    fn immediate(&mut self, opcode: u8, digit: u8, dst: Gpr, imm: i32, bytes: usize) {
        self.check_gprs(dst.0);
        let (word, len) = vex::integer(opcode, digit, vex::Place::register(dst.0));
        self.ops.append(word | u64::from(imm as u32) << 24, len + bytes);
    }

    /// dst = imm, in the shortest form that does not change flags.
    pub fn mov_imm(&mut self, dst: Gpr, imm: i64) {
        self.check_gprs(dst.0);
        if let Ok(unsigned) = u32::try_from(imm) {
            // Writing 32 bits clears the upper half. dynasm takes the bits as a signed number.
            let bits = unsigned as i32;
            x64!(self; mov Rd(dst.0), DWORD bits);
        } else if let Ok(signed) = i32::try_from(imm) {
            x64!(self; mov Rq(dst.0), DWORD signed);
        } else {
            x64!(self; mov Rq(dst.0), QWORD imm);
        }
    }

    /// dst = the 64 bits at the address
    pub fn load(&mut self, dst: Gpr, src: Mem) {
        self.integer(0x8B, dst, src);
    }

    /// The 64 bits at the address = src
    pub fn store(&mut self, dst: Mem, src: Gpr) {
        self.integer(0x89, src, dst);
    }

    /// dst = the address itself
    pub fn lea(&mut self, dst: Gpr, src: Mem) {
        self.integer(0x8D, dst, src);
    }

    /// dst += the 64 bits at the address
    pub fn add_mem(&mut self, dst: Gpr, src: Mem) {
        self.integer(0x03, dst, src);
    }

    /// dst <<= bits
    pub fn shl_imm(&mut self, dst: Gpr, bits: u8) {
        self.check_shift(dst, bits);
        let bits = bits as i8;
        x64!(self; shl Rq(dst.0), BYTE bits);
    }

    /// dst >>= bits, unsigned
    pub fn shr_imm(&mut self, dst: Gpr, bits: u8) {
        self.check_shift(dst, bits);
        let bits = bits as i8;
        x64!(self; shr Rq(dst.0), BYTE bits);
    }

    /// Flags of `a & a`: Equal when zero.
    pub fn test(&mut self, a: Gpr) {
        self.integers(0x85, a, a);
    }

    fn check_shift(&mut self, dst: Gpr, bits: u8) {
        self.check_gprs(dst.0);
        if bits >= 64 {
            self.refuse("a shift of 64 bits or more");
        }
    }
}
