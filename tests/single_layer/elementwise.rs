//! Tables of element-wise operators, with and without broadcasting.

use kiln_model::ir::Attr;
use kiln_tensor::dtype::BoolByte;
use kiln_tensor::{DType, Tensor};

use crate::harness::{Fill, Layer, Step};
use crate::reference::{Array, broadcast_shape, build, erf, map, sigmoid, zip};

const STEPS: &[Step<'_>] =
    &[&[&[2, 3, 5]], &[&[4, 1, 5]], &[&[4, 1, 5]], &[&[7, 9, 5]], &[&[2, 3, 5]], &[&[1, 40, 5]], &[&[4, 1, 5]]];

fn unary(op: &str, fill: Fill, f: impl Fn(f64) -> f64) {
    unary_with(Layer::new(op, 13), fill, f);
}

fn unary_with(layer: Layer, fill: Fill, f: impl Fn(f64) -> f64) {
    layer.dynamic_of(&[-1, -1, 5], DType::F32, fill).tolerance(4e-6).check(STEPS, |x| vec![map(&x[0], &f)]);
}

#[test]
fn simple_functions() {
    unary("Relu", Fill::Unit, |x| x.max(0.0));
    unary("Abs", Fill::Unit, f64::abs);
    unary("Neg", Fill::Unit, |x| -x);
    unary("Sqrt", Fill::Positive, f64::sqrt);
    unary("Reciprocal", Fill::Positive, f64::recip);
    unary("Floor", Fill::Unit, f64::floor);
    unary("Ceil", Fill::Unit, f64::ceil);
}

#[test]
fn transcendental_functions() {
    unary("Exp", Fill::Unit, f64::exp);
    unary("Log", Fill::Positive, f64::ln);
    unary("Tanh", Fill::Unit, f64::tanh);
    unary("Sigmoid", Fill::Unit, sigmoid);
    unary("Erf", Fill::Unit, erf);
    unary("Softplus", Fill::Unit, |x| x.exp().ln_1p());
}

#[test]
fn trigonometric_functions() {
    unary("Sin", Fill::Unit, f64::sin);
    unary("Cos", Fill::Unit, f64::cos);
    unary("Tan", Fill::Unit, f64::tan);
    unary("Asin", Fill::Unit, f64::asin);
    unary("Acos", Fill::Unit, f64::acos);
    unary("Atan", Fill::Unit, f64::atan);
    unary("Sinh", Fill::Unit, f64::sinh);
    unary("Cosh", Fill::Unit, f64::cosh);
    unary("Asinh", Fill::Unit, f64::asinh);
    unary("Acosh", Fill::AboveOne, f64::acosh);
    unary("Atanh", Fill::Unit, f64::atanh);
}

#[test]
fn activations_of_few_models() {
    unary("Round", Fill::Unit, f64::round_ties_even);
    unary("Sign", Fill::Unit, f64::signum);
    unary("Softsign", Fill::Unit, |x| x / (1.0 + x.abs()));
    unary_with(Layer::new("HardSwish", 14), Fill::Unit, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0));
    unary_with(Layer::new("Mish", 18), Fill::Unit, |x| x * x.exp().ln_1p().tanh());
    unary_with(Layer::new("Swish", 24), Fill::Unit, |x| x * sigmoid(x));
    unary_with(Layer::new("Shrink", 9), Fill::Unit, |x| if x.abs() > 0.5 { x } else { 0.0 });
    let alpha = |op: &str, alpha: f32| Layer::new(op, 13).attr("alpha", Attr::Float(alpha));
    unary_with(alpha("ThresholdedRelu", 0.25), Fill::Unit, |x| if x > 0.25 { x } else { 0.0 });
    unary_with(alpha("Celu", 2.0), Fill::Unit, |x| if x < 0.0 { 2.0 * (x / 2.0).exp_m1() } else { x });
    let selu = alpha("Selu", 1.5).attr("gamma", Attr::Float(1.25));
    unary_with(selu, Fill::Unit, |x| 1.25 * if x < 0.0 { 1.5 * x.exp_m1() } else { x });
}

