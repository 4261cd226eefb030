//! Running a graph: by plans where the request's shapes are known, else node by node, each through the executor-cache
//! checklist. Tensors are freed after their last reader.
//!
//! An [`Executable`] is immutable and shared by all requests, and so are the plans of its stretches ([`plan`],
//! [`spans`]). The first request of all runs node by node and leaves a plan; the first request of other shapes makes
//! its plan before it runs; later ones find it by one look-up a stretch (one a request, where no shape depends on data)
//! and compare nothing. Running by a plan is here, preparing all steps before the first one runs in [`ahead`], the same
//! at load in [`foresee`], running step by step in [`stepwise`], steps with bodies in [`flow`], events for observers in
//! [`observe`], executables of some of the nodes in [`part`]. A [`RunState`] holds what belongs to one request at a
//! time: values, the buffers of plans, what nodes without plans remember. Requests that run at the same time need one
//! each.
//!
//! # Memory
//!
//! Liveness is known when the graph is compiled: each step lists the values that no later step reads. Under a plan
//! their buffers go back to the state's [lease](super::lease), otherwise to the session's pool, from which the next
//! outputs are allocated, so that a request touches about as much memory as is alive at its widest point. A step that
//! is the last reader of an input may write over it.
//!
//! # Stopping a request
//!
//! The request's [`Stop`], if it has one, is checked before each step, and by kernels between blocks of their work.

mod ahead;
pub mod flow;
mod foresee;
mod observe;
pub mod part;
mod plan;
mod spans;
mod stepwise;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use flow::{Flow, LoopBudget};
use kiln_cache::Cache;
use kiln_fork::Mutex;
use kiln_kernels::Parallel;
use kiln_kernels::crash::within;
use kiln_model::ir::{Graph, ValueId};
use kiln_model::stop::Stop;
use kiln_model::value::Value;
use kiln_tensor::destination::Destination;
use kiln_tensor::{BufferPool, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::bound::{Bound, Outlet, outlets};
use super::error::{NodeError, RunError};
use super::inference::Inference;
use super::io::{Edges, Io, Memory};
use super::lease::Lease;
use super::memo::Memos;
use super::node::{Node, RunCx};
use crate::exec::tune::Tuner;
use crate::exec::{BuildCx, Share};
pub use foresee::{Foresight, Served};
pub use observe::{Observer, StepEvent};
use plan::{Outline, Plan, PlanKey, Recorder, StretchCx, fresh_number};
use spans::Span;

/// The implementation of a step, which several executables may share.
#[derive(Clone)]
pub enum Work {
    /// A node: tensors to tensors.
    Node(Arc<dyn Node>),
    /// A step with other values, or with bodies.
    Flow(Arc<dyn Flow>),
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
    /// How the node's outputs are inferred.
    inference: Inference,
    pub(super) inputs: SmallVec<[Option<ValueId>; 4]>,
    pub(super) outputs: SmallVec<[Option<ValueId>; 1]>,
    /// Values that no later step reads.
    pub(super) dead: SmallVec<[ValueId; 2]>,
    /// Inputs that this step reads once and no later step reads, by bit: it may take them.
    owned: u64,
}

/// For the last line of a crash: does not allocate.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node '{}' ({})", self.name, self.op)
    }
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

    #[cold]
    /// Runs `work` of this step. A crash within it names the step; a panic becomes the step's error.
    fn attempt<T>(&self, work: impl FnOnce() -> Result<T, NodeError>) -> Result<T, NodeError> {
        // The values of the request and the step's memos, which a panic may leave incomplete, are dropped.
        within(self, || catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(NodeError::of_panic(&*panic))))
    }

    fn failed(&self, error: NodeError) -> RunError {
        RunError { node: self.name.clone(), op: self.op.clone(), error }
    }
}

