//! Fuses nodes around a product of f32 into it: a scale, transposes of its operands, a bias row.
//!
//! The fused operator computes alpha * op(A) op(B) + bias + residual and applies an activation ([`super::residual`] and
//! [`super::activation`] add the last two).

use kiln_tensor::{DType, Tensor};

use super::PassCx;
use super::chain::lowered;
use super::edit::Edit;
use super::permute::{Perm, as_ints, perm_of};
use crate::facts::Facts;
use crate::ir::{Attr, Graph, NodeDesc, ValueId};

/// The fused operator's name.
pub(super) const FUSED: &str = "FusedMatMul";

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, |_| true) else { continue };
        if is_matmul(&node, &cx.facts) {
            operands(&mut edit, slot, node, &cx.facts);
        } else if node.is("Mul") || node.is("Div") {
            scaled(&mut edit, slot, &node, &cx.facts);
        } else if node.is("Add") {
            biased(&mut edit, slot, &node, &cx.facts);
        }
    }
    edit.finish()
}

/// Whether the node is a product of f32, fused or not.
pub(super) fn is_matmul(node: &NodeDesc, facts: &Facts) -> bool {
    node.is_fused(FUSED) || (node.is("MatMul") && node.input(0).is_some_and(|a| facts.is(a, DType::F32)))
}

/// The node as the fused operator with all its inputs in place.
pub(super) fn as_fused(node: &NodeDesc) -> NodeDesc {
    let mut fused = node.clone();
    FUSED.clone_into(&mut fused.op);
    "kiln".clone_into(&mut fused.domain);
    fused.inputs.resize(4, None);
    fused
}

/// Whether the node computes alpha * A B and nothing after it.
fn is_bare(node: &NodeDesc) -> bool {
    node.input(2).is_none() && node.input(3).is_none() && !node.attrs.contains_key("activation")
}

/// The element of a constant that broadcasts without adding dimensions.
fn scalar(edit: &Edit<'_>, value: ValueId) -> Option<f32> {
    let tensor = edit.graph.constant(value)?;
    // More dimensions of size 1 could add axes to the result.
    (tensor.shape().is_empty() || tensor.shape() == [1]).then_some(())?;
    tensor.as_slice::<f32>().ok()?.first().copied()
}

/// The other operand of a multiplication by a constant, and that constant.
fn factor(edit: &Edit<'_>, node: &NodeDesc) -> Option<(ValueId, f32)> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    match node.op.as_str() {
        "Mul" => scalar(edit, b).map(|by| (a, by)).or_else(|| scalar(edit, a).map(|by| (b, by))),
        "Div" => scalar(edit, b).filter(|&by| by != 0.0).map(|by| (a, 1.0 / by)),
        _ => None,
    }
}

/// The factor of a product; 1 for a plain MatMul.
pub(super) fn alpha(node: &NodeDesc) -> f32 {
    if node.is_fused(FUSED) { node.attributes().float("alpha") } else { 1.0 }
}

/// Whether a product transposes the operand of that attribute, which a plain MatMul never does.
pub(super) fn transposes(node: &NodeDesc, attribute: &str) -> bool {
    node.is_fused(FUSED) && node.attributes().flag(attribute)
}

fn times(node: &mut NodeDesc, by: f32) {
    let alpha = alpha(node) * by;
    node.attrs.insert("alpha".to_owned(), Attr::Float(alpha));
}

/// Fuses a scale after the product.
fn scaled(edit: &mut Edit<'_>, slot: usize, node: &NodeDesc, facts: &Facts) {
    let Some((product, by)) = factor(edit, node) else { return };
    let Some((maker, matmul)) = edit.sole_maker(product).filter(|(_, m)| is_matmul(m, facts) && is_bare(m)) else {
        return;
    };
    // Multiplying by a constant with one axis would make a vector of a dot product.
    if facts.rank(product).is_none_or(|rank| rank == 0) {
        return;
    }
    let mut fused = as_fused(matmul);
    times(&mut fused, by);
    fused.outputs.clone_from(&node.outputs);
    edit.take(maker);
    edit.put(slot, fused);
}

