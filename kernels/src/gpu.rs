//! Devices (feature `device`) that compute outside of the processor: what every one of them must offer, and what is known of it.
//!
//! A [`Device`] has memory, runs kernels that are compiled from CUDA C ([`source`]), and solves convolutions and matrix
//! products by algorithms of its libraries ([`problem`], [`algorithm`]). All work of a device goes in one order, that in
//! which it was asked for, so that memory that was given back may be lent again at once ([`arena`]).
//!
//! - `cuda` (feature `cuda`) is an NVIDIA GPU through its driver, NVRTC, cuDNN and cuBLASLt, all loaded at run time;
//! - `emulated` (feature `emulator`) is the processor in the role of a GPU, which runs the same kernels in tests.
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

/// Bytes that every address of device memory is a multiple of: what `cudaMalloc` promises.
pub const ALIGNMENT: u64 = 256;

/// A device. Its calls may come from any thread; what they start runs in the order in which they came.
pub trait Device: Send + Sync + Debug {
    /// What is known of it.
    fn facts(&self) -> &DeviceFacts;

    /// Takes that many bytes of its memory; the address, a multiple of [`ALIGNMENT`].
    ///
    /// # Errors
    ///
    /// [`DeviceMemory`](crate::KernelError::DeviceMemory) where there are not as many.
    fn reserve(&self, bytes: u64) -> Result<u64>;

    /// Gives memory back that [`reserve`](Device::reserve) took, once what was started before has run.
    fn release(&self, address: u64);

    /// Free bytes of its memory.
    fn free_bytes(&self) -> Result<u64>;

    /// Copies bytes to the start of a region. They may be changed as soon as this returns.
    ///
    /// # Errors
    ///
    /// [`Bounds`](crate::KernelError::Bounds) where the region is smaller.
    fn upload(&self, bytes: &[u8], to: &Region) -> Result<()>;

    /// Copies the start of a region to the processor, once everything started before has run.
    ///
    /// # Errors
    ///
    /// [`Bounds`](crate::KernelError::Bounds) where the region is smaller, and whatever went wrong in work that was started
    /// before.
    fn download(&self, from: &Region, bytes: &mut [u8]) -> Result<()>;

    /// Waits until everything that was started has run.
    fn synchronise(&self) -> Result<()>;

    /// Nanoseconds that the device takes for what `work` starts.
    fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<u64>;

    /// Compiles a kernel.
    ///
    /// # Errors
    ///
    /// [`Device`](crate::KernelError::Device) with what the compiler said.
    fn compile(&self, source: &Source) -> Result<Arc<dyn Module>>;

    /// Algorithms that the libraries propose for a problem, best first, without running any. `policy` says what must not
    /// be proposed where a library can be told; the caller still has to ask [`Policy::allows`] of each.
    fn heuristics(&self, problem: &Problem, policy: &Policy, heuristic: Heuristic) -> Result<Vec<Algorithm>>;

    /// Makes an algorithm ready to solve a problem.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::KernelError::Unsupported) where this device or its libraries cannot solve it that way, which
    /// is how a choice of another version ends.
    fn solver(&self, problem: &Problem, algorithm: &Algorithm) -> Result<Arc<dyn Solver>>;

    /// For back ends, to find their own.
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

    /// What its library says of its arithmetic. What only proposals say (that two runs may differ) need not be among it.
    fn notes(&self) -> Notes;

    /// Starts it.
    ///
    /// # Errors
    ///
    /// [`Bounds`](crate::KernelError::Bounds) for operands that are smaller than the problem says.
    fn run(&self, operands: &Operands<'_>, workspace: Option<&Region>) -> Result<()>;

    /// Bytes of the processor's and the device's memory that it keeps, as far as known.
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
    /// What is computed.
    pub output: &'a Region,
}
