//! Steps with other values than tensors or with bodies: sequences, optional values, loops and branches.
//!
//! A [`Flow`] is the counterpart of [`Node`](crate::Node). A node infers, prepares and executes, and is not
//! prepared again while its shapes stay; a flow decides anew in each run and computes nothing itself. Results are
//! remembered by the nodes of its bodies: each [`Body`] has a run state that stays with the flow from iteration to
//! iteration and from request to request, so that an iteration with the shapes of the last one looks nothing up.
//!
//! # Bounds
//!
//! A model says how often a loop iterates, so a few bytes of model can demand years of computation and all memory.
//! Iterations, and the bytes that loops carry and gather, are therefore bounded ([`LoopLimits`]), over all
//! loops of a request together. With a time limit, each iteration checks it ([`stop`](kiln_model::stop)).

use std::cell::Cell;

use kiln_model::ir::{Dim, ValueInfo};
use kiln_model::value::Value;
use kiln_tensor::TensorSpec;

use super::{Executable, Resources, RunState};
use crate::error::NodeError;

/// Limits for the loops of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopLimits {
    /// Iterations of all loops together, those in bodies of others included.
    pub iterations: u64,
    /// Bytes that loops gather from their iterations, and that one loop carries from an iteration to the next.
    pub bytes: u64,
    /// Innermost steps of one operator (Einsum) whose attributes can demand any number of products of a few elements.
    pub steps: u64,
}

impl Default for LoopLimits {
    /// A million iterations, which take a few tenths of a second if they do nothing; 4 GiB; as many steps as a core
    /// does in about a minute.
    fn default() -> LoopLimits {
        LoopLimits { iterations: 1 << 20, bytes: 4 << 30, steps: 1 << 36 }
    }
}

/// The rest of the [`LoopLimits`] of a request.
#[derive(Debug)]
pub struct LoopBudget {
    limits: LoopLimits,
    iterations: Cell<u64>,
    gathered: Cell<u64>,
}

impl LoopBudget {
    /// A budget of all of the limits.
    #[must_use]
    pub fn new(limits: LoopLimits) -> LoopBudget {
        LoopBudget { limits, iterations: Cell::new(0), gathered: Cell::new(0) }
    }

    /// The most steps of one operator.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.limits.steps
    }

    /// Counts one iteration.
    ///
    /// # Errors
    ///
    /// Beyond the limit.
    pub fn count_iteration(&self) -> Result<(), NodeError> {
        let limit = self.limits.iterations;
        let iterations = self.iterations.get() + 1;
        self.iterations.set(iterations);
        if iterations <= limit { Ok(()) } else { Err(NodeError::Limit { what: "iterations of loops", limit }) }
    }

    /// Counts bytes that are gathered until a loop ends.
    ///
    /// # Errors
    ///
    /// As [`LoopBudget::count_iteration`].
    pub fn gather(&self, bytes: u64) -> Result<(), NodeError> {
        let limit = self.limits.bytes;
        let gathered = self.gathered.get().saturating_add(bytes);
        self.gathered.set(gathered);
        if gathered <= limit { Ok(()) } else { Err(NodeError::Limit { what: "bytes gathered by loops", limit }) }
    }

    /// Checks the bytes that one loop carries to the next iteration against the limit.
    ///
    /// # Errors
    ///
    /// Beyond the limit.
    pub fn carry(&self, bytes: u64) -> Result<(), NodeError> {
        let limit = self.limits.bytes;
        if bytes <= limit { Ok(()) } else { Err(NodeError::Limit { what: "bytes carried by a loop", limit }) }
    }
}

/// A graph that a flow runs.
pub struct Body {
    executable: Executable,
    /// The graph's declarations of its inputs, in order.
    pub inputs: Vec<ValueInfo>,
    /// The graph's declarations of its outputs, in order.
    pub outputs: Vec<ValueInfo>,
}

impl Body {
    /// A compiled graph and its declarations.
    #[must_use]
    pub fn new(executable: Executable, inputs: Vec<ValueInfo>, outputs: Vec<ValueInfo>) -> Body {
        Body { executable, inputs, outputs }
    }

