//! The store: records in memory by family and key, loaded from one file and saved to it.
//!
//! Looking up and inserting never touch the file system and never fail. Opening reads the file once; `saving` writes it,
//! now or by `writer`, and merges with what other processes have saved meanwhile. What a record means is for the families
//! to know; the store keeps bytes.

use std::cmp::Reverse;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, Weak};

use serde::Serialize;

use super::arena::Arena;
use super::contents::{Contents, StoreStats};
use super::entry::{Kept, Name, State};
use super::folder::{self, Folder, Source};
use super::frame::{self, Frames, Header, ReadError, Rejected};
use super::image::Image;
use super::remote::courier::Courier;
use super::remote::{Remote, RemotePolicy};
use super::saving::MOST_SHARDS;
use super::writer::{Pace, Writer};
use super::{Evidence, Fingerprint, Record, RecordError, Recorded, SaveReport, codec, packing};
use crate::warning::warning;
use kiln_fork::{Mutex, MutexGuard, Origin};

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

/// Records of so many bytes are taken over under one lock, so that look-ups do not wait for a disk meanwhile.
pub(super) const BATCH: usize = 1 << 16;

/// A key that was [asked](Store::ask) for, encoded.
#[derive(Debug)]
pub struct Asked(Result<Name, codec::CodecError>);

/// What the record of that key is found by.
fn name<K: Recorded>(key: &K) -> Result<Name, codec::CodecError> {
    Name::new(K::FAMILY, &codec::encode(key)?)
}

/// What taking over a file gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Sound records in the file.
    pub sound: u64,
    /// Those among them that were better than what the store held.
    pub taken: u64,
    /// Damaged parts that were passed over.
    pub damaged: u64,
}

/// The file that a store belongs to.
pub(super) struct Place {
    pub(super) folder: Folder,
    /// The file's name without its ending.
    pub(super) stem: String,
    pub(super) header: Header,
}

/// What the writer's thread and the store share.
pub(super) struct Core {
    pub(super) mode: CacheMode,
    pub(super) place: Option<Place>,
    pub(super) contents: Mutex<Contents>,
    /// Held while saving, so that threads save one after the other.
    pub(super) saving: std::sync::Mutex<()>,
    /// The process that saves; a forked child leaves that to it.
    pub(super) origin: Origin,
}

/// Records of many families, shared by threads, loaded from and saved to one file. See the [module](super).
pub struct Store {
    core: Arc<Core>,
    writer: Option<Arc<Writer>>,
    courier: Option<Courier>,
    complete: bool,
    ahead: bool,
    /// The store whose records these are, where this is only another way to look at them.
    whole: Option<Arc<Store>>,
}

impl Store {
    /// The records of that machine and build in that folder, which many models share. Never fails: what cannot be used
    /// is counted and logged.
    #[must_use]
    pub fn open(folder: &Path, fingerprint: &Fingerprint, mode: CacheMode) -> Store {
        Store::on(Folder::new(folder), fingerprint.digits(), fingerprint, mode)
    }

    /// The same of a file of that name, which ends in `.kiln`, whoever is meant to share it.
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

    /// The store of a file for the machine and build of that digest, whatever it is.
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

    fn with_place(place: Option<Place>, mode: CacheMode) -> Store {
        let (contents, saving, origin) = (Mutex::default(), std::sync::Mutex::default(), Origin::here());
        let core = Core { mode, place, contents, saving, origin };
        Store { core: Arc::new(core), writer: None, courier: None, complete: false, ahead: false, whole: None }
    }

    /// The same with a writer: what is new is saved by a thread of the store's own once it has settled, and at the end
    /// of the store. Without one, [`Store::save`] alone saves.
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