/// A graph whose nodes are ready to run at any shape.
pub struct Executable {
    /// A number that no other graph has, for keys of plans.
    number: u64,
    steps: Vec<Step>,
    spans: Vec<Span>,
    /// The outline of each stretch's memory, from the last run under the recorder.
    outlines: Vec<Mutex<Option<Arc<Outline>>>>,
    /// For each value, whether it is a constant folded per shape.
    folded: Vec<bool>,
    /// For each value, whether it is an output of the graph.
    returned: Vec<bool>,
    constants: Vec<Option<Value>>,
    inputs: Vec<ValueId>,
    outlets: Vec<Outlet>,
}

/// A stretch of an executable and its index.
#[derive(Clone, Copy)]
struct Stretch<'a> {
    number: usize,
    span: &'a Span,
}

/// State of a step that is kept between requests.
#[derive(Default)]
struct NodeState {
    memos: Memos,
    /// States of the node's bodies.
    bodies: Vec<RunState>,
}

/// What a request does not share with other requests at the same time.
#[derive(Default)]
pub struct RunState {
    nodes: Vec<NodeState>,
    values: Vec<Option<Value>>,
    /// For each stretch, the buffers of the plan that it ran by last.
    leases: Vec<Lease>,
    /// States of the parts of an executable that runs in parts.
    parts: Vec<RunState>,
    /// The last request that the first stretch was planned for, if `asked`.
    served: Option<Served>,
    /// Whether `served` is to be kept, for request records.
    asked: bool,
    /// The destinations of the running request's outputs, if any is bound.
    bound: Option<Bound>,
}

impl RunState {
    /// Bytes of memory that the state keeps for its next request.
    #[must_use]
    pub fn kept_bytes(&mut self) -> usize {
        let bodies = self.nodes.iter_mut().flat_map(|node| &mut node.bodies);
        let within = bodies.chain(&mut self.parts).map(RunState::kept_bytes);
        within.sum::<usize>() + self.leases.iter_mut().map(Lease::bytes).sum::<usize>()
    }

    /// The states of `count` parts.
    pub fn parts(&mut self, count: usize) -> &mut [RunState] {
        self.parts.resize_with(count, RunState::default);
        &mut self.parts
    }

    /// Drops the memos of nodes, which keep executors alive.
    pub fn forget(&mut self) {
        for node in &mut self.nodes {
            node.memos = Memos::default();
            node.bodies.iter_mut().for_each(RunState::forget);
        }
        self.parts.iter_mut().for_each(RunState::forget);
    }

    /// Gives the buffers back to the pool.
    pub fn release(&mut self) {
        self.leases.iter_mut().for_each(Lease::release);
        self.nodes.iter_mut().flat_map(|node| &mut node.bodies).chain(&mut self.parts).for_each(RunState::release);
    }
}

/// The resources of a run.
#[derive(Clone, Copy)]
pub struct Resources<'a> {
    /// Builders' context: level, threads, cache, records.
    pub build: &'a BuildCx,
    /// Threads.
    pub parallel: &'a dyn Parallel,
    /// Memory.
    pub buffers: &'a Arc<BufferPool>,
    /// The cache of plans; `None` if every request runs node by node.
    pub plans: Option<&'a Cache>,
    /// The tuner, which measures and replaces executors while no request runs.
    pub tuner: Option<&'a Tuner>,
    /// The counters of the session's look-ups.
    pub share: Option<&'a Share>,
    /// The rest of the limits of the request's loops.
    pub loops: &'a LoopBudget,
    /// What may end the request early.
    pub stop: Option<&'a Stop>,
    /// The observer of each step.
    pub observer: Option<&'a dyn Observer>,
}

impl Resources<'_> {
    fn run_cx(&self) -> RunCx<'_> {
        RunCx { parallel: self.parallel, buffers: self.buffers, steps: self.loops.steps(), stop: self.stop }
    }
}

