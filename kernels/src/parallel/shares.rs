//! Work that is divided into shares, one for each thread. A thread whose share is done takes what others have left.
//!
//! A thread always begins with the same share of equal work, so that it can prefetch what the share reads before the
//! work begins ([`Reads`]). Pieces are taken from the front of one's own share and from the back of others'.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::line::Line;
use super::{Parallel, Reads, part};

/// Whether work of `tasks` tasks is divided into shares: where there are several threads with a task each.
pub fn has_shares(parallel: &dyn Parallel, tasks: usize) -> bool {
    let threads = parallel.threads();
    threads > 1 && tasks >= threads
}

/// Announces what work reads, and calls `task` with ranges of its units until all are done. `pieces` are the lengths of
/// a long range, and of a short one at the end of a share. Each thread begins with its own share, [`Reads::share`].
pub fn in_shares(parallel: &dyn Parallel, reads: Reads, pieces: [usize; 2], task: &(dyn Fn(Range<usize>) + Sync)) {
    let (total, threads) = (reads.units, parallel.threads());
    assert!(u32::try_from(total).is_ok(), "{total} units");
    parallel.expect(reads);
    let shares: SmallVec<[Share; 8]> = (0..threads).map(|thread| Share::of(part(total, threads, thread))).collect();
    parallel.each_thread(&|thread| {
        let mine = thread.min(threads - 1);
        while let Some(units) = shares[mine].take(pieces, Share::from_front) {
            task(units);
        }
        for other in (1..threads).map(|step| (mine + step) % threads) {
            while let Some(units) = shares[other].take(pieces, Share::from_back) {
                task(units);
            }
        }
    });
}

/// Units that no thread has taken: the first one, and the one behind the last.
struct Share(Line<AtomicU64>);

impl Share {
    fn of(units: Range<usize>) -> Share {
        Share(Line(AtomicU64::new(Share::word(units.start as u64, units.end as u64))))
    }

    fn word(start: u64, end: u64) -> u64 {
        start << 32 | end
    }

    /// Takes a large piece, and a small one where no more than a large one is left, so that threads end together.
    fn take(&self, pieces: [usize; 2], split: fn(u64, u64, u64) -> [u64; 4]) -> Option<Range<usize>> {
        let [large, small] = pieces.map(|piece| piece.max(1) as u64);
        let mut word = self.0.0.load(Ordering::Relaxed);
        loop {
            let (start, end) = (word >> 32, word & u64::from(u32::MAX));
            let left = end.checked_sub(start).filter(|&left| left > 0)?;
            let count = if left > large { large } else { left.min(small) };
            let [first, behind, start, end] = split(start, end, count);
            // What a unit writes is published when the fork ends.
            let next = Share::word(start, end);
            match self.0.0.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(first as usize..behind as usize),
                Err(now) => word = now,
            }
        }
    }

    /// What is taken, and what is left.
    fn from_front(start: u64, end: u64, count: u64) -> [u64; 4] {
        [start, start + count, start + count, end]
    }

    fn from_back(start: u64, end: u64, count: u64) -> [u64; 4] {
        [end - count, end, start, end - count]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::parallel::{Pool, Serial};

    /// Units without memory behind them.
    fn units(units: usize) -> Reads {
        Reads { units, ..Reads::default() }
    }

    #[test]
    fn shares_need_several_threads_and_a_task_for_each() {
        let pool = Pool::new(3, "shares").unwrap();
        assert!([3, 4].iter().all(|&tasks| has_shares(&pool, tasks)));
        assert!([0, 1, 2].iter().all(|&tasks| !has_shares(&pool, tasks)));
        assert!(!has_shares(&Serial, 9));
    }

    #[test]
    fn every_unit_is_done_once_by_any_number_of_threads() {
        for threads in [1, 2, 3, 9] {
            let pool = Pool::new(threads, "shares").unwrap();
            for (total, pieces) in [(0, [4, 2]), (1, [4, 1]), (7, [1, 1]), (28, [4, 2]), (29, [4, 2]), (1000, [7, 7])] {
                let done: Vec<AtomicUsize> = (0..total).map(|_| AtomicUsize::new(0)).collect();
                for turn in 1..=20 {
                    in_shares(&pool, units(total), pieces, &|units| {
                        assert!(units.len() <= pieces[0]);
                        units.for_each(|unit| {
                            done[unit].fetch_add(1, Ordering::Relaxed);
                        });
                    });
                    assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == turn), "{total} by {threads}");
                }
            }
        }
    }

    #[test]
    fn a_caller_alone_does_what_others_would() {
        let done = std::sync::Mutex::new(Vec::new());
        in_shares(&Serial, units(6), [2, 1], &|units| done.lock().unwrap().extend(units));
        assert_eq!(done.into_inner().unwrap(), [0, 1, 2, 3, 4, 5]);
    }
}
