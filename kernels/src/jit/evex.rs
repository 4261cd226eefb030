//! An EVEX encoder for exactly the forms that [`Asm`](super::Asm) emits, since dynasm knows no AVX-512.
//!
//! A form is a row of data; one function turns a row and its operands into bytes. Registers are always 512 bits wide
//! (scalar moves ignore the length). `tests/evex.rs` proves every form byte-identical to iced-x86's encoder over every
//! register, mask and interesting displacement; a form that is missing there fails that test.
//!
//! An instruction is laid out as
//!
//! ```text
//! 62 | R X B R' 0 m m m | W v v v v 1 p p | z 1 0 b V' a a a | opcode | ModRM | SIB? | displacement? | immediate?
//! ```
//!
//! where R X B R' v V' are stored inverted. A displacement of one byte counts in units of the memory operand's size
//! ("disp8*N"), so it reaches 8 KiB either way in steps of whole vectors.

use super::asm::Mem;

/// How the operands of a form are spread over the instruction's fields.
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
    /// Opcode map: 1 is `0F`, 2 is `0F 38`, 3 is `0F 3A`.
    map: u8,
    /// Mandatory prefix: 0 none, 1 `66`, 2 `F3`.
    prefix: u8,
    /// W, the operand size bit.
    wide: bool,
    opcode: u8,
    /// Where the operands go.
    pub layout: Layout,
    /// Bytes that a memory operand without broadcast covers: the N of disp8*N.
    pub memory: u8,
    /// Whether a memory operand may be one `f32` for every lane.
    pub broadcast: bool,
    /// 0b10 for 512 bits, 0 for scalars.
    length: u8,
}

/// The registers of an instruction besides its rm operand, and its immediate.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    reg: u8,
    vvvv: u8,
    mask: u8,
    zeroing: bool,
    /// The immediate byte.
    pub imm: Option<u8>,
}

impl Operands {
    /// No mask, no immediate. `vvvv` is 0 where the form has no such operand.
    #[must_use]
    pub const fn of(reg: u8, vvvv: u8) -> Operands {
        Operands { reg, vvvv, mask: 0, zeroing: false, imm: None }
    }

    /// Lanes outside mask register `k` keep their value.
    #[must_use]
    pub const fn merging(self, k: u8) -> Operands {
        Operands { mask: k, zeroing: false, ..self }
    }

    /// Lanes outside mask register `k` become zero.
    #[must_use]
    pub const fn zeroing(self, k: u8) -> Operands {
        Operands { mask: k, zeroing: true, ..self }
    }

    /// With an immediate byte.
    #[must_use]
    pub const fn imm(self, imm: u8) -> Operands {
        Operands { imm: Some(imm), ..self }
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
    /// An entry of the constant table, rip-relative, for every lane. Its displacement is left zero for a relocation.
    Constant,
}

/// The bytes of one instruction.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    bytes: [u8; 16],
    len: u8,
}

impl Encoded {
    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len & 15)]
    }

    fn push(&mut self, byte: u8) {
        self.bytes[usize::from(self.len & 15)] = byte;
        self.len += 1;
    }

    fn push_disp32(&mut self, disp: i32) {
        for byte in disp.to_le_bytes() {
            self.push(byte);
        }
    }
}

const MAP_0F: u8 = 1;
const MAP_0F38: u8 = 2;
const MAP_0F3A: u8 = 3;
const NO_PREFIX: u8 = 0;
const PREFIX_66: u8 = 1;
const PREFIX_F3: u8 = 2;
const LENGTH_512: u8 = 0b10;
/// Bytes of a full vector and of one lane.
const VECTOR: u8 = 64;
const LANE: u8 = 4;

impl Form {
    const fn new(name: &'static str, map: u8, prefix: u8, opcode: u8, layout: Layout) -> Form {
        Form { name, map, prefix, wide: false, opcode, layout, memory: VECTOR, broadcast: true, length: LENGTH_512 }
    }

    /// W = 1: two lanes are one element.
    const fn pairs(self) -> Form {
        Form { wide: true, broadcast: false, ..self }
    }

    /// A memory operand of its own size, never broadcast.
    const fn memory(self, bytes: u8) -> Form {
        Form { memory: bytes, broadcast: false, ..self }
    }

    const fn scalar(self) -> Form {
        Form { length: 0, ..self.memory(LANE) }
    }
}

