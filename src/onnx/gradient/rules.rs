//! What each operator makes of the gradient of its output: those of its inputs. Knows one node at a time.
//!
//! A rule writes nodes into a [`Draft`]. Shapes and ranks are not known here, so that rules compute with what `Shape`
//! says at run time; where shapes are fixed, constant folding leaves nothing of that.

use std::collections::HashSet;

use crate::onnx::import::Opsets;
use crate::onnx::proto::{AttributeProto, NodeProto, TensorProto};
use crate::onnx::standard::{Draft, constant, float, int, ints, texts};
use crate::onnx::{ModelError, dtype_code, place_of, shown};
use crate::tensor::DType;

/// The last version of ONNX's operators whose operands do not stretch as numpy's do.
const STRETCHES_SINCE: i64 = 7;

/// The equation of a transpose whose rank is not known.
const TURNED: &[u8] = b"...ij->...ji";

fn is_onnx(node: &NodeProto) -> bool {
    matches!(node.domain(), "" | "ai.onnx")
}

/// Inputs whose elements, not only their shapes, change the output, and change it smoothly.
pub(super) fn read_by_value(node: &NodeProto) -> impl Iterator<Item = usize> {
    let range = match node.op_type() {
        _ if !is_onnx(node) => 0..node.input.len(),
        "And" | "ArgMax" | "ArgMin" | "Constant" | "ConstantOfShape" | "Equal" | "Greater" | "GreaterOrEqual"
        | "IsInf" | "IsNaN" | "Less" | "LessOrEqual" | "NonZero" | "Not" | "Or" | "Shape" | "Sign" | "Size" => 0..0,
        "CastLike" | "Expand" | "ReduceMean" | "ReduceSum" | "Reshape" | "Squeeze" | "Unsqueeze" => 0..1,
        "Where" => 1..3,
        _ => 0..node.input.len(),
    };
    let end = range.end.min(node.input.len());
    range.start.min(end)..end
}

/// A node that cannot be differentiated.
pub(super) fn refusal(node: &NodeProto, gradient: &NodeProto) -> ModelError {
    let what = format!("the derivative of {} in {}", shown(node.op_type()), place_of(node));
    ModelError::Unsupported { what, place: place_of(gradient) }
}

/// Gradients of the inputs that vary, each by the input's name and of its shape, from that of the output.
pub(super) fn backwards(
    node: &NodeProto,
    versions: &Opsets,
    gradient: &str,
    varies: &HashSet<&str>,
    draft: &mut Draft,
    asked_by: &NodeProto,
) -> Result<Vec<(String, String)>, ModelError> {
    if !is_onnx(node) || versions.get("").is_some_and(|&version| version < STRETCHES_SINCE) {
        return Err(refusal(node, asked_by));
    }
    let rule = Rule { node, g: gradient, d: draft };
    let wanted: Vec<usize> = read_by_value(node).filter(|&input| varies.contains(node.input[input].as_str())).collect();
    rule.apply(&wanted).ok_or_else(|| refusal(node, asked_by))
}

struct Rule<'a> {
    node: &'a NodeProto,
    /// The gradient of the output.
    g: &'a str,
    d: &'a mut Draft,
}

impl<'a> Rule<'a> {
    /// `None` where there is no rule.
    fn apply(mut self, wanted: &[usize]) -> Option<Vec<(String, String)>> {
        let mut parts = Vec::with_capacity(wanted.len());
        for &input in wanted {
            let part = self.of(input)?;
            parts.push((self.node.input[input].clone(), part));
        }
        Some(parts)
    }

