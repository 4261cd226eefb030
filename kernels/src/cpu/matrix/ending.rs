//! What a multiplication does with a panel's sums as soon as it has put them down: bias, residual, activation, and a store of the
//! result. So few sums wait that they never leave the nearest cache; where as many wait as a whole chunk of rows and panels has, a
//! store of a tile takes four times as long, which is more than short reductions take to multiply.
//!
//! A panel that is not whole has code of its own, which writes the result's own columns and multiplies no others.

use std::cell::Cell;
use std::mem::offset_of;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::multiply::{ARGS, MultiplyArgs, T0};
use super::{PANEL, finish};
use crate::cpu::Stored;
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::error::Result;
use crate::jit::{Asm, Cond, Extents, Gpr, Mask, Mem, Vreg, counted_down};

/// How many columns of a panel are the result's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Columns {
    /// All 32.
    Whole,
    /// More than 16.
    Most,
    /// Up to 16, half a panel.
    Half,
}

impl Columns {
    /// Of a panel with that many of them.
    pub(crate) fn of(count: usize) -> Columns {
        match count {
            0..=LANES => Columns::Half,
            PANEL.. => Columns::Whole,
            _ => Columns::Most,
        }
    }

    /// Vectors that have some of them.
    pub(super) fn vectors(self) -> usize {
        if self == Columns::Half { 1 } else { 2 }
    }
}

/// What becomes of sums: C = activation(sums + bias + residual).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Ending {
    /// The result's own columns.
    pub columns: Columns,
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
    /// The result's own columns of the last vector, 1 to 16 of them.
    rest: usize,
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
            rest: LANES,
            current: Cell::new(std::ptr::null()),
        }
    }

    /// What ending the sums of so many panels touches.
    pub(super) fn extents(&self, ending: &Ending, panels: usize, extents: &mut Extents<'_>) {
        if self.count == 0 {
            return;
        }
        let columns = match ending.columns {
            Columns::Whole => PANEL,
            Columns::Most | Columns::Half => (ending.columns.vectors() - 1) * LANES + self.rest,
        };
        extents.constant("no bias", &finish::NO_BIAS);
        extents.read("bias", self.bias).over(panels, self.bias_next).bytes(columns * 4);
        // The code moves what they say on from panel to panel.
        let list = extents.write("stretches", self.stretches).over(self.count, size_of::<Stretch>());
        list.bytes(size_of::<Stretch>());
        for stretch in extents.list("stretches", self.stretches.cast_const(), self.count) {
            let rows = counted_down(stretch.rows);
            let sums = extents.read("sums", stretch.from).over(rows, PANEL * 4);
            sums.bytes(ending.columns.vectors() * LANES * 4);
            let result = extents.write("the result", stretch.to).over(panels, PANEL * ending.output.bytes());
            result.over(rows, self.to_step).bytes(columns * ending.output.bytes());
            if !stretch.residual.is_null() {
                let residual = extents.read("residual", stretch.residual);
                let residual = residual.over(panels, PANEL * ending.residual.bytes()).over(rows, self.residual_step);
                residual.bytes(columns * ending.residual.bytes());
            }
        }
    }

    /// Ends those rows of panels of so many columns, with what is added to every row from its element `column` on, where there is
    /// such.
    pub(crate) fn set(&mut self, stretches: &mut [Stretch], bias: Option<&[f32]>, (column, columns): (usize, usize)) {
        (self.stretches, self.count) = (stretches.as_mut_ptr(), stretches.len());
        self.rest = (columns.max(1) - 1) % LANES + 1;
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
        let bias_at = |vector: usize| Mem::at(T0, vector as i32 * 64);
        let mask = self.mask(asm);
        for (vector, &bias) in BIAS.iter().enumerate().take(self.columns.vectors()) {
            match mask.filter(|_| self.is_last(vector)) {
                Some(mask) => asm.vload_masked(bias, mask, bias_at(vector)),
                None => asm.vload(bias, bias_at(vector)),
            }
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
        self.row(asm, mask);
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

    /// The lanes of the last vector, where they are not all the result's own.
    fn mask(&self, asm: &mut Asm) -> Option<Mask> {
        (self.columns != Columns::Whole).then(|| {
            let mask = asm.mask(0, Vreg(asm.registers() - 1));
            asm.load(FROM, arg!(rest));
            asm.mask_first(mask, FROM, TO);
            mask
        })
    }

    fn is_last(&self, vector: usize) -> bool {
        vector + 1 == self.columns.vectors()
    }

    /// Ends a row, and moves on to the next.
    fn row(&self, asm: &mut Asm, mask: Option<Mask>) {
        let alone = asm.label();
        let temps: Vec<Vreg> = (FIRST_TEMP..asm.registers() - 1).map(Vreg).collect();
        let vectors = 0..self.columns.vectors();
        let masked = |vector: usize| mask.filter(|_| self.is_last(vector));
        for vector in vectors.clone() {
            asm.vload(VALUES[vector], Mem::at(FROM, vector as i32 * 64));
            asm.vadd(VALUES[vector], VALUES[vector], BIAS[vector]);
        }
        asm.test(OTHER);
        asm.jump_if(Cond::Equal, alone);
        for vector in vectors.clone() {
            let from = Mem::at(OTHER, (vector * LANES * self.residual.bytes()) as i32);
            match (self.residual, masked(vector)) {
                (Stored::F32, None) => asm.vload(ADDED, from),
                (Stored::F32, Some(mask)) => asm.vload_masked(ADDED, mask, from),
                (Stored::Bf16, None) => asm.vload_bf16(ADDED, from),
                (Stored::Bf16, Some(mask)) => asm.vload_bf16_masked(ADDED, mask, from),
            }
            asm.vadd(VALUES[vector], VALUES[vector], ADDED);
        }
        asm.add(OTHER, OTHER_STEP);
        asm.bind(alone);
        for vector in vectors.clone() {
            if let Some(op) = self.activation {
                activation::emit(asm, op, VALUES[vector], &temps);
            }
        }
        if (self.output, mask) == (Stored::Bf16, None) {
            asm.vround_bf16(ADDED, VALUES[1], VALUES[0]);
            asm.vstore(Mem::at(TO, 0), ADDED);
        } else {
            for vector in vectors {
                let (to, value) = (Mem::at(TO, (vector * LANES * self.output.bytes()) as i32), VALUES[vector]);
                match (self.output, masked(vector)) {
                    (Stored::F32, None) => asm.vstore(to, value),
                    (Stored::F32, Some(mask)) => asm.vstore_masked(to, mask, value),
                    (Stored::Bf16, None) => asm.vstore_bf16(to, value, ADDED),
                    (Stored::Bf16, Some(mask)) => asm.vstore_bf16_masked(to, mask, value, ADDED),
                }
            }
        }
        asm.add_imm(FROM, (PANEL * 4) as i32);
        asm.add(TO, TO_STEP);
    }
}

/// Columns of a vector.
const LANES: usize = 16;
