//! Average pools of quantised tensors: QLinearGlobalAveragePool as ONNX Runtime's quantiser writes it, and the node
//! that the pass `quantized` makes of the QDQ form. Bytes are summed, scaled and rounded once.

use kiln_kernels::cpu::pool::{PoolShape, Window};
use kiln_kernels::cpu::quantized::averages::Averages;
use kiln_run::exec::average::AverageProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::between::{Bounds, addend, eight_bits_each, parameters};
use super::eight_bits;
use crate::pool::{Windows, pool_shape};
use crate::{LoadCx, OpError, refused, required};

/// Inputs: the operand, its scale and zero point, the result's.
struct Average {
    bounds: Bounds,
    /// `None` where one window is the whole image.
    windows: Option<Windows>,
    include_pad: bool,
    channels_last: bool,
}

pub(super) fn pool(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let include_pad = cx.node.attributes().flag("count_include_pad");
    let (windows, channels_last) = (Some(Windows::new(cx.node)?), cx.node.is_channels_last());
    Ok(Box::new(Average { bounds: Bounds::of(cx), windows, include_pad, channels_last }))
}

pub(super) fn global(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let channels_last = cx.node.attributes().flag("channels_last");
    Ok(Box::new(Average { bounds: Bounds::of(cx), windows: None, include_pad: false, channels_last }))
}

impl Average {
    fn average(
        &self,
        executor: &Averages,
        inputs: &[Option<&Tensor>],
        y: &mut Tensor,
        cx: &RunCx<'_>,
    ) -> Result<(), NodeError> {
        let (scale, zero) = parameters(inputs, 3)?;
        let rounding = self.bounds.rounding(y.dtype() == DType::I8, zero, scale);
        Ok(executor.run(addend(inputs, 0, scale)?, rounding, y.bytes_mut(), cx.parallel)?)
    }

    fn shape(&self, dims: &[usize]) -> Result<PoolShape, NodeError> {
        if self.windows.is_some() {
            return pool_shape(self.windows.as_ref(), self.channels_last, dims);
        }
        if dims.len() < 3 {
            return Err(refused(format!("shape {dims:?} has no spatial axes to pool")));
        }
        // Positions are one axis, however many they were.
        let (channel, space) = if self.channels_last { (dims.len() - 1, 1) } else { (1, 2) };
        let positions = dims[space..][..dims.len() - 2].iter().product::<usize>() as u64;
        let all = Window { input: positions, kernel: positions.max(1), ..Window::NONE };
        let (batch, channels) = (dims[0] as u64, dims[channel] as u64);
        let axes = [Window::NONE, Window::NONE, all];
        let shape = PoolShape { batch, channels, axes, channels_last: self.channels_last };
        if shape.is_valid() { Ok(shape) } else { Err(refused(format!("shape {dims:?} is too large to pool"))) }
    }
}

impl Node for Average {
    fn family(&self) -> &'static str {
        "average"
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let x = required(inputs, 0)?;
        eight_bits(x)?;
        for at in [1, 3] {
            parameters(inputs, at)?;
        }
        eight_bits_each(outputs)?;
        self.shape(x.shape()).map(drop)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let shape = self.shape(required(inputs, 0)?.shape())?;
        let problem = AverageProblem { shape, include_pad: self.include_pad };
        Ok(Prepared::new(cx.executor(&cx.key(problem))?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let mut y = io.alloc(0)?;
        self.average(prepared.get()?, &io.inputs(), &mut y, cx)?;
        io.push(y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn means_of_whole_images_in_both_orders() {
        let x = Trial::new("QuantizedGlobalAveragePool").made_by(super::global);
        let x = x.input(&[1, 2, 2], &[1u8, 3, 10, 30]).input(&[], &[1f32]).input(&[], &[0u8]);
        let x = x.input(&[], &[2f32]).input(&[], &[5u8]);
        x.gives(&[1, 2, 1], &[6u8, 15]);
        x.int("channels_last", 1).gives(&[1, 1, 2], &[8u8, 13]);
    }

    #[test]
    fn means_over_windows_count_padding_as_zero_points_where_it_is_asked_for() {
        let pool = |include| {
            let pool = Trial::new("QuantizedAveragePool").made_by(super::pool);
            let pool = pool.ints("kernel_shape", &[3]).ints("strides", &[2]).ints("pads", &[1, 1]);
            let pool = pool.int("count_include_pad", include).input(&[1, 1, 3], &[10i8, 20, 40]);
            pool.input(&[], &[0.5f32]).input(&[], &[-2i8])
        };
        // Numbers are 6, 11 and 21.
        let unsigned = |pool: Trial| pool.input(&[], &[0.25f32]).input(&[], &[100u8]);
        unsigned(pool(0)).gives(&[1, 1, 2], &[134u8, 164]);
        unsigned(pool(1)).gives(&[1, 1, 2], &[123u8, 143]);
    }

    #[test]
    fn other_types_and_shapes_are_refused() {
        let pool = || Trial::new("QuantizedAveragePool").made_by(super::pool).ints("kernel_shape", &[2]);
        let scaled = |pool: Trial| pool.input(&[], &[1f32]).absent().input(&[], &[1f32]).input(&[], &[0u8]);
        scaled(pool().input(&[1, 1, 2], &[1i32, 2])).is_refused("int32");
        scaled(pool().input(&[1, 1, 2, 1], &[1u8, 2])).is_refused("windows of 1 axes");
        scaled(pool().input(&[1, 1, 1], &[1u8])).is_refused("does not fit");
        let two = pool().input(&[1, 1, 2], &[1u8, 2]).input(&[2], &[1f32, 2.0]).absent();
        two.input(&[], &[1f32]).input(&[], &[0u8]).is_refused("2 scales");
    }
}
