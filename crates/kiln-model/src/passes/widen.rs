//! A network in `f16` or `bf16` is computed in `f32`, the type of most kernels: passes that fuse `f32` then apply to it
//! too, and nodes do not convert their inputs and outputs.
//!
//! A node of the lists below that reads or makes 16-bit values reads and makes `f32` instead. A conversion stands where
//! other nodes, the caller or a constant table have the value in its own type. Values between such nodes are no longer
//! rounded to 16 bits; ONNX Runtime does the same on processors. Constants stay as small as they are stored until they
//! are packed. A caller's caches of 16 bits (attention with a past) are left alone: converting them would take longer
//! than reading them. GroupQueryAttention gets its other inputs in `f32`, and reads a cache of `f16` or of codes in
//! place.
//!
//! A graph without a value between two such nodes gains nothing, and is not changed.

use std::ops::Range;

use hashbrown::HashMap;
use kiln_tensor::DType;

use super::PassCx;
use crate::facts::Facts;
use crate::ir::{Attr, Attrs, Graph, NodeDesc, ValueId, ValueInfo};

/// ONNX's number of the type.
const F32: i64 = 1;

/// Operators that compute in `f32`, of ONNX's, ONNX Runtime's and Kiln's own domains.
const COMPUTE: &[&str] = &[
    "Abs",
    "Add",
    "AveragePool",
    "BatchNormalization",
    "BiasAdd",
    "BiasGelu",
    "BlockwiseMatMul",
    "Celu",
    "Clip",
    "Conv",
    "ConvTranspose",
    "Cos",
    "CumSum",
    "DequantizeLinear",
    "Div",
    "Einsum",
    "Elu",
    "Erf",
    "Exp",
    "FastGelu",
    "FusedConv",
    "FusedGemm",
    "FusedMatMul",
    "GRU",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "GroupNorm",
    "GroupNormalization",
    "GroupQueryAttention",
    "HardSigmoid",
    "HardSwish",
    "InstanceNormalization",
    "LRN",
    "LSTM",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "MatMul",
    "MatMulBnb4",
    "MatMulNBits",
    "Max",
    "MaxPool",
    "Mean",
    "MeanVarianceNormalization",
    "Min",
    "Mish",
    "MoE",
    "Mul",
    "Neg",
    "PRelu",
    "Pow",
    "QMoE",
    "QuickGelu",
    "RMSNormalization",
    "RNN",
    "Reciprocal",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceSum",
    "ReduceSumSquare",
    "Relu",
    "Resize",
    "RotaryEmbedding",
    "Selu",
    "Sigmoid",
    "SimplifiedLayerNormalization",
    "Sin",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Sub",
    "Sum",
    "Swish",
    "Tanh",
    "ThresholdedRelu",
    "Upsample",
];

/// Operators that move elements, whatever their type.
const MOVE: &[&str] = &[
    "Cast",
    "Concat",
    "DepthToSpace",
    "Dropout",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "Identity",
    "Pad",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Trilu",
    "Unsqueeze",
    "Where",
];

/// Attention whose caches stay in their own type, and the places of these among its inputs and outputs.
const GROUP_QUERY: &str = "GroupQueryAttention";
const PAST: Range<usize> = 3..5;
const PRESENT: Range<usize> = 1..3;

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let facts = &cx.facts;
    let widened: Vec<bool> = graph.nodes.iter().map(|node| takes_f32(graph, node, facts)).collect();
    if !pays(graph, &widened, facts) {
        return 0;
    }
    let mut rewrite = Rewrite { nodes: Vec::with_capacity(graph.nodes.len()), wide: HashMap::new() };
    for (mut node, widened) in std::mem::take(&mut graph.nodes).into_iter().zip(widened) {
        if !widened {
            rewrite.nodes.push(node);
            continue;
        }
        let [past, present] = if node.op == GROUP_QUERY { [PAST, PRESENT] } else { [0..0, 0..0] };
        let inputs = node.inputs.iter_mut().enumerate().filter(|(index, _)| !past.contains(index));
        for input in inputs.filter_map(|(_, input)| input.as_mut()).filter(|input| is_half(facts, **input)) {
            *input = rewrite.in_f32(graph, *input);
        }
        let mut narrowed = Vec::new();
        let outputs = node.outputs.iter_mut().enumerate().filter(|(index, _)| !present.contains(index));
        for output in outputs.filter_map(|(_, output)| output.as_mut()).filter(|output| is_half(facts, **output)) {
            let wide = like(graph, *output);
            rewrite.wide.insert(*output, wide);
            narrowed.extend(facts.get(*output).dtype.map(|dtype| (wide, *output, dtype)));
            *output = wide;
        }
        if node.is("Cast") && !narrowed.is_empty() {
            node.attrs.insert("to".to_owned(), Attr::Int(F32));
        }
        rewrite.nodes.push(node);
        // A conversion that is not read is removed again.
        for (wide, output, dtype) in narrowed {
            rewrite.nodes.push(cast(graph, wide, output, dtype));
        }
    }
    graph.nodes = rewrite.nodes;
    rewrite.wide.len()
}

