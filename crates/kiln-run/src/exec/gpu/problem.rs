//! Problems as keys of records: each library's kind of problem is a family, so that a version of one library says
//! nothing about the records of another.

use std::fmt::Write;
use std::time::Instant;

use kiln_kernels::gpu::{ConvProblem, MatMulProblem, Problem, Scope};
use kiln_key::Key;
use serde::{Deserialize, Serialize};

use super::GpuCx;
use super::ranking::Ranking;
use super::solution::Solution;
use crate::exec::refusal::{Refusal, read};
use crate::exec::{BuildCx, FamilyEntry};
use crate::record::{Evidence, Record, Recorded, Store};

/// A convolution of cuDNN's that stores its sums unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "cudnn-conv", value = Solution, laws = crate::record::laws::check)]
pub struct CudnnConvKey {
    /// The convolution.
    pub problem: ConvProblem,
    /// What choices depend on besides the problem: [`GpuCx::scope`].
    pub scope: u64,
}

/// A convolution of cuDNN's with an epilogue on its sums before they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "cudnn-fusion", value = Solution, laws = crate::record::laws::check)]
pub struct CudnnFusionKey {
    /// The convolution.
    pub problem: ConvProblem,
    /// What choices depend on besides the problem: [`GpuCx::scope`].
    pub scope: u64,
}

/// Matrix products of cuBLASLt's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "cublaslt-matmul", value = Solution, laws = crate::record::laws::check)]
pub struct CublasLtKey {
    /// The products.
    pub problem: MatMulProblem,
    /// What choices depend on besides the problem: [`GpuCx::scope`].
    pub scope: u64,
}

/// A problem's key in records.
pub trait ProblemKey: Recorded<Choice = Ranking> {
    /// The scope of its choices.
    const SCOPE: Scope;

    /// The problem to solve; `None` where the key, which may be from a record, is not one of this family.
    fn problem(&self) -> Option<Problem>;

    /// What choices depend on besides the problem.
    fn scope(&self) -> u64;
}

/// Implements keys: each with its scope, its kind of problem, and whether the problem may, or must, be without an
/// epilogue.
macro_rules! posed {
    ($($key:ident, $scope:ident, $kind:ident, $plain:expr;)*) => {$(
        impl Recorded for $key {
            const REVISION: u32 = 1;
            type Choice = Ranking;
        }

        impl ProblemKey for $key {
            const SCOPE: Scope = Scope::$scope;

            fn problem(&self) -> Option<Problem> {
                let fits = $plain.contains(&self.problem.epilogue.is_none()) && self.problem.extents().is_some();
                fits.then_some(Problem::$kind(self.problem))
            }

            fn scope(&self) -> u64 {
                self.scope
            }
        }
    )*};
}

posed! {
    CudnnConvKey, Cudnn, Conv, [true];
    CudnnFusionKey, Cudnn, Conv, [false];
    CublasLtKey, CublasLt, MatMul, [true, false];
}

/// The scope of a problem's choices.
#[must_use]
pub fn scope_of(problem: &Problem) -> Scope {
    match problem {
        Problem::Conv(_) => CudnnConvKey::SCOPE,
        Problem::MatMul(_) => CublasLtKey::SCOPE,
    }
}

/// The record of a problem, whatever its family.
pub(in crate::exec) trait Recall {
    /// The ranking and its evidence, if there is a record.
    fn recall(&self, records: &Store) -> Option<(Ranking, Evidence)>;

    /// Keeps the ranking as the record.
    fn keep(&self, records: &Store, ranking: &Ranking, evidence: Evidence);

    /// Drops a record that must not be believed.
    fn reject(&self, records: &Store);

    /// The name of the family.
    fn family(&self) -> &'static str;
}

impl<K: ProblemKey> Recall for K {
    fn recall(&self, records: &Store) -> Option<(Ranking, Evidence)> {
        records.lookup_with_evidence(self)
    }

    fn keep(&self, records: &Store, ranking: &Ranking, evidence: Evidence) {
        records.insert(self, ranking, evidence);
    }

    fn reject(&self, records: &Store) {
        records.reject(self);
    }

    fn family(&self) -> &'static str {
        K::FAMILY
    }
}

