//! Every operation on the file system fails once, or from then on, in every possible way. Loading goes on without
//! records, saving reports the truth, an existing file stays whole, and memory keeps new records.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;

use super::disk::{Fs, Open, System};
use super::folder::Folder;
use super::store::Store;
use super::{CacheMode, Evidence, EvidenceKind, Fingerprint, Record};

/// A way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The operation is not done.
    Error(Errno),
    /// Half of the bytes are written.
    ShortWrite,
    /// One byte is read.
    ShortRead,
    /// The file gets its new name, and an error is returned all the same.
    RenameDone,
}

const ERRORS: [Errno; 8] =
    [Errno::NOSPC, Errno::IO, Errno::INTR, Errno::DQUOT, Errno::ROFS, Errno::ACCESS, Errno::MFILE, Errno::NOENT];

/// The real file system with one failing operation.
struct Faulty {
    fault: Fault,
    /// The operation that fails, counted from 1 over the operations that can fail in this way.
    at: u64,
    /// Whether all later operations fail too.
    forever: bool,
    done: AtomicU64,
    /// Whether anything may fail at all.
    armed: AtomicBool,
}

impl Faulty {
    fn strikes(&self) -> bool {
        if !self.armed.load(Ordering::Relaxed) {
            return false;
        }
        let now = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        now == self.at || (self.forever && now > self.at)
    }

    fn gate(&self) -> io::Result<()> {
        match self.fault {
            Fault::Error(error) if self.strikes() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl Fs for Faulty {
    fn open(&self, how: Open, path: &Path) -> io::Result<File> {
        self.gate().and_then(|()| System.open(how, path))
    }

    fn metadata(&self, file: &File) -> io::Result<Metadata> {
        self.gate().and_then(|()| System.metadata(file))
    }

    fn read(&self, file: &mut File, into: &mut [u8]) -> io::Result<usize> {
        self.gate()?;
        let most = if self.fault == Fault::ShortRead && self.strikes() { into.len().min(1) } else { into.len() };
        System.read(file, &mut into[..most])
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        self.gate()?;
        let short = self.fault == Fault::ShortWrite && bytes.len() > 1 && self.strikes();
        System.write(file, if short { &bytes[..bytes.len() / 2] } else { bytes })
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.gate().and_then(|()| System.sync(file))
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        self.gate().and_then(|()| System.try_lock(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.gate()?;
        System.rename(from, to)?;
        if self.fault == Fault::RenameDone && self.strikes() { Err(Errno::IO.into()) } else { Ok(()) }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.gate().and_then(|()| System.remove(path))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.gate().and_then(|()| System.list(folder))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.gate().and_then(|()| System.make_folder(path))
    }
}

fn fingerprint() -> Fingerprint {
    Fingerprint::from_facts([("machine", "that fails")])
}

fn record(number: u8) -> Record {
    let evidence = Evidence { kind: EvidenceKind::Measured, nanos: 9, samples: 3, created: 5, against: 0 };
    Record { family: "fault".to_owned(), revision: 1, key: vec![number, 0, 0, 7], choice: vec![number], evidence }
}

fn on(fs: Arc<dyn Fs>, path: &Path) -> Store {
    Store::on(Folder::on(fs, path), fingerprint().digits(), &fingerprint(), CacheMode::ReadWrite)
}

fn holds(store: &Store, number: u8) -> bool {
    store.list().contains(&record(number))
}

/// Runs one load and save with that fault; returns whether the fault happened.
fn survive(fault: Fault, at: u64, forever: bool, busy: bool) -> bool {
    let what = format!(
        "{fault:?} at {at}{}{}",
        if forever { " and ever after" } else { "" },
        if busy { ", locked" } else { "" }
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let before = on(Arc::new(System), path);
    for number in [0, 1] {
        assert!(before.insert_record(&record(number)));
    }
    before.save().unwrap();
    let lock = File::open(path.join(format!("{}.lock", fingerprint().digits()))).unwrap();
    if busy {
        lock.lock().unwrap();
    }

    let faulty = Arc::new(Faulty { fault, at, forever, done: AtomicU64::new(0), armed: AtomicBool::new(true) });
    let store = on(faulty.clone(), path);
    assert!(store.insert_record(&record(5)));
    let saved = store.save();
    assert!(holds(&store, 5), "{what}: memory keeps what is new");
    let struck = faulty.done.load(Ordering::Relaxed) >= at;

    let seen = on(Arc::new(System), path);
    assert_eq!((seen.stats().rejected_checksum, seen.stats().rejected_magic), (0, 0), "{what}: every state is whole");
    assert!(holds(&seen, 0) && holds(&seen, 1), "{what}: nothing that was saved is lost");
    match &saved {
        Ok(report) => assert!(report.path.is_some() && holds(&seen, 5), "{what}: what is said to be saved is there"),
        Err(error) => assert!(!error.to_string().is_empty() && struck, "{what}: {error}"),
    }
    drop(lock);
    faulty.armed.store(false, Ordering::Relaxed);
    // A new record, so that there is something to save whatever was saved before.
    assert!(store.insert_record(&record(6)));
    store.save().unwrap_or_else(|error| panic!("{what}: the trouble is over, and yet: {error}"));
    let after = on(Arc::new(System), path);
    for number in [0, 1, 5, 6] {
        assert!(holds(&after, number), "{what}: record {number} after the trouble");
    }
    let names = System.list(path).unwrap();
    assert_eq!(names.len(), 2, "{what}: the file and its lock are all that is left: {names:?}");
    struck
}

fn every_operation(fault: Fault, busy: bool) {
    for forever in [false, true] {
        let mut struck = 0;
        while survive(fault, struck + 1, forever, busy) {
            struck += 1;
        }
        assert!(struck >= 1, "{fault:?} never came about");
    }
}

#[test]
fn every_operation_may_fail_with_every_error_once_or_for_ever() {
    for error in ERRORS {
        every_operation(Fault::Error(error), false);
    }
}

#[test]
fn short_reads_and_writes_and_renames_that_lie_change_nothing() {
    for fault in [Fault::ShortWrite, Fault::ShortRead, Fault::RenameDone] {
        every_operation(fault, false);
    }
}

#[test]
fn a_shard_fails_as_honestly_as_a_file() {
    for fault in [Fault::Error(Errno::NOSPC), Fault::RenameDone] {
        every_operation(fault, true);
    }
}
