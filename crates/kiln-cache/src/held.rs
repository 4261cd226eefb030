//! Values in use without a count that threads share.
//!
//! # Problem
//!
//! A hit that hands out an `Arc` writes one number twice, when the `Arc` is made and when it is dropped. Threads that
//! want the same values at the same time pass the line with that number from core to core, and two threads together
//! answer no more hits than one.
//!
//! # Idea
//!
//! An entry has a few *lanes*. A lane is an owner of the value with a count of its own, and a thread counts on the lane
//! of its *index*, a number that it keeps while it lives. The entry in the shard owns its lanes; threads remember lanes
//! weakly, as they remember the value.
//!
//! # Consequences
//!
//! - A value goes when its entry has left and the last [`Held`] of every lane is dropped: no value in use is freed, and
//!   no other is kept.
//! - Threads with the same lane share a count, which is slower but still right. Threads that live at the same time have
//!   different lanes as far as possible, because an index is the lowest free number.
//! - A lane takes 128 bytes of an entry, from when a thread of the lane first finds the entry in its shard.
//!
//! Nothing here knows shards, bounds or keys.

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::shim::{Arc, Weak};

/// Most counts of an entry.
const LANES: usize = 8;

/// A value of the cache in use, counted on the lane of the thread that asked. It stays whole while it is held, whatever
/// is evicted or replaced. To keep it for long, or to hand it to others, take its [`Arc`](Held::into_arc).
pub struct Held<V>(Holding<V>);

enum Holding<V> {
    /// Through its lane.
    Lane(Arc<Lane<V>>),
    /// Directly: built just now, or found on a thread that does not remember entries.
    Whole(Arc<V>),
}

/// One owner of a value, with a count on a cache line of its own.
#[repr(align(64))]
pub(super) struct Lane<V>(Arc<V>);

impl<V> Held<V> {
    pub(super) fn lane(lane: Arc<Lane<V>>) -> Held<V> {
        Held(Holding::Lane(lane))
    }

    pub(super) fn whole(value: Arc<V>) -> Held<V> {
        Held(Holding::Whole(value))
    }

    /// The value with the count that all threads share.
    #[must_use]
    pub fn into_arc(self) -> Arc<V> {
        match self.0 {
            Holding::Lane(lane) => Arc::clone(&lane.0),
            Holding::Whole(value) => value,
        }
    }
}

impl<V> Deref for Held<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        match &self.0 {
            Holding::Lane(lane) => &lane.0,
            Holding::Whole(value) => value,
        }
    }
}

impl<V: fmt::Debug> fmt::Debug for Held<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The lanes of one value, for threads that remember its key. Most entries never have any.
pub(super) struct Lanes<V>(OnceLock<Box<[OnceLock<Weak<Lane<V>>>; LANES]>>);

impl<V> Default for Lanes<V> {
    fn default() -> Lanes<V> {
        Lanes(OnceLock::new())
    }
}

impl<V> Lanes<V> {
    /// The value on that lane, if it is open and has an owner: the entry, or a holder.
    #[inline]
    pub(super) fn held(&self, lane: usize) -> Option<Held<V>> {
        self.0.get()?.get(lane)?.get()?.upgrade().map(Held::lane)
    }

    /// Opens a lane; `None` if it was open before. The shard's lock allows one caller at a time.
    pub(super) fn open(&self, lane: usize, value: &Arc<V>) -> Option<Arc<Lane<V>>> {
        let slot = self.0.get_or_init(Box::default).get(lane)?;
        if slot.get().is_some() {
            return None;
        }
        let owner = Arc::new(Lane(Arc::clone(value)));
        slot.set(Arc::downgrade(&owner)).ok().map(|()| owner)
    }
}

/// A number that no other living thread has, as long as there are at most 64 threads.
pub(super) struct ThreadIndex(u32);

/// The indices in use, by bit. They are no part of any cache, so no model of a cache has to know them.
static TAKEN: AtomicU64 = AtomicU64::new(0);

impl ThreadIndex {
    /// The lowest free index, or an index beyond all, which several threads may have.
    pub(super) fn take() -> ThreadIndex {
        let lowest = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
        let before = TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lowest);
        ThreadIndex(before.map_or(u64::BITS, u64::trailing_ones))
    }

    /// The lane of that index.
    #[inline]
    pub(super) fn lane(&self) -> usize {
        self.0 as usize % LANES
    }
}

impl Drop for ThreadIndex {
    fn drop(&mut self) {
        if self.0 < u64::BITS {
            TAKEN.fetch_and(!(1 << self.0), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_owns_the_value_on_lines_of_its_own_and_opens_once() {
        let value = Arc::new(7);
        let lanes = Lanes::default();
        assert!(lanes.held(0).is_none());
        let owners: Vec<_> = (0..LANES).filter_map(|lane| lanes.open(lane, &value)).collect();
        assert_eq!((owners.len(), Arc::strong_count(&value)), (LANES, 1 + LANES));
        assert!(lanes.open(0, &value).is_none() && lanes.open(LANES, &value).is_none());
        let held = lanes.held(3).unwrap();
        assert_eq!((*held, Arc::strong_count(&owners[3])), (7, 2));
        let lines = owners.iter().map(|owner| std::ptr::from_ref(&**owner).addr() / 64);
        assert_eq!(lines.collect::<std::collections::HashSet<_>>().len(), LANES);
        drop(owners);
        assert!(lanes.held(0).is_none(), "it has no owner");
        assert_eq!((*held, Arc::strong_count(&value)), (7, 2), "what is held stays");
        assert_eq!(Arc::strong_count(&held.into_arc()), 2);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn living_threads_have_indices_of_their_own() {
        let indices: Vec<ThreadIndex> = (0..5).map(|_| ThreadIndex::take()).collect();
        let numbers: std::collections::HashSet<u32> = indices.iter().map(|index| index.0).collect();
        assert_eq!(numbers.len(), 5);
        assert!(indices.iter().all(|index| index.lane() < LANES));
    }
}
