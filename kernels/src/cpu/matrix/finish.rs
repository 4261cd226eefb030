//! The kernel that ends what was multiplied: factor, bias, residual, activation, and a store of the result's own columns.

use std::mem::offset_of;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::cpu::{CodeKey, CodeSource};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Asm, Code, Cond, Gpr, Mem, Vreg};

/// What shapes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FinishCode {
    /// Level: AVX-512.
    pub isa: Isa,
    /// Applied last.
    pub activation: Option<UnaryOp>,
}

/// The name of the code.
pub(crate) const FAMILY: &str = "finish";

/// The arguments of one call: C = activation(scale * sums + bias + residual). Distances are in bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct FinishArgs {
    /// Sums, rows of 32.
    pub(crate) from: *const f32,
    /// The first element of the result.
    pub(crate) to: *mut f32,
    /// Distance of the result's rows.
    pub(crate) to_step: usize,
    /// Rows, at least one.
    pub(crate) rows: usize,
    /// Columns that are the result's own in each half, at most 16; the first has at least one.
    pub(crate) lanes: [usize; 2],
    /// Added to every row, as many as the result's own columns; or null.
    pub(crate) bias: *const f32,
    /// Not 0 where a tensor is added before the activation.
    pub(crate) residual: usize,
    /// Distance from an element of the result to that tensor's.
    pub(crate) residual_offset: isize,
    /// The factor.
    pub(crate) scale: f32,
}

impl FinishArgs {
    /// Arguments that change nothing, for the first `columns` of 32 columns.
    pub(crate) fn of_columns(columns: usize) -> FinishArgs {
        FinishArgs {
            from: std::ptr::null(),
            to: std::ptr::null_mut(),
            to_step: 0,
            rows: 0,
            lanes: [columns.min(16), columns.saturating_sub(16).min(16)],
            bias: std::ptr::null(),
            residual: 0,
            residual_offset: 0,
            scale: 1.0,
        }
    }
}

/// The kernel.
#[derive(Clone, Debug)]
pub(crate) struct Finish(Arc<Code>);

impl Finish {
    pub(crate) fn new(isa: Isa, activation: Option<UnaryOp>, source: &dyn CodeSource) -> Result<Finish> {
        Ok(Finish(source.code(&CodeKey::Finish(FinishCode { isa, activation }))?))
    }

    /// Ends rows.
    ///
    /// # Safety
    ///
    /// `from` is readable for all rows, the result's own columns are writable and nobody else's, bias and residual are
    /// readable over them.
    pub(crate) unsafe fn call(&self, args: &FinishArgs) {
        // SAFETY: the caller vouches for the pointers; the struct is the one that the emitter reads.
        unsafe { self.0.call(args) }
    }
}

macro_rules! arg {
    ($field:ident) => {
        Mem::at(ARGS, offset_of!(FinishArgs, $field) as i32)
    };
}

const ARGS: Gpr = Gpr::RDI;
const FROM: Gpr = Gpr::RSI;
const TO: Gpr = Gpr::RDX;
const TO_STEP: Gpr = Gpr::R8;
const ROWS: Gpr = Gpr::R9;
const OFFSET: Gpr = Gpr::R10;
const T0: Gpr = Gpr::RAX;
const T1: Gpr = Gpr::RCX;
/// Bytes of a row of sums.
const LINE_BYTES: i32 = 128;
/// Values first, so that what is left is one block of temporaries.
const VALUES: [Vreg; 2] = [Vreg(0), Vreg(1)];
const BIAS: [Vreg; 2] = [Vreg(2), Vreg(3)];
const SCALE: Vreg = Vreg(4);
const FIRST_TEMP: u8 = 5;

impl FinishCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        activation::check(FAMILY, self.activation)?;
        let (unbiased, row, alone) = (asm.label(), asm.label(), asm.label());
        asm.prologue();
        asm.load(FROM, arg!(from));
        asm.load(TO, arg!(to));
        asm.load(TO_STEP, arg!(to_step));
        asm.load(ROWS, arg!(rows));
        asm.vbroadcast(SCALE, arg!(scale));
        let masks = [0, 1].map(|half: usize| {
            let mask = asm.mask(half as u8, Vreg(asm.registers() - 1));
            asm.load(T0, arg!(lanes).plus(half as i32 * 8));
            asm.mask_first(mask, T0, T1);
            mask
        });
        for bias in BIAS {
            asm.vzero(bias);
        }
        asm.load(T0, arg!(bias));
        asm.test(T0);
        asm.jump_if(Cond::Equal, unbiased);
        for half in 0..2 {
            asm.vload_masked(BIAS[half], masks[half], Mem::at(T0, half as i32 * 64));
        }
        asm.bind(unbiased);
        asm.load(OFFSET, arg!(residual_offset));
        let temps: Vec<Vreg> = (FIRST_TEMP..asm.registers()).map(Vreg).collect();
        asm.align(16);
        asm.bind(row);
        for half in 0..2 {
            asm.vload(VALUES[half], Mem::at(FROM, half as i32 * 64));
            asm.vfma213(VALUES[half], SCALE, BIAS[half]);
        }
        asm.load(T0, arg!(residual));
        asm.test(T0);
        asm.jump_if(Cond::Equal, alone);
        for half in 0..2 {
            let other = temps[half];
            asm.vload_masked(other, masks[half], Mem::indexed(TO, OFFSET, 1, half as i32 * 64));
            asm.vadd(VALUES[half], VALUES[half], other);
        }
        asm.bind(alone);
        for half in 0..2 {
            if let Some(op) = self.activation {
                activation::emit(asm, op, VALUES[half], &temps);
            }
            asm.vstore_masked(Mem::at(TO, half as i32 * 64), masks[half], VALUES[half]);
        }
        asm.add_imm(FROM, LINE_BYTES);
        asm.add(TO, TO_STEP);
        asm.sub_imm(ROWS, 1);
        asm.test(ROWS);
        asm.jump_if(Cond::NotEqual, row);
        asm.epilogue();
        Ok(())
    }
}
