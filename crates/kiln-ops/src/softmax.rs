//! Softmax and LogSoftmax.
//!
//! Before version 13 the axis split the tensor into a matrix whose rows sum to one; since then only the axis itself
//! does. Both are an array around an axis to [`exec::softmax`](kiln_run::exec::softmax). Narrow floats are computed in
//! `f32` and rounded once, in the end.

use kiln_kernels::cpu::softmax::{Around, Softmax as Executor};
use kiln_kernels::gpu::source::softmax::SoftmaxKernel;
use kiln_kernels::memory::Pace;
use kiln_kernels::parallel::for_each_chunk;
use kiln_run::DeviceCx;
use kiln_run::device::Operand;
use kiln_run::exec::softmax::SoftmaxProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorError, TensorSpec};

use super::convert::through_f32;
use super::double::with_double;
use super::{LoadCx, MakeNode, OpError, Operator, around, axis_of, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "Softmax", make::<false>), ("", "LogSoftmax", make::<true>)];

struct Softmax {
    axis: i64,
    /// Whether all axes from `axis` on are one.
    flat: bool,
    logarithm: bool,
}

fn softmax<const LOGARITHM: bool>(cx: &LoadCx<'_>) -> Softmax {
    let flat = cx.node.version < 13;
    Softmax { axis: cx.node.attributes().int("axis"), flat, logarithm: LOGARITHM }
}

fn make<const LOGARITHM: bool>(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let double: MakeNode = |cx| Ok(Box::new(Double(softmax::<LOGARITHM>(cx))));
    with_double(cx, double, |cx| through_f32(cx, |cx| Ok(Box::new(softmax::<LOGARITHM>(cx)))))
}

/// Softmax of `f64`, in plain Rust.
struct Double(Softmax);

impl Double {
    /// The softmax of every `step`-th of `count` values.
    fn line(&self, from: &[f64], to: &mut [f64], count: usize, step: usize) {
        let at = |index: usize| from[index * step];
        let greatest = (0..count).map(at).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = (0..count).map(|index| (at(index) - greatest).exp()).sum();
        let (logarithm, ln) = (self.0.logarithm, sum.ln());
        for index in 0..count {
            let x = at(index) - greatest;
            to[index * step] = if logarithm { x - ln } else { x.exp() / sum };
        }
    }
}

impl Node for Double {
    fn family(&self) -> &'static str {
        "softmax"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        if input.dtype() != DType::F64 {
            return Err(TensorError::Type { expected: DType::F64, found: input.dtype() }.into());
        }
        self.0.around(input.shape()).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, mut output) = (io.input(0)?, io.alloc(0)?);
        let (_, length, inner) = self.0.around(input.shape())?;
        let from = input.as_slice::<f64>()?;
        let block = (length * inner).max(1);
        for_each_chunk(cx.parallel, output.as_mut_slice::<f64>()?, block, &|index, to| {
            let from = &from[index * block..][..block];
            let mut pace = Pace::default();
            for first in 0..inner {
                pace.step(4 * length);
                self.line(&from[first..], &mut to[first..], length, inner);
            }
        });
        io.push(output);
        Ok(())
    }
}

impl Softmax {
    fn around(&self, shape: &[usize]) -> Result<(usize, usize, usize), NodeError> {
        // A vector has no axis 1, which is the old default: it is a matrix of one column.
        if self.flat && usize::try_from(self.axis) == Ok(shape.len()) {
            return Ok((shape.iter().product(), 1, 1));
        }
        let axis = axis_of(self.axis, shape.len())?;
        let (outer, length, inner) = around(shape, axis);
        Ok(if self.flat { (outer, length * inner, 1) } else { (outer, length, inner) })
    }
}

