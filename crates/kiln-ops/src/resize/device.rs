//! Resizing on a device: the same tables as on the processor, sent there once for their sizes.

use kiln_kernels::gpu::source::resize::{Mix, ResizeKernel, Resized};
use kiln_run::device::Operand;
use kiln_run::{DeviceCx, NodeError};
use kiln_tensor::{Tensor, TensorSpec};
use smallvec::SmallVec;

use super::{Mode, Resize};
use crate::required;

impl Resize {
    pub(super) fn on_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        if outputs[0].shape.contains(&0) {
            return Ok(());
        }
        let tables = self.problem(inputs)?.tables()?;
        if tables.axes.is_empty() {
            cx.view(0, 0);
            return Ok(());
        }
        let picks = matches!(self.mode, Mode::Nearest(_));
        let width = required(inputs, 0)?.dtype().size() as u8;
        let mix = if picks { Mix::Pick { width } } else { Mix::Blend };
        let mut operands: SmallVec<[Option<Operand>; 8]> = SmallVec::from_slice(&[Some(Operand::Input(0))]);
        let mut axes: SmallVec<[Resized; 3]> = SmallVec::new();
        for (axis, table) in &tables.axes {
            operands.push(Some(cx.table(bytemuck::cast_slice(&table.places))?));
            if !picks {
                operands.push(Some(cx.table(bytemuck::cast_slice(&table.weights))?));
            }
            axes.push(Resized { input: axis.input, output: axis.output, taps: table.taps as u64 });
        }
        let kernel = ResizeKernel::new(mix, tables.outer, &axes, tables.inner)?;
        cx.kernel(kernel, &operands, Operand::Output(0))
    }
}
