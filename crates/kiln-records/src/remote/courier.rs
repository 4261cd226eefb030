//! The thread that talks to a remote store, so that nobody else does: it fetches when the store is made, and puts when
//! results have settled and once more at the end.
//!
//! Whoever waits for it does so for a bounded time. A call that does not return by then is left behind with its thread,
//! which holds nothing that anybody else waits for.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Remote, RemotePolicy, around, exchange};
use crate::store::Core;
use crate::warning::warning;
use kiln_fork::Origin;

#[derive(Default)]
struct Orders {
    /// Something is new here.
    news: bool,
    /// The store is going.
    stop: bool,
    /// The first exchange has ended, well or not.
    answered: bool,
    /// An exchange is under way.
    busy: bool,
    /// The thread has ended.
    ended: bool,
}

#[derive(Default)]
struct Desk {
    orders: Mutex<Orders>,
    changed: Condvar,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits for something, but no longer than that.
    fn wait_for(&self, patience: Duration, done: impl Fn(&Orders) -> bool) {
        let started = Instant::now();
        let mut orders = self.lock();
        while !done(&orders) {
            let Some(left) = patience.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) else { return };
            orders = self.changed.wait_timeout(orders, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The courier of one store.
pub(crate) struct Courier {
    desk: Arc<Desk>,
    policy: RemotePolicy,
    /// The process that has the thread.
    origin: Origin,
}

/// Says that the thread has ended, even if a client of somebody else's panics.
struct Ended(Arc<Desk>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.tell(|orders| (orders.ended, orders.busy) = (true, false));
    }
}

impl Courier {
    /// Starts fetching. `news` is called when something was fetched.
    pub(crate) fn start(
        core: Arc<Core>,
        remote: Arc<dyn Remote>,
        policy: RemotePolicy,
        news: impl Fn() + Send + 'static,
    ) -> Courier {
        let desk = Arc::new(Desk::default());
        desk.lock().busy = true;
        let ended = Ended(desk.clone());
        let run = move || run(&core, &*remote, &policy, &ended.0, &news);
        // Where no thread can be had, what it was to do is dropped, which says that it has ended.
        if let Err(error) = std::thread::Builder::new().name("kiln-remote".to_owned()).spawn(run) {
            warning!(%error, "the remote store of records is not used");
        }
        Courier { desk, policy, origin: Origin::here() }
    }

    /// Says that something is new here.
    pub(crate) fn wake(&self) {
        if !self.policy.read_only && self.origin.is_here() {
            self.desk.tell(|orders| orders.news = true);
        }
    }

    /// Waits for the first answer, for as long as the policy says.
    pub(crate) fn await_answer(&self) {
        if self.origin.is_here() {
            self.desk.wait_for(self.policy.patience, |orders| orders.answered || orders.ended);
        }
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            return;
        }
        self.desk.tell(|orders| orders.stop = true);
        let nothing_left = |orders: &Orders| orders.ended || (self.policy.read_only || !orders.news) && !orders.busy;
        // Somebody who only reads has nothing to lose by not waiting.
        let linger = if self.policy.read_only { Duration::ZERO } else { self.policy.linger };
        self.desk.wait_for(linger, nothing_left);
    }
}

fn run(core: &Core, remote: &dyn Remote, policy: &RemotePolicy, desk: &Desk, news: &dyn Fn()) {
    loop {
        let exchanged = exchange(core, remote, policy);
        let failed = exchanged.is_err();
        match exchanged {
            Ok(0) => {}
            Ok(_) => news(),
            Err(error) => {
                warning!(%error, "the remote store of records does not do what it should; going on without it");
                core.lock().stats.remote_failures += 1;
            }
        }
        desk.tell(|orders| {
            (orders.answered, orders.busy) = (true, false);
            // What could not be asked or told is tried again.
            orders.news |= failed;
        });
        let mut orders = desk.lock();
        while !orders.news && !orders.stop {
            orders = desk.changed.wait(orders).unwrap_or_else(PoisonError::into_inner);
        }
        let stopped = orders.stop;
        drop(orders);
        // At the end nothing is tried that failed before: what did not go now goes when the next process starts.
        if stopped && (failed || policy.read_only || !desk.lock().news) {
            return;
        }
        desk.wait_for(if failed { around(policy.rest) } else { policy.settle }, |orders| orders.stop);
        let mut orders = desk.lock();
        if orders.stop && (failed || policy.read_only) {
            return;
        }
        (orders.news, orders.busy) = (false, true);
    }
}
