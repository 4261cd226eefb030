//! Quantised matrix products and convolutions: 8-bit factors, exact sums, and what is made of a sum.
//!
//! A sum is that of (a - a's zero point) * (w - w's zero point), in 32 bits that wrap. Nothing saturates before it:
//! where bytes are multiplied four at a time, they are summed in 32 bits at once; elsewhere both sides are 16-bit
//! integers with their zero points taken off, of which two products fit 32 bits. ([`Form`] says which; all give the
//! same sums.) The output is the sum itself, or the sum scaled, shifted and clamped as `f32` or rounded to bytes
//! ([`Output`]), in the registers where the sum is. Every level makes the same bits.
//!
//! A product of matrices is a convolution of one position over rows, so there is one driver for both:
//!
//! - [`tile`]: what shapes the tile kernel; `emit` assembles it, `portable` is its contract in Rust, `finish` what
//!   becomes of a sum.
//! - [`bytes`]: sums, means and maxima between products.
//! - [`weights`]: how weights are packed. [`prepare`]: the left-hand side made ready, and tensors of `f32` to bytes and
//!   back.
//! - [`driver`]: a product or convolution that is ready to run, by `dense` panels or, for filters of one channel, which
//!   have nothing to reduce over but the window, `depthwise`, or, for windows of 3x3 at stride 1, `winograd`, or on the
//!   processor's matrix unit, `unit`; [`model`] cuts its work.

pub(crate) mod amx;
pub mod bytes;
mod dense;
mod depthwise;
pub mod driver;
mod emit;
mod epilogue;
mod model;
mod portable;
pub mod prepare;
pub mod tile;
pub mod weights;
mod winograd;

#[cfg(test)]
mod tests;

pub use amx::QuantizedEpilogueCode;
pub use driver::{Quantized, QuantizedBlocks, Terms};
pub(crate) use tile::FAMILY;
pub use tile::{Form, Output, QuantizedCode};
pub use weights::{Layout, Steps, WeightSource};
