//! The store: records in memory by family and key, loaded from one file and saved to it.
//!
//! Looking up and inserting never touch the file system and never fail. Opening reads the file once; `saving` writes
//! it, now or by `writer`, and merges with what other processes have saved meanwhile. Families know the meaning of
//! records; the store only keeps bytes.

use std::cmp::Reverse;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Serialize;

use super::contents::StoreStats;
use super::entry::{Kept, Name, State};
use super::folder::{self, Folder};
use super::frame::{self, Header, ReadError};
use super::remote::worker::RemoteWorker;
use super::remote::{Remote, RemoteError, RemotePolicy};
use super::shared::{CacheMode, Core, Place};
use super::writer::{Pace, Writer};
use super::{Evidence, Fingerprint, Record, RecordError, Recorded, SaveReport, codec, packing};
use crate::warning::warning;
use kiln_fork::{Mutex, Origin};

/// An encoded key that was [asked](Store::ask) for.
#[derive(Debug)]
pub struct Asked(Result<Name, codec::CodecError>);

/// To find the newest records, at most this many times the requested number are read.
const MOST_OLDER: usize = 16;

/// The name under which the record of that key is found.
fn name<K: Recorded>(key: &K) -> Result<Name, codec::CodecError> {
    Name::new(K::FAMILY, &codec::encode(key)?)
}

/// The result of taking over a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Sound records in the file.
    pub sound: u64,
    /// Records in the file that were better than the store's own.
    pub taken: u64,
    /// Damaged parts that were skipped.
    pub damaged: u64,
}

/// Records of many families, shared by threads, loaded from and saved to one file. See the [module](super).
pub struct Store {
    core: Arc<Core>,
    writer: Option<Arc<Writer>>,
    remote_worker: Option<RemoteWorker>,
    complete: bool,
    ahead: bool,
    /// The store that owns these records, where this is only another view of it.
    whole: Option<Arc<Store>>,
}

impl Store {
    /// The records of that machine and build in that folder, which many models share. Never fails: unusable files are
    /// counted and logged.
    #[must_use]
    pub fn open(folder: &Path, fingerprint: &Fingerprint, mode: CacheMode) -> Store {
        Store::on(Folder::new(folder), fingerprint.digits(), fingerprint, mode)
    }

    /// As [`Store::open`], for a file with that name, which ends in `.kiln`.
    #[must_use]
    pub fn open_file(path: &Path, fingerprint: &Fingerprint, mode: CacheMode) -> Store {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.strip_suffix(folder::SUFFIX).unwrap_or(&name).to_owned();
        let folder = Folder::new(path.parent().unwrap_or(Path::new("")));
        Store::on(folder, stem, fingerprint, mode)
    }

    pub(super) fn on(folder: Folder, stem: String, fingerprint: &Fingerprint, mode: CacheMode) -> Store {
        Store::at(Place { folder, stem, header: Header::new(fingerprint.digest()) }, mode)
    }

    /// The store of a file for the machine and build with that digest.
    pub(super) fn of_digest(folder: Folder, stem: String, digest: [u8; 32], mode: CacheMode) -> Store {
        Store::at(Place { folder, stem, header: Header::new(digest) }, mode)
    }

    fn at(place: Place, mode: CacheMode) -> Store {
        let store = Store::with_place(Some(place), mode);
        if matches!(mode, CacheMode::Read | CacheMode::ReadWrite) {
            store.core.load();
        }
        store
    }

    /// A store without a file.
    #[must_use]
    pub fn in_memory() -> Store {
        Store::with_place(None, CacheMode::Memory)
    }

    /// A store that keeps nothing.
    #[must_use]
    pub fn off() -> Store {
        Store::with_place(None, CacheMode::Off)
    }

    #[cfg(test)]
    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    fn with_place(place: Option<Place>, mode: CacheMode) -> Store {
        let (contents, saving, origin) = (Mutex::default(), std::sync::Mutex::default(), Origin::here());
        let core = Core { mode, place, contents, saving, origin };
        Store { core: Arc::new(core), writer: None, remote_worker: None, complete: false, ahead: false, whole: None }
    }

