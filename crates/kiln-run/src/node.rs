//! The running form of a node, after the executor-cache checklist.
//!
//! For each step of a request: where the request's shapes have a plan, or a node remembers its input types and shapes
//! (and the contents of its [`Node::value_inputs`]), the outputs' specs and the prepared executor are known. Otherwise
//! the rule of the operator's row computes the outputs' specs, [`Node::check`] refuses what the node cannot use, and
//! [`Node::prepare_params`] fills in a key and looks it up in the cache. Then [`Node::execute`] runs.

use std::sync::Arc;

use kiln_kernels::{Isa, Parallel, crash};

use super::device::DeviceCx;
pub use super::error::{NodeError, panic_message};
pub use super::io::Io;
pub(super) use super::prepare::Standings;
pub use super::prepare::{PrepareCx, Prepared, Specs};
pub use kiln_model::operators::error::{Extents, ShapeError};
use kiln_model::stop::Stop;
use kiln_tensor::{BufferPool, Tensor, TensorSpec};

impl PrepareCx<'_> {
    /// Prepares a node with this context.
    ///
    /// # Errors
    ///
    /// The node's.
    pub(super) fn prepare(
        &self,
        node: &dyn Node,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let prepared = node.prepare_params(self, inputs, outputs)?;
        Ok(self.with_asked(prepared))
    }
}

/// A node whose outputs' shapes depend on the contents of its inputs, beyond the lists of integers that rules read.
pub trait InferByValue {
    /// Types and shapes of the outputs. Refuses every input that cannot be used, before any key is made.
    ///
    /// # Errors
    ///
    /// Inputs whose types, shapes or elements the operator does not allow.
    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError>;
}

/// What a node may use while it runs.
pub struct RunCx<'a> {
    /// Threads.
    pub parallel: &'a dyn Parallel,
    /// Memory of outputs and scratch.
    pub buffers: &'a Arc<BufferPool>,
    /// The most innermost steps of one operator whose attributes can demand any number of steps.
    pub steps: u64,
    /// What may end the request, for nodes whose own loops are long.
    pub stop: Option<&'a Stop>,
}

impl RunCx<'_> {
    /// Checks, between steps of a long node, whether the request has ended.
    ///
    /// # Errors
    ///
    /// [`NodeError::Stopped`] where the request has ended.
    pub fn check_stop(&self) -> Result<(), NodeError> {
        match self.stop {
            None => Ok(()),
            Some(stop) => Ok(stop.check()?),
        }
    }

    /// Runs a node.
    ///
    /// # Errors
    ///
    /// The node's, and [`NodeError::Stopped`] where it returned early because the request has ended.
    pub fn execute(&self, node: &dyn Node, prepared: &Prepared, io: &mut Io<'_>) -> Result<(), NodeError> {
        let done = match prepared.asked() {
            None => node.execute(prepared, io, self),
            Some(keys) => crash::within(keys, || node.execute(prepared, io, self)),
        };
        // Unfinished work may have failed in another way.
        self.check_whole()?;
        done
    }

    /// Checks that no task and no block of work was skipped, for nodes that read their own results.
    ///
    /// # Errors
    ///
    /// [`NodeError::Stopped`] where the request has ended.
    pub fn check_whole(&self) -> Result<(), NodeError> {
        match self.stop {
            None => Ok(()),
            Some(stop) => Ok(stop.check_whole()?),
        }
    }

    /// Checks the number of steps that a node is about to take against its limit.
    ///
    /// # Errors
    ///
    /// [`NodeError::Limit`] where they are more.
    pub fn check_steps(&self, steps: u64) -> Result<(), NodeError> {
        let limit = self.steps;
        if steps <= limit { Ok(()) } else { Err(NodeError::Limit { what: "steps of one operator", limit }) }
    }

    /// Scratch of `count` elements with arbitrary contents.
    pub fn scratch<T: kiln_tensor::Element>(&self, count: usize) -> Result<Tensor, NodeError> {
        Ok(Tensor::from_pool(self.buffers, TensorSpec::new(T::DTYPE, [count]))?)
    }
}

/// An operator with its attributes and constants, ready to run at any shape.
pub trait Node: Send + Sync {
    /// The kernel family, or the operator's name where it computes nothing; for verbose lines and profiles.
    fn family(&self) -> &'static str;

    /// Inputs whose contents, not only shapes, determine the outputs' specs or the key, by bit: bit 1 is input 1. Only
    /// small tensors (shapes, axes, pads) should be among them.
    fn value_inputs(&self) -> u64 {
        0
    }

    /// Constant inputs that the node keeps a packed copy of, by bit. Their elements are freed if no other node reads
    /// them; the node then sees their specs only.
    fn kept_inputs(&self) -> u64 {
        0
    }

    /// Whether its only output has the elements of its first input, in the same memory, under another shape.
    fn is_view(&self) -> bool {
        false
    }

    /// Whether a product of `rows` rows by constant weights adds in an order that does not depend on their number.
    fn adds_in_order(&self, isa: Isa, rows: usize) -> bool {
        let _ = (isa, rows);
        false
    }

    /// The inference of nodes whose outputs' shapes depend on contents, so that the rule of the operator's row cannot
    /// give them.
    fn by_value(&self) -> Option<&dyn InferByValue> {
        None
    }

    /// Refuses inputs that the rule of the operator's row lets through and the node cannot use: element types, operands
    /// that do not belong to the outputs. Called with the inferred outputs, before any key is made.
    ///
    /// # Errors
    ///
    /// What cannot be used.
    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let _ = (inputs, outputs);
        Ok(())
    }

    /// Fills in the key from shapes and attributes and looks it up. Called only when shapes (or contents of value
    /// inputs) have changed. Nodes without an executor keep the default.
    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let _ = (cx, inputs, outputs);
        Ok(Prepared::NONE)
    }

    /// As [`Node::prepare_params`], for a node on a device: writes down the sequence of kernels and solvers. Called
    /// only if the operator has a form on devices.
    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let _ = (cx, inputs, outputs);
        Err(NodeError::Unsupported(format!("{} on a device", self.family())))
    }

    /// Computes the outputs: one [`Io::push`] for each.
    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError>;
}
