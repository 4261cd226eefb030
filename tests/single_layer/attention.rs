//! Tables of attention, whose caches grow, and of the operators that rotate its heads.

use kiln_model::ir::Attr;
use kiln_tensor::{DType, Tensor};

use crate::harness::{Fill, Layer, Step};
use crate::reference::{Array, build, rotated};

/// Heads first, or packed behind their positions, as `[batch, heads, positions, size]`.
fn apart(tensor: &Tensor, heads: usize) -> Array {
    let array = Array::of(tensor);
    let &[batch, positions, width] = array.shape.as_slice() else { return array };
    build(&[batch, heads, positions, width / heads], |at| array.get(&[at[0], at[2], at[1] * (width / heads) + at[3]]))
}

fn joined(past: Option<&Tensor>, new: Array) -> Array {
    let Some(past) = past.map(Array::of) else { return new };
    let before = past.shape[2];
    let mut shape = past.shape.clone();
    shape[2] += new.shape[2];
    build(&shape, |at| match at[2].checked_sub(before) {
        None => past.get(at),
        Some(position) => new.get(&[at[0], at[1], position, at[3]]),
    })
}

/// Attention over arrays of four axes. `bias` gives the summand of a score, or `None` where the key may not be seen.
pub(crate) fn attention(q: &Array, k: &Array, v: &Array, scale: f64, bias: impl Fn(&[usize]) -> Option<f64>) -> Array {
    let shared = q.shape[1] / k.shape[1];
    let shape = [q.shape[0], q.shape[1], q.shape[2], v.shape[3]];
    build(&shape, |at| {
        let own = at[1] / shared;
        let weight = |key: usize| {
            let score = |feature| q.get(&[at[0], at[1], at[2], feature]) * k.get(&[at[0], own, key, feature]);
            let product: f64 = (0..q.shape[3]).map(score).sum();
            bias(&[at[0], at[1], at[2], key]).map_or(0.0, |bias| (product * scale + bias).exp())
        };
        let weights: Vec<f64> = (0..k.shape[2]).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let value = |key: usize| v.get(&[at[0], own, key, at[3]]);
        weights.iter().enumerate().map(|(key, weight)| weight / sum * value(key)).sum()
    })
}

/// Heads first, with a mask.
fn masked(alter: impl Fn(Layer) -> Layer) {
    let steps: &[Step<'_>] = &[
        &[&[1, 2, 5, 16], &[1, 2, 7, 16], &[1, 2, 7, 16], &[5, 7]],
        &[&[2, 2, 40, 16], &[2, 2, 33, 16], &[2, 2, 33, 16], &[40, 33]],
        &[&[2, 2, 40, 16], &[2, 2, 33, 16], &[2, 2, 33, 16], &[40, 33]],
        &[&[1, 2, 1, 16], &[1, 2, 90, 16], &[1, 2, 90, 16], &[1, 90]],
        &[&[1, 2, 5, 16], &[1, 2, 7, 16], &[1, 2, 7, 16], &[5, 7]],
    ];
    let layer = Layer::new("Attention", 23).dynamic(&[-1, 2, -1, 16]).dynamic(&[-1, 2, -1, 16]);
    alter(layer.dynamic(&[-1, 2, -1, 16]).dynamic(&[-1, -1])).check(steps, |x| {
        let mask = Array::of(&x[3]);
        let [q, k, v] = [0, 1, 2].map(|operand| apart(&x[operand], 2));
        vec![attention(&q, &k, &v, 0.25, |at| Some(mask.get(&at[2..]))).tensor()]
    });
}

#[test]
fn heads_first_with_a_mask() {
    masked(|layer| layer);
}

#[test]
fn attention_in_lower_precision() {
    masked(Layer::lower);
}

