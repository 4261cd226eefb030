//! A product of two matrices between two reshapes is computed on the original shape if the first reshape flattens all
//! but the last axis and the second undoes that: exporters write linear layers over [batch, steps, width] that way. The
//! nodes that computed the second target become dead, and an addition after it can become a residual.

use kiln_tensor::Tensor;

use super::PassCx;
use super::edit::Edit;
use super::matmul::{is_matmul, transposes};
use super::reshape::fixed_target;
use crate::facts::{Facts, Size};
use crate::ir::{Graph, NodeDesc, ValueId};

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(restore) = edit.cloned(slot, |node| node.is("Reshape")) else { continue };
        let Some((maker, matmul)) = restore.input(0).and_then(|product| edit.sole_maker(product)) else { continue };
        let matmul = matmul.clone();
        if let Some((rows, target)) = direct(&edit, &restore, &matmul, &cx.facts) {
            let rows = match target {
                None => rows,
                Some(target) => reshaped(&mut edit, slot, rows, target),
            };
            edit.take(maker);
            let mut direct = matmul;
            direct.inputs[0] = Some(rows);
            direct.outputs = restore.outputs;
            edit.put(slot, direct);
        }
    }
    edit.finish()
}

/// The value that the product can read instead, so that its result has the shape of the second reshape, and the target
/// of a reshape of that value if its shape is another.
fn direct(
    edit: &Edit<'_>,
    restore: &NodeDesc,
    matmul: &NodeDesc,
    facts: &Facts,
) -> Option<(ValueId, Option<Vec<i64>>)> {
    if !is_matmul(matmul, facts) || transposes(matmul, "trans_a") || matmul.input(3).is_some() {
        return None;
    }
    let (product, flat, b) = (restore.input(0)?, matmul.input(0)?, matmul.input(1)?);
    let (_, flatten) = edit.maker(flat).filter(|(_, node)| node.is("Reshape") || node.is("Flatten"))?;
    let source = flatten.input(0)?;
    let &[_, width] = facts.dims(flat)? else { return None };
    let (columns, restored) = (facts.dims(product)?.last()?, facts.dims(restore.output(0)?)?);
    let (last, lead) = restored.split_last()?;
    if last != columns || lead.is_empty() || facts.rank(b) != Some(2) {
        return None;
    }
    // The second reshape keeps the length of rows and regroups rows, so the same regrouping can come before the
    // product.
    let wanted: Vec<Size> = lead.iter().copied().chain([width]).collect();
    if facts.dims(source) == Some(&wanted) {
        return Some((source, None));
    }
    let target = fixed_target(facts.dims(source).unwrap_or(&[]), &wanted)?;
    Some((source, Some(target)))
}

fn reshaped(edit: &mut Edit<'_>, slot: usize, value: ValueId, target: Vec<i64>) -> ValueId {
    let Ok(target) = Tensor::from_vec([target.len()], target) else { return value };
    let target = edit.add_constant("target", target);
    let rows = edit.add_value_like(value);
    edit.put_before(
        slot,
        NodeDesc {
            name: format!("{}.rows", edit.graph.value(rows).name),
            op: "Reshape".to_owned(),
            version: 13,
            inputs: vec![Some(value), Some(target)],
            outputs: vec![Some(rows)],
            ..NodeDesc::default()
        },
    );
    rows
}
