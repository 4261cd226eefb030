//! Normalisations by channel on a device: known moments as a chain of five operands, moments of groups as rows.

use kiln_kernels::cpu::chain::{BinaryOp, Builder, Geometry, Storage, UnaryOp};
use kiln_kernels::gpu::source::chain::ChainKernel;
use kiln_kernels::gpu::source::norm::{RowNormKernel, Scaling};
use kiln_run::device::Operand;
use kiln_run::{DeviceCx, NodeError};
use kiln_tensor::{Shape, Tensor, TensorSpec};

use super::channels::{Channels, Form};
use crate::required;

impl Channels {
    pub(super) fn on_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        let images = self.images(input.shape())?;
        match self.form {
            Form::Batch { epsilon, known: None } => {
                // (x - mean) / sqrt(variance + epsilon) * scale + bias
                let mut program = Builder::new(&[Storage::F32; 5]);
                let epsilon = program.constant(epsilon);
                let centred = program.binary(BinaryOp::Sub, 0, 3);
                let spread = program.binary(BinaryOp::Add, 4, epsilon);
                let deviation = program.unary(UnaryOp::Sqrt, spread);
                let scale = program.binary(BinaryOp::Div, 1, deviation);
                let scaled = program.binary(BinaryOp::Mul, centred, scale);
                program.binary(BinaryOp::Add, scaled, 2);
                let program = program.finish(Storage::F32).ok_or_else(unsupported)?;
                let mut column = Shape::from_elem(1, input.shape().len().saturating_sub(1).max(1));
                column[0] = images.channels as usize;
                let whole = &outputs[0].shape;
                let geometry = Geometry::new(whole, &[whole, &column, &column, &column, &column])?;
                let operands = [0, 1, 2, 3, 4].map(|index| Some(Operand::Input(index)));
                cx.kernel(ChainKernel::new(&program, &geometry)?, &operands, Operand::Output(0))
            }
            Form::Groups { epsilon, groups, by_group } => {
                let groups = groups.unwrap_or(images.channels);
                if images.channels == 0 {
                    return Ok(());
                }
                let length = images.channels / groups * images.spatial;
                let step = if by_group { length } else { images.spatial };
                // An empty image has rows without elements: any step will do.
                let scaling = Scaling { period: groups, step: step.max(1) };
                let kernel = RowNormKernel::new(images.batch * groups, length, epsilon, true, Some(scaling), true)?;
                let operands = [0, 1, 2].map(|index| Some(Operand::Input(index)));
                cx.kernel(kernel, &operands, Operand::Output(0))
            }
            _ => Err(unsupported()),
        }
    }
}

fn unsupported() -> NodeError {
    NodeError::Unsupported("this normalisation on a device".to_owned())
}