    /// The same with a store elsewhere behind its file, which a thread of its own talks to: what is better there is taken
    /// over, what is better here is put there unless the mode or the policy says that nothing is written. Nothing here
    /// ever waits for it but [`Store::await_remote`] and, for a bounded time, the end. To be asked for after
    /// [`Store::with_writer`], so that what comes from there is written into the file; a store without one has no other.
    #[must_use]
    pub fn with_remote(mut self, remote: Arc<dyn Remote>, policy: RemotePolicy) -> Store {
        if self.core.place.is_some() && matches!(self.mode(), CacheMode::Read | CacheMode::ReadWrite) {
            let read_only = policy.read_only || self.mode() == CacheMode::Read;
            // The courier may outlive the store, and the writer must not outlive it with him.
            let writer = self.writer.as_ref().map(Arc::downgrade);
            let news = move || {
                if let Some(writer) = writer.as_ref().and_then(Weak::upgrade) {
                    writer.wake();
                }
            };
            self.courier = Some(Courier::start(self.core.clone(), remote, RemotePolicy { read_only, ..policy }, news));
        }
        self
    }

    /// Waits for the first answer of the store elsewhere, as long as its policy says and only if there is no record yet:
    /// who has some starts with those.
    pub fn await_remote(&self) {
        if let Some(whole) = &self.whole {
            whole.await_remote();
        }
        if let Some(courier) = self.courier.as_ref().filter(|_| self.core.lock().len() == 0) {
            courier.await_answer();
        }
    }

    /// The same as one that holds every choice that will be needed: a builder that finds none is to fail instead of
    /// choosing, and what others have chosen without a record is not taken either. For deployments in which nothing may be
    /// chosen or tuned any more.
    #[must_use]
    pub fn taken_as_complete(self: &Arc<Self>) -> Arc<Store> {
        self.view(true, self.ahead)
    }

    /// The same for builders at work ahead of need: what nobody has asked for yet is not chosen for.
    #[must_use]
    pub fn ahead_of_need(self: &Arc<Self>) -> Arc<Store> {
        self.view(self.complete, true)
    }

    /// Another way to look at the same records.
    fn view(self: &Arc<Self>, complete: bool, ahead: bool) -> Arc<Store> {
        let (core, whole) = (self.core.clone(), Some(self.clone()));
        Arc::new(Store { core, writer: None, courier: None, complete, ahead, whole })
    }

    /// Whether a choice that is not here is an error.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether those who ask do so ahead of need.
    #[must_use]
    pub fn is_ahead_of_need(&self) -> bool {
        self.ahead
    }

    /// Whether a builder that finds no record may choose.
    #[must_use]
    pub fn may_choose(&self) -> bool {
        !self.complete && !self.ahead
    }

    /// What the store does with its folder.
    #[must_use]
    pub fn mode(&self) -> CacheMode {
        self.core.mode
    }

    /// What was chosen for that key, if anything was. The caller validates it and [`reject`](Store::reject)s it if it
    /// does not pass.
    pub fn lookup<K: Recorded>(&self, key: &K) -> Option<K::Choice> {
        self.lookup_with_evidence(key).map(|(choice, _)| choice)
    }

    /// The same, with what speaks for it.
    pub fn lookup_with_evidence<K: Recorded>(&self, key: &K) -> Option<(K::Choice, Evidence)> {
        self.claimed::<K>(&name::<K>(key).ok()?)
    }

    /// As [`lookup`](Store::lookup), and what a choice that is made now is to be [kept](Store::keep) by.
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

    /// Keeps what was chosen for a key, unless what is kept already has better evidence.
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

    /// Keeps a record of any family under the same rule, as tools do that have them from elsewhere. Whether its length
    /// allows that. Its choice is validated when it is looked up, as that of any file is.
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

    fn wake(&self) {
        if let Some(whole) = &self.whole {
            whole.wake();
        }
        if let Some(writer) = &self.writer {
            writer.wake();
        }
        if let Some(courier) = &self.courier {
            courier.wake();
        }
    }

    fn too_long(&self, family: &str, error: &codec::CodecError) {
        warning!(family, %error, "a choice is not kept as a record");
        self.core.lock().stats.rejected_length += 1;
    }

