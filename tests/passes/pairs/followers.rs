//! What may follow: every function of one value, and of two with a number, a row, itself or another result.

use kiln_model::ValueId;
use kiln_model::ir::Attr;
use kiln_tensor::{DType, Tensor};

use super::Make;

/// Makes another result of the same producer.
pub(super) type Other<'a> = dyn FnMut(&mut Make) -> ValueId + 'a;

/// An operator that follows a producer.
pub(super) struct Follower {
    pub(super) name: &'static str,
    /// Whether results change much where inputs change little: at whole numbers and at halves.
    pub(super) jumps: bool,
    /// Whether results have the type of the input.
    pub(super) stays: bool,
    needs: Needs,
    pub(super) make: fn(&mut Make, ValueId, &mut Other<'_>) -> ValueId,
}

/// The follower's condition on the shape before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// Four channels at axis 1.
    Channels,
    /// Five columns.
    Columns,
}

impl Follower {
    /// Whether it is defined after a tensor like that.
    pub(super) fn takes(&self, before: &Tensor) -> bool {
        let shape = before.shape();
        match self.needs {
            Needs::Nothing => true,
            Needs::Channels => shape.len() == 4 && shape[1] == 4,
            Needs::Columns => shape.last() == Some(&5),
        }
    }
}

type MakeFollower = fn(&mut Make, ValueId, &mut Other<'_>) -> ValueId;

const fn smooth(name: &'static str, make: MakeFollower) -> Follower {
    Follower { name, jumps: false, stays: true, needs: Needs::Nothing, make }
}

const fn jumping(name: &'static str, make: MakeFollower) -> Follower {
    Follower { name, jumps: true, stays: true, needs: Needs::Nothing, make }
}

const fn casting(name: &'static str, make: MakeFollower) -> Follower {
    Follower { name, jumps: false, stays: false, needs: Needs::Nothing, make }
}

const fn needing(name: &'static str, needs: Needs, make: MakeFollower) -> Follower {
    Follower { name, jumps: false, stays: true, needs, make }
}

/// Functions of one value by their operators' names.
macro_rules! named {
    ($kind:ident $name:literal) => {
        $kind($name, |m, y, _| m.op($name, &[y], &[]))
    };
}

/// Functions of a value and a number, on either side.
macro_rules! with_number {
    ($kind:ident $name:literal, $number:literal) => {
        $kind(concat!($name, " with ", $number), |m, y, _| {
            let number = m.number($number);
            m.op($name, &[y, number], &[])
        })
    };
    ($kind:ident from $number:literal, $name:literal) => {
        $kind(concat!($number, " and ", $name), |m, y, _| {
            let number = m.number($number);
            m.op($name, &[number, y], &[])
        })
    };
}

/// Functions of a value and itself, and of two results.
macro_rules! of_two {
    ($kind:ident $name:literal) => {
        $kind(concat!($name, " of two results"), |m, y, other| {
            let z = other(m);
            m.op($name, &[y, z], &[])
        })
    };
    ($kind:ident $name:literal twice) => {
        $kind(concat!($name, " with itself"), |m, y, _| m.op($name, &[y, y], &[]))
    };
}

/// All followers.
pub(super) const FOLLOWERS: &[Follower] = &[
    named!(smooth "Abs"),
    named!(smooth "Acos"),
    named!(smooth "Acosh"),
    named!(smooth "Asin"),
    named!(smooth "Asinh"),
    named!(smooth "Atan"),
    named!(smooth "Atanh"),
    named!(jumping "Ceil"),
    named!(smooth "Celu"),
    smooth("Celu of a negative alpha", |m, y, _| m.op("Celu", &[y], &[("alpha", Attr::Float(-0.7))])),
    named!(smooth "Cos"),
    named!(smooth "Cosh"),
    named!(smooth "Elu"),
    named!(smooth "Erf"),
    named!(smooth "Exp"),
    named!(jumping "Floor"),
    named!(smooth "Gelu"),
    smooth("Gelu by tanh", |m, y, _| m.op("Gelu", &[y], &[("approximate", "tanh".into())])),
    named!(smooth "HardSigmoid"),
    named!(smooth "HardSwish"),
    named!(smooth "Identity"),
    named!(jumping "IsInf"),
    named!(jumping "IsNaN"),
    named!(smooth "LeakyRelu"),
    smooth("LeakyRelu of a slope above one", |m, y, _| m.op("LeakyRelu", &[y], &[("alpha", Attr::Float(1.5))])),
    named!(smooth "Log"),
    named!(smooth "LogSoftmax"),
    named!(smooth "Mish"),
    named!(smooth "Neg"),
    named!(smooth "Reciprocal"),
    named!(smooth "Relu"),
    named!(jumping "Round"),
    named!(smooth "Selu"),
    named!(jumping "Shrink"),
    named!(smooth "Sigmoid"),
    named!(jumping "Sign"),
    named!(smooth "Sin"),
    named!(smooth "Sinh"),
    named!(smooth "Softmax"),
    named!(smooth "Softplus"),
    named!(smooth "Softsign"),
    named!(smooth "Sqrt"),
    named!(smooth "Tan"),
    named!(smooth "Tanh"),
    named!(jumping "ThresholdedRelu"),
    named!(smooth "Transpose"),
    smooth("SiLU in parts", |m, y, _| {
        let gate = m.op("Sigmoid", &[y], &[]);
        m.op("Mul", &[y, gate], &[])
    }),
    smooth("Clip", |m, y, _| {
        let (low, high) = (m.number(-0.4), m.number(0.6));
        m.op("Clip", &[y, low, high], &[])
    }),
    smooth("Clip from below", |m, y, _| {
        let low = m.number(-0.4);
        m.op("Clip", &[y, low], &[])
    }),
    smooth("Relu and Sin", |m, y, _| {
        let y = m.op("Relu", &[y], &[]);
        m.op("Sin", &[y], &[])
    }),
    casting("Cast to double", |m, y, _| m.op("Cast", &[y], &[("to", 11.into())])),
    casting("Cast to half", |m, y, _| m.op("Cast", &[y], &[("to", 10.into())])),
    jumping("Cast to integers", |m, y, _| m.op("Cast", &[y], &[("to", 6.into())])),
    jumping("Cast to truth", |m, y, _| m.op("Cast", &[y], &[("to", 9.into())])),
    jumping("Not", |m, y, _| {
        let truth = m.op("Cast", &[y], &[("to", 9.into())]);
        m.op("Not", &[truth], &[])
    }),
    jumping("through bytes", |m, y, _| {
        let scale = m.build.constant(if m.dtype == DType::F16 {
            Tensor::scalar(half::f16::from_f32(0.5))
        } else {
            Tensor::scalar(0.5f32)
        });
        let zero = m.build.constant(Tensor::scalar(100u8));
        let bytes = m.op("QuantizeLinear", &[y, scale, zero], &[]);
        m.op("DequantizeLinear", &[bytes, scale, zero], &[])
    }),
    with_number!(smooth "Add", 0.5),
    with_number!(smooth "Sub", 0.5),
    with_number!(smooth from 0.5, "Sub"),
    with_number!(smooth "Mul", -1.5),
    with_number!(smooth "Div", 0.75),
    with_number!(smooth from 0.75, "Div"),
    with_number!(smooth "Pow", 2.0),
    with_number!(smooth "Pow", 3.0),
    with_number!(smooth "Max", 0.25),
    with_number!(smooth "Min", 0.25),
    with_number!(smooth "PRelu", 0.25),
    with_number!(jumping "Equal", 0.5),
    with_number!(jumping "Less", 0.5),
    with_number!(jumping "LessOrEqual", 0.5),
    with_number!(jumping "Greater", 0.5),
    with_number!(jumping "GreaterOrEqual", 0.5),
    jumping("Mod", |m, y, _| {
        let by = m.number(0.5);
        m.op("Mod", &[y, by], &[("fmod", 1.into())])
    }),
    of_two!(smooth "Add"),
    of_two!(smooth "Sub"),
    of_two!(smooth "Mul"),
    of_two!(smooth "Max"),
    of_two!(smooth "Sum"),
    of_two!(smooth "Mean"),
    of_two!(smooth "Add" twice),
    of_two!(smooth "Mul" twice),
    smooth("Add of two results and Sin", |m, y, other| {
        let z = other(m);
        let sum = m.op("Add", &[z, y], &[]);
        m.op("Sin", &[sum], &[])
    }),
    smooth("Add of two results and Gelu", |m, y, other| {
        let z = other(m);
        let sum = m.op("Add", &[y, z], &[]);
        m.op("Gelu", &[sum], &[])
    }),
    smooth("Where", |m, y, other| {
        let z = other(m);
        let truth = m.build.constant(Tensor::scalar(kiln_tensor::BoolByte::from(true)));
        m.op("Where", &[truth, y, z], &[])
    }),
    needing("Mul by channel", Needs::Channels, |m, y, _| {
        let by = m.weights(&[4, 1, 1]);
        m.op("Mul", &[y, by], &[])
    }),
    needing("Add by column and Tan", Needs::Columns, |m, y, _| {
        let row = m.weights(&[5]);
        let sum = m.op("Add", &[y, row], &[]);
        m.op("Tan", &[sum], &[])
    }),
    needing("Mul by column", Needs::Columns, |m, y, _| {
        let row = m.weights(&[1, 5]);
        m.op("Mul", &[row, y], &[])
    }),
];
