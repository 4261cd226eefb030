//! From a model's messages to a [`Graph`]: names become values, and whatever a name promises is held to it.
//!
//! # Bodies
//!
//! The bodies of `If`, `Loop` and `Scan` may read values of the graphs around them by name. Such a name is *free* in its
//! body. The import makes it an input of the body, after the inputs that the body declares, and the node that holds the
//! body reads the value of that name, after the inputs that the file gives it (see [`Attr::Graph`](crate::graph::Attr)).
//! After that no graph reaches out of itself, and nothing above this floor knows of scopes.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, ValueInfoProto};
use super::tensor::import_tensor;
use super::{
    External, Functions, Limits, ModelError, NEWEST_OPSET, declared_dims, declared_type, node::import_node, order,
    shown,
};
use crate::graph::ir::{Graph, Metadata, ValueId, ValueInfo};

/// Operator-set versions by domain; "" is ONNX's own.
pub(super) type Opsets = HashMap<String, i64>;

/// A node and the operator sets that it was written for: those of the model, or those of the function it came from.
pub(super) type Versioned = (NodeProto, Rc<Opsets>);

/// What the import of one model carries from graph to graph.
pub(super) struct Importer<'a> {
    pub(super) limits: &'a Limits,
    pub(super) external: External,
    pub(super) functions: Functions,
    /// Nodes so far, in all graphs.
    pub(super) nodes: usize,
    /// Whether initialisers that the model's graph lists as inputs too are defaults.
    pub(super) defaults: bool,
}

/// An imported graph, with the names that it takes from the graphs around it. Those are values without a maker.
pub(super) struct Body {
    pub(super) graph: Graph,
    pub(super) free: Vec<(String, ValueId)>,
}

/// A graph while it is imported: which value each name means.
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

    /// The value of a name, which becomes a free one where this graph does not define it.
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
        value.dtype = dtype.or(value.dtype);
        value.dims = declared_dims(info).or_else(|| value.dims.take());
        Ok(())
    }
}

/// The version of the format since which an initialiser that is also listed as an input is a default, which a request
/// may replace. Before it every initialiser had to be listed, and is a constant.
const DEFAULTS_SINCE: i64 = 4;

/// The graph of a model.
pub(super) fn import(mut model: ModelProto, external: External, limits: &Limits) -> Result<Graph, ModelError> {
    let metadata = metadata(&mut model);
    let graph = model.graph.ok_or_else(|| ModelError::Wire("there is no graph in it".to_owned()))?;
    let opsets = Rc::new(opsets(&model.opset_import)?);
    let functions = Functions::new(model.functions, limits)?;
    let defaults = model.ir_version.unwrap_or(DEFAULTS_SINCE) >= DEFAULTS_SINCE;
    let mut importer = Importer { limits, external, functions, nodes: 0, defaults };
    let body = importer.graph(graph, &opsets, 0)?;
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

/// The versions that a model or function imports.
pub(super) fn opsets(imports: &[OperatorSetIdProto]) -> Result<Opsets, ModelError> {
    let mut opsets = Opsets::new();
    for import in imports {
        let (domain, version) = (normal(import.domain()), import.version());
        if version < 1 || (domain.is_empty() && version > NEWEST_OPSET) {
            return Err(ModelError::Opset { domain: domain.to_owned(), version, newest: NEWEST_OPSET });
        }
        if opsets.insert(domain.to_owned(), version).is_some_and(|other| other != version) {
            return Err(ModelError::Duplicate { what: "the operator set of domain", name: shown(domain) });
        }
    }
    Ok(opsets)
}

/// ONNX's own domain has two spellings.
pub(super) fn normal(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

impl Importer<'_> {
    /// Imports a graph and the bodies in it, which are `depth` deep.
    pub(super) fn graph(&mut self, proto: GraphProto, opsets: &Rc<Opsets>, depth: usize) -> Result<Body, ModelError> {
        let limits = self.limits;
        limits.check("nesting", depth as u64, limits.depth as u64, || format!("graph {}", shown(proto.name())))?;
        if !proto.sparse_initializer.is_empty() {
            let place = format!("graph {}", shown(proto.name()));
            return Err(ModelError::Unsupported { what: "a sparse initialiser".to_owned(), place });
        }
        let mut scope = Scope::default();
        proto.name().clone_into(&mut scope.graph.name);
        self.initialisers(&proto, &mut scope)?;
        let mut defaults = HashSet::new();
        for info in &proto.input {
            self.name(info.name(), "an input of the graph")?;
            // In a body it stays what the model says: there is no caller who could leave it out.
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
                // What a request gives instead of a default has the shape that is declared, not that of the default.
                scope.graph.values[id.index()].dims = declared_dims(info);
            }
        }
        let nodes = self.functions.expand(proto.node, opsets, limits)?;
        for name in nodes.iter().flat_map(|(node, _)| &node.output).filter(|name| !name.is_empty()) {
            self.name(name, "a node's output")?;
            scope.define("value", name)?;
        }
        for info in &proto.value_info {
            // What the model says of values in between only helps; what is no tensor there is the operators' affair.
            if let Some(id) = scope.defined(info.name()) {
                let _ = scope.declare(id, info, "value");
            }
        }
        for (node, opsets) in nodes {
            import_node(self, &mut scope, node, &opsets, depth)?;
        }
        for info in &proto.output {
            self.name(info.name(), "an output of the graph")?;
            let id = scope.resolve(info.name());
            if scope.graph.outputs.contains(&id) {
                return Err(ModelError::Duplicate { what: "output", name: shown(info.name()) });
            }
            scope.declare(id, info, "output")?;
            scope.graph.outputs.push(id);
        }
        order::sort(&mut scope.graph)?;
        Ok(Body { graph: scope.graph, free: scope.free })
    }

    fn initialisers(&mut self, proto: &GraphProto, scope: &mut Scope) -> Result<(), ModelError> {
        for tensor in &proto.initializer {
            self.name(tensor.name(), "an initialiser")?;
            let id = scope.define("initialiser", tensor.name())?;
            let place = || format!("initialiser {}", shown(tensor.name()));
            let value = import_tensor(tensor, self.limits, &mut self.external, &place)?;
            scope.graph.set_constant(id, value);
        }
        Ok(())
    }

    /// A name that has to be there and may not be endless.
    fn name(&self, name: &str, what: &str) -> Result<(), ModelError> {
        if name.is_empty() {
            return Err(ModelError::Malformed { place: "the graph".to_owned(), reason: format!("{what} has no name") });
        }
        self.limits.check_name(name, || what.to_owned())
    }
}
