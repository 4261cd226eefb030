//! Attention by table: forms of heads, masks, caches, and refusals.

use half::f16;
use kiln_model::Attr;

use crate::trial::{Trial, bools, strings};

/// One head of size 1, two queries, and keys that make every score zero; values 1 and 3.
fn even(queries: usize) -> Trial {
    let trial = Trial::new("Attention").input(&[1, 1, queries, 1], &vec![0f32; queries]);
    trial.input(&[1, 1, 2, 1], &[5f32, 7.0]).input(&[1, 1, 2, 1], &[1f32, 3.0])
}

#[test]
fn queries_take_the_mean_of_what_they_may_see() {
    even(1).gives(&[1, 1, 1, 1], &[2f32]);
    even(2).int("is_causal", 1).gives(&[1, 1, 2, 1], &[1f32, 2.0]);
    even(1).input(&[1, 2], &bools([false, true])).gives(&[1, 1, 1, 1], &[3f32]);
    even(1).input(&[1, 2], &[0f32, f32::NEG_INFINITY]).gives(&[1, 1, 1, 1], &[1f32]);
    even(1).input(&[1, 2], &bools([false, false])).gives(&[1, 1, 1, 1], &[0f32]);
    even(1).input(&[1, 1], &[0f32]).gives(&[1, 1, 1, 1], &[1f32]);
    even(2).int("left_window_size", 0).int("right_window_size", 0).gives(&[1, 1, 2, 1], &[1f32, 3.0]);
}

#[test]
fn scores_are_scaled_and_capped_before_the_softmax() {
    let row = || {
        let trial = Trial::new("Attention").outputs(4).input(&[1, 1, 1, 4], &[2f32, 0.0, 0.0, 0.0]);
        let trial = trial.input(&[1, 1, 2, 4], &[1f32, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0]);
        trial.input(&[1, 1, 2, 1], &[0f32, 1.0])
    };
    let shown = |trial: Trial| trial.run().unwrap()[3].as_slice::<f32>().unwrap().to_vec();
    // The scale goes to both sides as a root, so products are off by a rounding.
    let near = |trial: Trial, expected: [f32; 2]| {
        let found = shown(trial);
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} for {expected:?}");
    };
    near(row(), [1.0, 3.0]);
    near(row().attr("scale", Attr::Float(0.25)), [0.5, 1.5]);
    near(row().attr("softcap", Attr::Float(2.0)), [1f32, 3.0].map(|score| 2.0 * (score / 2.0).tanh()));
    row().gives_about(&[1, 1, 1, 1], &[0.880_797]);
    let probabilities = shown(row().int("qk_matmul_output_mode", 3));
    assert!((probabilities[0] - 0.119_203).abs() < 1e-6);
}

#[test]
fn halves_are_computed_in_f32_and_rounded_once() {
    let values = |seed: f32, count: usize| -> Vec<f16> {
        (0..count).map(|at| f16::from_f32((at as f32 * seed).sin() * 3.0)).collect()
    };
    let wide = |values: &[f16]| values.iter().map(|value| value.to_f32()).collect::<Vec<f32>>();
    let [query, key, value] = [(0.7, 16), (1.3, 24), (2.1, 24)].map(|(seed, count)| values(seed, count));
    // By executors and, with a window, by plain loops.
    for window in [-1, 1] {
        let trial = || Trial::new("Attention").int("left_window_size", window);
        let exact = trial().input(&[1, 2, 2, 4], &wide(&query)).input(&[1, 2, 3, 4], &wide(&key));
        let exact = exact.input(&[1, 2, 3, 4], &wide(&value)).run().unwrap().remove(0);
        let rounded: Vec<f16> = exact.as_slice::<f32>().unwrap().iter().map(|&value| f16::from_f32(value)).collect();
        let halves = trial().input(&[1, 2, 2, 4], &query).input(&[1, 2, 3, 4], &key).input(&[1, 2, 3, 4], &value);
        halves.gives(&[1, 2, 2, 4], &rounded);
    }
}

#[test]
fn heads_may_be_packed_and_shared() {
    let trial = Trial::new("Attention").int("q_num_heads", 2).int("kv_num_heads", 1);
    let trial = trial.input(&[1, 1, 2], &[0f32, 0.0]).input(&[1, 2, 1], &[1f32, 1.0]);
    trial.input(&[1, 2, 1], &[1f32, 3.0]).gives(&[1, 1, 2], &[2f32, 2.0]);
}

#[test]
fn caches_grow_and_move_the_causal_frontier() {
    let trial = Trial::new("Attention").outputs(3).int("is_causal", 1).input(&[1, 1, 1, 1], &[0f32]);
    let trial = trial.input(&[1, 1, 1, 1], &[5f32]).input(&[1, 1, 1, 1], &[3f32]).absent();
    let trial = trial.input(&[1, 1, 1, 1], &[4f32]).input(&[1, 1, 1, 1], &[1f32]);
    let outputs = trial.run().unwrap();
    assert_eq!(outputs[0].as_slice::<f32>().unwrap(), [2.0]);
    assert_eq!(outputs[1].as_slice::<f32>().unwrap(), [4.0, 5.0]);
    assert_eq!(outputs[2].as_slice::<f32>().unwrap(), [1.0, 3.0]);
    let filled = |length: i64| even(1).absent().absent().absent().input(&[1], &[length]);
    filled(1).gives(&[1, 1, 1, 1], &[1f32]);
    filled(0).gives(&[1, 1, 1, 1], &[0f32]);
    filled(i64::MIN).int("is_causal", 1).gives(&[1, 1, 1, 1], &[0f32]);
}

#[test]
fn a_mask_of_integers_is_added() {
    even(1).input(&[2], &[0i8, 0]).gives(&[1, 1, 1, 1], &[2f32]);
    even(1).input(&[2], &[0i64, 100]).gives(&[1, 1, 1, 1], &[3f32]);
    even(1).input(&[2], &[200u8, 0]).gives(&[1, 1, 1, 1], &[1f32]);
    even(1).tensor(strings(&[2], &["0", "0"])).is_refused("a mask of type");
}

#[test]
fn what_does_not_fit_is_refused() {
    even(1).input(&[1, 3], &[0f32; 3]).is_refused("a mask of shape");
    even(1).input(&[3, 2], &[0f32; 6]).is_refused("broadcast");
    even(1).absent().input(&[1, 1, 1, 1], &[0f32]).is_refused("do not fit");
    even(1).int("q_num_heads", 0).is_refused("q_num_heads");
    even(1).int("left_window_size", -2).is_refused("left_window_size");
    let short = Trial::new("Attention").input(&[1, 1, 1, 1], &[0f32]).input(&[1, 1, 2, 2], &[0f32; 4]);
    short.input(&[1, 1, 2, 1], &[0f32; 2]).is_refused("do not fit");
}
