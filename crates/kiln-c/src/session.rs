//! Sessions: loading, and what a model declares.

use std::ffi::{c_char, c_void};

use kiln::{Session, SessionError, SessionOptions};

use crate::error::{Result, invalid};
use crate::handle::{self, kind};
use crate::options::{self, KilnOptions};
use crate::port::{Declared, KilnPort};
use crate::seam;
use crate::status::{KilnStatus, guard, guard_or};

/// A loaded model, ready to run at any shape from any number of threads.
pub struct KilnSession {
    pub(crate) session: Session,
    pub(crate) inputs: Vec<Declared>,
    pub(crate) outputs: Vec<Declared>,
}

kind!(KilnSession = "KilnSession");

/// Gives the caller a session that `load` makes.
fn load(
    options: *const KilnOptions,
    session: *mut *mut KilnSession,
    load: impl FnOnce(&SessionOptions) -> Result<std::result::Result<Session, SessionError>>,
) -> Result<()> {
    seam::put(session, std::ptr::null_mut(), "session")?;
    let loaded = load(&options::of_caller(options)?)??;
    let inputs = loaded.inputs().iter().map(Declared::new).collect();
    let outputs = loaded.outputs().iter().map(Declared::new).collect();
    seam::put(session, handle::give(KilnSession { session: loaded, inputs, outputs }), "session")
}

/// Writes one port of a list to the caller's memory.
fn declared(ports: &[Declared], role: &str, index: usize, port: *mut KilnPort) -> Result<()> {
    let found = ports.get(index).ok_or_else(|| invalid!("index {index}: the model has {} {role}", ports.len()))?;
    seam::put(port, found.c(), "port")
}

/// Loads a model from an ONNX file or from a packed model (kiln_pack). With NULL options, the environment's apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_load(
    path: *const c_char,
    options: *const KilnOptions,
    session: *mut *mut KilnSession,
) -> *mut KilnStatus {
    guard("kiln_session_load", || {
        load(options, session, |options| Ok(Session::load(&seam::path(path, "path")?, options)))
    })
}

/// Loads an ONNX model from `len` bytes, which are copied. A model with tensors in other files is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_load_bytes(
    bytes: *const c_void,
    len: usize,
    options: *const KilnOptions,
    session: *mut *mut KilnSession,
) -> *mut KilnStatus {
    guard("kiln_session_load_bytes", || {
        load(options, session, |options| Ok(Session::load_bytes(seam::copy(bytes, len, "bytes")?, options)))
    })
}

/// Releases a session. NULL is allowed. Runs that have begun continue; after the last one the session saves its new
/// records and frees its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_release(session: *mut KilnSession) {
    guard_or((), || handle::release(session));
}

/// The number of the model's inputs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_input_count(session: *const KilnSession, count: *mut usize) -> *mut KilnStatus {
    guard("kiln_session_input_count", || seam::put(count, handle::get(session, "session")?.inputs.len(), "count"))
}

/// The number of the model's outputs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_output_count(session: *const KilnSession, count: *mut usize) -> *mut KilnStatus {
    guard("kiln_session_output_count", || seam::put(count, handle::get(session, "session")?.outputs.len(), "count"))
}

/// Writes an input's declaration. The first input has index 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_input(
    session: *const KilnSession,
    index: usize,
    port: *mut KilnPort,
) -> *mut KilnStatus {
    guard("kiln_session_input", || declared(&handle::get(session, "session")?.inputs, "inputs", index, port))
}

/// Writes an output's declaration. The first output has index 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_output(
    session: *const KilnSession,
    index: usize,
    port: *mut KilnPort,
) -> *mut KilnStatus {
    guard("kiln_session_output", || declared(&handle::get(session, "session")?.outputs, "outputs", index, port))
}
