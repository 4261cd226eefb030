//! The fused activation as keys hold it. What an activation computes is not known here.

use kiln_kernels::cpu::chain::{Bits, UnaryOp};
use serde::{Deserialize, Serialize};

use crate::cache::Mutate;

/// A function that an executor applies to its results before it stores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Activation(pub UnaryOp);

impl Mutate for Activation {
    fn sample() -> Activation {
        Activation(UnaryOp::Relu)
    }

    /// Another function, and each parameter changed: an activation is not the same with another slope.
    fn mutants(&self) -> Vec<(String, Activation)> {
        let samples = [
            UnaryOp::Relu,
            UnaryOp::Gelu,
            UnaryOp::Silu,
            UnaryOp::Clip { lo: Bits(0), hi: Bits(0) },
            UnaryOp::LeakyRelu { alpha: Bits(0) },
            UnaryOp::HardSigmoid { alpha: Bits(0), beta: Bits(0) },
        ];
        let mut mutants: Vec<(String, Activation)> = Vec::new();
        let mut parameter = |name: &str, bits: Bits, with: &dyn Fn(Bits) -> UnaryOp| {
            mutants
                .extend(bits.0.mutants().into_iter().map(|(_, bits)| (name.to_owned(), Activation(with(Bits(bits))))));
        };
        match self.0 {
            UnaryOp::Clip { lo, hi } => {
                parameter("lo", lo, &|lo| UnaryOp::Clip { lo, hi });
                parameter("hi", hi, &|hi| UnaryOp::Clip { lo, hi });
            }
            UnaryOp::LeakyRelu { alpha } => parameter("alpha", alpha, &|alpha| UnaryOp::LeakyRelu { alpha }),
            UnaryOp::HardSigmoid { alpha, beta } => {
                parameter("alpha", alpha, &|alpha| UnaryOp::HardSigmoid { alpha, beta });
                parameter("beta", beta, &|beta| UnaryOp::HardSigmoid { alpha, beta });
            }
            _ => (),
        }
        let others = samples.into_iter().filter(|op| std::mem::discriminant(op) != std::mem::discriminant(&self.0));
        mutants.extend(others.map(|op| (String::new(), Activation(op))));
        mutants
    }
}
