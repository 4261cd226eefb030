//! What one step may become, given the steps that it reads.

use super::Draft;
use crate::problem::chain::{BinaryOp, Step, UnaryOp};
use crate::reference::chain::{binary, unary};

impl Draft {
    /// The value that `step` stands for, after every rule that applies.
    pub(super) fn rewrite(&mut self, step: Step) -> u8 {
        match step {
            Step::Const(_) => self.intern(step),
            Step::Unary(op, a) => self.unary(op, a),
            Step::Binary(op, a, b) => self.binary(op, a, b),
            Step::Select { condition, on, off } => match self.constant(condition) {
                Some(known) => {
                    if known != 0.0 {
                        on
                    } else {
                        off
                    }
                }
                None if on == off => on,
                None => self.intern(step),
            },
        }
    }

    fn unary(&mut self, op: UnaryOp, a: u8) -> u8 {
        if let Some(known) = self.constant(a) {
            return self.number(unary(op, known));
        }
        match (op, self.step(a)) {
            (UnaryOp::Neg, Some(Step::Unary(UnaryOp::Neg, x))) => return x,
            (UnaryOp::Abs, Some(Step::Unary(UnaryOp::Neg, x))) => return self.unary(UnaryOp::Abs, x),
            (UnaryOp::Abs | UnaryOp::Relu, Some(Step::Unary(UnaryOp::Abs | UnaryOp::Relu | UnaryOp::Sigmoid, _))) => {
                return a;
            }
            (UnaryOp::Relu, Some(Step::Unary(UnaryOp::Clip { lo, hi }, x))) if hi.get() >= 0.0 => {
                let lo = lo.get().max(0.0).into();
                return self.unary(UnaryOp::Clip { lo, hi }, x);
            }
            (UnaryOp::Clip { lo, hi }, Some(Step::Unary(UnaryOp::Relu, x))) if lo.get() <= 0.0 && hi.get() >= 0.0 => {
                return self.unary(UnaryOp::Clip { lo: 0.0.into(), hi }, x);
            }
            (UnaryOp::Clip { lo, hi }, _) if lo.get() == f32::NEG_INFINITY && hi.get() == f32::INFINITY => return a,
            (UnaryOp::Clip { lo, hi }, _) if lo.get() == 0.0 && hi.get() == f32::INFINITY => {
                return self.unary(UnaryOp::Relu, a);
            }
            (UnaryOp::LeakyRelu { alpha }, _) if alpha.get() == 0.0 => return self.unary(UnaryOp::Relu, a),
            (UnaryOp::LeakyRelu { alpha }, _) if alpha.get() == 1.0 => return a,
            // log(e^x + 1)
            (UnaryOp::Log, Some(Step::Binary(BinaryOp::Add, sum, one))) if self.constant(one) == Some(1.0) => {
                if let Some(x) = self.argument(sum, UnaryOp::Exp) {
                    return self.unary(UnaryOp::Softplus, x);
                }
            }
            (UnaryOp::Reciprocal, _) => {
                if let Some(x) = self.one_plus_exp_neg(a) {
                    return self.unary(UnaryOp::Sigmoid, x);
                }
            }
            _ => {}
        }
        self.intern(Step::Unary(op, a))
    }

    /// x, if that value is e^-x + 1.
    fn one_plus_exp_neg(&self, value: u8) -> Option<u8> {
        let (sum, one) = self.with_constant(value, BinaryOp::Add)?;
        if one != 1.0 {
            return None;
        }
        self.argument(self.argument(sum, UnaryOp::Exp)?, UnaryOp::Neg)
    }

    fn binary(&mut self, op: BinaryOp, a: u8, b: u8) -> u8 {
        match (self.constant(a), self.constant(b)) {
            (Some(a), Some(b)) => self.number(binary(op, a, b)),
            // A constant goes to the right, where the emitter takes it from memory.
            (Some(_), None) => match mirrored(op) {
                Some(op) => self.binary(op, b, a),
                None => self.constant_first(op, a, b),
            },
            (None, Some(known)) => self.constant_second(op, a, b, known),
            (None, None) => self.two_values(op, a, b),
        }
    }

    fn constant_first(&mut self, op: BinaryOp, a: u8, b: u8) -> u8 {
        match op {
            BinaryOp::Div if self.constant(a) == Some(1.0) => self.unary(UnaryOp::Reciprocal, b),
            BinaryOp::Sub if self.constant(a) == Some(0.0) => self.unary(UnaryOp::Neg, b),
            _ => self.intern(Step::Binary(op, a, b)),
        }
    }

