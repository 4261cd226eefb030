//! The rules against numbers from their definition, and refusals.

use crate::trial::{Trial, numbers};

fn linear(rule: &str) -> Trial {
    let trial = Trial::new("LinearAttention").outputs(2).text("update_rule", rule).int("q_num_heads", 1);
    let trial = trial.int("kv_num_heads", 1).input(&[1, 2, 1], &[1f32, 1.0]);
    trial.input(&[1, 2, 1], &[1f32, 2.0]).input(&[1, 2, 1], &[3f32, 5.0])
}

#[test]
fn states_decay_are_corrected_and_grow() {
    linear("linear").gives(&[1, 2, 1], &[3f32, 13.0]);
    let half = [0f32, 0.5f32.ln()];
    linear("gated").absent().input(&[1, 2, 1], &half).gives_about(&[1, 2, 1], &[3.0, 11.5]);
    linear("delta").absent().absent().input(&[1, 2, 1], &[1f32, 0.5]).gives(&[1, 2, 1], &[3f32, 2.0]);
    let both = linear("gated_delta").absent().input(&[1, 2, 1], &half).input(&[1, 2, 1], &[1f32, 0.5]);
    both.gives_about(&[1, 2, 1], &[3.0, 3.5]);
    linear("gated").is_refused("input 4");
    linear("square").is_refused("square");
}

#[test]
fn earlier_states_go_on_and_heads_share_them() {
    linear("linear").input(&[1, 1, 1, 1], &[10f32]).gives(&[1, 2, 1], &[13f32, 23.0]);
    let shared = Trial::new("LinearAttention").outputs(2).text("update_rule", "linear").int("q_num_heads", 2);
    let shared = shared.int("kv_num_heads", 1).input(&[1, 1, 2], &[1f32, 2.0]).input(&[1, 1, 1], &[1f32]);
    shared.input(&[1, 1, 1], &[3f32]).gives(&[1, 1, 2], &[3f32, 6.0]);
}

/// One key head for two heads of values; the second one's state starts at 10.
fn loose() -> Trial {
    let trial = Trial::new("LinearAttention").of_domain("com.microsoft").version(1).outputs(2);
    let trial = trial.text("update_rule", "linear").int("q_num_heads", 1).int("kv_num_heads", 2);
    trial.input(&[1, 3, 1], &[1f32, 2.0, 1.0]).input(&[1, 3, 1], &[1f32, 1.0, 3.0])
}

#[test]
fn heads_of_values_share_keys_and_queries() {
    let values = [3f32, 30.0, 5.0, 50.0, 7.0, 70.0];
    let trial = loose().input(&[1, 3, 2], &values).input(&[1, 2, 1, 1], &[0f32, 10.0]);
    trial.gives(&[1, 3, 2], &[3f32, 40.0, 16.0, 180.0, 29.0, 300.0]);
    assert_eq!(trial.run().unwrap()[1].as_slice::<f32>().unwrap(), [29.0, 300.0]);
    let standard = Trial::new("LinearAttention").outputs(2).int("q_num_heads", 1).int("kv_num_heads", 2);
    standard
        .input(&[1, 1, 1], &[1f32])
        .input(&[1, 1, 2], &[1f32; 2])
        .input(&[1, 1, 2], &[1f32; 2])
        .is_refused("2 of values");
}

#[test]
fn windows_keep_the_states_of_the_last_positions() {
    let values = [3f32, 30.0, 5.0, 50.0, 7.0, 70.0];
    let state = |window: i64, past: &[f32]| {
        let trial = loose().int("state_window", window).input(&[1, 3, 2], &values);
        let trial = trial.input(&[window as usize, 1, 2, 1, 1], past);
        trial.run().unwrap()[1].as_slice::<f32>().unwrap().to_vec()
    };
    assert_eq!(state(1, &[0.0, 10.0]), [29.0, 300.0]);
    assert_eq!(state(2, &[9.0, 9.0, 0.0, 10.0]), [8.0, 90.0, 29.0, 300.0]);
    let past: Vec<f32> = [[9.0; 8].to_vec(), vec![0.0, 10.0]].concat();
    assert_eq!(state(5, &past), [0.0, 0.0, 0.0, 0.0, 3.0, 40.0, 8.0, 90.0, 29.0, 300.0]);
    loose().int("state_window", 9).input(&[1, 3, 2], &values).is_refused("state_window = 9");
    loose().int("state_window", -1).input(&[1, 3, 2], &values).is_refused("state_window = -1");
    loose().int("state_window", 2).input(&[1, 3, 2], &values).input(&[1, 2, 1, 1], &[0f32; 2]).is_refused("input 3");
}

#[test]
fn threads_share_out_heads_and_change_nothing() {
    let (batch, steps, heads, size) = (2, 9, 3, 5);
    let row = |threads: usize| {
        let trial = Trial::new("LinearAttention").outputs(2).int("q_num_heads", 6).int("kv_num_heads", heads as i64);
        let line = batch * steps * heads;
        let trial = trial.threads(threads).input(&[batch, steps, 6 * size], &numbers(2 * line * size, 0.7));
        let trial = trial.input(&[batch, steps, heads * size], &numbers(line * size, 0.3));
        let trial = trial.input(&[batch, steps, heads * size], &numbers(line * size, 0.9)).absent();
        let decays: Vec<f32> = numbers(line, 0.2).iter().map(|decay| -decay.abs()).collect();
        trial.input(&[batch, steps, heads], &decays).input(&[batch, steps, heads], &numbers(line, 0.4)).run().unwrap()
    };
    let (one, three) = (row(1), row(3));
    assert!(one.iter().zip(&three).all(|(one, three)| one.same(three)));
}
