//! Events for observers of a run: one a step.

use std::time::Duration;

use kiln_cache::Outcome;
use kiln_tensor::TensorSpec;

use super::Step;

/// What happened when a step was prepared and run; given to an [`Observer`].
pub struct StepEvent<'a> {
    /// Index of the step.
    pub index: usize,
    /// The step.
    pub step: &'a Step,
    /// Whether shapes had changed, so that `prepare_params` was called.
    pub prepared: bool,
    /// The outcome of its look-ups; `None` if there were none.
    pub outcome: Option<Outcome>,
    /// The keys that were looked up, in words; empty unless [`Observer::wants_keys`].
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

impl<'a> StepEvent<'a> {
    /// An event without look-ups, specs or times.
    pub(super) fn new(index: usize, step: &'a Step) -> StepEvent<'a> {
        let (prepare, execute) = (Duration::ZERO, Duration::ZERO);
        StepEvent {
            index,
            step,
            prepared: false,
            outcome: None,
            keys: &[],
            inputs: &[],
            outputs: &[],
            prepare,
            execute,
        }
    }
}

/// Observes a run. Times are taken only if there is one.
pub trait Observer: Sync {
    /// Whether [`StepEvent::keys`] shall be filled, which costs time.
    fn wants_keys(&self) -> bool {
        false
    }

    /// Called after each step.
    fn step(&self, event: &StepEvent<'_>);
}
