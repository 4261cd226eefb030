//! The thread that tunes, and the queue before it.
//!
//! Nothing is measured in a request: a request notes keys, which is one look-up in a table, and everything else happens
//! here. The thread runs only while no request does ([`Requests`]), with the session's number of threads in a pool of
//! its own: the process computes on as many threads as it was given. A request that arrives does not wait; it makes the
//! sample under way void, and shares the cores with the rest of one run of one operator.
//!
//! Keys wait in the order in which they were first asked for: the first requests have the shapes that come most often,
//! and an order by counts would need a count at every hit. The queue is bounded; a key that finds it full may be noted
//! when it is asked for again.

use std::any::TypeId;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hashbrown::{DefaultHashBuilder, HashMap};
use kiln_fork::Origin;
use kiln_kernels::Pool;
use kiln_key::Key;

use super::job::{KeyJob, MeasureCx, TuningJob};
use super::operands::OperandMemory;
use super::report::{Ended, TuneReport};
use super::requests::{Request, Requests};
use super::search::SearchJob;
use super::standing::Standing;
use super::{Effort, Tune};
use crate::exec::gpu::SolverKey;
use crate::exec::{BuildCx, Family};

/// Keys that may wait.
const MOST_WAITING: usize = 4096;

/// Keys that are remembered, by their hashes.
const MOST_NOTED: usize = 1 << 16;

/// Ten steps below normal: any other work on the processor goes first.
pub(super) const NICENESS: i32 = 10;

/// A tuner of one session. Dropping it stops the thread, after at most one run of one operator.
pub struct Tuner {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
    /// The process in which the worker runs.
    origin: Origin,
}

/// What requests and the worker both see.
struct Shared {
    /// Requests under way, and whether the tuner goes on.
    requests: Arc<Requests>,
    /// Executors replaced.
    generation: AtomicU64,
    hasher: DefaultHashBuilder,
    state: Mutex<State>,
    /// There is something to do.
    wake: Condvar,
    /// There is nothing left to do.
    settled: Condvar,
}

/// A key that waits.
struct Queued {
    job: Box<dyn TuningJob>,
    hash: u64,
    standing: Arc<Standing>,
}

/// The state of a key that was asked for.
enum Noted {
    /// It waits, or has been turned away for now.
    Open { standing: Arc<Standing>, waits: bool },
    /// Its turn is over: its executor stays.
    Over,
}

impl Noted {
    /// Whether a node or a plan still holds its standing.
    fn is_held(&self) -> bool {
        matches!(self, Noted::Open { standing, .. } if Arc::strong_count(standing) > 1)
    }
}

#[derive(Default)]
struct State {
    queue: VecDeque<Queued>,
    /// By the keys' hashes. Where two keys have one hash, the second is not tuned, and its standing causes one vain
    /// look-up.
    noted: HashMap<u64, Noted>,
    /// Whether the worker has a key in hand.
    busy: bool,
    /// Whether the time for all keys is used up.
    exhausted: bool,
    report: TuneReport,
}

impl Tuner {
    /// A tuner for builders of that context, in a model with `constants` bytes of constants; `None` where the policy is
    /// to tune nothing, or where no thread can be started. A `budget` replaces the policy's time for all keys.
    #[must_use]
    pub fn start(tune: Tune, cx: &BuildCx, constants: usize, budget: Option<Duration>) -> Option<Tuner> {
        let mut effort = Effort::of(tune)?;
        effort.total = budget.unwrap_or(effort.total);
        let shared = Arc::new(Shared {
            requests: Arc::new(Requests::new()),
            generation: AtomicU64::new(0),
            hasher: DefaultHashBuilder::default(),
            state: Mutex::default(),
            wake: Condvar::new(),
            settled: Condvar::new(),
        });
        let (cx, theirs) = (cx.clone(), Arc::clone(&shared));
        let worker = std::thread::Builder::new().name("kiln-tune".to_owned());
        match worker.spawn(move || work(&theirs, &cx, &effort, constants)) {
            Ok(worker) => Some(Tuner { shared, worker: Some(worker), origin: Origin::here() }),
            Err(error) => {
                tracing::warn!(%error, "no thread for tuning; the cost model's choices stay");
                None
            }
        }
    }

    /// Notes that a key will be asked for. Returns the standing that says later whether the executor has been replaced,
    /// or `None` where it will not be. Never waits for a measurement.
    pub fn note<K: Family>(&self, key: &K) -> Option<Arc<Standing>> {
        if !K::TUNED {
            return None;
        }
        self.note_as(key, || Box::new(KeyJob(key.clone())))
    }

    /// As [`Tuner::note`], for a problem of a device's libraries.
    pub fn note_solver(&self, key: &SolverKey) -> Option<Arc<Standing>> {
        self.note_as(key, || Box::new(SearchJob(key.clone())))
    }

