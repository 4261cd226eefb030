//! The recurrence against a second way to compute it, and refusals.

use crate::trial::{Trial, numbers};

const KEYS: usize = 2;
const HEADS: usize = 4;
const KEY: usize = 9;
const VALUE: usize = 3;
const TOKENS: usize = 6;

/// The inputs of a node.
struct Given {
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    /// Logarithms of factors, one for each element of a head's key.
    decay: Vec<f32>,
    rate: Vec<f32>,
    state: Vec<f32>,
}

fn given() -> Given {
    let decay = numbers(TOKENS * HEADS * KEY, 0.21).iter().map(|x| -x.abs()).collect();
    Given {
        query: numbers(TOKENS * KEYS * KEY, 0.7),
        key: numbers(TOKENS * KEYS * KEY, 0.4),
        value: numbers(TOKENS * HEADS * VALUE, 0.9),
        decay,
        rate: numbers(TOKENS * HEADS, 0.5),
        state: numbers(2 * HEADS * VALUE * KEY, 0.17),
    }
}

fn trial(given: &Given) -> Trial {
    let trial = Trial::new("GatedDeltaNet").of_domain("com.microsoft").version(1).outputs(3);
    let trial = trial.int("state_update_capacity", 2);
    let trial = trial.input(&[TOKENS, KEYS, KEY], &given.query).input(&[TOKENS, KEYS, KEY], &given.key);
    let trial = trial.input(&[TOKENS, HEADS, VALUE], &given.value).input(&[3], &[0i32, 4, 6]);
    let trial = trial.input(&[TOKENS, HEADS, KEY], &given.decay).input(&[TOKENS, HEADS], &given.rate);
    trial.input(&[2, HEADS, VALUE, KEY], &given.state)
}

/// In `f64`, one matrix of keys by values at a time: S becomes D S + k (b (v - (D S)' k))', and the result is S' q.
fn expected(given: &Given, unit: bool) -> [Vec<f32>; 2] {
    let (mut results, mut states) = (vec![0f32; TOKENS * HEADS * VALUE], Vec::new());
    let vector = |of: &[f32], place: usize| -> Vec<f64> {
        let own: Vec<f64> = of[place * KEY..][..KEY].iter().map(|&x| f64::from(x)).collect();
        let length = own.iter().map(|x| x * x).sum::<f64>().sqrt();
        own.iter().map(|x| if unit { x / length } else { *x }).collect()
    };
    for (sequence, positions) in [0..4, 4..6].into_iter().enumerate() {
        for head in 0..HEADS {
            let first = (sequence * HEADS + head) * VALUE * KEY;
            let mut state: Vec<Vec<f64>> = (0..KEY)
                .map(|row| (0..VALUE).map(|column| f64::from(given.state[first + column * KEY + row])).collect())
                .collect();
            for at in positions.clone() {
                let (query, key) =
                    (vector(&given.query, at * KEYS + head / 2), vector(&given.key, at * KEYS + head / 2));
                for (row, line) in state.iter_mut().enumerate() {
                    let factor = f64::from(given.decay[(at * HEADS + head) * KEY + row]).exp();
                    line.iter_mut().for_each(|entry| *entry *= factor);
                }
                for column in 0..VALUE {
                    let held: f64 = (0..KEY).map(|row| state[row][column] * key[row]).sum();
                    let value = f64::from(given.value[(at * HEADS + head) * VALUE + column]);
                    let update = f64::from(given.rate[at * HEADS + head]) * (value - held);
                    (0..KEY).for_each(|row| state[row][column] += key[row] * update);
                    let result: f64 = (0..KEY).map(|row| state[row][column] * query[row]).sum();
                    results[(at * HEADS + head) * VALUE + column] = (result / (KEY as f64).sqrt()) as f32;
                }
            }
            states.extend(
                (0..VALUE).flat_map(|column| state.iter().map(move |line| line[column] as f32)).collect::<Vec<_>>(),
            );
        }
    }
    [results, states]
}

fn close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-5 + 1e-5 * expected.abs(), "{at}: {found} for {expected}");
    }
}

#[test]
fn sequences_walk_states_of_their_own_on_any_threads() {
    for unit in [false, true] {
        let given = given();
        let expected = expected(&given, unit);
        let row = |threads| {
            let trial = trial(&given).threads(threads).int("qk_l2_norm", i64::from(unit));
            trial.absent().absent().input(&[2], &[1i32, 2]).run().unwrap()
        };
        let (one, three) = (row(1), row(3));
        close(one[0].as_slice().unwrap(), &expected[0]);
        close(one[1].as_slice().unwrap(), &expected[1]);
        assert!(one.iter().zip(&three).all(|(one, three)| one.same(three)));
    }
}

