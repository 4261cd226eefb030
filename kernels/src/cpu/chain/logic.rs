//! Programs of booleans alone, on bytes: a vector has four times as many as of numbers, and nothing is converted.

use super::{BinaryOp, Program, Step, Storage, UnaryOp};
use crate::cpu::multiversion::multiversion;
use crate::isa::Isa;

/// Elements that go through all steps before the next ones: a value stays in L1.
pub(super) const BLOCK: usize = 2048;

/// Whether bytes are enough: operands, constants and results are booleans.
pub(super) fn is_logical(program: &Program) -> bool {
    let is_boolean = |storage: &Storage| *storage == Storage::Bool;
    let is_step = |step: &Step| match step {
        Step::Const(bits) => matches!(bits.get(), 0.0 | 1.0),
        Step::Unary(op, _) => *op == UnaryOp::Not,
        Step::Binary(op, ..) => matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Equal),
        Step::Select { .. } => true,
    };
    is_boolean(&program.output) && program.inputs.iter().all(is_boolean) && program.steps.iter().all(is_step)
}

/// Computes the steps of a logical program for `count` elements, at most [`BLOCK`]. `values` has a block for each
/// operand, of zeros and ones, and one for each step; the last of these is the result.
pub(super) fn compute<'v>(isa: Isa, program: &Program, values: &'v mut [u8], count: usize) -> &'v [u8] {
    for (index, step) in program.steps.iter().enumerate() {
        let (known, to) = values.split_at_mut((program.inputs.len() + index) * BLOCK);
        let value = |number: u8| &known[usize::from(number) * BLOCK..][..count];
        let to = &mut to[..count];
        match *step {
            Step::Const(bits) => to.fill(u8::from(bits.get() != 0.0)),
            Step::Unary(_, a) => not(isa, value(a), to),
            Step::Binary(BinaryOp::And, a, b) => and(isa, value(a), value(b), to),
            Step::Binary(BinaryOp::Or, a, b) => or(isa, value(a), value(b), to),
            Step::Binary(BinaryOp::Xor, a, b) => xor(isa, value(a), value(b), to),
            // All that `is_logical` lets through else.
            Step::Binary(_, a, b) => equal(isa, value(a), value(b), to),
            Step::Select { condition, on, off } => select(isa, value(condition), value(on), value(off), to),
        }
    }
    let last = program.inputs.len() + program.steps.len() - 1;
    &values[last * BLOCK..][..count]
}

multiversion! {
    /// Bytes as booleans: any byte but 0 is 1.
    pub(super) fn normalise(from: &[u8], to: &mut [u8]) {
        to.iter_mut().zip(from).for_each(|(to, &byte)| *to = u8::from(byte != 0));
    }
}

multiversion! {
    fn not(from: &[u8], to: &mut [u8]) {
        to.iter_mut().zip(from).for_each(|(to, &byte)| *to = byte ^ 1);
    }
}

multiversion! {
    fn and(a: &[u8], b: &[u8], to: &mut [u8]) {
        to.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (a, b))| *to = a & b);
    }
}

multiversion! {
    fn or(a: &[u8], b: &[u8], to: &mut [u8]) {
        to.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (a, b))| *to = a | b);
    }
}

multiversion! {
    fn xor(a: &[u8], b: &[u8], to: &mut [u8]) {
        to.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (a, b))| *to = a ^ b);
    }
}

multiversion! {
    fn equal(a: &[u8], b: &[u8], to: &mut [u8]) {
        to.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (a, b))| *to = a ^ b ^ 1);
    }
}

multiversion! {
    fn select(condition: &[u8], on: &[u8], off: &[u8], to: &mut [u8]) {
        let values = condition.iter().zip(on.iter().zip(off));
        to.iter_mut().zip(values).for_each(|(to, (condition, (on, off)))| *to = condition & on | (condition ^ 1) & off);
    }
}
