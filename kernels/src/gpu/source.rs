//! Kiln's own kernels for devices: their source, written by families, and their launches, computed from sizes.
//!
//! A [`Kernel`] has sizes; its [`KernelCode`] is everything that shapes its instructions, from which a family writes
//! the source. Sizes, strides and counts are arguments, so that a new shape needs no new code. The source is CUDA C
//! that includes nothing and uses the macros of [`PRELUDE`]. Where `KILN_HOST` is defined, the macros have been defined
//! before, and the same source is C for the processor: so tests run it without a device.
//!
//! [`space`] iterates over strided operands and [`fold`] reduces over warps and blocks, for all families. Depends on no
//! device, compiler or memory: this is text and numbers.

pub mod cast;
pub mod chain;
pub mod copy;
pub mod fill;
mod fold;
mod functions;
pub mod gather;
pub mod norm;
pub mod pool;
pub mod reduce;
pub mod resize;
pub mod softmax;
mod space;
#[cfg(test)]
mod testing;
#[cfg(test)]
pub(super) mod tests;
pub mod transpose;

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use super::{Arg, Launch, Module, Region, Source};
use crate::error::{KernelError, Result};

pub use cast::{CastCode, CastKernel, Scalar};
pub use chain::{ChainCode, ChainKernel};
pub use copy::{CopyCode, CopyKernel, Strided};
pub use fill::FillKernel;
pub use gather::{GatherCode, GatherKernel};
pub use norm::{RowNormCode, RowNormKernel, Scaling};
pub use pool::{PoolCode, PoolKernel};
pub use reduce::{ReduceCode, ReduceKernel};
pub use resize::{Mix, ResizeCode, ResizeKernel, Resized};
pub use softmax::{SoftmaxCode, SoftmaxKernel};
pub use transpose::{TransposeCode, TransposeKernel};

/// Threads of a block, unless a kernel says otherwise: eight warps, so that a multiprocessor runs several blocks.
const THREADS: u32 = 256;

/// Threads of a warp, on every device so far.
const WARP: u32 = 32;

/// Most blocks of a launch; with more work, each thread strides over the grid.
const BLOCKS: u64 = 1 << 21;

/// Macros and types that all kernels use.
pub const PRELUDE: &str = r#"#ifndef KILN_HOST
#define KILN_KERNEL extern "C" __global__
#define KILN_DEVICE __device__ __forceinline__
#define KILN_SHARED __shared__
#define KILN_SYNC() __syncthreads()
#define KILN_SHUFFLE_XOR(value, lane) __shfl_xor_sync(0xffffffffu, value, lane)
#define KILN_THREAD_X threadIdx.x
#define KILN_THREAD_Y threadIdx.y
#define KILN_THREADS_X blockDim.x
#define KILN_BLOCK_X blockIdx.x
#define KILN_BLOCKS_X gridDim.x
#define KILN_BITS(bits) __uint_as_float(bits)
#define KILN_ALIGN(bytes) __align__(bytes)
#endif
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
typedef struct KILN_ALIGN(16) { float at[4]; } Float4;
typedef struct KILN_ALIGN(16) { u64 at[2]; } Word16;
#define KILN_START ((Index)KILN_BLOCK_X * KILN_THREADS_X + KILN_THREAD_X)
#define KILN_STEP ((Index)KILN_BLOCKS_X * KILN_THREADS_X)
"#;

/// Everything that determines a kernel's source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each is the code of the family of its name")]
#[non_exhaustive]
pub enum KernelCode {
    Chain(ChainCode),
    Copy(CopyCode),
    Fill,
    Transpose(TransposeCode),
    Softmax(SoftmaxCode),
    RowNorm(RowNormCode),
    Pool(PoolCode),
    Reduce(ReduceCode),
    Gather(GatherCode),
    Cast(CastCode),
    Resize(ResizeCode),
}

