//! Running sums and products along an axis: CumSum, CumProd.

use std::ops::{Add, Mul};

use kiln_kernels::Parallel;
use kiln_kernels::cpu::running::{Runner, Running};
use kiln_kernels::memory::{self, Pace};
use kiln_kernels::parallel::for_each_chunk;
use kiln_run::exec::running::RunningProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Element, Tensor, TensorSpec};

use super::generic::{Arithmetic, Binary, compute};
use super::wide::{Width, narrow, widened};
use super::{LoadCx, OpError, Operator, around, axis_of, integer, required, task_count};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] =
    &[("", "CumSum", |cx| make(cx, Binary::Add, 0)), ("", "CumProd", |cx| make(cx, Binary::Mul, 1))];

struct Cumulative {
    step: Binary,
    /// The value before the first element.
    start: i64,
    /// Without the element itself.
    exclusive: bool,
    reverse: bool,
}

fn make(cx: &LoadCx<'_>, step: Binary, start: i64) -> Result<Box<dyn Node>, OpError> {
    let (exclusive, reverse) = (cx.node.attributes().int("exclusive") != 0, cx.node.attributes().int("reverse") != 0);
    Ok(Box::new(Cumulative { step, start, exclusive, reverse }))
}

/// Elements that are added and multiplied as they are; integers wrap.
trait Steps: Element + Send + Sync {
    type Sum: Copy + Send + Sync;

    fn start(value: i64) -> Self::Sum;
    fn add(sum: Self::Sum, value: Self) -> Self::Sum;
    fn multiply(sum: Self::Sum, value: Self) -> Self::Sum;
    fn value(sum: Self::Sum) -> Self;
}

macro_rules! running {
    ($($element:ty: $sum:ty, $add:expr, $multiply:expr;)*) => {$(
        impl Steps for $element {
            type Sum = $sum;

            fn start(value: i64) -> $sum {
                value as $sum
            }

            fn add(sum: $sum, value: $element) -> $sum {
                $add(sum, value as $sum)
            }

            fn multiply(sum: $sum, value: $element) -> $sum {
                $multiply(sum, value as $sum)
            }

            fn value(sum: $sum) -> $element {
                sum as $element
            }
        }
    )*};
}

running! {
    f64: f64, Add::add, Mul::mul;
    i32: i32, i32::wrapping_add, i32::wrapping_mul;
    i64: i64, i64::wrapping_add, i64::wrapping_mul;
}

/// Steps along the axis between two looks at whether the request has ended.
const STEPS: usize = 1 << 14;

impl Cumulative {
    /// Writes the running values of a tensor, on all threads: each takes some blocks of the axis and what is behind it.
    fn run<T: Steps>(
        &self,
        input: &Tensor,
        axis: usize,
        mut to: Tensor,
        parallel: &dyn Parallel,
    ) -> Result<Tensor, NodeError> {
        let (_, count, inner) = around(input.shape(), axis);
        let from = input.as_slice::<T>()?;
        let block = (count * inner).max(1);
        let blocks = from.len() / block;
        let each = blocks.div_ceil(task_count(from.len().saturating_mul(RUNNING), parallel)).max(1) * block;
        for_each_chunk(parallel, to.as_mut_slice()?, each, &|index, to| {
            let from = &from[index * each..][..to.len()];
            let mut sums = memory::filled(T::start(self.start), inner);
            for (from, to) in from.chunks_exact(block).zip(to.chunks_exact_mut(block)) {
                sums.fill(T::start(self.start));
                match self.step {
                    Binary::Mul => self.block(from, to, &mut sums, T::multiply),
                    _ => self.block(from, to, &mut sums, T::add),
                }
            }
        });
        Ok(to)
    }

    /// One block: `sums` are the values before the first step, one for each place behind the axis.
    #[inline(always)]
    fn block<T: Steps>(&self, from: &[T], to: &mut [T], sums: &mut [T::Sum], step: fn(T::Sum, T) -> T::Sum) {
        let inner = sums.len();
        let lines = || from.chunks_exact(inner);
        let mut pace = Pace::default();
        let mut line = |(from, to): (&[T], &mut [T])| {
            pace.step(1 + inner);
            for ((sum, &from), to) in sums.iter_mut().zip(from).zip(to) {
                let before = *sum;
                *sum = step(before, from);
                *to = T::value(if self.exclusive { before } else { *sum });
            }
        };
        match (self.reverse, inner) {
            (false, 1) => scan(from.iter().zip(to), sums[0], self.exclusive, step),
            (true, 1) => scan(from.iter().zip(to).rev(), sums[0], self.exclusive, step),
            (false, _) => lines().zip(to.chunks_exact_mut(inner)).for_each(line),
            (true, _) => lines().zip(to.chunks_exact_mut(inner)).rev().for_each(&mut line),
        }
    }
}

