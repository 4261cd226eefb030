//! Formulas that definitions of several element-wise functions share, in plain Rust. The functions themselves are rows
//! of [`vecmath::functions`](crate::cpu::vecmath::functions).

mod erf;

pub use erf::{erf, erfc};

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
