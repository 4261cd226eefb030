//! The memory plan of small outputs: which outputs share one place, one after the other.
//!
//! Storages that are not in use at the same time may share a place. Each gets one in the order of the steps: the
//! smallest free place that is large enough; if there is none, the largest free one grows.
//!
//! Large storages have no place: their steps allocate from the session's pool, which cuts them out of the same pages in
//! every request. Each place is as large as the largest storage in it, so all places together are larger than the
//! memory in use at any time; with places for large memory, a plan took fresh pages in its second request.

use kiln_tensor::LARGE;
use smallvec::{SmallVec, smallvec};

/// Memory of one output, or of several one after the other.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub(super) bytes: usize,
    /// The step whose output is the first in it.
    pub(super) first: u32,
    /// The last step that reads anything in it; the number of steps if it is read after the stretch.
    pub(super) last: u32,
    /// Whether it leaves the graph as an output, so that no place gets it back.
    pub(super) leaves: bool,
}

impl Storage {
    /// Whether it gets a place.
    fn stays(&self) -> bool {
        !self.leaves && self.bytes < LARGE
    }
}

/// The place of each storage, and the bytes of each place.
pub(super) fn lay_out(storages: &[Storage]) -> (Vec<Option<u32>>, Vec<usize>) {
    let mut places: Vec<Option<u32>> = vec![None; storages.len()];
    let mut sizes: Vec<usize> = Vec::new();
    let mut free: SmallVec<[u32; 16]> = smallvec![];
    // Storages are in the order of their first steps.
    let mut ends: Vec<u32> = (0..storages.len() as u32).filter(|&number| storages[number as usize].stays()).collect();
    ends.sort_by_key(|&number| storages[number as usize].last);
    let mut ends = ends.into_iter().peekable();
    for (number, storage) in storages.iter().enumerate().filter(|(_, storage)| storage.stays()) {
        // A storage that is last read before this step is free; a step's inputs are in use while it writes.
        while let Some(ended) = ends.next_if(|&ended| storages[ended as usize].last < storage.first) {
            free.extend(places[ended as usize]);
        }
        let size = |place: &u32| sizes[*place as usize];
        let tightest = (0..free.len()).filter(|&at| size(&free[at]) >= storage.bytes).min_by_key(|&at| size(&free[at]));
        let largest = || (0..free.len()).max_by_key(|&at| size(&free[at]));
        let place = match tightest.or_else(largest) {
            Some(at) => free.swap_remove(at),
            None => {
                sizes.push(0);
                sizes.len() as u32 - 1
            }
        };
        let size = &mut sizes[place as usize];
        *size = storage.bytes.max(*size);
        places[number] = Some(place);
    }
    (places, sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(bytes: usize, first: u32, last: u32) -> Storage {
        Storage { bytes, first, last, leaves: false }
    }

    #[test]
    fn storages_in_use_at_once_lie_apart_and_others_take_turns() {
        let (places, sizes) = lay_out(&[
            storage(100, 0, 1),
            storage(40, 1, 2),
            storage(90, 2, 3),
            Storage { leaves: true, ..storage(1000, 2, 9) },
            storage(50, 3, 3),
            storage(200, 4, 5),
            storage(LARGE, 4, 6),
        ]);
        assert_eq!(places, [Some(0), Some(1), Some(0), None, Some(1), Some(0), None]);
        assert_eq!(sizes, [200, 50], "a place grows with what is put there");
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
            let (places, sizes) = lay_out(&storages);
            for (a, one) in storages.iter().enumerate() {
                let place = places[a].expect("nothing leaves") as usize;
                assert!(sizes[place] >= one.bytes);
                for (b, other) in storages.iter().enumerate().skip(a + 1) {
                    let apart = one.last < other.first || other.last < one.first;
                    assert!(apart || places[b] != places[a], "{a} and {b} meet");
                }
            }
        }
    }
}
