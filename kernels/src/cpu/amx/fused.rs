//! The epilogue that the AMX micro-kernel applies to a panel's sums as soon as they are stored: bias, residual,
//! activation, and the store of the result. The sums of one panel never leave L1; with the sums of a whole chunk of
//! rows and panels waiting, storing a tile takes four times as long, which is more than short reductions take to
//! multiply.
//!
//! A partial panel has code of its own, which multiplies no vector without columns of the result and masks its stores.

use std::cell::Cell;
use std::mem::offset_of;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::multiply::{ARGS, MultiplyArgs, T0};
use super::{PANEL, epilogue};
use crate::cpu::Stored;
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::error::Result;
use crate::jit::{Asm, Cond, Extents, Gpr, Mask, Mem, Vreg, counted_down};

/// How many of a panel's 32 columns belong to the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Columns {
    /// All 32.
    Whole,
    /// 17 to 31.
    Most,
    /// Up to 16: one vector.
    Half,
}

impl Columns {
    /// For a panel with `count` columns of the result.
    pub(crate) fn of(count: usize) -> Columns {
        match count {
            0..=LANES => Columns::Half,
            PANEL.. => Columns::Whole,
            _ => Columns::Most,
        }
    }

    /// Vectors that hold them.
    pub(super) fn vectors(self) -> usize {
        if self == Columns::Half { 1 } else { 2 }
    }
}

/// An epilogue of `bf16` products: C = activation(sums + bias + residual).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Ending {
    /// Columns of a panel that belong to the result.
    pub columns: Columns,
    /// Applied last.
    pub activation: Option<UnaryOp>,
    /// Type of the residual.
    pub residual: Stored,
    /// Type of the result.
    pub output: Stored,
}

/// Rows of the result at a constant stride.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Stretch {
    /// The first row's sums.
    pub(crate) from: *const f32,
    /// The first row of the result in the call's first panel; the code advances it from panel to panel.
    pub(crate) to: *mut u8,
    /// The first row of the residual, advanced likewise, or null.
    pub(crate) residual: *const u8,
    /// Rows, at least one.
    pub(crate) rows: usize,
}

/// The rows of a call and what their epilogues share. Strides are in bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct FusedEpilogueArgs {
    stretches: *mut Stretch,
    count: usize,
    /// From one row to the next.
    pub(crate) to_stride: usize,
    pub(crate) residual_stride: usize,
    /// Bias of the call's first panel, and the stride to the next panel's (0 if there is no bias).
    bias: *const f32,
    bias_next: usize,
    /// Columns of the result in the last vector, 1 to 16.
    rest: usize,
    /// Scratch of the code: the bias of the current panel.
    current: Cell<*const f32>,
}

impl FusedEpilogueArgs {
    /// No rows.
    pub(super) const fn nothing() -> FusedEpilogueArgs {
        FusedEpilogueArgs {
            stretches: std::ptr::null_mut(),
            count: 0,
            to_stride: 0,
            residual_stride: 0,
            bias: std::ptr::null(),
            bias_next: 0,
            rest: LANES,
            current: Cell::new(std::ptr::null()),
        }
    }

    /// Adds what the epilogue of `panels` panels touches.
    pub(super) fn extents(&self, ending: &Ending, panels: usize, extents: &mut Extents<'_>) {
        if self.count == 0 {
            return;
        }
        let columns = match ending.columns {
            Columns::Whole => PANEL,
            Columns::Most | Columns::Half => (ending.columns.vectors() - 1) * LANES + self.rest,
        };
        extents.constant("no bias", &epilogue::NO_BIAS);
        extents.read("bias", self.bias).over(panels, self.bias_next).bytes(columns * 4);
        // The code advances the pointers in the list from panel to panel.
        let list = extents.write("stretches", self.stretches).over(self.count, size_of::<Stretch>());
        list.bytes(size_of::<Stretch>());
        for stretch in extents.list("stretches", self.stretches.cast_const(), self.count) {
            let rows = counted_down(stretch.rows);
            let sums = extents.read("sums", stretch.from).over(rows, PANEL * 4);
            sums.bytes(ending.columns.vectors() * LANES * 4);
            let result = extents.write("the result", stretch.to).over(panels, PANEL * ending.output.bytes());
            result.over(rows, self.to_stride).bytes(columns * ending.output.bytes());
            if !stretch.residual.is_null() {
                let residual = extents.read("residual", stretch.residual);
                let residual = residual.over(panels, PANEL * ending.residual.bytes()).over(rows, self.residual_stride);
                residual.bytes(columns * ending.residual.bytes());
            }
        }
    }

    /// Sets the rows, and the bias from its element `column` on, for panels with `columns` columns of the result in
    /// all.
    pub(crate) fn set(&mut self, stretches: &mut [Stretch], bias: Option<&[f32]>, column: usize, columns: usize) {
        (self.stretches, self.count) = (stretches.as_mut_ptr(), stretches.len());
        self.rest = (columns.max(1) - 1) % LANES + 1;
        (self.bias, self.bias_next) = match bias {
            Some(bias) => (bias.as_ptr().wrapping_add(column), PANEL * 4),
            None => (epilogue::NO_BIAS.as_ptr(), 0),
        };
    }
}

macro_rules! arg {
    ($field:ident) => {
        Mem::at(ARGS, (offset_of!(MultiplyArgs, epilogue) + offset_of!(FusedEpilogueArgs, $field)) as i32)
    };
}

macro_rules! stretch {
    ($field:ident) => {
        Mem::at(STRETCH, offset_of!(Stretch, $field) as i32)
    };
}

// Registers that the multiplication reloads when it goes on.
const STRETCH: Gpr = Gpr::RBX;
const LEFT: Gpr = Gpr::RBP;
const ROWS: Gpr = Gpr::RCX;
const FROM: Gpr = Gpr::R11;
const TO: Gpr = Gpr::R13;
const OTHER: Gpr = Gpr::R14;
const TO_STRIDE: Gpr = Gpr::RSI;
const OTHER_STRIDE: Gpr = Gpr::RDX;
/// A row of a panel. Values come first, so that the free registers are contiguous.
const VALUES: [Vreg; 2] = [Vreg(0), Vreg(1)];
const BIAS: [Vreg; 2] = [Vreg(2), Vreg(3)];
const ADDED: Vreg = Vreg(4);
const FIRST_TEMP: u8 = 5;

impl Ending {
    /// Fails for an activation without code.
    pub(super) fn check(&self) -> Result<()> {
        activation::check(super::FAMILY, self.activation)
    }

    /// Emits, at the start of a call, the choice of the first panel's bias.
    pub(super) fn emit_begin(asm: &mut Asm) {
        asm.load(T0, arg!(bias));
        asm.store(arg!(current), T0);
    }

    /// Emits the epilogue of a panel's sums, and the move to the next panel.
    pub(super) fn emit(&self, asm: &mut Asm) {
        let (stretch, row, done) = (asm.label(), asm.label(), asm.label());
        asm.load(LEFT, arg!(count));
        asm.test(LEFT);
        asm.jump_if(Cond::Equal, done);
        asm.load(STRETCH, arg!(stretches));
        asm.load(TO_STRIDE, arg!(to_stride));
        asm.load(OTHER_STRIDE, arg!(residual_stride));
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

    /// The mask of the last vector, unless all its lanes are columns of the result.
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

    /// Emits the epilogue of a row, and the move to the next row.
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
        asm.add(OTHER, OTHER_STRIDE);
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
        asm.add(TO, TO_STRIDE);
    }
}

/// Columns of a vector.
const LANES: usize = 16;
