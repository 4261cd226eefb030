//! NVIDIA GPUs: the driver, NVRTC, cuBLASLt and cuDNN, all of them loaded at run time.
//!
//! One binary runs with and without these libraries, so what is there is found out first, and doing so has no side
//! effect: [`probe`](fn@probe) says of every library which one was found or why none is used, and of devices what is
//! known of them. [`open`] makes a [`Device`](super::Device) of one. Reading order: [`library`] (what may be called at
//! all), [`context`] (the device's one stream), [`device`], [`compiler`] and [`module`] (kernels of Kiln's own),
//! [`cublaslt`] (matrix products), [`graph`] and [`legacy`] (convolutions, by cuDNN's two interfaces).
//!
//! Raw handles and addresses stay in here. Nothing here depends on nodes or plans, keeps files, or reads environment
//! variables: what the environment says arrives in [`OpenOptions`].

mod compiler;
mod context;
mod cublaslt;
mod cudnn;
mod device;
mod graph;
mod legacy;
mod library;
mod module;
mod operands;
mod owned;
mod probe;
mod shape;
mod status;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use compiler::compile_for;
pub use device::open;
pub use probe::{Inventory, LibraryReport, probe};

pub use self::library::Found;

/// Where NVIDIA's libraries are looked for, and what their environment says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Folders whose libraries are loaded before those that the dynamic loader finds by itself.
    pub library_dirs: Vec<PathBuf>,
    /// Variables of the environment that change what the libraries do, with their values (of files, their digests).
    pub environment: Vec<(String, String)>,
}
