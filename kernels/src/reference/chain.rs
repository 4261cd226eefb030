//! Element-wise chains in plain Rust: each function by its definition; programs run block by block. Functions of one
//! element have their definition in their row ([`functions`](crate::problem::functions)).
//!
//! Transcendental functions are computed in `f64` and rounded once, so that a result is within half an ulp of the true
//! one (except for `erf`, see [`functions`](crate::problem::functions)), and emitted functions are compared with it.
//! NaN and infinities give what the formulas give.

#[cfg(test)]
mod tests;

use crate::problem::chain::{BinaryOp, Program, Step, UnaryOp};
use crate::problem::functions::flag;

/// Elements that go through all steps of a program before the next block: a value is then one KiB.
pub const BLOCK: usize = 256;

/// `op(x)`
#[must_use]
#[inline]
pub fn unary(op: UnaryOp, x: f32) -> f32 {
    op.value(x)
}

/// `op(a, b)`
#[must_use]
pub fn binary(op: BinaryOp, a: f32, b: f32) -> f32 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Max => extreme(a, b, a > b),
        BinaryOp::Min => extreme(a, b, a < b),
        BinaryOp::Pow => f64::from(a).powf(f64::from(b)) as f32,
        BinaryOp::Fmod => a % b,
        BinaryOp::PRelu => {
            if a < 0.0 {
                a * b
            } else {
                a
            }
        }
        BinaryOp::Equal => flag(a == b),
        BinaryOp::Less => flag(a < b),
        BinaryOp::LessOrEqual => flag(a <= b),
        BinaryOp::Greater => flag(a > b),
        BinaryOp::GreaterOrEqual => flag(a >= b),
        BinaryOp::And => flag(a != 0.0 && b != 0.0),
        BinaryOp::Or => flag(a != 0.0 || b != 0.0),
        BinaryOp::Xor => flag((a != 0.0) != (b != 0.0)),
    }
}

/// `a` if `prefer_a`, else `b`; NaN if either is NaN.
fn extreme(a: f32, b: f32, prefer_a: bool) -> f32 {
    if a.is_nan() || prefer_a { a } else { b }
}

/// The values of a program for up to [`BLOCK`] elements at a time.
#[derive(Debug)]
pub struct Interpreter<'p> {
    program: &'p Program,
    values: Vec<[f32; BLOCK]>,
}

impl<'p> Interpreter<'p> {
    /// An interpreter of a valid program.
    #[must_use]
    pub fn new(program: &'p Program) -> Interpreter<'p> {
        Interpreter { program, values: vec![[0.0; BLOCK]; program.inputs.len() + program.steps.len()] }
    }

    /// The elements of operand number `index`, to be filled in before [`Interpreter::run`].
    pub fn operand(&mut self, index: usize) -> &mut [f32; BLOCK] {
        &mut self.values[index]
    }

    /// Computes the result of the first `count` elements from the operands that were filled in.
    pub fn run(&mut self, count: usize) -> &[f32] {
        let count = count.min(BLOCK);
        let inputs = self.program.inputs.len();
        for (index, step) in self.program.steps.iter().enumerate() {
            let (operands, rest) = self.values.split_at_mut(inputs + index);
            let Some(result) = rest.first_mut() else { break };
            let of = |value: u8| operands[usize::from(value)][..count].iter().copied();
            let result = &mut result[..count];
            match *step {
                Step::Const(bits) => result.fill(bits.get()),
                Step::Unary(op, a) => assign(result, of(a).map(|a| unary(op, a))),
                Step::Binary(op, a, b) => assign(result, of(a).zip(of(b)).map(|(a, b)| binary(op, a, b))),
                Step::Select { condition, on, off } => {
                    let pairs = of(on).zip(of(off));
                    assign(result, of(condition).zip(pairs).map(|(c, (on, off))| if c != 0.0 { on } else { off }));
                }
            }
        }
        self.values.last().map_or(&[], |result| &result[..count])
    }
}

fn assign(to: &mut [f32], from: impl Iterator<Item = f32>) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = from;
    }
}
