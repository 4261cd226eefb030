//! Whether the executors that memos and plans hold are still the best that are known.
//!
//! A tuner puts a better executor into the cache; a node's memo or a plan that holds the one before holds it still.
//! Each holder therefore keeps, beside an executor of a key that may be tuned, the key's *standing*, which the tuner
//! marks when it has replaced the executor. Holders of other keys see nothing, and look at nothing but the tuner's
//! [generation](super::Tuner::generation), once a request.
//!
//! No swap is missed: a holder gets the standing first and the executor then, and the tuner stores the executor first
//! and marks the standing then. A holder that gets no standing any more gets the last executor.

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
        // Acquire: who sees the mark finds the new executor.
        self.replaced.load(Ordering::Acquire)
    }

    /// Says so, after the executor was stored.
    pub(super) fn replace(&self) {
        self.replaced.store(true, Ordering::Release);
    }
}
