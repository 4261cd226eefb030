//! The functions of element-wise chains in CUDA C, by the definitions of
//! [`reference::chain`](crate::reference::chain), in single precision.
//!
//! They call the plain functions of the math library, whose errors are a few units in the last place, and none of the fast
//! ones. Where a formula would lose NaN or digits, it is written as the reference writes it.

use crate::cpu::chain::{BinaryOp, Bits, Step, UnaryOp};

/// What the expressions below call.
pub(super) const FUNCTIONS: &str = r"KILN_DEVICE float kiln_flag(int holds) { return holds ? 1.0f : 0.0f; }
KILN_DEVICE float kiln_clamp(float x, float lo, float hi)
{
    float below = x > hi ? hi : x;
    return below < lo ? lo : below;
}
KILN_DEVICE float kiln_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
KILN_DEVICE float kiln_elu(float x, float alpha) { return x > 0.0f ? x : alpha * expm1f(x); }
KILN_DEVICE float kiln_celu(float x, float alpha)
{
    float grown = alpha * expm1f(x / alpha);
    return x != x ? x : (x > 0.0f ? x : 0.0f) + (grown < 0.0f ? grown : 0.0f);
}
KILN_DEVICE float kiln_softplus(float x) { return (x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x))); }
KILN_DEVICE float kiln_mish(float x)
{
    /* Beyond 20 the factor is 1 in single precision, and its parts would overflow later on. */
    float grown = expf(x < 20.0f ? x : 20.0f);
    float m = grown * (grown + 2.0f);
    return x < 20.0f ? x * (m / (m + 2.0f)) : x;
}
KILN_DEVICE float kiln_sign(float x) { return x == 0.0f || x != x ? x : copysignf(1.0f, x); }
";

/// A float by its bits.
pub(super) fn literal(bits: Bits) -> String {
    format!("KILN_BITS(0x{:08x}u)", bits.0)
}

/// `op(x)`, where `x` is a name.
fn unary(op: UnaryOp, x: &str) -> String {
    match op {
        UnaryOp::Abs => format!("fabsf({x})"),
        UnaryOp::Neg => format!("-{x}"),
        UnaryOp::Reciprocal => format!("1.0f / {x}"),
        UnaryOp::Sqrt => format!("sqrtf({x})"),
        UnaryOp::Exp => format!("expf({x})"),
        UnaryOp::Log => format!("logf({x})"),
        UnaryOp::Erf => format!("erff({x})"),
        UnaryOp::Tanh => format!("tanhf({x})"),
        UnaryOp::Sigmoid => format!("kiln_sigmoid({x})"),
        UnaryOp::Relu => format!("{x} < 0.0f ? 0.0f : {x}"),
        UnaryOp::Clip { lo, hi } => format!("kiln_clamp({x}, {}, {})", literal(lo), literal(hi)),
        UnaryOp::LeakyRelu { alpha } => format!("{x} < 0.0f ? {} * {x} : {x}", literal(alpha)),
        UnaryOp::Elu { alpha } => format!("kiln_elu({x}, {})", literal(alpha)),
        UnaryOp::Selu { alpha, gamma } => format!("{} * kiln_elu({x}, {})", literal(gamma), literal(alpha)),
        UnaryOp::Celu { alpha } => format!("kiln_celu({x}, {})", literal(alpha)),
        UnaryOp::ThresholdedRelu { alpha } => format!("{x} > {} ? {x} : 0.0f", literal(alpha)),
        UnaryOp::HardSigmoid { alpha, beta } => {
            format!("kiln_clamp({} * {x} + {}, 0.0f, 1.0f)", literal(alpha), literal(beta))
        }
        UnaryOp::HardSwish => format!("{x} * kiln_clamp({x} * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f)"),
        UnaryOp::Softplus => format!("kiln_softplus({x})"),
        UnaryOp::Softsign => format!("{x} / (1.0f + fabsf({x}))"),
        UnaryOp::Mish => format!("kiln_mish({x})"),
        UnaryOp::Silu => format!("{x} * kiln_sigmoid({x})"),
        // The root of one half, and 2 sqrt(2 / pi).
        UnaryOp::Gelu => format!("0.5f * {x} * erfcf(-{x} * 0.70710678118654752f)"),
        UnaryOp::GeluTanh => {
            format!("{x} * kiln_sigmoid(1.5957691216057308f * ({x} + 0.044715f * {x} * {x} * {x}))")
        }
        UnaryOp::Floor => format!("floorf({x})"),
        UnaryOp::Ceil => format!("ceilf({x})"),
        UnaryOp::Round => format!("rintf({x})"),
        UnaryOp::Sign => format!("kiln_sign({x})"),
        UnaryOp::Sin => format!("sinf({x})"),
        UnaryOp::Cos => format!("cosf({x})"),
        UnaryOp::Tan => format!("tanf({x})"),
        UnaryOp::Asin => format!("asinf({x})"),
        UnaryOp::Acos => format!("acosf({x})"),
        UnaryOp::Atan => format!("atanf({x})"),
        UnaryOp::Sinh => format!("sinhf({x})"),
        UnaryOp::Cosh => format!("coshf({x})"),
        UnaryOp::Asinh => format!("asinhf({x})"),
        UnaryOp::Acosh => format!("acoshf({x})"),
        UnaryOp::Atanh => format!("atanhf({x})"),
        UnaryOp::Not => format!("kiln_flag({x} == 0.0f)"),
        UnaryOp::IsNan => format!("kiln_flag({x} != {x})"),
    }
}

/// `op(a, b)`, where both are names.
fn binary(op: BinaryOp, a: &str, b: &str) -> String {
    match op {
        BinaryOp::Add => format!("{a} + {b}"),
        BinaryOp::Sub => format!("{a} - {b}"),
        BinaryOp::Mul => format!("{a} * {b}"),
        BinaryOp::Div => format!("{a} / {b}"),
        // Nothing compares with NaN, so that of the second operand is what is left.
        BinaryOp::Max => format!("{a} != {a} || {a} > {b} ? {a} : {b}"),
        BinaryOp::Min => format!("{a} != {a} || {a} < {b} ? {a} : {b}"),
        BinaryOp::Pow => format!("powf({a}, {b})"),
        BinaryOp::Fmod => format!("fmodf({a}, {b})"),
        BinaryOp::PRelu => format!("{a} < 0.0f ? {a} * {b} : {a}"),
        BinaryOp::Equal => format!("kiln_flag({a} == {b})"),
        BinaryOp::Less => format!("kiln_flag({a} < {b})"),
        BinaryOp::LessOrEqual => format!("kiln_flag({a} <= {b})"),
        BinaryOp::Greater => format!("kiln_flag({a} > {b})"),
        BinaryOp::GreaterOrEqual => format!("kiln_flag({a} >= {b})"),
        BinaryOp::And => format!("kiln_flag({a} != 0.0f && {b} != 0.0f)"),
        BinaryOp::Or => format!("kiln_flag({a} != 0.0f || {b} != 0.0f)"),
        BinaryOp::Xor => format!("kiln_flag(({a} != 0.0f) != ({b} != 0.0f))"),
    }
}

/// The value of a step, of which the values have the names `v0`, `v1` and so on.
pub(super) fn step(step: &Step) -> String {
    match *step {
        Step::Const(bits) => literal(bits),
        Step::Unary(op, a) => unary(op, &format!("v{a}")),
        Step::Binary(op, a, b) => binary(op, &format!("v{a}"), &format!("v{b}")),
        Step::Select { condition, on, off } => format!("v{condition} != 0.0f ? v{on} : v{off}"),
    }
}
