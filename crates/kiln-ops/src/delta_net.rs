//! GatedDeltaNet, linear attention over sequences of any lengths that lie one behind the other. It is LinearAttention
//! that computes the gates of its decay and of its rates itself, and whose states have values as rows.
//!
//! The rows of a state do not depend on each other: they are shared out between threads, and each walks the positions
//! of its sequence. Computed in `f32`.

use std::ops::Range;

use kiln_kernels::memory;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::ragged::{captured, ranges};
use super::tasks::{share, try_each_chunk};
use super::wide::{filled, lent, narrow};
use super::{LoadCx, OpError, Operator, optional, refused, required, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("com.microsoft", "GatedDeltaNet", make)];

/// The largest number of positions of a sequence whose transitions are an output.
const WIDEST: usize = 8;

/// Added to a vector's sum of squares before the vector is divided by the root.
const SMALLEST: f32 = 1e-12;

/// How the factor of the decay is made from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// The input is the logarithm of the factor.
    None,
    /// -exp(a) softplus(decay + bias)
    Softplus,
    /// bound sigmoid(exp(a) (decay + bias))
    Sigmoid,
}

struct DeltaNet {
    /// Whether the state decays, and whether it is corrected by what it already holds for a key (the delta rule).
    decays: bool,
    corrects: bool,
    gate: Gate,
    bound: f32,
    /// Whether the rates of the input still need their sigmoid.
    squashed: bool,
    /// Whether queries and keys are divided by their lengths.
    normalised: bool,
    scale: Option<f32>,
    /// How many of the first positions of each sequence have their transitions in an output.
    capacity: usize,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let (node, attributes) = (cx.node, cx.node.attributes());
    let unknown = |name: &str, word: &str| OpError::unsupported(node, format!("{name} = {word}"));
    let (decays, corrects) = match attributes.text("update_rule") {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(unknown("update_rule", other)),
    };
    let gate = match attributes.text("gate_activation") {
        "none" => Gate::None,
        "softplus" | "qwen" => Gate::Softplus,
        "sigmoid" | "kda" => Gate::Sigmoid,
        other => return Err(unknown("gate_activation", other)),
    };
    let squashed = match attributes.text("beta_activation") {
        "none" => false,
        "sigmoid" => true,
        other => return Err(unknown("beta_activation", other)),
    };
    let capacity = size_attribute(node, "state_update_capacity", 0)?;
    if capacity > WIDEST {
        return Err(OpError::invalid(node, format!("state_update_capacity = {capacity}")));
    }
    for (index, wanted, with) in [
        (4, decays, "the update rule"),
        (5, corrects, "the update rule"),
        (7, gate != Gate::None, "the gate"),
        (8, gate != Gate::None, "the gate"),
        (9, capacity > 0, "state_update_capacity"),
    ] {
        if node.input(index).is_some() != wanted {
            return Err(OpError::invalid(node, format!("input {index} and {with} do not belong together")));
        }
    }
    if node.input(1).is_some() != node.input(2).is_some() {
        return Err(OpError::invalid(node, "keys and values are given together, or are behind the queries"));
    }
    let scale = Some(attributes.float("scale")).filter(|&scale| scale != 0.0);
    let (bound, normalised) = (attributes.float("gate_lower_bound"), attributes.flag("qk_l2_norm"));
    Ok(Box::new(DeltaNet { decays, corrects, gate, bound, squashed, normalised, scale, capacity }))
}

/// Sizes of one run.
#[derive(Clone, Copy)]
struct Sizes {
    tokens: usize,
    batch: usize,
    /// Heads of queries and keys, and heads of values. Each head of values has a state.
    keys: usize,
    heads: usize,
    key: usize,
    value: usize,
    /// Elements of the decay for a head: one, or as many as a key has.
    decay: usize,
    /// Elements of a position in each operand, and where a position's queries, keys and values begin in it.
    places: [Place; 3],
}

#[derive(Clone, Copy)]
struct Place {
    width: usize,
    start: usize,
}

impl Sizes {
    /// Elements of a sequence's transitions, of one position.
    fn transition(&self) -> usize {
        self.heads * self.decay + self.keys * self.key + self.heads * self.value
    }
}

