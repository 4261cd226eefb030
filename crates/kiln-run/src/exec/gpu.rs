//! Executors on a device beside the processor: which algorithm of its libraries solves a problem, and where that is
//! kept.
//!
//! [`GpuCx`] is the device with its memory and what the caller allows. [`problem`] has the recorded keys, one family
//! for each library's kind of problem. [`ranking`] is the record of a problem: the algorithms, best first, so that
//! another policy is served without asking or measuring again. [`solver`] has the key in memory and its builder: a
//! record if one serves, else the ranking of its [`kin`], else the library's heuristics, and never a measurement. The
//! [tuner](super::tune) measures, while no request runs. [`module`] keeps compiled kernels of Kiln's own, which leave no choice. [`traffic`] counts
//! copies.
//!
//! Nothing here knows the graph or which device it is.

mod context;
mod kin;
pub mod module;
pub mod problem;
pub mod ranking;
pub mod solution;
pub mod solver;
#[cfg(test)]
mod tests;
pub mod traffic;

use std::time::Instant;

use super::BuildCx;

pub use context::GpuCx;
pub use module::Compiled;
pub use ranking::{Candidate, Ranking, RefusalReason, Refused};
pub use solution::{Origin, Solution};
pub use solver::SolverKey;
pub use traffic::{Copies, Traffic};

/// Prepares the recorded solvers and compiled kernels of a context's device before the first request, as long as there
/// is time; returns how many. Problems come from files; what one costs is bounded by what its library allows.
pub fn prepare(cx: &BuildCx, until: Instant) -> usize {
    // Kernels last: compiling takes longest, and a kernel that is left is compiled when it is asked for.
    let solvers = problem::prepare::<problem::CublasLtKey>(cx, until)
        + problem::prepare::<problem::CudnnConvKey>(cx, until)
        + problem::prepare::<problem::CudnnFusionKey>(cx, until);
    solvers + module::prepare(cx, until)
}
