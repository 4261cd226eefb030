//! Fuses attention as exporters write it into one node: the product of queries and keys, a condition, a mask, the
//! softmax, the product with the values, and the moves of heads before and after.
//!
//! The products and the softmax are found first. In later rounds the node takes in transposes and reshapes around it,
//! one at a time: the kernels read heads with any strides. [`heads`](crate::heads) has the node's attributes.

use kiln_tensor::DType;

use super::PassCx;
use super::edit::Edit;
use super::matmul::{alpha, is_matmul, transposes};
use super::permute::perm_of;
use crate::facts::{self, Facts, Size};
use crate::heads::Heads;
use crate::ir::{Attr, Attrs, Graph, NodeDesc, ValueId};

/// The fused operator. Its inputs are queries, keys, values, a mask that is added, and a condition.
pub(super) const FUSED: &str = "FusedAttention";

/// The attributes with the layouts of heads, by input.
const OPERANDS: [&str; 3] = ["query", "key", "value"];

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, |_| true) else { continue };
        if node.is_fused(FUSED) {
            operands(&mut edit, slot, node, &cx.facts);
        } else if node.is("Transpose") || node.is("Reshape") {
            result(&mut edit, slot, &node, &cx.facts);
        } else if is_matmul(&node, &cx.facts) {
            heart(&mut edit, slot, &node, &cx.facts);
        }
    }
    edit.finish()
}

/// The steps between the product with the keys and the softmax.
#[derive(Default)]
struct Adjusted {
    mask: Option<ValueId>,
    keep: Option<ValueId>,
    fill: f32,
    inverted: bool,
    /// Slots of their nodes.
    slots: Vec<usize>,
}

/// Matches from the product with the values upwards.
fn heart(edit: &mut Edit<'_>, slot: usize, context: &NodeDesc, facts: &Facts) {
    let plain = |node: &NodeDesc| !node.attrs.contains_key("activation") && !transposes(node, "trans_a");
    let bare = plain(context) && context.input(2).is_none() && context.input(3).is_none();
    if !bare || transposes(context, "trans_b") || alpha(context) != 1.0 {
        return;
    }
    let (Some(weights), Some(value)) = (context.input(0), context.input(1)) else { return };
    let Some((softmax_slot, softmax)) = edit.sole_maker(weights).filter(|(_, node)| node.is("Softmax")) else { return };
    let Some(scores) = softmax.input(0) else { return };
    let Some(rank) = facts.rank(scores).filter(|rank| (2..=4).contains(rank)) else { return };
    let axis = softmax.attributes().int("axis");
    if facts::axis(axis, rank) != Some(rank - 1) {
        return;
    }
    let Some((product_slot, product, mut adjusted)) = adjusted(edit, scores, rank, facts) else { return };
    if !plain(&product) {
        return;
    }
    // A residual of the fused product is a mask, unless scores are replaced after it.
    if let Some(added) = product.input(2).or(product.input(3)) {
        let both = product.input(2).is_some() && product.input(3).is_some();
        if both || adjusted.mask.is_some() || adjusted.keep.is_some() {
            return;
        }
        adjusted.mask = Some(added);
    }
    let (Some(query), Some(key)) = (product.input(0), product.input(1)) else { return };
    if [query, key, value].iter().any(|&operand| facts.rank(operand) != Some(rank)) {
        return;
    }
    let stored = if transposes(&product, "trans_b") { Heads::First } else { Heads::Columns };
    let fused = NodeDesc {
        name: context.name.clone(),
        domain: "kiln".to_owned(),
        op: FUSED.to_owned(),
        version: 1,
        attrs: Attrs::from([
            ("rank".to_owned(), Attr::Int(rank as i64)),
            ("scale".to_owned(), Attr::Float(alpha(&product))),
            ("key".to_owned(), stored.word().into()),
            ("fill".to_owned(), Attr::Float(adjusted.fill)),
            ("inverted".to_owned(), Attr::Int(adjusted.inverted.into())),
        ]),
        inputs: vec![Some(query), Some(key), Some(value), adjusted.mask, adjusted.keep],
        outputs: context.outputs.clone(),
    };
    for gone in adjusted.slots.into_iter().chain([softmax_slot, product_slot]) {
        edit.take(gone);
    }
    edit.put(slot, fused);
}

