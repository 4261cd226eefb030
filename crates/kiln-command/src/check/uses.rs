//! The operators of one case: their domains, names, versions and element types.

use std::collections::{BTreeMap, BTreeSet};

use kiln_model::Graph;
use kiln_model::ir::{Attr, NodeDesc};
use kiln_tensor::DType;
use serde::{Deserialize, Serialize};

/// The operators of one case, taken from its graph before it is rewritten.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Uses {
    /// By domain and name.
    pub(super) operators: BTreeMap<String, BTreeMap<String, Used>>,
}

/// One operator in one case.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Used {
    pub(super) versions: BTreeSet<i64>,
    pub(super) types: BTreeSet<String>,
}

impl Uses {
    /// The operators of a graph and of the bodies in it.
    pub(super) fn of(graph: &Graph) -> Uses {
        let mut uses = Uses::default();
        uses.add(graph);
        uses
    }

    /// Whether the case has any of these operators of ONNX's own domain.
    pub(super) fn any(&self, operators: &[&str]) -> bool {
        self.operators.get("").is_some_and(|own| operators.iter().any(|op| own.contains_key(*op)))
    }

    fn add(&mut self, graph: &Graph) {
        for node in &graph.nodes {
            let used = self.operators.entry(node.domain.clone()).or_default().entry(node.op.clone()).or_default();
            used.versions.insert(node.version);
            used.types.extend(declared(graph, node).map(|dtype| dtype.name().to_owned()));
            for attr in node.attrs.values() {
                if let Attr::Graph(body) = attr {
                    self.add(body);
                }
            }
        }
    }
}

fn declared(graph: &Graph, node: &NodeDesc) -> impl Iterator<Item = DType> {
    node.inputs.iter().chain(&node.outputs).flatten().filter_map(|&value| graph.value(value).dtype)
}
