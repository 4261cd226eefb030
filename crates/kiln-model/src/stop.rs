//! Ending a request early: by a time limit, or because it was cancelled.
//!
//! A model's sizes determine how long a request takes, and a model may come from an untrusted source. A server gives a
//! time limit ([`Stop::after`]), or keeps a [`Cancel`] and decides later. Both are checked between the steps of a
//! graph, between the iterations of its loops, and by kernels between blocks of their work ([`Watched`]); without
//! either, nothing is checked. The unfinished results of a kernel are dropped with the request.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_kernels::memory::{self, IsOver};
use kiln_kernels::parallel::{Parallel, Reads};

/// Cancels requests from any thread; clones are the same handle. A request with a handle that was used before ends at
/// once.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Called>);

/// Whether requests were called off.
#[derive(Default)]
struct Called {
    off: AtomicBool,
    /// Also tells whether they were.
    ask: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl fmt::Debug for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Called").field("off", &self.off).field("asks", &self.ask.is_some()).finish()
    }
}

impl Cancel {
    /// A handle that has not been used.
    #[must_use]
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// A handle that also cancels once `ask` returns true. `ask` is called before each step, and within kernels by the
    /// threads that compute. It is called often, so it must be fast. It is called on the caller's thread too, so it can
    /// read data of that thread (a signal that an interpreter has noted).
    #[must_use]
    pub fn asking(ask: impl Fn() -> bool + Send + Sync + 'static) -> Cancel {
        Cancel(Arc::new(Called { off: AtomicBool::new(false), ask: Some(Box::new(ask)) }))
    }

    /// Ends every request with this handle, each before its next step.
    pub fn cancel(&self) {
        // No other data is published with it, so no ordering is needed.
        self.0.off.store(true, Ordering::Relaxed);
    }

    /// Whether it was used.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        if self.0.off.load(Ordering::Relaxed) {
            return true;
        }
        let off = self.0.ask.as_ref().is_some_and(|ask| ask());
        if off {
            self.cancel();
        }
        off
    }
}

/// Why a request was ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// Its time limit has passed.
    #[error("the time limit of {0:?} has passed")]
    TimeLimit(Duration),
    /// Its [`Cancel`] was used.
    #[error("the request was cancelled")]
    Cancelled,
}

/// What may end a request early.
#[derive(Clone, Debug)]
pub struct Stop {
    /// The end of its time, and the limit.
    end: Option<(Instant, Duration)>,
    cancel: Option<Cancel>,
    /// Whether a kernel has skipped a part of its work.
    cut: Arc<AtomicBool>,
}

impl Stop {
    /// Ends `time_limit` from now on, or by `cancel`; `None` if there is neither.
    #[must_use]
    pub fn after(time_limit: Option<Duration>, cancel: Option<Cancel>) -> Option<Stop> {
        // A time beyond the clock's range is no limit.
        let end = time_limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        (end.is_some() || cancel.is_some()).then_some(Stop { end, cancel, cut: Arc::default() })
    }

    /// Checks whether the request has ended.
    ///
    /// # Errors
    ///
    /// The reason, if it has.
    pub fn check(&self) -> Result<(), Stopped> {
        if self.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(Stopped::Cancelled);
        }
        match self.end {
            Some((end, limit)) if Instant::now() >= end => Err(Stopped::TimeLimit(limit)),
            _ => Ok(()),
        }
    }

    /// `parallel`, for kernels that stop when the request ends.
    #[must_use]
    pub fn watch<'a>(&'a self, threads: &'a dyn Parallel) -> Watched<'a> {
        Watched { threads, stop: self }
    }

    /// Checks that no work was skipped.
    ///
    /// # Errors
    ///
    /// The reason, if work was skipped.
    pub fn check_whole(&self) -> Result<(), Stopped> {
        if self.cut.load(Ordering::Relaxed) { self.check() } else { Ok(()) }
    }

    /// The question whether the request has ended, for work that takes much memory ([`kiln_kernels::memory::until`]).
    #[must_use]
    pub fn question(&self) -> IsOver {
        let stop = self.clone();
        Arc::new(move || stop.check().is_err())
    }

    /// The time that is left; `None` without a limit.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        self.end.map(|(end, _)| end.saturating_duration_since(Instant::now()))
    }
}

