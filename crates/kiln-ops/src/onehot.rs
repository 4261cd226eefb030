//! OneHot: an index becomes a row of the value for "off" with the one for "on" at its place.

use kiln_kernels::memory::{self, Collect, Pace};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::wide::{Width, widened};
use super::{Movement, Operator, around, axis_of, rearrange, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] =
    &[("", "OneHot", |cx| Ok(Box::new(OneHot { axis: cx.node.attributes().int("axis") })))];

struct OneHot {
    axis: i64,
}

/// The value for "off" everywhere, then the one for "on" at these places.
struct Mark(Vec<usize>);

impl Movement for Mark {
    fn run<T: Clone>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        memory::fill(to, &from[0][0]);
        let mut pace = Pace::default();
        for &place in &self.0 {
            pace.step(1);
            to[place] = from[0][1].clone();
        }
        Ok(())
    }
}

impl Node for OneHot {
    fn family(&self) -> &'static str {
        "OneHot"
    }

    fn value_inputs(&self) -> u64 {
        1 << 1
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        Width::of(required(inputs, 0)?.dtype())?;
        match required(inputs, 2)?.shape() {
            [2] => Ok(()),
            shape => Err(refused(format!("off and on must be two values, found shape {shape:?}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let output = io.alloc(0)?;
        let (_, depth, inner) = around(output.shape(), axis_of(self.axis, output.shape().len())?);
        let place = |(number, index): (usize, i64)| {
            let index = if index < 0 { index.saturating_add(depth as i64) } else { index };
            // An index that is out of range leaves its row at "off".
            let index = usize::try_from(index).ok().filter(|&index| index < depth)?;
            Some((number / inner * depth + index) * inner + number % inner)
        };
        let on = widened::<i64>(io.input(0)?)?.into_iter().enumerate().filter_map(place).collected();
        let output = rearrange(&Mark(on), &[io.input(2)?], output)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::{Trial, strings};

    #[test]
    fn one_element_of_each_line_is_on() {
        let row = |axis| Trial::new("OneHot").int("axis", axis).input(&[3], &[1i64, -1, 5]).input(&[], &[3i64]);
        row(-1).input(&[2], &[0u8, 9]).gives(&[3, 3], &[0u8, 9, 0, 0, 0, 9, 0, 0, 0]);
        row(0).input(&[2], &[0u8, 9]).gives(&[3, 3], &[0u8, 0, 0, 9, 0, 0, 0, 9, 0]);
        row(-1)
            .tensor(strings(&[2], &["-", "x"]))
            .gives_strings(&[3, 3], &["-", "x", "-", "-", "-", "x", "-", "-", "-"]);
        let float = Trial::new("OneHot").input(&[1], &[1f32]).input(&[1], &[2f32]);
        float.input(&[2], &[0i32, 1]).gives(&[1, 2], &[0, 1]);
    }

    #[test]
    fn broken_depths_and_values_are_refused() {
        let row = |depth: i64| Trial::new("OneHot").input(&[1], &[0i64]).input(&[], &[depth]);
        row(-1).input(&[2], &[0u8, 1]).is_refused("depth");
        row(i64::MAX).input(&[2], &[0f32, 1.0]).is_refused("too large");
        row(0).input(&[2], &[0u8, 1]).gives::<u8>(&[1, 0], &[]);
        row(2).input(&[1], &[0u8]).is_refused("two values");
    }
}
