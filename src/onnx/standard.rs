//! Operators that the standard defines as functions and that are expanded, because a kernel would gain nothing:
//! FlexAttention, whose scores and probabilities a model changes by its own graphs.
//!
//! The expansion is the definition's: the same operators in the same order, so that roundings agree.

use std::collections::HashMap;

use super::proto::attribute_proto::AttributeType;
use super::proto::{AttributeProto, GraphProto, NodeProto, TensorProto};
use super::{ModelError, place_of};

/// The version of ONNX's own operators in the expansions.
pub(super) const WRITTEN_FOR: i64 = 26;

/// The expansion of `node`, if the standard defines it as a function. `number` tells expansions apart.
pub(super) fn expansion(node: &NodeProto, number: usize) -> Result<Option<Vec<NodeProto>>, ModelError> {
    match (node.domain(), node.op_type()) {
        ("ai.onnx.preview", "FlexAttention") => flex_attention(node, number).map(Some),
        _ => Ok(None),
    }
}

/// Nodes of an expansion, whose values have a common prefix.
struct Draft {
    prefix: String,
    nodes: Vec<NodeProto>,
}

fn int(name: &str, value: i64) -> AttributeProto {
    let kind = Some(AttributeType::Int.into());
    AttributeProto { name: Some(name.to_owned()), i: Some(value), r#type: kind, ..Default::default() }
}

fn ints(name: &str, values: &[i64]) -> AttributeProto {
    let kind = Some(AttributeType::Ints.into());
    AttributeProto { name: Some(name.to_owned()), ints: values.to_vec(), r#type: kind, ..Default::default() }
}

fn float(name: &str, value: f32) -> AttributeProto {
    let kind = Some(AttributeType::Float.into());
    AttributeProto { name: Some(name.to_owned()), f: Some(value), r#type: kind, ..Default::default() }
}

fn constant(tensor: TensorProto) -> AttributeProto {
    let kind = Some(AttributeType::Tensor.into());
    AttributeProto { name: Some("value".to_owned()), t: Some(tensor), r#type: kind, ..Default::default() }
}

impl Draft {
    fn new(prefix: String) -> Draft {
        Draft { prefix, nodes: Vec::new() }
    }

    fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Adds a node that makes the value `output`.
    fn node(&mut self, domain: &str, op: &str, inputs: &[&str], output: String, attribute: Vec<AttributeProto>) {
        self.nodes.push(NodeProto {
            domain: Some(domain.to_owned()),
            op_type: Some(op.to_owned()),
            name: Some(output.clone()),
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![output],
            attribute,
            ..Default::default()
        });
    }

    /// Adds a node of ONNX's own domain, and returns the name of its value.
    fn op(&mut self, op: &str, inputs: &[&str], name: &str, attribute: Vec<AttributeProto>) -> String {
        let output = self.named(name);
        self.node("", op, inputs, output.clone(), attribute);
        output
    }

    /// The sizes of the axes from `start` to `end`.
    fn sizes(&mut self, of: &str, start: i64, end: i64, name: &str) -> String {
        self.op("Shape", &[of], name, vec![int("start", start), int("end", end)])
    }

    /// Inlines a graph of one input and one output on a value; returns the name of the result.
    fn inline(&mut self, graph: &GraphProto, on: &str, label: &str) -> Option<String> {
        let ([input], [output]) = (graph.input.as_slice(), graph.output.as_slice()) else { return None };
        // Names that the graph defines get the prefix; all others are captured.
        let defined = graph.initializer.iter().map(|tensor| tensor.name());
        let defined = defined.chain(graph.node.iter().flat_map(|node| &node.output).map(String::as_str));
        let named = |name: &str| (name.to_owned(), self.named(&format!("{label}/{name}")));
        let mut names: HashMap<String, String> = defined.filter(|name| !name.is_empty()).map(named).collect();
        names.insert(input.name().to_owned(), on.to_owned());
        for tensor in &graph.initializer {
            let made = names[tensor.name()].clone();
            self.node("", "Constant", &[], made, vec![constant(tensor.clone())]);
        }
        self.nodes.extend(graph.node.iter().map(|node| renamed(node, &names)));
        Some(names.get(output.name()).cloned().unwrap_or_else(|| output.name().to_owned()))
    }
}

/// A node with other names for its values, and for the captured values of its graphs.
fn renamed(node: &NodeProto, names: &HashMap<String, String>) -> NodeProto {
    let rename = |name: &String| names.get(name).unwrap_or(name).clone();
    let mut node = node.clone();
    node.input = node.input.iter().map(rename).collect();
    node.output = node.output.iter().map(rename).collect();
    for attribute in &mut node.attribute {
        for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
            graph.node = graph.node.iter().map(|inner| renamed(inner, names)).collect();
            for output in &mut graph.output {
                output.name = names.get(output.name()).cloned().or(output.name.take());
            }
        }
    }
    node
}

/// Softmax(modified(Q K^T)) V by heads; several heads of queries may share one of keys.
fn flex_attention(node: &NodeProto, number: usize) -> Result<Vec<NodeProto>, ModelError> {
    let malformed = |reason: &str| ModelError::Malformed { place: place_of(node), reason: reason.to_owned() };
    let ([query, key, value], [output]) = (node.input.as_slice(), node.output.as_slice()) else {
        return Err(malformed("it takes three inputs and makes one output"));
    };
    let attribute = |name: &str| node.attribute.iter().find(|attribute| attribute.name() == name);
    let mut draft = Draft::new(format!("FlexAttention%{number}/"));
    let d = &mut draft;
    let batch = d.sizes(query, 0, 1, "batch");
    let heads = d.sizes(query, 1, 2, "heads");
    let shared = d.sizes(key, 1, 2, "shared");
    let positions = d.sizes(key, -2, -1, "positions");
    let repeat = d.op("Div", &[&heads, &shared], "repeat", Vec::new());
    let axis = d.op("Constant", &[], "axis", vec![ints("value_ints", &[2])]);
    let mut aligned = |of: &str, label: &str| {
        let apart = d.op("Unsqueeze", &[of, &axis], &format!("{label}/apart"), Vec::new());
        let size = d.sizes(of, 3, 4, &format!("{label}/size"));
        let to = [batch.as_str(), &shared, &repeat, &positions, &size];
        let to = d.op("Concat", &to, &format!("{label}/repeated"), vec![int("axis", 0)]);
        let repeated = d.op("Expand", &[&apart, &to], &format!("{label}/expanded"), Vec::new());
        let to = d.op("Concat", &[&batch, &heads, &positions, &size], &format!("{label}/flat"), vec![int("axis", 0)]);
        d.op("Reshape", &[&repeated, &to], &format!("{label}/aligned"), Vec::new())
    };
    let (keys, values) = (aligned(key, "key"), aligned(value, "value"));
    let scale = match attribute("scale") {
        Some(scale) => d.op("Constant", &[], "scale", vec![float("value_float", scale.f())]),
        None => {
            let size = d.sizes(query, 3, 4, "size");
            let size = d.op("Cast", &[&size], "size/float", vec![int("to", 1)]);
            let root = d.op("Sqrt", &[&size], "size/root", Vec::new());
            d.op("Reciprocal", &[&root], "scale", Vec::new())
        }
    };
    let root = d.op("Sqrt", &[&scale], "scale/root", Vec::new());
    let root = d.op("CastLike", &[&root, query], "scale/like", Vec::new());
    let query_scaled = d.op("Mul", &[query, &root], "query/scaled", Vec::new());
    let keys = d.op("Mul", &[&keys, &root], "key/scaled", Vec::new());
    let keys = d.op("Transpose", &[&keys], "key/turned", vec![ints("perm", &[0, 1, 3, 2])]);
    let scores = d.op("MatMul", &[&query_scaled, &keys], "scores", Vec::new());
    // The type of the softmax is the attribute's, or at least single precision.
    let precision = attribute("softmax_precision").map(|precision| int("to", precision.i()));
    let widened = d.named("scores/widened");
    match precision.clone() {
        Some(to) => d.node("", "Cast", &[&scores], widened.clone(), vec![to]),
        None => d.node("kiln", "Widen", &[&scores], widened.clone(), Vec::new()),
    }
    let modified = |d: &mut Draft, on: String, name: &str| match attribute(name).and_then(|given| given.g.as_ref()) {
        None => Ok(on),
        Some(graph) => d.inline(graph, &on, name).ok_or_else(|| malformed("its graphs have one input and one output")),
    };
    let scores = modified(d, widened, "score_mod")?;
    let chances = d.op("Softmax", &[&scores], "chances", vec![int("axis", 3)]);
    let chances = modified(d, chances, "prob_mod")?;
    let values = d.op("CastLike", &[&values, &chances], "value/widened", Vec::new());
    let made = d.op("MatMul", &[&chances, &values], "made", Vec::new());
    d.node("", "CastLike", &[&made, value], output.clone(), Vec::new());
    Ok(draft.nodes)
}
