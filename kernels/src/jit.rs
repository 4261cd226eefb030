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

/// The register that points at a kernel's argument struct.
pub(crate) const ARGS: Gpr = Gpr::RDI;

/// A field of an argument struct in memory: `arg!(TileArgs.c)`, or, of a struct that another register points at,
/// `arg!(STREAM, Stream.at)`.
macro_rules! arg {
    ($args:ident $(. $field:ident)+) => {
        $crate::jit::arg!($crate::jit::ARGS, $args $(. $field)+)
    };
    ($base:expr, $args:ident $(. $field:ident)+) => {
        $crate::jit::Mem::at($base, std::mem::offset_of!($args, $($field).+) as i32)
    };
}
pub(crate) use arg;
