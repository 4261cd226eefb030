//! NVIDIA GPUs: the driver, NVRTC, cuBLASLt and cuDNN, all loaded at run time.
//!
//! One binary runs with and without these libraries. [`probe`](fn@probe) looks for them without side effects: for each
//! library it says which file was found or why none is used, and it lists devices with their facts. [`open`] makes a
//! [`Device`](super::Device). Reading order: [`library`] (which libraries may be called), [`context`] (the device's one
//! stream), [`device`], [`compiler`] and [`module`] (Kiln's own kernels), [`cublaslt`] (matrix products), [`graph`] and
//! [`legacy`] (convolutions, by cuDNN's two interfaces).
//!
//! Raw handles and addresses stay in this folder. Nothing here depends on nodes or plans, keeps files, or reads
//! environment variables: their values arrive in [`OpenOptions`].

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

/// The folders to search for NVIDIA's libraries, and the environment that the libraries run in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Folders that are searched before those of the dynamic loader.
    pub library_dirs: Vec<PathBuf>,
    /// Environment variables that change the behaviour of the libraries, with their values (for variables that name
    /// files, digests).
    pub environment: Vec<(String, String)>,
}
