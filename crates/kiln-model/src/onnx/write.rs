//! Writes a [`Graph`] as a model file: for the demonstration, for tests, and as seeds of fuzzing.
//!
//! [`load_bytes`](super::load_bytes) reads what [`write`] writes back as the same graph. Fused operators of domain
//! "kiln" have programs, for which ONNX has no message; a graph after the passes is refused.

use std::collections::BTreeMap;

use kiln_kernels::memory;
use kiln_tensor::Tensor;
use prost::Message;

use super::declare::declaration;
use super::proto::attribute_proto::AttributeType as Kind;
use super::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto};
use super::{ModelError, shown, tensor_proto};
use crate::ir::{Attr, CAPTURES, Graph, NodeDesc, ValueId};

/// The IR version of written files: the first whose bodies and initialisers have the form written here.
const IR_VERSION: i64 = 8;

/// The bytes of a model with that graph.
///
/// # Errors
///
/// [`ModelError::Unsupported`] where ONNX has no message, [`ModelError::Malformed`] for nodes of one domain with
/// different versions, [`ModelError::Memory`] where there is no memory for them.
pub fn write(graph: &Graph) -> Result<Vec<u8>, ModelError> {
    super::refusable(|| Ok(encoded(&message(graph)?)))
}

/// The message of a model with that graph.
pub(super) fn message(graph: &Graph) -> Result<ModelProto, ModelError> {
    let mut versions = BTreeMap::new();
    let proto = graph_proto(graph, 0, &mut versions)?;
    versions.entry(String::new()).or_insert(super::NEWEST_OPSET);
    let opset_import = versions
        .into_iter()
        .map(|(domain, version)| OperatorSetIdProto { domain: Some(domain), version: Some(version) });
    let about = &*graph.metadata;
    let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let property =
        |(key, value): &(String, String)| StringStringEntryProto { key: Some(key.clone()), value: Some(value.clone()) };
    Ok(ModelProto {
        ir_version: Some(IR_VERSION),
        producer_name: said(&about.producer_name).or_else(|| Some("kiln".to_owned())),
        producer_version: said(&about.producer_version),
        domain: said(&about.domain),
        model_version: (about.version != 0).then_some(about.version),
        doc_string: said(&about.description),
        opset_import: opset_import.collect(),
        graph: Some(GraphProto { doc_string: said(&about.graph_description), ..proto }),
        metadata_props: about.properties.iter().map(property).collect(),
        ..Default::default()
    })
}

/// The bytes of one tensor, such as an input or output of a test case.
#[must_use]
pub fn write_tensor(name: &str, tensor: &Tensor) -> Vec<u8> {
    encoded(&tensor_proto(name, tensor))
}

/// The bytes of a message. Raises [`Refused`](memory::Refused) where there is no memory for them.
fn encoded(message: &impl Message) -> Vec<u8> {
    let mut bytes = memory::with_capacity(message.encoded_len());
    // A vector always has room, so encoding cannot fail.
    message.encode_raw(&mut bytes);
    bytes
}

type Versions = BTreeMap<String, i64>;

/// A graph whose last `captures` inputs are captured by name.
fn graph_proto(graph: &Graph, captures: usize, versions: &mut Versions) -> Result<GraphProto, ModelError> {
    let declared = |ids: &[ValueId]| ids.iter().map(|&id| declaration(graph.value(id))).collect();
    let mut constants: Vec<_> = graph.constants.iter().collect();
    constants.sort_by_key(|(id, _)| **id);
    let own_inputs = graph.inputs.len().saturating_sub(captures);
    Ok(GraphProto {
        name: Some(graph.name.clone()),
        node: graph.nodes.iter().map(|node| node_proto(graph, node, versions)).collect::<Result<_, _>>()?,
        initializer: constants.into_iter().map(|(id, tensor)| tensor_proto(&graph.value(*id).name, tensor)).collect(),
        input: declared(&graph.inputs[..own_inputs]),
        output: declared(&graph.outputs),
        ..Default::default()
    })
}

fn node_proto(graph: &Graph, node: &NodeDesc, versions: &mut Versions) -> Result<NodeProto, ModelError> {
    let place = || format!("node {}", shown(&node.name));
    if *versions.entry(node.domain.clone()).or_insert(node.version) != node.version {
        return Err(ModelError::Malformed {
            place: place(),
            reason: "its domain has other versions elsewhere".to_owned(),
        });
    }
    let captures = node.captures().min(node.inputs.len());
    let name_of = |value: &Option<ValueId>| value.map_or_else(String::new, |id| graph.value(id).name.clone());
    let own_inputs = &node.inputs[..node.inputs.len().saturating_sub(captures)];
    let mut attribute = Vec::with_capacity(node.attrs.len());
    for (name, attr) in node.attrs.iter().filter(|(name, _)| *name != CAPTURES) {
        let proto = match attr {
            Attr::Graph(body) => {
                let captured = &node.inputs[node.inputs.len() - captures..];
                let body = under_outer_names(body, captured.iter().map(name_of).collect());
                AttributeProto { g: Some(graph_proto(&body, captures, versions)?), ..kind(Kind::Graph) }
            }
            plain => attribute_proto(plain)
                .ok_or_else(|| ModelError::Unsupported { what: format!("writing attribute {name}"), place: place() })?,
        };
        attribute.push(AttributeProto { name: Some(name.clone()), ..proto });
    }
    Ok(NodeProto {
        name: Some(node.name.clone()),
        domain: Some(node.domain.clone()),
        op_type: Some(node.op.clone()),
        input: own_inputs.iter().map(name_of).collect(),
        output: node.outputs.iter().map(name_of).collect(),
        attribute,
        ..Default::default()
    })
}

/// The body with its captured inputs named as in the graph around it: a file links them by name only.
fn under_outer_names(body: &Graph, names: Vec<String>) -> Graph {
    let mut body = body.clone();
    let first = body.inputs.len().saturating_sub(names.len());
    for (id, name) in body.inputs[first..].iter().zip(names) {
        body.values[id.index()].name = name;
    }
    body
}

fn kind(kind: Kind) -> AttributeProto {
    AttributeProto { r#type: Some(kind as i32), ..Default::default() }
}

fn attribute_proto(attr: &Attr) -> Option<AttributeProto> {
    let bytes = |text: &String| text.as_bytes().to_vec();
    Some(match attr {
        Attr::Int(value) => AttributeProto { i: Some(*value), ..kind(Kind::Int) },
        Attr::Float(value) => AttributeProto { f: Some(*value), ..kind(Kind::Float) },
        Attr::Str(value) => AttributeProto { s: Some(bytes(value)), ..kind(Kind::String) },
        Attr::Ints(values) => AttributeProto { ints: values.clone(), ..kind(Kind::Ints) },
        Attr::Floats(values) => AttributeProto { floats: values.clone(), ..kind(Kind::Floats) },
        Attr::Strs(values) => AttributeProto { strings: values.iter().map(bytes).collect(), ..kind(Kind::Strings) },
        Attr::Tensor(tensor) => AttributeProto { t: Some(tensor_proto("", tensor)), ..kind(Kind::Tensor) },
        Attr::Graph(_) | Attr::Chain(_) => return None,
    })
}
