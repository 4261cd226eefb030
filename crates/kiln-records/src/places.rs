//! Where the record of each name is in files whose records are in no order: a table of hashes, made in one pass.
//!
//! The table knows places and hashes; the names stay in the files, and one is compared only where 13 bits of its hash
//! and its slot say that it may be the one. Hashes are keyed anew in each process, so that no file can be made in which
//! many names meet in one slot.

use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

/// Bits of a slot that are a place and one, so that 0 is an empty slot; the others are of the name's hash.
const PLACE: u32 = 19;

/// So many names are hashed before they are noted: looking for a free slot makes the processor begin anew, and it should
/// not lose hashes by that.
const AT_ONCE: usize = 256;

const _: () = assert!(super::frame::MOST_RECORDS < 1 << PLACE);

/// Places by names.
#[derive(Debug)]
pub(super) struct Places {
    /// Twice as many as there are records, so that runs of full ones are short.
    slots: Vec<u32>,
    hasher: DefaultHashBuilder,
}

impl Places {
    /// The table of the names at so many places, at most as many as a file may hold. Where a name is noted already,
    /// `is_better` is given the place that is known and the one that is met, and says whether the latter is noted instead.
    pub(super) fn of_names<N: Hash + Eq>(
        count: usize,
        name_of: impl Fn(usize) -> N,
        mut is_better: impl FnMut(usize, usize) -> bool,
    ) -> Places {
        let mut places = Places { slots: vec![0; 2 * count + 1], hasher: DefaultHashBuilder::default() };
        let mut hashes = [0; AT_ONCE];
        for first in (0..count).step_by(AT_ONCE) {
            let met = first..count.min(first + AT_ONCE);
            for (hash, place) in hashes.iter_mut().zip(met.clone()) {
                *hash = places.hasher.hash_one(name_of(place));
            }
            for (hash, place) in hashes.iter().zip(met) {
                let (Probe { slot, tag }, known) = places.probe(*hash, |known| name_of(known) == name_of(place));
                if known.is_none_or(|known| is_better(known, place))
                    && let Some(slot) = places.slots.get_mut(slot)
                {
                    // A place is less than the number of records of a file.
                    *slot = tag << PLACE | (place as u32 + 1) & ((1 << PLACE) - 1);
                }
            }
        }
        places
    }

    /// The place of a name, if it is known; `name_of` says the name at a place.
    pub(super) fn find<N: Hash + Eq>(&self, name: N, name_of: impl Fn(usize) -> N) -> Option<usize> {
        self.probe(self.hasher.hash_one(&name), |place| name_of(place) == name).1
    }

    /// Where a name of that hash is to be put, and its place if it is known.
    fn probe(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> (Probe, Option<usize>) {
        let (count, tag) = (self.slots.len(), hash as u32 >> PLACE);
        // The upper half of the hash as a part of the table; the tag is from the lower half.
        let mut slot = (((hash >> 32) * count as u64) >> 32) as usize;
        for _ in 0..count {
            let Some(&found) = self.slots.get(slot).filter(|found| **found != 0) else { break };
            let place = (found & ((1 << PLACE) - 1)) as usize - 1;
            if found >> PLACE == tag && is_it(place) {
                return (Probe { slot, tag }, Some(place));
            }
            slot = if slot + 1 == count { 0 } else { slot + 1 };
        }
        (Probe { slot, tag }, None)
    }
}

/// Where looking for a name ended.
struct Probe {
    slot: usize,
    /// The upper 13 bits of the lower half of its hash.
    tag: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_at_their_places_and_one_of_each_is_noted() {
        for count in [0, 1, 2, 3, 100, 70_000] {
            let names: Vec<[u8; 4]> = (0..count).chain(0..count / 3).map(|number: u32| number.to_le_bytes()).collect();
            let name_of = |place: usize| names[place];
            for takes_later in [false, true] {
                let mut met = 0;
                let places = Places::of_names(names.len(), name_of, |known, place| {
                    met += 1;
                    assert!(known < place && names[known] == names[place]);
                    takes_later
                });
                assert_eq!(met, count / 3);
                for (place, name) in names[..count as usize].iter().enumerate() {
                    let later = takes_later && place < count as usize / 3;
                    let place = place + if later { count as usize } else { 0 };
                    assert_eq!(places.find(*name, name_of), Some(place));
                }
                for other in (count..count + 1000).map(|number| number.to_le_bytes()) {
                    assert_eq!(places.find(other, name_of), None);
                }
            }
        }
    }

    #[test]
    fn a_full_table_ends_the_search() {
        let names: Vec<[u8; 4]> = (0..100).map(|number: u32| number.to_le_bytes()).collect();
        let name_of = |place: usize| &names[place][..];
        let mut places = Places::of_names(3, name_of, |_, _| false);
        places.slots.retain(|slot| *slot != 0);
        assert_eq!(places.slots.len(), 3);
        assert!((3..100).all(|place| places.find(&names[place][..], name_of).is_none()));
    }
}
