//! One shard: the entries whose hashes fall into it, in order of use, and the keys being built.
//!
//! This is the policy, single-threaded; locks are put around it by `store`. It never calls a builder and never drops a
//! value: entries that leave are returned, so that the caller can drop them after the lock.
//!
//! Within a shard the order is exact (the `lru` crate's list). Between shards it is kept by *stamps*: an entry carries
//! the time at which it was last used. A shard's stamps rise along its list, so the oldest entry of all is at the tail
//! of some shard. Time goes on with insertions and not with every hit, because a counter that every hit increments
//! would be the one cache line that all threads fight over; entries that were used at the same time count as equally
//! old.

use hashbrown::HashMap;
use lru::LruCache;

use super::clock::Clock;
use super::erased::{Erased, GONE, GivenHash, Probe};
use super::flight::{Flight, Shared};
use super::shim::Arc;
use super::stats::{FamilyId, Stats};

/// A stored value.
pub(super) struct Entry {
    pub(super) value: Shared,
    pub(super) bytes: usize,
    pub(super) family: FamilyId,
    /// Whether it was looked up again.
    has_returned: bool,
    /// Further owners of the value, one for each lane that threads count on (`held`).
    pub(super) lanes: Vec<Shared>,
}

impl Entry {
    pub(super) fn new(value: Shared, bytes: usize, family: FamilyId) -> Entry {
        Entry { value, bytes, family, has_returned: false, lanes: Vec::new() }
    }

    /// Whether it may go while only `spared` entries are spared.
    fn may_go(&self, spared: Spared) -> bool {
        match spared {
            Spared::Returned => !self.has_returned,
            Spared::Used => {
                let owners = Arc::strong_count(&self.value) - self.lanes.len();
                owners == 1 && self.lanes.iter().all(|lane| Arc::strong_count(lane) == 1)
            }
        }
    }
}

/// Entries that stay where room is made without need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spared {
    /// Entries that were looked up again after they had been stored.
    Returned,
    /// Entries with a user outside of the cache: evicting them frees no memory.
    Used,
}

/// An entry that may go.
pub(super) struct Spare {
    pub(super) stamp: u64,
    pub(super) bytes: usize,
}

/// An entry that has left, to be dropped when no lock is held.
pub(super) type Victim = (Erased, Entry);

/// The entries, the flights and the counters of one shard.
pub(super) struct Shard {
    entries: LruCache<Erased, Entry, GivenHash>,
    flights: HashMap<Erased, Arc<Flight>, GivenHash>,
    counts: Vec<Stats>,
}

impl Shard {
    pub(super) fn new() -> Shard {
        // Unbounded, because there is one bound over all shards; see `budget`.
        let entries = LruCache::unbounded_with_hasher(GivenHash::default());
        Shard { entries, flights: HashMap::default(), counts: Vec::new() }
    }

    /// The value of a key, which becomes the most recently used.
    #[inline]
    pub(super) fn hit(&mut self, probe: &dyn Probe, clock: &Clock) -> Option<(&Erased, &mut Entry)> {
        let (key, entry) = self.entries.get_key_value_mut(probe)?;
        // The clock is read under the shard's lock, so that stamps never fall from one use to the next.
        key.set_stamp(clock.now());
        entry.has_returned = true;
        let counts = &mut self.counts[entry.family];
        counts.lookups += 1;
        counts.hits += 1;
        Some((key, entry))
    }

    /// The counters of a family.
    pub(super) fn count(&mut self, family: FamilyId) -> &mut Stats {
        if family >= self.counts.len() {
            self.counts.resize(family + 1, Stats::default());
        }
        &mut self.counts[family]
    }

    /// The flight of a key that is being built.
    pub(super) fn flight(&self, probe: &dyn Probe) -> Option<Arc<Flight>> {
        self.flights.get(probe).cloned()
    }

    /// Notes that a key is being built.
    pub(super) fn take_off(&mut self, key: Erased, flight: Arc<Flight>) {
        self.flights.insert(key, flight);
    }

    /// Forgets a flight and gives its key back.
    pub(super) fn end_flight(&mut self, probe: &dyn Probe) -> Option<Erased> {
        self.flights.remove_entry(probe).map(|(key, _)| key)
    }

    /// Stores an entry as used at that time; returns the entry that it replaced, if any.
    pub(super) fn store(&mut self, key: Erased, entry: Entry, stamp: u64) -> Option<Victim> {
        let probe: &dyn Probe = &key;
        let replaced = self.entries.pop_entry(probe);
        if let Some((key, entry)) = &replaced {
            self.leave(key, entry);
        }
        let counts = self.count(entry.family);
        counts.entries += 1;
        counts.bytes += entry.bytes as u64;
        key.set_stamp(stamp);
        self.entries.push(key, entry);
        replaced
    }

    /// The stamp of the least recently used entry.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.entries.peek_lru().map(|(key, _)| key.stamp())
    }

    /// Takes the least recently used entry out.
    pub(super) fn evict(&mut self) -> Option<Victim> {
        let victim = self.remove_oldest()?;
        self.count(victim.1.family).evictions += 1;
        Some(victim)
    }

    /// The entries that may go.
    pub(super) fn spare(&self, spared: Spared) -> impl Iterator<Item = Spare> {
        let spare = move |(key, entry): (&Erased, &Entry)| Spare { stamp: key.stamp(), bytes: entry.bytes };
        self.entries.iter().filter(move |(_, entry)| entry.may_go(spared)).map(spare)
    }

    /// Takes out the entries that may go and were used at `last` or before. The others keep their order.
    pub(super) fn evict_spare(&mut self, spared: Spared, last: u64) -> Vec<Victim> {
        let mut victims = Vec::new();
        for _ in 0..self.entries.len() {
            let Some((key, entry)) = self.entries.pop_lru() else { break };
            if key.stamp() <= last && entry.may_go(spared) {
                self.leave(&key, &entry);
                self.count(entry.family).evictions += 1;
                victims.push((key, entry));
            } else {
                self.entries.push(key, entry);
            }
        }
        victims
    }

    /// Takes everything out, without calling it eviction.
    pub(super) fn drain(&mut self) -> Vec<Victim> {
        std::iter::from_fn(|| self.remove_oldest()).collect()
    }

    /// The keys of all entries.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Erased> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// The counters, by family number.
    pub(super) fn counts(&self) -> &[Stats] {
        &self.counts
    }

    fn remove_oldest(&mut self) -> Option<Victim> {
        let victim = self.entries.pop_lru()?;
        let (key, entry) = &victim;
        self.leave(key, entry);
        Some(victim)
    }

    /// Notes that an entry is not stored any more.
    fn leave(&mut self, key: &Erased, entry: &Entry) {
        key.set_stamp(GONE);
        let counts = self.count(entry.family);
        counts.entries -= 1;
        counts.bytes -= entry.bytes as u64;
    }
}
