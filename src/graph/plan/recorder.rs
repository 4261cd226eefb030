//! Making a plan of a run: watches what each step made and where it lay, and lays the memory out anew.
//!
//! An output either takes over the memory of an input (a step that writes in place, a reshaping) or has memory of its own:
//! a *storage*, which is in use from the step that makes it to the last that reads anything in it. Storages that are not
//! in use at the same time may take turns in one place. They are given places in the order of the steps, each the tightest
//! free one; where none is large enough, the largest grows.
//!
//! Large storages are given none: whoever makes them asks the session's pool, which cuts them out of the same pages in every
//! request, the first included. Places are as large as their largest tenant, so all of them together are larger than
//! what is in use at any time, and a plan that laid large memory out this way took fresh pages in its second request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use smallvec::{SmallVec, smallvec};

use super::super::ir::ValueId;
use super::super::lease::Place;
use super::super::node::{Prepared, Specs, Standings};
use super::super::run::{Ahead, Step};
use super::super::value::Value;
use super::{Plan, PlannedStep, fresh_number};
use crate::exec::tune::Standing;
use crate::tensor::{DType, LARGE, Tensor};

/// Bytes of a settled value that a plan holds; what is larger is computed in each request.
const MOST_SETTLED: usize = 16 << 10;

/// Memory that one output or several in turn lie in.
struct Storage {
    bytes: usize,
    first: u32,
    last: u32,
    /// Values that lie there now.
    users: u32,
    /// Whether it leaves the graph with an output, so that no place ever gets it back.
    leaves: bool,
}

impl Storage {
    /// Whether it is given a place.
    fn stays(&self) -> bool {
        !self.leaves && self.bytes < LARGE
    }
}

/// What is known of a value of the stretch.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Number of its storage and one; 0 is none of this stretch.
    storage: u32,
    /// Where its bytes are while it is alive.
    address: usize,
}

/// What a plan of a stretch must know of the graph around it.
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
    /// What was found out of the steps, in order, where all were prepared before the first runs; else nothing.
    pub(in super::super) ahead: Vec<Ahead>,
}

/// Watches the run of a stretch.
pub(in super::super) struct Recorder<'a> {
    wanted: Wanted<'a>,
    ahead: std::vec::IntoIter<Ahead>,
    steps: Vec<PlannedStep>,
    standings: Vec<(u32, Arc<Standing>)>,
    seen: Vec<Seen>,
    storages: Vec<Storage>,
    /// Of each output with memory of its own: step, output, storage.
    homes: Vec<(u32, u32, u32)>,
    settled: Vec<(ValueId, Tensor)>,
}

