//! The cache itself: a table of entries, single flight around builders, one bound around everything.
//!
//! A hit is answered from the thread's memory (`front`), where that changes nothing. Otherwise it takes one lock, that
//! of the shard that the key's hash names, and writes nothing else that is shared. A miss goes through a flight: noted
//! under the shard's lock, built under no lock, landed under the shard's lock again. Lock order: a shard's lock and the
//! account's are never held together, nor are two shards'.

use std::any::Any;
use std::fmt;
use std::hash::BuildHasher;
use std::time::Instant;

use hashbrown::DefaultHashBuilder;

use super::account::Account;
use super::budget::Limits;
use super::erased::{Erased, Kept, Probe, Query};
use super::flight::{Deadlock, Flight, Shared, Waits};
use super::front::{self, HitCounts};
use super::held::Held;
use super::shard::{Entry, Shard, Spared, Victim};
use super::shim::{Arc, MutexGuard, lock};
use super::stats::{Families, FamilyId, Stats};
use super::table::{Locked, Table};
use super::{Answer, Builder, Built, CacheError, Key, Outcome};

/// Below this many entries one shard is enough: the order is then exact, and such a small cache is not a hot one.
const SHARDED_FROM: usize = 256;
/// Shards per thread of the machine: with 8, two threads meet in a shard for one look-up in sixteen.
const SHARDS_PER_THREAD: usize = 8;
/// More shards than this make the search for the oldest entry the cost of a miss.
const MOST_SHARDS: usize = 64;
/// The name of the next cache: never used twice, so that an entry of a cache that is gone is not taken for another
/// cache's.
static NAMES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Many kinds of values, each determined by its key, within one bound. The [module](super) lists the guarantees.
pub struct Cache<S = DefaultHashBuilder> {
    hasher: S,
    table: Arc<Table>,
    /// Whether threads remember entries. Where the order of use is exact, they do not, because each hit has to change
    /// it.
    is_remembered: bool,
    account: Arc<Account>,
    /// The name of this cache where threads remember its entries.
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

    /// An empty cache whose entries are charged to an account together with those of other caches. Whichever cache
    /// wants room, the least recently used entry over all caches goes first.
    #[must_use]
    pub fn charged_to(account: &Arc<Account>, limits: Limits) -> Cache {
        let shards = usual_shards(limits);
        Cache::over(limits, DefaultHashBuilder::default(), shards, Arc::clone(account))
    }
}

/// Shards of a cache, by default.
fn usual_shards(limits: Limits) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    if limits.entries < SHARDED_FROM { 1 } else { threads * SHARDS_PER_THREAD }
}

impl<S: BuildHasher> Cache<S> {
    /// An empty cache that hashes keys by `hasher`.
    #[must_use]
    pub fn with_hasher(limits: Limits, hasher: S) -> Cache<S> {
        Cache::with_shards(limits, hasher, usual_shards(limits))
    }

    /// An empty cache of about `shards` shards: rounded up to a power of two, at most 64. One shard keeps the exact
    /// order of use, at the price of a lock for every hit; more shards keep it except among entries that were used
    /// between the same two insertions (from 1,024 entries on: between insertions of 1/512 of the entries).
    #[must_use]
    pub fn with_shards(limits: Limits, hasher: S, shards: usize) -> Cache<S> {
        Cache::over(limits, hasher, shards, Account::new(limits.bytes))
    }

    fn over(limits: Limits, hasher: S, shards: usize, account: Arc<Account>) -> Cache<S> {
        let shards = shards.clamp(1, MOST_SHARDS).next_power_of_two();
        let table = Arc::new(Table::new(limits, shards));
        account.join(&table);
        Cache {
            hasher,
            table,
            is_remembered: shards > 1,
            account,
            name: NAMES.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            hits: HitCounts::default(),
            families: Families::default(),
            waits: Waits::default(),
        }
    }

    /// The value of `key`: the stored one, or the one that another thread is just building, or the one that `build`
    /// builds now.
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

    /// As [`get_or_create`](Cache::get_or_create), for a caller that uses the value and drops it. A hit that the thread
    /// remembers is counted on the thread's own lane, so that threads that want the same values do not slow each other
    /// down.
    ///
    /// # Errors
    ///
    /// As for [`get_or_create`](Cache::get_or_create).
    #[inline]
    pub fn hold<K: Key, C: ?Sized, E>(
        &self,
        key: &K,
        cx: &C,
        build: Builder<K, C, E>,
    ) -> Result<(Held<K::Value>, Outcome), CacheError<E>> {
        let query = Query::new(key, &self.hasher);
        if self.is_remembered
            && let Some(held) = front::hit(self.name, query.hash(), key, self.account.clock.now(), Kept::held)
        {
            return Ok((held, Outcome::Hit));
        }
        match self.find::<K>(&query, true) {
            Some(value) => Ok((Held::whole(value), Outcome::Hit)),
            None => self.create(key, &query, cx, build).map(|(value, outcome)| (Held::whole(value), outcome)),
        }
    }

