//! Registers of the AMX micro-kernel, which its loops, its prefetches and its epilogue share.

use super::TALLEST;
use crate::jit::Gpr;

/// Pointers to the left-hand tile rows of a block.
pub(super) const LEFT: [Gpr; TALLEST] = [Gpr::RSI, Gpr::RDX];
pub(super) const RIGHT: Gpr = Gpr::R11;
pub(super) const OUT: Gpr = Gpr::R13;
pub(super) const TABLE: Gpr = Gpr::RAX;
pub(super) const TAPS: Gpr = Gpr::RBX;
pub(super) const TAPS_LEFT: Gpr = Gpr::RCX;
pub(super) const STEPS_LEFT: Gpr = Gpr::RBP;
pub(super) const ROW_STRIDE: Gpr = Gpr::R8;
pub(super) const LEFT_STRIDE: Gpr = Gpr::R9;
/// Stride of the rows of a panel: 32 words.
pub(super) const LINE: Gpr = Gpr::R12;
/// Stride of rows of sums, loaded where it is needed.
pub(super) const OUT_STRIDE: Gpr = Gpr::R15;
/// Cache lines that a step has yet to prefetch.
pub(super) const COUNT: Gpr = Gpr::R14;
/// The prefetch stream whose turn it is. Between steps the register is [`OUT_STRIDE`].
pub(super) const STREAM: Gpr = Gpr::R15;
/// Scratch.
pub(super) const T0: Gpr = Gpr::R10;
