//! Epilogues of AMX. Their common parts are here: the rows and columns of a call ([`Area`]), and the residual,
//! activation and store ([`PostOps`]) that the kernel below and the [fused](super::fused) epilogue emit alike.
//!
//! The kernel reads raw `f32` sums: scale, bias, residual, activation, and a masked store of the result. Residual and
//! result may each be `f32` or `bf16`. The epilogue of integer sums is in [`quantized`](crate::cpu::quantized).

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::PANEL;
use crate::cpu::Stored;
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::cpu::epilogue::{Column, Operand, Stage, StoredVector};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Cond, Extents, Gpr, Mask, Mem, Vreg, arg, counted_down};

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
pub(crate) const FAMILY: &str = "amx epilogue";

/// The sums of a call and where their results go. Strides are in bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Area<S> {
    /// The first sum.
    pub(crate) from: *const S,
    /// From one row of sums to the next.
    pub(crate) from_stride: usize,
    /// The first element of the result.
    pub(crate) to: *mut u8,
    /// From one row of the result to the next.
    pub(crate) to_stride: usize,
    /// Rows, at least one.
    pub(crate) rows: usize,
    /// Whole vectors of the result's columns, and columns after them.
    pub(crate) vectors: usize,
    pub(crate) rest: usize,
}

impl<S> Area<S> {
    /// An area of `columns` columns without rows; rows of sums are a panel's columns apart.
    pub(crate) fn of_columns(columns: usize) -> Area<S> {
        Area {
            from: std::ptr::null(),
            from_stride: PANEL * 4,
            to: std::ptr::null_mut(),
            to_stride: 0,
            rows: 0,
            vectors: columns / LANES,
            rest: columns % LANES,
        }
    }

    /// Columns of the result.
    pub(crate) fn columns(&self) -> usize {
        self.vectors * LANES + self.rest
    }

    /// Adds the memory that a kernel touches which reads the sums of `read` columns and writes results of `bytes` bytes
    /// each.
    pub(crate) fn extents(&self, read: usize, bytes: usize, extents: &mut Extents<'_>) {
        let rows = counted_down(self.rows);
        extents.read("sums", self.from).over(rows, self.from_stride).bytes(read * 4);
        extents.write("the result", self.to).over(rows, self.to_stride).bytes(self.columns() * bytes);
    }
}

/// The arguments of one call: C = activation(scale * sums + bias + residual).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct EpilogueArgs {
    pub(crate) area: Area<f32>,
    /// Added to every row; as many elements as the result has columns.
    bias: *const f32,
    /// The first element of a tensor that is added before the activation, or null.
    pub(crate) residual: *const u8,
    /// From one row of that tensor to the next, in bytes.
    pub(crate) residual_stride: usize,
    /// Multiplied with every sum.
    pub(crate) scale: f32,
}

impl EpilogueArgs {
    /// Arguments for `columns` columns without scale, bias or residual.
    pub(crate) fn of_columns(columns: usize) -> EpilogueArgs {
        debug_assert!(columns <= MOST_COLUMNS, "{columns} columns");
        EpilogueArgs {
            area: Area::of_columns(columns),
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
        let columns = self.area.columns();
        self.area.extents(columns, code.output.bytes(), extents);
        extents.constant("no bias", &NO_BIAS);
        extents.read("bias", self.bias).bytes(columns * 4);
        if !self.residual.is_null() {
            let residual = extents.read("residual", self.residual);
            let residual = residual.over(counted_down(self.area.rows), self.residual_stride);
            residual.bytes(columns * code.residual.bytes());
        }
    }
}

/// Most columns of a call.
const MOST_COLUMNS: usize = 512;

pub(super) static NO_BIAS: [f32; MOST_COLUMNS] = [0.0; MOST_COLUMNS];

/// Columns of a vector.
pub(crate) const LANES: usize = 16;

/// What happens to numbers in registers before they are a result (oneDNN's post-ops): a residual is added, the
/// activation applied, and the result stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct PostOps {
    pub(super) activation: Option<UnaryOp>,
    pub(super) residual: Stored,
    pub(super) output: Stored,
}

impl PostOps {
    /// Emits the addition of the residual's vectors at `from`; `mask` has the lanes of a vector that is partial.
    pub(super) fn add_residual(
        &self,
        asm: &mut Asm,
        values: &[Vreg],
        mask: impl Fn(usize) -> Option<Mask>,
        from: Gpr,
        scratch: Vreg,
    ) {
        let residual = StoredVector { stored: self.residual, from: Mem::at(from, 0), to: scratch };
        for (vector, &value) in values.iter().enumerate() {
            Stage::Add(Operand::Loaded(residual)).emit(asm, value, Column { vector, mask: mask(vector) });
        }
    }

