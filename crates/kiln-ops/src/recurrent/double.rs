//! LSTM, GRU and RNN of `f64`, in plain Rust: step by step, gate by gate.

use std::borrow::Cow;

use kiln_kernels::cpu::chain::UnaryOp;
use kiln_kernels::cpu::recurrent::{Activation, Cell};
use kiln_kernels::memory::{self, Pace};
use kiln_kernels::reference::chain::unary;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::{B, C, H, LENGTHS, Layer, P, R, Sizes, W, X, lengths};
use crate::wide::lent;
use crate::{LoadCx, OpError};

/// A layer whose weights are never packed.
struct Double(Layer);

/// Makes the node.
pub(super) fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Double(Layer::read(cx)?)))
}

/// `activation(clipped value)`
fn activate(activation: Activation, clip: Option<f64>, value: f64) -> f64 {
    let x = clip.map_or(value, |clip| value.min(clip).max(-clip));
    let wide = |bits: kiln_kernels::cpu::chain::Bits| f64::from(bits.get());
    match activation {
        Activation::Affine { alpha, beta } => wide(alpha) * x + wide(beta),
        Activation::ScaledTanh { alpha, beta } => wide(alpha) * (wide(beta) * x).tanh(),
        Activation::Unary(op) => match op {
            UnaryOp::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            UnaryOp::Tanh => x.tanh(),
            UnaryOp::Relu => x.max(0.0),
            UnaryOp::Softsign => x / (1.0 + x.abs()),
            UnaryOp::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            UnaryOp::LeakyRelu { alpha } if x < 0.0 => wide(alpha) * x,
            UnaryOp::Elu { alpha } if x < 0.0 => wide(alpha) * x.exp_m1(),
            UnaryOp::LeakyRelu { .. } | UnaryOp::Elu { .. } => x,
            UnaryOp::ThresholdedRelu { alpha } => {
                if x > wide(alpha) {
                    x
                } else {
                    0.0
                }
            }
            UnaryOp::HardSigmoid { alpha, beta } => (wide(alpha) * x + wide(beta)).clamp(0.0, 1.0),
            // No cell has another function.
            other => f64::from(unary(other, x as f32)),
        },
    }
}

/// The weights of one direction, in ONNX's layout.
struct Weights<'a> {
    layer: &'a Layer,
    direction: usize,
    input: usize,
    hidden: usize,
    w: &'a [f64],
    r: &'a [f64],
    b: Option<&'a [f64]>,
    p: Option<&'a [f64]>,
}

/// The states of one sequence.
struct States {
    h: Vec<f64>,
    c: Vec<f64>,
}

impl Weights<'_> {
    fn columns(&self) -> usize {
        self.layer.cell.gates() * self.hidden
    }

    fn bias(&self, row: usize) -> f64 {
        self.b.map_or(0.0, |b| b[self.direction * 2 * self.columns() + row])
    }

    fn dot(&self, weights: &[f64], row: usize, vector: &[f64]) -> f64 {
        let row = (self.direction * self.columns() + row) * vector.len();
        weights[row..row + vector.len()].iter().zip(vector).map(|(a, b)| a * b).sum()
    }

    fn with_x(&self, gate: usize, unit: usize, x: &[f64]) -> f64 {
        let row = gate * self.hidden + unit;
        self.dot(self.w, row, x) + self.bias(row)
    }

    fn with_state(&self, gate: usize, unit: usize, h: &[f64]) -> f64 {
        let row = gate * self.hidden + unit;
        self.dot(self.r, row, h) + self.bias(self.columns() + row)
    }

    fn peephole(&self, gate: usize, unit: usize, state: f64) -> f64 {
        self.p.map_or(0.0, |p| p[(self.direction * 3 + gate) * self.hidden + unit] * state)
    }

    /// One step of one sequence.
    fn step(&self, x: &[f64], States { h, c }: &mut States) {
        let clip = self.layer.clip.map(|clip| f64::from(clip.get()));
        let [f, g, last] = self.layer.directions[self.direction].activations;
        let before = memory::copied(h);
        let sum = |gate: usize, unit: usize| self.with_x(gate, unit, x) + self.with_state(gate, unit, &before);
        match self.layer.cell {
            Cell::Lstm { input_forget, .. } => {
                for unit in 0..self.hidden {
                    let gate =
                        |gate, place, state| activate(f, clip, sum(gate, unit) + self.peephole(place, unit, state));
                    let input = gate(0, 0, c[unit]);
                    let forget = if input_forget { 1.0 - input } else { gate(2, 2, c[unit]) };
                    c[unit] = forget * c[unit] + input * activate(g, clip, sum(3, unit));
                    h[unit] = gate(1, 1, c[unit]) * activate(last, clip, c[unit]);
                }
            }
            Cell::Gru { linear_before_reset } => {
                let mut reset = memory::copied(&before);
                for (unit, reset) in reset.iter_mut().enumerate() {
                    let gate = activate(f, clip, sum(1, unit));
                    *reset = if linear_before_reset { gate } else { gate * *reset };
                }
                for unit in 0..self.hidden {
                    let update = activate(f, clip, sum(0, unit));
                    let state = match linear_before_reset {
                        true => reset[unit] * self.with_state(2, unit, &before),
                        false => self.with_state(2, unit, &reset),
                    };
                    let candidate = activate(g, clip, self.with_x(2, unit, x) + state);
                    h[unit] = (1.0 - update) * candidate + update * before[unit];
                }
            }
            Cell::Rnn => (0..self.hidden).for_each(|unit| h[unit] = activate(f, clip, sum(0, unit))),
        }
    }
}

