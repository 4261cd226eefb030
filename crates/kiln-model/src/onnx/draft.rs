//! Nodes that take the place of one node of a model, while they are drafted.

use std::collections::{HashMap, HashSet};

use super::proto::attribute_proto::AttributeType;
use super::proto::{AttributeProto, GraphProto, NodeProto, TensorProto};

/// Nodes of an expansion, whose values have a common prefix.
pub(super) struct Draft {
    prefix: String,
    pub(super) nodes: Vec<NodeProto>,
    /// Nodes that come from a graph of the model. The names of all other nodes mean the standard's operators, whatever
    /// functions the model defines.
    pub(super) of_model: HashSet<usize>,
}

pub(super) fn int(name: &str, value: i64) -> AttributeProto {
    let kind = Some(AttributeType::Int.into());
    AttributeProto { name: Some(name.to_owned()), i: Some(value), r#type: kind, ..Default::default() }
}

pub(super) fn ints(name: &str, values: &[i64]) -> AttributeProto {
    let kind = Some(AttributeType::Ints.into());
    AttributeProto { name: Some(name.to_owned()), ints: values.to_vec(), r#type: kind, ..Default::default() }
}

pub(super) fn float(name: &str, value: f32) -> AttributeProto {
    let kind = Some(AttributeType::Float.into());
    AttributeProto { name: Some(name.to_owned()), f: Some(value), r#type: kind, ..Default::default() }
}

pub(super) fn floats(name: &str, values: &[f32]) -> AttributeProto {
    let kind = Some(AttributeType::Floats.into());
    AttributeProto { name: Some(name.to_owned()), floats: values.to_vec(), r#type: kind, ..Default::default() }
}

pub(super) fn texts(name: &str, values: &[Vec<u8>]) -> AttributeProto {
    let kind = Some(AttributeType::Strings.into());
    AttributeProto { name: Some(name.to_owned()), strings: values.to_vec(), r#type: kind, ..Default::default() }
}

pub(super) fn text(name: &str, value: &str) -> AttributeProto {
    let kind = Some(AttributeType::String.into());
    AttributeProto { name: Some(name.to_owned()), s: Some(value.into()), r#type: kind, ..Default::default() }
}

fn constant(tensor: TensorProto) -> AttributeProto {
    let kind = Some(AttributeType::Tensor.into());
    AttributeProto { name: Some("value".to_owned()), t: Some(tensor), r#type: kind, ..Default::default() }
}

/// These names, without empty ones at the end.
fn listed(names: &[&str]) -> Vec<String> {
    let count = names.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    names[..count].iter().map(|&name| name.to_owned()).collect()
}

impl Draft {
    pub(super) fn new(prefix: String) -> Draft {
        Draft { prefix, nodes: Vec::new(), of_model: HashSet::new() }
    }

    pub(super) fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Adds a node that makes the value `output`. Empty names among the inputs are inputs that are left out.
    pub(super) fn node(
        &mut self,
        domain: &str,
        op: &str,
        inputs: &[&str],
        output: String,
        attribute: Vec<AttributeProto>,
    ) {
        self.nodes.push(NodeProto {
            domain: Some(domain.to_owned()),
            op_type: Some(op.to_owned()),
            name: Some(output.clone()),
            input: listed(inputs),
            output: vec![output],
            attribute,
            ..Default::default()
        });
    }

    /// Adds a node of ONNX's own domain that makes these values; values without a name are not wanted.
    pub(super) fn many(&mut self, op: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) {
        self.of_domain("", op, inputs, outputs, attribute);
    }

    /// The same for a node of any domain.
    pub(super) fn of_domain(
        &mut self,
        domain: &str,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attribute: Vec<AttributeProto>,
    ) {
        let first = outputs.first().copied().unwrap_or_default();
        self.node(domain, op, inputs, first.to_owned(), attribute);
        if let Some(node) = self.nodes.last_mut() {
            node.output = listed(outputs);
        }
    }

    /// A list of integers that is known.
    pub(super) fn list(&mut self, values: &[i64], name: &str) -> String {
        self.op("Constant", &[], name, vec![ints("value_ints", values)])
    }

    /// An integer that is known.
    pub(super) fn whole(&mut self, value: i64, name: &str) -> String {
        self.op("Constant", &[], name, vec![int("value_int", value)])
    }

    /// A number of the type of `like` that is known.
    pub(super) fn number(&mut self, value: f32, like: &str, name: &str) -> String {
        let number = self.op("Constant", &[], &format!("{name}/float"), vec![float("value_float", value)]);
        self.op("CastLike", &[&number, like], name, Vec::new())
    }

    /// Adds a node of ONNX's own domain, and returns the name of its value.
    pub(super) fn op(&mut self, op: &str, inputs: &[&str], name: &str, attribute: Vec<AttributeProto>) -> String {
        let output = self.named(name);
        self.node("", op, inputs, output.clone(), attribute);
        output
    }

    /// The sizes of the axes from `start` to `end`.
    pub(super) fn sizes(&mut self, of: &str, start: i64, end: i64, name: &str) -> String {
        self.op("Shape", &[of], name, vec![int("start", start), int("end", end)])
    }

    /// Inlines a graph of one input and one output on a value; returns the name of the result.
    pub(super) fn inline(&mut self, graph: &GraphProto, on: &str, label: &str) -> Option<String> {
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
        let first = self.nodes.len();
        self.nodes.extend(graph.node.iter().map(|node| renamed(node, &names)));
        self.of_model.extend(first..self.nodes.len());
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
