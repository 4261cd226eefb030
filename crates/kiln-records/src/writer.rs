//! The background writer: one thread for a store, started when there is something to save or when that is expected, so
//! that no computation waits for a disk or for the start of a thread.
//!
//! It saves when results have settled: no new result for a while, or the first new result is old enough. A failed save
//! is counted, reported, and tried again after a longer while: the records stay in memory. The thread sleeps while
//! there is nothing to do, and ends with the store, which then saves once more.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::shared::Core;
use crate::warning::warning;
use kiln_fork::{self as fork, Origin};

/// When the writer saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The time after the last new result.
    pub quiet: Duration,
    /// The longest time after the first new result.
    pub longest: Duration,
}

impl Default for Pace {
    /// Half a second of quiet is longer than a model's first request takes to build its executors. Five seconds at most
    /// is what a killed process may lose.
    fn default() -> Pace {
        Pace { quiet: Duration::from_millis(500), longest: Duration::from_secs(5) }
    }
}

#[derive(Default)]
struct Messages {
    /// There are new records.
    news: bool,
    /// The store is being dropped.
    stop: bool,
    started: bool,
}

#[derive(Default)]
struct Mailbox {
    messages: Mutex<Messages>,
    changed: Condvar,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer of one store.
pub(super) struct Writer {
    core: Arc<Core>,
    pace: Pace,
    mailbox: Arc<Mailbox>,
    thread: fork::Mutex<Option<JoinHandle<()>>>,
    /// The process that has the thread.
    origin: Origin,
}

impl Writer {
    pub(super) fn new(core: Arc<Core>, pace: Pace) -> Writer {
        Writer { core, pace, mailbox: Arc::default(), thread: fork::Mutex::default(), origin: Origin::here() }
    }

    /// Tells the thread that there are new records. The thread itself checks when the last result came, so that one
    /// wake-up serves many results.
    pub(super) fn wake(&self) {
        if !self.origin.is_here() {
            return;
        }
        let mut messages = self.mailbox.lock();
        if std::mem::replace(&mut messages.news, true) {
            return;
        }
        let start = !std::mem::replace(&mut messages.started, true);
        drop(messages);
        self.mailbox.changed.notify_one();
        if start {
            self.start();
        }
    }

    /// Starts the thread, if it has not been, because new records are expected.
    pub(super) fn expect(&self) {
        if self.origin.is_here() && !std::mem::replace(&mut self.mailbox.lock().started, true) {
            self.start();
        }
    }

    fn start(&self) {
        let (core, mailbox, pace) = (self.core.clone(), self.mailbox.clone(), self.pace);
        let spawned =
            std::thread::Builder::new().name("kiln-records".to_owned()).spawn(move || run(&core, &mailbox, pace));
        match spawned {
            Ok(thread) => *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread),
            // The store still saves when it ends.
            Err(error) => warning!(%error, "records are not saved in the background"),
        }
    }
}

impl Writer {
    /// Ends the thread and saves once more. In a forked child, which has no such thread, it leaves that to the parent.
    pub(super) fn finish(&self) {
        if !self.origin.is_here() {
            return std::mem::forget(self.thread.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        self.mailbox.lock().stop = true;
        self.mailbox.changed.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the thread has already been reported.
        let _ = thread.map(JoinHandle::join);
        if let Err(error) = self.core.save() {
            warning!(%error, "records were not saved; the next process starts without what is new");
        }
    }
}

fn run(core: &Core, mailbox: &Mailbox, pace: Pace) {
    let mut messages = mailbox.lock();
    loop {
        while !messages.news && !messages.stop {
            messages = mailbox.changed.wait(messages).unwrap_or_else(PoisonError::into_inner);
        }
        if messages.stop {
            return;
        }
        // With no change to wait for, the file itself has to be mended.
        let due = core.lock().changed.map(|(last, first)| (last + pace.quiet).min(first + pace.longest));
        if let Some(left) = due.map(|due| due.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
        {
            messages = mailbox.changed.wait_timeout(messages, left).unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        messages.news = false;
        drop(messages);
        let saved = core.save();
        messages = mailbox.lock();
        if let Err(error) = saved {
            warning!(%error, "records were not saved; they stay in memory until the next save");
            core.lock().stats.failed_saves += 1;
            // Not at once, or a full disk would be tried all the time.
            messages.news = true;
            let started = Instant::now();
            while !messages.stop && started.elapsed() < pace.longest {
                let left = pace.longest.saturating_sub(started.elapsed());
                messages = mailbox.changed.wait_timeout(messages, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}
