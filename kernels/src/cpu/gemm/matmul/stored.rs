//! Products whose activations are stored as `bf16`. AMX's driver reads and writes `bf16` directly; products on vectors
//! widen it before and round after. Only single rows, which AMX does not compute, go that way: for so few elements it
//! costs next to nothing.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::{Extras, Left, Matmul, MatmulShape};
use crate::cpu::{Activations, ActivationsMut, PackedWeights, Stored};
use crate::parallel::Parallel;

/// How a product's activations lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct MatmulStored {
    /// The left-hand side.
    pub left: Stored,
    /// The residual, where there is one.
    pub residual: Stored,
    /// The result.
    pub output: Stored,
}

impl MatmulStored {
    /// Whether a product can have these types: a transposed left-hand side must be `f32`.
    #[must_use]
    pub fn suits(&self, shape: &MatmulShape) -> bool {
        self.left == Stored::F32 || matches!(shape.left, Left::Rows { .. })
    }
}

impl Matmul {
    /// Elements of the `f32` copies of activations: of the left-hand side, the residual and the result.
    fn widened(&self) -> [usize; 3] {
        if self.amx.is_some() {
            return [0; 3];
        }
        let total = self.shape.batches() * self.shape.m * self.shape.n;
        let MatmulStored { left, residual, output } = self.stored;
        let sizes = [(left, self.needs()[0]), (residual, total), (output, total)];
        sizes.map(|(stored, size)| if stored == Stored::F32 { 0 } else { size })
    }

    /// The elements of all three copies.
    pub(super) fn widened_len(&self) -> usize {
        self.widened().iter().sum()
    }

    /// Multiplies on vectors in `f32`, between conversions. Buffers have been checked.
    pub(super) fn run_widened(
        &self,
        left: Activations<'_>,
        right: PackedWeights<'_>,
        mut c: ActivationsMut<'_>,
        extras: Extras<'_, Activations<'_>>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) {
        let [left_len, residual_len, output_len] = self.widened();
        let (wide_left, scratch) = scratch.split_at_mut(left_len);
        let (wide_residual, scratch) = scratch.split_at_mut(residual_len);
        let (wide_output, scratch) = scratch.split_at_mut(output_len);
        let left = left.as_f32().unwrap_or_else(|| {
            left.widen(wide_left);
            wide_left
        });
        let residual = extras.residual.map(|residual| {
            residual.as_f32().unwrap_or_else(|| {
                residual.widen(wide_residual);
                wide_residual
            })
        });
        let extras = Extras { bias: extras.bias, residual };
        if let ActivationsMut::F32(c) = c {
            return self.run_on_vectors(left, right, c, extras, scratch, parallel);
        }
        self.run_on_vectors(left, right, wide_output, extras, scratch, parallel);
        c.narrow(wide_output);
    }
}
