//! Makes targets of reshapes constant, and merges reshapes of reshapes.
//!
//! Exporters compute the target of a reshape from the shape of its input, because they do not know the batch. Mostly
//! the unknown sizes keep their position, which ONNX writes as 0, and one other can be written as -1. Then the target
//! is a constant, and the nodes that computed it are dead.

use kiln_tensor::{DType, Tensor};

use super::PassCx;
use super::edit::Edit;
use crate::facts::{Facts, Size};
use crate::ir::{Attr, Graph, NodeDesc, ValueId};

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(mut node) = edit.cloned(slot, |node| node.is("Reshape")) else { continue };
        let mut changed = false;
        if edit.constant(&node, 1).is_none()
            && let Some(target) = target_of(&node, &cx.facts)
            && let Ok(target) = Tensor::from_vec([target.len()], target)
        {
            let target = edit.add_constant("target", target);
            node.inputs[1] = Some(target);
            node.attrs.remove("allowzero");
            changed = true;
        }
        if let Some(source) = through_views(&edit, &node) {
            node.inputs[0] = Some(source);
            changed = true;
        }
        if changed {
            edit.put(slot, node);
        }
    }
    edit.finish()
}

/// The target of a reshape between those sizes: 0 for sizes that keep their position and at most one -1.
pub(super) fn fixed_target(from: &[Size], to: &[Size]) -> Option<Vec<i64>> {
    let mut rest = false;
    let size = |(place, &size): (usize, &Size)| match size {
        // A target of 0 would mean that the size stays.
        Size::Known(size) => (size > 0).then_some(size),
        symbol if from.get(place) == Some(&symbol) => Some(0),
        Size::Symbol { .. } => (!std::mem::replace(&mut rest, true)).then_some(-1),
    };
    to.iter().enumerate().map(size).collect()
}

fn target_of(node: &NodeDesc, facts: &Facts) -> Option<Vec<i64>> {
    fixed_target(facts.dims(node.input(0)?).unwrap_or(&[]), facts.dims(node.output(0)?)?)
}

/// The input of the view before a reshape to fixed sizes, if the reshape can read that input instead.
fn through_views(edit: &Edit<'_>, node: &NodeDesc) -> Option<ValueId> {
    let target = edit.constant(node, 1).filter(|target| target.dtype() == DType::I64)?;
    let target = target.as_slice::<i64>().ok()?;
    if node.attrs.get("allowzero").is_some_and(|attr| !matches!(attr, Attr::Int(0))) {
        return None;
    }
    let (_, view) = edit.maker(node.input(0)?)?;
    if !view.domain.is_empty() || !matches!(view.op.as_str(), "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze") {
        return None;
    }
    let source = view.input(0)?;
    // A 0 means the size at that position of the view; it means the same of the source if the view has the source's
    // size at that position.
    let stays = |place: usize| leaves_in_place(edit, view, place);
    target.iter().enumerate().all(|(place, &size)| size != 0 || stays(place)).then_some(source)
}

/// Whether a view has its input's size number `place` at the same position.
fn leaves_in_place(edit: &Edit<'_>, view: &NodeDesc, place: usize) -> bool {
    if view.op != "Reshape" || view.attributes().flag("allowzero") {
        return false;
    }
    let target = edit.constant(view, 1).and_then(|target| target.as_slice::<i64>().ok());
    target.is_some_and(|target| target.get(place) == Some(&0))
}
