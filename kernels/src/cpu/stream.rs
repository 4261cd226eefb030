//! One row of factors by the rows of a matrix, where memory bounds it: the path of single queries in attention, and of
//! products with one row or one column.
//!
//! - [`Form::Dots`]: the products of the row with each row of the matrix, a vector of them at a time.
//! - [`Form::Blend`]: the sum of the matrix's rows, each times its factor, in registers. The matrix is read once, front
//!   to back.
//!
//! Rows of `f16` are widened in registers. They are whole vectors: before AVX-512 no instruction loads words under a
//! mask.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::loops;
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Gpr, Mask, Mem, Vreg, arg};

pub(crate) const FAMILY: &str = "stream";

/// What determines the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct StreamCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// What is computed.
    pub form: Form,
    /// The element type of the matrix's rows.
    pub rows: RowType,
    /// Whether a call brings other lines to L2 ([`StreamArgs::ahead`]).
    pub ahead: bool,
}

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Form {
    /// A product with each row.
    Dots,
    /// The weighted sum of rows.
    Blend,
}

/// The element type of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum RowType {
    /// `f32`.
    #[default]
    F32,
    /// `f16`, widened in registers, in rows of whole vectors.
    F16,
}

impl RowType {
    /// Bytes of an element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            RowType::F32 => 4,
            RowType::F16 => 2,
        }
    }
}

/// Arguments of both forms.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StreamArgs {
    /// The factors: one for each column ([`Form::Dots`]), or one for each row ([`Form::Blend`]).
    pub left: *const f32,
    /// The first row.
    pub rows: *const u8,
    /// Bytes from row to row.
    pub stride: usize,
    /// Rows, at least 1.
    pub count: usize,
    /// Elements of a row, at least 1; of `f16`, whole vectors.
    pub columns: usize,
    /// The products, one a row, or the sum, one a column.
    pub out: *mut f32,
    /// Nonzero where the sum is added to `out` ([`Form::Blend`]).
    pub resume: usize,
    /// Factor of the products ([`Form::Dots`]).
    pub scale: f32,
    /// Lines that a call brings to L2 for the next block, [`AHEAD_LINES`] in each step of the inner loop, where the
    /// code does so. Any address will do.
    pub ahead: *const u8,
}

/// Lines that a step of the inner loop prefetches: of the products with [`Isa::lanes`](crate::Isa::lanes) rows, or of
/// the sum of a row.
pub const AHEAD_LINES: usize = 4;

/// Bytes of a cache line.
pub const LINE: usize = 64;

impl Arguments for StreamArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = StreamCode;

    fn extents(&self, code: &StreamCode, extents: &mut Extents<'_>) {
        let (row, one_each, read) = (self.columns * 4, self.count * 4, self.columns * code.rows.bytes());
        match code.form {
            Form::Dots => {
                extents.read("the row", self.left).bytes(row);
                extents.read("rows", self.rows).over(self.count, self.stride).bytes(read);
                extents.write("products", self.out).bytes(one_each);
            }
            Form::Blend => {
                // With no rows, the loop still runs once.
                extents.read("weights", self.left).bytes(one_each.max(4));
                extents.read("rows", self.rows).over(self.count.max(1), self.stride).bytes(read);
                extents.write("the sum", self.out).bytes(row);
            }
        }
    }
}

const LEFT: Gpr = Gpr::RSI;
const RIGHT: Gpr = Gpr::RDX;
const OUT: Gpr = Gpr::RCX;
const STRIDE: Gpr = Gpr::R8;
const STRIDE3: Gpr = Gpr::R9;
const COUNT: Gpr = Gpr::R10;
const AT: Gpr = Gpr::RAX;
const VECTORS: Gpr = Gpr::R11;
const REST: Gpr = Gpr::RBX;
/// The next line that is prefetched.
const AHEAD: Gpr = Gpr::RBP;
/// The addresses of the first of each four rows that are multiplied together.
const FOURS: [Gpr; 4] = [Gpr::R12, Gpr::R13, Gpr::R14, Gpr::R15];

/// Emits the code of that key.
pub fn emit(code: &StreamCode, asm: &mut Asm) {
    asm.prologue();
    match code.form {
        Form::Dots => dots(asm, code),
        Form::Blend => blend(asm, code),
    }
    asm.epilogue();
}

/// Loads what both forms use: pointers, bytes of a row in whole vectors, elements of the rest.
fn stream(asm: &mut Asm) {
    asm.load(LEFT, arg!(StreamArgs.left));
    asm.load(RIGHT, arg!(StreamArgs.rows));
    asm.load(OUT, arg!(StreamArgs.out));
    asm.load(STRIDE, arg!(StreamArgs.stride));
    asm.load(COUNT, arg!(StreamArgs.count));
    asm.load(REST, arg!(StreamArgs.columns));
    asm.load(AHEAD, arg!(StreamArgs.ahead));
}

