//! A matmul between two reshapes, the first of which flattens all but the last axis and the second of which undoes it,
//! works on the original: exporters write linear layers over [batch, steps, width] as a product of two matrices. The
//! nodes that computed the second target are dead then.

use super::PassCx;
use super::edit::Edit;
use super::matmul::is_matmul;
use crate::graph::facts::Facts;
use crate::graph::ir::{Graph, NodeDesc};

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(restore) = edit.cloned(slot, |node| node.is("Reshape")) else { continue };
        let Some((maker, matmul)) = restore.input(0).and_then(|product| edit.sole_maker(product)) else { continue };
        if let Some(direct) = direct(&edit, &restore, matmul, &cx.facts) {
            edit.take(maker);
            edit.put(slot, direct);
        }
    }
    edit.finish()
}

/// The matmul of what was flattened, if that gives what the second reshape gives.
fn direct(edit: &Edit<'_>, restore: &NodeDesc, matmul: &NodeDesc, facts: &Facts) -> Option<NodeDesc> {
    if !is_matmul(matmul, facts) || matmul.int("trans_a", 0) != 0 || matmul.input(3).is_some() {
        return None;
    }
    let (product, flat, b) = (restore.input(0)?, matmul.input(0)?, matmul.input(1)?);
    let (_, flatten) = edit.maker(flat).filter(|(_, node)| node.is("Reshape") || node.is("Flatten"))?;
    let source = flatten.input(0)?;
    let (from, rows) = (facts.dims(source)?, facts.dims(flat)?);
    let (width, lead) = from.split_last()?;
    // The flattened matrix has the source's rows, so its product has them too.
    if lead.is_empty() || rows.len() != 2 || rows[1] != *width || facts.rank(b) != Some(2) {
        return None;
    }
    let (columns, restored) = (facts.dims(product)?.last()?, facts.dims(restore.output(0)?)?);
    if restored.split_last() != Some((columns, lead)) {
        return None;
    }
    let mut direct = matmul.clone();
    direct.inputs[0] = Some(source);
    direct.outputs.clone_from(&restore.outputs);
    Some(direct)
}
