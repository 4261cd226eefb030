//! The parts of a store that its threads share: its records, the file that they belong to, and reading that file.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::RecordError;
use super::arena::Arena;
use super::contents::Contents;
use super::entry::State;
use super::folder::{self, Folder, MOST_SHARDS, Source};
use super::frame::{self, Frames, Header, ReadError, Rejected};
use super::image::Image;
use super::older::Older;
use crate::warning::warning;
use kiln_fork::{Mutex, MutexGuard, Origin};

/// How a store uses its folder.
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

/// Bytes of records that are taken over under one lock, so that look-ups do not wait for a disk meanwhile.
pub(super) const BATCH: usize = 1 << 16;

/// Shards with fewer bytes in all are merged record by record: at 0.3 us each, that costs less than a table of places
/// for 100,000 records.
const FEW_BYTES: usize = 1 << 17;

/// The file that a store belongs to.
pub(super) struct Place {
    pub(super) folder: Folder,
    /// The file's name without its ending.
    pub(super) stem: String,
    pub(super) header: Header,
}

/// State that the writer's thread and the store share.
pub(super) struct Core {
    pub(super) mode: CacheMode,
    pub(super) place: Option<Place>,
    pub(super) contents: Mutex<Contents>,
    /// Held while saving, so that threads save one after the other.
    pub(super) saving: std::sync::Mutex<()>,
    /// The process that saves; a forked child leaves saving to it.
    pub(super) origin: Origin,
}

/// Takes files of that fingerprint.
pub(super) fn accepting(own: [u8; 32]) -> impl FnOnce(&Header) -> Result<(), Rejected> {
    move |header| if own == header.fingerprint { Ok(()) } else { Err(Rejected::Fingerprint) }
}

/// The result of taking over a file of the folder.
pub(super) enum Taken {
    /// There is no such file.
    Absent,
    /// The number of better records, and the state of the file's frames.
    Read(u64, Frames),
    /// It is not a record file for this store.
    Rejected,
}

/// A file that is read when the store is opened.
struct Opened<'a> {
    path: &'a Path,
    source: Result<Option<Source>, RecordError>,
    state: State,
}

impl Opened<'_> {
    fn length(&self) -> usize {
        let length = self.source.as_ref().ok().and_then(|source| source.as_ref()).map_or(0, |source| source.length);
        usize::try_from(length).unwrap_or(usize::MAX)
    }
}

/// The result of reading a file as a whole.
enum Whole {
    /// It is in the image.
    Joined(Frames),
    /// It is of an older schema.
    Older(Older),
    /// It has to be read record by record.
    No,
}