/// Asks for the next lines.
fn prefetch(asm: &mut Asm) {
    for line in 0..AHEAD_LINES {
        asm.prefetch_l2(Mem::at(AHEAD, (line * LINE) as i32));
    }
    asm.add_imm(AHEAD, (AHEAD_LINES * LINE) as i32);
}

/// The address of row `row` of those that are multiplied together.
fn row_of(row: u8) -> Mem {
    let base = FOURS[usize::from(row / 4)];
    match row % 4 {
        0 => Mem::at(base, 0),
        1 => Mem::indexed(base, STRIDE, 1, 0),
        2 => Mem::indexed(base, STRIDE, 2, 0),
        _ => Mem::indexed(base, STRIDE3, 1, 0),
    }
}

/// The vector at `at` of a row, in `to`.
fn load_row(asm: &mut Asm, row_type: RowType, to: Vreg, at: Mem) {
    match row_type {
        RowType::F32 => asm.vload(to, at),
        RowType::F16 => asm.vload_f16(to, at),
    }
}

/// sum += factor * the vector at `at` of a row.
fn add_product(asm: &mut Asm, row_type: RowType, sum: Vreg, factor: Vreg, at: Mem, temp: Vreg) {
    match row_type {
        RowType::F32 => asm.vfma231(sum, factor, at),
        RowType::F16 => {
            load_row(asm, row_type, temp, at);
            asm.vfma231(sum, factor, temp);
        }
    }
}

/// Bytes of a vector of elements of a row.
fn row_bytes(asm: &Asm, row_type: RowType) -> i32 {
    asm.lanes() as i32 * row_type.bytes() as i32
}

fn dots(asm: &mut Asm, code: &StreamCode) {
    let lanes = asm.lanes() as u8;
    stream(asm);
    asm.lea(STRIDE3, Mem::indexed(STRIDE, STRIDE, 2, 0));
    asm.mov(VECTORS, REST);
    asm.and_imm(VECTORS, -i32::from(lanes));
    asm.shl_imm(VECTORS, 2);
    asm.and_imm(REST, i32::from(lanes) - 1);
    let tail = asm.mask(0, loops::TAIL);
    asm.mask_first(tail, REST, AT);
    // As many rows at a time as a vector has lanes, so that their sums are one vector; then row by row.
    for rows in [lanes, 1] {
        asm.while_at_least(COUNT, i32::from(rows), |asm| {
            products(asm, code, rows);
            let total = if rows > 1 { fold(asm, lanes) } else { Vreg(0) };
            let (factor, scratch) = (Vreg(lanes), Vreg(lanes + 1));
            asm.vbroadcast(factor, arg!(StreamArgs.scale));
            if rows > 1 {
                asm.vmul(total, total, factor);
                asm.vstore(Mem::at(OUT, 0), total);
            } else {
                asm.vreduce_add(total, total, scratch);
                asm.vmul(total, total, factor);
                asm.vstore_one(Mem::at(OUT, 0), total);
            }
            asm.add_imm(OUT, i32::from(rows) * 4);
            for _ in 0..rows.div_ceil(8) {
                asm.lea(RIGHT, Mem::indexed(RIGHT, STRIDE, rows.min(8), 0));
            }
        });
    }
}

/// The first `rows` registers = sums of products of the factors with one row each.
fn products(asm: &mut Asm, code: &StreamCode, rows: u8) {
    let row_type = code.rows;
    let (bytes, row_bytes) = (asm.vector_bytes(), row_bytes(asm, row_type));
    let (factors, right) = (Vreg(asm.lanes() as u8), Vreg(asm.lanes() as u8 + 1));
    let fours = usize::from(rows.div_ceil(4));
    asm.mov(FOURS[0], RIGHT);
    for four in 1..fours {
        asm.lea(FOURS[four], Mem::indexed(FOURS[four - 1], STRIDE, 4, 0));
    }
    (0..rows).for_each(|row| asm.vzero(Vreg(row)));
    asm.mov_imm(AT, 0);
    asm.while_less(AT, VECTORS, 16, |asm| {
        asm.vload(factors, Mem::indexed(LEFT, AT, 1, 0));
        (0..rows).for_each(|row| add_product(asm, row_type, Vreg(row), factors, row_of(row), right));
        if rows > 1 && code.ahead {
            prefetch(asm);
        }
        FOURS[..fours].iter().for_each(|&four| asm.add_imm(four, row_bytes));
        asm.add_imm(AT, bytes);
    });
    if row_type == RowType::F16 {
        return;
    }
    asm.unless_zero(REST, |asm| {
        let tail = asm.mask(0, loops::TAIL);
        asm.vload_masked(factors, tail, Mem::indexed(LEFT, AT, 1, 0));
        for row in 0..rows {
            asm.vload_masked(right, tail, row_of(row));
            asm.vfma231(Vreg(row), factors, right);
        }
    });
}

