//! How long a request is wanted, and why one has no answer.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Why a model gave no outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The request is at fault.
    Refused(String),
    /// Its time was over.
    TimedOut,
    /// Its client has gone.
    Cancelled,
    /// There was no memory for it.
    NoMemory(String),
    /// Too many wait already.
    Full(String),
    /// The model or the runtime is at fault.
    Failed(String),
}

/// How long a request is wanted. Held by who waits for the answer and by who makes it.
#[derive(Debug)]
pub struct Ticket {
    deadline: Option<Instant>,
    cancelled: AtomicBool,
    /// Nanoseconds of its time in the queue and of its run, and how many requests had that run; 0 before.
    queued: AtomicU64,
    ran: AtomicU64,
    together: AtomicUsize,
}

impl Ticket {
    /// One that is wanted until that time.
    #[must_use]
    pub fn until(deadline: Option<Instant>) -> Ticket {
        let (cancelled, queued, ran) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        Ticket { deadline, cancelled, queued, ran, together: AtomicUsize::new(0) }
    }

    /// Says that the answer is no longer wanted.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the answer is no longer wanted.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// When its time is over.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// What is left of its time: `None` without a limit, zero when it is over.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Notes how long it was in the queue.
    pub(crate) fn note_queue(&self, time: Duration) {
        self.queued.store(nanos(time), Ordering::Relaxed);
    }

    /// Notes how long the model's run took that it had together with others, or alone.
    pub(crate) fn note_run(&self, time: Duration, together: usize) {
        self.together.store(together, Ordering::Relaxed);
        self.ran.store(nanos(time), Ordering::Relaxed);
    }

    /// Its time in the queue and that of its run.
    pub(crate) fn times(&self) -> [Option<Duration>; 2] {
        [&self.queued, &self.ran].map(|time| match time.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        })
    }

    /// The requests that had its run.
    pub(crate) fn together(&self) -> usize {
        self.together.load(Ordering::Relaxed)
    }

    /// Whether it is cancelled or its time is over, and which.
    ///
    /// # Errors
    ///
    /// [`Failure::Cancelled`] or [`Failure::TimedOut`].
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        if self.left().is_some_and(|left| left.is_zero()) { Err(Failure::TimedOut) } else { Ok(()) }
    }
}

/// At least one, because none is what has not been noted.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}
