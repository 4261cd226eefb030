//! One account of bytes: evicted values that are still in use count, over all caches that share it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kiln_cache::{Account, Built, Cache, Key, Limits, Spared};

/// A value of ten bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "part", value = u32)]
struct Part {
    of: u32,
}

/// A value of two bytes that keeps three parts alive.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "whole", value = Vec<Arc<u32>>)]
struct Whole {
    of: u32,
}

fn part(key: &Part, (): &()) -> Result<Built<u32>, Infallible> {
    Ok(Built { value: key.of, bytes: 10, from_record: false })
}

fn parts(cache: &Cache, of: u32) -> Arc<u32> {
    cache.get_or_create(&Part { of }, &(), part).unwrap().0
}

fn whole(key: &Whole, cache: &Cache) -> Result<Built<Vec<Arc<u32>>>, Infallible> {
    let value = (0..3).map(|place| parts(cache, 3 * key.of + place)).collect();
    Ok(Built { value, bytes: 2, from_record: false })
}

const MANY: usize = 10_000;

fn limits(bytes: usize) -> Limits {
    Limits { entries: MANY, bytes }
}

#[test]
fn what_was_evicted_is_charged_until_its_last_user_lets_go() {
    let cache = Cache::new(limits(50));
    let held: Vec<Arc<u32>> = (0..3).map(|of| parts(&cache, of)).collect();
    (3..20).for_each(|of| drop(parts(&cache, of)));
    assert!(held.iter().enumerate().all(|(of, part)| **part == of as u32));
    assert_eq!(cache.get(&Part { of: 0 }), None, "it was evicted");
    assert_eq!((cache.bytes(), cache.account().bytes()), (20, 50), "there is room for two beside three in use");
    drop(held);
    (20..40).for_each(|of| drop(parts(&cache, of)));
    assert_eq!((cache.bytes(), cache.account().bytes()), (50, 50));
}

#[test]
fn what_is_handed_out_and_never_stored_is_charged() {
    let cache = Cache::new(Limits { entries: 0, bytes: 50 });
    let held: Vec<Arc<u32>> = (0..300).map(|of| parts(&cache, of)).collect();
    assert_eq!((cache.len(), cache.account().bytes()), (0, 3000));
    assert!(cache.account().is_over());
    drop(held);
    assert_eq!((cache.account().bytes(), cache.account().is_over()), (0, false));
}

#[test]
fn a_cache_and_what_its_values_keep_alive_of_another_go_together() {
    let inner = Cache::new(limits(100));
    let outer = Cache::charged_to(inner.account(), limits(1000));
    for of in 0..200 {
        let (value, _) = outer.get_or_create(&Whole { of }, &inner, whole).unwrap();
        assert_eq!(**value, [0, 1, 2].map(|place| Arc::new(3 * of + place)));
        drop(value);
        let stored = inner.bytes() + outer.bytes();
        assert!(stored <= 100 && inner.account().bytes() <= 100, "{of}: {stored} of {:?}", inner.account());
    }
    // A whole is used again and again; its parts, which are not looked up, stay with it.
    for of in 200..300 {
        outer.get_or_create(&Whole { of: 199 }, &inner, whole).unwrap();
        outer.get_or_create(&Whole { of }, &inner, whole).unwrap();
    }
    assert!(outer.get(&Whole { of: 199 }).is_some() && inner.account().bytes() <= 100);
    let others = inner.bytes();
    drop(outer);
    assert_eq!((inner.bytes(), inner.account().bytes()), (others, others), "what a cache had is given back with it");
}

#[test]
fn charges_of_users_leave_less_room_and_say_when_there_is_none() {
    let cache = Cache::new(limits(50));
    let refusals = cache.account().refusals();
    let charge = cache.account().charge(25);
    (0..10).for_each(|of| drop(parts(&cache, of)));
    assert_eq!((cache.bytes(), cache.account().bytes(), cache.account().is_over()), (20, 45, false));
    assert_eq!(cache.account().refusals(), refusals);
    let more = cache.account().charge(30);
    assert!(cache.account().is_over());
    drop(parts(&cache, 10));
    assert!(cache.is_empty() && cache.account().refusals() > refusals, "everything was evicted, in vain");
    drop((charge, more));
    drop(parts(&cache, 11));
    assert_eq!((cache.bytes(), cache.account().bytes()), (10, 10));
}