/// The key under which a problem is recorded.
pub(in crate::exec) fn posed(problem: &Problem, scope: u64) -> Box<dyn Recall> {
    match *problem {
        Problem::Conv(problem) if problem.epilogue.is_none() => Box::new(CudnnConvKey { problem, scope }),
        Problem::Conv(problem) => Box::new(CudnnFusionKey { problem, scope }),
        Problem::MatMul(problem) => Box::new(CublasLtKey { problem, scope }),
    }
}

/// The entry of a kind of problem in the table of all families.
pub(in crate::exec) const fn entry<K: ProblemKey>() -> FamilyEntry {
    FamilyEntry { name: K::FAMILY, describe: describe::<K>, verify: verify::<K> }
}

/// Makes solvers of recorded problems of this device and its libraries' versions, as long as there is time; returns how
/// many.
pub(in crate::exec) fn prepare<K: ProblemKey>(cx: &BuildCx, until: Instant) -> usize {
    let Some(gpu) = &cx.gpu else { return 0 };
    let ours = |key: &K| key.problem().filter(|_| key.scope() == gpu.scope(K::SCOPE));
    let keys = cx.records.keys::<K>();
    let problems = keys.iter().filter_map(ours).take_while(|_| Instant::now() < until);
    // A problem that can no longer be solved costs nothing now: the node that needs it does without.
    problems.filter(|problem| cx.solver(problem).is_ok()).count()
}

fn verify<K: ProblemKey>(record: &Record, _: &BuildCx) -> Result<(), Refusal> {
    let (key, ranking) = read::<K>(record)?;
    let problem = key.problem().ok_or(Refusal::Sizes)?;
    if ranking.is_sane(&problem) { Ok(()) } else { Err(Refusal::Unfit) }
}

fn describe<K: ProblemKey>(record: &Record) -> Option<(String, String)> {
    let (key, ranking) = read::<K>(record).ok()?;
    let mut text = key.problem().as_ref().map_or_else(|| "no problem of this family".to_owned(), in_words);
    let _ = write!(text, " for {:016x}", key.scope());
    Some((text, ranking.to_string()))
}

/// A problem as people write it: `1x3x224x224 by 64x3x7x7 +bias +relu`.
pub(in crate::exec) fn in_words(problem: &Problem) -> String {
    let sizes = |sizes: &[u32]| sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
    // Missing spatial dimensions come first.
    let spatial = |conv: &ConvProblem, list: [u32; 3]| {
        let missing = conv.input.iter().zip(conv.kernel).take_while(|(input, kernel)| (**input, *kernel) == (1, 1));
        sizes(&list[missing.count().min(2)..])
    };
    let mut text = match problem {
        Problem::Conv(conv) => {
            let (input, kernel) = (spatial(conv, conv.input), spatial(conv, conv.kernel));
            let mut text = format!("{}x{}x{input} by {}, {kernel}", conv.batch, conv.channels, conv.filters);
            let lists = [("strides", conv.strides, 1), ("dilations", conv.dilations, 1), ("pads", conv.pads, 0)];
            for (name, list, usual) in lists {
                if list != [usual; 3] {
                    let _ = write!(text, " {name} {}", spatial(conv, list));
                }
            }
            if conv.groups != 1 {
                let _ = write!(text, " groups {}", conv.groups);
            }
            text + if conv.transposed { " transposed" } else { "" }
        }
        Problem::MatMul(product) => {
            let stored = |transposed, one| match (transposed, one) {
                (true, true) => "' (one)",
                (true, false) => "'",
                (false, true) => " (one)",
                (false, false) => "",
            };
            let (left, right) =
                (stored(product.trans_left, product.one_left), stored(product.trans_right, product.one_right));
            let mut text =
                format!("{} of {}x{}{left} by {}x{}{right}", product.batch, product.m, product.k, product.k, product.n);
            if product.scale != 1f32.to_bits() {
                let _ = write!(text, " times {}", f32::from_bits(product.scale));
            }
            text
        }
    };
    let epilogue = problem.epilogue();
    text += if epilogue.bias { " +bias" } else { "" };
    text += if epilogue.residual { " +residual" } else { "" };
    if let Some(activation) = epilogue.activation {
        let _ = write!(text, " +{}", format!("{activation:?}").to_lowercase());
    }
    text
}

impl GpuCx {
    /// The digest that choices for a problem depend on.
    #[must_use]
    pub fn scope_of(&self, problem: &Problem) -> u64 {
        self.scope(scope_of(problem))
    }
}
