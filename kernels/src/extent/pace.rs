//! Which pages memory is made present in: huge ones, unless the system takes long for them.
//!
//! # Problem
//!
//! The system clears a huge page in 0.1 to 0.25 ms. A virtual machine, though, may have handed free memory back to its
//! host: in large blocks alone, from which huge pages are cut, and then each takes 4 ms, because the host brings it
//! back in small pieces. Small pages are served from what smaller blocks are left over, which are still free: weights
//! of 95 MB were there in 55 ms instead of 95 to 260.
//!
//! # Idea
//!
//! Huge pages are timed. After two in a row that took too long, the next ones are left out for a while, and then one is
//! tried again. The system may still join small pages in the background, as it does wherever it was advised to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A huge page that takes longer was not the machine's own: four times what clearing one takes.
const SLOW: Duration = Duration::from_millis(1);

/// So many slow ones in a row are no accident, as one may be whose thread had to wait for a core.
const ROW: usize = 2;

/// Bytes that are taken in small pages before a huge one is tried again: the trial then costs a sixteenth of what slow
/// huge pages would have cost in their place.
const SMALL: usize = 32 << 20;

/// How fast huge pages have come.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Slow ones in a row.
    slow: AtomicUsize,
    /// Bytes that are still to be taken in small pages.
    small: AtomicUsize,
}

impl Pace {
    pub(super) const fn new() -> Pace {
        Pace { slow: AtomicUsize::new(0), small: AtomicUsize::new(0) }
    }

    /// How many of the next `bytes` bytes are taken in small pages: the first ones.
    pub(super) fn small(&self, bytes: usize) -> usize {
        let take = |left: usize| (left > 0).then(|| left - left.min(bytes));
        let before = self.small.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.map_or(0, |left| left.min(bytes))
    }

    /// Notes how long a huge page took, or a part of one, of which it is not known whether it was there already.
    pub(super) fn note(&self, time: Duration, whole: bool) {
        if time > SLOW {
            if self.slow.fetch_add(1, Ordering::Relaxed) + 1 >= ROW {
                // The next trial decides alone.
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
