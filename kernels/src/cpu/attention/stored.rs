//! Attention on vectors with activations in `bf16`: widened to `f32` before, rounded after. For few queries or keys,
//! where bf16 pairs do not pay.

use super::{Attention, Operands};
use crate::cpu::{Activations, ActivationsMut, Stored};
use crate::error::Result;
use crate::parallel::Parallel;

impl Attention {
    /// Elements of the `f32` copies of queries, keys, values and results.
    pub(super) fn widened(&self) -> [usize; 4] {
        let Some([query, key, value, output, ..]) = self.shape.needs() else { return [0; 4] };
        let [stored, written] = self.around.map(|stored| usize::from(stored == Stored::Bf16));
        [query * stored, key * stored, value * stored, output * written]
    }

    /// Computes with conversions. Buffers have been checked.
    pub(super) fn run_widened(
        &self,
        operands: &Operands<'_, Activations<'_>>,
        output: ActivationsMut<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let [queries, keys, values, results] = self.widened();
        let (wide_query, scratch) = scratch.split_at_mut(queries);
        let (wide_key, scratch) = scratch.split_at_mut(keys);
        let (wide_value, scratch) = scratch.split_at_mut(values);
        let (wide_output, scratch) = scratch.split_at_mut(results);
        let mut operands = *operands;
        if self.around[0] == Stored::Bf16 {
            operands.query.widen(wide_query);
            operands.key.widen(wide_key);
            operands.value.widen(wide_value);
            let Operands { mask, keep, .. } = operands;
            let [query, key, value] = [&*wide_query, &*wide_key, &*wide_value].map(Activations::F32);
            operands = Operands { query, key, value, mask, keep };
        }
        let ActivationsMut::Bf16(halves) = output else {
            return self.run_as_stored(&operands, None, output, scratch, parallel);
        };
        self.run_as_stored(&operands, None, ActivationsMut::F32(wide_output), scratch, parallel)?;
        // Elements between rows do not belong to this output.
        let (shape, steps) = (&self.shape, self.shape.output);
        for (batch, head) in (0..shape.batch()).flat_map(|batch| (0..shape.heads()).map(move |head| (batch, head))) {
            for row in 0..shape.queries() {
                let at = batch * steps.batch() + head * steps.head() + row * steps.row();
                let own = at..at + shape.value_size();
                ActivationsMut::Bf16(&mut halves[own.clone()]).narrow(&wide_output[own]);
            }
        }
        Ok(())
    }
}