impl DeltaNet {
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let query = required(inputs, 0)?.shape();
        let wrong = |index: usize, shape: &[usize]| refused(format!("input {index} has shape {shape:?}"));
        let state = optional(inputs, 6).map(Tensor::shape);
        let (lead, [keys, heads, key, value], places) = match optional(inputs, 1).zip(optional(inputs, 2)) {
            Some((keys, values)) => {
                let [.., heads, size] = *query else { return Err(wrong(0, query)) };
                let lead = &query[..query.len() - 2];
                let [.., count, each] = *values.shape() else { return Err(wrong(2, values.shape())) };
                if keys.shape() != query {
                    return Err(wrong(1, keys.shape()));
                }
                if values.shape()[..values.shape().len() - 2] != *lead {
                    return Err(wrong(2, values.shape()));
                }
                let place = |heads: usize, size: usize| Place { width: heads.saturating_mul(size), start: 0 };
                let places = [place(heads, size), place(heads, size), place(count, each)];
                (lead, [heads, count, size, each], places)
            }
            None => {
                let &[_, heads, value, key] = state.unwrap_or_default() else {
                    return Err(refused("queries, keys and values in one tensor, and no state that tells them apart"));
                };
                let [ref lead @ .., width] = *query else { return Err(wrong(0, query)) };
                let rest = heads.checked_mul(value).and_then(|values| width.checked_sub(values));
                let rest = rest.filter(|rest| key > 0 && rest % (2 * key) == 0).ok_or_else(|| wrong(0, query))?;
                let place = |start: usize| Place { width, start };
                (lead, [rest / (2 * key), heads, key, value], [place(0), place(rest / 2), place(rest)])
            }
        };
        if keys == 0 || heads % keys != 0 || !(1..=2).contains(&lead.len()) {
            return Err(refused(format!("{heads} heads of values and {keys} of keys in shape {query:?}")));
        }
        let tokens = lead.iter().product();
        let batch = match (optional(inputs, 3).map(Tensor::shape), lead, state) {
            (Some(&[ends]), [_], _) if ends > 0 => ends - 1,
            (Some(shape), _, _) => return Err(wrong(3, shape)),
            (None, &[batch, _], _) => batch,
            (None, _, Some(&[batch, ..])) if batch > 0 && tokens % batch == 0 => batch,
            _ => return Err(refused(format!("no sequences in {tokens} positions"))),
        };
        let shaped = |index: usize, shape: &[usize]| match optional(inputs, index) {
            Some(tensor) if tensor.shape() != shape => Err(wrong(index, tensor.shape())),
            _ => Ok(()),
        };
        shaped(6, &[batch, heads, value, key])?;
        let rates = [lead, &[heads]].concat();
        shaped(5, &rates)?;
        let decay = match optional(inputs, 4).map(Tensor::shape) {
            None => 1,
            Some(shape) if shape == rates => 1,
            Some(shape) if *shape == [&rates[..], &[key]].concat() => key,
            Some(shape) => return Err(wrong(4, shape)),
        };
        shaped(7, &[heads])?;
        match optional(inputs, 8).map(Tensor::shape) {
            Some(shape) if decay == key && (shape == [heads, key] || shape == [heads * key]) => {}
            Some(shape) if shape != [heads] => return Err(wrong(8, shape)),
            _ => {}
        }
        shaped(9, &[batch])?;
        shaped(10, &[1])?;
        Ok(Sizes { tokens, batch, keys, heads, key, value, decay, places })
    }
}

