//! Options of the pool that sessions of an environment share.

use std::ffi::c_int;
use std::sync::PoisonError;

use kiln::Threads;
use kiln_fork::Mutex;

use crate::error::{Result, failed, invalid};
use crate::seam::handle::kind;
use crate::seam::{CreateThreadFn, Handle, JoinThreadFn, Memory, Out, Text, entry};

/// The settings of an environment's pool.
#[derive(Default)]
pub(crate) struct Threading {
    intra: Mutex<c_int>,
}

kind!(Threading = "OrtThreadingOptions");

impl Threading {
    /// The pool.
    pub(crate) fn pool(&self) -> Result<Threads> {
        let count = *self.intra.lock().unwrap_or_else(PoisonError::into_inner);
        Threads::new(count_of(count)).map_err(|error| failed!("{error}"))
    }
}

/// Kiln's count of threads for onnxruntime's: 0 and negative counts mean the machine's, unless
/// `ORT_INTRA_OP_NUM_THREADS` gives another.
pub(crate) fn count_of(intra: c_int) -> usize {
    match usize::try_from(intra) {
        Ok(0) | Err(_) => of_environment().unwrap_or(0),
        Ok(count) => count,
    }
}

#[expect(clippy::disallowed_methods, reason = "the variable is onnxruntime's, which Kiln itself does not read")]
fn of_environment() -> Option<usize> {
    std::env::var("ORT_INTRA_OP_NUM_THREADS").ok()?.trim().parse().ok()
}

entry! {
    fn CreateThreadingOptions(out: Out<Handle<Threading>>) {
        let out = out.place("out")?;
        out.put(Handle::new(Threading::default())?);
        Ok(())
    }

    fn SetGlobalIntraOpNumThreads(options: Handle<Threading>, count: c_int) {
        let options = options.get("tp_options")?;
        *options.intra.lock().unwrap_or_else(PoisonError::into_inner) = count;
        Ok(())
    }

    fn SetGlobalInterOpNumThreads(options: Handle<Threading>, _count: c_int) {
        options.get("tp_options").map(drop)
    }

    fn SetGlobalSpinControl(options: Handle<Threading>, allow: c_int) {
        let _ = options.get("tp_options")?;
        if (0..=1).contains(&allow) { Ok(()) } else { Err(invalid!("allow_spinning is {allow}: it is 0 or 1")) }
    }

    fn SetGlobalDenormalAsZero(options: Handle<Threading>) {
        options.get("tp_options").map(drop)
    }

    fn SetGlobalIntraOpThreadAffinity(options: Handle<Threading>, affinity: Text) {
        let _ = (options.get("tp_options")?, affinity.read("affinity_string")?);
        Ok(())
    }

    fn SetGlobalCustomCreateThreadFn(options: Handle<Threading>, make: CreateThreadFn) {
        let _ = options.get("tp_options")?;
        no_threads_of_callers(make.is_some(), "SetGlobalCustomCreateThreadFn")
    }

    fn SetGlobalCustomThreadCreationOptions(options: Handle<Threading>, _given: Memory) {
        options.get("tp_options").map(drop)
    }

    fn SetGlobalCustomJoinThreadFn(options: Handle<Threading>, join: JoinThreadFn) {
        let _ = options.get("tp_options")?;
        no_threads_of_callers(join.is_some(), "SetGlobalCustomJoinThreadFn")
    }

    fn ReleaseThreadingOptions(options: Handle<Threading>) -> (), else () => {
        drop(options.release());
    }
}

/// Refuses threads that a caller would make: a pool makes its own.
pub(crate) fn no_threads_of_callers(is_given: bool, name: &str) -> Result<()> {
    if is_given { Err(crate::error::Error::not_implemented(name)) } else { Ok(()) }
}
