//! Kin: convolutions that differ in nothing but the sizes of their images.
//!
//! A network that meets a new size of image has a new problem for each of its different convolutions. cuDNN's
//! heuristics take 1 to 5 ms for a problem, and making a known algorithm ready takes 0.2 ms (docs/gpu.md). The best
//! algorithm changes slowly with the size. So a new problem first takes the ranking of its kin: a problem that was
//! solved before in this process, whose output has as many positions to within a factor of two. The heuristics are
//! asked only if nothing in that ranking works.
//!
//! Which kin came first depends on the order of the requests. A policy that demands the same bits in every run
//! therefore takes no kin's ranking.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use kiln_kernels::gpu::{ConvProblem, Policy, Problem};
use lru::LruCache;

use super::ranking::{Candidate, Ranking};

/// Kin that are kept, each with a ranking of about a kilobyte. A network has some tens of different convolutions, each
/// with a few kin.
const MOST: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// What all kin have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kin {
    /// The convolution, without the sizes of its images.
    shape: ConvProblem,
    /// The binary logarithm of the positions of the output, of all images together.
    octave: u32,
    /// What choices depend on besides.
    scope: u64,
}

impl Kin {
    /// The kin of a problem; `None` where it has none. Heuristics for matrix products take microseconds, so products
    /// ask.
    fn of(problem: &Problem, scope: u64, policy: &Policy) -> Option<Kin> {
        let &Problem::Conv(conv) = problem else { return None };
        if policy.deterministic {
            return None;
        }
        let positions = conv.output.iter().try_fold(u64::from(conv.batch), |all, &one| all.checked_mul(one.into()))?;
        let shape = ConvProblem { batch: 0, input: [0; 3], output: [0; 3], ..conv };
        Some(Kin { shape, octave: positions.checked_ilog2()?, scope })
    }
}

/// The rankings of kin that one process has met on one device.
#[derive(Debug)]
pub(in crate::exec) struct Kinship(Mutex<LruCache<Kin, Vec<Candidate>>>);

impl Default for Kinship {
    fn default() -> Kinship {
        Kinship(Mutex::new(LruCache::new(MOST)))
    }
}

impl Kinship {
    /// The ranking of the problem's kin, of which nothing was measured for the problem itself.
    pub(in crate::exec) fn recall(&self, problem: &Problem, scope: u64, policy: &Policy) -> Option<Ranking> {
        let kin = Kin::of(problem, scope, policy)?;
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&kin)?.clone();
        let candidates =
            (0..).zip(known).map(|(rank, one)| Candidate { algorithm: one.algorithm, nanos: 0, rank }).collect();
        Some(Ranking { candidates, ..Ranking::default() })
    }

    /// Keeps the ranking of a solved problem for its kin. The first one stays until one was measured.
    pub(in crate::exec) fn keep(&self, problem: &Problem, scope: u64, policy: &Policy, ranking: &Ranking) {
        let Some(kin) = Kin::of(problem, scope, policy) else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ranking.measured_under.is_some() || !known.contains(&kin) {
            known.put(kin, ranking.candidates.clone());
        }
    }
}