    /// The value of `key` if it is stored now. Builds nothing and does not wait for builders.
    pub fn get<K: Key>(&self, key: &K) -> Option<Arc<K::Value>> {
        let query = Query::new(key, &self.hasher);
        let found = self.hit(key, &query);
        if found.is_none() {
            let counts = &mut lock(&self.table.locked(&query).shard);
            let counts = counts.count(self.families.id::<K>());
            counts.lookups += 1;
            counts.misses += 1;
        }
        found
    }

    /// Stores a value of `key`, in place of another if there is one, for a caller that has found a better value. Owners
    /// of the old value keep it. A builder that is under way for the same key still stores its own.
    pub fn put<K: Key>(&self, key: &K, built: Built<K::Value>) {
        let Built { value, bytes, from_record: _ } = built;
        let query = Query::new(key, &self.hasher);
        let family = self.families.id::<K>();
        let mut victims = Vec::new();
        if self.make_room(bytes, &mut victims) {
            let (kept, value) = (Kept::new(key.clone(), family, self.name), Arc::new(value));
            kept.found(&value);
            let locked = self.table.locked(&query);
            let shard = lock(&locked.shard);
            self.store(locked, shard, query.owned(kept), Entry::new(value, bytes, family), &mut victims);
        }
        // Victims are dropped last: their `Drop` may ask the cache for anything.
        self.account.settle(&mut victims);
    }

    /// The counters of all families together.
    pub fn stats(&self) -> Stats {
        let mut total = Stats::default();
        self.family_stats().iter().for_each(|(_, stats)| total.add(stats));
        total
    }