#[test]
fn a_condition_hides_keys() {
    let steps: &[Step<'_>] = &[
        &[&[1, 2, 5, 8], &[1, 2, 21, 8], &[1, 2, 21, 8], &[1, 1, 5, 21]],
        &[&[1, 2, 9, 8], &[1, 2, 30, 8], &[1, 2, 30, 8], &[1, 1, 9, 30]],
        &[&[1, 2, 9, 8], &[1, 2, 30, 8], &[1, 2, 30, 8], &[1, 1, 9, 30]],
        &[&[1, 2, 5, 8], &[1, 2, 21, 8], &[1, 2, 21, 8], &[1, 1, 5, 21]],
    ];
    let layer = Layer::new("Attention", 23).attr("scale", Attr::Float(0.5)).dynamic(&[-1, 2, -1, 8]);
    let layer = layer.dynamic(&[-1, 2, -1, 8]).dynamic(&[-1, 2, -1, 8]);
    layer.dynamic_of(&[1, 1, -1, -1], DType::Bool, Fill::Unit).check(steps, |x| {
        let [q, k, v] = [0, 1, 2].map(|operand| apart(&x[operand], 2));
        let keys = x[3].shape()[3];
        let seen = |at: &[usize]| (x[3].bytes()[at[2] * keys + at[3]] != 0).then_some(0.0);
        vec![attention(&q, &k, &v, 0.5, seen).tensor()]
    });
}

#[test]
fn packed_and_shared_heads_over_a_cache_that_grows_by_one() {
    let shapes = |queries: usize, past: usize| {
        vec![
            vec![1, queries, 4 * 16],
            vec![1, queries, 2 * 16],
            vec![1, queries, 2 * 16],
            vec![1, 2, past, 16],
            vec![1, 2, past, 16],
        ]
    };
    let lengths =
        [(6, 0), (1, 6), (1, 7), (1, 7), (1, 8), (50, 3), (1, 6)].map(|(queries, past)| shapes(queries, past));
    let lengths: Vec<Vec<&[usize]>> = lengths.iter().map(|length| length.iter().map(Vec::as_slice).collect()).collect();
    let steps: Vec<Step<'_>> = lengths.iter().map(Vec::as_slice).collect();
    let layer = Layer::new("Attention", 23).int("q_num_heads", 4).int("kv_num_heads", 2).int("is_causal", 1).outputs(3);
    let layer = layer.dynamic(&[1, -1, 64]).dynamic(&[1, -1, 32]).dynamic(&[1, -1, 32]).absent();
    layer.dynamic(&[1, 2, -1, 16]).dynamic(&[1, 2, -1, 16]).check(&steps, |x| {
        let (k, v) = (joined(Some(&x[4]), apart(&x[1], 2)), joined(Some(&x[5]), apart(&x[2], 2)));
        let (q, past) = (apart(&x[0], 4), x[4].shape()[2]);
        let y = attention(&q, &k, &v, 0.25, |at| (at[3] <= at[2] + past).then_some(0.0));
        let y = build(&[1, q.shape[2], 64], |at| y.get(&[0, at[2] / 16, at[1], at[2] % 16]));
        vec![y.tensor(), k.tensor(), v.tensor()]
    });
}

#[test]
fn heads_rotated_by_the_angles_of_their_positions() {
    const HEADS: usize = 3;
    let first: &[Step<'_>] = &[
        &[&[2, 3, 5, 26], &[2, 5, 9], &[2, 5, 9]],
        &[&[1, 4, 70, 26], &[1, 70, 9], &[1, 70, 9]],
        &[&[1, 4, 70, 26], &[1, 70, 9], &[1, 70, 9]],
        &[&[3, 1, 1, 26], &[3, 1, 9], &[3, 1, 9]],
        &[&[2, 3, 5, 26], &[2, 5, 9], &[2, 5, 9]],
    ];
    let last: &[Step<'_>] = &[
        &[&[2, 5, 78], &[2, 5, 9], &[2, 5, 9]],
        &[&[1, 40, 78], &[1, 40, 9], &[1, 40, 9]],
        &[&[1, 40, 78], &[1, 40, 9], &[1, 40, 9]],
        &[&[2, 5, 78], &[2, 5, 9], &[2, 5, 9]],
    ];
    for is_neighbours in [false, true] {
        let layer = || {
            let layer = Layer::new("RotaryEmbedding", 23).int("interleaved", is_neighbours.into());
            layer.int("rotary_embedding_dim", 18)
        };
        let reference = |x: &[Tensor]| {
            let [cosines, sines] = [1, 2].map(|index| Array::of(&x[index]));
            let positions = cosines.shape[1];
            let angle = |at: &[usize], pair: usize| (at[0] * positions + at[2]) * 9 + pair;
            rotated(&apart(&x[0], HEADS), [&cosines, &sines], 9, is_neighbours, angle)
        };
        let angles = |layer: Layer| layer.dynamic(&[-1, -1, 9]).dynamic(&[-1, -1, 9]);
        angles(layer().dynamic(&[-1, -1, -1, 26])).check(first, |x| vec![reference(x).tensor()]);
        angles(layer().int("num_heads", HEADS as i64).dynamic(&[-1, -1, 78])).check(last, |x| {
            let y = reference(x);
            let shape = [y.shape[0], y.shape[2], 78];
            vec![build(&shape, |at| y.get(&[at[0], at[2] / 26, at[1], at[2] % 26])).tensor()]
        });
    }
}

