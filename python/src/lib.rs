//! The native half of the Python package `kiln`: sessions over numpy arrays.
//!
//! [`session`] is the class that programs use, [`decoder`] and [`encoder_decoder`] those for language models, [`generate`]
//! and [`batch`] those for texts, with [`options`] as it is made and [`interrupt`] as it runs; [`values`] turns what Python gives into what a session takes,
//! and back, and [`outputs`] binds outputs to Python's arrays; [`arrays`] is the memory that both share, and the only file
//! here with unsafe code; [`models`] is what a session is loaded from, of which [`members`] are read by Python;
//! [`remote`] are stores of records elsewhere; [`errors`] says which exception an error is.
//! What needs no Rust is in `kiln/`, in Python.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "arrays share memory with tensors; every block says why it may")]
mod arrays;
mod batch;
mod decoder;
mod encoder_decoder;
mod errors;
mod generate;
mod interrupt;
mod members;
mod models;
mod options;
mod outputs;
mod ports;
mod remote;
mod session;
mod values;

use std::ffi::OsString;

use kiln_command::Invocation;
use pyo3::prelude::*;

/// Runs the command `kiln` with these arguments, in a process that was started with `before` to be it; its exit code.
#[pyfunction]
fn command(py: Python<'_>, before: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| kiln_command::run_as(Invocation { before, arguments }))
}

/// Sessions, and what they are made of.
#[pymodule]
fn _kiln(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<session::Session>()?;
    module.add_class::<decoder::Decoder>()?;
    module.add_class::<decoder::DecoderCache>()?;
    module.add_class::<generate::Generator>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<batch::Finished>()?;
    module.add_class::<encoder_decoder::EncoderDecoder>()?;
    module.add_class::<encoder_decoder::Encoded>()?;
    module.add_class::<options::Pool>()?;
    module.add_class::<interrupt::Cancel>()?;
    module.add_class::<ports::Port>()?;
    module.add_class::<ports::Metadata>()?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    let finish = wrap_pyfunction!(remote::finish, module)?;
    module.py().import("atexit")?.call_method1("register", (finish,))?;
    module.add_function(wrap_pyfunction!(session::reopen, module)?)?;
    module.add_function(wrap_pyfunction!(session::pack, module)?)?;
    Ok(())
}