    /// The same store with a writer: a thread of the store's own saves new records once they have settled, and at the
    /// end of the store. Without a writer, only [`Store::save`] saves.
    #[must_use]
    pub fn with_writer(mut self, pace: Pace) -> Store {
        if self.path().is_some() {
            let writer = Writer::new(self.core.clone(), pace);
            let contents = self.core.lock();
            let wake = contents.heal || contents.has_news();
            drop(contents);
            if wake {
                writer.wake();
            }
            self.writer = Some(Arc::new(writer));
        }
        self
    }

    /// The same store with a remote store behind its file; a thread of its own talks to the remote. Better records
    /// there are taken over, and better records here are put there, unless the mode or the policy forbids writing. Only
    /// [`Store::await_remote`] and, for a bounded time, the end ever wait for it. Call this after
    /// [`Store::with_writer`], so that records from there are written into the file; a store without a file has no
    /// other place for them.
    #[must_use]
    pub fn with_remote(mut self, remote: Arc<dyn Remote>, policy: RemotePolicy) -> Store {
        if self.core.place.is_some() && matches!(self.mode(), CacheMode::Read | CacheMode::ReadWrite) {
            let read_only = policy.read_only || self.mode() == CacheMode::Read;
            // The remote worker may outlive the store, but must not keep the writer alive.
            let writer = self.writer.as_ref().map(Arc::downgrade);
            let news = move || {
                if let Some(writer) = writer.as_ref().and_then(Weak::upgrade) {
                    writer.wake();
                }
            };
            self.remote_worker =
                Some(RemoteWorker::start(self.core.clone(), remote, RemotePolicy { read_only, ..policy }, news));
        }
        self
    }

    /// Waits for the first answer of the remote store, as long as its policy allows and only if there is no record yet:
    /// a store with records starts with those.
    pub fn await_remote(&self) {
        if let Some(whole) = &self.whole {
            whole.await_remote();
        }
        if let Some(remote_worker) = self.remote_worker.as_ref().filter(|_| self.core.lock().len() == 0) {
            remote_worker.await_answer();
        }
    }

    /// Puts better records from here into the remote store now, and waits for that, but no longer than `patience`.
    /// Without this call they are put once they have settled, and at the end.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]; records that could not be put are tried again later.
    pub fn publish(&self, patience: Duration) -> Result<(), RemoteError> {
        match (&self.whole, &self.remote_worker) {
            (Some(whole), _) => whole.publish(patience),
            (None, Some(remote_worker)) => remote_worker.publish(patience),
            (None, None) => Err(RemoteError::ReadOnly),
        }
    }

    /// A view of these records as complete: a builder that finds no record fails instead of choosing, and choices of
    /// other sessions without a record are not used either. For deployments in which nothing may be chosen or tuned any
    /// more.
    #[must_use]
    pub fn taken_as_complete(self: &Arc<Self>) -> Arc<Store> {
        self.view(true, self.ahead)
    }

    /// A view of these records for builders that work ahead of need: nothing is chosen for keys without a record.
    #[must_use]
    pub fn ahead_of_need(self: &Arc<Self>) -> Arc<Store> {
        self.view(self.complete, true)
    }

    /// The same records with other rules for builders.
    fn view(self: &Arc<Self>, complete: bool, ahead: bool) -> Arc<Store> {
        let (core, whole) = (self.core.clone(), Some(self.clone()));
        Arc::new(Store { core, writer: None, remote_worker: None, complete, ahead, whole })
    }

    /// Whether a missing choice is an error.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether builders work ahead of need.
    #[must_use]
    pub fn is_ahead_of_need(&self) -> bool {
        self.ahead
    }

    /// Whether a builder that finds no record may choose.
    #[must_use]
    pub fn may_choose(&self) -> bool {
        !self.complete && !self.ahead
    }

    /// How the store uses its folder.
    #[must_use]
    pub fn mode(&self) -> CacheMode {
        self.core.mode
    }

    /// The choice for that key, if there is one. The caller validates it and [`reject`](Store::reject)s it if it does
    /// not pass.
    pub fn lookup<K: Recorded>(&self, key: &K) -> Option<K::Choice> {
        self.lookup_with_evidence(key).map(|(choice, _)| choice)
    }

    /// The same, with the evidence for it.
    pub fn lookup_with_evidence<K: Recorded>(&self, key: &K) -> Option<(K::Choice, Evidence)> {
        self.claimed::<K>(&name::<K>(key).ok()?)
    }

