//! What a multiplication does with a panel's sums as soon as it has put them down: bias, residual, activation, and a store of the
//! result. So few sums wait that they never leave the nearest cache; where as many wait as a whole chunk of rows and panels has, a
//! store of a tile takes four times as long, which is more than short reductions take to multiply.
//!
//! Sums of whole panels alone are ended so: of others [`finish`](super::finish) writes the result's own columns.

use std::cell::Cell;
use std::mem::offset_of;

use serde::{Deserialize, Serialize};

use super::multiply::{ARGS, MultiplyArgs, T0};
use super::{PANEL, finish};
use crate::cpu::Stored;
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::error::Result;
use crate::jit::{Asm, Cond, Gpr, Mem, Vreg};

/// What becomes of sums: C = activation(sums + bias + residual).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ending {
    /// Applied last.
    pub activation: Option<UnaryOp>,
    /// What the residual consists of.
    pub residual: Stored,
    /// What the result consists of.
    pub output: Stored,
}

/// Rows of the result that follow each other at one distance.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Stretch {
    /// The first row's sums.
    pub(crate) from: *const f32,
    /// Where its result is written, in the call's first panel; the code moves it on from panel to panel.
    pub(crate) to: *mut u8,
    /// What is added to it, likewise, or null.
    pub(crate) residual: *const u8,
    /// Rows, at least one.
    pub(crate) rows: usize,
}

/// The rows of a call, and what they have in common. Distances are in bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ends {
    stretches: *mut Stretch,
    count: usize,
    /// Distances of rows.
    pub(crate) to_step: usize,
    pub(crate) residual_step: usize,
    /// Added to every row of the call's first panel, and the distance of the next panel's.
    bias: *const f32,
    bias_next: usize,
    /// The code's own: the bias of the panel at hand.
    current: Cell<*const f32>,
}

impl Ends {
    /// No rows.
    pub(super) const fn nothing() -> Ends {
        Ends {
            stretches: std::ptr::null_mut(),
            count: 0,
            to_step: 0,
            residual_step: 0,
            bias: std::ptr::null(),
            bias_next: 0,
            current: Cell::new(std::ptr::null()),
        }
    }

    /// Ends those rows, with what is added to every row from its element `column` on, where there is such.
    pub(crate) fn set(&mut self, stretches: &mut [Stretch], bias: Option<&[f32]>, column: usize) {
        (self.stretches, self.count) = (stretches.as_mut_ptr(), stretches.len());
        (self.bias, self.bias_next) = match bias {
            Some(bias) => (bias.as_ptr().wrapping_add(column), PANEL * 4),
            None => (finish::NO_BIAS.as_ptr(), 0),
        };
    }
}

macro_rules! arg {
    ($field:ident) => {
        Mem::at(ARGS, (offset_of!(MultiplyArgs, ends) + offset_of!(Ends, $field)) as i32)
    };
}

macro_rules! stretch {
    ($field:ident) => {
        Mem::at(STRETCH, offset_of!(Stretch, $field) as i32)
    };
}

// Registers that a multiplication has read anew when it goes on.
const STRETCH: Gpr = Gpr::RBX;
const LEFT: Gpr = Gpr::RBP;
const ROWS: Gpr = Gpr::RCX;
const FROM: Gpr = Gpr::R11;
const TO: Gpr = Gpr::R13;
const OTHER: Gpr = Gpr::R14;
const TO_STEP: Gpr = Gpr::RSI;
const OTHER_STEP: Gpr = Gpr::RDX;
/// A row of a panel: values first, so that what is left is one block of temporaries.
const VALUES: [Vreg; 2] = [Vreg(0), Vreg(1)];
const BIAS: [Vreg; 2] = [Vreg(2), Vreg(3)];
const ADDED: Vreg = Vreg(4);
const FIRST_TEMP: u8 = 5;

impl Ending {
    /// Refuses an activation that there is no code for.
    pub(super) fn check(&self) -> Result<()> {
        activation::check(super::FAMILY, self.activation)
    }

