//! Ending running requests: by a [`Cancel`], by the session's `cancel()`, and by Ctrl-C.
//!
//! Python only notes a signal when it comes; the handler runs when the main thread checks for signals. While that
//! thread computes, it checks from time to time, as every thread checks whether its request was cancelled.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pyo3::prelude::*;

/// Milliseconds between two checks for signals: each takes the interpreter's lock, for which a thread that computes in
/// Python lets others wait 5 ms.
const PATIENCE: u64 = 50;

thread_local! {
    /// Whether this is the process's first thread, which alone runs Python's signal handlers.
    static MAIN: bool = rustix::thread::gettid() == rustix::process::getpid();
}

/// Cancels requests from any thread: pass one to `Session.run(..., cancel=...)`.
///
/// >>> cancel = kiln.Cancel()
/// >>> cancel.cancel()                       # usually from another thread
/// >>> kiln.Session(model).run(None, {"x": np.ones((1, 3), np.float32)}, cancel=cancel)
/// Traceback (most recent call last):
/// kiln._errors.CancelledError: ...
#[pyclass(frozen, module = "kiln")]
pub(crate) struct Cancel {
    off: Arc<AtomicBool>,
}

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Cancel {
        Cancel { off: Arc::default() }
    }

    /// Ends every request that was given this object. A running kernel ends after its current block of work.
    ///
    /// >>> kiln.Cancel().cancel()
    fn cancel(&self) {
        self.off.store(true, Ordering::Relaxed);
    }

    /// Whether `cancel` was called.
    ///
    /// >>> kiln.Cancel().cancelled
    /// False
    #[getter]
    fn cancelled(&self) -> bool {
        self.off.load(Ordering::Relaxed)
    }
}

/// The ways to end one request, or the loading of one model.
pub(crate) struct Watch(Arc<Watched>);

struct Watched {
    /// How often the session's requests were cancelled, and how often before this one.
    calls: Arc<AtomicU64>,
    before: u64,
    token: Option<Arc<AtomicBool>>,
    begun: Instant,
    /// The millisecond of the next check for signals.
    next: AtomicU64,
    /// The exception that a signal's handler has raised.
    raised: Mutex<Option<PyErr>>,
}

impl Watch {
    /// For a request of the session with that counter of cancellations.
    pub(crate) fn new(calls: &Arc<AtomicU64>, token: Option<&Cancel>) -> Watch {
        Watch(Arc::new(Watched {
            calls: calls.clone(),
            before: calls.load(Ordering::Relaxed),
            token: token.map(|token| token.off.clone()),
            begun: Instant::now(),
            next: AtomicU64::new(PATIENCE),
            raised: Mutex::new(None),
        }))
    }

    /// The handle for the request.
    pub(crate) fn cancel(&self) -> kiln::Cancel {
        let watched = self.0.clone();
        kiln::Cancel::asking(move || watched.is_over())
    }

    /// The exception of a signal's handler, if that ended the request.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        self.0.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Watched {
    fn is_over(&self) -> bool {
        let called = self.token.as_ref().is_some_and(|off| off.load(Ordering::Relaxed));
        if called || self.calls.load(Ordering::Relaxed) != self.before {
            return true;
        }
        MAIN.with(|main| *main) && self.is_interrupted()
    }

    /// Whether a signal's handler has raised an exception.
    fn is_interrupted(&self) -> bool {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        if now < self.next.load(Ordering::Relaxed) {
            return false;
        }
        self.next.store(now.saturating_add(PATIENCE), Ordering::Relaxed);
        let Err(error) = Python::attach(|py| py.check_signals()) else { return false };
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        true
    }
}