    /// The counters of each family that was looked up, by name.
    pub fn family_stats(&self) -> Vec<(&'static str, Stats)> {
        let names = self.families.names();
        let mut families: Vec<(&'static str, Stats)> = Vec::new();
        for (family, name) in names.iter().enumerate() {
            let mut stats = Stats::default();
            for locked in self.table.shards() {
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
        for locked in self.table.shards() {
            keys.extend(lock(&locked.shard).keys().filter_map(|key| key.any().downcast_ref::<K>().cloned()));
        }
        keys
    }

    /// Evicts the least recently used entries until the account has at most `most` bytes in use, as far as that is
    /// possible without the spared ones. Meant for idle times: it looks at every entry.
    pub fn shed(&self, most: usize, spared: Spared) {
        let beyond = self.account.bytes().saturating_sub(most);
        if beyond > 0 {
            self.account.settle(&mut self.table.evict_spare(spared, beyond));
        }
    }

    /// Evicts the least recently used entries, of at least `bytes` bytes in all, or all entries. Returns whether more
    /// is stored.
    pub fn let_go(&self, bytes: usize) -> bool {
        let mut victims = Vec::new();
        let mut gone = 0;
        while gone < bytes {
            let Some(victim) = self.table.evict_oldest() else { break };
            gone += victim.1.bytes;
            victims.push(victim);
        }
        self.account.settle(&mut victims);
        self.account.sweep();
        gone > 0 && !self.is_empty()
    }

    /// Forgets all stored entries. Values in use live on; values being built are stored when they are done.
    pub fn clear(&self) {
        self.account.settle(&mut self.table.drain());
    }

    /// Entries stored now.
    pub fn len(&self) -> usize {
        self.table.budget.entries()
    }

    /// Whether nothing is stored now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all entries stored now.
    pub fn bytes(&self) -> usize {
        self.table.budget.bytes()
    }

    /// The account that its bytes are charged to, together with those of entries that have left and are still in use.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// The bound.
    pub fn limits(&self) -> Limits {
        self.table.budget.limits()
    }

    #[inline]
    fn hit<K: Key>(&self, key: &K, query: &Query<'_, K>) -> Option<Arc<K::Value>> {
        if self.is_remembered
            && let Some(value) =
                front::hit(self.name, query.hash(), key, self.account.clock.now(), |kept, _| kept.value())
        {
            return Some(value);
        }
        self.find::<K>(query, false)
    }

    /// Looks into the shard. The next time, the thread finds the value itself; if `held`, on its lane.
    fn find<K: Key>(&self, probe: &Query<'_, K>, held: bool) -> Option<Arc<K::Value>> {
        // Before the lock: this only needs memory of the thread's own.
        let lane = if held && self.is_remembered { Some(front::lane()) } else { None };
        let mut shard = lock(&self.table.locked(probe).shard);
        let (key, entry) = shard.hit(probe, &self.account.clock)?;
        let (value, family) = (typed::<K>(Arc::clone(&entry.value)), entry.family);
        if self.is_remembered {
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
        let kept = Kept::new(key.clone(), family, self.name);
        let flight = match self.join_flight(query, query.owned(Arc::clone(&kept) as Arc<_>), family) {
            Joined::Answered(value, outcome) => return Ok((typed::<K>(value), outcome)),
            Joined::Deadlock => return Err(CacheError::Reentrant { family: K::FAMILY }),
            Joined::Builder(flight) => flight,
        };
        let started = Instant::now();
        // An early return or a panic drops `flight`, which frees the slot and sends the waiters on their own way.
        let Built { value, bytes, from_record } = build(key, cx).map_err(CacheError::Build)?;
        let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let value = Arc::new(value);
        kept.found(&value);
        flight.land(Arc::clone(&value) as Shared, bytes, nanos, from_record);
        Ok((value, if from_record { Outcome::RecordHit } else { Outcome::Miss }))
    }

    /// Answers a look-up from the table or another's flight, or makes the caller the builder.
    fn join_flight<'a>(&'a self, probe: &'a dyn Probe, key: Erased, family: FamilyId) -> Joined<'a, S> {
        let locked = self.table.locked(probe);
        let flight = Flight::new();
        loop {
            let mut shard = lock(&locked.shard);
            // Another thread may have stored it since the fast path looked, or while this thread waited for a failed
            // build.
            if let Some((_, entry)) = shard.hit(probe, &self.account.clock) {
                return Joined::Answered(Arc::clone(&entry.value), Outcome::Hit);
            }
            let Some(theirs) = shard.flight(probe).filter(|flight| flight.may_land()) else {
                // A flight that a forked child has found is over.
                let _over = shard.end_flight(probe);
                shard.take_off(key, Arc::clone(&flight));
                return Joined::Builder(FlightGuard { cache: self, locked, probe, family, flight, landed: false });
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
                    return Joined::Answered(value, Outcome::Waited);
                }
                Err(Deadlock) => {
                    counts.lookups += 1;
                    counts.misses += 1;
                    counts.failures += 1;
                    return Joined::Deadlock;
                }
            }
        }
    }

    /// Takes room for an entry, evicting for it. `false` if the entry cannot be stored. Nothing here holds a lock.
    fn make_room(&self, bytes: usize, victims: &mut Vec<Victim>) -> bool {
        let (table, account) = (&self.table, &self.account);
        if !table.budget.admits(bytes) || bytes > account.limit() {
            account.refuse();
            return false;
        }
        let entries = loop {
            if let Some(entries) = table.budget.take(bytes) {
                break entries;
            }
            // Nothing left to evict means that other threads hold the room for entries that they have yet to store.
            let Some(victim) = table.evict_oldest() else { return false };
            victims.push(victim);
        };
        let mut has_pressed = false;
        while !account.take(bytes) {
            // Memory that others can spare goes before entries that are stored here.
            if !has_pressed && account.press_whole(bytes) {
                has_pressed = true;
                continue;
            }
            // Evicted entries are dropped before more are evicted: they may be all that keeps other values alive.
            if !victims.is_empty() {
                account.settle(victims);
            } else if !account.sweep() {
                let Some(victim) = account.evict_oldest() else {
                    table.budget.give_back(1, bytes);
                    account.refuse();
                    return false;
                };
                victims.push(victim);
            }
        }
        account.clock.hold(entries);
        true
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
        let replaced = shard.store(key, entry, self.account.clock.tick());
        locked.note_oldest(&shard);
        drop(shard);
        if let Some(victim) = replaced {
            self.table.budget.give_back(1, victim.1.bytes);
            victims.push(victim);
        }
    }
}

impl<S> Drop for Cache<S> {
    fn drop(&mut self) {
        self.account.settle(&mut self.table.drain());
    }
}

impl<S> fmt::Debug for Cache<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("limits", &self.table.budget.limits())
            .field("entries", &self.table.budget.entries())
            .field("bytes", &self.table.budget.bytes())
            .finish_non_exhaustive()
    }
}

/// The next step of a look-up that found nothing at first.
enum Joined<'a, S: BuildHasher> {
    Answered(Shared, Outcome),
    Deadlock,
    Builder(FlightGuard<'a, S>),
}

/// The duty to end a flight, by a value or by being dropped.
struct FlightGuard<'a, S: BuildHasher> {
    cache: &'a Cache<S>,
    locked: &'a Locked,
    probe: &'a dyn Probe,
    family: FamilyId,
    flight: Arc<Flight>,
    landed: bool,
}

impl<S: BuildHasher> FlightGuard<'_, S> {
    /// Stores the value if the bound allows, and hands it to the waiting threads.
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
        // The flight ends and the entry appears under one lock, so that no other thread can miss both and build again.
        let key = shard.end_flight(self.probe);
        if let (true, Some(key)) = (stored, key) {
            let entry = Entry::new(Arc::clone(&value), bytes, self.family);
            self.cache.store(self.locked, shard, key, entry, &mut victims);
        } else {
            drop(shard);
            if stored {
                self.cache.table.budget.give_back(1, bytes);
                self.cache.account.give_back(bytes);
            }
            self.cache.account.linger(Arc::downgrade(&value), bytes);
        }
        self.landed = true;
        self.flight.land(Some(value));
        // Victims are dropped last: their `Drop` may ask the cache for anything.
        self.cache.account.settle(&mut victims);
    }
}

impl<S: BuildHasher> Drop for FlightGuard<'_, S> {
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