/// Fuses transposes and scales before the product.
fn operands(edit: &mut Edit<'_>, slot: usize, node: NodeDesc, facts: &Facts) {
    let mut fused = as_fused(&node);
    let mut changed = false;
    for (index, flag) in [(0, "trans_a"), (1, "trans_b")] {
        let Some(operand) = fused.input(index) else { continue };
        let Some((maker, before)) = edit.maker(operand).map(|(maker, node)| (maker, node.clone())) else { continue };
        if before.is("Transpose") {
            let Some(rank) = facts.rank(operand).filter(|&rank| rank >= 2) else { continue };
            let Some(perm) = perm_of(&before, rank) else { continue };
            let mut swapped: Perm = perm;
            swapped.swap(rank - 1, rank - 2);
            if swapped.is_sorted() {
                fused.inputs[index] = before.inputs[0];
            } else if swapped[rank - 1] == rank - 1 && edit.uses(operand) == 1 {
                // The rest of the transpose moves whole rows, which is as fast as a copy.
                let rows = edit.add_value_like(operand);
                let mut rest = before.clone();
                rest.attrs.insert("perm".to_owned(), Attr::Ints(as_ints(&swapped)));
                rest.outputs = vec![Some(rows)];
                edit.put(maker, rest);
                fused.inputs[index] = Some(rows);
            } else {
                continue;
            }
            let flipped = i64::from(!fused.attributes().flag(flag));
            fused.attrs.insert(flag.to_owned(), Attr::Int(flipped));
            changed = true;
        } else if edit.uses(operand) == 1 && (before.is("Mul") || before.is("Div")) && facts.is(operand, DType::F32) {
            let Some((source, by)) = factor(edit, &before) else { continue };
            // The scale of an operand scales the product, unless it also adds dimensions. Among element-wise nodes it
            // stays with these: it costs nothing there, and may be a part of an activation.
            let is_chained = edit.maker(source).is_some_and(|(_, node)| lowered(edit, node, facts).is_some());
            if is_chained || facts.rank(source).is_none_or(|rank| rank == 0) {
                continue;
            }
            times(&mut fused, by);
            fused.inputs[index] = Some(source);
            changed = true;
        }
    }
    if changed {
        edit.put(slot, fused);
    }
}

/// Fuses the addition of a row.
fn biased(edit: &mut Edit<'_>, slot: usize, node: &NodeDesc, facts: &Facts) {
    let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { return };
    for (product, bias) in [(a, b), (b, a)] {
        let Some((maker, matmul)) = edit.sole_maker(product) else { continue };
        // A vector on the right-hand side is one column, which the product does not have: its last axis is that of
        // rows.
        let has_columns = matmul.input(1).and_then(|right| facts.rank(right)).is_some_and(|rank| rank > 1);
        if !is_matmul(matmul, facts) || !is_bare(matmul) || !has_columns {
            continue;
        }
        let mut fused = as_fused(matmul);
        let Some(dims) = facts.dims(product).filter(|dims| !dims.is_empty()) else { continue };
        let last = dims[dims.len() - 1];
        let Some(row) = row(edit, bias, dims.len(), last.known(), facts.dims(bias) == Some(&[last]), facts) else {
            continue;
        };
        fused.inputs[2] = Some(row);
        fused.outputs.clone_from(&node.outputs);
        edit.take(maker);
        edit.put(slot, fused);
        return;
    }
}

/// The value as a row of `columns`: a vector, or a constant that is one with more dimensions.
fn row(
    edit: &mut Edit<'_>,
    bias: ValueId,
    rank: usize,
    columns: Option<i64>,
    is_vector: bool,
    facts: &Facts,
) -> Option<ValueId> {
    if is_vector && facts.is(bias, DType::F32) {
        return Some(bias);
    }
    let columns = usize::try_from(columns?).ok()?;
    let constant = edit.graph.constant(bias).filter(|constant| constant.dtype() == DType::F32)?;
    let (last, leading) = constant.shape().split_last()?;
    if *last != columns || leading.iter().any(|&dim| dim != 1) || constant.shape().len() > rank {
        return None;
    }
    let row: Tensor = constant.reshaped([columns]).ok()?;
    Some(edit.add_constant("bias", row))
}