    /// As [`lookup`](Store::lookup), and the name under which a choice made now can be [kept](Store::keep).
    pub fn ask<K: Recorded>(&self, key: &K) -> (Option<K::Choice>, Asked) {
        let name = name::<K>(key);
        let claimed = name.as_ref().ok().and_then(|name| self.claimed::<K>(name));
        (claimed.map(|(choice, _)| choice), Asked(name))
    }

    fn claimed<K: Recorded>(&self, name: &Name) -> Option<(K::Choice, Evidence)> {
        let name = name.bytes();
        let mut contents = self.core.lock();
        contents.stats.lookups += 1;
        let kept = contents.find(name)?;
        let claim = kept.claim()?;
        if claim.revision != K::REVISION {
            contents.stats.rejected_version += 1;
            return None;
        }
        let choice = packing::unpack(claim.choice, codec::LIMIT).unwrap_or_default();
        let evidence = claim.evidence;
        contents.stats.decoded += 1;
        match codec::decode(&choice) {
            Ok(choice) => {
                contents.stats.hits += 1;
                Some((choice, evidence))
            }
            Err(error) => {
                warning!(family = K::FAMILY, %error, "a record's choice cannot be read; choosing again");
                contents.refuse(name);
                None
            }
        }
    }

    /// Keeps a choice for a key, unless the kept one has better evidence.
    pub fn insert<K: Recorded>(&self, key: &K, choice: &K::Choice, evidence: Evidence) {
        self.keep::<K>(Asked(name::<K>(key)), choice, evidence);
    }

    /// The same for a key that was [asked](Store::ask) for.
    pub fn keep<K: Recorded>(&self, asked: Asked, choice: &K::Choice, evidence: Evidence) {
        if self.core.mode == CacheMode::Off {
            return;
        }
        let named = |name| Kept::named(name, K::REVISION, &codec::encode(choice)?, &evidence, State::New);
        self.insert_kept(K::FAMILY, asked.0.and_then(named));
    }

    /// Keeps a record of any family under the same rule, for tools that have records from elsewhere. Returns whether
    /// its length allows that. Its choice is validated at look-up, like a choice from a file.
    pub fn insert_record(&self, record: &Record) -> bool {
        if self.core.mode == CacheMode::Off {
            return true;
        }
        self.insert_kept(&record.family, Kept::of_record(record, State::New))
    }

    fn insert_kept(&self, family: &str, kept: Result<Kept, codec::CodecError>) -> bool {
        match kept {
            Ok(kept) => {
                if self.core.lock().insert(kept.view()) {
                    self.wake();
                }
                true
            }
            Err(error) => {
                self.too_long(family, &error);
                false
            }
        }
    }

    /// Says that there will be new records soon: the thread that saves them is started, so that whatever makes the first
    /// one does not wait for that.
    pub fn expect(&self) {
        if let Some(writer) = &self.writer {
            writer.expect();
        }
    }

    fn wake(&self) {
        if let Some(whole) = &self.whole {
            whole.wake();
        }
        if let Some(writer) = &self.writer {
            writer.wake();
        }
        if let Some(remote_worker) = &self.remote_worker {
            remote_worker.wake();
        }
    }

    fn too_long(&self, family: &str, error: &codec::CodecError) {
        warning!(family, %error, "a choice is not kept as a record");
        self.core.lock().stats.rejected_length += 1;
    }

    /// Forgets the choice for a key, because it did not pass validation; it will not come back from the file.
    pub fn reject<K: Recorded>(&self, key: &K) {
        let Ok(name) = name::<K>(key) else { return };
        warning!(family = K::FAMILY, "a record's choice does not fit its key; choosing again");
        self.core.lock().refuse(name.bytes());
    }

    /// Every key of a family that has a record.
    pub fn keys<K: Recorded>(&self) -> Vec<K> {
        let mut contents = self.core.lock();
        let of_family = contents.of_family(K::FAMILY, &[], usize::MAX);
        let known = of_family.filter(|kept| kept.claim().is_some_and(|claim| claim.revision == K::REVISION));
        known.filter_map(|kept| codec::decode(&kept.key()?).ok()).collect()
    }

