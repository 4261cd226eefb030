//! What a thread remembers of the entries that it hit lately: a hit without a lock and without writing to shared memory.
//!
//! # Problem
//!
//! A shard's lock and the links of its list are written by every hit, so the lines that hold them wander from core to core.
//! A hit that changes nothing should write nothing.
//!
//! # Idea
//!
//! Each thread keeps a small table of entries that it found in their shards before. It may answer from it where the
//! answer changes nothing: the entry is still stored, and it counts as used now already. One number says both. An
//! entry's [stamp](super::erased::Kept) is the time of its last use, and time goes on only when something is stored; an
//! entry that has left has a stamp that is never now. So one load and one comparison decide, and whatever they refuse goes to the
//! shard, which moves the entry to the front of its list and sets the stamp: once in a while for each entry.
//!
//! # Consequences
//!
//! - The order of eviction is the same with this table and without it.
//! - The table holds keys and weak references: a value goes when it is evicted, though threads remember its key. What stays is
//!   at most 2,048 keys a thread and cache, and the bare memory of as many values, without what they owned.
//! - A value that is handed out counted is still written to by every hit: its count. [`held`](super::held) is the way around.
//! - Hits are counted by the thread that has them, on lines of its own ([`Hits`]), and added up when somebody asks.
//!
//! Nothing here knows shards, bounds or flights.

use std::any::Any;
use std::cell::RefCell;

use super::Key;
use super::erased::{Kept, Remembered};
use super::held::Seat;
use super::shim::{Arc, AtomicU64, Mutex, Ordering, lock, thread_local};
use super::stats::{FamilyId, Stats};

/// Places of a set. One key's hash names one set. Of 512 keys, about ten do not find room in sets of four, and none in sets of eight.
const WAYS: usize = 8;
/// Sets that a thread has for one cache: for four times as many entries as a large model has nodes that compute.
const SETS: usize = 256;
/// Caches that a thread remembers entries of. A process has one, tests have many.
const CACHES: usize = 4;
/// Families that are counted here; entries of any further ones are not remembered.
const FAMILIES: usize = 64;

thread_local! {
    static FRONTS: RefCell<Fronts> = const { RefCell::new(Fronts { recent: Vec::new(), next: 0, seat: None }) };
}

/// The tables of one thread.
struct Fronts {
    recent: Vec<Front>,
    /// Which one makes room when a thread uses more caches than it remembers.
    next: usize,
    /// Which lane the thread counts on, from the first entry that it remembers on.
    seat: Option<Seat>,
}

/// What one thread remembers of one cache.
struct Front {
    cache: u64,
    sets: Box<[Set]>,
    hits: Arc<Hits>,
}

/// Entries whose hashes fall together, those that came last first.
#[derive(Default)]
struct Set {
    hashes: [u64; WAYS],
    entries: [Option<Arc<dyn Remembered>>; WAYS],
}

/// Hits of one thread in one cache, by family: written by that thread alone.
#[repr(align(128))]
pub(super) struct Hits([AtomicU64; FAMILIES]);