/// A request's threads, which begin no task and no block of a kernel's work after the request's end.
pub struct Watched<'a> {
    threads: &'a dyn Parallel,
    stop: &'a Stop,
}

impl Parallel for Watched<'_> {
    fn threads(&self) -> usize {
        self.threads.threads()
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        // Plain loops check for the end as on the caller's thread, whatever thread they run on.
        let asked = memory::asked();
        self.threads.run(tasks, &|index| {
            if !self.is_stopped() {
                memory::beside(asked.as_ref(), || task(index));
            }
        });
    }

    fn each_thread(&self, task: &(dyn Fn(usize) + Sync)) {
        let asked = memory::asked();
        self.threads.each_thread(&|thread| memory::beside(asked.as_ref(), || task(thread)));
    }

    fn expect(&self, reads: Reads) {
        self.threads.expect(reads);
    }

    fn is_stopped(&self) -> bool {
        // The join at the end of the tasks orders the tasks' writes before this read.
        let cut = &self.stop.cut;
        if !cut.load(Ordering::Relaxed) && self.stop.check().is_ok() {
            return false;
        }
        cut.store(true, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::parallel::Serial;

    use super::*;

    #[test]
    fn kernels_begin_nothing_more_once_it_has_ended() {
        let (cancel, done) = (Cancel::new(), AtomicBool::new(false));
        let stop = Stop::after(None, Some(cancel.clone())).unwrap();
        let threads = stop.watch(&Serial);
        let seen = std::sync::Mutex::new(Vec::new());
        threads.run(4, &|task| {
            seen.lock().unwrap().push(task);
            if task == 1 {
                cancel.cancel();
            }
        });
        assert_eq!(seen.into_inner().unwrap(), [0, 1]);
        assert_eq!((stop.check_whole(), threads.is_stopped()), (Err(Stopped::Cancelled), true));
        threads.run(1, &|_| done.store(true, Ordering::Relaxed));
        assert!(!done.into_inner());
        let whole = Stop::after(None, Some(cancel)).unwrap();
        assert_eq!(whole.check_whole(), Ok(()), "nothing was begun since it has ended");
    }

    #[test]
    fn nothing_ends_what_has_no_limit() {
        assert!(Stop::after(None, None).is_none());
        assert!(Stop::after(Some(Duration::MAX), None).is_none(), "no clock reaches that");
        let long = Stop::after(Some(Duration::from_secs(1 << 20)), Some(Cancel::new())).unwrap();
        assert_eq!(long.check(), Ok(()));
        assert!(long.left().is_some_and(|left| left > Duration::from_secs(1 << 19)));
    }

    #[test]
    fn an_answer_calls_off_for_good_and_for_all_clones() {
        let asked = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = asked.clone();
        let cancel = Cancel::asking(move || count.fetch_add(1, Ordering::Relaxed) == 2);
        let stop = Stop::after(None, Some(cancel.clone())).unwrap();
        assert_eq!([stop.check(), stop.check()], [Ok(()), Ok(())]);
        assert_eq!(stop.check(), Err(Stopped::Cancelled));
        assert!(cancel.is_cancelled() && stop.check().is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 3, "one answer is enough");
    }

    #[test]
    fn time_and_cancelling_end_it_and_say_so() {
        let over = Stop::after(Some(Duration::ZERO), None).unwrap();
        assert_eq!(over.check(), Err(Stopped::TimeLimit(Duration::ZERO)));
        assert_eq!(over.left(), Some(Duration::ZERO));
        let cancel = Cancel::new();
        let stop = Stop::after(None, Some(cancel.clone())).unwrap();
        assert_eq!((stop.check(), stop.left()), (Ok(()), None));
        cancel.cancel();
        assert_eq!(stop.check(), Err(Stopped::Cancelled));
    }
}