impl Node for Softmax {
    fn family(&self) -> &'static str {
        "softmax"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        if input.dtype() != DType::F32 {
            return Err(TensorError::Type { expected: DType::F32, found: input.dtype() }.into());
        }
        self.around(input.shape()).map(drop)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let (outer, length, inner) = self.around(required(inputs, 0)?.shape())?;
        let around = Around { outer: outer as u64, length: length as u64, inner: inner as u64 };
        let problem = SoftmaxProblem { around, logarithm: self.logarithm };
        Ok(Prepared::new(cx.executor(&cx.key(problem))?))
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let [outer, length, inner] =
            <[usize; 3]>::from(self.around(required(inputs, 0)?.shape())?).map(|size| size as u64);
        let kernel = SoftmaxKernel::new(outer, length, inner, self.logarithm)?;
        cx.kernel(kernel, &[Some(Operand::Input(0))], Operand::Output(0))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let executor = prepared.get::<Executor>()?;
        // The input's memory becomes the output's where no other value has it.
        let output = if io.can_reuse(0, 0) {
            let mut data = io.take(0)?;
            executor.run_in_place(data.as_mut_slice()?, cx.parallel)?;
            data
        } else {
            let mut output = io.alloc(0)?;
            executor.run(io.input(0)?.as_slice()?, output.as_mut_slice()?, cx.parallel)?;
            output
        };
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use crate::trial::Trial;

    #[test]
    fn the_axis_alone_sums_to_one_since_version_13() {
        let cube = |op| Trial::new(op).input(&[2, 2, 2], &[0f32; 8]);
        cube("Softmax").gives_about(&[2, 2, 2], &[0.5; 8]);
        cube("LogSoftmax").int("axis", 1).gives_about(&[2, 2, 2], &[-std::f32::consts::LN_2; 8]);
        cube("Softmax").int("axis", -3).gives_about(&[2, 2, 2], &[0.5; 8]);
        cube("Softmax").int("axis", 3).is_refused("axis 3");
        let e = std::f32::consts::E;
        let columns = Trial::new("Softmax").int("axis", 0).input(&[2, 2], &[0f32, 5.0, 1.0, 5.0]);
        columns.gives_about(&[2, 2], &[1.0 / (1.0 + e), 0.5, e / (1.0 + e), 0.5]);
    }

    #[test]
    fn all_axes_from_the_given_one_on_sum_to_one_before_version_13() {
        let cube = || Trial::new("Softmax").version(11).input(&[2, 2, 2], &[0f32; 8]);
        cube().gives_about(&[2, 2, 2], &[0.25; 8]);
        cube().int("axis", 0).gives_about(&[2, 2, 2], &[0.125; 8]);
        cube().int("axis", -1).gives_about(&[2, 2, 2], &[0.5; 8]);
        Trial::new("Softmax").version(9).input(&[2], &[0f32, 1.0]).gives_about(&[2], &[1.0; 2]);
    }

    #[test]
    fn halves_are_rounded_once() {
        let halves = |values: &[f32]| values.iter().map(|&value| f16::from_f32(value)).collect::<Vec<_>>();
        // The definition's exp(-1) rounds to 0.36792 and its sum to 1.7354 instead of 1.7358: two units away.
        let row = Trial::new("Softmax").int("axis", 0).input(&[3, 1], &halves(&[0.0, -1.0, -1.0]));
        let power = (-1f32).exp();
        let sum = 1.0 + 2.0 * power;
        row.gives(&[3, 1], &halves(&[1.0 / sum, power / sum, power / sum]));
        Trial::new("Softmax").input(&[2, 2], &halves(&[0.0, 0.0, 5.0, 5.0])).gives(&[2, 2], &halves(&[0.5; 4]));
        Trial::new("Softmax").input::<f16>(&[0, 3], &[]).gives::<f16>(&[0, 3], &[]);
    }

    #[test]
    fn empty_tensors_and_large_numbers_pass_and_other_types_are_refused() {
        Trial::new("Softmax").input::<f32>(&[0, 3], &[]).gives::<f32>(&[0, 3], &[]);
        Trial::new("Softmax").input::<f32>(&[3, 0], &[]).gives::<f32>(&[3, 0], &[]);
        Trial::new("Softmax").input(&[2], &[1e30f32, -1e30]).gives_about(&[2], &[1.0, 0.0]);
        Trial::new("Softmax").input(&[2], &[0f64, 0.0]).gives(&[2], &[0.5f64, 0.5]);
        Trial::new("Softmax").input(&[2], &[1i64, 2]).is_refused("int64");
        Trial::new("Softmax").input(&[], &[1f32]).is_refused("rank 0");
    }
}