    fn input(&self, index: usize) -> &'a str {
        self.node.input.get(index).map_or("", String::as_str)
    }

    fn attribute(&self, name: &str) -> Option<&'a AttributeProto> {
        self.node.attribute.iter().find(|attribute| attribute.name() == name)
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.attribute(name).map_or(default, |attribute| attribute.i() != 0)
    }

    /// The gradient of input `index`.
    fn of(&mut self, index: usize) -> Option<String> {
        let (x, y, g) = (self.input(index), self.node.output[0].as_str(), self.g);
        let other = self.input(1 - index.min(1));
        let d = &mut *self.d;
        Some(match self.node.op_type() {
            "Identity" => g.to_owned(),
            "Neg" => d.make("Neg", &[g]),
            "Add" => d.summed_to(g, x),
            "Sub" if index == 0 => d.summed_to(g, x),
            "Sub" => {
                let turned = d.make("Neg", &[g]);
                d.summed_to(&turned, x)
            }
            "Mul" => {
                let scaled = d.make("Mul", &[g, other]);
                d.summed_to(&scaled, x)
            }
            "Div" if index == 0 => {
                let scaled = d.make("Div", &[g, other]);
                d.summed_to(&scaled, x)
            }
            "Div" => {
                let ratio = d.make("Div", &[y, x]);
                let scaled = d.make("Mul", &[g, &ratio]);
                let turned = d.make("Neg", &[&scaled]);
                d.summed_to(&turned, x)
            }
            "Pow" if index == 0 => {
                // The exponent may be of another type. Where it is nothing the gradient is, and zero has no inverse.
                let exponent = d.make("CastLike", &[other, x]);
                let (one, zero) = (d.number_like(1.0, x), d.number_like(0.0, x));
                let less = d.make("Sub", &[&exponent, &one]);
                let power = d.make("Pow", &[x, &less]);
                let slope = d.make("Mul", &[&exponent, &power]);
                let flat = d.make("Equal", &[&exponent, &zero]);
                let slope = d.make("Where", &[&flat, &zero, &slope]);
                let scaled = d.make("Mul", &[g, &slope]);
                d.summed_to(&scaled, x)
            }
            "Exp" => d.make("Mul", &[g, y]),
            "Log" => d.make("Div", &[g, x]),
            "Sqrt" => {
                let twice = d.make("Add", &[y, y]);
                d.make("Div", &[g, &twice])
            }
            "Reciprocal" => {
                let square = d.make("Mul", &[y, y]);
                let scaled = d.make("Mul", &[g, &square]);
                d.make("Neg", &[&scaled])
            }
            "Sin" => {
                let slope = d.make("Cos", &[x]);
                d.make("Mul", &[g, &slope])
            }
            "Cos" => {
                let slope = d.make("Sin", &[x]);
                let scaled = d.make("Mul", &[g, &slope]);
                d.make("Neg", &[&scaled])
            }
            "Tanh" => {
                let square = d.make("Mul", &[y, y]);
                let lost = d.make("Mul", &[g, &square]);
                d.make("Sub", &[g, &lost])
            }
            "Sigmoid" => {
                let scaled = d.make("Mul", &[g, y]);
                let lost = d.make("Mul", &[&scaled, y]);
                d.make("Sub", &[&scaled, &lost])
            }
            "Abs" => {
                let side = d.make("Sign", &[x]);
                d.make("Mul", &[g, &side])
            }
            "Relu" => {
                let zero = d.number_like(0.0, x);
                let on = d.make("Greater", &[x, &zero]);
                d.make("Where", &[&on, g, &zero])
            }
            "Where" => {
                let zero = d.number_like(0.0, x);
                let condition = self.node.input[0].as_str();
                let chosen = match index {
                    1 => d.make("Where", &[condition, g, &zero]),
                    _ => d.make("Where", &[condition, &zero, g]),
                };
                d.summed_to(&chosen, x)
            }
            "CastLike" => d.make("CastLike", &[g, x]),
            "Expand" => d.summed_to(g, x),
            "Flatten" | "Reshape" | "Squeeze" | "Unsqueeze" => d.shaped_like(g, x),
            "Transpose" => {
                let perm = self.attribute("perm").map_or(&[][..], |attribute| &attribute.ints);
                let back = inverse(perm)?;
                let attributes = if back.is_empty() { Vec::new() } else { vec![ints("perm", &back)] };
                self.d.with("Transpose", &[g], attributes)
            }
            "ReduceSum" => self.spread(),
            "ReduceMean" => {
                let spread = self.spread();
                let d = &mut *self.d;
                let (from, to) = (d.make("Size", &[x]), d.make("Size", &[y]));
                let count = d.make("Div", &[&from, &to]);
                let count = d.make("CastLike", &[&count, x]);
                d.make("Div", &[&spread, &count])
            }
            "MatMul" => self.matmul(index),
            "Gemm" => self.gemm(index),
            "Einsum" if self.attribute("equation").is_some_and(|attribute| attribute.s() == TURNED) => self.d.turned(g),
            _ => return None,
        })
    }

    /// The gradient of a sum for what was summed: the same for each, along the axes that were left out.
    fn spread(&mut self) -> String {
        let (x, axes) = (self.input(0), self.input(1));
        let listed = self.attribute("axes").map(|attribute| attribute.ints.clone());
        let kept = self.flag("keepdims", true);
        let d = &mut *self.d;
        let whole = match (kept, listed) {
            (true, _) => self.g.to_owned(),
            (false, Some(axes)) => {
                let axes = d.whole_numbers(&axes);
                d.make("Unsqueeze", &[self.g, &axes])
            }
            // Without axes all are summed up, or none are, and either is spread without being told where.
            (false, None) if axes.is_empty() => self.g.to_owned(),
            (false, None) => d.make("Unsqueeze", &[self.g, axes]),
        };
        let shape = d.make("Shape", &[x]);
        d.make("Expand", &[&whole, &shape])
    }

    /// Of A B: G B' for A and A' G for B, where an operand without rows or columns counts as having one.
    fn matmul(&mut self, index: usize) -> String {
        let (a, b) = (self.input(0), self.input(1));
        let d = &mut *self.d;
        let (two, none) = (d.whole_numbers(&[2]), d.whole_numbers(&[0]));
        let (last, last_but_one, end) = (d.whole_numbers(&[-1]), d.whole_numbers(&[-2]), d.whole_numbers(&[i64::MAX]));
        let shape = |d: &mut Draft, of: &str| {
            let shape = d.make("Shape", &[of]);
            let rank = d.make("Shape", &[&shape]);
            let missing = d.make("Sub", &[&two, &rank]);
            let missing = d.make("Max", &[&missing, &none]);
            (shape, d.filled(&missing), missing)
        };
        let (a_shape, a_ones, a_missing) = shape(d, a);
        let (b_shape, b_ones, b_missing) = shape(d, b);
        let a_shape = d.with("Concat", &[&a_ones, &a_shape], vec![int("axis", 0)]);
        let b_shape = d.with("Concat", &[&b_shape, &b_ones], vec![int("axis", 0)]);
        // The output's shape: what is left of it when the sizes that operands without them took away are put back.
        let g_shape = d.make("Shape", &[self.g]);
        let rank = d.make("Shape", &[&g_shape]);
        let sides = d.make("Sub", &[&two, &a_missing]);
        let sides = d.make("Sub", &[&sides, &b_missing]);
        let batch_rank = d.make("Sub", &[&rank, &sides]);
        let batch = d.make("Slice", &[&g_shape, &none, &batch_rank]);
        let rows = d.make("Slice", &[&a_shape, &last_but_one, &last]);
        let columns = d.make("Slice", &[&b_shape, &last, &end]);
        let g_shape = d.with("Concat", &[&batch, &rows, &columns], vec![int("axis", 0)]);
        let g = d.shaped(self.g, &g_shape);
        let (product, x, to) = match index {
            0 => {
                let b = d.shaped(b, &b_shape);
                let turned = d.turned(&b);
                (d.make("MatMul", &[&g, &turned]), a, a_shape)
            }
            _ => {
                let a = d.shaped(a, &a_shape);
                let turned = d.turned(&a);
                (d.make("MatMul", &[&turned, &g]), b, b_shape)
            }
        };
        let summed = d.summed(&product, &to);
        d.shaped_like(&summed, x)
    }

    /// Of alpha A' B' + beta C, where either may be turned.
    fn gemm(&mut self, index: usize) -> String {
        let (a, b, g) = (self.input(0), self.input(1), self.g);
        let (turn_a, turn_b) = (self.flag("transA", false), self.flag("transB", false));
        let scale = |name: &str| self.attribute(name).map_or(1.0, |attribute| attribute.f());
        let (alpha, beta) = (scale("alpha"), scale("beta"));
        let d = &mut *self.d;
        let mut product = |left: &str, right: &str, turn_left: bool, turn_right: bool| {
            let turns = [int("transA", turn_left.into()), int("transB", turn_right.into()), float("alpha", alpha)];
            d.with("Gemm", &[left, right], turns.into())
        };
        match (index, turn_a, turn_b) {
            (0, false, _) => product(g, b, false, !turn_b),
            (0, true, _) => product(b, g, turn_b, true),
            (1, _, false) => product(a, g, !turn_a, false),
            (1, _, true) => product(g, a, true, turn_a),
            _ => {
                let c = self.node.input[2].as_str();
                let beta = d.number_like(beta, c);
                let scaled = d.make("Mul", &[g, &beta]);
                d.summed_to(&scaled, c)
            }
        }
    }
}

