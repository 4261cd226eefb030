//! Functions of two elements in CUDA C, and helpers of the functions of one element, whose CUDA C is in their row of
//! [`functions`](crate::cpu::vecmath::functions). They compute what [`reference::chain`](crate::reference::chain)
//! defines, in single precision.
//!
//! They call the plain functions of the math library, whose errors are a few units in the last place, and none of its
//! fast functions. Where a formula would lose NaN or digits, it is written as in the reference.

use crate::cpu::chain::{BinaryOp, Step};

pub(super) use crate::cpu::vecmath::functions::literal;

/// Helpers that expressions call.
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

/// `op(a, b)`, of two variables.
fn binary(op: BinaryOp, a: &str, b: &str) -> String {
    match op {
        BinaryOp::Add => format!("{a} + {b}"),
        BinaryOp::Sub => format!("{a} - {b}"),
        BinaryOp::Mul => format!("{a} * {b}"),
        BinaryOp::Div => format!("{a} / {b}"),
        // A comparison with NaN is false, which chooses a NaN in the second operand.
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

/// The expression of a step. Values are the variables `v0`, `v1` and so on.
pub(super) fn step(step: &Step) -> String {
    match *step {
        Step::Const(bits) => literal(bits),
        Step::Unary(op, a) => op.cuda(&format!("v{a}")),
        Step::Binary(op, a, b) => binary(op, &format!("v{a}"), &format!("v{b}")),
        Step::Select { condition, on, off } => format!("v{condition} != 0.0f ? v{on} : v{off}"),
    }
}
