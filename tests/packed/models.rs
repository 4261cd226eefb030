//! Small models, one for each way in which nodes keep weights.

use kiln_model::ir::{Attr, Dim};
use kiln_model::{Graph, GraphBuilder, ValueId};
use kiln_tensor::{DType, Tensor};

use crate::Request;

/// Elements of a row of a table.
pub(crate) const WIDE: usize = 64;

/// Rows of a table. The table is larger than the tensors that are read with the model.
pub(crate) const ROWS: usize = 600;

/// Numbers that look random, the same for the same seed.
pub(crate) fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| (((at * 2_654_435_761 + seed * 40_503) >> 7) % 2001) as f32 * 0.001 - 1.0).collect()
}

pub(crate) fn tensor(shape: &[usize], seed: usize) -> Tensor {
    Tensor::from_vec(shape.iter().copied(), numbers(shape.iter().product(), seed)).unwrap()
}

fn bytes(shape: &[usize], seed: usize) -> Tensor {
    let values = numbers(shape.iter().product(), seed).iter().map(|number| (number * 127.0) as i8).collect();
    Tensor::from_vec(shape.iter().copied(), values).unwrap()
}

fn rows(rows: usize, columns: usize) -> Request {
    vec![("x".to_owned(), tensor(&[rows, columns], rows))]
}

/// A model by its name, and requests for it.
pub(crate) struct Model {
    /// Says what it has.
    pub(crate) name: &'static str,
    /// Its graph.
    pub(crate) graph: Graph,
    /// Inputs of each request.
    pub(crate) requests: Vec<Request>,
}

/// Every one.
pub(crate) fn all() -> Vec<Model> {
    vec![products(), images(), cells(), bodies(), quantised(), halves(), blocks(), texts(), wide_integers(), trees()]
}

/// Two products with tied weights: one reads the matrix as it is, the other transposed.
pub(crate) fn products() -> Model {
    let mut build = GraphBuilder::new("products", 17);
    let x = build.input("x", DType::F32, [Dim::Any, 70.into()]);
    let w = build.constant(tensor(&[70, 70], 1));
    let bias = build.constant(tensor(&[70], 2));
    let first = build.op("MatMul", &[x, w], &[]);
    let first = build.op("Add", &[first, bias], &[]);
    let first = build.op("Relu", &[first], &[]);
    let second = build.op("Gemm", &[first, w, bias], &[("transB", 1.into()), ("alpha", 0.5f32.into())]);
    let third = build.op("MatMul", &[second, w], &[]);
    build.output("y", third);
    Model { name: "products", graph: build.finish(), requests: vec![rows(1, 70), rows(9, 70), rows(1, 70)] }
}

/// Convolutions: dense, strided, grouped, depthwise, with few channels, and with a normalisation that is folded.
pub(crate) fn images() -> Model {
    let mut build = GraphBuilder::new("images", 17);
    let x = build.input("x", DType::F32, [Dim::Any, 3.into(), Dim::Any, Dim::Any]);
    let mut y = x;
    for (at, (filters, channels, group, kernel, stride)) in
        [(32, 3, 1, 3, 2), (32, 1, 32, 3, 1), (48, 32, 1, 1, 1), (48, 12, 4, 3, 1), (40, 48, 1, 3, 1)]
            .into_iter()
            .enumerate()
    {
        let w = build.constant(tensor(&[filters, channels, kernel, kernel], at));
        let pad = (kernel / 2) as i64;
        let attrs = [("group", Attr::Int(group)), ("pads", [pad; 4].into()), ("strides", [stride; 2].into())];
        y = build.op("Conv", &[y, w], &attrs);
        let scale = build.constant(tensor(&[filters], at + 1));
        let shift = build.constant(tensor(&[filters], at + 2));
        let variance = build.constant(Tensor::from_vec([filters], vec![1.5f32; filters]).unwrap());
        y = build.op("BatchNormalization", &[y, scale, shift, shift, variance], &[]);
        y = build.op("Relu", &[y], &[]);
    }
    build.output("y", y);
    let image = |size: usize| vec![("x".to_owned(), tensor(&[1, 3, size, size + 2], size))];
    Model { name: "images", graph: build.finish(), requests: vec![image(20), image(33), image(20)] }
}

/// A recurrent cell in both directions.
fn cells() -> Model {
    let (input, hidden) = (12, 20);
    let mut build = GraphBuilder::new("cells", 17);
    let x = build.input("x", DType::F32, [Dim::Any, 1.into(), input.into()]);
    let weights =
        [tensor(&[2, 4 * hidden, input], 3), tensor(&[2, 4 * hidden, hidden], 4), tensor(&[2, 8 * hidden], 5)];
    let [w, r, b] = weights.map(|weights| build.constant(weights));
    let attrs = [("hidden_size", Attr::Int(hidden as i64)), ("direction", "bidirectional".into())];
    let outputs = build.op_many("LSTM", &[Some(x), Some(w), Some(r), Some(b)], 3, &attrs);
    outputs.iter().zip(["y", "h", "c"]).for_each(|(&value, name)| build.output(name, value));
    let steps = |steps: usize| vec![("x".to_owned(), tensor(&[steps, 1, input], steps))];
    Model { name: "cells", graph: build.finish(), requests: vec![steps(3), steps(11), steps(3)] }
}

