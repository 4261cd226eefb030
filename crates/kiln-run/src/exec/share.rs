//! One session's use of a cache: its look-ups by outcome, and the bytes of the executors that it built.
//!
//! Many sessions may use one cache, whose own counters count all sessions. A share counts where nodes ask for
//! executors, once a new shape, and never in a request whose shapes are known. Code and packed weights, which sessions
//! share by nature, are in no session's share.

use std::sync::atomic::{AtomicU64, Ordering};

use kiln_cache::Outcome;

/// Counters of one session, which its requests write.
#[derive(Debug, Default)]
pub struct Share {
    hits: AtomicU64,
    waits: AtomicU64,
    record_hits: AtomicU64,
    misses: AtomicU64,
    built_bytes: AtomicU64,
    fell_apart: AtomicU64,
    joined: AtomicU64,
}

/// A session's part in a cache so far. Every look-up is in exactly one of the first four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShareStats {
    /// Executors that were there, built by this session or another.
    pub hits: u64,
    /// Executors that another thread was building.
    pub waits: u64,
    /// Executors that this session rebuilt from records.
    pub record_hits: u64,
    /// Executors that this session chose and built.
    pub misses: u64,
    /// Bytes of the executors that this session built, whether they are still there or not.
    pub built_bytes: u64,
    /// Times that a kernel refused the steps fused into a node, which then does one after the other.
    pub fell_apart: u64,
    /// Requests whose rows were computed together with those of others.
    pub joined: u64,
}

impl Share {
    /// Counts a look-up and, if this session built the executor, its `bytes` bytes.
    pub fn count(&self, outcome: Outcome, bytes: usize) {
        let counter = match outcome {
            Outcome::Hit => &self.hits,
            Outcome::Waited => &self.waits,
            Outcome::RecordHit => &self.record_hits,
            Outcome::Miss => &self.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if matches!(outcome, Outcome::RecordHit | Outcome::Miss) {
            self.built_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Counts a node that fell apart.
    pub fn count_apart(&self) {
        self.fell_apart.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts requests whose rows were computed together.
    pub fn count_joined(&self, requests: usize) {
        self.joined.fetch_add(requests as u64, Ordering::Relaxed);
    }

    /// Executors that this session built so far.
    pub fn built(&self) -> u64 {
        self.record_hits.load(Ordering::Relaxed) + self.misses.load(Ordering::Relaxed)
    }

    /// The counters now.
    #[must_use]
    pub fn stats(&self) -> ShareStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ShareStats {
            hits: read(&self.hits),
            waits: read(&self.waits),
            record_hits: read(&self.record_hits),
            misses: read(&self.misses),
            built_bytes: read(&self.built_bytes),
            fell_apart: read(&self.fell_apart),
            joined: read(&self.joined),
        }
    }
}
