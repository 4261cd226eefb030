//! Reductions of `f32`, and of narrower floats as `f32`, through kernels; other element types go through the
//! [generic](super::generic) node, which also reads the axes in every version of these operators.

use kiln_kernels::cpu::reduce::{Reduce as Executor, Reduction};
use kiln_kernels::gpu::source::reduce::ReduceKernel;
use kiln_kernels::gpu::source::transpose::TransposeKernel;
use kiln_run::DeviceCx;
use kiln_run::device::Operand;
use kiln_run::exec::reduce::ReduceProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::convert::narrow_through_f32;
use super::generic::{make_reduce, reduced_axes};
use super::{LoadCx, OpError, Operator, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "ReduceSum", |cx| narrow_through_f32(cx, |cx| make(cx, Reduction::Sum))),
    ("", "ReduceMean", |cx| narrow_through_f32(cx, |cx| make(cx, Reduction::Mean))),
    ("", "ReduceMax", |cx| narrow_through_f32(cx, |cx| make(cx, Reduction::Max))),
    ("", "ReduceMin", |cx| narrow_through_f32(cx, |cx| make(cx, Reduction::Min))),
    ("", "ReduceProd", |cx| narrow_through_f32(cx, |cx| make(cx, Reduction::Prod))),
    ("", "ReduceSumSquare", |cx| narrow_through_f32(cx, |cx| make(cx, Reduction::SumSquare))),
    ("", "ReduceL1", |cx| narrow_through_f32(cx, |cx| make(cx, Reduction::L1))),
    ("", "ReduceL2", |cx| narrow_through_f32(cx, |cx| make(cx, Reduction::L2))),
    ("", "ReduceLogSum", |cx| narrow_through_f32(cx, |cx| make(cx, Reduction::LogSum))),
    ("", "ReduceLogSumExp", |cx| narrow_through_f32(cx, |cx| make(cx, Reduction::LogSumExp))),
];

struct Reduce {
    reduction: Reduction,
    fixed_axes: Option<Vec<i64>>,
    none_means_none: bool,
    generic: Box<dyn Node>,
}

fn make(cx: &LoadCx<'_>, reduction: Reduction) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Reduce {
        reduction,
        fixed_axes: cx.node.ints("axes").map(<[i64]>::to_vec),
        none_means_none: cx.node.attributes().int("noop_with_empty_axes") != 0,
        generic: make_reduce(cx)?,
    }))
}

