//! `libonnxruntime.so` as C programs see it: the same outcomes as the real library's, every entry called with wrong
//! arguments, handles that are released in any order, and the versions of the exported symbols.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "figures, and how far a library came that ends the process"
)]

mod api;
mod devices;
mod drawn;
mod entries;
mod environment;
mod every_entry;
mod found;
mod lifetimes;
mod models;
mod notes;
mod outcomes;
mod runs;
mod sessions;
mod symbols;
mod values;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Kiln's library, which cargo builds beside the tests.
fn kiln() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.with_file_name("libonnxruntime.so")
}

/// Lets one test at a time call the library: a process has one environment.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
