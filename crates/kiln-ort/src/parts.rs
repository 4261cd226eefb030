//! Graphs that programs build, with their nodes and values, as callers hold these; each object knows the others.
//!
//! A graph lends handles of its nodes and values, which know their graph and end with it.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::{Arc, OnceLock, PoisonError, Weak};

use kiln_fork::Mutex;

use crate::attribute::{Attribute, Said};
use crate::error::{Result, invalid};
use crate::ownership::Part;
use crate::seam::Handle;
use crate::seam::handle::kind;
use crate::type_info::{Shape, TypeInfo};
use crate::value::Value;

/// A graph as callers hold it.
#[derive(Default)]
pub(crate) struct Graph {
    parts: Mutex<Parts>,
    /// The handle that its maker got.
    pub(crate) own: OnceLock<Handle<Graph>>,
}

kind!(Graph = "OrtGraph");

/// The contents of a graph.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) inputs: Vec<Declared>,
    pub(crate) outputs: Vec<Declared>,
    pub(crate) initialisers: Vec<Initialiser>,
    pub(crate) nodes: Vec<Arc<Described>>,
    /// Handles that live as long as the graph: of the first nodes, and of values by name.
    lent_nodes: Vec<Handle<Node>>,
    lent_values: BTreeMap<CString, Handle<ValueInfo>>,
}

/// An input or output.
pub(crate) struct Declared {
    pub(crate) name: CString,
    pub(crate) shape: Option<Shape>,
}

/// A constant, or the default of an input with its name.
pub(crate) struct Initialiser {
    pub(crate) name: CString,
    pub(crate) value: Arc<Value>,
    /// Whether its memory is the caller's; sessions then read it in place.
    pub(crate) is_borrowed: bool,
}

/// A place where a value is read.
pub(crate) struct Reader {
    pub(crate) node: usize,
    pub(crate) input: usize,
}

/// The least bytes of a borrowed initialiser: onnxruntime's bound.
pub(crate) const LEAST_BORROWED: usize = 128;

impl Parts {
    pub(crate) fn is_input(&self, name: &CStr) -> bool {
        self.inputs.iter().any(|input| *input.name == *name)
    }

    pub(crate) fn initialiser(&self, name: &CStr) -> Option<&Initialiser> {
        self.initialisers.iter().find(|initialiser| *initialiser.name == *name)
    }

    /// The places where nodes read a value.
    pub(crate) fn readers(&self, name: &CStr) -> Vec<Reader> {
        let of_node = |(node, described): (usize, &Arc<Described>)| {
            let reads = described.inputs.iter().enumerate().filter(|(_, input)| ***input == *name);
            reads.map(|(input, _)| Reader { node, input }).collect::<Vec<_>>()
        };
        self.nodes.iter().enumerate().flat_map(of_node).collect()
    }

    /// The known type of a value.
    fn shape(&self, name: &CStr) -> Option<Shape> {
        let declared = self.inputs.iter().chain(&self.outputs).find(|declared| *declared.name == *name);
        declared.and_then(|declared| declared.shape.clone()).or_else(|| Some(self.initialiser(name)?.value.shape()))
    }

    /// Ends the handles of values, because their types have changed.
    pub(crate) fn forget_values(&mut self) {
        std::mem::take(&mut self.lent_values).values().for_each(|handle| drop(handle.release()));
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.forget_values();
        self.lent_nodes.iter().for_each(|handle| drop(handle.release()));
    }
}

