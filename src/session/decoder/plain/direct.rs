//! Simplifies a graph's use of its cache: removes copies, and replaces sizes that no step changes.

use hashbrown::{HashMap, HashSet};
use kiln_model::facts::{Dims, Facts};
use kiln_model::ir::{Attr, Attrs, Graph, NodeDesc, ValueId};
use kiln_tensor::{DType, Tensor};

use super::{Pair, Part, list, made};
use crate::session::decoder::DecoderError;
use crate::session::decoder::rewrite::refused;

/// Makes every node read the source of an Identity, of a Concat of one input or of a Cast to the type that its input
/// has. Where an output of the cache is such a copy, the node before it makes the output itself.
pub(super) fn skip_copies(graph: &mut Graph, pairs: &[Pair]) {
    let facts = Facts::of(graph, true);
    let is_copy = |node: &NodeDesc| {
        let casts = || {
            let to = node.attributes().dtype("to");
            node.is("Cast") && node.input(0).zip(to).is_some_and(|(from, to)| facts.is(from, to))
        };
        node.inputs.len() == 1 && (node.is("Identity") || node.is("Concat") || casts())
    };
    let mut origins: HashMap<ValueId, ValueId> = HashMap::new();
    for node in graph.nodes.iter().filter(|node| is_copy(node)) {
        if let Some((from, to)) = node.input(0).zip(node.output(0)) {
            origins.insert(to, origins.get(&from).copied().unwrap_or(from));
        }
    }
    let producers = graph.producers();
    let mut names: HashMap<ValueId, ValueId> = HashMap::new();
    for pair in pairs {
        if let Some(&origin) = origins.get(&pair.present)
            && producers[origin.index()].is_some()
            && !graph.outputs.contains(&origin)
            && !names.contains_key(&origin)
        {
            names.insert(origin, pair.present);
        }
    }
    for node in &mut graph.nodes {
        let is_copy = is_copy(node);
        for output in &mut node.outputs {
            let is_made_before = is_copy && output.is_some_and(|value| names.values().any(|&name| name == value));
            *output = output.filter(|_| !is_made_before).map(|value| names.get(&value).copied().unwrap_or(value));
        }
        for input in node.inputs.iter_mut().flatten() {
            let origin = origins.get(input).copied().unwrap_or(*input);
            *input = names.get(&origin).copied().unwrap_or(origin);
        }
    }
}

/// Operators that give the numbers of a cache another shape.
const MOVES: [&str; 4] = ["Expand", "Reshape", "Transpose", "Unsqueeze"];

/// A size, or a list of sizes, that is computed from the shape of a part of the cache and is the same in all steps.
struct Settled {
    value: ValueId,
    elements: Dims,
    is_list: bool,
}

/// Replaces sizes of the cache that no step changes: heads and their size are known, and the number of sequences is
/// taken from the tokens. A cache may have more sequences than a step.
pub(super) fn settle_sizes(graph: &mut Graph, parts: &[Part], tokens: ValueId) -> Result<(), DecoderError> {
    let facts = Facts::of(graph, true);
    let batch = facts.dims(tokens).and_then(|dims| dims.first().copied());
    let mut follows: HashSet<ValueId> = parts.iter().flat_map(|part| [part.past, part.present]).collect();
    let mut all = Vec::new();
    for node in &graph.nodes {
        if !node.inputs.iter().flatten().any(|input| follows.contains(input)) {
            continue;
        }
        for &value in node.outputs.iter().flatten() {
            let Some(elements) = &facts.get(value).elements else {
                // Heads that queries share are repeated, and their sizes are asked for.
                if MOVES.contains(&node.op.as_str()) {
                    follows.insert(value);
                }
                continue;
            };
            let is_settled = elements.iter().all(|size| size.known().is_some() || Some(*size) == batch);
            let rank = facts.rank(value).filter(|&rank| rank <= 1);
            match rank.filter(|_| is_settled && facts.is(value, DType::I64) && !graph.outputs.contains(&value)) {
                Some(rank) => all.push(Settled { value, elements: elements.clone(), is_list: rank == 1 }),
                None => drop(follows.insert(value)),
            }
        }
    }
    let settled: HashSet<ValueId> = all.iter().map(|settled| settled.value).collect();
    for output in graph.nodes.iter_mut().flat_map(|node| &mut node.outputs) {
        *output = output.filter(|value| !settled.contains(value));
    }
    let mut steps = Vec::new();
    for Settled { value, elements, is_list } in all {
        let known: Option<Vec<i64>> = elements.iter().map(|size| size.known()).collect();
        match known {
            Some(known) => {
                let shape: Vec<usize> = if is_list { vec![known.len()] } else { Vec::new() };
                let tensor = Tensor::from_vec(shape, known).map_err(|error| refused(error.to_string()))?;
                graph.set_constant(value, tensor);
            }
            None => {
                let batch = graph.fresh("sizes/sequences");
                let first = Attrs::from([("start".to_owned(), Attr::Int(0)), ("end".to_owned(), Attr::Int(1))]);
                steps.push(NodeDesc { version: 15, ..made("Shape", first, vec![Some(tokens)], batch) });
                let mut each = Vec::with_capacity(elements.len());
                for size in elements {
                    each.push(Some(match size.known() {
                        Some(known) => list(graph, "sizes/known", vec![known])?,
                        None => batch,
                    }));
                }
                let axis = Attrs::from([("axis".to_owned(), Attr::Int(0))]);
                let joined = if is_list { value } else { graph.fresh("sizes/joined") };
                steps.push(made("Concat", axis, each, joined));
                if !is_list {
                    let scalar = list(graph, "sizes/scalar", Vec::new())?;
                    steps.push(made("Reshape", Attrs::new(), vec![Some(joined), Some(scalar)], value));
                }
            }
        }
    }
    graph.nodes.splice(0..0, steps);
    Ok(())
}
