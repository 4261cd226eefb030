//! One ONNX node as the steps of a program: what its operator means for a single element of `f32` or boolean.

use kiln_kernels::cpu::chain::program::{BinaryOp, MAX_INPUTS, Program, Step, Storage, UnaryOp};
use smallvec::SmallVec;

use super::Lowered;
use crate::graph::facts::Facts;
use crate::graph::ir::{Graph, NodeDesc, ValueId};
use crate::tensor::{DType, Tensor};

/// A quick look before the node is copied.
pub(super) fn may_be_element_wise(node: &NodeDesc) -> bool {
    node.outputs.len() == 1 && (node.domain.is_empty() || node.is_fused("Chain"))
}

/// The node as a program; `None` where it is not element-wise, or not certainly on `f32` and booleans.
pub(super) fn lower(node: &NodeDesc, graph: &Graph, facts: &Facts) -> Option<Lowered> {
    if !node.domain.is_empty() {
        return None;
    }
    let mut writer = Writer::default();
    let output = match unary(node, graph) {
        Some(function) => {
            let x = writer.operand(node, 0, graph, facts)?;
            writer.start()?;
            writer.push(Step::Unary(function, x.number()?));
            if matches!(function, UnaryOp::Not | UnaryOp::IsNan) { Storage::Bool } else { Storage::F32 }
        }
        None => several(node, graph, facts, &mut writer)?,
    };
    let program = Program { inputs: writer.storages, steps: writer.steps, output };
    program.is_valid().then_some(Lowered { program, args: writer.args })
}

/// The function of one element that an operator is, its parameters being attributes or constants.
fn unary(node: &NodeDesc, graph: &Graph) -> Option<UnaryOp> {
    let alpha = |default: f32| node.float("alpha", default).into();
    Some(match node.op.as_str() {
        "Abs" => UnaryOp::Abs,
        "Neg" => UnaryOp::Neg,
        "Reciprocal" => UnaryOp::Reciprocal,
        "Sqrt" => UnaryOp::Sqrt,
        "Exp" => UnaryOp::Exp,
        "Log" => UnaryOp::Log,
        "Erf" => UnaryOp::Erf,
        "Tanh" => UnaryOp::Tanh,
        "Sigmoid" => UnaryOp::Sigmoid,
        "Relu" => UnaryOp::Relu,
        "LeakyRelu" => UnaryOp::LeakyRelu { alpha: alpha(0.01) },
        "Elu" => UnaryOp::Elu { alpha: alpha(1.0) },
        // ONNX's defaults, rounded to f32 as its attributes are.
        "Selu" => UnaryOp::Selu { alpha: alpha(1.673_263_2), gamma: node.float("gamma", 1.050_701).into() },
        "Celu" => UnaryOp::Celu { alpha: alpha(1.0) },
        "ThresholdedRelu" => UnaryOp::ThresholdedRelu { alpha: alpha(1.0) },
        "HardSigmoid" => UnaryOp::HardSigmoid { alpha: alpha(0.2), beta: node.float("beta", 0.5).into() },
        "HardSwish" => UnaryOp::HardSwish,
        "Softplus" => UnaryOp::Softplus,
        "Softsign" => UnaryOp::Softsign,
        "Mish" => UnaryOp::Mish,
        "Swish" if node.float("alpha", 1.0) == 1.0 => UnaryOp::Silu,
        "Gelu" if node.string("approximate", "none") == "tanh" => UnaryOp::GeluTanh,
        "Gelu" => UnaryOp::Gelu,
        "Floor" => UnaryOp::Floor,
        "Ceil" => UnaryOp::Ceil,
        "Round" => UnaryOp::Round,
        "Sign" => UnaryOp::Sign,
        "Sin" => UnaryOp::Sin,
        "Cos" => UnaryOp::Cos,
        "Not" => UnaryOp::Not,
        "IsNaN" => UnaryOp::IsNan,
        "Clip" => {
            let bound = |name: &str, input: usize, open: f32| match node.input(input) {
                _ if node.version < 11 => Some(node.float(name, open)),
                None => Some(open),
                Some(value) => graph.constant(value).filter(|bound| bound.len() == 1).and_then(number),
            };
            let (lo, hi) = (bound("min", 1, f32::NEG_INFINITY)?, bound("max", 2, f32::INFINITY)?);
            UnaryOp::Clip { lo: lo.into(), hi: hi.into() }
        }
        _ => return None,
    })
}

