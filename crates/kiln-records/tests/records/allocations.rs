//! The peak memory of a call: an allocator that counts, for each thread separately.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes held now and at most, since the thread last began to count.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn add(bytes: isize) {
    // A thread that is ending is not counted.
    let _ = HELD.try_with(|held| {
        let (now, peak) = held.get();
        held.set((now + bytes, peak.max(now + bytes)));
    });
}

// SAFETY: every call is passed unchanged to the system's allocator; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout is passed on.
        let pointer = unsafe { System.alloc(layout) };
        // A forged length may be requested, but the allocation fails.
        if !pointer.is_null() {
            add(layout.size().cast_signed());
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-layout.size().cast_signed());
        // SAFETY: the caller's promise about the pointer and the layout is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise about the pointer and the sizes is passed on.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        if !moved.is_null() {
            // Both were held while it copied.
            add(size.cast_signed());
            add(-layout.size().cast_signed());
        }
        moved
    }
}

/// The result of a call, and the most bytes that it held at once on this thread.
pub(crate) fn peak<T>(call: impl FnOnce() -> T) -> (T, usize) {
    HELD.set((0, 0));
    let result = call();
    let (_, peak) = HELD.get();
    (result, peak.unsigned_abs())
}

#[test]
fn memory_that_is_held_and_given_back_is_counted() {
    let (_, peak) = peak(|| {
        drop(vec![1_u8; 1 << 20]);
        vec![1_u8; 1 << 19]
    });
    assert!((1 << 20..(1 << 20) + 4096).contains(&peak), "{peak}");
}
