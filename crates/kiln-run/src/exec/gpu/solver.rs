//! Solvers: algorithms that are ready to run, how one is chosen, and how a choice is replayed.
//!
//! The policy is a part of the key in memory, but not of a problem's key in records: a process with another policy
//! takes another candidate of the same record. A record is a hint. Its candidates are tried in order: one that the
//! library does not make any more is noted, and the next one is taken. A problem without a record takes the ranking of
//! its [kin](super::kin). Where neither has a way, the heuristics are asked, which takes a few microseconds to
//! milliseconds and measures nothing.

use std::sync::Arc;

use kiln_cache::{Built, Outcome};
use kiln_kernels::KernelError;
use kiln_kernels::gpu::{Algorithm, Heuristic, Policy, Problem, Refusal, Solver};
use kiln_key::Key;
use serde::{Deserialize, Serialize};

use super::GpuCx;
use super::problem::posed;
use super::ranking::{Candidate, Ranking, RefusalReason, is_sane};
use super::solution::{Origin, Solution};
use crate::exec::{BuildCx, BuildError};
use crate::record::Evidence;

/// Everything that determines a solver of one device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "solver", value = Solution, laws = crate::record::laws::check)]
pub struct SolverKey {
    /// The problem to solve.
    pub problem: Problem,
    /// What choices depend on besides: [`GpuCx::scope`].
    pub scope: u64,
    /// The device's number: a solver works on one device only.
    pub ordinal: u32,
    /// Which algorithms may be used.
    pub policy: Policy,
}

/// Why an algorithm gives no solver.
#[derive(Debug)]
pub(in crate::exec) enum Unusable {
    /// It will never work in this version: to be remembered.
    Unsupported,
    /// It does not work now.
    Now(KernelError),
    /// The solver's workspace or arithmetic is not what was stated, and the policy does not allow it.
    NotAllowed(Refusal),
}

/// The solver of an algorithm, and the algorithm with the solver's true workspace and notes.
pub(in crate::exec) fn ready(
    gpu: &GpuCx,
    problem: &Problem,
    algorithm: &Algorithm,
    policy: &Policy,
) -> Result<(Arc<dyn Solver>, Algorithm), Unusable> {
    let solver = gpu.device.solver(problem, algorithm).map_err(|error| match error {
        KernelError::Unsupported { .. } => Unusable::Unsupported,
        other => Unusable::Now(other),
    })?;
    // A record may state too little.
    let (workspace, notes) = (solver.workspace(), algorithm.notes.and(solver.notes()));
    let found = Algorithm { workspace, notes, ..algorithm.clone() };
    policy.allows(&found).map_err(Unusable::NotAllowed)?;
    Ok((solver, found))
}

/// Adds one heuristic's proposals that are new, plausible and not refused, each with its place. Fails where the library
/// fails.
pub(in crate::exec) fn ask(
    gpu: &GpuCx,
    key: &SolverKey,
    heuristic: Heuristic,
    known: &Ranking,
    proposals: &mut Vec<Candidate>,
) -> Result<(), KernelError> {
    for algorithm in gpu.device.heuristics(&key.problem, &key.policy, heuristic)? {
        let twice = proposals.iter().any(|one| one.algorithm.engine == algorithm.engine);
        if !twice && is_sane(&algorithm, &key.problem) && !known.refuses(&algorithm.engine) {
            let rank = u32::try_from(proposals.len()).unwrap_or(u32::MAX);
            proposals.push(Candidate { algorithm, nanos: 0, rank });
        }
    }
    Ok(())
}

impl SolverKey {
    /// The key of a problem on that device.
    #[must_use]
    pub fn new(problem: &Problem, gpu: &GpuCx) -> SolverKey {
        let (scope, ordinal) = (gpu.scope_of(problem), gpu.device.facts().ordinal);
        SolverKey { problem: problem.clone(), scope, ordinal, policy: gpu.policy }
    }

    /// The record, if it is plausible.
    pub(in crate::exec) fn recall(&self, cx: &BuildCx) -> Option<(Ranking, Evidence)> {
        let posed = posed(&self.problem, self.scope);
        let (ranking, evidence) = posed.recall(&cx.records)?;
        if ranking.is_sane(&self.problem) {
            return Some((ranking, evidence));
        }
        posed.reject(&cx.records);
        None
    }
}

impl BuildCx {
    /// How that problem is solved on the device of this context. Never waits for a measurement. Where the libraries
    /// have no way, or none that the policy allows, the [`Solution`] has no solver.
    ///
    /// # Errors
    ///
    /// [`BuildError`] where there is no device, or where nothing is recorded and nothing may be chosen. Errors of the
    /// libraries are no errors here.
    pub fn solver(&self, problem: &Problem) -> Result<(Arc<Solution>, Outcome), BuildError> {
        self.solver_of(&SolverKey::new(problem, self.gpu()?))
    }

    /// As [`BuildCx::solver`], of a key.
    ///
    /// # Errors
    ///
    /// As [`BuildCx::solver`].
    pub fn solver_of(&self, key: &SolverKey) -> Result<(Arc<Solution>, Outcome), BuildError> {
        self.get_or_build(key, self, build)
    }

    /// The device of this context.
    ///
    /// # Errors
    ///
    /// [`BuildError::NoDevice`] where there is none.
    pub fn gpu(&self) -> Result<&GpuCx, BuildError> {
        self.gpu.as_deref().ok_or(BuildError::NoDevice)
    }
}

