//! From a model's messages to a [`Graph`]: names become values, nodes get their attributes, bodies, inputs and outputs,
//! and `Constant` nodes become constants. A name that is defined twice, or nowhere, is an error.
//!
//! # Bodies
//!
//! The bodies of `If`, `Loop` and `Scan` may read values of the graphs around them by name. Such a name is *free* in
//! its body. The import makes it an input of the body, after the declared ones, and the node with the body reads the
//! value of that name, after the inputs in the file (see [`Attr::Graph`](crate::Attr)). After that a graph reads
//! only its own values, and there are no scopes.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use kiln_tensor::{Tensor, TensorError};

use super::claims::Claims;
use super::function::Functions;
use super::opsets::{Opsets, normal, opsets};
use super::proto::attribute_proto::AttributeType as Kind;
use super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto, ValueInfoProto,
};
use super::sparse::import_sparse;
use super::tensor::import_tensor;
use super::unread::unname;
use super::{
    External, Limits, ModelError, NEWEST_OPSET, coefficients, cross, declared_dims, declared_type, dtype_of, nchwc,
    order, place_of, shown,
};
use crate::ir::{Attr, CAPTURES, Graph, Metadata, NodeDesc, ValueId, ValueInfo, ValueKind};
use crate::operators::{self, Refusal};

/// The state of the import of one model.
pub(super) struct Importer<'a> {
    pub(super) limits: &'a Limits,
    pub(super) external: External,
    pub(super) functions: Functions,
    /// Nodes so far, in all graphs.
    pub(super) nodes: usize,
    /// Whether initialisers that are also listed as inputs are defaults.
    pub(super) defaults: bool,
}

/// An imported graph with its free names, which are values that no node of it makes.
pub(super) struct Body {
    pub(super) graph: Graph,
    pub(super) free: Vec<(String, ValueId)>,
}

/// A graph while it is imported, with the value of each name.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) graph: Graph,
    names: HashMap<String, ValueId>,
    free: Vec<(String, ValueId)>,
}

impl Scope {
    /// Defines a name; an error where it is taken.
    pub(super) fn define(&mut self, what: &'static str, name: &str) -> Result<ValueId, ModelError> {
        let id = self.graph.add_value(ValueInfo { name: name.to_owned(), ..ValueInfo::default() });
        match self.names.insert(name.to_owned(), id) {
            None => Ok(id),
            Some(_) => Err(ModelError::Duplicate { what, name: shown(name) }),
        }
    }

    /// The value of a name that this graph defines.
    pub(super) fn defined(&self, name: &str) -> Option<ValueId> {
        self.names.get(name).copied()
    }

    /// The value of a name, which becomes a free one if this graph does not define it.
    pub(super) fn resolve(&mut self, name: &str) -> ValueId {
        if let Some(id) = self.defined(name) {
            return id;
        }
        let id = self.graph.add_value(ValueInfo { name: name.to_owned(), ..ValueInfo::default() });
        self.names.insert(name.to_owned(), id);
        self.free.push((name.to_owned(), id));
        id
    }

    fn declare(&mut self, id: ValueId, info: &ValueInfoProto, place: &str) -> Result<(), ModelError> {
        let (kind, dtype) = declared_type(info)
            .map_err(|what| ModelError::Unsupported { what, place: format!("{place} {}", shown(info.name())) })?;
        let value = &mut self.graph.values[id.index()];
        value.kind = kind;
        match kind {
            ValueKind::Tensor => value.dtype = dtype.or(value.dtype),
            _ => value.elements = dtype,
        }
        value.dims = declared_dims(info).or_else(|| value.dims.take());
        Ok(())
    }
}

/// The version of the format from which on an initialiser that is also listed as an input is a default, which a request
/// may replace. Before it every initialiser had to be listed, and is a constant.
const DEFAULTS_SINCE: i64 = 4;

