//! Heads of the cache and their size, where the inputs do not declare them.
//!
//! onnxruntime-genai's builder gives the last axis of the cache a name, so that one graph serves caches of numbers and
//! of codes. Rows that are appended to a part of the cache have the same number and size of heads.

use kiln_model::facts::Facts;
use kiln_model::ir::{Dim, Graph, NodeDesc, ValueId};

use super::Pair;

/// Declares heads and their size of each part of the cache of four axes that leaves them open, where its new rows have
/// known ones.
pub(super) fn declare(graph: &mut Graph, pairs: &[Pair]) {
    let facts = Facts::of(graph, true);
    for pair in pairs {
        let found = graph.nodes.iter().find_map(|node| of_rows(node, pair, &facts));
        let Some(Some(dims)) = graph.values.get_mut(pair.past.index()).map(|info| &mut info.dims) else { continue };
        let (Some((heads, size)), 4) = (found, dims.len()) else { continue };
        for (axis, known) in [(1, heads), (3, size)] {
            if !matches!(dims[axis], Dim::Fixed(_)) {
                dims[axis] = Dim::Fixed(known);
            }
        }
    }
}

/// The heads and their size of the rows that this node appends to the part.
fn of_rows(node: &NodeDesc, pair: &Pair, facts: &Facts) -> Option<(usize, usize)> {
    let known = |value: ValueId, axis: usize| usize::try_from(facts.dims(value)?.get(axis)?.known()?).ok();
    if node.is("Concat") && node.input(0) == Some(pair.past) && node.output(0) == Some(pair.present) {
        let new = node.input(1).filter(|&new| facts.rank(new) == Some(4))?;
        return known(new, 1).zip(known(new, 3));
    }
    let own = [0, 1].into_iter().find(|own| node.is("Attention") && node.input(4 + own) == Some(pair.past))?;
    let new = node.input(1 + own)?;
    match facts.rank(new)? {
        4 => known(new, 1).zip(known(new, 3)),
        3 => {
            let heads = usize::try_from(node.attributes().int("kv_num_heads")).ok()?;
            let width = known(new, 2)?;
            let size = width.checked_div(heads).filter(|size| size * heads == width)?;
            Some((heads, size))
        }
        _ => None,
    }
}
