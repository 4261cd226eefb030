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

/// Loads a model from an ONNX file, or a packed one (kiln_pack). NULL options are those of the environment.
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

/// Loads an ONNX model from `len` bytes, which are copied. A model with files beside it is refused.
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

/// Releases a session; nothing for NULL. Its new records are saved. A run that has begun comes
/// to its end, and what it needs of the session goes with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_release(session: *mut KilnSession) {
    guard_or((), || handle::release(session));
}

/// How many inputs the model has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_input_count(session: *const KilnSession, count: *mut usize) -> *mut KilnStatus {
    guard("kiln_session_input_count", || seam::put(count, handle::get(session, "session")?.inputs.len(), "count"))
}

/// How many outputs the model has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_output_count(session: *const KilnSession, count: *mut usize) -> *mut KilnStatus {
    guard("kiln_session_output_count", || seam::put(count, handle::get(session, "session")?.outputs.len(), "count"))
}

/// What the model declares of an input, by its place from 0 on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_input(
    session: *const KilnSession,
    index: usize,
    port: *mut KilnPort,
) -> *mut KilnStatus {
    guard("kiln_session_input", || declared(&handle::get(session, "session")?.inputs, "inputs", index, port))
}

/// What the model declares of an output, by its place from 0 on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_output(
    session: *const KilnSession,
    index: usize,
    port: *mut KilnPort,
) -> *mut KilnStatus {
    guard("kiln_session_output", || declared(&handle::get(session, "session")?.outputs, "outputs", index, port))
}
