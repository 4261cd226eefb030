//! Files that are cut, flipped, hostile, or not files at all.
//!
//! The rule is the same for all: no panic, no wait, no wrong record; sound records before the damage are used; what is
//! wrong is counted; and the process goes on, with records in memory.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln::record::{RecordError, inspect_file};

use crate::fixture::{fingerprint, folder, known, measured, open, problem, saved, tile};

/// Lengths of the parts of a file.
const HEADER: usize = 64;
const FOOTER: usize = 12;

/// Where the frames of a sound file start, and where the last one ends.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let mut at = HEADER;
    let mut starts = vec![at];
    while at < bytes.len() - FOOTER {
        at += 8 + u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        starts.push(at);
    }
    starts
}

#[test]
fn a_file_cut_anywhere_gives_the_records_before_the_cut() {
    let (folder, path, bytes) = saved(3);
    let ends: Vec<usize> = frames(&bytes)[1..].to_vec();
    for cut in 0..bytes.len() {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let store = open(folder.path());
        let whole = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(usize::from(known(&store, 3)), whole, "cut at {cut}");
        let stats = store.stats();
        assert_eq!((stats.rejected_checksum, stats.rejected_magic), (1, 0), "cut at {cut}");
    }
}

#[test]
fn a_file_with_any_bit_flipped_never_gives_a_wrong_record() {
    let (folder, path, bytes) = saved(3);
    let starts = frames(&bytes);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &flipped).unwrap();
        let store = open(folder.path());
        let found = known(&store, 3);
        let stats = store.stats();
        let rejected =
            stats.rejected_checksum + stats.rejected_magic + stats.rejected_version + stats.rejected_fingerprint;
        assert!(rejected >= 1, "bit {bit} is noticed");
        match starts.iter().rposition(|start| *start <= bit / 8) {
            None => assert_eq!(found, 0, "bit {bit}: the header is not trusted any more"),
            Some(3) => assert_eq!(found, 3, "bit {bit}: the footer costs no record"),
            Some(_) if (bit / 8 - starts.iter().rev().find(|start| **start <= bit / 8).unwrap()) >= 4 => {
                assert_eq!(found, 2, "bit {bit}: the damaged record alone is lost");
            }
            Some(damaged) => assert!(usize::from(found) >= damaged, "bit {bit}: those before a lost length are found"),
        }
    }
}

#[test]
fn the_next_save_heals_a_damaged_file() {
    let (folder, path, mut bytes) = saved(4);
    bytes[HEADER + 20] ^= 0xFF;
    std::fs::write(&path, &bytes).unwrap();
    let store = open(folder.path());
    assert_eq!(known(&store, 4), 3);
    assert_eq!(store.save().unwrap().written, 3);
    assert_eq!(inspect_file(&path).unwrap().damaged, 0);
    assert_eq!(open(folder.path()).stats().rejected_checksum, 0);
}

#[test]
fn files_of_other_kinds_are_counted_by_what_is_wrong() {
    let (folder, path, bytes) = saved(1);
    let with = |at: usize, value: u8| {
        let mut changed = bytes.clone();
        changed[at] = value;
        changed
    };
    let table: [(&str, Vec<u8>, [u64; 4]); 6] = [
        ("text", b"hello".to_vec(), [1, 0, 0, 0]),
        ("empty", Vec::new(), [0, 0, 0, 1]),
        ("a later schema", with(8, 3), [0, 1, 0, 0]),
        ("another codec", with(10, 9), [0, 1, 0, 0]),
        ("a damaged fingerprint", with(20, !bytes[20]), [0, 0, 0, 1]),
        ("reserved bytes in use", with(12, 1), [0, 0, 0, 1]),
    ];
    for (what, content, expected) in table {
        std::fs::write(&path, content).unwrap();
        let stats = open(folder.path()).stats();
        let counted =
            [stats.rejected_magic, stats.rejected_version, stats.rejected_fingerprint, stats.rejected_checksum];
        assert_eq!(counted, expected, "{what}");
        assert!(inspect_file(&path).is_err(), "{what}");
    }
}

/// A frame with a right checksum around any payload.
fn frame(length: u32, payload: &[u8]) -> Vec<u8> {
    let checksum = crc32fast::hash(&[&length.to_le_bytes()[..], payload].concat());
    [&length.to_le_bytes()[..], &checksum.to_le_bytes(), payload].concat()
}

