//! The store: records in memory by family and key, loaded from one file and saved to it.
//!
//! Looking up and inserting never touch the file system and never fail. Opening reads the file once; saving merges with
//! what other processes have saved meanwhile. What a record means is for the families to know; the store keeps bytes.

use std::cmp::Reverse;
use std::fmt;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::{Equivalent, HashMap};

use super::frame::{self, Frames, Header, Rejected};
use super::{Evidence, Fingerprint, Record, RecordError, Recorded, codec, folder};

/// What a store does with its folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheMode {
    /// Nothing is kept, not even in memory.
    Off,
    /// Records live as long as the store.
    Memory,
    /// Records are loaded, and never saved.
    Read,
    /// Records are loaded and saved.
    #[default]
    ReadWrite,
}

impl CacheMode {
    /// Every mode, and its name on the command line.
    pub const ALL: [(CacheMode, &'static str); 4] = [
        (CacheMode::Off, "off"),
        (CacheMode::Memory, "memory"),
        (CacheMode::Read, "read"),
        (CacheMode::ReadWrite, "read-write"),
    ];

    /// The mode of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<CacheMode> {
        CacheMode::ALL.iter().find(|(_, known)| *known == name).map(|(mode, _)| *mode)
    }
}

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
    /// Records loaded from the file when the store was opened.
    pub loaded: u64,
    /// Records of other processes taken over while saving.
    pub merged: u64,
    /// Records written, over all saves.
    pub saved: u64,
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

/// What a save did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaveReport {
    /// The file, if it was written.
    pub path: Option<PathBuf>,
    /// Records in the file.
    pub written: u64,
    /// Those among them that came from other processes' saves.
    pub merged: u64,
    /// The file's length.
    pub bytes: u64,
}

/// The name of a problem: a family and a key of it.
#[derive(PartialEq, Eq, Hash, Clone)]
struct Name {
    family: Box<str>,
    key: Box<[u8]>,
}

/// A [`Name`] that is borrowed, to look up without allocating.
#[derive(Hash)]
struct NameRef<'a> {
    family: &'a str,
    key: &'a [u8],
}

impl Equivalent<Name> for NameRef<'_> {
    fn equivalent(&self, name: &Name) -> bool {
        *self.family == *name.family && *self.key == *name.key
    }
}

impl Record {
    fn name(&self) -> NameRef<'_> {
        NameRef { family: &self.family, key: &self.key }
    }
}

impl NameRef<'_> {
    fn to_name(&self) -> Name {
        Name { family: self.family.into(), key: self.key.into() }
    }
}

#[derive(Default)]
struct Contents {
    records: HashMap<Name, Record>,
    /// Choices that did not pass validation, so that a merge does not bring them back.
    refused: HashMap<Name, Vec<u8>>,
    /// Counts changes; `saved` is the count that the file has.
    changes: u64,
    saved: u64,
    stats: StoreStats,
}

impl Contents {
    /// Takes a record from a file if it is better than what is here. Whether it was.
    fn merge(&mut self, record: Record) -> bool {
        let name = record.name();
        let refused = self.refused.get(&name).is_some_and(|choice| *choice == record.choice);
        let known = self.records.get(&name).is_some_and(|known| !record.beats(known));
        if refused || known || self.records.len() >= frame::MOST_RECORDS {
            return false;
        }
        self.records.insert(name.to_name(), record);
        true
    }

    fn count(&mut self, rejected: Rejected) {
        match rejected {
            Rejected::Magic => self.stats.rejected_magic += 1,
            Rejected::Version => self.stats.rejected_version += 1,
            Rejected::Fingerprint => self.stats.rejected_fingerprint += 1,
            Rejected::Checksum => self.stats.rejected_checksum += 1,
        }
    }
}

/// The file that a store belongs to.
struct Place {
    folder: PathBuf,
    digits: String,
    header: Header,
}

/// Records of many families, shared by threads, loaded from and saved to one file. See the [module](super).
pub struct Store {
    mode: CacheMode,
    place: Option<Place>,
    contents: Mutex<Contents>,
    /// Held while saving, so that threads save one after the other.
    saving: Mutex<()>,
}

impl Store {
    /// The records of that machine and build in that folder. Never fails: what cannot be used is counted and logged.
    #[must_use]
    pub fn open(folder: &Path, fingerprint: &Fingerprint, mode: CacheMode) -> Store {
        let header = Header::new(fingerprint.digest());
        let place = Place { folder: folder.to_owned(), digits: fingerprint.digits(), header };
        let store = Store { place: Some(place), ..Store::of_mode(mode) };
        if matches!(mode, CacheMode::Read | CacheMode::ReadWrite) {
            store.load();
        }
        store
    }

