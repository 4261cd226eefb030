//! Plans made at load: the needs of a request of known types and shapes, before there is one; and runs on zeros, which
//! warm code, weights and memory.
//!
//! Shapes come from records, which are untrusted. The caller's `Resources` and bounds limit what may be built: builders
//! that may not choose build nothing for shapes without records. Such a plan says how steps are prepared. Places of
//! outputs in memory follow from the first run, so the very first request runs under the recorder even if it finds such
//! a plan.
//! finds such a plan.

use std::time::Duration;

use kiln_cache::Outcome;
use kiln_model::value::Value;
use kiln_tensor::{Tensor, TensorSpec};

use super::plan::{Plan, PlanKey};
use super::spans::Span;
use super::{Executable, Resources, RunState, Stretch};

/// A request that left a plan, or the first repeat of one.
#[derive(Clone, Debug)]
pub struct Served {
    /// Types and shapes of the graph's inputs.
    pub inputs: Vec<Option<TensorSpec>>,
    /// The time of the graph's first stretch.
    pub time: Duration,
}

/// The most that may be built for a request ahead of it.
#[derive(Clone, Copy, Debug)]
pub struct Foresight {
    /// Bytes of all its tensors together.
    pub tensors: usize,
    /// Bytes of all executors that are built, for all such requests together.
    pub executors: u64,
}

impl RunState {
    /// Keeps, from now on, requests that leave plans, and the first repeat of each, for [`RunState::served`].
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// The last such request of a graph that is [foreseen](Executable::foresees); taken out.
    pub fn served(&mut self) -> Option<Served> {
        self.served.take()
    }
}

impl Executable {
    /// Whether the plan of the graph's first stretch follows from types and shapes alone.
    #[must_use]
    pub fn foresees(&self) -> bool {
        self.first().is_some()
    }

    /// Whether the whole graph is one such stretch, so that a run on any values of these shapes does the same work as
    /// every run.
    #[must_use]
    pub fn rehearses(&self) -> bool {
        self.foresees() && self.spans.len() == 1
    }

    fn first(&self) -> Option<&Span> {
        self.spans.first().filter(|span| span.key.as_ref().is_some_and(|key| key.contents.is_empty()))
    }

    /// Prepares all that such a request needs, and its plan if plans are kept; returns the bytes of all its tensors.
    /// `None` if a choice would have to be made for it, or if it needs more than `most`.
    pub fn foresee(&self, inputs: &[Option<TensorSpec>], most: &Foresight, resources: &Resources<'_>) -> Option<usize> {
        let span = self.first()?;
        let hollow = |spec: &TensorSpec| Value::Tensor(Tensor::hollow(spec.clone()));
        let mut state = self.state_of(inputs.iter().map(|input| input.as_ref().map(hollow)))?;
        let key = self.plan_key(span, &state)?;
        let bytes_of = |spec: &TensorSpec| {
            spec.elements().map_or(usize::MAX, |elements| elements.saturating_mul(spec.dtype.size().max(1)))
        };
        let add = |sum: usize, spec: &TensorSpec| sum.saturating_add(bytes_of(spec));
        let mut bytes = inputs.iter().flatten().fold(0, add);
        if bytes > most.tensors {
            return None;
        }
        let built = || resources.share.map_or(0, |share| share.stats().built_bytes);
        let ahead = self.prepare_ahead(span, None, &mut state, resources, |step| {
            bytes = step.specs.iter().fold(bytes, add);
            bytes <= most.tensors && built() <= most.executors && step.outcome != Some(Outcome::Miss)
        })?;
        if let Some(plans) = resources.plans {
            Plan::foreseen(ahead).keep(&key, plans);
        }
        Some(bytes)
    }

    /// Runs the graph and keeps its plan, as a first request does. Errors are ignored.
    pub fn rehearse(&self, inputs: Vec<Option<Value>>, resources: &Resources<'_>) {
        let (Some(span), Some(plans), Some(mut state)) = (self.first(), resources.plans, self.state_of(inputs)) else {
            return;
        };
        let Some(key) = self.plan_key(span, &state) else { return };
        if let Ok((plan, _)) = self.make_plan(Stretch { number: 0, span }, None, 0, &mut state, resources) {
            plan.keep(&key, plans);
        }
    }

    /// A state with those inputs; `None` if their number is not that of the graph's.
    fn state_of(&self, inputs: impl IntoIterator<Item = Option<Value>>) -> Option<RunState> {
        let mut state = RunState::default();
        state.values.resize(self.constants.len(), None);
        state.nodes.resize_with(self.steps.len(), Default::default);
        state.leases.resize_with(self.spans.len(), Default::default);
        let mut inputs = inputs.into_iter();
        for value in &self.inputs {
            state.values[value.index()] = inputs.next()?;
        }
        inputs.next().is_none().then_some(state)
    }

    fn plan_key(&self, span: &Span, state: &RunState) -> Option<PlanKey> {
        PlanKey::of([self.number, 0], span.key.as_ref()?, |id| self.value(&state.values, id))
    }

    /// Types and shapes of the graph's inputs, if request records are kept and these determine the stretch's plan.
    pub(super) fn asked_specs(&self, stretch: usize, state: &RunState) -> Option<Vec<Option<TensorSpec>>> {
        let spec = |value: &Option<Value>| match value {
            None => Some(None),
            Some(value) => value.as_tensor().map(|tensor| Some(tensor.spec().clone())),
        };
        let asked = state.asked && stretch == 0 && self.foresees();
        let given = || self.inputs.iter().map(|input| spec(&state.values[input.index()])).collect();
        asked.then(given).flatten()
    }
}
