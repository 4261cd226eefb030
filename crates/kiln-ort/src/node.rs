//! Entries of nodes (`OrtNode`): operators applied to values by name.

use std::ffi::CString;

use crate::attribute::Attribute;
use crate::error::{Code, Error, Result, invalid};
use crate::ownership;
use crate::parts::{Described, Graph, Node, ValueInfo};
use crate::seam::{Handle, List, Out, Text, c_text, entry};

/// The names in a list.
fn names(list: List<Text>, len: usize, what: &str) -> Result<Vec<CString>> {
    list.read(len, what)?.iter().map(|name| Ok(c_text(&name.read(what)?))).collect()
}

/// Writes a count of a node's parts.
fn count(node: Handle<Node>, out: Out<usize>, what: &str, count: impl FnOnce(&Described) -> usize) -> Result<()> {
    let out = out.place(what)?;
    out.put(count(&node.get("node")?.says));
    Ok(())
}

/// Writes a text of a node, which lives as long as the node.
fn text(node: Handle<Node>, out: Out<Text>, what: &str, text: impl FnOnce(&Described) -> &CString) -> Result<()> {
    let out = out.place(what)?;
    out.put(Text::within(text(&node.get("node")?.says)));
    Ok(())
}

entry! {
    /// The node takes over the attributes, and null is written in their place.
    fn CreateNode(
        op: Text,
        domain: Text,
        name: Text,
        inputs: List<Text>,
        inputs_len: usize,
        outputs: List<Text>,
        outputs_len: usize,
        attributes: Out<Handle<Attribute>>,
        attributes_len: usize,
        out: Out<Handle<Node>>,
    ) {
        let out = out.place("node")?;
        let [op, domain, name] = [(op, "operator_name"), (domain, "domain_name"), (name, "node_name")]
            .map(|(text, what)| text.read(what).map(|text| c_text(&text)));
        let (op, domain, name) = (op?, domain?, name?);
        if op.is_empty() {
            return Err(invalid!("operator_name cannot be null or empty string"));
        }
        let inputs = names(inputs, inputs_len, "input_names")?;
        let outputs = names(outputs, outputs_len, "output_names")?;
        let attributes = ownership::take_list(attributes, attributes_len, "attributes")?;
        let attributes = attributes.iter().map(|attribute| attribute.says.clone()).collect();
        out.put(Handle::new(Node::of(Described { name, op, domain, inputs, outputs, attributes }))?);
        Ok(())
    }

    /// Its number among the graph's nodes.
    fn Node_GetId(node: Handle<Node>, out: Out<usize>) {
        let out = out.place("node_id")?;
        let node = node.get("node")?;
        let place = node.place.as_ref();
        out.put(place.ok_or_else(|| invalid!("the node {} is of no graph", node.says.name.to_string_lossy()))?.number);
        Ok(())
    }

    fn Node_GetName(node: Handle<Node>, out: Out<Text>) {
        text(node, out, "node_name", |node| &node.name)
    }

    fn Node_GetOperatorType(node: Handle<Node>, out: Out<Text>) {
        text(node, out, "operator_type", |node| &node.op)
    }

    fn Node_GetDomain(node: Handle<Node>, out: Out<Text>) {
        text(node, out, "domain_name", |node| &node.domain)
    }

    fn Node_GetNumInputs(node: Handle<Node>, out: Out<usize>) {
        count(node, out, "num_inputs", |node| node.inputs.len())
    }

    fn Node_GetInputs(node: Handle<Node>, inputs: Out<Handle<ValueInfo>>, len: usize) {
        let node = node.get("node")?;
        ownership::lend(&node.values(&node.says.inputs)?, inputs, len, "inputs")
    }

    fn Node_GetNumOutputs(node: Handle<Node>, out: Out<usize>) {
        count(node, out, "num_outputs", |node| node.outputs.len())
    }

    fn Node_GetOutputs(node: Handle<Node>, outputs: Out<Handle<ValueInfo>>, len: usize) {
        let node = node.get("node")?;
        ownership::lend(&node.values(&node.says.outputs)?, outputs, len, "outputs")
    }

    /// None: built nodes have no bodies.
    fn Node_GetNumImplicitInputs(node: Handle<Node>, out: Out<usize>) {
        count(node, out, "num_implicit_inputs", |_| 0)
    }

    fn Node_GetImplicitInputs(node: Handle<Node>, _inputs: Out<Handle<ValueInfo>>, _len: usize) {
        node.get("node").map(drop)
    }

    fn Node_GetNumAttributes(node: Handle<Node>, out: Out<usize>) {
        count(node, out, "num_attributes", |node| node.attributes.len())
    }

    fn Node_GetAttributes(node: Handle<Node>, attributes: Out<Handle<Attribute>>, len: usize) {
        let node = node.get("node")?;
        ownership::lend(node.attributes()?, attributes, len, "attributes")
    }

    /// The attribute with that name. If there is none, the error says so.
    fn Node_GetAttributeByName(node: Handle<Node>, name: Text, out: Out<Handle<Attribute>>) {
        let out = out.place("attribute")?;
        let (node, name) = (node.get("node")?, c_text(&name.read("attribute_name")?));
        let place = node.says.attributes.iter().position(|attribute| attribute.name == name);
        let handle = place.and_then(|place| node.attributes().ok()?.get(place).copied());
        out.put(handle.ok_or_else(|| {
            let [of, name] = [&node.says.name, &name].map(|text| text.to_string_lossy());
            Error::new(Code::Fail, format!("Attribute does not exist: the node {of} has no attribute {name}"))
        })?);
        Ok(())
    }

    fn Node_GetNumSubgraphs(node: Handle<Node>, out: Out<usize>) {
        count(node, out, "num_subgraphs", |_| 0)
    }

    /// The graph that has the node, while the graph's handle is live; null for a node without a graph.
    fn Node_GetGraph(node: Handle<Node>, out: Out<Handle<Graph>>) {
        let out = out.place("graph")?;
        out.put(node.get("node")?.graph().map_or(Handle::NULL, |graph| graph.own_handle()));
        Ok(())
    }

    fn ReleaseNode(node: Handle<Node>) -> (), else () => {
        ownership::release(node);
    }
}
