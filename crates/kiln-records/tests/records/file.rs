//! Saving, loading and sharing.

use std::os::unix::fs::PermissionsExt;
use std::sync::Barrier;

use kiln_records::{CacheMode, Evidence, Fingerprint, Store, inspect_folder};

use crate::fixture::{fingerprint, folder, known, measured, open, problem, saved, tile};

#[test]
fn the_next_process_finds_what_this_one_saved() {
    let (folder, path, _) = saved(5);
    let store = open(folder.path());
    assert_eq!((known(&store, 9), store.stats().loaded), (5, 5));
    assert_eq!(path.file_name().unwrap().to_str().unwrap(), format!("{}.kiln", fingerprint().digits()));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for this user alone");
}

#[test]
fn a_folder_is_made_when_it_is_needed_and_not_before() {
    let parent = folder();
    let nested = parent.path().join("a/b");
    let store = open(&nested);
    assert_eq!(store.stats().rejected_io, 0, "no folder is no trouble");
    assert_eq!(store.save().unwrap().path, None, "nothing is new");
    assert!(!nested.exists());
    store.insert(&problem(1), &tile(1), measured(1));
    store.save().unwrap();
    assert_eq!(std::fs::metadata(&nested).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn saving_twice_writes_once() {
    let folder = folder();
    let store = open(folder.path());
    store.insert(&problem(1), &tile(1), measured(1));
    let report = store.save().unwrap();
    assert_eq!((report.written, report.merged), (1, 0));
    assert_eq!(report.bytes, std::fs::metadata(report.path.unwrap()).unwrap().len());
    assert_eq!(store.save().unwrap().path, None);
    store.insert(&problem(1), &tile(1), measured(1));
    assert_eq!(store.save().unwrap().path, None, "the same again is nothing new");
    assert_eq!(open(folder.path()).save().unwrap().path, None, "nor is what was loaded");
    assert_eq!(store.stats().saved, 1);
}

#[test]
fn equal_records_are_equal_files_whatever_the_order() {
    let files = [[1, 2, 3], [3, 1, 2]].map(|order| {
        let folder = folder();
        let store = open(folder.path());
        for number in order {
            store.insert(&problem(number), &tile(number as u8), measured(1));
        }
        std::fs::read(store.save().unwrap().path.unwrap()).unwrap()
    });
    assert_eq!(files[0], files[1]);
}

#[test]
fn a_mode_says_whether_to_load_and_to_save() {
    for (mode, loads, saves) in [
        (CacheMode::Off, false, false),
        (CacheMode::Memory, false, false),
        (CacheMode::Read, true, false),
        (CacheMode::ReadWrite, true, true),
    ] {
        let (folder, path, before) = saved(2);
        let store = Store::open(folder.path(), &fingerprint(), mode);
        assert_eq!(known(&store, 2) == 2, loads, "{mode:?}");
        store.insert(&problem(9), &tile(9), measured(1));
        assert_eq!(store.save().unwrap().path.is_some(), saves, "{mode:?}");
        assert_eq!(std::fs::read(&path).unwrap() != before, saves, "{mode:?}");
    }
}

#[test]
fn modes_have_names() {
    for (mode, name) in CacheMode::ALL {
        assert_eq!(CacheMode::from_name(name), Some(mode));
    }
    assert_eq!(CacheMode::from_name("readwrite"), None);
}

#[test]
fn another_machines_file_is_a_miss_with_a_counter() {
    let (folder, path, _) = saved(3);
    let other = Fingerprint::from_facts([("machine", "another")]);
    let store = Store::open(folder.path(), &other, CacheMode::ReadWrite);
    assert_eq!((known(&store, 3), store.stats().rejected_fingerprint), (0, 1));
    // Not even under the other file's name.
    std::fs::rename(&path, folder.path().join(format!("{}.kiln", other.digits()))).unwrap();
    let store = Store::open(folder.path(), &other, CacheMode::ReadWrite);
    assert_eq!((known(&store, 3), store.stats().rejected_fingerprint), (0, 1));
    store.insert(&problem(0), &tile(0), measured(1));
    store.save().unwrap();
    assert_eq!(known(&Store::open(folder.path(), &other, CacheMode::Read), 3), 1, "and is replaced when there is news");
}

#[test]
fn machines_share_a_folder_without_touching_each_other() {
    let (folder, path, before) = saved(3);
    let other = Store::open(folder.path(), &Fingerprint::from_facts([("machine", "another")]), CacheMode::ReadWrite);
    other.insert(&problem(7), &tile(7), measured(1));
    assert_ne!(other.save().unwrap().path.unwrap(), path);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let summaries = inspect_folder(folder.path()).unwrap();
    let mut counts: Vec<usize> = summaries.into_iter().map(|summary| summary.unwrap().records.len()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 3]);
}

#[test]
fn two_stores_that_save_to_one_file_merge() {
    let folder = folder();
    let (one, two) = (open(folder.path()), open(folder.path()));
    one.insert(&problem(0), &tile(0), measured(1));
    one.insert(&problem(1), &tile(1), measured(9));
    two.insert(&problem(1), &tile(99), measured(5));
    two.insert(&problem(2), &tile(2), measured(1));
    one.save().unwrap();
    let report = two.save().unwrap();
    assert_eq!((report.written, report.merged), (3, 2), "the better proven choice for 1 came from the file");
    assert_eq!(known(&two, 3), 3);
    assert_eq!(known(&open(folder.path()), 3), 3);
}

#[test]
fn a_rejected_choice_does_not_come_back_from_the_file() {
    let (folder, _, _) = saved(2);
    let store = open(folder.path());
    store.reject(&problem(0));
    store.insert(&problem(0), &tile(50), Evidence::model());
    store.reject(&problem(1));
    store.save().unwrap();
    let next = open(folder.path());
    assert_eq!((next.lookup(&problem(0)), next.lookup(&problem(1))), (Some(tile(50)), None));
}

#[test]
fn many_threads_and_stores_lose_nothing() {
    let folder = folder();
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for worker in 0..8_u8 {
            let (folder, barrier) = (folder.path(), &barrier);
            scope.spawn(move || {
                let store = open(folder);
                barrier.wait();
                for round in 0..4 {
                    let number = worker * 4 + round;
                    store.insert(&problem(number.into()), &tile(number), measured(1));
                    store.save().unwrap();
                }
            });
        }
    });
    let last = open(folder.path());
    assert_eq!(known(&last, 32), 32);
    // A process that waited too long for the lock has left a shard, which the next save takes in.
    last.insert(&problem(99), &tile(99), measured(1));
    last.save().unwrap();
    assert_eq!(known(&open(folder.path()), 32), 32);
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "the file and its lock: {names:?}");
}

