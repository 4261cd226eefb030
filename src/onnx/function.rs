//! Functions that a model brings along, expanded where they are called.
//!
//! A call is replaced by the function's nodes: formal inputs become the call's inputs, every other name of the function
//! gets a prefix of its own, attributes that refer to the call's are filled in, and the call's outputs are identities of
//! the formal ones. Functions may call functions; how deep, and how many nodes all of it makes, is bounded, because
//! each level can multiply.

use std::collections::HashMap;
use std::rc::Rc;

use prost::Message;

use super::import::{Versioned, normal, opsets};
use super::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto};
use super::{Limits, ModelError, Opsets, place_of, shown, standard};

/// The functions of a model, by domain, name and overload.
#[derive(Default)]
pub(super) struct Functions {
    all: HashMap<(String, String, String), Rc<Function>>,
    /// Calls expanded so far: the next one's prefix.
    calls: usize,
    /// Nodes made so far, and the bytes of the functions that they were made from.
    nodes: usize,
    bytes: usize,
}

struct Function {
    proto: FunctionProto,
    opsets: Rc<Opsets>,
    bytes: usize,
}

impl Functions {
    /// Takes in a model's functions.
    pub(super) fn new(functions: Vec<FunctionProto>, limits: &Limits) -> Result<Functions, ModelError> {
        let mut all = HashMap::new();
        for function in functions {
            limits.check_name(function.name(), || "a function".to_owned())?;
            let key =
                (normal(function.domain()).to_owned(), function.name().to_owned(), function.overload().to_owned());
            let name = shown(function.name());
            let opsets = Rc::new(opsets(&function.opset_import)?);
            let bytes = function.encoded_len();
            if all.insert(key, Rc::new(Function { proto: function, opsets, bytes })).is_some() {
                return Err(ModelError::Duplicate { what: "function", name });
            }
        }
        Ok(Functions { all, ..Functions::default() })
    }

    /// Nodes as they are, but with calls expanded.
    pub(super) fn expand(
        &mut self,
        nodes: Vec<NodeProto>,
        opsets: &Rc<Opsets>,
        limits: &Limits,
    ) -> Result<Vec<Versioned>, ModelError> {
        let mut expanded = Vec::with_capacity(nodes.len());
        for node in nodes {
            self.expand_one(node, opsets, limits, 0, &mut expanded)?;
        }
        Ok(expanded)
    }

    /// Counts nodes that an expansion makes.
    fn charge(&mut self, nodes: usize, limits: &Limits, node: &NodeProto) -> Result<(), ModelError> {
        self.nodes = self.nodes.saturating_add(nodes);
        let what = "the number of nodes made of functions";
        limits.check(what, self.nodes as u64, limits.expanded_nodes as u64, || place_of(node))
    }

    fn expand_one(
        &mut self,
        node: NodeProto,
        opsets: &Rc<Opsets>,
        limits: &Limits,
        depth: usize,
        out: &mut Vec<Versioned>,
    ) -> Result<(), ModelError> {
        let key = (normal(node.domain()).to_owned(), node.op_type().to_owned(), node.overload().to_owned());
        let Some(function) = self.all.get(&key).cloned() else {
            return self.expand_standard(node, opsets, limits, depth, out);
        };
        let Function { proto: function, opsets, bytes } = &*function;
        limits.check("nesting of functions", depth as u64 + 1, limits.depth as u64, || place_of(&node))?;
        self.charge(function.node.len() + function.output.len(), limits, &node)?;
        self.bytes = self.bytes.saturating_add(*bytes);
        let what = "the number of bytes made of functions";
        limits.check(what, self.bytes as u64, limits.expanded_bytes as u64, || place_of(&node))?;
        let call = Call::new(&node, function, self.calls)?;
        self.calls += 1;
        for inner in &function.node {
            self.expand_one(call.node(inner), opsets, limits, depth + 1, out)?;
        }
        for (formal, actual) in function.output.iter().zip(&node.output).filter(|(_, actual)| !actual.is_empty()) {
            let identity = NodeProto {
                op_type: Some("Identity".to_owned()),
                input: vec![call.name(formal)],
                output: vec![actual.clone()],
                ..Default::default()
            };
            // A function of another domain need not import ONNX's operators, but an identity is one at every version.
            let version = opsets.get("").copied().unwrap_or(1);
            out.push((identity, Rc::new(Opsets::from([(String::new(), version)]))));
        }
        Ok(())
    }
    /// A node that the model brings no function for: expanded where the standard defines it as one.
    fn expand_standard(
        &mut self,
        node: NodeProto,
        opsets: &Rc<Opsets>,
        limits: &Limits,
        depth: usize,
        out: &mut Vec<Versioned>,
    ) -> Result<(), ModelError> {
        let Some(nodes) = standard::expansion(&node, self.calls)? else {
            out.push((node, opsets.clone()));
            return Ok(());
        };
        self.calls += 1;
        limits.check("nesting of functions", depth as u64 + 1, limits.depth as u64, || place_of(&node))?;
        self.charge(nodes.len(), limits, &node)?;
        // The graphs in it are the model's own, written for the operator sets that it imports, if for any of ONNX's.
        let mut opsets = (**opsets).clone();
        opsets.entry(String::new()).or_insert(standard::WRITTEN_FOR);
        let opsets = Rc::new(opsets);
        nodes.into_iter().try_for_each(|inner| self.expand_one(inner, &opsets, limits, depth + 1, out))
    }
}