    /// A store without a file.
    #[must_use]
    pub fn in_memory() -> Store {
        Store::of_mode(CacheMode::Memory)
    }

    /// A store that keeps nothing.
    #[must_use]
    pub fn off() -> Store {
        Store::of_mode(CacheMode::Off)
    }

    fn of_mode(mode: CacheMode) -> Store {
        Store { mode, place: None, contents: Mutex::default(), saving: Mutex::default() }
    }

    /// What the store does with its folder.
    #[must_use]
    pub fn mode(&self) -> CacheMode {
        self.mode
    }

    /// What was chosen for that key, if anything was. The caller validates it and [`reject`](Store::reject)s it if it
    /// does not pass.
    pub fn lookup<K: Recorded>(&self, key: &K) -> Option<K::Choice> {
        self.lookup_with_evidence(key).map(|(choice, _)| choice)
    }

    /// The same, with what speaks for it.
    pub fn lookup_with_evidence<K: Recorded>(&self, key: &K) -> Option<(K::Choice, Evidence)> {
        let key = codec::encode(key).ok()?;
        let name = NameRef { family: K::FAMILY, key: &key };
        let mut contents = self.lock();
        contents.stats.lookups += 1;
        let record = contents.records.get(&name)?;
        if record.revision != K::REVISION {
            contents.stats.rejected_version += 1;
            return None;
        }
        let evidence = record.evidence;
        match codec::decode(&record.choice) {
            Ok(choice) => {
                contents.stats.hits += 1;
                Some((choice, evidence))
            }
            Err(error) => {
                tracing::warn!(family = K::FAMILY, %error, "a record's choice cannot be read; choosing again");
                refuse(&mut contents, &name);
                None
            }
        }
    }

    /// Keeps what was chosen for a key, unless what is kept already has better evidence.
    pub fn insert<K: Recorded>(&self, key: &K, choice: &K::Choice, evidence: Evidence) {
        if self.mode == CacheMode::Off {
            return;
        }
        let encoded = codec::encode(key).and_then(|key| Ok((key, codec::encode(choice)?)));
        let record = encoded.map(|(key, choice)| Record {
            family: K::FAMILY.to_owned(),
            revision: K::REVISION,
            key,
            choice,
            evidence,
        });
        // Encoded once more as a whole, to be sure that the file will take it.
        let fitting = record.and_then(|record| record.to_bytes().map(|_| record));
        let mut contents = self.lock();
        match fitting {
            Ok(record) => insert(&mut contents, record),
            Err(error) => {
                tracing::warn!(family = K::FAMILY, %error, "a choice is not kept as a record");
                contents.stats.rejected_length += 1;
            }
        }
    }

    /// Forgets what was chosen for a key, because it did not pass validation; it will not come back from the file.
    pub fn reject<K: Recorded>(&self, key: &K) {
        let Ok(key) = codec::encode(key) else { return };
        tracing::warn!(family = K::FAMILY, "a record's choice does not fit its key; choosing again");
        refuse(&mut self.lock(), &NameRef { family: K::FAMILY, key: &key });
    }

    /// Every key of a family that has a record, to build what they determine ahead of need.
    pub fn keys<K: Recorded>(&self) -> Vec<K> {
        let contents = self.lock();
        let records = contents.records.values();
        let known = records.filter(|record| record.family == K::FAMILY && record.revision == K::REVISION);
        known.filter_map(|record| codec::decode(&record.key).ok()).collect()
    }

    /// All records, in order of family and key.
    pub fn list(&self) -> Vec<Record> {
        let mut records: Vec<Record> = self.lock().records.values().cloned().collect();
        records.sort_by(|a, b| (&a.family, &a.key).cmp(&(&b.family, &b.key)));
        records
    }

    /// The counters.
    pub fn stats(&self) -> StoreStats {
        let contents = self.lock();
        StoreStats { records: contents.records.len() as u64, ..contents.stats }
    }

    /// Where the records are saved to, if they are.
    pub fn path(&self) -> Option<PathBuf> {
        let place = self.place.as_ref().filter(|_| self.mode == CacheMode::ReadWrite)?;
        Some(folder::file_of(&place.folder, &place.digits))
    }

