//! The threads, locks and atomics that the cache uses: the one place to replace them with a model checker's.
//!
//! `tests/model_check` does that: it compiles the cache's files with a shim of its own.
//!
//! Locks here outlive panics. The only foreign code that runs under them is a key's `Eq`, which only reads, so data
//! under a lock is whole even when a thread died holding the lock. Poisoning would turn one caller's panic into
//! everyone's.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};
pub(super) use std::sync::{Arc, Condvar, Mutex as WaitMutex, MutexGuard as WaitGuard, PoisonError, Weak};
pub(super) use std::thread::{ThreadId, current};
pub(super) use std::thread_local;

pub(super) use kiln_fork::{Mutex, MutexGuard, Origin};

/// Locks, even if a thread panicked while it held the lock.
#[inline]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], for a lock that threads wait with; a forked child never takes it.
pub(super) fn lock_to_wait<T>(mutex: &WaitMutex<T>) -> WaitGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits, even if a thread panicked meanwhile while it held the lock.
pub(super) fn wait<'a, T>(condvar: &Condvar, guard: WaitGuard<'a, T>) -> WaitGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
