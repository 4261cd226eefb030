//! Fusion into convolutions. Layout is in `layouts`.

use super::*;

const FUSE: &[&str] = &["identity", "pad", "affine", "residual", "batch_norm", "chain", "activation", "dead"];

fn fused(build: GraphBuilder, y: ValueId) -> Graph {
    rewritten_by(build, y, FUSE)
}

/// A convolution of 4 channels to 4, of 3 x 3 with padding.
fn conv(build: &mut GraphBuilder, x: ValueId) -> ValueId {
    let w = floats(build, &[4, 4, 3, 3]);
    build.op("Conv", &[x, w], &[("pads", [1, 1, 1, 1].into())])
}

fn batch_norm(build: &mut GraphBuilder, x: ValueId) -> ValueId {
    let parameters = [(); 4].map(|()| floats(build, &[4]));
    build.op("BatchNormalization", &[&[x][..], &parameters].concat(), &[])
}

#[test]
fn conv_bn_relu_becomes_one_fused_conv() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let c = conv(&mut build, x);
    let n = batch_norm(&mut build, c);
    let y = build.op("Relu", &[n], &[]);
    assert_eq!(ops(&fused(build, y)), ["FusedConv+bias+Relu"]);
}

#[test]
fn a_residual_block_becomes_two_fused_convs() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let first = conv(&mut build, x);
    let first = build.op("Relu", &[first], &[]);
    let second = conv(&mut build, first);
    let second = batch_norm(&mut build, second);
    let sum = build.op("Add", &[second, x], &[]);
    let y = build.op("Relu", &[sum], &[]);
    assert_eq!(ops(&fused(build, y)), ["FusedConv+Relu", "FusedConv+bias+residual+Relu"]);
}

#[test]
fn a_residual_may_be_strided_and_projected() {
    // The two branches compute equal sizes from the same input in different ways.
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let (w3, w1) = (floats(&mut build, &[4, 4, 3, 3]), floats(&mut build, &[4, 4, 1, 1]));
    let strides: Attr = [2, 2].into();
    let a = build.op("Conv", &[x, w3], &[("strides", strides.clone()), ("pads", [1, 1, 1, 1].into())]);
    let b = build.op("Conv", &[x, w1], &[("strides", strides)]);
    let y = build.op("Add", &[a, b], &[]);
    assert_eq!(ops(&fused(build, y)), ["Conv", "FusedConv+residual"]);
}

/// All passes that see the branches of a network that is trained with them.
const JOIN: &[&str] = &["affine", "branches", "residual", "batch_norm", "chain", "activation", "dead"];

#[test]
fn branches_of_a_block_that_is_trained_with_them_become_one_convolution() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let large = conv(&mut build, x);
    let large = batch_norm(&mut build, large);
    let w = floats(&mut build, &[4, 4, 1, 1]);
    let small = build.op("Conv", &[x, w], &[]);
    let small = batch_norm(&mut build, small);
    let own = batch_norm(&mut build, x);
    let sum = build.op("Add", &[own, small], &[]);
    let sum = build.op("Add", &[large, sum], &[]);
    let y = build.op("Relu", &[sum], &[]);
    assert_eq!(ops(&rewritten_by(build, y, JOIN)), ["FusedConv+bias+Relu"]);
}

#[test]
fn smaller_windows_are_added_to_the_taps_on_which_they_lie() {
    let (mut build, x) = with_x(&[-2, 1, -3, -4]);
    let (w, row) = (floats(&mut build, &[1, 1, 3, 3]), floats(&mut build, &[1, 1, 1, 2]));
    let large = build.op("Conv", &[x, w], &[("pads", [2, 2, 2, 2].into()), ("dilations", [2, 2].into())]);
    let small = build.op("Conv", &[x, row], &[("pads", [0, 2, 0, 0].into()), ("dilations", [1, 2].into())]);
    let y = build.op("Add", &[small, large], &[]);
    let graph = rewritten_by(build, y, JOIN);
    assert_eq!(ops(&graph), ["Conv"]);
    let weights = graph.constant_input(&graph.nodes[0], 1).unwrap();
    assert_eq!(weights.as_slice::<f32>().unwrap(), [0.5, 1.5, 2.5, 4.0, 6.0, 5.5, 6.5, 7.5, 8.5]);
}

