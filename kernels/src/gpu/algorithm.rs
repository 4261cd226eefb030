//! How a library solves a problem, as parameters that another process can use: the engine with its knobs, the scratch
//! memory it needs, and facts about its arithmetic. Also the policy that says which algorithms a caller allows.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

/// One way of solving a problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Algorithm {
    /// The engine and its parameters.
    pub engine: Engine,
    /// Bytes of scratch memory.
    pub workspace: u64,
    /// Facts about its arithmetic.
    pub notes: Notes,
}

/// A library's name for a way of solving a problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Engine {
    /// cuDNN's graph interface: the engine's global index and its knobs by type, as raw numbers.
    Graph {
        /// `CUDNN_ATTR_ENGINE_GLOBAL_INDEX`
        index: i64,
        /// `CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE` and `..._VALUE`
        knobs: Vec<(i32, i64)>,
    },
    /// cuDNN's older calls.
    Legacy {
        /// `cudnnConvolutionFwdAlgo_t`, or for a transposed convolution `cudnnConvolutionBwdDataAlgo_t`
        algo: i32,
        /// `cudnnMathType_t`
        math: i32,
    },
    /// cuBLASLt's `cublasLtMatmulAlgo_t`.
    Lt {
        /// Its opaque words.
        data: [u64; 8],
    },
}

/// Facts about an algorithm's arithmetic, by cuDNN's numbers of numerical notes (`cudnnBackendNumericalNote_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Notes(pub u32);

impl Notes {
    /// It computes on tensor cores: `f32` with TF32's ten bits.
    pub const TENSOR_CORE: Notes = Notes(1 << 0);
    /// It rounds its inputs to fewer bits than `f32` has.
    pub const DOWN_CONVERT: Notes = Notes(1 << 1);
    /// Its sums have fewer bits than `f32`.
    pub const REDUCED_PRECISION: Notes = Notes(1 << 2);
    /// It computes by Fourier transforms.
    pub const FFT: Notes = Notes(1 << 3);
    /// Two runs may differ.
    pub const NONDETERMINISTIC: Notes = Notes(1 << 4);
    /// It computes by Winograd's transforms, of any tile (notes 5 to 8).
    pub const WINOGRAD: Notes = Notes(0b1111 << 5);

    /// Whether any of those notes is one of these.
    #[must_use]
    pub fn has(self, any: Notes) -> bool {
        self.0 & any.0 != 0
    }

    /// The union of both.
    #[must_use]
    pub fn and(self, more: Notes) -> Notes {
        Notes(self.0 | more.0)
    }
}

/// The heuristic that makes proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heuristic {
    /// For requests, where nothing was measured: fast to ask.
    Quick,
    /// For a search: more proposals, ranked better, slower to ask.
    Thorough,
    /// Few proposals that nearly every problem can use.
    Fallback,
}

/// The limits that a caller sets on algorithms. They are not a part of the problem: after a change of policy, known
/// algorithms are ranked again, without a new search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Policy {
    /// Whether two runs must give the same bits.
    pub deterministic: bool,
    /// Whether inputs may be rounded to TF32.
    pub tf32: bool,
    /// Whether inputs may be rounded to fewer bits than TF32 has, or sums be kept in fewer than `f32`.
    pub reduced: bool,
    /// Whether Fourier and Winograd transforms may be used, whose rounding errors are larger.
    pub transforms: bool,
    /// Most bytes of scratch memory.
    pub workspace: u64,
}

impl Default for Policy {
    /// Strict `f32`, by any algorithm, in at most 256 MiB of scratch memory.
    fn default() -> Policy {
        Policy { deterministic: false, tf32: false, reduced: false, transforms: true, workspace: 256 << 20 }
    }
}

/// Why an algorithm is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its runs may differ.
    Nondeterministic,
    /// It computes in TF32.
    Tf32,
    /// It computes in fewer bits.
    Reduced,
    /// It uses a Fourier or Winograd transform.
    Transform,
    /// It needs more scratch memory.
    Workspace,
}

impl Policy {
    /// Whether that algorithm may be used.
    ///
    /// # Errors
    ///
    /// The first reason why not.
    pub fn allows(&self, algorithm: &Algorithm) -> Result<(), Refusal> {
        let notes = algorithm.notes;
        let rules = [
            (self.deterministic && notes.has(Notes::NONDETERMINISTIC), Refusal::Nondeterministic),
            (!self.tf32 && notes.has(Notes::TENSOR_CORE), Refusal::Tf32),
            (!self.reduced && notes.has(Notes::DOWN_CONVERT.and(Notes::REDUCED_PRECISION)), Refusal::Reduced),
            (!self.transforms && notes.has(Notes::FFT.and(Notes::WINOGRAD)), Refusal::Transform),
            (algorithm.workspace > self.workspace, Refusal::Workspace),
        ];
        rules.into_iter().find(|(broken, _)| *broken).map_or(Ok(()), |(_, why)| Err(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn algorithm(notes: Notes, workspace: u64) -> Algorithm {
        Algorithm { engine: Engine::Legacy { algo: 1, math: 0 }, workspace, notes }
    }

    #[test]
    fn a_policy_refuses_for_the_reason_that_it_names() {
        let strict = Policy { deterministic: true, tf32: false, reduced: false, transforms: false, workspace: 1 << 20 };
        let lax = Policy { deterministic: false, tf32: true, reduced: true, transforms: true, workspace: 1 << 30 };
        let cases = [
            (Notes::NONDETERMINISTIC, 0, Refusal::Nondeterministic),
            (Notes::TENSOR_CORE, 0, Refusal::Tf32),
            (Notes::DOWN_CONVERT, 0, Refusal::Reduced),
            (Notes::REDUCED_PRECISION, 0, Refusal::Reduced),
            (Notes::FFT, 0, Refusal::Transform),
            (Notes(1 << 8), 0, Refusal::Transform),
            (Notes::default(), 2 << 20, Refusal::Workspace),
        ];
        for (notes, workspace, why) in cases {
            assert_eq!(strict.allows(&algorithm(notes, workspace)), Err(why));
            assert_eq!(lax.allows(&algorithm(notes, workspace)), Ok(()));
        }
        assert_eq!(strict.allows(&algorithm(Notes::default(), 1 << 20)), Ok(()));
    }
}
