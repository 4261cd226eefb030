//! A node and the facts of its inputs: the argument of the table's rules, at load and at run time.

use kiln_tensor::{DType, Tensor};
use smallvec::SmallVec;

use super::attributes::Attributes;
use super::error::{Open, ShapeError};
use super::number::Number;
use super::size::Size;
use crate::ir::{Graph, NodeDesc};

/// Dimensions of a value.
pub type Dims = SmallVec<[Size; 5]>;

/// Dimensions of every output.
pub(crate) type Outputs = SmallVec<[Dims; 2]>;

/// A list of integers: axes, sizes, amounts.
pub(crate) type Ints = SmallVec<[i64; 8]>;

/// Most elements that are followed one by one: enough for any shape.
pub(crate) const MOST_ELEMENTS: usize = 64;

/// The facts of one value.
#[derive(Clone, Debug, Default)]
pub struct Fact {
    /// Its element type.
    pub dtype: Option<DType>,
    /// Its dimensions.
    pub dims: Option<Dims>,
    /// Its elements in order, for integer tensors of rank 0 and 1.
    pub elements: Option<Dims>,
}

impl Fact {
    pub(crate) fn of_tensor(tensor: &Tensor) -> Fact {
        let dims = dims_of(tensor);
        let small = tensor.shape().len() <= 1 && tensor.len() <= MOST_ELEMENTS;
        let integers = matches!(tensor.dtype(), DType::I64 | DType::I32);
        let elements = (small && integers).then(|| tensor.to_i64_vec().ok()).flatten();
        let elements = elements.map(|values| values.into_iter().map(Size::Known).collect());
        Fact { dtype: Some(tensor.dtype()), dims: Some(dims), elements }
    }
}

/// The dimensions of a tensor, none of which is larger than an `i64`.
fn dims_of(tensor: &Tensor) -> Dims {
    tensor.shape().iter().map(|&dim| Size::Known(dim as i64)).collect()
}

/// Nothing is known.
pub(crate) const NOTHING: &Fact = &Fact { dtype: None, dims: None, elements: None };

/// Where a rule finds its inputs.
#[derive(Clone, Copy)]
enum Inputs<'a> {
    /// At load: the facts of the values of a graph.
    Facts { graph: &'a Graph, facts: &'a [&'a Fact] },
    /// When the node runs: its tensors, which may be hollow.
    Tensors(&'a [Option<&'a Tensor>]),
}

/// A node and the facts of its inputs.
pub struct View<'a> {
    pub(crate) node: &'a NodeDesc,
    /// The node's attributes, with the operator's defaults.
    pub(crate) attributes: Attributes<'a>,
    inputs: Inputs<'a>,
}

