//! The cache itself: shards behind locks, single flight around builders, one bound around everything.
//!
//! A hit is answered by what the thread remembers (`front`), where that changes nothing; else it takes one lock, of the
//! shard that the key's hash names, and nothing else that is shared is written. A miss
//! goes through a flight: noted under the shard's lock, built under no lock, landed under the shard's lock again.
//! Lock order: a shard's lock and the budget's are never held together, nor are two shards'.

use std::any::Any;
use std::fmt;
use std::hash::BuildHasher;
use std::time::Instant;

use hashbrown::DefaultHashBuilder;

use super::budget::{Budget, Limits};
use super::clock::Clock;
use super::erased::{Erased, Kept, Probe, Query};
use super::flight::{Circle, Flight, Shared, Waits};
use super::front::{self, HitCounts};
use super::held::Held;
use super::shard::{Entry, Shard, Victim};
use super::shim::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, lock};
use super::stats::{Families, FamilyId, Stats};
use super::{Answer, Builder, Built, CacheError, Key, Outcome};

/// Below this many entries one shard does: order is then exact, and a cache so small is not the hot one.
const SHARDED_FROM: usize = 256;
/// Shards per thread of the machine: with 8, two threads meet in a shard for one look-up in sixteen.
const SHARDS_PER_THREAD: usize = 8;
/// More shards than this make the search for the oldest entry the cost of a miss.
const MOST_SHARDS: usize = 64;
/// The hint of a shard that is empty.
const EMPTY: u64 = u64::MAX;
/// The name of the next cache: never used twice, so that nothing of a cache that is gone is taken for another's.
static NAMES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// A shard behind its lock, on cache lines of its own (two, because the prefetcher pulls them in pairs).
#[repr(align(128))]
struct Locked {
    shard: Mutex<Shard>,
    /// No entry of the shard is older than this stamp. Written under the lock, read without.
    oldest: AtomicU64,
}

impl Locked {
    /// Corrects the hint to what the shard holds now.
    fn note_oldest(&self, shard: &MutexGuard<'_, Shard>) -> u64 {
        let stamp = shard.oldest().unwrap_or(EMPTY);
        self.oldest.store(stamp, Ordering::Relaxed);
        stamp
    }
}

/// Many kinds of values, each determined by its key, within one bound. See the [module](super) for what it promises.
pub struct Cache<S = DefaultHashBuilder> {
    hasher: S,
    shards: Box<[Locked]>,
    budget: Budget,
    clock: Clock,
    /// What threads call this cache when they remember its entries.
    name: u64,
    hits: HitCounts,
    families: Families,
    waits: Waits,
}

impl Cache {
    /// An empty cache.
    #[must_use]
    pub fn new(limits: Limits) -> Cache {
        Cache::with_hasher(limits, DefaultHashBuilder::default())
    }
}

