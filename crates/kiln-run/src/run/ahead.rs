//! Preparing a whole stretch before any of its steps runs.
//!
//! # Problem
//!
//! Preparing a node for a new shape takes one or two microseconds if all that it touches is in L1 and L2: inference,
//! key, cost model, builder, records. Between two nodes a kernel runs, which fills these caches with tensors, and then
//! preparing takes ten to twenty.
//!
//! # Idea
//!
//! The preparation of a stretch's nodes follows from shapes alone, and from constants folded per shape (`spans`). So
//! all nodes are prepared one after the other, with *hollow* tensors (types and shapes without elements) for values
//! that are not computed yet. A node that makes such constants runs at once, because others are prepared with their
//! contents; it does not run a second time. Then the steps run. The threads that will run a long stretch are woken
//! meanwhile.
//!
//! # Consequences
//!
//! - If anything fails here, all of it is dropped and the stretch runs node by node (`stepwise`), so that the error is
//!   that of the first node that fails, with everything before it computed. Some executors are looked up twice then.
//! - If a request ends early, some executors of the stretch were built without being run.
//! - Nodes on a device are not prepared ahead: only the operands themselves say where they are.

use std::time::Instant;

use kiln_kernels::parallel::keep_awake;
use kiln_model::value::Value;
use kiln_tensor::Tensor;
use smallvec::SmallVec;

use super::plan::{Ahead, Plan, Recorder};
use super::spans::Span;
use super::{Executable, Observer, Resources, RunState, Step, StepEvent, Work};
use crate::io::{Edges, Io, Memory};
use crate::node::{Node, NodeError, PrepareCx};

/// Steps that are prepared in less time than idle threads spin. Fewer are prepared sooner than a thread wakes.
const STEPS_AWAKE: usize = 16;

impl Executable {
    /// Prepares all steps of a stretch; an older plan of the same shapes may have some. `None` if a step cannot be
    /// prepared this way, or if `goes_on` is false after one: executors may have been looked up, but no plan is made.
    pub(super) fn prepare_ahead(
        &self,
        span: &Span,
        before: Option<&Plan>,
        state: &mut RunState,
        resources: &Resources<'_>,
        mut goes_on: impl FnMut(&Ahead) -> bool,
    ) -> Option<Vec<Ahead>> {
        if resources.build.gpu.is_some() {
            return None;
        }
        let values = &mut state.values;
        let steps = &self.steps[span.steps.clone()];
        let mut ahead = Vec::with_capacity(steps.len());
        for (place, step) in steps.iter().enumerate() {
            if steps.len() >= STEPS_AWAKE && place % STEPS_AWAKE == 0 {
                keep_awake(resources.parallel);
            }
            let found = step.attempt(|| self.prepare_step(place, step, before, values, resources));
            let Ok(found) = found else { break };
            if !goes_on(&found) {
                break;
            }
            ahead.push(found);
        }
        let complete = ahead.len() == steps.len();
        // Drops hollow tensors, and takes computed ones out until their step's turn.
        for (place, step) in steps.iter().enumerate() {
            let outputs = step.outputs.iter().map(|value| value.and_then(|value| values[value.index()].take()));
            match ahead.get_mut(place).and_then(|ahead| ahead.made.as_mut()) {
                Some(made) => *made = outputs.collect(),
                None => outputs.for_each(drop),
            }
        }
        complete.then_some(ahead)
    }

