//! Waiting for the tuner, and its report. Depends on no command.

use std::io::Write;
use std::time::{Duration, Instant};

use kiln::session::{Session, Tune, TuneReport};
use serde::Serialize;

use crate::failure::Outcome;
use crate::progress::Progress;
use crate::table::{Table, milliseconds};

/// How often the progress bar is updated.
const TICK: Duration = Duration::from_millis(200);

/// The longest wait of the command: the policies' own bounds on the time of all runs are shorter, but requests may
/// delay them.
const LONGEST: Duration = Duration::from_secs(900);

/// Results of tuning, for JSON reports.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Tuning {
    policy: &'static str,
    tuned: u64,
    changed: u64,
    known: u64,
    /// Keys without a choice.
    single: u64,
    large: u64,
    failed: u64,
    waiting: u64,
    dropped: u64,
    time_ms: f64,
}

impl Tuning {
    /// The results of that session's tuner, if it has one.
    pub(crate) fn of(session: &Session, tune: Tune) -> Option<Tuning> {
        let report = session.tune_report()?;
        Some(Tuning {
            policy: tune.name(),
            tuned: report.tuned,
            changed: report.changed,
            known: report.known,
            single: report.single,
            large: report.large,
            failed: report.failed,
            waiting: report.waiting,
            dropped: report.dropped,
            time_ms: report.time.as_secs_f64() * 1e3,
        })
    }

    /// The same for people.
    pub(crate) fn text(&self) -> String {
        let Tuning { policy, tuned, changed, known, single, large, failed, waiting, dropped, time_ms } = self;
        let mut text = format!(
            "tuning ({policy}): {tuned} keys measured in {} ms, {changed} of them changed; {known} known from records, \
             {single} without a choice",
            milliseconds(*time_ms)
        );
        for (count, what) in
            [(large, "too large"), (failed, "failed"), (waiting, "not measured yet"), (dropped, "beyond the bounds")]
        {
            if *count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        text
    }
}

/// Waits until all keys are tuned, with a progress bar. Does nothing without a tuner.
pub(crate) fn settle(session: &Session, screen: &mut dyn Write) -> Outcome {
    let Some(start) = session.tune_report() else { return Ok(()) };
    let deadline = Instant::now() + LONGEST;
    let progress = Progress::new("keys", start.waiting as usize);
    let mut left = start.waiting;
    while !session.settle(TICK.min(deadline.saturating_duration_since(Instant::now()))) {
        let now = session.tune_report().map_or(0, |report| report.waiting);
        (now..left).for_each(|_| progress.step());
        left = now;
        if Instant::now() >= deadline {
            drop(progress);
            writeln!(screen, "notice: {now} keys are not tuned yet")?;
            return Ok(());
        }
    }
    Ok(())
}

/// The choices that changed, those that saved most time first.
pub(crate) fn changes(report: &TuneReport) -> String {
    let mut changes: Vec<_> = report.changes.iter().collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.before.saturating_sub(change.after)));
    let mut text = String::new();
    if !changes.is_empty() {
        let mut table = Table::new(&["family", ">was ms", ">is ms", ">ratio", "key", "was", "is"]);
        for change in changes {
            let [before, after] = [change.before, change.after].map(|nanos| nanos as f64 / 1e6);
            let ratio = if before > 0.0 { after / before } else { 1.0 };
            let numbers = [milliseconds(before), milliseconds(after), format!("{ratio:.2}")];
            let words = [brief(&change.key), brief(&change.from), brief(&change.to)];
            table.row([change.family.to_owned()].into_iter().chain(numbers).chain(words));
        }
        text = table.text();
    }
    text
}

/// A key or choice as text, without the name of its type and without parts that carry no information.
fn brief(text: &str) -> String {
    let fields = text.split_once(" { ").map_or(text, |(_, fields)| fields);
    fields.trim_end_matches(" }").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_matter_are_told_and_others_are_not() {
        let tuning = Tuning {
            policy: "fast",
            tuned: 3,
            changed: 1,
            known: 2,
            single: 4,
            large: 0,
            failed: 0,
            waiting: 5,
            dropped: 0,
            time_ms: 12.345,
        };
        let expected = "tuning (fast): 3 keys measured in 12.35 ms, 1 of them changed; 2 known from records, 4 without \
                        a choice, 5 not measured yet";
        assert_eq!(tuning.text(), expected);
    }

    #[test]
    fn keys_lose_the_name_of_their_type() {
        assert_eq!(brief("Key { a: 1, b: [2] }"), "a: 1, b: [2]");
        assert_eq!(brief("50"), "50");
    }
}
