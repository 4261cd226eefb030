//! Matrix multiplication on register tiles: the one micro-kernel that matmul and convolution share.
//!
//! A *tile* is MR rows of C by NR columns, one to four vectors. Its sums stay in registers for the whole reduction. The
//! right-hand matrix comes in *packed panels* of NR columns, which the micro-kernel reads front to back; the left-hand
//! rows are read where they are, either at a stride (matmul) or through an indirection table of row pointers
//! (convolution: see [`conv`](super::conv)). Sizes, strides and tails are run-time arguments, so a handful of kernels
//! serve every shape.
//!
//! - [`tile`]: what shapes the instructions of a micro-kernel, and its arguments. [`emit`] assembles it, [`portable`]
//!   is the same contract in Rust, [`micro_kernel`] calls either. [`tile_size`] says which tiles there are. [`convert`]
//!   rounds left-hand rows where bf16 pairs are multiplied, [`widen`] widens parts of panels in `f16` to `f32`.
//! - [`operands`]: the table of operand types. [`reduction`]: the loops over taps and elements that the micro-kernels
//!   of floating-point and of integer products have in common.
//! - [`row`]: the kernel of a single row, which reads several panels side by side.
//! - [`panels`]: how the right-hand matrix is laid out, and packing it.
//! - [`rows`]: how rows are cut into tiles of nearly equal height.
//! - [`matmul`]: the driver of (batched) matrix products; [`model`] picks its blocks, [`candidates`] lists others
//!   that are worth a measurement.
//!
//! Nothing here knows convolutions or ONNX.

mod candidates;
pub(crate) mod convert;
mod emit;
pub mod matmul;
pub(crate) mod micro_kernel;
pub(crate) mod model;
pub(crate) mod operands;
pub mod panels;
mod portable;
pub(crate) mod reduction;
pub(crate) mod row;
pub mod rows;
pub mod tile;
pub(crate) mod tile_size;
pub(crate) mod widen;

pub use convert::Bf16ConvertCode;
pub(crate) use convert::{Bf16Convert, Bf16ConvertRows};
pub use matmul::{BatchDim, Epilogue, Extras, Left, Matmul, MatmulBlocks, MatmulShape, MatmulStored, Right};
pub use panels::{Panels, Source};
pub use row::RowCode;
pub use rows::Tiles;
pub use tile::TileCode;
pub use tile_size::{most_rows, panel_vectors};
pub(crate) use widen::Widen;
pub use widen::WidenCode;