#[test]
fn threads_may_use_one_store_while_it_saves() {
    let folder = folder();
    let store = open(folder.path());
    std::thread::scope(|scope| {
        for worker in 0..4_u8 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..8 {
                    let number = worker * 8 + round;
                    store.insert(&problem(number.into()), &tile(number), measured(1));
                    store.save().unwrap();
                    assert_eq!(store.lookup(&problem(number.into())), Some(tile(number)));
                }
            });
        }
    });
    assert_eq!(known(&open(folder.path()), 32), 32);
}

#[test]
fn what_a_killed_process_left_behind_is_cleared_by_the_next_save() {
    let (folder, _, _) = saved(1);
    let digits = fingerprint().digits();
    let left_over = folder.path().join(format!(".{digits}.abc123.tmp"));
    let foreign = folder.path().join(".0123.abc123.tmp");
    // No process has that number: it is above the system's limit.
    let part = folder.path().join(format!(".{digits}.999999999.abc.part"));
    let living = folder.path().join(format!(".{digits}.{}.abc.part", std::process::id()));
    for path in [&left_over, &foreign, &part, &living] {
        std::fs::write(path, b"half a file").unwrap();
    }
    let store = open(folder.path());
    store.insert(&problem(5), &tile(5), measured(1));
    store.save().unwrap();
    assert!(!left_over.exists() && !part.exists());
    assert!(foreign.exists(), "another file's temporary file may be in use");
    assert!(living.exists(), "and so may a shard that a living process is writing");
}
