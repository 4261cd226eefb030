//! Removes nodes and constants that are never read, and optional outputs that are never read.

use super::PassCx;
use crate::ir::{Graph, NodeDesc};

pub(super) fn run(graph: &mut Graph, _: &mut PassCx<'_>) -> usize {
    let mut read = vec![false; graph.values.len()];
    for output in &graph.outputs {
        read[output.index()] = true;
    }
    let mut changes = 0;
    let mut kept: Vec<NodeDesc> = Vec::with_capacity(graph.nodes.len());
    for mut node in std::mem::take(&mut graph.nodes).into_iter().rev() {
        if !node.outputs.iter().flatten().any(|output| read[output.index()]) {
            changes += 1;
            continue;
        }
        for (index, output) in node.outputs.clone().into_iter().enumerate() {
            if output.is_some_and(|output| !read[output.index()]) && is_optional(&node, index) {
                node.outputs[index] = None;
                changes += 1;
            }
        }
        for input in node.inputs.iter().flatten() {
            read[input.index()] = true;
        }
        kept.push(node);
    }
    kept.reverse();
    graph.nodes = kept;
    graph.constants.retain(|id, _| read[id.index()]);
    changes
}

/// Whether an operator's output is optional.
fn is_optional(node: &NodeDesc, output: usize) -> bool {
    match node.op.as_str() {
        "LSTM" | "GRU" | "RNN" => true,
        "MaxPool" | "Dropout" | "LayerNormalization" => output > 0,
        _ => false,
    }
}
