//! The stretches of a graph that can be planned: found once, when the graph is compiled.
//!
//! All that is in a plan must follow from its key: the types and shapes of the values that come into the stretch, and
//! the contents of a few small inputs of the request. Values that are computed from those alone (mostly shapes that are
//! taken apart and put together again) are *folded*: they are constants in all requests of a plan. A node whose output
//! shapes depend on the contents of anything else, and every [`Flow`](super::Flow), ends a stretch; it runs by itself,
//! and its outputs are a part of the next stretch's key.

use std::ops::Range;

use kiln_model::ir::{Graph, NodeDesc, ValueId};
use kiln_model::operators;
use kiln_tensor::DType;

use super::Work;

/// A stretch of steps.
#[derive(Debug, Default)]
pub(super) struct Span {
    /// Its steps.
    pub(super) steps: Range<usize>,
    /// The values in the key of its plans; `None` if it cannot be planned.
    pub(super) key: Option<SpanKey>,
}

/// The values in the key of a stretch's plans, besides the plan before it.
#[derive(Debug, Default)]
pub(super) struct SpanKey {
    /// Values whose types and shapes are in the key: the request's inputs, and outputs of unplanned steps.
    pub(super) specs: Vec<ValueId>,
    /// Inputs whose contents are in the key.
    pub(super) contents: Vec<ValueId>,
}

/// The stretches of a graph, and for each value whether it is folded.
pub(super) fn find(graph: &Graph, works: &[&Work]) -> (Vec<Span>, Vec<bool>) {
    let listed = listed_contents(graph, works);
    let mut folded = vec![false; graph.values.len()];
    // Constants that are inputs as well are folded too: where a request may replace a default, the executable does not
    // have it as a constant.
    for value in graph.constants.keys().chain(&listed) {
        folded[value.index()] = true;
    }
    // Values whose shapes the current stretch's key must have, except those that an earlier plan's key has.
    let mut open = vec![false; graph.values.len()];
    graph.inputs.iter().for_each(|value| open[value.index()] = true);
    let mut spans: Vec<Span> = Vec::new();
    for (index, (desc, work)) in graph.nodes.iter().zip(works).enumerate() {
        let plannable = match work {
            Work::Node(node) => by_value(desc, node.value_inputs()).all(|value| folded[value.index()]),
            Work::Flow(_) => false,
        };
        let outputs = desc.outputs.iter().flatten();
        if !plannable {
            outputs.for_each(|value| open[value.index()] = true);
            spans.push(Span { steps: index..index + 1, key: None });
            continue;
        }
        let inputs = || desc.inputs.iter().flatten();
        let measures = reads_shapes_alone(desc);
        if desc.is_repeatable() && (measures || inputs().all(|value| folded[value.index()])) {
            outputs.for_each(|value| folded[value.index()] = true);
        }
        if spans.last().is_none_or(|span| span.key.is_none()) {
            spans.push(Span { steps: index..index, key: Some(SpanKey::default()) });
        }
        let Some(Span { steps, key: Some(key) }) = spans.last_mut() else { continue };
        steps.end = index + 1;
        for &value in inputs() {
            if std::mem::take(&mut open[value.index()]) {
                key.specs.push(value);
            }
        }
    }
    // The first plan's key has the contents; later plans are keyed by their predecessors.
    if let Some(key) = spans.iter_mut().find_map(|span| span.key.as_mut()) {
        key.contents = listed;
    }
    (spans, folded)
}

/// The request's inputs that some node reads by value, if they are lists of numbers: integers, directly or after some
/// computation (shapes, axes), or floats read directly (scales). Larger tensors, masks and values computed from floats
/// are data.
fn listed_contents(graph: &Graph, works: &[&Work]) -> Vec<ValueId> {
    let mut needed = vec![false; graph.values.len()];
    let mut direct = vec![false; graph.values.len()];
    for (desc, work) in graph.nodes.iter().zip(works).rev() {
        let Work::Node(node) = work else { continue };
        for value in by_value(desc, node.value_inputs()) {
            needed[value.index()] = true;
            direct[value.index()] = true;
        }
        let wanted = desc.outputs.iter().flatten().any(|value| needed[value.index()]);
        if wanted && desc.is_repeatable() && !reads_shapes_alone(desc) {
            desc.inputs.iter().flatten().for_each(|value| needed[value.index()] = true);
        }
    }
    let is_list = |value: &ValueId| {
        let info = graph.value(*value);
        let numbers = match info.dtype {
            Some(DType::I32 | DType::I64) => needed[value.index()],
            Some(DType::F32 | DType::F64) => direct[value.index()],
            _ => false,
        };
        numbers && info.dims.as_ref().is_some_and(|dims| dims.len() <= 1)
    };
    graph.inputs.iter().copied().filter(is_list).collect()
}

/// Whether the node's outputs follow from its inputs' shapes alone.
fn reads_shapes_alone(desc: &NodeDesc) -> bool {
    operators::of(desc).is_some_and(|row| row.measures)
}

fn by_value(desc: &NodeDesc, mask: u64) -> impl Iterator<Item = ValueId> {
    let inputs = desc.inputs.iter().enumerate();
    inputs.filter(move |(index, _)| *index < 64 && mask >> index & 1 == 1).filter_map(|(_, value)| *value)
}
