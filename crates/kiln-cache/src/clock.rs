//! The cache's time, which measures "recently used".
//!
//! The clock advances when a value is stored, so that hits change nothing and write nothing. In a cache of many entries
//! it advances once in several insertions: the order of use is then exact up to a 512th of the entries, and an entry
//! that is hit between any two insertions does not have to be moved each time.
//!
//! Nothing here knows entries, shards or locks.

use super::shim::{AtomicU64, Ordering};

/// Steps of time while as many entries are stored as the cache holds.
const STEPS: u64 = 512;

/// The time, on cache lines of its own: every hit reads it.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Clock {
    now: AtomicU64,
    /// Insertions since the last step.
    since: AtomicU64,
    /// Insertions that make a step; 0 is 1.
    step: AtomicU64,
}

impl Clock {
    /// The stamp of an entry that is used now.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Sets the number of entries.
    pub(super) fn hold(&self, entries: usize) {
        self.step.store(entries as u64 / STEPS, Ordering::Relaxed);
    }

    /// Counts an insertion; returns the stamp of the inserted entry.
    pub(super) fn tick(&self) -> u64 {
        if self.since.fetch_add(1, Ordering::Relaxed) + 1 < self.step.load(Ordering::Relaxed) {
            return self.now();
        }
        self.since.store(0, Ordering::Relaxed);
        self.now.fetch_add(1, Ordering::Relaxed) + 1
    }
}
