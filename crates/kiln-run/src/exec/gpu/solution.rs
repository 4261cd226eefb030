//! What a problem's key stands for in memory: the solver, and how it was come by.

use std::sync::Arc;

use kiln_kernels::gpu::{Algorithm, Solver};

/// How a problem is solved on a device.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The solver; nothing where the libraries have no way that is allowed.
    pub solver: Option<Arc<dyn Solver>>,
    /// The way.
    pub algorithm: Option<Algorithm>,
    /// Where it came from.
    pub origin: Origin,
}

/// How a solution was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is the first of a record, or the record knows that there is none.
    Replayed,
    /// It is a later one of a record, of that place: the policy does not allow those before, or they do not work any
    /// more.
    RunnerUp(u32),
    /// It is the first of the heuristics that is allowed and works, or there is none.
    Heuristic,
    /// It has won a measurement.
    Measured,
}

impl Solution {
    /// No solver, by that origin.
    pub(super) fn nothing(origin: Origin) -> Solution {
        Solution { solver: None, algorithm: None, origin }
    }

    /// Bytes that it keeps.
    #[must_use]
    pub fn weigh(&self) -> usize {
        size_of::<Solution>() + self.solver.as_ref().map_or(0, |solver| solver.size())
    }
}
