//! The one thread that talks to a remote store. It fetches when the store is made, puts when no new results have come
//! for a while, and puts once more at the end.
//!
//! Waits for it are bounded. A call that does not return in time is abandoned with its thread, which holds no lock that
//! others wait for.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Remote, RemoteError, RemotePolicy, around, exchange};
use crate::shared::Core;
use crate::warning::warning;
use kiln_fork::Origin;

#[derive(Default)]
struct Messages {
    /// There are new records here.
    news: bool,
    /// A caller waits for the next exchange, which then begins at once.
    hurry: bool,
    /// The store is being dropped.
    stop: bool,
    /// The first exchange has ended, well or not.
    answered: bool,
    /// The failure of the last exchange, if it failed.
    failure: Option<RemoteError>,
    /// An exchange is under way.
    busy: bool,
    /// The thread has ended.
    ended: bool,
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

    fn tell(&self, change: impl FnOnce(&mut Messages)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until `done`, but no longer than `patience`.
    fn wait_for(&self, patience: Duration, done: impl Fn(&Messages) -> bool) {
        let started = Instant::now();
        let mut messages = self.lock();
        while !done(&messages) {
            let Some(left) = patience.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) else { return };
            messages = self.changed.wait_timeout(messages, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The exchange thread of one store, and the messages to it.
pub(crate) struct RemoteWorker {
    mailbox: Arc<Mailbox>,
    policy: RemotePolicy,
    /// The process that has the thread.
    origin: Origin,
}

/// Sets `ended` when the thread ends, even by a panic of a caller's client.
struct Ended(Arc<Mailbox>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.tell(|messages| (messages.ended, messages.busy) = (true, false));
    }
}

impl RemoteWorker {
    /// Starts fetching. `news` is called after records were fetched.
    pub(crate) fn start(
        core: Arc<Core>,
        remote: Arc<dyn Remote>,
        policy: RemotePolicy,
        news: impl Fn() + Send + 'static,
    ) -> RemoteWorker {
        let mailbox = Arc::new(Mailbox::default());
        mailbox.lock().busy = true;
        let ended = Ended(mailbox.clone());
        let run = move || run(&core, &*remote, &policy, &ended.0, &news);
        // Where no thread can be started, its closure is dropped, which sets `ended`.
        if let Err(error) = std::thread::Builder::new().name("kiln-remote".to_owned()).spawn(run) {
            warning!(%error, "the remote store of records is not used");
        }
        RemoteWorker { mailbox, policy, origin: Origin::here() }
    }

    /// Tells the thread that there are new records here.
    pub(crate) fn wake(&self) {
        if !self.policy.read_only && self.origin.is_here() {
            self.mailbox.tell(|messages| messages.news = true);
        }
    }

    /// Waits for the first answer, for as long as the policy says.
    pub(crate) fn await_answer(&self) {
        if self.origin.is_here() {
            self.mailbox.wait_for(self.policy.patience, |messages| messages.answered || messages.ended);
        }
    }

    /// Puts better records from here at once, and waits for that, but no longer than `patience`.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]; records that could not be put are tried again later.
    pub(crate) fn publish(&self, patience: Duration) -> Result<(), RemoteError> {
        if self.policy.read_only || !self.origin.is_here() {
            return Err(RemoteError::ReadOnly);
        }
        self.mailbox.tell(|messages| (messages.news, messages.hurry) = (true, true));
        self.mailbox.wait_for(patience, |messages| messages.ended || !(messages.hurry || messages.busy));
        let messages = self.mailbox.lock();
        if messages.ended {
            return Err(RemoteError::Failed("the thread that talks to the remote store has ended".to_owned()));
        }
        if messages.hurry || messages.busy {
            return Err(RemoteError::TimedOut(patience));
        }
        messages.failure.clone().map_or(Ok(()), Err)
    }
}

impl Drop for RemoteWorker {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            return;
        }
        self.mailbox.tell(|messages| messages.stop = true);
        let nothing_left =
            |messages: &Messages| messages.ended || (self.policy.read_only || !messages.news) && !messages.busy;
        // A store that only reads loses nothing by not waiting.
        let linger = if self.policy.read_only { Duration::ZERO } else { self.policy.linger };
        self.mailbox.wait_for(linger, nothing_left);
    }
}

fn run(core: &Core, remote: &dyn Remote, policy: &RemotePolicy, mailbox: &Mailbox, news: &dyn Fn()) {
    loop {
        let exchanged = exchange(core, remote, policy);
        let failure = exchanged.as_ref().err().cloned();
        let failed = failure.is_some();
        match exchanged {
            Ok(0) => {}
            Ok(_) => news(),
            Err(error) => {
                warning!(%error, "the remote store of records does not do what it should; going on without it");
                core.lock().stats.remote_failures += 1;
            }
        }
        mailbox.tell(|messages| {
            (messages.answered, messages.busy, messages.failure) = (true, false, failure);
            // A failed exchange is tried again.
            messages.news |= failed;
        });
        let mut messages = mailbox.lock();
        while !messages.news && !messages.stop {
            messages = mailbox.changed.wait(messages).unwrap_or_else(PoisonError::into_inner);
        }
        let stopped = messages.stop;
        drop(messages);
        // At the end, a failed exchange is not tried again: the records go when the next process starts.
        if stopped && (failed || policy.read_only || !mailbox.lock().news) {
            return;
        }
        let pause = if failed { around(policy.rest) } else { policy.settle };
        mailbox.wait_for(pause, |messages| messages.stop || messages.hurry);
        let mut messages = mailbox.lock();
        if messages.stop && (failed || policy.read_only) {
            return;
        }
        (messages.news, messages.hurry, messages.busy) = (false, false, true);
    }
}
