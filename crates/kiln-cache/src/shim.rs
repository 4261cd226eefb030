//! Which threads, locks and atomics the cache uses: the one place to put a model checker's in their stead.
//!
//! `tests/model_check` does that: it compiles the cache's files with a shim of its own.
//!
//! Locks here outlive panics. No foreign code runs under them but a key's `Eq`, and that only reads, so what a lock
//! guards is whole even when a thread died holding it; poisoning would turn one caller's panic into everyone's.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};
pub(super) use std::sync::{Arc, Condvar, Mutex as WaitMutex, MutexGuard as WaitGuard, PoisonError, Weak};
pub(super) use std::thread::{ThreadId, current};
pub(super) use std::thread_local;

pub(super) use kiln_fork::{Mutex, MutexGuard, Origin};

/// Locks, whatever happened to those who held the lock before.
#[inline]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same of a lock that threads wait with: one that a forked child never asks for.
pub(super) fn lock_to_wait<T>(mutex: &WaitMutex<T>) -> WaitGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits, whatever happened to those who held the lock meanwhile.
pub(super) fn wait<'a, T>(condvar: &Condvar, guard: WaitGuard<'a, T>) -> WaitGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
