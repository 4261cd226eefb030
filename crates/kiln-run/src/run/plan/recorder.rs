//! Makes a plan from a run: records which outputs each step made and at which addresses, and plans the memory.
//!
//! An output takes over the memory of an input (a step that writes in place, a reshape), or is a part of it (a Split),
//! or has its own: a *storage*, which is in use from the step that makes it to the last that reads anything in it. The
//! recorded storages are an [`Outline`] for other shapes too.

use kiln_model::ir::ValueId;
use kiln_model::value::Value;
use kiln_tensor::{DType, Tensor};

use super::draft::{Draft, StretchCx};
use super::layout::Storage;
use super::outline::{Outline, OutputStorage, bytes_of};
use super::{Ahead, Plan, PlannedStep};
use crate::node::{Prepared, Specs, Standings};

/// A value of the stretch.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Its storage, if it is in one of this stretch.
    storage: Option<u32>,
    /// The address of its bytes while it is alive.
    address: usize,
}

/// Records the run of a stretch.
pub(in super::super) struct Recorder<'a> {
    draft: Draft<'a>,
    /// The steps as they were prepared, in order, if all were prepared before the first one runs; else empty.
    ahead: std::vec::IntoIter<Ahead>,
    seen: Vec<Seen>,
    storages: Vec<Storage>,
    /// For each storage, how many values are in it now.
    users: Vec<u32>,
    outputs: Vec<OutputStorage>,
}

impl<'a> Recorder<'a> {
    /// A recorder for a stretch; `values` are those of the graph, `ahead` its steps if they are prepared.
    pub(in super::super) fn new(wanted: StretchCx<'a>, ahead: Vec<Ahead>, values: &[Option<Value>]) -> Recorder<'a> {
        let address = |value: &Option<Value>| {
            let place = value.as_ref().and_then(Value::as_tensor).and_then(Tensor::place);
            Seen { storage: None, address: place.unwrap_or(0) }
        };
        let seen = values.iter().map(address).collect();
        let (storages, users, outputs) = (Vec::new(), Vec::new(), Vec::new());
        Recorder { draft: Draft::new(wanted), ahead: ahead.into_iter(), seen, storages, users, outputs }
    }

    /// Records that the next step has run; its dead values still count as alive.
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
            let (assigned, storage) = match (taken_over, spec.dtype) {
                (Some(Seen { storage: Some(storage), .. }), _) => {
                    let whole = self.storages[storage as usize].bytes == bytes_of(spec);
                    (
                        if whole { OutputStorage::TakenOver(storage) } else { OutputStorage::Within(storage) },
                        Some(storage),
                    )
                }
                (Some(_), _) => (OutputStorage::Elsewhere, None),
                // A constant that is passed on is in no storage either; its address is not that of a value that is
                // alive.
                (None, DType::String) => (OutputStorage::Elsewhere, None),
                // Neither is a tensor on a device.
                (None, _) if made.is_some_and(Tensor::is_elsewhere) => (OutputStorage::Elsewhere, None),
                (None, _) => {
                    let storage = self.storages.len() as u32;
                    let (first, bytes) = (index as u32, bytes_of(spec));
                    self.storages.push(Storage { bytes, first, last: first, leaves: false });
                    self.users.push(0);
                    (OutputStorage::First(storage), Some(storage))
                }
            };
            self.outputs.push(assigned);
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

    /// The next step, if it was prepared ahead.
    pub(in super::super) fn ahead(&mut self) -> Option<Ahead> {
        self.ahead.next()
    }

    /// The next step of the older plan, if its executors have not been replaced.
    pub(in super::super) fn kept(&self) -> Option<(&'a PlannedStep, Standings)> {
        self.draft.wanted.before?.kept(self.draft.steps.len())
    }

    /// The plan, and the outline for other shapes; `replaced` executors had been replaced when the run began.
    pub(in super::super) fn finish(mut self, replaced: u64) -> (Plan, Outline) {
        let end = self.draft.steps.len() as u32;
        for (storage, _) in self.storages.iter_mut().zip(&self.users).filter(|(_, users)| **users > 0) {
            storage.last = end;
        }
        let outline = Outline { storages: self.storages, outputs: self.outputs };
        (self.draft.finish(&outline, replaced), outline)
    }
}
