//! CenterCropPad: the middle of a tensor, with zeros around it where it is too small.

use kiln_kernels::memory;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::Tensor;

use super::{
    Cut, LoadCx, Movement, OpError, Operator, View, axes_of, dimensions, in_step, integers, rearrange, refused,
    required,
};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "CenterCropPad", make)];

struct CenterCropPad {
    axes: Option<Vec<i64>>,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(CenterCropPad { axes: cx.node.ints("axes").map(<[i64]>::to_vec) }))
}

/// The part of each axis that is read, and where it is written.
struct Middle {
    from: Vec<Cut>,
    to: Vec<Cut>,
    sizes: Vec<usize>,
}

impl CenterCropPad {
    fn middle(&self, inputs: &[Option<&Tensor>]) -> Result<Middle, NodeError> {
        let shape = required(inputs, 0)?.shape();
        let target = dimensions(&integers(required(inputs, 1)?)?)?;
        let all: Vec<i64> = (0..shape.len() as i64).collect();
        let axes = axes_of(self.axes.as_deref().unwrap_or(&all), shape.len())?;
        if axes.len() != target.len() {
            return Err(refused(format!("{} sizes for {} axes", target.len(), axes.len())));
        }
        let mut sizes = shape.to_vec();
        axes.iter().zip(&target).for_each(|(&axis, &size)| sizes[axis] = size);
        // Where an odd number of elements is dropped or added, one more is at the end.
        let part = |(&own, &other): (&usize, &usize)| Cut {
            start: own.saturating_sub(other) / 2,
            count: own.min(other),
            step: 1,
        };
        let from = shape.iter().zip(&sizes).map(part).collect();
        let to = sizes.iter().zip(shape).map(part).collect();
        Ok(Middle { from, to, sizes })
    }
}

struct Transfer {
    from: View,
    to: View,
}

impl Movement for Transfer {
    fn run<T: Clone>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        in_step([&self.from, &self.to], |_, [source, target]| {
            (0..source.count).for_each(|index| to[target.at(index)] = from[0][source.at(index)].clone());
        });
        Ok(())
    }
}

impl Node for CenterCropPad {
    fn family(&self) -> &'static str {
        "CenterCropPad"
    }

    fn value_inputs(&self) -> u64 {
        1 << 1
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let middle = self.middle(&io.inputs())?;
        let (input, mut output) = (io.input(0)?, io.alloc(0)?);
        // Zero is all bits clear; strings come empty.
        memory::fill(output.bytes_mut(), &0);
        let transfer =
            Transfer { from: View::cut(input.shape(), &middle.from), to: View::cut(&middle.sizes, &middle.to) };
        let output = rearrange(&transfer, &[input], output)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::{Trial, strings};

    #[test]
    fn the_middle_is_cut_or_surrounded() {
        let row = || Trial::new("CenterCropPad").input(&[1, 4], &[1u8, 2, 3, 4]);
        row().input(&[2], &[1i64, 2]).gives(&[1, 2], &[2u8, 3]);
        row().input(&[2], &[1i64, 1]).gives(&[1, 1], &[2u8]);
        row().input(&[2], &[2i64, 6]).gives(&[2, 6], &[0u8, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0]);
        row().ints("axes", &[-1]).input(&[1], &[7i64]).gives(&[1, 7], &[0u8, 1, 2, 3, 4, 0, 0]);
        row().input(&[2], &[0i64, 2]).gives::<u8>(&[0, 2], &[]);
        row().input(&[1], &[2i64]).is_refused("1 sizes for 2 axes");
        row().input(&[2], &[-1i64, 2]).is_refused("no dimension");
        let words = Trial::new("CenterCropPad").tensor(strings(&[1], &["a"])).input(&[1], &[2i64]);
        words.gives_strings(&[2], &["a", ""]);
    }
}