impl Node for Double {
    fn family(&self) -> &'static str {
        "recurrent"
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        self.0.check(inputs, outputs)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let layer = &self.0;
        let [peepholes, cells] = [P, C].map(|index| layer.memory(&io.inputs(), index));
        let x = io.input(X)?;
        let (steps, batch) = layer.time_and_batch(x)?;
        let counts = io.optional(LENGTHS).map(|tensor| lengths(tensor, steps)).transpose()?;
        let Sizes { input, hidden } = layer.sizes(io.input(W)?, io.input(R)?, io.optional(B), peepholes)?;
        let numbers = |tensor: Option<&Tensor>| -> Result<Option<Vec<f64>>, NodeError> {
            Ok(tensor.map(lent::<f64>).transpose()?.map(Cow::into_owned))
        };
        let (x, w, r) = (lent::<f64>(x)?, lent::<f64>(io.input(W)?)?, lent::<f64>(io.input(R)?)?);
        let (b, p) = (numbers(io.optional(B))?, numbers(peepholes)?);
        let (first_h, first_c) = (numbers(io.optional(H))?, numbers(cells)?);
        let (mut y, mut last_h) = (io.alloc(0)?, io.alloc(1)?);
        let mut last_c = if layer.cell.has_memory() { Some(io.alloc(2)?) } else { None };
        let places = layer.shape([steps, batch, input, hidden]);
        let to = y.as_mut_slice::<f64>()?;
        to.fill(0.0);
        let mut pace = Pace::default();
        for direction in 0..layer.directions.len() {
            let (b, p) = (b.as_deref(), p.as_deref());
            let weights = Weights { layer, direction, input, hidden, w: &w, r: &r, b, p };
            for sequence in 0..batch {
                let state = places.state(direction, sequence);
                let start = |first: &Option<Vec<f64>>| match first {
                    Some(first) => memory::copied(&first[state..state + hidden]),
                    None => memory::zeroed(hidden),
                };
                let mut states = States { h: start(&first_h), c: start(&first_c) };
                let length = counts.as_ref().map_or(steps, |counts| counts[sequence]);
                for index in 0..length {
                    pace.step(weights.columns().saturating_mul(input + hidden).saturating_add(1));
                    let reverse = layer.directions[direction].reverse;
                    let step = if reverse { length - 1 - index } else { index };
                    let row = places.row(step, sequence) * input;
                    weights.step(&x[row..row + weights.input], &mut states);
                    to[places.y(step, direction, sequence)..][..hidden].copy_from_slice(&states.h);
                }
                if length == 0 {
                    // A sequence without steps has no last output.
                    states.h.fill(0.0);
                    states.c.fill(0.0);
                }
                last_h.as_mut_slice::<f64>()?[state..state + hidden].copy_from_slice(&states.h);
                if let Some(last_c) = &mut last_c {
                    last_c.as_mut_slice::<f64>()?[state..state + hidden].copy_from_slice(&states.c);
                }
            }
        }
        io.push(y);
        io.push(last_h);
        last_c.into_iter().for_each(|c| io.push(c));
        Ok(())
    }
}
