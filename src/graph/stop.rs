//! Ending a request before its graph ends: because its time is over, or because somebody has called it off.
//!
//! A model's sizes say how long a request takes, and a model may come from a stranger. Whoever serves such requests says
//! how long one may take ([`Stop::after`]), or keeps a [`Cancel`] and decides later. Both are asked between the steps of
//! a graph and between the turns of its loops, and where nothing can end a request nothing is asked. A step that has
//! begun runs to its end, because what it has begun to write is shared by its threads and may be kept: the overrun is
//! one step, which the bound on tensor memory and [`LoopLimits::steps`](super::LoopLimits) keep finite.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Calls requests off from any thread; its clones are one and the same. A request that is given one that was used before
/// ends at once.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// One that has called nothing off yet.
    #[must_use]
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Ends every request that was given this, each before its next step.
    pub fn cancel(&self) {
        // Nothing else is told through it, so that no order has to be kept.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was used.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why something ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// It had its time.
    #[error("the time limit of {0:?} has passed")]
    TimeLimit(Duration),
    /// Somebody used its [`Cancel`].
    #[error("the request was cancelled")]
    Cancelled,
}

/// What may end one request.
#[derive(Clone, Debug)]
pub struct Stop {
    /// When its time is over, and how much that was.
    end: Option<(Instant, Duration)>,
    cancel: Option<Cancel>,
}

impl Stop {
    /// An end after that time from now on, or when it is called off; `None` where neither can happen.
    #[must_use]
    pub fn after(time_limit: Option<Duration>, cancel: Option<Cancel>) -> Option<Stop> {
        // A time that no clock reaches is no limit.
        let end = time_limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        (end.is_some() || cancel.is_some()).then_some(Stop { end, cancel })
    }

    /// Whether to go on.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn check(&self) -> Result<(), Stopped> {
        if self.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(Stopped::Cancelled);
        }
        match self.end {
            Some((end, limit)) if Instant::now() >= end => Err(Stopped::TimeLimit(limit)),
            _ => Ok(()),
        }
    }

    /// Time that is left; none where it is not limited.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        self.end.map(|(end, _)| end.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_what_has_no_limit() {
        assert!(Stop::after(None, None).is_none());
        assert!(Stop::after(Some(Duration::MAX), None).is_none(), "no clock reaches that");
        let long = Stop::after(Some(Duration::from_secs(1 << 20)), Some(Cancel::new())).unwrap();
        assert_eq!(long.check(), Ok(()));
        assert!(long.left().is_some_and(|left| left > Duration::from_secs(1 << 19)));
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
