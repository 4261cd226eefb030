//! Products of `f32` by block-quantised weights: C = A dequantise(B) + bias.
//!
//! A weight is a few bits. Neighbours in the reduction, a *block* of one column, share a scale and, where the format
//! has them, a zero point (ONNX: blocked quantisation; oneDNN: weights decompression with grouped scales). Weights are
//! packed once, at load, and stay small: panels of codes, with each block's scales and zero points in front of its
//! codes, so that a panel is one stream.
//!
//! A product of a few rows is bound by the memory that weights come from. Codes become numbers in the micro-kernel's
//! registers ([`row`]): by a look-up in a register of sixteen numbers, or by shifts and a conversion. Terms of a block
//! are added up before the scale is applied, once a block and column, and the zero point is taken off with the sum of
//! the block's left-hand elements. A product of many rows is bound by multiply-adds: part of a panel is dequantised
//! into scratch that stays in L2 ([`expand`]), and the micro-kernel of `f32` ([`gemm`](super::gemm)) multiplies it with
//! all rows.
//!
//! Where the shape lets rows be quantised to bytes, by blocks as the weights are ([`bytes`]), codes are multiplied as
//! integers ([`dots`], [`pairs`]) by the fastest instructions of the processor ([`products`]): a few rows at a time, out
//! of a panel that stays in L1 or L2. Where there is AMX, many rows are multiplied as `bf16` instead ([`amx`]), which is
//! faster and loses less.
//!
//! - [`decoder`]: how codes become numbers in registers; their meaning is in
//!   [`problem::blockwise`](crate::problem::blockwise). [`layout`]: packed panels, and packing.
//! - [`streams`]: panels that a kernel reads side by side, and how far ahead it prefetches.
//! - [`words`]: words of codes and of rows of bytes. [`driver`]: the product, and how it is cut.

mod amx;
mod bytes;
mod decoder;
mod dots;
mod driver;
mod expand;
mod layout;
mod pairs;
mod products;
mod row;
mod streams;
mod words;

pub use crate::problem::blockwise::{BlockFormat, Codes, ZeroPoints};
pub use crate::problem::blockwise::{BlockSource, CodeBytes, Offsets};
pub use dots::BlockDotCode;
pub use driver::{BlockProduct, BlockProductBlocks, BlockProductShape, LeftElements};
pub use expand::{BlockExpandCode, ExpandedNumbers};
pub use layout::BlockPanels;
pub use products::Products;
pub use row::BlockRowCode;
pub use streams::Ahead;

/// The family's name in errors and verbose lines.
pub(crate) const FAMILY: &str = "blockwise";

#[cfg(test)]
mod tests;