/// The graph of a model.
pub(super) fn import(mut model: ModelProto, mut external: External, limits: &Limits) -> Result<Graph, ModelError> {
    external.claims = Claims::up_to(limits.tensor_bytes);
    let metadata = metadata(&mut model);
    let graph = model.graph.ok_or_else(|| ModelError::Wire("there is no graph in it".to_owned()))?;
    let mut opsets = opsets(&model.opset_import)?;
    // As in ONNX Runtime, a model that imports other operators alone means the newest ones of ONNX.
    if !opsets.is_empty() {
        opsets.entry(String::new()).or_insert(NEWEST_OPSET);
    }
    let opsets = Rc::new(opsets);
    let functions = Functions::new(model.functions, limits)?;
    let defaults = model.ir_version.unwrap_or(DEFAULTS_SINCE) >= DEFAULTS_SINCE;
    let mut importer = Importer { limits, external, functions, nodes: 0, defaults };
    let mut body = importer.graph(graph, &opsets, 0)?;
    nchwc::rewrite(&mut body.graph, &mut importer.external.claims)?;
    match body.free.first() {
        None => Ok(Graph { backings: importer.external.into_backings(), metadata: Arc::new(metadata), ..body.graph }),
        Some((name, id)) => {
            let reader = body.graph.nodes.iter().find(|node| node.inputs.contains(&Some(*id)));
            let place =
                reader.map_or_else(|| "the graph's outputs".to_owned(), |node| format!("node {}", shown(&node.name)));
            Err(ModelError::Undefined { name: shown(name), place })
        }
    }
}

/// What a model says of itself, taken out of it.
fn metadata(model: &mut ModelProto) -> Metadata {
    let graph = model.graph.as_mut();
    let (graph_name, graph_description) = match graph {
        Some(graph) => (graph.name().to_owned(), graph.doc_string.take().unwrap_or_default()),
        None => Default::default(),
    };
    let property =
        |mut pair: StringStringEntryProto| (pair.key.take().unwrap_or_default(), pair.value.take().unwrap_or_default());
    Metadata {
        producer_name: model.producer_name.take().unwrap_or_default(),
        producer_version: model.producer_version.take().unwrap_or_default(),
        domain: model.domain.take().unwrap_or_default(),
        version: model.model_version(),
        description: model.doc_string.take().unwrap_or_default(),
        graph_name,
        graph_description,
        properties: std::mem::take(&mut model.metadata_props).into_iter().map(property).collect(),
    }
}

