//! Tables of ONNX Runtime's operators that are expanded when a model is read: softmax after a bias, images with
//! channels last, biases by positions, rotations, distances and numbers of two parts.

use kiln::session::{Session, SessionOptions};
use kiln_model::GraphBuilder;
use kiln_model::ir::{Attr, Dim};
use kiln_model::onnx::{Limits, load_bytes, write};
use kiln_tensor::{DType, Tensor};

use crate::harness::{Fill, Layer, MICROSOFT, Step, random};
use crate::reference::{Array, Window, build, conv, matmul, normalise, rotated, sigmoid, softmax, transpose};

fn layer(op: &str) -> Layer {
    Layer::new(op, 1).domain(MICROSOFT)
}

/// The same elements under another shape.
fn reshaped(x: &Array, shape: &[usize]) -> Array {
    Array { shape: shape.to_vec(), data: x.data.clone() }
}

#[test]
fn softmax_after_a_bias() {
    // Scores [batch, heads, queries, keys]; a bias for each sequence, or one for all sequences.
    let of_sequences: &[Step<'_>] = &[
        &[&[2, 3, 4, 5], &[2, 1, 1, 5]],
        &[&[1, 2, 7, 19], &[1, 1, 1, 19]],
        &[&[1, 2, 7, 19], &[1, 1, 1, 19]],
        &[&[2, 3, 4, 5], &[2, 1, 1, 5]],
    ];
    let of_all: &[Step<'_>] = &[
        &[&[2, 3, 4, 5], &[1, 3, 4, 5]],
        &[&[3, 2, 1, 33], &[1, 2, 1, 33]],
        &[&[3, 2, 1, 33], &[1, 2, 1, 33]],
        &[&[2, 3, 4, 5], &[1, 3, 4, 5]],
    ];
    for (inner, steps) in [(1, of_sequences), (0, of_all)] {
        // From axis 2 on, all queries and keys of a head are one row.
        for axis in [3, 2] {
            let layer = layer("BiasSoftmax").int("axis", axis).int("is_inner_broadcast", inner);
            layer.dynamic(&[-1, -1, -1, -1]).dynamic(&[-1, -1, -1, -1]).check(steps, |x| {
                let (scores, bias) = (Array::of(&x[0]), Array::of(&x[1]));
                let sum = build(&scores.shape, |at| scores.get(at) + bias.broadcast(at));
                let (rows, columns) = sum.shape.split_at(axis as usize);
                let [rows, columns] = [rows, columns].map(|sizes| sizes.iter().product::<usize>());
                vec![reshaped(&softmax(&reshaped(&sum, &[rows, columns]), 1), &sum.shape).tensor()]
            });
        }
    }
}

const CHANNELS: usize = 6;
const GROUPS: usize = 3;

/// A group normalisation of an image with channels first, then x sigmoid(x).
fn grouped(x: &Array, scale: &Array, bias: &Array, is_active: bool) -> Array {
    let each: usize = x.shape[1..].iter().product::<usize>() / GROUPS;
    let y = normalise(&reshaped(x, &[x.shape[0], GROUPS, each]), &[2], 1e-5);
    let y = reshaped(&y, &x.shape);
    build(&x.shape, |at| match y.get(at) * scale.data[at[1]] + bias.data[at[1]] {
        value if is_active => value * sigmoid(value),
        value => value,
    })
}

const FRONT: &[usize] = &[0, 3, 1, 2];
const BACK: &[usize] = &[0, 2, 3, 1];

