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

use super::flow::{Flow, FlowCx, LoopBudget};
use super::ir::{Graph, ValueId};
use super::node::{Io, Node, NodeError, PrepareCx, Prepared, RunCx, Specs};
use super::value::Value;
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

/// What does a step's work.
pub enum Work {
    /// Tensors to tensors.
    Node(Box<dyn Node>),
    /// Whatever else.
    Flow(Box<dyn Flow>),
}

/// One node of an [`Executable`].
pub struct Step {
    /// The node's name in the model.
    pub name: String,
    /// Its operator, with the domain where that is not ONNX's own.
    pub op: String,
    /// What was fused into it, for verbose lines: activation, residual.
    pub fused: String,
    work: Work,
    inputs: SmallVec<[Option<ValueId>; 4]>,
    outputs: SmallVec<[Option<ValueId>; 1]>,
    /// Values that no later step reads.
    dead: SmallVec<[ValueId; 2]>,
}

impl Step {
    /// The node's kernel family.
    #[must_use]
    pub fn family(&self) -> &'static str {
        match &self.work {
            Work::Node(node) => node.family(),
            Work::Flow(flow) => flow.family(),
        }
    }
}

/// A graph whose nodes are ready to run at any shape.
pub struct Executable {
    steps: Vec<Step>,
    constants: Vec<Option<Value>>,
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
    /// States of the node's bodies.
    bodies: Vec<RunState>,
}

/// Everything of a request that is not shared with other requests at the same time.
#[derive(Default)]
pub struct RunState {
    nodes: Vec<NodeState>,
    /// How many executors a tuner had replaced when the nodes were prepared.
    generation: u64,
    values: Vec<Option<Value>>,
}

/// What a run may use.
#[derive(Clone, Copy)]
pub struct Resources<'a> {
    /// Builders' context: level, threads, cache, records.
    pub build: &'a BuildCx,
    /// Threads.
    pub parallel: &'a dyn Parallel,
    /// Memory.
    pub buffers: &'a Arc<BufferPool>,
    /// Who measures and replaces executors while no request runs, if anybody.
    pub tuner: Option<&'a Tuner>,
    /// What the request's loops may do.
    pub loops: &'a LoopBudget,
    /// Who watches, if anybody.
    pub observer: Option<&'a dyn Observer>,
}

impl Executable {
    /// Joins a graph with what does its nodes' work, in order, and with what was fused into each.
    pub fn new(graph: &Graph, works: impl IntoIterator<Item = (Work, String)>) -> Executable {
        let mut steps = Vec::with_capacity(graph.nodes.len());
        for (desc, (work, fused)) in graph.nodes.iter().zip(works) {
            let op = if desc.domain.is_empty() { desc.op.clone() } else { format!("{}.{}", desc.domain, desc.op) };
            steps.push(Step {
                name: desc.name.clone(),
                op,
                fused,
                work,
                inputs: desc.inputs.iter().copied().collect(),
                outputs: desc.outputs.iter().copied().collect(),
                dead: SmallVec::new(),
            });
        }
        let mut constants = vec![None; graph.values.len()];
        for (value, tensor) in &graph.constants {
            constants[value.index()] = Some(Value::Tensor(tensor.clone()));
        }
        mark_dead(&mut steps, graph);
        Executable { steps, constants, inputs: graph.inputs.clone(), outputs: graph.outputs.clone() }
    }

