//! Tables of mixtures of experts.

use kiln_tensor::{DType, Tensor};

use crate::harness::{Fill, Layer, Step, random};
use crate::reference::{Array, sigmoid};

const EXPERTS: usize = 5;
const HIDDEN: usize = 24;
const INNER: usize = 20;

/// One expert's product of a row with weights `[experts, n, k]`, with a bias.
fn product(weights: &Array, bias: &Array, expert: usize, row: &[f64]) -> Vec<f64> {
    let n = weights.shape[1];
    let sum = |column: usize| -> f64 {
        row.iter().enumerate().map(|(at, x)| x * weights.get(&[expert, column, at])).sum::<f64>()
    };
    (0..n).map(|column| sum(column) + bias.get(&[expert, column])).collect()
}

/// Rows by their two best experts, weighted by the softmax of all scores or of the chosen ones.
fn mixture(rows: &Tensor, scores: &Array, of_all: bool, expert: impl Fn(usize, &[f64]) -> Vec<f64>) -> Tensor {
    let mut out = Array::zeros(rows.shape());
    let x = Array::of(rows);
    for (row, out) in out.data.chunks_exact_mut(HIDDEN).enumerate() {
        let scores = &scores.data[row * EXPERTS..][..EXPERTS];
        let mut order: Vec<usize> = (0..EXPERTS).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let chosen = &order[..2];
        let among = if of_all { &order[..] } else { chosen };
        let sum: f64 = among.iter().map(|&expert| scores[expert].exp()).sum();
        for &number in chosen {
            let result = expert(number, &x.data[row * HIDDEN..][..HIDDEN]);
            out.iter_mut().zip(result).for_each(|(out, y)| *out += scores[number].exp() / sum * y);
        }
    }
    out.tensor()
}

/// Batches that give an expert no row, one row and many.
const STEPS: &[Step<'_>] = &[
    &[&[3, HIDDEN], &[3, EXPERTS]],
    &[&[1, HIDDEN], &[1, EXPERTS]],
    &[&[1, HIDDEN], &[1, EXPERTS]],
    &[&[70, HIDDEN], &[70, EXPERTS]],
    &[&[3, HIDDEN], &[3, EXPERTS]],
];

fn layer(op: &str) -> Layer {
    Layer::new(op, 1).domain("com.microsoft").int("k", 2).dynamic(&[-1, HIDDEN as i64]).dynamic(&[-1, EXPERTS as i64])
}

#[test]
fn experts_of_packed_weights() {
    let layer = layer("MoE").attr("activation_type", "silu".into()).weights(&[EXPERTS, INNER, HIDDEN]);
    let layer = layer.weights(&[EXPERTS, INNER]).weights(&[EXPERTS, HIDDEN, INNER]).weights(&[EXPERTS, HIDDEN]);
    layer.check(STEPS, |x| {
        let [scores, up, up_bias, down, down_bias] = [1, 2, 3, 4, 5].map(|at: usize| Array::of(&x[at]));
        let expert = |number: usize, row: &[f64]| {
            let inner: Vec<f64> = product(&up, &up_bias, number, row).iter().map(|x| x * sigmoid(*x)).collect();
            product(&down, &down_bias, number, &inner)
        };
        vec![mixture(&x[0], &scores, true, expert)]
    });
}

#[test]
fn experts_whose_weights_come_with_the_request() {
    let steps: &[Step<'_>] = &[
        &[&[2, 2, HIDDEN], &[4, EXPERTS], &[EXPERTS, INNER, HIDDEN], &[EXPERTS, HIDDEN, INNER]],
        &[&[1, 9, HIDDEN], &[9, EXPERTS], &[EXPERTS, INNER, HIDDEN], &[EXPERTS, HIDDEN, INNER]],
        &[&[1, 9, HIDDEN], &[9, EXPERTS], &[EXPERTS, INNER, HIDDEN], &[EXPERTS, HIDDEN, INNER]],
        &[&[2, 2, HIDDEN], &[4, EXPERTS], &[EXPERTS, INNER, HIDDEN], &[EXPERTS, HIDDEN, INNER]],
    ];
    let layer = Layer::new("MoE", 1).domain("com.microsoft").int("k", 2).dynamic(&[-1, -1, HIDDEN as i64]);
    let layer = layer.dynamic(&[-1, EXPERTS as i64]).dynamic(&[EXPERTS as i64, INNER as i64, HIDDEN as i64]);
    layer.absent().dynamic(&[EXPERTS as i64, HIDDEN as i64, INNER as i64]).check(steps, |x| {
        let [scores, up, down] = [1, 2, 4].map(|at: usize| Array::of(&x[at]));
        let none = Array::zeros(&[EXPERTS, HIDDEN]);
        let expert = |number: usize, row: &[f64]| {
            let inner: Vec<f64> = product(&up, &none, number, row).iter().map(|x| x.max(0.0)).collect();
            product(&down, &none, number, &inner)
        };
        vec![mixture(&x[0], &scores, true, expert)]
    });
}

/// The numbers for codes of four bits, `[experts, n, k]`, with a scale for each row.
fn dequantised(codes: &Tensor, scales: &Tensor) -> Array {
    let (&[experts, n, bytes], scales) = (codes.shape(), Array::of(scales)) else { unreachable!() };
    let mut all = Array::zeros(&[experts, n, 2 * bytes]);
    for (at, number) in all.data.iter_mut().enumerate() {
        let code = codes.bytes()[at / 2] >> (4 * (at % 2)) & 15;
        *number = (f64::from(code) - 8.0) * scales.data[at / (2 * bytes)];
    }
    all
}

#[test]
fn experts_of_four_bits() {
    let codes = |n: usize, k: usize, seed: u64| random(&[EXPERTS, n, k / 2], DType::U8, Fill::Unit, seed);
    let layer = layer("QMoE").attr("activation_type", "swiglu".into()).int("swiglu_fusion", 1);
    let layer = layer.constant(codes(2 * INNER, HIDDEN, 1)).weights(&[EXPERTS, 2 * INNER]).absent();
    layer.constant(codes(HIDDEN, INNER, 2)).weights(&[EXPERTS, HIDDEN]).check(STEPS, |x| {
        let (up, down) = (dequantised(&x[2], &x[3]), dequantised(&x[5], &x[6]));
        let none = Array::zeros(&[EXPERTS, 2 * INNER]);
        let expert = |number: usize, row: &[f64]| {
            let pairs = product(&up, &none, number, row);
            let inner: Vec<f64> = pairs.chunks_exact(2).map(|it| it[0] * sigmoid(it[0]) * it[1]).collect();
            product(&down, &none, number, &inner)
        };
        vec![mixture(&x[0], &Array::of(&x[1]), false, expert)]
    });
}
