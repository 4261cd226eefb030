//! Running an operator that computes in `f32` on other floats: an adapter that converts in and out.
//!
//! Emitted kernels compute in `f32`. An operator whose node is made through [`through_f32`] also takes `f16`, `bf16`
//! and `f64`: the adapter hands the node converted inputs, and converts the node's results back to the inputs' type.
//! Constants are converted once, when the node is made: weights a piece at a time while they are packed.
//! A node whose inputs are all declared as `f32` (or as no float at all) is returned bare.
//!
//! ```text
//! ("", "MatMul", |cx| through_f32(cx, make_matmul))
//! ```

use kiln_kernels::Isa;
use kiln_kernels::parallel::Serial;
use kiln_model::{Graph, NodeDesc};
use kiln_run::DeviceCx;
use kiln_run::node::{PrepareCx, Specs};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::compact::widens;
use kiln_tensor::{DType, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::cast::convert;
use super::{LoadCx, MakeNode, OpError};

/// Makes a node with `make`, which computes in `f32` and may then be given `f16`, `bf16` or `f64`.
pub fn through_f32(cx: &LoadCx<'_>, make: MakeNode) -> Result<Box<dyn Node>, OpError> {
    through(cx, make, Rule::all(Foreign::AllFloats), usize::MAX)
}

/// As [`through_f32`], for a node that computes `f64` itself: the type need not be known when it is made.
pub(crate) fn narrow_through_f32(cx: &LoadCx<'_>, make: MakeNode) -> Result<Box<dyn Node>, OpError> {
    through(cx, make, Rule::all(Foreign::Narrower), usize::MAX)
}

/// As [`through_f32`], for a node that takes some narrow floats as they are.
pub(crate) fn through_f32_but(
    cx: &LoadCx<'_>,
    make: MakeNode,
    kept: &'static [Kept],
) -> Result<Box<dyn Node>, OpError> {
    through(cx, make, Rule { foreign: Foreign::AllFloats, kept }, usize::MAX)
}

/// An input that stays as it is where it is of this type, and the output that then has the type too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// The input.
    pub(crate) input: usize,
    /// The output.
    pub(crate) output: usize,
    /// The type.
    pub(crate) dtype: DType,
}

/// Which inputs are converted.
#[derive(Clone, Copy, Debug)]
struct Rule {
    foreign: Foreign,
    kept: &'static [Kept],
}

impl Rule {
    const fn all(foreign: Foreign) -> Rule {
        Rule { foreign, kept: &[] }
    }

    /// Whether elements of that type are converted in input `index`.
    fn converts(self, index: usize, dtype: DType) -> bool {
        self.foreign.has(dtype) && !self.kept.iter().any(|kept| kept.input == index && kept.dtype == dtype)
    }

    /// Whether output `index` has the type of an input that stays as it is.
    fn keeps(self, index: usize, inputs: &[Option<&Tensor>]) -> bool {
        let stays = |kept: &Kept| {
            let input = inputs.get(kept.input).copied().flatten();
            kept.output == index && input.is_some_and(|input| !self.converts(kept.input, input.dtype()))
        };
        self.kept.iter().any(stays)
    }
}

/// The elements that a node cannot compute itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foreign {
    /// All floats but `f32`.
    AllFloats,
    /// All that are narrower.
    Narrower,
}

impl Foreign {
    /// Whether the adapter converts elements of that type.
    fn has(self, dtype: DType) -> bool {
        match self {
            Foreign::AllFloats => dtype.is_float() && dtype != DType::F32,
            Foreign::Narrower => matches!(dtype, DType::F16 | DType::BF16),
        }
    }
}

/// Whether an input is known to be f16 or bf16.
pub(crate) fn has_narrow_floats(cx: &LoadCx<'_>) -> bool {
    let declared = cx.node.inputs.iter().flatten().filter_map(|&value| declared_type(cx.graph, value));
    declared.into_iter().any(|dtype| Foreign::Narrower.has(dtype))
}

/// As [`through_f32`], for a node with only its first output of the inputs' type: the others, moments and the like,
/// stay in `f32`.
pub(crate) fn first_through_f32(cx: &LoadCx<'_>, make: MakeNode) -> Result<Box<dyn Node>, OpError> {
    through(cx, make, Rule::all(Foreign::AllFloats), 1)
}

fn through(cx: &LoadCx<'_>, make: MakeNode, rule: Rule, converted_outputs: usize) -> Result<Box<dyn Node>, OpError> {
    let is_own = |index: usize| match cx.node.input(index) {
        Some(value) => declared_type(cx.graph, value).is_some_and(|dtype| !rule.converts(index, dtype)),
        None => true,
    };
    if (0..cx.node.inputs.len()).all(is_own) {
        return make(cx);
    }
    let (graph, node, mut constants) = converted_surroundings(cx, rule)?;
    let inner = make(&LoadCx { node: &node, graph: &graph, ..*cx })?;
    let kept = inner.kept_inputs();
    for (index, constant) in constants.iter_mut().enumerate() {
        match constant {
            Some(tensor) if index < 64 && kept >> index & 1 == 1 => *tensor = Tensor::hollow(tensor.spec().clone()),
            // The elements may come from a file, and no request reads files.
            Some(tensor) => tensor.fetch(),
            None => {}
        }
    }
    Ok(Box::new(ThroughF32 { inner, rule, constants, converted_outputs }))
}