#[test]
fn functions_with_attributes() {
    let alpha = |op: &str, alpha: f32| Layer::new(op, 13).attr("alpha", Attr::Float(alpha));
    unary_with(alpha("LeakyRelu", 0.1), Fill::Unit, |x| if x < 0.0 { f64::from(0.1f32) * x } else { x });
    unary_with(alpha("Elu", 1.5), Fill::Unit, |x| if x < 0.0 { 1.5 * x.exp_m1() } else { x });
    unary_with(alpha("HardSigmoid", 0.25), Fill::Unit, |x| (0.25 * x + 0.5).clamp(0.0, 1.0));
    let gelu = |x: f64| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()));
    unary_with(Layer::new("Gelu", 20), Fill::Unit, gelu);
}

#[test]
fn clip_with_bounds_as_inputs() {
    Layer::new("Clip", 13)
        .dynamic(&[-1, -1, 5])
        .constant(Tensor::scalar(-0.25f32))
        .constant(Tensor::scalar(0.5f32))
        .check(STEPS, |x| vec![map(&x[0], |v| v.clamp(-0.25, 0.5))]);
}

/// The same operator in every way that its operands can broadcast.
fn binary(op: &str, f: impl Fn(f64, f64) -> f64) {
    let steps: &[Step<'_>] = &[
        &[&[2, 3, 20], &[2, 3, 20]],
        &[&[2, 3, 20], &[1, 1, 20]],
        &[&[2, 3, 20], &[1, 1, 20]],
        &[&[4, 1, 1], &[4, 5, 33]],
        &[&[2, 6, 1], &[2, 1, 9]],
        &[&[2, 3, 20], &[2, 3, 20]],
        &[&[4, 1, 1], &[4, 5, 33]],
    ];
    Layer::new(op, 14)
        .dynamic(&[-1, -1, -1])
        .dynamic_of(&[-1, -1, -1], DType::F32, Fill::Positive)
        .tolerance(4e-6)
        .check(steps, |x| vec![zip(&x[0], &x[1], &f)]);
}

#[test]
fn arithmetic_with_broadcasting() {
    binary("Add", |a, b| a + b);
    binary("Sub", |a, b| a - b);
    binary("Mul", |a, b| a * b);
    binary("Div", |a, b| a / b);
    binary("Max", f64::max);
    binary("Min", f64::min);
    binary("Mean", |a, b| (a + b) / 2.0);
}

