//! Gathers out of a transposed constant before it is transposed.
//!
//! A language model whose embedding is the table of its last product reads rows of the transposed table. Folding does
//! not transpose a large table, so every request would transpose all of it for a few rows.

use super::PassCx;
use super::edit::Edit;
use super::permute::{Perm, as_ints, perm_of};
use crate::facts::{self, Facts};
use crate::ir::{Attr, Graph, NodeDesc, ValueId};

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, |node| node.is("Gather")) else { continue };
        let Some((table, axis, perm)) = parts(&edit, &node, &cx.facts) else { continue };
        let Some(&Some(gathered)) = node.outputs.first() else { continue };
        let before = edit.add_value_like(gathered);
        let mut gather = NodeDesc { outputs: vec![Some(before)], ..node.clone() };
        gather.inputs[0] = Some(table);
        gather.attrs.insert("axis".to_owned(), Attr::Int(axis as i64));
        edit.put_before(slot, gather);
        let transpose = NodeDesc {
            name: node.name,
            op: "Transpose".to_owned(),
            version: node.version,
            inputs: vec![Some(before)],
            outputs: node.outputs,
            attrs: [("perm".to_owned(), Attr::Ints(as_ints(&perm)))].into_iter().collect(),
            ..NodeDesc::default()
        };
        edit.put(slot, transpose);
    }
    edit.finish()
}

/// The constant, the axis of it along which elements are gathered, and the permutation of the gathered tensor.
fn parts(edit: &Edit<'_>, node: &NodeDesc, facts: &Facts) -> Option<(ValueId, usize, Perm)> {
    let (_, transpose) = edit.maker(node.input(0)?)?;
    if !transpose.is("Transpose") {
        return None;
    }
    let rank = edit.constant(transpose, 0)?.shape().len();
    let outer = perm_of(transpose, rank)?;
    let from = outer[facts::axis(node.attributes().int("axis"), rank)?];
    let indices = facts.rank(node.input(1)?)?;
    // The axes of the indices take the place of the axis that is gathered along.
    let places = |own: usize| match own.cmp(&from) {
        std::cmp::Ordering::Less => own..own + 1,
        std::cmp::Ordering::Equal => from..from + indices,
        std::cmp::Ordering::Greater => own + indices - 1..own + indices,
    };
    Some((transpose.input(0)?, from, outer.iter().copied().flat_map(places).collect()))
}