    fn constant_second(&mut self, op: BinaryOp, a: u8, b: u8, known: f32) -> u8 {
        match op {
            BinaryOp::Sub => {
                let negative = self.number(-known);
                self.binary(BinaryOp::Add, a, negative)
            }
            // Adding -0.0 changes nothing; adding 0.0 turns -0.0 into 0.0 and stays.
            BinaryOp::Add if known.to_bits() == (-0.0f32).to_bits() => a,
            BinaryOp::Mul | BinaryOp::Div if known == 1.0 => a,
            BinaryOp::Mul | BinaryOp::Div if known == -1.0 => self.unary(UnaryOp::Neg, a),
            BinaryOp::Div if is_power_of_two(known) => {
                let inverse = self.number(1.0 / known);
                self.binary(BinaryOp::Mul, a, inverse)
            }
            BinaryOp::Max if known == f32::NEG_INFINITY => a,
            BinaryOp::Min if known == f32::INFINITY => a,
            BinaryOp::Max if !known.is_nan() => self.clip(a, known, f32::INFINITY),
            BinaryOp::Min if !known.is_nan() => self.clip(a, f32::NEG_INFINITY, known),
            BinaryOp::Pow => self.power(a, b, known),
            BinaryOp::PRelu if !known.is_nan() => self.unary(UnaryOp::LeakyRelu { alpha: known.into() }, a),
            BinaryOp::Mul | BinaryOp::Div => self.gated(op, a, b),
            _ => self.intern(Step::Binary(op, a, b)),
        }
    }

    /// max(lo, min(hi, a)), merged with a clip that `a` may already be, where the order of bounds allows.
    fn clip(&mut self, a: u8, lo: f32, hi: f32) -> u8 {
        if let Some(Step::Unary(UnaryOp::Clip { lo: lower, hi: upper }, x)) = self.step(a) {
            let (low, high) = (lo.max(lower.get()), hi.min(upper.get()));
            if low <= high {
                return self.unary(UnaryOp::Clip { lo: low.into(), hi: high.into() }, x);
            }
        }
        self.unary(UnaryOp::Clip { lo: lo.into(), hi: hi.into() }, a)
    }

    /// Powers that are products, roots and quotients. A square root differs from the power at -inf and -0.0 alone.
    fn power(&mut self, a: u8, b: u8, exponent: f32) -> u8 {
        let square = |draft: &mut Draft, x| draft.binary(BinaryOp::Mul, x, x);
        match exponent {
            0.0 => self.number(1.0),
            1.0 => a,
            2.0 => square(self, a),
            3.0 => {
                let squared = square(self, a);
                self.binary(BinaryOp::Mul, squared, a)
            }
            4.0 => {
                let squared = square(self, a);
                square(self, squared)
            }
            0.5 => self.unary(UnaryOp::Sqrt, a),
            -1.0 => self.unary(UnaryOp::Reciprocal, a),
            -2.0 => {
                let squared = square(self, a);
                self.unary(UnaryOp::Reciprocal, squared)
            }
            -0.5 => {
                let root = self.unary(UnaryOp::Sqrt, a);
                self.unary(UnaryOp::Reciprocal, root)
            }
            _ => self.intern(Step::Binary(BinaryOp::Pow, a, b)),
        }
    }

    fn two_values(&mut self, op: BinaryOp, a: u8, b: u8) -> u8 {
        match op {
            BinaryOp::Max | BinaryOp::Min | BinaryOp::And | BinaryOp::Or if a == b => a,
            BinaryOp::Mul => self.gated(op, a, b),
            // Equal sums and the like are found equal whichever way round they are written.
            _ if mirrored(op) == Some(op) => self.intern(Step::Binary(op, a.min(b), a.max(b))),
            _ => self.intern(Step::Binary(op, a, b)),
        }
    }

    /// A product (or quotient by a constant), which may complete an activation written out.
    fn gated(&mut self, op: BinaryOp, a: u8, b: u8) -> u8 {
        let (a, b) = if op == BinaryOp::Mul && self.constant(b).is_none() { (a.min(b), a.max(b)) } else { (a, b) };
        let product = self.intern(Step::Binary(op, a, b));
        match self.activation(product) {
            Some((activation, x)) => self.unary(activation, x),
            None => product,
        }
    }
}

/// The operation that gives the same with its operands exchanged.
fn mirrored(op: BinaryOp) -> Option<BinaryOp> {
    match op {
        BinaryOp::Add
        | BinaryOp::Mul
        | BinaryOp::Max
        | BinaryOp::Min
        | BinaryOp::Equal
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor => Some(op),
        BinaryOp::Less => Some(BinaryOp::Greater),
        BinaryOp::LessOrEqual => Some(BinaryOp::GreaterOrEqual),
        BinaryOp::Greater => Some(BinaryOp::Less),
        BinaryOp::GreaterOrEqual => Some(BinaryOp::LessOrEqual),
        BinaryOp::Sub | BinaryOp::Div | BinaryOp::Pow | BinaryOp::Fmod | BinaryOp::PRelu => None,
    }
}

/// Whether the reciprocal of that number is exact: a power of two whose reciprocal is one too.
fn is_power_of_two(value: f32) -> bool {
    let mantissa = value.to_bits() & 0x007f_ffff;
    mantissa == 0 && value.is_normal() && (1.0 / value).is_normal()
}