impl Node for DeltaNet {
    fn family(&self) -> &'static str {
        "GatedDeltaNet"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        for (index, tensor) in inputs.iter().enumerate().filter_map(|(index, tensor)| Some((index, (*tensor)?))) {
            let fits = match index {
                3 | 9 | 10 => tensor.dtype() == DType::I32,
                _ => tensor.dtype().is_float(),
            };
            if !fits {
                return Err(NodeError::Unsupported(format!("input {index} of type {}", tensor.dtype())));
            }
        }
        Ok(())
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let sizes = self.sizes(&io.inputs())?;
        let sequences = match io.optional(3) {
            Some(ends) => ranges(ends, sizes.tokens)?,
            None => {
                let each = sizes.tokens.checked_div(sizes.batch).unwrap_or(0);
                (0..sizes.batch).map(|sequence| sequence * each..(sequence + 1) * each).collect()
            }
        };
        let is_active = io.optional(10).map(super::integers).transpose()?.is_none_or(|active| active != [0]);
        let capacity = if is_active { self.capacity } else { 0 };
        let counts = captured(io.optional(9), &sequences, capacity)?;
        let gates = self.gates(io, sizes)?;
        let positions = self.positions(io, sizes)?;
        let past = io.optional(6).map(lent::<f32>).transpose()?;
        let mut states: Vec<f32> = match &past {
            Some(past) => memory::copied(past),
            None => memory::zeroed(sizes.batch * sizes.heads * sizes.value * sizes.key),
        };
        // Results of each row, position after position; and the corrections of the first positions.
        let walk = Walk { net: self, sizes, sequences: &sequences, gates: &gates, positions: &positions };
        let (results, deltas) = walk.rows(&mut states, cx)?;
        let line = sizes.heads * sizes.value;
        let output = filled(io.alloc(0)?, |output: &mut [f32]| {
            scatter(&results, &sequences, line, output);
            Ok(())
        })?;
        let wanted = io.specs().len();
        let last = (wanted > 1).then(|| narrow(&states, io.alloc(1)?));
        let updates = (wanted > 2).then(|| {
            let mut all: Vec<f32> = memory::zeroed(sizes.tokens * line);
            scatter(&deltas, &sequences, line, &mut all);
            filled(io.alloc(2)?, |to: &mut [f32]| {
                to.fill(0.0);
                let width = self.capacity * sizes.transition();
                for (sequence, to) in to.chunks_exact_mut(width.max(1)).enumerate() {
                    let first = sequences[sequence].start;
                    let taken = first..first + counts[sequence];
                    let (decay, key) = (sizes.heads * sizes.decay, sizes.keys * sizes.key);
                    let (decays, rest) = to.split_at_mut(self.capacity * decay);
                    let (keys, rest) = rest.split_at_mut(self.capacity * key);
                    put(&gates.factors, decay, &taken, decays);
                    put(&positions.keys, key, &taken, keys);
                    put(&all, line, &taken, rest);
                }
                Ok(())
            })
        });
        let (last, updates) = (last.transpose()?, updates.transpose()?);
        io.push(output);
        [last, updates].into_iter().flatten().for_each(|tensor| io.push(tensor));
        Ok(())
    }
}

/// Copies the elements of these positions to the front of `to`.
fn put(from: &[f32], width: usize, positions: &Range<usize>, to: &mut [f32]) {
    let from = &from[positions.start * width..positions.end * width];
    to[..from.len()].copy_from_slice(from);
}

/// Reorders the elements of all rows: from sequences of rows of positions to one line of all rows for each position.
fn scatter(rows: &[f32], sequences: &[Range<usize>], line: usize, to: &mut [f32]) {
    for range in sequences {
        let rows = &rows[range.start * line..range.end * line];
        for (row, values) in rows.chunks_exact(range.len().max(1)).enumerate() {
            for (step, &value) in values.iter().enumerate() {
                to[(range.start + step) * line + row] = value;
            }
        }
    }
}

/// The gates of all positions.
struct Gates {
    /// Factors of the state: for each head one, or one for each element of a key.
    factors: Vec<f32>,
    /// One rate for each head.
    rates: Vec<f32>,
}

/// Queries, keys and values of all positions.
struct Positions {
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

impl DeltaNet {
    fn gates(&self, io: &Io<'_>, sizes: Sizes) -> Result<Gates, NodeError> {
        let given = |index| io.optional(index).map(lent::<f32>).transpose().map(Option::unwrap_or_default);
        let (mut factors, rates) = (given(4)?.into_owned(), given(5)?.into_owned());
        let (slopes, biases) = (given(7)?, given(8)?);
        if !self.decays {
            factors = memory::filled(1.0, sizes.tokens * sizes.heads);
            return Ok(Gates { factors, rates: self.rates(rates) });
        }
        let each = sizes.decay;
        for (place, factor) in factors.iter_mut().enumerate() {
            let head = place / each % sizes.heads;
            // A bias for each head, or for each element of its decay.
            let bias = || biases[if biases.len() == sizes.heads { head } else { place % biases.len() }];
            let log = match self.gate {
                Gate::None => *factor,
                Gate::Softplus => {
                    let x = *factor + bias();
                    -slopes[head].exp() * (x.max(0.0) + (-x.abs()).exp().ln_1p())
                }
                Gate::Sigmoid => self.bound * sigmoid(slopes[head].exp() * (*factor + bias())),
            };
            *factor = log.exp();
        }
        Ok(Gates { factors, rates: self.rates(rates) })
    }

    fn rates(&self, mut rates: Vec<f32>) -> Vec<f32> {
        if self.squashed {
            rates.iter_mut().for_each(|rate| *rate = sigmoid(*rate));
        }
        rates
    }

