//! The place of each name's record in files whose records are in no order: places sorted into buckets by hashes of
//! names.
//!
//! The table knows places and hashes. The names stay in the files, and a name is compared only where its bucket and 13
//! more bits of its hash match. Buckets are filled as in a counting sort: each name is hashed once, in the order of the
//! files, and filling needs no look-ups. Hashes are keyed anew in each process, so that no file can be made in which
//! many names meet in one bucket.

use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

/// Bits of an entry that hold a place plus one, so that 0 is a dropped entry; the others are the tag.
const PLACE: u32 = 19;

/// Most places of a bucket, on average.
const BUCKET: usize = 8;

const _: () = assert!(super::frame::MOST_RECORDS < 1 << PLACE);
// The bits of a hash that choose the bucket are not part of its tag.
const _: () = assert!((super::frame::MOST_RECORDS / BUCKET) << (32 - PLACE) <= 1 << 32);

/// Places by names.
#[derive(Debug)]
pub(super) struct Places {
    /// The start of each bucket's entries, and the end of the last bucket's. A power of two plus one numbers.
    starts: Vec<u32>,
    /// Tag and place of each name, bucket by bucket, and in each bucket in the order of places.
    entries: Vec<u32>,
    hasher: DefaultHashBuilder,
}

impl Places {
    /// The table of the names at `count` places, at most as many as a file may hold. Where names are equal, `is_better`
    /// gets the known place and a later one, and says whether the later one is kept instead.
    pub(super) fn of_names<N: Hash + Eq>(
        count: usize,
        name_of: impl Fn(usize) -> N,
        mut is_better: impl FnMut(usize, usize) -> bool,
    ) -> Places {
        let buckets = count.div_ceil(BUCKET).next_power_of_two();
        let mut places =
            Places { starts: vec![0; buckets + 1], entries: vec![0; count], hasher: DefaultHashBuilder::default() };
        // The bucket's number takes the upper bits, the tag the lower ones.
        let mut hashes = Vec::with_capacity(count);
        for place in 0..count {
            let hash = places.hasher.hash_one(name_of(place)) as u32;
            hashes.push(hash);
            places.starts[bucket_of(hash, buckets) + 1] += 1;
        }
        let mut end = 0;
        for start in &mut places.starts {
            end += *start;
            *start = end;
        }
        // A bucket's start moves up to the next one's, and back when all names are in.
        for (place, hash) in hashes.iter().enumerate() {
            let next = &mut places.starts[bucket_of(*hash, buckets)];
            // A place is less than the number of records of a file.
            places.entries[*next as usize] = tag_of(*hash) | (place as u32 + 1);
            *next += 1;
        }
        places.starts.rotate_right(1);
        places.starts[0] = 0;
        for bucket in 0..buckets {
            places.drop_equals(bucket, &name_of, &mut is_better);
        }
        places
    }

    /// Leaves one place for each name in a bucket.
    fn drop_equals<N: Eq>(
        &mut self,
        bucket: usize,
        name_of: &impl Fn(usize) -> N,
        is_better: &mut impl FnMut(usize, usize) -> bool,
    ) {
        let entries = &mut self.entries[self.starts[bucket] as usize..self.starts[bucket + 1] as usize];
        for at in 1..entries.len() {
            let (known, [entry, ..]) = entries.split_at_mut(at) else { return };
            let place = place_of(*entry);
            let equal = known.iter_mut().filter(|known| **known >> PLACE == *entry >> PLACE).find(|known| {
                place_of(**known).zip(place).is_some_and(|(known, place)| name_of(known) == name_of(place))
            });
            if let (Some(known), Some(place)) = (equal, place) {
                let better = place_of(*known).is_some_and(|known| is_better(known, place));
                if better {
                    *known = *entry;
                }
                *entry = 0;
            }
        }
    }

    /// The place of a name, if it is known; `name_of` returns the name at a place.
    pub(super) fn find<N: Hash + Eq>(&self, name: N, name_of: impl Fn(usize) -> N) -> Option<usize> {
        let hash = self.hasher.hash_one(&name) as u32;
        let bucket = bucket_of(hash, self.starts.len() - 1);
        let entries = self.entries.get(*self.starts.get(bucket)? as usize..*self.starts.get(bucket + 1)? as usize)?;
        let tagged = entries.iter().filter(|entry| *entry >> PLACE << PLACE == tag_of(hash));
        tagged.filter_map(|entry| place_of(*entry)).find(|place| name_of(*place) == name)
    }
}

/// The bucket of a hash, out of `buckets`, which is a power of two.
fn bucket_of(hash: u32, buckets: usize) -> usize {
    ((u64::from(hash) * buckets as u64) >> 32) as usize
}

/// The bits of a hash that an entry holds besides its place.
fn tag_of(hash: u32) -> u32 {
    hash << PLACE
}

/// The place of an entry, if it was not dropped.
fn place_of(entry: u32) -> Option<usize> {
    ((entry & ((1 << PLACE) - 1)) as usize).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::super::frame;
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
    fn of_many_equal_names_one_is_noted_and_none_is_compared_with_all() {
        let (count, compared) = (frame::MOST_RECORDS, std::cell::Cell::new(0));
        let name_of = |place: usize| {
            compared.set(compared.get() + 1);
            [place / (count - 1)]
        };
        let places = Places::of_names(count, name_of, |_, _| false);
        assert_eq!([0, 1, 2].map(|name| places.find([name], name_of)), [Some(0), Some(count - 1), None]);
        assert!(compared.get() < 4 * count, "{compared:?}");
    }
}
