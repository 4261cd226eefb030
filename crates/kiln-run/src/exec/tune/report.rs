//! A tuner's report, for people and tools.

use std::time::Duration;

/// Changes that are listed; all are counted.
const MOST_CHANGES: usize = 1000;

/// A choice that a measurement has overturned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuneChange {
    /// The family of the key.
    pub family: &'static str,
    /// The key in words.
    pub key: String,
    /// The choice that was in use.
    pub from: String,
    /// The choice that is in use now.
    pub to: String,
    /// Nanoseconds of a run of the choice before.
    pub before: u64,
    /// Nanoseconds of a run of the choice now.
    pub after: u64,
}

/// What a tuner has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TuneReport {
    /// Keys that were measured.
    pub tuned: u64,
    /// Measured keys whose choice changed.
    pub changed: u64,
    /// Keys whose record was measured before: nothing was run for them.
    pub known: u64,
    /// Keys that leave nothing to choose.
    pub single: u64,
    /// Keys whose operands are too large to make up.
    pub large: u64,
    /// Keys that could not be built or run, or whose measurement was disturbed all the time.
    pub failed: u64,
    /// Keys that wait.
    pub waiting: u64,
    /// Keys that were turned away because too many waited or the time was used up.
    pub dropped: u64,
    /// Time of all runs.
    pub time: Duration,
    /// Changed choices, in order; the first thousand.
    pub changes: Vec<TuneChange>,
}

/// How a key ended.
#[derive(Debug)]
pub(super) enum Ended {
    Known,
    Single,
    Large,
    Failed,
    /// The tuner stops: the key stays as it was.
    Stopped,
    Tuned(Option<TuneChange>),
}

impl TuneReport {
    pub(super) fn add(&mut self, ended: Ended, time: Duration) {
        self.time += time;
        match ended {
            Ended::Known => self.known += 1,
            Ended::Single => self.single += 1,
            Ended::Large => self.large += 1,
            Ended::Failed => self.failed += 1,
            Ended::Stopped => {}
            Ended::Tuned(change) => {
                self.tuned += 1;
                self.changed += u64::from(change.is_some());
                self.changes.extend(change.filter(|_| self.changes.len() < MOST_CHANGES));
            }
        }
    }
}
