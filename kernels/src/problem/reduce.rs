//! Reductions as passes over data: the map of an element, the fold of elements, the operation on the result.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

/// The result of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
#[allow(missing_docs, reason = "the names are ONNX's")]
pub enum Reduction {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    SumSquare,
    L1,
    L2,
    LogSum,
    LogSumExp,
}

/// The operation on an element before it is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Map {
    Identity,
    Abs,
    Square,
}

/// How elements are folded into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Fold {
    /// The sum.
    Add,
    /// The product.
    Mul,
    /// The largest; NaN wins.
    Max,
    /// The smallest; NaN wins.
    Min,
    /// The logarithm of the sum of exponentials, without overflow.
    LogAddExp,
}

/// The operation on a fold's result, after the scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
#[allow(missing_docs, reason = "the names say it")]
pub enum PostOp {
    None,
    Sqrt,
    Log,
}

/// One pass over data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Pass {
    /// The operation on each element first.
    pub map: Map,
    /// How elements are folded.
    pub fold: Fold,
    /// The operation on the result, after the scaling.
    pub post_op: PostOp,
}

impl Reduction {
    /// All reductions.
    pub const ALL: [Reduction; 10] = [
        Reduction::Sum,
        Reduction::Mean,
        Reduction::Max,
        Reduction::Min,
        Reduction::Prod,
        Reduction::SumSquare,
        Reduction::L1,
        Reduction::L2,
        Reduction::LogSum,
        Reduction::LogSumExp,
    ];

    /// The reduction as one pass. Of several passes, every pass folds, the first maps and the last applies the post-op.
    #[must_use]
    pub const fn pass(self) -> Pass {
        let (map, fold, post_op) = match self {
            Reduction::Sum | Reduction::Mean => (Map::Identity, Fold::Add, PostOp::None),
            Reduction::Max => (Map::Identity, Fold::Max, PostOp::None),
            Reduction::Min => (Map::Identity, Fold::Min, PostOp::None),
            Reduction::Prod => (Map::Identity, Fold::Mul, PostOp::None),
            Reduction::SumSquare => (Map::Square, Fold::Add, PostOp::None),
            Reduction::L1 => (Map::Abs, Fold::Add, PostOp::None),
            Reduction::L2 => (Map::Square, Fold::Add, PostOp::Sqrt),
            Reduction::LogSum => (Map::Identity, Fold::Add, PostOp::Log),
            Reduction::LogSumExp => (Map::Identity, Fold::LogAddExp, PostOp::None),
        };
        Pass { map, fold, post_op }
    }

    /// The reduction of no elements.
    #[must_use]
    pub const fn of_nothing(self) -> f32 {
        match self {
            Reduction::Sum | Reduction::SumSquare | Reduction::L1 | Reduction::L2 => 0.0,
            Reduction::Prod => 1.0,
            Reduction::Mean => f32::NAN,
            Reduction::Min => f32::INFINITY,
            Reduction::Max | Reduction::LogSum | Reduction::LogSumExp => f32::NEG_INFINITY,
        }
    }
}
