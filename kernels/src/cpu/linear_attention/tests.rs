//! Emitted walks at every level against the plain form in `f64`, with canaries around what is written and NaN around
//! what is read.

use super::*;
use crate::cpu::EmitEach;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, levels};

fn heads([queries, keys, heads]: [u64; 3], [key, value]: [u64; 2], decay: Decay, corrects: bool) -> StateHeads {
    StateHeads { queries, keys, heads, key, value, decay, corrects }
}

/// Numbers from -0.5 to 0.5.
fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 1009) as f32 / 1009.0 - 0.5).collect()
}

/// The operands of a run.
struct Operands {
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    decays: Vec<f32>,
    rates: Vec<f32>,
    states: Vec<f32>,
}

impl Operands {
    fn new(heads: &StateHeads, [batch, steps]: [usize; 2], rate_each: bool) -> Operands {
        let places = batch * steps;
        let rates = if heads.corrects { places * if rate_each { heads.heads() } else { 1 } } else { 0 };
        Operands {
            queries: values(places * heads.queries() * heads.key(), 1),
            keys: values(places * heads.keys() * heads.key(), 2),
            values: values(places * heads.heads() * heads.value(), 3),
            decays: values(places * heads.decays(), 4).iter().map(|x| x - 0.5).collect(),
            rates: values(rates, 5).iter().map(|x| x + 0.5).collect(),
            states: values(batch * heads.heads() * heads.area(), 6),
        }
    }
}

/// States, earlier states and answers in `f64`.
fn wanted(heads: &StateHeads, operands: &Operands, [batch, steps, window]: [usize; 3], each: bool) -> [Vec<f64>; 3] {
    let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let Operands { queries, keys, values, decays, rates, states } = operands;
    let [queries, keys, values, decays, rates, mut states] =
        [queries, keys, values, decays, rates, states].map(|values| wide(values));
    let mut earlier = vec![f64::NAN; window * states.len()];
    let mut answers = vec![f64::NAN; batch * steps * heads.results()];
    let positions = Positions {
        batch,
        steps,
        queries: &queries,
        keys: &keys,
        values: &values,
        decays: &decays,
        rates: &rates,
        rate_each: each,
        scale: 0.25,
    };
    let written = Written { states: &mut states, earlier: &mut earlier, answers: &mut answers };
    plain(heads, positions, written, 1, &Scoped).unwrap();
    [states, earlier, answers]
}

fn check_at(isa: Isa, heads: StateHeads, [batch, steps, window]: [usize; 3], rate_each: bool, tasks: usize) {
    let operands = Operands::new(&heads, [batch, steps], rate_each);
    let want = wanted(&heads, &operands, [batch, steps, window], rate_each);
    let read = [&operands.queries, &operands.keys, &operands.values, &operands.decays, &operands.rates];
    let read = read.map(|values| Poisoned::new(values));
    let [queries, keys, values, decays, rates] = &read;
    let positions = Positions {
        batch,
        steps,
        queries: queries.inside(),
        keys: keys.inside(),
        values: values.inside(),
        decays: decays.inside(),
        rates: rates.inside(),
        rate_each,
        scale: 0.25,
    };
    let mut written = [want[0].len(), want[1].len(), want[2].len()].map(Canaried::new);
    let [states, earlier, answers] = &mut written;
    states.inside().copy_from_slice(&operands.states);
    let buffers = Written { states: states.inside(), earlier: earlier.inside(), answers: answers.inside() };
    LinearAttention::new(heads, isa, &EmitEach).unwrap().run(positions, buffers, tasks, &Scoped).unwrap();
    for (found, want) in written.into_iter().map(Canaried::open).zip(&want) {
        let most = want.iter().fold(1.0f64, |most, x| most.max(x.abs()));
        for (at, (found, want)) in found.iter().zip(want).enumerate() {
            assert!((f64::from(*found) - want).abs() <= 2e-5 * most, "{found} for {want} at {at}: {heads:?} at {isa}");
        }
    }
}

#[test]
fn states_of_any_size_walk_any_positions() {
    let rules = [Decay::None, Decay::Head, Decay::Row].into_iter().flat_map(|decay| [(decay, false), (decay, true)]);
    for isa in levels() {
        for (rule, (decay, corrects)) in rules.clone().enumerate() {
            for (number, [key, value]) in
                [[1, 1], [3, 5], [4, 16], [5, 32], [7, 33], [16, 64], [18, 70], [32, 96]].into_iter().enumerate()
            {
                for (shares, runs) in [
                    ([2, 2, 2], [1, 1, 0]),
                    ([4, 1, 2], [2, 3, 1]),
                    ([1, 2, 4], [1, 9, 3]),
                    ([6, 3, 3], [1, 2, 5]),
                    ([1, 1, 1], [1, 70, 2]),
                ] {
                    let is_long = runs[1] > 10 && (rule + number) % 4 != 0;
                    if !is_long {
                        let form = heads(shares, [key, value], decay, corrects);
                        check_at(isa, form, runs, number % 2 == 0, 1 + number % 3);
                    }
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_done_of_nothing() {
    for isa in levels() {
        let form = heads([2, 1, 2], [3, 4], Decay::Row, true);
        let run = |lengths: [usize; 7]| {
            let [queries, keys, values, decays, rates, states, answers] = lengths.map(|length| vec![0.5f32; length]);
            let (mut states, mut answers) = (states, answers);
            let attention = LinearAttention::new(form, isa, &EmitEach).unwrap();
            let positions = Positions {
                batch: 1,
                steps: 2,
                queries: &queries,
                keys: &keys,
                values: &values,
                decays: &decays,
                rates: &rates,
                rate_each: true,
                scale: 1.0,
            };
            let written = Written { states: &mut states, earlier: &mut [], answers: &mut answers };
            match attention.run(positions, written, 2, &Scoped) {
                Ok(()) => "",
                Err(KernelError::Bounds { operand, .. }) => operand,
                Err(error) => panic!("{error}"),
            }
        };
        let right = [12, 6, 16, 12, 4, 24, 16];
        assert_eq!(run(right), "");
        let operands = ["queries", "keys", "values", "decays", "rates", "states", "answers"];
        for (at, operand) in operands.into_iter().enumerate() {
            let mut lengths = right;
            lengths[at] -= 1;
            assert_eq!(run(lengths), operand, "at {isa}");
        }
        for (shares, sizes) in
            [([3, 1, 2], [1, 1]), ([2, 2, 3], [1, 1]), ([1, 1, 1], [u64::MAX / 8, 2]), ([0, 1, 1], [1, 1])]
        {
            let refused = LinearAttention::new(heads(shares, sizes, Decay::None, false), isa, &EmitEach);
            assert!(matches!(refused, Err(KernelError::Unsupported { .. })), "{shares:?} of {sizes:?}");
        }
        let empty = heads([1, 1, 1], [0, 2], Decay::Head, true);
        check_at(isa, empty, [2, 3, 1], true, 2);
        check_at(isa, heads([1, 1, 1], [2, 2], Decay::Head, true), [2, 0, 1], true, 2);
        check_at(isa, heads([1, 1, 1], [2, 2], Decay::Head, true), [0, 2, 0], true, 2);
    }
}
