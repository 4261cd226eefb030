//! How long a request is wanted, and why one has no answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
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
    /// Too many requests wait already.
    Full(String),
    /// The model or the runtime is at fault.
    Failed(String),
}

/// How long a request is wanted. Held by the code that waits for the answer and by the code that makes it.
#[derive(Debug)]
pub struct Ticket {
    deadline: Option<Instant>,
    cancelled: AtomicBool,
    stages: Mutex<Stages>,
}

/// The request's times in the queue and in the model's run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stages {
    pub(crate) queued: Option<(Instant, Duration)>,
    pub(crate) ran: Option<(Instant, Duration)>,
    /// The number of requests in that run.
    pub(crate) together: usize,
}

impl Ticket {
    /// A ticket of a request that is wanted until that time.
    #[must_use]
    pub fn until(deadline: Option<Instant>) -> Ticket {
        Ticket { deadline, cancelled: AtomicBool::new(false), stages: Mutex::default() }
    }

    /// Marks the answer as no longer wanted.
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

    /// The rest of its time: `None` without a limit, zero when it is over.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Its stages so far, for reading or noting.
    pub(crate) fn stages<T>(&self, look: impl FnOnce(&mut Stages) -> T) -> T {
        look(&mut self.stages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether it is cancelled or its time is over; the error says which.
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
