//! Heap bytes of this process: those in use now, and the most in use since the gauge was set.

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

// SAFETY: every call is passed on to the system's allocator unchanged; counting does not touch the memory that it hands
// out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the contract of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    // Passed on as well: the trait's default would write zeros over gigabytes that the system gives as zero pages.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    // Passed on as well: the trait's default would copy memory that the system moves by its page tables.
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        add(bytes);
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; `place` came from this allocator, which passes on the system's memory.
        unsafe { System.realloc(place, layout, bytes) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; `place` came from `alloc`, which passes on the system's memory.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Starts over: bytes in use now count as zero.
pub(crate) fn reset() -> usize {
    let used = USED.load(Ordering::Relaxed);
    MOST.store(used, Ordering::Relaxed);
    used
}

/// Most bytes in use at once since then.
pub(crate) fn most(since: usize) -> usize {
    MOST.load(Ordering::Relaxed).saturating_sub(since)
}
