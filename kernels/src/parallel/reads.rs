//! What a fork is about to read, and the share that each thread has of it.

use smallvec::SmallVec;

use super::part;
use super::pieces::Pieces;

/// Memory that work is about to read, and reads again in every turn of a longer task: one run of equal units, such as
/// the panels of a matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Address of the first unit. Only prefetched, never read.
    pub address: usize,
    /// Units.
    pub units: usize,
    /// Bytes of a unit.
    pub bytes: usize,
    /// Most units of a piece of work, and of one of the last pieces: see [`Pieces`].
    pub pieces: [usize; 2],
    /// Bytes that a thread may hold in its caches until the work begins.
    pub room: usize,
}

/// The beginnings of runs of memory, equally long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// The first address of each.
    pub starts: SmallVec<[usize; 4]>,
    /// Bytes of each.
    pub bytes: usize,
}

impl Reads {
    /// The pieces of the share of thread number `thread`.
    #[must_use]
    pub fn pieces(&self, threads: usize, thread: usize) -> Pieces {
        Pieces::new(part(self.units, threads, thread), self.pieces)
    }

    /// What that thread reads first, as much as it has room for.
    #[must_use]
    pub fn share(&self, threads: usize, thread: usize) -> Runs {
        if thread >= threads {
            return Runs::default();
        }
        let pieces = self.pieces(threads, thread);
        let mut starts = pieces.starts();
        starts.iter_mut().for_each(|unit| *unit = self.address.saturating_add(unit.saturating_mul(self.bytes)));
        let bytes = pieces.run_len().saturating_mul(self.bytes).min(self.room / starts.len().max(1));
        Runs { starts, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_cut_to_the_room_that_a_thread_has() {
        let reads = Reads { address: 1 << 20, units: 7, bytes: 100, pieces: [1, 1], room: 250 };
        let share = |reads: Reads, thread| {
            let Runs { starts, bytes } = reads.share(2, thread);
            (starts.to_vec(), bytes)
        };
        assert_eq!(share(reads, 0), (vec![1 << 20], 250));
        assert_eq!(share(reads, 1), (vec![(1 << 20) + 400], 250));
        assert_eq!(share(Reads { room: 1000, ..reads }, 1), (vec![(1 << 20) + 400], 300));
        assert_eq!(share(reads, 2), (vec![], 0));
        assert_eq!(share(Reads { address: usize::MAX, ..reads }, 1), (vec![usize::MAX], 250));
    }

    #[test]
    fn runs_that_are_read_side_by_side_share_the_room() {
        let reads = Reads { address: 4096, units: 12, bytes: 100, pieces: [2, 2], room: 250 };
        assert_eq!(reads.share(2, 1), Runs { starts: SmallVec::from_slice(&[4696, 4996]), bytes: 125 });
    }
}
