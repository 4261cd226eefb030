//! The native half of the Python package `kiln`: sessions over numpy arrays.
//!
//! [`session`] is the class that programs use, [`decoder`] and [`encoder_decoder`] those for language models,
//! [`generate`], [`batch`] and [`search`] those for texts, with [`options`] when they are made and [`interrupt`] while
//! they run; [`pack`] writes packed models; [`adapter`] reads and writes LoRA adapters; [`values`] converts Python's values to a session's and back, and [`outputs`]
//! binds outputs to Python's arrays; [`arrays`] is the memory that both share, and the only file here with unsafe code;
//! [`models`] are the sources of a session's model, and Python reads [`members`]; [`remote`] are stores of records
//! elsewhere; [`errors`] maps errors to exceptions. Code that needs no Rust is in `kiln/`, in Python.

#![deny(unsafe_code)]

mod adapter;
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
mod pack;
mod ports;
mod remote;
mod search;
mod session;
mod values;

use std::ffi::OsString;

use kiln_command::Invocation;
use pyo3::prelude::*;

/// Runs the command `kiln` with these arguments, in a process that was started as the command by `before`; returns its
/// exit code.
#[pyfunction]
fn command(py: Python<'_>, before: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| kiln_command::run_as(Invocation { before, arguments }))
}

/// The module: sessions and the classes around them.
#[pymodule]
fn _kiln(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<session::Session>()?;
    module.add_class::<decoder::Decoder>()?;
    module.add_class::<decoder::DecoderCache>()?;
    module.add_class::<generate::Generator>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<batch::Finished>()?;
    module.add_class::<search::Hypothesis>()?;
    module.add_class::<encoder_decoder::EncoderDecoder>()?;
    module.add_class::<encoder_decoder::Encoded>()?;
    module.add_class::<adapter::Adapter>()?;
    module.add_class::<options::Pool>()?;
    module.add_class::<interrupt::Cancel>()?;
    module.add_class::<ports::Port>()?;
    module.add_class::<ports::Metadata>()?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    let finish = wrap_pyfunction!(remote::finish, module)?;
    module.py().import("atexit")?.call_method1("register", (finish,))?;
    module.add_function(wrap_pyfunction!(session::reopen, module)?)?;
    module.add_function(wrap_pyfunction!(pack::pack, module)?)?;
    Ok(())
}
