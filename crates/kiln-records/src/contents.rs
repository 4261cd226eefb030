//! The contents of a store in memory: records by name, refused choices, and counters. Knows no file.

use std::hash::BuildHasher;
use std::path::Path;
use std::time::Instant;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable, hash_table};

use super::arena::{Arena, Location};
use super::entry::{self, Kept, State};
use super::frame::{self, Frames, Rejected};
use super::image::{self, Image};
use super::older::Older;
use crate::warning::warning;

/// A store's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Records held now.
    pub records: u64,
    /// Look-ups.
    pub lookups: u64,
    /// Look-ups that found a choice.
    pub hits: u64,
    /// Records that were decoded to answer look-ups.
    pub decoded: u64,
    /// Records loaded from files when the store was opened, or on request.
    pub loaded: u64,
    /// Records of other processes taken over while saving.
    pub merged: u64,
    /// Records written, over all saves.
    pub saved: u64,
    /// Saves that another process's lock turned into shards.
    pub shards: u64,
    /// Saves of the background writer that failed.
    pub failed_saves: u64,
    /// Looks at the remote store.
    pub remote_gets: u64,
    /// Times that the file there was written.
    pub remote_puts: u64,
    /// Records of other machines taken over from there.
    pub remote_taken: u64,
    /// Times that the remote store was down, slow, or held something other than a record file.
    pub remote_failures: u64,
    /// Files that are not record files.
    pub rejected_magic: u64,
    /// Files of an unknown schema or codec, and look-ups that found a record of another revision.
    pub rejected_version: u64,
    /// Files for another machine or build, including those in the folder under other names.
    pub rejected_fingerprint: u64,
    /// Damaged headers, frames and footers.
    pub rejected_checksum: u64,
    /// Choices that did not decode or did not pass their family's validation.
    pub rejected_semantic: u64,
    /// Files and folders that could not be read or were refused.
    pub rejected_io: u64,
    /// Choices not kept because they are longer than a record may be.
    pub rejected_length: u64,
}

/// Bytes of records, some 60,000, that a process adds to those it has loaded: shapes that never return would add
/// records without end. Beyond the bound, choices for new keys are not kept; better choices for known keys are.
pub(super) const MOST_FOUND: usize = 16 << 20;

/// Records under their names: the records of the files as they were read, and here the records that are not in these
/// files or are better than those there. Records that are still in a file of an older schema are brought here before
/// they are looked up.
#[derive(Default)]
pub(super) struct Contents {
    image: Image,
    older: Vec<Older>,
    arena: Arena,
    /// Bytes of records whose keys were new when a choice was made.
    found: usize,
    /// The place of each name's record in it.
    index: HashTable<Location>,
    hasher: DefaultHashBuilder,
    /// Choices that did not pass validation, by name, so that a merge does not bring them back.
    refused: HashMap<Box<[u8]>, Vec<u8>>,
    /// Whether any record is [`State::New`].
    news: bool,
    /// Whether the file should be written anew although no record is new: it is damaged, of an older schema, in no
    /// order, holds refused choices, or has shards beside it.
    pub(super) heal: bool,
    /// When there was last a change worth saving, and when first since the last save.
    pub(super) changed: Option<(Instant, Instant)>,
    pub(super) stats: StoreStats,
}

impl Contents {
    fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// Takes over files as they were read, for a store that is still empty.
    pub(super) fn adopt(&mut self, image: Image, older: Vec<Older>) {
        self.image = image;
        self.older = older;
    }

    /// Bytes of all records in memory.
    pub(super) fn bytes(&self) -> usize {
        let older: usize = self.older.iter().map(Older::bytes).sum();
        self.image.bytes() + older + self.arena.held()
    }

    /// Merges the records with that name from files of older schemas.
    fn bring(&mut self, name: &[u8]) {
        if self.older.is_empty() {
            return;
        }
        if let Some((family, key)) = entry::problem_of(name) {
            self.bring_those(|older, found| found.extend(older.take(family, &key)));
        }
    }

    /// Merges the records that `take` takes out of each file of an older schema.
    fn bring_those(&mut self, mut take: impl FnMut(&mut Older, &mut Vec<Kept>)) {
        let mut found = Vec::new();
        self.older.iter_mut().for_each(|older| take(older, &mut found));
        self.older.retain(|older| older.len() > 0);
        for kept in &found {
            self.merge(kept.view());
        }
    }