impl Importer<'_> {
    /// Imports a graph and the bodies in it, which are `depth` deep.
    pub(super) fn graph(
        &mut self,
        mut proto: GraphProto,
        opsets: &Rc<Opsets>,
        depth: usize,
    ) -> Result<Body, ModelError> {
        let limits = self.limits;
        limits.check("nesting", depth as u64, limits.depth as u64, || format!("graph {}", shown(proto.name())))?;
        let mut scope = Scope::default();
        proto.name().clone_into(&mut scope.graph.name);
        self.initialisers(&proto, &mut scope, depth)?;
        let mut defaults = HashSet::new();
        for info in &proto.input {
            self.name(info.name(), "an input of the graph")?;
            // In a body it stays a constant: a node that runs the body always passes all other inputs.
            let is_default = self.defaults && depth == 0;
            let initialiser = scope.defined(info.name()).filter(|id| scope.graph.constants.contains_key(id));
            let id = match initialiser {
                Some(id) => {
                    if is_default && defaults.insert(id) {
                        scope.graph.inputs.push(id);
                    }
                    id
                }
                None => {
                    let id = scope.define("input", info.name())?;
                    scope.graph.inputs.push(id);
                    id
                }
            };
            scope.declare(id, info, "input")?;
            if initialiser.is_some() && is_default {
                // A request's replacement has the declared shape, not the default's.
                scope.graph.values[id.index()].dims = declared_dims(info);
            }
        }
        unname(&mut proto.node, proto.output.iter().map(ValueInfoProto::name));
        coefficients::cut(&mut proto.node, &proto.input);
        cross::mark(&mut proto.node, proto.input.iter().chain(&proto.value_info));
        let nodes = self.functions.expand(proto.node, opsets, limits)?;
        for name in nodes.iter().flat_map(|(node, _)| &node.output).filter(|name| !name.is_empty()) {
            self.name(name, "a node's output")?;
            scope.define("value", name)?;
        }
        for info in &proto.value_info {
            // Declarations of intermediate values are optional; unsupported ones are left to the operators.
            if let Some(id) = scope.defined(info.name()) {
                let _ = scope.declare(id, info, "value");
            }
        }
        for (node, opsets) in nodes {
            import_node(self, &mut scope, node, &opsets, depth)?;
        }
        for info in &proto.output {
            self.name(info.name(), "an output of the graph")?;
            // Exporters of cells whose state is their result name it twice.
            let id = scope.resolve(info.name());
            scope.declare(id, info, "output")?;
            scope.graph.outputs.push(id);
        }
        order::sort(&mut scope.graph)?;
        Ok(Body { graph: scope.graph, free: scope.free })
    }

    /// The constants of a graph. Constants of the outermost graph may have been replaced.
    fn initialisers(&mut self, proto: &GraphProto, scope: &mut Scope, depth: usize) -> Result<(), ModelError> {
        for tensor in &proto.initializer {
            self.name(tensor.name(), "an initialiser")?;
            let id = scope.define("initialiser", tensor.name())?;
            let place = || format!("initialiser {}", shown(tensor.name()));
            let given = self.external.initialisers.get(tensor.name()).filter(|_| depth == 0);
            let value = match given {
                Some(given) => replaced(tensor, given).ok_or_else(|| ModelError::Malformed {
                    place: place(),
                    reason: format!(
                        "it has dimensions {:?} of type {}, and {} {:?} was handed over to replace it",
                        tensor.dims,
                        dtype_of(tensor.data_type()).map_or_else(|name| name, |dtype| dtype.to_string()),
                        given.dtype(),
                        given.shape()
                    ),
                })?,
                None => import_tensor(tensor, self.limits, &mut self.external, &place)?,
            };
            scope.graph.set_constant(id, value);
        }
        for sparse in &proto.sparse_initializer {
            let name = sparse.values.as_ref().map_or("", TensorProto::name);
            self.name(name, "a sparse initialiser")?;
            let id = scope.define("initialiser", name)?;
            let place = || format!("sparse initialiser {}", shown(name));
            let value = import_sparse(sparse, self.limits, &mut self.external, &place)?;
            scope.graph.set_constant(id, value);
        }
        Ok(())
    }

    /// Checks a name: not empty and not too long.
    fn name(&self, name: &str, what: &str) -> Result<(), ModelError> {
        if name.is_empty() {
            return Err(ModelError::Malformed { place: "the graph".to_owned(), reason: format!("{what} has no name") });
        }
        self.limits.check_name(name, || what.to_owned())
    }
}

/// The replacement of an initialiser, if it has the same type and shape.
fn replaced(declared: &TensorProto, given: &Tensor) -> Option<Tensor> {
    let same_type = dtype_of(declared.data_type()).is_ok_and(|dtype| dtype == given.dtype());
    let same_shape = declared.dims.iter().copied().eq(given.shape().iter().map(|&size| size as i64));
    (same_type && same_shape).then(|| given.clone())
}

/// Imports one node into `scope`, whose names for node outputs are already defined.
fn import_node(
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
        // An operator of a domain without an import is unknown; it is refused with the other unknown ones.
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
    if let Some(refusal) = operators::find(&node.domain, &node.op).and_then(|row| row.refusal(&node)) {
        return Err(match refusal {
            Refusal::NotYetDefined { first } => {
                ModelError::NotYetDefined { place, operator: shown(&node.op), first: first.into(), opset: version }
            }
            Refusal::Attribute(name) => ModelError::Malformed { place, reason: format!("attribute {name} is missing") },
        });
    }
    renew(&mut node);
    scope.graph.nodes.push(node);
    Ok(())
}

