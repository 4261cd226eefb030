//! Gives back what shapes that never return leave in the allocator's heap and in empty chunks of slots.
//!
//! Tensors of 1 KiB and more are not in the heap ([`crate::tensor`]). Executors and plans are, and stay for a while; between them
//! smaller tensors, keys and lists of ever other sizes come and go. What they leave is free and may fit nothing that comes next,
//! so that glibc's heap grows though no more is in use.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kiln_kernels::extent::trim_heap;

use crate::exec::Share;
use crate::tensor::trim_slabs;

/// Requests of new shapes after which free pages are looked for, which takes milliseconds: a few microseconds each.
const SHAPES: u32 = 1024;

/// What a session has had looked for.
#[derive(Debug, Default)]
pub(super) struct Heap {
    /// Executors that had been built after the last request.
    built: AtomicU64,
    /// Requests since free pages were looked for that built some.
    shapes: AtomicU32,
}

impl Heap {
    /// Counts a request that has been served, and looks for free pages where so many were of new shapes. Those of known shapes build
    /// nothing and cost two loads.
    #[inline]
    pub(super) fn trim(&self, share: &Share) {
        let built = share.built();
        if self.built.load(Ordering::Relaxed) == built {
            return;
        }
        self.built.store(built, Ordering::Relaxed);
        if self.shapes.fetch_add(1, Ordering::Relaxed) + 1 >= SHAPES {
            self.shapes.store(0, Ordering::Relaxed);
            Heap::trim_now();
        }
    }

    /// Gives what is free back to the system.
    pub(super) fn trim_now() {
        trim_slabs();
        trim_heap();
    }
}