/// A body that multiplies by a matrix of its own, within a branch.
fn bodies() -> Model {
    let branch = |seed: usize| {
        let mut body = GraphBuilder::new("branch", 17);
        let x = body.input("inside", DType::F32, [Dim::Any, 40.into()]);
        let w = body.constant(tensor(&[40, 40], seed));
        let y = body.op("MatMul", &[x, w], &[]);
        body.output("out", y);
        body.finish()
    };
    let mut build = GraphBuilder::new("bodies", 17);
    let x = build.input("x", DType::F32, [Dim::Any, 40.into()]);
    let sum = build.op("ReduceSum", &[x], &[("keepdims", 0.into())]);
    let zero = build.constant(Tensor::scalar(0f32));
    let which = build.op("Greater", &[sum, zero], &[]);
    let attrs = [("then_branch", branch(6).into()), ("else_branch", branch(7).into())];
    let y = build.op_with_bodies("If", &[Some(which)], &[x], 1, &attrs)[0];
    let w = build.constant(tensor(&[40, 5], 8));
    let y = build.op("MatMul", &[y, w], &[]);
    build.output("y", y);
    let signed = |rows: usize, sign: f32| {
        let values: Vec<f32> = numbers(rows * 40, rows).iter().map(|number| sign * number.abs()).collect();
        vec![("x".to_owned(), Tensor::from_vec([rows, 40], values).unwrap())]
    };
    Model { name: "bodies", graph: build.finish(), requests: vec![signed(2, 1.0), signed(5, -1.0), signed(2, 1.0)] }
}

fn scale(build: &mut GraphBuilder, value: f32) -> ValueId {
    build.constant(Tensor::scalar(value))
}

/// Quantised products and a convolution, whose nodes look at their weights before they pack them.
fn quantised() -> Model {
    let mut build = GraphBuilder::new("quantised", 17);
    let x = build.input("x", DType::F32, [Dim::Any, 64.into()]);
    let [step, small] = [0.02f32, 0.01].map(|value| scale(&mut build, value));
    let zero = build.constant(Tensor::scalar(3u8));
    let middle = build.constant(Tensor::scalar(0i8));
    let mut y = x;
    for seed in [9, 10] {
        let quantised = build.op("QuantizeLinear", &[y, step, zero], &[]);
        let read = build.op("DequantizeLinear", &[quantised, step, zero], &[]);
        let w = build.constant(bytes(&[64, 64], seed));
        let w = build.op("DequantizeLinear", &[w, small, middle], &[]);
        y = build.op("MatMul", &[read, w], &[]);
    }
    let out = build.op("QuantizeLinear", &[y, step, zero], &[]);
    let out = build.op("DequantizeLinear", &[out, step, zero], &[]);
    build.output("y", out);
    Model { name: "quantised", graph: build.finish(), requests: vec![rows(1, 64), rows(7, 64), rows(1, 64)] }
}

/// A product and a look-up whose weights are stored in 16 bits.
pub(crate) fn halves() -> Model {
    let half = |shape: &[usize], seed: usize| {
        let values = numbers(shape.iter().product(), seed).into_iter().map(half::f16::from_f32).collect();
        Tensor::from_vec(shape.iter().copied(), values).unwrap()
    };
    let mut build = GraphBuilder::new("halves", 17);
    let ids = build.input("ids", DType::I64, [Dim::Any]);
    let table = build.constant(half(&[300, 32], 11));
    let table = build.op("Cast", &[table], &[("to", 1.into())]);
    let x = build.op("Gather", &[table, ids], &[]);
    let w = build.constant(half(&[32, 50], 12));
    let w = build.op("Cast", &[w], &[("to", 1.into())]);
    let y = build.op("MatMul", &[x, w], &[]);
    build.output("y", y);
    let ids = |count: usize| {
        let ids: Vec<i64> = (0..count as i64).map(|at| at * 37 % 300).collect();
        vec![("ids".to_owned(), Tensor::from_vec([count], ids).unwrap())]
    };
    Model { name: "halves", graph: build.finish(), requests: vec![ids(1), ids(9), ids(1)] }
}

/// A product by four bits in blocks.
fn blocks() -> Model {
    let (k, n, block) = (64, 24, 32);
    let mut build = GraphBuilder::new("blocks", 17);
    let x = build.input("x", DType::F32, [Dim::Any, k.into()]);
    let codes: Vec<u8> = (0..n * k / 2).map(|at| (at * 37 % 251) as u8).collect();
    let codes = build.constant(Tensor::from_vec([n, k / block, block / 2], codes).unwrap());
    let scales = build.constant(tensor(&[n * k / block], 13));
    let attrs = [
        ("K", Attr::Int(k as i64)),
        ("N", Attr::Int(n as i64)),
        ("bits", Attr::Int(4)),
        ("block_size", Attr::Int(block as i64)),
    ];
    let y = build.op_of("com.microsoft", "MatMulNBits", &[Some(x), Some(codes), Some(scales)], &attrs);
    build.output("y", y);
    Model { name: "blocks", graph: build.finish(), requests: vec![rows(1, k), rows(6, k), rows(1, k)] }
}

