//! Gives back what shapes that never return leave in the allocator's heap.
//!
//! Between executors and plans, which are small and stay for a while, tensors of ever other sizes come and go. What they leave is free
//! and too small for the next ones, so that the heap of glibc grows by a kilobyte or so a shape without end, though no more is in
//! use: after 80,000 shapes of a 1x1 convolution 21 MB of 132 were.

use std::sync::atomic::{AtomicU64, Ordering};

use kiln_kernels::extent::trim_heap;

use crate::exec::Share;

/// Executors that are built before free pages are looked for, which takes milliseconds: they are of a few megabytes then.
const BUILDS: u64 = 4096;

/// What a session has had looked for.
#[derive(Debug, Default)]
pub(super) struct Heap {
    /// Executors that had been built then.
    trimmed_at: AtomicU64,
}

impl Heap {
    /// Looks for free pages where requests have built so many executors since that was done last. Requests of known shapes build
    /// none.
    #[inline]
    pub(super) fn trim(&self, share: &Share) {
        let (built, before) = (share.built(), self.trimmed_at.load(Ordering::Relaxed));
        if built.saturating_sub(before) >= BUILDS
            && self.trimmed_at.compare_exchange(before, built, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            trim_heap();
        }
    }
}
