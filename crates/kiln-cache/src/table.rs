//! The entries of one cache: shards behind locks, their bound, and the search for the least recently used entry.
//!
//! It is separate from the cache that looks up keys, because an account evicts from all caches that share it. Lock
//! order: a shard's lock and any other are never held together.

use super::budget::{Budget, Limits};
use super::erased::Probe;
use super::shard::{Shard, Spare, Spared, Victim};
use super::shim::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// The hint of an empty shard.
const EMPTY: u64 = u64::MAX;

/// A shard behind its lock, on cache lines of its own (two, because the prefetcher pulls them in pairs).
#[repr(align(128))]
pub(super) struct Locked {
    pub(super) shard: Mutex<Shard>,
    /// No entry of the shard is older than this stamp. Written under the lock, read without.
    oldest: AtomicU64,
}

impl Locked {
    /// Corrects the hint to the shard's present content.
    pub(super) fn note_oldest(&self, shard: &MutexGuard<'_, Shard>) -> u64 {
        let stamp = shard.oldest().unwrap_or(EMPTY);
        self.oldest.store(stamp, Ordering::Relaxed);
        stamp
    }
}

/// Shards and their bound.
pub(super) struct Table {
    shards: Box<[Locked]>,
    pub(super) budget: Budget,
}

impl Table {
    /// An empty table of that many shards, a power of two.
    pub(super) fn new(limits: Limits, shards: usize) -> Table {
        let shards =
            (0..shards).map(|_| Locked { shard: Mutex::new(Shard::new()), oldest: AtomicU64::new(EMPTY) }).collect();
        Table { shards, budget: Budget::new(limits) }
    }

    pub(super) fn shards(&self) -> &[Locked] {
        &self.shards
    }

    /// The shard of a hash. The hash table uses the lowest bits to place and the top seven to compare, so the bits for
    /// the shard are taken from between.
    #[inline]
    pub(super) fn locked(&self, probe: &dyn Probe) -> &Locked {
        &self.shards[(probe.hash() >> 40) as usize & (self.shards.len() - 1)]
    }

    /// No entry is older than this stamp.
    pub(super) fn oldest(&self) -> u64 {
        self.shards.iter().map(|locked| locked.oldest.load(Ordering::Relaxed)).min().unwrap_or(EMPTY)
    }

    /// Takes out the least recently used entry of all shards.
    ///
    /// Hints only lag behind: the true oldest stamp of a shard is never below its hint. So the shard with the lowest
    /// hint is locked and its hint corrected, until the corrected stamp is still the lowest: then it is the oldest.
    pub(super) fn evict_oldest(&self) -> Option<Victim> {
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
                drop(shard);
                if let Some((_, entry)) = &victim {
                    self.budget.give_back(1, entry.bytes);
                }
                return victim;
            }
        }
    }

    /// Takes out entries of at least `bytes` bytes in all, except spared ones: the least recently used entries, and
    /// with them others that were last used at the same time. Fewer where all others are spared.
    pub(super) fn evict_spare(&self, spared: Spared, bytes: usize) -> Vec<Victim> {
        let mut spare: Vec<Spare> = Vec::new();
        for locked in &self.shards {
            spare.extend(lock(&locked.shard).spare(spared));
        }
        spare.sort_unstable_by_key(|spare| spare.stamp);
        let mut found = 0;
        let enough = |spare: &&Spare| {
            found += spare.bytes;
            found >= bytes
        };
        let Some(last) = spare.iter().find(enough).or(spare.last()).map(|spare| spare.stamp) else { return Vec::new() };
        let mut all = Vec::new();
        for locked in &self.shards {
            let mut shard = lock(&locked.shard);
            let gone = shard.evict_spare(spared, last);
            locked.note_oldest(&shard);
            drop(shard);
            self.budget.give_back(gone.len(), gone.iter().map(|(_, entry)| entry.bytes).sum());
            all.extend(gone);
        }
        all
    }

    /// Takes everything out, without calling it eviction.
    pub(super) fn drain(&self) -> Vec<Victim> {
        let mut all = Vec::new();
        for locked in &self.shards {
            let mut shard = lock(&locked.shard);
            let gone = shard.drain();
            locked.note_oldest(&shard);
            drop(shard);
            self.budget.give_back(gone.len(), gone.iter().map(|(_, entry)| entry.bytes).sum());
            all.extend(gone);
        }
        all
    }
}