/// The permutation that undoes one; nothing for none, which turns all axes about.
fn inverse(perm: &[i64]) -> Option<Vec<i64>> {
    let mut back = vec![-1; perm.len()];
    for (to, &from) in perm.iter().enumerate() {
        *back.get_mut(usize::try_from(from).ok()?)? = to as i64;
    }
    (!back.contains(&-1)).then_some(back)
}

fn filled_with(dtype: DType, floats: Vec<f32>, numbers: Vec<i64>) -> TensorProto {
    let count = floats.len() + numbers.len();
    TensorProto {
        dims: vec![count as i64],
        data_type: Some(dtype_code(dtype)),
        float_data: floats,
        int64_data: numbers,
        ..Default::default()
    }
}

impl Draft {
    /// A node of ONNX's own domain, whose value gets a number for a name.
    fn with(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        let name = self.nodes.len().to_string();
        self.op(op, inputs, &name, attributes)
    }

    fn make(&mut self, op: &str, inputs: &[&str]) -> String {
        self.with(op, inputs, Vec::new())
    }

    fn whole_numbers(&mut self, values: &[i64]) -> String {
        self.with("Constant", &[], vec![constant(filled_with(DType::I64, Vec::new(), values.to_vec()))])
    }

    /// One number, of the type of `like`; it stretches to any shape.
    fn number_like(&mut self, value: f32, like: &str) -> String {
        let number = self.with("Constant", &[], vec![float("value_float", value)]);
        self.make("CastLike", &[&number, like])
    }