    /// The steps, in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Runs one request. `inputs` are in the order of the graph's inputs; the outputs are in the order of its outputs.
    pub fn run(
        &self,
        inputs: Vec<Option<Value>>,
        state: &mut RunState,
        resources: &Resources<'_>,
    ) -> Result<Vec<Value>, RunError> {
        let generation = resources.tuner.map_or(0, Tuner::generation);
        if state.generation != generation {
            // Some executor was replaced since: every node asks again, which are hits. It happens a few times in all.
            state.nodes.clear();
            state.generation = generation;
        }
        state.nodes.resize_with(self.steps.len(), NodeState::default);
        state.values.clear();
        state.values.resize(self.constants.len(), None);
        for (value, given) in self.inputs.iter().zip(inputs) {
            state.values[value.index()] = given;
        }
        let cx = RunCx { parallel: resources.parallel, buffers: resources.buffers };
        for (index, step) in self.steps.iter().enumerate() {
            let done = match &step.work {
                Work::Node(node) => self.run_node(index, step, node.as_ref(), state, resources, &cx),
                Work::Flow(flow) => self.run_flow(index, step, flow.as_ref(), state, resources),
            };
            done.map_err(|error| {
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

    fn value<'a>(&'a self, values: &'a [Option<Value>], value: ValueId) -> Option<&'a Value> {
        values[value.index()].as_ref().or(self.constants[value.index()].as_ref())
    }

    fn run_node(
        &self,
        index: usize,
        step: &Step,
        node: &dyn Node,
        state: &mut RunState,
        resources: &Resources<'_>,
        cx: &RunCx<'_>,
    ) -> Result<(), NodeError> {
        let RunState { nodes, values, .. } = state;
        let start = resources.observer.map(|_| Instant::now());
        let mut inputs: SmallVec<[Option<&Tensor>; 4]> = SmallVec::with_capacity(step.inputs.len());
        for input in &step.inputs {
            inputs.push(match input.and_then(|value| self.value(values, value)) {
                Some(Value::Tensor(tensor)) => Some(tensor),
                Some(other) => return Err(other.is_no("a tensor")),
                None => None,
            });
        }
        let mut outcome = None;
        let mut keys = Vec::new();
        let changed = !nodes[index].stands_for(&inputs);
        if changed {
            let noted = resources.observer.is_some_and(Observer::wants_keys);
            let prepare = if noted { PrepareCx::noting_keys(resources.build) } else { PrepareCx::new(resources.build) };
            let prepare = prepare.told_to(resources.tuner);
            let fresh = NodeState::prepare(node, &prepare, &inputs)?;
            outcome = prepare.outcome();
            keys = prepare.into_keys();
            nodes[index] = fresh;
        }
        let owned: SmallVec<[Option<Tensor>; 4]> = inputs.into_iter().map(|input| input.cloned()).collect();
        for value in &step.dead {
            values[value.index()] = None;
        }
        let prepared = start.map(|start| (start.elapsed(), Instant::now()));
        let state = &nodes[index];
        let mut io = Io::new(owned, &state.specs, resources.buffers);
        node.execute(&state.prepared, &mut io, cx)?;
        let outputs = io.into_outputs();
        if let (Some(observer), Some((prepare, started))) = (resources.observer, prepared) {
            observer.step(&StepEvent {
                index,
                step,
                prepared: changed,
                outcome,
                keys: &keys,
                inputs: &state.inputs,
                outputs: &state.specs,
                prepare,
                execute: started.elapsed(),
            });
        }
        for (value, tensor) in step.outputs.iter().zip(outputs) {
            if let Some(value) = value {
                values[value.index()] = Some(Value::Tensor(tensor));
            }
        }
        Ok(())
    }

    fn run_flow(
        &self,
        index: usize,
        step: &Step,
        flow: &dyn Flow,
        state: &mut RunState,
        resources: &Resources<'_>,
    ) -> Result<(), NodeError> {
        let RunState { nodes, values, .. } = state;
        let start = resources.observer.map(|_| Instant::now());
        let inputs: Vec<Option<Value>> =
            step.inputs.iter().map(|input| input.and_then(|value| self.value(values, value)).cloned()).collect();
        // What was left out in the file is absent; what is named and was never made would look the same.
        let missing = |(input, value): (&Option<ValueId>, &Option<Value>)| input.is_some() && value.is_none();
        if let Some(place) = step.inputs.iter().zip(&inputs).position(missing) {
            return Err(NodeError::Input(format!("input {place} is missing")));
        }
        for value in &step.dead {
            values[value.index()] = None;
        }
        let seen = start.map(|_| inputs.iter().map(|value| spec_of(value.as_ref())).collect::<Vec<_>>());
        let mut cx = FlowCx { resources, states: &mut nodes[index].bodies };
        let outputs = flow.run(inputs, &mut cx)?;
        if let (Some(observer), Some(start), Some(inputs)) = (resources.observer, start, seen) {
            let outputs: Vec<TensorSpec> = outputs.iter().filter_map(|value| spec_of(Some(value))).collect();
            observer.step(&StepEvent {
                index,
                step,
                prepared: false,
                outcome: None,
                keys: &[],
                inputs: &inputs,
                outputs: &outputs,
                prepare: Duration::ZERO,
                execute: start.elapsed(),
            });
        }
        if outputs.len() < step.outputs.len() {
            return Err(NodeError::Input(format!("it made {} of {} outputs", outputs.len(), step.outputs.len())));
        }
        for (value, made) in step.outputs.iter().zip(outputs) {
            if let Some(value) = value {
                values[value.index()] = Some(made);
            }
        }
        Ok(())
    }
}

/// The spec of a value that is a tensor.
fn spec_of(value: Option<&Value>) -> Option<TensorSpec> {
    value.and_then(Value::as_tensor).map(|tensor| tensor.spec().clone())
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
        Ok(NodeState { inputs, contents, specs, prepared, ready: true, bodies: Vec::new() })
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
