//! The epilogue kernel for raw `f32` sums of AMX: scale, bias, residual, activation, and a masked store of the result.
//! Residual and result may each be `f32` or `bf16`.

use std::mem::offset_of;
use std::sync::Arc;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::PANEL;
use crate::cpu::Stored;
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::cpu::{CodeKey, CodeSource};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Code, Cond, Extents, Given, Gpr, Mask, Mem, Vreg, counted_down};

/// What shapes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct EpilogueCode {
    /// Level: AVX-512.
    pub isa: Isa,
    /// Applied last.
    pub activation: Option<UnaryOp>,
    /// Type of the residual.
    pub residual: Stored,
    /// Type of the result.
    pub output: Stored,
}

/// The name of the code.
pub(crate) const FAMILY: &str = "finish";

/// The arguments of one call: C = activation(scale * sums + bias + residual). Strides are in bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct EpilogueArgs {
    /// The first sum.
    pub(crate) from: *const f32,
    /// From one row of sums to the next.
    pub(crate) from_stride: usize,
    /// The first element of the result.
    pub(crate) to: *mut u8,
    /// From one row of the result to the next.
    pub(crate) to_stride: usize,
    /// Rows, at least one.
    pub(crate) rows: usize,
    /// Whole vectors of the result's columns, and columns after them.
    vectors: usize,
    rest: usize,
    /// Added to every row; as many elements as the result has columns.
    bias: *const f32,
    /// The first element of a tensor that is added before the activation, or null.
    pub(crate) residual: *const u8,
    /// From one row of that tensor to the next.
    pub(crate) residual_stride: usize,
    /// Multiplied with every sum.
    pub(crate) scale: f32,
}

impl EpilogueArgs {
    /// Arguments for `columns` columns without scale, bias or residual; rows of sums are 32 elements apart.
    pub(crate) fn of_columns(columns: usize) -> EpilogueArgs {
        debug_assert!(columns <= MOST_COLUMNS, "{columns} columns");
        EpilogueArgs {
            from: std::ptr::null(),
            from_stride: PANEL * 4,
            to: std::ptr::null_mut(),
            to_stride: 0,
            rows: 0,
            vectors: columns / LANES,
            rest: columns % LANES,
            bias: NO_BIAS.as_ptr(),
            residual: std::ptr::null(),
            residual_stride: 0,
            scale: 1.0,
        }
    }

    /// With the bias, if any, from its element `column` on.
    pub(crate) fn biased(self, bias: Option<&[f32]>, column: usize) -> EpilogueArgs {
        EpilogueArgs { bias: bias.map_or(self.bias, |bias| bias.as_ptr().wrapping_add(column)), ..self }
    }
}

impl Arguments for EpilogueArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = EpilogueCode;

    fn extents(&self, code: &EpilogueCode, extents: &mut Extents<'_>) {
        let rows = counted_down(self.rows);
        let columns = self.vectors * LANES + self.rest;
        extents.read("sums", self.from).over(rows, self.from_stride).bytes(columns * 4);
        extents.constant("no bias", &NO_BIAS);
        extents.read("bias", self.bias).bytes(columns * 4);
        if !self.residual.is_null() {
            let residual = extents.read("residual", self.residual).over(rows, self.residual_stride);
            residual.bytes(columns * code.residual.bytes());
        }
        extents.write("the result", self.to).over(rows, self.to_stride).bytes(columns * code.output.bytes());
    }
}

/// Most columns of a call.
const MOST_COLUMNS: usize = 512;

pub(super) static NO_BIAS: [f32; MOST_COLUMNS] = [0.0; MOST_COLUMNS];

/// Columns of a vector.
const LANES: usize = 16;

/// The kernel.
#[derive(Clone, Debug)]
pub(crate) struct EpilogueKernel(EpilogueCode, Arc<Code>);

impl EpilogueKernel {
    pub(crate) fn new(code: EpilogueCode, source: &dyn CodeSource) -> Result<EpilogueKernel> {
        Ok(EpilogueKernel(code, source.code(&CodeKey::Epilogue(code))?))
    }

    /// Applies the epilogue to rows.
    ///
    /// # Safety
    ///
    /// `given` holds sums, bias, residual and result over the result's columns of all rows. No other task touches those
    /// elements of the result.
    pub(crate) unsafe fn call(&self, args: &EpilogueArgs, given: &Given) {
        // SAFETY: the caller vouches for the pointers; the struct is the one that the emitter reads.
        unsafe { self.1.call(args, &self.0, given) }
    }
}

macro_rules! arg {
    ($field:ident) => {
        Mem::at(ARGS, offset_of!(EpilogueArgs, $field) as i32)
    };
}

const ARGS: Gpr = Gpr::RDI;
const FROM_ROW: Gpr = Gpr::RSI;
const TO_ROW: Gpr = Gpr::RDX;
const FROM: Gpr = Gpr::R11;
const TO: Gpr = Gpr::R12;
const BIAS: Gpr = Gpr::R13;
const VECTORS: Gpr = Gpr::R14;
const ROWS: Gpr = Gpr::R9;
/// Null if there is no residual.
const RESIDUAL: Gpr = Gpr::R8;
const OTHER_ROW: Gpr = Gpr::R15;
const OTHER_AT: Gpr = Gpr::R10;
const T0: Gpr = Gpr::RAX;
const T1: Gpr = Gpr::RCX;
/// Two vectors at a time. Values come first, so that the free registers are contiguous.
const VALUES: [Vreg; 2] = [Vreg(0), Vreg(1)];
const SCALE: Vreg = Vreg(2);
const OTHER: Vreg = Vreg(3);
const FIRST_TEMP: u8 = 4;