    /// Ones, as whole numbers, as many as `count` says.
    fn filled(&mut self, count: &str) -> String {
        let one = constant(filled_with(DType::I64, Vec::new(), vec![1]));
        self.with("ConstantOfShape", &[count], vec![one])
    }

    fn all_like(&mut self, value: f32, like: &str) -> String {
        let shape = self.make("Shape", &[like]);
        let value = constant(filled_with(DType::F32, vec![value], Vec::new()));
        let filled = self.with("ConstantOfShape", &[&shape], vec![value]);
        self.make("CastLike", &[&filled, like])
    }

    /// Ones of the shape and type of `like`.
    pub(super) fn ones_like(&mut self, like: &str) -> String {
        self.all_like(1.0, like)
    }

    /// Zeros of the shape and type of `like`.
    pub(super) fn zeros_like(&mut self, like: &str) -> String {
        self.all_like(0.0, like)
    }

    /// The sum of values of one shape.
    pub(super) fn total(&mut self, parts: &[String]) -> String {
        let mut parts = parts.iter();
        let first = parts.next().cloned().unwrap_or_default();
        parts.fold(first, |sum, part| self.make("Add", &[&sum, part]))
    }

    fn shaped(&mut self, value: &str, shape: &str) -> String {
        self.with("Reshape", &[value, shape], vec![int("allowzero", 1)])
    }

    fn shaped_like(&mut self, value: &str, like: &str) -> String {
        let shape = self.make("Shape", &[like]);
        self.shaped(value, &shape)
    }

    /// The last two axes changed about.
    fn turned(&mut self, value: &str) -> String {
        self.with("Einsum", &[value], vec![texts("equation", TURNED)])
    }

    /// The gradient of an operand that was stretched: summed along the axes along which it was.
    fn summed_to(&mut self, value: &str, like: &str) -> String {
        let shape = self.make("Shape", &[like]);
        let summed = self.summed(value, &shape);
        self.shaped(&summed, &shape)
    }

    /// `value` summed along every axis that is one, or not there, in `shape`; those that are not there are kept as one.
    fn summed(&mut self, value: &str, shape: &str) -> String {
        let from = self.make("Shape", &[value]);
        let (from_rank, rank) = (self.make("Shape", &[&from]), self.make("Shape", &[shape]));
        let missing = self.make("Sub", &[&from_rank, &rank]);
        let ones = self.filled(&missing);
        let whole = self.with("Concat", &[&ones, shape], vec![int("axis", 0)]);
        let same = self.make("Equal", &[&whole, &from]);
        let stretched = self.make("Not", &[&same]);
        let axes = self.make("NonZero", &[&stretched]);
        let flat = self.whole_numbers(&[-1]);
        let axes = self.make("Reshape", &[&axes, &flat]);
        let attributes = vec![int("keepdims", 1), int("noop_with_empty_axes", 1)];
        self.with("ReduceSum", &[value, &axes], attributes)
    }
}
