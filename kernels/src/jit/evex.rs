//! An EVEX encoder for exactly the forms that [`Asm`](super::Asm) emits; dynasm has no AVX-512.
//!
//! A form is a row of data; one function turns a row and its operands into bytes. Registers are 512 bits wide, except
//! for a store of the lower half (scalar moves ignore the length). `tests/evex.rs` proves every form byte-identical to
//! iced-x86's encoder over every register, mask and relevant displacement; a form that the test lacks makes it fail.
//!
//! An instruction is laid out as
//!
//! ```text
//! 62 | R X B R' 0 m m m | W v v v v 1 p p | z 1 0 b V' a a a | opcode | ModRM | SIB? | displacement? | immediate?
//! ```
//!
//! where R X B R' v V' are stored inverted. A displacement of one byte counts in units of the memory operand's size
//! ("disp8*N"), so it reaches 8 KiB either way in steps of whole vectors.

use dynasmrt::DynasmApi;

use super::asm::{Gpr, Mem};

/// The assignment of operands to the fields of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// reg = destination, vvvv = first source, rm = second.
    Rvm,
    /// reg = destination, rm = source.
    Rm,
    /// rm = destination in memory, reg = source.
    Mr,
    /// vvvv = destination, rm = source; reg holds three more bits of the opcode.
    Vm(u8),
}

/// One instruction form: everything that does not depend on its operands.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The mnemonic, with a suffix where one mnemonic has two forms.
    pub name: &'static str,
    /// The four bytes before the opcode for operands that are all zero.
    prefix: u32,
    opcode: u8,
    /// The assignment of operands to fields.
    pub layout: Layout,
    /// Bytes that a memory operand without broadcast covers: the N of disp8*N.
    pub memory: u8,
    /// Whether a memory operand may be one `f32` for every lane.
    pub broadcast: bool,
}

/// The registers of an instruction besides its rm operand.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// Bits of the prefix that differ from the form's.
    flip: u32,
    /// The lower bits of reg, shifted to their position in ModRM.
    reg: u8,
}

impl Operands {
    /// Operands without a mask. `reg` and `vvvv` are 0 where the form has no such operand. Numbers beyond the register
    /// file are truncated; [`Asm`](super::Asm) refuses them before.
    #[must_use]
    #[inline(always)]
    pub const fn of(reg: u8, vvvv: u8) -> Operands {
        let (high, vvvv) = (reg as u32, vvvv as u32);
        let flip = (high & 8) << 12 | (high & 16) << 8 | (vvvv & 15) << 19 | (vvvv & 16) << 23;
        Operands { flip, reg: (reg & 7) << 3 }
    }

    /// Lanes outside mask register `k` keep their value.
    #[must_use]
    #[inline(always)]
    pub const fn merging(self, k: u8) -> Operands {
        Operands { flip: self.flip & !MASK | (k as u32 & 7) << 24, ..self }
    }

    /// Lanes outside mask register `k` become zero.
    #[must_use]
    #[inline(always)]
    pub const fn zeroing(self, k: u8) -> Operands {
        let merging = self.merging(k);
        Operands { flip: merging.flip | Z, ..merging }
    }
}

/// The rm operand.
#[derive(Clone, Copy, Debug)]
pub enum Rm {
    /// A vector register.
    Reg(u8),
    /// Memory of the form's size.
    Mem(Mem),
    /// One `f32` in memory for every lane.
    Broadcast(Mem),
    /// An entry of the constant table, rip-relative, for every lane. Its displacement stays zero until the relocation.
    Constant,
}

const MAP_0F: u32 = 1;
const MAP_0F38: u32 = 2;
const MAP_0F3A: u32 = 3;
const NO_PREFIX: u32 = 0;
const PREFIX_66: u32 = 1;
const PREFIX_F3: u32 = 2;
const PREFIX_F2: u32 = 3;
/// Bytes of a full vector and of one lane.
const VECTOR: u8 = 64;
const LANE: u8 = 4;

/// Bits of the prefix by their position in a little-endian word.
const R: u32 = 1 << 15;
const X: u32 = 1 << 14;
const B: u32 = 1 << 13;
const HIGH_R: u32 = 1 << 12;
const W: u32 = 1 << 23;
const V: u32 = 0b1111 << 19;
const ALWAYS: u32 = 1 << 18;
const Z: u32 = 1 << 31;
const MASK: u32 = Z | 0b111 << 24;
const LENGTH_512: u32 = 0b10 << 29;
const LENGTH_256: u32 = 0b01 << 29;
const BROADCAST: u32 = 1 << 28;
const HIGH_V: u32 = 1 << 27;

