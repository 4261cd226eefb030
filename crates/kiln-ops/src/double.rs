//! Operators whose kernels are for `f32`, on `f64`: a node that computes `f64` in plain Rust beside the node for other
//! types.

use kiln_run::DeviceCx;
use kiln_run::node::PrepareCx;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::{LoadCx, MakeNode, OpError, required};

/// Makes a node with `double` where the first input is of `f64`, and with `other` where it is of another type. Where
/// the type is not known before a request, both are made.
pub(crate) fn with_double(cx: &LoadCx<'_>, double: MakeNode, other: MakeNode) -> Result<Box<dyn Node>, OpError> {
    let first = cx.node.input(0);
    match first.and_then(|value| cx.graph.constant(value).map(Tensor::dtype).or(cx.graph.value(value).dtype)) {
        Some(DType::F64) => double(cx),
        Some(_) => other(cx),
        None => Ok(Box::new(ByType { double: double(cx)?, other: other(cx)? })),
    }
}

/// Two nodes of one operator.
struct ByType {
    double: Box<dyn Node>,
    other: Box<dyn Node>,
}

impl ByType {
    fn of(&self, inputs: &[Option<&Tensor>]) -> Result<&dyn Node, NodeError> {
        Ok(self.for_type(required(inputs, 0)?.dtype()))
    }

    fn for_type(&self, dtype: DType) -> &dyn Node {
        if dtype == DType::F64 { &*self.double } else { &*self.other }
    }
}

impl Node for ByType {
    fn family(&self) -> &'static str {
        self.other.family()
    }

    fn value_inputs(&self) -> u64 {
        self.double.value_inputs() | self.other.value_inputs()
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        self.of(inputs)?.check(inputs, outputs)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        self.of(inputs)?.prepare_params(cx, inputs, outputs)
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        self.of(inputs)?.prepare_device(cx, inputs, outputs)
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        self.for_type(io.input(0)?.dtype()).execute(prepared, io, cx)
    }
}

#[cfg(test)]
mod tests;
