//! Assembles the depthwise kernel: one blob with a variant for every number of positions of a block.

use std::mem::offset_of;

use super::{DepthwiseCode, MOST_POSITIONS, RowArgs};
use crate::cpu::Stored;
use crate::cpu::activation::{self, Place};
use crate::cpu::epilogue::{Column, Operand, Stage, StoredVector};
use crate::jit::{Asm, Cond, Gpr, Label, Mask, Mem, Vreg};

/// The argument struct.
const ARGS: Gpr = Gpr::RDI;
/// The next tap, and one past the last.
const TAP: Gpr = Gpr::RAX;
const TAPS_END: Gpr = Gpr::RCX;
/// The input that the tap points at.
const X: Gpr = Gpr::RDX;
const WEIGHTS: Gpr = Gpr::RBX;
/// Byte of the channels.
const CHANNEL: Gpr = Gpr::RSI;
/// Once, three, five and seven times the stride of positions: with scales 1, 2 and 4 they reach all eight.
const STEP1: Gpr = Gpr::R8;
const STEP3: Gpr = Gpr::R9;
const STEP5: Gpr = Gpr::R10;
const STEP7: Gpr = Gpr::R11;
/// The output, and the stride of its positions.
const Y: Gpr = Gpr::R12;
const Y_STEP: Gpr = Gpr::R13;
/// How far the block is from where taps point, with channels.
const OFFSET: Gpr = Gpr::R14;
const WHOLE: Gpr = Gpr::R15;
const OTHER: Gpr = Gpr::RBP;

macro_rules! arg {
    ($field:ident) => {
        Mem::at(ARGS, offset_of!(RowArgs, $field) as i32)
    };
}

/// Assembles the kernel of that key.
pub(super) fn row(asm: &mut Asm, key: &DepthwiseCode) {
    let variants: Vec<(usize, Label)> = (1..=MOST_POSITIONS).rev().map(|count| (count, asm.label())).collect();
    let done = asm.label();
    asm.prologue();
    asm.load(STEP1, arg!(x_stride));
    asm.lea(STEP3, Mem::indexed(STEP1, STEP1, 2, 0));
    asm.lea(STEP5, Mem::indexed(STEP1, STEP1, 4, 0));
    asm.lea(STEP7, Mem::indexed(STEP3, STEP1, 4, 0));
    asm.load(Y_STEP, arg!(y_stride));
    asm.load(TAP, arg!(positions));
    for &(count, label) in &variants {
        asm.cmp_imm(TAP, count as i32);
        asm.jump_if(Cond::Equal, label);
    }
    asm.jump(done);
    for &(positions, label) in &variants {
        asm.align(16);
        asm.bind(label);
        Variant { asm, key, positions }.emit();
        asm.jump(done);
    }
    asm.bind(done);
    asm.epilogue();
}

struct Variant<'a> {
    asm: &'a mut Asm,
    key: &'a DepthwiseCode,
    positions: usize,
}

