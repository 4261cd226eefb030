//! Running an operator that computes in `f32` on other floats: an adapter that converts in and out.
//!
//! Emitted kernels compute in `f32`. An operator whose node is made through [`through_f32`] also takes `f16`, `bf16`
//! and `f64`: where the adapter meets such inputs it hands the node converted ones, and converts what the node makes
//! back to the inputs' type. Constants are converted once, when the node is made: weights a piece at a time while they
//! are packed.
//! A node whose inputs are all declared as `f32` (or as no float at all) is returned bare.
//!
//! ```text
//! ("", "MatMul", |cx| through_f32(cx, make_matmul))
//! ```

use kiln_kernels::parallel::Serial;
use smallvec::SmallVec;

use super::cast::convert;
use super::{LoadCx, MakeNode, OpError};
#[cfg(feature = "device")]
use crate::graph::DeviceCx;
use crate::graph::node::{PrepareCx, Specs};
use crate::graph::{Graph, Io, Node, NodeDesc, NodeError, Prepared, RunCx};
use crate::tensor::compact::widens;
use crate::tensor::{DType, Expansion, Tensor, TensorSpec};

/// Makes a node with `make` that may be given `f16`, `bf16` or `f64` where it computes in `f32`.
pub fn through_f32(cx: &LoadCx<'_>, make: MakeNode) -> Result<Box<dyn Node>, OpError> {
    through(cx, make, Foreign::AllFloats, usize::MAX)
}

/// As [`through_f32`], for a node that computes `f64` itself: which it is given need not be known when it is made.
pub(crate) fn narrow_through_f32(cx: &LoadCx<'_>, make: MakeNode) -> Result<Box<dyn Node>, OpError> {
    through(cx, make, Foreign::Narrower, usize::MAX)
}

/// Which elements a node cannot compute itself.
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

/// As [`through_f32`], for a node whose first output alone is of the inputs' type: what follows are moments and the
/// like, which stay in `f32`.
pub(crate) fn first_through_f32(cx: &LoadCx<'_>, make: MakeNode) -> Result<Box<dyn Node>, OpError> {
    through(cx, make, Foreign::AllFloats, 1)
}

fn through(
    cx: &LoadCx<'_>,
    make: MakeNode,
    foreign: Foreign,
    converted_outputs: usize,
) -> Result<Box<dyn Node>, OpError> {
    let declared = |index: usize| cx.node.input(index).map(|value| declared_type(cx.graph, value));
    let types: Vec<Option<DType>> = (0..cx.node.inputs.len()).filter_map(declared).collect();
    if types.iter().all(|dtype| dtype.is_some_and(|dtype| !foreign.has(dtype))) {
        return make(cx);
    }
    let (graph, node, mut constants) = converted_surroundings(cx, foreign)?;
    let inner = make(&LoadCx { node: &node, graph: &graph, build: cx.build })?;
    let kept = inner.kept_inputs();
    for (index, constant) in constants.iter_mut().enumerate() {
        match constant {
            Some(tensor) if index < 64 && kept >> index & 1 == 1 => *tensor = Tensor::hollow(tensor.spec().clone()),
            // No request reads files, which the elements may follow from.
            Some(tensor) => tensor.fetch(),
            None => {}
        }
    }
    Ok(Box::new(ThroughF32 { inner, foreign, constants, converted_outputs }))
}

fn declared_type(graph: &Graph, value: crate::graph::ValueId) -> Option<DType> {
    graph.constant(value).map(Tensor::dtype).or(graph.value(value).dtype)
}

/// The spec of a tensor's elements in `f32`.
fn spec_in_f32(tensor: &Tensor) -> TensorSpec {
    TensorSpec { dtype: DType::F32, shape: tensor.spec().shape.clone() }
}

/// A tensor that is made or prepared with, in `f32` where the node cannot compute its type.
fn to_f32(tensor: &Tensor, foreign: Foreign) -> Result<Tensor, NodeError> {
    match tensor.dtype() {
        dtype if !foreign.has(dtype) => Ok(tensor.clone()),
        // A node that is prepared before its inputs have been computed is shown their types and shapes alone.
        _ if tensor.is_hollow() => Ok(Tensor::hollow(spec_in_f32(tensor))),
        // Packing widens weights a piece at a time.
        dtype if widens(dtype) => Ok(Tensor::compact(tensor.clone(), Expansion::default())?),
        _ => convert(tensor, Tensor::zeros(spec_in_f32(tensor))?, &Serial),
    }
}

type Constants = SmallVec<[Option<Tensor>; 4]>;