/// Defines the forms as constants and as one list for the test that walks them.
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
    VPSRLD = MAP_0F PREFIX_66 0x72 Layout::Vm(2);
    VPSRAD = MAP_0F PREFIX_66 0x72 Layout::Vm(4);
    VPSLLD = MAP_0F PREFIX_66 0x72 Layout::Vm(6);
    VCVTPS2DQ = MAP_0F PREFIX_66 0x5B Layout::Rm;
    VCVTDQ2PS = MAP_0F NO_PREFIX 0x5B Layout::Rm;
    VCMPPS = MAP_0F NO_PREFIX 0xC2 Layout::Rvm;
    VBLENDMPS = MAP_0F38 PREFIX_66 0x65 Layout::Rvm;
    VMOVUPS_LOAD = MAP_0F NO_PREFIX 0x10 Layout::Rm, memory(VECTOR);
    VMOVUPS_STORE = MAP_0F NO_PREFIX 0x11 Layout::Mr, memory(VECTOR);
    VMOVNTPS = MAP_0F NO_PREFIX 0x2B Layout::Mr, memory(VECTOR);
    VMOVSS_LOAD = MAP_0F PREFIX_F3 0x10 Layout::Rm, scalar();
    VMOVSS_STORE = MAP_0F PREFIX_F3 0x11 Layout::Mr, scalar();
    VBROADCASTSS = MAP_0F38 PREFIX_66 0x18 Layout::Rm, memory(LANE);
    VPMOVZXBD = MAP_0F38 PREFIX_66 0x31 Layout::Rm, memory(VECTOR / 4);
    VUNPCKLPS = MAP_0F NO_PREFIX 0x14 Layout::Rvm;
    VUNPCKHPS = MAP_0F NO_PREFIX 0x15 Layout::Rvm;
    VUNPCKLPD = MAP_0F PREFIX_66 0x14 Layout::Rvm, pairs();
    VUNPCKHPD = MAP_0F PREFIX_66 0x15 Layout::Rvm, pairs();
    VPERMILPS = MAP_0F3A PREFIX_66 0x04 Layout::Rm;
    VSHUFF32X4 = MAP_0F3A PREFIX_66 0x23 Layout::Rvm;
}

/// Encodes one instruction. Numbers beyond the register file are cut to it; [`Asm`](super::Asm) refuses them before.
#[must_use]
pub fn encode(form: &Form, operands: &Operands, rm: Rm) -> Encoded {
    let (reg, vvvv) = match form.layout {
        Layout::Vm(digit) => (digit, operands.vvvv),
        _ => (operands.reg, operands.vvvv),
    };
    let (x, b) = match rm {
        Rm::Reg(number) => (number >> 4, number >> 3),
        Rm::Mem(mem) | Rm::Broadcast(mem) => (mem.index.map_or(0, |(index, _)| index.0 >> 3), mem.base.0 >> 3),
        Rm::Constant => (0, 0),
    };
    // A constant is one f32: broadcast where the form would otherwise read a whole vector.
    let broadcast = matches!(rm, Rm::Broadcast(_)) || (matches!(rm, Rm::Constant) && form.broadcast);
    let inverted = |bits: u8, at: u8| (!bits & 1) << at;
    let registers = inverted(reg >> 3, 7) | inverted(x, 6) | inverted(b, 5) | inverted(reg >> 4, 4) | form.map;
    let source = u8::from(form.wide) << 7 | (!vvvv & 15) << 3 | 1 << 2 | form.prefix;
    let control = u8::from(operands.zeroing) << 7
        | form.length << 5
        | u8::from(broadcast) << 4
        | inverted(vvvv >> 4, 3)
        | (operands.mask & 7);
    let mut out = Encoded { bytes: [0; 16], len: 5 };
    out.bytes[..5].copy_from_slice(&[0x62, registers, source, control, form.opcode]);

    let unit = if broadcast { LANE } else { form.memory };
    match rm {
        Rm::Reg(number) => out.push(0b11 << 6 | (reg & 7) << 3 | (number & 7)),
        Rm::Mem(mem) | Rm::Broadcast(mem) => push_address(&mut out, reg, mem, i32::from(unit)),
        Rm::Constant => {
            out.push((reg & 7) << 3 | 0b101);
            out.push_disp32(0);
        }
    }
    if let Some(imm) = operands.imm {
        out.push(imm);
    }
    out
}

/// `kmovw k, r32`: the one mask instruction in use. It is VEX-encoded, but dynasm knows no mask registers.
#[must_use]
pub fn kmovw(k: u8, src: u8) -> Encoded {
    // Behind the register bits stand W 0, an unused vvvv (all ones), 128 bits and no prefix.
    let mut out = Encoded { bytes: [0; 16], len: 0 };
    if src < 8 {
        out.push(0xC5);
        out.push(0xF8);
    } else {
        out.push(0xC4);
        out.push(0b110 << 5 | MAP_0F);
        out.push(0x78);
    }
    out.push(0x92);
    out.push(0b11 << 6 | (k & 7) << 3 | (src & 7));
    out
}

/// ModRM, SIB and displacement of an address, in the shortest form; a short displacement counts in `unit`s.
fn push_address(out: &mut Encoded, reg: u8, mem: Mem, unit: i32) {
    // 100 in ModRM announces a SIB byte, and in the SIB byte says "no index"; 101 as a base without displacement means
    // rip or nothing, so rbp and r13 always carry one.
    const SIB: u8 = 0b100;
    const NEEDS_DISP: u8 = 0b101;
    let base = mem.base.0 & 7;
    let short = i8::try_from(mem.disp / unit).ok().filter(|_| mem.disp % unit == 0);
    let mode = match short {
        Some(0) if base != NEEDS_DISP => 0b00,
        Some(_) => 0b01,
        None => 0b10,
    };
    if mem.index.is_some() || base == SIB {
        let (index, scale) = mem.index.map_or((SIB, 1), |(index, scale)| (index.0 & 7, scale));
        out.push(mode << 6 | (reg & 7) << 3 | SIB);
        out.push((scale.trailing_zeros() as u8 & 3) << 6 | index << 3 | base);
    } else {
        out.push(mode << 6 | (reg & 7) << 3 | base);
    }
    match (mode, short) {
        (0b01, Some(units)) => out.push(units as u8),
        (0b10, _) => out.push_disp32(mem.disp),
        _ => {}
    }
}