    /// Forgets what was chosen for a key, because it did not pass validation; it will not come back from the file.
    pub fn reject<K: Recorded>(&self, key: &K) {
        let Ok(name) = name::<K>(key) else { return };
        warning!(family = K::FAMILY, "a record's choice does not fit its key; choosing again");
        self.core.lock().refuse(name.bytes());
    }

    /// Every key of a family that has a record.
    pub fn keys<K: Recorded>(&self) -> Vec<K> {
        let contents = self.core.lock();
        let of_family = contents.of_family(K::FAMILY, &[]);
        let known = of_family.filter(|kept| kept.claim().is_some_and(|claim| claim.revision == K::REVISION));
        known.filter_map(|kept| codec::decode(&kept.key()?).ok()).collect()
    }

    /// The newest records, so many of them, of the keys whose first fields, encoded, are these; no other key is decoded.
    pub fn newest<K: Recorded>(&self, fields: &impl Serialize, most: usize) -> Vec<(K, Evidence)> {
        let Ok(fields) = codec::encode(fields) else { return Vec::new() };
        let contents = self.core.lock();
        let claimed = contents.of_family(K::FAMILY, &fields).filter_map(|kept| {
            let claim = kept.claim().filter(|claim| claim.revision == K::REVISION)?;
            Some((claim.evidence, kept))
        });
        let mut known: Vec<_> = claimed.collect();
        known.sort_by_key(|(evidence, _)| Reverse(evidence.created));
        known.truncate(most);
        known.into_iter().filter_map(|(evidence, kept)| Some((codec::decode(&kept.key()?).ok()?, evidence))).collect()
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

    /// Where the records are saved to, if they are.
    pub fn path(&self) -> Option<PathBuf> {
        self.core.path()
    }

    /// Writes what is new, together with what other processes have written since. Does nothing if nothing is new, or if
    /// the mode is not [`CacheMode::ReadWrite`]. While another process holds the lock, what is new goes to a shard beside
    /// the file instead, which readers see and the next save takes in.
    ///
    /// # Errors
    ///
    /// [`RecordError`]; the file is then what it was, and what is new stays for the next save.
    pub fn save(&self) -> Result<SaveReport, RecordError> {
        self.core.save()
    }

    /// Takes over what is better in a file for that machine and build, wherever it lies and whatever the mode; of the
    /// families only that `wanted` takes. The next save keeps it.
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
        // The file first, which must hold what is new whatever becomes of the rest; then what is still to be put.
        if let Some(writer) = &self.writer {
            writer.finish();
        }
        self.courier = None;
    }
}

/// Takes files of that fingerprint.
pub(super) fn accepting(own: [u8; 32]) -> impl FnOnce(&Header) -> Result<(), Rejected> {
    move |header| if own == header.fingerprint { Ok(()) } else { Err(Rejected::Fingerprint) }
}

/// What taking over a file of the folder came to.
pub(super) enum Taken {
    /// There is no such file.
    Absent,
    /// So many records were better, and the file was like this.
    Read(u64, Frames),
    /// It is no file of ours.
    Rejected,
}

impl Core {
    pub(super) fn path(&self) -> Option<PathBuf> {
        let place = self.place.as_ref().filter(|_| self.mode == CacheMode::ReadWrite)?;
        Some(place.folder.file_of(&place.stem))
    }

    /// Reads the file and what lies beside it, once, when the store is opened.
    fn load(&self) {
        let Some(place) = &self.place else { return };
        let names = match place.folder.list() {
            Ok(names) => names,
            Err(error) => return self.trouble(&error),
        };
        // Shards before the file: one that goes away meanwhile is in the file already.
        let shards = place.folder.shards(&place.stem, &names);
        let own = place.folder.file_of(&place.stem);
        let own_fingerprint = place.header.fingerprint;
        let mut files: Vec<(PathBuf, [u8; 32], State)> =
            shards.into_iter().take(MOST_SHARDS).map(|path| (path, own_fingerprint, State::New)).collect();
        self.lock().heal |= !files.is_empty();
        files.push((own, own_fingerprint, State::Saved));
        for (path, fingerprint, state) in &files {
            if *state == State::Saved && self.adopt(&place.folder, path, *fingerprint) {
                continue;
            }
            match self.take_over(&place.folder, path, *fingerprint, *state, frame::MOST_BYTES) {
                Ok(Taken::Read(_, frames)) => self.lock().stats.loaded += frames.sound,
                Ok(Taken::Absent | Taken::Rejected) => {}
                Err(error) => self.trouble(&error),
            }
        }
        let known = |name: &str| files.iter().any(|(path, ..)| path.file_name().is_some_and(|own| own == name));
        let others = names.iter().filter(|name| name.ends_with(folder::SUFFIX) && !known(name));
        self.lock().stats.rejected_fingerprint += others.count() as u64;
    }

