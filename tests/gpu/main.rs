//! Networks on a device give what they give on the processor.
//!
//! Everything here runs twice: on the emulated device, which compiles the same kernels for the processor and computes the
//! libraries' work in plain Rust, and on an NVIDIA GPU where this build has the feature `cuda` and the machine has one.
//! Where it has none, that half says so and nothing is claimed of it.

#![allow(clippy::print_stderr, reason = "a skipped test must say so")]

mod devices;
#[path = "../passes/draw.rs"]
mod draw;
mod graphs;
mod operators;
mod sessions;
