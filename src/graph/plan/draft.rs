//! A plan while it is made, step by step: of a run that is watched ([`recorder`](super::recorder)), or of an outline before any run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use smallvec::SmallVec;

use super::super::ir::ValueId;
use super::super::lease::Place;
use super::super::node::{Prepared, Specs, Standings};
use super::super::run::{Ahead, Step};
use super::layout::lay_out;
use super::outline::{Outline, Tenancy};
use super::{Plan, PlannedStep, fresh_number};
use crate::exec::tune::Standing;
use crate::tensor::{DType, Tensor};

/// Bytes of a settled value that a plan holds; what is larger is computed in each request.
const MOST_SETTLED: usize = 16 << 10;

/// What a plan of a stretch must know of the graph around it.
#[derive(Clone, Copy)]
pub(in super::super) struct Wanted<'a> {
    /// Steps of the stretch.
    pub(in super::super) steps: &'a [Step],
    /// Of each value, whether it is settled.
    pub(in super::super) settled: &'a [bool],
    /// Of each value, whether the caller gets it.
    pub(in super::super) returned: &'a [bool],
    /// The steps after the stretch.
    pub(in super::super) later: &'a [Step],
    /// The plan of the same shapes that is to be followed.
    pub(in super::super) before: Option<&'a Plan>,
}

/// Steps of a plan that have no places yet.
pub(super) struct Draft<'a> {
    pub(super) wanted: Wanted<'a>,
    pub(super) steps: Vec<PlannedStep>,
    standings: Vec<(u32, Arc<Standing>)>,
    settled: Vec<(ValueId, Tensor)>,
}

impl Plan {
    /// The plan of steps that are prepared and have not run, by an outline that was [sized](Outline::sized) for them.
    pub(in super::super) fn drawn(wanted: Wanted<'_>, ahead: Vec<Ahead>, outline: &Outline, replaced: u64) -> Plan {
        let mut draft = Draft::new(wanted);
        for (step, mut ahead) in wanted.steps.iter().zip(ahead) {
            let made = ahead.take_made();
            let tensor = |value: ValueId| {
                let output = step.outputs.iter().position(|output| *output == Some(value))?;
                made.as_ref()?.get(output)?.as_ref()?.as_tensor()
            };
            draft.add(ahead.specs, ahead.prepared, ahead.standings, tensor);
        }
        draft.finish(outline, replaced)
    }
}

impl<'a> Draft<'a> {
    pub(super) fn new(wanted: Wanted<'a>) -> Draft<'a> {
        Draft { wanted, steps: Vec::with_capacity(wanted.steps.len()), standings: Vec::new(), settled: Vec::new() }
    }

    /// The next step, of whose outputs `made` tells those that are there.
    pub(super) fn add<'t>(
        &mut self,
        specs: Specs,
        prepared: Prepared,
        standings: Standings,
        made: impl Fn(ValueId) -> Option<&'t Tensor>,
    ) {
        let index = self.steps.len() as u32;
        self.standings.extend(standings.into_iter().map(|standing| (index, standing)));
        let runs = !self.settle(&self.wanted.steps[self.steps.len()], made);
        self.steps.push(PlannedStep { specs, prepared, places: SmallVec::new(), runs });
    }

    /// Whether all that the step made is settled, and small enough to be kept; keeps it.
    fn settle<'t>(&mut self, step: &Step, made: impl Fn(ValueId) -> Option<&'t Tensor>) -> bool {
        let outputs = || step.outputs.iter().flatten();
        let small = |value: &ValueId| {
            self.wanted.settled[value.index()]
                && made(*value).is_some_and(|made| {
                    made.dtype() != DType::String && !made.is_elsewhere() && made.byte_len() <= MOST_SETTLED
                })
        };
        if !outputs().all(small) {
            return false;
        }
        for value in outputs() {
            // A copy in memory of its own: what the run used may be lent from a pool and far larger.
            let copy = made(*value).and_then(|made| Tensor::from_bytes(made.spec().clone(), made.bytes()).ok());
            self.settled.extend(copy.map(|copy| (*value, copy)));
        }
        true
    }

    /// The plan, begun when so many executors had been replaced, of steps whose outputs lie so.
    pub(super) fn finish(mut self, outline: &Outline, replaced: u64) -> Plan {
        let (places, rooms) = lay_out(&outline.storages);
        let mut outputs = outline.outputs.iter();
        for planned in &mut self.steps {
            for (output, tenancy) in outputs.by_ref().take(planned.specs.len()).enumerate() {
                let Tenancy::First(storage) = *tenancy else { continue };
                let Some(number) = places[storage as usize].filter(|_| planned.runs) else { continue };
                if planned.places.len() <= output {
                    planned.places.resize(output + 1, None);
                }
                planned.places[output] = Some(Place { number, room: rooms[number as usize] });
            }
        }
        let settled = self.read_settled();
        let number = fresh_number();
        Plan {
            number,
            shapes: self.wanted.before.map_or(number, |before| before.shapes),
            checked: AtomicU64::new(replaced),
            standings: self.standings.into(),
            steps: self.steps.into(),
            settled,
            places: rooms.len(),
            is_laid_out: true,
            repeated: AtomicBool::new(false),
        }
    }

    /// The settled values that somebody reads whom the plan does not leave out.
    fn read_settled(&mut self) -> Box<[(ValueId, Tensor)]> {
        let mut read = vec![false; self.wanted.settled.len()];
        let running = self.wanted.steps.iter().zip(&self.steps).filter(|(_, planned)| planned.runs);
        let readers = running.map(|(step, _)| step).chain(self.wanted.later);
        readers.flat_map(|step| step.inputs.iter().flatten()).for_each(|value| read[value.index()] = true);
        let returned = self.wanted.returned;
        let all = std::mem::take(&mut self.settled).into_iter();
        all.filter(|(value, _)| read[value.index()] || returned[value.index()]).collect()
    }
}
