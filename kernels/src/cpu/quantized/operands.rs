//! The operands that a run of a quantised product hands to the way of computing it.

use super::bytes::Plus;
use super::epilogue::Epilogue;
use crate::cpu::PackedWeights;
use crate::jit::Given;

/// Words of a cache line, at which parts of scratch start.
pub(super) const LINE: usize = 16;

/// The operands of one run, besides scratch.
pub(super) struct Operands<'a> {
    pub(super) x: &'a [u8],
    pub(super) weights: PackedWeights<'a>,
    pub(super) signed: bool,
    pub(super) left_zero: i32,
    /// Start value of each column's sum, in the order of panels, like the factors of `epilogue`.
    pub(super) start: &'a [i32],
    pub(super) epilogue: Epilogue<'a>,
    /// The residual, where AMX computes.
    pub(super) plus: Option<Plus<'a>>,
    /// All operands, output and scratch, for the check of extents.
    pub(super) given: Given,
}

impl Operands<'_> {
    /// The zero point of the left-hand side's bytes as unsigned ones: 128 is added to signed bytes.
    pub(super) fn unsigned_zero(&self) -> i32 {
        self.left_zero + if self.signed { 128 } else { 0 }
    }
}