impl EpilogueCode {
    /// The kernel with `f32` residual and result.
    #[must_use]
    pub const fn plain(isa: Isa, activation: Option<UnaryOp>) -> EpilogueCode {
        EpilogueCode { isa, activation, residual: Stored::F32, output: Stored::F32 }
    }

    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        activation::check(FAMILY, self.activation)?;
        let (row, pair, single, rest, next) = (asm.label(), asm.label(), asm.label(), asm.label(), asm.label());
        asm.prologue();
        asm.load(FROM_ROW, arg!(from));
        asm.load(TO_ROW, arg!(to));
        asm.load(ROWS, arg!(rows));
        asm.load(RESIDUAL, arg!(residual));
        asm.mov(OTHER_ROW, RESIDUAL);
        asm.vbroadcast(SCALE, arg!(scale));
        let mask = asm.mask(0, Vreg(asm.registers() - 1));
        asm.load(T0, arg!(rest));
        asm.mask_first(mask, T0, T1);
        asm.align(16);
        asm.bind(row);
        asm.mov(FROM, FROM_ROW);
        asm.mov(TO, TO_ROW);
        asm.mov(OTHER_AT, OTHER_ROW);
        asm.load(BIAS, arg!(bias));
        asm.load(VECTORS, arg!(vectors));
        asm.sub_imm(VECTORS, 2);
        asm.cmp_imm(VECTORS, 0);
        asm.jump_if(Cond::Less, single);
        asm.align(16);
        asm.bind(pair);
        self.vectors(asm, 2, None);
        asm.sub_imm(VECTORS, 2);
        asm.cmp_imm(VECTORS, 0);
        asm.jump_if(Cond::GreaterEqual, pair);
        asm.bind(single);
        asm.cmp_imm(VECTORS, -1);
        asm.jump_if(Cond::Less, rest);
        self.vectors(asm, 1, None);
        asm.bind(rest);
        asm.load(T0, arg!(rest));
        asm.test(T0);
        asm.jump_if(Cond::Equal, next);
        self.vectors(asm, 1, Some(mask));
        asm.bind(next);
        asm.load(T0, arg!(from_stride));
        asm.add(FROM_ROW, T0);
        asm.load(T0, arg!(to_stride));
        asm.add(TO_ROW, T0);
        asm.load(T0, arg!(residual_stride));
        asm.add(OTHER_ROW, T0);
        asm.sub_imm(ROWS, 1);
        asm.test(ROWS);
        asm.jump_if(Cond::NotEqual, row);
        asm.epilogue();
        Ok(())
    }

    /// Emits the epilogue of the next one or two vectors of a row, or of a masked one.
    fn vectors(&self, asm: &mut Asm, count: usize, mask: Option<Mask>) {
        let alone = asm.label();
        let temps: Vec<Vreg> = (FIRST_TEMP..asm.registers() - 1).map(Vreg).collect();
        let load = |asm: &mut Asm, to: Vreg, from: Mem| match mask {
            Some(mask) => asm.vload_masked(to, mask, from),
            None => asm.vload(to, from),
        };
        let values = || VALUES[..count].iter().zip((0..).step_by(64));
        for (&value, at) in values() {
            load(asm, value, Mem::at(FROM, at));
            load(asm, OTHER, Mem::at(BIAS, at));
            asm.vfma213(value, SCALE, OTHER);
        }
        asm.test(RESIDUAL);
        asm.jump_if(Cond::Equal, alone);
        let lanes = |stored: Stored| (LANES * stored.bytes()) as i32;
        for (index, &value) in VALUES[..count].iter().enumerate() {
            let from = Mem::at(OTHER_AT, index as i32 * lanes(self.residual));
            match (self.residual, mask) {
                (Stored::F32, _) => load(asm, OTHER, from),
                (Stored::Bf16, None) => asm.vload_bf16(OTHER, from),
                (Stored::Bf16, Some(mask)) => asm.vload_bf16_masked(OTHER, mask, from),
            }
            asm.vadd(value, value, OTHER);
        }
        asm.bind(alone);
        for &value in &VALUES[..count] {
            if let Some(op) = self.activation {
                activation::emit(asm, op, value, &temps);
            }
        }
        match (self.output, mask) {
            (Stored::F32, None) => values().for_each(|(&value, at)| asm.vstore(Mem::at(TO, at), value)),
            (Stored::F32, Some(mask)) => asm.vstore_masked(Mem::at(TO, 0), mask, VALUES[0]),
            (Stored::Bf16, Some(mask)) => asm.vstore_bf16_masked(Mem::at(TO, 0), mask, VALUES[0], OTHER),
            (Stored::Bf16, None) if count == 1 => asm.vstore_bf16(Mem::at(TO, 0), VALUES[0], OTHER),
            (Stored::Bf16, None) => {
                asm.vround_bf16(OTHER, VALUES[1], VALUES[0]);
                asm.vstore(Mem::at(TO, 0), OTHER);
            }
        }
        let widths = [(FROM, 64), (BIAS, 64), (TO, lanes(self.output)), (OTHER_AT, lanes(self.residual))];
        for (pointer, width) in widths {
            asm.add_imm(pointer, count as i32 * width);
        }
    }
}
