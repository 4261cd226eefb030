//! The cache's counters, per family and in all.
//!
//! Counters live inside the shards and are changed under the shard's lock that the look-up holds anyway, so that
//! counting adds no atomic operation to a hit. Families are numbered in order of appearance; an entry remembers its
//! family's number.

use std::any::TypeId;

use super::Key;
use super::shim::{Mutex, lock};

/// Counters of a cache or of one family in it.
///
/// Every look-up ends in exactly one of `hits`, `misses` and `waits`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Look-ups that have been answered.
    pub lookups: u64,
    /// Look-ups answered by a stored value.
    pub hits: u64,
    /// Look-ups that found nothing: each led to a build, a failure, or (with [`get`](super::Cache::get)) to nothing.
    pub misses: u64,
    /// Look-ups answered by a build that another thread had under way.
    pub waits: u64,
    /// Builds that took their choices from a record.
    pub record_hits: u64,
    /// Builds that succeeded.
    pub builds: u64,
    /// Time spent in builders that succeeded, in nanoseconds; builds inside builds count in both.
    pub build_nanos: u64,
    /// Builds that ended in an error or a panic, and re-entrant look-ups.
    pub failures: u64,
    /// Entries that the bound pushed out.
    pub evictions: u64,
    /// Entries stored now.
    pub entries: u64,
    /// Bytes charged now.
    pub bytes: u64,
}

impl Stats {
    /// Adds the counters of another.
    pub fn add(&mut self, other: &Stats) {
        let Stats {
            lookups,
            hits,
            misses,
            waits,
            record_hits,
            builds,
            build_nanos,
            failures,
            evictions,
            entries,
            bytes,
        } = other;
        self.lookups += lookups;
        self.hits += hits;
        self.misses += misses;
        self.waits += waits;
        self.record_hits += record_hits;
        self.builds += builds;
        self.build_nanos += build_nanos;
        self.failures += failures;
        self.evictions += evictions;
        self.entries += entries;
        self.bytes += bytes;
    }

    /// Hits and waits over look-ups: the share that built nothing. 0 without look-ups.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        if self.lookups == 0 { 0.0 } else { (self.hits + self.waits) as f64 / self.lookups as f64 }
    }
}

/// The number of a family inside one cache.
pub(super) type FamilyId = usize;

/// The families that a cache has met.
#[derive(Default)]
pub(super) struct Families(Mutex<Vec<(TypeId, &'static str)>>);

impl Families {
    /// The number of that key type. Only misses look it up, in a list of tens, where a scan is the fastest map.
    pub(super) fn id<K: Key>(&self) -> FamilyId {
        let wanted = TypeId::of::<K>();
        let mut list = lock(&self.0);
        let known = list.iter().position(|(known, _)| *known == wanted);
        known.unwrap_or_else(|| {
            list.push((wanted, K::FAMILY));
            list.len() - 1
        })
    }

    /// The families' names, by number.
    pub(super) fn names(&self) -> Vec<&'static str> {
        lock(&self.0).iter().map(|(_, name)| *name).collect()
    }
}
