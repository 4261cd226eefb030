//! Instructions of softmax, its logarithm, and the logarithm of a sum of exponentials, over rows and over columns.
//!
//! Three passes: the largest element, the sum of exponentials (which softmax stores), and the division. A row stays in
//! the first-level cache between them. Exponents are never positive, so the short exponential does; only the logarithm of
//! the sum takes the long one, because the infinities that it must give back are subtracted as zero.

use serde::{Deserialize, Serialize};

use crate::cpu::chain::UnaryOp;
use crate::cpu::sweep::{self, Place};
use crate::cpu::vecmath::{self, MAGNITUDE};
use crate::isa::Isa;
use crate::jit::asm::Predicate;
use crate::jit::{Asm, Cond, Gpr, Mask, Mem, Vreg};

/// What is made of a row or a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Form {
    /// Exponentials that sum to one.
    Softmax,
    /// Their logarithms.
    LogSoftmax,
    /// The logarithm of the sum of exponentials: one number.
    LogSumExp,
}

/// All that shapes the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SoftmaxCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// What is made.
    pub form: Form,
    /// Whether columns sum to one, not rows.
    pub columns: bool,
}

/// Arguments of all forms. Where a number is made of each row or column, the numbers follow each other.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SoftmaxArgs {
    /// First element of the first row.
    pub src: *const f32,
    /// Where it goes.
    pub dst: *mut f32,
    /// Rows, at least 1.
    pub rows: usize,
    /// Elements of a row, at least 1.
    pub length: usize,
    /// Bytes from row to row, on both sides.
    pub stride: usize,
}

macro_rules! arg {
    ($field:ident) => {
        Mem::at(Gpr::RDI, std::mem::offset_of!(SoftmaxArgs, $field) as i32)
    };
}

const SRC: Gpr = Gpr::RSI;
const DST: Gpr = Gpr::RDX;
const ROWS: Gpr = Gpr::RCX;
const STRIDE: Gpr = Gpr::R11;
/// From an element of the input to that of the output, in bytes; columns only.
const AWAY: Gpr = Gpr::RBX;

/// Vectors of columns that are computed side by side, or chains of a row.
const CHAINS: u8 = sweep::UNROLL;

/// The largest elements are the first registers, the sums the next.
const fn largest(chain: u8) -> Vreg {
    Vreg(chain)
}

const fn sum(chain: u8) -> Vreg {
    Vreg(CHAINS + chain)
}

const VALUE: Vreg = Vreg(8);
const TEMPS: [Vreg; 4] = [Vreg(9), Vreg(10), Vreg(11), Vreg(12)];

/// Emits the code of that key.
pub fn emit(code: &SoftmaxCode, asm: &mut Asm) {
    asm.prologue();
    asm.load(SRC, arg!(src));
    asm.load(DST, arg!(dst));
    asm.load(STRIDE, arg!(stride));
    if code.columns {
        columns(code.form, asm)
    } else {
        rows(code.form, asm)
    }
    asm.epilogue();
}

fn rows(form: Form, asm: &mut Asm) {
    sweep::prepare_rows(asm, arg!(length));
    asm.load(ROWS, arg!(rows));
    let next = asm.label();
    asm.bind(next);
    (0..CHAINS).for_each(|chain| asm.vload(largest(chain), f32::NEG_INFINITY));
    sweep::row(asm, |asm, place| look(asm, place, SRC));
    for (to, from) in [(0, 1), (2, 3), (0, 2)] {
        asm.vmax(largest(to), largest(to), largest(from));
    }
    let most = largest(0);
    asm.vreduce_max(most, most, VALUE);
    subtrahend(form, asm, most);
    (0..CHAINS).for_each(|chain| asm.vzero(sum(chain)));
    sweep::row(asm, |asm, place| {
        let stored = (form == Form::Softmax).then_some((place, DST));
        add(form, asm, place, SRC, most, stored);
    });
    for (to, from) in [(0, 1), (2, 3), (0, 2)] {
        asm.vadd(sum(to), sum(to), sum(from));
    }
    asm.vreduce_add(sum(0), sum(0), VALUE);
    settle(form, asm, most, sum(0));
    match form {
        Form::Softmax => sweep::row(asm, |asm, place| {
            divide(asm, place, DST, sum(0));
        }),
        Form::LogSoftmax => sweep::row(asm, |asm, place| {
            subtract(asm, place, SRC, most, sum(0));
            place.store(asm, DST, VALUE);
        }),
        Form::LogSumExp => asm.vstore_one(Mem::at(DST, 0), sum(0)),
    }
    asm.add(SRC, STRIDE);
    if form == Form::LogSumExp {
        asm.add_imm(DST, 4)
    } else {
        asm.add(DST, STRIDE)
    }
    asm.sub_imm(ROWS, 1);
    asm.test(ROWS);
    asm.jump_if(Cond::NotEqual, next);
}