impl Graph {
    /// Reads or changes its parts.
    pub(crate) fn with<T>(&self, what: impl FnOnce(&mut Parts) -> T) -> T {
        what(&mut self.parts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The handle that its maker got; dead after the graph has been handed over.
    pub(crate) fn own_handle(&self) -> Handle<Graph> {
        self.own.get().copied().unwrap_or(Handle::NULL)
    }

    /// The lent handle of a node, which is one of `parts`.
    pub(crate) fn node(self: &Arc<Self>, parts: &mut Parts, number: usize) -> Result<Handle<Node>> {
        while parts.lent_nodes.len() <= number {
            let next = parts.lent_nodes.len();
            let says = parts.nodes.get(next).ok_or_else(|| invalid!("the graph has {next} nodes"))?.clone();
            parts.lent_nodes.push(Handle::new(Node::lent(says, self, next))?);
        }
        Ok(parts.lent_nodes[number])
    }

    /// The lent handle of a value; null for an empty name.
    pub(crate) fn value(self: &Arc<Self>, parts: &mut Parts, name: &CStr) -> Result<Handle<ValueInfo>> {
        if name.is_empty() {
            return Ok(Handle::NULL);
        }
        if let Some(handle) = parts.lent_values.get(name) {
            return Ok(*handle);
        }
        let handle = Handle::new(ValueInfo::lent(name.to_owned(), parts.shape(name), self))?;
        parts.lent_values.insert(name.to_owned(), handle);
        Ok(handle)
    }
}

/// The description of a node.
pub(crate) struct Described {
    pub(crate) name: CString,
    pub(crate) op: CString,
    pub(crate) domain: CString,
    /// Names of values; empty where an optional value is left out.
    pub(crate) inputs: Vec<CString>,
    pub(crate) outputs: Vec<CString>,
    pub(crate) attributes: Vec<Arc<Said>>,
}

/// A node as callers hold it.
pub(crate) struct Node {
    pub(crate) says: Arc<Described>,
    /// The graph that has lent the node; `None` while it is the caller's.
    pub(crate) place: Option<Place>,
    /// Handles that live as long as this node.
    attributes: OnceLock<Vec<Handle<Attribute>>>,
}

/// Where a node is.
pub(crate) struct Place {
    graph: Weak<Graph>,
    /// Its number among the graph's nodes.
    pub(crate) number: usize,
}

kind!(Node = "OrtNode");

impl Part for Node {
    fn is_lent(&self) -> bool {
        self.place.is_some()
    }
}

impl Node {
    /// A node of the caller's.
    pub(crate) fn of(says: Described) -> Node {
        Node { says: Arc::new(says), place: None, attributes: OnceLock::new() }
    }

    /// A node that a graph lends.
    pub(crate) fn lent(says: Arc<Described>, graph: &Arc<Graph>, number: usize) -> Node {
        Node { says, place: Some(Place { graph: Arc::downgrade(graph), number }), attributes: OnceLock::new() }
    }

    pub(crate) fn graph(&self) -> Option<Arc<Graph>> {
        self.place.as_ref().and_then(|place| place.graph.upgrade())
    }

    /// Its attributes' handles, which are lent.
    pub(crate) fn attributes(&self) -> Result<&[Handle<Attribute>]> {
        if let Some(handles) = self.attributes.get() {
            return Ok(handles);
        }
        let mut made = Vec::with_capacity(self.says.attributes.len());
        for says in &self.says.attributes {
            made.push(Handle::new(Attribute { says: says.clone(), is_lent: true })?);
        }
        if let Err(made) = self.attributes.set(made) {
            made.iter().for_each(|handle| drop(handle.release()));
        }
        Ok(self.attributes.get().map_or(&[], Vec::as_slice))
    }

    /// The handles of its values: null where a value is left out.
    pub(crate) fn values(&self, names: &[CString]) -> Result<Vec<Handle<ValueInfo>>> {
        let graph = self.graph();
        let graph = graph.ok_or_else(|| invalid!("the node {} is of no graph", self.says.name.to_string_lossy()))?;
        graph.with(|parts| names.iter().map(|name| graph.value(parts, name)).collect())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.attributes.get().into_iter().flatten().for_each(|handle| drop(handle.release()));
    }
}

/// A value as callers hold it.
pub(crate) struct ValueInfo {
    pub(crate) name: CString,
    /// `None` where no type is declared.
    pub(crate) shape: Option<Shape>,
    /// The graph that has lent the value; `None` while it is the caller's.
    graph: Option<Weak<Graph>>,
    /// Handles that live as long as this value.
    pub(crate) type_info: OnceLock<Handle<TypeInfo>>,
    pub(crate) initialiser: OnceLock<Handle<Value>>,
}

kind!(ValueInfo = "OrtValueInfo");

impl Part for ValueInfo {
    fn is_lent(&self) -> bool {
        self.graph.is_some()
    }
}

impl ValueInfo {
    pub(crate) fn of(name: CString, shape: Option<Shape>, graph: Option<Weak<Graph>>) -> ValueInfo {
        ValueInfo { name, shape, graph, type_info: OnceLock::new(), initialiser: OnceLock::new() }
    }

    /// A value that a graph lends.
    pub(crate) fn lent(name: CString, shape: Option<Shape>, graph: &Arc<Graph>) -> ValueInfo {
        ValueInfo::of(name, shape, Some(Arc::downgrade(graph)))
    }

    /// Reads the graph that has the value.
    pub(crate) fn in_graph<T>(&self, look: impl FnOnce(&Arc<Graph>, &mut Parts) -> Result<T>) -> Result<T> {
        let graph = self.graph.as_ref().and_then(Weak::upgrade);
        let graph = graph.ok_or_else(|| invalid!("the value {} is of no graph", self.name.to_string_lossy()))?;
        graph.with(|parts| look(&graph, parts))
    }
}

impl Drop for ValueInfo {
    fn drop(&mut self) {
        self.type_info.get().map(|handle| handle.release());
        self.initialiser.get().map(|handle| handle.release());
    }
}
