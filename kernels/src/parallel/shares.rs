//! Work that is divided into shares, one for each thread. A thread whose share is done takes what others have left.
//!
//! A thread always begins with the same share of equal work, so that it can prefetch what the share reads before the
//! work begins ([`Reads`]). Pieces are taken from the front of one's own share and from the back of others'.

use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::line::Line;
use super::{Parallel, Piece, Pieces, Reads};

/// Whether work of `tasks` tasks is divided into shares: where there are several threads with a task each.
pub fn has_shares(parallel: &dyn Parallel, tasks: usize) -> bool {
    let threads = parallel.threads();
    threads > 1 && tasks >= threads
}

/// Announces what work reads, and calls `task` with pieces of its units until all are done ([`Pieces`]).
pub fn in_shares(parallel: &dyn Parallel, reads: Reads, task: &(dyn Fn(Piece) + Sync)) {
    let threads = parallel.threads();
    parallel.expect(reads);
    let shares: SmallVec<[Share; 8]> = (0..threads).map(|thread| Share::of(reads.pieces(threads, thread))).collect();
    parallel.each_thread(&|thread| {
        let mine = thread.min(threads - 1);
        while let Some(piece) = shares[mine].take(Share::first) {
            task(piece);
        }
        for other in (1..threads).map(|step| (mine + step) % threads) {
            while let Some(piece) = shares[other].take(Share::last) {
                task(piece);
            }
        }
    });
}

/// The pieces of a share, and those that no thread has taken: the first one, and the one behind the last.
struct Share {
    pieces: Pieces,
    left: Line<AtomicU64>,
}

impl Share {
    fn of(pieces: Pieces) -> Share {
        assert!(u32::try_from(pieces.count()).is_ok(), "{pieces:?}");
        Share { pieces, left: Line(AtomicU64::new(Share::word(0, pieces.count() as u64))) }
    }

    fn word(start: u64, end: u64) -> u64 {
        start << 32 | end
    }

    /// Takes a piece, if there is one. `split` gives its number and the pieces that are left.
    fn take(&self, split: fn(u64, u64) -> [u64; 3]) -> Option<Piece> {
        let mut word = self.left.0.load(Ordering::Relaxed);
        loop {
            let (start, end) = (word >> 32, word & u64::from(u32::MAX));
            if start >= end {
                return None;
            }
            let [taken, start, end] = split(start, end);
            // What a piece writes is published when the fork ends.
            let next = Share::word(start, end);
            match self.left.0.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(self.pieces.piece(taken as usize)),
                Err(now) => word = now,
            }
        }
    }

    fn first(start: u64, end: u64) -> [u64; 3] {
        [start, start + 1, end]
    }

    fn last(start: u64, end: u64) -> [u64; 3] {
        [end - 1, start, end - 1]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::parallel::{Pool, Serial};

    /// Units without memory behind them.
    fn units(units: usize, pieces: [usize; 2]) -> Reads {
        Reads { units, pieces, ..Reads::default() }
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
                    in_shares(&pool, units(total, pieces), &|piece| {
                        assert!(piece.count <= pieces[0]);
                        piece.units().for_each(|unit| {
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
        in_shares(&Serial, units(6, [2, 1]), &|piece| done.lock().unwrap().extend(piece.units()));
        assert_eq!(done.into_inner().unwrap(), [0, 2, 1, 3, 4, 5]);
    }
}