/// One line of running values.
#[inline(always)]
fn scan<'a, T: Steps>(
    line: impl Iterator<Item = (&'a T, &'a mut T)>,
    mut sum: T::Sum,
    exclusive: bool,
    step: fn(T::Sum, T) -> T::Sum,
) {
    let mut pace = Pace::default();
    for (at, (&from, to)) in line.enumerate() {
        if at % STEPS == 0 {
            pace.step(STEPS);
        }
        let before = sum;
        sum = step(before, from);
        *to = T::value(if exclusive { before } else { sum });
    }
}

/// An element takes as long as moving this many bytes.
const RUNNING: usize = 24;

/// As [`Cumulative::run`], for elements that are widened first.
fn accumulate<W: Arithmetic>(node: &Cumulative, input: &Tensor, axis: usize, to: Tensor) -> Result<Tensor, NodeError> {
    let mut values = widened::<W>(input)?;
    let (_, count, inner) = around(input.shape(), axis);
    let start = widened::<W>(&Tensor::scalar(node.start))?[0];
    let mut sum = memory::filled(start, inner);
    let mut pace = Pace::default();
    // Nothing to do where there are no elements, and chunks of none do not exist.
    for block in values.chunks_exact_mut((count * inner).max(1)) {
        sum.fill(start);
        for step in 0..count {
            pace.step(1 + inner);
            let place = if node.reverse { count - 1 - step } else { step };
            let line = &mut block[place * inner..][..inner];
            if node.exclusive {
                let before = memory::copied(&sum);
                W::long_binary(node.step, &mut sum, line)?;
                line.copy_from_slice(&before);
            } else {
                W::long_binary(node.step, &mut sum, line)?;
                line.copy_from_slice(&sum);
            }
        }
    }
    narrow(&values, to)
}

impl Node for Cumulative {
    fn family(&self) -> &'static str {
        if self.step == Binary::Add { "CumSum" } else { "CumProd" }
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        Width::of(required(inputs, 0)?.dtype()).map(drop)
    }

    fn value_inputs(&self) -> u64 {
        1 << 1
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
        let axis = axis_of(integer(required(inputs, 1)?)?, input.shape().len())?;
        let (outer, length, inner) = around(input.shape(), axis);
        let [outer, length, inner] = [outer, length, inner].map(|size| size as u64);
        let (product, exclusive, reverse) = (self.step == Binary::Mul, self.exclusive, self.reverse);
        let running = Running { outer, length, inner, product, exclusive, reverse };
        Ok(Prepared::new(cx.executor(&cx.key(RunningProblem { running }))?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, mut to) = (io.input(0)?, io.alloc(0)?);
        if input.dtype() == DType::F32 {
            prepared.get::<Runner>()?.run(input.as_slice()?, to.as_mut_slice()?, cx.parallel)?;
            io.push(to);
            return Ok(());
        }
        let axis = axis_of(integer(io.input(1)?)?, input.shape().len())?;
        let output = match input.dtype() {
            DType::F64 => self.run::<f64>(input, axis, to, cx.parallel)?,
            DType::I32 => self.run::<i32>(input, axis, to, cx.parallel)?,
            DType::I64 => self.run::<i64>(input, axis, to, cx.parallel)?,
            other => compute!(other, accumulate(self, input, axis, to))?,
        };
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn sums_run_in_either_direction_with_or_without_the_element() {
        let row = || Trial::new("CumSum").input(&[3], &[1i32, 2, 3]).input(&[], &[0i64]);
        row().gives(&[3], &[1, 3, 6]);
        row().int("exclusive", 1).gives(&[3], &[0, 1, 3]);
        row().int("reverse", 1).gives(&[3], &[6, 5, 3]);
        row().int("reverse", 1).int("exclusive", 1).gives(&[3], &[5, 3, 0]);
        let cube = || Trial::new("CumSum").input(&[2, 2], &[1f64, 2.0, 3.0, 4.0]);
        cube().input(&[], &[0i32]).gives(&[2, 2], &[1f64, 2.0, 4.0, 6.0]);
        cube().input(&[1], &[-1i32]).gives(&[2, 2], &[1f64, 3.0, 3.0, 7.0]);
        cube().input(&[], &[2i32]).is_refused("axis 2");
        Trial::new("CumSum").input::<f32>(&[2, 0], &[]).input(&[], &[0i32]).gives::<f32>(&[2, 0], &[]);
    }

    #[test]
    fn products_start_at_one() {
        let row = || Trial::new("CumProd").input(&[3], &[2f32, 3.0, 4.0]).input(&[], &[0i64]);
        row().gives(&[3], &[2f32, 6.0, 24.0]);
        row().int("exclusive", 1).gives(&[3], &[1f32, 2.0, 6.0]);
    }
}
