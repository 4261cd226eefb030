//! One node: its attributes, its bodies, its inputs and outputs. `Constant` nodes end here and become constants.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::import::normal;
use super::proto::attribute_proto::AttributeType as Kind;
use super::proto::{AttributeProto, NodeProto};
use super::tensor::import_tensor;
use super::{Body, Importer, ModelError, Opsets, Scope, shown};
use crate::graph::ir::{Attr, CAPTURES, NodeDesc, ValueId};
use crate::tensor::{Tensor, TensorError};

/// Imports one node into `scope`, whose names for node outputs are already defined.
pub(super) fn import_node(
    importer: &mut Importer<'_>,
    scope: &mut Scope,
    proto: NodeProto,
    opsets: &Rc<Opsets>,
    depth: usize,
) -> Result<(), ModelError> {
    importer.nodes += 1;
    let limits = importer.limits;
    let place = place_of(&proto);
    limits.check("the number of nodes", importer.nodes as u64, limits.nodes as u64, || place.clone())?;
    for name in
        [proto.op_type(), proto.name(), proto.domain()].into_iter().chain(proto.input.iter().map(String::as_str))
    {
        limits.check_name(name, || place.clone())?;
    }
    if proto.op_type().is_empty() {
        return Err(ModelError::Malformed { place, reason: "it has no operator".to_owned() });
    }
    let domain = normal(proto.domain());
    let version = match opsets.get(domain) {
        Some(&version) => version,
        // An operator of a domain that is not imported will not be known either; it is refused with the other unknown ones.
        None if !domain.is_empty() => 1,
        None => {
            let reason = "it is of ONNX's domain, for which the model imports no operator set".to_owned();
            return Err(ModelError::Malformed { place, reason });
        }
    };
    let mut node =
        NodeDesc { domain: domain.to_owned(), op: proto.op_type().to_owned(), version, ..NodeDesc::default() };
    node.name = match proto.name() {
        "" => format!("{}:{}", node.op, proto.output.iter().find(|name| !name.is_empty()).map_or("", String::as_str)),
        name => name.to_owned(),
    };
    let mut bodies = Vec::new();
    for attribute in proto.attribute {
        let name = attribute.name().to_owned();
        if name.is_empty() || node.attrs.contains_key(&name) || bodies.iter().any(|(other, _)| *other == name) {
            let reason = "attributes need names, each its own".to_owned();
            return Err(ModelError::Attribute { place, attribute: shown(&name), reason });
        }
        match import_attribute(importer, attribute, opsets, depth, &place)? {
            Imported::Plain(attr) => drop(node.attrs.insert(name, attr)),
            Imported::Body(body) => bodies.push((name, body)),
            Imported::Type => {}
        }
    }
    node.outputs = proto.output.iter().map(|name| scope.defined(name)).collect();
    if node.is("Constant") && node.outputs.len() == 1 && bodies.is_empty() {
        let value = constant(&node).map_err(|reason| ModelError::Malformed { place, reason })?;
        if let Some(id) = node.output(0) {
            scope.graph.set_constant(id, value);
        }
        return Ok(());
    }
    node.inputs = proto.input.iter().map(|name| (!name.is_empty()).then(|| scope.resolve(name))).collect();
    attach(&mut node, bodies, scope);
    if node.is("PRelu") && version < 7 {
        // Its slopes went along the channels before operands stretched as numpy's do; that is another operator.
        (node.domain, node.op) = ("kiln".to_owned(), "ChannelPRelu".to_owned());
    }
    scope.graph.nodes.push(node);
    Ok(())
}

/// How messages call a node.
pub(super) fn place_of(proto: &NodeProto) -> String {
    let output = proto.output.iter().find(|name| !name.is_empty()).map_or("", String::as_str);
    match proto.name() {
        "" => format!("node {} that makes {}", shown(proto.op_type()), shown(output)),
        name => format!("node {} ({})", shown(name), shown(proto.op_type())),
    }
}

/// Gives the node its bodies, and passes what is free in any of them through the node's inputs to all of them.
fn attach(node: &mut NodeDesc, mut bodies: Vec<(String, Body)>, scope: &mut Scope) {
    if bodies.is_empty() {
        return;
    }
    // As the node's attributes are kept, so that the order of what is passed through does not depend on the file's.
    bodies.sort_by(|(a, _), (b, _)| a.cmp(b));
    // The inputs that a loop leaves out stand before those that are passed through.
    if node.is("Loop") {
        let declared = bodies.iter().map(|(_, body)| body.graph.inputs.len()).max().unwrap_or(0);
        node.inputs.resize(node.inputs.len().max(declared), None);
    }
    let mut captured: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for (name, _) in bodies.iter().flat_map(|(_, body)| &body.free) {
        if seen.insert(name.as_str()) {
            captured.push(name.clone());
        }
    }
    node.attrs.insert(CAPTURES.to_owned(), Attr::Int(captured.len() as i64));
    node.inputs.extend(captured.iter().map(|name| Some(scope.resolve(name))));
    for (attribute, mut body) in bodies {
        let free: HashMap<String, ValueId> = body.free.drain(..).collect();
        for name in &captured {
            let id = free.get(name).copied().unwrap_or_else(|| body.graph.fresh("unused"));
            body.graph.inputs.push(id);
        }
        node.attrs.insert(attribute, Attr::Graph(Arc::new(body.graph)));
    }
}

