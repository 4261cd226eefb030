//! Builders and waiters in parallel. A watchdog turns a deadlock into a failure.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Once, mpsc};
use std::time::Duration;

use kiln_cache::{Built, Cache, CacheError, Key, Limits, Outcome};

use crate::fixture::{Context, Cube, Hashing, Refused, Square, square, with_every_hasher};

with_every_hasher!(
    sixty_four_threads_build_one_key_once,
    waiters_of_a_failed_build_try_for_themselves,
    waiters_of_a_panicking_build_try_for_themselves,
    two_threads_that_need_each_others_keys_end_in_an_error,
    a_storm_of_everything_adds_up,
    eviction_under_use_keeps_values_whole,
    what_threads_remember_is_counted_and_let_go,
    what_is_held_is_counted_and_outlives_its_entry_and_no_more,
);

/// Longer than any of these tests takes on a busy machine; a deadlock takes for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a test on a thread of its own and fails if it does not end.
fn within_patience(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    match ended.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("deadlock"),
        _ => thread.join().unwrap(),
    }
}

fn sixty_four_threads_build_one_key_once<S: Hashing>() {
    within_patience(|| {
        let rounds = 200_u32;
        let cx = Context::<S>::new(1000, usize::MAX);
        let (barrier, misses) = (Barrier::new(64), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    for of in 0..rounds {
                        barrier.wait();
                        let (value, outcome) = cx.cache.get_or_create(&Square { of }, &cx, square).unwrap();
                        assert_eq!(*value, u64::from(of).pow(2));
                        misses.fetch_add(usize::from(outcome == Outcome::Miss), Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!((cx.builds(), misses.into_inner()), (rounds as usize, rounds as usize));
        let stats = cx.cache.stats();
        assert_eq!(stats.lookups, u64::from(rounds) * 64);
        assert_eq!(stats.lookups, stats.hits + stats.misses + stats.waits);
    });
}

/// How the first build ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Error,
    Panic,
}

/// The context of a builder that lets others arrive and then ends badly, once.
struct Trap<S> {
    cx: Context<S>,
    sprung: AtomicBool,
    end: End,
}

fn trap<S: Hashing>(key: &Square, trap: &Trap<S>) -> Result<Built<u64>, Refused> {
    if trap.sprung.swap(true, Ordering::SeqCst) {
        return square(key, &trap.cx);
    }
    std::thread::sleep(Duration::from_millis(30));
    match trap.end {
        End::Error => Err(Refused(key.of)),
        End::Panic => panic!("{EXPECTED}"),
    }
}

/// The message of panics that belong to a test.
const EXPECTED: &str = "expected by the test";

/// Keeps expected panics out of the output.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload_as_str() != Some(EXPECTED) {
                usual(info);
            }
        }));
    });
}

fn a_bad_end_harms_its_caller_alone<S: Hashing>(end: End) {
    hush();
    within_patience(move || {
        let set = Trap { cx: Context::<S>::new(16, 1000), sprung: AtomicBool::new(false), end };
        let failed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let look_up = || set.cx.cache.get_or_create(&Square { of: 5 }, &set, trap);
                    let ended = match catch_unwind(AssertUnwindSafe(look_up)) {
                        Ok(Ok((value, _))) => return assert_eq!(*value, 25),
                        Ok(Err(error)) => {
                            assert_eq!(error, CacheError::Build(Refused(5)));
                            End::Error
                        }
                        Err(_) => End::Panic,
                    };
                    assert_eq!(ended, end);
                    failed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!((failed.into_inner(), set.cx.builds()), (1, 1));
        let stats = set.cx.cache.stats();
        assert_eq!((stats.failures, stats.lookups), (1, 8));
    });
}

fn waiters_of_a_failed_build_try_for_themselves<S: Hashing>() {
    a_bad_end_harms_its_caller_alone::<S>(End::Error);
}

fn waiters_of_a_panicking_build_try_for_themselves<S: Hashing>() {
    a_bad_end_harms_its_caller_alone::<S>(End::Panic);
}

/// The context of two builders that meet half-way and then ask for each other's key.
struct Crossing<S> {
    cx: Context<S>,
    meet: Barrier,
}

