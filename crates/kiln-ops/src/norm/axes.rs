//! MeanVarianceNormalization and LpNormalization: a reduction over any axes, whose result changes every element.
//!
//! These operators are rare, so they are made of [reductions](kiln_run::exec::reduce) and one loop over the elements
//! instead of kernels of their own.

use std::sync::Arc;

use kiln_kernels::cpu::reduce::{Reduce, Reduction};
use kiln_kernels::memory::{self, Pace};
use kiln_run::exec::reduce::{ReduceKey, ReduceProblem};
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{Shape, Tensor, TensorSpec};

use super::floats;
use crate::{Axes, LoadCx, OpError, View, axes_of, required};

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

    /// Changes every element by the result of its reduction.
    fn apply(
        &self,
        shape: &[usize],
        reduced: &[f32],
        from: &[f32],
        to: &mut [f32],
        change: impl Fn(f32, f32) -> f32,
    ) -> Result<(), NodeError> {
        let (kept, _) = self.kept(shape)?;
        let view = View::broadcast(&kept, shape)?;
        let mut cursor = view.cursor();
        let (mut from, mut to) = (from, to);
        let mut pace = Pace::default();
        while let Some(run) = cursor.next(Pace::UNITS) {
            pace.step(run.count);
            let (here, rest) = from.split_at(run.count);
            let (there, later) = to.split_at_mut(run.count);
            for (index, (to, &x)) in there.iter_mut().zip(here).enumerate() {
                *to = change(x, reduced[run.at(index)]);
            }
            (from, to) = (rest, later);
        }
        Ok(())
    }
}

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
            self.apply(shape, means.as_slice()?, values, to, |x, mean| x - mean)?;
            let norms = reduced(norm, to, count, cx)?;
            let root = (each as f32).sqrt();
            let centred = memory::copied(to);
            self.apply(shape, norms.as_slice()?, &centred, to, |x, norm| x / (norm / root + DEVIATION_EPSILON))?;
        } else {
            let norms = reduced(norm, values, count, cx)?;
            // Zeros stay zeros.
            let divided = |x: f32, norm: f32| if norm == 0.0 { 0.0 } else { x / norm };
            self.apply(shape, norms.as_slice()?, values, output.as_mut_slice()?, divided)?;
        }
        io.push(output);
        Ok(())
    }
}
