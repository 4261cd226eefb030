//! One of the two models in a merged decoder: its If is replaced by the branch for a value of the condition.

use std::sync::Arc;

use hashbrown::HashMap;
use kiln_model::ir::{Attr, Graph, NodeDesc, ValueId, ValueInfo};
use kiln_tensor::{BoolByte, Tensor};

use super::DecoderError;
use super::rewrite::{drop_unread, refused};

/// The input that tells whether there is a cache.
const FLAG: &str = "use_cache_branch";

/// Whether a graph is a merged decoder.
pub(in crate::session) fn is_merged(graph: &Graph) -> bool {
    graph.inputs.iter().any(|&input| graph.value(input).name == FLAG)
}

/// The model of a merged decoder with a cache, or without one.
///
/// # Errors
///
/// Where an If on the flag is not as exporters write it.
pub(in crate::session) fn taken(merged: &Graph, has_cache: bool) -> Result<Graph, DecoderError> {
    let mut graph = merged.clone();
    let Some(flag) = graph.inputs.iter().copied().find(|&input| graph.value(input).name == FLAG) else {
        return Err(refused(format!("no input is '{FLAG}'")));
    };
    graph.inputs.retain(|&input| input != flag);
    graph.values[flag.index()].dims = None;
    let known = Tensor::from_vec([1], vec![BoolByte::from(has_cache)]).map_err(DecoderError::from)?;
    graph.set_constant(flag, known);
    let name = if has_cache { "then_branch" } else { "else_branch" };
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    let mut is_found = false;
    for node in std::mem::take(&mut graph.nodes) {
        if !node.is("If") || node.input(0) != Some(flag) {
            nodes.push(node);
            continue;
        }
        is_found = true;
        let body = match node.attrs.get(name) {
            Some(Attr::Graph(body)) => Arc::clone(body),
            _ => return Err(refused(format!("node '{}' (If) has no {name}", node.name))),
        };
        nodes.extend(inlined(&mut graph, &node, &body)?);
    }
    if !is_found {
        return Err(refused(format!("no node is an If on '{FLAG}'")));
    }
    graph.nodes = nodes;
    drop_unread(&mut graph);
    Ok(graph)
}

/// The nodes of a branch over the values of the graph around it.
fn inlined(graph: &mut Graph, node: &NodeDesc, body: &Graph) -> Result<Vec<NodeDesc>, DecoderError> {
    let given = node.inputs.get(1..).unwrap_or_default();
    if body.inputs.len() != given.len() || body.outputs.len() != node.outputs.len() {
        return Err(refused(format!("node '{}' (If): a branch has other inputs or outputs", node.name)));
    }
    let mut own: HashMap<ValueId, ValueId> = HashMap::with_capacity(body.values.len());
    for (&inside, outside) in body.inputs.iter().zip(given) {
        let outside = outside.ok_or_else(|| refused(format!("node '{}' (If): an input is left out", node.name)))?;
        own.insert(inside, outside);
    }
    // Nodes of the branch make the outputs themselves: a cache is recognised only where Concat makes it.
    let producers = body.producers();
    for (&inside, output) in body.outputs.iter().zip(&node.outputs) {
        if let Some(output) = output
            && producers[inside.index()].is_some()
        {
            own.entry(inside).or_insert(*output);
        }
    }
    for (info, at) in body.values.iter().zip(0..) {
        let inside = ValueId(at);
        if own.contains_key(&inside) {
            continue;
        }
        let name = format!("{}#{}", info.name, graph.values.len());
        let value = graph.add_value(ValueInfo { name, ..info.clone() });
        if let Some(constant) = body.constant(inside) {
            graph.constants.insert(value, constant.clone());
        }
        own.insert(inside, value);
    }
    graph.backings.extend(body.backings.iter().cloned());
    let outside = |value: &Option<ValueId>| value.and_then(|value| own.get(&value).copied());
    let renamed = |step: &NodeDesc| NodeDesc {
        inputs: step.inputs.iter().map(outside).collect(),
        outputs: step.outputs.iter().map(outside).collect(),
        ..step.clone()
    };
    let mut nodes: Vec<NodeDesc> = body.nodes.iter().map(renamed).collect();
    for (value, output) in body.outputs.iter().zip(&node.outputs) {
        let from = own.get(value).copied();
        if output.is_some() && from != *output {
            let (name, op) = (format!("{}/output", node.name), "Identity".to_owned());
            let (inputs, outputs) = (vec![from], vec![*output]);
            nodes.push(NodeDesc { name, op, version: 16, inputs, outputs, ..NodeDesc::default() });
        }
    }
    Ok(nodes)
}
