//! Measures what this machine does in a second ([`MachineKey`]), once, where records that are kept lack it.
//!
//! A thread of its own measures under any policy of tuning, because cost models of the next process read the figures:
//! 20 ms for one thread and as long for all. It waits until no request has run and nothing has been loaded for
//! [`QUIET`]. A request that arrives ends a measurement within a millisecond, and the measurement begins anew after the
//! next pause. To a tuner of the same session, a measurement is a request. In one process, one session measures at a
//! time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use kiln_fork::Origin;
use kiln_kernels::{Isa, Parallel, Pool, Serial};

use super::requests::{Request, Requests};
use super::worker::{NICENESS, Tuner};
use crate::exec::BuildCx;
use crate::exec::machine::MachineKey;
use crate::record::CacheMode;

/// How long no request may have run before a measurement begins.
const QUIET: Duration = Duration::from_millis(50);

/// Measurements that may be begun: a service that is never idle for long keeps the default figures, and its cores.
const ATTEMPTS: usize = 16;

/// The process in which a session measures; 0 before there is one.
static MEASURING: AtomicU32 = AtomicU32::new(0);

/// Measures in the background. Dropping it ends the thread, within a millisecond.
pub struct Gauge {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
    /// The process in which the worker runs.
    origin: Origin,
}

struct Shared {
    requests: Arc<Requests>,
    over: Mutex<bool>,
    ended: Condvar,
}

impl Gauge {
    /// Begins to wait for a quiet moment, beside the session's tuner if it has one. `None` where there is nothing to
    /// measure or no later process would read it: no code is emitted, the records are not written to a file, or the
    /// records have the figures.
    #[must_use]
    pub fn start(cx: &BuildCx, tuner: Option<&Tuner>) -> Option<Gauge> {
        let kept = cx.records.mode() == CacheMode::ReadWrite && cx.records.path().is_some() && cx.records.may_choose();
        let emits = cx.isa.is_jit() && cx.isa <= Isa::detect();
        if !kept || !emits || lacking(cx).is_empty() {
            return None;
        }
        let requests = tuner.map_or_else(|| Arc::new(Requests::new()), Tuner::requests);
        let shared = Arc::new(Shared { requests, over: Mutex::new(false), ended: Condvar::new() });
        let (cx, theirs) = (cx.clone(), Arc::clone(&shared));
        let worker = std::thread::Builder::new().name("kiln-gauge".to_owned());
        match worker.spawn(move || work(&theirs, &cx)) {
            Ok(worker) => Some(Gauge { shared, worker: Some(worker), origin: Origin::here() }),
            Err(error) => {
                tracing::warn!(%error, "no thread to measure this machine with; cost models keep their defaults");
                None
            }
        }
    }

    /// Says that a request runs until the returned value is dropped; `None` once there is nothing left to measure.
    #[must_use]
    pub fn request(&self) -> Option<Request<'_>> {
        let measures = self.worker.as_ref().is_some_and(|worker| !worker.is_finished());
        (measures && self.origin.is_here()).then(|| self.shared.requests.begin())
    }

    /// Waits at most `timeout` until nothing is left to measure; returns whether that is so.
    #[must_use]
    pub fn settle(&self, timeout: Duration) -> bool {
        if !self.origin.is_here() {
            return true;
        }
        let over = self.shared.over.lock().unwrap_or_else(PoisonError::into_inner);
        // A year is practically for ever, and every platform can wait that long.
        let timeout = timeout.min(Duration::from_secs(365 * 86_400));
        let waited = self.shared.ended.wait_timeout_while(over, timeout, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            return std::mem::forget(self.worker.take());
        }
        self.shared.requests.stop();
        if let Some(worker) = self.worker.take() {
            // The worker does not panic; if it did, the session would go on without figures.
            let _ = worker.join();
        }
    }
}

/// The numbers of threads whose figures the records lack.
fn lacking(cx: &BuildCx) -> Vec<usize> {
    let mut counts = vec![1, cx.threads.max(1)];
    counts.dedup();
    let known = |threads: usize| MachineKey { isa: cx.isa, threads: u32::try_from(threads).unwrap_or(u32::MAX) };
    counts.retain(|&threads| known(threads).recall(&cx.records).is_none());
    counts
}

/// Ends the waiting of [`Gauge::settle`] when it is dropped, however the worker ends.
struct Over<'a>(&'a Shared);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        *self.0.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.ended.notify_all();
    }
}

/// This process's turn to measure, until it is dropped.
struct Turn;

impl Turn {
    /// `None` while another session of this process measures. A session of the process that this one was forked from
    /// does not count.
    fn take() -> Option<Turn> {
        let this = std::process::id();
        let other = MEASURING.load(Ordering::Acquire);
        let free = other != this;
        (free && MEASURING.compare_exchange(other, this, Ordering::AcqRel, Ordering::Relaxed).is_ok()).then_some(Turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        MEASURING.store(0, Ordering::Release);
    }
}

/// The worker's main function.
fn work(shared: &Shared, cx: &BuildCx) {
    let _over = Over(shared);
    // Threads of the pool inherit it. Where it is refused, the thread keeps its priority.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    for _ in 0..ATTEMPTS {
        if shared.requests.await_quiet_of(QUIET).is_none() {
            return;
        }
        let Some(_turn) = Turn::take() else {
            shared.requests.pause(QUIET);
            continue;
        };
        if !lacking(cx).into_iter().any(|threads| is_interrupted(shared, cx, threads)) {
            return;
        }
    }
}

