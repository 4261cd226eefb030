//! Locks that a forked child finds free, and the origin that tells a child from its parent.

pub(crate) use kiln_fork::{Mutex, MutexGuard, Origin, stay};