/// Matches from the scores that the softmax reads up to their product, whose slot and node are returned.
fn adjusted(edit: &Edit<'_>, scores: ValueId, rank: usize, facts: &Facts) -> Option<(usize, NodeDesc, Adjusted)> {
    let mut adjusted = Adjusted::default();
    let mut value = scores;
    loop {
        let (slot, node) = edit.sole_maker(value)?;
        if is_matmul(node, facts) {
            return Some((slot, node.clone(), adjusted));
        }
        if node.is("Add") && adjusted.mask.is_none() && adjusted.keep.is_none() {
            let (a, b) = (node.input(0)?, node.input(1)?);
            let is_scores = |value: ValueId| {
                let maker = edit.sole_maker(value);
                maker.is_some_and(|(_, node)| node.is("Where") || is_matmul(node, facts))
            };
            let fits = |mask: ValueId| facts.is(mask, DType::F32) && facts.rank(mask).is_some_and(|r| r <= rank);
            let (above, mask) = [(a, b), (b, a)].into_iter().find(|&(v, mask)| is_scores(v) && fits(mask))?;
            (value, adjusted.mask) = (above, Some(mask));
        } else if node.is("Where") && adjusted.keep.is_none() {
            let [keep, on, off] = [node.input(0)?, node.input(1)?, node.input(2)?];
            if !facts.is(keep, DType::Bool) || facts.rank(keep).is_none_or(|r| r > rank) {
                return None;
            }
            let (above, fill, inverted) = match (number(edit, on), number(edit, off)) {
                (None, Some(fill)) => (on, fill, false),
                (Some(fill), None) => (off, fill, true),
                _ => return None,
            };
            (value, adjusted.keep, adjusted.fill, adjusted.inverted) = (above, Some(keep), fill, inverted);
        } else {
            return None;
        }
        adjusted.slots.push(slot);
    }
}

/// The element of a constant that broadcasts without adding dimensions.
fn number(edit: &Edit<'_>, value: ValueId) -> Option<f32> {
    let tensor = edit.graph.constant(value)?;
    (tensor.shape().is_empty() || tensor.shape() == [1]).then_some(())?;
    tensor.as_slice::<f32>().ok()?.first().copied()
}

/// Takes in the nodes that move the heads of an operand.
fn operands(edit: &mut Edit<'_>, slot: usize, mut fused: NodeDesc, facts: &Facts) {
    let mut changed = false;
    for (index, attribute) in OPERANDS.into_iter().enumerate() {
        let (Some(value), Some(heads)) = (fused.input(index), Heads::of(&fused.attributes(), attribute)) else {
            continue;
        };
        let Some((_, maker)) = edit.maker(value) else { continue };
        let Some(source) = maker.input(0) else { continue };
        let before = if maker.is("Transpose") {
            before_transpose(maker, heads, facts.rank(value))
                .filter(|&heads| heads != Heads::Columns || attribute == "key")
        } else if maker.is("Reshape") && heads == Heads::Behind {
            let Some(count) = joined(facts.dims(source), facts.dims(value)) else { continue };
            fused.attrs.insert(format!("{attribute}_heads"), Attr::Int(count));
            Some(Heads::Joined)
        } else {
            None
        };
        let Some(before) = before else { continue };
        fused.inputs[index] = Some(source);
        fused.attrs.insert(attribute.to_owned(), before.word().into());
        changed = true;
    }
    if changed {
        edit.put(slot, fused);
    }
}

/// The layout of heads before a transpose whose result has the layout `heads`.
fn before_transpose(transpose: &NodeDesc, heads: Heads, rank: Option<usize>) -> Option<Heads> {
    let rank = rank.filter(|_| heads != Heads::Joined)?;
    let perm = perm_of(transpose, rank)?;
    Heads::at(heads.places(rank)?.map(|place| place.map(|axis| perm[axis])), rank)
}

/// The number of heads, if `joined` are dimensions of joined heads and `apart` those of separate heads.
fn joined(joined: Option<&[Size]>, apart: Option<&[Size]>) -> Option<i64> {
    let (&[batch, rows, width], &[same_batch, same_rows, heads, size]) = (joined?, apart?) else { return None };
    let (width, heads, size) = (width.known()?, heads.known()?, size.known()?);
    let fits = batch == same_batch && rows == same_rows && heads.checked_mul(size) == Some(width) && heads > 0;
    fits.then_some(heads)
}

/// Takes in a node that moves the heads of the result.
fn result(edit: &mut Edit<'_>, slot: usize, node: &NodeDesc, facts: &Facts) {
    let (Some(source), Some(output)) = (node.input(0), node.output(0)) else { return };
    let Some((maker, fused)) = edit.sole_maker(source).filter(|(_, fused)| fused.is_fused(FUSED)) else { return };
    let after = match Heads::of(&fused.attributes(), "output") {
        Some(Heads::First) if node.is("Transpose") => {
            let is_behind = perm_of(node, 4).is_some_and(|perm| perm.as_slice() == [0, 2, 1, 3]);
            Some(Heads::Behind).filter(|_| is_behind && facts.rank(source) == Some(4))
        }
        Some(Heads::Behind) if node.is("Reshape") => {
            joined(facts.dims(output), facts.dims(source)).map(|_| Heads::Joined)
        }
        _ => None,
    };
    let Some(after) = after else { return };
    let mut fused = fused.clone();
    fused.attrs.insert("output".to_owned(), after.word().into());
    fused.outputs = vec![Some(output)];
    edit.take(maker);
    edit.put(slot, fused);
}
