//! Element-wise operators on a device: the same program as on the processor, written in CUDA C.

use kiln_kernels::cpu::chain::Geometry;
use kiln_kernels::gpu::source::chain::ChainKernel;
use kiln_run::device::Operand;
use kiln_run::{DeviceCx, NodeError};
use kiln_tensor::{Tensor, TensorSpec};
use smallvec::SmallVec;

use super::{Broadcast, Elementwise};
use crate::required;

impl Elementwise {
    pub(super) fn on_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let lowered = self.lowered(|index| inputs.get(index).copied().flatten());
        let lowered = lowered.ok_or_else(|| NodeError::Unsupported("these element types on a device".to_owned()))?;
        let mut shapes: SmallVec<[&[usize]; 4]> = SmallVec::new();
        for &index in &lowered.operands {
            let scalar = self.broadcast == Broadcast::Scalars && index > 0;
            shapes.push(if scalar { &[] } else { required(inputs, index)?.shape() });
        }
        let geometry = Geometry::new(&outputs[0].shape, &shapes)?;
        let operands: SmallVec<[Option<Operand>; 4]> =
            lowered.operands.iter().map(|&index| Some(Operand::Input(index))).collect();
        cx.kernel(ChainKernel::new(&lowered.program, &geometry)?, &operands, Operand::Output(0))
    }
}
