//! Running a graph: node by node, each through the checklist, every tensor freed as soon as nobody reads it.
//!
//! An [`Executable`] is immutable and shared by every request. What changes with requests is in a [`RunState`]: for
//! each node the shapes that it was prepared for, its output specs and its executor. One state serves one request at
//! a time; whoever runs requests at once keeps several.
//!
//! # Memory
//!
//! Liveness is known when the graph is compiled: each step lists the values that no later step reads. Dropping one
//! gives its buffer back to the session's pool, from which the next outputs are taken, so that a request touches about
//! as much memory as is alive at its widest point. A step that is the last reader of an input may write over it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_kernels::Parallel;
use smallvec::SmallVec;

use super::ir::{Graph, ValueId};
use super::node::{Io, Node, NodeError, PrepareCx, Prepared, RunCx, Specs};
use crate::cache::Outcome;
use crate::exec::BuildCx;
use crate::exec::tune::Tuner;
use crate::tensor::{BufferPool, Tensor, TensorSpec};

/// A node failed; says which.
#[derive(Debug, thiserror::Error)]
#[error("node '{node}' ({op}): {error}")]
pub struct RunError {
    /// The node's name.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// Why.
    pub error: NodeError,
}

/// One node of an [`Executable`].
pub struct Step {
    /// The node's name in the model.
    pub name: String,
    /// Its operator, with the domain where that is not ONNX's own.
    pub op: String,
    /// What was fused into it, for verbose lines: activation, residual.
    pub fused: String,
    node: Box<dyn Node>,
    inputs: SmallVec<[Option<ValueId>; 4]>,
    outputs: SmallVec<[Option<ValueId>; 1]>,
    /// Values that no later step reads.
    dead: SmallVec<[ValueId; 2]>,
}

impl Step {
    /// The node's kernel family.
    #[must_use]
    pub fn family(&self) -> &'static str {
        self.node.family()
    }
}

/// A graph whose nodes are ready to run at any shape.
pub struct Executable {
    steps: Vec<Step>,
    constants: Vec<Option<Tensor>>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
}

/// What happened when a step was prepared and run; given to an [`Observer`].
pub struct StepEvent<'a> {
    /// Place of the step.
    pub index: usize,
    /// The step.
    pub step: &'a Step,
    /// Whether shapes had changed, so that `prepare_params` was called.
    pub prepared: bool,
    /// What the cache answered; `None` where it was not asked.
    pub outcome: Option<Outcome>,
    /// The keys that it was asked with, in words; empty unless [`Observer::wants_keys`].
    pub keys: &'a [String],
    /// Specs of the inputs, in order.
    pub inputs: &'a [Option<TensorSpec>],
    /// Specs of the outputs.
    pub outputs: &'a [TensorSpec],
    /// Time of inference and preparation.
    pub prepare: Duration,
    /// Time of execution.
    pub execute: Duration,
}

/// Watches a run. Times are taken only where there is one.
pub trait Observer: Sync {
    /// Whether [`StepEvent::keys`] shall be filled, which costs time.
    fn wants_keys(&self) -> bool {
        false
    }

    /// Called after each step.
    fn step(&self, event: &StepEvent<'_>);
}

/// What a node was prepared for.
#[derive(Default)]
struct NodeState {
    inputs: SmallVec<[Option<TensorSpec>; 4]>,
    /// Contents of the value inputs, by input number.
    contents: SmallVec<[(usize, Tensor); 2]>,
    specs: Specs,
    prepared: Prepared,
    ready: bool,
}

/// Everything of a request that is not shared with other requests at the same time.
#[derive(Default)]
pub struct RunState {
    nodes: Vec<NodeState>,
    /// How many executors a tuner had replaced when the nodes were prepared.
    generation: u64,
    values: Vec<Option<Tensor>>,
}

/// What a run may use.
pub struct Resources<'a> {
    /// Builders' context: level, threads, cache, records.
    pub build: &'a BuildCx,
    /// Threads.
    pub parallel: &'a dyn Parallel,
    /// Memory.
    pub buffers: &'a Arc<BufferPool>,
    /// Who measures and replaces executors while no request runs, if anybody.
    pub tuner: Option<&'a Tuner>,
    /// Who watches, if anybody.
    pub observer: Option<&'a dyn Observer>,
}