impl Form {
    const fn new(name: &'static str, map: u32, prefix: u32, opcode: u8, layout: Layout) -> Form {
        let prefix = 0x62 | map << 8 | prefix << 16 | R | X | B | HIGH_R | V | ALWAYS | LENGTH_512 | HIGH_V;
        Form { name, prefix, opcode, layout, memory: VECTOR, broadcast: true }
    }

    /// W = 1: an element is two lanes.
    const fn pairs(self) -> Form {
        Form { prefix: self.prefix | W, broadcast: false, ..self }
    }

    /// With a memory operand of `bytes`, never broadcast.
    const fn memory(self, bytes: u8) -> Form {
        Form { memory: bytes, broadcast: false, ..self }
    }

    const fn scalar(self) -> Form {
        Form { prefix: self.prefix & !LENGTH_512, ..self.memory(LANE) }
    }

    /// On the lower half of the register.
    const fn half(self) -> Form {
        Form { prefix: self.prefix & !LENGTH_512 | LENGTH_256, ..self.memory(VECTOR / 2) }
    }

    /// Opcode map, mandatory prefix and opcode.
    pub(super) const fn numbers(&self) -> (u8, u8, u8) {
        ((self.prefix >> 8) as u8 & 7, (self.prefix >> 16) as u8 & 3, self.opcode)
    }
}

/// Defines the forms as constants, and as one list for the test over all of them.
macro_rules! forms {
    ($($name:ident = $map:ident $prefix:ident $opcode:literal $layout:expr $(, $change:ident($($arg:expr)?))*;)*) => {
        $(#[allow(missing_docs, reason = "the processor's own names")]
        pub const $name: Form = Form::new(stringify!($name), $map, $prefix, $opcode, $layout)$(.$change($($arg)?))*;)*

        /// Every form.
        pub const FORMS: &[Form] = &[$($name),*];
    };
}