/// Linear attention of two heads by the rule that lets states decay and corrects them: its answers and its last states.
/// Operands are `[batch, positions, width]`, and states before `[batch, heads, key, value]`.
fn linear_attention(x: &[Array], key: usize, value: usize, scale: f64) -> [Array; 2] {
    let [q, k, v, before, decays, rates] = x else { panic!("six operands") };
    let (batch, steps, heads) = (q.shape[0], q.shape[1], 2);
    let mut states = before.clone();
    let mut answers = Array::zeros(&[batch, steps, heads * value]);
    for (b, t, head) in (0..batch * steps * heads).map(|at| (at / (steps * heads), at / heads % steps, at % heads)) {
        let key_of = |row: usize| k.get(&[b, t, head * key + row]);
        for row in 0..key {
            let own = if decays.shape[2] > heads { head * key + row } else { head };
            let factor = decays.get(&[b, t, own]).exp();
            for column in 0..value {
                let place = states.index(&[b, head, row, column]);
                states.data[place] *= factor;
            }
        }
        for column in 0..value {
            let held: f64 = (0..key).map(|row| key_of(row) * states.get(&[b, head, row, column])).sum();
            let rate = rates.get(&[b, t, head % rates.shape[2]]);
            let update = rate * (v.get(&[b, t, head * value + column]) - held);
            for row in 0..key {
                let place = states.index(&[b, head, row, column]);
                states.data[place] += key_of(row) * update;
            }
            let query = |row: usize| q.get(&[b, t, head * key + row]);
            let answer: f64 = (0..key).map(|row| query(row) * states.get(&[b, head, row, column])).sum();
            let place = answers.index(&[b, t, head * value + column]);
            answers.data[place] = scale * answer;
        }
    }
    [answers, states]
}

#[test]
fn states_that_decay_and_are_corrected_along_positions() {
    const KEY: usize = 6;
    const VALUE: usize = 37;
    let shapes = |batch: usize, steps: usize, decays: usize, rates: usize| {
        let positions = |width: usize| vec![batch, steps, width];
        let operands = [positions(2 * KEY), positions(2 * KEY), positions(2 * VALUE), vec![batch, 2, KEY, VALUE]];
        [&operands[..], &[positions(decays), positions(rates)]].concat()
    };
    for (decays, rates) in [(2, 2), (2 * KEY, 1)] {
        let runs = [(1, 1), (2, 4), (2, 4), (1, 9), (1, 1)].map(|(batch, steps)| shapes(batch, steps, decays, rates));
        let runs: Vec<Vec<&[usize]>> = runs.iter().map(|run| run.iter().map(Vec::as_slice).collect()).collect();
        let steps: Vec<Step<'_>> = runs.iter().map(Vec::as_slice).collect();
        let width = |width: usize| [-1, -1, width as i64];
        let layer = Layer::new("LinearAttention", 27).int("q_num_heads", 2).int("kv_num_heads", 2).outputs(2);
        let layer = layer.attr("scale", Attr::Float(0.5)).tolerance(1e-4);
        let layer = layer.dynamic(&width(2 * KEY)).dynamic(&width(2 * KEY)).dynamic(&width(2 * VALUE));
        let layer = layer.dynamic(&[-1, 2, KEY as i64, VALUE as i64]).dynamic(&width(decays));
        layer.dynamic(&width(rates)).check(&steps, |x| {
            let x: Vec<Array> = x.iter().map(Array::of).collect();
            linear_attention(&x, KEY, VALUE, 0.5).map(|array| array.tensor()).to_vec()
        });
    }
}