/// Operators of more than one operand, and casts.
fn several(node: &NodeDesc, graph: &Graph, facts: &Facts, writer: &mut Writer) -> Option<Storage> {
    let binary = match node.op.as_str() {
        "Add" | "Sum" | "Mean" => BinaryOp::Add,
        "Sub" => BinaryOp::Sub,
        "Mul" => BinaryOp::Mul,
        "Div" => BinaryOp::Div,
        "Max" => BinaryOp::Max,
        "Min" => BinaryOp::Min,
        "Pow" => BinaryOp::Pow,
        "PRelu" => BinaryOp::PRelu,
        "Equal" => BinaryOp::Equal,
        "Less" => BinaryOp::Less,
        "LessOrEqual" => BinaryOp::LessOrEqual,
        "Greater" => BinaryOp::Greater,
        "GreaterOrEqual" => BinaryOp::GreaterOrEqual,
        "And" => BinaryOp::And,
        "Or" => BinaryOp::Or,
        "Xor" => BinaryOp::Xor,
        "Where" => {
            let operands = [0, 1, 2].map(|index| writer.operand(node, index, graph, facts));
            let [condition, on, off] = operands;
            let operands = [condition?, on?, off?];
            writer.start()?;
            let [condition, on, off] = operands.map(|operand| writer.value(operand));
            writer.push(Step::Select { condition, on, off });
            let is_bool = facts.is(node.input(1)?, DType::Bool);
            return Some(if is_bool { Storage::Bool } else { Storage::F32 });
        }
        "Cast" => return cast(node, graph, facts, writer),
        _ => return None,
    };
    // Numbers and truth values lie differently and mean different things to all but the logical operators.
    let logical = matches!(binary, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor);
    let operands: Vec<Operand> =
        (0..node.inputs.len()).map(|index| writer.operand(node, index, graph, facts)).collect::<Option<_>>()?;
    if operands.len() < 2
        || writer.storages.iter().any(|&storage| (storage == Storage::Bool) != logical && binary != BinaryOp::Equal)
    {
        return None;
    }
    writer.start()?;
    let mut values = operands.iter().map(|&operand| writer.value(operand)).collect::<Vec<u8>>().into_iter();
    let mut result = values.next()?;
    for value in values {
        result = writer.push(Step::Binary(binary, result, value));
    }
    if node.op == "Mean" {
        let share = writer.push(Step::Const((1.0 / operands.len() as f32).into()));
        writer.push(Step::Binary(BinaryOp::Mul, result, share));
    }
    let truth = matches!(node.op.as_str(), "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual") || logical;
    Some(if truth { Storage::Bool } else { Storage::F32 })
}

/// Between numbers and truth values.
fn cast(node: &NodeDesc, graph: &Graph, facts: &Facts, writer: &mut Writer) -> Option<Storage> {
    let x = writer.operand(node, 0, graph, facts)?;
    let to = node.dtype("to")?;
    writer.start()?;
    match to {
        DType::Bool => {
            let zero = writer.push(Step::Unary(UnaryOp::Not, x.number()?));
            writer.push(Step::Unary(UnaryOp::Not, zero));
            Some(Storage::Bool)
        }
        DType::F32 => {
            let one = writer.push(Step::Const(1.0.into()));
            writer.push(Step::Binary(BinaryOp::Mul, x.number()?, one));
            Some(Storage::F32)
        }
        _ => None,
    }
}

/// An operand of the node: one of the program's, or a number.
#[derive(Clone, Copy)]
enum Operand {
    Input(u8),
    Number(f32),
}

impl Operand {
    /// The number of an operand that is no constant.
    fn number(self) -> Option<u8> {
        match self {
            Operand::Input(number) => Some(number),
            Operand::Number(_) => None,
        }
    }
}

/// A program while it is written: first all operands, then steps.
#[derive(Default)]
struct Writer {
    storages: SmallVec<[Storage; 4]>,
    args: Vec<ValueId>,
    steps: Vec<Step>,
}

impl Writer {
    fn operand(&mut self, node: &NodeDesc, index: usize, graph: &Graph, facts: &Facts) -> Option<Operand> {
        let value = node.input(index)?;
        let is_exponent = node.op == "Pow" && index == 1;
        if let Some(constant) = graph.constant(value).filter(|constant| constant.len() == 1) {
            // A number of several dimensions may add dimensions to the result, unless it has no more than another operand.
            let ranks = node.inputs.iter().flatten().filter(|&&other| graph.constant(other).is_none());
            let most = ranks.filter_map(|&other| facts.rank(other)).max().unwrap_or(0);
            if constant.shape().len() <= most && (is_exponent || matches!(constant.dtype(), DType::F32 | DType::Bool)) {
                return number(constant).map(Operand::Number);
            }
        }
        let storage = match facts.get(value).dtype? {
            DType::F32 => Storage::F32,
            DType::Bool => Storage::Bool,
            _ => return None,
        };
        let known = self.args.iter().position(|&arg| arg == value);
        let place = known.unwrap_or_else(|| {
            self.args.push(value);
            self.storages.push(storage);
            self.args.len() - 1
        });
        u8::try_from(place).ok().map(Operand::Input)
    }

    /// Ends the operands; a program without any, or with too many, is none.
    fn start(&self) -> Option<()> {
        (!self.args.is_empty() && self.args.len() <= MAX_INPUTS).then_some(())
    }

    fn value(&mut self, operand: Operand) -> u8 {
        match operand {
            Operand::Input(number) => number,
            Operand::Number(value) => self.push(Step::Const(value.into())),
        }
    }

    fn push(&mut self, step: Step) -> u8 {
        self.steps.push(step);
        // A number that does not fit names no earlier value, so the program is refused as a whole.
        u8::try_from(self.args.len() + self.steps.len() - 1).unwrap_or(u8::MAX)
    }
}

/// The only element of a constant as an `f32`.
fn number(constant: &Tensor) -> Option<f32> {
    match constant.dtype() {
        DType::F32 => constant.as_slice::<f32>().ok()?.first().copied(),
        DType::F64 => constant.as_slice::<f64>().ok()?.first().map(|&value| value as f32),
        DType::I64 | DType::I32 => constant.to_i64_vec().ok()?.first().map(|&value| value as f32),
        DType::Bool => constant.bytes().first().map(|&byte| if byte == 0 { 0.0 } else { 1.0 }),
        _ => None,
    }
}