forms! {
    VADDPS = MAP_0F NO_PREFIX 0x58 Layout::Rvm;
    VMULPS = MAP_0F NO_PREFIX 0x59 Layout::Rvm;
    VSUBPS = MAP_0F NO_PREFIX 0x5C Layout::Rvm;
    VMINPS = MAP_0F NO_PREFIX 0x5D Layout::Rvm;
    VDIVPS = MAP_0F NO_PREFIX 0x5E Layout::Rvm;
    VMAXPS = MAP_0F NO_PREFIX 0x5F Layout::Rvm;
    VSQRTPS = MAP_0F NO_PREFIX 0x51 Layout::Rm;
    VFMADD213PS = MAP_0F38 PREFIX_66 0xA8 Layout::Rvm;
    VFMADD231PS = MAP_0F38 PREFIX_66 0xB8 Layout::Rvm;
    VFNMADD231PS = MAP_0F38 PREFIX_66 0xBC Layout::Rvm;
    VSCALEFPS = MAP_0F38 PREFIX_66 0x2C Layout::Rvm;
    VRNDSCALEPS = MAP_0F3A PREFIX_66 0x08 Layout::Rm;
    VANDPS = MAP_0F NO_PREFIX 0x54 Layout::Rvm;
    VANDNPS = MAP_0F NO_PREFIX 0x55 Layout::Rvm;
    VORPS = MAP_0F NO_PREFIX 0x56 Layout::Rvm;
    VXORPS = MAP_0F NO_PREFIX 0x57 Layout::Rvm;
    VPXORD = MAP_0F PREFIX_66 0xEF Layout::Rvm;
    VPADDD = MAP_0F PREFIX_66 0xFE Layout::Rvm;
    VPSUBD = MAP_0F PREFIX_66 0xFA Layout::Rvm;
    VPMINSD = MAP_0F38 PREFIX_66 0x39 Layout::Rvm;
    VPMAXSD = MAP_0F38 PREFIX_66 0x3D Layout::Rvm;
    VPSRLD = MAP_0F PREFIX_66 0x72 Layout::Vm(2);
    VPSRAD = MAP_0F PREFIX_66 0x72 Layout::Vm(4);
    VPSLLD = MAP_0F PREFIX_66 0x72 Layout::Vm(6);
    VCVTPS2DQ = MAP_0F PREFIX_66 0x5B Layout::Rm;
    VCVTDQ2PS = MAP_0F NO_PREFIX 0x5B Layout::Rm;
    VCMPPS = MAP_0F NO_PREFIX 0xC2 Layout::Rvm;
    VBLENDMPS = MAP_0F38 PREFIX_66 0x65 Layout::Rvm;
    VMOVUPS_LOAD = MAP_0F NO_PREFIX 0x10 Layout::Rm, memory(VECTOR);
    VMOVUPS_STORE = MAP_0F NO_PREFIX 0x11 Layout::Mr, memory(VECTOR);
    VMOVUPS_STORE_HALF = MAP_0F NO_PREFIX 0x11 Layout::Mr, half();
    VMOVNTPS = MAP_0F NO_PREFIX 0x2B Layout::Mr, memory(VECTOR);
    VMOVSS_LOAD = MAP_0F PREFIX_F3 0x10 Layout::Rm, scalar();
    VMOVSS_STORE = MAP_0F PREFIX_F3 0x11 Layout::Mr, scalar();
    VBROADCASTSS = MAP_0F38 PREFIX_66 0x18 Layout::Rm, memory(LANE);
    VPBROADCASTD = MAP_0F38 PREFIX_66 0x58 Layout::Rm, memory(LANE);
    VPMOVZXBD = MAP_0F38 PREFIX_66 0x31 Layout::Rm, memory(VECTOR / 4);
    VUNPCKLPS = MAP_0F NO_PREFIX 0x14 Layout::Rvm;
    VUNPCKHPS = MAP_0F NO_PREFIX 0x15 Layout::Rvm;
    VUNPCKLPD = MAP_0F PREFIX_66 0x14 Layout::Rvm, pairs();
    VUNPCKHPD = MAP_0F PREFIX_66 0x15 Layout::Rvm, pairs();
    VPERMILPS = MAP_0F3A PREFIX_66 0x04 Layout::Rm;
    VPMADDWD = MAP_0F PREFIX_66 0xF5 Layout::Rvm, memory(VECTOR);
    VPMADDUBSW = MAP_0F38 PREFIX_66 0x04 Layout::Rvm, memory(VECTOR);
    VPDPBUSD = MAP_0F38 PREFIX_66 0x50 Layout::Rvm;
    VPMOVSXBW = MAP_0F38 PREFIX_66 0x20 Layout::Rm, memory(VECTOR / 2);
    VPACKSSDW = MAP_0F PREFIX_66 0x6B Layout::Rvm;
    VPACKUSWB = MAP_0F PREFIX_66 0x67 Layout::Rvm, memory(VECTOR);
    VPACKSSWB = MAP_0F PREFIX_66 0x63 Layout::Rvm, memory(VECTOR);
    VPADDSW = MAP_0F PREFIX_66 0xED Layout::Rvm, memory(VECTOR);
    VPADDW = MAP_0F PREFIX_66 0xFD Layout::Rvm, memory(VECTOR);
    VPMAXUB = MAP_0F PREFIX_66 0xDE Layout::Rvm, memory(VECTOR);
    VPMAXSB = MAP_0F38 PREFIX_66 0x3C Layout::Rvm, memory(VECTOR);
    VPMOVDB = MAP_0F38 PREFIX_F3 0x31 Layout::Mr, memory(VECTOR / 4);
    VPERMW = MAP_0F38 PREFIX_66 0x8D Layout::Rvm, pairs();
    VPERMI2B = MAP_0F38 PREFIX_66 0x75 Layout::Rvm, memory(VECTOR);
    VPSHUFB = MAP_0F38 PREFIX_66 0x00 Layout::Rvm, memory(VECTOR);
    VPADDSB = MAP_0F PREFIX_66 0xEC Layout::Rvm, memory(VECTOR);
    VBROADCASTF32X4 = MAP_0F38 PREFIX_66 0x1A Layout::Rm, memory(VECTOR / 4);
    VINSERTF32X4 = MAP_0F3A PREFIX_66 0x18 Layout::Rvm, memory(VECTOR / 4);
    VEXTRACTF32X4 = MAP_0F3A PREFIX_66 0x19 Layout::Mr, memory(VECTOR / 4);
    VPERMPS = MAP_0F38 PREFIX_66 0x16 Layout::Rvm;
    VSHUFF32X4 = MAP_0F3A PREFIX_66 0x23 Layout::Rvm;
    VDPBF16PS = MAP_0F38 PREFIX_F3 0x52 Layout::Rvm;
    VCVTNE2PS2BF16 = MAP_0F38 PREFIX_F2 0x72 Layout::Rvm;
    VPMOVZXWD = MAP_0F38 PREFIX_66 0x33 Layout::Rm, memory(VECTOR / 2);
    VPMOVDW = MAP_0F38 PREFIX_F3 0x33 Layout::Mr, memory(VECTOR / 2);
    VCVTPH2PS = MAP_0F38 PREFIX_66 0x13 Layout::Rm, memory(VECTOR / 2);
}

