//! ONNX's element-wise operators as programs over `f32` and booleans.
//!
//! Both the operators and the pass that fuses chains ask here, so that a node fused or alone computes the same. Attributes
//! come through a function, because the graph is above this floor. Element types other than `f32` and `bool` are not
//! known here.

use kiln_kernels::cpu::chain::program::MAX_INPUTS;
use kiln_kernels::cpu::chain::{BinaryOp, Builder, Program, Storage, UnaryOp};

/// An attribute's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Param<'a> {
    /// A float or an integer.
    Number(f32),
    /// A string.
    Text(&'a str),
}

/// An input of the operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// How its elements lie in memory.
    pub storage: Storage,
    /// Its value, where it is one number known at load: it then becomes a step instead of an operand.
    pub constant: Option<f32>,
}

impl Input {
    /// An input that is known when the graph runs.
    #[must_use]
    pub const fn dynamic(storage: Storage) -> Input {
        Input { storage, constant: None }
    }
}

/// The program of operator `op` of ONNX's own domain, in simplest form. Its operands are those of `inputs` that are
/// present and no constants, in order.
///
/// `None` where the operator is not element-wise, does not take these storages, or has too many inputs for one program.
/// Broadcasting is the business of whoever runs it; mind that PRelu's slope and Clip's bounds broadcast one way only.
#[must_use]
pub fn lower<'a>(op: &str, attribute: &dyn Fn(&str) -> Option<Param<'a>>, inputs: &[Option<Input>]) -> Option<Program> {
    let given = Given::new(attribute, inputs)?;
    unary(op, &given).or_else(|| binary(op, &given)).or_else(|| several(op, &given)).map(|program| program.simplified())
}

/// What the operator was given, and a program with its operands to build on.
struct Given<'f, 'a> {
    attribute: &'f dyn Fn(&str) -> Option<Param<'a>>,
    builder: Builder,
    /// Value number and storage of each input.
    values: Vec<Option<(u8, Storage)>>,
}

impl<'f, 'a> Given<'f, 'a> {
    fn new(attribute: &'f dyn Fn(&str) -> Option<Param<'a>>, inputs: &[Option<Input>]) -> Option<Given<'f, 'a>> {
        let operands: Vec<Storage> =
            inputs.iter().flatten().filter(|input| input.constant.is_none()).map(|input| input.storage).collect();
        if operands.len() > MAX_INPUTS {
            return None;
        }
        let mut builder = Builder::new(&operands);
        let mut operand = 0;
        let number = |input: &Input| match input.constant {
            Some(value) => builder.constant(value),
            None => {
                operand += 1;
                operand - 1
            }
        };
        let mut number = number;
        let values = inputs.iter().map(|input| input.as_ref().map(|input| (number(input), input.storage))).collect();
        Some(Given { attribute, builder, values })
    }

    fn number(&self, name: &str, default: f32) -> f32 {
        match (self.attribute)(name) {
            Some(Param::Number(value)) => value,
            _ => default,
        }
    }

    /// The values of all inputs, if there are `count` of them, of one storage.
    fn all(&self, count: usize, storage: Storage) -> Option<Vec<u8>> {
        if self.values.len() != count {
            return None;
        }
        self.values.iter().map(|value| value.filter(|value| value.1 == storage).map(|value| value.0)).collect()
    }
}