const ONE: Built<u64> = Built { value: 1, bytes: 1, from_record: false };

fn cross_square<S: Hashing>(key: &Square, crossing: &Crossing<S>) -> Result<Built<u64>, String> {
    crossing.meet.wait();
    let cube = crossing.cx.cache.get_or_create(&Cube { of: key.of }, crossing, |_, _| Ok::<_, String>(ONE));
    cube.map(|_| ONE).map_err(|error| error.to_string())
}

fn cross_cube<S: Hashing>(key: &Cube, crossing: &Crossing<S>) -> Result<Built<u64>, String> {
    crossing.meet.wait();
    let square = crossing.cx.cache.get_or_create(&Square { of: key.of }, crossing, |_, _| Ok::<_, String>(ONE));
    square.map(|_| ONE).map_err(|error| error.to_string())
}

fn two_threads_that_need_each_others_keys_end_in_an_error<S: Hashing>() {
    within_patience(|| {
        for of in 0..50 {
            let crossing = Crossing { cx: Context::<S>::new(16, 1000), meet: Barrier::new(2) };
            let (left, right) = std::thread::scope(|scope| {
                let left = scope.spawn(|| crossing.cx.cache.get_or_create(&Square { of }, &crossing, cross_square));
                let right = scope.spawn(|| crossing.cx.cache.get_or_create(&Cube { of }, &crossing, cross_cube));
                (left.join().unwrap(), right.join().unwrap())
            });
            // One of the two closes the circle and gets the error; the other then builds the key that it was waiting
            // for.
            assert!(left.is_ok() != right.is_ok(), "{left:?} {right:?}");
            assert_eq!(crossing.cx.cache.stats().failures, 2, "the look-up that closed the circle, and its builder");
        }
    });
}

/// A step of the storm: see [`storm_build`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "step", value = u32)]
pub(crate) struct Step {
    pub id: u32,
}

fn storm_build<S: Hashing>(key: &Step, cx: &Context<S>) -> Result<Built<u32>, Refused> {
    cx.builds.fetch_add(1, Ordering::SeqCst);
    match key.id % 16 {
        0 => return Err(Refused(key.id)),
        1 => panic!("{EXPECTED}"),
        2 => std::thread::sleep(Duration::from_micros(50)),
        // Nested look-ups in both directions, so that threads wait for each other in circles.
        3..=6 => drop(cx.cache.get_or_create(&Step { id: key.id.wrapping_mul(7) % 64 }, cx, storm_build)),
        7 => cx.cache.clear(),
        _ => {}
    }
    Ok(Built { value: key.id, bytes: key.id as usize, from_record: key.id.is_multiple_of(3) })
}

fn a_storm_of_everything_adds_up<S: Hashing>() {
    hush();
    within_patience(|| {
        let cx = Context::<S>::new(20, 500);
        std::thread::scope(|scope| {
            for thread in 1..=16_u32 {
                let cx = &cx;
                scope.spawn(move || {
                    let mut random = thread.wrapping_mul(0x9E37_79B9);
                    for _ in 0..2000 {
                        random ^= random << 13;
                        random ^= random >> 17;
                        random ^= random << 5;
                        let id = random % 64;
                        let look_up = || cx.cache.get_or_create(&Step { id }, cx, storm_build);
                        if let Ok(Ok((value, _))) = catch_unwind(AssertUnwindSafe(look_up)) {
                            assert_eq!(*value, id);
                        }
                        assert!(cx.cache.len() <= 20 && cx.cache.bytes() <= 500, "the bound holds at every moment");
                    }
                });
            }
        });
        let stats = cx.cache.stats();
        assert_eq!(stats.lookups, stats.hits + stats.misses + stats.waits);
        assert_eq!((stats.entries, stats.bytes), (cx.cache.len() as u64, cx.cache.bytes() as u64));
        assert!(stats.builds <= cx.builds() as u64);
        cx.cache.clear();
        assert_eq!((cx.cache.len(), cx.cache.bytes()), (0, 0));
    });
}

/// A table filled with one number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "table", value = Vec<u32>)]
pub(crate) struct Table {
    pub fill: u32,
}

