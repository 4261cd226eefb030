//! Whole networks: graphs drawn at random, and the shapes of networks that people run.

use kiln_model::{Graph, GraphBuilder, ValueId};
use kiln_tensor::{DType, Tensor};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::devices::{Request, devices, distance, run, same_everywhere, session};
use super::draw;

/// Sums are taken in another order on a device.
const TOLERANCE: f32 = 1e-3;

/// Numbers from -1 to 1, the same for the same seed.
pub(crate) fn floats(shape: &[usize], seed: u32) -> Tensor {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let values: Vec<f32> = (0..shape.iter().product::<usize>()).map(|_| next()).collect();
    Tensor::from_vec(shape.iter().copied(), values).unwrap()
}

fn small(shape: &[usize], seed: u32) -> Tensor {
    let fan: usize = shape.iter().skip(1).product::<usize>().max(1);
    let mut tensor = floats(shape, seed);
    tensor.as_mut_slice::<f32>().unwrap().iter_mut().for_each(|value| *value *= (3.0 / fan as f32).sqrt());
    tensor
}

fn images(name: &str, shapes: &[[usize; 4]]) -> Vec<Request> {
    let request = |(seed, shape): (usize, &[usize; 4])| vec![(name.to_owned(), floats(shape, 7 + seed as u32))];
    shapes.iter().enumerate().map(request).collect()
}

/// A residual network with every layer of ResNet and MobileNet: strides, groups, clips, residuals, pools, a classifier.
fn classifier() -> Graph {
    let mut net = GraphBuilder::new("classifier", 17);
    let conv = |net: &mut GraphBuilder, input: ValueId, shape: [usize; 4], stride: i64, group: i64, seed: u32| {
        let weights = net.constant(small(&shape, seed));
        let bias = net.constant(small(&[shape[0]], seed + 1));
        let pad = shape[2] as i64 / 2;
        net.op(
            "Conv",
            &[input, weights, bias],
            &[("pads", [pad; 4].into()), ("strides", [stride; 2].into()), ("group", group.into())],
        )
    };
    let x = net.input("x", DType::F32, ["N".into(), 3.into(), "H".into(), "W".into()]);
    let stem = conv(&mut net, x, [16, 3, 7, 7], 2, 1, 1);
    let stem = net.op("Relu", &[stem], &[]);
    let stem = net.op(
        "MaxPool",
        &[stem],
        &[("kernel_shape", [3, 3].into()), ("strides", [2, 2].into()), ("pads", [1, 1, 1, 1].into())],
    );
    let (low, high) = (net.constant(Tensor::scalar(0f32)), net.constant(Tensor::scalar(6f32)));
    let wide = conv(&mut net, stem, [32, 16, 1, 1], 1, 1, 3);
    let wide = net.op("Clip", &[wide, low, high], &[]);
    let deep = conv(&mut net, wide, [32, 1, 3, 3], 1, 32, 5);
    let deep = net.op("Clip", &[deep, low, high], &[]);
    let narrow = conv(&mut net, deep, [16, 32, 1, 1], 1, 1, 7);
    let sum = net.op("Add", &[narrow, stem], &[]);
    let block = net.op("Relu", &[sum], &[]);
    let mean = net.op("GlobalAveragePool", &[block], &[]);
    let flat = net.op("Flatten", &[mean], &[]);
    let (weights, bias) = (net.constant(small(&[16, 10], 9)), net.constant(small(&[10], 10)));
    let scores = net.op("Gemm", &[flat, weights, bias], &[]);
    let probabilities = net.op("Softmax", &[scores], &[]);
    net.output("probabilities", probabilities);
    net.finish()
}

#[test]
fn a_classifier_runs_on_images_of_any_size_without_a_copy_in_between() {
    let requests = images("x", &[[1, 3, 32, 32], [2, 3, 17, 40], [1, 3, 32, 32], [3, 3, 9, 9]]);
    for session in same_everywhere("classifier", &classifier(), &requests, TOLERANCE) {
        let stats = session.device_stats().unwrap();
        let served = 2 * requests.len() as u64;
        assert_eq!(stats.to_host.copies, served, "one result a request");
        let constants = stats.to_device.copies - served;
        assert!(constants <= 16, "{constants} constants were sent, once");
    }
}