#[test]
fn remainders_of_floats() {
    let steps: &[Step<'_>] = &[&[&[2, 9], &[2, 9]], &[&[3, 4], &[1, 4]], &[&[3, 4], &[1, 4]], &[&[2, 9], &[2, 9]]];
    let layer = Layer::new("Mod", 13).int("fmod", 1).dynamic(&[-1, -1]);
    let layer = layer.dynamic_of(&[-1, -1], DType::F32, Fill::Positive);
    layer.check(steps, |x| vec![zip(&x[0], &x[1], |a, b| a % b)]);
}

/// A slope stretches to its input, never the other way.
#[test]
fn slopes_by_channel() {
    let steps: &[Step<'_>] = &[&[&[2, 3, 20]], &[&[4, 3, 9]], &[&[4, 3, 9]], &[&[2, 3, 20]]];
    Layer::new("PRelu", 16)
        .dynamic(&[-1, 3, -1])
        .weights(&[3, 1])
        .check(steps, |x| vec![zip(&x[0], &x[1], |x, slope| if x < 0.0 { slope * x } else { x })]);
}

#[test]
fn sums_of_several_operands() {
    let steps: &[Step<'_>] = &[&[&[2, 9], &[2, 9]], &[&[3, 4], &[3, 4]], &[&[3, 4], &[3, 4]], &[&[2, 9], &[2, 9]]];
    Layer::new("Sum", 13)
        .dynamic(&[-1, -1])
        .dynamic(&[-1, -1])
        .weights(&[1])
        .check(steps, |x| vec![zip(&zip(&x[0], &x[1], |a, b| a + b), &x[2], |a, b| a + b)]);
}

#[test]
fn powers() {
    for exponent in [2.0f32, 3.0, 0.5, -1.5] {
        Layer::new("Pow", 13)
            .dynamic_of(&[-1, -1, 5], DType::F32, Fill::Positive)
            .constant(Tensor::scalar(exponent))
            .tolerance(4e-6)
            .check(STEPS, |x| vec![map(&x[0], |v| v.powf(f64::from(exponent)))]);
    }
}

#[test]
fn where_selects_by_a_broadcast_condition() {
    let steps: &[Step<'_>] = &[
        &[&[1, 1, 5, 5], &[2, 3, 5, 5]],
        &[&[1, 1, 1, 9], &[1, 3, 1, 9]],
        &[&[1, 1, 1, 9], &[1, 3, 1, 9]],
        &[&[1, 1, 5, 5], &[2, 3, 5, 5]],
    ];
    Layer::new("Where", 16)
        .dynamic_of(&[1, 1, -1, -1], DType::Bool, Fill::Unit)
        .dynamic(&[-1, 3, -1, -1])
        .constant(Tensor::scalar(-1e9f32))
        .check(steps, |x| {
            let condition: Vec<f64> =
                x[0].as_slice::<BoolByte>().unwrap().iter().map(|b| f64::from(u8::from(b.get()))).collect();
            let condition = Array { shape: x[0].shape().to_vec(), data: condition };
            let on = Array::of(&x[1]);
            let shape = broadcast_shape(&[&condition.shape, &on.shape]);
            vec![build(&shape, |at| if condition.broadcast(at) != 0.0 { on.broadcast(at) } else { -1e9 }).tensor()]
        });
}

#[test]
fn comparisons_make_booleans() {
    let steps: &[Step<'_>] = &[&[&[2, 9], &[2, 9]], &[&[3, 40], &[1, 40]], &[&[3, 40], &[1, 40]], &[&[2, 9], &[2, 9]]];
    let table = |op: &str, f: fn(f64, f64) -> bool| {
        Layer::new(op, 16).dynamic(&[-1, -1]).dynamic(&[-1, -1]).check(steps, |x| {
            let (a, b) = (Array::of(&x[0]), Array::of(&x[1]));
            let shape = broadcast_shape(&[&a.shape, &b.shape]);
            let y = build(&shape, |at| f64::from(u8::from(f(a.broadcast(at), b.broadcast(at)))));
            let bytes: Vec<BoolByte> = y.data.iter().map(|&v| (v != 0.0).into()).collect();
            vec![Tensor::from_vec(shape, bytes).unwrap()]
        });
    };
    table("Less", |a, b| a < b);
    table("LessOrEqual", |a, b| a <= b);
    table("Greater", |a, b| a > b);
    table("GreaterOrEqual", |a, b| a >= b);
    table("Equal", |a, b| a == b);
}

/// Booleans as numbers.
fn numbers(tensor: &Tensor) -> Array {
    let data = tensor.as_slice::<BoolByte>().unwrap().iter().map(|value| f64::from(u8::from(value.get()))).collect();
    Array { shape: tensor.shape().to_vec(), data }
}

/// Which elements of an array are not zero.
fn booleans(array: &Array) -> Tensor {
    let bytes: Vec<BoolByte> = array.data.iter().map(|&value| (value != 0.0).into()).collect();
    Tensor::from_vec(array.shape.clone(), bytes).unwrap()
}

#[test]
fn logic() {
    let steps: &[Step<'_>] = &[&[&[2, 9], &[2, 9]], &[&[3, 40], &[1, 40]], &[&[3, 40], &[1, 40]], &[&[2, 9], &[2, 9]]];
    let table = |op: &str, f: fn(bool, bool) -> bool| {
        let layer = Layer::new(op, 7).dynamic_of(&[-1, -1], DType::Bool, Fill::Unit);
        layer.dynamic_of(&[-1, -1], DType::Bool, Fill::Unit).check(steps, |x| {
            let (a, b) = (numbers(&x[0]), numbers(&x[1]));
            let holds = |at: &[usize]| f64::from(u8::from(f(a.broadcast(at) != 0.0, b.broadcast(at) != 0.0)));
            vec![booleans(&build(&broadcast_shape(&[&a.shape, &b.shape]), holds))]
        });
    };
    table("And", |a, b| a && b);
    table("Or", |a, b| a || b);
    table("Xor", |a, b| a != b);
    let layer = Layer::new("Not", 1).dynamic_of(&[-1, -1, 5], DType::Bool, Fill::Unit);
    layer.check(STEPS, |x| {
        let x = numbers(&x[0]);
        vec![booleans(&build(&x.shape, |at| 1.0 - x.get(at)))]
    });
    for op in ["IsNaN", "IsInf"] {
        let layer = Layer::new(op, 20).dynamic(&[-1, -1, 5]);
        layer.check(STEPS, |x| vec![booleans(&build(x[0].shape(), |_| 0.0))]);
    }
}
