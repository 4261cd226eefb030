//! Saving in the background: when results have settled, at the end, and never on the threads that compute.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use kiln_records::{CacheMode, Pace, Store};

use crate::fixture::{fingerprint, folder, known, measured, open, problem, tile};

const NEVER: Duration = Duration::from_secs(3600);

fn paced(folder: &std::path::Path, quiet: Duration, longest: Duration) -> Store {
    open(folder).with_writer(Pace { quiet, longest })
}

/// Waits until a newly opened store knows `count` problems.
fn await_saved(folder: &std::path::Path, count: u8) {
    let started = Instant::now();
    while known(&open(folder), count) < count {
        assert!(started.elapsed() < Duration::from_secs(30), "nothing was saved");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_has_settled_is_saved_without_being_asked() {
    let folder = folder();
    let store = paced(folder.path(), Duration::from_millis(20), NEVER);
    for number in 0..5 {
        store.insert(&problem(number), &tile(number as u8), measured(1));
    }
    await_saved(folder.path(), 5);
    // Again, by the same thread.
    store.insert(&problem(5), &tile(5), measured(1));
    await_saved(folder.path(), 6);
    assert!(store.stats().saved >= 5, "and counted, by the first of the two saves");
}

#[test]
fn a_thread_that_was_started_ahead_saves_what_comes_or_nothing() {
    let folder = folder();
    let store = paced(folder.path(), Duration::from_millis(20), NEVER);
    store.expect();
    store.expect();
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(store.stats().saved, 0);
    store.insert(&problem(0), &tile(0), measured(1));
    await_saved(folder.path(), 1);
    // A view has no writer, and a store that is dropped ends a thread that has had nothing to do.
    let idle = std::sync::Arc::new(paced(folder.path(), NEVER, NEVER));
    idle.ahead_of_need().expect();
    idle.expect();
    drop(idle);
}

#[test]
fn what_never_settles_is_saved_all_the_same() {
    let folder = folder();
    let store = paced(folder.path(), NEVER, Duration::from_millis(50));
    store.insert(&problem(0), &tile(0), measured(1));
    let started = Instant::now();
    let mut number = 1;
    while known(&open(folder.path()), 1) == 0 {
        assert!(started.elapsed() < Duration::from_secs(30), "nothing was saved");
        store.insert(&problem(number), &tile(number as u8), measured(1));
        number += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_end_of_a_store_saves_what_has_not_settled() {
    let folder = folder();
    let store = paced(folder.path(), NEVER, NEVER);
    store.insert(&problem(0), &tile(0), measured(1));
    assert_eq!(known(&open(folder.path()), 1), 0);
    let started = Instant::now();
    drop(store);
    assert!(started.elapsed() < Duration::from_secs(10), "the thread ends at once");
    assert_eq!(known(&open(folder.path()), 1), 1);
}

#[test]
fn inserting_does_not_wait_for_a_save() {
    let folder = folder();
    let store = paced(folder.path(), Duration::from_millis(1), Duration::from_millis(1));
    let mut longest = Duration::ZERO;
    for number in 0..2000 {
        let started = Instant::now();
        store.insert(&problem(number), &tile(number as u8), measured(1));
        longest = longest.max(started.elapsed());
    }
    println!("the longest of 2000 insertions took {longest:?}");
    assert!(longest < Duration::from_secs(1), "{longest:?}");
}

#[test]
fn a_save_that_fails_is_counted_and_tried_again() {
    let folder = folder();
    let store = paced(folder.path(), Duration::from_millis(5), Duration::from_millis(20));
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    store.insert(&problem(0), &tile(0), measured(1));
    let started = Instant::now();
    while store.stats().failed_saves < 2 {
        assert!(started.elapsed() < Duration::from_secs(30), "no save failed");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(store.lookup(&problem(0)), Some(tile(0)));
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
    await_saved(folder.path(), 1);
}

#[test]
fn a_store_that_does_not_save_has_no_writer() {
    let folder = folder();
    let store = Store::open(folder.path(), &fingerprint(), CacheMode::Read)
        .with_writer(Pace { quiet: Duration::ZERO, longest: Duration::ZERO });
    store.insert(&problem(0), &tile(0), measured(1));
    std::thread::sleep(Duration::from_millis(50));
    drop(store);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