/// Adds up the lanes of each of the first `lanes` registers: lane i of the result is the sum of register i.
fn fold(asm: &mut Asm, lanes: u8) -> Vreg {
    let temp = Vreg(lanes);
    // Four registers become one whose 128-bit groups each hold four sums of four lanes.
    for four in (0..lanes).step_by(4) {
        for pair in [four, four + 2] {
            asm.vunpack_lo_32(temp, Vreg(pair), Vreg(pair + 1));
            asm.vunpack_hi_32(Vreg(pair), Vreg(pair), Vreg(pair + 1));
            asm.vadd(Vreg(pair), Vreg(pair), temp);
        }
        asm.vunpack_lo_64(temp, Vreg(four), Vreg(four + 2));
        asm.vunpack_hi_64(Vreg(four), Vreg(four), Vreg(four + 2));
        asm.vadd(Vreg(four), Vreg(four), temp);
    }
    // Even groups by the one selector, odd groups by the other.
    let mut join = |to: u8, other: u8, even: u8, odd: u8| {
        asm.vshuffle_128(temp, Vreg(to), Vreg(other), even);
        asm.vshuffle_128(Vreg(to), Vreg(to), Vreg(other), odd);
        asm.vadd(Vreg(to), Vreg(to), temp);
    };
    if lanes == 8 {
        join(0, 4, 0x20, 0x31);
    } else {
        join(0, 4, 0x88, 0xdd);
        join(8, 12, 0x88, 0xdd);
        join(0, 8, 0x88, 0xdd);
    }
    Vreg(0)
}

fn blend(asm: &mut Asm, code: &StreamCode) {
    let lanes = asm.lanes() as i32;
    stream(asm);
    // As many vectors of columns at a time as are left; the rest of less than a vector, under a mask.
    for vectors in [8u8, 4, 2, 1] {
        let columns = i32::from(vectors) * lanes;
        asm.while_at_least(REST, columns, |asm| {
            column(asm, code, vectors, None);
            asm.add_imm(RIGHT, i32::from(vectors) * row_bytes(asm, code.rows));
            asm.add_imm(OUT, columns * 4);
        });
    }
    if code.rows == RowType::F16 {
        return;
    }
    asm.unless_zero(REST, |asm| {
        let tail = asm.mask(0, loops::TAIL);
        asm.mask_first(tail, REST, AT);
        column(asm, code, 1, Some(tail));
    });
}

/// A few vectors of columns, over all rows; a masked one is a single vector of `f32`.
fn column(asm: &mut Asm, code: &StreamCode, vectors: u8, mask: Option<Mask>) {
    let row_type = code.rows;
    let (bytes, row_bytes) = (asm.vector_bytes(), row_bytes(asm, row_type));
    let (weight, value) = (Vreg(12), Vreg(13));
    let out = |vector: u8| Mem::at(OUT, i32::from(vector) * bytes);
    asm.load(AT, arg!(StreamArgs.resume));
    asm.unless_zero_else(
        AT,
        |asm| (0..vectors).for_each(|vector| asm.vload_lanes(Vreg(vector), mask, out(vector))),
        |asm| (0..vectors).for_each(|vector| asm.vzero(Vreg(vector))),
    );
    asm.mov(FOURS[0], RIGHT);
    asm.mov_imm(AT, 0);
    asm.align(16);
    asm.repeat_while_less(AT, COUNT, |asm| {
        asm.vbroadcast(weight, Mem::indexed(LEFT, AT, 4, 0));
        for vector in 0..vectors {
            let at = Mem::at(FOURS[0], i32::from(vector) * row_bytes);
            if mask.is_some() {
                asm.vload_lanes(value, mask, at);
                asm.vfma231(Vreg(vector), weight, value);
            } else {
                add_product(asm, row_type, Vreg(vector), weight, at, value);
            }
        }
        if code.ahead {
            prefetch(asm);
        }
        asm.add(FOURS[0], STRIDE);
        asm.add_imm(AT, 1);
    });
    (0..vectors).for_each(|vector| asm.vstore_lanes(out(vector), mask, Vreg(vector)));
}
