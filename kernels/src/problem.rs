//! Descriptions of what kernels compute: shapes, types, options and operands, one file a family. The references compute
//! by them, and the kernels of all machines are emitted and chosen for them.
//!
//! A description says what a problem is and counts its sizes. How it is cut, packed and computed is said above.

pub mod attention;
pub mod blockwise;
pub mod chain;
pub mod conv;
pub(crate) mod description;
pub mod elements;
pub mod extreme;
pub mod functions;
pub mod norm;
pub mod pool;
pub mod quantized;
pub mod recurrent;
pub mod reduce;
pub mod rotary;
