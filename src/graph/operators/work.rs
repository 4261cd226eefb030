//! How operators run: which compute through executors with keys, which only move data, and which are plain Rust and
//! why. `kiln check --operators` writes it down, and tests hold it against what runs.

use super::row::Operator;
use super::wide::Wide;
use crate::tensor::DType;

/// How the nodes of an operator run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// They compute through an executor that is cached by a key, on the element types that have kernels.
    Key,
    /// They move elements or whole values and compute nothing.
    Moves,
    /// They compute in plain Rust, for that reason.
    Plain(&'static str),
}

impl Operator {
    /// How its nodes run; nothing where the table does not say it yet, which a test refuses.
    #[must_use]
    pub fn work(&self) -> Option<Work> {
        if let Some(own) = self.element_wise.filter(|own| own.wide.is_some()) {
            if matches!(own.wide, Some(Wide::Gated(_))) {
                return Some(Work::Plain(BOUND_BY_MEMORY));
            }
            let has_kernels = [DType::F32, DType::Bool].into_iter().any(|dtype| own.takes.takes(dtype));
            return Some(if has_kernels { Work::Key } else { Work::Plain("no kernels on integers and strings") });
        }
        if KEYS.contains(&self.name) {
            return Some(Work::Key);
        }
        if MOVES.contains(&self.name) {
            return Some(Work::Moves);
        }
        PLAIN.iter().find(|plain| plain.names.contains(&self.name)).map(|plain| Work::Plain(plain.reason))
    }
}

const KEYS: &[&str] = &[
    "Attention",
    "AveragePool",
    "BatchNormalization",
    "BlockwiseMatMul",
    "ByteTable",
    "Chain",
    "ChannelPRelu",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "DepthToSpace",
    "DynamicQuantizeLSTM",
    "FusedAttention",
    "FusedConv",
    "FusedConvTranspose",
    "FusedMatMul",
    "GRU",
    "Gemm",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "GroupNormalization",
    "GroupQueryAttention",
    "InstanceNormalization",
    "LRN",
    "LSTM",
    "LayerNormalization",
    "LogSoftmax",
    "LpNormalization",
    "LpPool",
    "MatMul",
    "MatMulBnb4",
    "MatMulInteger",
    "MatMulNBits",
    "MaxPool",
    "MeanVarianceNormalization",
    "MoE",
    "QGemm",
    "QLinearConv",
    "QLinearGlobalAveragePool",
    "QLinearMatMul",
    "QMoE",
    "QuantizedAveragePool",
    "QuantizedConv",
    "QuantizedGlobalAveragePool",
    "QuantizedMatMul",
    "RMSNormalization",
    "RNN",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Resize",
    "Softmax",
    "SpaceToDepth",
    "Transpose",
    "Upsample",
];

const MOVES: &[&str] = &[
    "ArrayFeatureExtractor",
    "BeamRows",
    "BitCast",
    "CenterCropPad",
    "Compress",
    "Concat",
    "ConcatFromSequence",
    "Constant",
    "ConstantOfShape",
    "DictVectorizer",
    "Expand",
    "EyeLike",
    "Flatten",
    "Gather",
    "GatherBlockQuantized",
    "GatherElements",
    "GatherND",
    "Identity",
    "MaxUnpool",
    "OneHot",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "Pad",
    "Reshape",
    "ReverseSequence",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "Shape",
    "Size",
    "Slice",
    "Split",
    "SplitToSequence",
    "Squeeze",
    "StepPosition",
    "TensorScatter",
    "Tile",
    "Trilu",
    "Unsqueeze",
    "ZipMap",
];

/// Operators that compute in plain Rust for the same reason.
struct Plain {
    reason: &'static str,
    names: &'static [&'static str],
}

const BOUND_BY_MEMORY: &str = "one pass that memory bounds";

const PLAIN: &[Plain] = &[
    Plain { reason: "runs the nodes of its body", names: &["If", "Loop", "Scan", "SequenceMap"] },
    Plain {
        reason: BOUND_BY_MEMORY,
        names: &[
            "AttentionMask",
            "Binarizer",
            "Cast",
            "CastLike",
            "DequantizeLinear",
            "Dropout",
            "DynamicQuantizeLinear",
            "QLinearAdd",
            "QuantizeLinear",
            "QuantizedAdd",
            "RotaryEmbedding",
            "Scaler",
            "Widen",
        ],
    },
    Plain {
        reason: "order decides, not arithmetic",
        names: &["ArgMax", "ArgMin", "Hardmax", "NonMaxSuppression", "NonZero", "TopK", "Unique"],
    },
    Plain {
        reason: "reads or writes where its data say",
        names: &["DeformConv", "GridSample", "RoiAlign", "Scatter", "ScatterElements", "ScatterND"],
    },
    Plain { reason: "each result needs the one before", names: &["CumProd", "CumSum", "LinearAttention"] },
    Plain {
        reason: "rare, and small where it is met",
        names: &[
            "AffineGrid",
            "BlackmanWindow",
            "CausalConvWithState",
            "Col2Im",
            "DFT",
            "Det",
            "Einsum",
            "HammingWindow",
            "HannWindow",
            "Inverse",
            "MelWeightMatrix",
            "NegativeLogLikelihoodLoss",
            "Range",
            "STFT",
            "SoftmaxCrossEntropyLoss",
        ],
    },
    Plain {
        reason: "random numbers come one after the other",
        names: &["Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"],
    },
    Plain { reason: "rows of kernel functions, on all threads", names: &["SVMClassifier", "SVMRegressor"] },
    Plain { reason: "walks trees", names: &["TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"] },
    Plain {
        reason: "texts and tables of them",
        names: &[
            "CategoryMapper",
            "LabelEncoder",
            "RegexFullMatch",
            "StringNormalizer",
            "StringSplit",
            "TfIdfVectorizer",
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::operators;

    #[test]
    fn the_table_says_of_every_operator_once_how_it_runs() {
        let unsaid: Vec<&str> = operators::all().filter(|row| row.work().is_none()).map(|row| row.name).collect();
        assert!(unsaid.is_empty(), "operators that stand in no list of this file: {unsaid:?}");
        let plain = PLAIN.iter().flat_map(|plain| plain.names);
        let mut listed: Vec<&str> = KEYS.iter().chain(MOVES).chain(plain).copied().collect();
        let known = |name: &str| {
            operators::all().any(|row| row.name == name && row.element_wise.is_none_or(|own| own.wide.is_none()))
        };
        let idle: Vec<&&str> = listed.iter().filter(|name| !known(name)).collect();
        assert!(idle.is_empty(), "names in a list that say nothing: {idle:?}");
        let all = listed.len();
        listed.sort_unstable();
        listed.dedup();
        assert_eq!(listed.len(), all, "a name stands in two lists");
    }
}
