//! Each thread's memory of entries that it hit lately: a hit without a lock and without writing to shared memory.
//!
//! # Problem
//!
//! A shard's lock and the links of its list are written by every hit, so the lines that hold them wander from core to
//! core. A hit that changes nothing should write nothing.
//!
//! # Idea
//!
//! Each thread keeps a small table of entries that it found in their shards before, of all caches that it uses. It may
//! answer from the table where the answer changes nothing: the entry is still stored, and already counts as used now.
//! One number says both. An entry's [stamp](super::erased::Kept) is the time of its last use, and time goes on only
//! when an entry is stored; an entry that has left has a stamp that is never now. So one load and one comparison
//! decide. All other look-ups go to the shard, which moves the entry to the front of its list and sets the stamp: once
//! in a while for each entry.
//!
//! # Consequences
//!
//! - The order of eviction is the same with this table and without it.
//! - The table has keys and weak references: a value is freed when it is evicted, though threads remember its key. What
//!   stays are the keys of entries that have left since a thread last dropped such keys, 256 at most, and the bare
//!   memory of their values, without the memory that these owned. A thread remembers 2,048 entries at most.
//! - A thread may use any number of caches: they share the table's 64 KiB, and each costs the thread its counters.
//! - Every hit still writes to a value that is handed out as an `Arc`: its count. [`held`](super::held) avoids that.
//! - Hits are counted by their thread, on cache lines of its own ([`Hits`]), and summed when statistics are read.
//!
//! Nothing here knows shards, bounds or flights.

use std::any::Any;
use std::cell::RefCell;

use super::Key;
use super::erased::{GONE, Kept, Remembered};
use super::held::ThreadIndex;
use super::shim::{Arc, AtomicU64, Mutex, Ordering, lock, thread_local};
use super::stats::{FamilyId, Stats};

/// Places of a set. A key's hash names one set. With sets of four, about ten of 512 keys find no room; with sets of
/// eight, none.
const WAYS: usize = 8;
/// Sets of a thread: enough for four times the computing nodes of a large model.
const SETS: usize = 256;
/// Entries that are remembered before entries that have left are forgotten.
const TIDY: u32 = 256;
/// Families that are counted here; entries of further families are not remembered.
const FAMILIES: usize = 64;

thread_local! {
    static FRONTS: RefCell<Front> = const { RefCell::new(Front::EMPTY) };
}

/// The memory of one thread.
struct Front {
    /// Empty before the first entry.
    sets: Vec<Set>,
    /// Entries remembered since entries that have left were forgotten.
    since: u32,
    /// The thread's hits in each cache that it has used. Places of caches that are gone are used again.
    counted: Vec<Counted>,
    /// The lane on which the thread counts, set with the first entry that it remembers.
    thread_index: Option<ThreadIndex>,
}

/// The hits of one thread in the cache with that name.
struct Counted {
    cache: u64,
    hits: Arc<Hits>,
}

/// Entries whose hashes name the same set, the latest first.
#[derive(Default)]
struct Set {
    tags: [u64; WAYS],
    entries: [Option<Known>; WAYS],
}

