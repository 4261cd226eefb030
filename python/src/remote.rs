//! Stores of records elsewhere: by a URL, or an object of the program with `get` and `put`.
//!
//! Such an object is called on a thread of Kiln's. When the interpreter ends, it stops every thread that returns from a
//! call, at any place, which Rust's frames do not survive. So the interpreter waits for calls before it ends
//! ([`finish`]), and no call begins after that.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use kiln_knobs::Knobs;
use kiln_run::record::{Credentials, Object, Over, Put, Remote, RemoteError, connect};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors;

/// The store that the option `remote` names.
pub(crate) fn open(py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Remote>> {
    let refused = |why: String| errors::option(py, "remote", why);
    if let Ok(url) = given.cast::<PyString>() {
        let knobs = Knobs::from_env().map_err(|error| errors::error(py, "OptionError", error.to_string()))?;
        let credentials = Credentials { user: knobs.remote_user, password: knobs.remote_password };
        return connect(&url.to_cow()?, &credentials).map_err(|error| refused(error.to_string()));
    }
    for method in ["get", "put"] {
        if !given.hasattr(method)? {
            let kind = given.get_type().name()?;
            return Err(refused(format!("a store is a URL or an object with get and put; {kind} has no {method}")));
        }
    }
    Ok(Arc::new(Own(given.clone().unbind())))
}

/// An object of the program, whose methods are called on a thread that no request waits for.
struct Own(Py<PyAny>);

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store of the program's own")
    }
}

/// Running calls, and their process: a forked child has none of its parent's threads.
static CALLS: AtomicUsize = AtomicUsize::new(0);
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Set when the interpreter is about to end.
static ENDING: AtomicBool = AtomicBool::new(false);

/// A call that is counted while it runs.
struct Call;

impl Call {
    fn begin() -> Option<Call> {
        let process = std::process::id();
        if PROCESS.swap(process, Ordering::SeqCst) != process {
            CALLS.store(0, Ordering::SeqCst);
        }
        // A call is counted before it checks for the end, and `finish` checks for calls after it has set the end: at
        // least one sees the other.
        CALLS.fetch_add(1, Ordering::SeqCst);
        let call = Call;
        (!ENDING.load(Ordering::SeqCst)).then_some(call)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits for calls of programs' stores, and keeps others from beginning. Run when the interpreter is about to end;
/// Ctrl-C ends the wait.
#[pyfunction]
pub(crate) fn finish(py: Python<'_>) -> PyResult<()> {
    ENDING.store(true, Ordering::SeqCst);
    while PROCESS.load(Ordering::SeqCst) == std::process::id() && CALLS.load(Ordering::SeqCst) > 0 {
        py.detach(|| std::thread::sleep(Duration::from_millis(5)));
        py.check_signals()?;
    }
    Ok(())
}

impl Own {
    fn call<T>(&self, work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T, RemoteError> {
        let ending = || RemoteError::Failed("the interpreter is ending".to_owned());
        let _call = Call::begin().ok_or_else(ending)?;
        let done = Python::try_attach(|py| {
            work(self.0.bind(py)).map_err(|error| RemoteError::Failed(format!("the program's store: {error}")))
        });
        done.unwrap_or_else(|| Err(ending()))
    }
}

impl Remote for Own {
    fn get(&self, name: &str, most: usize) -> Result<Option<Object>, RemoteError> {
        let found = self.call(|store| {
            let found = store.call_method1("get", (name,))?;
            if found.is_none() {
                return Ok(None);
            }
            let bytes = found.cast::<PyBytes>()?.as_bytes();
            Ok(Some(if bytes.len() > most { Err(RemoteError::TooLong { most }) } else { Ok(bytes.to_vec()) }))
        })?;
        found.map(|bytes| Ok(Object { bytes: bytes?, version: None })).transpose()
    }

    fn put(&self, name: &str, bytes: &[u8], _over: Over<'_>) -> Result<Put, RemoteError> {
        self.call(|store| store.call_method1("put", (name, PyBytes::new(store.py(), bytes))).map(drop))?;
        // Such a store has no conditional writes.
        Ok(Put::Unsure)
    }
}
