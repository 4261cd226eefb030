//! The suite that holds for one thread and for every hasher, including colliding ones.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use kiln_cache::{Built, Cache, CacheError, Key, Limits, Outcome, Stats};

use crate::fixture::{Context, Cube, Hashing, Refused, Square, cube, square, with_every_hasher};

with_every_hasher!(
    a_key_is_built_once_and_then_hit,
    keys_of_two_types_with_equal_fields_do_not_meet,
    equality_decides_among_a_thousand_keys,
    a_look_up_without_a_builder_finds_and_counts,
    zero_entries_build_and_hand_out_and_never_store,
    a_choice_from_a_record_is_a_record_hit_once,
    an_error_goes_to_the_caller_and_frees_the_slot,
    a_panic_unwinds_and_frees_the_slot,
    a_builder_may_ask_for_other_keys_of_any_type,
    a_builder_that_asks_for_its_own_key_gets_an_error,
    a_longer_way_back_to_the_own_key_is_found_too,
    the_least_recently_used_entry_goes_first,
    bytes_are_bounded_over_all_types_together,
    what_is_larger_than_the_bound_is_handed_out_and_not_stored,
    one_large_entry_pushes_out_as_many_small_ones_as_it_needs,
    what_is_in_use_survives_its_eviction,
    a_victim_may_ask_the_cache_while_it_is_dropped,
    clearing_empties_the_cache_and_keeps_the_counters,
    families_are_counted_apart,
    a_better_value_takes_the_place_of_the_old_one,
    a_value_that_is_put_is_bounded_like_any_other,
);

fn a_better_value_takes_the_place_of_the_old_one<S: Hashing>() {
    let cx = Context::<S>::new(4, 1000);
    let (old, _) = cx.cache.get_or_create(&Square { of: 7 }, &cx, square).unwrap();
    cx.cache.put(&Square { of: 7 }, Built { value: 50, bytes: 30, from_record: false });
    cx.cache.put(&Cube { of: 7 }, Built { value: 1, bytes: 5, from_record: false });
    let (new, outcome) = cx.cache.get_or_create(&Square { of: 7 }, &cx, square).unwrap();
    assert_eq!((*old, *new, outcome), (49, 50, Outcome::Hit));
    assert_eq!((cx.builds(), cx.cache.len(), cx.cache.bytes()), (1, 2, 35));
    let stats = cx.cache.stats();
    assert_eq!((stats.entries, stats.bytes, stats.builds, stats.lookups), (2, 35, 1, 2));
}

fn a_value_that_is_put_is_bounded_like_any_other<S: Hashing>() {
    let cx = Context::<S>::new(2, 100);
    for of in 0..5 {
        cx.cache.put(&Square { of }, Built { value: 0, bytes: 10, from_record: false });
        assert!(cx.cache.len() <= 2 && cx.cache.bytes() <= 20);
    }
    assert!(cx.cache.get(&Square { of: 0 }).is_none() && cx.cache.get(&Square { of: 4 }).is_some());
    cx.cache.put(&Square { of: 9 }, Built { value: 0, bytes: 101, from_record: false });
    assert!(cx.cache.get(&Square { of: 9 }).is_none(), "larger than the bound");
    let none = Context::<S>::new(0, 0);
    none.cache.put(&Square { of: 1 }, Built { value: 0, bytes: 0, from_record: false });
    assert!(none.cache.is_empty());
}

fn a_key_is_built_once_and_then_hit<S: Hashing>() {
    let cx = Context::<S>::new(16, 1000);
    for expected in [Outcome::Miss, Outcome::Hit, Outcome::Hit] {
        let (value, outcome) = cx.cache.get_or_create(&Square { of: 7 }, &cx, square).unwrap();
        assert_eq!((*value, outcome), (49, expected));
    }
    assert_eq!((cx.builds(), cx.cache.len(), cx.cache.bytes()), (1, 1, 10));
    let stats = cx.cache.stats();
    assert_eq!((stats.lookups, stats.hits, stats.misses, stats.builds), (3, 2, 1, 1));
    assert!((stats.hit_ratio() - 2.0 / 3.0).abs() < 1e-9);
}

fn keys_of_two_types_with_equal_fields_do_not_meet<S: Hashing>() {
    let cx = Context::<S>::new(16, 1000);
    for _ in 0..2 {
        assert_eq!(*cx.cache.get_or_create(&Square { of: 3 }, &cx, square).unwrap().0, 9);
        assert_eq!(*cx.cache.get_or_create(&Cube { of: 3 }, &cx, cube).unwrap().0, 27);
    }
    assert_eq!((cx.builds(), cx.cache.len()), (2, 2));
}

