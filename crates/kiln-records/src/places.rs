//! Where the record of each name is in a file whose records are in no order: a table of hashes, made in one pass.
//!
//! The table knows places and hashes; the names stay in the file, and one is compared only where 13 bits of its hash
//! and its slot say that it may be the one. Hashes are keyed anew in each process, so that no file can be made in which
//! many names meet in one slot.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

/// Bits of a slot that are a place and one, so that 0 is an empty slot; the others are of the name's hash.
const PLACE: u32 = 19;

const _: () = assert!(super::frame::MOST_RECORDS < 1 << PLACE);

/// Places by names.
#[derive(Debug)]
pub(super) struct Places {
    /// Twice as many as there are records, so that runs of full ones are short.
    slots: Vec<u32>,
    hasher: DefaultHashBuilder,
}

impl Places {
    /// A table for so many names, at most as many as a file may hold.
    pub(super) fn for_names(count: usize) -> Places {
        Places { slots: vec![0; 2 * count + 1], hasher: DefaultHashBuilder::default() }
    }

    /// The place of a name, if it is known; `name_of` says the name at a place.
    pub(super) fn find<'a>(&self, name: &[u8], name_of: impl Fn(usize) -> &'a [u8]) -> Option<usize> {
        self.probe(name, name_of).1
    }

    /// Notes a name, unless it is known. Whether it was not.
    pub(super) fn insert<'a>(&mut self, name: &[u8], place: usize, name_of: impl Fn(usize) -> &'a [u8]) -> bool {
        let (Probe { slot, tag }, None) = self.probe(name, name_of) else { return false };
        let (Some(slot), Ok(place)) = (self.slots.get_mut(slot), u32::try_from(place + 1)) else { return false };
        let fits = place < 1 << PLACE;
        if fits {
            *slot = tag << PLACE | place;
        }
        fits
    }

    /// Where a name is to be put, and its place if it is known.
    fn probe<'a>(&self, name: &[u8], name_of: impl Fn(usize) -> &'a [u8]) -> (Probe, Option<usize>) {
        let hash = self.hasher.hash_one(name);
        let (count, tag) = (self.slots.len(), hash as u32 >> PLACE);
        // The upper half of the hash as a part of the table; the tag is from the lower half.
        let mut slot = (((hash >> 32) * count as u64) >> 32) as usize;
        for _ in 0..count {
            let Some(&found) = self.slots.get(slot).filter(|found| **found != 0) else { break };
            let place = (found & ((1 << PLACE) - 1)) as usize - 1;
            if found >> PLACE == tag && name_of(place) == name {
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
    fn names_are_found_at_their_places_and_are_known_once() {
        for count in [0, 1, 2, 3, 100, 70_000] {
            let names: Vec<[u8; 4]> = (0..count).map(|number: u32| number.to_le_bytes()).collect();
            let name_of = |place: usize| names[place].as_slice();
            let mut places = Places::for_names(names.len());
            for (place, name) in names.iter().enumerate() {
                assert!(places.insert(name, place, name_of));
                assert!(!places.insert(name, 0, name_of), "the first counts");
            }
            for (place, name) in names.iter().enumerate() {
                assert_eq!(places.find(name, name_of), Some(place));
            }
            assert!((count..count + 1000).all(|number| places.find(&number.to_le_bytes(), name_of).is_none()));
        }
    }

    #[test]
    fn a_full_table_ends_the_search() {
        let names: Vec<[u8; 4]> = (0..100).map(|number: u32| number.to_le_bytes()).collect();
        let name_of = |place: usize| names[place].as_slice();
        let mut places = Places::for_names(3);
        (0..5).for_each(|place| assert!(places.insert(&names[place], place, name_of)));
        assert!((5..100).all(|place| places.find(&names[place], name_of).is_none()));
    }
}
