//! Facts about each value before anything runs: element type, dimensions, and the elements of small integer tensors.
//!
//! Passes need proofs: that two operands have the same shape whatever the request, that a value holds `f32`, that the
//! last dimension is 768. Dimensions may be unknown and still be equal, so they are kept as symbols ([`Size`]): equal
//! symbols are equal sizes, and a convolution's output size is the same symbol wherever it is computed from the same
//! input size in the same way. The rules for an operator's outputs are in its row of the table ([`operators`]). Integer
//! tensors that hold sizes (`Shape`, then `Gather`, then `Concat`) are followed element by element, because exported
//! models compute the targets of their reshapes that way.
//!
//! Declared dimensions of inputs are trusted: a session refuses a request that contradicts them, or serves it without
//! what was proved where dimensions of one name differ. Declarations of other values are used for element types only; a
//! wrong one ends in a kernel's refusal, never in a wrong read. Unknown operators make unknown values. Nothing here
//! allocates sizes that a model gives.

#[cfg(test)]
mod tests;

use kiln_tensor::DType;
use smallvec::SmallVec;

use super::ir::{Dim, Graph, NodeDesc, ValueId};
use super::operators;

pub use super::operators::size::{Size, Sizes};
pub use super::operators::view::{Dims, Fact, axis};
use super::operators::view::{NOTHING, View};

/// The facts of all values of a graph.
#[derive(Debug, Default)]
pub struct Facts {
    values: Vec<Fact>,
    sizes: Sizes,
}

impl Facts {
    /// Goes through the graph once. `declared` says whether the declared dimensions of its inputs are trusted: those of
    /// a model are, those of a body are not (a loop's values may change shape from iteration to iteration).
    pub fn of(graph: &Graph, declared: bool) -> Facts {
        let mut facts = Facts { values: vec![Fact::default(); graph.values.len()], sizes: Sizes::default() };
        for &input in &graph.inputs {
            let info = graph.value(input);
            let dims = info.dims.as_ref().filter(|_| declared).map(|dims| facts.declared(dims));
            facts.values[input.index()] = Fact { dtype: info.dtype, dims, elements: None };
        }
        for (id, tensor) in &graph.constants {
            facts.values[id.index()] = Fact::of_tensor(tensor);
        }
        for node in &graph.nodes {
            facts.learn(graph, node);
        }
        facts
    }

    /// The facts of one iteration of a body, with facts of its inputs from the graph around it. It trusts the body's
    /// declarations, so it is only for iterations that do not run.
    pub fn of_body(body: &Graph, inputs: &[Option<Fact>]) -> Facts {
        let mut facts = Facts { values: vec![Fact::default(); body.values.len()], sizes: Sizes::default() };
        for (id, tensor) in &body.constants {
            facts.values[id.index()] = Fact::of_tensor(tensor);
        }
        for (place, &input) in body.inputs.iter().enumerate() {
            let outer = inputs.get(place).and_then(Option::as_ref).unwrap_or(NOTHING);
            let info = body.value(input);
            let size = |size: &Size| size.known().map_or_else(|| facts.sizes.fresh(), Size::Known);
            let dims = outer.dims.as_ref().map(|dims| dims.iter().map(size).collect());
            let dims = dims.or_else(|| info.dims.as_ref().map(|dims| facts.declared(dims)));
            let dtype = info.dtype.or(outer.dtype);
            facts.values[input.index()] = Fact { dtype, dims, elements: None };
        }
        for node in &body.nodes {
            facts.learn(body, node);
        }
        facts
    }

    fn declared(&mut self, dims: &[Dim]) -> Dims {
        let size = |dim: &Dim| match dim {
            Dim::Fixed(size) => i64::try_from(*size).map_or_else(|_| self.sizes.fresh(), Size::Known),
            Dim::Named(name) => self.sizes.named(name),
            Dim::Any => self.sizes.unnamed(),
        };
        dims.iter().map(size).collect()
    }

    fn learn(&mut self, graph: &Graph, node: &NodeDesc) {
        let outputs = self.infer(graph, node);
        for (id, fact) in node.outputs.iter().zip(outputs) {
            if let Some(id) = id {
                self.values[id.index()] = fact;
            }
        }
    }

    fn infer(&mut self, graph: &Graph, node: &NodeDesc) -> Vec<Fact> {
        let Facts { values, sizes } = self;
        let inputs: SmallVec<[&Fact; 4]> =
            node.inputs.iter().map(|input| input.map_or(NOTHING, |id| &values[id.index()])).collect();
        let mut outputs = match operators::of(node) {
            Some(row) => operators::infer(&View::of_facts(graph, node, row.attributes_of(node), &inputs), row, sizes),
            None => vec![Fact::default(); node.outputs.len()],
        };
        for (fact, output) in outputs.iter_mut().zip(&node.outputs) {
            fact.dtype = fact.dtype.or_else(|| output.and_then(|id| graph.value(id).dtype));
        }
        outputs
    }

    /// The facts of a value; unknown for a value that was added later.
    pub fn get(&self, value: ValueId) -> &Fact {
        self.values.get(value.index()).unwrap_or(NOTHING)
    }

    /// The dimensions of a value, where its rank is known.
    pub fn dims(&self, value: ValueId) -> Option<&[Size]> {
        self.get(value).dims.as_deref()
    }

    /// The size as a number, where `named` gives the value of each name.
    pub fn value(&self, size: Size, named: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        self.sizes.value(size, named)
    }

    /// The rank of a value.
    pub fn rank(&self, value: ValueId) -> Option<usize> {
        self.dims(value).map(<[Size]>::len)
    }

    /// Whether a value certainly holds elements of that type.
    pub fn is(&self, value: ValueId, dtype: DType) -> bool {
        self.get(value).dtype == Some(dtype)
    }

    /// Whether two values have the same dimensions at every request.
    pub(crate) fn same_dims(&self, a: ValueId, b: ValueId) -> bool {
        matches!((self.dims(a), self.dims(b)), (Some(a), Some(b)) if a == b)
    }

    /// Whether a part of an element-wise computation has about as many elements as the whole: each size of the part
    /// equals the whole's unless it turns out to be 1. Unknown sizes count as equal.
    pub(crate) fn is_as_large(&self, part: ValueId, whole: ValueId) -> bool {
        let (Some(part), Some(whole)) = (self.dims(part), self.dims(whole)) else { return true };
        part.len() == whole.len()
            && part.iter().zip(whole).all(|(&part, &whole)| {
                part == whole
                    || (!part.is_one() && (whole.known().is_some() || self.sizes.may_broadcast_from(whole, part)))
            })
    }

    /// Sets the facts of a value that a pass has added.
    pub(crate) fn set(&mut self, value: ValueId, fact: Fact) {
        if self.values.len() <= value.index() {
            self.values.resize(value.index() + 1, Fact::default());
        }
        self.values[value.index()] = fact;
    }
}
