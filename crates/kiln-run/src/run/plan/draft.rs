//! A plan in the making, step by step: from a run under the [`recorder`](super::recorder), or from an outline before
//! the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use kiln_model::ir::ValueId;
use kiln_tensor::{DType, Tensor};
use smallvec::SmallVec;

use super::super::Step;
use super::layout::lay_out;
use super::outline::{Outline, OutputStorage};
use super::{Ahead, Plan, PlannedStep, fresh_number};
use crate::exec::tune::Standing;
use crate::lease::Place;
use crate::node::{Prepared, Specs, Standings};

/// The most bytes of a constant folded per shape; larger ones are computed in each request.
const MOST_FOLDED: usize = 16 << 10;

/// The parts of the graph around a stretch that its plan needs.
#[derive(Clone, Copy)]
pub(in super::super) struct StretchCx<'a> {
    /// Steps of the stretch.
    pub(in super::super) steps: &'a [Step],
    /// For each value, whether it is folded.
    pub(in super::super) folded: &'a [bool],
    /// For each value, whether it is an output of the graph.
    pub(in super::super) returned: &'a [bool],
    /// The steps after the stretch.
    pub(in super::super) later: &'a [Step],
    /// An older plan of the same shapes, whose place the new one takes.
    pub(in super::super) before: Option<&'a Plan>,
}

/// Steps of a plan whose places are not known yet.
pub(super) struct Draft<'a> {
    pub(super) wanted: StretchCx<'a>,
    pub(super) steps: Vec<PlannedStep>,
    standings: Vec<(u32, Arc<Standing>)>,
    folded: Vec<(ValueId, Tensor)>,
}

impl Plan {
    /// The plan of steps that are prepared and have not run, by an outline that was [sized](Outline::sized) for them.
    pub(in super::super) fn drawn(wanted: StretchCx<'_>, ahead: Vec<Ahead>, outline: &Outline, replaced: u64) -> Plan {
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
    pub(super) fn new(wanted: StretchCx<'a>) -> Draft<'a> {
        Draft { wanted, steps: Vec::with_capacity(wanted.steps.len()), standings: Vec::new(), folded: Vec::new() }
    }

    /// Adds the next step; `made` returns the tensors of its outputs that exist.
    pub(super) fn add<'t>(
        &mut self,
        specs: Specs,
        prepared: Prepared,
        standings: Standings,
        made: impl Fn(ValueId) -> Option<&'t Tensor>,
    ) {
        let index = self.steps.len() as u32;
        self.standings.extend(standings.into_iter().map(|standing| (index, standing)));
        let runs = !self.fold(&self.wanted.steps[self.steps.len()], made);
        self.steps.push(PlannedStep { specs, prepared, places: SmallVec::new(), runs });
    }

    /// Whether all of the step's outputs are folded and small enough; if so, keeps them.
    fn fold<'t>(&mut self, step: &Step, made: impl Fn(ValueId) -> Option<&'t Tensor>) -> bool {
        let outputs = || step.outputs.iter().flatten();
        let small = |value: &ValueId| {
            self.wanted.folded[value.index()]
                && made(*value).is_some_and(|made| {
                    made.dtype() != DType::String && !made.is_elsewhere() && made.byte_len() <= MOST_FOLDED
                })
        };
        if !outputs().all(small) {
            return false;
        }
        for value in outputs() {
            // A copy in its own memory: that of the run may come from a pool and be far larger.
            let copy = made(*value).and_then(|made| Tensor::from_bytes(made.spec().clone(), made.bytes()).ok());
            self.folded.extend(copy.map(|copy| (*value, copy)));
        }
        true
    }

    /// The plan, with the places of outputs by `outline`; `replaced` executors had been replaced when it was begun.
    pub(super) fn finish(mut self, outline: &Outline, replaced: u64) -> Plan {
        let (places, sizes) = lay_out(&outline.storages);
        let mut outputs = outline.outputs.iter();
        for planned in &mut self.steps {
            for (output, storage_of_output) in outputs.by_ref().take(planned.specs.len()).enumerate() {
                let OutputStorage::First(storage) = *storage_of_output else { continue };
                let Some(number) = places[storage as usize].filter(|_| planned.runs) else { continue };
                if planned.places.len() <= output {
                    planned.places.resize(output + 1, None);
                }
                planned.places[output] = Some(Place { number, bytes: sizes[number as usize] });
            }
        }
        let folded = self.read_folded();
        let number = fresh_number();
        Plan {
            number,
            shapes: self.wanted.before.map_or(number, |before| before.shapes),
            checked: AtomicU64::new(replaced),
            standings: self.standings.into(),
            steps: self.steps.into(),
            folded,
            places: sizes.len(),
            is_laid_out: true,
            repeated: AtomicBool::new(false),
        }
    }

    /// The folded values that are read by steps that run or are outputs of the graph.
    fn read_folded(&mut self) -> Box<[(ValueId, Tensor)]> {
        let mut read = vec![false; self.wanted.folded.len()];
        let running = self.wanted.steps.iter().zip(&self.steps).filter(|(_, planned)| planned.runs);
        let readers = running.map(|(step, _)| step).chain(self.wanted.later);
        readers.flat_map(|step| step.inputs.iter().flatten()).for_each(|value| read[value.index()] = true);
        let returned = self.wanted.returned;
        let all = std::mem::take(&mut self.folded).into_iter();
        all.filter(|(value, _)| read[value.index()] || returned[value.index()]).collect()
    }
}
