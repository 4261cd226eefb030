//! Element-wise chains with broadcasting.

pub mod program;

pub use program::{BinaryOp, Bits, Program, Step, Storage, UnaryOp};
