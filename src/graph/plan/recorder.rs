//! Making a plan of a run: watches what each step made and where it lay, and lays the memory out anew.
//!
//! An output either takes over the memory of an input (a step that writes in place, a reshaping), or a part of it (a Split), or has
//! memory of its own: a *storage*, which is in use from the step that makes it to the last that reads anything in it. What was seen of that
//! is an [`Outline`] for other shapes as well.

use super::super::ir::ValueId;
use super::super::node::{Prepared, Specs, Standings};
use super::super::run::Ahead;
use super::super::value::Value;
use super::draft::{Draft, Wanted};
use super::layout::Storage;
use super::outline::{Outline, Tenancy, bytes_of};
use super::{Plan, PlannedStep};
use crate::tensor::{DType, Tensor};

/// What is known of a value of the stretch.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Its storage, if that is of this stretch.
    storage: Option<u32>,
    /// Where its bytes are while it is alive.
    address: usize,
}

/// Watches the run of a stretch.
pub(in super::super) struct Recorder<'a> {
    draft: Draft<'a>,
    /// What was found out of the steps, in order, where all were prepared before the first runs; else nothing.
    ahead: std::vec::IntoIter<Ahead>,
    seen: Vec<Seen>,
    storages: Vec<Storage>,
    /// Of each storage, how many values lie there now.
    users: Vec<u32>,
    outputs: Vec<Tenancy>,
}

impl<'a> Recorder<'a> {
    /// Watches a stretch of a graph whose values are those, and whose steps may have been prepared.
    pub(in super::super) fn new(wanted: Wanted<'a>, ahead: Vec<Ahead>, values: &[Option<Value>]) -> Recorder<'a> {
        let address = |value: &Option<Value>| {
            let place = value.as_ref().and_then(Value::as_tensor).and_then(Tensor::place);
            Seen { storage: None, address: place.unwrap_or(0) }
        };
        let seen = values.iter().map(address).collect();
        let (storages, users, outputs) = (Vec::new(), Vec::new(), Vec::new());
        Recorder { draft: Draft::new(wanted), ahead: ahead.into_iter(), seen, storages, users, outputs }
    }

    /// Notes that the next step has run; its dead values are still noted as alive.
    pub(in super::super) fn step(
        &mut self,
        specs: Specs,
        prepared: Prepared,
        standings: Standings,
        values: &[Option<Value>],
    ) {
        let index = self.draft.steps.len();
        let step = &self.draft.wanted.steps[index];
        let tensor = |value: ValueId| values[value.index()].as_ref().and_then(Value::as_tensor);
        for (output, spec) in specs.iter().enumerate() {
            let value = step.outputs.get(output).copied().flatten();
            let made = value.and_then(tensor);
            let address = made.and_then(Tensor::place).unwrap_or(0);
            let inputs = step.inputs.iter().flatten().map(|input| self.seen[input.index()]);
            let taken_over = inputs.into_iter().find(|seen| address != 0 && seen.address == address);
            let (tenancy, storage) = match (taken_over, spec.dtype) {
                (Some(Seen { storage: Some(storage), .. }), _) => {
                    let whole = self.storages[storage as usize].bytes == bytes_of(spec);
                    (if whole { Tenancy::TakenOver(storage) } else { Tenancy::Within(storage) }, Some(storage))
                }
                (Some(_), _) => (Tenancy::Elsewhere, None),
                // A constant that was passed on lies in no storage either, but then its address is that of none alive.
                (None, DType::String) => (Tenancy::Elsewhere, None),
                // Nor does what lies in no memory of the processor's.
                (None, _) if made.is_some_and(Tensor::is_elsewhere) => (Tenancy::Elsewhere, None),
                (None, _) => {
                    let storage = self.storages.len() as u32;
                    let (first, bytes) = (index as u32, bytes_of(spec));
                    self.storages.push(Storage { bytes, first, last: first, leaves: false });
                    self.users.push(0);
                    (Tenancy::First(storage), Some(storage))
                }
            };
            self.outputs.push(tenancy);
            let Some(value) = value else { continue };
            self.seen[value.index()] = Seen { storage, address };
            if let Some(storage) = storage {
                self.users[storage as usize] += 1;
                self.storages[storage as usize].leaves |= self.draft.wanted.returned[value.index()];
            }
        }
        for value in &step.dead {
            if let Some(storage) = std::mem::take(&mut self.seen[value.index()]).storage {
                self.users[storage as usize] -= 1;
                let storage = &mut self.storages[storage as usize];
                storage.last = storage.last.max(index as u32);
            }
        }
        self.draft.add(specs, prepared, standings, tensor);
    }

    /// What was found out of the next step, if it was prepared ahead.
    pub(in super::super) fn ahead(&mut self) -> Option<Ahead> {
        self.ahead.next()
    }

    /// What the next step was prepared with, where that was and still is good.
    pub(in super::super) fn kept(&self) -> Option<(&'a PlannedStep, Standings)> {
        self.draft.wanted.before?.kept(self.draft.steps.len())
    }

    /// The plan of what was seen, begun when so many executors had been replaced; and what holds for other shapes.
    pub(in super::super) fn finish(mut self, replaced: u64) -> (Plan, Outline) {
        let end = self.draft.steps.len() as u32;
        for (storage, _) in self.storages.iter_mut().zip(&self.users).filter(|(_, users)| **users > 0) {
            storage.last = end;
        }
        let outline = Outline { storages: self.storages, outputs: self.outputs };
        (self.draft.finish(&outline, replaced), outline)
    }
}
