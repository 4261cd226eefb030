//! The epilogue that the AMX micro-kernel applies to a panel's sums as soon as they are stored: bias, residual,
//! activation, and the store of the result. The sums of one panel never leave L1; with the sums of a whole chunk of
//! rows and panels waiting, storing a tile takes four times as long, which is more than short reductions take to
//! multiply.
//!
//! A partial panel has code of its own, which multiplies no vector without columns of the result and masks its stores.

use std::cell::Cell;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::PANEL;
use super::epilogue::{LANES, NO_BIAS, PostOps};
use super::registers::T0;
use crate::cpu::Stored;
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::cpu::epilogue::{Column, Operand, Stage};
use crate::error::Result;
use crate::jit::{Asm, Extents, Gpr, Mask, Mem, Vreg, arg, counted_down};

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
pub struct FusedEpilogue {
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

/// The rows of a call and what their epilogues share: a field of the micro-kernel's argument struct, whose byte offset
/// emitters are told. Strides are in bytes.
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
    pub(super) fn extents(&self, code: &FusedEpilogue, panels: usize, extents: &mut Extents<'_>) {
        if self.count == 0 {
            return;
        }
        let columns = match code.columns {
            Columns::Whole => PANEL,
            Columns::Most | Columns::Half => (code.columns.vectors() - 1) * LANES + self.rest,
        };
        extents.constant("no bias", &NO_BIAS);
        extents.read("bias", self.bias).over(panels, self.bias_next).bytes(columns * 4);
        // The code advances the pointers in the list from panel to panel.
        let list = extents.write("stretches", self.stretches).over(self.count, size_of::<Stretch>());
        list.bytes(size_of::<Stretch>());
        for stretch in extents.list("stretches", self.stretches.cast_const(), self.count) {
            let rows = counted_down(stretch.rows);
            let sums = extents.read("sums", stretch.from).over(rows, PANEL * 4);
            sums.bytes(code.columns.vectors() * LANES * 4);
            let result = extents.write("the result", stretch.to).over(panels, PANEL * code.output.bytes());
            result.over(rows, self.to_stride).bytes(columns * code.output.bytes());
            if !stretch.residual.is_null() {
                let residual = extents.read("residual", stretch.residual);
                let residual = residual.over(panels, PANEL * code.residual.bytes()).over(rows, self.residual_stride);
                residual.bytes(columns * code.residual.bytes());
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
            None => (NO_BIAS.as_ptr(), 0),
        };
    }
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

impl FusedEpilogue {
    /// Fails for an activation without code; `family` is whose code it would be part of.
    pub(super) fn check(&self, family: &'static str) -> Result<()> {
        activation::check(family, self.activation)
    }

    fn post_ops(&self) -> PostOps {
        PostOps { activation: self.activation, residual: self.residual, output: self.output }
    }

    /// Emits, at the start of a call, the choice of the first panel's bias. The arguments are `at` bytes into the
    /// struct, as in [`FusedEpilogue::emit`].
    pub(super) fn emit_begin(asm: &mut Asm, at: usize) {
        asm.load(T0, arg!(FusedEpilogueArgs.bias).plus(at as i32));
        asm.store(arg!(FusedEpilogueArgs.current).plus(at as i32), T0);
    }

    /// Emits the epilogue of a panel's sums, and the move to the next panel.
    pub(super) fn emit(&self, asm: &mut Asm, at: usize) {
        let at = at as i32;
        asm.load(LEFT, arg!(FusedEpilogueArgs.count).plus(at));
        asm.unless_zero(LEFT, |asm| {
            asm.load(STRETCH, arg!(FusedEpilogueArgs.stretches).plus(at));
            asm.load(TO_STRIDE, arg!(FusedEpilogueArgs.to_stride).plus(at));
            asm.load(OTHER_STRIDE, arg!(FusedEpilogueArgs.residual_stride).plus(at));
            asm.load(T0, arg!(FusedEpilogueArgs.current).plus(at));
            let mask = self.mask(asm, arg!(FusedEpilogueArgs.rest).plus(at));
            for (vector, &bias) in BIAS.iter().enumerate().take(self.columns.vectors()) {
                asm.vload_lanes(bias, self.masked(mask, vector), Mem::at(T0, vector as i32 * 64));
            }
            asm.add_mem(T0, arg!(FusedEpilogueArgs.bias_next).plus(at));
            asm.store(arg!(FusedEpilogueArgs.current).plus(at), T0);
            asm.align(16);
            asm.repeat(LEFT, |asm| self.stretch(asm, mask));
        });
    }

    /// The mask of the last vector, unless all its lanes are columns of the result; `rest` says how many are.
    fn mask(&self, asm: &mut Asm, rest: Mem) -> Option<Mask> {
        (self.columns != Columns::Whole).then(|| {
            let mask = asm.mask(0, Vreg(asm.registers() - 1));
            asm.load(FROM, rest);
            asm.mask_first(mask, FROM, TO);
            mask
        })
    }

    /// The mask of a vector: only the last may be partial.
    fn masked(&self, mask: Option<Mask>, vector: usize) -> Option<Mask> {
        mask.filter(|_| vector + 1 == self.columns.vectors())
    }

    /// Emits the epilogue of a stretch, the move of its pointers to the next panel, and the move to the next stretch.
    fn stretch(&self, asm: &mut Asm, mask: Option<Mask>) {
        asm.load(FROM, arg!(STRETCH, Stretch.from));
        asm.load(TO, arg!(STRETCH, Stretch.to));
        asm.load(OTHER, arg!(STRETCH, Stretch.residual));
        asm.load(ROWS, arg!(STRETCH, Stretch.rows));
        asm.align(16);
        asm.repeat(ROWS, |asm| self.row(asm, mask));
        let panel = |stored: Stored| (PANEL * stored.bytes()) as i32;
        asm.load(T0, arg!(STRETCH, Stretch.to));
        asm.add_imm(T0, panel(self.output));
        asm.store(arg!(STRETCH, Stretch.to), T0);
        asm.load(T0, arg!(STRETCH, Stretch.residual));
        asm.unless_zero(T0, |asm| {
            asm.add_imm(T0, panel(self.residual));
            asm.store(arg!(STRETCH, Stretch.residual), T0);
        });
        asm.add_imm(STRETCH, size_of::<Stretch>() as i32);
    }

    /// Emits the epilogue of a row, and the move to the next row.
    fn row(&self, asm: &mut Asm, mask: Option<Mask>) {
        let (values, post_ops) = (&VALUES[..self.columns.vectors()], self.post_ops());
        let masked = |vector: usize| self.masked(mask, vector);
        for (vector, &value) in values.iter().enumerate() {
            asm.vload(value, Mem::at(FROM, vector as i32 * 64));
            Stage::Add(Operand::Registers(BIAS[0])).emit(asm, value, Column { vector, mask: None });
        }
        asm.unless_zero(OTHER, |asm| {
            post_ops.add_residual(asm, values, masked, OTHER, ADDED);
            asm.add(OTHER, OTHER_STRIDE);
        });
        post_ops.store(asm, values, masked, TO, ADDED, FIRST_TEMP);
        asm.add_imm(FROM, (PANEL * 4) as i32);
        asm.add(TO, TO_STRIDE);
    }
}