impl Node for Reduce {
    fn family(&self) -> &'static str {
        "reduce"
    }

    fn value_inputs(&self) -> u64 {
        self.generic.value_inputs()
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        self.generic.check(inputs, outputs)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let input = required(inputs, 0)?;
        if input.dtype() != DType::F32 {
            return Ok(Prepared::NONE);
        }
        let axes = reduced_axes(self.fixed_axes.as_deref(), self.none_means_none, inputs)?;
        let problem = ReduceProblem::new(self.reduction, input.shape(), |axis| axes.contains(&axis));
        Ok(Prepared::new(cx.executor(&cx.key(problem))?))
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let shape = required(inputs, 0)?.shape();
        let axes = reduced_axes(self.fixed_axes.as_deref(), self.none_means_none, inputs)?;
        let input = Operand::Input(0);
        let is_reduced = |axis: &usize| axes.contains(axis) || shape[*axis] == 1;
        // Axes that are neighbours are reduced in place; others are transposed to the end first.
        let first = (0..shape.len()).find(|axis| axes.contains(axis) && shape[*axis] != 1).unwrap_or(shape.len());
        let end = (first..shape.len()).find(|axis| !is_reduced(axis)).unwrap_or(shape.len());
        let count = |range: &[usize]| range.iter().product::<usize>() as u64;
        if (end..shape.len()).all(|axis| !axes.contains(&axis) || shape[axis] == 1) {
            let [outer, length, inner] = [&shape[..first], &shape[first..end], &shape[end..]].map(count);
            return cx.kernel(
                ReduceKernel::of(self.reduction, outer, length, inner)?,
                &[Some(input)],
                Operand::Output(0),
            );
        }
        let (kept, folded): (Vec<u32>, Vec<u32>) =
            (0..shape.len() as u32).partition(|&axis| !axes.contains(&(axis as usize)));
        let size = |axes: &[u32]| axes.iter().map(|&axis| shape[axis as usize] as u64).product::<u64>();
        let (outer, length) = (size(&kept), size(&folded));
        let transposed = cx.scratch(outer * length * size_of::<f32>() as u64);
        let sizes: Vec<u64> = shape.iter().map(|&size| size as u64).collect();
        let transpose = TransposeKernel::new(size_of::<f32>() as u8, &sizes, &[kept, folded].concat())?;
        cx.kernel(transpose, &[Some(input)], transposed)?;
        cx.kernel(ReduceKernel::of(self.reduction, outer, length, 1)?, &[Some(transposed)], Operand::Output(0))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        if io.input(0)?.dtype() != DType::F32 {
            return self.generic.execute(prepared, io, cx);
        }
        let executor = prepared.get::<Executor>()?;
        let (mut output, mut scratch) = (io.alloc(0)?, cx.scratch::<f32>(executor.scratch_len())?);
        let (input, to) = (io.input(0)?.as_slice()?, output.as_mut_slice()?);
        executor.run(input, to, scratch.as_mut_slice()?, cx.parallel)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn every_reduction_of_rows() {
        let row =
            |op| Trial::new(op).int("keepdims", 0).input(&[2, 3], &[1f32, -2., 3., 4., 5., -6.]).input(&[1], &[1i64]);
        let table = [
            ("ReduceSum", [2., 3.]),
            ("ReduceMean", [2. / 3., 1.]),
            ("ReduceMax", [3., 5.]),
            ("ReduceMin", [-2., -6.]),
            ("ReduceProd", [-6., -120.]),
            ("ReduceL1", [6., 15.]),
            ("ReduceL2", [14f32.sqrt(), 77f32.sqrt()]),
            ("ReduceSumSquare", [14., 77.]),
            ("ReduceLogSum", [2f32.ln(), 3f32.ln()]),
            ("ReduceLogSumExp", [3.132_845, 5.313_274]),
        ];
        for (op, expected) in table {
            row(op).gives_about(&[2], &expected);
        }
        Trial::new("ReduceProd").input(&[2], &[3i64, 4]).gives(&[1], &[12i64]);
        Trial::new("ReduceMax").input(&[3], &[1f32, f32::NAN, 3.0]).gives_about(&[1], &[f32::NAN]);
    }

    #[test]
    fn any_axes_in_any_order() {
        let ramp: Vec<f32> = (0..16u8).map(f32::from).collect();
        let sum =
            |axes: &[i64]| Trial::new("ReduceSum").int("keepdims", 0).ints("axes", axes).input(&[2, 2, 2, 2], &ramp);
        sum(&[0, 1, 2, 3]).gives(&[], &[120f32]);
        sum(&[-1, 0]).gives(&[2, 2], &[18f32, 26., 34., 42.]);
        sum(&[3, 1]).gives(&[2, 2], &[10f32, 18., 42., 50.]);
        sum(&[1, 2]).gives(&[2, 2], &[12f32, 16., 44., 48.]);
        sum(&[]).gives(&[], &[120f32]);
        sum(&[4]).is_refused("axis 4");
    }

    #[test]
    fn a_scalar_is_its_only_element_by_axis_0_and_minus_1() {
        for axis in [0, -1] {
            for keep in [0, 1] {
                let scalar = |op| Trial::new(op).int("keepdims", keep).ints("axes", &[axis]).input(&[], &[-3f32]);
                scalar("ReduceSum").gives(&[], &[-3f32]);
                scalar("ReduceL1").gives(&[], &[3f32]);
                scalar("ReduceSumSquare").gives(&[], &[9f32]);
                Trial::new("ReduceMin")
                    .int("keepdims", keep)
                    .input(&[], &[7i64])
                    .input(&[1], &[axis])
                    .gives(&[], &[7i64]);
            }
        }
        Trial::new("ReduceSum").ints("axes", &[1]).input(&[], &[1f32]).is_refused("axis 1");
    }

    #[test]
    fn no_axes_reduce_nothing_where_that_is_asked_for_but_still_square() {
        let row = |op| Trial::new(op).int("noop_with_empty_axes", 1).input(&[2, 1], &[3f32, -4.0]);
        row("ReduceSum").gives(&[2, 1], &[3f32, -4.0]);
        row("ReduceSumSquare").input::<i64>(&[0], &[]).gives(&[2, 1], &[9f32, 16.0]);
        row("ReduceL2").gives(&[2, 1], &[3f32, 4.0]);
        row("ReduceLogSumExp").gives_about(&[2, 1], &[3f32, -4.0]);
    }

    #[test]
    fn nothing_reduces_to_the_neutral_element() {
        let nothing = |op| Trial::new(op).ints("axes", &[1]).int("keepdims", 0).input::<f32>(&[2, 0], &[]);
        let table = [
            ("ReduceSum", 0.0),
            ("ReduceProd", 1.0),
            ("ReduceMax", f32::NEG_INFINITY),
            ("ReduceMin", f32::INFINITY),
            ("ReduceMean", f32::NAN),
            ("ReduceLogSum", f32::NEG_INFINITY),
            ("ReduceLogSumExp", f32::NEG_INFINITY),
            ("ReduceL2", 0.0),
        ];
        for (op, expected) in table {
            nothing(op).gives_about(&[2], &[expected; 2]);
        }
        Trial::new("ReduceSum").ints("axes", &[1]).input::<f32>(&[0, 3], &[]).gives::<f32>(&[0, 1], &[]);
    }
}
