//! Element types of outputs.

use super::View;
use crate::tensor::DType;
use kiln_kernels::cpu::chain::Storage;

use crate::graph::ir::Attr;

/// The element type of output number `output`, where the operator tells.
pub(super) fn dtype(view: &View<'_>, output: usize) -> Option<DType> {
    let node = view.node;
    if node.domain == "kiln" {
        return match (node.op.as_str(), node.attrs.get("program")) {
            ("Chain", Some(Attr::Chain(program))) => Some(match program.output {
                Storage::F32 => DType::F32,
                Storage::Bool => DType::Bool,
            }),
            // The output is of its zero point's type, where it has one.
            ("QuantizedConv" | "QuantizedMatMul", _) if node.input(8).is_some() => view.input(8).dtype,
            ("QuantizedAdd", _) => view.input(7).dtype,
            ("QuantizedGlobalAveragePool", _) => view.input(4).dtype,
            // These may say what they store.
            ("FusedConv" | "FusedConvTranspose" | "FusedMatMul" | "FusedAttention", _)
                if node.attrs.contains_key("to") =>
            {
                node.dtype("to")
            }
            // Of its factors' type, which passes have fused whatever it is.
            ("FusedMatMul" | "FusedConv" | "FusedConvTranspose", _) => view.input(0).dtype,
            // Half floats become whole ones, everything else stays.
            ("Widen", _) => match view.input(0).dtype {
                Some(DType::F16 | DType::BF16) => Some(DType::F32),
                other => other,
            },
            _ => Some(DType::F32),
        };
    }
    if node.domain == "com.microsoft" {
        // Of the zero point's type, or else of the operand's.
        let typed = |zero: usize| if node.input(zero).is_some() { view.input(zero).dtype } else { view.input(0).dtype };
        return match node.op.as_str() {
            "QLinearAdd" => typed(7),
            "QLinearGlobalAveragePool" => typed(4),
            _ => None,
        };
    }
    if !node.domain.is_empty() {
        return None;
    }
    let of_input = |index: usize| view.input(index).dtype;
    match node.op.as_str() {
        "Shape" | "Size" | "ArgMax" | "ArgMin" | "NonZero" => Some(DType::I64),
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "And" | "Or" | "Xor" | "Not" | "IsNaN"
        | "IsInf" => Some(DType::Bool),
        "Cast" => node.dtype("to"),
        "DequantizeLinear" if node.int("output_dtype", 0) == 0 => of_input(1),
        "QuantizeLinear" if node.input(2).is_some() => of_input(2),
        "QuantizeLinear" if node.int("output_dtype", 0) == 0 => Some(DType::U8),
        "DynamicQuantizeLinear" => Some(if output == 1 { DType::F32 } else { DType::U8 }),
        "MatMulInteger" | "ConvInteger" => Some(DType::I32),
        "QLinearMatMul" | "QLinearConv" => of_input(7),
        "CastLike" | "Where" => of_input(1),
        "Dropout" if output == 1 => Some(DType::Bool),
        "MaxPool" | "TopK" | "Unique" if output >= 1 => Some(DType::I64),
        "LayerNormalization" | "BatchNormalization" | "GroupQueryAttention" if output >= 1 => None,
        "LayerNormalization" | "RMSNormalization" if node.attrs.contains_key("to") => node.dtype("to"),
        "ConstantOfShape" => match node.attrs.get("value") {
            Some(Attr::Tensor(value)) => Some(value.dtype()),
            _ => Some(DType::F32),
        },
        "OneHot" => of_input(2),
        "Abs"
        | "Add"
        | "AveragePool"
        | "BatchNormalization"
        | "Ceil"
        | "Celu"
        | "Clip"
        | "Compress"
        | "Concat"
        | "Conv"
        | "ConvTranspose"
        | "Cos"
        | "CumSum"
        | "DepthToSpace"
        | "Div"
        | "Dropout"
        | "Einsum"
        | "Elu"
        | "Erf"
        | "Exp"
        | "Expand"
        | "Flatten"
        | "Floor"
        | "GRU"
        | "Gather"
        | "GatherElements"
        | "GatherND"
        | "Gelu"
        | "Gemm"
        | "GlobalAveragePool"
        | "GlobalLpPool"
        | "GlobalMaxPool"
        | "GroupNormalization"
        | "HardSigmoid"
        | "HardSwish"
        | "Hardmax"
        | "Identity"
        | "InstanceNormalization"
        | "LRN"
        | "LSTM"
        | "LayerNormalization"
        | "LeakyRelu"
        | "Log"
        | "LogSoftmax"
        | "LpNormalization"
        | "LpPool"
        | "MatMul"
        | "Max"
        | "MaxPool"
        | "Mean"
        | "MeanVarianceNormalization"
        | "Min"
        | "Mish"
        | "Mod"
        | "Mul"
        | "Neg"
        | "PRelu"
        | "Pad"
        | "Pow"
        | "RMSNormalization"
        | "RNN"
        | "Range"
        | "Reciprocal"
        | "ReduceL1"
        | "ReduceL2"
        | "ReduceLogSum"
        | "ReduceLogSumExp"
        | "ReduceMax"
        | "ReduceMean"
        | "ReduceMin"
        | "ReduceProd"
        | "ReduceSum"
        | "ReduceSumSquare"
        | "Relu"
        | "Reshape"
        | "Resize"
        | "ReverseSequence"
        | "Round"
        | "ScatterElements"
        | "ScatterND"
        | "Selu"
        | "Sigmoid"
        | "Sign"
        | "Sin"
        | "Slice"
        | "Softmax"
        | "Softplus"
        | "Softsign"
        | "SpaceToDepth"
        | "Split"
        | "Sqrt"
        | "Squeeze"
        | "Sub"
        | "Sum"
        | "Swish"
        | "Tan"
        | "Tanh"
        | "ThresholdedRelu"
        | "Tile"
        | "TopK"
        | "Transpose"
        | "Trilu"
        | "Unsqueeze"
        | "Upsample" => {
            // Operands of one type variable: any of them tells (Pow's second operand is another one).
            of_input(0)
                .or_else(|| matches!(node.op.as_str(), "Add" | "Sub" | "Mul" | "Div").then(|| of_input(1)).flatten())
        }
        _ => None,
    }
}
