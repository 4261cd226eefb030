//! Element-wise operators. A new one is a row here; a function that no kernel has yet is added to [`UnaryOp`] in the
//! kernels crate.
//!
//! A row has the operator's name, the versions that defined it, its attributes with their defaults, its program over
//! `f32` and booleans, and its arithmetic in `f64` or in wide integers for all other types, which is also the oracle of
//! the program.

use std::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};

use kiln_kernels::cpu::chain::{BinaryOp, Program, UnaryOp};
use kiln_tensor::DType;

use crate::operators::arithmetic::Arithmetic::PerElement;
use crate::operators::attributes::{Attribute, choice, int, number, optional, required, text, word};
use crate::operators::device::{Device, Form};
use crate::operators::float::{each, erf, sigmoid, softplus};
use crate::operators::lower::{Given, Lower};
use crate::operators::row::{
    Applied, Broadcast, Count, ElementWise, Elements, Folds, Layout, Operands, Operator, Shapes, Takes, Types,
    at_least, between, exactly,
};
use crate::operators::wide::{Binary, Float, Unary, Wide};
use crate::operators::work::Work;
use crate::operators::{elements, kinds, work};

/// Any element-wise operator: its operands broadcast to each other and are of one type, which is that of the result.
const fn row(
    name: &'static str,
    since: &'static [u8],
    inputs: Count,
    attributes: &'static [Attribute],
    takes: Takes,
    lower: Lower,
    wide: Wide,
) -> Operator {
    let (operands, broadcast) = (Operands::Alike, Broadcast::All);
    // Kernels take floats and booleans; gates are one pass in plain Rust.
    let work = match (wide, takes) {
        (Wide::Gated(_), _) => Work::Plain(work::BOUND_BY_MEMORY),
        (_, Takes::Integers | Takes::Texts) => Work::Plain(work::NO_KERNELS),
        _ => Work::Key,
    };
    Operator {
        types: Types::Inputs,
        shapes: Shapes::Broadcast,
        layout: Layout::ElementWise,
        element_wise: Some(ElementWise { operands, broadcast, takes, lower, wide: Some(wide) }),
        ..Operator::new(work, PerElement, "", name, since, inputs, attributes)
    }
}

/// The same operator, which is a program on `f32` for all attributes, so that devices run it too.
const fn everywhere(row: Operator) -> Operator {
    Operator { device: Device::Form(Form::FOLLOWS), ..row }
}

/// A function of one float.
const fn float(
    name: &'static str,
    since: &'static [u8],
    attributes: &'static [Attribute],
    lower: Lower,
    wide: Float,
) -> Operator {
    everywhere(row(name, since, exactly(1), attributes, Takes::Floats, lower, Wide::Float(wide)))
}

/// A function of one number.
const fn one(name: &'static str, since: &'static [u8], lower: Lower, wide: Unary) -> Operator {
    everywhere(row(name, since, exactly(1), &[], Takes::Numbers, lower, Wide::Unary(wide)))
}

/// A function of two numbers.
const fn two(name: &'static str, since: &'static [u8], lower: Lower, wide: Binary) -> Operator {
    everywhere(row(name, since, exactly(2), &[], Takes::Numbers, lower, Wide::Binary(wide)))
}

/// The same operator, which cells of recurrent layers and products apply by its name.
const fn in_cells(row: Operator) -> Operator {
    Operator { applied: Applied::ByCells, ..row }
}

/// The same operator, which products apply by its name.
const fn in_products(row: Operator) -> Operator {
    Operator { applied: Applied::ByProducts, ..row }
}

/// The same operator, of ONNX Runtime's domain.
const fn microsoft(row: Operator) -> Operator {
    Operator { domain: "com.microsoft", ..row }
}

/// Any number of numbers, one after the other.
const fn fold(name: &'static str, since: &'static [u8], lower: Lower, step: Binary, mean: bool) -> Operator {
    everywhere(row(name, since, at_least(1), &[], Takes::Numbers, lower, Wide::Fold { step, mean }))
}

/// The same operator with a boolean for a result, which stays with the processor.
const fn predicate(row: Operator) -> Operator {
    Operator { types: Types::Is(DType::Bool), device: Device::None, ..row }
}