    /// Takes the file as it is, if it is whole and nothing came before it. Where not, it is read for what is sound in it, which
    /// also says what is wrong.
    fn adopt(&self, folder: &Folder, path: &Path, fingerprint: [u8; 32]) -> bool {
        if self.lock().len() > 0 {
            return false;
        }
        let Ok(Some(source)) = folder.read(path, frame::MOST_BYTES) else { return false };
        let length = usize::try_from(source.length).unwrap_or(usize::MAX);
        let Ok(Some(image)) = Image::read(source, length, fingerprint) else { return false };
        let mut contents = self.lock();
        let records = image.len() as u64;
        let adopted = contents.adopt(image);
        contents.stats.loaded += if adopted { records } else { 0 };
        adopted
    }

    fn trouble(&self, error: &RecordError) {
        warning!(%error, "records are not loaded");
        self.lock().stats.rejected_io += 1;
    }

    /// Takes over the better records of a file.
    pub(super) fn take_over(
        &self,
        folder: &Folder,
        path: &Path,
        fingerprint: [u8; 32],
        state: State,
        most: usize,
    ) -> Result<Taken, RecordError> {
        let Some(source) = folder.read(path, most)? else { return Ok(Taken::Absent) };
        let (taken, read) = self.merge_all(source, state, fingerprint, |_| true);
        let mut contents = self.lock();
        match read {
            Ok((header, frames)) => {
                if frames.damaged > 0 {
                    warning!(path = %path.display(), damaged = frames.damaged, kept = frames.sound, "a record file is damaged");
                    contents.stats.rejected_checksum += frames.damaged;
                }
                // The next save heals the file, and writes it in the newest schema.
                contents.heal |= state == State::Saved && (frames.damaged > 0 || header.schema != frame::SCHEMA);
                Ok(Taken::Read(taken, frames))
            }
            Err(ReadError::Rejected(rejected)) => {
                warning!(path = %path.display(), why = rejected.why(), "a record file is not used");
                contents.count(rejected);
                Ok(Taken::Rejected)
            }
            Err(ReadError::Io(source)) => Err(RecordError::Io { what: "read", path: path.to_owned(), source }),
        }
    }

    /// Reads a file for that fingerprint and takes over its better records, of the families that `wanted` takes; how many.
    /// They are merged in batches, so that nobody who looks up waits for a disk.
    fn merge_all(
        &self,
        source: Source,
        state: State,
        fingerprint: [u8; 32],
        wanted: impl Fn(&str) -> bool,
    ) -> (u64, Result<(Header, Frames), ReadError>) {
        let (mut taken, mut batch) = (0, Arena::default());
        let mut merge = |batch: Arena| {
            let mut contents = self.lock();
            taken += batch.iter().map(|kept| u64::from(contents.merge(kept))).sum::<u64>();
        };
        let read = frame::read(source, state, accepting(fingerprint), |kept| {
            if wanted(kept.family()) {
                batch.push(kept);
            }
            if batch.held() >= BATCH {
                merge(std::mem::take(&mut batch));
            }
        });
        merge(batch);
        (taken, read)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Contents> {
        // Nothing foreign runs under the lock, so what a panicking thread leaves behind is whole.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("mode", &self.mode()).field("path", &self.path()).finish_non_exhaustive()
    }
}
