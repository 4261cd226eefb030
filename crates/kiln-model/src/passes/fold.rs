//! Constant folding: nodes whose results are the same in every request are computed at load.
//!
//! Folding runs a model's nodes before there is a request, so it is bounded: in bytes of an output, in total bytes, and
//! in time; the evaluator bounds the steps of each node. A few hundred bytes of model can declare a tensor of
//! petabytes; such outputs are not even tried. A result much larger than its operands stays a node (an expanded mask
//! would cost memory for the life of the session), except for filled tensors, which stand for weights in models whose
//! weights were removed. Weights that are stored small are folded whatever their size: they stay small (`compact`).

mod compact;

use std::time::{Duration, Instant};

use kiln_tensor::{DType, Tensor};

use super::PassCx;
use super::edit::Edit;
use crate::facts::{Fact, Facts};
use crate::ir::{Attr, CAPTURES, Graph, NodeDesc};
use crate::operators::{self, Folds};
use crate::stop::Stop;

/// Most bytes of one folded output.
pub const FOLDED_BYTES: usize = 64 << 20;

/// Most bytes of all folded outputs of a model.
pub const FOLDED_TOTAL_BYTES: usize = 256 << 20;

/// Most time spent on folding a model.
const FOLDING_TIME: Duration = Duration::from_secs(2);

/// Results up to this size may be larger than their operands.
const ALWAYS_WORTH_BYTES: usize = 1 << 20;

/// The numbers of compact constants may take this many times the bytes of a model's constants, beyond
/// [`FOLDED_TOTAL_BYTES`]. A byte becomes four in each of up to three steps. This bounds a file that makes one tensor
/// into many.
const COMPACT_GROWTH: usize = 16;

/// The rest of the bounds.
pub(super) struct Budget {
    bytes: usize,
    compact_bytes: usize,
    time: Duration,
    stop: Option<Stop>,
}

impl Budget {
    /// The full bounds of that graph; folding also ends with `stop`.
    pub(super) fn of(graph: &Graph, stop: Option<Stop>) -> Budget {
        let grown = constant_bytes(graph).saturating_mul(COMPACT_GROWTH);
        let compact_bytes = grown.saturating_add(FOLDED_TOTAL_BYTES);
        Budget { bytes: FOLDED_TOTAL_BYTES, compact_bytes, time: FOLDING_TIME, stop }
    }

    /// Whether no more nodes are folded.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.check().is_err())
    }
}

/// Bytes of the constants of a graph and the graphs in it.
fn constant_bytes(graph: &Graph) -> usize {
    let attributes = graph.nodes.iter().flat_map(|node| node.attrs.values()).map(|attr| match attr {
        Attr::Tensor(tensor) => tensor.byte_len(),
        Attr::Graph(body) => constant_bytes(body),
        _ => 0,
    });
    bytes(graph.constants.values()).saturating_add(attributes.fold(0, usize::saturating_add))
}

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, |node| node.domain.is_empty() && !node.outputs.is_empty()) else { continue };
        let folded = known_elements(&node, &cx.facts)
            .or_else(|| compacted(edit.graph, &node, cx.folding))
            .or_else(|| evaluated(&mut edit, &node, cx));
        if let Some(outputs) = folded {
            for (id, tensor) in node.outputs.iter().zip(&outputs) {
                // Later nodes are decided with the facts of this one's outputs.
                if let Some(id) = id {
                    cx.facts.set(*id, Fact::of_tensor(tensor));
                }
            }
            edit.make_constants(slot, outputs);
        }
    }
    edit.finish()
}

