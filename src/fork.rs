//! Locks that children of a fork find free, and what tells a child from its parent.

pub(crate) use kiln_fork::{Mutex, MutexGuard, Origin, stay};
