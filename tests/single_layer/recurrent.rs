//! Tables of recurrent cells: the ONNX equations step by step.

use kiln_model::ir::Attr;
use kiln_tensor::Tensor;

use crate::harness::{Layer, Step};
use crate::reference::{Array, sigmoid};

const HIDDEN: usize = 11;
const INPUT: usize = 7;
const STEPS: &[Step<'_>] =
    &[&[&[5, 2, INPUT]], &[&[3, 1, INPUT]], &[&[3, 1, INPUT]], &[&[9, 4, INPUT]], &[&[5, 2, INPUT]]];

/// Gate pre-activations of one direction: W x + Wb + R h + Rb, without the recurrent part's share where `h` is `None`.
struct Cell<'a> {
    w: &'a Array,
    r: &'a Array,
    b: &'a Array,
    direction: usize,
    gates: usize,
}

impl Cell<'_> {
    fn input(&self, gate: usize, unit: usize, x: &[f64]) -> f64 {
        let row = gate * HIDDEN + unit;
        let bias = self.b.get(&[self.direction, row]);
        bias + (0..INPUT).map(|i| self.w.get(&[self.direction, row, i]) * x[i]).sum::<f64>()
    }

    fn recurrent(&self, gate: usize, unit: usize, h: &[f64]) -> f64 {
        let row = gate * HIDDEN + unit;
        let bias = self.b.get(&[self.direction, self.gates * HIDDEN + row]);
        bias + (0..HIDDEN).map(|i| self.r.get(&[self.direction, row, i]) * h[i]).sum::<f64>()
    }
}

/// Runs `step(cell, x, h, c) -> (h, c)` over time in both directions; returns Y, the last h and the last c.
fn unroll(
    x: &[Array],
    gates: usize,
    directions: usize,
    step: impl Fn(&Cell<'_>, &[f64], &[f64], &[f64]) -> (Vec<f64>, Vec<f64>),
) -> [Array; 3] {
    let (time, batch) = (x[0].shape[0], x[0].shape[1]);
    let mut y = Array::zeros(&[time, directions, batch, HIDDEN]);
    let mut last_h = Array::zeros(&[directions, batch, HIDDEN]);
    let mut last_c = last_h.clone();
    for direction in 0..directions {
        let cell = Cell { w: &x[1], r: &x[2], b: &x[3], direction, gates };
        for n in 0..batch {
            let (mut h, mut c) = (vec![0.0; HIDDEN], vec![0.0; HIDDEN]);
            for t in 0..time {
                let t = if direction == 1 { time - 1 - t } else { t };
                let at = x[0].index(&[t, n, 0]);
                (h, c) = step(&cell, &x[0].data[at..at + INPUT], &h, &c);
                let to = y.index(&[t, direction, n, 0]);
                y.data[to..to + HIDDEN].copy_from_slice(&h);
            }
            let to = last_h.index(&[direction, n, 0]);
            last_h.data[to..to + HIDDEN].copy_from_slice(&h);
            last_c.data[to..to + HIDDEN].copy_from_slice(&c);
        }
    }
    [y, last_h, last_c]
}

fn layer(op: &str, gates: usize, directions: usize) -> Layer {
    let direction = if directions == 2 { "bidirectional" } else { "forward" };
    Layer::new(op, 14)
        .attr("hidden_size", Attr::Int(HIDDEN as i64))
        .attr("direction", Attr::Str(direction.to_owned()))
        .dynamic(&[-1, -1, INPUT as i64])
        .weights(&[directions, gates * HIDDEN, INPUT])
        .weights(&[directions, gates * HIDDEN, HIDDEN])
        .weights(&[directions, 2 * gates * HIDDEN])
}

/// An LSTM's equations.
fn lstm(x: &[Tensor], directions: usize) -> Vec<Tensor> {
    let x: Vec<Array> = x.iter().map(Array::of).collect();
    let [y, h, c] = unroll(&x, 4, directions, |cell, x, h, c| {
        let gate = |gate: usize, u: usize| cell.input(gate, u, x) + cell.recurrent(gate, u, h);
        let next: Vec<f64> =
            (0..HIDDEN).map(|u| sigmoid(gate(2, u)) * c[u] + sigmoid(gate(0, u)) * gate(3, u).tanh()).collect();
        ((0..HIDDEN).map(|u| sigmoid(gate(1, u)) * next[u].tanh()).collect(), next)
    });
    vec![y.tensor(), h.tensor(), c.tensor()]
}

#[test]
fn lstm_in_one_and_both_directions() {
    for directions in [1, 2] {
        layer("LSTM", 4, directions).outputs(3).check(STEPS, |x| lstm(x, directions));
    }
}

#[test]
fn lstm_with_weights_in_bf16() {
    layer("LSTM", 4, 2).outputs(3).lower().check(STEPS, |x| lstm(x, 2));
}

#[test]
fn lstm_with_weights_in_f16() {
    for directions in [1, 2] {
        layer("LSTM", 4, directions).outputs(3).in_f16().check(STEPS, |x| lstm(x, directions));
    }
}

#[test]
fn gru_with_both_forms_of_the_reset_gate() {
    for linear_before_reset in [0, 1] {
        gru(layer("GRU", 3, 2), linear_before_reset);
        gru(layer("GRU", 3, 2).in_f16(), linear_before_reset);
    }
}

/// A GRU's equations.
fn gru(layer: Layer, linear_before_reset: i64) {
    layer.int("linear_before_reset", linear_before_reset).outputs(2).check(STEPS, |x| {
        let x: Vec<Array> = x.iter().map(Array::of).collect();
        let [y, h, _] = unroll(&x, 3, 2, |cell, x, h, _| {
            let gate = |gate: usize, u: usize| sigmoid(cell.input(gate, u, x) + cell.recurrent(gate, u, h));
            let reset: Vec<f64> = (0..HIDDEN).map(|u| gate(1, u)).collect();
            let gated: Vec<f64> = h.iter().zip(&reset).map(|(h, r)| h * r).collect();
            let next = (0..HIDDEN).map(|u| {
                let recurrent = if linear_before_reset == 1 {
                    reset[u] * cell.recurrent(2, u, h)
                } else {
                    cell.recurrent(2, u, &gated)
                };
                let candidate = (cell.input(2, u, x) + recurrent).tanh();
                let z = gate(0, u);
                (1.0 - z) * candidate + z * h[u]
            });
            (next.collect(), Vec::from([0.0; HIDDEN]))
        });
        vec![y.tensor(), h.tensor()]
    });
}

#[test]
fn plain_recurrent_cell() {
    plain(layer("RNN", 1, 1));
    plain(layer("RNN", 1, 1).in_f16());
}

fn plain(layer: Layer) {
    layer.outputs(2).check(STEPS, |x| {
        let x: Vec<Array> = x.iter().map(Array::of).collect();
        let [y, h, _] = unroll(&x, 1, 1, |cell, x, h, _| {
            let next = (0..HIDDEN).map(|u| (cell.input(0, u, x) + cell.recurrent(0, u, h)).tanh());
            (next.collect(), Vec::from([0.0; HIDDEN]))
        });
        vec![y.tensor(), h.tensor()]
    });
}