/// Measures on `threads` threads; returns whether a request has ended the measurement.
fn is_interrupted(shared: &Shared, cx: &BuildCx, threads: usize) -> bool {
    let requests = &*shared.requests;
    let pool = if threads > 1 { Pool::new(threads, "kiln-gauge").ok() } else { None };
    let parallel = match &pool {
        Some(pool) => pool as &dyn Parallel,
        None if threads > 1 => return false,
        None => &Serial,
    };
    // A tuner that shares these counts waits meanwhile.
    let _own = requests.begin();
    let arrivals = requests.arrivals();
    let goes_on = || !requests.are_over() && requests.arrivals() == arrivals && requests.running() == 1;
    MachineKey::measure_while(cx.isa, parallel, &cx.records, &goes_on).is_none() && !goes_on()
}

#[cfg(test)]
mod tests {
    use kiln_cache::{Cache, Limits};
    use kiln_kernels::cpu::machine::Figures;

    use super::*;
    use crate::record::{Evidence, Store, host_fingerprint};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn context(records: Store) -> BuildCx {
        BuildCx {
            isa: Isa::detect(),
            threads: 2,
            numerics: Default::default(),
            precision: Default::default(),
            cache: Arc::new(Cache::new(Limits { entries: 64, bytes: 1 << 20 })),
            records: Arc::new(records),
            check: false,
            gpu: None,
        }
    }

    fn in_folder(folder: &std::path::Path) -> BuildCx {
        context(Store::open(folder, &host_fingerprint("gauge", 1), CacheMode::ReadWrite))
    }

    #[test]
    fn records_without_figures_get_those_of_one_thread_and_of_all_and_nothing_is_measured_twice() {
        let folder = tempfile::tempdir().unwrap();
        let cx = in_folder(folder.path());
        let Some(gauge) = Gauge::start(&cx, None) else {
            return assert!(!cx.isa.is_jit());
        };
        assert!(gauge.settle(PATIENCE));
        for threads in [1, 2] {
            let figures = MachineKey { isa: cx.isa, threads }.recall(&cx.records);
            assert!(figures.is_some_and(|figures| figures.memory > 0), "{figures:?} of {threads} threads");
        }
        assert!(Gauge::start(&cx, None).is_none(), "the records know");
        drop(gauge);
        cx.records.save().unwrap();
        assert!(Gauge::start(&in_folder(folder.path()), None).is_none(), "the next process knows");
    }

    #[test]
    fn figures_that_are_not_kept_are_not_measured() {
        assert!(Gauge::start(&context(Store::in_memory()), None).is_none());
        assert!(Gauge::start(&context(Store::off()), None).is_none());
        let folder = tempfile::tempdir().unwrap();
        let read = Store::open(folder.path(), &host_fingerprint("gauge", 1), CacheMode::Read);
        assert!(Gauge::start(&context(read), None).is_none());
        let cx = in_folder(folder.path());
        let complete = BuildCx { records: cx.records.taken_as_complete(), ..cx };
        assert!(Gauge::start(&complete, None).is_none());
    }

    #[test]
    fn figures_that_no_processor_has_are_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let cx = in_folder(folder.path());
        for threads in [1, 2] {
            let forged = Figures { f32: 0, bytes: u32::MAX, memory: u32::MAX, ..Figures::default() };
            cx.records.insert(&MachineKey { isa: cx.isa, threads }, &forged, Evidence::model());
        }
        assert_eq!(lacking(&cx), [1, 2]);
        assert_eq!(Gauge::start(&cx, None).is_some(), cx.isa.is_jit());
    }

    #[test]
    fn nothing_is_measured_while_a_request_runs() {
        let folder = tempfile::tempdir().unwrap();
        let cx = in_folder(folder.path());
        let Some(gauge) = Gauge::start(&cx, None) else {
            return assert!(!cx.isa.is_jit());
        };
        let request = gauge.request();
        assert!(request.is_some());
        assert!(!gauge.settle(3 * QUIET));
        assert_eq!(lacking(&cx), [1, 2]);
        drop(request);
        assert!(gauge.settle(PATIENCE));
        assert!(lacking(&cx).is_empty());
    }

    #[test]
    fn a_session_that_ends_waits_for_no_measurement() {
        let folder = tempfile::tempdir().unwrap();
        let cx = in_folder(folder.path());
        let gauge = Gauge::start(&cx, None);
        assert_eq!(gauge.is_some(), cx.isa.is_jit());
        drop(gauge);
        assert_eq!(lacking(&cx), [1, 2]);
    }
}
