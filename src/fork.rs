//! Locks that children of a fork find free, and what tells a child from its parent: for those below who know nothing else of the
//! crate that has them.

pub(crate) use kiln_kernels::fork::{Mutex, MutexGuard, Origin, stay};