/// Reads a file of that length into the image, or aside if its schema is an older one.
fn read_whole(mut source: Source, length: usize, fingerprint: [u8; 32], image: &mut Image) -> io::Result<Whole> {
    let mut start = [0; frame::HEADER];
    let mut at = 0;
    while at < start.len() {
        match source.read(&mut start[at..])? {
            0 => return Ok(Whole::No),
            read => at += read,
        }
    }
    let Ok(header) = Header::read(&start) else { return Ok(Whole::No) };
    if header.fingerprint != fingerprint {
        return Ok(Whole::No);
    }
    let file = start.chain(source);
    Ok(if header.schema == frame::SCHEMA {
        image.add(file, length, fingerprint)?.map_or(Whole::No, Whole::Joined)
    } else {
        Older::read(file, length, &header)?.map_or(Whole::No, Whole::Older)
    })
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
        // Shards are opened before the file: a shard that disappears meanwhile is already in the file.
        let shards: Vec<PathBuf> = place.folder.shards(&place.stem, &names).into_iter().take(MOST_SHARDS).collect();
        let opened: Vec<_> = shards.iter().map(|path| place.folder.read(path, frame::MOST_BYTES)).collect();
        self.lock().heal |= !shards.is_empty();
        let own = place.folder.file_of(&place.stem);
        // The file before its shards: of equally good records, the file's counts.
        let file = Opened { path: &own, source: place.folder.read(&own, frame::MOST_BYTES), state: State::Saved };
        let beside = shards.iter().zip(opened).map(|(path, source)| Opened { path, source, state: State::New });
        self.load_files(place, std::iter::once(file).chain(beside).collect());
        let known = |name: &str| own.file_name().is_some_and(|own| own == name);
        let others = names.iter().filter(|name| name.ends_with(folder::SUFFIX) && !known(name));
        self.lock().stats.rejected_fingerprint += others.count() as u64;
    }

    /// Takes files whole: files of this build's schema as one image, files of older schemas aside. Other files, and
    /// small shards, which would put the image out of order, are merged record by record, which also reports defects.
    fn load_files(&self, place: &Place, files: Vec<Opened<'_>>) {
        let fingerprint = place.header.fingerprint;
        let lengths: Vec<usize> = files.iter().map(Opened::length).collect();
        let few = lengths.iter().skip(1).sum::<usize>() < FEW_BYTES;
        let mut room = 0;
        let fits = |(place, length): &(usize, &usize)| {
            let fits = *place == 0 || (!few && room + **length <= frame::MOST_BYTES);
            room += if fits { **length } else { 0 };
            fits
        };
        let whole = lengths.iter().enumerate().take_while(fits).count();
        let (mut image, mut older, mut read, mut rest) = (Image::with_room(room), Vec::new(), Vec::new(), Vec::new());
        for (at, (file, length)) in files.into_iter().zip(lengths).enumerate() {
            let Opened { path, source, state } = file;
            let source = match source {
                Ok(Some(source)) if at < whole => source,
                source => {
                    rest.push(Opened { path, source, state });
                    continue;
                }
            };
            match read_whole(source, length, fingerprint, &mut image) {
                Ok(Whole::Joined(frames)) => read.push((path, frames)),
                Ok(Whole::Older(file)) => older.push(file),
                Ok(Whole::No) | Err(_) => {
                    rest.push(Opened { path, source: place.folder.read(path, frame::MOST_BYTES), state });
                }
            }
        }
        let in_order = image.complete();
        let mut contents = self.lock();
        for (path, frames) in read {
            contents.stats.loaded += frames.sound;
            contents.count_damaged(path, frames);
            contents.heal |= frames.damaged > 0;
        }
        contents.stats.loaded += older.iter().map(|older| older.len() as u64).sum::<u64>();
        // The next save heals the file, and writes it in the newest schema and in order.
        contents.heal |= !in_order || !older.is_empty();
        contents.adopt(image, older);
        drop(contents);
        for Opened { path, source, state } in rest {
            self.count_loaded(source.and_then(|source| self.take_from(source, path, fingerprint, state)));
        }
    }

    /// Counts the records of a file, or the failure to read it.
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

    /// The same for an opened file, if there was one.
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

    /// Merges the better records of a file, for families for which `wanted` is true; returns how many were taken.
    /// Merging goes in batches, so that no look-up waits for a disk.
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
        // No foreign code runs under the lock, so the data is whole even after a panic.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::entry::Kept;
    use super::super::older::tests::file_of;
    use super::super::{Evidence, Fingerprint, Record, Store};
    use super::*;

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    /// A record of one of 400 problems, with random evidence that no other record has.
    fn record(state: &mut u64, problem: u64, choice: usize) -> Record {
        let evidence = Evidence { created: *state, ..Evidence::measured(9, 1 + random(state) as u32 % 1000) };
        let choice = (0..choice).map(|_| 1 + random(state) as u8 % 255).collect();
        let family = ["conv", "request"][problem as usize % 2].to_owned();
        Record { family, revision: 1, key: problem.to_le_bytes().to_vec(), choice, evidence }
    }

    /// A store on a folder with these files, where all but the first are shards, and the number of its records that
    /// were copied.
    fn opened(files: &[(u16, &[Record])]) -> (tempfile::TempDir, Store, usize) {
        let folder = tempfile::tempdir().unwrap();
        let fingerprint = fingerprint();
        for (at, (schema, records)) in files.iter().enumerate() {
            let end = if at == 0 { folder::SUFFIX.to_owned() } else { format!(".{at}.00ff{}", folder::SHARD) };
            let path = folder.path().join(fingerprint.digits() + &end);
            std::fs::write(path, file_of(*schema, fingerprint.digest(), records)).unwrap();
        }
        let store = Store::open(folder.path(), &fingerprint, CacheMode::ReadWrite);
        let copied = store.core().lock().copied();
        (folder, store, copied)
    }

    #[test]
    fn files_in_any_order_of_any_schema_and_long_shards_are_not_copied() {
        let mut state = 1;
        let mut ordered: Vec<Record> = (0..400).map(|problem| record(&mut state, problem, 1000)).collect();
        ordered.sort_by_key(|record| Kept::of_record(record, State::Saved).unwrap().name().to_vec());
        let reversed: Vec<Record> = ordered.iter().rev().cloned().collect();
        let cases: [&[(u16, &[Record])]; 6] = [
            &[(3, &ordered)],
            &[(3, &reversed)],
            &[(1, &ordered)],
            &[(2, &reversed)],
            &[(3, &ordered[..1]), (3, &ordered), (3, &reversed)],
            &[(2, &ordered[..200]), (2, &reversed[..200])],
        ];
        for (case, files) in cases.into_iter().enumerate() {
            let (_folder, store, copied) = opened(files);
            let (stats, all) = (store.stats(), files.iter().map(|(_, records)| records.len() as u64).sum::<u64>());
            assert_eq!((copied, stats.loaded, stats.records), (0, all, 400), "case {case}");
            let request = |record: &Record| record.family == "request" && record.key.starts_with(&[5]);
            let wanted: Vec<&Record> = ordered.iter().filter(|record| request(record)).collect();
            let found =
                store.core().lock().of_family("request", &[5], 400).filter(|kept| kept.key_begins(&[5])).count();
            assert_eq!(found, wanted.len(), "case {case}");
            let older = files.iter().any(|(schema, _)| *schema < 3);
            assert_eq!(store.core().lock().copied(), if older { found } else { 0 }, "case {case}: and no others");
            assert_eq!(store.core().lock().of_family("request", &[], 7).count(), 7);
            assert!(store.core().lock().copied() <= found + 7, "case {case}: and no more");
            let report = store.save();
            let written = report.unwrap().written;
            assert_eq!(written, if case == 0 { 0 } else { 400 }, "case {case}: put in order once");
            let again = Store::open(store.path().unwrap().parent().unwrap(), &fingerprint(), CacheMode::ReadWrite);
            assert_eq!((again.save().unwrap().written, again.stats().records), (0, 400), "case {case}");
        }
    }

    fn fingerprint() -> Fingerprint {
        Fingerprint::from_facts([("machine", "of the tests")])
    }

    /// Whatever the files are, the best record of each problem counts.
    #[test]
    fn files_of_all_kinds_together_give_the_best_record_of_each_problem() {
        let mut state = 3;
        for round in 0..60 {
            let mut files = Vec::new();
            for _ in 0..1 + random(&mut state) % 4 {
                // Some files have few records, so that they are merged record by record.
                let (count, choice) = [(3, 10), (100, 10), (200, 1500)][random(&mut state) as usize % 3];
                let mut problems: Vec<u64> = (0..400).collect();
                for place in (1..problems.len()).rev() {
                    problems.swap(place, random(&mut state) as usize % (place + 1));
                }
                problems.truncate(count);
                if random(&mut state).is_multiple_of(2) {
                    problems.sort_unstable();
                }
                let records: Vec<Record> =
                    problems.into_iter().map(|problem| record(&mut state, problem, choice)).collect();
                files.push((1 + random(&mut state) as u16 % 3, records));
            }
            let mut best: BTreeMap<(String, Vec<u8>), Record> = BTreeMap::new();
            for record in files.iter().flat_map(|(_, records)| records) {
                let known = best.entry((record.family.clone(), record.key.clone())).or_insert_with(|| record.clone());
                if record.evidence.beats(&known.evidence) {
                    *known = record.clone();
                }
            }
            let files: Vec<(u16, &[Record])> =
                files.iter().map(|(schema, records)| (*schema, records.as_slice())).collect();
            let (folder, store, _) = opened(&files);
            // One record is looked up before, and one is refused.
            let looked_up = best.values().next().unwrap().clone();
            let name = |record: &Record| Kept::of_record(record, State::Saved).unwrap().name().to_vec();
            let found = store.core().lock().find(&name(&looked_up)).and_then(|kept| kept.to_record());
            assert!(found.as_ref() == Some(&looked_up), "round {round}");
            // Another choice for that problem would come back from another file.
            let all = || files.iter().flat_map(|(_, records)| records.iter());
            let once = |wanted: &Record| all().filter(|record| record.key == wanted.key).count() == 1;
            if let Some(refused) = best.values().find(|record| once(record)).cloned() {
                store.core().lock().refuse(&name(&refused));
                best.remove(&(refused.family, refused.key));
            }
            let best: Vec<Record> = best.into_values().collect();
            assert!(store.list() == best, "round {round}");
            assert_eq!(store.save().unwrap().written as usize, best.len(), "round {round}");
            let again = Store::open(folder.path(), &fingerprint(), CacheMode::ReadWrite);
            assert!(again.list() == best && again.save().unwrap().written == 0, "round {round}");
        }
    }
}