    /// The `most` newest records of the keys whose first fields, encoded, are `fields`; no other key is decoded. With
    /// more than sixteen times as many records, which only a file that no store wrote has, the newest among that many.
    pub fn newest<K: Recorded>(&self, fields: &impl Serialize, most: usize) -> Vec<(K, Evidence)> {
        let Ok(fields) = codec::encode(fields) else { return Vec::new() };
        let mut contents = self.core.lock();
        let mut decoded = 0;
        let candidates = contents.of_family(K::FAMILY, &fields, most.saturating_mul(MOST_OLDER));
        let claimed = candidates.inspect(|_| decoded += 1).filter(|kept| kept.key_begins(&fields)).filter_map(|kept| {
            let claim = kept.claim().filter(|claim| claim.revision == K::REVISION)?;
            Some((claim.evidence, kept))
        });
        let mut known: Vec<_> = claimed.collect();
        known.sort_by_key(|(evidence, _)| Reverse(evidence.created));
        known.truncate(most);
        let keys = known.into_iter().filter_map(|(evidence, kept)| Some((codec::decode(&kept.key()?).ok()?, evidence)));
        let keys = keys.collect();
        contents.stats.decoded += decoded;
        keys
    }

    /// All records, in order of family and key.
    pub fn list(&self) -> Vec<Record> {
        let mut records: Vec<Record> = self.core.lock().iter().filter_map(|kept| kept.to_record()).collect();
        records.sort_by(|a, b| (&a.family, &a.key).cmp(&(&b.family, &b.key)));
        records
    }

    /// The counters.
    pub fn stats(&self) -> StoreStats {
        let contents = self.core.lock();
        StoreStats { records: contents.len() as u64, ..contents.stats }
    }

    /// Bytes of the records that it holds: of files as they were read, and of new records.
    pub fn bytes(&self) -> usize {
        self.core.lock().bytes()
    }

    /// A number that two stores of this process share if each has every record that the other gets.
    pub fn place(&self) -> usize {
        Arc::as_ptr(&self.core).addr()
    }

    /// The path of the file where records are saved, if they are.
    pub fn path(&self) -> Option<PathBuf> {
        self.core.path()
    }

    /// Writes new records, together with those that other processes have written since. Does nothing if no record is
    /// new, or if the mode is not [`CacheMode::ReadWrite`]. While another process holds the lock, new records go to a
    /// shard beside the file instead, which readers see and the next save takes in.
    ///
    /// # Errors
    ///
    /// [`RecordError`]; the file is then unchanged, and new records stay for the next save.
    pub fn save(&self) -> Result<SaveReport, RecordError> {
        self.core.save()
    }

    /// Takes over better records from a file for that machine and build, wherever it is and whatever the mode, for the
    /// families that `wanted` takes. The next save keeps them.
    ///
    /// # Errors
    ///
    /// [`RecordError`] if the file cannot be read, is refused, or is for another machine or build.
    pub fn load_from(
        &self,
        path: &Path,
        fingerprint: &Fingerprint,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<LoadReport, RecordError> {
        let unreadable = |why| RecordError::Unreadable { path: path.to_owned(), why };
        let folder = Folder::new(path.parent().unwrap_or(Path::new("")));
        let source = folder.read(path, frame::MOST_BYTES)?.ok_or_else(|| unreadable("there is no such file"))?;
        let (taken, read) = self.core.merge_all(source, State::New, fingerprint.digest(), wanted);
        let mut contents = self.core.lock();
        match read {
            Ok((_, frames)) => {
                contents.stats.loaded += frames.sound;
                contents.stats.rejected_checksum += frames.damaged;
                drop(contents);
                if taken > 0 {
                    self.wake();
                }
                Ok(LoadReport { sound: frames.sound, taken, damaged: frames.damaged })
            }
            Err(ReadError::Rejected(rejected)) => {
                contents.count(rejected);
                Err(unreadable(rejected.why()))
            }
            Err(ReadError::Io(source)) => {
                contents.stats.rejected_io += 1;
                Err(RecordError::Io { what: "read", path: path.to_owned(), source })
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // The file first, which must get all new records in any case; then the records still to be put.
        if let Some(writer) = &self.writer {
            writer.finish();
        }
        self.remote_worker = None;
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("mode", &self.mode()).field("path", &self.path()).finish_non_exhaustive()
    }
}