impl<S: BuildHasher> Cache<S> {
    /// An empty cache that hashes keys by `hasher`.
    #[must_use]
    pub fn with_hasher(limits: Limits, hasher: S) -> Cache<S> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = if limits.entries < SHARDED_FROM { 1 } else { threads * SHARDS_PER_THREAD };
        Cache::with_shards(limits, hasher, shards)
    }

    /// An empty cache of about `shards` shards: rounded up to a power of two, at most 64. One shard keeps the exact
    /// order of use, at the price of a lock for every hit; more keep it up to entries that were used between the same two
    /// insertions (from 1,024 entries on: between insertions of 1/512 of the entries).
    #[must_use]
    pub fn with_shards(limits: Limits, hasher: S, shards: usize) -> Cache<S> {
        let shards = shards.clamp(1, MOST_SHARDS).next_power_of_two();
        let shards =
            (0..shards).map(|_| Locked { shard: Mutex::new(Shard::new()), oldest: AtomicU64::new(EMPTY) }).collect();
        Cache {
            hasher,
            shards,
            budget: Budget::new(limits),
            clock: Clock::default(),
            name: NAMES.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            hits: HitCounts::default(),
            families: Families::default(),
            waits: Waits::default(),
        }
    }

    /// The value of `key`: what is stored, or what another thread is just building, or what `build` builds now.
    ///
    /// # Errors
    ///
    /// [`CacheError::Build`] with the builder's error, given to the caller whose builder failed;
    /// [`CacheError::Reentrant`] if building the key asks for the key.
    #[inline]
    pub fn get_or_create<K: Key, C: ?Sized, E>(&self, key: &K, cx: &C, build: Builder<K, C, E>) -> Answer<K::Value, E> {
        let query = Query::new(key, &self.hasher);
        match self.hit(key, &query) {
            Some(value) => Ok((value, Outcome::Hit)),
            None => self.create(key, &query, cx, build),
        }
    }

    /// The same for a caller that uses the value and lets it go: a hit that the thread remembers is counted where no other
    /// thread counts, so that threads which want the same values do not slow each other down.
    ///
    /// # Errors
    ///
    /// As of [`get_or_create`](Cache::get_or_create).
    #[inline]
    pub fn hold<K: Key, C: ?Sized, E>(
        &self,
        key: &K,
        cx: &C,
        build: Builder<K, C, E>,
    ) -> Result<(Held<K::Value>, Outcome), CacheError<E>> {
        let query = Query::new(key, &self.hasher);
        if self.is_remembered()
            && let Some(held) = front::hit(self.name, query.hash(), key, self.clock.now(), Kept::held)
        {
            return Ok((held, Outcome::Hit));
        }
        match self.find::<K>(&query, true) {
            Some(value) => Ok((Held::whole(value), Outcome::Hit)),
            None => self.create(key, &query, cx, build).map(|(value, outcome)| (Held::whole(value), outcome)),
        }
    }

    /// The value of `key` if it is stored now. Builds nothing and waits for nobody.
    pub fn get<K: Key>(&self, key: &K) -> Option<Arc<K::Value>> {
        let query = Query::new(key, &self.hasher);
        let found = self.hit(key, &query);
        if found.is_none() {
            let counts = &mut lock(&self.locked(&query).shard);
            let counts = counts.count(self.families.id::<K>());
            counts.lookups += 1;
            counts.misses += 1;
        }
        found
    }

    /// Stores a value of `key`, in place of another if there is one: for a caller that has found a better one. Whoever
    /// has the old one keeps it. A builder that is under way for the same key still stores its own.
    pub fn put<K: Key>(&self, key: &K, built: Built<K::Value>) {
        let Built { value, bytes, from_record: _ } = built;
        let query = Query::new(key, &self.hasher);
        let family = self.families.id::<K>();
        let mut victims = Vec::new();
        if self.make_room(bytes, &mut victims) {
            let (kept, value) = (Kept::new(key.clone(), family), Arc::new(value));
            kept.found(&value);
            let locked = self.locked(&query);
            let shard = lock(&locked.shard);
            self.store(locked, shard, query.owned(kept), Entry::new(value, bytes, family), &mut victims);
        }
        // Victims are dropped here, last: their `Drop` may ask the cache for anything.
    }

    /// The counters of all families together.
    pub fn stats(&self) -> Stats {
        let mut total = Stats::default();
        self.family_stats().iter().for_each(|(_, stats)| total.add(stats));
        total
    }

    /// The counters of each family that was asked for, by name.
    pub fn family_stats(&self) -> Vec<(&'static str, Stats)> {
        let names = self.families.names();
        let mut families: Vec<(&'static str, Stats)> = Vec::new();
        for (family, name) in names.iter().enumerate() {
            let mut stats = Stats::default();
            for locked in &self.shards {
                if let Some(counts) = lock(&locked.shard).counts().get(family) {
                    stats.add(counts);
                }
            }
            self.hits.add_to(family, &mut stats);
            match families.iter_mut().find(|(known, _)| known == name) {
                Some((_, total)) => total.add(&stats),
                None => families.push((name, stats)),
            }
        }
        families.sort_by_key(|(name, _)| *name);
        families
    }

    /// The keys of one type that are stored now, in no order: for tools and tests.
    pub fn keys<K: Key>(&self) -> Vec<K> {
        let mut keys = Vec::new();
        for locked in &self.shards {
            keys.extend(lock(&locked.shard).keys().filter_map(|key| key.any().downcast_ref::<K>().cloned()));
        }
        keys
    }

    /// Forgets everything that is stored. What is in use lives on; what is being built is stored when it is done.
    pub fn clear(&self) {
        for locked in &self.shards {
            let mut shard = lock(&locked.shard);
            let gone = shard.drain();
            locked.note_oldest(&shard);
            drop(shard);
            self.budget.give_back(gone.len(), gone.iter().map(|(_, entry)| entry.bytes).sum());
        }
    }

    /// Entries stored now.
    pub fn len(&self) -> usize {
        self.budget.entries()
    }

    /// Whether nothing is stored now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes charged now.
    pub fn bytes(&self) -> usize {
        self.budget.bytes()
    }

    /// The bound.
    pub fn limits(&self) -> Limits {
        self.budget.limits()
    }

    /// The shard of a hash. The table below uses the lowest bits to place and the top seven to compare, so the shard
    /// is taken from between.
    #[inline]
    fn locked(&self, probe: &dyn Probe) -> &Locked {
        &self.shards[(probe.hash() >> 40) as usize & (self.shards.len() - 1)]
    }

    /// Whether threads remember entries. Where the order of use is exact, each hit has to change it.
    #[inline]
    fn is_remembered(&self) -> bool {
        self.shards.len() > 1
    }

    #[inline]
    fn hit<K: Key>(&self, key: &K, query: &Query<'_, K>) -> Option<Arc<K::Value>> {
        if self.is_remembered()
            && let Some(value) = front::hit(self.name, query.hash(), key, self.clock.now(), |kept, _| kept.value())
        {
            return Some(value);
        }
        self.find::<K>(query, false)
    }

    /// Looks into the shard. The next time, the thread finds the value by itself; if `held`, on its lane.
    fn find<K: Key>(&self, probe: &Query<'_, K>, held: bool) -> Option<Arc<K::Value>> {
        // Before the lock: it asks for nothing but memory of the thread's own.
        let lane = if held && self.is_remembered() { Some(front::lane()) } else { None };
        let mut shard = lock(&self.locked(probe).shard);
        let (key, entry) = shard.hit(probe, &self.clock)?;
        let (value, family) = (typed::<K>(Arc::clone(&entry.value)), entry.family);
        if self.is_remembered() {
            let remembered = Arc::clone(key.remembered());
            if let Some(lane) = lane
                && let Some(kept) = (&*remembered as &dyn Any).downcast_ref::<Kept<K>>()
                && let Some(lane) = kept.open(lane, &value)
            {
                entry.lanes.push(lane);
            }
            drop(shard);
            front::remember(self.name, &self.hits, probe.hash(), remembered, family);
        }
        Some(value)
    }

    /// The slow path of a look-up: waits for another's build or builds.
    #[cold]
    #[inline(never)]
    fn create<K: Key, C: ?Sized, E>(
        &self,
        key: &K,
        query: &Query<'_, K>,
        cx: &C,
        build: Builder<K, C, E>,
    ) -> Answer<K::Value, E> {
        let family = self.families.id::<K>();
        let kept = Kept::new(key.clone(), family);
        let landing = match self.board(query, query.owned(Arc::clone(&kept) as Arc<_>), family) {
            Boarding::Answered(value, outcome) => return Ok((typed::<K>(value), outcome)),
            Boarding::Circle => return Err(CacheError::Reentrant { family: K::FAMILY }),
            Boarding::Builder(landing) => landing,
        };
        let started = Instant::now();
        // An early return or a panic drops `landing`, which frees the slot and sends the waiters on their own way.
        let Built { value, bytes, from_record } = build(key, cx).map_err(CacheError::Build)?;
        let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let value = Arc::new(value);
        kept.found(&value);
        landing.land(Arc::clone(&value) as Shared, bytes, nanos, from_record);
        Ok((value, if from_record { Outcome::RecordHit } else { Outcome::Miss }))
    }

    /// Answers a look-up from the table or another's flight, or makes the caller the builder.
    fn board<'a>(&'a self, probe: &'a dyn Probe, key: Erased, family: FamilyId) -> Boarding<'a, S> {
        let locked = self.locked(probe);
        let flight = Flight::new();
        loop {
            let mut shard = lock(&locked.shard);
            // It may have been stored since the fast path looked, or while this thread waited for a failed build.
            if let Some((_, entry)) = shard.hit(probe, &self.clock) {
                return Boarding::Answered(Arc::clone(&entry.value), Outcome::Hit);
            }
            let Some(theirs) = shard.flight(probe) else {
                shard.take_off(key, Arc::clone(&flight));
                return Boarding::Builder(Landing { cache: self, locked, probe, family, flight, landed: false });
            };
            drop(shard);
            let joined = self.waits.join(&theirs);
            let mut shard = lock(&locked.shard);
            let counts = shard.count(family);
            match joined {
                Ok(None) => continue,
                Ok(Some(value)) => {
                    counts.lookups += 1;
                    counts.waits += 1;
                    return Boarding::Answered(value, Outcome::Waited);
                }
                Err(Circle) => {
                    counts.lookups += 1;
                    counts.misses += 1;
                    counts.failures += 1;
                    return Boarding::Circle;
                }
            }
        }
    }

    /// Takes room for an entry, evicting for it. `false` if the entry cannot be stored.
    fn make_room(&self, bytes: usize, victims: &mut Vec<Victim>) -> bool {
        if !self.budget.admits(bytes) {
            return false;
        }
        loop {
            if let Some(entries) = self.budget.take(bytes) {
                self.clock.hold(entries);
                return true;
            }
            // Nothing left to evict means that other threads hold the room for entries that they have yet to store.
            let Some(victim) = self.evict_oldest() else { return false };
            self.budget.give_back(1, victim.1.bytes);
            victims.push(victim);
        }
    }

    /// Stores an entry for which there is room.
    fn store(
        &self,
        locked: &Locked,
        mut shard: MutexGuard<'_, Shard>,
        key: Erased,
        entry: Entry,
        victims: &mut Vec<Victim>,
    ) {
        let replaced = shard.store(key, entry, self.clock.tick());
        locked.note_oldest(&shard);
        drop(shard);
        if let Some(victim) = replaced {
            self.budget.give_back(1, victim.1.bytes);
            victims.push(victim);
        }
    }

    /// Takes out the least recently used entry of all shards.
    ///
    /// Hints only lag behind: the true oldest stamp of a shard is never below its hint. So the shard with the lowest
    /// hint is locked and its hint corrected, until the corrected stamp is still the lowest: then it is the oldest.
    fn evict_oldest(&self) -> Option<Victim> {
        // Other threads' hits keep raising stamps; after a round over all shards an entry that was the oldest a moment
        // ago is old enough.
        let mut patience = 2 * self.shards.len();
        loop {
            let hint = |locked: &&Locked| locked.oldest.load(Ordering::Relaxed);
            let locked = self.shards.iter().min_by_key(hint)?;
            if hint(&locked) == EMPTY {
                return None;
            }
            let mut shard = lock(&locked.shard);
            let stamp = locked.note_oldest(&shard);
            patience = patience.saturating_sub(1);
            if stamp != EMPTY && (patience == 0 || self.shards.iter().all(|other| stamp <= hint(&other))) {
                let victim = shard.evict();
                locked.note_oldest(&shard);
                return victim;
            }
        }
    }
}

