//! Devices: the interface that each implements, and the facts about each.
//!
//! A [`Device`] has memory, runs kernels that are compiled from CUDA C ([`source`]), and solves convolutions and matrix
//! products by algorithms of its libraries ([`problem`], [`algorithm`]). All work of a device is on one stream, in the
//! order of the calls, so that memory that was freed may be allocated again at once ([`arena`]).
//!
//! - `cuda` (feature `cuda`) is an NVIDIA GPU through its driver, NVRTC, cuDNN and cuBLASLt, all loaded at run time;
//! - `emulated` (feature `emulator`) is the processor in place of a GPU: it runs the same kernels in tests.
//!
//! Nothing here depends on graphs, caches, files or environment variables.

pub mod algorithm;
pub mod arena;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "emulator")]
pub mod emulated;
pub mod facts;
pub mod problem;
pub mod source;
#[cfg(test)]
mod testing;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

pub use algorithm::{Algorithm, Engine, Heuristic, Notes, Policy, Refusal};
pub use arena::{Arena, ArenaStats, Region};
pub use facts::{DeviceFacts, Scope};
pub use problem::{ConvProblem, Epilogue, MatMulProblem, Problem};

use crate::error::Result;

/// Alignment of device memory, in bytes: what `cudaMalloc` promises.
pub const ALIGNMENT: u64 = 256;

/// A device. Any thread may call it; its work runs in the order of the calls.
pub trait Device: Send + Sync + Debug {
    /// The facts about it.
    fn facts(&self) -> &DeviceFacts;

    /// Allocates `bytes` bytes of its memory; returns the address, a multiple of [`ALIGNMENT`].
    ///
    /// # Errors
    ///
    /// [`DeviceMemory`](crate::KernelError::DeviceMemory) where there are fewer free.
    fn reserve(&self, bytes: u64) -> Result<u64>;

    /// Frees memory of [`reserve`](Device::reserve), after all work that was started before.
    fn release(&self, address: u64);

    /// Free bytes of its memory.
    fn free_bytes(&self) -> Result<u64>;

    /// Copies bytes to the start of a region. The caller may change them when this has returned.
    ///
    /// # Errors
    ///
    /// [`Bounds`](crate::KernelError::Bounds) where the region is smaller.
    fn upload(&self, bytes: &[u8], to: &Region) -> Result<()>;

    /// Copies the start of a region to the processor, after all work that was started before.
    ///
    /// # Errors
    ///
    /// [`Bounds`](crate::KernelError::Bounds) where the region is smaller, and errors of work that was started before.
    fn download(&self, from: &Region, bytes: &mut [u8]) -> Result<()>;

    /// Waits for all work that was started.
    fn synchronise(&self) -> Result<()>;

    /// Nanoseconds that the device takes for the work that `work` starts.
    fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<u64>;

    /// Compiles a kernel.
    ///
    /// # Errors
    ///
    /// [`Device`](crate::KernelError::Device) with the compiler's messages.
    fn compile(&self, source: &Source) -> Result<Arc<dyn Module>>;

    /// Algorithms that the libraries propose for a problem, best first, without running any. Libraries get the parts of
    /// `policy` that they can take; the caller still checks [`Policy::allows`] for each algorithm.
    fn heuristics(&self, problem: &Problem, policy: &Policy, heuristic: Heuristic) -> Result<Vec<Algorithm>>;

    /// Makes an algorithm ready to solve a problem.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::KernelError::Unsupported) where this device or its libraries lack the algorithm, which
    /// may have been chosen by another version.
    fn solver(&self, problem: &Problem, algorithm: &Algorithm) -> Result<Arc<dyn Solver>>;

    /// Lets a back end find its own type.
    fn as_any(&self) -> &dyn Any;
}

/// CUDA C of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The kernel's name: of an `extern "C" __global__` function in the text.
    pub entry: String,
    /// The whole text. It includes nothing.
    pub text: String,
    /// Types of the kernel's parameters in C, in order.
    pub parameters: Vec<String>,
}

/// A compiled kernel.
pub trait Module: Send + Sync + Debug {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::KernelError::Unsupported) where the arguments are not those of its source.
    fn launch(&self, launch: &Launch<'_>) -> Result<()>;

    /// Bytes of its code.
    fn size(&self) -> usize;
}

/// How a kernel is started.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Blocks, along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Arguments, as many as the source has parameters.
    pub args: &'a [Arg<'a>],
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// A pointer to device memory; null where there is none.
    Memory(Option<&'a Region>),
    /// `int`
    I32(i32),
    /// `long long`
    I64(i64),
    /// `float`
    F32(f32),
    /// A structure by value, laid out as C does.
    Bytes(&'a [u8]),
}

/// An algorithm that is ready to solve its problem.
pub trait Solver: Send + Sync + Debug {
    /// Bytes of scratch memory that it needs.
    fn workspace(&self) -> u64;

    /// Its library's notes on its arithmetic. Some libraries tell only for proposals that two runs may differ.
    fn notes(&self) -> Notes;

    /// Starts it.
    ///
    /// # Errors
    ///
    /// [`Bounds`](crate::KernelError::Bounds) for operands that are smaller than the problem says.
    fn run(&self, operands: &Operands<'_>, workspace: Option<&Region>) -> Result<()>;

    /// Bytes of the processor's and the device's memory that it keeps, as far as they are known.
    fn size(&self) -> usize;
}

/// Memory of a problem's operands, each dense: `output = activation(left * right + bias + residual)`.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// The convolution's input, or the left matrix.
    pub left: &'a Region,
    /// The weights, or the right matrix.
    pub right: &'a Region,
    /// One element for each channel or column.
    pub bias: Option<&'a Region>,
    /// Of the output's shape.
    pub residual: Option<&'a Region>,
    /// The result.
    pub output: &'a Region,
}
