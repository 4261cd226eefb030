//! Turning instructions into callable machine code; knows no operator.
//!
//! [`asm`] is the one assembler that emitters use, for AVX2 (VEX, through dynasm) and AVX-512 (EVEX, through
//! [`evex`]) alike. [`code`] seals what it made into executable memory and calls it.

pub mod asm;
pub mod code;
pub mod evex;

pub use asm::{Asm, Cond, Gpr, Label, Mask, Mem, Vreg};
pub use code::Code;
