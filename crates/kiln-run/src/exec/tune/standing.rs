//! Whether the executors that memos and plans hold are still the best known ones.
//!
//! A tuner puts a better executor into the cache, but a node's memo or a plan still holds the old one. Each holder
//! therefore keeps, beside an executor of a key that may be tuned, the key's *standing*, which the tuner marks when it
//! has replaced the executor. Once a request, plans compare the tuner's [generation](super::Tuner::generation), and
//! look at their standings only if that has changed.
//!
//! No swap is missed: a holder gets the standing first and the executor second, and the tuner stores the executor first
//! and marks the standing second. A key whose tuning is over gives no standing; its executor is the last one.

use std::sync::atomic::{AtomicBool, Ordering};

/// What a holder of an executor knows of its key. Shared by all holders in a session.
#[derive(Debug, Default)]
pub struct Standing {
    replaced: AtomicBool,
}

impl Standing {
    /// Whether a better executor is in the cache.
    #[inline]
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        // Acquire: a reader that sees the mark finds the new executor.
        self.replaced.load(Ordering::Acquire)
    }

    /// Marks the standing, after the executor was stored.
    pub(super) fn replace(&self) {
        self.replaced.store(true, Ordering::Release);
    }
}
