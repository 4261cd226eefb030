//! Decoders that read embeddings, behind the model that makes embeddings of tokens.
//!
//! Language models that also see or hear are exported in parts: encoders of images and sounds, a model that makes
//! embeddings of tokens and of the encoders' features, and a decoder that reads embeddings. Both last parts together
//! read tokens, as other decoders do. The features are those of no image and no sound: none of their rows is there.

use std::collections::HashSet;

use kiln_model::ir::{Attr, Attrs, Dim, Graph, NodeDesc, ValueId, ValueInfo};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::DecoderError;
use super::rewrite::refused;

/// The input of a decoder, and the output of the model before it, as Hugging Face names them.
const EMBEDDINGS: &str = "inputs_embeds";

/// Puts the graph of an embedding before that of a decoder.
///
/// # Errors
///
/// [`DecoderError::Model`] where the decoder does not read embeddings, or the other graph does not make them of tokens.
pub(super) fn prepend(embedding: Graph, graph: &mut Graph) -> Result<(), DecoderError> {
    let read = graph.inputs.iter().copied().find(|&input| graph.value(input).name == EMBEDDINGS);
    let read = read.ok_or_else(|| refused(format!("no input is '{EMBEDDINGS}', which an embedding would give")))?;
    let Graph { nodes, values, inputs, outputs, constants, backings, .. } = embedding;
    let named = outputs.iter().copied().find(|output| values[output.index()].name == EMBEDDINGS);
    let made = match (named, &outputs[..]) {
        (Some(made), _) | (None, &[made]) => made,
        _ => return Err(refused(format!("no output of the embedding is '{EMBEDDINGS}', and it has several"))),
    };
    // The decoder's values keep their names.
    let taken: HashSet<String> = graph.values.iter().map(|value| value.name.clone()).collect();
    let moved: Vec<ValueId> = values.into_iter().map(|info| add(graph, info, &taken)).collect();
    let moved = |value: ValueId| moved[value.index()];
    graph.constants.extend(constants.into_iter().map(|(value, tensor)| (moved(value), tensor)));
    graph.backings.extend(backings);
    for input in inputs.into_iter().map(moved) {
        if graph.constants.contains_key(&input) {
            continue;
        }
        match none_of(graph.value(input))? {
            Some(none) => graph.set_constant(input, none),
            None => graph.inputs.push(input),
        }
    }
    let mut all: Vec<NodeDesc> = nodes;
    for node in &mut all {
        node.inputs.iter_mut().chain(&mut node.outputs).flatten().for_each(|value| *value = moved(*value));
    }
    let given = in_type_of(graph, moved(made), read, &mut all);
    graph.inputs.retain(|&input| input != read);
    for value in graph.nodes.iter_mut().flat_map(|node| &mut node.inputs).flatten() {
        *value = if *value == read { given } else { *value };
    }
    all.append(&mut graph.nodes);
    graph.nodes = all;
    Ok(())
}

/// Adds a value, under another name where its own is taken.
fn add(graph: &mut Graph, info: ValueInfo, taken: &HashSet<String>) -> ValueId {
    let is_taken = taken.contains(&info.name);
    let value = graph.fresh(&info.name);
    let name = if is_taken { graph.value(value).name.clone() } else { info.name.clone() };
    graph.values[value.index()] = ValueInfo { name, ..info };
    value
}

/// The rows of no image or sound for an input that takes any number of rows of features; `None` for tokens.
fn none_of(input: &ValueInfo) -> Result<Option<Tensor>, DecoderError> {
    let dims = input.dims.as_deref().unwrap_or_default();
    if input.dtype == Some(DType::I64) && dims.len() == 2 {
        return Ok(None);
    }
    let sizes: Option<Vec<usize>> = dims.iter().skip(1).map(fixed).collect();
    let spec = match (input.dtype, dims, sizes) {
        (Some(dtype @ (DType::F32 | DType::F16 | DType::BF16)), [Dim::Named(_) | Dim::Any, ..], Some(sizes)) => {
            TensorSpec::new(dtype, std::iter::once(0).chain(sizes))
        }
        _ => {
            let name = &input.name;
            return Err(refused(format!("input '{name}' of the embedding is neither tokens nor rows of features")));
        }
    };
    Ok(Some(Tensor::zeros(spec)?))
}

fn fixed(dim: &Dim) -> Option<usize> {
    match dim {
        Dim::Fixed(size) => Some(*size),
        Dim::Named(_) | Dim::Any => None,
    }
}

/// The embeddings in the type that the decoder reads: a node is added where that is another one.
fn in_type_of(graph: &mut Graph, made: ValueId, read: ValueId, nodes: &mut Vec<NodeDesc>) -> ValueId {
    let number = match (graph.value(made).dtype, graph.value(read).dtype) {
        (Some(own), Some(wanted)) if own == wanted => return made,
        (_, Some(DType::F16)) => 10,
        (_, Some(DType::BF16)) => 16,
        _ => 1,
    };
    let to = graph.fresh(EMBEDDINGS);
    graph.values[to.index()].dtype = graph.value(read).dtype;
    nodes.push(NodeDesc {
        name: graph.value(to).name.clone(),
        op: "Cast".to_owned(),
        version: 13,
        attrs: Attrs::from_iter([("to".to_owned(), Attr::Int(number))]),
        inputs: vec![Some(made)],
        outputs: vec![Some(to)],
        ..NodeDesc::default()
    });
    to
}