impl Variant<'_> {
    fn emit(&mut self) {
        let (block, channels, rest, next) = (self.asm.label(), self.asm.label(), self.asm.label(), self.asm.label());
        let bytes = self.asm.lanes() as i32 * self.key.stored.bytes() as i32;
        self.asm.bind(block);
        self.asm.mov_imm(CHANNEL, 0);
        self.asm.load(WHOLE, arg!(whole));
        self.asm.cmp(CHANNEL, WHOLE);
        self.asm.jump_if(Cond::GreaterEqual, rest);
        self.asm.bind(channels);
        self.vector(None);
        self.asm.add_imm(CHANNEL, bytes);
        self.asm.cmp(CHANNEL, WHOLE);
        self.asm.jump_if(Cond::Less, channels);
        self.asm.bind(rest);
        self.asm.load(TAP, arg!(rest));
        self.asm.test(TAP);
        self.asm.jump_if(Cond::Equal, next);
        let mask = self.asm.mask(0, Vreg(self.asm.registers() - 1));
        self.asm.mask_first(mask, TAP, TAPS_END);
        self.vector(Some(mask));
        self.asm.bind(next);
        self.asm.load(TAP, arg!(x_offset));
        self.asm.add_mem(TAP, arg!(x_block));
        self.asm.store(arg!(x_offset), TAP);
        self.asm.load(TAP, arg!(y));
        self.asm.add_mem(TAP, arg!(y_block));
        self.asm.store(arg!(y), TAP);
        self.asm.load(TAP, arg!(blocks));
        self.asm.sub_imm(TAP, 1);
        self.asm.store(arg!(blocks), TAP);
        self.asm.cmp_imm(TAP, 0);
        self.asm.jump_if(Cond::Greater, block);
    }

    /// One vector of channels of all positions of the block.
    fn vector(&mut self, mask: Option<Mask>) {
        self.start(mask);
        self.taps(mask);
        self.epilogue(mask);
    }

    fn start(&mut self, mask: Option<Mask>) {
        let (zero, ready) = (self.asm.label(), self.asm.label());
        self.asm.load(X, arg!(bias));
        self.asm.test(X);
        self.asm.jump_if(Cond::Equal, zero);
        self.asm.vload_lanes(Vreg(0), mask, Mem::indexed(X, CHANNEL, self.of_f32(), 0));
        for position in 1..self.positions {
            self.asm.vmov(Vreg(position as u8), Vreg(0));
        }
        self.asm.jump(ready);
        self.asm.bind(zero);
        for position in 0..self.positions {
            self.asm.vzero(Vreg(position as u8));
        }
        self.asm.bind(ready);
    }

    fn taps(&mut self, mask: Option<Mask>) {
        let (next, done) = (self.asm.label(), self.asm.label());
        let (weight, element) = (Vreg(MOST_POSITIONS as u8), Vreg(MOST_POSITIONS as u8 + 1));
        self.asm.load(TAP, arg!(taps));
        self.asm.load(TAPS_END, arg!(taps_end));
        self.asm.load(OFFSET, arg!(x_offset));
        self.asm.add(OFFSET, CHANNEL);
        self.asm.cmp(TAP, TAPS_END);
        self.asm.jump_if(Cond::Equal, done);
        self.asm.bind(next);
        self.asm.load(X, Mem::at(TAP, 0));
        self.asm.load(WEIGHTS, Mem::at(TAP, 8));
        self.asm.add(X, OFFSET);
        self.asm.vload_lanes(weight, mask, Mem::indexed(WEIGHTS, CHANNEL, self.of_f32(), 0));
        for position in 0..self.positions {
            let at = match position {
                0 => Mem::at(X, 0),
                1 | 2 | 4 => Mem::indexed(X, STEP1, position as u8, 0),
                3 | 6 => Mem::indexed(X, STEP3, position as u8 / 3, 0),
                5 => Mem::indexed(X, STEP5, 1, 0),
                _ => Mem::indexed(X, STEP7, 1, 0),
            };
            let sum = Vreg(position as u8);
            if mask.is_none() && self.key.stored == Stored::F32 {
                self.asm.vfma231(sum, weight, at);
            } else {
                self.key.stored.load(self.asm, element, mask, at);
                self.asm.vfma231(sum, weight, element);
            }
        }
        self.asm.add_imm(TAP, size_of::<super::RowTap>() as i32);
        self.asm.cmp(TAP, TAPS_END);
        self.asm.jump_if(Cond::NotEqual, next);
        self.asm.bind(done);
    }

    /// Residual, activation and store.
    fn epilogue(&mut self, mask: Option<Mask>) {
        let done = self.asm.label();
        // The last register is the mask on AVX2.
        let last = self.asm.registers() - 1;
        let temps: Vec<Vreg> = (self.positions as u8..last).map(Vreg).collect();
        let (other, stored) = (Vreg(MOST_POSITIONS as u8), self.key.stored);
        self.asm.load(OTHER, arg!(residual));
        self.asm.test(OTHER);
        self.asm.jump_if(Cond::Equal, done);
        self.asm.load(OTHER, arg!(residual_offset));
        self.each(|asm, at, value| {
            let residual = StoredVector { stored, from: Mem::indexed(at.base, OTHER, 1, at.disp), to: other };
            Stage::Add(Operand::Loaded(residual)).emit(asm, value, Column::first(mask));
        });
        self.asm.bind(done);
        let place = self.key.activation.map(|op| (op, activation::place(op, temps.len())));
        if let Some((op, Place::Registers)) = place {
            Stage::Activate(op, &temps).emit_all(self.asm, (0..self.positions as u8).map(Vreg));
        }
        self.each(|asm, at, value| stored.store(asm, at, mask, value, other));
        if let Some((op, Place::Memory)) = place {
            self.again(op, mask);
        }
    }

    /// Applies the activation to what was just stored, position by position.
    fn again(&mut self, op: crate::cpu::chain::UnaryOp, mask: Option<Mask>) {
        let position = self.asm.label();
        let temps: Vec<Vreg> = (1..self.asm.registers() - 1).map(Vreg).collect();
        self.asm.load(Y, arg!(y));
        self.asm.add(Y, CHANNEL);
        self.asm.mov_imm(TAP, self.positions as i64);
        self.asm.bind(position);
        self.key.stored.load(self.asm, Vreg(0), mask, Mem::at(Y, 0));
        Stage::Activate(op, &temps).emit_all(self.asm, [Vreg(0)]);
        self.key.stored.store(self.asm, Mem::at(Y, 0), mask, Vreg(0), Vreg(1));
        self.asm.add(Y, Y_STEP);
        self.asm.sub_imm(TAP, 1);
        self.asm.cmp_imm(TAP, 0);
        self.asm.jump_if(Cond::Greater, position);
    }

    /// The stride of channels in weights and bias, in strides of the input's channels.
    fn of_f32(&self) -> u8 {
        (Stored::F32.bytes() / self.key.stored.bytes()) as u8
    }

    /// Applies `step` to every sum and where it is stored.
    fn each(&mut self, mut step: impl FnMut(&mut Asm, Mem, Vreg)) {
        self.asm.load(Y, arg!(y));
        self.asm.add(Y, CHANNEL);
        for position in 0..self.positions {
            step(self.asm, Mem::at(Y, 0), Vreg(position as u8));
            if position + 1 < self.positions {
                self.asm.add(Y, Y_STEP);
            }
        }
    }
}