fn columns(form: Form, asm: &mut Asm) {
    asm.mov(AWAY, DST);
    asm.sub(AWAY, SRC);
    sweep::columns(asm, arg!(length), &[SRC, DST], CHAINS, |asm, vectors, tail| {
        column(form, asm, vectors, tail);
    });
}

fn column(form: Form, asm: &mut Asm, vectors: u8, tail: Option<Mask>) {
    let down = |asm: &mut Asm, body: &dyn Fn(&mut Asm, Gpr, Place)| {
        sweep::down(asm, arg!(rows), SRC, STRIDE, vectors, tail, body);
    };
    (0..vectors).for_each(|chain| asm.vload(largest(chain), f32::NEG_INFINITY));
    down(asm, &|asm, at, place| look(asm, place, at));
    (0..vectors).for_each(|chain| subtrahend(form, asm, largest(chain)));
    (0..vectors).for_each(|chain| asm.vzero(sum(chain)));
    down(asm, &|asm, at, place| {
        let stored = (form == Form::Softmax).then(|| (place.away(AWAY), at));
        add(form, asm, place, at, largest(place.chain), stored);
    });
    (0..vectors).for_each(|chain| settle(form, asm, largest(chain), sum(chain)));
    match form {
        Form::Softmax => down(asm, &|asm, at, place| divide(asm, place.away(AWAY), at, sum(place.chain))),
        Form::LogSoftmax => down(asm, &|asm, at, place| {
            subtract(asm, place, at, largest(place.chain), sum(place.chain));
            place.away(AWAY).store(asm, at, VALUE);
        }),
        Form::LogSumExp => {
            (0..vectors).for_each(|chain| sweep::across(asm, chain, tail).store(asm, DST, sum(chain)));
        }
    }
}

/// The largest so far. NaN may get lost here: the exponential brings it back.
fn look(asm: &mut Asm, place: Place, base: Gpr) {
    let most = largest(place.chain);
    if place.tail.is_none() {
        return asm.vmax(most, most, place.of(base));
    }
    place.load(asm, VALUE, base);
    place.fold(asm, most, TEMPS[0], |asm, to, most| asm.vmax(to, most, VALUE));
}

/// What is subtracted before the exponential: the largest element, but nothing where that is infinite and the sum of
/// exponentials is wanted, which then is zero or infinite itself.
fn subtrahend(form: Form, asm: &mut Asm, most: Vreg) {
    if form == Form::LogSumExp {
        let infinite = asm.mask(1, TEMPS[1]);
        asm.vand(VALUE, most, MAGNITUDE);
        asm.compare(infinite, Predicate::Equal, VALUE, f32::INFINITY);
        asm.vzero(VALUE);
        asm.select(most, infinite, VALUE, most);
    }
}

/// The exponential of an element less the largest one, into the sum, and where it is to be stored.
fn add(form: Form, asm: &mut Asm, place: Place, base: Gpr, most: Vreg, stored: Option<(Place, Gpr)>) {
    place.load(asm, VALUE, base);
    asm.vsub(VALUE, VALUE, most);
    if form == Form::LogSumExp {
        vecmath::emit_unary(asm, UnaryOp::Exp, VALUE, &TEMPS);
    } else {
        vecmath::emit_exp_nonpositive(asm, VALUE, &TEMPS[..vecmath::EXP_NONPOSITIVE_TEMPS]);
    }
    place.only(asm, VALUE, TEMPS[0]);
    if let Some((place, base)) = stored {
        place.store(asm, base, VALUE);
    }
    asm.vadd(sum(place.chain), sum(place.chain), VALUE);
}

/// What the last pass needs of the sum.
fn settle(form: Form, asm: &mut Asm, most: Vreg, sum: Vreg) {
    if form == Form::Softmax {
        asm.vload(VALUE, 1.0);
        asm.vdiv(sum, VALUE, sum);
        return;
    }
    vecmath::emit_unary(asm, UnaryOp::Log, sum, &TEMPS);
    if form == Form::LogSumExp {
        asm.vadd(sum, sum, most);
    }
}

fn divide(asm: &mut Asm, place: Place, base: Gpr, reciprocal: Vreg) {
    if place.tail.is_none() {
        asm.vmul(VALUE, reciprocal, place.of(base));
    } else {
        place.load(asm, VALUE, base);
        asm.vmul(VALUE, VALUE, reciprocal);
    }
    place.store(asm, base, VALUE);
}

fn subtract(asm: &mut Asm, place: Place, base: Gpr, most: Vreg, logarithm: Vreg) {
    place.load(asm, VALUE, base);
    asm.vsub(VALUE, VALUE, most);
    asm.vsub(VALUE, VALUE, logarithm);
}
