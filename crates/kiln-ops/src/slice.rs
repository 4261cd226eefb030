//! Slice: parts of axes, with steps of either sign; bounds as attributes (operator set 9 and before) or as inputs.
//!
//! The bounds are resolved when shapes or bounds change; a run is then one copy through a [`View`].

use std::sync::Arc;

use kiln_model::operators::shapes;
use kiln_run::DeviceCx;
use kiln_run::device::Operand;
use kiln_run::node::PrepareCx;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::{Cut, LoadCx, OpError, Operator, View, Viewed, axes_of, integers, optional, rearrange, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "Slice", make)];

/// The bounds of the attribute form; without them they are inputs 1 to 4.
struct Slice {
    fixed: Option<Bounds>,
}

#[derive(Clone)]
struct Bounds {
    starts: Vec<i64>,
    ends: Vec<i64>,
    axes: Option<Vec<i64>>,
    steps: Option<Vec<i64>>,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let list = |name| cx.node.ints(name).map(<[i64]>::to_vec);
    let fixed = match (list("starts"), list("ends")) {
        (Some(starts), Some(ends)) => Some(Bounds { starts, ends, axes: list("axes"), steps: None }),
        (None, None) => None,
        _ => return Err(OpError::invalid(cx.node, "starts and ends go together")),
    };
    Ok(Box::new(Slice { fixed }))
}

impl Slice {
    fn cuts(&self, inputs: &[Option<&Tensor>]) -> Result<Vec<Cut>, NodeError> {
        let shape = required(inputs, 0)?.shape();
        if let Some(bounds) = &self.fixed {
            return bounds.cuts(shape);
        }
        let list = |index| optional(inputs, index).map(integers).transpose();
        let (starts, ends) = (integers(required(inputs, 1)?)?, integers(required(inputs, 2)?)?);
        Bounds { starts, ends, axes: list(3)?, steps: list(4)? }.cuts(shape)
    }
}

impl Bounds {
    fn cuts(&self, shape: &[usize]) -> Result<Vec<Cut>, NodeError> {
        let count = self.starts.len();
        let in_order: Vec<i64> = (0..count as i64).collect();
        let given = self.axes.as_deref().unwrap_or(&in_order);
        let axes = axes_of(given, shape.len())?;
        if self.ends.len() != count || axes.len() != count || self.steps.as_ref().is_some_and(|s| s.len() != count) {
            return Err(refused("starts, ends, axes and steps differ in length"));
        }
        let mut cuts: Vec<Cut> = shape.iter().map(|&count| Cut { start: 0, count, step: 1 }).collect();
        for (i, axis) in axes.into_iter().enumerate() {
            let step = self.steps.as_ref().map_or(1, |steps| steps[i]);
            cuts[axis] = cut(self.starts[i], self.ends[i], step, shape[axis])?;
        }
        Ok(cuts)
    }
}

/// The part that is taken of an axis of `dim` elements.
fn cut(start: i64, end: i64, step: i64, dim: usize) -> Result<Cut, NodeError> {
    // A dimension is at most `isize::MAX`, so it fits.
    let (start, count) = shapes::cut(start, end, step, dim as i64).ok_or_else(|| refused("a step of zero"))?;
    // With fewer than two elements the step is never taken, and may be too long to be multiplied by a stride.
    let step = if count < 2 { 1 } else { step as isize };
    Ok(Cut { start: start as usize, count: count as usize, step })
}