#[test]
fn transitions_lead_from_one_state_to_the_next() {
    let given = given();
    let outputs = trial(&given).absent().absent().input(&[2], &[9i32, 2]).run().unwrap();
    let (states, updates) = (outputs[1].as_slice::<f32>().unwrap(), outputs[2].as_slice::<f32>().unwrap());
    let (factors, keys, deltas) = (HEADS * KEY, KEYS * KEY, HEADS * VALUE);
    assert_eq!(outputs[2].shape(), [2, 2 * (factors + keys + deltas)]);
    // The second sequence has two positions, and both are given out.
    let updates = &updates[2 * (factors + keys + deltas)..];
    let mut state = given.state[HEADS * VALUE * KEY..].to_vec();
    for step in 0..2 {
        for (place, entry) in state.iter_mut().enumerate() {
            let (head, row, column) = (place / (VALUE * KEY), place / KEY % VALUE, place % KEY);
            let key = updates[2 * factors + step * keys + head / 2 * KEY + column];
            let delta = updates[2 * (factors + keys) + step * deltas + head * VALUE + row];
            *entry = *entry * updates[step * factors + head * KEY + column] + key * delta;
        }
    }
    close(&state, &states[HEADS * VALUE * KEY..]);
    let silent = trial(&given).absent().absent().input(&[2], &[9i32, 2]).input(&[1], &[0i32]).run().unwrap();
    assert!(silent[2].as_slice::<f32>().unwrap().iter().all(|&x| x == 0.0));
}

/// One head of one element, at one position; the state is 2.
fn single(gate: &str, decay: f32, slope: f32, bias: f32) -> Trial {
    let trial = Trial::new("GatedDeltaNet").of_domain("com.microsoft").version(1).outputs(2);
    let trial = trial.text("gate_activation", gate).text("update_rule", "gated").input(&[1, 1, 1, 1], &[1f32]);
    let trial = trial.input(&[1, 1, 1, 1], &[1f32]).input(&[1, 1, 1, 1], &[3f32]).absent();
    let trial = trial.input(&[1, 1, 1], &[decay]).absent().input(&[1, 1, 1, 1], &[2f32]);
    trial.input(&[1], &[slope]).input(&[1], &[bias])
}

#[test]
fn gates_are_inside() {
    let of = |log: f32| [2.0 * log.exp() + 3.0];
    let shape = &[1, 1, 1, 1];
    let softplus = (1.0f32 + 0.5f32.exp()).ln();
    single("softplus", 0.3, 0.7, 0.2).gives_about(shape, &of(-(0.7f32.exp()) * softplus));
    single("qwen", 0.3, 0.7, 0.2).gives_about(shape, &of(-(0.7f32.exp()) * softplus));
    let sigmoid = 1.0 / (1.0 + (-0.5f32 * 0.7f32.exp()).exp());
    single("kda", 0.3, 0.7, 0.2).gives_about(shape, &of(-5.0 * sigmoid));
    let bound = kiln_model::Attr::Float(-2.0);
    single("sigmoid", 0.3, 0.7, 0.2).attr("gate_lower_bound", bound).gives_about(shape, &of(-2.0 * sigmoid));
    single("relu", 0.3, 0.7, 0.2).is_refused("gate_activation = relu");
    single("none", 0.3, 0.7, 0.2).is_refused("input 7 and the gate");
    single("kda", 0.3, 0.7, 0.2).text("update_rule", "delta").is_refused("input 4 and the update rule");
    single("kda", 0.3, 0.7, 0.2).int("state_update_capacity", 9).is_refused("state_update_capacity = 9");
}

#[test]
fn queries_keys_and_values_may_be_one_tensor() {
    let row = |tokens: usize, width: usize| {
        let trial = Trial::new("GatedDeltaNet").of_domain("com.microsoft").version(1).outputs(2);
        let trial = trial.text("update_rule", "linear").input(&[tokens, width], &numbers(tokens * width, 0.3));
        trial.absent().absent().absent().absent().absent()
    };
    // Two positions of one key head of two elements and two value heads of one.
    let rows = numbers(2 * 6, 0.3);
    let scale = 0.5f64.sqrt();
    let mut expected = Vec::new();
    let mut state = [[0.0; 2]; 2];
    for token in 0..2 {
        let own: Vec<f64> = rows[token * 6..][..6].iter().map(|&x| f64::from(x)).collect();
        for head in 0..2 {
            (0..2).for_each(|part| state[head][part] += own[2 + part] * own[4 + head]);
            expected.push((scale * (state[head][0] * own[0] + state[head][1] * own[1])) as f32);
        }
    }
    row(2, 6).input(&[1, 2, 1, 2], &[0f32; 4]).gives_about(&[2, 2, 1], &expected);
    row(2, 7).input(&[1, 2, 1, 2], &[0f32; 4]).is_refused("input 0 has shape [2, 7]");
    row(3, 6).input(&[2, 2, 1, 2], &[0f32; 8]).is_refused("3 positions");
}
