//! The kernels of Kiln: instruction-set levels, a small JIT, and one family of kernels per kind of work.
//!
//! Layers; each imports only from those above it in this list:
//!
//! 0. [`crash`], [`fork`]: the current work of a thread, and locks that are free in forked children.
//! 1. [`isa`], [`memory`], [`error`], [`extent`], [`parallel`]: instruction sets, refusable memory, errors, memory in
//!    pieces, and fork-join.
//! 2. [`jit`]: assembling, sealing and calling machine code. Depends on no operator.
//! 3. [`problem`]: the problems of the families, as plain data.
//! 4. [`reference`](mod@reference): each family in plain Rust, both the oracle of its tests and the fallback where no
//!    code may be emitted.
//! 5. [`cpu`]: the families. Each has parameters, an emitter and a driver.
//! 6. `gpu`: devices beside the processor, their memory, kernels and libraries.
//!
//! Nothing here depends on graphs, caches, files, ONNX or environment variables.

#![allow(rustdoc::private_intra_doc_links, reason = "headers guide readers of the source to private files too")]

pub mod cpu;
pub mod crash;
pub mod error;
pub mod extent;
pub mod gpu;
pub mod isa;
pub mod jit;
pub mod memory;
pub mod parallel;
pub mod problem;
pub mod reference;

pub use cpu::{CodeKey, CodeParts, CodeSource, EmitEach, Ordered, PartSet};
pub use error::{KernelError, Result};
pub use isa::{Extension, Extensions, Isa};
pub use kiln_fork as fork;
pub use parallel::{Parallel, Pool, Serial};

/// Raised whenever emitters or drivers change so much that earlier measurements no longer apply: a part of the
/// fingerprint of records.
pub const EMITTER_REVISION: u32 = 7;

/// A digest of this crate's sources and of the compiler's options: another part of that fingerprint, which changes
/// automatically.
pub const SOURCES: &str = env!("KILN_SOURCES");

/// Reads the sizes of the caches and maps memory for code, for which the process's first kernel would wait otherwise.
/// This takes some 200 us, which a program can spend before its first request comes.
pub fn make_ready() {
    let _ = cpu::machine::Caches::of_machine();
    jit::code::make_ready();
}
