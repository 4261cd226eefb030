//! Steps that see more than tensors: they take and make sequences and optional values, or run graphs of their own.
//!
//! A [`Flow`] stands beside [`Node`](super::Node). A node infers, prepares and executes, and is asked nothing while its
//! shapes stay; a flow decides anew each time and computes nothing itself. What is worth keeping between its turns is
//! kept by the nodes of its bodies: each [`Body`] has a run state that stays with the flow from turn to turn and from
//! request to request, so that a turn with the shapes of the last one asks no cache.
//!
//! # Bounds
//!
//! A model says how often a loop turns, so that a few bytes can ask for years of computing and for all memory. Turns and
//! the bytes that loops carry and gather are therefore bounded ([`LoopLimits`]), over all loops of a request together.
//! Where a request may only take so long, each turn asks whether that has passed ([`super::stop`]).

use std::cell::Cell;

use super::ir::{Dim, ValueInfo};
use super::node::NodeError;
use super::run::{Executable, Resources, RunState};
use super::value::Value;
use crate::tensor::TensorSpec;

/// How much the loops of one request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopLimits {
    /// Turns of all loops together, those in bodies of others included.
    pub turns: u64,
    /// Bytes that loops gather from their turns, and that one loop carries from a turn to the next.
    pub bytes: u64,
    /// Innermost steps of one operator whose attributes turn a few elements into any number of products: Einsum.
    pub steps: u64,
}

impl Default for LoopLimits {
    /// A million turns, which take a few tenths of a second where they do nothing; 4 GiB; as many steps as a core does
    /// in about a minute.
    fn default() -> LoopLimits {
        LoopLimits { turns: 1 << 20, bytes: 4 << 30, steps: 1 << 36 }
    }
}

/// What is left of the [`LoopLimits`] of a request.
#[derive(Debug)]
pub struct LoopBudget {
    limits: LoopLimits,
    turns: Cell<u64>,
    gathered: Cell<u64>,
}

impl LoopBudget {
    /// All of it.
    #[must_use]
    pub fn new(limits: LoopLimits) -> LoopBudget {
        LoopBudget { limits, turns: Cell::new(0), gathered: Cell::new(0) }
    }

    /// The most steps of one operator.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.limits.steps
    }

    /// Counts one turn.
    ///
    /// # Errors
    ///
    /// Where the request has had all that it may have.
    pub fn turn(&self) -> Result<(), NodeError> {
        let limit = self.limits.turns;
        let turns = self.turns.get() + 1;
        self.turns.set(turns);
        if turns <= limit { Ok(()) } else { Err(NodeError::Limit { what: "turns of loops", limit }) }
    }

    /// Counts bytes that are gathered until a loop ends.
    ///
    /// # Errors
    ///
    /// As [`LoopBudget::turn`].
    pub fn gather(&self, bytes: u64) -> Result<(), NodeError> {
        let limit = self.limits.bytes;
        let gathered = self.gathered.get().saturating_add(bytes);
        self.gathered.set(gathered);
        if gathered <= limit { Ok(()) } else { Err(NodeError::Limit { what: "bytes gathered by loops", limit }) }
    }

    /// Holds what one loop carries to the next turn against the limit.
    ///
    /// # Errors
    ///
    /// Where it is more.
    pub fn carry(&self, bytes: u64) -> Result<(), NodeError> {
        let limit = self.limits.bytes;
        if bytes <= limit { Ok(()) } else { Err(NodeError::Limit { what: "bytes carried by a loop", limit }) }
    }
}

/// A graph that a flow runs.
pub struct Body {
    executable: Executable,
    /// What the graph declares of its inputs, in order.
    pub inputs: Vec<ValueInfo>,
    /// What the graph declares of its outputs, in order.
    pub outputs: Vec<ValueInfo>,
}

impl Body {
    /// A compiled graph and its declarations.
    #[must_use]
    pub fn new(executable: Executable, inputs: Vec<ValueInfo>, outputs: Vec<ValueInfo>) -> Body {
        Body { executable, inputs, outputs }
    }

    /// What output `index` is when it is gathered from no turn at all: nothing of what is declared, dimensions that are
    /// not known being zero. Of a rank that is not known either, there are as few dimensions as there can be, `least`.
    ///
    /// # Errors
    ///
    /// Where its element type is not known.
    pub fn none_of(&self, index: usize, least: usize) -> Result<TensorSpec, NodeError> {
        let info = self.outputs.get(index);
        let dtype = info.and_then(|info| info.dtype).ok_or_else(|| {
            NodeError::Input(format!("no turn was made, and the body does not say of what type its output {index} is"))
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
        // Steps are told apart by their places in the outermost graph, so nobody watches those of a body; their time is
        // the flow's.
        let resources = Resources { observer: None, ..*self.resources };
        body.executable
            .run(inputs, &mut self.states[which], &resources)
            .map_err(|error| NodeError::Body(Box::new(error)))
    }

    /// Asks whether the request shall end here.
    ///
    /// # Errors
    ///
    /// Where it has had all the time that it may have, or was called off.
    pub fn check_stop(&self) -> Result<(), NodeError> {
        Ok(self.resources.stop.map_or(Ok(()), |stop| stop.check())?)
    }

    /// Begins a turn of a loop: counts it, and asks whether the request shall end here.
    ///
    /// # Errors
    ///
    /// As [`FlowCx::check_stop`], and where the request has had all the turns that it may have.
    pub fn turn(&self) -> Result<(), NodeError> {
        self.check_stop()?;
        self.resources.loops.turn()
    }

    /// What the request's loops may still do.
    #[must_use]
    pub fn budget(&self) -> &LoopBudget {
        self.resources.loops
    }

    /// Threads.
    #[must_use]
    pub fn parallel(&self) -> &dyn kiln_kernels::Parallel {
        self.resources.parallel
    }

    /// Memory of that type and shape, holding whatever was in it.
    ///
    /// # Errors
    ///
    /// Where its bytes cannot be counted.
    pub fn alloc(&self, spec: TensorSpec) -> Result<crate::tensor::Tensor, NodeError> {
        Ok(crate::tensor::Tensor::from_pool(self.resources.buffers, spec)?)
    }
}

/// An operator on values that are not tensors alone, or with bodies.
pub trait Flow: Send + Sync {
    /// Its name, for verbose lines and profiles.
    fn family(&self) -> &'static str;

    /// Makes the outputs. Inputs that no later step reads are handed over; absent ones are `None`.
    ///
    /// # Errors
    ///
    /// Inputs that the operator does not allow, a body's failure, or a bound that is reached.
    fn run(&self, inputs: Vec<Option<Value>>, cx: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_stop_where_the_budget_ends() {
        let budget = LoopBudget::new(LoopLimits { turns: 2, bytes: 10, steps: 0 });
        assert!(budget.turn().is_ok() && budget.turn().is_ok());
        assert_eq!(budget.turn().unwrap_err().to_string(), "turns of loops: more than the limit of 2");
        assert!(budget.gather(10).is_ok());
        assert!(budget.gather(u64::MAX).is_err());
        assert!(budget.carry(10).is_ok() && budget.carry(10).is_ok());
        assert!(budget.carry(11).is_err());
    }
}
