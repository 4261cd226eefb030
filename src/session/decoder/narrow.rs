//! Parts of a cache that a model takes and gives in `f32` and reads in `f16`, as converters to `f16` write models whose
//! inputs and outputs keep their types.
//!
//! The inputs and outputs of such a part become `f16`. This changes no result, because every number that an output
//! has, and the next step reads, is one of `f16`.

use kiln_model::facts::Facts;
use kiln_model::ir::{Attrs, Graph, NodeDesc, ValueId};
use kiln_tensor::DType;

use super::handed::Pair;

/// Gives these parts of the cache the type in which they are read. What were casts of them are then copies. Returns
/// whether there are any.
pub(super) fn narrow(graph: &mut Graph, pairs: &[Pair]) -> bool {
    let narrow: Vec<Pair> = {
        let facts = Facts::of(graph, true);
        pairs.iter().copied().filter(|&pair| is_wide(graph, &facts, pair)).collect()
    };
    for &Pair { past, present } in &narrow {
        for value in [past, present] {
            graph.values[value.index()].dtype = Some(DType::F16);
        }
        for node in graph.nodes.iter_mut().filter(|node| node.output(0) == Some(present)) {
            (node.op, node.attrs) = ("Identity".to_owned(), Attrs::new());
        }
    }
    !narrow.is_empty()
}

/// Whether a part is read through casts to `f16` alone, and given by a cast from `f16`.
fn is_wide(graph: &Graph, facts: &Facts, Pair { past, present }: Pair) -> bool {
    let reads = |node: &&NodeDesc, value: ValueId| node.inputs.contains(&Some(value));
    let casts_to = |node: &NodeDesc, dtype: DType| node.is("Cast") && node.attributes().dtype("to") == Some(dtype);
    let mut readers = graph.nodes.iter().filter(|node| reads(node, past)).peekable();
    let maker = graph.nodes.iter().find(|node| node.outputs.contains(&Some(present)));
    let is_given = maker.is_some_and(|node| {
        casts_to(node, DType::F32) && node.input(0).is_some_and(|value| facts.is(value, DType::F16))
    });
    facts.is(past, DType::F32)
        && is_given
        && readers.peek().is_some()
        && readers.all(|node| casts_to(node, DType::F16))
        && !graph.nodes.iter().any(|node| reads(&node, present))
}
