//! Placement: which nodes of a graph run on a device, and the copies between them and the others.
//!
//! Nodes with a form on the device ([`ops::device`](kiln_ops::device)) are placed there if they compute much, or if
//! one of their inputs is there already; all others (shapes, indices, nodes without a form) stay on the processor. A
//! value that both need is copied once, by its own node, so that profiles and traces show copies. Constants that the
//! device reads are sent when the graph is loaded. Bodies of loops and branches stay on the processor.

use kiln_model::facts::Facts;
use kiln_model::ir::{Attr, Graph, NodeDesc, ValueId, ValueInfo};
use kiln_model::operators;
use kiln_ops::device::{Form, Pull, carried, form};
use kiln_run::device::{ON_DEVICE, TO_DEVICE, TO_HOST};

use super::Upload;

/// The least elements of a table from which gathering rows on the device pays.
const TABLE: usize = 4096;

/// Marks the nodes that run on the device, puts copies on the edges between them and the others, and returns the
/// constants to send.
pub(super) fn place(graph: &mut Graph) -> Vec<Upload> {
    let facts = Facts::of(graph, true);
    let nodes = std::mem::take(&mut graph.nodes);
    let mut placing = Placing { sides: vec![Side::default(); graph.values.len()], uploads: Vec::new(), graph };
    for mut node in nodes {
        let form = form(&node).filter(|form| placing.fits(form, &node, &facts) && placing.pulls(form, &node));
        let host_inputs = form.map_or(u64::MAX, |form| form.host_inputs);
        let measures = operators::of(&node).is_some_and(|row| row.measures);
        for (index, input) in node.inputs.iter_mut().enumerate() {
            if let Some(value) = input {
                *value = if index >= 64 || host_inputs >> index & 1 == 1 {
                    if measures { placing.anywhere(*value) } else { placing.on_host(*value) }
                } else {
                    placing.on_device(*value, form)
                };
            }
        }
        if form.is_some() {
            node.attrs.insert(ON_DEVICE.to_owned(), Attr::Int(1));
            for value in node.outputs.iter_mut().flatten() {
                let there = placing.twin(*value, "device");
                placing.sides[value.index()] = Side { there: Some(there), made_there: true, copied: false };
                *value = there;
            }
        }
        placing.graph.nodes.push(node);
    }
    for index in 0..placing.graph.outputs.len() {
        let output = placing.graph.outputs[index];
        placing.on_host(output);
    }
    placing.uploads
}

/// The places of a value.
#[derive(Clone, Copy, Default)]
struct Side {
    /// The value on the device, if it is or will be there.
    there: Option<ValueId>,
    /// Whether a node on the device makes it.
    made_there: bool,
    /// Whether it is copied to the processor.
    copied: bool,
}

struct Placing<'a> {
    graph: &'a mut Graph,
    /// For each value of the graph before placement.
    sides: Vec<Side>,
    uploads: Vec<Upload>,
}

