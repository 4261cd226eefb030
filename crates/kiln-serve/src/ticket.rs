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
    stages: Mutex<Stages>,
}

/// When a request was in the queue and in the model's run, and for how long.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stages {
    pub(crate) queued: Option<(Instant, Duration)>,
    pub(crate) ran: Option<(Instant, Duration)>,
    /// The requests that had that run.
    pub(crate) together: usize,
}

impl Ticket {
    /// One that is wanted until that time.
    #[must_use]
    pub fn until(deadline: Option<Instant>) -> Ticket {
        Ticket { deadline, cancelled: AtomicBool::new(false), stages: Mutex::default() }
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

    /// Its stages so far, to be read or noted.
    pub(crate) fn stages<T>(&self, look: impl FnOnce(&mut Stages) -> T) -> T {
        look(&mut self.stages.lock().unwrap_or_else(PoisonError::into_inner))
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