impl<'a> Recorder<'a> {
    /// Watches a stretch of a graph whose values are those.
    pub(in super::super) fn new(mut wanted: Wanted<'a>, values: &[Option<Value>]) -> Recorder<'a> {
        let address = |value: &Option<Value>| {
            let place = value.as_ref().and_then(Value::as_tensor).and_then(Tensor::place);
            Seen { storage: 0, address: place.unwrap_or(0) }
        };
        let steps = Vec::with_capacity(wanted.steps.len());
        let seen = values.iter().map(address).collect();
        let (standings, storages, homes, settled) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let ahead = std::mem::take(&mut wanted.ahead).into_iter();
        Recorder { wanted, ahead, steps, standings, seen, storages, homes, settled }
    }

    /// Notes that the next step has run; its dead values are still noted as alive.
    pub(in super::super) fn step(
        &mut self,
        specs: Specs,
        prepared: Prepared,
        standings: Standings,
        values: &[Option<Value>],
    ) {
        let step = &self.wanted.steps[self.steps.len()];
        let index = self.steps.len() as u32;
        self.standings.extend(standings.into_iter().map(|standing| (index, standing)));
        for (output, spec) in specs.iter().enumerate() {
            let value = step.outputs.get(output).copied().flatten();
            let made = value.and_then(|value| values[value.index()].as_ref()).and_then(Value::as_tensor);
            let address = made.and_then(Tensor::place).unwrap_or(0);
            let inputs = step.inputs.iter().flatten().map(|input| self.seen[input.index()]);
            let taken_over = inputs.into_iter().find(|seen| address != 0 && seen.address == address);
            let storage = match (taken_over, spec.dtype) {
                (Some(seen), _) => seen.storage,
                // A constant that was passed on lies in no storage either, but then its address is that of none alive.
                (None, DType::String) => 0,
                // Nor does what lies in no memory of the processor's.
                (None, _) if made.is_some_and(Tensor::is_elsewhere) => 0,
                (None, _) => {
                    let bytes = spec.elements().unwrap_or(0) * spec.dtype.size();
                    self.storages.push(Storage { bytes, first: index, last: index, users: 0, leaves: false });
                    let storage = self.storages.len() as u32;
                    self.homes.push((index, output as u32, storage - 1));
                    storage
                }
            };
            let Some(value) = value else { continue };
            self.seen[value.index()] = Seen { storage, address };
            if let Some(storage) = storage.checked_sub(1) {
                let storage = &mut self.storages[storage as usize];
                storage.users += 1;
                storage.leaves |= self.wanted.returned[value.index()];
            }
        }
        for value in &step.dead {
            let seen = std::mem::take(&mut self.seen[value.index()]);
            if let Some(storage) = seen.storage.checked_sub(1) {
                let storage = &mut self.storages[storage as usize];
                storage.users -= 1;
                storage.last = storage.last.max(index);
            }
        }
        let runs = !self.settle(step, values);
        self.steps.push(PlannedStep { specs, prepared, places: SmallVec::new(), runs });
    }

    /// Whether all that the step made is settled, and small enough to be kept; keeps it.
    fn settle(&mut self, step: &Step, values: &[Option<Value>]) -> bool {
        let outputs = || step.outputs.iter().flatten();
        let tensor = |value: &ValueId| values[value.index()].as_ref().and_then(Value::as_tensor);
        let small = |value: &ValueId| {
            self.wanted.settled[value.index()]
                && tensor(value).is_some_and(|made| {
                    made.dtype() != DType::String && !made.is_elsewhere() && made.byte_len() <= MOST_SETTLED
                })
        };
        if !outputs().all(small) {
            return false;
        }
        for value in outputs() {
            // A copy in memory of its own: what the run used may be lent from a pool and far larger.
            let copy = tensor(value).and_then(|made| Tensor::from_bytes(made.spec().clone(), made.bytes()).ok());
            self.settled.extend(copy.map(|copy| (*value, copy)));
        }
        true
    }

    /// What was found out of the next step, if it was prepared ahead.
    pub(in super::super) fn ahead(&mut self) -> Option<Ahead> {
        self.ahead.next()
    }

    /// What the next step was prepared with, where that was and still is good.
    pub(in super::super) fn kept(&self) -> Option<(&'a PlannedStep, Standings)> {
        self.wanted.before?.kept(self.steps.len())
    }

    /// The plan of what was seen, begun when so many executors had been replaced.
    pub(in super::super) fn finish(mut self, replaced: u64) -> Plan {
        let end = self.steps.len() as u32;
        for storage in self.storages.iter_mut().filter(|storage| storage.users > 0) {
            storage.last = end;
        }
        let (places, rooms) = lay_out(&self.storages);
        for &(step, output, storage) in &self.homes {
            let planned = &mut self.steps[step as usize];
            let Some(number) = places[storage as usize].filter(|_| planned.runs) else { continue };
            if planned.places.len() <= output as usize {
                planned.places.resize(output as usize + 1, None);
            }
            planned.places[output as usize] = Some(Place { number, room: rooms[number as usize] });
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
            is_watched: true,
            repeated: AtomicBool::new(false),
        }
    }

    /// The settled values that somebody reads whom the plan does not leave out.
    fn read_settled(&mut self) -> Box<[(ValueId, Tensor)]> {
        let mut read = vec![false; self.seen.len()];
        let running = self.wanted.steps.iter().zip(&self.steps).filter(|(_, planned)| planned.runs);
        let readers = running.map(|(step, _)| step).chain(self.wanted.later);
        readers.flat_map(|step| step.inputs.iter().flatten()).for_each(|value| read[value.index()] = true);
        let returned = self.wanted.returned;
        let all = std::mem::take(&mut self.settled).into_iter();
        all.filter(|(value, _)| read[value.index()] || returned[value.index()]).collect()
    }
}

/// The place of each storage, and the room of each place.
fn lay_out(storages: &[Storage]) -> (Vec<Option<u32>>, Vec<usize>) {
    let mut places: Vec<Option<u32>> = vec![None; storages.len()];
    let mut rooms: Vec<usize> = Vec::new();
    let mut free: SmallVec<[u32; 16]> = smallvec![];
    // Storages are in the order of their first steps.
    let mut ends: Vec<u32> = (0..storages.len() as u32).filter(|&number| storages[number as usize].stays()).collect();
    ends.sort_by_key(|&number| storages[number as usize].last);
    let mut ends = ends.into_iter().peekable();
    for (number, storage) in storages.iter().enumerate().filter(|(_, storage)| storage.stays()) {
        // What was read for the last time before this step is free; a step's inputs are in use while it writes.
        while let Some(ended) = ends.next_if(|&ended| storages[ended as usize].last < storage.first) {
            free.extend(places[ended as usize]);
        }
        let room = |place: &u32| rooms[*place as usize];
        let tightest = (0..free.len()).filter(|&at| room(&free[at]) >= storage.bytes).min_by_key(|&at| room(&free[at]));
        let largest = || (0..free.len()).max_by_key(|&at| room(&free[at]));
        let place = match tightest.or_else(largest) {
            Some(at) => free.swap_remove(at),
            None => {
                rooms.push(0);
                rooms.len() as u32 - 1
            }
        };
        let room = &mut rooms[place as usize];
        *room = storage.bytes.max(*room);
        places[number] = Some(place);
    }
    (places, rooms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(bytes: usize, first: u32, last: u32) -> Storage {
        Storage { bytes, first, last, users: 0, leaves: false }
    }

    #[test]
    fn storages_in_use_at_once_lie_apart_and_others_take_turns() {
        let (places, rooms) = lay_out(&[
            storage(100, 0, 1),
            storage(40, 1, 2),
            storage(90, 2, 3),
            Storage { leaves: true, ..storage(1000, 2, 9) },
            storage(50, 3, 3),
            storage(200, 4, 5),
            storage(LARGE, 4, 6),
        ]);
        assert_eq!(places, [Some(0), Some(1), Some(0), None, Some(1), Some(0), None]);
        assert_eq!(rooms, [200, 50], "a place grows with what is put there");
    }

    #[test]
    fn no_two_storages_of_a_place_are_in_use_at_once() {
        let mut seed = 7u32;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        for _ in 0..200 {
            let mut storages: Vec<Storage> = (0..30)
                .map(|_| {
                    let first = next(40);
                    storage(next(1000) as usize, first, first + next(12))
                })
                .collect();
            storages.sort_by_key(|storage| storage.first);
            let (places, rooms) = lay_out(&storages);
            for (a, one) in storages.iter().enumerate() {
                let place = places[a].expect("nothing leaves") as usize;
                assert!(rooms[place] >= one.bytes);
                for (b, other) in storages.iter().enumerate().skip(a + 1) {
                    let apart = one.last < other.first || other.last < one.first;
                    assert!(apart || places[b] != places[a], "{a} and {b} meet");
                }
            }
        }
    }
}