/// Texts among the constants.
fn texts() -> Model {
    let mut build = GraphBuilder::new("texts", 17);
    let x = build.input("x", DType::I64, [Dim::Any]);
    let words = ["eins", "", "drei"].map(str::to_owned).to_vec();
    let table = build.constant(Tensor::from_strings([3], words).unwrap());
    let y = build.op("Gather", &[table, x], &[]);
    build.output("y", y);
    let ids = |ids: &[i64]| vec![("x".to_owned(), Tensor::from_slice([ids.len()], ids).unwrap())];
    Model { name: "texts", graph: build.finish(), requests: vec![ids(&[2, 0]), ids(&[1]), ids(&[2, 0])] }
}

/// A product of integers that no kernel packs, and a table larger than a page that is only used for look-ups.
fn wide_integers() -> Model {
    let mut build = GraphBuilder::new("integers", 17);
    let x = build.input("x", DType::I64, [Dim::Any, 6.into()]);
    let w: Vec<i64> = (0..6 * 200).map(|at| at % 13 - 6).collect();
    let w = build.constant(Tensor::from_vec([6, 200], w).unwrap());
    let y = build.op("MatMul", &[x, w], &[]);
    build.output("y", y);
    let of = |rows: usize| {
        let values: Vec<i64> = (0..rows as i64 * 6).collect();
        vec![("x".to_owned(), Tensor::from_vec([rows, 6], values).unwrap())]
    };
    Model { name: "wide integers", graph: build.finish(), requests: vec![of(1), of(4), of(1)] }
}

/// Trees, whose nodes are long lists among the attributes.
fn trees() -> Model {
    let count = 400;
    // A branch for each tree, on the first feature, with a leaf on each side.
    let each = |values: [i64; 3]| Attr::Ints((0..count).flat_map(|_| values).collect());
    let trees = Attr::Ints((0..count).flat_map(|tree| [tree; 3]).collect());
    let leaves = Attr::Ints((0..count).flat_map(|tree| [tree; 2]).collect());
    let thresholds = numbers(3 * count as usize, 21);
    let mut build = GraphBuilder::new("trees", 1);
    let x = build.input("x", DType::F32, [Dim::Any, 2.into()]);
    let modes = Attr::Strs((0..count).flat_map(|_| ["BRANCH_LEQ", "LEAF", "LEAF"].map(str::to_owned)).collect());
    let attrs = [
        ("n_targets", Attr::Int(1)),
        ("nodes_treeids", trees),
        ("nodes_nodeids", each([0, 1, 2])),
        ("nodes_featureids", each([0, 0, 0])),
        ("nodes_modes", modes),
        ("nodes_values", thresholds.into()),
        ("nodes_truenodeids", each([1, 0, 0])),
        ("nodes_falsenodeids", each([2, 0, 0])),
        ("target_treeids", leaves),
        ("target_nodeids", Attr::Ints((0..count).flat_map(|_| [1, 2]).collect())),
        ("target_ids", Attr::Ints(vec![0; 2 * count as usize])),
        ("target_weights", numbers(2 * count as usize, 22).into()),
    ];
    let y = build.op_of("ai.onnx.ml", "TreeEnsembleRegressor", &[Some(x)], &attrs);
    build.output("y", y);
    Model { name: "trees", graph: build.finish(), requests: vec![rows(1, 2), rows(9, 2), rows(1, 2)] }
}

/// Rows of a table of `f32` and of a table of `f16`, and a product by weights that are packed.
pub(crate) fn tables() -> Model {
    let mut build = GraphBuilder::new("tables", 17);
    let ids = build.input("ids", DType::I64, [Dim::Any]);
    let table = build.constant(tensor(&[ROWS, WIDE], 1));
    let first = build.op("Gather", &[table, ids], &[]);
    let halves = numbers(ROWS * WIDE, 2).into_iter().map(half::f16::from_f32).collect();
    let halves = build.constant(Tensor::from_vec([ROWS, WIDE], halves).unwrap());
    let halves = build.op("Cast", &[halves], &[("to", 1.into())]);
    let second = build.op("Gather", &[halves, ids], &[]);
    let sum = build.op("Add", &[first, second], &[]);
    let w = build.constant(tensor(&[WIDE, 300], 3));
    let y = build.op("MatMul", &[sum, w], &[]);
    build.output("y", y);
    Model { name: "tables", graph: build.finish(), requests: vec![ids_of(1), ids_of(9), ids_of(1)] }
}

/// A request for `rows` rows.
pub(crate) fn ids_of(count: usize) -> Request {
    let ids: Vec<i64> = (0..count as i64).map(|at| at * 37 % ROWS as i64).collect();
    vec![("ids".to_owned(), Tensor::from_vec([count], ids).unwrap())]
}
