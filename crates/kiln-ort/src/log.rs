//! The destination of log lines: the caller's logger, or standard error.

use std::io::Write;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI32, Ordering};

use kiln_fork::Mutex;

use crate::seam::callback::Sink;

/// How severe a line is, as C's header numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Info = 1,
    Warning = 2,
    Error = 3,
}

/// C's number of the severities, the most severe last.
pub(crate) const SEVERITIES: std::ops::RangeInclusive<i32> = 0..=4;

/// A logger of an environment or a session.
pub(crate) struct Log {
    sink: Option<Sink>,
    /// The name of the owner of the lines.
    id: String,
    /// The least severity that is logged.
    least: AtomicI32,
}

impl Log {
    pub(crate) fn new(sink: Option<Sink>, id: String, least: i32) -> Log {
        Log { sink, id, least: AtomicI32::new(least) }
    }

    pub(crate) fn sink(&self) -> Option<Sink> {
        self.sink
    }

    pub(crate) fn least(&self) -> i32 {
        self.least.load(Ordering::Relaxed)
    }

    pub(crate) fn set_least(&self, least: i32) {
        self.least.store(least, Ordering::Relaxed);
    }

    /// A line, if it is severe enough.
    pub(crate) fn line(&self, severity: Severity, place: &str, message: &str) {
        if (severity as i32) < self.least() {
            return;
        }
        match &self.sink {
            Some(sink) => sink.log(severity as i32, &self.id, place, message),
            None => {
                let id = if self.id.is_empty() { "kiln" } else { &self.id };
                // A closed standard error is no reason to fail.
                let _ = writeln!(std::io::stderr(), "[{severity:?}] {id}, {place}: {message}");
            }
        }
    }
}

/// The texts of lines that are logged once in a process.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Further texts are neither remembered nor logged.
const MOST: usize = 256;

/// As [`Log::line`], but each text only once.
pub(crate) fn once(log: &Log, severity: Severity, place: &str, message: &str) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.len() < MOST && !said.iter().any(|line| line == message) {
        said.push(message.to_owned());
        drop(said);
        log.line(severity, place, message);
    }
}
