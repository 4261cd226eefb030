//! ONNX's element-wise operators as programs over `f32` and booleans, and the functions by which rows of the table
//! build them.
//!
//! Both the operators and the pass that fuses chains ask here, so that a node fused or alone computes the same. Element
//! types other than `f32` and `bool` are not known here.

use kiln_kernels::cpu::chain::{BinaryOp, Bits, Builder, Program, Step, Storage, UnaryOp};
use kiln_kernels::problem::chain::MAX_INPUTS;

use super::attributes::Attributes;
use crate::ir::NodeDesc;

/// An input of the operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// What its elements are stored as.
    pub storage: Storage,
    /// Its value, where it is one number known at load: it then becomes a step instead of an operand.
    pub constant: Option<f32>,
}

impl Input {
    /// An input that is known when the graph runs.
    pub(crate) const fn dynamic(storage: Storage) -> Input {
        Input { storage, constant: None }
    }
}

/// The program of an operator, not yet in simplest form. `None` where it has none for these inputs and attributes.
pub(crate) type Lower = fn(&Given<'_>) -> Option<Program>;

/// The program of a node, in simplest form, if its operator has one. Its operands are the inputs that are present and
/// not constants, in order.
///
/// `None` where the operator is not element-wise, does not take these storages, or has too many inputs for one program.
/// The caller does the broadcasting; PRelu's slope and Clip's bounds broadcast in one direction only.
pub fn lower(node: &NodeDesc, inputs: &[Option<Input>]) -> Option<Program> {
    let row = super::of(node)?;
    let given = Given::new(row.attributes_of(node), inputs)?;
    (row.element_wise.as_ref()?.lower)(&given).map(|program| program.simplified())
}

/// The node's operator as a function of one float, with the node's attributes; `None` where it is no such function or
/// takes several steps.
pub fn function(node: &NodeDesc) -> Option<UnaryOp> {
    let row = super::of(node)?;
    let given = Given::new(row.attributes_of(node), &[Some(Input::dynamic(Storage::F32))])?;
    let program = (row.element_wise.as_ref()?.lower)(&given)?;
    match program.steps[..] {
        [Step::Unary(op, 0)] => Some(op),
        _ => None,
    }
}

/// The operator's attributes and inputs, and a builder that has the operands.
pub(crate) struct Given<'a> {
    attributes: Attributes<'a>,
    builder: Builder,
    /// Value number and storage of each input.
    values: Vec<Option<(u8, Storage)>>,
}

impl<'a> Given<'a> {
    fn new(attributes: Attributes<'a>, inputs: &[Option<Input>]) -> Option<Given<'a>> {
        let operands: Vec<Storage> =
            inputs.iter().flatten().filter(|input| input.constant.is_none()).map(|input| input.storage).collect();
        if operands.len() > MAX_INPUTS {
            return None;
        }
        let mut builder = Builder::new(&operands);
        let mut operand = 0;
        let mut number = |input: &Input| match input.constant {
            Some(value) => builder.constant(value),
            None => {
                operand += 1;
                operand - 1
            }
        };
        let values = inputs.iter().map(|input| input.as_ref().map(|input| (number(input), input.storage))).collect();
        Some(Given { attributes, builder, values })
    }

    /// A number among the attributes, by its bits.
    pub(super) fn bits(&self, name: &str) -> Bits {
        self.number(name).into()
    }

    /// A number among the attributes, be it an integer or a float.
    pub(super) fn number(&self, name: &str) -> f32 {
        self.attributes.number(name).unwrap_or(0.0)
    }

    /// Whether an integer among the attributes is not zero.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.number(name) != 0.0
    }

    /// Which of its words an attribute is.
    pub(super) fn choice(&self, name: &str) -> Option<usize> {
        self.attributes.choice(name).ok()
    }

    /// The values of all inputs, if there are `count` and all have that storage.
    fn all(&self, count: usize, storage: Storage) -> Option<Vec<u8>> {
        if self.values.len() != count {
            return None;
        }
        self.values.iter().map(|value| value.filter(|value| value.1 == storage).map(|value| value.0)).collect()
    }

    /// A builder with a single operand of that storage, and its number.
    fn alone(&self, storage: Storage) -> Option<(Builder, u8)> {
        Some((self.builder.clone(), self.all(1, storage)?[0]))
    }

    /// A function of one float.
    pub(super) fn function(&self, op: UnaryOp) -> Option<Program> {
        self.floats(|b, x| {
            b.unary(op, x);
        })
    }

    /// Steps from one float to another.
    pub(super) fn floats(&self, steps: impl FnOnce(&mut Builder, u8)) -> Option<Program> {
        let (mut builder, x) = self.alone(Storage::F32)?;
        steps(&mut builder, x);
        builder.finish(Storage::F32)
    }

    /// Steps from one float to a boolean.
    pub(super) fn predicate(&self, steps: impl FnOnce(&mut Builder, u8)) -> Option<Program> {
        let (mut builder, x) = self.alone(Storage::F32)?;
        steps(&mut builder, x);
        builder.finish(Storage::Bool)
    }

    /// The negated boolean.
    pub(super) fn not(&self) -> Option<Program> {
        let (mut builder, x) = self.alone(Storage::Bool)?;
        builder.unary(UnaryOp::Not, x);
        builder.finish(Storage::Bool)
    }