impl Node for Slice {
    fn family(&self) -> &'static str {
        "Slice"
    }

    fn value_inputs(&self) -> u64 {
        if self.fixed.is_some() { 0 } else { 0b11110 }
    }

    fn prepare_params(
        &self,
        _: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        Ok(Prepared::new(Arc::new(View::cut(required(inputs, 0)?.shape(), &self.cuts(inputs)?))))
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        let view = View::cut(input.shape(), &self.cuts(inputs)?);
        if view.is_whole() && input.spec() == &outputs[0] {
            cx.view(0, 0);
            return Ok(());
        }
        cx.kernel(view.copying(input.dtype().size())?, &[Some(Operand::Input(0))], Operand::Output(0))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let output = if io.input(0)?.spec() == io.spec(0) && prepared.get::<View>()?.is_whole() {
            io.take(0)?
        } else {
            rearrange(&Viewed { view: prepared.get()?, parallel: cx.parallel }, &[io.input(0)?], io.alloc(0)?)?
        };
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, strings};

    fn ramp(shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        Tensor::from_vec(shape.iter().copied(), (0..count as i32).collect()).unwrap()
    }

    fn slice(shape: &[usize], bounds: [&[i64]; 4]) -> Trial {
        let trial = Trial::new("Slice").tensor(ramp(shape));
        bounds.into_iter().fold(trial, |trial, list| trial.input(&[list.len()], list))
    }

    #[test]
    fn one_axis_is_cut_as_numpy_cuts_it() {
        const MAX: i64 = i64::MAX;
        const MIN: i64 = i64::MIN;
        let cases: &[(i64, i64, i64, &[i32])] = &[
            (1, 4, 1, &[1, 2, 3]),
            (0, MAX, 2, &[0, 2, 4]),
            (-2, MAX, 1, &[3, 4]),
            (0, -1, 1, &[0, 1, 2, 3]),
            (3, 1, 1, &[]),
            (7, 9, 1, &[]),
            (MAX, MIN, -1, &[4, 3, 2, 1, 0]),
            (-1, -6, -1, &[4, 3, 2, 1, 0]),
            (-1, -5, -2, &[4, 2]),
            // ONNX Runtime's open end, also backwards.
            (-1, MAX, -1, &[4, 3, 2, 1, 0]),
            (3, i32::MAX as i64, -2, &[3, 1]),
            (3, 0, -1, &[3, 2, 1]),
            (0, 3, -1, &[]),
            (MIN, MAX, MAX, &[0]),
            (MAX, MIN, MIN, &[4]),
            (MIN, MIN, 1, &[]),
        ];
        for &(start, end, step, expected) in cases {
            slice(&[5], [&[start], &[end], &[0], &[step]]).gives(&[expected.len()], expected);
        }
        slice(&[0], [&[0], &[MAX], &[0], &[1]]).gives::<i32>(&[0], &[]);
        slice(&[0], [&[MAX], &[MIN], &[0], &[-1]]).gives::<i32>(&[0], &[]);
    }

    #[test]
    fn several_axes_are_cut_at_once() {
        slice(&[2, 3], [&[0, -1], &[9, -9], &[0, 1], &[1, -2]]).gives(&[2, 2], &[2, 0, 5, 3]);
        slice(&[2, 2, 2], [&[1], &[2], &[-2], &[1]]).gives(&[2, 1, 2], &[2, 3, 6, 7]);
        let attributes = Trial::new("Slice").version(9).ints("starts", &[1]).ints("ends", &[1000]);
        attributes.tensor(ramp(&[2, 2])).gives(&[1, 2], &[2, 3]);
        let words = Trial::new("Slice").tensor(strings(&[3], &["a", "b", "c"]));
        words.input(&[1], &[1i32]).input(&[1], &[3i32]).gives_strings(&[2], &["b", "c"]);
    }

    #[test]
    fn a_slice_of_everything_copies_nothing() {
        let input = ramp(&[2, 3]);
        let trial = Trial::new("Slice").tensor(input.clone()).input(&[1], &[0i64]).input(&[1], &[i64::MAX]);
        assert!(trial.run().unwrap()[0].shares_bytes(&input));
        slice(&[3], [&[2], &[-4], &[0], &[-1]]).gives(&[3], &[2, 1, 0]);
    }

    #[test]
    fn broken_bounds_are_refused() {
        slice(&[5], [&[0], &[1], &[0], &[0]]).is_refused("step of zero");
        slice(&[5], [&[0], &[1], &[1], &[1]]).is_refused("axis 1");
        slice(&[5], [&[0, 0], &[1], &[0], &[1]]).is_refused("differ");
        slice(&[5, 5], [&[0, 0], &[1, 1], &[0, -2], &[1, 1]]).is_refused("twice");
        Trial::new("Slice").ints("starts", &[0]).tensor(ramp(&[2])).is_refused("together");
    }
}
