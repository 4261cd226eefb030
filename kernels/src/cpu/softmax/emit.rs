//! Instructions of softmax, its logarithm, and the logarithm of a sum of exponentials, over rows and over columns.
//!
//! Three passes: the largest element; the sum of exponentials, which softmax stores; the division. A row stays in L1
//! between them. Exponents are never positive, so the short form of the exponential is enough.
//!
//! The middle pass is bound by computation: ten of a vector's instructions are multiplications of some kind. Zen 3
//! starts two a cycle, so a vector of 8 takes at least 5 cycles; the other two passes take about 1.5 together. Several
//! vectors are interleaved ([`vecmath::Interleaved`]) to come near that.
//!
//! Memory would be idle while a row is computed, so the middle pass prefetches the next row, and the cache lines of
//! this row's results: stores wait for their lines as loads do. On AVX-512, rows of 512 from memory took 0.68 of their
//! time with these prefetches. Columns gain nothing by prefetching.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::chain::UnaryOp;
use crate::cpu::loops::{self, Place};
use crate::cpu::vecmath::{self, Copies, Interleaved, MAGNITUDE};
use crate::isa::Isa;
use crate::jit::asm::{Predicate, Src};
use crate::jit::{Arguments, Asm, Extents, Gpr, Mask, Mem, Vreg, arg, counted_down};

/// The result of a row or a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Form {
    /// Exponentials that sum to one.
    Softmax,
    /// Their logarithms.
    LogSoftmax,
    /// The logarithm of the sum of exponentials: one element.
    LogSumExp,
}

/// What determines the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct SoftmaxCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// The result.
    pub form: Form,
    /// Whether it is computed for each column, not for each row.
    pub columns: bool,
}

/// Arguments of all forms. Single results of rows or columns follow each other in memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SoftmaxArgs {
    /// First element of the first row.
    pub src: *const f32,
    /// First element of the result.
    pub dst: *mut f32,
    /// Rows, at least 1.
    pub rows: usize,
    /// Elements of a row, at least 1.
    pub length: usize,
    /// Bytes from row to row, on both sides.
    pub stride: usize,
}

/// The part of the code's key that determines the memory that a call touches.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxKernel {
    /// The result.
    pub form: Form,
    /// Whether it is computed for each column, not for each row.
    pub columns: bool,
}

impl Arguments for SoftmaxArgs {
    const FAMILY: &'static str = super::FAMILY;
    type Kernel = SoftmaxKernel;

    fn extents(&self, &SoftmaxKernel { form, columns }: &SoftmaxKernel, extents: &mut Extents<'_>) {
        let (rows, length) = (counted_down(self.rows), self.length.saturating_mul(4));
        extents.read("input", self.src).over(rows, self.stride).bytes(length);
        let output = extents.write("output", self.dst);
        match form {
            Form::Softmax | Form::LogSoftmax => output.over(rows, self.stride).bytes(length),
            Form::LogSumExp if columns => output.bytes(length),
            Form::LogSumExp => output.bytes(rows.saturating_mul(4)),
        }
    }
}

const SRC: Gpr = Gpr::RSI;
const DST: Gpr = Gpr::RDX;
const ROWS: Gpr = Gpr::RCX;
const STRIDE: Gpr = Gpr::R11;
/// The next row of the input and of the output; rows only.
const NEXT: [Gpr; 2] = [Gpr::R12, Gpr::R13];
/// Bytes from an element of the input to the same element of the output; columns only.
const OTHER: Gpr = Gpr::RBX;

/// Vectors of columns that are computed together: four cache lines, so that rows that are far apart are worth
/// prefetching. The largest elements and the sums of columns are on the stack.
const COLUMNS: u8 = 8;

/// Registers of each vector in flight: its value, and two temporaries of the exponential. Four vectors
/// ([`loops::UNROLL`]), the current constant, the largest element, the sum and the mask take the sixteen of AVX2.
const EACH: u8 = 3;

/// The register of the value of a vector, by its index among those in flight.
const fn value(vector: u8) -> Vreg {
    Vreg(EACH * (vector % loops::UNROLL))
}

/// The constant that vectors in flight share.
const CONSTANT: Vreg = Vreg(12);
/// The largest element and the sum of a row. The first pass uses other registers, which the exponentials take later.
const ROW_MOST: Vreg = Vreg(13);
const ROW_SUM: Vreg = Vreg(14);

/// What the logarithm destroys besides its argument; free between the passes.
const TEMPS: [Vreg; 4] = [Vreg(1), Vreg(2), Vreg(3), Vreg(4)];

/// Emits the code of that key.
pub fn emit(code: &SoftmaxCode, asm: &mut Asm) {
    asm.prologue();
    asm.load(SRC, arg!(SoftmaxArgs.src));
    asm.load(DST, arg!(SoftmaxArgs.dst));
    asm.load(STRIDE, arg!(SoftmaxArgs.stride));
    if code.columns {
        columns(code.form, asm)
    } else {
        rows(code.form, asm)
    }
    asm.epilogue();
}

