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

    // Passed on as well: the trait's own would write zeros over gigabytes that the system has as zero pages.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    // Passed on as well: the trait's own would copy what the system moves by its page tables.
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        add(bytes);
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; `place` came from here, which passes on what the system gives.
        unsafe { System.realloc(place, layout, bytes) }
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