impl Executable {
    /// Joins a graph with its nodes, made by `make` in order.
    pub fn new<E>(
        graph: &Graph,
        mut make: impl FnMut(usize) -> Result<(Box<dyn Node>, String), E>,
    ) -> Result<Executable, E> {
        let mut steps = Vec::with_capacity(graph.nodes.len());
        for (index, desc) in graph.nodes.iter().enumerate() {
            let (node, fused) = make(index)?;
            let op = if desc.domain.is_empty() { desc.op.clone() } else { format!("{}.{}", desc.domain, desc.op) };
            steps.push(Step {
                name: desc.name.clone(),
                op,
                fused,
                node,
                inputs: desc.inputs.iter().copied().collect(),
                outputs: desc.outputs.iter().copied().collect(),
                dead: SmallVec::new(),
            });
        }
        let mut constants = vec![None; graph.values.len()];
        for (value, tensor) in &graph.constants {
            constants[value.index()] = Some(tensor.clone());
        }
        mark_dead(&mut steps, graph);
        Ok(Executable { steps, constants, inputs: graph.inputs.clone(), outputs: graph.outputs.clone() })
    }

    /// The steps, in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Runs one request. `inputs` are in the order of the graph's inputs; the outputs are in the order of its outputs.
    pub fn run(
        &self,
        inputs: &[Option<Tensor>],
        state: &mut RunState,
        resources: &Resources<'_>,
    ) -> Result<Vec<Tensor>, RunError> {
        let generation = resources.tuner.map_or(0, Tuner::generation);
        if state.generation != generation {
            // Some executor was replaced since: every node asks again, which are hits. It happens a few times in all.
            state.nodes.clear();
            state.generation = generation;
        }
        state.nodes.resize_with(self.steps.len(), NodeState::default);
        state.values.clear();
        state.values.resize(self.constants.len(), None);
        for (value, tensor) in self.inputs.iter().zip(inputs) {
            if let Some(tensor) = tensor {
                state.values[value.index()] = Some(tensor.clone());
            }
        }
        let cx = RunCx { parallel: resources.parallel, buffers: resources.buffers };
        for (index, step) in self.steps.iter().enumerate() {
            self.run_step(index, step, state, resources, &cx).map_err(|error| {
                // Inputs that the step took are gone; what is left must not linger until the next request.
                state.values.clear();
                state.nodes[index] = NodeState::default();
                RunError { node: step.name.clone(), op: step.op.clone(), error }
            })?;
        }
        let outputs =
            self.outputs.iter().map(|value| self.value(&state.values, *value).cloned()).collect::<Option<Vec<_>>>();
        state.values.clear();
        outputs.ok_or_else(|| RunError {
            node: String::new(),
            op: "graph".to_owned(),
            error: NodeError::Input("an output of the graph was never made".to_owned()),
        })
    }

    fn value<'a>(&'a self, values: &'a [Option<Tensor>], value: ValueId) -> Option<&'a Tensor> {
        values[value.index()].as_ref().or(self.constants[value.index()].as_ref())
    }