impl Hits {
    fn add(&self, family: FamilyId) {
        // One thread writes, so the sum needs no atomic addition.
        let hits = &self.0[family];
        hits.store(hits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn add_to(&self, totals: &mut [u64; FAMILIES]) {
        for (total, hits) in totals.iter_mut().zip(&self.0) {
            *total += hits.load(Ordering::Relaxed);
        }
    }
}

/// The hits of all threads in one cache.
#[derive(Default)]
pub(super) struct HitCounts(Mutex<Threads>);

struct Threads {
    alive: Vec<Arc<Hits>>,
    /// Hits of threads that have ended, or have forgotten this cache.
    ended: [u64; FAMILIES],
}

impl Default for Threads {
    fn default() -> Threads {
        Threads { alive: Vec::new(), ended: [0; FAMILIES] }
    }
}

impl HitCounts {
    /// Counters for the calling thread.
    fn join(&self) -> Arc<Hits> {
        let hits = Arc::new(Hits(std::array::from_fn(|_| AtomicU64::new(0))));
        let mut threads = lock(&self.0);
        let Threads { alive, ended } = &mut *threads;
        alive.retain_mut(|hits| {
            // Whose thread has let go of them get no more hits; being the only owner synchronises with its last one.
            let gone = Arc::get_mut(hits).is_some();
            if gone {
                hits.add_to(ended);
            }
            !gone
        });
        alive.push(Arc::clone(&hits));
        hits
    }

    /// Adds the hits of a family to its counters.
    pub(super) fn add_to(&self, family: FamilyId, stats: &mut Stats) {
        let threads = lock(&self.0);
        if family < FAMILIES {
            let alive: u64 = threads.alive.iter().map(|hits| hits.0[family].load(Ordering::Relaxed)).sum();
            let hits = threads.ended[family] + alive;
            stats.lookups += hits;
            stats.hits += hits;
        }
    }
}

/// What `take` gets of a key's entry on this thread's lane, if the thread remembers it and a hit changes nothing now.
#[inline]
pub(super) fn hit<K: Key, T>(
    cache: u64,
    hash: u64,
    key: &K,
    now: u64,
    take: impl FnOnce(&Kept<K>, usize) -> Option<T>,
) -> Option<T> {
    // A thread that is ending has no table any more, and goes to the shard.
    let answer = |fronts: &RefCell<Fronts>| {
        let fronts = fronts.try_borrow().ok()?;
        let lane = fronts.seat.as_ref()?.lane();
        fronts.front(cache)?.hit(hash, key, now, |kept| take(kept, lane))
    };
    FRONTS.try_with(answer).ok()?
}

/// The lane that this thread counts on.
pub(super) fn lane() -> usize {
    let lane =
        |fronts: &RefCell<Fronts>| Some(fronts.try_borrow_mut().ok()?.seat.get_or_insert_with(Seat::take).lane());
    FRONTS.try_with(lane).ok().flatten().unwrap_or(0)
}

/// Remembers an entry that was found in its shard.
pub(super) fn remember(cache: u64, counts: &HitCounts, hash: u64, entry: Arc<dyn Remembered>, family: FamilyId) {
    if family >= FAMILIES {
        return;
    }
    // What the slot held is dropped after the borrow: a key's `Drop` is foreign code.
    let _forgotten = FRONTS.try_with(|fronts| {
        let mut fronts = fronts.try_borrow_mut().ok()?;
        fronts.seat.get_or_insert_with(Seat::take);
        let front = fronts.front_mut(cache, counts);
        front.sets[set(hash)].put(hash, entry)
    });
}

/// The lowest bits choose the set; shards are chosen by higher ones.
#[inline]
fn set(hash: u64) -> usize {
    hash as usize & (SETS - 1)
}

impl Set {
    /// Puts an entry first; returns the one that had to go.
    fn put(&mut self, hash: u64, entry: Arc<dyn Remembered>) -> Option<Arc<dyn Remembered>> {
        // An older entry of the same hash, or an empty place, or the one that came first.
        let place = (0..WAYS).find(|place| self.entries[*place].is_none() || self.hashes[*place] == hash);
        let place = place.unwrap_or(WAYS - 1);
        let gone = self.entries[place].replace(entry);
        self.hashes[place] = hash;
        self.hashes[..=place].rotate_right(1);
        self.entries[..=place].rotate_right(1);
        gone
    }
}

impl Fronts {
    #[inline]
    fn front(&self, cache: u64) -> Option<&Front> {
        self.recent.iter().find(|front| front.cache == cache)
    }

    fn front_mut(&mut self, cache: u64, counts: &HitCounts) -> &mut Front {
        let place = self.recent.iter().position(|front| front.cache == cache).unwrap_or_else(|| {
            let sets = std::iter::repeat_with(Set::default).take(SETS).collect();
            let fresh = Front { cache, sets, hits: counts.join() };
            if self.recent.len() < CACHES {
                self.recent.push(fresh);
                return self.recent.len() - 1;
            }
            self.next = (self.next + 1) % CACHES;
            self.recent[self.next] = fresh;
            self.next
        });
        &mut self.recent[place]
    }
}

impl Front {
    #[inline]
    fn hit<K: Key, T>(&self, hash: u64, key: &K, now: u64, take: impl FnOnce(&Kept<K>) -> Option<T>) -> Option<T> {
        let set = &self.sets[set(hash)];
        let place = set.hashes.iter().position(|known| *known == hash)?;
        let entry: &dyn Any = &**set.entries[place].as_ref()?;
        let entry = entry.downcast_ref::<Kept<K>>()?;
        let taken = if entry.stands_for(key, now) { take(entry)? } else { return None };
        self.hits.add(entry.family());
        Some(taken)
    }
}
