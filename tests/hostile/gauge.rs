//! Heap bytes of this process: how many are in use, and how many were at most since the gauge was set.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting.
pub(crate) struct Counting;

fn add(bytes: usize) {
    let used = USED.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(used, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory that it hands out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the same contract that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; `place` came from `alloc`, which passes on what the system gives.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Starts over: what is in use now counts as nothing.
pub(crate) fn reset() -> usize {
    let used = USED.load(Ordering::Relaxed);
    MOST.store(used, Ordering::Relaxed);
    used
}

/// Most bytes in use at once since then.
pub(crate) fn most(since: usize) -> usize {
    MOST.load(Ordering::Relaxed).saturating_sub(since)
}
