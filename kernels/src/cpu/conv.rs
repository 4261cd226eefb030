//! Convolution and transposed convolution over channels-last tensors of one to three spatial dimensions.
//!
//! Every convolution is a product of rows and packed weights on the micro-kernel of [`gemm`](super::gemm): a row is an
//! output position, the reduction runs over *taps* (positions of the window) and over the channels of each. Strategies
//! differ in where a tap finds a row's channels:
//!
//! - [`Strategy::Pointwise`]: a window of one position at stride 1. It is a matrix product.
//! - [`Strategy::Direct`]: an indirection table of pointers into the input, made for a few tiles and used for all their
//!   columns. Padding is a pointer to zeros; strides, dilation and merged lines cost nothing.
//! - [`Strategy::Lines`]: with few channels a whole line of the window is one tap, over lines copied with their padding
//!   ([`lines`]).
//! - [`Strategy::Winograd`]: 3x3 windows by transforms, with up to four times fewer multiplications ([`winograd`]);
//!   where [`Numerics`](super::Numerics) allows it.
//! - [`Strategy::Depthwise`]: one filter per channel, so there is no reduction over channels: another kernel, whose
//!   vectors hold channels ([`depthwise`]).
//! - [`Strategy::Amx`]: weights are in `bf16` and multiplied on AMX ([`mod@amx`]).
//!
//! A transposed convolution is one convolution for each *phase*, the output positions of one remainder modulo the
//! stride: see [`shape`], which also checks sizes. [`weights`] packs, [`dense`] drives the first two strategies,
//! [`candidates`] lists the ways that are worth a measurement.

pub(crate) mod amx;
mod blocks;
mod candidates;
mod dense;
pub mod depthwise;
mod driver;
mod extras;
mod input;
mod lines;
mod model;
pub mod shape;
pub(crate) mod table;
pub mod weights;
pub mod winograd;

pub use crate::problem::conv::ConvShape;
pub use blocks::{ConvBlocks, ConvStored, Strategy};
pub use depthwise::{DepthwiseCode, SlideCode};
pub use driver::Conv;
pub use extras::ConvExtras;
pub use input::{ConvInput, ConvPart};
pub use weights::{Part, WeightLayout, Weights};
pub use winograd::{WinogradCode, WinogradTile};