impl Executable {
    /// Joins a graph with the implementation of each of its nodes, in order, and with the names of the steps fused into
    /// each.
    pub fn new(graph: &Graph, works: impl IntoIterator<Item = (Work, String)>) -> Executable {
        let works: Vec<(Work, String)> = works.into_iter().collect();
        let (spans, folded) = spans::find(graph, &works.iter().map(|(work, _)| work).collect::<Vec<_>>());
        let outlets = outlets(graph, |step| matches!(&works[step].0, Work::Node(node) if node.is_view()));
        let mut steps = Vec::with_capacity(graph.nodes.len());
        for (desc, (work, fused)) in graph.nodes.iter().zip(works) {
            let op = if desc.domain.is_empty() { desc.op.clone() } else { format!("{}.{}", desc.domain, desc.op) };
            steps.push(Step {
                name: desc.name.clone(),
                op,
                fused,
                work,
                inference: Inference::of(desc),
                inputs: desc.inputs.iter().copied().collect(),
                outputs: desc.outputs.iter().copied().collect(),
                dead: SmallVec::new(),
                owned: 0,
            });
        }
        let mut constants = vec![None; graph.values.len()];
        for (value, tensor) in &graph.constants {
            constants[value.index()] = Some(Value::Tensor(tensor.clone()));
        }
        let mut returned = vec![false; graph.values.len()];
        graph.outputs.iter().for_each(|value| returned[value.index()] = true);
        mark_dead(&mut steps, graph);
        let inputs = graph.inputs.clone();
        let outlines = spans.iter().map(|_| Mutex::default()).collect();
        Executable { number: fresh_number(), steps, spans, outlines, folded, returned, constants, inputs, outlets }
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
        self.run_into(inputs, &[], state, resources)
    }

    /// As [`Executable::run`], with destinations in the order of the outputs, `None` for an output without one. An
    /// output is in its destination where a step has allocated it there.
    pub fn run_into(
        &self,
        inputs: Vec<Option<Value>>,
        destinations: &[Option<Arc<Destination>>],
        state: &mut RunState,
        resources: &Resources<'_>,
    ) -> Result<Vec<Value>, RunError> {
        state.bound = (!destinations.is_empty()).then(|| Bound::of(&self.outlets, destinations));
        state.nodes.resize_with(self.steps.len(), NodeState::default);
        state.leases.resize_with(self.spans.len(), Lease::default);
        state.values.resize(self.constants.len(), None);
        for (value, given) in self.inputs.iter().zip(inputs) {
            state.values[value.index()] = given;
        }
        let given = |outlet: &Outlet| self.value(&state.values, outlet.value)?.as_tensor().map(Tensor::spec);
        let done = check_bound(state.bound.as_ref(), given).and_then(|()| self.run_spans(state, resources));
        let outputs = done.and_then(|()| {
            let returned = self.outlets.iter().map(|outlet| self.value(&state.values, outlet.value).cloned());
            returned.collect::<Option<Vec<_>>>().ok_or_else(|| RunError {
                node: String::new(),
                op: "graph".to_owned(),
                error: NodeError::Input("an output of the graph was never made".to_owned()),
            })
        });
        // Values that are left, above all after an error, are dropped now and not at the next request.
        state.values.iter_mut().filter(|value| value.is_some()).for_each(|value| *value = None);
        state.bound = None;
        outputs
    }

