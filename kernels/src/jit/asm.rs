//! The assembler of every emitter: one set of vector operations, encoded as VEX (AVX2) or EVEX (AVX-512).
//!
//! An emitter is written once. It uses [`Asm::lanes`] and [`Asm::registers`] and does not depend on the encoding.
//! dynasm encodes general-purpose and VEX instructions; [`evex`] encodes the rest into the same [`buffer`], and [`vex`]
//! encodes the most frequent VEX instructions faster than dynasm.
//!
//! # ABI of every kernel
//!
//! System V, one argument: `extern "sysv64" fn(args: *const u8)`, where `args` points at a `#[repr(C)]` struct of the
//! family. [`Asm::prologue`] saves rbx, rbp, r12-r15 and leaves `args` in rdi; [`Asm::epilogue`] restores them,
//! clears upper halves (`vzeroupper`) and returns. Vector registers are all caller-saved. rsp is never an operand,
//! except through [`Asm::spill`].
//!
//! # Constants
//!
//! A [`Src::Const`] is read rip-relative from a table behind the code, on a 64-byte line of its own so that no line
//! is fetched both as code and as data. AVX-512 broadcasts the four bytes of an entry while reading them. AVX2 cannot,
//! so an entry there holds eight copies and is a plain memory operand. Equal constants share one entry, and equal
//! calls give equal bytes: nothing here depends on addresses, time or hashing.
//!
//! # Mistakes
//!
//! An emitter that names a register its level lacks, or an address that cannot be encoded, gets an error from
//! [`Asm::finish`], not a panic and not wrong code: the first such mistake is stored, and the bytes emitted after it
//! are discarded.

#![allow(clippy::useless_conversion, reason = "dynasm converts every register number, whatever its type")]

#[macro_use]
mod encode;
mod arithmetic;
mod bf16;
mod buffer;
mod control;
mod integer;
mod lanes;
mod masks;
mod moves;
mod named;
mod operand;
mod short;
mod structure;
mod tiles;

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};

pub use operand::{Cond, Gpr, Label, Mask, Mem, Predicate, Rounding, Src, Tile, Vreg};
pub use short::JoinedRow;

use buffer::Buffer;
use named::Named;

use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{evex, vex};

/// Bytes of a typical kernel (about 2 KiB) with room to spare, so that the buffer need not grow.
const CODE_CAPACITY: usize = 4096;
/// Labels and references of a typical kernel: loops, tails and constants.
const LABEL_CAPACITY: usize = 64;
/// A constant table starts on a cache line of its own.
const LINE: usize = 64;

/// One entry of the constant table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Constant {
    /// The same 32 bits for every lane.
    Splat(u32),
    /// The number of each lane, for [`Asm::mask_first`] on AVX2.
    LaneNumbers,
    /// A value for each lane of AVX2, twice over in a vector of AVX-512.
    Table(&'static [u32; 8]),
}

/// An assembler for one kernel.
pub struct Asm {
    isa: Isa,
    /// Vector registers of the level: a power of two.
    registers: u8,
    /// Whether the encoding is EVEX.
    wide: bool,
    ops: Buffer,
    constants: Vec<(Constant, DynamicLabel)>,
    /// The first reason why the kernel cannot be encoded.
    refused: Option<&'static str>,
    named: Named,
    /// Slots of the current [`Asm::spill`].
    slots: u8,
}

