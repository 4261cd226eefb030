//! UnfoldTensor: all slices of a size along an axis, each as a new last axis.

use kiln_kernels::memory::Pace;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};

use super::{LoadCx, Movement, OpError, Operator, axis_of, rearrange, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("com.microsoft", "UnfoldTensor", make)];

struct Unfold {
    axis: i64,
    /// Elements of a slice.
    size: usize,
    /// Elements from one slice to the next.
    step: usize,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let (size, step) = (size_attribute(cx.node, "size", 0)?, size_attribute(cx.node, "step", 1)?);
    Ok(Box::new(Unfold { axis: cx.node.attributes().int("dim"), size, step }))
}

/// Slices of a tensor [before, length, behind] as [before, slices, behind, size].
struct Slices {
    length: usize,
    behind: usize,
    size: usize,
    step: usize,
}

impl Movement for Slices {
    fn run<T: Clone + Send + Sync>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        // Each axis has elements where the result has any.
        let slices = (self.length - self.size) / self.step + 1;
        let mut pace = Pace::default();
        for (number, to) in to.chunks_exact_mut(self.behind * self.size).enumerate() {
            let first = (number / slices * self.length + number % slices * self.step) * self.behind;
            for (column, to) in to.chunks_exact_mut(self.size).enumerate() {
                pace.step(self.size);
                let line = from[0][first + column..].iter().step_by(self.behind);
                to.iter_mut().zip(line).for_each(|(to, from)| to.clone_from(from));
            }
        }
        Ok(())
    }
}

impl Node for Unfold {
    fn family(&self) -> &'static str {
        "UnfoldTensor"
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        let shape = input.shape();
        let axis = axis_of(self.axis, shape.len())?;
        let behind = shape[axis + 1..].iter().product();
        let slices = Slices { length: shape[axis], behind, size: self.size, step: self.step };
        let output = rearrange(&slices, &[input], to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::{Trial, strings};

    fn unfold(size: i64) -> Trial {
        Trial::new("UnfoldTensor").int("size", size)
    }

    #[test]
    fn slices_become_a_last_axis() {
        unfold(3)
            .int("step", 2)
            .input(&[6], &[0f32, 1.0, 2.0, 3.0, 4.0, 5.0])
            .gives(&[2, 3], &[0f32, 1.0, 2.0, 2.0, 3.0, 4.0]);
        let table = [0i64, 1, 2, 3, 4, 5];
        unfold(2).int("dim", 0).input(&[3, 2], &table).gives(&[2, 2, 2], &[0i64, 2, 1, 3, 2, 4, 3, 5]);
        unfold(1).input(&[1, 2, 3], &table).gives(&[1, 2, 3, 1], &table);
        unfold(2).tensor(strings(&[3], &["a", "b", "c"])).gives_strings(&[2, 2], &["a", "b", "b", "c"]);
        unfold(0).input(&[2], &[0u8; 2]).gives::<u8>(&[3, 0], &[]);
        unfold(2).input::<u8>(&[0, 2], &[]).gives::<u8>(&[0, 1, 2], &[]);
        unfold(2).int("dim", 0).input::<u8>(&[3, 0], &[]).gives::<u8>(&[2, 0, 2], &[]);
    }

    #[test]
    fn slices_that_do_not_fit_are_refused() {
        unfold(4).input(&[3], &[0u8; 3]).is_refused("4 elements");
        unfold(1).input(&[], &[0u8]).is_refused("axis -1");
        unfold(1).int("dim", 2).input(&[3], &[0u8; 3]).is_refused("axis 2");
        unfold(-1).input(&[3], &[0u8; 3]).is_refused("size = -1");
        unfold(1).int("step", 0).input(&[3], &[0u8; 3]).is_refused("step = 0");
    }
}
