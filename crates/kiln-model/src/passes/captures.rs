//! Constants that bodies capture become constants of the bodies, so that folding continues inside.

use std::sync::Arc;

use super::PassCx;
use crate::ir::{Attr, CAPTURES, Graph};

pub(super) fn run(graph: &mut Graph, _: &mut PassCx<'_>) -> usize {
    let mut changes = 0;
    for node in &mut graph.nodes {
        let captures = node.captures().min(node.inputs.len());
        let first = node.inputs.len() - captures;
        // From the last to the first, so that the indices of the others stay valid.
        for place in (0..captures).rev() {
            let Some(id) = node.inputs[first + place] else { continue };
            let Some(constant) = graph.constants.get(&id) else { continue };
            let captures_now = node.inputs.len() - first;
            for attr in node.attrs.values_mut() {
                let Attr::Graph(body) = attr else { continue };
                let body = Arc::make_mut(body);
                // Every body takes all captures; one with fewer inputs is not from a loaded graph.
                let Some(own) = body.inputs.len().checked_sub(captures_now) else { continue };
                let inside = body.inputs.remove(own + place);
                body.set_constant(inside, constant.clone());
            }
            node.inputs.remove(first + place);
            node.attrs.insert(CAPTURES.to_owned(), Attr::Int((captures_now - 1) as i64));
            changes += 1;
        }
    }
    changes
}