#[test]
fn branches_that_do_not_lie_in_each_other_stay() {
    type Attrs = &'static [(&'static str, [i64; 2])];
    let cases: [(&[usize], Attrs, i64); 6] = [
        (&[4, 4, 1, 1], &[("strides", [2, 2])], 0),
        (&[4, 4, 1, 1], &[], 1),
        (&[1, 4, 1, 1], &[], 0),
        (&[4, 4, 5, 1], &[], 0),
        (&[4, 4, 3, 3], &[("dilations", [2, 2])], 2),
        (&[4, 4, 2, 2], &[], 0),
    ];
    for (shape, attrs, pad) in cases {
        let (mut build, x) = with_x(&[-2, 4, -3, -4]);
        let large = conv(&mut build, x);
        let w = floats(&mut build, shape);
        let mut attrs: Vec<(&str, Attr)> = attrs.iter().map(|(name, values)| (*name, (*values).into())).collect();
        attrs.push(("pads", [pad; 4].into()));
        let small = build.op("Conv", &[x, w], &attrs);
        let y = build.op("Add", &[large, small], &[]);
        let found = ops(&rewritten_by(build, y, &["branches", "dead"]));
        assert_eq!(found, ["Conv", "Conv", "Add"], "{shape:?} {attrs:?}");
    }
}

#[test]
fn branches_whose_weights_or_results_others_read_stay() {
    for shared_weights in [true, false] {
        let (mut build, x) = with_x(&[-2, 4, -3, -4]);
        let w = floats(&mut build, &[4, 4, 1, 1]);
        let other = if shared_weights { w } else { floats(&mut build, &[4, 4, 1, 1]) };
        let (a, b) = (build.op("Conv", &[x, w], &[]), build.op("Conv", &[x, other], &[]));
        let mut y = build.op("Add", &[a, b], &[]);
        if !shared_weights {
            y = build.op("Sub", &[y, a], &[]);
        }
        let found = ops(&rewritten_by(build, y, &["branches", "dead"]));
        assert_eq!(found[..3], ["Conv", "Conv", "Add"], "{shared_weights}");
    }
}

#[test]
fn a_sum_of_sizes_that_may_differ_is_no_residual() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let other = input(&mut build, "other", &[-2, 4, -1, -4]);
    let c = conv(&mut build, x);
    let y = build.op("Add", &[c, other], &[]);
    assert_eq!(ops(&fused(build, y)), ["Conv", "Add"]);
}

#[test]
fn numbers_per_channel_go_into_weights_and_bias() {
    type After = fn(&mut GraphBuilder, ValueId) -> ValueId;
    // The first weight is 0.5 and there is no bias; each case has the new first weight and first bias.
    let cases: [(&str, After, f32, f32); 7] = [
        (
            "a bias",
            |b, x| {
                let c = floats(b, &[4, 1, 1]);
                b.op("Add", &[c, x], &[])
            },
            0.5,
            0.5,
        ),
        (
            "a factor",
            |b, x| {
                let c = floats(b, &[1, 4, 1, 1]);
                b.op("Mul", &[x, c], &[])
            },
            0.25,
            0.0,
        ),
        (
            "a number",
            |b, x| {
                let c = scalar(b, 4.0);
                b.op("Mul", &[x, c], &[])
            },
            2.0,
            0.0,
        ),
        (
            "a divisor",
            |b, x| {
                let c = scalar(b, 4.0);
                b.op("Div", &[x, c], &[])
            },
            0.125,
            0.0,
        ),
        (
            "a difference",
            |b, x| {
                let c = floats(b, &[4, 1, 1]);
                b.op("Sub", &[x, c], &[])
            },
            0.5,
            -0.5,
        ),
        (
            "a difference from",
            |b, x| {
                let c = floats(b, &[4, 1, 1]);
                b.op("Sub", &[c, x], &[])
            },
            -0.5,
            0.5,
        ),
        (
            "a normalisation",
            |b, x| {
                let [gamma, beta, mean, var] =
                    [2.0f32, 3.0, 1.0, 4.0].map(|v| b.constant(Tensor::from_vec([4], vec![v; 4]).unwrap()));
                b.op("BatchNormalization", &[x, gamma, beta, mean, var], &[("epsilon", 0.0.into())])
            },
            0.5,
            2.0,
        ),
    ];
    for (case, after, weight, bias) in cases {
        let (mut build, x) = with_x(&[-2, 4, -3, -4]);
        let c = conv(&mut build, x);
        let y = after(&mut build, c);
        let graph = fused(build, y);
        assert_eq!(ops(&graph), ["Conv"], "{case}");
        let first = |index| graph.constant_input(&graph.nodes[0], index).unwrap().as_slice::<f32>().unwrap()[0];
        assert_eq!((first(1), first(2)), (weight, bias), "{case}");
    }
}

#[test]
fn weights_of_transposed_and_grouped_convolutions_are_scaled_by_their_output() {
    // [input 4, output of group 3, 1], two groups: output channels 0..3 belong to inputs 0..2.
    let (mut build, x) = with_x(&[-2, 4, -3]);
    let w = build.constant(Tensor::from_vec([4, 3, 1], vec![1.0f32; 12]).unwrap());
    let c = build.op("ConvTranspose", &[x, w], &[("group", 2.into())]);
    let factor = build.constant(Tensor::from_vec([6, 1], vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap());
    let y = build.op("Mul", &[c, factor], &[]);
    let graph = fused(build, y);
    assert_eq!(ops(&graph), ["ConvTranspose"]);
    let weights = graph.constant_input(&graph.nodes[0], 1).unwrap();
    assert_eq!(weights.as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0]);
}

