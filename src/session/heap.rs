//! Gives free pages of the allocator's heap, and empty chunks of slots, back to the system when shapes keep changing.
//!
//! Tensors of 1 KiB and more are not in the heap ([`kiln_tensor`]). Executors and plans are, and stay for a while;
//! smaller tensors, keys and lists of always different sizes are allocated and freed between them. The gaps may fit
//! nothing that comes next, so that glibc's heap grows although no more is in use.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kiln_kernels::extent::trim_heap;
use kiln_run::exec::Share;
use kiln_tensor::trim_slabs;

/// Requests of new shapes between two searches for free pages, which take milliseconds: a few microseconds a request.
const SHAPES: u32 = 512;

/// Counts requests of new shapes.
#[derive(Debug, Default)]
pub(super) struct Heap {
    /// Executors that had been built by the last request.
    built: AtomicU64,
    /// Requests since the last search that built executors.
    shapes: AtomicU32,
}

impl Heap {
    /// Counts a request, and searches for free pages after some hundred of new shapes. Whether it was of new shapes: the
    /// others build nothing and cost two loads.
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

    /// Gives what is free back to the system.
    pub(super) fn trim_now() {
        trim_slabs();
        trim_heap();
    }
}
