//! Plans: all that a stretch of a graph needs for one set of input shapes, found by one look-up.
//!
//! A plan holds of each step the outputs' specs, its executor and where its outputs lie in memory. The stretch's first plan is
//! made of a run, node by node ([`recorder`]), those of other shapes before they run, of what that run has shown
//! ([`outline`]). What is the same in every request of those shapes, shapes that were taken
//! apart and put together again, it holds as finished tensors, and the steps that made them are left out. Plans are shared
//! by all threads that run a session, and live in a bounded [`Cache`] of the session's.
//!
//! Where a tuner has replaced an executor, the plans that hold the one before are made anew, because a better way of computing
//! may need other memory. Their other steps keep what they have, and other plans are not touched.

mod draft;
mod layout;
mod outline;
mod recorder;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use smallvec::SmallVec;

use super::ir::ValueId;
use super::lease::Place;
use super::node::{Prepared, Specs, Standings};
use super::run::Ahead;
use super::spans::SpanKey;
use super::value::Value;
use crate::cache::{Cache, Key};
use crate::exec::tune::Standing;
use crate::tensor::{Tensor, TensorSpec};

pub(super) use draft::Wanted;
pub(super) use outline::Outline;
pub(super) use recorder::Recorder;

/// Numbers of plans and of graphs; 0 is none.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Bytes of an input whose contents may be a part of a key: sixty-four sizes.
const MOST_CONTENTS: usize = 512;

/// A number that no plan and no graph had before.
pub(super) fn fresh_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What a plan is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PlanKey {
    graph: u64,
    /// What the plan of the stretch before is followed by; 0 for the first.
    after: u64,
    specs: SmallVec<[Option<TensorSpec>; 4]>,
    contents: Vec<Option<(TensorSpec, Vec<u8>)>>,
}

impl PlanKey {
    /// The key of a stretch, whose values `value` tells. None where contents are too long to be a key.
    pub(super) fn of<'a>(
        [graph, after]: [u64; 2],
        span: &SpanKey,
        value: impl Fn(ValueId) -> Option<&'a Value>,
    ) -> Option<PlanKey> {
        let tensor = |id: &ValueId| value(*id).and_then(Value::as_tensor);
        let contents = span.contents.iter().map(|id| match tensor(id) {
            None => Some(None),
            Some(tensor) if tensor.byte_len() > MOST_CONTENTS => None,
            Some(tensor) => Some(Some((tensor.spec().clone(), tensor.bytes().to_vec()))),
        });
        let contents = contents.collect::<Option<Vec<_>>>()?;
        let specs = span.specs.iter().map(|id| tensor(id).map(|tensor| tensor.spec().clone())).collect();
        Some(PlanKey { graph, after, specs, contents })
    }
}

impl Key for PlanKey {
    type Value = Plan;
    const FAMILY: &'static str = "plan";
}

/// All that a stretch of a graph needs at run time for one set of shapes.
pub(super) struct Plan {
    /// Unlike that of any other plan.
    pub(super) number: u64,
    /// What the next stretch's plan is found by: the number of the first plan of these shapes, which this one may have followed.
    pub(super) shapes: u64,
    /// How many executors had been replaced when none of this plan's had been.
    checked: AtomicU64,
    /// Of its executors that may be replaced, each with the step that holds it.
    standings: Box<[(u32, Arc<Standing>)]>,
    /// By step of the stretch.
    pub(super) steps: Box<[PlannedStep]>,
    /// Values that are the same in every request, where a step or the caller reads them.
    pub(super) settled: Box<[(ValueId, Tensor)]>,
    /// Places in memory.
    pub(super) places: usize,
    /// Whether it is known what lies where and what is settled. Until then it says how the steps are prepared, and nothing else.
    pub(super) is_laid_out: bool,
    /// Whether a request ran by it.
    repeated: AtomicBool,
}

