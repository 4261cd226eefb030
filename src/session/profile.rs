//! Times and outcomes by node, summed over requests.

use std::time::Duration;

use kiln_cache::Outcome;
use kiln_run::StepEvent;
use kiln_tensor::TensorSpec;

/// The cost of one node so far.
#[derive(Clone, Debug, Default)]
pub struct NodeProfile {
    /// The node's name.
    pub name: String,
    /// Its operator.
    pub op: String,
    /// Its kernel family.
    pub family: &'static str,
    /// Executions.
    pub calls: u64,
    /// Executions for which shapes had changed.
    pub prepared: u64,
    /// Outcomes of look-ups ([`Outcome`]): hits.
    pub hits: u64,
    /// Executors built without a record.
    pub misses: u64,
    /// Executors built from a record.
    pub record_hits: u64,
    /// Look-ups that waited for another thread's build.
    pub waits: u64,
    /// Time of shape inference and preparation.
    pub prepare: Duration,
    /// Time of execution.
    pub execute: Duration,
    /// Specs of the last execution's inputs.
    pub inputs: Vec<Option<TensorSpec>>,
    /// Specs of the last execution's outputs.
    pub outputs: Vec<TensorSpec>,
}

/// Every node's costs, in the order of the graph.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// By index in the graph.
    pub nodes: Vec<NodeProfile>,
}

impl Profile {
    pub(super) fn add(&mut self, event: &StepEvent<'_>) {
        if self.nodes.len() <= event.index {
            self.nodes.resize_with(event.index + 1, NodeProfile::default);
        }
        let node = &mut self.nodes[event.index];
        if node.calls == 0 {
            node.name.clone_from(&event.step.name);
            node.op.clone_from(&event.step.op);
            node.family = event.step.family();
        }
        node.calls += 1;
        node.prepared += u64::from(event.prepared);
        match event.outcome {
            Some(Outcome::Hit) => node.hits += 1,
            Some(Outcome::Miss) => node.misses += 1,
            Some(Outcome::RecordHit) => node.record_hits += 1,
            Some(Outcome::Waited) => node.waits += 1,
            None => {}
        }
        node.prepare += event.prepare;
        node.execute += event.execute;
        node.inputs = event.inputs.to_vec();
        node.outputs = event.outputs.to_vec();
    }
}