    fn two(&self, op: BinaryOp, storages: &[Storage], output: Storage) -> Option<Program> {
        let values = storages.iter().find_map(|&storage| self.all(2, storage))?;
        let mut builder = self.builder.clone();
        builder.binary(op, values[0], values[1]);
        builder.finish(output)
    }

    /// A function of two floats.
    pub(super) fn pair(&self, op: BinaryOp) -> Option<Program> {
        self.two(op, &[Storage::F32], Storage::F32)
    }

    /// A comparison of two floats.
    pub(super) fn comparison(&self, op: BinaryOp) -> Option<Program> {
        self.two(op, &[Storage::F32], Storage::Bool)
    }

    /// A comparison of two floats or two booleans.
    pub(super) fn equality(&self, op: BinaryOp) -> Option<Program> {
        self.two(op, &[Storage::F32, Storage::Bool], Storage::Bool)
    }

    /// A function of two booleans.
    pub(super) fn logic(&self, op: BinaryOp) -> Option<Program> {
        self.two(op, &[Storage::Bool], Storage::Bool)
    }

    /// All inputs from left to right; divided by their number where the result is a mean.
    pub(super) fn fold(&self, op: BinaryOp, mean: bool) -> Option<Program> {
        let count = self.values.len();
        let values = self.all(count, Storage::F32)?;
        let (&first, rest) = values.split_first()?;
        let mut b = self.builder.clone();
        let mut result = first;
        for &value in rest {
            result = b.binary(op, result, value);
        }
        // A single input is only copied, which is written as a quotient by one.
        if mean || rest.is_empty() {
            let divisor = b.constant(count as f32);
            b.binary(BinaryOp::Div, result, divisor);
        }
        b.finish(Storage::F32)
    }

    /// The second input where the first is true, else the third.
    pub(super) fn select(&self) -> Option<Program> {
        let [Some((condition, Storage::Bool)), Some((on, storage)), Some((off, other))] = self.values[..] else {
            return None;
        };
        let mut b = self.builder.clone();
        b.select(condition, on, off);
        if storage == other { b.finish(storage) } else { None }
    }

    /// min(max(x, lo), hi): the upper bound wins if they cross. Bounds are attributes (before version 11) or inputs.
    pub(super) fn clip(&self, bounds: [&str; 2]) -> Option<Program> {
        let mut b = self.builder.clone();
        let float = |index: usize| match self.values.get(index).copied().flatten() {
            Some((_, Storage::Bool)) => None,
            other => Some(other.map(|value| value.0)),
        };
        let (x, mut lo, mut hi) = (float(0)??, float(1)?, float(2)?);
        if self.values.len() == 1 {
            [lo, hi] = bounds.map(|name| self.attributes.number(name).map(|value| b.constant(value)));
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

    /// Between `f32` and booleans, by ONNX's numbers of the element types.
    pub(super) fn cast(&self) -> Option<Program> {
        const FLOAT: f32 = 1.0;
        const BOOL: f32 = 9.0;
        let to = self.number("to");
        if let Some((mut b, x)) = self.alone(Storage::Bool).filter(|_| to == FLOAT) {
            // A boolean is read as 0.0 or 1.0 already; the product is only there to be a step.
            let one = b.constant(1.0);
            b.binary(BinaryOp::Mul, x, one);
            return b.finish(Storage::F32);
        }
        if to != BOOL {
            return None;
        }
        self.predicate(|b, x| {
            // Whatever is not zero is true, NaN included.
            let is_zero = b.unary(UnaryOp::Not, x);
            b.unary(UnaryOp::Not, is_zero);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Attr;

    const FLOATS: Input = Input::dynamic(Storage::F32);
    const BOOLEANS: Input = Input::dynamic(Storage::Bool);

    fn known(value: f32) -> Input {
        Input { storage: Storage::F32, constant: Some(value) }
    }

    fn node(op: &str, attrs: &[(&str, Attr)]) -> NodeDesc {
        let attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
        NodeDesc { op: op.to_owned(), attrs, ..NodeDesc::default() }
    }

    fn plain(op: &str, inputs: &[Input]) -> Option<Program> {
        let inputs: Vec<Option<Input>> = inputs.iter().copied().map(Some).collect();
        lower(&node(op, &[]), &inputs)
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
            assert_eq!(lower(&node("Clip", &[]), inputs).unwrap().as_unary(), *function, "{inputs:?}");
        }
        let bounds = [("min", Attr::Float(-1.0)), ("max", Attr::Float(1.0))];
        let clip = lower(&node("Clip", &bounds), &[Some(FLOATS)]).unwrap();
        assert_eq!(clip.as_unary(), Some(clip_to(-1.0, 1.0)));
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
        let gelu = |word: &str| lower(&node("Gelu", &[("approximate", word.into())]), &[Some(FLOATS)]);
        assert_eq!(gelu("tanh").unwrap().as_unary(), Some(UnaryOp::GeluTanh));
        assert_eq!(gelu("guess"), None);
        let leaky = lower(&node("LeakyRelu", &[("alpha", Attr::Float(0.3))]), &[Some(FLOATS)]).unwrap();
        assert_eq!(leaky.as_unary(), Some(UnaryOp::LeakyRelu { alpha: 0.3.into() }));
    }
}
