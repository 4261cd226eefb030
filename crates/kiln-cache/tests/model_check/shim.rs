//! The model checker's threads, locks and atomics, under the names of `src/shim.rs`.

pub(super) use shuttle::sync::atomic::{AtomicU64, Ordering};
pub(super) use shuttle::sync::{
    Arc, Condvar, Mutex, Mutex as WaitMutex, MutexGuard, MutexGuard as WaitGuard, PoisonError, Weak,
};
pub(super) use shuttle::thread::{ThreadId, current};
pub(super) use shuttle::thread_local;

/// The model has no forks.
pub(super) struct Origin;

impl Origin {
    pub(super) fn here() -> Origin {
        Origin
    }

    pub(super) fn is_here(&self) -> bool {
        true
    }
}

pub(super) fn lock_to_wait<T>(mutex: &WaitMutex<T>) -> WaitGuard<'_, T> {
    lock(mutex)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