/// Operators of one input.
fn unary(op: &str, given: &Given<'_, '_>) -> Option<Program> {
    let mut b = given.builder.clone();
    if let Some(values) = given.all(1, Storage::Bool) {
        match op {
            "Not" => b.unary(UnaryOp::Not, values[0]),
            // A boolean is read as 0.0 or 1.0 already; the product is only there to be a step.
            "Cast" if given.number("to", 0.0) == FLOAT => {
                let one = b.constant(1.0);
                b.binary(BinaryOp::Mul, values[0], one);
                return b.finish(Storage::F32);
            }
            _ => return None,
        };
        return b.finish(Storage::Bool);
    }
    let x = given.all(1, Storage::F32)?[0];
    let number = |name, default| given.number(name, default).into();
    let function = match op {
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
        "LeakyRelu" => UnaryOp::LeakyRelu { alpha: number("alpha", 0.01) },
        "Elu" => UnaryOp::Elu { alpha: number("alpha", 1.0) },
        "Selu" => UnaryOp::Selu { alpha: number("alpha", 1.673_263_2), gamma: number("gamma", 1.050_701) },
        "Celu" => UnaryOp::Celu { alpha: number("alpha", 1.0) },
        "ThresholdedRelu" => UnaryOp::ThresholdedRelu { alpha: number("alpha", 1.0) },
        "HardSigmoid" => UnaryOp::HardSigmoid { alpha: number("alpha", 0.2), beta: number("beta", 0.5) },
        "HardSwish" => UnaryOp::HardSwish,
        "Softplus" => UnaryOp::Softplus,
        "Softsign" => UnaryOp::Softsign,
        "Mish" => UnaryOp::Mish,
        "Floor" => UnaryOp::Floor,
        "Ceil" => UnaryOp::Ceil,
        "Round" => UnaryOp::Round,
        "Sign" => UnaryOp::Sign,
        "Sin" => UnaryOp::Sin,
        "Cos" => UnaryOp::Cos,
        "Tan" => UnaryOp::Tan,
        "Asin" => UnaryOp::Asin,
        "Acos" => UnaryOp::Acos,
        "Atan" => UnaryOp::Atan,
        "Sinh" => UnaryOp::Sinh,
        "Cosh" => UnaryOp::Cosh,
        "Asinh" => UnaryOp::Asinh,
        "Acosh" => UnaryOp::Acosh,
        "Atanh" => UnaryOp::Atanh,
        "Gelu" => match (given.attribute)("approximate") {
            None | Some(Param::Text("none")) => UnaryOp::Gelu,
            Some(Param::Text("tanh")) => UnaryOp::GeluTanh,
            Some(_) => return None,
        },
        _ => return unary_of_steps(op, given, b, x),
    };
    b.unary(function, x);
    b.finish(Storage::F32)
}

/// ONNX's numbers of the element types that Cast goes between here.
const FLOAT: f32 = 1.0;
const BOOL: f32 = 9.0;

/// Operators of one input that take several steps.
fn unary_of_steps(op: &str, given: &Given<'_, '_>, mut b: Builder, x: u8) -> Option<Program> {
    match op {
        "Swish" => {
            let alpha = b.constant(given.number("alpha", 1.0));
            let inner = b.binary(BinaryOp::Mul, x, alpha);
            let gate = b.unary(UnaryOp::Sigmoid, inner);
            b.binary(BinaryOp::Mul, x, gate);
        }
        "Shrink" => {
            let (bias, lambd) = (given.number("bias", 0.0), given.number("lambd", 0.5));
            let (bias, above, below) = (b.constant(bias), b.constant(lambd), b.constant(-lambd));
            let zero = b.constant(0.0);
            let (up, down) = (b.binary(BinaryOp::Add, x, bias), b.binary(BinaryOp::Sub, x, bias));
            let is_below = b.binary(BinaryOp::Less, x, below);
            let is_above = b.binary(BinaryOp::Greater, x, above);
            let rest = b.select(is_above, down, zero);
            b.select(is_below, up, rest);
        }
        "IsNaN" => {
            b.unary(UnaryOp::IsNan, x);
            return b.finish(Storage::Bool);
        }
        "IsInf" => {
            let wanted = |name| given.number(name, 1.0) != 0.0;
            match (wanted("detect_positive"), wanted("detect_negative")) {
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
            }
            return b.finish(Storage::Bool);
        }
        // Whatever is not zero is true, NaN included.
        "Cast" if given.number("to", 0.0) == BOOL => {
            let is_zero = b.unary(UnaryOp::Not, x);
            b.unary(UnaryOp::Not, is_zero);
            return b.finish(Storage::Bool);
        }
        _ => return None,
    }
    b.finish(Storage::F32)
}