    fn positions(&self, io: &Io<'_>, sizes: Sizes) -> Result<Positions, NodeError> {
        let part = |index: usize, count: usize| -> Result<Vec<f32>, NodeError> {
            let tensor = io.optional(index).map_or_else(|| io.input(0), Ok)?;
            let (from, Place { width, start }) = (lent::<f32>(tensor)?, sizes.places[index]);
            let mut to = memory::zeroed(sizes.tokens * count);
            for (from, to) in from.chunks_exact(width.max(1)).zip(to.chunks_exact_mut(count.max(1))) {
                to.copy_from_slice(&from[start..][..count]);
            }
            Ok(to)
        };
        let width = sizes.keys * sizes.key;
        let (mut queries, mut keys) = (part(0, width)?, part(1, width)?);
        if self.normalised {
            for vector in queries.chunks_exact_mut(sizes.key.max(1)).chain(keys.chunks_exact_mut(sizes.key.max(1))) {
                let length = (vector.iter().map(|x| x * x).sum::<f32>() + SMALLEST).sqrt();
                vector.iter_mut().for_each(|x| *x /= length);
            }
        }
        let scale = self.scale.unwrap_or(1.0 / (sizes.key as f32).sqrt());
        queries.iter_mut().for_each(|x| *x *= scale);
        Ok(Positions { queries, keys, values: part(2, sizes.heads * sizes.value)? })
    }
}

struct Walk<'a> {
    net: &'a DeltaNet,
    sizes: Sizes,
    sequences: &'a [Range<usize>],
    gates: &'a Gates,
    positions: &'a Positions,
}

/// A row of a state, and the memory for its results.
struct Row<'a> {
    state: &'a mut [f32],
    results: &'a mut [f32],
    deltas: &'a mut [f32],
}

impl Walk<'_> {
    /// Walks all rows of all states. Returns results and corrections: for each sequence, row after row.
    fn rows(&self, states: &mut [f32], cx: &RunCx<'_>) -> Result<(Vec<f32>, Vec<f32>), NodeError> {
        let Sizes { tokens, heads, key, value, .. } = self.sizes;
        let lines = heads * value;
        let mut results: Vec<f32> = memory::zeroed(tokens * lines);
        let mut deltas: Vec<f32> = memory::zeroed(tokens * lines);
        if lines == 0 || key == 0 {
            return Ok((results, deltas));
        }
        let mut rows: Vec<Row<'_>> = memory::with_capacity(self.sequences.len() * lines);
        let (mut rest, mut others) = (&mut results[..], &mut deltas[..]);
        for (number, state) in states.chunks_exact_mut(key).enumerate() {
            let steps = self.sequences[number / lines].len();
            let (results, deltas);
            (results, rest) = rest.split_at_mut(steps);
            (deltas, others) = others.split_at_mut(steps);
            rows.push(Row { state, results, deltas });
        }
        // A row takes as long as moving its state a few times for each position.
        let width = (tokens / self.sequences.len().max(1)).max(1).saturating_mul(2 * size_of::<f32>() * key);
        let each = share(rows.len(), width, cx.parallel);
        try_each_chunk(cx.parallel, &mut rows, each, &|number, rows| {
            for (offset, row) in rows.iter_mut().enumerate() {
                cx.check_stop()?;
                self.row(number * each + offset, row);
            }
            Ok(())
        })?;
        drop(rows);
        Ok((results, deltas))
    }

    fn row(&self, number: usize, row: &mut Row<'_>) {
        let Sizes { heads, keys, key: size, value: width, decay, .. } = self.sizes;
        let (sequence, line) = (number / (heads * width), number % (heads * width));
        let head = line / width;
        let key_head = head / (heads / keys);
        for (step, place) in self.sequences[sequence].clone().enumerate() {
            let vector = (place * keys + key_head) * size;
            let (query, key) = (&self.positions.queries[vector..][..size], &self.positions.keys[vector..][..size]);
            let mut update = self.positions.values[place * heads * width + line];
            if self.net.decays {
                match &self.gates.factors[(place * heads + head) * decay..][..decay] {
                    [factor] => row.state.iter_mut().for_each(|entry| *entry *= factor),
                    factors => row.state.iter_mut().zip(factors).for_each(|(entry, factor)| *entry *= factor),
                }
            }
            if self.net.corrects {
                update = self.gates.rates[place * heads + head] * (update - dot(row.state, key));
            }
            row.state.iter_mut().zip(key).for_each(|(entry, key)| *entry += key * update);
            row.results[step] = dot(row.state, query);
            row.deltas[step] = update;
        }
    }
}

/// The sum of products, in eight parts that vectors hold.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; 8];
    let (wide, also) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = wide.remainder().iter().zip(also.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in wide.zip(also) {
        (0..8).for_each(|lane| sums[lane] += a[lane] * b[lane]);
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests;