impl Placing<'_> {
    /// Whether the device can hold all that the node reads and makes there.
    fn fits(&self, form: &Form, node: &NodeDesc, facts: &Facts) -> bool {
        let carried = |value: &ValueId| facts.get(*value).dtype.is_some_and(carried(form));
        let inputs = node.inputs.iter().enumerate();
        let there = inputs.filter(|(index, _)| *index >= 64 || form.host_inputs >> index & 1 == 0);
        there.filter_map(|(_, value)| value.as_ref()).all(carried) && node.outputs.iter().flatten().all(carried)
    }

    /// Whether the node is placed on the device.
    fn pulls(&self, form: &Form, node: &NodeDesc) -> bool {
        let inputs = node.inputs.iter().enumerate();
        let mut there = inputs.filter(|(index, _)| *index >= 64 || form.host_inputs >> index & 1 == 0);
        let follows = there.any(|(_, value)| value.is_some_and(|value| self.sides[value.index()].made_there));
        match form.pull {
            Pull::Always => true,
            Pull::Follows => follows,
            Pull::Table => follows || self.graph.constant_input(node, 0).is_some_and(|table| table.len() >= TABLE),
        }
    }

    /// A new value with the same declaration.
    fn twin(&mut self, value: ValueId, side: &str) -> ValueId {
        let info = self.graph.value(value);
        let name = format!("{}@{side}", info.name);
        let info = ValueInfo { name, ..info.clone() };
        self.graph.add_value(info)
    }

    /// The value for a node on the device, to which it is copied if it is not there.
    fn on_device(&mut self, value: ValueId, form: Option<Form>) -> ValueId {
        // A single element becomes a part of the element-wise program that reads it, or an argument of its launch.
        let is_program = form.is_none_or(|form| form.pull != Pull::Always);
        if is_program && self.graph.constant(value).is_some_and(|tensor| tensor.len() == 1) {
            return value;
        }
        if let Some(there) = self.sides[value.index()].there {
            return there;
        }
        let there = self.twin(value, "device");
        self.sides[value.index()].there = Some(there);
        if self.graph.constants.contains_key(&value) {
            self.uploads.push(Upload { host: value, there });
        } else {
            self.copy(TO_DEVICE, value, there);
        }
        there
    }

    /// The value for a node on the processor, to which it is copied if it is only on the device.
    fn on_host(&mut self, value: ValueId) -> ValueId {
        if let Side { there: Some(there), made_there: true, copied: false } = self.sides[value.index()] {
            self.sides[value.index()].copied = true;
            self.copy(TO_HOST, there, value);
        }
        value
    }

    /// The value, on either side, for a node that reads none of its elements.
    fn anywhere(&self, value: ValueId) -> ValueId {
        match self.sides[value.index()] {
            Side { there: Some(there), made_there: true, copied: false } => there,
            _ => value,
        }
    }

    fn copy(&mut self, op: &str, from: ValueId, to: ValueId) {
        let name = format!("{}.{op}", self.graph.value(from).name);
        let (inputs, outputs) = (vec![Some(from)], vec![Some(to)]);
        let copy = NodeDesc {
            name,
            domain: "kiln".to_owned(),
            op: op.to_owned(),
            version: 1,
            inputs,
            outputs,
            ..NodeDesc::default()
        };
        self.graph.nodes.push(copy);
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::GraphBuilder;
    use kiln_model::verify::verify;
    use kiln_tensor::{DType, Tensor, TensorSpec};

    use super::*;

    fn weights(shape: &[usize]) -> Tensor {
        Tensor::zeros(TensorSpec::new(DType::F32, shape.iter().copied())).unwrap()
    }

    /// The nodes in order, those on the device with a star.
    fn placed(mut graph: Graph) -> (String, Vec<Upload>, Graph) {
        let uploads = place(&mut graph);
        let star = |node: &NodeDesc| if node.is_marked(ON_DEVICE) { "*" } else { "" };
        let names: Vec<String> = graph.nodes.iter().map(|node| format!("{}{}", node.op, star(node))).collect();
        for &Upload { host, there } in &uploads {
            let tensor = graph.constants[&host].clone();
            graph.constants.insert(there, tensor);
        }
        assert_eq!(verify(&graph), Ok(()));
        (names.join(" "), uploads, graph)
    }

    #[test]
    fn a_network_goes_there_once_and_comes_back_once() {
        let mut builder = GraphBuilder::new("net", 17);
        let x = builder.input("x", DType::F32, [1.into(), 3.into(), "H".into(), "W".into()]);
        let filters = builder.constant(weights(&[8, 3, 3, 3]));
        let conv = builder.op("Conv", &[x, filters], &[]);
        let relu = builder.op("Relu", &[conv], &[]);
        let pooled = builder.op("GlobalAveragePool", &[relu], &[]);
        builder.output("y", pooled);
        let (names, uploads, graph) = placed(builder.finish());
        assert_eq!(names, "ToDevice Conv* Relu* GlobalAveragePool* ToHost");
        assert_eq!(uploads.len(), 1);
        assert_eq!(graph.value(graph.outputs[0]).name, "y", "the caller's name stays");
    }

    #[test]
    fn shapes_stay_with_the_processor_without_a_copy_and_a_value_is_copied_once() {
        let mut builder = GraphBuilder::new("shapes", 17);
        let x = builder.input("x", DType::F32, ["N".into(), 64.into()]);
        let matrix = builder.constant(weights(&[64, 64]));
        let product = builder.op("MatMul", &[x, matrix], &[]);
        let shape = builder.op("Shape", &[product], &[]);
        let nonzero = builder.op("NonZero", &[product], &[]);
        let again = builder.op("Reshape", &[product, shape], &[]);
        builder.output("y", again);
        builder.output("z", nonzero);
        builder.output("p", product);
        let (names, ..) = placed(builder.finish());
        assert_eq!(names, "ToDevice MatMul* Shape ToHost NonZero Reshape* ToHost");
    }

    #[test]
    fn what_computes_nothing_there_and_other_types_stay() {
        let mut builder = GraphBuilder::new("integers", 17);
        let x = builder.input("x", DType::I64, ["N".into()]);
        let sum = builder.op("Add", &[x, x], &[]);
        let f = builder.input("f", DType::F32, ["N".into()]);
        let relu = builder.op("Relu", &[f], &[]);
        builder.output("y", sum);
        builder.output("z", relu);
        assert_eq!(placed(builder.finish()).0, "Add Relu");
    }

    #[test]
    fn rows_of_a_table_are_picked_where_the_table_is() {
        let mut builder = GraphBuilder::new("embedding", 17);
        let ids = builder.input("ids", DType::I64, ["N".into()]);
        let table = builder.constant(weights(&[1000, 64]));
        let rows = builder.op("Gather", &[table, ids], &[]);
        builder.output("y", rows);
        let (names, _, graph) = placed(builder.finish());
        assert_eq!(names, "Gather* ToHost");
        assert_eq!(graph.nodes[0].inputs[1], Some(ids), "the processor checks indices");
    }
}
