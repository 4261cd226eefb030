//! Operators that keep every element in its place: Identity, Reshape, Flatten, Squeeze, Unsqueeze.
//!
//! They copy nothing: an output is a view of the input's bytes under another shape, which the table's rules state.

use kiln_run::DeviceCx;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::Operator;

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "Identity", |_| Ok(Box::new(Reshaping { name: "Identity", by_value: false }))),
    ("", "Reshape", |_| Ok(Box::new(Reshaping { name: "Reshape", by_value: true }))),
    ("", "Flatten", |_| Ok(Box::new(Reshaping { name: "Flatten", by_value: false }))),
    // Before operator set 13 axes were an attribute.
    ("", "Squeeze", |cx| Ok(Box::new(Reshaping { name: "Squeeze", by_value: cx.node.ints("axes").is_none() }))),
    ("", "Unsqueeze", |cx| Ok(Box::new(Reshaping { name: "Unsqueeze", by_value: cx.node.ints("axes").is_none() }))),
];

/// The same elements under the shape that the rule states.
struct Reshaping {
    name: &'static str,
    /// Whether input 1 states the shape.
    by_value: bool,
}

impl Node for Reshaping {
    fn family(&self) -> &'static str {
        self.name
    }

    fn value_inputs(&self) -> u64 {
        u64::from(self.by_value) << 1
    }

    fn prepare_device(&self, cx: &mut DeviceCx<'_>, _: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        cx.view(0, 0);
        Ok(())
    }

    fn is_view(&self) -> bool {
        true
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let shape = io.spec(0).shape.clone();
        let input = io.take(0)?;
        io.push(input.reshaped(shape)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