fn is_half(facts: &Facts, value: ValueId) -> bool {
    facts.is(value, DType::F16) || facts.is(value, DType::BF16)
}

/// Whether a node reads or makes values of 16 bits and may have them in `f32`.
fn takes_f32(graph: &Graph, node: &NodeDesc, facts: &Facts) -> bool {
    let ours = ["", "com.microsoft", "kiln"].contains(&node.domain.as_str());
    let computed = |value: &ValueId| graph.constant(*value).is_none() && is_half(facts, *value);
    let touches = node.inputs.iter().flatten().any(computed) || node.outputs.iter().flatten().any(computed);
    let types_stated = ["output_dtype", "precision"].iter().any(|name| node.attrs.contains_key(*name));
    let kind = match node.op.as_str() {
        // The result of a cast to integers or booleans depends on rounding.
        "Cast" => {
            let to = node.attributes().dtype("to");
            [DType::F16, DType::BF16, DType::F32].map(Some).contains(&to)
        }
        // A constant table of 16 bits is read in place.
        "Gather" | "GatherElements" => node.input(0).is_some_and(|data| graph.constant(data).is_none()),
        // Without a past cache, the type of the new one is the queries' type.
        GROUP_QUERY => node.input(PAST.start).is_some_and(|past| !facts.is(past, DType::BF16)),
        op => COMPUTE.contains(&op) || MOVE.contains(&op),
    };
    // A node with a value of unknown type, which may have 16 bits, is not converted.
    let values = node.inputs.iter().chain(&node.outputs).flatten();
    let known = values.into_iter().all(|value| facts.get(*value).dtype.is_some());
    ours && touches && kind && known && !types_stated
}

/// Whether some 16-bit value lies between two nodes that would have it in `f32`, at least one of them in [`COMPUTE`].
fn pays(graph: &Graph, widened: &[bool], facts: &Facts) -> bool {
    let nodes = || graph.nodes.iter().zip(widened).filter(|(_, widened)| **widened).map(|(node, _)| node);
    let made: HashMap<ValueId, bool> = nodes()
        .flat_map(|node| node.outputs.iter().flatten().map(|&output| (output, COMPUTE.contains(&node.op.as_str()))))
        .collect();
    nodes().any(|node| {
        let computes = COMPUTE.contains(&node.op.as_str());
        node.inputs.iter().flatten().any(|input| {
            is_half(facts, *input) && made.get(input).is_some_and(|made_by_computing| computes || *made_by_computing)
        })
    })
}

/// The nodes so far, and the `f32` forms of values.
struct Rewrite {
    nodes: Vec<NodeDesc>,
    wide: HashMap<ValueId, ValueId>,
}

impl Rewrite {
    /// A value in `f32`: converted where it comes from a caller or from a node that has 16 bits.
    fn in_f32(&mut self, graph: &mut Graph, value: ValueId) -> ValueId {
        if let Some(&wide) = self.wide.get(&value) {
            return wide;
        }
        let constant = graph.constant(value).cloned();
        let wide = match constant.and_then(|tensor| tensor.in_f32().ok()) {
            Some(tensor) => {
                let stem = stem(graph, value).to_owned();
                graph.add_constant(&stem, tensor)
            }
            None => {
                let wide = like(graph, value);
                let node = cast(graph, value, wide, DType::F32);
                self.nodes.push(node);
                wide
            }
        };
        self.wide.insert(value, wide);
        wide
    }
}

fn stem(graph: &Graph, value: ValueId) -> &str {
    graph.value(value).name.split('#').next().unwrap_or_default()
}

/// A new value in `f32` of the dimensions of another one.
fn like(graph: &mut Graph, value: ValueId) -> ValueId {
    let stem = stem(graph, value).to_owned();
    let wide = graph.fresh(&stem);
    let name = std::mem::take(&mut graph.values[wide.index()].name);
    let known = graph.value(value).clone();
    graph.values[wide.index()] = ValueInfo { name, dtype: Some(DType::F32), ..known };
    wide
}

fn cast(graph: &Graph, from: ValueId, to: ValueId, dtype: DType) -> NodeDesc {
    let number = match dtype {
        DType::F16 => 10,
        DType::BF16 => 16,
        _ => F32,
    };
    let mut attrs = Attrs::new();
    attrs.insert("to".to_owned(), Attr::Int(number));
    NodeDesc {
        name: format!("Cast:{}", graph.value(to).name),
        domain: String::new(),
        op: "Cast".to_owned(),
        version: 13,
        attrs,
        inputs: vec![Some(from)],
        outputs: vec![Some(to)],
    }
}