fn eviction_under_use_keeps_values_whole<S: Hashing>() {
    fn table(key: &Table, (): &()) -> Result<Built<Vec<u32>>, Refused> {
        Ok(Built { value: vec![key.fill; 256], bytes: 1024, from_record: false })
    }
    within_patience(|| {
        let cache = Cache::with_hasher(Limits { entries: 4, bytes: usize::MAX }, S::default());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    for round in 0..2000 {
                        let fill = (round * (thread + 1)) % 13;
                        let (table, _) = cache.get_or_create(&Table { fill }, &(), table).unwrap();
                        assert!(table.iter().all(|value| *value == fill));
                    }
                });
            }
        });
        assert!(cache.len() <= 4);
    });
}

fn what_threads_remember_is_counted_and_let_go<S: Hashing>() {
    within_patience(|| {
        let cx = Context::<S>::new(512, usize::MAX);
        let ask = |of| cx.cache.get_or_create(&Square { of }, &cx, square).unwrap();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        (0..10).for_each(|_| (0..100).for_each(|of| assert_eq!(*ask(of).0, u64::from(of).pow(2))));
                    });
                }
            });
        }
        let stats = cx.cache.stats();
        assert_eq!((stats.lookups, stats.builds, cx.builds()), (3 * 4 * 10 * 100, 100, 100));
        assert_eq!(stats.lookups, stats.hits + stats.misses + stats.waits);
        // This thread remembers a value that then goes, in each of three ways.
        let weak = |of| std::sync::Arc::downgrade(&ask(of).0);
        for of in [1, 1, 2, 2, 3, 3] {
            ask(of);
        }
        let [replaced, evicted, cleared] = [1, 2, 3].map(weak);
        cx.cache.put(&Square { of: 1 }, Built { value: 11, bytes: 10, from_record: false });
        assert!(replaced.upgrade().is_none());
        assert_eq!((*ask(1).0, ask(1).1), (11, Outcome::Hit));
        (1000..1600).for_each(|of| drop(ask(of)));
        assert!(evicted.upgrade().is_none() && cleared.upgrade().is_none());
        assert_eq!(ask(2).1, Outcome::Miss);
        let cleared = weak(2);
        cx.cache.clear();
        assert!(cleared.upgrade().is_none());
        assert_eq!(ask(2).1, Outcome::Miss);
    });
}

fn what_is_held_is_counted_and_outlives_its_entry_and_no_more<S: Hashing>() {
    within_patience(|| {
        let cx = Context::<S>::new(512, usize::MAX);
        let hold = |of| cx.cache.hold(&Square { of }, &cx, square).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..10).for_each(|_| (0..100).for_each(|of| assert_eq!(*hold(of).0, u64::from(of).pow(2))));
                });
            }
        });
        let stats = cx.cache.stats();
        assert_eq!((stats.lookups, stats.builds, cx.builds()), (4 * 10 * 100, 100, 100));
        assert_eq!(stats.lookups, stats.hits + stats.misses + stats.waits);
        // First from the shard, which opens this thread's lane, then from the thread's memory.
        (0..2).for_each(|_| (1..4).for_each(|of| assert_eq!(hold(of).1, Outcome::Hit)));
        let held = [1, 2, 3].map(|of| hold(of).0);
        let weak = [1, 2, 3].map(|of| std::sync::Arc::downgrade(&hold(of).0.into_arc()));
        // The three ways to go.
        cx.cache.put(&Square { of: 1 }, Built { value: 11, bytes: 10, from_record: false });
        assert_eq!((*hold(1).0, hold(1).1, *held[0]), (11, Outcome::Hit, 1), "who holds the old one keeps it");
        (1000..1600).for_each(|of| drop(hold(of)));
        cx.cache.clear();
        assert_eq!(hold(2).1, Outcome::Miss);
        assert_eq!(held.each_ref().map(|held| **held), [1, 4, 9]);
        assert!(weak.iter().all(|weak| weak.strong_count() > 0));
        drop(held);
        assert!(weak.iter().all(|weak| weak.strong_count() == 0), "lanes keep nothing without a holder");
    });
}
