//! Selection of a model's values: of named nodes, all, or those that are left after its passes. Depends on no command.

use std::collections::BTreeSet;
use std::path::Path;

use kiln::session::compile::Description;
use kiln::session::{SessionError, SessionOptions, taps};
use kiln_model::{Graph, NodeDesc};

use crate::failure::{Failure, Outcome};

/// Flags of the commands that look at values inside a model.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SelectionArgs {
    /// A node of the model, by its name or by one of its outputs; may be given several times
    #[arg(long = "node", value_name = "NAME", help_heading = "Values")]
    pub(crate) nodes: Vec<String>,
    /// Every value of the model; values that passes would fuse away are then computed separately
    #[arg(long, conflicts_with = "nodes", help_heading = "Values")]
    pub(crate) all_values: bool,
}

/// The graph before the passes.
pub(crate) fn model(path: &Path, options: &SessionOptions) -> Outcome<Graph> {
    kiln_model::onnx::load(path, &options.limits)
        .map_err(|error| Failure::from(SessionError::Model(error)).context(format!("{}", path.display())))
}

impl SelectionArgs {
    /// Whether any flag is given.
    pub(crate) fn any(&self) -> bool {
        self.all_values || !self.nodes.is_empty()
    }

    /// Names of the values, in the order of the model's nodes. Without flags, those that are computed after the passes
    /// anyway, by `description`.
    pub(crate) fn values(
        &self,
        model: &Graph,
        description: impl FnOnce() -> Outcome<Description>,
    ) -> Outcome<Vec<String>> {
        if !self.any() {
            return Ok(taps::left_by_passes(model, &description()?));
        }
        let made = |node: &NodeDesc| -> Vec<String> {
            node.outputs.iter().flatten().map(|&id| model.value(id).name.clone()).filter(|n| !n.is_empty()).collect()
        };
        let mut wanted = BTreeSet::new();
        for name in &self.nodes {
            let before = wanted.len();
            for node in &model.nodes {
                let values = made(node);
                if node.name == *name {
                    wanted.extend(values);
                } else if values.contains(name) {
                    wanted.insert(name.clone());
                }
            }
            if wanted.len() == before && !wanted.contains(name) {
                return Err(unknown(model, name));
            }
        }
        let all = model.nodes.iter().flat_map(made);
        Ok(all.filter(|name| self.all_values || wanted.contains(name)).collect())
    }
}

fn unknown(model: &Graph, name: &str) -> Failure {
    let values = model.nodes.iter().flat_map(|node| node.outputs.iter().flatten()).map(|&id| &model.value(id).name);
    let known: BTreeSet<&str> = model.nodes.iter().map(|node| &node.name).chain(values).map(String::as_str).collect();
    let near = taps::nearest(name, known.into_iter().filter(|known| !known.is_empty()));
    Failure::usage(format!("--node: the model has no node or value '{name}'; the nearest are {}", near.join(", ")))
}

/// The node of the model that makes a value.
pub(crate) fn maker<'g>(model: &'g Graph, value: &str) -> Option<&'g NodeDesc> {
    let makes = |node: &&NodeDesc| node.outputs.iter().flatten().any(|&id| model.value(id).name == value);
    model.nodes.iter().find(makes)
}

/// Values that depend on random ones: they differ between two runs, and neither is wrong.
pub(crate) fn random(model: &Graph) -> BTreeSet<String> {
    let mut random = vec![false; model.values.len()];
    for node in &model.nodes {
        let from_random = node.inputs.iter().flatten().any(|id| random[id.index()]);
        if from_random || taps::is_random(model, node) {
            node.outputs.iter().flatten().for_each(|id| random[id.index()] = true);
        }
    }
    let names = model.values.iter().zip(random).filter(|(_, random)| *random);
    names.map(|(value, _)| value.name.clone()).collect()
}

/// An operator with its domain, as lists show it.
pub(crate) fn operator(node: &NodeDesc) -> String {
    if node.domain.is_empty() { node.op.clone() } else { format!("{}.{}", node.domain, node.op) }
}
