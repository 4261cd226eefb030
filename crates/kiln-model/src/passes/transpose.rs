//! Merges transposes of transposes. A transpose that moves no axis longer than 1 past another becomes a reshape.

use kiln_tensor::Tensor;

use super::PassCx;
use super::edit::Edit;
use super::permute::{as_ints, compose, perm_of};
use crate::facts::Facts;
use crate::ir::{Attr, Graph, NodeDesc};

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, |node| node.is("Transpose")) else { continue };
        if let Some(merged) = merged(&edit, &node) {
            edit.put(slot, merged);
        } else if let Some(target) = as_view(&node, &cx.facts) {
            let Ok(target) = Tensor::from_vec([target.len()], target) else { continue };
            let target = edit.add_constant("target", target);
            let inputs = vec![node.inputs[0], Some(target)];
            edit.put(slot, NodeDesc { op: "Reshape".to_owned(), attrs: Default::default(), inputs, ..node });
        }
    }
    edit.finish()
}

/// The transpose of a transpose as one.
fn merged(edit: &Edit<'_>, node: &NodeDesc) -> Option<NodeDesc> {
    let (_, inner) = edit.maker(node.input(0)?)?;
    if !inner.is("Transpose") {
        return None;
    }
    // One of the two has to say how many axes there are.
    let rank = inner.ints("perm").or_else(|| node.ints("perm"))?.len();
    let perm = compose(&perm_of(inner, rank)?, &perm_of(node, rank)?);
    let mut merged = node.clone();
    merged.inputs[0] = inner.input(0);
    merged.attrs.insert("perm".to_owned(), Attr::Ints(as_ints(&perm)));
    Some(merged)
}

/// The target of an equivalent reshape, if axes longer than 1 keep their order.
fn as_view(node: &NodeDesc, facts: &Facts) -> Option<Vec<i64>> {
    let dims = facts.dims(node.input(0)?)?;
    let perm = perm_of(node, dims.len())?;
    let moving: Vec<usize> = perm.iter().copied().filter(|&axis| !dims[axis].is_one()).collect();
    if !moving.is_sorted() || perm.is_sorted() {
        return None;
    }
    let mut rest = false;
    let size = |(place, &axis): (usize, &usize)| match dims[axis].known() {
        Some(size) => (size > 0).then_some(size),
        None if place == axis => Some(0),
        None => (!std::mem::replace(&mut rest, true)).then_some(-1),
    };
    perm.iter().enumerate().map(size).collect()
}
