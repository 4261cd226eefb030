//! A small language model as onnxruntime-genai's builder writes them.

use kiln_model::ir::{Attr, Dim, ValueId};
use kiln_model::{Graph, GraphBuilder};
use kiln_tensor::{DType, Tensor};

/// Tokens that it knows.
pub(in crate::session) const WORDS: usize = 13;
pub(super) const HIDDEN: usize = 16;
const HEADS: usize = 2;
pub(super) const SIZE: usize = 8;
/// Positions that the tables of angles have.
const ANGLES: usize = 4096;

fn weights(build: &mut GraphBuilder, shape: &[usize], seed: usize) -> ValueId {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|at| ((at * 7919 + seed * 611) % 1009) as f32 / 504.5 - 1.0).collect();
    build.constant(Tensor::from_vec(shape.to_vec(), values).unwrap())
}

fn numbers(build: &mut GraphBuilder, values: &[i64]) -> ValueId {
    build.constant(Tensor::from_vec([values.len()], values.to_vec()).unwrap())
}

/// The lengths of sequences, as builders compute them from the mask.
fn lengths(build: &mut GraphBuilder, mask: ValueId) -> [ValueId; 2] {
    let to_i32 = [("to", Attr::Int(6))];
    let (one, axis) = (numbers(build, &[1]), numbers(build, &[1]));
    let sums = build.op("ReduceSum", &[mask, axis], &[("keepdims", 0i64.into())]);
    let last = build.op("Sub", &[sums, one], &[]);
    let shape = build.op("Shape", &[mask], &[]);
    let place = build.constant(Tensor::scalar(1i64));
    let total = build.op("Gather", &[shape, place], &[]);
    [last, total].map(|value| build.op("Cast", &[value], &to_i32))
}

/// A model of two layers; the second has a window if `window` is given.
pub(in crate::session) fn model(window: Option<i64>, positions: bool) -> Graph {
    behind(window, positions, |_, hidden| hidden)
}

/// A causal convolution of three positions before the two layers; its last two columns are a state.
pub(in crate::session) fn hybrid() -> Graph {
    with_states(behind(None, false, convolved))
}

/// The convolution alone, without a cache.
pub(in crate::session) fn recurrent() -> Graph {
    let mut build = GraphBuilder::new("recurrent", 21);
    let tokens = build.input("input_ids", DType::I64, ["batch", "new"].map(Dim::from));
    let table = weights(&mut build, &[WORDS, HIDDEN], 1);
    let hidden = build.op("Gather", &[table, tokens], &[]);
    let hidden = convolved(&mut build, hidden);
    let head = weights(&mut build, &[HIDDEN, WORDS], 9);
    let logits = build.op("MatMul", &[hidden, head], &[]);
    build.output("logits", logits);
    with_states(build.finish())
}

fn convolved(build: &mut GraphBuilder, hidden: ValueId) -> ValueId {
    let past = build.input("past.0.conv", DType::F32, ["batch".into(), HIDDEN.into(), 2usize.into()]);
    let turned = build.op("Transpose", &[hidden], &[("perm", Attr::Ints(vec![0, 2, 1]))]);
    let kernel = weights(build, &[HIDDEN, 1, 3], 12);
    let inputs = [Some(turned), Some(kernel), None, Some(past)];
    let made = build.op_many("CausalConvWithState", &inputs, 2, &[("ndim", 1i64.into())]);
    build.output_of("present.0.conv", made[1], DType::F32, ["batch".into(), HIDDEN.into(), 2usize.into()]);
    build.op("Transpose", &[made[0]], &[("perm", Attr::Ints(vec![0, 2, 1]))])
}

