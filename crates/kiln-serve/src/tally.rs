//! The counters of a model's requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::histogram::{Histogram, Span};
use crate::refusal::Kind;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    /// Its client is at fault.
    Refused,
    /// The queue was full.
    Full,
    TimedOut,
    Cancelled,
    Failed,
}

impl Outcome {
    pub(crate) const ALL: [Outcome; 6] =
        [Outcome::Ok, Outcome::Refused, Outcome::Full, Outcome::TimedOut, Outcome::Cancelled, Outcome::Failed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Refused => "refused",
            Outcome::Full => "full",
            Outcome::TimedOut => "timed_out",
            Outcome::Cancelled => "cancelled",
            Outcome::Failed => "failed",
        }
    }

    /// The outcome of a request with that refusal.
    pub(crate) fn of(refusal: Kind) -> Outcome {
        match refusal {
            Kind::Full => Outcome::Full,
            Kind::Late => Outcome::TimedOut,
            Kind::Cancelled => Outcome::Cancelled,
            Kind::Bad | Kind::Unknown | Kind::Method | Kind::Stalled | Kind::TooLarge | Kind::Coding => {
                Outcome::Refused
            }
            Kind::NoMemory | Kind::Unavailable | Kind::Fault => Outcome::Failed,
        }
    }
}

/// The counters of a model's version. They outlive a reload.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Times from a request's headers to its answer, by outcome.
    latencies: [Histogram; 6],
    /// Requests with an answer of outputs, from their headers to their answer.
    pub(crate) success: Span,
    /// All other requests.
    pub(crate) fail: Span,
    /// From the queue's end to its front.
    pub(crate) queue: Histogram,
    pub(crate) input: Span,
    /// Runs of the model, for one request or for a group.
    pub(crate) infer: Span,
    pub(crate) output: Span,
    /// From a request's headers to the first piece of its texts.
    pub(crate) first: Span,
    /// Requests that ran in groups.
    joined: AtomicU64,
    /// Tokens of prompts that were read, and generated tokens.
    prompt_tokens: AtomicU64,
    said_tokens: AtomicU64,
    /// Milliseconds since 1970 of the last request.
    last: AtomicU64,
}

impl Tally {
    /// Counts a request and its time.
    pub(crate) fn end(&self, outcome: Outcome, time: Duration) {
        self.latencies[outcome as usize].add(time);
        if outcome == Outcome::Ok { &self.success } else { &self.fail }.add(time);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last.store(u64::try_from(now.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Counts the requests of a group.
    pub(crate) fn count_joined(&self, requests: usize) {
        self.joined.fetch_add(requests as u64, Ordering::Relaxed);
    }

    /// Requests that ran in groups.
    pub(crate) fn joined(&self) -> u64 {
        self.joined.load(Ordering::Relaxed)
    }

    /// Counts the tokens of a request of a language model.
    pub(crate) fn count_tokens(&self, prompt: usize, said: usize) {
        self.prompt_tokens.fetch_add(prompt as u64, Ordering::Relaxed);
        self.said_tokens.fetch_add(said as u64, Ordering::Relaxed);
    }

    /// Tokens of prompts.
    pub(crate) fn prompt_tokens(&self) -> u64 {
        self.prompt_tokens.load(Ordering::Relaxed)
    }

    /// Generated tokens.
    pub(crate) fn said_tokens(&self) -> u64 {
        self.said_tokens.load(Ordering::Relaxed)
    }

    pub(crate) fn latency(&self, outcome: Outcome) -> &Histogram {
        &self.latencies[outcome as usize]
    }

    pub(crate) fn count(&self, outcome: Outcome) -> u64 {
        self.latency(outcome).span.count()
    }

    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }
}
