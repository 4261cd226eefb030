//! What the next fork is expected to read, and its prefetching.
//!
//! A language model multiplies one row by the same matrices in the same order for each token, and memory is idle while
//! one thread computes what lies between two products. So callers announce what a fork reads, the pool keeps what
//! followed it the last time, and threads that wait prefetch their share of that. A wrong guess costs reads of memory,
//! bounded by the room that the announcement grants.
//!
//! Callers write and threads read without a lock, so what a thread reads may be parts of two announcements. That is as
//! harmless as a wrong guess: prefetching any address reads nothing and does not fault.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::parallel::line::Line;
use crate::parallel::{Reads, Runs};

/// Announcements whose successors are kept, a power of two. A language model of 80 layers has 560 products.
const KEPT: usize = 1024;

/// Cache lines that are prefetched between two looks at the gate.
const AT_ONCE: usize = 4;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// An announcement in cells that are read and written one by one.
#[derive(Debug, Default)]
struct Announced {
    address: AtomicUsize,
    units: AtomicUsize,
    bytes: AtomicUsize,
    pieces: [AtomicUsize; 2],
    room: AtomicUsize,
}

impl Announced {
    fn set(&self, reads: Reads) {
        self.address.store(reads.address, Ordering::Relaxed);
        self.units.store(reads.units, Ordering::Relaxed);
        self.bytes.store(reads.bytes, Ordering::Relaxed);
        self.pieces.iter().zip(reads.pieces).for_each(|(cell, units)| cell.store(units, Ordering::Relaxed));
        self.room.store(reads.room, Ordering::Relaxed);
    }

    fn get(&self) -> Reads {
        Reads {
            address: self.address.load(Ordering::Relaxed),
            units: self.units.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            pieces: [0, 1].map(|at| self.pieces[at].load(Ordering::Relaxed)),
            room: self.room.load(Ordering::Relaxed),
        }
    }
}

/// What followed an announcement.
#[derive(Debug, Default)]
struct Follower {
    /// The announcement's address.
    of: AtomicUsize,
    reads: Announced,
}

/// What was announced, and what is expected next.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    /// Made at the first announcement: most models have none.
    followers: OnceLock<Box<[Follower]>>,
    next: Line<Announced>,
}

thread_local! {
    /// The address of this thread's last announcement, or 0. Callers that share a pool do not follow each other.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

impl Foresight {
    /// Learns that this follows what the thread announced before, and expects what followed it the last time.
    pub(super) fn expect(&self, reads: Reads) {
        let last = LAST.replace(reads.address);
        if last != 0 {
            let before = self.follower(last);
            before.of.store(last, Ordering::Relaxed);
            before.reads.set(reads);
        }
        let follower = self.follower(reads.address);
        let known = follower.of.load(Ordering::Relaxed) == reads.address;
        self.next.0.set(if known { follower.reads.get() } else { Reads::default() });
    }

    /// Forgets what the thread announced before: it did without the pool since.
    pub(super) fn interrupt() {
        LAST.set(0);
    }

    /// Where the successor of what lies at an address is kept.
    fn follower(&self, address: usize) -> &Follower {
        // Fibonacci hashing: panels begin at multiples of large powers of two.
        let hash = (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - KEPT.trailing_zeros());
        let followers = self.followers.get_or_init(|| (0..KEPT).map(|_| Follower::default()).collect());
        &followers[hash as usize]
    }
}

/// The prefetching of one thread: some lines of each run, then the next lines of each.
#[derive(Debug, Default)]
pub(super) struct Prefetch {
    reads: Reads,
    runs: Runs,
    /// Bytes from a run's start, and the run that is next.
    at: usize,
    run: usize,
}

impl Prefetch {
    /// Turns to the share that a thread has of what is expected, and goes on where that is still the same.
    pub(super) fn turn_to(&mut self, foresight: &Foresight, threads: usize, thread: usize) {
        let reads = foresight.next.0.get();
        if reads != self.reads {
            *self = Prefetch { reads, runs: reads.share(threads, thread), at: 0, run: 0 };
        }
    }

    /// Prefetches some lines; false where nothing is left.
    pub(super) fn step(&mut self) -> bool {
        if self.at >= self.runs.bytes {
            return false;
        }
        if let Some(start) = self.runs.starts.get(self.run) {
            (0..AT_ONCE).for_each(|line| prefetch(start.wrapping_add(self.at + line * LINE_BYTES)));
        }
        self.run += 1;
        if self.run >= self.runs.starts.len() {
            (self.run, self.at) = (0, self.at + AT_ONCE * LINE_BYTES);
        }
        true
    }
}

/// Asks for the line at an address to come to L2.
fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch is a hint that reads nothing and does not fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(address: usize) -> Reads {
        Reads { address, units: 10, bytes: 1000, pieces: [2, 1], room: 1 << 20 }
    }

    #[test]
    fn what_followed_the_last_time_is_expected_again() {
        let foresight = Foresight::default();
        let announced = |addresses: &[usize]| {
            addresses.iter().for_each(|&address| foresight.expect(reads(address)));
            foresight.next.0.get().address
        };
        assert_eq!(announced(&[4096, 8192, 64]), 0, "the first turn knows nothing");
        assert_eq!(announced(&[4096]), 8192);
        assert_eq!(announced(&[8192]), 64);
        assert_eq!(announced(&[64]), 4096, "the turn after this one");
        assert_eq!(announced(&[128]), 0, "never announced before");
        assert_eq!(announced(&[64]), 128, "the newest successor");
        std::thread::scope(|scope| {
            scope.spawn(|| announced(&[1 << 20, 1 << 21]));
        });
        assert_eq!(announced(&[128]), 64, "another thread's announcements follow none of this one's");
        Foresight::interrupt();
        assert_eq!(announced(&[8192, 128]), 64, "nothing follows an interruption");
    }

    #[test]
    fn a_thread_prefetches_its_share_once() {
        let foresight = Foresight::default();
        // A fixed address: one in 1024 shares its place with that of the other announcement.
        let there = reads(1 << 20);
        foresight.expect(there);
        foresight.expect(reads(64));
        foresight.expect(there);
        foresight.expect(reads(64));
        assert_eq!(foresight.next.0.get(), there);
        let mut prefetch = Prefetch::default();
        prefetch.turn_to(&foresight, 2, 1);
        let steps = (0..).take_while(|_| prefetch.step()).count();
        assert_eq!(steps, 2 * 2_000usize.div_ceil(AT_ONCE * LINE_BYTES), "two runs of two units");
        prefetch.turn_to(&foresight, 2, 1);
        assert!(!prefetch.step(), "the same share again");
    }
}