/// A comparison of two numbers.
const fn comparison(name: &'static str, since: &'static [u8], lower: Lower, wide: Binary) -> Operator {
    predicate(two(name, since, lower, wide))
}

/// A function of two booleans.
const fn logic(name: &'static str, lower: Lower, wide: Binary) -> Operator {
    predicate(row(name, &[1, 7], exactly(2), &[], Takes::Booleans, lower, Wide::Binary(wide)))
}

/// A function of the bits of integers, without a program.
const fn bitwise(
    name: &'static str,
    since: &'static [u8],
    inputs: Count,
    attributes: &'static [Attribute],
    wide: Wide,
) -> Operator {
    row(name, since, inputs, attributes, Takes::Integers, |_| None, wide)
}

/// The same operator with other operands.
const fn with(row: Operator, operands: Operands, broadcast: Broadcast) -> Operator {
    match row.element_wise {
        Some(element_wise) => {
            Operator { element_wise: Some(ElementWise { operands, broadcast, ..element_wise }), ..row }
        }
        None => row,
    }
}

/// The same operator, which also computes shapes.
const fn followed(row: Operator, elements: Elements) -> Operator {
    Operator { elements: Some(elements), ..row }
}

/// The dimensions and the type of the result are those of the first operand.
const fn like_first(row: Operator) -> Operator {
    Operator { types: Types::Input(0), shapes: Shapes::Input(0), ..row }
}