impl std::fmt::Debug for Asm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asm").field("isa", &self.isa).field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Asm {
    /// An empty kernel of that level; an error for [`Isa::Portable`].
    pub fn new(isa: Isa) -> Result<Asm> {
        if !isa.is_jit() {
            return Err(KernelError::IsaMissing(isa));
        }
        let ops = Buffer::new(CODE_CAPACITY, LABEL_CAPACITY);
        let constants = Vec::with_capacity(LABEL_CAPACITY);
        let (registers, wide) = (isa.registers(), isa == Isa::Avx512);
        Ok(Asm { isa, registers, wide, ops, constants, refused: None, named: Named::default(), slots: 0 })
    }

    /// The finished bytes: code, then the constant table on its own 64-byte line.
    pub fn finish(mut self, family: &'static str) -> Result<Vec<u8>> {
        self.place_constants();
        if let Some(reason) = self.refused.or_else(|| self.named.refusal(self.registers)) {
            return Err(KernelError::Assembly { family, reason: reason.to_owned() });
        }
        self.ops.finish().map_err(|reason| KernelError::Assembly { family, reason })
    }

    /// The level that this kernel is emitted for.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// `f32` lanes of a vector register.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.isa.lanes()
    }

    /// Bytes of a vector register.
    #[must_use]
    pub fn vector_bytes(&self) -> i32 {
        self.isa.lanes() as i32 * 4
    }

    /// Vector registers that may be named.
    #[must_use]
    pub fn registers(&self) -> u8 {
        self.registers
    }

    /// Bytes emitted so far, without the constant table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether nothing has been emitted yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the encoding is EVEX.
    fn wide(&self) -> bool {
        self.wide
    }

    /// Stores why this kernel cannot be encoded; [`Asm::finish`] returns it.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, reason: &'static str) {
        self.refused.get_or_insert(reason);
    }

    /// Notes vector registers that are in use; numbers may be or-ed.
    #[inline(always)]
    fn check_vectors(&mut self, numbers: u8) {
        self.named.vectors |= numbers;
    }

    /// Notes general-purpose registers that are in use; numbers may be or-ed.
    #[inline(always)]
    fn check_gprs(&mut self, numbers: u8) {
        self.named.gprs |= numbers;
    }

    /// Notes the parts of an address that every encoding relies on.
    #[inline(always)]
    fn check_address(&mut self, mem: Mem) {
        self.named.address(mem);
    }

    /// The label of a table entry, which is added at its first use. Kernels have a few dozen constants, for which a
    /// scan is faster than any map.
    fn constant(&mut self, constant: Constant) -> DynamicLabel {
        if let Some((_, label)) = self.constants.iter().find(|(have, _)| *have == constant) {
            return *label;
        }
        let label = self.ops.label();
        self.constants.push((constant, label));
        label
    }

    /// Appends the constant table, and binds the labels of its entries.
    fn place_constants(&mut self) {
        if self.constants.is_empty() {
            return;
        }
        self.align(LINE);
        let lanes = self.lanes();
        for (constant, label) in std::mem::take(&mut self.constants) {
            self.ops.dynamic_label(label);
            // AVX-512 broadcasts a value that all lanes share.
            let copies = if self.wide() && matches!(constant, Constant::Splat(_)) { 1 } else { lanes };
            for lane in 0..copies {
                self.ops.push_u32(match constant {
                    Constant::Splat(bits) => bits,
                    Constant::LaneNumbers => lane as u32,
                    Constant::Table(values) => values[lane % values.len()],
                });
            }
        }
    }

    /// Appends an EVEX instruction whose last operand is `src`.
    #[inline(always)]
    fn evex(&mut self, form: &evex::Form, operands: evex::Operands, src: Src) {
        match src {
            Src::Reg(reg) => self.evex_register(form, operands, reg),
            Src::Mem(mem) => self.evex_memory(form, operands, mem),
            Src::Const(bits) => self.evex_relative(form, operands, Constant::Splat(bits)),
        }
    }

    /// With a register. This function and its neighbours are not inlined: encoding code is cold when a kernel is
    /// emitted, and fetching many copies of it takes longer than running one copy.
    #[inline(never)]
    fn evex_register(&mut self, form: &evex::Form, operands: evex::Operands, reg: Vreg) {
        self.check_vectors(reg.0);
        let (word, len) = evex::encode(form, operands, evex::Rm::Reg(reg.0));
        self.ops.append(word as u64, len);
    }

    /// The same with memory.
    #[inline(never)]
    fn evex_memory(&mut self, form: &evex::Form, operands: evex::Operands, mem: Mem) {
        self.check_address(mem);
        let (word, len) = evex::encode(form, operands, evex::Rm::Mem(mem));
        self.ops.append_long(word, len);
    }

    /// The same with an entry of the constant table.
    #[inline(never)]
    fn evex_relative(&mut self, form: &evex::Form, operands: evex::Operands, constant: Constant) {
        let (word, len) = evex::encode(form, operands, evex::Rm::Constant);
        self.ops.append_long(word, len);
        let label = self.constant(constant);
        self.ops.refer(label, 0);
    }

    /// Appends an EVEX instruction whose last operands are `src` and an immediate byte.
    #[inline(never)]
    fn evex_immediate(&mut self, form: &evex::Form, operands: evex::Operands, src: Src, imm: u8) {
        let rm = match src {
            Src::Reg(reg) => {
                self.check_vectors(reg.0);
                evex::Rm::Reg(reg.0)
            }
            Src::Mem(mem) => {
                self.check_address(mem);
                evex::Rm::Mem(mem)
            }
            Src::Const(_) => evex::Rm::Constant,
        };
        let (word, len) = evex::encode_immediate(form, operands, rm, imm);
        self.ops.append_long(word, len);
        if let Src::Const(bits) = src {
            let label = self.constant(Constant::Splat(bits));
            // The processor counts a rip-relative displacement from the end of the instruction, behind the immediate.
            self.ops.refer(label, 1);
        }
    }

    /// Appends a VEX instruction whose last operand is `src`; not inlined, as with EVEX.
    #[inline(never)]
    fn vex(&mut self, form: vex::Form, reg: u8, vvvv: u8, src: Src) {
        match src {
            Src::Reg(rm) => {
                self.check_vectors(reg | vvvv | rm.0);
                let (word, len) = vex::vector(form, reg, vvvv, vex::Place::register(rm.0));
                self.ops.append_long(word, len);
            }
            Src::Mem(mem) => {
                self.check_vectors(reg | vvvv);
                self.check_address(mem);
                let (word, len) = vex::vector(form, reg, vvvv, vex::Place::memory(mem));
                self.ops.append_long(word, len);
            }
            Src::Const(bits) => self.vex_relative(form, reg, vvvv, Constant::Splat(bits)),
        }
    }

    /// As the function before, with an entry of the constant table.
    #[inline(never)]
    fn vex_relative(&mut self, form: vex::Form, reg: u8, vvvv: u8, constant: Constant) {
        self.check_vectors(reg | vvvv);
        let (word, len) = vex::vector(form, reg, vvvv, vex::Place::RELATIVE);
        self.ops.append_long(word, len);
        let label = self.constant(constant);
        self.ops.refer(label, 0);
    }

    /// Appends an instruction on a 64-bit register and memory.
    #[inline(never)]
    fn integer(&mut self, opcode: u8, reg: Gpr, mem: Mem) {
        self.check_gprs(reg.0);
        self.check_address(mem);
        let (word, len) = vex::integer(opcode, reg.0, vex::Place::memory(mem));
        self.ops.append(word, len);
    }

    /// Appends an instruction on two 64-bit registers; it writes `rm`.
    #[inline(never)]
    fn integers(&mut self, opcode: u8, rm: Gpr, reg: Gpr) {
        self.check_gprs(rm.0 | reg.0);
        let (word, len) = vex::integer(opcode, reg.0, vex::Place::register(rm.0));
        self.ops.append(word, len);
    }
}
