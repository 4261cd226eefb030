//! Convolutions on a device: by a library, with the following steps fused into it where the library can, else as a
//! chain behind it.

use kiln_kernels::cpu::conv::ConvShape;
use kiln_kernels::gpu::source::copy::{CopyKernel, Strided};
use kiln_kernels::gpu::source::fill::FillKernel;
use kiln_kernels::gpu::{ConvProblem, Epilogue, Problem};
use kiln_run::device::{Addend, Operand};
use kiln_run::{DeviceCx, NodeError};
use kiln_tensor::{Tensor, TensorSpec};
use smallvec::SmallVec;

use super::Conv;
use crate::{optional, refused};

const F32: u64 = size_of::<f32>() as u64;

impl Conv {
    pub(super) fn on_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let shape = self.shape(inputs)?;
        let output = &outputs[0].shape;
        if output.contains(&0) {
            return Ok(());
        }
        let mut problem = problem(&shape)?;
        let mut input = Operand::Input(0);
        if let Some(padded) = padded(&problem)? {
            input = pad(cx, &mut problem, padded)?;
        }
        let (bias, residual) = (optional(inputs, 2).is_some(), optional(inputs, 3).is_some());
        let operands = |bias: bool, residual: bool| {
            let third = |wanted: bool, index: usize| wanted.then_some(Operand::Input(index));
            [Some(input), Some(Operand::Input(1)), third(bias, 2), third(residual, 3)]
        };
        let epilogue = Epilogue { bias, residual, activation: self.activation };
        let fused =
            if epilogue.is_none() { None } else { cx.solution(&Problem::Conv(ConvProblem { epilogue, ..problem }))? };
        if let Some(fused) = fused {
            cx.solve(fused, operands(bias, residual), Operand::Output(0));
            return Ok(());
        }
        let plain = cx.solution(&Problem::Conv(problem))?;
        let plain = plain.ok_or_else(|| {
            NodeError::Unsupported(format!("the device has no way to compute the convolution {problem:?}"))
        })?;
        cx.solve(plain, operands(false, false), Operand::Output(0));
        let mut addends: SmallVec<[Addend; 2]> = SmallVec::new();
        if bias {
            let mut column = SmallVec::from_elem(1, output.len() - 1);
            column[0] = shape.filters();
            addends.push(Addend { operand: Operand::Input(2), shape: column, factor: 1.0 });
        }
        if residual {
            addends.push(Addend { operand: Operand::Input(3), shape: output.clone(), factor: 1.0 });
        }
        cx.finish_in_place(Operand::Output(0), output, &addends, self.activation)
    }
}

/// The convolution without the steps that follow it.
fn problem(shape: &ConvShape) -> Result<ConvProblem, NodeError> {
    let small = |size: u64| {
        u32::try_from(size)
            .ok()
            .filter(|&size| size <= i32::MAX as u32)
            .ok_or_else(|| refused(format!("a size of {size} on a device")))
    };
    let three = |sizes: [u64; 3]| Ok::<_, NodeError>([small(sizes[0])?, small(sizes[1])?, small(sizes[2])?]);
    Ok(ConvProblem {
        batch: small(shape.batch)?,
        channels: small(shape.channels)?,
        filters: small(shape.filters)?,
        groups: small(shape.groups)?,
        input: three(shape.input)?,
        kernel: three(shape.kernel)?,
        strides: three(shape.strides)?,
        dilations: three(shape.dilations)?,
        pads: three(shape.pads)?,
        output: three(shape.output)?,
        transposed: shape.transposed,
        epilogue: Epilogue::NONE,
    })
}

/// The size that the input has to be padded to first, because its padding at the end differs from that at the start,
/// and libraries take one number for both.
fn padded(problem: &ConvProblem) -> Result<Option<[u32; 3]>, NodeError> {
    let (from, to) = if problem.transposed { (problem.output, problem.input) } else { (problem.input, problem.output) };
    let mut padded = from;
    let mut differs = false;
    for axis in 0..3 {
        let reach = (problem.kernel[axis] - 1) * problem.dilations[axis] + 1;
        let (stride, pad) = (problem.strides[axis], problem.pads[axis]);
        let found = (from[axis] + 2 * pad).checked_sub(reach).map(|room| room / stride + 1);
        differs |= found != Some(to[axis]);
        padded[axis] = ((to[axis] - 1) * stride + reach).max(from[axis] + pad);
    }
    match differs {
        false => Ok(None),
        true if problem.transposed => {
            Err(NodeError::Unsupported(format!("the padding of the transposed convolution {problem:?} on a device")))
        }
        true => Ok(Some(padded)),
    }
}

/// Copies the input into the midst of zeros, and gives the problem the padded sizes.
fn pad(cx: &mut DeviceCx<'_>, problem: &mut ConvProblem, size: [u32; 3]) -> Result<Operand, NodeError> {
    let images = u64::from(problem.batch) * u64::from(problem.channels);
    let [d, h, w] = problem.input.map(u64::from);
    let [pd, ph, pw] = size.map(u64::from);
    let elements = [images, pd, ph, pw].into_iter().try_fold(1u64, u64::checked_mul);
    let elements = elements.ok_or_else(|| refused("padding overflows"))?;
    let whole = cx.scratch(elements * F32);
    cx.kernel(FillKernel::new(&0f32.to_le_bytes(), elements)?, &[], whole)?;
    let dense = |[d, h, w]: [u64; 3]| [(d * h * w) as i64, (h * w) as i64, w as i64, 1];
    let [before_d, before_h, before_w] = problem.pads.map(u64::from);
    let start = (before_d * ph + before_h) * pw + before_w;
    let (from, to) = (dense([d, h, w]), dense([pd, ph, pw]));
    let copy = CopyKernel::new(F32 as u8, &[images, d, h, w], Strided::new(0, &from), Strided::new(start as i64, &to))?;
    cx.kernel(copy, &[Some(Operand::Input(0))], whole)?;
    (problem.input, problem.pads) = (size, [0; 3]);
    Ok(whole)
}