/// Operators of two inputs.
fn binary(op: &str, given: &Given<'_, '_>) -> Option<Program> {
    let (floats, booleans) = (given.all(2, Storage::F32), given.all(2, Storage::Bool));
    let (function, values, output) = match op {
        "Add" => (BinaryOp::Add, floats?, Storage::F32),
        "Sub" => (BinaryOp::Sub, floats?, Storage::F32),
        "Mul" => (BinaryOp::Mul, floats?, Storage::F32),
        "Div" => (BinaryOp::Div, floats?, Storage::F32),
        "Pow" => (BinaryOp::Pow, floats?, Storage::F32),
        "PRelu" => (BinaryOp::PRelu, floats?, Storage::F32),
        "Mod" if given.number("fmod", 0.0) != 0.0 => (BinaryOp::Fmod, floats?, Storage::F32),
        "Equal" => (BinaryOp::Equal, floats.or(booleans)?, Storage::Bool),
        "Less" => (BinaryOp::Less, floats?, Storage::Bool),
        "LessOrEqual" => (BinaryOp::LessOrEqual, floats?, Storage::Bool),
        "Greater" => (BinaryOp::Greater, floats?, Storage::Bool),
        "GreaterOrEqual" => (BinaryOp::GreaterOrEqual, floats?, Storage::Bool),
        "And" => (BinaryOp::And, booleans?, Storage::Bool),
        "Or" => (BinaryOp::Or, booleans?, Storage::Bool),
        "Xor" => (BinaryOp::Xor, booleans?, Storage::Bool),
        _ => return None,
    };
    let mut b = given.builder.clone();
    b.binary(function, values[0], values[1]);
    b.finish(output)
}

/// Operators of three or of any number of inputs.
fn several(op: &str, given: &Given<'_, '_>) -> Option<Program> {
    let mut b = given.builder.clone();
    let count = given.values.len();
    let (function, mean) = match op {
        "Where" => {
            let [Some((condition, Storage::Bool)), Some((on, storage)), Some((off, other))] = given.values[..] else {
                return None;
            };
            b.select(condition, on, off);
            return if storage == other { b.finish(storage) } else { None };
        }
        "Clip" => return clip(given),
        "Max" => (BinaryOp::Max, false),
        "Min" => (BinaryOp::Min, false),
        "Sum" => (BinaryOp::Add, false),
        "Mean" => (BinaryOp::Add, true),
        _ => return None,
    };
    let values = given.all(count, Storage::F32)?;
    let (&first, rest) = values.split_first()?;
    let mut result = first;
    for &value in rest {
        result = b.binary(function, result, value);
    }
    // Of a single input a copy remains, which is written as a quotient by one.
    if mean || rest.is_empty() {
        let divisor = b.constant(count as f32);
        b.binary(BinaryOp::Div, result, divisor);
    }
    b.finish(Storage::F32)
}

/// min(max(x, lo), hi): of crossed bounds the upper one wins. Bounds are attributes (before version 11) or inputs.
fn clip(given: &Given<'_, '_>) -> Option<Program> {
    let mut b = given.builder.clone();
    let float = |index: usize| match given.values.get(index).copied().flatten() {
        Some((_, Storage::Bool)) => None,
        other => Some(other.map(|value| value.0)),
    };
    let (x, mut lo, mut hi) = (float(0)??, float(1)?, float(2)?);
    if given.values.len() == 1 {
        let mut bound = |name| match (given.attribute)(name) {
            Some(Param::Number(value)) => Some(b.constant(value)),
            _ => None,
        };
        (lo, hi) = (bound("min"), bound("max"));
    }
    let one = b.constant(1.0);
    let mut result = b.binary(BinaryOp::Mul, x, one);
    if let Some(lo) = lo {
        result = b.binary(BinaryOp::Max, result, lo);
    }
    if let Some(hi) = hi {
        b.binary(BinaryOp::Min, result, hi);
    }
    b.finish(Storage::F32)
}

