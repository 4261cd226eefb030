//! Turning instructions into callable machine code; depends on no operator.
//!
//! [`asm`] is the assembler of all emitters, for AVX2 (VEX, through dynasm and [`vex`]) and AVX-512 (EVEX, through
//! [`evex`]) alike. [`code`] seals emitted bytes into executable memory, which [`arena`] manages, and calls them;
//! `symbols` names code for profilers. [`extents`] checks what a call will touch against the operands of its driver.
//! With the feature `emulator`, `emulator` interprets code of levels that this processor lacks, and `verify` checks
//! kernels.

mod arena;
pub mod asm;
pub mod code;
#[cfg(feature = "emulator")]
mod decode;
#[cfg(feature = "emulator")]
mod emulator;
pub mod evex;
pub(crate) mod extents;
mod symbols;
#[cfg(feature = "emulator")]
pub mod verify;
mod vex;

pub use arena::CodeMemory;
pub use asm::{Asm, Cond, Gpr, JoinedRow, Label, Mask, Mem, Predicate, Rounding, Src, Tile, Vreg};
pub use code::{Code, code_memory};
#[cfg(feature = "emulator")]
pub use emulator::interpreted;
pub(crate) use extents::{Arguments, Extents, Given, counted_down};
pub use symbols::{ProfilerFiles, name_code_for};
