//! The requests of a session as its tuner sees them: how many are under way, how many have begun, and when the last one
//! ended.
//!
//! Requests count themselves, which takes two atomic additions, and wait for nothing; the tuner's thread waits for
//! them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long no request may have run before a measurement starts: longer than a client that sends one request after
/// another takes between two.
const QUIET: Duration = Duration::from_millis(5);

/// Counts of requests, and whether the tuner is to stop.
pub(super) struct Requests {
    /// Requests under way.
    running: AtomicUsize,
    /// Requests that have begun.
    arrivals: AtomicU64,
    /// When the last one ended, in nanoseconds since `start`.
    last_end: AtomicU64,
    start: Instant,
    stop: AtomicBool,
    /// Held between a check of `stop` and the wait for it.
    waiting: Mutex<()>,
    stopped: Condvar,
}

/// A request under way; measurements wait for its end.
pub struct Request<'a>(&'a Requests);

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let now = u64::try_from(self.0.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.last_end.store(now, Ordering::SeqCst);
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Requests {
    /// No request so far.
    pub(super) fn new() -> Requests {
        Requests {
            running: AtomicUsize::new(0),
            arrivals: AtomicU64::new(0),
            last_end: AtomicU64::new(0),
            start: Instant::now(),
            stop: AtomicBool::new(false),
            waiting: Mutex::new(()),
            stopped: Condvar::new(),
        }
    }

    /// A request begins, and ends when the returned value is dropped.
    pub(super) fn begin(&self) -> Request<'_> {
        self.running.fetch_add(1, Ordering::SeqCst);
        self.arrivals.fetch_add(1, Ordering::SeqCst);
        Request(self)
    }

    /// Ends the waiting of [`Requests::await_quiet`], now and from now on.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        // The lock ensures that the worker is not between its check of the flag and its wait.
        drop(self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.stopped.notify_all();
    }

    /// Whether [`Requests::stop`] has been called.
    pub(super) fn are_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Requests under way.
    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    /// Requests that have begun so far: a sample during which this changes is void.
    pub(super) fn arrivals(&self) -> u64 {
        self.arrivals.load(Ordering::SeqCst)
    }

    /// Waits until no request has been running for [`QUIET`], but not at all before the first request. Returns how many
    /// requests have begun until then; `None` if the tuner stops.
    pub(super) fn await_quiet(&self) -> Option<u64> {
        if !self.are_over() && self.arrivals() == 0 {
            return Some(0);
        }
        self.await_quiet_of(QUIET)
    }

    /// Waits until no request has been running for `quiet`, counted from `start` at the earliest. Returns how many
    /// requests have begun until then; `None` if the tuner stops.
    pub(super) fn await_quiet_of(&self, quiet: Duration) -> Option<u64> {
        loop {
            let arrivals = self.arrivals();
            if self.are_over() {
                return None;
            }
            let mut wait = quiet;
            if self.running.load(Ordering::SeqCst) == 0 {
                let since = Duration::from_nanos(self.last_end.load(Ordering::SeqCst)) + quiet;
                wait = since.saturating_sub(self.start.elapsed());
                if wait.is_zero() {
                    return Some(arrivals);
                }
            }
            self.pause(wait);
        }
    }

    /// Waits for `wait`, or until the tuner stops.
    pub(super) fn pause(&self, wait: Duration) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.are_over() {
            drop(self.stopped.wait_timeout(waiting, wait));
        }
    }
}
