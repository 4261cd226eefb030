//! Gives free pages of the allocator's heap, and empty chunks of slots, back to the system when shapes keep changing.
//!
//! Tensors of 1 KiB and more are not in the heap ([`kiln_tensor`]). Executors and plans are, and stay for a while;
//! between them, smaller tensors, keys and lists of ever different sizes are allocated and freed. The gaps may fit no
//! later allocation, so that glibc's heap grows although no more of it is in use.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kiln_kernels::extent::trim_heap;
use kiln_run::exec::Share;
use kiln_tensor::trim_slabs;

/// Requests of new shapes between two searches for free pages. A search takes milliseconds, so a request pays a few
/// microseconds.
const SHAPES: u32 = 512;

/// Counts requests of new shapes.
#[derive(Debug, Default)]
pub(super) struct Heap {
    /// Executors built up to the last request.
    built: AtomicU64,
    /// Requests since the last search that built executors.
    shapes: AtomicU32,
}

impl Heap {
    /// Counts a request, and searches for free pages after some hundred requests of new shapes. Returns whether the
    /// request had new shapes; other requests build nothing and cost two loads here.
    #[inline]
    pub(super) fn trim(&self, share: &Share) -> bool {
        let built = share.built();
        if self.built.load(Ordering::Relaxed) == built {
            return false;
        }
        self.built.store(built, Ordering::Relaxed);
        if self.shapes.fetch_add(1, Ordering::Relaxed) + 1 >= SHAPES {
            self.shapes.store(0, Ordering::Relaxed);
            Heap::trim_now();
        }
        true
    }

    /// Gives free memory back to the system.
    pub(super) fn trim_now() {
        trim_slabs();
        trim_heap();
    }
}
