//! What the threads of a store share: its records, the file that they belong to, and how that file is read.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::RecordError;
use super::arena::Arena;
use super::contents::Contents;
use super::entry::State;
use super::folder::{self, Folder, MOST_SHARDS, Source};
use super::frame::{self, Frames, Header, ReadError, Rejected};
use super::image::Image;
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

    /// Reads the file and its shards, once, when the store is opened.
    pub(super) fn load(&self) {
        let Some(place) = &self.place else { return };
        let names = match place.folder.list() {
            Ok(names) => names,
            Err(error) => return self.trouble(&error),
        };
        // Shards are opened before the file: one that goes away meanwhile is in the file already.
        let shards: Vec<PathBuf> = place.folder.shards(&place.stem, &names).into_iter().take(MOST_SHARDS).collect();
        let opened: Vec<_> = shards.iter().map(|path| place.folder.read(path, frame::MOST_BYTES)).collect();
        self.lock().heal |= !shards.is_empty();
        let own = place.folder.file_of(&place.stem);
        let fingerprint = place.header.fingerprint;
        if !self.adopt(&place.folder, &own, fingerprint) {
            let taken = place.folder.read(&own, frame::MOST_BYTES);
            self.count_loaded(taken.and_then(|source| self.take_from(source, &own, fingerprint, State::Saved)));
        }
        for (path, source) in shards.iter().zip(opened) {
            self.count_loaded(source.and_then(|source| self.take_from(source, path, fingerprint, State::New)));
        }
        let known = |name: &str| own.file_name().is_some_and(|own| own == name);
        let others = names.iter().filter(|name| name.ends_with(folder::SUFFIX) && !known(name));
        self.lock().stats.rejected_fingerprint += others.count() as u64;
    }

    /// Takes the file as it is, if nothing came before it and it is of this build's schema. Where not, it is read frame
    /// by frame, which also says what is wrong.
    fn adopt(&self, folder: &Folder, path: &Path, fingerprint: [u8; 32]) -> bool {
        let Ok(Some(source)) = folder.read(path, frame::MOST_BYTES) else { return false };
        let length = usize::try_from(source.length).unwrap_or(usize::MAX);
        let Ok(Some(image)) = Image::read(source, length, fingerprint) else { return false };
        let mut contents = self.lock();
        let (sound, damaged) = (image.sound(), image.damaged);
        let adopted = contents.adopt(image);
        if adopted {
            contents.stats.loaded += sound;
            contents.count_damaged(path, Frames { sound, damaged });
            contents.heal |= damaged > 0;
        }
        adopted
    }

    /// Counts the records of a file, or that it could not be read.
    fn count_loaded(&self, taken: Result<Taken, RecordError>) {
        match taken {
            Ok(Taken::Read(_, frames)) => self.lock().stats.loaded += frames.sound,
            Ok(Taken::Absent | Taken::Rejected) => {}
            Err(error) => self.trouble(&error),
        }
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
        self.take_from(folder.read(path, most)?, path, fingerprint, state)
    }

    /// The same, of a file that is open, if there was one.
    fn take_from(
        &self,
        source: Option<Source>,
        path: &Path,
        fingerprint: [u8; 32],
        state: State,
    ) -> Result<Taken, RecordError> {
        let Some(source) = source else { return Ok(Taken::Absent) };
        let (taken, read) = self.merge_all(source, state, fingerprint, |_| true);
        let mut contents = self.lock();
        match read {
            Ok((header, frames)) => {
                contents.count_damaged(path, frames);
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

    /// Merges the better records of a file, of the families for which `wanted` is true; returns how many were taken.
    /// They are merged in batches, so that no look-up waits for a disk.
    pub(super) fn merge_all(
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