enum Imported {
    Plain(Attr),
    Body(Body),
    /// A type, which checkers of models want; what runs sees values.
    Type,
}

/// The kind of an attribute; the oldest files do not state it, and then the field that is present tells.
fn kind_of(proto: &AttributeProto) -> Kind {
    match proto.r#type() {
        Kind::Undefined => {}
        kind => return kind,
    }
    let present = [
        (proto.f.is_some(), Kind::Float),
        (proto.i.is_some(), Kind::Int),
        (proto.s.is_some(), Kind::String),
        (proto.t.is_some(), Kind::Tensor),
        (proto.g.is_some(), Kind::Graph),
        (!proto.floats.is_empty(), Kind::Floats),
        (!proto.ints.is_empty(), Kind::Ints),
        (!proto.strings.is_empty(), Kind::Strings),
    ];
    present.into_iter().find(|(present, _)| *present).map_or(Kind::Undefined, |(_, kind)| kind)
}

fn import_attribute(
    importer: &mut Importer<'_>,
    proto: AttributeProto,
    opsets: &Rc<Opsets>,
    depth: usize,
    place: &str,
) -> Result<Imported, ModelError> {
    let name = proto.name().to_owned();
    let wrong = |reason: &str| ModelError::Attribute {
        place: place.to_owned(),
        attribute: shown(&name),
        reason: reason.to_owned(),
    };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| wrong("it is not UTF-8"));
    let plain = match kind_of(&proto) {
        // A field that is left out has its default, which is how some writers store zeros and empty texts.
        Kind::Float => Attr::Float(proto.f()),
        Kind::Int => Attr::Int(proto.i()),
        Kind::String => Attr::Str(text(proto.s())?),
        Kind::Floats => Attr::Floats(proto.floats),
        Kind::Ints => Attr::Ints(proto.ints),
        Kind::Strings => Attr::Strs(proto.strings.iter().map(|bytes| text(bytes)).collect::<Result<_, _>>()?),
        Kind::Tensor => {
            let tensor = proto.t.as_ref().ok_or_else(|| wrong("its tensor is missing"))?;
            let at = || format!("{place}, attribute {}", shown(&name));
            Attr::Tensor(import_tensor(tensor, importer.limits, &mut importer.external, &at)?)
        }
        Kind::Graph => {
            let graph = proto.g.ok_or_else(|| wrong("its graph is missing"))?;
            return importer.graph(graph, opsets, depth + 1).map(Imported::Body);
        }
        Kind::TypeProto => return Ok(Imported::Type),
        Kind::Undefined => return Err(wrong("it has no value")),
        other => {
            let what = format!("attribute {} of kind {}", shown(&name), other.as_str_name());
            return Err(ModelError::Unsupported { what, place: place.to_owned() });
        }
    };
    Ok(Imported::Plain(plain))
}

/// The tensor of a `Constant` node.
fn constant(node: &NodeDesc) -> Result<Tensor, String> {
    let mut attrs = node.attrs.iter();
    let (Some((name, attr)), None) = (attrs.next(), attrs.next()) else {
        return Err("a constant has exactly one value".to_owned());
    };
    let list = |tensor: Result<Tensor, TensorError>| tensor.map_err(|error| error.to_string());
    match (name.as_str(), attr) {
        ("value", Attr::Tensor(tensor)) => Ok(tensor.clone()),
        ("value_float", Attr::Float(value)) => Ok(Tensor::scalar(*value)),
        ("value_int", Attr::Int(value)) => Ok(Tensor::scalar(*value)),
        ("value_string", Attr::Str(value)) => list(Tensor::from_strings([], vec![value.clone()])),
        ("value_floats", Attr::Floats(values)) => list(Tensor::from_slice([values.len()], values)),
        ("value_ints", Attr::Ints(values)) => list(Tensor::from_slice([values.len()], values)),
        ("value_strings", Attr::Strs(values)) => list(Tensor::from_strings([values.len()], values.clone())),
        _ => Err(format!("{} is not a constant's value", shown(name))),
    }
}
