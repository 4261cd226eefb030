//! Matrix multiplication on register tiles: the one micro-kernel that matmul and convolution share.
//!
//! A *tile* is a few rows of C, one to four vectors wide. It stays in registers for the whole reduction. The right-hand
//! matrix comes in *panels* as wide as the tile, so that the kernel reads it front to back; the left-hand rows are
//! read where they are, either at a stride (matmul) or through a table of row pointers (convolution: see
//! [`conv`](super::conv)). Sizes, strides and tails are run-time arguments, so a handful of kernels serve every shape.
//!
//! - [`tile`]: what shapes a kernel's instructions, its arguments, and calling it. [`emit`] assembles it,
//!   [`portable`] is the same contract in Rust. [`halve`] rounds left-hand rows where pairs are multiplied.
//! - [`row`]: the kernel of a single row, which reads several panels side by side.
//! - [`panels`]: how the right-hand matrix is laid out, and packing it.
//! - [`rows`]: how rows are cut into tiles of nearly equal height.
//! - [`matmul`]: the driver of (batched) matrix products; [`model`] picks its blocks, [`candidates`] lists others
//!   that are worth a measurement.
//!
//! Nothing here knows convolutions, ONNX or what the numbers mean.

mod candidates;
mod emit;
pub(crate) mod halve;
pub mod matmul;
pub(crate) mod model;
pub mod panels;
mod portable;
pub(crate) mod row;
pub mod rows;
pub(crate) mod shared;
pub mod tile;

pub use halve::HalveCode;
pub(crate) use halve::{Halve, HalveRows};
pub use matmul::{BatchDim, Epilogue, Extras, Left, Matmul, MatmulBlocks, MatmulShape, MatmulStored, Right};
pub use panels::{Panels, Source};
pub use row::RowCode;
pub use rows::Tiles;
pub use tile::{TileCode, most_rows, panel_vectors};
