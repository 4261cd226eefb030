//! Savers that do not get the lock write shards, which are not lost and not trusted.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln_records::{RecordError, inspect_folder};

use crate::fixture::{fingerprint, folder, known, measured, open, problem, saved, tile};

/// Holds the lock of a folder's file, as another process would.
fn hold(folder: &Path) -> File {
    let path = folder.join(format!("{}.lock", fingerprint().digits()));
    let lock = File::options().create(true).truncate(false).write(true).open(path).unwrap();
    lock.lock().unwrap();
    lock
}

fn shards(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "shard")).collect()
}

#[test]
fn a_save_without_the_lock_writes_what_is_new_to_a_shard_and_the_next_one_merges_it() {
    let (folder, path, before) = saved(2);
    let lock = hold(folder.path());
    let store = open(folder.path());
    store.insert(&problem(2), &tile(2), measured(1));
    let started = Instant::now();
    let report = store.save().unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!((report.shard, report.written, report.merged), (true, 1, 0));
    let name = report.path.unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with(&format!("{}.{}.", fingerprint().digits(), std::process::id())), "{name}");
    assert_eq!(std::fs::read(&path).unwrap(), before, "the file is another's to write");
    assert_eq!((store.save().unwrap().path, store.stats().shards), (None, 1), "nothing is new any more");

    let reader = open(folder.path());
    assert_eq!(known(&reader, 3), 3, "readers neither wait for the lock nor miss the shard");
    drop(lock);
    let report = reader.save().unwrap();
    assert_eq!((report.shard, report.written), (false, 3), "the shard alone is a reason to save");
    assert!(shards(folder.path()).is_empty());
    assert_eq!(known(&open(folder.path()), 3), 3);
}

#[test]
fn shards_of_others_are_merged_by_evidence() {
    let folder = folder();
    let (one, two) = (open(folder.path()), open(folder.path()));
    one.insert(&problem(1), &tile(1), measured(9));
    two.insert(&problem(1), &tile(99), measured(5));
    let lock = hold(folder.path());
    assert!(one.save().unwrap().shard && two.save().unwrap().shard);
    assert_eq!(shards(folder.path()).len(), 2);
    drop(lock);
    let last = open(folder.path());
    last.save().unwrap();
    assert_eq!((known(&open(folder.path()), 2), shards(folder.path()).len()), (1, 0));
}

#[test]
fn there_are_never_more_than_64_shards() {
    let folder = folder();
    let store = open(folder.path());
    let lock = hold(folder.path());
    for number in 0..64 {
        store.insert(&problem(number), &tile(number as u8), measured(1));
        assert!(store.save().unwrap().shard);
    }
    store.insert(&problem(64), &tile(64), measured(1));
    assert!(matches!(store.save(), Err(RecordError::Locked { .. })), "and what is new stays in memory");
    assert_eq!(shards(folder.path()).len(), 64);
    drop(lock);
    assert_eq!(store.save().unwrap().written, 65);
    assert_eq!((known(&open(folder.path()), 65), shards(folder.path()).len()), (65, 0));
}

#[test]
fn a_hostile_shard_is_treated_as_any_file() {
    let (folder, _, bytes) = saved(2);
    let shard = |pid: u32| folder.path().join(format!("{}.{pid}.00ff.shard", fingerprint().digits()));
    let outside = crate::fixture::folder();
    let victim = outside.path().join("victim");
    std::fs::write(&victim, &bytes).unwrap();
    std::os::unix::fs::symlink(&victim, shard(1)).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, shard(2), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    std::fs::create_dir(shard(3)).unwrap();
    File::create(shard(4)).unwrap().set_len(1 << 40).unwrap();
    std::fs::write(shard(5), b"no record file").unwrap();
    let mut damaged = bytes.clone();
    damaged[70] ^= 1;
    std::fs::write(shard(6), damaged).unwrap();

    let started = Instant::now();
    let store = open(folder.path());
    assert_eq!(known(&store, 2), 2);
    let stats = store.stats();
    assert_eq!((stats.rejected_io, stats.rejected_magic, stats.rejected_checksum), (4, 1, 1));
    store.insert(&problem(2), &tile(2), measured(1));
    store.save().unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "nothing blocks");
    assert_eq!(known(&open(folder.path()), 3), 3);
    assert_eq!(shards(folder.path()).len(), 4, "what could be read is done with, what is refused is left alone");
    assert_eq!(std::fs::read(&victim).unwrap(), bytes);
}

#[test]
fn tools_see_shards() {
    let (folder, _, _) = saved(1);
    let store = open(folder.path());
    let lock = hold(folder.path());
    store.insert(&problem(7), &tile(7), measured(1));
    store.save().unwrap();
    drop(lock);
    let files = inspect_folder(folder.path()).unwrap();
    assert_eq!(files.into_iter().map(|file| file.unwrap().records.len()).sum::<usize>(), 2);
}
