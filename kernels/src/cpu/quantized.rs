//! Quantised matrix products and convolutions: 8-bit factors, exact integer sums, and their epilogue.
//!
//! A sum adds (a - a's zero point) * (w - w's zero point), in 32 bits that wrap. Nothing saturates on the way: where
//! bytes are multiplied four at a time, four products are added in 32 bits at once; elsewhere both sides are 16-bit
//! integers less their zero points, and two such products fit 32 bits. ([`Form`] says which; all forms give the same
//! sums.) The epilogue, in the registers that hold the sum, stores the sum itself, or the sum scaled, shifted and
//! clamped as `f32` or rounded to bytes ([`Output`]). Every level gives the same bits.
//!
//! A product of matrices is a convolution of one position over rows, so there is one driver for both:
//!
//! - [`tile`]: what shapes the micro-kernel, and its arguments; `emit` assembles it, `portable` is its contract in
//!   Rust, `micro_kernel` calls either. `epilogue`: its results.
//! - [`bytes`]: sums and maxima between products; [`averages`]: means over windows;
//!   [`lookup`]: functions of bytes as tables.
//! - [`weights`]: how weights are packed. [`prepare`]: the left-hand side made ready, and tensors of `f32` to bytes and
//!   back.
//! - [`driver`]: a product or convolution that is ready to run. It computes by `dense` panels; by `depthwise` for
//!   filters of one channel, which reduce over the window alone (`lines`: their kernel over bytes); by `winograd` for 3x3
//!   windows at stride 1; or by `amx`. [`model`] cuts its work.

pub(crate) mod amx;
pub mod averages;
mod blocks;
pub mod bytes;
mod dense;
mod depthwise;
pub mod driver;
mod emit;
mod epilogue;
pub(crate) mod lines;
pub mod lookup;
mod micro_kernel;
mod model;
mod operands;
mod portable;
pub mod prepare;
mod strip;
pub mod tile;
pub mod weights;
mod winograd;

#[cfg(test)]
mod tests;

pub use crate::problem::quantized::Output;
pub use crate::problem::quantized::{Terms, WeightSource};
pub use amx::QuantizedEpilogueCode;
pub use blocks::QuantizedBlocks;
pub use driver::Quantized;
pub use lines::LinesCode;
pub(crate) use tile::FAMILY;
pub use tile::{Form, QuantizedCode};
pub use weights::{IntegerSizes, Layout, PackedIntegers, PackedIntegersMut, Steps};
