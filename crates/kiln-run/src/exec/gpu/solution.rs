//! The value of a problem's key in memory: the solver and its origin.

use std::sync::Arc;

use kiln_kernels::gpu::{Algorithm, Solver};

/// How a problem is solved on a device.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The solver; `None` where the libraries have no way that is allowed.
    pub solver: Option<Arc<dyn Solver>>,
    /// The way.
    pub algorithm: Option<Algorithm>,
    /// Where it came from.
    pub origin: Origin,
}

/// Where a solution came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The first candidate of a record, or a record that says that there is none.
    Replayed,
    /// A later candidate of a record, at that place: the policy does not allow those before it, or they do not work any
    /// more.
    RunnerUp(u32),
    /// A candidate of the ranking of the problem's kin.
    Kin,
    /// The first proposal of the heuristics that is allowed and works, or there is none.
    Heuristic,
    /// The winner of a measurement.
    Measured,
}

impl Solution {
    /// No solver, with that origin.
    pub(super) fn nothing(origin: Origin) -> Solution {
        Solution { solver: None, algorithm: None, origin }
    }

    /// Bytes that it keeps.
    #[must_use]
    pub fn weigh(&self) -> usize {
        size_of::<Solution>() + self.solver.as_ref().map_or(0, |solver| solver.size())
    }
}
