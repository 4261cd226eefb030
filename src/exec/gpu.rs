//! Executors on a device beside the processor: which algorithm of its libraries solves a problem, and where that is kept.
//!
//! [`GpuCx`] is the device with its memory and what the caller allows. [`problem`] has the keys that are recorded, one
//! family for each library's kind of problem; [`ranking`] is what is recorded of one: the algorithms, best first, so that
//! another policy is served without asking or measuring again. [`solver`] is the key of what is kept in memory and the
//! builder behind it: a record if one serves, else the library's heuristics, and never a measurement. Those are made by
//! the [tuner](super::tune), while no request runs. [`module`] keeps compiled kernels of Kiln's own, which leave no choice.
//! [`traffic`] counts copies.
//!
//! Nothing here knows the graph or which device it is.

pub mod module;
pub mod problem;
pub mod ranking;
pub mod solver;
#[cfg(test)]
mod tests;
pub mod traffic;

use std::sync::Arc;
use std::time::Instant;

use kiln_kernels::gpu::{Arena, Device, Policy, Scope};

use super::BuildCx;
use crate::record::{BUILD, Engine, Fingerprint};

pub use module::Compiled;
pub use ranking::{Candidate, Ranking, Refused, Why};
pub use solver::{Origin, Solution, SolverKey};
pub use traffic::{Copies, Traffic};

/// A device as builders see it.
#[derive(Debug)]
pub struct GpuCx {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Its memory.
    pub arena: Arc<Arena>,
    /// Which algorithms may be used.
    pub policy: Policy,
    /// What is copied there and back.
    pub traffic: Traffic,
    /// Digests of what the choices of each scope depend on, in the order of [`SCOPES`].
    scopes: [u64; SCOPES.len()],
}

const SCOPES: [Scope; 3] = [Scope::Cudnn, Scope::CublasLt, Scope::Nvrtc];

/// Makes what the records know of the device of a context ready before the first request, as long as there is time: solvers, and
/// compiled kernels. Problems come from files: what is made of one is bounded by what its library allows. Returns how many.
pub fn prepare(cx: &BuildCx, until: Instant) -> usize {
    // Kernels last: compiling takes longest, and what is left is compiled when it is asked for.
    let solvers = problem::prepare::<problem::CublasLtKey>(cx, until)
        + problem::prepare::<problem::CudnnConvKey>(cx, until)
        + problem::prepare::<problem::CudnnFusionKey>(cx, until);
    solvers + module::prepare(cx, until)
}

impl GpuCx {
    /// A device whose memory is lent by that arena.
    #[must_use]
    pub fn new(arena: Arc<Arena>, policy: Policy) -> GpuCx {
        let device = arena.device().clone();
        let scopes = SCOPES.map(|scope| {
            let digest = Fingerprint::from_facts(device.facts().of_scope(scope)).digest();
            u64::from_le_bytes(std::array::from_fn(|place| digest[place]))
        });
        GpuCx { device, arena, policy, traffic: Traffic::default(), scopes }
    }

    /// What choices of that scope depend on, in short: the first bytes of the digest of its facts.
    #[must_use]
    pub fn scope(&self, scope: Scope) -> u64 {
        let [cudnn, cublaslt, nvrtc] = self.scopes;
        match scope {
            Scope::Cudnn => cudnn,
            Scope::CublasLt => cublaslt,
            Scope::Nvrtc => nvrtc,
        }
    }

    /// The device as callers name it who keep choices themselves: this build of Kiln and all facts of the device that
    /// choices depend on.
    #[must_use]
    pub fn engine(&self) -> Engine {
        let mut facts = BUILD.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        for fact in SCOPES.iter().flat_map(|&scope| self.device.facts().of_scope(scope)) {
            if !facts.contains(&fact) {
                facts.push(fact);
            }
        }
        Engine::new(Fingerprint::from_facts(facts))
    }
}
