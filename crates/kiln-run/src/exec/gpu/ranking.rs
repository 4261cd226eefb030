//! The record of a problem's solutions: the best ways in order, and the ways that are not to be tried.
//!
//! One process writes it under one policy, and another process reads it under another policy, from a file that any user
//! may have written. So it holds more than the algorithm in use, and for each the known facts of its arithmetic. A
//! reader asks the policy again and makes the solver again, and takes the next one where that fails.

use std::fmt;

use kiln_kernels::gpu::{Algorithm, Engine, Policy, Problem};
use serde::{Deserialize, Serialize};

/// Candidates that are kept.
pub const MOST_CANDIDATES: usize = 5;

/// Refusals that are kept.
pub const MOST_REFUSED: usize = 4;

/// More scratch memory than this is not believed: cuDNN has been seen to ask for 2^63 bytes.
const ABSURD_WORKSPACE: u64 = 1 << 40;

/// Most knobs of an engine; cuDNN numbers some thirty kinds.
const MOST_KNOBS: usize = 64;

/// What a record of a problem says. Without candidates: the library has no way of solving it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranking {
    /// The ways, best first: those that were measured, then the others as the heuristics rank them.
    pub candidates: Vec<Candidate>,
    /// Ways that do not work here.
    pub refused: Vec<Refused>,
    /// The policy under which the candidates were measured; `None` where none was.
    pub measured_under: Option<Policy>,
}

/// A way of solving a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The way.
    pub algorithm: Algorithm,
    /// Least measured time of a run in nanoseconds; 0 where it was not measured.
    pub nanos: u64,
    /// Its place among the proposals of the heuristics.
    pub rank: u32,
}

/// A way that is not to be tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The way.
    pub engine: Engine,
    /// Why not.
    pub reason: RefusalReason,
}

/// Why a way is not to be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalReason {
    /// The library proposed it, but does not make it for this problem.
    Unsupported,
    /// It does not run.
    Fails,
}

/// Whether an algorithm may be one for that problem at all.
pub(in crate::exec) fn is_sane(algorithm: &Algorithm, problem: &Problem) -> bool {
    let fits = match (&algorithm.engine, problem) {
        (Engine::Graph { knobs, .. }, Problem::Conv(_)) => knobs.len() <= MOST_KNOBS,
        (Engine::Legacy { .. }, Problem::Conv(_)) | (Engine::Lt { .. }, Problem::MatMul(_)) => true,
        _ => false,
    };
    fits && algorithm.workspace < ABSURD_WORKSPACE
}

impl Ranking {
    /// Whether a record of that problem may say this. Its candidates need not work.
    #[must_use]
    pub fn is_sane(&self, problem: &Problem) -> bool {
        self.candidates.len() <= MOST_CANDIDATES
            && self.refused.len() <= MOST_REFUSED
            && self.candidates.iter().all(|candidate| is_sane(&candidate.algorithm, problem))
    }

    /// Whether that way is not to be tried.
    #[must_use]
    pub fn refuses(&self, engine: &Engine) -> bool {
        self.refused.iter().any(|refused| refused.engine == *engine)
    }

    /// Whether everything that `policy` allows was allowed when the candidates were measured.
    #[must_use]
    pub fn is_measured_for(&self, policy: &Policy) -> bool {
        self.measured_under.as_ref().is_some_and(|under| {
            (policy.deterministic || !under.deterministic)
                && (!policy.tf32 || under.tf32)
                && (!policy.reduced || under.reduced)
                && (!policy.transforms || under.transforms)
                && policy.workspace <= under.workspace
        })
    }

    /// Notes that a way does not work: it is no candidate any more. The oldest note makes room.
    pub fn refuse(&mut self, engine: &Engine, reason: RefusalReason) {
        self.candidates.retain(|candidate| candidate.algorithm.engine != *engine);
        if !self.refuses(engine) {
            if self.refused.len() >= MOST_REFUSED {
                self.refused.remove(0);
            }
            self.refused.push(Refused { engine: engine.clone(), reason });
        }
    }

    /// Adds the heuristics' proposals, except refused ones. Measured candidates stay unchanged, and come before those
    /// that were not measured. Above the limit, candidates are dropped from the end, but never the one in use.
    pub fn propose(&mut self, proposals: &[Candidate], in_use: Option<&Engine>) {
        for proposal in proposals {
            let engine = &proposal.algorithm.engine;
            if self.refuses(engine) {
                continue;
            }
            match self.candidates.iter_mut().find(|known| known.algorithm.engine == *engine) {
                Some(known) if known.nanos > 0 => known.rank = proposal.rank,
                Some(known) => *known = proposal.clone(),
                None => self.candidates.push(proposal.clone()),
            }
        }
        // Stable: measured candidates stay in their order, which a contest with margins has decided.
        self.candidates.sort_by_key(|one| if one.nanos > 0 { (0, 0) } else { (1, one.rank) });
        while self.candidates.len() > MOST_CANDIDATES {
            let spare = |one: &Candidate| in_use != Some(&one.algorithm.engine);
            match self.candidates.iter().rposition(spare) {
                Some(place) => drop(self.candidates.remove(place)),
                None => break,
            }
        }
    }
}

/// For tables: `engine 11 {2:1} 1.0 MiB 60.0 us; legacy 1/0; not engine 34 (unsupported)`.
impl fmt::Display for Ranking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.candidates.is_empty() {
            f.write_str("no way")?;
        }
        for (place, candidate) in self.candidates.iter().enumerate() {
            let Candidate { algorithm, nanos, .. } = candidate;
            write!(f, "{}{}", if place > 0 { "; " } else { "" }, Name(&algorithm.engine))?;
            if algorithm.workspace > 0 {
                write!(f, " {:.1} MiB", algorithm.workspace as f64 / f64::from(1 << 20))?;
            }
            if *nanos > 0 {
                write!(f, " {:.1} us", *nanos as f64 / 1e3)?;
            }
        }
        for refused in &self.refused {
            let reason = match refused.reason {
                RefusalReason::Unsupported => "unsupported",
                RefusalReason::Fails => "fails",
            };
            write!(f, "; not {} ({reason})", Name(&refused.engine))?;
        }
        Ok(())
    }
}

/// An engine in words.
pub(in crate::exec) struct Name<'a>(pub(in crate::exec) &'a Engine);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Engine::Graph { index, knobs } => {
                write!(f, "engine {index}")?;
                if !knobs.is_empty() {
                    let knobs: Vec<String> = knobs.iter().map(|(kind, value)| format!("{kind}:{value}")).collect();
                    write!(f, " {{{}}}", knobs.join(" "))?;
                }
                Ok(())
            }
            Engine::Legacy { algo, math } => write!(f, "legacy {algo}/{math}"),
            Engine::Lt { data } => {
                let used = data.iter().rposition(|&word| word != 0).map_or(1, |last| last + 1);
                let words: Vec<String> = data[..used].iter().map(|word| format!("{word:x}")).collect();
                write!(f, "lt {}", words.join("."))
            }
        }
    }
}