/// A decoder's block as exporters write it: embeddings, heads, a growing cache of keys, a mask, GELU by its definition.
fn decoder() -> Graph {
    let (width, heads, each) = (32usize, 4usize, 8usize);
    let mut net = GraphBuilder::new("decoder", 17);
    let ids = net.input("ids", DType::I64, ["N".into(), "S".into()]);
    let past = net.input("past", DType::F32, ["N".into(), heads.into(), "P".into(), each.into()]);
    let table = net.constant(small(&[200, width], 1));
    let x = net.op("Gather", &[table, ids], &[]);
    let (scale, bias) = (net.constant(floats(&[width], 2)), net.constant(floats(&[width], 3)));
    let normed = net.op("LayerNormalization", &[x, scale, bias], &[("axis", (-1).into())]);
    let project = |net: &mut GraphBuilder, input: ValueId, seed: u32| {
        let weights = net.constant(small(&[width, width], seed));
        let product = net.op("MatMul", &[input, weights], &[]);
        let bias = net.constant(floats(&[width], seed + 1));
        net.op("Add", &[product, bias], &[])
    };
    let split = |net: &mut GraphBuilder, value: ValueId| {
        let target = net.constant(Tensor::from_vec([4], vec![0i64, 0, heads as i64, each as i64]).unwrap());
        let parts = net.op("Reshape", &[value, target], &[]);
        net.op("Transpose", &[parts], &[("perm", [0, 2, 1, 3].into())])
    };
    let [q, k, v] = [11, 13, 15].map(|seed| {
        let projected = project(&mut net, normed, seed);
        split(&mut net, projected)
    });
    let keys = net.op("Concat", &[past, k], &[("axis", 2.into())]);
    let values = net.op("Concat", &[past, v], &[("axis", 2.into())]);
    let transposed = net.op("Transpose", &[keys], &[("perm", [0, 1, 3, 2].into())]);
    let scores = net.op("MatMul", &[q, transposed], &[]);
    let root = net.constant(Tensor::scalar((each as f32).sqrt()));
    let scores = net.op("Div", &[scores, root], &[]);
    let weights = net.op("Softmax", &[scores], &[("axis", (-1).into())]);
    let context = net.op("MatMul", &[weights, values], &[]);
    let joined = net.op("Transpose", &[context], &[("perm", [0, 2, 1, 3].into())]);
    let target = net.constant(Tensor::from_vec([3], vec![0i64, 0, width as i64]).unwrap());
    let joined = net.op("Reshape", &[joined, target], &[]);
    let out = project(&mut net, joined, 17);
    let sum = net.op("Add", &[out, x], &[]);
    let gelu = {
        let root = net.constant(Tensor::scalar(2f32.sqrt()));
        let (one, half) = (net.constant(Tensor::scalar(1f32)), net.constant(Tensor::scalar(0.5f32)));
        let hidden = project(&mut net, sum, 19);
        let scaled = net.op("Div", &[hidden, root], &[]);
        let erf = net.op("Erf", &[scaled], &[]);
        let more = net.op("Add", &[erf, one], &[]);
        let product = net.op("Mul", &[hidden, more], &[]);
        net.op("Mul", &[product, half], &[])
    };
    net.output("hidden", gelu);
    net.output("keys", keys);
    net.finish()
}

#[test]
fn a_decoder_grows_its_cache_step_by_step() {
    let request = |length: usize, past: usize| {
        let ids: Vec<i64> = (0..2 * length as i64).map(|id| id * 37 % 200).collect();
        vec![
            ("ids".to_owned(), Tensor::from_vec([2, length], ids).unwrap()),
            ("past".to_owned(), floats(&[2, 4, past, 8], 5)),
        ]
    };
    let requests: Vec<Request> =
        [(5, 0), (1, 5), (1, 6), (1, 7), (3, 2)].map(|(length, past)| request(length, past)).into();
    same_everywhere("decoder", &decoder(), &requests, TOLERANCE);
}

#[test]
fn an_encoder_and_its_mirror_join_what_they_saw() {
    let mut net = GraphBuilder::new("mirror", 17);
    let x = net.input("x", DType::F32, ["N".into(), 4.into(), "H".into(), "W".into()]);
    let first = net.constant(small(&[8, 4, 3, 3], 1));
    let down = net.op("Conv", &[x, first], &[("pads", [1, 1, 1, 1].into())]);
    let pooled = net.op("AveragePool", &[down], &[("kernel_shape", [2, 2].into()), ("strides", [2, 2].into())]);
    let second = net.constant(small(&[8, 8, 2, 2], 2));
    let up = net.op("ConvTranspose", &[pooled, second], &[("strides", [2, 2].into())]);
    let joined = net.op("Concat", &[up, down], &[("axis", 1.into())]);
    let third = net.constant(small(&[1, 16, 3, 3], 3));
    // An odd padding, which libraries do not take.
    let mask = net.op("Conv", &[joined, third], &[("pads", [0, 1, 2, 1].into())]);
    let mask = net.op("Sigmoid", &[mask], &[]);
    net.output("mask", mask);
    same_everywhere("mirror", &net.finish(), &images("x", &[[1, 4, 8, 8], [2, 4, 12, 6]]), TOLERANCE);
}

#[test]
fn graphs_drawn_at_random_give_the_same() {
    let devices = devices();
    let config =
        ProptestConfig { cases: 48, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() };
    let run = TestRunner::new(config).run(&prop::collection::vec(any::<u16>(), 8..120), |choices| {
        let drawn = draw::draw(&choices, draw::Form::default());
        let on = |device| {
            let session = session(&drawn.graph, device)?;
            drawn.requests.iter().map(|request| run(&session, request)).collect::<Result<Vec<_>, String>>()
        };
        let failed = |error: String| TestCaseError::fail(format!("{error}\n{}", drawn.told()));
        let expected = on(None).map_err(failed)?;
        for (name, device) in &devices {
            let found = on(Some(device.clone())).map_err(|error| failed(format!("{name}: {error}")))?;
            for (expected, found) in expected.iter().flatten().zip(found.iter().flatten()) {
                let distance = distance(expected, found);
                prop_assert!(distance <= TOLERANCE, "{name}: {distance:e}\n{}", drawn.told());
            }
        }
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}
