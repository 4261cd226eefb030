//! What each element-wise operator is: its attributes with their defaults, and the element types that it takes.

use super::arithmetic::{Binary, Unary};
use super::function::Function;
use crate::graph::{NodeDesc, NodeError};
use crate::ops::OpError;
use crate::ops::wide::Width;
use crate::tensor::{DType, Tensor, TensorError};

/// How an operator's inputs make its output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operation {
    Unary(Unary),
    Binary(Binary),
    /// Any number of inputs, from left to right; at last divided by their number.
    Fold {
        step: Binary,
        mean: bool,
    },
    /// Bounds of the attributes; inputs 1 and 2 where there are no attributes.
    Clip {
        low: Option<f64>,
        high: Option<f64>,
    },
    Where,
    Concat,
    /// x sigmoid(alpha x) of the first input times the second.
    Gated {
        alpha: f64,
    },
}

impl Operation {
    /// The operation of a node, with its attributes and their defaults.
    pub(super) fn of(node: &NodeDesc) -> Result<Operation, OpError> {
        use Operation::{Binary as Two, Unary as One};
        let float = |name, default| f64::from(node.float(name, default));
        let function = |function| Ok(One(Unary::Float(function)));
        let fold = |step| Ok(Operation::Fold { step, mean: false });
        match node.op.as_str() {
            "Abs" => Ok(One(Unary::Abs)),
            "Neg" => Ok(One(Unary::Neg)),
            "Sign" => Ok(One(Unary::Sign)),
            "Relu" => Ok(One(Unary::Relu)),
            "Not" => Ok(One(Unary::Not)),
            "BitwiseNot" => Ok(One(Unary::BitwiseNot)),
            "Reciprocal" => function(Function::Reciprocal),
            "Sqrt" => function(Function::Sqrt),
            "Exp" => function(Function::Exp),
            "Log" => function(Function::Log),
            "Erf" => function(Function::Erf),
            "Sigmoid" => function(Function::Sigmoid),
            "LeakyRelu" => function(Function::LeakyRelu { alpha: float("alpha", 0.01) }),
            "Elu" => function(Function::Elu { alpha: float("alpha", 1.0) }),
            "Selu" => {
                let (alpha, gamma) = (float("alpha", 1.673_263_2), float("gamma", 1.050_701));
                function(Function::Selu { alpha, gamma })
            }
            "Celu" => function(Function::Celu { alpha: float("alpha", 1.0) }),
            "ThresholdedRelu" => function(Function::ThresholdedRelu { alpha: float("alpha", 1.0) }),
            "HardSigmoid" => function(Function::HardSigmoid { alpha: float("alpha", 0.2), beta: float("beta", 0.5) }),
            "HardSwish" => function(Function::HardSwish),
            "Softplus" => function(Function::Softplus),
            "Softsign" => function(Function::Softsign),
            "Mish" => function(Function::Mish),
            "Gelu" => match node.string("approximate", "none") {
                "none" => function(Function::Gelu),
                "tanh" => function(Function::GeluTanh),
                other => Err(OpError::unsupported(node, format!("approximate = {other}"))),
            },
            "Swish" => function(Function::Swish { alpha: float("alpha", 1.0) }),
            "Shrink" => function(Function::Shrink { bias: float("bias", 0.0), lambd: float("lambd", 0.5) }),
            "Floor" => function(Function::Floor),
            "Ceil" => function(Function::Ceil),
            "Round" => function(Function::Round),
            "Sin" => function(Function::Sin),
            "Cos" => function(Function::Cos),
            "Tan" => function(Function::Tan),
            "Asin" => function(Function::Asin),
            "Acos" => function(Function::Acos),
            "Atan" => function(Function::Atan),
            "Sinh" => function(Function::Sinh),
            "Cosh" => function(Function::Cosh),
            "Tanh" => function(Function::Tanh),
            "Asinh" => function(Function::Asinh),
            "Acosh" => function(Function::Acosh),
            "Atanh" => function(Function::Atanh),
            "IsNaN" => function(Function::IsNan),
            "IsInf" => {
                let (positive, negative) = (node.int("detect_positive", 1) != 0, node.int("detect_negative", 1) != 0);
                function(Function::IsInf { positive, negative })
            }
            "Add" => Ok(Two(Binary::Add)),
            "Sub" => Ok(Two(Binary::Sub)),
            "Mul" => Ok(Two(Binary::Mul)),
            "Div" => Ok(Two(Binary::Div)),
            "Pow" => Ok(Two(Binary::Pow)),
            "Mod" => Ok(Two(if node.int("fmod", 0) == 0 { Binary::Mod } else { Binary::Fmod })),
            "PRelu" => Ok(Two(Binary::PRelu)),
            "Equal" => Ok(Two(Binary::Equal)),
            "Less" => Ok(Two(Binary::Less)),
            "LessOrEqual" => Ok(Two(Binary::LessOrEqual)),
            "Greater" => Ok(Two(Binary::Greater)),
            "GreaterOrEqual" => Ok(Two(Binary::GreaterOrEqual)),
            "And" => Ok(Two(Binary::And)),
            "Or" => Ok(Two(Binary::Or)),
            "Xor" => Ok(Two(Binary::Xor)),
            "BitwiseAnd" => Ok(Two(Binary::BitwiseAnd)),
            "BitwiseOr" => Ok(Two(Binary::BitwiseOr)),
            "BitwiseXor" => Ok(Two(Binary::BitwiseXor)),
            "BitShift" => match node.string("direction", "") {
                "LEFT" => Ok(Two(Binary::ShiftLeft)),
                "RIGHT" => Ok(Two(Binary::ShiftRight)),
                other => Err(OpError::invalid(node, format!("direction = {other:?}"))),
            },
            "Max" => fold(Binary::Max),
            "Min" => fold(Binary::Min),
            "Sum" => fold(Binary::Add),
            "Mean" => Ok(Operation::Fold { step: Binary::Add, mean: true }),
            "Clip" => {
                let bound = |name| node.attrs.contains_key(name).then(|| float(name, 0.0));
                Ok(Operation::Clip { low: bound("min"), high: bound("max") })
            }
            "Where" => Ok(Operation::Where),
            "StringConcat" => Ok(Operation::Concat),
            "SwiGLU" => Ok(Operation::Gated { alpha: float("alpha", 1.0) }),
            other => Err(OpError::Unknown(other.to_owned())),
        }
    }

