//! The nodes of a graph after the passes for display, with data of one request for each: shapes, kernel, keys. Depends
//! on no command.

use std::sync::{Mutex, PoisonError};

use kiln_model::{Graph, NodeDesc};
use kiln_run::device::ON_DEVICE;
use kiln_run::{Observer, StepEvent};
use serde::Serialize;

use crate::shape;

/// One node of a graph after the passes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NodeView {
    pub(crate) name: String,
    pub(crate) op: String,
    /// The layout of its data, if the operator has a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) layout: Option<&'static str>,
    /// Activations, residuals and chains that were fused into it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) fused: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    /// Known after a request was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<RunView>,
}

/// Data of a node from one request.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct RunView {
    pub(crate) family: String,
    pub(crate) input_shapes: Vec<String>,
    pub(crate) output_shapes: Vec<String>,
    pub(crate) keys: Vec<String>,
}

/// Notes each node's data in its first request, by index in the graph.
#[derive(Default)]
pub(crate) struct Watch(Mutex<Vec<Option<RunView>>>);

impl Watch {
    /// The data of each node.
    pub(crate) fn into_runs(self) -> Vec<RunView> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().map(Option::unwrap_or_default).collect()
    }
}

impl Observer for Watch {
    fn wants_keys(&self) -> bool {
        true
    }

    fn step(&self, event: &StepEvent<'_>) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() <= event.index {
            runs.resize_with(event.index + 1, || None);
        }
        runs[event.index].get_or_insert_with(|| RunView {
            family: event.step.family().to_owned(),
            input_shapes: event
                .inputs
                .iter()
                .map(|spec| spec.as_ref().map_or("-".to_owned(), |spec| shape::text(&spec.shape)))
                .collect(),
            output_shapes: event.outputs.iter().map(|spec| shape::text(&spec.shape)).collect(),
            keys: event.keys.to_vec(),
        });
    }
}

/// All nodes, with each one's data of a request, if there was one.
pub(crate) fn views(graph: &Graph, runs: Vec<RunView>) -> Vec<NodeView> {
    let mut runs = runs.into_iter().map(Some);
    let view = |node: &NodeDesc| NodeView {
        name: node.name.clone(),
        op: if node.domain.is_empty() { node.op.clone() } else { format!("{}.{}", node.domain, node.op) },
        layout: layout(node),
        fused: kiln::session::compile::fusions(node),
        inputs: names(graph, &node.inputs),
        outputs: names(graph, &node.outputs),
        run: runs.next().flatten(),
    };
    graph.nodes.iter().map(view).collect()
}

/// The layout of a node's data, if its operator has a choice.
fn layout(node: &NodeDesc) -> Option<&'static str> {
    if node.is_marked(ON_DEVICE) {
        return Some("on the device");
    }
    (node.is_channels_last()).then_some("channels last")
}

/// Values by name; those left out are dashes.
fn names(graph: &Graph, values: &[Option<kiln_model::ValueId>]) -> Vec<String> {
    let name = |value: &Option<kiln_model::ValueId>| value.map_or("-".to_owned(), |id| graph.value(id).name.clone());
    values.iter().map(name).collect()
}
