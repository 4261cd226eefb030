//! The plain form of recurrent layers: step by step, gate by gate, products in double precision.
//!
//! The oracle of the tests of recurrent kernels.

use super::chain::unary;
use crate::problem::functions::UnaryOp;
use crate::problem::recurrent::{Activation, Cell, Outputs, RecurrentShape};

/// Inputs as ONNX stores them, with all directions.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The inputs of all steps of all sequences.
    pub x: &'a [f32],
    /// `[directions, gates x hidden, input]`
    pub w: &'a [f32],
    /// `[directions, gates x hidden, hidden]`
    pub r: &'a [f32],
    /// `[directions, 2 x gates x hidden]`: the bias of the input's product, then that of the recurrent product.
    pub b: Option<&'a [f32]>,
    /// `[directions, 3 x hidden]`
    pub peepholes: Option<&'a [f32]>,
    /// Steps of each sequence, at most those of the layer; outputs of later steps are zero.
    pub lengths: Option<&'a [usize]>,
    /// Output before the first step, of each sequence.
    pub h: Option<&'a [f32]>,
    /// State before the first step, of each sequence.
    pub c: Option<&'a [f32]>,
}

/// `activation(clipped value)`
#[must_use]
pub fn activate(activation: Activation, clip: Option<f32>, value: f32) -> f32 {
    let value = clip.map_or(value, |clip| value.min(clip).max(-clip));
    match activation {
        Activation::Unary(op) => unary(op, value),
        Activation::Affine { alpha, beta } => alpha.get() * value + beta.get(),
        Activation::ScaledTanh { alpha, beta } => alpha.get() * unary(UnaryOp::Tanh, beta.get() * value),
    }
}

/// Runs a layer. Slices have the lengths that `shape` says.
pub fn recurrent(shape: &RecurrentShape, inputs: &Inputs<'_>, outputs: &mut Outputs<'_>) {
    outputs.y.fill(0.0);
    for direction in 0..shape.directions.len() {
        for sequence in 0..shape.batch() {
            one_sequence(shape, inputs, outputs, direction, sequence);
        }
    }
}

fn one_sequence(
    shape: &RecurrentShape,
    inputs: &Inputs<'_>,
    outputs: &mut Outputs<'_>,
    direction: usize,
    sequence: usize,
) {
    let (hidden, state) = (shape.hidden(), shape.state(direction, sequence));
    let start = |first: Option<&[f32]>| first.map_or(vec![0.0; hidden], |first| first[state..state + hidden].to_vec());
    let (mut h, mut c) = (start(inputs.h), start(inputs.c));
    let length = inputs.lengths.map_or(shape.steps(), |lengths| lengths[sequence].min(shape.steps()));
    for index in 0..length {
        let step = if shape.directions[direction].reverse { length - 1 - index } else { index };
        let row = shape.row(step, sequence) * shape.input();
        one_step(shape, inputs, direction, &inputs.x[row..row + shape.input()], &mut h, &mut c);
        let y = shape.y(step, direction, sequence);
        outputs.y[y..y + hidden].copy_from_slice(&h);
    }
    if length == 0 {
        // A sequence without steps has no last output.
        h.fill(0.0);
        c.fill(0.0);
    }
    outputs.h[state..state + hidden].copy_from_slice(&h);
    if shape.cell.has_memory() {
        outputs.c[state..state + hidden].copy_from_slice(&c);
    }
}

fn one_step(shape: &RecurrentShape, inputs: &Inputs<'_>, direction: usize, x: &[f32], h: &mut Vec<f32>, c: &mut [f32]) {
    let (hidden, columns) = (shape.hidden(), shape.gate_columns());
    let dot = |weights: &[f32], row: usize, vector: &[f32]| -> f64 {
        let weights = &weights[(direction * columns + row) * vector.len()..][..vector.len()];
        weights.iter().zip(vector).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    let bias = |row: usize| inputs.b.map_or(0.0, |b| f64::from(b[direction * 2 * columns + row]));
    let from_x = |gate: usize, unit: usize| dot(inputs.w, gate * hidden + unit, x) + bias(gate * hidden + unit);
    let recurrent = |gate: usize, unit: usize, vector: &[f32]| {
        dot(inputs.r, gate * hidden + unit, vector) + bias(columns + gate * hidden + unit)
    };
    let clip = shape.clip.map(|clip| clip.get());
    let [f, g, last] = shape.directions[direction].activations;
    let before = std::mem::take(h);
    match shape.cell {
        Cell::Lstm { input_forget, .. } => {
            let peephole = |gate: usize, unit: usize, state: f32| {
                let weight = inputs.peepholes.map_or(0.0, |p| p[(direction * 3 + gate) * hidden + unit]);
                f64::from(weight) * f64::from(state)
            };
            for (unit, c) in c.iter_mut().enumerate().take(hidden) {
                let sum = |gate| from_x(gate, unit) + recurrent(gate, unit, &before);
                let input = activate(f, clip, (sum(0) + peephole(0, unit, *c)) as f32);
                let forget = match input_forget {
                    true => 1.0 - input,
                    false => activate(f, clip, (sum(2) + peephole(2, unit, *c)) as f32),
                };
                *c = forget * *c + input * activate(g, clip, sum(3) as f32);
                let output = activate(f, clip, (sum(1) + peephole(1, unit, *c)) as f32);
                h.push(output * activate(last, clip, *c));
            }
        }
        Cell::Gru { linear_before_reset } => {
            let gate = |gate, unit| activate(f, clip, (from_x(gate, unit) + recurrent(gate, unit, &before)) as f32);
            let reset: Vec<f32> = (0..hidden).map(|unit| gate(1, unit)).collect();
            let reset_state: Vec<f32> = reset.iter().zip(&before).map(|(reset, before)| reset * before).collect();
            for unit in 0..hidden {
                let update = gate(0, unit);
                let from_state = match linear_before_reset {
                    true => f64::from(reset[unit]) * recurrent(2, unit, &before),
                    false => recurrent(2, unit, &reset_state),
                };
                let candidate = activate(g, clip, (from_x(2, unit) + from_state) as f32);
                h.push((1.0 - update) * candidate + update * before[unit]);
            }
        }
        Cell::Rnn => {
            h.extend((0..hidden).map(|unit| activate(f, clip, (from_x(0, unit) + recurrent(0, unit, &before)) as f32)));
        }
    }
}