impl KernelCode {
    /// The family's name.
    #[must_use]
    pub fn family(&self) -> &'static str {
        match self {
            KernelCode::Chain(_) => chain::FAMILY,
            KernelCode::Copy(_) => copy::FAMILY,
            KernelCode::Fill => fill::FAMILY,
            KernelCode::Transpose(_) => transpose::FAMILY,
            KernelCode::Softmax(_) => softmax::FAMILY,
            KernelCode::RowNorm(_) => norm::FAMILY,
            KernelCode::Pool(_) => pool::FAMILY,
            KernelCode::Reduce(_) => reduce::FAMILY,
            KernelCode::Gather(_) => gather::FAMILY,
            KernelCode::Cast(_) => cast::FAMILY,
            KernelCode::Resize(_) => resize::FAMILY,
        }
    }

    /// The kernel's source.
    ///
    /// # Errors
    ///
    /// [`KernelError::Unsupported`] for codes that no kernel has; records may hold such codes.
    pub fn source(&self) -> Result<Source> {
        match self {
            KernelCode::Chain(code) => code.source(),
            KernelCode::Copy(code) => code.source(),
            KernelCode::Fill => Ok(fill::source()),
            KernelCode::Transpose(code) => code.source(),
            KernelCode::Softmax(code) => Ok(code.source()),
            KernelCode::RowNorm(code) => Ok(code.source()),
            KernelCode::Pool(code) => code.source(),
            KernelCode::Reduce(code) => Ok(code.source()),
            KernelCode::Gather(code) => code.source(),
            KernelCode::Cast(code) => Ok(code.source()),
            KernelCode::Resize(code) => code.source(),
        }
    }
}

/// A kernel at its sizes.
pub trait Kernel: Send + Sync + Debug {
    /// What determines its instructions.
    fn code(&self) -> KernelCode;

    /// Launches it. Operands are in the family's order; absent optional operands are `None`.
    ///
    /// # Errors
    ///
    /// [`KernelError::Bounds`] for a region that is smaller than the sizes say, before anything is launched, and
    /// [`KernelError::Unsupported`] for operands that are missing.
    fn launch(&self, module: &dyn Module, inputs: &[Option<&Region>], output: &Region) -> Result<()>;
}

fn refuse(family: &'static str, reason: impl Into<String>) -> KernelError {
    KernelError::Unsupported { family, reason: reason.into() }
}

/// Operand number `index`, of at least `elements` elements of `size` bytes.
fn operand<'a>(
    family: &'static str,
    inputs: &[Option<&'a Region>],
    index: usize,
    elements: u64,
    size: u64,
) -> Result<&'a Region> {
    let region = inputs.get(index).copied().flatten();
    let region = region.ok_or_else(|| refuse(family, format!("operand {index} is missing")))?;
    region.holds(family, "operand", elements, size)?;
    Ok(region)
}

/// The product of sizes; an error where memory could not hold that many elements.
fn product(family: &'static str, sizes: &[u64]) -> Result<u64> {
    if sizes.contains(&0) {
        return Ok(0);
    }
    let elements = sizes.iter().try_fold(1u64, |product, &size| product.checked_mul(size));
    elements.filter(|&elements| elements < 1 << 59).ok_or_else(|| refuse(family, format!("{sizes:?} is too large")))
}

/// Whether a count of elements needs indices of 64 bits.
fn is_wide(elements: u64) -> bool {
    elements >= 1 << 31
}

/// The type of indices.
fn index_type(wide: bool) -> &'static str {
    if wide { "typedef u64 Index;\n" } else { "typedef u32 Index;\n" }
}

/// Launches one thread for each of `count` elements, up to the most that a launch may have.
fn launch_each(module: &dyn Module, count: u64, args: &[Arg<'_>]) -> Result<()> {
    launch_blocks(module, count.div_ceil(u64::from(THREADS)), [THREADS, 1, 1], args)
}

/// Launches `blocks` blocks, up to the most that a launch may have.
fn launch_blocks(module: &dyn Module, blocks: u64, block: [u32; 3], args: &[Arg<'_>]) -> Result<()> {
    module.launch(&Launch { grid: [blocks.clamp(1, BLOCKS) as u32, 1, 1], block, args })
}

/// The source of a kernel with this body and these parameters (types and names).
fn source(entry: &str, helpers: &str, parameters: &[(String, String)], body: &str) -> Source {
    let list: Vec<String> = parameters.iter().map(|(kind, name)| format!("{kind} {name}")).collect();
    let text = format!("{PRELUDE}{helpers}KILN_KERNEL void {entry}({})\n{{\n{body}}}\n", list.join(", "));
    let parameters = parameters.iter().map(|(kind, _)| kind.clone()).collect();
    Source { entry: entry.to_owned(), text, parameters }
}

/// Parameters from types and names.
fn parameters(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|&(kind, name)| (kind.to_owned(), name.to_owned())).collect()
}
