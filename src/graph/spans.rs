//! Which stretches of a graph can be planned: found once, when the graph is compiled.
//!
//! What a plan of a stretch holds must follow from what the plan is found by. That is, the types and shapes of what comes
//! into the stretch, and the contents of a few small inputs of the request. Everything computed from those alone (shapes
//! taken apart and put together again, mostly) is *settled*: it is the same in every request of a plan. A node whose
//! outputs' shapes depend on the contents of anything else, and every [`Flow`](super::Flow), ends a stretch; it runs by
//! itself, and the next stretch is found by what it made.

use std::ops::Range;

use super::ir::{Graph, NodeDesc, ValueId};
use super::run::Work;
use crate::tensor::DType;

/// A stretch of steps.
#[derive(Debug, Default)]
pub(super) struct Span {
    /// Its steps.
    pub(super) steps: Range<usize>,
    /// What a plan of it is found by; none where it cannot be planned.
    pub(super) key: Option<SpanKey>,
}

/// What a plan of a stretch is found by, besides the plan before it.
#[derive(Debug, Default)]
pub(super) struct SpanKey {
    /// Values whose types and shapes count: the request's inputs, and what unplanned steps have made.
    pub(super) specs: Vec<ValueId>,
    /// Inputs whose contents count too.
    pub(super) contents: Vec<ValueId>,
}

/// The stretches of a graph, and of each value whether it is settled.
pub(super) fn find(graph: &Graph, works: &[&Work]) -> (Vec<Span>, Vec<bool>) {
    let listed = listed_contents(graph, works);
    let mut settled = vec![false; graph.values.len()];
    // Also those that are inputs too: an executable whose requests may replace a default does not have it as a constant.
    for value in graph.constants.keys().chain(&listed) {
        settled[value.index()] = true;
    }
    // Whose shapes the key of the stretch in hand would have to name: none once a plan before it has named them.
    let mut open = vec![false; graph.values.len()];
    graph.inputs.iter().for_each(|value| open[value.index()] = true);
    let mut spans: Vec<Span> = Vec::new();
    for (index, (desc, work)) in graph.nodes.iter().zip(works).enumerate() {
        let plannable = match work {
            Work::Node(node) => by_value(desc, node.value_inputs()).all(|value| settled[value.index()]),
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
        if desc.is_repeatable() && (measures || inputs().all(|value| settled[value.index()])) {
            outputs.for_each(|value| settled[value.index()] = true);
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
    // Contents are named by the first plan, and later ones are found by their predecessors.
    if let Some(key) = spans.iter_mut().find_map(|span| span.key.as_mut()) {
        key.contents = listed;
    }
    (spans, settled)
}

/// The request's inputs that some node reads by value, where they are lists of numbers: integers, as they are or after
/// some computing (shapes, axes), or floats as they are (scales). What is larger, a mask, or computed from floats is data.
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

/// Whether the node's outputs follow from its inputs' shapes.
fn reads_shapes_alone(desc: &NodeDesc) -> bool {
    desc.domain.is_empty() && matches!(desc.op.as_str(), "Shape" | "Size")
}

fn by_value(desc: &NodeDesc, mask: u64) -> impl Iterator<Item = ValueId> {
    let inputs = desc.inputs.iter().enumerate();
    inputs.filter(move |(index, _)| *index < 64 && mask >> index & 1 == 1).filter_map(|(_, value)| *value)
}