    /// Runs all stretches.
    fn run_spans(&self, state: &mut RunState, resources: &Resources<'_>) -> Result<(), RunError> {
        // How many executors have been replaced so far: plans compare it with the number at their last check.
        let replaced = resources.tuner.map_or(0, Tuner::generation);
        // The plan of the stretch before, which is a part of the next key; `None` after a stretch without a plan.
        let mut before = resources.plans.map(|plans| (plans, 0));
        for (number, span) in self.spans.iter().enumerate() {
            let Some(parts) = &span.key else {
                span.steps.clone().try_for_each(|index| self.run_step(index, state, resources, None))?;
                continue;
            };
            let key = before.and_then(|(plans, after)| {
                let value = |id| self.value(&state.values, id);
                Some((plans, PlanKey::of([self.number, after], parts, value)?))
            });
            before = match key {
                None => {
                    state.leases[number].release();
                    span.steps.clone().try_for_each(|index| self.run_step(index, state, resources, None))?;
                    None
                }
                Some((plans, key)) => {
                    let plan = match plans.get(&key) {
                        Some(plan) if plan.is_laid_out && plan.is_current(replaced) => {
                            let inputs = if plan.is_first_repeat() { self.asked_specs(number, state) } else { None };
                            let start = inputs.is_some().then(Instant::now);
                            self.run_plan(Stretch { number, span }, &plan, state, resources)?;
                            if let Some((inputs, start)) = inputs.zip(start) {
                                state.served = Some(Served { inputs, time: start.elapsed() });
                            }
                            plan.shapes
                        }
                        followed => {
                            let inputs = self.asked_specs(number, state);
                            let stretch = Stretch { number, span };
                            let (plan, time) =
                                self.make_plan(stretch, followed.as_deref(), replaced, state, resources)?;
                            let made = plan.shapes;
                            if let Some(inputs) = inputs {
                                state.served = Some(Served { inputs, time });
                            }
                            plan.keep(&key, plans);
                            made
                        }
                    };
                    Some((plans, plan))
                }
            };
        }
        Ok(())
    }

    /// Prepares a stretch, makes its plan and runs it; also returns the time of the run. Steps of `before`, an older
    /// plan of the same shapes, stay as they are if their executors do.
    ///
    /// With the outline of an earlier run, at any shapes, the stretch runs by its plan at once; else node by node under
    /// the recorder.
    fn make_plan(
        &self,
        stretch: Stretch<'_>,
        before: Option<&Plan>,
        replaced: u64,
        state: &mut RunState,
        resources: &Resources<'_>,
    ) -> Result<(Plan, Duration), RunError> {
        let Stretch { number, span } = stretch;
        let ahead = self.prepare_ahead(span, before, state, resources, |_| true).unwrap_or_default();
        let wanted = StretchCx {
            steps: &self.steps[span.steps.clone()],
            folded: &self.folded,
            returned: &self.returned,
            later: &self.steps[span.steps.end..],
            before,
        };
        let outline = || self.outlines[number].lock().unwrap_or_else(PoisonError::into_inner);
        // An observer gets each step as it was prepared, so the steps run one by one.
        let is_ready = ahead.len() == wanted.steps.len() && resources.observer.is_none();
        let known = if is_ready { outline().clone() } else { None };
        if let Some(sized) = known.and_then(|known| known.sized(ahead.iter().map(|ahead| &ahead.specs))) {
            let plan = Plan::drawn(wanted, ahead, &sized, replaced);
            let start = Instant::now();
            self.run_plan(stretch, &plan, state, resources)?;
            return Ok((plan, start.elapsed()));
        }
        check_bound(state.bound.as_ref(), |outlet| {
            let made = outlet.made_in(&span.steps)?;
            ahead.get(made.step)?.specs.get(made.output)
        })?;
        // The buffers of the last plan go back, for the nodes of these shapes.
        state.leases[number].release();
        let mut recorder = Recorder::new(wanted, ahead, &state.values);
        let start = Instant::now();
        for index in span.steps.clone() {
            self.run_step(index, state, resources, Some(&mut recorder))?;
        }
        let time = start.elapsed();
        let (plan, shown) = recorder.finish(replaced);
        *outline() = Some(Arc::new(shown));
        Ok((plan, time))
    }

