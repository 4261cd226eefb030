//! Operands that are added to a convolution's sums: bias and residual.

use crate::cpu::gemm::tile::{TileArgs, TileCode};
use crate::jit::Given;

/// Optional operands.
#[derive(Clone, Copy, Debug)]
pub struct ConvExtras<'a, R = &'a [f32]> {
    /// Added to every position: one element a filter.
    pub bias: Option<&'a [f32]>,
    /// Added to the output, of the output's own shape, before the activation.
    pub residual: Option<R>,
}

impl<R> Default for ConvExtras<'_, R> {
    fn default() -> Self {
        ConvExtras { bias: None, residual: None }
    }
}

/// [`ConvExtras`] as strategies see them: checked, and with all buffers of the run for the check of extents.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpilogueOperands<'a> {
    /// Every operand.
    pub(super) given: &'a Given,
    /// One element a filter.
    pub(super) bias: Option<&'a [f32]>,
    /// Byte offset from the output to the residual: 0 where the output is written over it.
    pub(super) residual: Option<isize>,
}

impl EpilogueOperands<'_> {
    /// Adds the residual of an output that starts at `y`, if there is one.
    pub(super) fn add_residual(&self, args: &mut TileArgs, key: &TileCode, y: *const u8) {
        if let Some(distance) = self.residual {
            args.residual = 1;
            args.residual_offset = key.output.residual_offset(y, y.wrapping_offset(distance), key.residual);
        }
    }
}
