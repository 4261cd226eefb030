//! MeanVarianceNormalization and LpNormalization: a reduction over any axes, whose result changes every element.
//!
//! These operators are rare, so they are made of [reductions](kiln_run::exec::reduce) and one loop over the elements
//! instead of kernels of their own.

use std::sync::Arc;

use kiln_kernels::Parallel;
use kiln_kernels::cpu::reduce::{Reduce, Reduction};
use kiln_kernels::memory::{self, Pace};
use kiln_kernels::parallel::for_each_chunk;
use kiln_run::exec::reduce::{ReduceKey, ReduceProblem};
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{Shape, Tensor, TensorSpec};

use super::floats;
use crate::tasks::task_count;
use crate::{Axes, LoadCx, OpError, axes_of, required};

pub(super) enum Form {
    MeanVariance,
    Lp(Reduction),
}

pub(super) struct OverAxes {
    pub(super) form: Form,
    axes: Vec<i64>,
}

/// The summand of a standard deviation: part of the operator's definition.
pub(super) const DEVIATION_EPSILON: f32 = 1e-9;

pub(super) fn mean_variance(cx: &LoadCx<'_>) -> Result<OverAxes, OpError> {
    let axes = cx.node.ints("axes").map_or_else(|| vec![0, 2, 3], <[i64]>::to_vec);
    Ok(OverAxes { form: Form::MeanVariance, axes })
}

pub(super) fn lp(cx: &LoadCx<'_>) -> Result<OverAxes, OpError> {
    let norm = match cx.node.attributes().int("p") {
        1 => Reduction::L1,
        2 => Reduction::L2,
        p => return Err(OpError::invalid(cx.node, format!("p = {p}"))),
    };
    Ok(OverAxes { form: Form::Lp(norm), axes: vec![cx.node.attributes().int("axis")] })
}

struct Executors {
    /// The reduction to means; absent where no mean is subtracted.
    mean: Option<Arc<Reduce>>,
    norm: Arc<Reduce>,
}

impl OverAxes {
    pub(super) fn axes(&self, shape: &[usize]) -> Result<Axes, NodeError> {
        axes_of(&self.axes, shape.len())
    }

    fn key(&self, reduction: Reduction, shape: &[usize], cx: &PrepareCx<'_>) -> Result<ReduceKey, NodeError> {
        let axes = self.axes(shape)?;
        Ok(cx.key(ReduceProblem::new(reduction, shape, |axis| axes.contains(&axis))))
    }

    /// The shape after the reduction, and its number of elements.
    pub(super) fn kept(&self, shape: &[usize]) -> Result<(Shape, usize), NodeError> {
        let axes = self.axes(shape)?;
        let kept: Shape =
            shape.iter().enumerate().map(|(axis, &dim)| if axes.contains(&axis) { 1 } else { dim }).collect();
        let count = kept.iter().product();
        Ok((kept, count))
    }