    /// Writes what is new, together with what other processes have written since. Does nothing if nothing is new, or if
    /// the mode is not [`CacheMode::ReadWrite`].
    ///
    /// # Errors
    ///
    /// [`RecordError`]; the file is then what it was, and what is new stays for the next save.
    pub fn save(&self) -> Result<SaveReport, RecordError> {
        let Some((place, path)) = self.place.as_ref().zip(self.path()) else { return Ok(SaveReport::default()) };
        let _one_at_a_time = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let contents = self.lock();
            if contents.changes == contents.saved {
                return Ok(SaveReport::default());
            }
        }
        folder::make(&place.folder)?;
        let _lock = folder::lock(&folder::lock_of(&place.folder, &place.digits))?;
        let merged = match folder::read(&place.folder, &path, frame::MOST_BYTES)? {
            Some(bytes) => self.merge(&bytes, &path).map_or(0, |(taken, _)| taken),
            None => 0,
        };
        let (changes, records) = {
            let contents = self.lock();
            (contents.changes, contents.records.values().cloned().collect())
        };
        let (bytes, written) = lay_out(place.header, records);
        folder::replace(&place.folder, &path, &bytes)?;
        let mut contents = self.lock();
        contents.saved = changes;
        contents.stats.saved += u64::from(written);
        contents.stats.merged += merged;
        Ok(SaveReport { path: Some(path), written: u64::from(written), merged, bytes: bytes.len() as u64 })
    }

    /// Reads the file, once, when the store is opened.
    fn load(&self) {
        let Some(place) = &self.place else { return };
        let path = folder::file_of(&place.folder, &place.digits);
        match folder::read(&place.folder, &path, frame::MOST_BYTES) {
            Ok(Some(bytes)) => {
                if let Ok((_, frames)) = self.merge(&bytes, &path) {
                    self.lock().stats.loaded += frames.sound;
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "records are not loaded");
                self.lock().stats.rejected_io += 1;
                return;
            }
        }
        let own = path.file_name();
        let names = folder::list(&place.folder).unwrap_or_default();
        let others = names.iter().filter(|name| name.ends_with(folder::SUFFIX) && own != Some(name.as_ref()));
        self.lock().stats.rejected_fingerprint += others.count() as u64;
    }

    /// Takes over the better records of a file: how many those were, and what the file was like.
    fn merge(&self, bytes: &[u8], path: &Path) -> Result<(u64, Frames), Rejected> {
        let own = self.place.as_ref().map(|place| place.header.fingerprint);
        let header = Header::read(bytes)
            .and_then(|header| if Some(header.fingerprint) == own { Ok(header) } else { Err(Rejected::Fingerprint) });
        let mut contents = self.lock();
        if let Err(rejected) = header {
            tracing::warn!(path = %path.display(), why = rejected.why(), "a record file is not used");
            contents.count(rejected);
            return Err(rejected);
        }
        let mut taken = 0;
        let frames = frame::read(bytes, |record| taken += u64::from(contents.merge(record)));
        if frames.damaged > 0 {
            tracing::warn!(path = %path.display(), damaged = frames.damaged, kept = frames.sound, "a record file is damaged");
            contents.stats.rejected_checksum += frames.damaged;
            // The next save heals the file.
            contents.changes += 1;
        }
        Ok((taken, frames))
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        // Nothing foreign runs under the lock, so what a panicking thread leaves behind is whole.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("mode", &self.mode).field("path", &self.path()).finish_non_exhaustive()
    }
}

fn insert(contents: &mut Contents, record: Record) {
    let name = record.name();
    if let Some(known) = contents.records.get(&name) {
        let same = known.choice == record.choice && known.revision == record.revision;
        if known.beats(&record) || (same && !record.beats(known)) {
            return;
        }
    } else if contents.records.len() >= frame::MOST_RECORDS {
        return;
    }
    contents.records.insert(name.to_name(), record);
    contents.changes += 1;
}

fn refuse(contents: &mut Contents, name: &NameRef<'_>) {
    contents.stats.rejected_semantic += 1;
    if let Some((name, record)) = contents.records.remove_entry(name) {
        contents.refused.insert(name, record.choice);
        contents.changes += 1;
    }
}

/// The bytes of a file with those records: in order of family and key, so that equal contents are equal files; and as
/// many as a file may hold, the best proven first.
fn lay_out(header: Header, mut records: Vec<Record>) -> (Vec<u8>, u32) {
    let bytes: usize = records.iter().map(room).sum();
    if bytes > frame::MOST_BYTES {
        records.sort_by_key(|record| Reverse(record.rank()));
        let mut left = frame::MOST_BYTES;
        records.retain(|record| {
            let fits = room(record) <= left;
            left -= if fits { room(record) } else { 0 };
            fits
        });
    }
    records.sort_by(|a, b| (&a.family, &a.key).cmp(&(&b.family, &b.key)));
    frame::write(header, records.iter())
}

/// No less than what a record takes in a file: its texts, and 68 bytes of numbers, lengths and frame. The file's header
/// and footer are paid for by rounding each record up.
fn room(record: &Record) -> usize {
    record.family.len() + record.key.len() + record.choice.len() + 160
}
