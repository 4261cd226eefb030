//! Outputs of a graph that are bound to memory of the request's caller.
//!
//! The step that makes such an output finds that memory where it would ask for other ([`Io::alloc`](super::Io::alloc)),
//! and writes over no input instead. An output that no step allocates (a reshaped value, an input that is passed on, a
//! part of a larger tensor) has its elements elsewhere when the graph has run; who bound it copies them.

use std::sync::Arc;

use super::ir::ValueId;
use crate::tensor::Tensor;
use crate::tensor::TensorSpec;
use crate::tensor::destination::Destination;

/// The bound outputs of one request. There are a few at most, so that a search is short.
pub(super) struct Bound {
    each: Vec<(ValueId, Arc<Destination>)>,
}

impl Bound {
    /// Binds each of a graph's outputs to its destination. A value that is an output twice goes to the first one.
    pub(super) fn of(outputs: &[ValueId], destinations: &[Option<Arc<Destination>>]) -> Bound {
        let pairs = outputs.iter().zip(destinations);
        Bound { each: pairs.filter_map(|(value, destination)| Some((*value, destination.clone()?))).collect() }
    }

    /// Whether the output is bound to memory for that type and shape.
    pub(super) fn is_for(&self, value: ValueId, spec: &TensorSpec) -> bool {
        self.find(value).is_some_and(|destination| destination.spec() == spec)
    }

    /// A tensor over the memory that the output is bound to; `None` where it is not, or the memory is in use or for
    /// another type or shape.
    pub(super) fn lend(&self, value: ValueId, spec: &TensorSpec) -> Option<Tensor> {
        self.find(value)?.lend(spec)
    }

    fn find(&self, value: ValueId) -> Option<&Arc<Destination>> {
        self.each.iter().find(|(bound, _)| *bound == value).map(|(_, destination)| destination)
    }
}
