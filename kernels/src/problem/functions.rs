//! The functions of one element, a row each: its name, its parameters and its definition in plain Rust.
//!
//! A definition after `f64` is computed in `f64` and rounded once. For NaN and infinities the formula decides. A new
//! function is a row here, and a row in `cpu/vecmath/functions.rs`, which does not compile without it; its bounds stand
//! in the tests there.

mod erf;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

pub use erf::{erf, erfc};

/// An `f32` by its bits, so that it can be compared and hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Mutate)]
pub struct Bits(pub u32);

impl Bits {
    /// The value.
    #[must_use]
    pub fn get(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl From<f32> for Bits {
    fn from(value: f32) -> Bits {
        Bits(value.to_bits())
    }
}

impl std::fmt::Debug for Bits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

/// The value of a row.
macro_rules! value {
    ($given:ident f64 |$x:ident| $value:expr) => {{
        let $x = f64::from($given);
        ($value) as f32
    }};
    ($given:ident |$x:ident| $value:expr) => {{
        let $x = $given;
        $value
    }};
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $({ $($field:ident),* })? => $($wide:ident)? |$x:ident| $value:expr;)*) => {
        /// A function of one element. Products and convolutions can apply it to their results before they store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
        #[allow(missing_docs, reason = "the field's names; parameters are ONNX's attributes")]
        #[non_exhaustive]
        pub enum UnaryOp {
            $($(#[$doc])* $name $({ $($field: Bits),* })?),*
        }

        impl UnaryOp {
            /// The definition.
            #[inline]
            pub(crate) fn value(self, given: f32) -> f32 {
                match self {
                    $(UnaryOp::$name $({ $($field),* })? => value!(given $($wide)? |$x| $value),)*
                }
            }
        }
    };
}

functions! {
    Abs => |x| x.abs();
    Neg => |x| -x;
    Reciprocal => |x| 1.0 / x;
    Sqrt => |x| x.sqrt();
    Exp => f64 |x| x.exp();
    Log => f64 |x| x.ln();
    Erf => f64 |x| erf(x);
    Tanh => f64 |x| x.tanh();
    Sigmoid => f64 |x| sigmoid(x);
    Relu => |x| clamp(x, 0.0, f32::INFINITY);
    /// max(lo, min(hi, x))
    Clip { lo, hi } => |x| clamp(x, lo.get(), hi.get());
    LeakyRelu { alpha } => |x| if x < 0.0 { alpha.get() * x } else { x };
    Elu { alpha } => f64 |x| elu(x, f64::from(alpha.get()));
    Selu { alpha, gamma } => f64 |x| f64::from(gamma.get()) * elu(x, f64::from(alpha.get()));
    Celu { alpha } => f64 |x| {
        let alpha = f64::from(alpha.get());
        keep_nan(x, x.max(0.0)) + keep_nan(x, (alpha * (x / alpha).exp_m1()).min(0.0))
    };
    ThresholdedRelu { alpha } => |x| if x > alpha.get() { x } else { 0.0 };
    HardSigmoid { alpha, beta } => |x| clamp(alpha.get() * x + beta.get(), 0.0, 1.0);
    /// x * max(0, min(1, x / 6 + 0.5))
    HardSwish => |x| x * clamp(x * (1.0 / 6.0) + 0.5, 0.0, 1.0);
    Softplus => f64 |x| keep_nan(x, x.max(0.0) + (-x.abs()).exp().ln_1p());
    Softsign => |x| x / (1.0 + x.abs());
    Mish => f64 |x| {
        let grown = x.min(700.0).exp();
        let m = grown.min(1e100) * (grown.min(1e100) + 2.0);
        keep_nan(x, x * (m / (m + 2.0)))
    };
    /// x * sigmoid(x)
    Silu => f64 |x| x * sigmoid(x);
    /// 0.5 x (1 + erf(x / sqrt 2))
    Gelu => f64 |x| 0.5 * x * erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    /// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    GeluTanh => f64 |x| {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
        x * sigmoid(2.0 * inner)
    };
    Floor => |x| x.floor();
    Ceil => |x| x.ceil();
    /// To nearest, halves to even.
    Round => |x| x.round_ties_even();
    /// -1, 0 or 1; NaN stays.
    Sign => |x| if x == 0.0 || x.is_nan() { x } else { 1f32.copysign(x) };
    Sin => f64 |x| x.sin();
    Cos => f64 |x| x.cos();
    Tan => f64 |x| x.tan();
    Asin => f64 |x| x.asin();
    Acos => f64 |x| x.acos();
    Atan => f64 |x| x.atan();
    Sinh => f64 |x| x.sinh();
    Cosh => f64 |x| x.cosh();
    Asinh => f64 |x| x.asinh();
    Acosh => f64 |x| x.acosh();
    Atanh => f64 |x| x.atanh();
    /// 1 where the element is zero, else 0: logical not on booleans held as 0 and 1.
    Not => |x| flag(x == 0.0);
    IsNan => |x| flag(x.is_nan());
}

/// 1 if it holds, else 0.
pub(crate) fn flag(holds: bool) -> f32 {
    f32::from(u8::from(holds))
}

/// max(lo, min(hi, x)); NaN stays NaN.
pub(crate) fn clamp(x: f32, lo: f32, hi: f32) -> f32 {
    let below = if x > hi { hi } else { x };
    if below < lo { lo } else { below }
}

/// The result, or NaN if `x` is NaN.
pub(crate) fn keep_nan(x: f64, result: f64) -> f64 {
    if x.is_nan() { x } else { result }
}

/// 1 / (1 + exp(-x))
pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// x if above zero, else alpha (exp(x) - 1).
pub(crate) fn elu(x: f64, alpha: f64) -> f64 {
    if x > 0.0 { x } else { alpha * x.exp_m1() }
}