/// An entry, and the place of the hits that count it.
struct Known {
    entry: Arc<dyn Remembered>,
    counted: u32,
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
            // Counters that their thread has dropped get no more hits; being the only owner synchronises with that
            // thread's last hit.
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

/// The result of `take` for a key's entry on this thread's lane, if the thread remembers it and a hit changes nothing
/// now.
#[inline]
pub(super) fn hit<K: Key, T>(
    cache: u64,
    hash: u64,
    key: &K,
    now: u64,
    take: impl FnOnce(&Kept<K>, usize) -> Option<T>,
) -> Option<T> {
    // A thread that is ending has no table any more, and goes to the shard.
    let answer = |front: &RefCell<Front>| {
        let front = front.try_borrow().ok()?;
        let lane = front.thread_index.as_ref()?.lane();
        let known = front.known(tag(cache, hash))?;
        let entry: &dyn Any = &*known.entry;
        let entry = entry.downcast_ref::<Kept<K>>()?;
        let taken = if entry.stands_for(cache, key, now) { take(entry, lane)? } else { return None };
        front.counted[known.counted as usize].hits.add(entry.family());
        Some(taken)
    };
    FRONTS.try_with(answer).ok()?
}

/// The lane on which this thread counts.
pub(super) fn lane() -> usize {
    let lane = |front: &RefCell<Front>| {
        Some(front.try_borrow_mut().ok()?.thread_index.get_or_insert_with(ThreadIndex::take).lane())
    };
    FRONTS.try_with(lane).ok().flatten().unwrap_or(0)
}

/// Remembers an entry that was found in its shard.
pub(super) fn remember(cache: u64, counts: &HitCounts, hash: u64, entry: Arc<dyn Remembered>, family: FamilyId) {
    if family >= FAMILIES {
        return;
    }
    // The former entry of the place is dropped after the borrow: a key's `Drop` is foreign code.
    let _forgotten = FRONTS.try_with(|front| {
        let mut front = front.try_borrow_mut().ok()?;
        front.thread_index.get_or_insert_with(ThreadIndex::take);
        let counted = front.counted_at(cache, counts);
        if front.sets.is_empty() {
            front.sets.resize_with(SETS, Set::default);
        }
        let tag = tag(cache, hash);
        let gone = front.sets[set(tag)].put(tag, Known { entry, counted });
        front.since += 1;
        let left = if front.since >= TIDY { front.tidy() } else { Vec::new() };
        Some((gone, left))
    });
}

/// The tag by which an entry is found: two caches may hash alike.
#[inline]
fn tag(cache: u64, hash: u64) -> u64 {
    hash ^ cache.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The lowest bits choose the set; shards are chosen by higher ones.
#[inline]
fn set(tag: u64) -> usize {
    tag as usize & (SETS - 1)
}

impl Set {
    /// Puts an entry first; returns the entry that had to go.
    fn put(&mut self, tag: u64, entry: Known) -> Option<Known> {
        // An older entry with the same tag, or an empty place, or the entry that came first.
        let place = (0..WAYS).find(|place| self.entries[*place].is_none() || self.tags[*place] == tag);
        let place = place.unwrap_or(WAYS - 1);
        let gone = self.entries[place].replace(entry);
        self.tags[place] = tag;
        self.tags[..=place].rotate_right(1);
        self.entries[..=place].rotate_right(1);
        gone
    }
}

impl Front {
    const EMPTY: Front = Front { sets: Vec::new(), since: 0, counted: Vec::new(), thread_index: None };

    /// Takes out the entries that have left their caches.
    fn tidy(&mut self) -> Vec<Known> {
        self.since = 0;
        let has_left = |known: &mut Known| known.entry.stamp().load(Ordering::Relaxed) == GONE;
        let all = self.sets.iter_mut().flat_map(|set| &mut set.entries);
        all.filter_map(|place| place.take_if(has_left)).collect()
    }

    #[inline]
    fn known(&self, tag: u64) -> Option<&Known> {
        let set = self.sets.get(set(tag))?;
        let place = set.tags.iter().position(|known| *known == tag)?;
        set.entries[place].as_ref()
    }

    /// The place of the hits in a cache.
    fn counted_at(&mut self, cache: u64, counts: &HitCounts) -> u32 {
        let known = self.counted.iter().position(|counted| counted.cache == cache);
        let place = known.unwrap_or_else(|| {
            let fresh = Counted { cache, hits: counts.join() };
            // A cache that is gone has dropped its counters, and no entry with its name is ever hit again.
            match self.counted.iter_mut().position(|counted| Arc::strong_count(&counted.hits) == 1) {
                Some(place) => {
                    self.counted[place] = fresh;
                    place
                }
                None => {
                    self.counted.push(fresh);
                    self.counted.len() - 1
                }
            }
        });
        place as u32
    }
}