#[cfg(test)]
mod tests {
    use kiln_kernels::cpu::chain::Step;

    use super::*;

    const FLOATS: Input = Input::dynamic(Storage::F32);
    const BOOLEANS: Input = Input::dynamic(Storage::Bool);

    fn known(value: f32) -> Input {
        Input { storage: Storage::F32, constant: Some(value) }
    }

    fn plain(op: &str, inputs: &[Input]) -> Option<Program> {
        let inputs: Vec<Option<Input>> = inputs.iter().copied().map(Some).collect();
        lower(op, &|_| None, &inputs)
    }

    #[test]
    fn constants_become_steps_and_the_rest_operands_in_order() {
        let program = plain("Sub", &[known(3.0), FLOATS]).unwrap();
        assert_eq!(program.inputs.as_slice(), [Storage::F32]);
        assert_eq!(program.steps, [Step::Const(3.0.into()), Step::Binary(BinaryOp::Sub, 1, 0)]);
        let program = plain("Where", &[BOOLEANS, known(0.0), FLOATS]).unwrap();
        assert_eq!(program.inputs.as_slice(), [Storage::Bool, Storage::F32]);
    }

    #[test]
    fn clips_are_one_step_where_the_bounds_are_known() {
        let cases: &[(&[Option<Input>], Option<UnaryOp>)] = &[
            (&[Some(FLOATS), Some(known(0.0)), Some(known(6.0))], Some(clip_to(0.0, 6.0))),
            (&[Some(FLOATS), Some(known(0.0)), None], Some(UnaryOp::Relu)),
            (&[Some(FLOATS), None, Some(known(2.0))], Some(clip_to(f32::NEG_INFINITY, 2.0))),
            (&[Some(FLOATS), Some(FLOATS), Some(known(2.0))], None),
        ];
        for (inputs, function) in cases {
            assert_eq!(lower("Clip", &|_| None, inputs).unwrap().as_unary(), *function, "{inputs:?}");
        }
        let attribute = |name: &str| Some(Param::Number(if name == "min" { -1.0 } else { 1.0 }));
        assert_eq!(lower("Clip", &attribute, &[Some(FLOATS)]).unwrap().as_unary(), Some(clip_to(-1.0, 1.0)));
    }

    fn clip_to(lo: f32, hi: f32) -> UnaryOp {
        UnaryOp::Clip { lo: lo.into(), hi: hi.into() }
    }

    #[test]
    fn storages_that_an_operator_does_not_take_are_no_program() {
        for (op, inputs) in [("Add", [BOOLEANS, BOOLEANS]), ("And", [FLOATS, FLOATS]), ("Less", [BOOLEANS, BOOLEANS])] {
            assert_eq!(plain(op, &inputs), None, "{op}");
        }
        assert!(plain("Equal", &[BOOLEANS, BOOLEANS]).is_some());
        assert_eq!(plain("Sum", &[FLOATS; 7]), None, "more operands than a program takes");
        assert_eq!(plain("Conv", &[FLOATS, FLOATS]), None);
    }

    #[test]
    fn attributes_reach_their_function() {
        let attribute = |name: &str| (name == "approximate").then_some(Param::Text("tanh"));
        assert_eq!(lower("Gelu", &attribute, &[Some(FLOATS)]).unwrap().as_unary(), Some(UnaryOp::GeluTanh));
        let attribute = |name: &str| (name == "alpha").then_some(Param::Number(0.3));
        let leaky = lower("LeakyRelu", &attribute, &[Some(FLOATS)]).unwrap();
        assert_eq!(leaky.as_unary(), Some(UnaryOp::LeakyRelu { alpha: 0.3.into() }));
    }
}
