//! Tables of operators over rows and channels: reductions, softmax, normalisations, places of extremes.

use kiln_model::ir::Attr;
use kiln_tensor::{DType, Tensor};

use crate::harness::{Fill, Layer, Step};
use crate::reference::{Array, build, indices, mean, normalise, reduce, softmax};

const STEPS: &[Step<'_>] =
    &[&[&[2, 3, 37]], &[&[4, 1, 8]], &[&[4, 1, 8]], &[&[1, 9, 130]], &[&[2, 3, 37]], &[&[4, 1, 8]]];

const IMAGES: &[Step<'_>] =
    &[&[&[1, 6, 5, 7]], &[&[2, 6, 9, 4]], &[&[2, 6, 9, 4]], &[&[1, 6, 12, 12]], &[&[1, 6, 5, 7]]];

#[test]
fn softmax_over_the_last_and_over_an_inner_axis() {
    for axis in [-1i64, 1] {
        Layer::new("Softmax", 13)
            .int("axis", axis)
            .dynamic(&[-1, -1, -1])
            .check(STEPS, |x| vec![softmax(&Array::of(&x[0]), if axis < 0 { 2 } else { 1 }).tensor()]);
    }
    Layer::new("LogSoftmax", 13).int("axis", -1).dynamic(&[-1, -1, -1]).check(STEPS, |x| {
        let y = softmax(&Array::of(&x[0]), 2);
        vec![build(&y.shape, |at| y.get(at).ln()).tensor()]
    });
}

#[test]
fn reductions_over_rows_columns_and_everything() {
    type Fold = fn(&[f64]) -> f64;
    let folds: [(&str, Fold); 6] = [
        ("ReduceSum", |v| v.iter().sum()),
        ("ReduceMean", mean),
        ("ReduceMax", |v| v.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        ("ReduceMin", |v| v.iter().copied().fold(f64::INFINITY, f64::min)),
        ("ReduceL2", |v| v.iter().map(|x| x * x).sum::<f64>().sqrt()),
        ("ReduceSumSquare", |v| v.iter().map(|x| x * x).sum()),
    ];
    for (op, fold) in folds {
        for axes in [&[2usize][..], &[1], &[0, 2], &[0, 1, 2]] {
            let listed: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
            let layer = if op == "ReduceSum" {
                let axes = kiln_tensor::Tensor::from_vec([listed.len()], listed).unwrap();
                Layer::new(op, 13).dynamic(&[-1, -1, -1]).constant(axes)
            } else {
                Layer::new(op, 13).ints("axes", &listed).dynamic(&[-1, -1, -1])
            };
            layer.check(STEPS, |x| vec![reduce(&Array::of(&x[0]), axes, fold).tensor()]);
        }
    }
}

#[test]
fn reductions_of_few_models() {
    type Fold = fn(&[f64]) -> f64;
    let folds: [(&str, Fold); 4] = [
        ("ReduceL1", |v| v.iter().map(|x| x.abs()).sum()),
        ("ReduceProd", |v| v.iter().product()),
        ("ReduceLogSum", |v| v.iter().sum::<f64>().ln()),
        ("ReduceLogSumExp", |v| v.iter().map(|x| x.exp()).sum::<f64>().ln()),
    ];
    for (op, fold) in folds {
        for axis in [1usize, 2] {
            let layer = Layer::new(op, 13).ints("axes", &[axis as i64]);
            let layer = layer.dynamic_of(&[-1, -1, -1], kiln_tensor::DType::F32, Fill::Positive);
            layer.check(STEPS, |x| vec![reduce(&Array::of(&x[0]), &[axis], fold).tensor()]);
        }
    }
}

#[test]
fn normalisations_by_lengths_and_by_moments() {
    let square = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>();
    Layer::new("LpNormalization", 1).int("axis", -1).dynamic(&[-1, -1, -1]).check(STEPS, |x| {
        let x = Array::of(&x[0]);
        let length = reduce(&x, &[2], |v| square(v).sqrt());
        vec![build(&x.shape, |at| x.get(at) / length.get(&[at[0], at[1], 0])).tensor()]
    });
    let steps: &[Step<'_>] = &[&[&[2, 3, 37]], &[&[1, 9, 37]], &[&[1, 9, 37]], &[&[2, 3, 37]]];
    Layer::new("RMSNormalization", 23).dynamic(&[-1, -1, 37]).weights(&[37]).check(steps, |x| {
        let (x, scale) = (Array::of(&x[0]), Array::of(&x[1]));
        let root = reduce(&x, &[2], |v| (square(v) / v.len() as f64 + 1e-5).sqrt());
        vec![build(&x.shape, |at| x.get(at) / root.get(&[at[0], at[1], 0]) * scale.data[at[2]]).tensor()]
    });
    Layer::new("MeanVarianceNormalization", 13).dynamic(&[-1, 6, -1, -1]).check(IMAGES, |x| {
        let x = Array::of(&x[0]);
        let means = reduce(&x, &[0, 2, 3], mean);
        let deviation = |v: &[f64]| (square(v) / v.len() as f64 - mean(v).powi(2)).sqrt();
        let deviations = reduce(&x, &[0, 2, 3], deviation);
        let channel = |at: &[usize]| [0, at[1], 0, 0];
        vec![build(&x.shape, |at| (x.get(at) - means.get(&channel(at))) / deviations.get(&channel(at))).tensor()]
    });
}

#[test]
fn layer_normalisation() {
    for width in [5usize, 64, 131] {
        let shape = |n: usize, s: usize| vec![n, s, width];
        let (a, b, c) = (shape(2, 3), shape(1, 17), shape(4, 1));
        let steps: Vec<Vec<&[usize]>> = vec![vec![&a], vec![&b], vec![&b], vec![&c], vec![&a]];
        let steps: Vec<Step<'_>> = steps.iter().map(Vec::as_slice).collect();
        Layer::new("LayerNormalization", 17)
            .int("axis", -1)
            .attr("epsilon", Attr::Float(1e-5))
            .dynamic(&[-1, -1, width as i64])
            .weights(&[width])
            .weights(&[width])
            .check(&steps, |x| {
                let (y, scale, bias) = (normalise(&Array::of(&x[0]), &[2], 1e-5), Array::of(&x[1]), Array::of(&x[2]));
                vec![build(&y.shape, |at| y.get(at) * scale.broadcast(at) + bias.broadcast(at)).tensor()]
            });
    }
}

#[test]
fn batch_normalisation() {
    let positive = crate::harness::random(&[6], kiln_tensor::DType::F32, Fill::Positive, 5);
    Layer::new("BatchNormalization", 15)
        .dynamic(&[-1, 6, -1, -1])
        .weights(&[6])
        .weights(&[6])
        .weights(&[6])
        .constant(positive)
        .check(IMAGES, |x| {
            let a: Vec<Array> = x.iter().map(Array::of).collect();
            vec![
                build(&a[0].shape, |at| {
                    let c = at[1];
                    (a[0].get(at) - a[3].data[c]) / (a[4].data[c] + 1e-5).sqrt() * a[1].data[c] + a[2].data[c]
                })
                .tensor(),
            ]
        });
}

#[test]
fn instance_and_group_normalisation() {
    Layer::new("InstanceNormalization", 6).dynamic(&[-1, 6, -1, -1]).weights(&[6]).weights(&[6]).check(IMAGES, |x| {
        let (y, scale, bias) = (normalise(&Array::of(&x[0]), &[2, 3], 1e-5), Array::of(&x[1]), Array::of(&x[2]));
        vec![build(&y.shape, |at| y.get(at) * scale.data[at[1]] + bias.data[at[1]]).tensor()]
    });
    Layer::new("GroupNormalization", 21)
        .int("num_groups", 3)
        .dynamic(&[-1, 6, -1, -1])
        .weights(&[6])
        .weights(&[6])
        .check(IMAGES, |x| {
            let a = Array::of(&x[0]);
            let grouped = Array { shape: vec![a.shape[0], 3, 2, a.shape[2], a.shape[3]], data: a.data.clone() };
            let y = Array { shape: a.shape.clone(), data: normalise(&grouped, &[2, 3, 4], 1e-5).data };
            let (scale, bias) = (Array::of(&x[1]), Array::of(&x[2]));
            vec![build(&y.shape, |at| y.get(at) * scale.data[at[1]] + bias.data[at[1]]).tensor()]
        });
}

#[test]
fn local_response_normalisation() {
    let (size, alpha, beta, bias) = (3usize, 0.02f32, 0.75f32, 1.5f32);
    Layer::new("LRN", 13)
        .int("size", size as i64)
        .attr("alpha", Attr::Float(alpha))
        .attr("beta", Attr::Float(beta))
        .attr("bias", Attr::Float(bias))
        .dynamic(&[-1, 6, -1, -1])
        .check(IMAGES, |x| {
            let a = Array::of(&x[0]);
            vec![
                build(&a.shape, |at| {
                    let near = at[1].saturating_sub(1)..(at[1] + 2).min(a.shape[1]);
                    let squares: f64 = near.map(|c| a.get(&[at[0], c, at[2], at[3]]).powi(2)).sum();
                    let denominator = f64::from(bias) + f64::from(alpha) / size as f64 * squares;
                    a.get(at) / denominator.powf(f64::from(beta))
                })
                .tensor(),
            ]
        });
}

/// The place of the extreme element along an axis: the first of equal ones, or the last where the last is wanted.
fn place(x: &Array, axis: usize, is_last: bool, better: impl Fn(f64, f64) -> bool) -> Tensor {
    let mut shape = x.shape.clone();
    shape[axis] = 1;
    let found = indices(&shape).map(|mut at| {
        let mut best = 0;
        for place in 1..x.shape[axis] {
            let [new, old] = [place, best].map(|place| {
                at[axis] = place;
                x.get(&at)
            });
            if better(new, old) || is_last && new == old {
                best = place;
            }
        }
        best as i64
    });
    Tensor::from_vec(shape.clone(), found.collect()).unwrap()
}

#[test]
fn places_of_extremes_along_the_last_and_along_another_axis() {
    type Better = fn(f64, f64) -> bool;
    let both: [(&str, Better); 2] = [("ArgMax", |a, b| a > b), ("ArgMin", |a, b| a < b)];
    for (op, better) in both {
        for axis in [0usize, 1, 2] {
            for is_last in [false, true] {
                let layer = Layer::new(op, 13).int("axis", axis as i64).int("select_last_index", is_last.into());
                // Few values, so that many are equal.
                let layer = layer.dynamic_of(&[-1, -1, -1], DType::F32, Fill::Few);
                layer.check(STEPS, |x| vec![place(&Array::of(&x[0]), axis, is_last, better)]);
            }
        }
    }
}

#[test]
fn ones_at_the_first_greatest_element_along_any_axis() {
    for axis in [0usize, 1, 2] {
        let layer = Layer::new("Hardmax", 13).int("axis", axis as i64).dynamic_of(&[-1, -1, -1], DType::F32, Fill::Few);
        layer.check(STEPS, |x| {
            let x = Array::of(&x[0]);
            let places = place(&x, axis, false, |a, b| a > b);
            let data = places.as_slice::<i64>().unwrap().iter().map(|&place| place as f64).collect();
            let greatest = Array { shape: places.shape().to_vec(), data };
            let ones = build(&x.shape, |at| {
                let mut line = at.to_vec();
                line[axis] = 0;
                f64::from(u8::from(greatest.get(&line) == at[axis] as f64))
            });
            vec![ones.tensor()]
        });
    }
}

#[test]
fn running_values_along_any_axis_in_either_direction() {
    for (op, version, product) in [("CumSum", 14, false), ("CumProd", 26, true)] {
        for axis in [0usize, 1, 2] {
            for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
                let layer = Layer::new(op, version).int("exclusive", exclusive.into()).int("reverse", reverse.into());
                let layer = layer.dynamic(&[-1, -1, -1]).constant(Tensor::scalar(axis as i64));
                layer.check(STEPS, |x| {
                    let x = Array::of(&x[0]);
                    let running = build(&x.shape, |at| {
                        let is_before = |place: usize| if reverse { place > at[axis] } else { place < at[axis] };
                        let counts = |place: &usize| is_before(*place) || *place == at[axis] && !exclusive;
                        let elements = (0..x.shape[axis]).filter(counts).map(|place| {
                            let mut from = at.to_vec();
                            from[axis] = place;
                            x.get(&from)
                        });
                        if product { elements.product() } else { elements.sum() }
                    });
                    vec![running.tensor()]
                });
            }
        }
    }
}
