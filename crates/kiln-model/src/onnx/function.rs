//! Functions that a model defines, expanded at their calls.
//!
//! A call is replaced by the function's nodes: formal inputs become the call's inputs, every other name of the function
//! gets a prefix, attributes that refer to the call's are filled in, and the call's outputs are identities of the
//! formal ones. A function takes precedence over an operator of its name, wherever the model writes that name;
//! expansions that the standard defines use the standard's operators. Functions may call functions; the depth, and the
//! number of nodes in all, are bounded, because each level can multiply.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use prost::Message;

use super::opsets::{Opsets, Versioned, normal, opsets};
use super::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto};
use super::standard::{self, Expansion};
use super::unread::unname;
use super::{Limits, ModelError, place_of, shown};

/// The functions of a model, by domain, name and overload.
#[derive(Default)]
pub(super) struct Functions {
    all: HashMap<(String, String, String), Rc<Function>>,
    /// Calls so far, which number the prefixes.
    calls: usize,
    /// Nodes so far, and the bytes of the functions that they come from. Bytes of a first call do not count: the file
    /// has them, and exporters write the weights of a layer into its function.
    nodes: usize,
    bytes: usize,
}

struct Function {
    proto: FunctionProto,
    opsets: Rc<Opsets>,
    bytes: usize,
    is_called: Cell<bool>,
}

impl Functions {
    /// The functions of a model.
    pub(super) fn new(functions: Vec<FunctionProto>, limits: &Limits) -> Result<Functions, ModelError> {
        let mut all = HashMap::new();
        for mut function in functions {
            limits.check_name(function.name(), || "a function".to_owned())?;
            let key =
                (normal(function.domain()).to_owned(), function.name().to_owned(), function.overload().to_owned());
            let name = shown(function.name());
            let opsets = Rc::new(opsets(&function.opset_import)?);
            unname(&mut function.node, function.output.iter().map(String::as_str));
            let bytes = function.encoded_len();
            let function = Function { proto: function, opsets, bytes, is_called: Cell::new(false) };
            if all.insert(key, Rc::new(function)).is_some() {
                return Err(ModelError::Duplicate { what: "function", name });
            }
        }
        Ok(Functions { all, ..Functions::default() })
    }

    /// The nodes, with calls expanded.
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
        let Function { proto: function, opsets, bytes, is_called } = &*function;
        limits.check("nesting of functions", depth as u64 + 1, limits.depth as u64, || place_of(&node))?;
        self.charge(function.node.len() + function.output.len(), limits, &node)?;
        self.bytes = self.bytes.saturating_add(if is_called.replace(true) { *bytes } else { 0 });
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

    /// A node without a function of the model: expanded if the standard defines it as a function.
    fn expand_standard(
        &mut self,
        node: NodeProto,
        opsets: &Rc<Opsets>,
        limits: &Limits,
        depth: usize,
        out: &mut Vec<Versioned>,
    ) -> Result<(), ModelError> {
        let Some(Expansion { draft, has_graphs }) = standard::expansion(&node, self.calls)? else {
            out.push((node, opsets.clone()));
            return Ok(());
        };
        self.calls += 1;
        limits.check("nesting of functions", depth as u64 + 1, limits.depth as u64, || place_of(&node))?;
        self.charge(draft.nodes.len(), limits, &node)?;
        let mut opsets = (**opsets).clone();
        let own = opsets.entry(String::new()).or_insert(standard::WRITTEN_FOR);
        if !has_graphs {
            *own = standard::WRITTEN_FOR;
        }
        let opsets = Rc::new(opsets);
        for (index, inner) in draft.nodes.into_iter().enumerate() {
            if draft.of_model.contains(&index) {
                self.expand_one(inner, &opsets, limits, depth + 1, out)?;
            } else {
                self.expand_standard(inner, &opsets, limits, depth + 1, out)?;
            }
        }
        Ok(())
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

    /// The name outside of the function for a name inside.
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

    /// An attribute with its reference filled in; `None` if the call does not have that.
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

    /// A body inside the function: all its names get the prefix too.
    fn graph(&self, graph: &GraphProto) -> GraphProto {
        let mut own = graph.clone();
        own.node = graph.node.iter().map(|node| self.node(node)).collect();
        for info in own.input.iter_mut().chain(&mut own.output).chain(&mut own.value_info) {
            info.name = Some(self.name(info.name()));
        }
        for tensor in &mut own.initializer {
            tensor.name = Some(self.name(tensor.name()));
        }
        for values in own.sparse_initializer.iter_mut().filter_map(|sparse| sparse.values.as_mut()) {
            values.name = Some(self.name(values.name()));
        }
        own
    }
}
