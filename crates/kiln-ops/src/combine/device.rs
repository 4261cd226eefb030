//! Concat and Split on a device: each part is a strided copy between its own tensor and its place in the whole.

use kiln_kernels::gpu::source::copy::{CopyKernel, Strided};
use kiln_run::device::Operand;
use kiln_run::{DeviceCx, NodeError};
use kiln_tensor::{Tensor, TensorSpec};

use super::{Concat, Split};
use crate::{around, axis_of, required};

/// Rows of `run` elements: one behind the other in the part, and `row` elements apart in the whole.
struct Part {
    width: usize,
    rows: usize,
    run: usize,
    row: usize,
    /// Where the part begins in the whole.
    start: usize,
}

impl Part {
    /// The copy into the whole, or out of it.
    fn copying(&self, into_whole: bool) -> Result<CopyKernel, NodeError> {
        let counts = [self.rows, self.run].map(|count| count as u64);
        let (own, whole) = ([self.run as i64, 1], [self.row as i64, 1]);
        let own = Strided::new(0, &own);
        let whole = Strided::new(self.start as i64, &whole);
        let (from, to) = if into_whole { (own, whole) } else { (whole, own) };
        Ok(CopyKernel::new(self.width as u8, &counts, from, to)?)
    }
}

impl Concat {
    pub(super) fn on_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let (width, axis) = (outputs[0].dtype.size(), axis_of(self.axis, outputs[0].shape.len())?);
        let (rows, size, inner) = around(&outputs[0].shape, axis);
        let mut start = 0;
        for index in 0..inputs.len() {
            let run = required(inputs, index)?.shape()[axis] * inner;
            let part = Part { width, rows, run, row: size * inner, start };
            cx.kernel(part.copying(true)?, &[Some(Operand::Input(index))], Operand::Output(0))?;
            start += run;
        }
        Ok(())
    }
}

impl Split {
    pub(super) fn on_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        let axis = axis_of(self.axis, input.shape().len())?;
        let (rows, size, inner) = around(input.shape(), axis);
        let mut start = 0;
        for (index, spec) in outputs.iter().enumerate() {
            let run = spec.shape[axis] * inner;
            let part = Part { width: input.dtype().size(), rows, run, row: size * inner, start };
            cx.kernel(part.copying(false)?, &[Some(Operand::Input(0))], Operand::Output(index))?;
            start += run;
        }
        Ok(())
    }
}