    /// The output's element type for a (first) operand of that type; a refusal where the operator does not take it.
    pub(super) fn result(self, dtype: DType) -> Result<DType, NodeError> {
        use Binary as B;
        let (float, boolean, text) = (dtype.is_float(), dtype == DType::Bool, dtype == DType::String);
        let number = !boolean && !text && !dtype.is_minifloat() && !dtype.is_small_integer();
        let (taken, result) = match self {
            Operation::Unary(Unary::Not) => (boolean, DType::Bool),
            Operation::Unary(Unary::BitwiseNot) => (number && !float, dtype),
            Operation::Unary(Unary::Float(Function::IsNan | Function::IsInf { .. })) => (float, DType::Bool),
            Operation::Unary(Unary::Float(Function::Shrink { .. })) => (number, dtype),
            Operation::Unary(Unary::Float(_)) => (float, dtype),
            Operation::Unary(_) => (number, dtype),
            Operation::Binary(B::Equal) => (number || boolean || text, DType::Bool),
            Operation::Binary(B::And | B::Or | B::Xor) => (boolean, DType::Bool),
            Operation::Binary(B::Less | B::LessOrEqual | B::Greater | B::GreaterOrEqual) => (number, DType::Bool),
            Operation::Binary(B::BitwiseAnd | B::BitwiseOr | B::BitwiseXor | B::ShiftLeft | B::ShiftRight) => {
                (number && !float, dtype)
            }
            Operation::Binary(_) | Operation::Fold { .. } | Operation::Clip { .. } => (number, dtype),
            Operation::Gated { .. } => (float, dtype),
            Operation::Where => (true, dtype),
            Operation::Concat => (text, dtype),
        };
        if taken { Ok(result) } else { Err(NodeError::Unsupported(format!("elements of type {dtype}"))) }
    }

    /// Which of the wide types computes it on elements of these types.
    pub(super) fn width(self, inputs: &[&Tensor]) -> Result<Width, NodeError> {
        let floats = inputs.iter().any(|input| input.dtype().is_float());
        if floats || matches!(self, Operation::Unary(Unary::Float(_))) {
            return Ok(Width::F64);
        }
        Width::of(inputs[0].dtype())
    }

    /// Refuses operands of a type other than the first's.
    pub(super) fn same_type(self, inputs: &[&Tensor]) -> Result<(), NodeError> {
        // The exponent of a power may be of a type of its own.
        if self == Operation::Binary(Binary::Pow) {
            return Ok(());
        }
        let expected = inputs[0].dtype();
        match inputs.iter().find(|input| input.dtype() != expected) {
            Some(other) => Err(TensorError::Type { expected, found: other.dtype() }.into()),
            None => Ok(()),
        }
    }
}
