//! Running steps without a plan: each node through its memo or the checklist, and flows. Knows neither the stretches of
//! a graph nor how plans are made.

use std::time::Instant;

use kiln_model::ir::ValueId;
use kiln_model::value::Value;
use kiln_tensor::TensorSpec;

use super::flow::{Flow, FlowCx};
use super::{Executable, NodeState, Recorder, Resources, RunError, RunState, Step, StepEvent, Work, spec_of};
use crate::io::{Io, Memory};
use crate::node::{Node, NodeError};

impl Executable {
    /// Runs a step without a plan; a recorder is given its outputs.
    pub(super) fn run_step(
        &self,
        index: usize,
        state: &mut RunState,
        resources: &Resources<'_>,
        recorder: Option<&mut Recorder<'_>>,
    ) -> Result<(), RunError> {
        let step = &self.steps[index];
        if let Some(stop) = resources.stop {
            stop.check().map_err(|stopped| step.failed(stopped.into()))?;
        }
        let done = step.attempt(|| match &step.work {
            Work::Node(node) => match recorder {
                Some(recorder) => match recorder.ahead() {
                    Some(ahead) => self.run_ahead(index, node.as_ref(), ahead, state, resources, recorder),
                    None => self.run_node(index, node.as_ref(), state, resources, Some(recorder)),
                },
                None => self.run_node(index, node.as_ref(), state, resources, None),
            },
            Work::Flow(flow) => self.run_flow(index, step, flow.as_ref(), state, resources),
        });
        done.map_err(|error| {
            state.nodes[index] = NodeState::default();
            step.failed(error.within(resources.stop))
        })
    }

    fn run_node(
        &self,
        index: usize,
        node: &dyn Node,
        state: &mut RunState,
        resources: &Resources<'_>,
        recorder: Option<&mut Recorder<'_>>,
    ) -> Result<(), NodeError> {
        let RunState { nodes, values, bound, .. } = state;
        let (step, memos) = (&self.steps[index], &mut nodes[index].memos);
        let start = resources.observer.map(|_| Instant::now());
        let inputs = self.tensors(step, values)?;
        let (mut outcome, mut keys) = (None, Vec::new());
        let mut is_known = true;
        let kept = recorder.as_ref().and_then(|recorder| recorder.kept());
        let (specs, executor, standings) = match kept {
            Some((planned, standings)) => (&planned.specs, &planned.prepared, standings),
            None => {
                let memo = match memos.find(&inputs) {
                    Some(known) => known,
                    None => {
                        is_known = false;
                        let prepare = resources.prepare_cx();
                        let fresh = memos.prepare(&step.inference, node, &prepare, &inputs)?;
                        outcome = prepare.outcome();
                        keys = prepare.into_keys();
                        fresh
                    }
                };
                let memo = memos.get(memo);
                (&memo.specs, &memo.prepared, memo.standings.clone())
            }
        };
        drop(inputs);
        let seen = resources.observer.map(|_| self.input_specs(step, values));
        let prepared = start.map(|start| (start.elapsed(), Instant::now()));
        let memory = Memory { pool: resources.buffers, lease: None, bound: bound.as_ref() };
        let mut io = Io::within(self.edges(step, values), specs, memory);
        resources.run_cx().execute(node, executor, &mut io)?;
        if let (Some(observer), Some((prepare, started)), Some(inputs)) = (resources.observer, prepared, seen) {
            observer.step(&StepEvent {
                prepared: !is_known,
                outcome,
                keys: &keys,
                inputs: &inputs,
                outputs: specs,
                prepare,
                execute: started.elapsed(),
                ..StepEvent::new(index, step)
            });
        }
        if let Some(recorder) = recorder {
            recorder.step(specs.clone(), executor.clone(), standings, values);
        }
        for value in &step.dead {
            values[value.index()] = None;
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
        // An input that the model leaves out is `None` in the node; one that was never made is an error.
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
                inputs: &inputs,
                outputs: &outputs,
                execute: start.elapsed(),
                ..StepEvent::new(index, step)
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