/// One call while it is expanded.
struct Call<'a> {
    prefix: String,
    inputs: HashMap<&'a str, &'a str>,
    attributes: HashMap<&'a str, &'a AttributeProto>,
}

impl<'a> Call<'a> {
    fn new(node: &'a NodeProto, function: &'a FunctionProto, number: usize) -> Result<Call<'a>, ModelError> {
        if node.input.len() > function.input.len() || node.output.len() > function.output.len() {
            let reason = format!("function {} has fewer inputs or outputs", shown(function.name()));
            return Err(ModelError::Malformed { place: place_of(node), reason });
        }
        let actual = node.input.iter().map(String::as_str).chain(std::iter::repeat(""));
        let inputs = function.input.iter().map(String::as_str).zip(actual).collect();
        let defaults = function.attribute_proto.iter().map(|attribute| (attribute.name(), attribute));
        let given = node.attribute.iter().map(|attribute| (attribute.name(), attribute));
        let prefix = format!("{}%{number}/", function.name());
        Ok(Call { prefix, inputs, attributes: defaults.chain(given).collect() })
    }

    /// What a name of the function is called outside of it.
    fn name(&self, name: &str) -> String {
        match self.inputs.get(name) {
            _ if name.is_empty() => String::new(),
            Some(&actual) => actual.to_owned(),
            None => format!("{}{name}", self.prefix),
        }
    }

    fn node(&self, node: &NodeProto) -> NodeProto {
        let renamed = |names: &[String]| names.iter().map(|name| self.name(name)).collect();
        NodeProto {
            input: renamed(&node.input),
            output: renamed(&node.output),
            name: node.name.as_ref().map(|name| format!("{}{name}", self.prefix)),
            op_type: node.op_type.clone(),
            domain: node.domain.clone(),
            overload: node.overload.clone(),
            attribute: node.attribute.iter().filter_map(|attribute| self.attribute(attribute)).collect(),
            ..Default::default()
        }
    }

    /// An attribute with its reference filled in; none where the call leaves it out.
    fn attribute(&self, attribute: &AttributeProto) -> Option<AttributeProto> {
        let mut own = match attribute.ref_attr_name() {
            "" => attribute.clone(),
            reference => AttributeProto { name: attribute.name.clone(), ..(*self.attributes.get(reference)?).clone() },
        };
        if attribute.ref_attr_name().is_empty() {
            own.g = own.g.map(|graph| self.graph(&graph));
            own.graphs = own.graphs.iter().map(|graph| self.graph(graph)).collect();
        }
        Some(own)
    }

    /// A body inside the function: all its names move, so that it still means what it meant.
    fn graph(&self, graph: &GraphProto) -> GraphProto {
        let mut own = graph.clone();
        own.node = graph.node.iter().map(|node| self.node(node)).collect();
        for info in own.input.iter_mut().chain(&mut own.output).chain(&mut own.value_info) {
            info.name = Some(self.name(info.name()));
        }
        for tensor in &mut own.initializer {
            tensor.name = Some(self.name(tensor.name()));
        }
        own
    }
}