/// The builder: a record if one serves, else the ranking of its kin, else the heuristics; then records what is new.
fn build(key: &SolverKey, cx: &BuildCx) -> Result<Built<Solution>, BuildError> {
    let gpu = cx.gpu()?;
    let recalled = key.recall(cx);
    let (mut known, evidence) = recalled.clone().unwrap_or_else(|| (Ranking::default(), Evidence::model()));
    let mut solution = None;
    if recalled.is_some() {
        solution = replay(gpu, key, &mut known);
    }
    let from_record = solution.is_some();
    let mut sound = true;
    if solution.is_none() {
        if !cx.records.may_choose() {
            return Err(BuildError::NotRecorded { family: posed(&key.problem, key.scope).family() });
        }
        if recalled.is_none() {
            solution = inherit(gpu, key, &mut known);
        }
        if solution.is_none() {
            (solution, sound) = choose(gpu, key, &mut known);
        }
        // A network cannot do without this solver: if the record's refusals leave no way, they are dropped.
        if solution.is_none() && !can_be_split(&key.problem) && !known.refused.is_empty() {
            known.refused.clear();
            (solution, sound) = choose(gpu, key, &mut known);
        }
    }
    // Where the library failed and gave nothing, nothing is recorded, so that the next process asks it again.
    if (sound || !known.candidates.is_empty()) && recalled.is_none_or(|(before, _)| before != known) {
        posed(&key.problem, key.scope).keep(&cx.records, &known, evidence);
    }
    if solution.is_some() || sound && can_be_split(&key.problem) {
        gpu.kin.keep(&key.problem, key.scope, &key.policy, &known);
    }
    let value = solution.unwrap_or_else(|| Solution::nothing(Origin::Heuristic));
    Ok(Built { bytes: value.weigh(), value, from_record })
}

/// Whether a problem that the library cannot solve is solved in two steps: first without its epilogue, then the
/// epilogue.
fn can_be_split(problem: &Problem) -> bool {
    !problem.epilogue().is_none()
}

/// The first candidate of a record that is allowed and still works. Notes those that never will work again.
fn replay(gpu: &GpuCx, key: &SolverKey, known: &mut Ranking) -> Option<Solution> {
    if known.candidates.is_empty() {
        // A record without candidates is believed only where a false one costs no more than time.
        return can_be_split(&key.problem).then(|| Solution::nothing(Origin::Replayed));
    }
    for (place, candidate) in known.candidates.clone().into_iter().enumerate() {
        if key.policy.allows(&candidate.algorithm).is_err() {
            continue;
        }
        match ready(gpu, &key.problem, &candidate.algorithm, &key.policy) {
            Ok((solver, algorithm)) => {
                let origin = if place == 0 { Origin::Replayed } else { Origin::RunnerUp(place as u32) };
                return Some(Solution { solver: Some(solver), algorithm: Some(algorithm), origin });
            }
            Err(why) => note(known, &candidate.algorithm, &why),
        }
    }
    None
}

/// The first candidate of the ranking of the problem's kin that is allowed and works here. `known` becomes that ranking
/// if there is one; otherwise only what does not work is noted in it.
fn inherit(gpu: &GpuCx, key: &SolverKey, known: &mut Ranking) -> Option<Solution> {
    let mut ranking = gpu.kin.recall(&key.problem, key.scope, &key.policy)?;
    let mut solution = replay(gpu, key, &mut ranking);
    match &mut solution {
        Some(found) => {
            found.origin = Origin::Kin;
            // Scratch memory depends on the sizes.
            let engine = found.algorithm.as_ref().map(|algorithm| &algorithm.engine);
            let in_use = ranking.candidates.iter_mut().find(|one| Some(&one.algorithm.engine) == engine);
            if let (Some(candidate), Some(algorithm)) = (in_use, &found.algorithm) {
                candidate.algorithm = algorithm.clone();
            }
        }
        None => ranking.candidates.clear(),
    }
    *known = ranking;
    solution
}

/// The first proposal of the heuristics that is allowed and works, and whether the library answered every question.
/// Adds the proposals to `known`.
fn choose(gpu: &GpuCx, key: &SolverKey, known: &mut Ranking) -> (Option<Solution>, bool) {
    let mut proposals: Vec<Candidate> = Vec::new();
    let (mut solution, mut sound) = (None, true);
    for heuristic in [Heuristic::Quick, Heuristic::Fallback] {
        let first = proposals.len();
        if let Err(error) = ask(gpu, key, heuristic, known, &mut proposals) {
            tracing::warn!(problem = ?key.problem, %error, "a library cannot say how it would solve a problem");
            sound = false;
        }
        for one in &mut proposals[first..] {
            if key.policy.allows(&one.algorithm).is_err() {
                continue;
            }
            match ready(gpu, &key.problem, &one.algorithm, &key.policy) {
                Ok((solver, algorithm)) => {
                    one.algorithm = algorithm.clone();
                    let algorithm = Some(algorithm);
                    solution = Some(Solution { solver: Some(solver), algorithm, origin: Origin::Heuristic });
                    break;
                }
                Err(why) => note(known, &one.algorithm, &why),
            }
        }
        if solution.is_some() {
            break;
        }
    }
    let in_use = solution.as_ref().and_then(|solution| solution.algorithm.as_ref());
    known.propose(&proposals, in_use.map(|algorithm| &algorithm.engine));
    (solution, sound)
}

/// Logs that an algorithm does not work, or records that it never will.
pub(in crate::exec) fn note(known: &mut Ranking, algorithm: &Algorithm, why: &Unusable) {
    match why {
        Unusable::Unsupported => known.refuse(&algorithm.engine, RefusalReason::Unsupported),
        Unusable::Now(error) => tracing::warn!(?algorithm, %error, "an algorithm cannot be made ready"),
        Unusable::NotAllowed(why) => {
            tracing::debug!(?algorithm, ?why, "an algorithm is not what it was said to be")
        }
    }
}