fn equality_decides_among_a_thousand_keys<S: Hashing>() {
    let cx = Context::<S>::new(1000, usize::MAX);
    for expected in [Outcome::Miss, Outcome::Hit] {
        for of in 0..1000 {
            let (value, outcome) = cx.cache.get_or_create(&Square { of }, &cx, square).unwrap();
            assert_eq!((*value, outcome), (u64::from(of).pow(2), expected));
        }
    }
}

fn a_look_up_without_a_builder_finds_and_counts<S: Hashing>() {
    let cx = Context::<S>::new(16, 1000);
    let key = Square { of: 5 };
    assert_eq!(cx.cache.get(&key), None);
    cx.cache.get_or_create(&key, &cx, square).unwrap();
    assert_eq!(cx.cache.get(&key).as_deref(), Some(&25));
    let stats = cx.cache.stats();
    assert_eq!((stats.lookups, stats.hits, stats.misses, stats.builds), (3, 1, 2, 1));
}

fn zero_entries_build_and_hand_out_and_never_store<S: Hashing>() {
    let cx = Context::<S>::new(0, 1000);
    for round in 1..=3 {
        let (value, outcome) = cx.cache.get_or_create(&Square { of: 4 }, &cx, square).unwrap();
        assert_eq!((*value, outcome, cx.builds()), (16, Outcome::Miss, round));
        assert_eq!((cx.cache.len(), cx.cache.bytes()), (0, 0));
    }
    assert_eq!(cx.cache.stats().evictions, 0);
}

fn a_choice_from_a_record_is_a_record_hit_once<S: Hashing>() {
    fn replay<S>(key: &Square, cx: &Context<S>) -> Result<Built<u64>, Refused> {
        Ok(Built { from_record: true, ..square(key, cx)? })
    }
    let cx = Context::<S>::new(16, 1000);
    let outcomes = [0, 1].map(|_| cx.cache.get_or_create(&Square { of: 4 }, &cx, replay).unwrap().1);
    assert_eq!(outcomes, [Outcome::RecordHit, Outcome::Hit]);
    let stats = cx.cache.stats();
    assert_eq!((stats.record_hits, stats.misses, stats.builds), (1, 1, 1));
}

fn an_error_goes_to_the_caller_and_frees_the_slot<S: Hashing>() {
    fn refuse<S>(key: &Square, _: &Context<S>) -> Result<Built<u64>, Refused> {
        Err(Refused(key.of))
    }
    let cx = Context::<S>::new(16, 1000);
    let key = Square { of: 2 };
    for _ in 0..2 {
        let answer = cx.cache.get_or_create(&key, &cx, refuse);
        assert_eq!(answer, Err(CacheError::Build(Refused(2))), "failures are not remembered");
    }
    assert_eq!(cx.cache.get_or_create(&key, &cx, square).unwrap().1, Outcome::Miss);
    let stats = cx.cache.stats();
    assert_eq!((stats.failures, stats.builds, stats.misses), (2, 1, 3));
}

fn a_panic_unwinds_and_frees_the_slot<S: Hashing>() {
    fn explode<S>(key: &Square, _: &Context<S>) -> Result<Built<u64>, Refused> {
        panic!("building {}", key.of)
    }
    let cx = Context::<S>::new(16, 1000);
    let key = Square { of: 6 };
    let panic = catch_unwind(AssertUnwindSafe(|| cx.cache.get_or_create(&key, &cx, explode))).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("building 6"));
    assert_eq!(cx.cache.stats().failures, 1);
    for (key, expected) in [(key, 36), (Square { of: 1 }, 1)] {
        assert_eq!(*cx.cache.get_or_create(&key, &cx, square).unwrap().0, expected, "nothing is poisoned");
    }
}

fn flatten<E>(error: CacheError<CacheError<E>>) -> CacheError<E> {
    match error {
        CacheError::Build(inner) => inner,
        other => other.map_build(|_| unreachable!("matched above")),
    }
}

fn a_builder_may_ask_for_other_keys_of_any_type<S: Hashing>() {
    /// The sum of all cubes up to the key: asks for the sum before it, and for its own cube.
    fn nested<S: Hashing>(key: &Square, cx: &Context<S>) -> Result<Built<u64>, CacheError<Refused>> {
        let mut sum = 0;
        if key.of > 0 {
            sum += *cx.cache.get_or_create(&Square { of: key.of - 1 }, cx, nested).map_err(flatten)?.0;
            sum += *cx.cache.get_or_create(&Cube { of: key.of }, cx, cube)?.0;
        }
        Ok(Built { value: sum, bytes: 1, from_record: false })
    }
    let cx = Context::<S>::new(64, 1000);
    let (value, outcome) = cx.cache.get_or_create(&Square { of: 4 }, &cx, nested).unwrap();
    assert_eq!((*value, outcome), (1 + 8 + 27 + 64, Outcome::Miss));
    assert_eq!(cx.cache.len(), 5 + 4);
    assert_eq!(cx.cache.get_or_create(&Square { of: 2 }, &cx, nested).unwrap().1, Outcome::Hit);
}