/// A graph of this node alone, with its constants converted, and those constants by input.
fn converted_surroundings(cx: &LoadCx<'_>, foreign: Foreign) -> Result<(Graph, NodeDesc, Constants), OpError> {
    let (mut graph, mut node, mut constants) = (Graph::default(), cx.node.clone(), Constants::new());
    for input in &mut node.inputs {
        let constant =
            input.and_then(|value| cx.graph.constant(value)).map(|tensor| to_f32(tensor, foreign)).transpose();
        let constant = constant.map_err(|error| OpError::invalid(cx.node, error.to_string()))?;
        if let Some(value) = input {
            let info = cx.graph.value(*value).clone();
            *value = graph.add_value(info);
            let known = &mut graph.values[value.index()];
            known.dtype = known.dtype.map(|dtype| if foreign.has(dtype) { DType::F32 } else { dtype });
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
    foreign: Foreign,
    /// Converted constants by input.
    constants: Constants,
    /// Outputs, from the first on, that are converted back.
    converted_outputs: usize,
}

impl ThroughF32 {
    /// The type to convert back to: the first input's that is converted. Nothing where none is.
    fn foreign<'t>(&self, inputs: impl Iterator<Item = Option<&'t Tensor>>) -> Option<DType> {
        inputs.flatten().map(Tensor::dtype).find(|&dtype| self.foreign.has(dtype))
    }

    /// The inputs as the node is given them, each that is no constant made by `convert` where it has to be converted.
    fn given(
        &self,
        inputs: &[Option<&Tensor>],
        convert: impl Fn(usize, &Tensor) -> Result<Tensor, NodeError>,
    ) -> Result<Constants, NodeError> {
        let one = |(index, input): (usize, &Option<&Tensor>)| match (self.constants.get(index), input) {
            (_, None) => Ok(None),
            (Some(Some(constant)), Some(_)) => Ok(Some(constant.clone())),
            (_, Some(tensor)) if self.foreign.has(tensor.dtype()) => convert(index, tensor).map(Some),
            (_, Some(tensor)) => Ok(Some((*tensor).clone())),
        };
        inputs.iter().enumerate().map(one).collect()
    }

    /// The inputs to prepare with: types and shapes, and elements of those alone that are read by value.
    fn shown(&self, inputs: &[Option<&Tensor>]) -> Result<Constants, NodeError> {
        let by_value = self.value_inputs();
        self.given(inputs, |index, tensor| match index < 64 && by_value >> index & 1 == 1 {
            true => to_f32(tensor, self.foreign),
            false => Ok(Tensor::hollow(spec_in_f32(tensor))),
        })
    }
}

fn borrowed(tensors: &Constants) -> SmallVec<[Option<&Tensor>; 4]> {
    tensors.iter().map(Option::as_ref).collect()
}

/// Specs of which the first `count` are of type `to` where they were of type `from`.
fn with_type(specs: &[TensorSpec], from: DType, to: DType, count: usize) -> Specs {
    let change = |(index, spec): (usize, &TensorSpec)| TensorSpec {
        dtype: if index < count && spec.dtype == from { to } else { spec.dtype },
        shape: spec.shape.clone(),
    };
    specs.iter().enumerate().map(change).collect()
}

impl Node for ThroughF32 {
    fn family(&self) -> &'static str {
        self.inner.family()
    }

    fn value_inputs(&self) -> u64 {
        self.inner.value_inputs()
    }

    fn kept_inputs(&self) -> u64 {
        self.inner.kept_inputs()
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let Some(foreign) = self.foreign(inputs.iter().copied()) else {
            return self.inner.check(inputs, outputs);
        };
        let tensors = self.shown(inputs)?;
        self.inner.check(&borrowed(&tensors), &with_type(outputs, foreign, DType::F32, self.converted_outputs))
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let Some(foreign) = self.foreign(inputs.iter().copied()) else {
            return self.inner.prepare_params(cx, inputs, outputs);
        };
        let tensors = self.shown(inputs)?;
        self.inner.prepare_params(
            cx,
            &borrowed(&tensors),
            &with_type(outputs, foreign, DType::F32, self.converted_outputs),
        )
    }

    #[cfg(feature = "device")]
    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        match self.foreign(inputs.iter().copied()) {
            None => self.inner.prepare_device(cx, inputs, outputs),
            Some(foreign) => Err(NodeError::Unsupported(format!("{} of {foreign} on a device", self.family()))),
        }
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let Some(foreign) = self.foreign(io.inputs().iter().copied()) else {
            return self.inner.execute(prepared, io, cx);
        };
        let tensors = self.given(&io.inputs(), |_, tensor| {
            convert(tensor, Tensor::from_pool(cx.buffers, spec_in_f32(tensor))?, cx.parallel)
        })?;
        let specs = with_type(io.specs(), foreign, DType::F32, self.converted_outputs);
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
    use crate::ops::trial::Trial;

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
