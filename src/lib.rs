//! Kiln: a runtime that never compiles, tunes or picks the same kernel twice.
//!
//! The floors, lowest first; a module imports only from floors below it:
//!
//! - [`knobs`]: the environment variables.
//! - [`threads`], [`tensor`], [`cache`]: memory, fork-join, and the generic executor cache.
//! - [`record`]: what builders chose, kept from process to process.
//! - [`exec`]: one kernel family a file: key, builder, executor.
//! - [`graph`]: descriptions, passes, and the trait of a running node.
//! - [`ops`]: what ONNX means by each operator.
//! - [`onnx`]: model files.
//!
//! `gpu` (feature `device`) is what devices beside the processor offer; it comes from the kernels crate, where they are.

#![allow(rustdoc::private_intra_doc_links, reason = "headers guide readers of the source to private files too")]
#![deny(unsafe_code)]

pub mod cache;
pub mod exec;
mod fork;
pub mod graph;
pub mod knobs;
pub mod onnx;
pub mod ops;
pub mod record;
pub mod session;
pub mod tensor;
pub mod threads;

#[cfg(feature = "device")]
pub use kiln_kernels::gpu;