fn a_builder_that_asks_for_its_own_key_gets_an_error<S: Hashing>() {
    fn selfish<S: Hashing>(key: &Square, cx: &Context<S>) -> Result<Built<u64>, Refused> {
        let inner = cx.cache.get_or_create(key, cx, square);
        assert_eq!(inner, Err(CacheError::Reentrant { family: "square" }));
        square(key, cx)
    }
    for entries in [0, 16] {
        let cx = Context::<S>::new(entries, 1000);
        let (value, outcome) = cx.cache.get_or_create(&Square { of: 3 }, &cx, selfish).unwrap();
        assert_eq!((*value, outcome), (9, Outcome::Miss), "the outer build goes on");
        assert_eq!(cx.cache.stats().failures, 1);
    }
}

fn a_longer_way_back_to_the_own_key_is_found_too<S: Hashing>() {
    fn ring<S: Hashing>(key: &Square, cx: &Context<S>) -> Result<Built<u64>, CacheError<Refused>> {
        let next = Square { of: (key.of + 1) % 5 };
        cx.cache.get_or_create(&next, cx, ring).map_err(flatten)?;
        Ok(Built { value: 0, bytes: 1, from_record: false })
    }
    let cx = Context::<S>::new(16, 1000);
    let error = cx.cache.get_or_create(&Square { of: 0 }, &cx, ring).map_err(flatten).unwrap_err();
    assert_eq!(error, CacheError::Reentrant { family: "square" });
    assert!(cx.cache.is_empty());
}

fn the_least_recently_used_entry_goes_first<S: Hashing>() {
    let cx = Context::<S>::new(3, 1000);
    let ask = |of| cx.cache.get_or_create(&Square { of }, &cx, square).unwrap().1;
    for of in [1, 2, 3, 1, 4] {
        ask(of);
    }
    assert_eq!([1, 3, 4].map(|of| cx.cache.get(&Square { of }).is_some()), [true; 3]);
    assert_eq!(ask(2), Outcome::Miss, "2 was the oldest when 4 came");
    assert_eq!(cx.cache.stats().evictions, 2);
}

type Log = Arc<Mutex<Vec<u32>>>;

/// A value of a given weight that logs its name when it is dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "weight", value = Weighed)]
pub(crate) struct Weight {
    pub name: u32,
    pub bytes: u32,
}

pub(crate) struct Weighed {
    name: u32,
    log: Log,
}

impl Drop for Weighed {
    fn drop(&mut self) {
        self.log.lock().unwrap().push(self.name);
    }
}

fn weigh(key: &Weight, log: &Log) -> Result<Built<Weighed>, Refused> {
    let value = Weighed { name: key.name, log: Arc::clone(log) };
    Ok(Built { value, bytes: key.bytes as usize, from_record: false })
}

fn bytes_are_bounded_over_all_types_together<S: Hashing>() {
    let cx = Context::<S>::new(100, 45);
    for of in 0..3 {
        cx.cache.get_or_create(&Square { of }, &cx, square).unwrap();
        cx.cache.get_or_create(&Cube { of }, &cx, cube).unwrap();
        assert!(cx.cache.bytes() <= 45);
    }
    assert_eq!((cx.cache.len(), cx.cache.bytes(), cx.cache.stats().evictions), (4, 40, 2));
    assert_eq!(cx.cache.get(&Square { of: 0 }), None);
    assert_eq!(cx.cache.get(&Cube { of: 0 }), None);
}

fn what_is_larger_than_the_bound_is_handed_out_and_not_stored<S: Hashing>() {
    let cache = Cache::with_hasher(Limits { entries: 10, bytes: 100 }, S::default());
    let log = Log::default();
    cache.get_or_create(&Weight { name: 1, bytes: 60 }, &log, weigh).unwrap();
    for _ in 0..2 {
        let (value, outcome) = cache.get_or_create(&Weight { name: 2, bytes: 101 }, &log, weigh).unwrap();
        assert_eq!((value.name, outcome), (2, Outcome::Miss));
    }
    assert_eq!((cache.len(), cache.bytes()), (1, 60), "and nothing was evicted for it");
    cache.get_or_create(&Weight { name: 3, bytes: 100 }, &log, weigh).unwrap();
    assert_eq!((cache.len(), cache.bytes()), (1, 100), "what fits exactly is stored");
}