    /// The spec of output `index` when it is gathered over no iteration: as declared, with unknown dimensions 0. If the
    /// rank is not declared either, it is `least`.
    ///
    /// # Errors
    ///
    /// If its element type is not declared.
    pub fn none_of(&self, index: usize, least: usize) -> Result<TensorSpec, NodeError> {
        let info = self.outputs.get(index);
        let dtype = info.and_then(|info| info.dtype).ok_or_else(|| {
            NodeError::Input(format!(
                "no iteration was run, and the body does not say of what type its output {index} is"
            ))
        })?;
        let size = |dim: &Dim| if let Dim::Fixed(size) = dim { *size } else { 0 };
        Ok(match info.and_then(|info| info.dims.as_ref()) {
            Some(dims) => TensorSpec::new(dtype, dims.iter().map(size)),
            None => TensorSpec::new(dtype, std::iter::repeat_n(0, least)),
        })
    }
}

/// What a flow may use while it runs.
pub struct FlowCx<'a> {
    pub(super) resources: &'a Resources<'a>,
    /// States of its bodies, by number.
    pub(super) states: &'a mut Vec<RunState>,
}

impl FlowCx<'_> {
    /// Runs body number `which` of this flow.
    ///
    /// # Errors
    ///
    /// [`NodeError::Body`] where one of its nodes fails.
    pub fn run(&mut self, which: usize, body: &Body, inputs: Vec<Option<Value>>) -> Result<Vec<Value>, NodeError> {
        if self.states.len() <= which {
            self.states.resize_with(which + 1, RunState::default);
        }
        // Events name steps by their index in the outermost graph, so steps of bodies have none; their time counts as
        // the flow's.
        let resources = Resources { observer: None, ..*self.resources };
        body.executable
            .run(inputs, &mut self.states[which], &resources)
            .map_err(|error| NodeError::Body(Box::new(error)))
    }

    /// Checks whether the request has ended.
    ///
    /// # Errors
    ///
    /// If its time limit has passed or it was cancelled.
    pub fn check_stop(&self) -> Result<(), NodeError> {
        Ok(self.resources.stop.map_or(Ok(()), |stop| stop.check())?)
    }

    /// Begins an iteration of a loop: counts it, and checks whether the request has ended.
    ///
    /// # Errors
    ///
    /// As [`FlowCx::check_stop`], and beyond the limit of iterations.
    pub fn begin_iteration(&self) -> Result<(), NodeError> {
        self.check_stop()?;
        self.resources.loops.count_iteration()
    }

    /// The rest of the limits of the request's loops.
    #[must_use]
    pub fn budget(&self) -> &LoopBudget {
        self.resources.loops
    }

    /// Threads.
    #[must_use]
    pub fn parallel(&self) -> &dyn kiln_kernels::Parallel {
        self.resources.parallel
    }

    /// Memory of that type and shape, with arbitrary contents.
    ///
    /// # Errors
    ///
    /// If its size overflows or the pool has no room.
    pub fn alloc(&self, spec: TensorSpec) -> Result<kiln_tensor::Tensor, NodeError> {
        Ok(kiln_tensor::Tensor::from_pool(self.resources.buffers, spec)?)
    }
}

/// An operator with other values than tensors, or with bodies.
pub trait Flow: Send + Sync {
    /// Its name, for verbose lines and profiles.
    fn family(&self) -> &'static str;

    /// Computes the outputs. Inputs that no later step reads are moved in; absent ones are `None`.
    ///
    /// # Errors
    ///
    /// For inputs that the operator does not allow, if a body fails, or at a limit.
    fn run(&self, inputs: Vec<Option<Value>>, cx: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_stop_where_the_budget_ends() {
        let budget = LoopBudget::new(LoopLimits { iterations: 2, bytes: 10, steps: 0 });
        assert!(budget.count_iteration().is_ok() && budget.count_iteration().is_ok());
        assert_eq!(budget.count_iteration().unwrap_err().to_string(), "iterations of loops: more than the limit of 2");
        assert!(budget.gather(10).is_ok());
        assert!(budget.gather(u64::MAX).is_err());
        assert!(budget.carry(10).is_ok() && budget.carry(10).is_ok());
        assert!(budget.carry(11).is_err());
    }
}