#[test]
fn hostile_lengths_cost_neither_memory_nor_time() {
    let (folder, path, bytes) = saved(1);
    let started = Instant::now();
    for length in [0, 1, 4095, 4096, 4097, (1 << 31) - 1, u32::MAX - 1, u32::MAX] {
        let hostile = [&bytes[..HEADER], &frame(length, &[0; 100])[..]].concat();
        std::fs::write(&path, hostile).unwrap();
        assert_eq!(known(&open(folder.path()), 1), 0, "a frame of {length} bytes");
    }
    for length in [0, 1, 100, 4095, 4097, 1 << 31, u64::from(u32::MAX), 1 << 63, u64::MAX] {
        // The payload starts with the length of the family's name.
        let payload = [&length.to_le_bytes()[..], &[b'x'; 100]].concat();
        let hostile = [&bytes[..HEADER], &frame(108, &payload)[..]].concat();
        std::fs::write(&path, hostile).unwrap();
        let store = open(folder.path());
        assert_eq!((known(&store, 1), store.stats().rejected_checksum), (0, 1), "a name of {length} bytes");
    }
    assert!(started.elapsed() < Duration::from_secs(5));
}

/// Runs a check on a folder that something has been done to, and demands that the process is not stopped by it.
fn refused(what: &str, saves: bool, prepare: impl FnOnce(&Path, &PathBuf)) {
    let (folder, path, bytes) = saved(2);
    let outside = crate::fixture::folder();
    let bystander = outside.path().join("bystander");
    std::fs::write(&bystander, &bytes).unwrap();
    std::fs::remove_file(&path).unwrap();
    prepare(&path, &bystander);
    let started = Instant::now();
    let store = open(folder.path());
    assert_eq!((known(&store, 2), store.stats().rejected_io), (0, 1), "{what}");
    store.insert(&problem(9), &tile(9), measured(1));
    assert_eq!(store.lookup(&problem(9)), Some(tile(9)), "{what}: memory goes on");
    let saved = store.save();
    assert_eq!(saved.is_ok(), saves, "{what}: {saved:?}");
    assert!(matches!(saved, Ok(_) | Err(RecordError::Refused { .. })), "{what}: {saved:?}");
    assert!(started.elapsed() < Duration::from_secs(1), "{what} does not block");
    assert_eq!(std::fs::read(&bystander).unwrap(), bytes, "{what}: nothing outside is written");
}

#[test]
fn what_stands_in_the_files_place_is_refused_without_blocking() {
    refused("a symbolic link", false, |path, target| std::os::unix::fs::symlink(target, path).unwrap());
    refused("a dangling link", false, |path, _| std::os::unix::fs::symlink("/nonexistent/x", path).unwrap());
    refused("a hard link", false, |path, target| {
        // Links do not cross file systems; both folders are in the same temporary folder.
        std::fs::hard_link(target, path).unwrap();
    });
    refused("a folder", false, |path, _| std::fs::create_dir(path).unwrap());
    refused("a FIFO", false, |path, _| {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    });
    refused("a socket", false, |path, _| drop(std::os::unix::net::UnixListener::bind(path).unwrap()));
    refused("a file that others may write", false, |path, target| {
        std::fs::copy(target, path).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
    });
    refused("a file of a tebibyte", false, |path, _| File::create(path).unwrap().set_len(1 << 40).unwrap());
}

#[test]
fn a_folder_that_others_may_write_is_refused() {
    let (folder, _, _) = saved(2);
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let store = open(folder.path());
    assert_eq!((known(&store, 2), store.stats().rejected_io), (0, 1));
    store.insert(&problem(9), &tile(9), measured(1));
    let error = store.save().unwrap_err();
    assert!(error.to_string().contains("chmod"), "{error}");
}

#[test]
fn a_folder_that_is_a_link_or_a_file_is_refused() {
    let (folder, _, _) = saved(2);
    let outer = crate::fixture::folder();
    let (link, file) = (outer.path().join("link"), outer.path().join("file"));
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();
    std::fs::write(&file, b"").unwrap();
    for path in [link, file] {
        let store = open(&path);
        assert_eq!((known(&store, 2), store.stats().rejected_io), (0, 1), "{}", path.display());
        store.insert(&problem(9), &tile(9), measured(1));
        assert!(matches!(store.save(), Err(RecordError::Refused { .. })), "{}", path.display());
    }
}

#[test]
fn a_lock_that_is_a_link_is_refused() {
    let folder = folder();
    let outside = folder.path().join("victim");
    std::os::unix::fs::symlink(&outside, folder.path().join(format!("{}.lock", fingerprint().digits()))).unwrap();
    let store = open(folder.path());
    store.insert(&problem(1), &tile(1), measured(1));
    assert!(matches!(store.save(), Err(RecordError::Refused { .. })));
    assert!(!outside.exists(), "nothing is created through it");
}

#[test]
fn a_folder_removed_meanwhile_is_made_again() {
    let (folder, path, _) = saved(2);
    let store = open(folder.path());
    std::fs::remove_dir_all(folder.path()).unwrap();
    store.insert(&problem(2), &tile(2), measured(1));
    assert_eq!(store.save().unwrap().written, 3);
    assert!(path.exists());
}
