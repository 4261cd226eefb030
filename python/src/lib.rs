//! The native half of the Python package `kiln`: sessions over numpy arrays.
//!
//! [`session`] is the class that programs use, with [`options`] as it is made and [`interrupt`] as it runs; [`values`]
//! turns what Python gives into what a session takes, and back; [`arrays`] is the memory that both share, and the only
//! file here with unsafe code; [`errors`] says which exception an error is. What needs no Rust is in `kiln/`, in
//! Python.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "arrays share memory with tensors; every block says why it may")]
mod arrays;
mod errors;
mod interrupt;
mod options;
mod ports;
mod session;
mod values;

use pyo3::prelude::*;

/// Sessions, and what they are made of.
#[pymodule]
fn _kiln(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<session::Session>()?;
    module.add_class::<options::Pool>()?;
    module.add_class::<interrupt::Cancel>()?;
    module.add_class::<ports::Port>()?;
    module.add_class::<ports::Metadata>()?;
    module.add_function(wrap_pyfunction!(session::reopen, module)?)?;
    Ok(())
}