#[test]
fn groups_of_channels_of_images() {
    let last: &[Step<'_>] = &[&[&[1, 5, 7, 6]], &[&[2, 9, 4, 6]], &[&[2, 9, 4, 6]], &[&[1, 5, 7, 6]]];
    let first: &[Step<'_>] = &[&[&[1, 6, 5, 7]], &[&[2, 6, 9, 4]], &[&[2, 6, 9, 4]], &[&[1, 6, 5, 7]]];
    for (is_last, steps) in [(true, last), (false, first)] {
        for active in [0, 1] {
            let pattern = if is_last { [-1, -1, -1, CHANNELS as i64] } else { [-1, CHANNELS as i64, -1, -1] };
            let layer = layer("GroupNorm").int("groups", GROUPS as i64).int("activation", active);
            let layer = layer.int("channels_last", is_last.into()).attr("epsilon", Attr::Float(1e-5));
            layer.dynamic(&pattern).weights(&[CHANNELS]).weights(&[CHANNELS]).check(steps, |x| {
                let [image, scale, bias] = [0, 1, 2].map(|index| Array::of(&x[index]));
                let image = if is_last { transpose(&image, FRONT) } else { image };
                let y = grouped(&image, &scale, &bias, active == 1);
                vec![if is_last { transpose(&y, BACK) } else { y }.tensor()]
            });
        }
    }
}

#[test]
fn groups_of_channels_after_a_residual() {
    // The residual is an image, or one position for the whole image.
    let whole: &[Step<'_>] = &[
        &[&[1, 5, 7, 6], &[1, 5, 7, 6]],
        &[&[2, 9, 4, 6], &[2, 9, 4, 6]],
        &[&[2, 9, 4, 6], &[2, 9, 4, 6]],
        &[&[1, 5, 7, 6], &[1, 5, 7, 6]],
    ];
    let position: &[Step<'_>] = &[
        &[&[1, 5, 7, 6], &[1, 1, 1, 6]],
        &[&[2, 9, 4, 6], &[2, 1, 1, 6]],
        &[&[2, 9, 4, 6], &[2, 1, 1, 6]],
        &[&[1, 5, 7, 6], &[1, 1, 1, 6]],
    ];
    let rows: &[Step<'_>] =
        &[&[&[1, 5, 7, 6], &[1, 6]], &[&[2, 9, 4, 6], &[2, 6]], &[&[2, 9, 4, 6], &[2, 6]], &[&[1, 5, 7, 6], &[1, 6]]];
    for (is_biased, steps) in [(true, whole), (false, position), (true, rows)] {
        let layer = layer("SkipGroupNorm").int("groups", GROUPS as i64).int("activation", 1).outputs(2);
        let layer = layer.dynamic(&[-1, -1, -1, 6]).weights(&[CHANNELS]).weights(&[CHANNELS]);
        let layer = layer.dynamic(if steps[0][1].len() == 2 { &[-1, 6] } else { &[-1, -1, -1, 6] });
        let layer = if is_biased { layer.weights(&[CHANNELS]) } else { layer.absent() };
        layer.check(steps, |x| {
            let [image, scale, bias, skip, added] = [0, 1, 2, 3, 4].map(|index| Array::of(&x[index]));
            let batch = image.shape[0];
            let skip = if skip.shape.len() == 2 { reshaped(&skip, &[batch, 1, 1, CHANNELS]) } else { skip };
            let added = |channel: usize| if is_biased { added.data[channel] } else { 0.0 };
            let sum = build(&image.shape, |at| image.get(at) + skip.broadcast(at) + added(at[3]));
            let y = grouped(&transpose(&sum, FRONT), &scale, &bias, true);
            vec![transpose(&y, BACK).tensor(), sum.tensor()]
        });
    }
}

#[test]
fn convolutions_with_channels_last() {
    let steps: &[Step<'_>] = &[&[&[1, 9, 7, 4]], &[&[2, 12, 5, 4]], &[&[2, 12, 5, 4]], &[&[1, 9, 7, 4]]];
    for group in [1usize, 4] {
        let window = Window::new([3, 3], [2, 2], [1, 1], [1, 1]);
        let layer = layer("NhwcConv").int("group", group as i64).ints("pads", &[1; 4]).ints("strides", &[2; 2]);
        let layer = layer.dynamic(&[-1, -1, -1, 4]).weights(&[8, 4 / group, 3, 3]).weights(&[8]);
        layer.check(steps, |x| {
            let [image, weights, bias] = [0, 1, 2].map(|index| Array::of(&x[index]));
            vec![transpose(&conv(&transpose(&image, FRONT), &weights, Some(&bias), window, group), BACK).tensor()]
        });
    }
    let steps: &[Step<'_>] = &[
        &[&[1, 9, 7, 4], &[1, 9, 7, 8]],
        &[&[2, 12, 5, 4], &[2, 12, 5, 8]],
        &[&[2, 12, 5, 4], &[2, 12, 5, 8]],
        &[&[1, 9, 7, 4], &[1, 9, 7, 8]],
    ];
    let window = Window::new([3, 3], [1, 1], [1, 1], [1, 1]);
    type Function = fn(f64) -> f64;
    let functions: [(&str, &[f32], Function); 4] = [
        ("Relu", &[], |x| x.max(0.0)),
        ("Clip", &[-0.5, 0.75], |x| x.clamp(-0.5, 0.75)),
        ("LeakyRelu", &[0.25], |x| if x < 0.0 { 0.25 * x } else { x }),
        ("Sigmoid", &[], sigmoid),
    ];
    for (name, parameters, function) in functions {
        let layer = layer("NhwcFusedConv").ints("pads", &[1; 4]).attr("activation", name.into());
        let layer = layer.attr("activation_params", Attr::Floats(parameters.to_vec()));
        let layer = layer.dynamic(&[-1, -1, -1, 4]).weights(&[8, 4, 3, 3]).weights(&[8]).dynamic(&[-1, -1, -1, 8]);
        layer.check(steps, |x| {
            let [image, weights, bias, residual] = [0, 1, 2, 3].map(|index| Array::of(&x[index]));
            let y = transpose(&conv(&transpose(&image, FRONT), &weights, Some(&bias), window, 1), BACK);
            vec![build(&y.shape, |at| function(y.get(at) + residual.get(at))).tensor()]
        });
    }
}

#[test]
fn biases_times_a_gate_of_the_query() {
    const HEADS: usize = 2;
    const SIZE: usize = 4;
    let steps: &[Step<'_>] = &[
        &[&[2, 3, 8], &[1, 2, 3, 3]],
        &[&[1, 7, 8], &[1, 2, 7, 7]],
        &[&[1, 7, 8], &[1, 2, 7, 7]],
        &[&[2, 3, 8], &[1, 2, 3, 3]],
    ];
    let layer = layer("GatedRelativePositionBias").int("num_heads", HEADS as i64);
    let layer = layer.dynamic(&[-1, -1, 8]).weights(&[8]).dynamic(&[1, 2, -1, -1]);
    let layer = layer.weights(&[SIZE, 6]).weights(&[6]).weights(&[1, HEADS, 1, 1]);
    layer.check(steps, |x| {
        let [query, query_bias, biases, weights, bias, factor] = [0, 1, 2, 3, 4, 5].map(|index| Array::of(&x[index]));
        let (batch, positions) = (query.shape[0], query.shape[1]);
        let rows = build(&[batch, HEADS, positions, SIZE], |at| {
            let feature = at[1] * SIZE + at[3];
            query.get(&[at[0], at[2], feature]) + query_bias.data[feature]
        });
        let product = matmul(&rows, &weights);
        let gate = build(&[batch, HEADS, positions], |at| {
            let sum = |first: usize| -> f64 {
                (first..first + 3).map(|column| product.get(&[at[0], at[1], at[2], column]) + bias.data[column]).sum()
            };
            sigmoid(sum(0)) * (sigmoid(sum(3)) * factor.data[at[1]] - 1.0) + 2.0
        });
        let y = |at: &[usize]| gate.get(&at[..3]) * biases.get(&[0, at[1], at[2], at[3]]);
        vec![build(&[batch, HEADS, positions, positions], y).tensor()]
    });
}

#[test]
fn heads_rotated_by_one_position_that_counts_on() {
    const PAIRS: usize = 20;
    let heads: &[Step<'_>] =
        &[&[&[2, 3, 5, 48]], &[&[1, 2, 33, 48]], &[&[1, 2, 33, 48]], &[&[1, 8, 1, 48]], &[&[2, 3, 5, 48]]];
    for is_neighbours in [false, true] {
        let layer = layer("RotaryEmbedding").int("interleaved", is_neighbours.into()).int("num_heads", 1);
        let layer = layer.int("rotary_embedding_dim", 2 * PAIRS as i64).dynamic(&[-1, -1, -1, 48]);
        let layer = layer.constant(Tensor::from_vec([1], vec![7i64]).unwrap());
        layer.weights(&[64, PAIRS]).weights(&[64, PAIRS]).check(heads, |x| {
            let [heads, cosines, sines] = [0, 2, 3].map(|index| Array::of(&x[index]));
            let angle = |at: &[usize], pair: usize| (7 + at[2]) * PAIRS + pair;
            vec![rotated(&heads, [&cosines, &sines], PAIRS, is_neighbours, angle).tensor()]
        });
    }
}

#[test]
fn heads_rotated_by_three_ids() {
    const SECTIONS: [usize; 3] = [4, 7, 5];
    let heads: &[Step<'_>] = &[&[&[2, 3, 4, 32]], &[&[2, 1, 4, 32]], &[&[2, 1, 4, 32]], &[&[2, 3, 4, 32]]];
    let ids: Vec<i64> = (0..24).map(|place| place * 5 % 11).collect();
    for is_neighbours in [false, true] {
        let layer = layer("MRotaryEmbedding").int("interleaved", is_neighbours.into()).int("num_heads", 1);
        let layer = layer.ints("mrope_section", &SECTIONS.map(|pairs| pairs as i64)).dynamic(&[2, -1, 4, 32]);
        let layer = layer.constant(Tensor::from_vec([3, 2, 4], ids.clone()).unwrap());
        layer.weights(&[11, 16]).weights(&[11, 16]).check(heads, |x| {
            let [heads, cosines, sines] = [0, 2, 3].map(|index| Array::of(&x[index]));
            let angle = |at: &[usize], pair: usize| {
                let stream = usize::from(pair >= 4) + usize::from(pair >= 11);
                ids[(stream * 2 + at[0]) * 4 + at[2]] as usize * 16 + pair
            };
            vec![rotated(&heads, [&cosines, &sines], 16, is_neighbours, angle).tensor()]
        });
    }
}

/// The bucket of T5's published code for the distance of a key from its query.
fn bucket(ahead: i64, buckets: i64, longest: i64, is_both: bool) -> i64 {
    let own = if is_both { buckets / 2 } else { buckets };
    let (first, distance) = match is_both {
        true => (if ahead > 0 { own } else { 0 }, ahead.abs()),
        false => (0, (-ahead).max(0)),
    };
    let exact = own / 2;
    if distance < exact {
        return first + distance;
    }
    let part = (distance as f64 / exact as f64).ln() / (longest as f64 / exact as f64).ln();
    first + (exact + (part * (own - exact) as f64) as i64).min(own - 1)
}

#[test]
fn biases_by_positions_over_changing_lengths() {
    const BUCKETS: usize = 12;
    const HEADS: usize = 3;
    for is_both in [false, true] {
        let mut made = GraphBuilder::new("positions", 1);
        let table = made.input("table", DType::F32, [Dim::Any, Dim::Any]);
        let [queries, keys] = ["queries", "keys"].map(|name| made.input(name, DType::I64, [Dim::Fixed(1)]));
        let attrs = [("max_distance", Attr::Int(20)), ("is_bidirectional", Attr::Int(is_both.into()))];
        let y = made.op_of(MICROSOFT, "RelativePositionBias", &[Some(table), Some(queries), Some(keys)], &attrs);
        made.output("y", y);
        let graph = load_bytes(write(&made.finish()).unwrap().into(), None, &Limits::default()).unwrap();
        let session = Session::from_graph(graph, &SessionOptions { threads: 1, ..SessionOptions::default() }).unwrap();
        for (number, [queries, keys]) in [[5usize, 40], [33, 33], [33, 33], [1, 9], [5, 40]].into_iter().enumerate() {
            let table = random(&[BUCKETS, HEADS], DType::F32, Fill::Unit, number as u64);
            let length = |count: usize| Tensor::from_vec([1], vec![count as i64]).unwrap();
            let request = [("table", table.clone()), ("queries", length(queries)), ("keys", length(keys))];
            let found = session.run(&request).unwrap()[0].1.clone();
            // All buckets of a head are next to each other.
            let table = Array::of(&table);
            let expected = build(&[1, HEADS, queries, keys], |at| {
                let place = bucket(at[3] as i64 - at[2] as i64, BUCKETS as i64, 20, is_both) as usize;
                table.data[at[1] * BUCKETS + place]
            });
            assert!(found.same(&expected.tensor()), "{queries} queries, {keys} keys, both ways: {is_both}");
        }
    }
}

#[test]
fn distances_of_rows() {
    let steps: &[Step<'_>] = &[
        &[&[3, 5], &[4, 5]],
        &[&[1, 37], &[9, 37]],
        &[&[1, 37], &[9, 37]],
        &[&[70, 8], &[33, 8]],
        &[&[3, 5], &[4, 5]],
    ];
    for (metric, is_root) in [("sqeuclidean", false), ("euclidean", true)] {
        let layer = layer("CDist").attr("metric", metric.into()).dynamic(&[-1, -1]).dynamic(&[-1, -1]);
        layer.check(steps, |x| {
            let (a, b) = (Array::of(&x[0]), Array::of(&x[1]));
            let distance = |at: &[usize]| {
                let squares = (0..a.shape[1]).map(|column| (a.get(&[at[0], column]) - b.get(&[at[1], column])).powi(2));
                if is_root { squares.sum::<f64>().sqrt() } else { squares.sum() }
            };
            vec![build(&[a.shape[0], b.shape[0]], distance).tensor()]
        });
    }
}

#[test]
fn products_of_numbers_of_two_parts() {
    let steps: &[Step<'_>] = &[
        &[&[3, 5, 2], &[3, 5, 2]],
        &[&[1, 37, 2], &[1, 37, 2]],
        &[&[1, 37, 2], &[1, 37, 2]],
        &[&[3, 5, 2], &[3, 5, 2]],
    ];
    for (op, sign) in [("ComplexMul", 1.0), ("ComplexMulConj", -1.0)] {
        layer(op).dynamic(&[-1, -1, 2]).dynamic(&[-1, -1, 2]).check(steps, |x| {
            let (a, b) = (Array::of(&x[0]), Array::of(&x[1]));
            let product = |at: &[usize]| {
                let part = |of: &Array, part: usize| of.get(&[at[0], at[1], part]);
                let [real, imaginary] = [part(&b, 0), sign * part(&b, 1)];
                match at[2] {
                    0 => part(&a, 0) * real - part(&a, 1) * imaginary,
                    _ => part(&a, 0) * imaginary + part(&a, 1) * real,
                }
            };
            vec![build(&a.shape, product).tensor()]
        });
    }
}