/// Writes forms of older operator sets and exporters as the rows of the table know them.
fn renew(node: &mut NodeDesc) {
    let version = node.version;
    if node.is("PRelu") && version < 7 {
        // Before version 7 its slopes were one a channel, and operands did not broadcast as in numpy: another operator.
        (node.domain, node.op) = ("kiln".to_owned(), "ChannelPRelu".to_owned());
    }
    if matches!(node.attrs.get("auto_pad"), Some(Attr::Str(auto)) if auto.is_empty()) {
        // As in ONNX Runtime, no rule.
        node.attrs.remove("auto_pad");
    }
    if node.is("BatchNormalization") && (7..14).contains(&version) && node.outputs.len() > 1 {
        // Before version 14 a node was in training if it had outputs for the moments of the batch.
        node.attrs.insert("training_mode".to_owned(), Attr::Int(1));
    }
}

/// Gives the node its bodies. The free names of all bodies become inputs of the node and of each body.
fn attach(node: &mut NodeDesc, mut bodies: Vec<(String, Body)>, scope: &mut Scope) {
    if bodies.is_empty() {
        return;
    }
    // In the order of the node's attributes, so that the order of captures does not depend on the file.
    bodies.sort_by(|(a, _), (b, _)| a.cmp(b));
    // Optional inputs of a loop come before captures.
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
    /// A type, which checkers of models use; running needs none.
    Type,
}

/// The kind of an attribute. The oldest files do not state it; then it is that of the field that is present.
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
        (proto.sparse_tensor.is_some(), Kind::SparseTensor),
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
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8"));
    let plain = match kind_of(&proto) {
        // A missing field has its default value: some writers leave out zeros and empty texts.
        Kind::Float => Attr::Float(proto.f()),
        Kind::Int => Attr::Int(proto.i()),
        Kind::String => Attr::Str(text(proto.s.unwrap_or_default())?),
        Kind::Floats => Attr::Floats(proto.floats),
        Kind::Ints => Attr::Ints(proto.ints),
        Kind::Strings => Attr::Strs(proto.strings.into_iter().map(text).collect::<Result<_, _>>()?),
        Kind::Tensor => {
            let tensor = proto.t.as_ref().ok_or_else(|| wrong("its tensor is missing"))?;
            let at = || format!("{place}, attribute {}", shown(&name));
            Attr::Tensor(import_tensor(tensor, importer.limits, &mut importer.external, &at)?)
        }
        Kind::SparseTensor => {
            let tensor = proto.sparse_tensor.as_ref().ok_or_else(|| wrong("its sparse tensor is missing"))?;
            let at = || format!("{place}, attribute {}", shown(&name));
            Attr::Tensor(import_sparse(tensor, importer.limits, &mut importer.external, &at)?)
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
        ("value" | "sparse_value", Attr::Tensor(tensor)) => Ok(tensor.clone()),
        ("value_float", Attr::Float(value)) => Ok(Tensor::scalar(*value)),
        ("value_int", Attr::Int(value)) => Ok(Tensor::scalar(*value)),
        ("value_string", Attr::Str(value)) => list(Tensor::from_strings([], vec![value.clone()])),
        ("value_floats", Attr::Floats(values)) => list(Tensor::from_slice([values.len()], values)),
        ("value_ints", Attr::Ints(values)) => list(Tensor::from_slice([values.len()], values)),
        ("value_strings", Attr::Strs(values)) => list(Tensor::from_strings([values.len()], values.clone())),
        _ => Err(format!("{} is not a constant's value", shown(name))),
    }
}
