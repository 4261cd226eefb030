//! Plans: all that a stretch of a graph needs for one set of input shapes, found by one look-up.
//!
//! A plan has for each step the outputs' specs, the executor and the places of outputs in memory. The first plan of a
//! stretch is made from a run, node by node ([`recorder`]); plans of other shapes are made before they run, from the
//! [`outline`] of that run. Constants folded per shape are in the plan as tensors, and the steps that compute them are
//! skipped. All threads of a session share its plans, in a bounded [`Cache`].
//!
//! When a tuner replaces an executor, the plans that hold its predecessor are made anew, because another executor may
//! need other memory. Their other steps keep what they have, and other plans are not touched.

mod draft;
mod layout;
mod outline;
mod recorder;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kiln_cache::{Cache, Outcome};
use kiln_key::Key;
use kiln_model::ir::ValueId;
use kiln_model::value::Value;
use kiln_tensor::{Tensor, TensorSpec};
use smallvec::SmallVec;

use super::spans::SpanKey;
use crate::exec::tune::Standing;
use crate::lease::Place;
use crate::node::{Prepared, Specs, Standings};

pub(super) use draft::StretchCx;
pub(super) use outline::Outline;
pub(super) use recorder::Recorder;

/// Numbers of plans and of graphs; 0 is none.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The most bytes of an input whose contents are a part of a key: sixty-four sizes.
const MOST_CONTENTS: usize = 512;

/// A number that no plan and no graph had before.
pub(super) fn fresh_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The key of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PlanKey {
    graph: u64,
    /// [`Plan::shapes`] of the plan of the stretch before; 0 for the first stretch.
    after: u64,
    specs: SmallVec<[Option<TensorSpec>; 4]>,
    contents: Vec<Option<(TensorSpec, Vec<u8>)>>,
}

impl PlanKey {
    /// The key of a stretch with the values that `value` returns. `None` if contents are too long for a key.
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

/// A step that is prepared and has not run.
pub(super) struct Ahead {
    pub(super) specs: Specs,
    pub(super) prepared: Prepared,
    pub(super) standings: Standings,
    /// The step's outputs, if it has run already (constants folded per shape).
    pub(super) made: Option<SmallVec<[Option<Value>; 1]>>,
    /// The outcome of its look-ups, if there were any.
    pub(super) outcome: Option<Outcome>,
    /// For observers: the keys, and the time of preparing; `None` if an older plan had the step.
    pub(super) seen: Option<(Vec<String>, Duration)>,
}

impl Ahead {
    /// The step's outputs, if it has run already.
    pub(super) fn take_made(&mut self) -> Option<SmallVec<[Option<Value>; 1]>> {
        self.made.take()
    }
}

/// All that a stretch of a graph needs at run time for one set of shapes.
pub(super) struct Plan {
    /// A number that no other plan has.
    pub(super) number: u64,
    /// A part of the next stretch's key: the number of the first plan of these shapes, which this one may have
    /// replaced.
    pub(super) shapes: u64,
    /// The number of replaced executors in all at the last check, when none of this plan's had been replaced.
    checked: AtomicU64,
    /// A standing for each executor of the plan that can be replaced, with its step.
    standings: Box<[(u32, Arc<Standing>)]>,
    /// By step of the stretch.
    pub(super) steps: Box<[PlannedStep]>,
    /// Constants folded per shape that a step or the caller reads.
    pub(super) folded: Box<[(ValueId, Tensor)]>,
    /// The number of places.
    pub(super) places: usize,
    /// Whether places and constants are known. Until then the plan only says how the steps are prepared.
    pub(super) is_laid_out: bool,
    /// Whether a request has run by the plan.
    repeated: AtomicBool,
}

/// One step of a plan.
pub(super) struct PlannedStep {
    /// Specs of its outputs.
    pub(super) specs: Specs,
    /// Its executor.
    pub(super) prepared: Prepared,
    /// Places of its outputs; `None` for those that it writes over an input and those that leave the graph.
    pub(super) places: SmallVec<[Option<Place>; 1]>,
    /// Whether it runs; false if its outputs are constants of the plan.
    pub(super) runs: bool,
}

impl Plan {
    /// A plan of steps that are prepared and have not run yet.
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
            folded: Box::default(),
            places: 0,
            is_laid_out: false,
            repeated: AtomicBool::new(false),
        }
    }

    /// True at the first call: the first request that runs by a plan is the first whose time is typical.
    #[inline]
    pub(super) fn is_first_repeat(&self) -> bool {
        !self.repeated.load(Ordering::Relaxed) && !self.repeated.swap(true, Ordering::Relaxed)
    }

    /// Whether none of the plan's executors has been replaced; `replaced` is the number of replaced executors in all.
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

    /// The standings of the step's executors.
    fn standings(&self, step: u32) -> Standings {
        self.standings.iter().filter(|(holder, _)| *holder == step).map(|(_, standing)| Arc::clone(standing)).collect()
    }

    /// A step as it was prepared, if none of its executors has been replaced since.
    pub(super) fn kept(&self, step: usize) -> Option<(&PlannedStep, Standings)> {
        let standings = self.standings(step as u32);
        let replaced = standings.iter().any(|standing| standing.is_replaced());
        self.steps.get(step).filter(|_| !replaced).map(|planned| (planned, standings))
    }

    /// Bytes that the plan keeps alive: itself, its tensors, and the nodes' prepared values. Executors are charged
    /// separately as long as the plan keeps them.
    fn weigh(&self) -> usize {
        let spilled = |step: &PlannedStep| {
            let places = if step.places.spilled() { step.places.len() * size_of::<Option<Place>>() } else { 0 };
            let specs = if step.specs.spilled() { step.specs.len() * size_of::<TensorSpec>() } else { 0 };
            places + specs + step.prepared.bytes()
        };
        let steps = self.steps.iter().map(|step| size_of::<PlannedStep>() + spilled(step)).sum::<usize>();
        // Each tensor has some words of its own, and its memory is whole cache lines.
        let held = |(_, tensor): &(ValueId, Tensor)| size_of::<(ValueId, Tensor)>() + 192 + tensor.byte_len();
        let standings = self.standings.len() * size_of::<(u32, Arc<Standing>)>();
        size_of::<Plan>() + standings + steps + self.folded.iter().map(held).sum::<usize>()
    }

    /// Stores the plan in the cache.
    pub(super) fn keep(self, key: &PlanKey, plans: &Cache) {
        let key_bytes = PlanKey::ENTRY_BYTES
            + key.specs.len() * size_of::<TensorSpec>()
            + key.contents.iter().flatten().map(|(_, bytes)| size_of::<TensorSpec>() + bytes.len()).sum::<usize>();
        let bytes = self.weigh() + key_bytes;
        plans.put(key, kiln_cache::Built { value: self, bytes, from_record: false });
    }
}