    /// Prepares one step, and stores its outputs, hollow or computed, for the next ones.
    fn prepare_step(
        &self,
        place: usize,
        step: &Step,
        before: Option<&Plan>,
        values: &mut [Option<Value>],
        resources: &Resources<'_>,
    ) -> Result<Ahead, NodeError> {
        if let Some(stop) = resources.stop {
            stop.check()?;
        }
        let Work::Node(node) = &step.work else { return Err(NodeError::Input("this is no node".to_owned())) };
        let mut ahead = match before.and_then(|plan| plan.kept(place)) {
            Some((planned, standings)) => Ahead {
                specs: planned.specs.clone(),
                prepared: planned.prepared.clone(),
                standings,
                made: None,
                outcome: None,
                seen: None,
            },
            None => self.prepare_node(node.as_ref(), step, values, resources)?,
        };
        let mut outputs = step.outputs.iter().flatten().peekable();
        if outputs.peek().is_some() && outputs.all(|value| self.folded[value.index()]) {
            // Nothing is taken from the values: they are read again when the steps run.
            let (inputs, outputs) = (&step.inputs, &step.outputs);
            let edges = Edges { values, constants: &self.constants, inputs, outputs, owned: 0 };
            let memory = Memory { pool: resources.buffers, lease: None, bound: None };
            let mut io = Io::within(edges, &ahead.specs, memory);
            resources.run_cx().execute(node.as_ref(), &ahead.prepared, &mut io)?;
            ahead.made = Some(SmallVec::new());
        } else {
            for (value, spec) in step.outputs.iter().zip(&ahead.specs) {
                if let Some(value) = value {
                    values[value.index()] = Some(Value::Tensor(Tensor::hollow(spec.clone())));
                }
            }
        }
        Ok(ahead)
    }

    fn prepare_node(
        &self,
        node: &dyn Node,
        step: &Step,
        values: &[Option<Value>],
        resources: &Resources<'_>,
    ) -> Result<Ahead, NodeError> {
        let start = resources.observer.map(|_| Instant::now());
        let inputs = self.tensors(step, values)?;
        let cx = resources.prepare_cx();
        let specs = step.inference.specs(node, &inputs)?;
        let prepared = cx.prepare(node, &inputs, &specs)?;
        let (standings, outcome) = (cx.take_standings(), cx.outcome());
        let seen = start.map(|start| (cx.into_keys(), start.elapsed()));
        Ok(Ahead { specs, prepared, standings, made: None, outcome, seen })
    }

    /// Runs a step that was prepared ahead.
    pub(super) fn run_ahead(
        &self,
        index: usize,
        node: &dyn Node,
        ahead: Ahead,
        state: &mut RunState,
        resources: &Resources<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), NodeError> {
        let RunState { values, bound, .. } = state;
        let step = &self.steps[index];
        let watched = resources.observer.map(|observer| (observer, self.input_specs(step, values), Instant::now()));
        match ahead.made {
            Some(made) => {
                for (value, made) in step.outputs.iter().zip(made) {
                    if let Some(value) = value {
                        values[value.index()] = made;
                    }
                }
            }
            None => {
                let memory = Memory { pool: resources.buffers, lease: None, bound: bound.as_ref() };
                let mut io = Io::within(self.edges(step, values), &ahead.specs, memory);
                resources.run_cx().execute(node, &ahead.prepared, &mut io)?;
            }
        }
        if let Some((observer, inputs, started)) = watched {
            let execute = started.elapsed();
            let prepared = ahead.seen.is_some();
            let (keys, prepare) = ahead.seen.unwrap_or_default();
            let event = StepEvent::new(index, step);
            let (keys, inputs, outputs) = (&keys[..], &inputs[..], &ahead.specs[..]);
            let outcome = ahead.outcome;
            observer.step(&StepEvent { prepared, outcome, keys, inputs, outputs, prepare, execute, ..event });
        }
        recorder.step(ahead.specs, ahead.prepared, ahead.standings, values);
        for value in &step.dead {
            values[value.index()] = None;
        }
        Ok(())
    }

    /// The tensors that a step reads.
    pub(super) fn tensors<'a>(
        &'a self,
        step: &Step,
        values: &'a [Option<Value>],
    ) -> Result<SmallVec<[Option<&'a Tensor>; 4]>, NodeError> {
        let mut inputs = SmallVec::with_capacity(step.inputs.len());
        for input in &step.inputs {
            inputs.push(match input.and_then(|value| self.value(values, value)) {
                Some(Value::Tensor(tensor)) => Some(tensor),
                Some(other) => return Err(other.is_no("a tensor").into()),
                None => None,
            });
        }
        Ok(inputs)
    }
}

impl<'a> Resources<'a> {
    /// The context of nodes that are prepared.
    pub(super) fn prepare_cx(&self) -> PrepareCx<'a> {
        let prepare = match self.observer.is_some_and(Observer::wants_keys) {
            true => PrepareCx::noting_keys(self.build),
            false => PrepareCx::new(self.build),
        };
        prepare.with_tuner(self.tuner).with_share(self.share)
    }
}
