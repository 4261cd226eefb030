//! Turning instructions into callable machine code; knows no operator.
//!
//! [`asm`] is the one assembler that emitters use, for AVX2 (VEX, through dynasm and [`vex`]) and AVX-512 (EVEX, through
//! [`evex`]) alike. [`code`] seals what it made into executable memory, which [`arena`] manages, and calls it;
//! `symbols` names it for profilers.
//! With the feature `emulator`, `emulator` interprets what this processor lacks, and `verify` checks kernels.

mod arena;
pub mod asm;
pub mod code;
#[cfg(feature = "emulator")]
mod decode;
#[cfg(feature = "emulator")]
mod emulator;
pub mod evex;
mod symbols;
#[cfg(feature = "emulator")]
pub mod verify;
mod vex;

pub use arena::CodeMemory;
pub use asm::{Asm, Cond, Gpr, Label, Mask, Mem, Predicate, Rounding, Src, Tile, Vreg};
pub use code::{Code, code_memory};
#[cfg(feature = "emulator")]
pub use emulator::interpreted;
pub use symbols::{ProfilerFiles, name_code_for};
