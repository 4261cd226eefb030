//! Fuses layer normalisation as exporters wrote it before there was an operator: ReduceMean, Sub, Pow, ReduceMean, Add,
//! Sqrt, Div, Mul, Add over the last axis.
//!
//! A pattern ends with the scale, or with the bias after it. Only `f32` is fused: the results differ no more than by
//! another order of additions. `f16` rounds after every step, and is not fused.

use kiln_tensor::{DType, Tensor};

use super::PassCx;
use super::edit::Edit;
use crate::facts::{self, Facts};
use crate::ir::{Attr, Attrs, Graph, NodeDesc, ValueId};

/// The operator set that has the operator.
const VERSION: i64 = 17;

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, |node| node.is("Add") || node.is("Mul")) else { continue };
        if let Some((fused, slots)) = fused(&edit, &node, &cx.facts) {
            slots.into_iter().for_each(|slot| drop(edit.take(slot)));
            edit.put(slot, fused);
        }
    }
    edit.finish()
}

/// The operator for the pattern that `node` ends, and the slots of the nodes before it, which become dead.
fn fused(edit: &Edit<'_>, node: &NodeDesc, facts: &Facts) -> Option<(NodeDesc, Vec<usize>)> {
    let mut slots = Vec::new();
    let (product, bias) = match node.op.as_str() {
        "Mul" => (node.clone(), None),
        "Add" => {
            let (slot, product, bias) = operand(edit, node, "Mul")?;
            slots.push(slot);
            (product, Some(bias))
        }
        _ => return None,
    };
    let (slot, quotient, scale) = operand(edit, &product, "Div")?;
    slots.push(slot);
    let (centred, root) = (quotient.input(0)?, quotient.input(1)?);
    let (slot, root) = sole(edit, root, "Sqrt")?;
    slots.push(slot);
    let (slot, sum) = sole(edit, root.input(0)?, "Add")?;
    slots.push(slot);
    let (slot, variance, epsilon) = operand(edit, &sum, "ReduceMean")?;
    slots.push(slot);
    let epsilon = number(edit, epsilon)?;
    let (slot, square) = edit.sole_maker(variance.input(0)?)?;
    let readers = match square.op.as_str() {
        "Pow" if square.domain.is_empty() && number(edit, square.input(1)?) == Some(2.0) => 2,
        "Mul" if square.domain.is_empty() && square.input(0) == square.input(1) => 3,
        _ => return None,
    };
    if square.input(0) != Some(centred) || edit.uses(centred) != readers {
        return None;
    }
    slots.push(slot);
    let (slot, difference) = edit.maker(centred).filter(|(_, node)| node.is("Sub"))?;
    slots.push(slot);
    let x = difference.input(0)?;
    let (slot, mean) = sole(edit, difference.input(1)?, "ReduceMean")?;
    slots.push(slot);
    let fits = mean.input(0) == Some(x)
        && facts.is(x, DType::F32)
        && [&mean, &variance].into_iter().all(|node| is_of_last_axis(edit, node, x, facts))
        && is_row(scale, x, facts)
        && bias.is_none_or(|bias| is_row(bias, x, facts));
    let attrs = Attrs::from([("axis".to_owned(), Attr::Int(-1)), ("epsilon".to_owned(), Attr::Float(epsilon))]);
    let inputs = [Some(x), Some(scale), bias].into_iter().take(2 + usize::from(bias.is_some())).collect();
    let made = NodeDesc { op: "LayerNormalization".to_owned(), version: VERSION, attrs, inputs, ..node.clone() };
    // A scale before a bias is fused with the bias, when the pass gets there.
    (fits && (bias.is_some() || !is_followed_by_bias(edit, node, facts))).then_some((made, slots))
}

/// An operand of `node` whose maker is an `op` that only `node` reads: the slot and node of this maker, and the other
/// operand.
fn operand(edit: &Edit<'_>, node: &NodeDesc, op: &str) -> Option<(usize, NodeDesc, ValueId)> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let made = |value, other| sole(edit, value, op).map(|(slot, node)| (slot, node, other));
    made(a, b).or_else(|| made(b, a))
}

fn sole(edit: &Edit<'_>, value: ValueId, op: &str) -> Option<(usize, NodeDesc)> {
    edit.sole_maker(value).filter(|(_, node)| node.is(op)).map(|(slot, node)| (slot, node.clone()))
}

/// Whether an Add of a row follows; the pass then fuses both when it gets to that Add.
fn is_followed_by_bias(edit: &Edit<'_>, product: &NodeDesc, facts: &Facts) -> bool {
    let Some(output) = product.output(0) else { return true };
    edit.uses(output) == 1
        && edit.slots().filter_map(|slot| edit.at(slot)).any(|node| {
            let other = match (node.input(0), node.input(1)) {
                (Some(a), Some(b)) if a == output => b,
                (Some(a), Some(b)) if b == output => a,
                _ => return false,
            };
            node.is("Add") && facts.dims(other).is_some_and(|dims| dims.len() == 1)
        })
}

/// The element of a constant of one element.
fn number(edit: &Edit<'_>, value: ValueId) -> Option<f32> {
    let constant: &Tensor = edit.graph.constant(value).filter(|tensor| tensor.len() == 1)?;
    match constant.dtype() {
        DType::F32 => constant.as_slice::<f32>().ok()?.first().copied(),
        DType::I32 | DType::I64 => Some(*constant.to_i64_vec().ok()?.first()? as f32),
        _ => None,
    }
}

/// Whether a mean is over the last axis, which it keeps.
fn is_of_last_axis(edit: &Edit<'_>, mean: &NodeDesc, x: ValueId, facts: &Facts) -> bool {
    let axes = match (mean.ints("axes"), mean.input(1)) {
        (Some(axes), _) => Some(axes.to_vec()),
        (None, Some(axes)) => edit.graph.constant(axes).and_then(|axes| axes.to_i64_vec().ok()),
        (None, None) => None,
    };
    match (axes.as_deref(), facts.rank(x)) {
        (Some(&[axis]), Some(rank)) => mean.attributes().flag("keepdims") && facts::axis(axis, rank) == Some(rank - 1),
        _ => false,
    }
}

/// Whether a value is one row of the input's last axis.
fn is_row(value: ValueId, x: ValueId, facts: &Facts) -> bool {
    let last = facts.dims(x).and_then(|dims| dims.last().copied());
    last.is_some_and(|last| facts.dims(value) == Some(&[last])) && facts.is(value, DType::F32)
}
