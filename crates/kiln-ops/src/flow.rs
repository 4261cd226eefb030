//! Control flow: [`branch`] is If, [`repeat`] is Loop, [`scan`] is Scan. How values pass into bodies and come out of
//! them.
//!
//! A body reads only its own inputs; values from the graphs around it come as its last inputs (see
//! [`Attr::Graph`](kiln_model::Attr)). These operators decide which body runs how often and on what. They compute
//! nothing, and keep nothing from one request to the next but their bodies' run states.

mod branch;
mod repeat;
mod scan;

use std::collections::BTreeMap;

use kiln_kernels::memory::Collect;
use kiln_model::{Graph, NodeDesc, Value};
use kiln_run::{Body, FlowCx, NodeError};
use kiln_tensor::{Shape, Tensor, TensorSpec};

use super::{FlowOperator, OpError, axis_of, counted, join, joined_spec, refused};

/// The operators of this group.
pub(super) const OPERATORS: &[FlowOperator] =
    &[("", "If", branch::make), ("", "Loop", repeat::make), ("", "Scan", scan::make)];

/// The context in which an operator of values is made: its node, the graph around it, and the node's bodies, compiled.
pub struct FlowLoad<'a> {
    /// The node.
    pub node: &'a NodeDesc,
    /// The graph that it stands in.
    pub graph: &'a Graph,
    /// Its bodies, by attribute.
    pub bodies: BTreeMap<String, Body>,
}

impl FlowLoad<'_> {
    /// Takes the body of that attribute.
    ///
    /// # Errors
    ///
    /// [`OpError::Invalid`] where there is none.
    pub(crate) fn body(&mut self, attribute: &str) -> Result<Body, OpError> {
        let body = self.bodies.remove(attribute);
        body.ok_or_else(|| OpError::invalid(self.node, format!("attribute {attribute} must be a graph")))
    }

    /// [`OpError::Invalid`] unless `holds`.
    pub(crate) fn demand(&self, holds: bool, reason: impl FnOnce() -> String) -> Result<(), OpError> {
        if holds { Ok(()) } else { Err(OpError::invalid(self.node, reason())) }
    }
}

/// The single truth value in a value.
fn truth(value: &Value) -> Result<bool, NodeError> {
    let tensor = value.as_tensor().ok_or_else(|| value.is_no("a truth value"))?;
    match tensor.as_slice::<kiln_tensor::BoolByte>()? {
        &[truth] => Ok(truth.get()),
        values => Err(refused(format!("expected one truth value, found {}", values.len()))),
    }
}

/// The most dimensions that an axis implies for a tensor of unknown rank.
const MOST_AXES: usize = 8;

/// The tensors that one output gathers from the iterations of a loop, to become one tensor with a new axis.
#[derive(Default)]
struct Gathered {
    iterations: Vec<Tensor>,
}

impl Gathered {
    /// Adds the result of an iteration, which must have the type and shape of those before.
    fn push(&mut self, made: Value, cx: &FlowCx<'_>) -> Result<(), NodeError> {
        let made = made.into_tensor()?;
        if let Some(first) = self.iterations.first().filter(|first| first.spec() != made.spec()) {
            let (first, now) = (first.spec(), made.spec());
            return Err(refused(format!(
                "the iterations of a loop make {first:?} and then {now:?}, which do not join"
            )));
        }
        cx.budget().gather(made.bytes().len() as u64)?;
        self.iterations.push(made);
        Ok(())
    }

    /// One tensor of all iterations along a new axis, `axis` of the result. For no iterations, `none` gives the spec
    /// that one would have made, with at least that many dimensions. `backwards` takes the iterations from the last to
    /// the first.
    fn stack(
        mut self,
        axis: i64,
        backwards: bool,
        none: impl FnOnce(usize) -> Result<TensorSpec, NodeError>,
        cx: &FlowCx<'_>,
    ) -> Result<Tensor, NodeError> {
        if backwards {
            self.iterations.reverse();
        }
        match self.iterations.first() {
            Some(_) => stack(&self.iterations, axis, cx),
            None => {
                // The new axis is one more.
                let least = if axis < 0 { axis.unsigned_abs() as usize - 1 } else { axis as usize };
                let TensorSpec { dtype, mut shape } = none(least.min(MOST_AXES))?;
                let axis = axis_of(axis, shape.len() + 1)?;
                shape.insert(axis, 0);
                cx.alloc(counted(dtype, shape)?)
            }
        }
    }
}

/// Tensors of one spec, at least one, side by side along a new axis.
pub(crate) fn stack(parts: &[Tensor], axis: i64, cx: &FlowCx<'_>) -> Result<Tensor, NodeError> {
    let widened = |part: &Tensor| -> Result<Tensor, NodeError> {
        let mut shape = Shape::from_slice(part.shape());
        shape.insert(axis_of(axis, shape.len() + 1)?, 1);
        Ok(part.reshaped(shape)?)
    };
    let wider: Vec<Tensor> = parts.iter().map(widened).try_collected()?;
    let wider: Vec<&Tensor> = wider.iter().collected();
    join(&wider, axis, cx.alloc(joined_spec(&wider, axis)?)?, cx.parallel())
}