impl<'a> View<'a> {
    /// A node of a graph, at load.
    pub(crate) fn of_facts(
        graph: &'a Graph,
        node: &'a NodeDesc,
        attributes: Attributes<'a>,
        facts: &'a [&'a Fact],
    ) -> View<'a> {
        View { node, attributes, inputs: Inputs::Facts { graph, facts } }
    }

    /// A node that is given these tensors.
    pub fn of_tensors(node: &'a NodeDesc, attributes: Attributes<'a>, tensors: &'a [Option<&'a Tensor>]) -> View<'a> {
        View { node, attributes, inputs: Inputs::Tensors(tensors) }
    }

    /// The number of inputs, including those that are left out.
    pub(crate) fn count(&self) -> usize {
        match self.inputs {
            Inputs::Facts { .. } => self.node.inputs.len(),
            Inputs::Tensors(tensors) => tensors.len(),
        }
    }

    /// Whether the node has that input.
    pub(crate) fn has(&self, index: usize) -> bool {
        match self.inputs {
            Inputs::Facts { .. } => self.node.input(index).is_some(),
            Inputs::Tensors(tensors) => tensors.get(index).is_some_and(Option::is_some),
        }
    }

    /// The facts of an input at load, or its tensor.
    fn given(&self, index: usize) -> Result<Given<'a>, Open> {
        match self.inputs {
            _ if !self.has(index) => Err(ShapeError::Missing(index).into()),
            Inputs::Facts { facts, .. } => Ok(Given::Fact(facts.get(index).copied().unwrap_or(NOTHING))),
            Inputs::Tensors(tensors) => match tensors.get(index).copied().flatten() {
                Some(tensor) => Ok(Given::Tensor(tensor)),
                None => Err(ShapeError::Missing(index).into()),
            },
        }
    }

    /// The element type of an input, where it is known.
    pub(crate) fn dtype(&self, index: usize) -> Option<DType> {
        match self.given(index).ok()? {
            Given::Fact(fact) => fact.dtype,
            Given::Tensor(tensor) => Some(tensor.dtype()),
        }
    }

    /// The dimensions of an input.
    pub(crate) fn dims(&self, index: usize) -> Result<Dims, Open> {
        match self.given(index)? {
            Given::Fact(fact) => fact.dims.clone().ok_or(Open::Unknown),
            Given::Tensor(tensor) => Ok(dims_of(tensor)),
        }
    }

    /// The elements of an integer input of rank 0 or 1.
    pub(crate) fn elements(&self, index: usize) -> Result<Dims, Open> {
        match self.given(index)? {
            Given::Fact(fact) => fact.elements.clone().ok_or(Open::Unknown),
            Given::Tensor(tensor) => Ok(integers(index, tensor)?.into_iter().map(Size::Known).collect()),
        }
    }

    /// The elements of an integer input that are all known.
    pub(crate) fn known(&self, index: usize) -> Result<Ints, Open> {
        match self.given(index)? {
            Given::Fact(fact) => {
                let known = fact.elements.as_ref().and_then(|all| all.iter().map(|size| size.known()).collect());
                known.ok_or(Open::Unknown)
            }
            Given::Tensor(tensor) => integers(index, tensor),
        }
    }

    /// The tensor of an input: a constant at load, any when the node runs.
    fn tensor(&self, index: usize) -> Result<&'a Tensor, Open> {
        let tensor = match self.inputs {
            _ if !self.has(index) => return Err(ShapeError::Missing(index).into()),
            Inputs::Facts { graph, .. } => graph.constant_input(self.node, index),
            Inputs::Tensors(tensors) => tensors.get(index).copied().flatten(),
        };
        tensor.ok_or(Open::Unknown)
    }

    /// The elements of an `f32` input that are known.
    pub(crate) fn floats(&self, index: usize) -> Result<SmallVec<[f32; 8]>, Open> {
        self.tensor(index)?.as_slice::<f32>().map(SmallVec::from_slice).map_err(|_| Open::Unknown)
    }

    /// The single number in an input of any type.
    pub(crate) fn number(&self, index: usize) -> Result<Number, Open> {
        Number::of(index, self.tensor(index)?)
    }

    /// The single number in an input of any type, as a size: a symbol where the input is computed from sizes.
    pub(crate) fn size(&self, index: usize) -> Result<Size, Open> {
        if let Ok(Given::Fact(Fact { elements: Some(elements), .. })) = self.given(index)
            && let &[size] = &elements[..]
        {
            return Ok(size);
        }
        Ok(Size::Known(self.number(index)?.size()))
    }

    /// An integer attribute, or its default.
    pub(crate) fn int(&self, name: &str) -> i64 {
        self.attributes.int(name)
    }

    /// A list that is an attribute in old versions of an operator and an input in new ones; none where neither is
    /// given.
    pub(crate) fn ints(&self, attribute: &str, input: usize) -> Result<Option<Ints>, Open> {
        if let Some(values) = self.node.ints(attribute) {
            return Ok(Some(Ints::from_slice(values)));
        }
        if self.has(input) { self.known(input).map(Some) } else { Ok(None) }
    }
}

/// An input.
enum Given<'a> {
    Fact(&'a Fact),
    Tensor(&'a Tensor),
}

fn integers(input: usize, tensor: &Tensor) -> Result<Ints, Open> {
    if tensor.shape().len() > 1 {
        return Err(ShapeError::List { input, dims: dims_of(tensor).as_slice().into() }.into());
    }
    let found = tensor.dtype();
    match found {
        DType::I64 => tensor.as_slice::<i64>().map(Ints::from_slice).map_err(|_| Open::Unknown),
        DType::I32 => {
            let values = tensor.as_slice::<i32>().map_err(|_| Open::Unknown)?;
            Ok(values.iter().map(|&value| i64::from(value)).collect())
        }
        _ => Err(ShapeError::Type { input, expected: DType::I64, found }.into()),
    }
}

/// An axis counted from the end where it is negative.
pub fn axis(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

/// The same, with an error where there is no such axis.
pub(super) fn axis_of(named: i64, rank: usize) -> Result<usize, Open> {
    axis(named, rank).ok_or_else(|| ShapeError::Axis { axis: named, rank }.into())
}

/// Axes counted from the end where they are negative, each named once.
pub(super) fn axes_of(axes: &[i64], rank: usize) -> Result<SmallVec<[usize; 8]>, Open> {
    let mut found = SmallVec::new();
    for &axis in axes {
        let checked = axis_of(axis, rank)?;
        if found.contains(&checked) {
            return Err(ShapeError::AxisTwice { axis, axes: axes.to_vec() }.into());
        }
        found.push(checked);
    }
    Ok(found)
}