    /// Emits the activation and the store to `to`. Registers from `temps` on are free but for the last, which may be
    /// the mask.
    pub(super) fn store(
        &self,
        asm: &mut Asm,
        values: &[Vreg],
        mask: impl Fn(usize) -> Option<Mask>,
        to: Gpr,
        scratch: Vreg,
        temps: u8,
    ) {
        if let Some(op) = self.activation {
            let temps: Vec<Vreg> = (temps..asm.registers() - 1).map(Vreg).collect();
            Stage::Activate(op, &temps).emit_all(asm, values.iter().copied());
        }
        let whole = (0..values.len()).all(|vector| mask(vector).is_none());
        if let (Stored::Bf16, true, &[first, second]) = (self.output, whole, values) {
            asm.vround_bf16(scratch, second, first);
            return asm.vstore(Mem::at(to, 0), scratch);
        }
        for (vector, &value) in values.iter().enumerate() {
            let to = Mem::at(to, (vector * LANES * self.output.bytes()) as i32);
            self.output.store(asm, to, mask(vector), value, scratch);
        }
    }
}

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

    fn post_ops(&self) -> PostOps {
        PostOps { activation: self.activation, residual: self.residual, output: self.output }
    }

    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        activation::check(FAMILY, self.activation)?;
        asm.prologue();
        asm.load(FROM_ROW, arg!(EpilogueArgs.area.from));
        asm.load(TO_ROW, arg!(EpilogueArgs.area.to));
        asm.load(ROWS, arg!(EpilogueArgs.area.rows));
        asm.load(RESIDUAL, arg!(EpilogueArgs.residual));
        asm.mov(OTHER_ROW, RESIDUAL);
        asm.vbroadcast(SCALE, arg!(EpilogueArgs.scale));
        let mask = asm.mask(0, Vreg(asm.registers() - 1));
        asm.load(T0, arg!(EpilogueArgs.area.rest));
        asm.mask_first(mask, T0, T1);
        asm.align(16);
        asm.repeat(ROWS, |asm| self.row(asm, mask));
        asm.epilogue();
        Ok(())
    }

    /// Emits the epilogue of a row, and the move to the next row.
    fn row(&self, asm: &mut Asm, mask: Mask) {
        asm.mov(FROM, FROM_ROW);
        asm.mov(TO, TO_ROW);
        asm.mov(OTHER_AT, OTHER_ROW);
        asm.load(BIAS, arg!(EpilogueArgs.bias));
        asm.load(VECTORS, arg!(EpilogueArgs.area.vectors));
        asm.for_each_group(VECTORS, 2, 16, |asm| self.vectors(asm, 2, None));
        let even = asm.label();
        asm.cmp_imm(VECTORS, -1);
        asm.jump_if(Cond::Less, even);
        self.vectors(asm, 1, None);
        asm.bind(even);
        asm.load(T0, arg!(EpilogueArgs.area.rest));
        asm.unless_zero(T0, |asm| self.vectors(asm, 1, Some(mask)));
        asm.load(T0, arg!(EpilogueArgs.area.from_stride));
        asm.add(FROM_ROW, T0);
        asm.load(T0, arg!(EpilogueArgs.area.to_stride));
        asm.add(TO_ROW, T0);
        asm.load(T0, arg!(EpilogueArgs.residual_stride));
        asm.add(OTHER_ROW, T0);
    }

    /// Emits the epilogue of the next one or two vectors of a row, or of a masked one.
    fn vectors(&self, asm: &mut Asm, count: usize, mask: Option<Mask>) {
        let (values, post_ops) = (&VALUES[..count], self.post_ops());
        let bias = StoredVector { stored: Stored::F32, from: Mem::at(BIAS, 0), to: OTHER };
        for (vector, &value) in values.iter().enumerate() {
            asm.vload_lanes(value, mask, Mem::at(FROM, vector as i32 * 64));
            Stage::ScaleAdd(SCALE, Operand::Loaded(bias)).emit(asm, value, Column { vector, mask });
        }
        asm.unless_zero(RESIDUAL, |asm| post_ops.add_residual(asm, values, |_| mask, OTHER_AT, OTHER));
        post_ops.store(asm, values, |_| mask, TO, OTHER, FIRST_TEMP);
        let lanes = |stored: Stored| (LANES * stored.bytes()) as i32;
        let widths = [(FROM, 64), (BIAS, 64), (TO, lanes(self.output)), (OTHER_AT, lanes(self.residual))];
        for (pointer, width) in widths {
            asm.add_imm(pointer, count as i32 * width);
        }
    }
}
