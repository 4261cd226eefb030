//! Descriptions of kernels' problems: shapes, types, options and operands, one file for each family. The references
//! compute them, and kernels for all machines are emitted and chosen by them.
//!
//! A description defines a problem and counts its sizes. Higher layers decide how it is divided, packed and computed.

pub mod attention;
pub mod blend;
pub mod blockwise;
pub mod chain;
pub mod conv;
pub(crate) mod description;
pub mod elements;
pub mod extreme;
pub mod functions;
pub mod linear_attention;
pub mod norm;
pub mod pool;
pub mod quantized;
pub mod recurrent;
pub mod reduce;
pub mod regions;
pub mod rotary;
pub mod running;
