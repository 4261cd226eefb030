//! Removes nodes that return their input: identities, dropout at inference, casts to the same type, reshapes to the
//! same shape.

use super::PassCx;
use super::edit::Edit;
use crate::facts::Facts;
use crate::ir::{Graph, NodeDesc};

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(node) = edit.node(slot).filter(|node| node.domain.is_empty()) else { continue };
        let (Some(input), Some(output)) = (node.input(0), node.output(0)) else { continue };
        let node = node.clone();
        let extra_read = node.outputs.iter().skip(1).flatten().any(|&extra| edit.uses(extra) > 0);
        if !extra_read && hands_on(&edit, &node, &cx.facts) {
            edit.bypass(slot, output, input);
        }
    }
    edit.finish()
}

/// Whether a slice goes forward: all its steps are positive.
fn goes_forward(node: &NodeDesc, facts: &Facts) -> bool {
    let Some(steps) = node.input(4) else { return true };
    let steps = facts.get(steps).elements.as_ref();
    steps.is_some_and(|steps| steps.iter().all(|step| step.known().is_some_and(|step| step > 0)))
}

fn hands_on(edit: &Edit<'_>, node: &NodeDesc, facts: &Facts) -> bool {
    let (Some(input), Some(output)) = (node.input(0), node.output(0)) else { return false };
    match node.op.as_str() {
        "Identity" => true,
        "Dropout" if node.version >= 12 => match node.input(2) {
            None => true,
            Some(_) => edit.constant(node, 2).is_some_and(|training| training.bytes().iter().all(|&byte| byte == 0)),
        },
        "Dropout" => node.version >= 7,
        "Cast" => node.attributes().dtype("to").is_some_and(|to| facts.is(input, to)),
        "CastLike" => {
            let like = node.input(1).and_then(|like| facts.get(like).dtype);
            like.is_some_and(|to| facts.is(input, to))
        }
        "Concat" | "Sum" | "Max" | "Min" | "Mean" => node.inputs.len() == 1,
        "Transpose" => match node.ints("perm") {
            Some(perm) => perm.iter().enumerate().all(|(place, &from)| from == place as i64),
            None => facts.rank(input).is_some_and(|rank| rank <= 1),
        },
        "Pad" => edit
            .constant(node, 1)
            .and_then(|pads| pads.as_slice::<i64>().ok())
            .or_else(|| node.ints("pads"))
            .is_some_and(|pads| pads.iter().all(|&pad| pad == 0)),
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Expand" | "Tile" => facts.same_dims(input, output),
        "Slice" => facts.same_dims(input, output) && goes_forward(node, facts),
        _ => false,
    }
}
