//! Every operation of the assembler does what its documentation says, at every level, natively and emulated.
//!
//! `harness` builds tiny kernels around operations; the other files are tables of operations and their scalar meaning.

mod addresses;
mod bf16;
mod control;
mod harness;
mod integers;
mod lanewise;
mod mistakes;
mod moves;
mod short;
mod shuffles;
mod tiles;