    fn run_step(
        &self,
        index: usize,
        step: &Step,
        state: &mut RunState,
        resources: &Resources<'_>,
        cx: &RunCx<'_>,
    ) -> Result<(), NodeError> {
        let RunState { nodes, values, .. } = state;
        let start = resources.observer.map(|_| Instant::now());
        let inputs: SmallVec<[Option<&Tensor>; 4]> =
            step.inputs.iter().map(|input| input.and_then(|value| self.value(values, value))).collect();
        let mut outcome = None;
        let mut keys = Vec::new();
        let changed = !nodes[index].stands_for(&inputs);
        if changed {
            let noted = resources.observer.is_some_and(Observer::wants_keys);
            let prepare = if noted { PrepareCx::noting_keys(resources.build) } else { PrepareCx::new(resources.build) };
            let prepare = prepare.told_to(resources.tuner);
            let fresh = NodeState::prepare(step.node.as_ref(), &prepare, &inputs)?;
            outcome = prepare.outcome();
            keys = prepare.into_keys();
            nodes[index] = fresh;
        }
        let owned: SmallVec<[Option<Tensor>; 4]> = inputs.into_iter().map(|input| input.cloned()).collect();
        for value in &step.dead {
            values[value.index()] = None;
        }
        let prepared = start.map(|start| (start.elapsed(), Instant::now()));
        let node = &nodes[index];
        let mut io = Io::new(owned, &node.specs, resources.buffers);
        step.node.execute(&node.prepared, &mut io, cx)?;
        let outputs = io.into_outputs();
        if let (Some(observer), Some((prepare, started))) = (resources.observer, prepared) {
            observer.step(&StepEvent {
                index,
                step,
                prepared: changed,
                outcome,
                keys: &keys,
                inputs: &node.inputs,
                outputs: &node.specs,
                prepare,
                execute: started.elapsed(),
            });
        }
        for (value, tensor) in step.outputs.iter().zip(outputs) {
            if let Some(value) = value {
                values[value.index()] = Some(tensor);
            }
        }
        Ok(())
    }
}

impl NodeState {
    /// Whether these inputs are those that the node was prepared for.
    fn stands_for(&self, inputs: &[Option<&Tensor>]) -> bool {
        self.ready
            && self.inputs.len() == inputs.len()
            && self.inputs.iter().zip(inputs).all(|(old, new)| old.as_ref() == new.map(Tensor::spec))
            && self.contents.iter().all(|(input, old)| inputs[*input].is_some_and(|new| new.same(old)))
    }

    fn prepare(node: &dyn Node, cx: &PrepareCx<'_>, inputs: &[Option<&Tensor>]) -> Result<NodeState, NodeError> {
        let specs = node.infer(inputs)?;
        for spec in &specs {
            spec.elements()?;
        }
        let prepared = node.prepare_params(cx, inputs, &specs)?;
        let by_value = node.value_inputs();
        let contents = inputs
            .iter()
            .enumerate()
            .filter(|(input, _)| *input < 64 && by_value >> input & 1 == 1)
            .filter_map(|(input, tensor)| tensor.map(|tensor| (input, tensor.clone())))
            .collect();
        let inputs = inputs.iter().map(|tensor| tensor.map(|tensor| tensor.spec().clone())).collect();
        Ok(NodeState { inputs, contents, specs, prepared, ready: true })
    }
}

/// Lists at each step the values that no later step reads and that the graph does not return.
fn mark_dead(steps: &mut [Step], graph: &Graph) {
    let mut last_use: Vec<Option<usize>> = vec![None; graph.values.len()];
    for (index, step) in steps.iter().enumerate() {
        // A value nobody reads dies where it is made.
        for value in step.outputs.iter().chain(&step.inputs).flatten() {
            last_use[value.index()] = Some(index);
        }
    }
    for value in &graph.outputs {
        last_use[value.index()] = None;
    }
    for (value, last) in last_use.into_iter().enumerate() {
        let Some(index) = last else { continue };
        let id = ValueId(value as u32);
        if steps[index].inputs.contains(&Some(id)) {
            steps[index].dead.push(id);
        } else {
            // Nobody reads it: the node need not keep it at all.
            steps[index].outputs.iter_mut().filter(|output| **output == Some(id)).for_each(|output| *output = None);
        }
    }
}
