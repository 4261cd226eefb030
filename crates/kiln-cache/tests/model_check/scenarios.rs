//! The operations of threads on a cache, and the facts that must hold in every order.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::thread;

use crate::cache::{Built, Cache, CacheError, Key, Limits, Outcome};

/// Hashes alike in each run, so that a schedule can be repeated.
type Fixed = BuildHasherDefault<DefaultHasher>;

/// A number, and the action of its builder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "number", value = Live)]
pub(crate) struct Number {
    pub of: u32,
}

/// A number that is counted while it lives.
pub(crate) struct Live {
    of: u32,
    alive: Arc<AtomicUsize>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Context {
    cache: Cache<Fixed>,
    alive: Arc<AtomicUsize>,
    builds: AtomicUsize,
}

const THREADS: u32 = 8;

/// Two shards, so that threads remember entries.
fn context(entries: usize) -> Arc<Context> {
    let cache = Cache::with_shards(Limits { entries, bytes: 1000 }, Fixed::default(), 2);
    Arc::new(Context { cache, alive: Arc::default(), builds: AtomicUsize::new(0) })
}

fn built(of: u32, cx: &Context) -> Built<Live> {
    cx.builds.fetch_add(1, Ordering::SeqCst);
    cx.alive.fetch_add(1, Ordering::SeqCst);
    Built { value: Live { of, alive: Arc::clone(&cx.alive) }, bytes: 1, from_record: false }
}

fn slowly(key: &Number, cx: &Context) -> Result<Built<Live>, String> {
    thread::yield_now();
    Ok(built(key.of, cx))
}

/// Runs `work(thread)` on all threads and waits for them.
fn together(cx: &Arc<Context>, work: fn(u32, &Context)) {
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let cx = Arc::clone(cx);
            thread::spawn(move || work(number, &cx))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Every look-up is counted once, and exactly the stored values live.
fn adds_up(cx: &Context) {
    let stats = cx.cache.stats();
    assert_eq!(stats.lookups, stats.hits + stats.misses + stats.waits, "{stats:?}");
    assert_eq!((stats.entries, stats.bytes), (cx.cache.len() as u64, cx.cache.bytes() as u64));
    assert_eq!(cx.alive.load(Ordering::SeqCst), cx.cache.len(), "values live that are not stored");
    cx.cache.clear();
    assert_eq!((cx.alive.load(Ordering::SeqCst), cx.cache.len(), cx.cache.bytes()), (0, 0, 0));
}

pub(crate) fn each_key_is_built_once() {
    let cx = context(100);
    together(&cx, |thread, cx| {
        for of in [thread % 2, 0, 1, 0] {
            assert_eq!(cx.cache.get_or_create(&Number { of }, cx, slowly).unwrap().0.of, of);
        }
    });
    assert_eq!(cx.builds.load(Ordering::SeqCst), 2);
    assert_eq!(cx.cache.stats().lookups, u64::from(THREADS) * 4);
    adds_up(&cx);
}

pub(crate) fn the_bound_holds_and_values_go() {
    let cx = context(2);
    together(&cx, |thread, cx| {
        for step in 0..3 {
            let of = (thread + step) % 4;
            let (value, _) = cx.cache.get_or_create(&Number { of }, cx, slowly).unwrap();
            assert!(cx.cache.len() <= 2);
            // A value in use stays whole when another thread evicts it.
            thread::yield_now();
            assert_eq!(value.of, of);
        }
    });
    adds_up(&cx);
}

pub(crate) fn failures_and_circles_end() {
    /// 0 and 1 need each other, 2 fails, others are built.
    fn needy(key: &Number, cx: &Context) -> Result<Built<Live>, String> {
        match key.of {
            0 | 1 => match cx.cache.get_or_create(&Number { of: 1 - key.of }, cx, needy) {
                Ok(_) => Ok(built(key.of, cx)),
                Err(CacheError::Reentrant { .. }) => Err("a circle".to_owned()),
                Err(CacheError::Build(error)) => Err(error),
            },
            2 => Err("two".to_owned()),
            _ => slowly(key, cx),
        }
    }
    let cx = context(100);
    together(&cx, |thread, cx| {
        for of in [thread % 4, 3] {
            let answer = cx.cache.get_or_create(&Number { of }, cx, needy);
            match of {
                // The first key of a circle always fails: none of its values can be built.
                0 | 1 => assert!(matches!(answer, Err(CacheError::Build(error)) if error == "a circle")),
                2 => assert!(matches!(answer, Err(CacheError::Build(error)) if error == "two")),
                _ => assert_eq!(answer.unwrap().0.of, of),
            }
        }
    });
    adds_up(&cx);
}

/// A value that keeps a [`Number`]'s alive.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "around", value = Arc<Live>)]
pub(crate) struct Around {
    pub of: u32,
}

pub(crate) fn what_one_cache_keeps_of_another_is_charged() {
    fn around(key: &Around, cx: &Context) -> Result<Built<Arc<Live>>, String> {
        let (value, _) =
            cx.cache.get_or_create(&Number { of: key.of }, cx, slowly).map_err(|error| error.to_string())?;
        Ok(Built { value, bytes: 1, from_record: false })
    }
    const BYTES: usize = 5;
    let cache = Cache::with_shards(Limits { entries: 100, bytes: BYTES }, Fixed::default(), 2);
    let cx = Arc::new(Context { cache, alive: Arc::default(), builds: AtomicUsize::new(0) });
    let outer = Arc::new(Cache::charged_to(cx.cache.account(), Limits { entries: 100, bytes: 100 }));
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let (cx, outer) = (Arc::clone(&cx), Arc::clone(&outer));
            thread::spawn(move || {
                for step in 0..3 {
                    let of = (thread + step) % 6;
                    let (value, _) = outer.get_or_create(&Around { of }, &*cx, around).unwrap();
                    thread::yield_now();
                    assert_eq!(value.of, of);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let account = Arc::clone(cx.cache.account());
    // Every living value is stored in one of the two caches, or held by a stored value.
    assert!(cx.alive.load(Ordering::SeqCst) <= BYTES && account.bytes() <= BYTES, "{account:?}");
    assert_eq!(outer.len() + cx.alive.load(Ordering::SeqCst), account.bytes(), "{account:?}");
    drop(outer);
    adds_up(&cx);
    assert_eq!(account.bytes(), 0);
}

pub(crate) fn what_is_remembered_is_never_stale() {
    let cx = context(100);
    together(&cx, |thread, cx| {
        let key = Number { of: 7 };
        match thread {
            0 => {
                // Only this thread writes, so it finds the value that it has put, until another thread clears.
                for version in [10, 20] {
                    cx.cache.put(&key, built(version, cx));
                    thread::yield_now();
                    if let Some(found) = cx.cache.get(&key) {
                        assert!([version, 7].contains(&found.of), "{} after {version}", found.of);
                    }
                }
            }
            1 => cx.cache.clear(),
            _ => {
                for _ in 0..3 {
                    let (value, outcome) = cx.cache.get_or_create(&key, cx, slowly).unwrap();
                    assert!([7, 10, 20].contains(&value.of));
                    assert!(outcome != Outcome::Miss || value.of == 7);
                }
            }
        }
    });
    adds_up(&cx);
}

pub(crate) fn what_is_held_stays_and_nothing_else() {
    let cx = context(2);
    together(&cx, |thread, cx| {
        let key = Number { of: thread % 3 };
        for step in 0..3 {
            let (held, _) = cx.cache.hold(&key, cx, slowly).unwrap();
            // Meanwhile others evict it, or clear, or put another value in its place.
            match (thread, step) {
                (0, 1) => cx.cache.clear(),
                (1, 1) => cx.cache.put(&key, built(11, cx)),
                _ => thread::yield_now(),
            }
            assert!(held.of == key.of || (held.of == 11 && key.of == 1));
            if step == 2 {
                let kept = held.into_arc();
                thread::yield_now();
                assert!(kept.of == key.of || (kept.of == 11 && key.of == 1));
            }
        }
    });
    adds_up(&cx);
}