fn declared_type(graph: &Graph, value: kiln_model::ValueId) -> Option<DType> {
    graph.constant(value).map(Tensor::dtype).or(graph.value(value).dtype)
}

/// The spec of a tensor's elements in `f32`.
fn spec_in_f32(tensor: &Tensor) -> TensorSpec {
    TensorSpec { dtype: DType::F32, shape: tensor.spec().shape.clone() }
}

/// A tensor to make or prepare a node with, in `f32` where the node cannot compute its type.
fn to_f32(tensor: &Tensor) -> Result<Tensor, NodeError> {
    match tensor.dtype() {
        // A node that is prepared before its inputs have been computed sees only their types and shapes.
        _ if tensor.is_hollow() => Ok(Tensor::hollow(spec_in_f32(tensor))),
        // Packing widens weights a piece at a time.
        dtype if widens(dtype) => Ok(tensor.in_f32()?),
        _ => convert(tensor, Tensor::zeros(spec_in_f32(tensor))?, &Serial),
    }
}

type Constants = SmallVec<[Option<Tensor>; 4]>;

/// A graph of this node alone, with its constants converted, and those constants by input.
fn converted_surroundings(cx: &LoadCx<'_>, rule: Rule) -> Result<(Graph, NodeDesc, Constants), OpError> {
    let (mut graph, mut node, mut constants) = (Graph::default(), cx.node.clone(), Constants::new());
    for (index, input) in node.inputs.iter_mut().enumerate() {
        let converted = |tensor: &Tensor| match rule.converts(index, tensor.dtype()) {
            true => to_f32(tensor),
            false => Ok(tensor.clone()),
        };
        let constant = input.and_then(|value| cx.graph.constant(value)).map(converted).transpose();
        let constant = constant.map_err(|error| OpError::invalid(cx.node, error.to_string()))?;
        if let Some(value) = input {
            let info = cx.graph.value(*value).clone();
            *value = graph.add_value(info);
            let known = &mut graph.values[value.index()];
            known.dtype = known.dtype.map(|dtype| if rule.converts(index, dtype) { DType::F32 } else { dtype });
            if let Some(tensor) = &constant {
                graph.constants.insert(*value, tensor.clone());
            }
        }
        constants.push(constant);
    }
    for output in node.outputs.iter_mut().flatten() {
        *output = graph.add_value(cx.graph.value(*output).clone());
    }
    Ok((graph, node, constants))
}

struct ThroughF32 {
    inner: Box<dyn Node>,
    rule: Rule,
    /// Converted constants by input.
    constants: Constants,
    /// Outputs, from the first on, that are converted back.
    converted_outputs: usize,
}

impl ThroughF32 {
    /// The type to convert back to: that of the first converted input. `None` where no input is converted.
    fn foreign(&self, inputs: &[Option<&Tensor>]) -> Option<DType> {
        let types = inputs.iter().enumerate().filter_map(|(index, input)| Some((index, input.as_ref()?.dtype())));
        types.into_iter().find(|&(index, dtype)| self.rule.converts(index, dtype)).map(|(_, dtype)| dtype)
    }

    /// The specs of outputs as the node makes them.
    fn specs(&self, specs: &[TensorSpec], foreign: DType, inputs: &[Option<&Tensor>]) -> Specs {
        let is_converted = |index: usize| index < self.converted_outputs && !self.rule.keeps(index, inputs);
        let change = |(index, spec): (usize, &TensorSpec)| TensorSpec {
            dtype: if is_converted(index) && spec.dtype == foreign { DType::F32 } else { spec.dtype },
            shape: spec.shape.clone(),
        };
        specs.iter().enumerate().map(change).collect()
    }

    /// The node's inputs; `convert` makes those that have to be converted and are no constants.
    fn given(
        &self,
        inputs: &[Option<&Tensor>],
        convert: impl Fn(usize, &Tensor) -> Result<Tensor, NodeError>,
    ) -> Result<Constants, NodeError> {
        let one = |(index, input): (usize, &Option<&Tensor>)| match (self.constants.get(index), input) {
            (_, None) => Ok(None),
            (Some(Some(constant)), Some(_)) => Ok(Some(constant.clone())),
            (_, Some(tensor)) if self.rule.converts(index, tensor.dtype()) => convert(index, tensor).map(Some),
            (_, Some(tensor)) => Ok(Some((*tensor).clone())),
        };
        inputs.iter().enumerate().map(one).collect()
    }

