//! Entries of graphs that programs build (`OrtGraph`): inputs, outputs, initialisers and nodes.

use std::ffi::CString;
use std::sync::Arc;

use crate::error::{Result, invalid};
use crate::ownership;
use crate::parts::{Declared, Graph, Initialiser, LEAST_BORROWED, Node, Parts, ValueInfo};
use crate::seam::{Handle, Out, Text, c_text, entry};
use crate::value::Value;

/// Takes over a caller's list of inputs or outputs, and drops the earlier one.
fn set(
    graph: Handle<Graph>,
    list: Out<Handle<ValueInfo>>,
    len: usize,
    what: &str,
    place: impl FnOnce(&mut Parts) -> &mut Vec<Declared>,
) -> Result<()> {
    let graph = graph.get("graph")?;
    let taken = ownership::take_list(list, len, what)?;
    let declared = |info: &Arc<ValueInfo>| Declared { name: info.name.clone(), shape: info.shape.clone() };
    graph.with(|parts| {
        parts.forget_values();
        *place(parts) = taken.iter().map(declared).collect();
    });
    Ok(())
}

/// Writes a count of a graph's parts.
fn count(graph: Handle<Graph>, out: Out<usize>, what: &str, count: impl FnOnce(&Parts) -> usize) -> Result<()> {
    let out = out.place(what)?;
    out.put(graph.get("graph")?.with(|parts| count(parts)));
    Ok(())
}

/// Lends the values with these names.
fn values(
    graph: Handle<Graph>,
    room: Out<Handle<ValueInfo>>,
    len: usize,
    what: &str,
    names: impl FnOnce(&Parts) -> Vec<CString>,
) -> Result<()> {
    let graph = graph.get("graph")?;
    let handles: Result<Vec<_>> = graph.with(|parts| {
        let names = names(parts);
        names.iter().map(|name| graph.value(parts, name)).collect()
    });
    ownership::lend(&handles?, room, len, what)
}

fn names_of(declared: &[Declared]) -> Vec<CString> {
    declared.iter().map(|declared| declared.name.clone()).collect()
}