fn rows(form: Form, asm: &mut Asm) {
    loops::prepare_rows(asm, arg!(SoftmaxArgs.length));
    asm.load(ROWS, arg!(SoftmaxArgs.rows));
    asm.repeat(ROWS, |asm| row(form, asm));
}

/// The passes over a row, and the advance to the next.
fn row(form: Form, asm: &mut Asm) {
    (0..loops::UNROLL).for_each(|vector| asm.vload(Vreg(vector), f32::NEG_INFINITY));
    loops::row(asm, |asm, place| update_maximum(asm, place, SRC, Vreg(place.vector), [Vreg(8), Vreg(9)]));
    for (to, from) in [(0, 1), (2, 3), (0, 2)] {
        asm.vmax(Vreg(to), Vreg(to), Vreg(from));
    }
    asm.vreduce_max(ROW_MOST, Vreg(0), Vreg(8));
    if form == Form::LogSumExp {
        // The result's memory holds the largest element until it is added again.
        asm.vstore_one(Mem::at(DST, 0), ROW_MOST);
        subtrahend(asm, ROW_MOST);
    }
    asm.vzero(ROW_SUM);
    for (next, at) in NEXT.into_iter().zip([SRC, DST]) {
        asm.mov(next, at);
        asm.add(next, STRIDE);
    }
    loops::groups(asm, |asm, places| {
        prefetch(form, asm, places);
        exponentials(form, asm, places, SRC, |_, _| ROW_MOST.into());
        if form == Form::Softmax {
            places.iter().for_each(|place| place.store(asm, DST, value(place.vector)));
        }
        // Pairs of accumulators first: adding them one by one would be a chain of dependent additions.
        for step in [2, 1] {
            for vector in (0..step).filter(|vector| usize::from(vector + step) < places.len()) {
                asm.vadd(value(vector), value(vector), value(vector + step));
            }
        }
        asm.vadd(ROW_SUM, ROW_SUM, value(0));
    });
    asm.vreduce_add(ROW_SUM, ROW_SUM, value(0));
    row_factor(form, asm, ROW_SUM);
    match form {
        Form::Softmax => loops::row(asm, |asm, place| divide(asm, place, DST, ROW_SUM)),
        Form::LogSoftmax => loops::row(asm, |asm, place| {
            subtract(asm, place, SRC, ROW_MOST, ROW_SUM);
            place.store(asm, DST, value(0));
        }),
        Form::LogSumExp => {
            asm.vload_one(value(0), Mem::at(DST, 0));
            asm.vadd(ROW_SUM, ROW_SUM, value(0));
            asm.vstore_one(Mem::at(DST, 0), ROW_SUM);
        }
    }
    asm.add(SRC, STRIDE);
    if form == Form::LogSumExp { asm.add_imm(DST, 4) } else { asm.add(DST, STRIDE) }
}

fn columns(form: Form, asm: &mut Asm) {
    asm.mov(OTHER, DST);
    asm.sub(OTHER, SRC);
    asm.spill(2 * COLUMNS);
    loops::columns(asm, arg!(SoftmaxArgs.length), &[SRC, DST], COLUMNS, |asm, vectors, tail| {
        column(form, asm, vectors, tail);
    });
    asm.unspill();
}

/// The stack slot of the largest elements of a vector of columns.
fn most_of(asm: &Asm, vector: u8) -> Mem {
    asm.slot(vector)
}

/// The stack slot of its sums, later of the factors that the last pass applies.
fn sum_of(asm: &Asm, vector: u8) -> Mem {
    asm.slot(COLUMNS + vector)
}

