//! The page size with which memory is made present: huge pages, unless the system takes long for them.
//!
//! # Problem
//!
//! The system clears a huge page in 0.1 to 0.25 ms. But a virtual machine may have handed free memory back to its host,
//! in the large blocks from which huge pages are cut, and then each takes 4 ms, because the host brings it back in
//! small pieces. Small pages come from smaller blocks that are still there: weights of 95 MB were present in 55 ms
//! instead of 95 to 260.
//!
//! # Idea
//!
//! Huge pages are timed. After two in a row that took too long, small pages are used for a while, and then one huge
//! page is tried again. The system may still join small pages in the background wherever it was advised to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A huge page that takes longer than this had to come from the host: four times the time of clearing one.
const SLOW: Duration = Duration::from_millis(1);

/// This many slow pages in a row are no accident; a single one may have waited for a core.
const ROW: usize = 2;

/// Bytes that are made present in small pages before a huge one is tried again: the trial costs a sixteenth of slow
/// huge pages for all these bytes.
const SMALL: usize = 32 << 20;

/// The recent speed of huge pages.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Slow huge pages in a row.
    slow: AtomicUsize,
    /// Bytes that are still to be made present in small pages.
    small: AtomicUsize,
}

impl Pace {
    pub(super) const fn new() -> Pace {
        Pace { slow: AtomicUsize::new(0), small: AtomicUsize::new(0) }
    }

    /// The number of bytes at the beginning of the next `bytes` bytes that take small pages.
    pub(super) fn small(&self, bytes: usize) -> usize {
        let take = |left: usize| (left > 0).then(|| left - left.min(bytes));
        let before = self.small.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.map_or(0, |left| left.min(bytes))
    }

    /// Notes the time of a huge page, or of a part of one, which may have been present already.
    pub(super) fn note(&self, time: Duration, whole: bool) {
        if time > SLOW {
            if self.slow.fetch_add(1, Ordering::Relaxed) + 1 >= ROW {
                // A single slow page at the next trial is enough.
                self.slow.store(ROW - 1, Ordering::Relaxed);
                self.small.store(SMALL, Ordering::Relaxed);
            }
        } else if whole {
            self.slow.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(200);
    const LONG: Duration = Duration::from_millis(4);

    #[test]
    fn huge_pages_are_left_out_for_a_while_when_two_in_a_row_were_slow() {
        let pace = Pace::new();
        pace.note(LONG, true);
        assert_eq!(pace.small(100), 0, "one may be an accident");
        pace.note(FAST, true);
        pace.note(LONG, true);
        assert_eq!(pace.small(100), 0, "they were not in a row");
        pace.note(FAST, false);
        pace.note(LONG, true);
        assert_eq!(pace.small(100), 100);
        assert_eq!(pace.small(SMALL), SMALL - 100, "no more than for a while");
        assert_eq!(pace.small(100), 0);
    }

    #[test]
    fn a_trial_decides_alone() {
        let pace = Pace::new();
        (0..ROW).for_each(|_| pace.note(LONG, true));
        assert_eq!(pace.small(SMALL), SMALL);
        pace.note(LONG, true);
        assert_eq!(pace.small(SMALL), SMALL, "still slow");
        pace.note(FAST, true);
        pace.note(LONG, true);
        assert_eq!(pace.small(SMALL), 0, "fast again, and one slow one is an accident");
    }
}
