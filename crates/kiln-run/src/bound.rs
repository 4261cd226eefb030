//! Outputs of a graph that are bound to memory of the request's caller.
//!
//! The step that makes such an output gets that memory where it would ask for other ([`Io::alloc`](super::Io::alloc)),
//! and writes over no input instead. Where nothing but views (Reshape, Squeeze) lies between an output and the step
//! that computes its elements, that step gets the memory, under the shape that its value has. An output that no step
//! allocates (an input that is passed on, a part of a larger tensor) has its elements elsewhere when the graph has run;
//! the caller that bound it copies them.
//!
//! An input may have the memory of an output: it is lent to the input first, and the step that reads the input last and
//! makes that output writes over it. No other step does, so that the input is whole until then.

use std::ops::Range;
use std::sync::Arc;

use kiln_model::ir::{Graph, ValueId};
use kiln_tensor::Tensor;
use kiln_tensor::TensorSpec;
use kiln_tensor::destination::Destination;

use super::error::{Mismatch, NodeError};

/// The output of a step.
#[derive(Clone, Copy)]
pub(super) struct Made {
    /// The step, by its place among others.
    pub(super) step: usize,
    /// The output's place among the step's.
    pub(super) output: usize,
}

/// An output of a graph.
#[derive(Clone, Copy)]
pub(super) struct Outlet {
    pub(super) value: ValueId,
    /// The value whose memory it shares: itself, or the value that it is a view of.
    viewed: ValueId,
    /// The step of the graph that makes it; `None` for inputs and constants.
    made: Option<Made>,
}

impl Outlet {
    /// The step and output that make it, if it is made in one of these steps of the graph.
    pub(super) fn made_in(&self, steps: &Range<usize>) -> Option<Made> {
        let made = self.made.filter(|made| steps.contains(&made.step))?;
        Some(Made { step: made.step - steps.start, ..made })
    }
}

/// The outputs of a graph, in order; `is_view` says whether the node at a place makes a view of its first input.
pub(super) fn outlets(graph: &Graph, is_view: impl Fn(usize) -> bool) -> Vec<Outlet> {
    let mut made: Vec<Option<Made>> = vec![None; graph.values.len()];
    for (step, node) in graph.nodes.iter().enumerate() {
        for (output, value) in node.outputs.iter().enumerate() {
            if let Some(value) = value {
                made[value.index()] = Some(Made { step, output });
            }
        }
    }
    let outlet = |&value: &ValueId| {
        let mut viewed = value;
        while let Some(made) = made[viewed.index()].filter(|made| is_view(made.step))
            && let Some(input) = graph.nodes[made.step].input(0)
        {
            viewed = input;
        }
        Outlet { value, viewed, made: made[value.index()] }
    };
    graph.outputs.iter().map(outlet).collect()
}

/// The bound outputs of one request. There are a few at most, so that a search is short.
pub(super) struct Bound {
    each: Vec<Binding>,
}

/// A bound output.
struct Binding {
    /// Its place among the graph's outputs.
    output: usize,
    outlet: Outlet,
    destination: Arc<Destination>,
}

impl Bound {
    /// Binds each of a graph's outputs to its destination. Where two outputs are the same value or views of one value,
    /// the value is made in the first one's destination.
    pub(super) fn of(outlets: &[Outlet], destinations: &[Option<Arc<Destination>>]) -> Bound {
        let outputs = outlets.iter().zip(destinations).enumerate();
        let bound = outputs.filter_map(|(output, (outlet, destination))| {
            Some(Binding { output, outlet: *outlet, destination: destination.clone()? })
        });
        Bound { each: bound.collect() }
    }

    /// Refuses outputs whose types or shapes differ from those of their memory, as far as `spec` knows them.
    ///
    /// # Errors
    ///
    /// [`NodeError::Bound`] for the first such output.
    pub(super) fn check<'s>(&self, spec: impl Fn(&Outlet) -> Option<&'s TensorSpec>) -> Result<(), NodeError> {
        for Binding { output, outlet, destination } in &self.each {
            let bound = destination.spec();
            if let Some(made) = spec(outlet).filter(|made| *made != bound) {
                let (output, bound, made) = (*output, bound.clone(), made.clone());
                return Err(NodeError::Bound(Box::new(Mismatch { output, bound, made })));
            }
        }
        Ok(())
    }

    /// Whether the value is made in bound memory.
    pub(super) fn is_for(&self, value: ValueId, spec: &TensorSpec) -> bool {
        self.find(value).is_some_and(|bound| match bound.outlet.value == value {
            true => bound.destination.spec() == spec,
            false => bound.destination.takes(spec),
        })
    }

    /// A tensor over the memory in which the value is made; `None` where there is none, or it is in use or for another
    /// type or shape.
    pub(super) fn lend(&self, value: ValueId, spec: &TensorSpec) -> Option<Tensor> {
        let bound = self.find(value)?;
        if bound.outlet.value == value { bound.destination.lend(spec) } else { bound.destination.lend_as(spec) }
    }

    /// Whether an input has memory that is bound to some output; if so, whether that output is this value.
    pub(super) fn is_lent(&self, input: &Tensor, value: Option<ValueId>) -> Option<bool> {
        let bound = self.each.iter().find(|bound| bound.destination.holds(input))?;
        Some(value.is_some_and(|value| bound.outlet.value == value || bound.outlet.viewed == value))
    }

    fn find(&self, value: ValueId) -> Option<&Binding> {
        self.each.iter().find(|bound| bound.outlet.value == value || bound.outlet.viewed == value)
    }
}
