//! The bound: how many entries and bytes there may be, and how many there are.
//!
//! Room is taken *before* an entry is stored and given back after it has left, so that the bound is never exceeded, not
//! even for a moment and not by any number of threads. Nothing here knows which entry should go; see `store`.

use super::shim::{Mutex, lock};

/// The most that a cache may keep, over all key types together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries; 0 turns storing off: everything is built and handed out, nothing is kept.
    pub entries: usize,
    /// Bytes, as the builders state them.
    pub bytes: usize,
}

/// Entries and bytes in use.
#[derive(Clone, Copy, Default)]
struct Used {
    entries: usize,
    bytes: usize,
}

/// The bound and the part of it that is in use.
pub(super) struct Budget {
    limits: Limits,
    used: Mutex<Used>,
}

impl Budget {
    pub(super) fn new(limits: Limits) -> Budget {
        Budget { limits, used: Mutex::default() }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether an entry of that size could be stored at all, were everything else evicted.
    pub(super) fn admits(&self, bytes: usize) -> bool {
        self.limits.entries > 0 && bytes <= self.limits.bytes
    }

    /// Takes room for one entry of that size, if there is room now. Returns the number of entries with it.
    pub(super) fn take(&self, bytes: usize) -> Option<usize> {
        let mut used = lock(&self.used);
        // `used.bytes` never exceeds the limit, so the difference cannot wrap.
        if used.entries >= self.limits.entries || bytes > self.limits.bytes - used.bytes {
            return None;
        }
        used.entries += 1;
        used.bytes += bytes;
        Some(used.entries)
    }

    /// Gives back the room of `entries` entries that held `bytes` in all.
    pub(super) fn give_back(&self, entries: usize, bytes: usize) {
        let mut used = lock(&self.used);
        used.entries -= entries;
        used.bytes -= bytes;
    }

    pub(super) fn entries(&self) -> usize {
        lock(&self.used).entries
    }

    pub(super) fn bytes(&self) -> usize {
        lock(&self.used).bytes
    }
}
