//! General-purpose registers, all 64 bits wide: moves, address arithmetic, comparisons.

use dynasmrt::DynasmApi;

use super::{Asm, Gpr, Mem};

/// Defines `name(dst, src)` over two registers.
macro_rules! two_registers {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl Asm {
            $($(#[$doc])*
            pub fn $name(&mut self, dst: Gpr, src: Gpr) {
                self.check_gprs(dst.0 | src.0);
                x64!(self; $op Rq(dst.0), Rq(src.0));
            })*
        }
    };
}

/// Defines `name(dst, imm)`, with the short form for an immediate of one byte.
macro_rules! register_immediate {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl Asm {
            $($(#[$doc])*
            pub fn $name(&mut self, dst: Gpr, imm: i32) {
                self.check_gprs(dst.0);
                match i8::try_from(imm) {
                    Ok(short) => x64!(self; $op Rq(dst.0), BYTE short),
                    Err(_) => x64!(self; $op Rq(dst.0), DWORD imm),
                }
            })*
        }
    };
}

two_registers! {
    /// dst += src
    add = add;
    /// dst -= src
    sub = sub;
    /// dst *= src
    imul = imul;
    /// Flags of `a - b`.
    cmp = cmp;
}

register_immediate! {
    /// dst += imm
    add_imm = add;
    /// dst -= imm
    sub_imm = sub;
    /// dst &= imm, sign-extended
    and_imm = and;
}

impl Asm {
    /// dst = src; nothing where they are the same.
    pub fn mov(&mut self, dst: Gpr, src: Gpr) {
        self.check_gprs(dst.0 | src.0);
        if dst != src {
            x64!(self; mov Rq(dst.0), Rq(src.0));
        }
    }

    /// dst = imm in the shortest form that leaves the flags alone.
    pub fn mov_imm(&mut self, dst: Gpr, imm: i64) {
        self.check_gprs(dst.0);
        if let Ok(unsigned) = u32::try_from(imm) {
            // Writing 32 bits clears the upper half. dynasm wants the bits as a signed number.
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
        self.check_gprs(dst.0);
        x64_mem!(self, src, imm 0, [mov Rq(dst.0),] []);
    }

    /// The 64 bits at the address = src
    pub fn store(&mut self, dst: Mem, src: Gpr) {
        self.check_gprs(src.0);
        x64_mem!(self, dst, imm 0, [mov] [, Rq(src.0)]);
    }

    /// dst = the address itself
    pub fn lea(&mut self, dst: Gpr, src: Mem) {
        self.check_gprs(dst.0);
        x64_mem!(self, src, imm 0, [lea Rq(dst.0),] []);
    }

    /// dst += the 64 bits at the address
    pub fn add_mem(&mut self, dst: Gpr, src: Mem) {
        self.check_gprs(dst.0);
        x64_mem!(self, src, imm 0, [add Rq(dst.0),] []);
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

    /// Flags of `a - imm`. dynasm reaches only the four-byte form of a comparison.
    pub fn cmp_imm(&mut self, a: Gpr, imm: i32) {
        self.check_gprs(a.0);
        x64!(self; cmp Rq(a.0), DWORD imm);
    }

    /// Flags of `a & a`: Equal when zero.
    pub fn test(&mut self, a: Gpr) {
        self.check_gprs(a.0);
        x64!(self; test Rq(a.0), Rq(a.0));
    }

    fn check_shift(&mut self, dst: Gpr, bits: u8) {
        self.check_gprs(dst.0);
        if bits >= 64 {
            self.refuse("a shift of 64 bits or more");
        }
    }
}