fn column(form: Form, asm: &mut Asm, vectors: u8, tail: Option<Mask>) {
    let down = |asm: &mut Asm, body: &dyn Fn(&mut Asm, Gpr, &[Place])| {
        loops::down_together(asm, arg!(SoftmaxArgs.rows), SRC, STRIDE, vectors, tail, body);
    };
    let number = |asm: &Asm, vector: u8| loops::across(asm, vector, tail);
    (0..vectors).for_each(|vector| asm.vload(Vreg(vector), f32::NEG_INFINITY));
    down(asm, &|asm, at, places| {
        places.iter().for_each(|place| update_maximum(asm, *place, at, Vreg(place.vector), [Vreg(8), Vreg(9)]));
    });
    asm.vzero(CONSTANT);
    for vector in 0..vectors {
        if form == Form::LogSumExp {
            number(asm, vector).store(asm, DST, Vreg(vector));
            subtrahend(asm, Vreg(vector));
        }
        asm.vstore(most_of(asm, vector), Vreg(vector));
        asm.vstore(sum_of(asm, vector), CONSTANT);
    }
    down(asm, &|asm, at, places| {
        for places in places.chunks(usize::from(loops::UNROLL)) {
            exponentials(form, asm, places, at, |asm, vector| most_of(asm, vector).into());
            for place in places {
                let value = value(place.vector);
                if form == Form::Softmax {
                    place.in_other_array(OTHER).store(asm, at, value);
                }
                asm.vadd(value, value, sum_of(asm, place.vector));
                asm.vstore(sum_of(asm, place.vector), value);
            }
        }
    });
    for vector in 0..vectors {
        asm.vload(ROW_SUM, sum_of(asm, vector));
        row_factor(form, asm, ROW_SUM);
        asm.vstore(sum_of(asm, vector), ROW_SUM);
    }
    match form {
        Form::Softmax => down(asm, &|asm, at, places| {
            for place in places {
                let value = value(place.vector);
                place.in_other_array(OTHER).load(asm, value, at);
                asm.vmul(value, value, sum_of(asm, place.vector));
                place.in_other_array(OTHER).store(asm, at, value);
            }
        }),
        Form::LogSoftmax => down(asm, &|asm, at, places| {
            for place in places {
                let value = value(place.vector);
                place.load(asm, value, at);
                asm.vsub(value, value, most_of(asm, place.vector));
                asm.vsub(value, value, sum_of(asm, place.vector));
                place.in_other_array(OTHER).store(asm, at, value);
            }
        }),
        Form::LogSumExp => {
            for vector in 0..vectors {
                number(asm, vector).load(asm, value(0), DST);
                asm.vadd(value(0), value(0), sum_of(asm, vector));
                number(asm, vector).store(asm, DST, value(0));
            }
        }
    }
}

/// Prefetches the same positions of the next row. Single results of rows follow each other, and are in L1 anyway.
fn prefetch(form: Form, asm: &mut Asm, places: &[Place]) {
    let sides = if form == Form::LogSumExp { 1 } else { NEXT.len() };
    for (place, &next) in places.iter().flat_map(|place| NEXT[..sides].iter().map(move |next| (place, next))) {
        place.prefetch(asm, next);
    }
}

/// Updates the maximum in `most`. A NaN may be lost here; the exponential brings it back.
fn update_maximum(asm: &mut Asm, place: Place, base: Gpr, most: Vreg, [at_hand, temp]: [Vreg; 2]) {
    if place.tail.is_none() {
        return asm.vmax(most, most, place.address(base));
    }
    place.load(asm, at_hand, base);
    place.fold(asm, most, temp, |asm, to, most| asm.vmax(to, most, at_hand));
}

/// Sets the number that the logarithm of the sum subtracts: the largest element, or zero where that is infinite.
fn subtrahend(asm: &mut Asm, most: Vreg) {
    let (infinite, magnitude, nothing) = (asm.mask(1, Vreg(8)), Vreg(9), Vreg(10));
    asm.vand(magnitude, most, MAGNITUDE);
    asm.compare(infinite, Predicate::Equal, magnitude, f32::INFINITY);
    asm.vzero(nothing);
    asm.select(most, infinite, nothing, most);
}

/// Leaves in the registers [`value`] the exponentials of the elements at `places`, less the largest one.
fn exponentials(form: Form, asm: &mut Asm, places: &[Place], base: Gpr, most: impl Fn(&Asm, u8) -> Src) {
    for place in places {
        let value = value(place.vector);
        place.load(asm, value, base);
        let most = most(asm, place.vector);
        asm.vsub(value, value, most);
    }
    if form == Form::LogSumExp {
        // Infinite maxima were not subtracted. Such an infinity counts as the largest element here, and is added back
        // at the end.
        asm.vzero(CONSTANT);
        places.iter().for_each(|place| asm.vmin(value(place.vector), CONSTANT, value(place.vector)));
    }
    let copies = Copies { count: places.len() as u8, first: 0, each: EACH, constant: Some(CONSTANT) };
    let temps = [Vreg(1), Vreg(2)];
    vecmath::emit_exp_nonpositive_interleaved(&mut Interleaved::new(asm, copies), value(0), &temps);
    places.iter().for_each(|place| place.clear_unused(asm, value(place.vector), temps[0]));
}

/// Replaces the sum of a row by the operand of the last pass: its reciprocal (Softmax) or its logarithm (LogSoftmax).
fn row_factor(form: Form, asm: &mut Asm, sum: Vreg) {
    if form == Form::Softmax {
        asm.vload(value(0), 1.0);
        asm.vdiv(sum, value(0), sum);
        return;
    }
    vecmath::emit_unary(asm, UnaryOp::Log, sum, &TEMPS);
}

fn divide(asm: &mut Asm, place: Place, base: Gpr, reciprocal: Vreg) {
    let value = value(place.vector);
    if place.tail.is_none() {
        asm.vmul(value, reciprocal, place.address(base));
    } else {
        place.load(asm, value, base);
        asm.vmul(value, value, reciprocal);
    }
    place.store(asm, base, value);
}

fn subtract(asm: &mut Asm, place: Place, base: Gpr, most: Vreg, logarithm: Vreg) {
    place.load(asm, value(0), base);
    asm.vsub(value(0), value(0), most);
    asm.vsub(value(0), value(0), logarithm);
}