    fn note_as<K: Key>(&self, key: &K, job: impl FnOnce() -> Box<dyn TuningJob>) -> Option<Arc<Standing>> {
        if !self.origin.is_here() {
            return None;
        }
        let hash = self.shared.hasher.hash_one((TypeId::of::<K>(), key));
        let mut state = self.shared.lock();
        let known = match state.noted.get(&hash) {
            Some(Noted::Over) => return None,
            Some(Noted::Open { standing, waits: true }) => return Some(Arc::clone(standing)),
            Some(Noted::Open { standing, waits: false }) => Some(Arc::clone(standing)),
            None => None,
        };
        if state.exhausted {
            state.report.dropped += 1;
            return None;
        }
        if known.is_none() && state.noted.len() >= MOST_NOTED {
            state.noted.retain(|_, noted| noted.is_held());
            if state.noted.len() >= MOST_NOTED {
                // A holder of a standing that is forgotten here keeps it until it asks again.
                state.noted.clear();
            }
        }
        let standing = known.unwrap_or_default();
        let waits = state.queue.len() < MOST_WAITING;
        state.noted.insert(hash, Noted::Open { standing: Arc::clone(&standing), waits });
        if waits {
            state.queue.push_back(Queued { job: job(), hash, standing: Arc::clone(&standing) });
            drop(state);
            self.shared.wake.notify_one();
        } else {
            state.report.dropped += 1;
        }
        Some(standing)
    }

    /// Counts executors that were replaced in the cache: while it stays, no [`Standing`] changes.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::Acquire)
    }

    /// Says that a request runs until the returned value is dropped.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        self.shared.requests.begin()
    }

    /// The requests that it counts.
    pub(super) fn requests(&self) -> Arc<Requests> {
        Arc::clone(&self.shared.requests)
    }

    /// Waits at most `timeout` until no key waits; returns whether that is so.
    #[must_use]
    pub fn settle(&self, timeout: Duration) -> bool {
        if !self.origin.is_here() {
            return true;
        }
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.shared.lock();
        while state.busy || !state.queue.is_empty() {
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            // A year is practically for ever, and every platform can wait that long.
            let left = left.min(Duration::from_secs(365 * 86_400));
            let waited = self.shared.settled.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The report so far.
    #[must_use]
    pub fn report(&self) -> TuneReport {
        if !self.origin.is_here() {
            return TuneReport::default();
        }
        let state = self.shared.lock();
        let waiting = state.queue.len() as u64 + u64::from(state.busy);
        TuneReport { waiting, ..state.report.clone() }
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            return std::mem::forget(self.worker.take());
        }
        self.shared.requests.stop();
        // The lock ensures that the worker is not between its check of the flag and its wait.
        drop(self.shared.lock());
        self.shared.wake.notify_all();
        if let Some(worker) = self.worker.take() {
            // The worker catches the panics of candidates, and has none of its own.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock, so the state is whole even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next key, if one waits.
    fn next(&self) -> Option<Queued> {
        let mut state = self.lock();
        let queued = state.queue.pop_front();
        state.busy = queued.is_some();
        if queued.is_none() {
            self.settled.notify_all();
        }
        queued
    }

    fn sleep(&self) {
        let state = self.lock();
        if state.queue.is_empty() && !self.requests.are_over() {
            drop(self.wake.wait(state));
        }
    }

    /// Notes how a key ended. Where its executor was replaced, the new one is in the cache by now.
    fn end(&self, queued: &Queued, ended: Ended, spent: Duration, total: Duration) {
        let changed = matches!(ended, Ended::Tuned(Some(_)));
        let mut state = self.lock();
        state.noted.insert(queued.hash, Noted::Over);
        state.report.add(ended, spent);
        let mut dropped = VecDeque::new();
        if state.report.time >= total {
            state.exhausted = true;
            dropped = std::mem::take(&mut state.queue);
            state.report.dropped += dropped.len() as u64;
        }
        drop(state);
        drop(dropped);
        if changed {
            // In this order: a thread that sees the new generation sees the mark.
            queued.standing.replace();
            self.generation.fetch_add(1, Ordering::Release);
        }
    }
}

/// The worker's main function.
fn work(shared: &Shared, cx: &BuildCx, effort: &Effort, constants: usize) {
    // Threads of the pool inherit it. Where it is refused, the tuner keeps its priority.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    let mut tools: Option<(Pool, OperandMemory)> = None;
    while !shared.requests.are_over() {
        let Some(queued) = shared.next() else {
            // Threads and operands live only while keys come one after another.
            tools = None;
            shared.sleep();
            continue;
        };
        if shared.requests.await_quiet().is_none() {
            break;
        }
        if tools.is_none() {
            tools = Pool::new(cx.threads, "kiln-tune").ok().map(|pool| (pool, OperandMemory::new(constants)));
        }
        let (ended, spent) = match &mut tools {
            None => (Ended::Failed, Duration::ZERO),
            Some((pool, memory)) => {
                let mut measure =
                    MeasureCx { cx, effort, pool, memory, requests: &shared.requests, spent: Duration::ZERO };
                let ended = catch_unwind(AssertUnwindSafe(|| queued.job.run(&mut measure)));
                (ended.unwrap_or(Ended::Failed), measure.spent)
            }
        };
        shared.end(&queued, ended, spent, effort.total);
    }
    let mut state = shared.lock();
    state.busy = false;
    state.queue.clear();
    drop(state);
    shared.settled.notify_all();
}
