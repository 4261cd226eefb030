//! Softmax and LogSoftmax.
//!
//! Before version 13 the axis split the tensor into a matrix whose rows sum to one; since then only the axis itself
//! does. Both are an array around an axis to [`exec::softmax`](crate::exec::softmax).

use kiln_kernels::cpu::softmax::Softmax as Executor;

use super::convert::through_f32;
use super::{LoadCx, OpError, Operator, around, axis_of, required};
use crate::exec::softmax::SoftmaxKey;
use crate::graph::node::Specs;
use crate::graph::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use crate::tensor::{DType, Tensor, TensorError, TensorSpec};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "Softmax", |cx| through_f32(cx, |cx| make(cx, false))),
    ("", "LogSoftmax", |cx| through_f32(cx, |cx| make(cx, true))),
];

struct Softmax {
    axis: i64,
    /// Whether all axes from `axis` on are one.
    flat: bool,
    logarithm: bool,
}

fn make(cx: &LoadCx<'_>, logarithm: bool) -> Result<Box<dyn Node>, OpError> {
    let flat = cx.node.version < 13;
    Ok(Box::new(Softmax { axis: cx.node.int("axis", if flat { 1 } else { -1 }), flat, logarithm }))
}

impl Softmax {
    fn around(&self, shape: &[usize]) -> Result<(usize, usize, usize), NodeError> {
        // A vector has no axis 1, which is the old default: it is a matrix of one column.
        if self.flat && usize::try_from(self.axis) == Ok(shape.len()) {
            return Ok((shape.iter().product(), 1, 1));
        }
        let axis = axis_of(self.axis, shape.len())?;
        let (outer, length, inner) = around(shape, axis);
        Ok(if self.flat { (outer, length * inner, 1) } else { (outer, length, inner) })
    }
}

impl Node for Softmax {
    fn family(&self) -> &'static str {
        "softmax"
    }

    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let input = required(inputs, 0)?;
        if input.dtype() != DType::F32 {
            return Err(TensorError::Type { expected: DType::F32, found: input.dtype() }.into());
        }
        self.around(input.shape())?;
        Ok(Specs::from_elem(input.spec().clone(), 1))
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let (outer, length, inner) = self.around(required(inputs, 0)?.shape())?;
        let key = SoftmaxKey {
            outer: outer as u64,
            length: length as u64,
            inner: inner as u64,
            logarithm: self.logarithm,
            isa: cx.isa(),
            threads: u32::try_from(cx.threads()).unwrap_or(u32::MAX),
        };
        Ok(Prepared::new(cx.executor(&key)?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let executor = prepared.get::<Executor>()?;
        // The input's memory becomes the output's where nobody else needs it.
        let output = if io.can_reuse(0, 0) {
            let mut data = io.take(0)?;
            executor.run_in_place(data.as_mut_slice()?, cx.parallel)?;
            data
        } else {
            let mut output = io.alloc(0)?;
            executor.run(io.input(0)?.as_slice()?, output.as_mut_slice()?, cx.parallel)?;
            output
        };
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::trial::Trial;

    #[test]
    fn the_axis_alone_sums_to_one_since_version_13() {
        let cube = |op| Trial::new(op).input(&[2, 2, 2], &[0f32; 8]);
        cube("Softmax").gives_about(&[2, 2, 2], &[0.5; 8]);
        cube("LogSoftmax").int("axis", 1).gives_about(&[2, 2, 2], &[-std::f32::consts::LN_2; 8]);
        cube("Softmax").int("axis", -3).gives_about(&[2, 2, 2], &[0.5; 8]);
        cube("Softmax").int("axis", 3).is_refused("axis 3");
        let e = std::f32::consts::E;
        let columns = Trial::new("Softmax").int("axis", 0).input(&[2, 2], &[0f32, 5.0, 1.0, 5.0]);
        columns.gives_about(&[2, 2], &[1.0 / (1.0 + e), 0.5, e / (1.0 + e), 0.5]);
    }

    #[test]
    fn all_axes_from_the_given_one_on_sum_to_one_before_version_13() {
        let cube = || Trial::new("Softmax").version(11).input(&[2, 2, 2], &[0f32; 8]);
        cube().gives_about(&[2, 2, 2], &[0.25; 8]);
        cube().int("axis", 0).gives_about(&[2, 2, 2], &[0.125; 8]);
        cube().int("axis", -1).gives_about(&[2, 2, 2], &[0.5; 8]);
        Trial::new("Softmax").version(9).input(&[2], &[0f32, 1.0]).gives_about(&[2], &[1.0; 2]);
    }

    #[test]
    fn empty_tensors_and_large_numbers_pass_and_other_types_are_refused() {
        Trial::new("Softmax").input::<f32>(&[0, 3], &[]).gives::<f32>(&[0, 3], &[]);
        Trial::new("Softmax").input::<f32>(&[3, 0], &[]).gives::<f32>(&[3, 0], &[]);
        Trial::new("Softmax").input(&[2], &[1e30f32, -1e30]).gives_about(&[2], &[1.0, 0.0]);
        Trial::new("Softmax").input(&[2], &[0f64, 0.0]).gives(&[2], &[0.5f64, 0.5]);
        Trial::new("Softmax").input(&[2], &[1i64, 2]).is_refused("int64");
        Trial::new("Softmax").input(&[], &[1f32]).is_refused("rank 0");
    }
}
