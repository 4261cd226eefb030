//! Element-wise chains in plain Rust: every function by its definition, and programs run block by block.
//!
//! Transcendental functions are computed in `f64` and rounded once, so that a result is within half an ulp of the true
//! one (but for `erf`, see [`erf`]) and the emitted forms can be held against it. NaN and infinities give what the
//! formulas give.

mod erf;
#[cfg(test)]
mod tests;

pub use erf::{erf, erfc};

use crate::cpu::chain::{BinaryOp, Program, Step, UnaryOp};

/// Elements that are taken through all steps of a program before the next ones: a value is then one KiB.
pub const BLOCK: usize = 256;

/// `op(x)`
#[must_use]
pub fn unary(op: UnaryOp, x: f32) -> f32 {
    let wide = f64::from(x);
    let flag = |holds: bool| f32::from(u8::from(holds));
    match op {
        UnaryOp::Abs => x.abs(),
        UnaryOp::Neg => -x,
        UnaryOp::Reciprocal => 1.0 / x,
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Exp => wide.exp() as f32,
        UnaryOp::Log => wide.ln() as f32,
        UnaryOp::Erf => erf(wide) as f32,
        UnaryOp::Tanh => wide.tanh() as f32,
        UnaryOp::Sigmoid => sigmoid(wide) as f32,
        UnaryOp::Relu => clamp(x, 0.0, f32::INFINITY),
        UnaryOp::Clip { lo, hi } => clamp(x, lo.get(), hi.get()),
        UnaryOp::LeakyRelu { alpha } => {
            if x < 0.0 {
                alpha.get() * x
            } else {
                x
            }
        }
        UnaryOp::Elu { alpha } => elu(wide, f64::from(alpha.get())) as f32,
        UnaryOp::Selu { alpha, gamma } => (f64::from(gamma.get()) * elu(wide, f64::from(alpha.get()))) as f32,
        UnaryOp::Celu { alpha } => {
            let alpha = f64::from(alpha.get());
            (keep_nan(wide, wide.max(0.0)) + keep_nan(wide, (alpha * (wide / alpha).exp_m1()).min(0.0))) as f32
        }
        UnaryOp::ThresholdedRelu { alpha } => {
            if x > alpha.get() {
                x
            } else {
                0.0
            }
        }
        UnaryOp::HardSigmoid { alpha, beta } => clamp(alpha.get() * x + beta.get(), 0.0, 1.0),
        UnaryOp::HardSwish => x * clamp(x * (1.0 / 6.0) + 0.5, 0.0, 1.0),
        UnaryOp::Softplus => keep_nan(wide, wide.max(0.0) + (-wide.abs()).exp().ln_1p()) as f32,
        UnaryOp::Softsign => x / (1.0 + x.abs()),
        UnaryOp::Mish => {
            let grown = wide.min(700.0).exp();
            let m = grown.min(1e100) * (grown.min(1e100) + 2.0);
            keep_nan(wide, wide * (m / (m + 2.0))) as f32
        }
        UnaryOp::Silu => (wide * sigmoid(wide)) as f32,
        UnaryOp::Gelu => (0.5 * wide * erfc(-wide * std::f64::consts::FRAC_1_SQRT_2)) as f32,
        UnaryOp::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044_715 * wide * wide * wide);
            (wide * sigmoid(2.0 * inner)) as f32
        }
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Round => x.round_ties_even(),
        UnaryOp::Sign => {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                1f32.copysign(x)
            }
        }
        UnaryOp::Sin => wide.sin() as f32,
        UnaryOp::Cos => wide.cos() as f32,
        UnaryOp::Tan => wide.tan() as f32,
        UnaryOp::Asin => wide.asin() as f32,
        UnaryOp::Acos => wide.acos() as f32,
        UnaryOp::Atan => wide.atan() as f32,
        UnaryOp::Sinh => wide.sinh() as f32,
        UnaryOp::Cosh => wide.cosh() as f32,
        UnaryOp::Asinh => wide.asinh() as f32,
        UnaryOp::Acosh => wide.acosh() as f32,
        UnaryOp::Atanh => wide.atanh() as f32,
        UnaryOp::Not => flag(x == 0.0),
        UnaryOp::IsNan => flag(x.is_nan()),
    }
}

/// `op(a, b)`
#[must_use]
pub fn binary(op: BinaryOp, a: f32, b: f32) -> f32 {
    let flag = |holds: bool| f32::from(u8::from(holds));
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

/// `a` where it is preferred, else `b`; NaN from either side.
fn extreme(a: f32, b: f32, prefer_a: bool) -> f32 {
    if a.is_nan() || prefer_a { a } else { b }
}

/// max(lo, min(hi, x)), where NaN stays.
fn clamp(x: f32, lo: f32, hi: f32) -> f32 {
    let below = if x > hi { hi } else { x };
    if below < lo { lo } else { below }
}

fn keep_nan(x: f64, result: f64) -> f64 {
    if x.is_nan() { x } else { result }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn elu(x: f64, alpha: f64) -> f64 {
    if x > 0.0 { x } else { alpha * x.exp_m1() }
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

    /// Where operand number `index` goes before [`Interpreter::run`].
    pub fn operand(&mut self, index: usize) -> &mut [f32; BLOCK] {
        &mut self.values[index]
    }

    /// Computes the result of the first `count` elements from the operands that were filled in.
    pub fn run(&mut self, count: usize) -> &[f32] {
        let count = count.min(BLOCK);
        let inputs = self.program.inputs.len();
        for (place, step) in self.program.steps.iter().enumerate() {
            let (before, rest) = self.values.split_at_mut(inputs + place);
            let Some(result) = rest.first_mut() else { break };
            let of = |value: u8| before[usize::from(value)][..count].iter().copied();
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