    /// The inputs to prepare with: types and shapes, and the elements of inputs that are read by value.
    fn shown(&self, inputs: &[Option<&Tensor>]) -> Result<Constants, NodeError> {
        let by_value = self.value_inputs();
        self.given(inputs, |index, tensor| match index < 64 && by_value >> index & 1 == 1 {
            true => to_f32(tensor),
            false => Ok(Tensor::hollow(spec_in_f32(tensor))),
        })
    }
}

fn borrowed(tensors: &Constants) -> SmallVec<[Option<&Tensor>; 4]> {
    tensors.iter().map(Option::as_ref).collect()
}

impl Node for ThroughF32 {
    fn family(&self) -> &'static str {
        self.inner.family()
    }

    fn value_inputs(&self) -> u64 {
        self.inner.value_inputs()
    }

    fn adds_in_order(&self, isa: Isa, rows: usize) -> bool {
        self.inner.adds_in_order(isa, rows)
    }

    fn kept_inputs(&self) -> u64 {
        self.inner.kept_inputs()
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let Some(foreign) = self.foreign(inputs) else {
            return self.inner.check(inputs, outputs);
        };
        let tensors = self.shown(inputs)?;
        self.inner.check(&borrowed(&tensors), &self.specs(outputs, foreign, inputs))
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let Some(foreign) = self.foreign(inputs) else {
            return self.inner.prepare_params(cx, inputs, outputs);
        };
        let tensors = self.shown(inputs)?;
        self.inner.prepare_params(cx, &borrowed(&tensors), &self.specs(outputs, foreign, inputs))
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        match self.foreign(inputs) {
            None => self.inner.prepare_device(cx, inputs, outputs),
            Some(foreign) => Err(NodeError::Unsupported(format!("{} of {foreign} on a device", self.family()))),
        }
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let Some(foreign) = self.foreign(&io.inputs()) else {
            return self.inner.execute(prepared, io, cx);
        };
        let specs = self.specs(io.specs(), foreign, &io.inputs());
        let mut tensors = self.given(&io.inputs(), |_, tensor| {
            convert(tensor, Tensor::from_pool(cx.buffers, spec_in_f32(tensor))?, cx.parallel)
        })?;
        for &Kept { input, output, .. } in self.rule.kept {
            let stays = io.optional(input).is_some_and(|given| !self.rule.converts(input, given.dtype()));
            if stays {
                // This handle is dropped first: the node may write over a tensor that nothing else holds.
                tensors[input] = None;
                tensors[input] =
                    if io.can_reuse(input, output) { Some(io.take(input)?) } else { io.optional(input).cloned() };
            }
        }
        let mut inner = Io::new(tensors, &specs, cx.buffers);
        self.inner.execute(prepared, &mut inner, cx)?;
        for (index, made) in inner.into_outputs().into_iter().enumerate() {
            let output = match made.spec() == io.spec(index) {
                true => made,
                false => convert(&made, io.alloc(index)?, cx.parallel)?,
            };
            io.push(output);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::trial::Trial;

    /// Doubles `f32` and refuses all else; remembers nothing.
    struct Double;

    impl Node for Double {
        fn family(&self) -> &'static str {
            "Double"
        }

        fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
            match super::super::required(inputs, 0)?.dtype() {
                DType::F32 => Ok(()),
                _ => Err(NodeError::Unsupported("only float32".to_owned())),
            }
        }

        fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
            let mut output = io.alloc(0)?;
            let doubled = io.input(0)?.as_slice::<f32>()?.iter().map(|value| value * 2.0);
            output.as_mut_slice::<f32>()?.iter_mut().zip(doubled).for_each(|(to, value)| *to = value);
            io.push(output);
            Ok(())
        }
    }

    fn make_double(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
        match cx.graph.constant_input(cx.node, 0).map(Tensor::dtype) {
            Some(DType::F32) => Ok(Box::new(Double)),
            other => Err(OpError::unsupported(cx.node, format!("constant of type {other:?}"))),
        }
    }

    #[test]
    fn other_floats_are_converted_in_and_out_and_constants_at_load() {
        let double = || Trial::new("Neg").made_by(|cx| through_f32(cx, make_double));
        double().input(&[2], &[1f32, 2.0]).gives(&[2], &[2f32, 4.0]);
        double().input(&[1], &[f16::from_f32(1.5)]).gives(&[1], &[f16::from_f32(3.0)]);
        double().input(&[1], &[bf16::from_f32(1.5)]).gives(&[1], &[bf16::from_f32(3.0)]);
        double().input(&[1], &[0.25f64]).gives(&[1], &[0.5f64]);
        double().input(&[1], &[1i32]).is_refused("I32");
        // Where the node says that it computes doubles itself, it gets them.
        let narrow = || Trial::new("Neg").made_by(|cx| narrow_through_f32(cx, make_double));
        narrow().input(&[1], &[bf16::from_f32(1.5)]).gives(&[1], &[bf16::from_f32(3.0)]);
        narrow().input(&[1], &[0.25f64]).is_refused("F64");
    }
}
