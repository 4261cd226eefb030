//! VEX and plain 64-bit encodings of the most frequent instructions, each composed as one word.
//!
//! dynasm encodes every instruction of AVX2 byte by byte, in some 10 ns. A kernel of two thousand instructions has a
//! dozen kinds, which are rows of data here, with the shortest form of each address. Tests compare every register with
//! dynasm and every address with iced-x86.
//!
//! ```text
//! C4 | R X B m m m m m | W v v v v L p p | opcode | ModRM | SIB? | displacement?
//! 48 + R X B | opcode | ModRM | SIB? | displacement?
//! ```
//!
//! where a VEX prefix stores R X B and v inverted.

use super::asm::Mem;
use super::evex;

/// An instruction on 256-bit registers: everything that does not depend on its operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form(u32);

impl Form {
    /// The four bytes before ModRM: opcode map (1 is 0F, 2 is 0F38), prefix (0 is none, 1 is 66), opcode.
    pub(super) const fn new(map: u8, prefix: u8, opcode: u8) -> Form {
        Form(u32::from_le_bytes([0xC4, 0xE0 | map, 0x7C | prefix, opcode]))
    }

    /// The VEX instruction of an AVX-512 form, where both have the same map, prefix and opcode.
    pub(super) const fn twin(form: &evex::Form) -> Form {
        let (map, prefix, opcode) = form.numbers();
        Form::new(map, prefix, opcode)
    }

    /// The same on 128 bits.
    pub(super) const fn half(self) -> Form {
        Form(self.0 & !(0x04 << 16))
    }
}

/// ModRM and the bytes that follow it, with the bits of the registers' numbers that the prefix holds.
#[derive(Clone, Copy)]
pub(super) struct Place {
    word: u64,
    len: usize,
    /// X and B, as the lowest two bits.
    high: u32,
}

impl Place {
    /// A register.
    #[inline(always)]
    pub(super) fn register(number: u8) -> Place {
        Place { word: 0xC0 | u64::from(number & 7), len: 1, high: u32::from(number >> 3 & 1) }
    }

    /// An address whose parts have been checked.
    #[inline(always)]
    pub(super) fn memory(mem: Mem) -> Place {
        const SIB: u8 = 0b100;
        // Without a displacement, this base would mean rip or no base.
        const NEEDS_DISP: u8 = 0b101;
        // No branches on the kind of address: kinds alternate, so such branches would be mispredicted.
        let base = mem.base.0;
        let some = (mem.disp != 0) | (base & 7 == NEEDS_DISP);
        let far = i32::from(mem.disp as i8) != mem.disp;
        let mode = (u64::from(some) + u64::from(far)) << 6;
        let disp_len = usize::from(some) + 3 * usize::from(far);
        let has_sib = mem.index.is_some() | (base & 7 == SIB);
        let (index, scale) = mem.index.map_or((SIB, 1), |(index, scale)| (index.0, scale));
        let sib = (scale.trailing_zeros() as u8 & 3) << 6 | (index & 7) << 3 | (base & 7);
        let rm = if has_sib { u64::from(SIB) | u64::from(sib) << 8 } else { u64::from(base & 7) };
        let len = 1 + usize::from(has_sib);
        Place {
            word: mode | rm | u64::from(mem.disp as u32) << (8 * len),
            len: len + disp_len,
            high: u32::from(index >> 3 & 1) << 1 | u32::from(base >> 3 & 1),
        }
    }

    /// Four bytes relative to the end of the instruction, zero for now.
    pub(super) const RELATIVE: Place = Place { word: 0b101, len: 5, high: 0 };

    /// The bytes with the number of the other operand. Bytes after the end are arbitrary.
    #[inline(always)]
    fn with(self, reg: u8) -> u64 {
        self.word | u64::from(reg & 7) << 3
    }
}

/// A vector instruction and its length.
#[inline(always)]
pub(super) fn vector(form: Form, reg: u8, vvvv: u8, place: Place) -> (u128, usize) {
    let high = u32::from(reg >> 3 & 1) << 2 | place.high;
    let prefix = form.0 ^ high << 13 ^ u32::from(vvvv & 15) << 19;
    (u128::from(prefix) | u128::from(place.with(reg)) << 32, 4 + place.len)
}