fn one_large_entry_pushes_out_as_many_small_ones_as_it_needs<S: Hashing>() {
    let cache = Cache::with_hasher(Limits { entries: 10, bytes: 100 }, S::default());
    let log = Log::default();
    for name in 0..5 {
        cache.get_or_create(&Weight { name, bytes: 20 }, &log, weigh).unwrap();
    }
    cache.get_or_create(&Weight { name: 9, bytes: 50 }, &log, weigh).unwrap();
    assert_eq!(*log.lock().unwrap(), [0, 1, 2], "the oldest first, and no more than needed");
    assert_eq!((cache.len(), cache.bytes()), (3, 90));
}

fn what_is_in_use_survives_its_eviction<S: Hashing>() {
    let cache = Cache::with_hasher(Limits { entries: 1, bytes: 100 }, S::default());
    let log = Log::default();
    let (used, _) = cache.get_or_create(&Weight { name: 1, bytes: 1 }, &log, weigh).unwrap();
    let (_, outcome) = cache.get_or_create(&Weight { name: 2, bytes: 1 }, &log, weigh).unwrap();
    assert_eq!((outcome, cache.len(), used.name), (Outcome::Miss, 1, 1));
    assert!(log.lock().unwrap().is_empty());
    drop(used);
    assert_eq!(*log.lock().unwrap(), [1]);
}

/// A value that asks the cache for a square when it is dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "parting", value = Farewell)]
pub(crate) struct Parting {
    pub of: u32,
}

/// The look-up to run at the end; boxed, because a key type has one value type and hashers differ.
pub(crate) struct Farewell(Box<dyn Fn() + Send + Sync>);

impl Drop for Farewell {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn a_victim_may_ask_the_cache_while_it_is_dropped<S: Hashing>() {
    fn part<S: Hashing>(key: &Parting, cx: &Arc<Context<S>>) -> Result<Built<Farewell>, Refused> {
        let (of, cx) = (key.of, Arc::downgrade(cx));
        let wish = move || {
            if let Some(cx) = cx.upgrade() {
                let (value, outcome) = cx.cache.get_or_create(&Square { of }, &*cx, square).unwrap();
                cx.log.lock().unwrap().push(format!("{outcome} {value}"));
            }
        };
        Ok(Built { value: Farewell(Box::new(wish)), bytes: 1, from_record: false })
    }
    let cx = Arc::new(Context::<S>::new(1, 1000));
    for of in [2, 3] {
        cx.cache.get_or_create(&Parting { of }, &cx, part).unwrap();
    }
    // 3 evicted 2, whose look-up evicted 3; the caller dropped 3 last, and its look-up evicted the square of 2.
    assert_eq!(*cx.log.lock().unwrap(), ["cache_miss 4", "cache_miss 9"]);
    assert_eq!((cx.cache.len(), cx.cache.stats().evictions), (1, 3));
}

fn clearing_empties_the_cache_and_keeps_the_counters<S: Hashing>() {
    let cx = Context::<S>::new(1000, 10_000);
    for of in 0..500 {
        cx.cache.get_or_create(&Square { of }, &cx, square).unwrap();
    }
    cx.cache.clear();
    assert_eq!((cx.cache.len(), cx.cache.bytes()), (0, 0));
    let stats = cx.cache.stats();
    assert_eq!((stats.entries, stats.bytes, stats.evictions, stats.builds), (0, 0, 0, 500));
    assert_eq!(cx.cache.get_or_create(&Square { of: 1 }, &cx, square).unwrap().1, Outcome::Miss);
}

fn families_are_counted_apart<S: Hashing>() {
    let cx = Context::<S>::new(16, 1000);
    for of in [1, 2, 1] {
        cx.cache.get_or_create(&Square { of }, &cx, square).unwrap();
    }
    cx.cache.get_or_create(&Cube { of: 1 }, &cx, cube).unwrap();
    let families = cx.cache.family_stats();
    let rows: Vec<_> = families.iter().map(|(name, stats)| (*name, stats.hits, stats.builds, stats.bytes)).collect();
    assert_eq!(rows, [("cube", 0, 1, 10), ("square", 1, 2, 20)]);
    let mut total = Stats::default();
    families.iter().for_each(|(_, stats)| total.add(stats));
    assert_eq!(total, cx.cache.stats());
}
