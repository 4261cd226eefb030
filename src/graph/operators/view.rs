//! A node and what is known of its inputs: what the rules of the table look at.

use smallvec::SmallVec;

use super::attributes::Attributes;
use super::size::Size;
use crate::graph::ir::{Graph, NodeDesc};
use crate::tensor::{DType, Tensor};

/// Dimensions of a value.
pub(crate) type Dims = SmallVec<[Size; 5]>;

/// Most elements that are followed one by one: enough for any shape.
pub(crate) const MOST_ELEMENTS: usize = 64;

/// What is known of one value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fact {
    /// Its element type.
    pub(crate) dtype: Option<DType>,
    /// Its dimensions.
    pub(crate) dims: Option<Dims>,
    /// Its elements in order, for integer tensors of rank 0 and 1.
    pub(crate) elements: Option<Dims>,
}

impl Fact {
    pub(crate) fn of_tensor(tensor: &Tensor) -> Fact {
        let dims: Dims = tensor.shape().iter().map(|&dim| Size::Known(dim as i64)).collect();
        let small = tensor.shape().len() <= 1 && tensor.len() <= MOST_ELEMENTS;
        let integers = matches!(tensor.dtype(), DType::I64 | DType::I32);
        let elements = (small && integers).then(|| tensor.to_i64_vec().ok()).flatten();
        let elements = elements.map(|values| values.into_iter().map(Size::Known).collect());
        Fact { dtype: Some(tensor.dtype()), dims: Some(dims), elements }
    }
}

/// Nothing is known.
pub(crate) const NOTHING: &Fact = &Fact { dtype: None, dims: None, elements: None };

/// A node and what is known of its inputs.
pub(crate) struct View<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) node: &'a NodeDesc,
    pub(crate) inputs: &'a [&'a Fact],
    /// The node's attributes, with the operator's defaults.
    pub(crate) attributes: Attributes<'a>,
}

impl<'a> View<'a> {
    pub(crate) fn input(&self, index: usize) -> &'a Fact {
        self.inputs.get(index).copied().unwrap_or(NOTHING)
    }

    pub(crate) fn has(&self, index: usize) -> bool {
        self.node.input(index).is_some()
    }

    pub(crate) fn dtype(&self, index: usize) -> Option<DType> {
        self.input(index).dtype
    }

    pub(crate) fn dims(&self, index: usize) -> Option<&'a [Size]> {
        self.input(index).dims.as_deref()
    }

    pub(crate) fn elements(&self, index: usize) -> Option<&'a [Size]> {
        self.input(index).elements.as_deref()
    }

    /// An integer attribute, or its default.
    pub(crate) fn int(&self, name: &str) -> i64 {
        self.attributes.int(name)
    }

    /// The elements of an integer input that are all known.
    pub(crate) fn known(&self, index: usize) -> Option<Vec<i64>> {
        self.elements(index)?.iter().map(|size| size.known()).collect()
    }

    /// A list that is an attribute in old versions of an operator and an input in new ones. `Some(None)` where neither
    /// is given, `None` where it is given and not known.
    pub(crate) fn ints(&self, attribute: &str, input: usize) -> Option<Option<Vec<i64>>> {
        if let Some(values) = self.node.ints(attribute) {
            return Some(Some(values.to_vec()));
        }
        if self.has(input) { self.known(input).map(Some) } else { Some(None) }
    }
}

/// An axis counted from the end where it is negative.
pub(crate) fn axis(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}
