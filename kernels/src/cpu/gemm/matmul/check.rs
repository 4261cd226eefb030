//! Checks of a product's operands before anything is read.

use super::{Extras, FAMILY, Matmul, MatmulStored};
use crate::cpu::{Activations, ActivationsMut, PackedWeights};
use crate::error::{KernelError, Result};

impl Matmul {
    /// Elements that the left-hand and the right-hand side need to have.
    pub(super) fn needs(&self) -> [usize; 2] {
        let Some(last) = self.shape.batches().checked_sub(1) else { return [0; 2] };
        let (left, right) = self.shape.spans().unwrap_or((usize::MAX, usize::MAX));
        let last = self.shape.place(last);
        [last.left + left, last.right + if self.shape.right_is_packed() { self.panels.len() } else { right }]
    }

    pub(super) fn check(
        &self,
        left: Activations<'_>,
        right: PackedWeights<'_>,
        c: &ActivationsMut<'_>,
        extras: Extras<'_, Activations<'_>>,
        scratch: &[f32],
    ) -> Result<()> {
        let (shape, c) = (&self.shape, c.read());
        let total = shape.batches() * shape.m * shape.n;
        let [left_need, right_need] = self.needs();
        let given = MatmulStored {
            left: left.stored(),
            residual: extras.residual.map_or(self.stored.residual, |residual| residual.stored()),
            output: c.stored(),
        };
        if given != self.stored {
            let reason = format!("activations {given:?} where {:?} were asked for", self.stored);
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        let bounds = |operand: &'static str, have: usize, need: usize| match have < need {
            true => Err(KernelError::Bounds { family: FAMILY, operand, have, need }),
            false => Ok(()),
        };
        bounds("left-hand side", left.len(), left_need)?;
        if !right.is_of(shape.elements()) {
            let reason = format!("a right-hand side of another type than {:?}", shape.elements());
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        bounds("right-hand side", right.words(), right_need)?;
        bounds("scratch", scratch.len(), self.scratch_len())?;
        if c.len() != total {
            return Err(KernelError::Bounds { family: FAMILY, operand: "C", have: c.len(), need: total });
        }
        bounds("bias", extras.bias.map_or(shape.n, <[f32]>::len), shape.n)?;
        bounds("residual", extras.residual.map_or(total, |residual| residual.len()), total)?;
        if extras.bias.is_some() && !self.epilogue.bias {
            let reason = "a bias that was not announced".to_owned();
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        Ok(())
    }
}
