//! Programs as fields of keys: what a value that differs in one place looks like, for the laws that keys obey.
//!
//! The types are those of the kernels crate, which knows no keys.

use kiln_kernels::cpu::chain::{BinaryOp, Bits, Geometry, Program, Step, Storage, UnaryOp};

use crate::cache::Mutate;

crate::mutate! { enum Storage { F32, Bool } }
crate::mutate! { struct Geometry { dims, operands } }
crate::mutate! { struct Program { inputs, steps, output } }

/// A list of mutants in the making.
struct Mutants<T>(Vec<(String, T)>);

impl<T> Mutants<T> {
    /// The neighbours of one place, put back where they belong.
    fn place<P: Mutate>(&mut self, name: &str, place: &P, with: impl Fn(P) -> T) {
        self.0.extend(place.mutants().into_iter().map(|(_, value)| (name.to_owned(), with(value))));
    }
}

impl Mutate for Bits {
    fn sample() -> Bits {
        Bits(0)
    }

    fn mutants(&self) -> Vec<(String, Bits)> {
        self.0.mutants().into_iter().map(|(path, bits)| (path, Bits(bits))).collect()
    }
}

impl Mutate for UnaryOp {
    fn sample() -> UnaryOp {
        UnaryOp::Relu
    }

    fn mutants(&self) -> Vec<(String, UnaryOp)> {
        let zero = Bits(0);
        let others = [
            UnaryOp::Relu,
            UnaryOp::Gelu,
            UnaryOp::Clip { lo: zero, hi: zero },
            UnaryOp::LeakyRelu { alpha: zero },
            UnaryOp::Elu { alpha: zero },
            UnaryOp::Selu { alpha: zero, gamma: zero },
            UnaryOp::Celu { alpha: zero },
            UnaryOp::ThresholdedRelu { alpha: zero },
            UnaryOp::HardSigmoid { alpha: zero, beta: zero },
        ];
        let mut mutants = Mutants(Vec::new());
        match *self {
            UnaryOp::Clip { lo, hi } => {
                mutants.place("lo", &lo, |lo| UnaryOp::Clip { lo, hi });
                mutants.place("hi", &hi, |hi| UnaryOp::Clip { lo, hi });
            }
            UnaryOp::Selu { alpha, gamma } => {
                mutants.place("alpha", &alpha, |alpha| UnaryOp::Selu { alpha, gamma });
                mutants.place("gamma", &gamma, |gamma| UnaryOp::Selu { alpha, gamma });
            }
            UnaryOp::HardSigmoid { alpha, beta } => {
                mutants.place("alpha", &alpha, |alpha| UnaryOp::HardSigmoid { alpha, beta });
                mutants.place("beta", &beta, |beta| UnaryOp::HardSigmoid { alpha, beta });
            }
            UnaryOp::LeakyRelu { alpha } => mutants.place("alpha", &alpha, |alpha| UnaryOp::LeakyRelu { alpha }),
            UnaryOp::Elu { alpha } => mutants.place("alpha", &alpha, |alpha| UnaryOp::Elu { alpha }),
            UnaryOp::Celu { alpha } => mutants.place("alpha", &alpha, |alpha| UnaryOp::Celu { alpha }),
            UnaryOp::ThresholdedRelu { alpha } => {
                mutants.place("alpha", &alpha, |alpha| UnaryOp::ThresholdedRelu { alpha });
            }
            _ => {}
        }
        let differs = |op: &UnaryOp| std::mem::discriminant(op) != std::mem::discriminant(self);
        mutants.0.extend(others.into_iter().filter(differs).map(|op| (String::new(), op)));
        mutants.0
    }
}

impl Mutate for BinaryOp {
    fn sample() -> BinaryOp {
        BinaryOp::Add
    }

    fn mutants(&self) -> Vec<(String, BinaryOp)> {
        let others = [BinaryOp::Add, BinaryOp::Mul, BinaryOp::Less, BinaryOp::Pow];
        others.into_iter().filter(|op| op != self).map(|op| (String::new(), op)).collect()
    }
}

impl Mutate for Step {
    fn sample() -> Step {
        Step::Unary(UnaryOp::sample(), 0)
    }

    fn mutants(&self) -> Vec<(String, Step)> {
        let mut mutants = Mutants(Vec::new());
        match *self {
            Step::Const(bits) => mutants.place("const", &bits, Step::Const),
            Step::Unary(op, a) => {
                mutants.place("op", &op, |op| Step::Unary(op, a));
                mutants.place("a", &a, |a| Step::Unary(op, a));
            }
            Step::Binary(op, a, b) => {
                mutants.place("op", &op, |op| Step::Binary(op, a, b));
                mutants.place("a", &a, |a| Step::Binary(op, a, b));
                mutants.place("b", &b, |b| Step::Binary(op, a, b));
            }
            Step::Select { condition, on, off } => {
                mutants.place("condition", &condition, |condition| Step::Select { condition, on, off });
                mutants.place("on", &on, |on| Step::Select { condition, on, off });
                mutants.place("off", &off, |off| Step::Select { condition, on, off });
            }
        }
        let others = [
            Step::Const(Bits(0)),
            Step::Unary(UnaryOp::Relu, 0),
            Step::Binary(BinaryOp::Add, 0, 0),
            Step::Select { condition: 0, on: 0, off: 0 },
        ];
        let differs = |step: &Step| std::mem::discriminant(step) != std::mem::discriminant(self);
        mutants.0.extend(others.into_iter().filter(differs).map(|step| (String::new(), step)));
        mutants.0
    }
}
