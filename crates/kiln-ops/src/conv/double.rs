//! Conv and ConvTranspose of `f64`: one row after the other, in plain Rust. Channels come first, as ONNX has them.

use std::borrow::Cow;
use std::ops::Range;

use kiln_kernels::cpu::conv::ConvShape;
use kiln_kernels::memory::Pace;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::Conv;
use crate::wide::lent;
use crate::{LoadCx, OpError, refused, required, try_each_chunk};

/// A convolution whose weights are never packed.
struct Double(Conv);

/// Makes the node.
pub(super) fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Double(Conv::unpacked(cx)?)))
}

/// The operands of a convolution.
struct Operands<'a> {
    x: &'a [f64],
    weights: &'a [f64],
    bias: Option<&'a [f64]>,
}

/// One axis: the positions of the near side whose partner for a tap is inside the far side. The near side is the
/// output, or the input of a transposed convolution.
#[derive(Clone)]
struct Reach {
    near: Range<usize>,
    /// The far side's position for the first of these positions.
    far: usize,
}

fn reach(shape: &ConvShape, axis: usize, tap: usize) -> Reach {
    let (near, far) = if shape.transposed { (shape.input(), shape.output()) } else { (shape.output(), shape.input()) };
    let (stride, offset, pad) = (shape.strides()[axis], tap * shape.dilations()[axis], shape.pads()[axis]);
    let first = pad.saturating_sub(offset).div_ceil(stride);
    // Positions before this one are inside.
    let end = (far[axis] + pad).saturating_sub(offset).div_ceil(stride).min(near[axis]);
    if first >= end {
        return Reach { near: 0..0, far: 0 };
    }
    Reach { near: first..end, far: first * stride + offset - pad }
}

/// Adds up one filter's plane of one image.
fn plane(shape: &ConvShape, operands: &Operands<'_>, number: usize, y: &mut [f64]) {
    let (image, filter) = (number / shape.filters(), number % shape.filters());
    let (channels, filters, taps) = (shape.group_channels(), shape.group_filters(), shape.taps());
    let group = filter / filters;
    let [_, kernel_rows, kernel_columns] = shape.kernel();
    let area: usize = shape.input().iter().product();
    y.fill(operands.bias.map_or(0.0, |bias| bias[filter]));
    let mut pace = Pace::default();
    for channel in 0..channels {
        let x = &operands.x[(image * shape.channels() + group * channels + channel) * area..][..area];
        for tap in 0..taps {
            let weight = operands.weights[if shape.transposed {
                ((group * channels + channel) * filters + filter % filters) * taps + tap
            } else {
                (filter * channels + channel) * taps + tap
            }];
            let place =
                [tap / (kernel_rows * kernel_columns), tap / kernel_columns % kernel_rows, tap % kernel_columns];
            let [depth, rows, columns] = [0, 1, 2].map(|axis| reach(shape, axis, place[axis]));
            for d in depth.near.clone() {
                for h in rows.near.clone() {
                    pace.step(1 + columns.near.len());
                    let far = [
                        depth.far + (d - depth.near.start) * shape.strides()[0],
                        rows.far + (h - rows.near.start) * shape.strides()[1],
                        columns.far,
                    ];
                    let near = [d, h, columns.near.start];
                    let (from, to) = if shape.transposed { (near, far) } else { (far, near) };
                    let (x, y) = (&x[flat(shape.input(), from)..], &mut y[flat(shape.output(), to)..]);
                    let (along_x, along_y) =
                        if shape.transposed { (1, shape.strides()[2]) } else { (shape.strides()[2], 1) };
                    let pairs = y.iter_mut().step_by(along_y).zip(x.iter().step_by(along_x));
                    pairs.take(columns.near.len()).for_each(|(y, x)| *y += weight * x);
                }
            }
        }
    }
}

fn flat(size: [usize; 3], at: [usize; 3]) -> usize {
    (at[0] * size[1] + at[1]) * size[2] + at[2]
}

impl Node for Double {
    fn family(&self) -> &'static str {
        "conv"
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let strange = inputs.iter().flatten().find(|tensor| !tensor.dtype().is_float());
        if let Some(tensor) = strange {
            return Err(NodeError::Unsupported(format!("a convolution of {} elements", tensor.dtype())));
        }
        let (shape, output) = (self.0.shape(inputs)?, &outputs[0].shape);
        let bias = inputs.get(2).copied().flatten();
        match bias.filter(|bias| bias.shape() != [shape.filters()]) {
            Some(bias) => Err(refused(format!("bias of shape {:?} for filters of {output:?}", bias.shape()))),
            None => Ok(()),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let shape = self.0.shape(&io.inputs())?;
        let mut output = io.alloc(0)?;
        let (x, weights) = (lent::<f64>(io.input(0)?)?, lent::<f64>(required(&io.inputs(), 1)?)?);
        let bias: Option<Cow<'_, [f64]>> = io.optional(2).map(lent).transpose()?;
        let operands = Operands { x: &x, weights: &weights, bias: bias.as_deref() };
        let area = shape.output().iter().product::<usize>().max(1);
        try_each_chunk(cx.parallel, output.as_mut_slice::<f64>()?, area, &|number, y| {
            plane(&shape, &operands, number, y);
            Ok(())
        })?;
        io.push(output);
        Ok(())
    }
}