/// An instruction on 64-bit registers and its length.
#[inline(always)]
pub(super) fn integer(opcode: u8, reg: u8, place: Place) -> (u64, usize) {
    let rex = 0x48 | u64::from(reg >> 3 & 1) << 2 | u64::from(place.high);
    (rex | u64::from(opcode) << 8 | place.with(reg) << 16, 2 + place.len)
}

#[cfg(test)]
mod tests {
    use dynasmrt::{DynasmApi, SimpleAssembler};
    use iced_x86::{Decoder, DecoderOptions, Register};

    use super::super::asm::Gpr;
    use super::*;

    fn vector_bytes(form: Form, reg: u8, vvvv: u8, place: Place) -> Vec<u8> {
        let (word, len) = vector(form, reg, vvvv, place);
        word.to_le_bytes()[..len].to_vec()
    }

    fn integer_bytes(opcode: u8, reg: u8, place: Place) -> Vec<u8> {
        let (word, len) = integer(opcode, reg, place);
        word.to_le_bytes()[..len].to_vec()
    }

    /// dynasm's encoding.
    macro_rules! theirs {
        ($($code:tt)*) => {{
            let mut ops = SimpleAssembler::new();
            dynasmrt::dynasm!(ops ; .arch x64 ; $($code)*);
            ops.finalize()
        }};
    }

    #[test]
    #[allow(clippy::useless_conversion, reason = "dynasm converts every register number, whatever its type")]
    fn registers_are_encoded_as_dynasm_does() {
        for (a, b, c) in (0..16).flat_map(|a| (0..16).flat_map(move |b| (0..16).map(move |c| (a, b, c)))) {
            let (fma, add) = (Form::twin(&evex::VFMADD231PS), Form::twin(&evex::VPADDD));
            let place = Place::register(c);
            assert_eq!(vector_bytes(fma, a, b, place), theirs!(vfmadd231ps Ry(a), Ry(b), Ry(c)));
            assert_eq!(vector_bytes(add, a, b, place), theirs!(vpaddd Ry(a), Ry(b), Ry(c)));
            assert_eq!(vector_bytes(Form::new(1, 0, 0x28), a, 0, place), theirs!(vmovaps Ry(a), Ry(c)));
            assert_eq!(vector_bytes(Form::new(1, 1, 0x6E).half(), a, 0, place), theirs!(vmovd Rx(a), Rd(c)));
            assert_eq!(integer_bytes(0x01, a, place), theirs!(add Rq(c), Rq(a)));
            assert_eq!(integer_bytes(0x85, a, place), theirs!(test Rq(c), Rq(a)));
        }
    }

    /// The memory operand of an instruction, as base, index, scale and displacement; and the instruction's length.
    fn address(bytes: &[u8]) -> (Register, Register, u32, i32, usize) {
        let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let disp = instruction.memory_displacement64() as i32;
        (base, index, instruction.memory_index_scale(), disp, instruction.len())
    }

    fn register(number: u8) -> Register {
        Register::RAX + u32::from(number)
    }

    #[test]
    fn addresses_are_what_a_decoder_reads() {
        let (load, masked) = (Form::twin(&evex::VMOVUPS_LOAD), Form::new(2, 1, 0x2E));
        for disp in [0, 8, -128, 127, 128, -70_000] {
            for (base, index, scale) in (0..16).flat_map(|a| (0..16).flat_map(move |b| [1, 8].map(|s| (a, b, s)))) {
                let (mem, expected) = match index {
                    // rsp cannot be an index: here it stands for no index.
                    4 => (Mem::at(Gpr(base), disp), (register(base), Register::None, 1)),
                    _ => (
                        Mem::indexed(Gpr(base), Gpr(index), scale, disp),
                        (register(base), register(index), u32::from(scale)),
                    ),
                };
                let place = Place::memory(mem);
                for bytes in [vector_bytes(load, 9, 0, place), vector_bytes(masked, 3, 12, place)] {
                    let (base, index, scale, found, len) = address(&bytes);
                    assert_eq!(((base, index, scale), found, len), (expected, disp, bytes.len()), "{bytes:x?}");
                }
                for reg in [2, 13] {
                    let bytes = integer_bytes(0x8B, reg, place);
                    let (base, index, scale, found, len) = address(&bytes);
                    assert_eq!(((base, index, scale), found, len), (expected, disp, bytes.len()), "{bytes:x?}");
                }
            }
        }
    }
}