    /// Changes every element by the result of its reduction, on all threads.
    fn apply(
        &self,
        shape: &[usize],
        reduced: &[f32],
        from: &[f32],
        to: &mut [f32],
        parallel: &dyn Parallel,
        change: impl Fn(f32, f32) -> f32 + Sync,
    ) -> Result<(), NodeError> {
        let axes = self.axes(shape)?;
        let is_reduced = |axis: &usize| axes.contains(axis);
        // Blocks of rows: all rows of a block are changed by the same results.
        let behind = (0..shape.len()).rev().find(is_reduced).map_or(0, |axis| axis + 1);
        let first = (0..behind).rev().take_while(is_reduced).last().unwrap_or(0);
        let (rows, inner) = (shape[first..behind].iter().product::<usize>(), shape[behind..].iter().product::<usize>());
        let outer_is_kept = !(0..first).any(|axis| is_reduced(&axis));
        let results_of = |mut block: usize| {
            if outer_is_kept {
                return block * inner;
            }
            let (mut at, mut stride) = (0, inner);
            for axis in (0..first).rev() {
                let place = block % shape[axis];
                block /= shape[axis];
                if !is_reduced(&axis) {
                    at += place * stride;
                    stride *= shape[axis];
                }
            }
            at
        };
        let total = from.len() / inner;
        let each = total.div_ceil(task_count(from.len().saturating_mul(CHANGED), parallel));
        for_each_chunk(parallel, to, each * inner, &|index, mut to| {
            let mut row = index * each;
            let mut from = &from[row * inner..][..to.len()];
            let mut pace = Pace::default();
            while !from.is_empty() {
                let results = &reduced[results_of(row / rows)..][..inner];
                let count = (rows - row % rows).min((Pace::UNITS / inner).max(1)).min(from.len() / inner);
                pace.step(count * inner);
                let (here, rest) = from.split_at(count * inner);
                let (there, later) = std::mem::take(&mut to).split_at_mut(count * inner);
                if let &[result] = results {
                    there.iter_mut().zip(here).for_each(|(to, &x)| *to = change(x, result));
                } else {
                    for (to, from) in there.chunks_exact_mut(inner).zip(here.chunks_exact(inner)) {
                        to.iter_mut().zip(from).zip(results).for_each(|((to, &x), &result)| *to = change(x, result));
                    }
                }
                (from, to, row) = (rest, later, row + count);
            }
        });
        Ok(())
    }
}

/// Changing an element takes as long as moving this many bytes.
const CHANGED: usize = 8;

/// Runs a reduction whose results are read once.
fn reduced(executor: &Reduce, input: &[f32], count: usize, cx: &RunCx<'_>) -> Result<Tensor, NodeError> {
    let (mut output, mut scratch) = (cx.scratch::<f32>(count)?, cx.scratch::<f32>(executor.scratch_len())?);
    executor.run(input, output.as_mut_slice()?, scratch.as_mut_slice()?, cx.parallel)?;
    Ok(output)
}

impl Node for OverAxes {
    fn family(&self) -> &'static str {
        "norm"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.axes(floats(inputs, 0)?.shape()).map(drop)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let shape = required(inputs, 0)?.shape();
        let executor = |reduction| cx.executor(&self.key(reduction, shape, cx)?);
        Ok(Prepared::new(Arc::new(match self.form {
            Form::MeanVariance => Executors { mean: Some(executor(Reduction::Mean)?), norm: executor(Reduction::L2)? },
            Form::Lp(norm) => Executors { mean: None, norm: executor(norm)? },
        })))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let Executors { mean, norm } = prepared.get::<Executors>()?;
        let mut output = io.alloc(0)?;
        if output.is_empty() {
            io.push(output);
            return Ok(());
        }
        let input = io.input(0)?;
        let (shape, values) = (input.shape(), input.as_slice::<f32>()?);
        let each: usize = self.axes(shape)?.iter().map(|&axis| shape[axis]).product();
        let count = values.len() / each.max(1);
        if let Some(mean) = mean {
            let means = reduced(mean, values, count, cx)?;
            let to = output.as_mut_slice()?;
            self.apply(shape, means.as_slice()?, values, to, cx.parallel, |x, mean| x - mean)?;
            let norms = reduced(norm, to, count, cx)?;
            let root = (each as f32).sqrt();
            let centred = memory::copied(to);
            let scaled = |x: f32, norm: f32| x / (norm / root + DEVIATION_EPSILON);
            self.apply(shape, norms.as_slice()?, &centred, to, cx.parallel, scaled)?;
        } else {
            let norms = reduced(norm, values, count, cx)?;
            // Zeros stay zeros.
            let divided = |x: f32, norm: f32| if norm == 0.0 { 0.0 } else { x / norm };
            self.apply(shape, norms.as_slice()?, values, output.as_mut_slice()?, cx.parallel, divided)?;
        }
        io.push(output);
        Ok(())
    }
}