    /// Has the first panel of a call begin with the first bias.
    pub(super) fn emit_begin(asm: &mut Asm) {
        asm.load(T0, arg!(bias));
        asm.store(arg!(current), T0);
    }

    /// Ends the sums of a panel, and moves on to the next.
    pub(super) fn emit(&self, asm: &mut Asm) {
        let (stretch, row, done) = (asm.label(), asm.label(), asm.label());
        asm.load(LEFT, arg!(count));
        asm.test(LEFT);
        asm.jump_if(Cond::Equal, done);
        asm.load(STRETCH, arg!(stretches));
        asm.load(TO_STEP, arg!(to_step));
        asm.load(OTHER_STEP, arg!(residual_step));
        asm.load(T0, arg!(current));
        for (&bias, at) in BIAS.iter().zip((0..).step_by(64)) {
            asm.vload(bias, Mem::at(T0, at));
        }
        asm.add_mem(T0, arg!(bias_next));
        asm.store(arg!(current), T0);
        asm.align(16);
        asm.bind(stretch);
        asm.load(FROM, stretch!(from));
        asm.load(TO, stretch!(to));
        asm.load(OTHER, stretch!(residual));
        asm.load(ROWS, stretch!(rows));
        asm.align(16);
        asm.bind(row);
        self.row(asm);
        asm.sub_imm(ROWS, 1);
        asm.test(ROWS);
        asm.jump_if(Cond::NotEqual, row);
        let panel = |stored: Stored| (PANEL * stored.bytes()) as i32;
        asm.load(T0, stretch!(to));
        asm.add_imm(T0, panel(self.output));
        asm.store(stretch!(to), T0);
        let alone = asm.label();
        asm.load(T0, stretch!(residual));
        asm.test(T0);
        asm.jump_if(Cond::Equal, alone);
        asm.add_imm(T0, panel(self.residual));
        asm.store(stretch!(residual), T0);
        asm.bind(alone);
        asm.add_imm(STRETCH, size_of::<Stretch>() as i32);
        asm.sub_imm(LEFT, 1);
        asm.test(LEFT);
        asm.jump_if(Cond::NotEqual, stretch);
        asm.bind(done);
    }

    /// Ends a row, and moves on to the next.
    fn row(&self, asm: &mut Asm) {
        let alone = asm.label();
        let temps: Vec<Vreg> = (FIRST_TEMP..asm.registers()).map(Vreg).collect();
        for ((&value, bias), at) in VALUES.iter().zip(BIAS).zip((0..).step_by(64)) {
            asm.vload(value, Mem::at(FROM, at));
            asm.vadd(value, value, bias);
        }
        asm.test(OTHER);
        asm.jump_if(Cond::Equal, alone);
        for (&value, index) in VALUES.iter().zip(0..) {
            let from = Mem::at(OTHER, index * (LANES * self.residual.bytes()) as i32);
            match self.residual {
                Stored::F32 => asm.vload(ADDED, from),
                Stored::Bf16 => asm.vload_bf16(ADDED, from),
            }
            asm.vadd(value, value, ADDED);
        }
        asm.add(OTHER, OTHER_STEP);
        asm.bind(alone);
        for &value in &VALUES {
            if let Some(op) = self.activation {
                activation::emit(asm, op, value, &temps);
            }
        }
        match self.output {
            Stored::F32 => {
                VALUES.iter().zip((0..).step_by(64)).for_each(|(&value, at)| asm.vstore(Mem::at(TO, at), value))
            }
            Stored::Bf16 => {
                asm.vround_bf16(ADDED, VALUES[1], VALUES[0]);
                asm.vstore(Mem::at(TO, 0), ADDED);
            }
        }
        asm.add_imm(FROM, (PANEL * 4) as i32);
        asm.add(TO, TO_STEP);
    }
}

/// Columns of a vector.
const LANES: usize = 16;