/// One step of a plan.
pub(super) struct PlannedStep {
    /// Specs of its outputs.
    pub(super) specs: Specs,
    /// Its executor.
    pub(super) prepared: Prepared,
    /// Where its outputs lie, those that it does not write over an input and that do not leave the graph.
    pub(super) places: SmallVec<[Option<Place>; 1]>,
    /// Whether it runs: what it makes may be known.
    pub(super) runs: bool,
}

impl Plan {
    /// A plan of steps that were prepared and have not run yet.
    pub(super) fn foreseen(ahead: Vec<Ahead>) -> Plan {
        let step = |ahead: Ahead| PlannedStep {
            specs: ahead.specs,
            prepared: ahead.prepared,
            places: SmallVec::new(),
            runs: true,
        };
        let number = fresh_number();
        Plan {
            number,
            shapes: number,
            checked: AtomicU64::new(0),
            standings: Box::default(),
            steps: ahead.into_iter().map(step).collect(),
            settled: Box::default(),
            places: 0,
            is_laid_out: false,
            repeated: AtomicBool::new(false),
        }
    }

    /// Whether nobody has asked this before: the first request that runs by a plan is the first that is not slower than others.
    #[inline]
    pub(super) fn is_first_repeat(&self) -> bool {
        !self.repeated.load(Ordering::Relaxed) && !self.repeated.swap(true, Ordering::Relaxed)
    }

    /// Whether none of its executors has been replaced, where so many have been in all.
    #[inline]
    pub(super) fn is_current(&self, replaced: u64) -> bool {
        self.checked.load(Ordering::Relaxed) == replaced || self.check(replaced)
    }

    #[cold]
    fn check(&self, replaced: u64) -> bool {
        let current = !self.standings.iter().any(|(_, standing)| standing.is_replaced());
        if current {
            self.checked.store(replaced, Ordering::Relaxed);
        }
        current
    }

    /// Of the executors of that step.
    fn standings(&self, step: u32) -> Standings {
        self.standings.iter().filter(|(holder, _)| *holder == step).map(|(_, standing)| Arc::clone(standing)).collect()
    }

    /// What that step was prepared with, where none of its executors has been replaced since.
    pub(super) fn kept(&self, step: usize) -> Option<(&PlannedStep, Standings)> {
        let standings = self.standings(step as u32);
        let replaced = standings.iter().any(|standing| standing.is_replaced());
        self.steps.get(step).filter(|_| !replaced).map(|planned| (planned, standings))
    }

    /// Bytes that the plan keeps alive: itself, the tensors that it holds and what nodes have prepared. Executors are charged
    /// to themselves as long as the plan keeps them.
    fn weigh(&self) -> usize {
        let spilled = |step: &PlannedStep| {
            let places = if step.places.spilled() { step.places.len() * size_of::<Option<Place>>() } else { 0 };
            let specs = if step.specs.spilled() { step.specs.len() * size_of::<TensorSpec>() } else { 0 };
            places + specs + step.prepared.bytes()
        };
        let steps = self.steps.iter().map(|step| size_of::<PlannedStep>() + spilled(step)).sum::<usize>();
        // A tensor's memory has a few words of its own, and is whole cache lines.
        let held = |(_, tensor): &(ValueId, Tensor)| size_of::<(ValueId, Tensor)>() + 192 + tensor.byte_len();
        let standings = self.standings.len() * size_of::<(u32, Arc<Standing>)>();
        size_of::<Plan>() + standings + steps + self.settled.iter().map(held).sum::<usize>()
    }

    /// Keeps the plan for whoever asks with that key.
    pub(super) fn keep(self, key: &PlanKey, plans: &Cache) {
        let key_bytes = PlanKey::ENTRY_BYTES
            + key.specs.len() * size_of::<TensorSpec>()
            + key.contents.iter().flatten().map(|(_, bytes)| size_of::<TensorSpec>() + bytes.len()).sum::<usize>();
        let bytes = self.weigh() + key_bytes;
        plans.put(key, crate::cache::Built { value: self, bytes, from_record: false });
    }
}