/// The output, if its elements follow from facts although its inputs are not constants: a size of fixed dimensions.
fn known_elements(node: &NodeDesc, facts: &Facts) -> Option<Vec<Tensor>> {
    let &[Some(output)] = node.outputs.as_slice() else { return None };
    let fact = facts.get(output);
    let elements: Vec<i64> = fact.elements.as_ref()?.iter().map(|size| size.known()).collect::<Option<_>>()?;
    let shape: Vec<usize> =
        fact.dims.as_ref()?.iter().map(|size| usize::try_from(size.known()?).ok()).collect::<Option<_>>()?;
    let tensor = match fact.dtype? {
        DType::I64 => Tensor::from_vec(shape, elements),
        DType::I32 => {
            let narrow: Vec<i32> = elements.iter().map(|&value| i32::try_from(value).ok()).collect::<Option<_>>()?;
            Tensor::from_vec(shape, narrow)
        }
        _ => return None,
    };
    tensor.ok().map(|tensor| vec![tensor])
}

/// The output as a compact constant, within the bound on the numbers of such constants.
fn compacted(graph: &Graph, node: &NodeDesc, folding: &mut Budget) -> Option<Vec<Tensor>> {
    if node.is("Transpose") && (folding.time.is_zero() || folding.is_stopped()) {
        return None;
    }
    let start = Instant::now();
    let tensor = compact::compacted(graph, node);
    folding.time = folding.time.saturating_sub(start.elapsed());
    let tensor = tensor?;
    folding.compact_bytes = folding.compact_bytes.checked_sub(tensor.byte_len())?;
    Some(vec![tensor])
}

fn evaluated(edit: &mut Edit<'_>, node: &NodeDesc, cx: &mut PassCx<'_>) -> Option<Vec<Tensor>> {
    if node.attrs.contains_key(CAPTURES)
        || !node.is_repeatable()
        || folds(node) == Folds::Never
        || cx.folding.time.is_zero()
        || cx.folding.is_stopped()
    {
        return None;
    }
    let inputs: Vec<Option<Tensor>> = node
        .inputs
        .iter()
        .map(|input| input.map_or(Some(None), |id| edit.graph.constant(id).cloned().map(Some)))
        .collect::<Option<_>>()?;
    let expected = expected_bytes(node, &cx.facts, &inputs)?;
    if expected > FOLDED_BYTES.min(cx.folding.bytes) {
        return None;
    }
    let start = Instant::now();
    let outputs = (cx.evaluate)(edit.graph, node, &inputs);
    cx.folding.time = cx.folding.time.saturating_sub(start.elapsed());
    let outputs = outputs.filter(|outputs| outputs.len() >= node.outputs.len())?;
    let made = bytes(outputs.iter());
    if made > FOLDED_BYTES || made > cx.folding.bytes || !is_worth(node, made, bytes(inputs.iter().flatten())) {
        return None;
    }
    cx.folding.bytes -= made;
    Some(outputs)
}

fn bytes<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> usize {
    tensors.map(|tensor| tensor.byte_len()).sum()
}

fn is_worth(node: &NodeDesc, made: usize, from: usize) -> bool {
    made <= ALWAYS_WORTH_BYTES || made <= from.saturating_mul(2) || folds(node) == Folds::Filled
}

/// Bytes of the outputs, as far as their shapes are known; `None` if they are not known and not bounded.
fn expected_bytes(node: &NodeDesc, facts: &Facts, inputs: &[Option<Tensor>]) -> Option<usize> {
    let mut total = 0usize;
    for output in node.outputs.iter().flatten() {
        let fact = facts.get(*output);
        let count = fact.dims.as_ref().and_then(|dims| {
            dims.iter().try_fold(1usize, |count, size| count.checked_mul(usize::try_from(size.known()?).ok()?))
        });
        match count {
            Some(count) => total = total.checked_add(count.checked_mul(fact.dtype.map_or(8, element_bytes))?)?,
            // The outputs of these are about as large as their operands, whatever else is unknown.
            None if folds(node) == Folds::Unsized => total = total.checked_add(bytes(inputs.iter().flatten()))?,
            None => return None,
        }
    }
    Some(total)
}

/// Bytes of an element; for a string those of an empty one.
fn element_bytes(dtype: DType) -> usize {
    if dtype == DType::String { size_of::<String>() } else { dtype.size() }
}

/// Which nodes of that operator are folded; none of an unknown operator.
fn folds(node: &NodeDesc) -> Folds {
    operators::of(node).map_or(Folds::Never, |row| row.folds)
}
