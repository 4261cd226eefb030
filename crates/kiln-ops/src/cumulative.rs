//! Running sums and products along an axis: CumSum, CumProd.

use kiln_kernels::memory::{self, Pace};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::generic::{Arithmetic, Binary, compute};
use super::wide::{Width, narrow, widened};
use super::{LoadCx, OpError, Operator, around, axis_of, integer, required};

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

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        let axis = axis_of(integer(io.input(1)?)?, input.shape().len())?;
        let output = compute!(input.dtype(), accumulate(self, input, axis, to))?;
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