#[test]
fn numbers_per_place_stay() {
    let shapes: [&[usize]; 4] = [&[4], &[1, 4, 1, 4], &[4, 4, 1], &[2, 1, 1, 1]];
    for shape in shapes {
        let (mut build, x) = with_x(&[2, 4, 4, 4]);
        let c = conv(&mut build, x);
        let other = floats(&mut build, shape);
        let y = build.op("Mul", &[c, other], &[]);
        assert_eq!(ops(&fused(build, y)), ["Conv", "Mul"], "{shape:?}");
    }
}

#[test]
fn a_normalisation_without_convolution_joins_the_chain() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let n = batch_norm(&mut build, x);
    let (scale, shift) = (floats(&mut build, &[4, 1, 1]), floats(&mut build, &[4, 1, 1]));
    let scaled = build.op("Mul", &[n, scale], &[]);
    let shifted = build.op("Add", &[scaled, shift], &[]);
    let y = build.op("Relu", &[shifted], &[]);
    let graph = fused(build, y);
    assert_eq!(ops(&graph), ["Chain"]);
    assert_eq!(graph.nodes[0].inputs.len(), 3, "one factor and one addend are left");
}

#[test]
fn padding_with_zeros_becomes_the_convolutions_own() {
    let (mut build, x) = with_x(&[-2, 4, -3, -4]);
    let pads = ints(&mut build, &[0, 0, 1, 2, 0, 0, 3, 4]);
    let padded = build.op("Pad", &[x, pads], &[]);
    let y = conv(&mut build, padded);
    let graph = fused(build, y);
    assert_eq!(ops(&graph), ["Conv"]);
    assert_eq!(graph.nodes[0].ints("pads"), Some(&[2, 3, 4, 5][..]));
}

#[test]
fn other_padding_stays() {
    type Make = fn(&mut GraphBuilder, ValueId) -> ValueId;
    let cases: [(&str, Make); 4] = [
        ("by reflection", |b, x| {
            let p = ints(b, &[0, 0, 1, 1, 0, 0, 1, 1]);
            b.op("Pad", &[x, p], &[("mode", "reflect".into())])
        }),
        ("of channels", |b, x| {
            let p = ints(b, &[0, 1, 0, 0, 0, 0, 0, 0]);
            b.op("Pad", &[x, p], &[])
        }),
        ("with ones", |b, x| {
            let (p, one) = (ints(b, &[0, 0, 1, 1, 0, 0, 1, 1]), scalar(b, 1.0));
            b.op("Pad", &[x, p, one], &[])
        }),
        ("cropping", |b, x| {
            let p = ints(b, &[0, 0, -1, 1, 0, 0, 1, 1]);
            b.op("Pad", &[x, p], &[])
        }),
    ];
    for (case, make) in cases {
        let (mut build, x) = with_x(&[-2, 4, -3, -4]);
        let padded = make(&mut build, x);
        let y = conv(&mut build, padded);
        assert_eq!(ops(&fused(build, y)), ["Pad", "Conv"], "{case}");
    }
}

#[test]
fn long_forms_of_activations_are_found() {
    // x * clip(x + 3, 0, 6) / 6, x * sigmoid(x), and x * clip(x / 6 + 0.5, 0, 1).
    type After = fn(&mut GraphBuilder, ValueId) -> ValueId;
    let cases: [(&str, After); 3] = [
        ("FusedConv+HardSwish", |b, x| {
            let [three, zero, six] = [3.0, 0.0, 6.0].map(|v| scalar(b, v));
            let sum = b.op("Add", &[x, three], &[]);
            let clipped = b.op("Clip", &[sum, zero, six], &[]);
            let product = b.op("Mul", &[x, clipped], &[]);
            b.op("Div", &[product, six], &[])
        }),
        ("FusedConv+Silu", |b, x| {
            let gate = b.op("Sigmoid", &[x], &[]);
            b.op("Mul", &[x, gate], &[])
        }),
        ("FusedConv+HardSwish", |b, x| {
            let gate = b.op("HardSigmoid", &[x], &[("alpha", (1.0f32 / 6.0).into()), ("beta", 0.5.into())]);
            b.op("Mul", &[gate, x], &[])
        }),
    ];
    for (expected, after) in cases {
        let (mut build, x) = with_x(&[-2, 4, -3, -4]);
        let c = conv(&mut build, x);
        let y = after(&mut build, c);
        assert_eq!(ops(&fused(build, y)), [expected]);
    }
}