#[test]
fn a_thread_remembers_entries_of_any_number_of_caches() {
    let account = Account::new(usize::MAX);
    let caches: Vec<Cache> = (0..64).map(|_| Cache::charged_to(&account, limits(1000))).collect();
    for round in 0..20u64 {
        for (number, cache) in caches.iter().enumerate() {
            assert_eq!(*parts(cache, number as u32 % 3), number as u32 % 3);
            assert_eq!(cache.stats().hits, round);
        }
    }
    drop(caches);
    assert_eq!(account.bytes(), 0);
}

#[test]
fn what_was_used_longest_ago_is_shed_but_for_what_has_returned() {
    for shards in [1, 16] {
        let cache = Cache::with_shards(limits(1000), hashbrown::DefaultHashBuilder::default(), shards);
        let ask = |of: u32| drop(cache.get_or_create(&Part { of }, &(), part).unwrap());
        (0..60).for_each(ask);
        (0..60).step_by(10).for_each(ask);
        cache.shed(600, Spared::Returned);
        assert_eq!(cache.len(), 60, "no more is in use");
        cache.shed(305, Spared::Returned);
        let mut left: Vec<u32> = cache.keys::<Part>().iter().map(|key| key.of).collect();
        left.sort_unstable();
        let expected: Vec<u32> = (0..60).filter(|of| of % 10 == 0 || *of >= 34).collect();
        assert_eq!(left[..], expected[expected.len() - 30..], "{shards} shards");
        cache.shed(0, Spared::Returned);
        assert_eq!((cache.len(), cache.account().bytes(), cache.stats().evictions), (6, 60, 54));
        (0..60).for_each(ask);
        assert_eq!((cache.stats().builds, cache.len()), (60 + 54, 60), "what was shed is built again");
    }
}

#[test]
fn what_is_in_use_is_not_shed_where_it_is_spared() {
    let cache = Cache::new(limits(1000));
    let held: Vec<Arc<u32>> = (0..5).map(|of| parts(&cache, of)).collect();
    (5..20).for_each(|of| drop(parts(&cache, of)));
    // Counted on the thread's lane, once the thread remembers it.
    let hold = || cache.hold(&Part { of: 7 }, &(), part).unwrap().0;
    drop(hold());
    let counted = hold();
    cache.shed(0, Spared::Used);
    assert_eq!((cache.len(), cache.account().bytes()), (6, 60));
    assert_eq!((held.iter().map(|part| **part).sum::<u32>(), *counted), (10, 7));
    drop((held, counted));
    cache.shed(0, Spared::Used);
    assert_eq!((cache.len(), cache.account().bytes()), (0, 0));
}

/// Room for forty bytes of several accounts. Others hold ten bytes, and drop them when they are asked.
struct Shared {
    used: AtomicUsize,
    asked: AtomicUsize,
}

impl kiln_cache::Whole for Shared {
    fn take(&self, bytes: usize) -> bool {
        let fits = self.used.load(Relaxed) + bytes <= 40;
        self.used.fetch_add(if fits { bytes } else { 0 }, Relaxed);
        fits
    }

    fn add(&self, bytes: usize) {
        self.used.fetch_add(bytes, Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    fn make_room(&self, _: usize) {
        if self.asked.fetch_add(1, Relaxed) == 0 {
            self.used.fetch_sub(10, Relaxed);
        }
    }
}

#[test]
fn accounts_of_one_whole_have_its_room_together_and_leave_nothing_in_it() {
    static SHARED: Shared = Shared { used: AtomicUsize::new(10), asked: AtomicUsize::new(0) };
    let used = || SHARED.used.load(Relaxed);
    let [first, second] = [1000, 1000].map(|bytes| Cache::new(limits(bytes)));
    drop(parts(&first, 0));
    first.account().join_whole(&SHARED);
    second.account().join_whole(&SHARED);
    assert_eq!(used(), 20, "what was there before counts");
    let held: Vec<Arc<u32>> = (0..2).map(|of| parts(&second, of)).collect();
    assert_eq!((used(), SHARED.asked.load(Relaxed)), (40, 0));
    drop(parts(&second, 2));
    assert_eq!((used(), SHARED.asked.load(Relaxed), second.len()), (40, 1, 3), "others let go before it evicts");
    drop(parts(&second, 3));
    assert_eq!((used(), first.len(), second.len()), (40, 1, 1), "two in use were evicted for it, and still count");
    drop(held);
    let charge = second.account().charge(30);
    let own = second.account().bytes();
    assert_eq!((used(), own), (50, 40), "what is charged is never refused");
    drop(charge);
    assert!(!first.let_go(1) && first.is_empty() && used() == 10);
    drop((first, second));
    assert_eq!(used(), 0);
}