entry! {
    fn CreateGraph(out: Out<Handle<Graph>>) {
        let out = out.place("graph")?;
        let graph = Arc::new(Graph::default());
        let handle = Handle::of(graph.clone())?;
        graph.own.get_or_init(|| handle);
        out.put(handle);
        Ok(())
    }

    /// The graph takes over the values, and null is written in their place.
    fn SetGraphInputs(graph: Handle<Graph>, inputs: Out<Handle<ValueInfo>>, len: usize) {
        set(graph, inputs, len, "inputs", |parts| &mut parts.inputs)
    }

    /// The graph takes over the values, and null is written in their place.
    fn SetGraphOutputs(graph: Handle<Graph>, outputs: Out<Handle<ValueInfo>>, len: usize) {
        set(graph, outputs, len, "outputs", |parts| &mut parts.outputs)
    }

    /// The graph takes over the tensor. Where its data is external, sessions read the caller's memory, which must
    /// outlive the sessions; otherwise they read a copy.
    fn AddInitializerToGraph(graph: Handle<Graph>, name: Text, tensor: Handle<Value>, is_external: u8) {
        let graph = graph.get("graph")?;
        let name = name.read("name")?;
        if name.is_empty() {
            return Err(invalid!("name cannot be null or empty string"));
        }
        let value = tensor.get("tensor")?;
        let is_borrowed = is_external != 0;
        match &*value {
            Value::Tensor(elements) if is_borrowed && elements.block().len() < LEAST_BORROWED => {
                return Err(invalid!(
                    "data_is_external=true requires the tensor to be larger than {} bytes (got {} bytes)",
                    LEAST_BORROWED - 1,
                    elements.block().len()
                ));
            }
            Value::Strings(_) if is_borrowed => {
                return Err(invalid!("data_is_external=true: the texts of {name} lie in no memory of the caller's"));
            }
            Value::Tensor(_) | Value::Strings(_) => {}
            other => return Err(invalid!("the initializer {name} is {}, not a tensor", other.name())),
        }
        let name = c_text(&name);
        graph.with(|parts| {
            if parts.initialiser(&name).is_some() {
                return Err(invalid!(
                    "An initializer with this name has already been added to the graph: {}",
                    name.to_string_lossy()
                ));
            }
            let value = tensor.release().ok_or_else(|| invalid!("tensor was released meanwhile"))?;
            parts.forget_values();
            parts.initialisers.push(Initialiser { name, value, is_borrowed });
            Ok(())
        })
    }

    /// The graph takes over the node.
    fn AddNodeToGraph(graph: Handle<Graph>, node: Handle<Node>) {
        let graph = graph.get("graph")?;
        let taken = ownership::take(&[node], "node")?;
        graph.with(|parts| parts.nodes.extend(taken.iter().map(|node| node.says.clone())));
        Ok(())
    }

    /// A built graph has no name.
    fn Graph_GetName(graph: Handle<Graph>, out: Out<Text>) {
        let out = out.place("graph_name")?;
        let _ = graph.get("graph")?;
        out.put(Text::within(c""));
        Ok(())
    }

    /// None: operator sets belong to a model, and a graph that was added to a model is no longer the caller's.
    fn Graph_GetNumOperatorSets(graph: Handle<Graph>, out: Out<usize>) {
        count(graph, out, "num_operator_sets", |_| 0)
    }

    fn Graph_GetOperatorSets(graph: Handle<Graph>, _domains: Out<Text>, _versions: Out<i64>, _len: usize) {
        graph.get("graph").map(drop)
    }

    fn Graph_GetNumInputs(graph: Handle<Graph>, out: Out<usize>) {
        count(graph, out, "num_inputs", |parts| parts.inputs.len())
    }

    fn Graph_GetInputs(graph: Handle<Graph>, inputs: Out<Handle<ValueInfo>>, len: usize) {
        values(graph, inputs, len, "inputs", |parts| names_of(&parts.inputs))
    }

    fn Graph_GetNumOutputs(graph: Handle<Graph>, out: Out<usize>) {
        count(graph, out, "num_outputs", |parts| parts.outputs.len())
    }

    fn Graph_GetOutputs(graph: Handle<Graph>, outputs: Out<Handle<ValueInfo>>, len: usize) {
        values(graph, outputs, len, "outputs", |parts| names_of(&parts.outputs))
    }

    fn Graph_GetNumInitializers(graph: Handle<Graph>, out: Out<usize>) {
        count(graph, out, "num_initializers", |parts| parts.initialisers.len())
    }

    fn Graph_GetInitializers(graph: Handle<Graph>, initialisers: Out<Handle<ValueInfo>>, len: usize) {
        values(graph, initialisers, len, "initializers", |parts| {
            parts.initialisers.iter().map(|initialiser| initialiser.name.clone()).collect()
        })
    }

    fn Graph_GetNumNodes(graph: Handle<Graph>, out: Out<usize>) {
        count(graph, out, "num_nodes", |parts| parts.nodes.len())
    }

    fn Graph_GetNodes(graph: Handle<Graph>, nodes: Out<Handle<Node>>, len: usize) {
        let graph = graph.get("graph")?;
        let handles: Result<Vec<_>> = graph.with(|parts| {
            (0..parts.nodes.len()).map(|number| graph.node(parts, number)).collect()
        });
        ownership::lend(&handles?, nodes, len, "nodes")
    }

    /// Null: a built graph is not the body of a node.
    fn Graph_GetParentNode(graph: Handle<Graph>, out: Out<Handle<Node>>) {
        let out = out.place("node")?;
        let _ = graph.get("graph")?;
        out.put(Handle::NULL);
        Ok(())
    }

    fn ReleaseGraph(graph: Handle<Graph>) -> (), else () => {
        drop(graph.release());
    }
}
