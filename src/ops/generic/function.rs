//! Functions of one float, in `f64`: exact enough to be the oracle of `f32` kernels. Knows nothing of tensors.

use std::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};

/// A function with its attributes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the operators' and attributes' names")]
pub(crate) enum Function {
    Reciprocal,
    Sqrt,
    Exp,
    Log,
    Erf,
    Sigmoid,
    LeakyRelu { alpha: f64 },
    Elu { alpha: f64 },
    Selu { alpha: f64, gamma: f64 },
    Celu { alpha: f64 },
    ThresholdedRelu { alpha: f64 },
    HardSigmoid { alpha: f64, beta: f64 },
    HardSwish,
    Softplus,
    Softsign,
    Mish,
    Gelu,
    GeluTanh,
    Swish { alpha: f64 },
    Shrink { bias: f64, lambd: f64 },
    Floor,
    Ceil,
    Round,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    IsNan,
    IsInf { positive: bool, negative: bool },
}

impl Function {
    /// Applies it to every element; predicates give 0 or 1.
    pub(super) fn apply(self, values: &mut [f64]) {
        match self {
            Function::Reciprocal => each(values, f64::recip),
            Function::Sqrt => each(values, f64::sqrt),
            Function::Exp => each(values, f64::exp),
            Function::Log => each(values, f64::ln),
            Function::Erf => each(values, erf),
            Function::Sigmoid => each(values, sigmoid),
            Function::LeakyRelu { alpha } => each(values, |x| if x < 0.0 { alpha * x } else { x }),
            Function::Elu { alpha } => each(values, |x| if x < 0.0 { alpha * x.exp_m1() } else { x }),
            Function::Selu { alpha, gamma } => {
                each(values, |x| gamma * if x > 0.0 { x } else { alpha * x.exp_m1() });
            }
            Function::Celu { alpha } => each(values, |x| if x < 0.0 { alpha * (x / alpha).exp_m1() } else { x }),
            Function::ThresholdedRelu { alpha } => each(values, |x| if x <= alpha { 0.0 } else { x }),
            Function::HardSigmoid { alpha, beta } => each(values, |x| (alpha * x + beta).clamp(0.0, 1.0)),
            Function::HardSwish => each(values, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
            Function::Softplus => each(values, softplus),
            Function::Softsign => each(values, |x| x / (1.0 + x.abs())),
            Function::Mish => each(values, |x| x * softplus(x).tanh()),
            Function::Gelu => each(values, |x| 0.5 * x * (1.0 + erf(x / SQRT_2))),
            Function::GeluTanh => each(values, |x| {
                let inner = FRAC_2_SQRT_PI / SQRT_2 * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }),
            Function::Swish { alpha } => each(values, |x| x * sigmoid(alpha * x)),
            Function::Shrink { bias, lambd } => each(values, |x| match x {
                _ if x < -lambd => x + bias,
                _ if x > lambd => x - bias,
                _ => 0.0,
            }),
            Function::Floor => each(values, f64::floor),
            Function::Ceil => each(values, f64::ceil),
            Function::Round => each(values, f64::round_ties_even),
            Function::Sin => each(values, f64::sin),
            Function::Cos => each(values, f64::cos),
            Function::Tan => each(values, f64::tan),
            Function::Asin => each(values, f64::asin),
            Function::Acos => each(values, f64::acos),
            Function::Atan => each(values, f64::atan),
            Function::Sinh => each(values, f64::sinh),
            Function::Cosh => each(values, f64::cosh),
            Function::Tanh => each(values, f64::tanh),
            Function::Asinh => each(values, f64::asinh),
            Function::Acosh => each(values, f64::acosh),
            Function::Atanh => each(values, f64::atanh),
            Function::IsNan => each(values, |x| f64::from(u8::from(x.is_nan()))),
            Function::IsInf { positive, negative } => each(values, |x| {
                let found = positive && x == f64::INFINITY || negative && x == f64::NEG_INFINITY;
                f64::from(u8::from(found))
            }),
        }
    }
}

fn each(values: &mut [f64], function: impl Fn(f64) -> f64) {
    values.iter_mut().for_each(|value| *value = function(*value));
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// ln(1 + exp(x)) without overflow.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p() + if x.is_nan() { x } else { 0.0 }
}

/// The error function, to about fifteen digits.
///
/// Near zero by the series 2/sqrt(pi) exp(-x^2) sum of 2^n x^(2n+1) / (2n+1)!!, whose terms are all of one sign; further
/// out by Lentz's evaluation of the continued fraction of its complement, which converges fast there.
pub(super) fn erf(x: f64) -> f64 {
    let size = x.abs();
    if x.is_nan() || x == 0.0 {
        return x;
    }
    // erfc(6) is below half a unit in the last place of 1.
    if size >= 6.0 {
        return 1f64.copysign(x);
    }
    let gauss = (-size * size).exp();
    if size < 2.5 {
        let (mut term, mut sum, mut n) = (size, size, 1.0);
        while term > sum * 1e-17 {
            term *= 2.0 * size * size / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        return (FRAC_2_SQRT_PI * gauss * sum).copysign(x);
    }
    // erfc(x) = exp(-x^2) / sqrt(pi) / (x + (1/2) / (x + 1 / (x + (3/2) / (x + ...)))), folded from 60 levels down.
    let fraction = (1..=60).rev().fold(size, |below, level| size + 0.5 * f64::from(level) / below);
    (1.0 - 0.5 * FRAC_2_SQRT_PI * gauss / fraction).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_agrees_with_published_values() {
        let table = [
            (0.1, 0.112_462_916_018_284_89),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (2.4, 0.999_311_486_103_355),
            (2.6, 0.999_763_965_583_470_7),
            (3.0, 0.999_977_909_503_001_4),
            (4.0, 0.999_999_984_582_742_1),
        ];
        for (x, expected) in table {
            assert!((erf(x) - expected).abs() < 4e-16 && erf(-x) == -erf(x), "erf({x}) = {}", erf(x));
        }
        assert!(erf(f64::NAN).is_nan());
        assert_eq!(erf(f64::NEG_INFINITY), -1.0);
    }

    #[test]
    fn functions_stay_finite_far_out_and_keep_nan() {
        for function in [Function::Softplus, Function::Mish, Function::Gelu, Function::Sigmoid] {
            let mut values = [1e4, -1e4, f64::NAN];
            function.apply(&mut values);
            assert!(values[0].is_finite() && values[1].is_finite() && values[2].is_nan(), "{function:?}: {values:?}");
        }
    }
}