    /// The record of that name.
    pub(super) fn find(&mut self, name: &[u8]) -> Option<Kept<&[u8]>> {
        self.bring(name);
        match self.index.find(self.hash(name), |location| self.arena.get(*location).name() == name) {
            Some(location) => Some(self.arena.get(*location)),
            None => self.image.get(self.image.find(name)?),
        }
    }

    /// How many records there are.
    pub(super) fn len(&self) -> usize {
        self.image.len() + self.index.len() + self.older.iter().map(Older::len).sum::<usize>()
    }

    /// All records, in no order.
    pub(super) fn iter(&mut self) -> impl Iterator<Item = Kept<&[u8]>> {
        self.bring_those(|older, found| found.extend(older.take_all()));
        self.image.iter().chain(self.own())
    }

    /// At most `most` records of a family whose keys begin with those bytes, the records of this process first. The
    /// file's part may include records whose keys do not begin so.
    pub(super) fn of_family<'a>(
        &'a mut self,
        family: &str,
        key: &'a [u8],
        most: usize,
    ) -> impl Iterator<Item = Kept<&'a [u8]>> {
        self.bring_those(|older, found| {
            found.extend(older.take_family(family, key).take(most - found.len()));
        });
        let prefix = image::family_prefix(family);
        let own = self.own().filter(move |kept| kept.name().starts_with(&prefix) && kept.key_begins(key));
        own.chain(self.image.of_family(family, key)).take(most)
    }

    /// The records that are not in the file as it was read.
    fn own(&self) -> impl Iterator<Item = Kept<&[u8]>> {
        self.index.iter().map(|location| self.arena.get(*location))
    }

    /// The number of records that are no longer where they were read.
    #[cfg(test)]
    pub(super) fn copied(&self) -> usize {
        self.index.len()
    }

    /// Takes a record in place of the one with its name, if `better` allows it.
    fn put(
        &mut self,
        record: Kept<&[u8]>,
        has_room: bool,
        better: impl FnOnce(Kept<&[u8]>, Kept<&[u8]>) -> bool,
    ) -> bool {
        self.bring(record.name());
        let hash = self.hash(record.name());
        let full = !has_room || self.len() >= frame::MOST_RECORDS;
        let Contents { image, arena, index, hasher, .. } = self;
        let same = |location: &Location| arena.get(*location).name() == record.name();
        let taken = match index.entry(hash, same, |location| hasher.hash_one(arena.get(*location).name())) {
            hash_table::Entry::Occupied(mut known) => {
                let before = *known.get();
                let better = better(record, arena.get(before));
                let location = better.then(|| arena.push(record)).flatten();
                if let Some(location) = location {
                    arena.forget(before);
                    *known.get_mut() = location;
                }
                location.is_some()
            }
            hash_table::Entry::Vacant(free) => {
                let place = image.find_next(record.name());
                let take = match place {
                    // Bytes that are not a record are worse than any record.
                    Some(place) => image.get(place).is_none_or(|known| better(record, known)),
                    None => !full,
                };
                let location = take.then(|| arena.push(record)).flatten();
                if let Some(location) = location {
                    free.insert(location);
                    place.into_iter().for_each(|place| image.forget(place));
                }
                location.is_some()
            }
        };
        self.tidy();
        taken
    }

    /// Moves the needed records together if many are no longer needed.
    fn tidy(&mut self) {
        if self.arena.is_wasteful() {
            let old = std::mem::take(&mut self.arena);
            self.index.retain(|location| self.arena.push(old.get(*location)).map(|moved| *location = moved).is_some());
        }
    }

    /// Takes a record from a file if it is better than the one here. Returns whether it was.
    pub(super) fn merge(&mut self, record: Kept<&[u8]>) -> bool {
        if !self.refused.is_empty()
            && let (Some(choice), Some(claim)) = (self.refused.get(record.name()), record.claim())
            && *choice == claim.choice
        {
            // The refused record is still in a file.
            self.heal = true;
            return false;
        }
        let new = record.state == State::New;
        let taken = self.put(record, true, |new, known| new.beats(&known));
        if taken && new {
            self.note_change();
        }
        taken
    }

    /// Keeps a choice made now, unless the kept one has better evidence or is the same. Returns whether it was kept.
    pub(super) fn insert(&mut self, record: Kept<&[u8]>) -> bool {
        let (before, has_room) = (self.len(), self.found + record.bytes().len() <= MOST_FOUND);
        let kept = self.put(record, has_room, |new, known| {
            let same = match (new.claim(), known.claim()) {
                (Some(new), Some(known)) => (new.revision, new.choice) == (known.revision, known.choice),
                _ => false,
            };
            !known.beats(&new) && (new.beats(&known) || !same)
        });
        if self.len() > before {
            self.found += record.bytes().len();
        }
        if kept {
            self.note_change();
        }
        kept
    }

    fn note_change(&mut self) {
        let now = Instant::now();
        self.news = true;
        self.changed = Some((now, self.changed.map_or(now, |(_, first)| first)));
    }

    /// Drops a record whose choice did not pass validation.
    pub(super) fn refuse(&mut self, name: &[u8]) {
        self.stats.rejected_semantic += 1;
        self.bring(name);
        let hash = self.hash(name);
        let Contents { image, arena, index, .. } = self;
        if let Some(place) = image.find(name) {
            let choice = image.get(place).and_then(|kept| Some(kept.claim()?.choice.to_vec())).unwrap_or_default();
            image.forget(place);
            self.refused.insert(name.into(), choice);
            self.heal = true;
        } else if let Ok(found) = index.find_entry(hash, |location| arena.get(*location).name() == name) {
            let (location, _) = found.remove();
            let choice = arena.get(location).claim().map(|claim| claim.choice.to_vec()).unwrap_or_default();
            arena.forget(location);
            self.refused.insert(name.into(), choice);
            self.heal = true;
            self.tidy();
        }
    }

    /// Counts a file that is not used.
    pub(super) fn count(&mut self, rejected: Rejected) {
        match rejected {
            Rejected::Magic => self.stats.rejected_magic += 1,
            Rejected::Version => self.stats.rejected_version += 1,
            Rejected::Fingerprint => self.stats.rejected_fingerprint += 1,
            Rejected::Checksum => self.stats.rejected_checksum += 1,
        }
    }

    /// Counts the damaged parts of a file.
    pub(super) fn count_damaged(&mut self, path: &Path, Frames { sound, damaged }: Frames) {
        if damaged > 0 {
            warning!(path = %path.display(), damaged, kept = sound, "a record file is damaged");
            self.stats.rejected_checksum += damaged;
        }
    }

    /// Whether any record is missing in the file.
    pub(super) fn has_news(&self) -> bool {
        self.news
    }

    /// Begins a save: new records are being written from now on, and later ones are new.
    pub(super) fn begin(&mut self) {
        self.news = false;
        self.changed = None;
        self.set_states(State::New, State::Writing);
    }

    /// Ends a save. Records that were not written are new again.
    pub(super) fn end(&mut self, written: bool) {
        self.set_states(State::Writing, if written { State::Saved } else { State::New });
        if !written {
            self.note_change();
        }
    }

    fn set_states(&mut self, from: State, to: State) {
        for location in &self.index {
            if self.arena.get(*location).state == from {
                self.arena.set_state(*location, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Evidence, Record};
    use super::*;

    #[test]
    fn a_process_adds_so_many_bytes_and_no_more_and_still_betters_what_it_has() {
        let kept = |number: u32, measured: u64| {
            let evidence = if measured > 0 {
                Evidence { kind: crate::EvidenceKind::Measured, nanos: measured, samples: 9, ..Evidence::model() }
            } else {
                Evidence::model()
            };
            let (family, key) = ("x".to_owned(), number.to_le_bytes().to_vec());
            let choice = (0..3000u32).flat_map(|at| (at ^ number).wrapping_mul(2_654_435_761).to_le_bytes()).collect();
            let choice: Vec<u8> = choice;
            Kept::of_record(&Record { family, revision: 1, key, choice: choice[..3000].to_vec(), evidence }, State::New)
                .expect("it is short enough")
        };
        let mut contents = Contents::default();
        let added = (0..20_000).take_while(|number| contents.insert(kept(*number, 0).view())).count();
        assert!((2000..10_000).contains(&added), "{added}");
        assert!(contents.found <= MOST_FOUND && contents.arena.held() <= MOST_FOUND + (1 << 20));
        assert!(contents.insert(kept(0, 5).view()), "a better choice for a known key");
        assert!(contents.merge(kept(30_000, 5).view()), "what a file has");
    }
}