/// An instruction as one word, and its length; the bytes after it are arbitrary.
#[inline(always)]
#[must_use]
pub fn encode(form: &Form, operands: Operands, rm: Rm) -> (u128, usize) {
    // A constant is one f32: it is broadcast where the form would otherwise read a whole vector.
    let broadcast = matches!(rm, Rm::Broadcast(_)) || (matches!(rm, Rm::Constant) && form.broadcast);
    let place = match rm {
        Rm::Reg(number) => Place::register(number),
        Rm::Mem(mem) => Place::memory(mem, form.memory),
        Rm::Broadcast(mem) => Place::memory(mem, LANE),
        Rm::Constant => Place::RELATIVE,
    };
    // The register bits are stored inverted, so they are flipped in a prefix where all are set.
    let prefix = form.prefix ^ operands.flip ^ place.flip | if broadcast { BROADCAST } else { 0 };
    let body = u64::from(form.opcode) | (place.word | u64::from(operands.reg)) << 8;
    (u128::from(prefix) | u128::from(body) << 32, 5 + place.len)
}

/// As [`encode`], with an immediate byte, for the few forms that have one.
#[must_use]
pub fn encode_immediate(form: &Form, operands: Operands, rm: Rm, imm: u8) -> (u128, usize) {
    let digit = if let Layout::Vm(digit) = form.layout { digit << 3 } else { 0 };
    let (word, len) = encode(form, Operands { reg: operands.reg | digit, ..operands }, rm);
    (word & ((1 << (8 * len)) - 1) | u128::from(imm) << (8 * len), len + 1)
}

/// ModRM and the bytes that follow it, with the bits of the prefix that are to be flipped.
#[derive(Clone, Copy)]
struct Place {
    word: u64,
    len: usize,
    flip: u32,
}

impl Place {
    /// Four bytes relative to the end of the instruction, zero for now.
    const RELATIVE: Place = Place { word: 0b101, len: 5, flip: 0 };

    #[inline(always)]
    fn register(number: u8) -> Place {
        let flip = (u32::from(number) & 16) << 10 | (u32::from(number) & 8) << 10;
        Place { word: 0xC0 | u64::from(number & 7), len: 1, flip }
    }

    /// An address in the shortest form; a short displacement counts in `unit`s, which are powers of two. Without
    /// branches on the kind of address: kinds alternate, so such branches would be mispredicted.
    #[inline(always)]
    fn memory(mem: Mem, unit: u8) -> Place {
        // 100 in ModRM says that a SIB byte follows, and in the SIB byte means "no index"; 101 as a base without
        // displacement means rip or no base, so rbp and r13 always have a displacement.
        const SIB: u8 = 0b100;
        const NEEDS_DISP: u8 = 0b101;
        let base = mem.base.0;
        let (index, scale) = mem.index.unwrap_or((Gpr(SIB), 1));
        // The logarithm of 1, 2, 4 or 8, without an instruction that counts zeros.
        let scale = ((scale >> 1) - (scale >> 3)) & 3;
        let units = mem.disp >> unit.trailing_zeros();
        let some = (mem.disp != 0) | (base & 7 == NEEDS_DISP);
        let far = (mem.disp & (i32::from(unit) - 1) != 0) | (i32::from(units as i8) != units);
        let mode = (u64::from(some) + u64::from(far)) << 6;
        let disp = u64::from(if far { mem.disp } else { units } as u32);
        let sib = u64::from(scale << 6 | (index.0 & 7) << 3 | (base & 7));
        let has_sib = mem.index.is_some() | (base & 7 == SIB);
        let rest = if has_sib { u64::from(SIB) | sib << 8 | disp << 16 } else { u64::from(base & 7) | disp << 8 };
        Place {
            word: mode | rest,
            len: 1 + usize::from(has_sib) + usize::from(some) + 3 * usize::from(far),
            flip: (u32::from(index.0) & 8) << 11 | (u32::from(base) & 8) << 10,
        }
    }
}

/// `kortestw k, k`: sets the zero flag where no bit of the mask is set. VEX-encoded, as [`kmovw`].
pub fn kortestw(out: &mut impl DynasmApi, k: u8) {
    out.push_u16(u16::from_le_bytes([0xC5, 0xF8]));
    push_pair(out, 0x98, 0b11 << 6 | (k & 7) << 3 | (k & 7));
}

/// `kmovw k, r32`. It is VEX-encoded, like all instructions on masks, but dynasm has no mask registers.
pub fn kmovw(out: &mut impl DynasmApi, k: u8, src: u8) {
    // After the register bits: W 0, an unused vvvv (all ones), 128 bits and no prefix.
    if src < 8 {
        out.push_u16(u16::from_le_bytes([0xC5, 0xF8]));
    } else {
        out.push(0xC4);
        out.push_u16(u16::from_le_bytes([0b110 << 5 | MAP_0F as u8, 0x78]));
    }
    push_pair(out, 0x92, 0b11 << 6 | (k & 7) << 3 | (src & 7));
}

/// Two bytes at once.
#[inline]
fn push_pair(out: &mut impl DynasmApi, first: u8, second: u8) {
    out.push_u16(u16::from_le_bytes([first, second]));
}
