//! Networks on a device give what they give on the processor.
//!
//! Everything here runs twice: on the emulated device, which compiles the same kernels for the processor and computes
//! the libraries' work in plain Rust, and on an NVIDIA GPU if this build has the feature `cuda` and the machine has
//! one. Without one, that half says so and claims nothing.

#![allow(clippy::print_stderr, reason = "a skipped test must say so")]

mod devices;
#[path = "../passes/draw.rs"]
mod draw;
mod graphs;
mod operators;
mod sessions;