    /// Runs a stretch by its plan.
    fn run_plan(
        &self,
        Stretch { number, span }: Stretch<'_>,
        plan: &Plan,
        state: &mut RunState,
        resources: &Resources<'_>,
    ) -> Result<(), RunError> {
        let RunState { values, leases, bound, .. } = state;
        let lease = &mut leases[number];
        lease.serve(plan.number, plan.places);
        let (lease, values, bound) = (&*lease, values.as_mut_slice(), bound.as_ref());
        check_bound(bound, |outlet| {
            let made = outlet.made_in(&span.steps)?;
            plan.steps.get(made.step)?.specs.get(made.output)
        })?;
        for (value, tensor) in &plan.folded {
            values[value.index()] = Some(Value::Tensor(tensor.clone()));
        }
        let cx = resources.run_cx();
        let steps = self.steps[span.steps.clone()].iter().zip(&plan.steps);
        for (offset, (step, planned)) in steps.enumerate() {
            let Work::Node(node) = &step.work else { continue };
            let seen = resources.observer.map(|observer| (observer, self.input_specs(step, values), Instant::now()));
            if planned.runs {
                if let Some(stop) = resources.stop {
                    stop.check().map_err(|stopped| step.failed(stopped.into()))?;
                }
                let memory = Memory { pool: resources.buffers, lease: Some((lease, &planned.places)), bound };
                let mut io = Io::within(self.edges(step, values), &planned.specs, memory);
                let done = step.attempt(|| cx.execute(node.as_ref(), &planned.prepared, &mut io));
                done.map_err(|error| step.failed(error.within(resources.stop)))?;
                for value in &step.dead {
                    if let Some(Value::Tensor(tensor)) = values[value.index()].take() {
                        lease.recycle(tensor);
                    }
                }
            }
            if let Some((observer, inputs, start)) = seen {
                let event = StepEvent {
                    inputs: &inputs,
                    outputs: &planned.specs,
                    execute: start.elapsed(),
                    ..StepEvent::new(span.steps.start + offset, step)
                };
                observer.step(&event);
            }
        }
        Ok(())
    }

    fn value<'a>(&'a self, values: &'a [Option<Value>], value: ValueId) -> Option<&'a Value> {
        values[value.index()].as_ref().or(self.constants[value.index()].as_ref())
    }

    fn edges<'a>(&'a self, step: &'a Step, values: &'a mut [Option<Value>]) -> Edges<'a> {
        let (inputs, outputs, owned) = (&step.inputs, &step.outputs, step.owned);
        Edges { values, constants: &self.constants, inputs, outputs, owned }
    }

    /// Specs of a step's inputs, for observers.
    fn input_specs(&self, step: &Step, values: &[Option<Value>]) -> Vec<Option<TensorSpec>> {
        step.inputs.iter().map(|input| spec_of(input.and_then(|value| self.value(values, value)))).collect()
    }
}

/// Refuses a request if an output will not fit its bound memory, as far as `spec` knows the outputs.
fn check_bound<'s>(bound: Option<&Bound>, spec: impl Fn(&Outlet) -> Option<&'s TensorSpec>) -> Result<(), RunError> {
    let Some(bound) = bound else { return Ok(()) };
    bound.check(spec).map_err(|error| RunError { node: String::new(), op: "graph".to_owned(), error })
}

/// The spec of a value that is a tensor.
fn spec_of(value: Option<&Value>) -> Option<TensorSpec> {
    value.and_then(Value::as_tensor).map(|tensor| tensor.spec().clone())
}

/// Lists at each step the values that no later step reads and that are not outputs of the graph.
fn mark_dead(steps: &mut [Step], graph: &Graph) {
    let mut last_use: Vec<Option<usize>> = vec![None; graph.values.len()];
    for (index, step) in steps.iter().enumerate() {
        // A value that is never read is dead after the step that makes it.
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
            // Never read: the node need not keep it at all.
            steps[index].outputs.iter_mut().filter(|output| **output == Some(id)).for_each(|output| *output = None);
        }
    }
    for step in steps {
        let readings = |id: &Option<ValueId>| step.inputs.iter().filter(|other| *other == id).count();
        let owned = |id: &Option<ValueId>| id.is_some_and(|value| step.dead.contains(&value)) && readings(id) == 1;
        let inputs = step.inputs.iter().take(64).enumerate();
        step.owned = inputs.filter(|(_, id)| owned(id)).fold(0, |bits, (index, _)| bits | 1 << index);
    }
}