pub(in crate::operators) const ROWS: &[Operator] = &[
    one("Abs", &[1, 6, 13], |g| g.function(UnaryOp::Abs), Unary::Abs),
    one("Neg", &[1, 6, 13], |g| g.function(UnaryOp::Neg), Unary::Neg),
    one("Sign", &[9, 13], |g| g.function(UnaryOp::Sign), Unary::Sign),
    in_cells(one("Relu", &[1, 6, 13, 14], |g| g.function(UnaryOp::Relu), Unary::Relu)),
    float("Reciprocal", &[1, 6, 13], &[], |g| g.function(UnaryOp::Reciprocal), |x, _| each(x, f64::recip)),
    float("Sqrt", &[1, 6, 13], &[], |g| g.function(UnaryOp::Sqrt), |x, _| each(x, f64::sqrt)),
    float("Exp", &[1, 6, 13], &[], |g| g.function(UnaryOp::Exp), |x, _| each(x, f64::exp)),
    float("Log", &[1, 6, 13], &[], |g| g.function(UnaryOp::Log), |x, _| each(x, f64::ln)),
    float("Erf", &[9, 13], &[], |g| g.function(UnaryOp::Erf), |x, _| each(x, erf)),
    float("Floor", &[1, 6, 13], &[], |g| g.function(UnaryOp::Floor), |x, _| each(x, f64::floor)),
    float("Ceil", &[1, 6, 13], &[], |g| g.function(UnaryOp::Ceil), |x, _| each(x, f64::ceil)),
    float("Round", &[11, 22], &[], |g| g.function(UnaryOp::Round), |x, _| each(x, f64::round_ties_even)),
    float("Sin", &[7, 22], &[], |g| g.function(UnaryOp::Sin), |x, _| each(x, f64::sin)),
    float("Cos", &[7, 22], &[], |g| g.function(UnaryOp::Cos), |x, _| each(x, f64::cos)),
    float("Tan", &[7, 22], &[], |g| g.function(UnaryOp::Tan), |x, _| each(x, f64::tan)),
    float("Asin", &[7, 22], &[], |g| g.function(UnaryOp::Asin), |x, _| each(x, f64::asin)),
    float("Acos", &[7, 22], &[], |g| g.function(UnaryOp::Acos), |x, _| each(x, f64::acos)),
    float("Atan", &[7, 22], &[], |g| g.function(UnaryOp::Atan), |x, _| each(x, f64::atan)),
    float("Sinh", &[9, 22], &[], |g| g.function(UnaryOp::Sinh), |x, _| each(x, f64::sinh)),
    float("Cosh", &[9, 22], &[], |g| g.function(UnaryOp::Cosh), |x, _| each(x, f64::cosh)),
    in_cells(float("Tanh", &[1, 6, 13], &[], |g| g.function(UnaryOp::Tanh), |x, _| each(x, f64::tanh))),
    float("Asinh", &[9, 22], &[], |g| g.function(UnaryOp::Asinh), |x, _| each(x, f64::asinh)),
    float("Acosh", &[9, 22], &[], |g| g.function(UnaryOp::Acosh), |x, _| each(x, f64::acosh)),
    float("Atanh", &[9, 22], &[], |g| g.function(UnaryOp::Atanh), |x, _| each(x, f64::atanh)),
    in_cells(float("Sigmoid", &[1, 6, 13], &[], |g| g.function(UnaryOp::Sigmoid), |x, _| each(x, sigmoid))),
    in_cells(float("Softplus", &[1, 22], &[], |g| g.function(UnaryOp::Softplus), |x, _| each(x, softplus))),
    in_cells(float(
        "Softsign",
        &[1, 22],
        &[],
        |g| g.function(UnaryOp::Softsign),
        |x, _| each(x, |x| x / (1.0 + x.abs())),
    )),
    float("Mish", &[18, 22], &[], |g| g.function(UnaryOp::Mish), |x, _| each(x, |x| x * softplus(x).tanh())),
    float(
        "HardSwish",
        &[14, 22],
        &[],
        |g| g.function(UnaryOp::HardSwish),
        |x, _| each(x, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
    ),
    in_cells(float(
        "LeakyRelu",
        &[1, 6, 16],
        &[number("alpha", 0.01)],
        |g| g.function(UnaryOp::LeakyRelu { alpha: g.bits("alpha") }),
        |x, &[alpha, _]| each(x, |x| if x < 0.0 { alpha * x } else { x }),
    )),
    in_cells(float(
        "Elu",
        &[1, 6, 22],
        &[number("alpha", 1.0)],
        |g| g.function(UnaryOp::Elu { alpha: g.bits("alpha") }),
        |x, &[alpha, _]| each(x, |x| if x < 0.0 { alpha * x.exp_m1() } else { x }),
    )),
    in_products(float(
        "Selu",
        &[1, 6, 22],
        &[number("alpha", 1.673_263_2), number("gamma", 1.050_701)],
        |g| g.function(UnaryOp::Selu { alpha: g.bits("alpha"), gamma: g.bits("gamma") }),
        |x, &[alpha, gamma]| each(x, |x| gamma * if x > 0.0 { x } else { alpha * x.exp_m1() }),
    )),
    float(
        "Celu",
        &[12, 28],
        &[number("alpha", 1.0)],
        |g| g.function(UnaryOp::Celu { alpha: g.bits("alpha") }),
        |x, &[alpha, _]| each(x, |x| if x < 0.0 { alpha * (x / alpha).exp_m1() } else { x }),
    ),
    in_cells(float(
        "ThresholdedRelu",
        &[10, 22],
        &[number("alpha", 1.0)],
        |g| g.function(UnaryOp::ThresholdedRelu { alpha: g.bits("alpha") }),
        |x, &[alpha, _]| each(x, |x| if x <= alpha { 0.0 } else { x }),
    )),
    in_cells(float(
        "HardSigmoid",
        &[1, 6, 22],
        &[number("alpha", 0.2), number("beta", 0.5)],
        |g| g.function(UnaryOp::HardSigmoid { alpha: g.bits("alpha"), beta: g.bits("beta") }),
        |x, &[alpha, beta]| each(x, |x| (alpha * x + beta).clamp(0.0, 1.0)),
    )),
    float(
        "Gelu",
        &[20],
        &[choice("approximate", &["none", "tanh"])],
        |g| g.function(if g.choice("approximate")? == 0 { UnaryOp::Gelu } else { UnaryOp::GeluTanh }),
        |x, &[approximate, _]| match approximate {
            0.0 => each(x, |x| 0.5 * x * (1.0 + erf(x / SQRT_2))),
            _ => each(x, |x| {
                let inner = FRAC_2_SQRT_PI / SQRT_2 * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }),
        },
    ),
    float("Swish", &[24], &[number("alpha", 1.0)], lower_swish, swish),
    microsoft(float("QuickGelu", &[1], &[number("alpha", 1.702)], lower_swish, swish)),
    everywhere(row(
        "Shrink",
        &[9],
        exactly(1),
        &[number("bias", 0.0), number("lambd", 0.5)],
        Takes::Numbers,
        |g| {
            g.floats(|b, x| {
                let (bias, lambd) = (g.number("bias"), g.number("lambd"));
                let (bias, above, below) = (b.constant(bias), b.constant(lambd), b.constant(-lambd));
                let zero = b.constant(0.0);
                let (up, down) = (b.binary(BinaryOp::Add, x, bias), b.binary(BinaryOp::Sub, x, bias));
                let is_below = b.binary(BinaryOp::Less, x, below);
                let is_above = b.binary(BinaryOp::Greater, x, above);
                let rest = b.select(is_above, down, zero);
                b.select(is_below, up, rest);
            })
        },
        Wide::Float(|x, &[bias, lambd]| {
            each(x, |x| match x {
                _ if x < -lambd => x + bias,
                _ if x > lambd => x - bias,
                _ => 0.0,
            });
        }),
    )),
    predicate(float(
        "IsNaN",
        &[9, 13, 20],
        &[],
        |g| {
            g.predicate(|b, x| {
                b.unary(UnaryOp::IsNan, x);
            })
        },
        |x, _| each(x, |x| f64::from(u8::from(x.is_nan()))),
    )),
    predicate(float(
        "IsInf",
        &[10, 20],
        &[int("detect_positive", 1), int("detect_negative", 1)],
        |g| {
            g.predicate(|b, x| match (g.flag("detect_positive"), g.flag("detect_negative")) {
                (true, true) => {
                    let (magnitude, infinity) = (b.unary(UnaryOp::Abs, x), b.constant(f32::INFINITY));
                    b.binary(BinaryOp::Equal, magnitude, infinity);
                }
                (false, false) => {
                    b.constant(0.0);
                }
                (positive, _) => {
                    let infinity = b.constant(if positive { f32::INFINITY } else { f32::NEG_INFINITY });
                    b.binary(BinaryOp::Equal, x, infinity);
                }
            })
        },
        |x, &[positive, negative]| {
            each(x, |x| {
                let found = positive != 0.0 && x == f64::INFINITY || negative != 0.0 && x == f64::NEG_INFINITY;
                f64::from(u8::from(found))
            });
        },
    )),
    followed(two("Add", &[1, 6, 7, 13, 14], |g| g.pair(BinaryOp::Add), Binary::Add), elements::add),
    followed(two("Sub", &[1, 6, 7, 13, 14], |g| g.pair(BinaryOp::Sub), Binary::Sub), elements::sub),
    followed(two("Mul", &[1, 6, 7, 13, 14], |g| g.pair(BinaryOp::Mul), Binary::Mul), elements::mul),
    followed(two("Div", &[1, 6, 7, 13, 14], |g| g.pair(BinaryOp::Div), Binary::Div), elements::div),
    Operator {
        types: Types::Input(0),
        device: Device::None,
        ..with(
            two("Pow", &[1, 7, 12, 13, 15], |g| g.pair(BinaryOp::Pow), Binary::Pow),
            Operands::Exponent,
            Broadcast::All,
        )
    },
    row(
        "Mod",
        &[10, 13, 28],
        exactly(2),
        &[int("fmod", 0)],
        Takes::Numbers,
        |g| if g.flag("fmod") { g.pair(BinaryOp::Fmod) } else { None },
        Wide::Either(Binary::Mod, Binary::Fmod),
    ),
    like_first(with(
        two("PRelu", &[1, 6, 7, 9, 16], |g| g.pair(BinaryOp::PRelu), Binary::PRelu),
        Operands::Alike,
        Broadcast::ToFirst,
    )),
    followed(
        predicate(row(
            "Equal",
            &[1, 7, 11, 13, 19],
            exactly(2),
            &[],
            Takes::Comparable,
            |g| g.equality(BinaryOp::Equal),
            Wide::Binary(Binary::Equal),
        )),
        elements::equal,
    ),
    comparison("Less", &[1, 7, 9, 13], |g| g.comparison(BinaryOp::Less), Binary::Less),
    comparison("LessOrEqual", &[12, 16], |g| g.comparison(BinaryOp::LessOrEqual), Binary::LessOrEqual),
    comparison("Greater", &[1, 7, 9, 13], |g| g.comparison(BinaryOp::Greater), Binary::Greater),
    comparison("GreaterOrEqual", &[12, 16], |g| g.comparison(BinaryOp::GreaterOrEqual), Binary::GreaterOrEqual),
    logic("And", |g| g.logic(BinaryOp::And), Binary::And),
    logic("Or", |g| g.logic(BinaryOp::Or), Binary::Or),
    logic("Xor", |g| g.logic(BinaryOp::Xor), Binary::Xor),
    predicate(row("Not", &[1], exactly(1), &[], Takes::Booleans, |g| g.not(), Wide::Unary(Unary::Not))),
    bitwise("BitwiseNot", &[18], exactly(1), &[], Wide::Unary(Unary::BitwiseNot)),
    bitwise("BitwiseAnd", &[18], exactly(2), &[], Wide::Binary(Binary::BitwiseAnd)),
    bitwise("BitwiseOr", &[18], exactly(2), &[], Wide::Binary(Binary::BitwiseOr)),
    bitwise("BitwiseXor", &[18], exactly(2), &[], Wide::Binary(Binary::BitwiseXor)),
    bitwise(
        "BitShift",
        &[11, 28],
        exactly(2),
        &[word("direction", &["LEFT", "RIGHT"])],
        Wide::Either(Binary::ShiftLeft, Binary::ShiftRight),
    ),
    fold("Max", &[1, 6, 8, 12, 13], |g| g.fold(BinaryOp::Max, false), Binary::Max, false),
    fold("Min", &[1, 6, 8, 12, 13], |g| g.fold(BinaryOp::Min, false), Binary::Min, false),
    fold("Sum", &[1, 6, 8, 13], |g| g.fold(BinaryOp::Add, false), Binary::Add, false),
    fold("Mean", &[1, 6, 8, 13], |g| g.fold(BinaryOp::Add, true), Binary::Add, true),
    like_first(with(
        everywhere(row(
            "Clip",
            &[1, 6, 11, 12, 13],
            between(1, 3),
            &[optional("min"), optional("max")],
            Takes::Numbers,
            |g| g.clip(["min", "max"]),
            Wide::Clip(["min", "max"]),
        )),
        Operands::Alike,
        Broadcast::Scalars,
    )),
    Operator {
        types: Types::Input(1),
        folds: Folds::Unsized,
        elements: Some(elements::select),
        ..with(
            row("Where", &[9, 16], exactly(3), &[], Takes::Any, |g| g.select(), Wide::Where),
            Operands::Condition,
            Broadcast::All,
        )
    },
    row("StringConcat", &[20], exactly(2), &[], Takes::Texts, |_| None, Wide::Concat),
    row("SwiGLU", &[28], exactly(2), &[number("alpha", 1.0)], Takes::Floats, |_| None, Wide::Gated(swish)),
    Operator {
        types: Types::By(|view, _| kinds::named(view, "to")),
        shapes: Shapes::Input(0),
        elements: Some(elements::cast),
        layout: Layout::ElementWise,
        element_wise: Some(ElementWise {
            operands: Operands::Alike,
            broadcast: Broadcast::All,
            takes: Takes::Any,
            lower: |g| g.cast(),
            wide: None,
        }),
        folds: Folds::Unsized,
        ..Operator::plain(
            work::BOUND_BY_MEMORY,
            PerElement,
            "",
            "Cast",
            &[1, 6, 9, 13, 19, 21, 23, 24, 25, 28],
            exactly(1),
            &[required("to"), int("saturate", 1), text("round_mode", "up")],
        )
    },
];

/// x times the sigmoid of alpha x, as an expression.
fn lower_swish(given: &Given<'_>) -> Option<Program> {
    given.floats(|b, x| {
        let alpha = b.constant(given.number("alpha"));
        let inner = b.binary(BinaryOp::Mul, x, alpha);
        let gate = b.unary(UnaryOp::Sigmoid, inner);
        b.binary(BinaryOp::Mul, x, gate);
    })
}

/// x sigmoid(alpha x)
fn swish(values: &mut [f64], &[alpha, _]: &[f64; 2]) {
    each(values, |x| x * sigmoid(alpha * x));
}
