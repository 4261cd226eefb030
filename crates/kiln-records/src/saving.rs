//! Saving a store: under the file's lock, merged with the saves of other processes; or as a shard, where others hold
//! the lock all the time. Either way the caller learns the true result, and the old file stays whole until the new one
//! is complete.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::PoisonError;

use super::RecordError;
use super::contents::Contents;
use super::entry::{Kept, State};
use super::folder::{Lock, MOST_SHARDS, WAITED_MS};
use super::frame;
use super::shared::{Core, Place, Taken};
use crate::warning::warning;

/// The longest shard: a process finds far less between two saves.
const SHARD_BYTES: usize = 4 << 20;

/// The result of a save.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaveReport {
    /// The file, if it was written.
    pub path: Option<PathBuf>,
    /// Records in the file.
    pub written: u64,
    /// Records in the file that came from other processes' saves.
    pub merged: u64,
    /// The file's length.
    pub bytes: u64,
    /// Whether the file is a shard, because another process held the lock.
    pub shard: bool,
}

impl Core {
    pub(super) fn save(&self) -> Result<SaveReport, RecordError> {
        let Some(place) = self.place.as_ref().filter(|_| self.path().is_some() && self.origin.is_here()) else {
            return Ok(SaveReport::default());
        };
        let _one_at_a_time = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let contents = self.lock();
            if !contents.has_news() && !contents.heal {
                return Ok(SaveReport::default());
            }
        }
        place.folder.make()?;
        let report = match place.folder.lock(&place.stem)? {
            Some(lock) => self.save_file(place, &lock)?,
            None => self.save_shard(place)?,
        };
        let mut contents = self.lock();
        contents.stats.saved += report.written;
        contents.stats.merged += report.merged;
        contents.stats.shards += u64::from(report.shard);
        Ok(report)
    }

    fn save_file(&self, place: &Place, lock: &Lock) -> Result<SaveReport, RecordError> {
        let Place { folder, stem, header, .. } = place;
        let names = folder.list()?;
        folder.clear(lock, stem, &names);
        let (mut merged, mut done) = (0, Vec::new());
        for shard in folder.shards(stem, &names).into_iter().take(MOST_SHARDS) {
            // A shard that is refused or unreadable stays, and costs no more than this check.
            match self.take_over(folder, &shard, header.fingerprint, State::New, SHARD_BYTES) {
                Ok(Taken::Read(taken, _)) => {
                    merged += taken;
                    done.push(shard);
                }
                Ok(Taken::Rejected) => done.push(shard),
                Ok(Taken::Absent) => {}
                Err(error) => warning!(%error, "a shard of records is not used"),
            }
        }
        let path = folder.file_of(stem);
        // A file that cannot be read must not be overwritten: its records would be lost.
        if let Taken::Read(taken, _) =
            self.take_over(folder, &path, header.fingerprint, State::Saved, frame::MOST_BYTES)?
        {
            merged += taken;
        }
        let (bytes, written) = self.snapshot(place, |_| true, frame::MOST_BYTES);
        let replaced = folder.replace(lock, stem, &bytes);
        let mut contents = self.lock();
        contents.end(replaced.is_ok());
        let path = replaced?;
        contents.heal = false;
        drop(contents);
        done.iter().for_each(|shard| folder.remove(shard));
        Ok(SaveReport { path: Some(path), written, merged, bytes: bytes.len() as u64, shard: false })
    }

    fn save_shard(&self, place: &Place) -> Result<SaveReport, RecordError> {
        let Place { folder, stem, .. } = place;
        let locked = || RecordError::Locked { path: folder.path().join(format!("{stem}.lock")), waited_ms: WAITED_MS };
        let others = folder.shards(stem, &folder.list()?).len();
        if others >= MOST_SHARDS || !self.lock().has_news() {
            return Err(locked());
        }
        let new = |kept: &Kept<&[u8]>| kept.state == State::Writing;
        if self.lock().iter().filter(|kept| kept.state == State::New).map(|kept| frame::room(&kept)).sum::<usize>()
            > SHARD_BYTES / 2
        {
            return Err(locked());
        }
        let (bytes, written) = self.snapshot(place, new, SHARD_BYTES);
        let added = folder.add_shard(stem, &bytes);
        self.lock().end(added.is_ok());
        Ok(SaveReport { path: Some(added?), written, merged: 0, bytes: bytes.len() as u64, shard: true })
    }

    /// Begins a save: returns the bytes of a file with the records that `wanted` takes, and their number.
    fn snapshot(&self, place: &Place, wanted: impl Fn(&Kept<&[u8]>) -> bool, most: usize) -> (Vec<u8>, u64) {
        let mut contents = self.lock();
        contents.begin();
        lay_out(&mut contents, place, wanted, most)
    }

    /// The bytes of a file with all records, or as many as fit.
    pub(super) fn image(&self, place: &Place, most: usize) -> Vec<u8> {
        lay_out(&mut self.lock(), place, |_| true, most).0
    }
}

/// The bytes of a file with the records that `wanted` takes, in order of family and key, so that equal contents give
/// equal files. If a file may not hold all, the best proven records are taken.
fn lay_out(
    contents: &mut Contents,
    place: &Place,
    wanted: impl Fn(&Kept<&[u8]>) -> bool,
    most: usize,
) -> (Vec<u8>, u64) {
    let mut records: Vec<Kept<&[u8]>> = contents.iter().filter(|kept| wanted(kept)).collect();
    let mut room: usize = records.iter().map(frame::room).sum();
    if room > most - frame::FRAMELESS {
        records.sort_by_cached_key(|kept| Reverse(kept.claim().map(|claim| claim.rank())));
        let mut left = most - frame::FRAMELESS;
        records.retain(|kept| {
            let fits = frame::room(kept) <= left;
            left -= if fits { frame::room(kept) } else { 0 };
            fits
        });
        room = most - frame::FRAMELESS - left;
    }
    records.sort_unstable_by(|a, b| a.name().cmp(b.name()));
    let bytes = frame::write(place.header, records.iter().map(|kept| kept.bytes()), room);
    (bytes, records.len() as u64)
}
