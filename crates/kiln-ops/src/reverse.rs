//! ReverseSequence: the first steps of each batch in the opposite order.

use kiln_kernels::memory::{self, Pace};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::{Blocks, LoadCx, OpError, Operator, rearrange, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "ReverseSequence", make)];

struct ReverseSequence {
    /// Whether batches come before steps.
    batch_first: bool,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    match (cx.node.attributes().int("batch_axis"), cx.node.attributes().int("time_axis")) {
        (0, 1) => Ok(Box::new(ReverseSequence { batch_first: true })),
        (1, 0) => Ok(Box::new(ReverseSequence { batch_first: false })),
        (batch, time) => Err(OpError::invalid(cx.node, format!("batch_axis {batch} and time_axis {time}"))),
    }
}

impl Node for ReverseSequence {
    fn family(&self) -> &'static str {
        "ReverseSequence"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        match required(inputs, 0)?.shape() {
            [_, _, ..] => Ok(()),
            shape => Err(refused(format!("no batches of steps in shape {shape:?}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let input = io.input(0)?;
        let &[outer, middle, ..] = input.shape() else {
            return Err(refused("no batches of steps"));
        };
        let (batches, steps) = if self.batch_first { (outer, middle) } else { (middle, outer) };
        let lengths = io.input(1)?.to_i64_vec()?;
        let fits = |&length: &i64| usize::try_from(length).is_ok_and(|length| length <= steps);
        if lengths.len() != batches || !lengths.iter().all(fits) {
            return Err(refused(format!("lengths {lengths:?} for {batches} batches of {steps} steps")));
        }
        let size = if input.is_empty() { 0 } else { outer * middle };
        let mut places = memory::with_capacity(size);
        let mut pace = Pace::default();
        for block in 0..size {
            pace.step(2);
            let (first, second) = (block / middle, block % middle);
            let (batch, step) = if self.batch_first { (first, second) } else { (second, first) };
            let length = lengths[batch] as usize;
            let step = if step < length { length - 1 - step } else { step };
            places.push(if self.batch_first { batch * middle + step } else { step * middle + batch });
        }
        let blocks = Blocks { places, size, inner: input.shape()[2..].iter().product() };
        let output = rearrange(&blocks.copied(cx.parallel), &[input], io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn the_first_steps_of_each_batch_turn_round() {
        let time_first = Trial::new("ReverseSequence").input(&[3, 2], &[0i32, 1, 2, 3, 4, 5]);
        time_first.input(&[2], &[3i64, 2]).gives(&[3, 2], &[4, 3, 2, 1, 0, 5]);
        let row = || Trial::new("ReverseSequence").int("batch_axis", 0).int("time_axis", 1);
        row().input(&[1, 3, 2], &[0i32, 1, 2, 3, 4, 5]).input(&[1], &[2i64]).gives(&[1, 3, 2], &[2, 3, 0, 1, 4, 5]);
        row().input(&[1, 2], &[0i32, 1]).input(&[1], &[3i64]).is_refused("lengths");
        row().input(&[1, 2], &[0i32, 1]).input(&[1], &[-1i64]).is_refused("lengths");
        row().input(&[2], &[0i32, 1]).input(&[1], &[1i64]).is_refused("no batches");
        row().input::<i32>(&[1, 2, 0], &[]).input(&[1], &[1i64]).gives::<i32>(&[1, 2, 0], &[]);
        row().int("time_axis", 2).is_refused("time_axis 2");
    }
}