impl<S> fmt::Debug for Cache<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("limits", &self.budget.limits())
            .field("entries", &self.budget.entries())
            .field("bytes", &self.budget.bytes())
            .finish_non_exhaustive()
    }
}

/// What became of a look-up that found nothing at first.
enum Boarding<'a, S: BuildHasher> {
    Answered(Shared, Outcome),
    Circle,
    Builder(Landing<'a, S>),
}

/// The duty to end a flight: by a value, or by being dropped.
struct Landing<'a, S: BuildHasher> {
    cache: &'a Cache<S>,
    locked: &'a Locked,
    probe: &'a dyn Probe,
    family: FamilyId,
    flight: Arc<Flight>,
    landed: bool,
}

impl<S: BuildHasher> Landing<'_, S> {
    /// Stores the value if the bound allows and hands it to those who wait.
    fn land(mut self, value: Shared, bytes: usize, nanos: u64, from_record: bool) {
        let mut victims = Vec::new();
        let stored = self.cache.make_room(bytes, &mut victims);
        let mut shard = lock(&self.locked.shard);
        let counts = shard.count(self.family);
        counts.lookups += 1;
        counts.misses += 1;
        counts.builds += 1;
        counts.build_nanos += nanos;
        counts.record_hits += u64::from(from_record);
        // The flight ends and the entry appears under one lock: nobody can see neither and build again.
        let key = shard.end_flight(self.probe);
        if let (true, Some(key)) = (stored, key) {
            let entry = Entry::new(Arc::clone(&value), bytes, self.family);
            self.cache.store(self.locked, shard, key, entry, &mut victims);
        } else {
            drop(shard);
            if stored {
                self.cache.budget.give_back(1, bytes);
            }
        }
        self.landed = true;
        self.flight.land(Some(value));
        // Victims are dropped here, last: their `Drop` may ask the cache for anything.
    }
}

impl<S: BuildHasher> Drop for Landing<'_, S> {
    fn drop(&mut self) {
        if self.landed {
            return;
        }
        let mut shard = lock(&self.locked.shard);
        let counts = shard.count(self.family);
        counts.lookups += 1;
        counts.misses += 1;
        counts.failures += 1;
        let key = shard.end_flight(self.probe);
        drop(shard);
        drop(key);
        self.flight.land(None);
    }
}

/// Gives a value its type back.
#[inline]
fn typed<K: Key>(value: Arc<dyn Any + Send + Sync>) -> Arc<K::Value> {
    match value.downcast::<K::Value>() {
        Ok(value) => value,
        // A probe equals an entry only if their key types are one, and a key type has one value type.
        Err(_) => unreachable!("an entry of {} holds a value of another type", K::FAMILY),
    }
}
