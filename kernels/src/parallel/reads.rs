//! What a fork is about to read, and the share that each thread has of it.

use std::ops::Range;

use super::part;

/// Memory that work is about to read, and reads again in every turn of a longer task: one run of equal units, such as
/// the panels of a matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Address of the first unit. Only prefetched, never read.
    pub address: usize,
    /// Units, as many as there are pieces of work.
    pub units: usize,
    /// Bytes of a unit.
    pub bytes: usize,
    /// Bytes that a thread may hold in its caches until the work begins.
    pub room: usize,
}

impl Reads {
    /// The first addresses of the share of thread number `thread`, as many as it has room for.
    #[must_use]
    pub fn share(&self, threads: usize, thread: usize) -> Range<usize> {
        if thread >= threads {
            return 0..0;
        }
        let units = part(self.units, threads, thread);
        let start = self.address.saturating_add(units.start.saturating_mul(self.bytes));
        start..start.saturating_add(units.len().saturating_mul(self.bytes).min(self.room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_cut_to_the_room_that_a_thread_has() {
        let reads = Reads { address: 1 << 20, units: 7, bytes: 100, room: 250 };
        assert_eq!(reads.share(2, 0), (1 << 20)..(1 << 20) + 250);
        assert_eq!(reads.share(2, 1), (1 << 20) + 400..(1 << 20) + 650);
        assert_eq!(Reads { room: 1000, ..reads }.share(2, 1), (1 << 20) + 400..(1 << 20) + 700);
        assert_eq!(reads.share(2, 2), 0..0);
        assert_eq!(Reads { address: usize::MAX, ..reads }.share(2, 1), usize::MAX..usize::MAX);
    }
}
