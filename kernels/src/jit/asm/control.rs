//! Prologue and epilogue of a kernel, labels and jumps, alignment, and stack slots for spilled vectors.
//!
//! Integer arithmetic is in `integer.rs`, conditions and loops in `structure.rs`.

use dynasmrt::{DynasmApi, DynasmLabelApi};

use super::encode::RSP;
use super::{Asm, Cond, Gpr, Label, Mem};

/// The recommended NOP of each length, 1 to 9 bytes: one instruction decodes faster than several bytes `90`.
const NOPS: [&[u8]; 9] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0F, 0x1F, 0x00],
    &[0x0F, 0x1F, 0x40, 0x00],
    &[0x0F, 0x1F, 0x44, 0x00, 0x00],
    &[0x66, 0x0F, 0x1F, 0x44, 0x00, 0x00],
    &[0x0F, 0x1F, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0F, 0x1F, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x66, 0x0F, 0x1F, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];

impl Asm {
    /// Saves the callee-saved registers: rbx, rbp, r12-r15.
    pub fn prologue(&mut self) {
        x64!(self; push rbx; push rbp; push r12; push r13; push r14; push r15);
    }

    /// Restores the registers that [`Asm::prologue`] saved and returns. The upper halves are cleared, because SSE code
    /// in the caller would otherwise pay for merging into them.
    pub fn epilogue(&mut self) {
        if self.slots != 0 {
            self.refuse("an epilogue while spill slots are reserved");
        }
        x64!(self; pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx; vzeroupper; ret);
    }

    /// A new jump target, to be bound by [`Asm::bind`].
    pub fn label(&mut self) -> Label {
        Label(self.ops.label())
    }

    /// Binds a label to this position. Binding a label twice is an error of [`Asm::finish`].
    pub fn bind(&mut self, label: Label) {
        self.ops.dynamic_label(label.0);
    }

    /// Pads with multi-byte NOPs to a multiple of `bytes` (a power of two up to 64).
    pub fn align(&mut self, bytes: usize) {
        if !bytes.is_power_of_two() || bytes > 64 {
            self.refuse("an alignment that is no power of two up to 64");
            return;
        }
        let mut missing = self.len().next_multiple_of(bytes) - self.len();
        while missing > 0 {
            let length = missing.min(NOPS.len());
            self.ops.extend(NOPS[length - 1]);
            missing -= length;
        }
    }

    /// Jumps to the label.
    pub fn jump(&mut self, label: Label) {
        self.ops.append(0xE9, 5);
        self.ops.refer(label.0, 0);
    }

    /// Jumps to the label if the condition holds.
    pub fn jump_if(&mut self, cond: Cond, label: Label) {
        let condition = match cond {
            Cond::Equal => 0x4,
            Cond::NotEqual => 0x5,
            Cond::Less => 0xC,
            Cond::LessEqual => 0xE,
            Cond::Greater => 0xF,
            Cond::GreaterEqual => 0xD,
        };
        self.ops.append(0x800F | condition << 8, 6);
        self.ops.refer(label.0, 0);
    }

    /// `prefetcht0`: into all cache levels.
    pub fn prefetch(&mut self, mem: Mem) {
        x64_mem!(self, mem, imm 0, [prefetcht0 BYTE] []);
    }

    /// `prefetcht1`: into L2 and beyond.
    pub fn prefetch_l2(&mut self, mem: Mem) {
        x64_mem!(self, mem, imm 0, [prefetcht1 BYTE] []);
    }

    /// Reserves `slots` vector-sized, vector-aligned slots on the stack until [`Asm::unspill`]; rbp holds the old rsp
    /// meanwhile, so emitters must not use it.
    pub fn spill(&mut self, slots: u8) {
        if self.slots != 0 || slots == 0 {
            self.refuse("spill slots of none, or while others are reserved");
        }
        self.slots = slots;
        let (bytes, align) = (i32::from(slots) * self.vector_bytes(), -self.vector_bytes());
        x64!(self; mov rbp, rsp; sub rsp, DWORD bytes; and rsp, DWORD align);
    }

    /// The address of a spill slot; the address of a slot that is not reserved cannot be encoded.
    #[must_use]
    pub fn slot(&self, index: u8) -> Mem {
        let base = if index < self.slots { Gpr(RSP) } else { Gpr(u8::MAX) };
        Mem::at(base, i32::from(index) * self.vector_bytes())
    }

    /// Releases the slots of [`Asm::spill`].
    pub fn unspill(&mut self) {
        if self.slots == 0 {
            self.refuse("releasing spill slots that were not reserved");
        }
        self.slots = 0;
        x64!(self; mov rsp, rbp);
    }
}
