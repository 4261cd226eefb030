//! What a store holds in memory: records by name, what was refused, and the counters. Knows no file.

use std::hash::BuildHasher;
use std::time::Instant;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable, hash_table};

use super::entry::{Kept, State};
use super::frame::{self, Rejected};

/// What a store counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Records held now.
    pub records: u64,
    /// Look-ups.
    pub lookups: u64,
    /// Look-ups that found a choice.
    pub hits: u64,
    /// Records loaded from files when the store was opened or told to.
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
    /// Times that it was down, slow or lying.
    pub remote_failures: u64,
    /// Files that are not record files.
    pub rejected_magic: u64,
    /// Files of an unknown schema or codec, and look-ups that found a record of another revision.
    pub rejected_version: u64,
    /// Files for another machine or build, those in the folder under other names included.
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

/// Records under their names.
#[derive(Default)]
pub(super) struct Contents {
    records: HashTable<Kept>,
    hasher: DefaultHashBuilder,
    /// Choices that did not pass validation, by name, so that a merge does not bring them back.
    refused: HashMap<Box<[u8]>, Vec<u8>>,
    /// Whether some record is [`State::New`].
    news: bool,
    /// Whether the file should be written anew though no record is new: it is damaged, of an older schema, holds what
    /// was refused, or has shards beside it.
    pub(super) heal: bool,
    /// When something was last worth saving, and when first since the last save.
    pub(super) changed: Option<(Instant, Instant)>,
    pub(super) stats: StoreStats,
}

impl Contents {
    fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// The record of that name.
    pub(super) fn find(&self, name: &[u8]) -> Option<&Kept> {
        self.records.find(self.hash(name), |kept| kept.name() == name)
    }

    /// How many records there are.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// All records, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Kept> {
        self.records.iter()
    }

    /// Takes a record in place of the one of its name, if `better` says so of that.
    fn put(&mut self, record: Kept, better: impl FnOnce(&Kept, &Kept) -> bool) -> bool {
        let hash = self.hash(record.name());
        let full = self.records.len() >= frame::MOST_RECORDS;
        let hasher = &self.hasher;
        let entry = self.records.entry(hash, |kept| kept.name() == record.name(), |kept| hasher.hash_one(kept.name()));
        match entry {
            hash_table::Entry::Occupied(mut known) => {
                let better = better(&record, known.get());
                if better {
                    *known.get_mut() = record;
                }
                better
            }
            hash_table::Entry::Vacant(free) => {
                if !full {
                    free.insert(record);
                }
                !full
            }
        }
    }

    /// Takes a record from a file if it is better than what is here. Whether it was.
    pub(super) fn merge(&mut self, record: Kept) -> bool {
        if !self.refused.is_empty()
            && let (Some(choice), Some(claim)) = (self.refused.get(record.name()), record.claim())
            && *choice == claim.choice
        {
            // It is still in a file.
            self.heal = true;
            return false;
        }
        let new = record.state == State::New;
        let taken = self.put(record, Kept::beats);
        if taken && new {
            self.note_change();
        }
        taken
    }

    /// Keeps what was chosen now, unless what is kept already has better evidence or says the same. Whether it was kept.
    pub(super) fn insert(&mut self, record: Kept) -> bool {
        let same = |a: &Kept, b: &Kept| {
            let claim = |kept: &Kept| kept.claim().map(|claim| (claim.revision, claim.choice.to_vec()));
            claim(a) == claim(b)
        };
        let kept = self.put(record, |new, known| !known.beats(new) && (new.beats(known) || !same(new, known)));
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
        let hash = self.hash(name);
        if let Ok(found) = self.records.find_entry(hash, |kept| kept.name() == name) {
            let (record, _) = found.remove();
            let choice = record.claim().map(|claim| claim.choice.to_vec()).unwrap_or_default();
            self.refused.insert(name.into(), choice);
            self.heal = true;
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

    /// Whether a record is not in the file.
    pub(super) fn has_news(&self) -> bool {
        self.news
    }

    /// Begins to write: what is new is being written from now on, and what is new after this is new.
    pub(super) fn begin(&mut self) {
        self.news = false;
        self.changed = None;
        self.turn(State::New, State::Writing);
    }

    /// Ends writing. What was not written is new again.
    pub(super) fn end(&mut self, written: bool) {
        self.turn(State::Writing, if written { State::Saved } else { State::New });
        if !written {
            self.note_change();
        }
    }

    fn turn(&mut self, from: State, to: State) {
        self.records.iter_mut().filter(|kept| kept.state == from).for_each(|kept| kept.state = to);
    }
}