/// A model whose tokens are embedded in another way in texts of more than `most` tokens.
pub(super) fn by_length(most: i64) -> Graph {
    let mut graph = behind(None, false, |build, hidden| {
        let mask = build.input("mask", DType::I64, ["batch", "total"].map(Dim::from));
        let shape = build.op("Shape", &[mask], &[]);
        let place = build.constant(Tensor::scalar(1i64));
        let total = build.op("Gather", &[shape, place], &[]);
        let most = build.constant(Tensor::scalar(most));
        let is_long = build.op("Greater", &[total, most], &[]);
        let factors = [-0.7f32, 1.0].map(|factor| build.constant(Tensor::scalar(factor)));
        let factor = build.op("Where", &[is_long, factors[0], factors[1]], &[]);
        build.op("Mul", &[hidden, factor], &[])
    });
    // It is the model's only mask.
    let [mask, own] = ["mask", "attention_mask"]
        .map(|name| graph.inputs.iter().copied().find(|&input| graph.value(input).name == name).unwrap());
    for input in graph.nodes.iter_mut().flat_map(|node| node.inputs.iter_mut()) {
        *input = if *input == Some(mask) { Some(own) } else { *input };
    }
    graph.inputs.retain(|&input| input != mask);
    graph
}

/// The operator is of com.microsoft.
fn with_states(mut graph: Graph) -> Graph {
    for node in graph.nodes.iter_mut().filter(|node| node.op == "CausalConvWithState") {
        (node.domain, node.version) = ("com.microsoft".to_owned(), 1);
    }
    graph
}

/// A model of two layers behind another layer.
fn behind(window: Option<i64>, positions: bool, layer: impl FnOnce(&mut GraphBuilder, ValueId) -> ValueId) -> Graph {
    let mut build = GraphBuilder::new("small", 21);
    let dims = |names: [&str; 2]| names.map(Dim::from);
    let tokens = build.input("input_ids", DType::I64, dims(["batch", "new"]));
    let mask = build.input("attention_mask", DType::I64, dims(["batch", "total"]));
    let ids = positions.then(|| build.input("position_ids", DType::I64, dims(["batch", "new"])));
    let parts = [0, 1].map(|layer| {
        ["key", "value"].map(|part| {
            let dims = ["batch".into(), 1usize.into(), "past".into(), "size".into()];
            build.input(&format!("past_key_values.{layer}.{part}"), DType::F32, dims)
        })
    });
    let [last, total] = lengths(&mut build, mask);
    let table = weights(&mut build, &[WORDS, HIDDEN], 1);
    let hidden = build.op("Gather", &[table, tokens], &[]);
    let mut hidden = layer(&mut build, hidden);
    let angles = [2, 3].map(|seed| weights(&mut build, &[ANGLES, SIZE / 2], seed));
    let mut presents = Vec::new();
    for (layer, [key, value]) in parts.into_iter().enumerate() {
        let packed = weights(&mut build, &[HIDDEN, (HEADS + 2) * SIZE], 4 + layer);
        let packed = build.op("MatMul", &[hidden, packed], &[]);
        let inputs = [Some(packed), None, None, Some(key), Some(value), Some(last), Some(total)];
        let inputs: Vec<_> = inputs.into_iter().chain([Some(angles[0]), Some(angles[1]), ids]).collect();
        let mut attrs = vec![("num_heads", (HEADS as i64).into()), ("kv_num_heads", 1i64.into())];
        attrs.push(("do_rotary", 1i64.into()));
        if let Some(window) = window.filter(|_| layer == 1) {
            attrs.extend([("local_window_size", window.into()), ("sliding_window_cache", 1i64.into())]);
        }
        let made = build.op_many("GroupQueryAttention", &inputs, 3, &attrs);
        presents.extend([made[1], made[2]]);
        let back = weights(&mut build, &[HEADS * SIZE, HIDDEN], 6 + layer);
        let back = build.op("MatMul", &[made[0], back], &[]);
        let sum = build.op("Add", &[hidden, back], &[]);
        hidden = build.op("Tanh", &[sum], &[]);
    }
    let head = weights(&mut build, &[HIDDEN, WORDS], 9);
    let logits = build.op("MatMul", &[hidden, head], &[]);
    build.output("logits", logits);
    for (at, present) in presents.into_iter().enumerate() {
        build.output(&format!("present.{}.{}", at / 2, ["key", "value"][at % 2]), present);
    }
    let mut graph = build.finish();
    for node in graph.nodes.iter_mut().filter(|node| node.op == "GroupQueryAttention") {
        (node.domain, node.version) = ("com.microsoft".to_owned(), 1);
    }
    graph
}
