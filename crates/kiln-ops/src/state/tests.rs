//! Results and states from the definition, and refusals.

use crate::trial::Trial;

#[test]
fn convolutions_see_the_past_and_keep_the_last_of_it() {
    let row = |past: &[f32]| {
        let trial = Trial::new("CausalConvWithState").outputs(2).input(&[1, 1, 3], &[1f32, 2.0, 3.0]);
        trial.input(&[1, 1, 3], &[1f32, 10.0, 100.0]).absent().input(&[1, 1, 2], past)
    };
    row(&[4.0, 5.0]).gives(&[1, 1, 3], &[154f32, 215.0, 321.0]);
    assert_eq!(row(&[0.0, 0.0]).run().unwrap()[1].as_slice::<f32>().unwrap(), [2.0, 3.0]);
    let short = Trial::new("CausalConvWithState").outputs(2).input(&[1, 1, 1], &[1f32]).input(&[1, 1, 3], &[1f32; 3]);
    let outputs = short.input(&[1], &[0.5f32]).run().unwrap();
    assert_eq!(outputs[0].as_slice::<f32>().unwrap(), [1.5]);
    assert_eq!(outputs[1].as_slice::<f32>().unwrap(), [0.0, 1.0]);
    row(&[4.0, 5.0]).text("activation", "relu").is_refused("relu");
    let wrong = Trial::new("CausalConvWithState").outputs(2).input(&[1, 1, 1], &[1f32]).input(&[2, 1, 1], &[1f32; 2]);
    wrong.is_refused("weights");
}

fn contrib() -> Trial {
    Trial::new("CausalConvWithState").of_domain("com.microsoft").version(1).outputs(2)
}

#[test]
fn taps_may_be_apart_and_channels_last() {
    // Taps two positions apart over the state 4, 5 and the inputs 1, 2, 3.
    let first = contrib().int("dilation", 2).input(&[1, 1, 3], &[1f32, 2.0, 3.0]).input(&[1, 1, 2], &[1f32, 10.0]);
    first.absent().input(&[1, 1, 2], &[4f32, 5.0]).gives(&[1, 1, 3], &[14f32, 25.0, 31.0]);
    // Two channels, whose weights are 1, 10 and 2, 20, of three positions.
    let last = |states: i64, past: &[f32]| {
        let trial = contrib().int("channels_last", 1).int("state_window", states);
        let trial = trial.input(&[1, 3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let trial = trial.input(&[2, 1, 2], &[1f32, 10.0, 2.0, 20.0]).input(&[2], &[0.5f32, 0.25]);
        match states {
            0 => trial.input(&[1, 1, 2], past),
            states => trial.input(&[states as usize, 1, 1, 2], past),
        }
    };
    let expected = [17.5f32, 54.25, 31.5, 84.25, 53.5, 128.25];
    last(0, &[7.0, 7.0]).gives(&[1, 3, 2], &expected);
    assert_eq!(last(0, &[7.0, 7.0]).run().unwrap()[1].as_slice::<f32>().unwrap(), [5.0, 6.0]);
    last(2, &[9.0, 9.0, 7.0, 7.0]).gives(&[1, 3, 2], &expected);
    let states = last(4, &[[9.0; 6].as_slice(), &[7.0, 7.0]].concat()).run().unwrap();
    assert_eq!(states[1].as_slice::<f32>().unwrap(), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    last(9, &[0.0; 18]).is_refused("state_window = 9");
    last(0, &[7.0, 7.0]).int("ndim", 2).is_refused("ndim = 2");
    last(0, &[7.0, 7.0]).int("state_length", 3).is_refused("state_length = 3");
    contrib()
        .input(&[1, 2, 3], &[0f32; 6])
        .input(&[2, 1, 2], &[0f32; 4])
        .absent()
        .input(&[1, 2, 2], &[0f32; 4])
        .is_refused("input 3");
}

#[test]
fn lines_of_any_length_follow_the_definition_in_both_layouts() {
    const CHANNELS: usize = 3;
    let number = |at: usize| (at * 5 % 7) as f32 - 3.0;
    for (length, taps, dilation) in
        (1..8).flat_map(|length| [(length, 1, 1), (length, 4, 1), (length, 3, 2), (length, 2, 4)])
    {
        let kept = (taps - 1) * dilation;
        for has_past in [false, true] {
            // The input of a channel at a position, counted from the first of the past.
            let value = |channel: usize, at: usize| match at.checked_sub(kept) {
                Some(position) => number(channel * 11 + position),
                None => {
                    if has_past {
                        number(channel * 13 + at + 5)
                    } else {
                        0.0
                    }
                }
            };
            let weight = |channel: usize, tap: usize| number(channel + 3 * tap + 1);
            let result = |channel: usize, position: usize| -> f32 {
                (0..taps).map(|tap| weight(channel, tap) * value(channel, position + tap * dilation)).sum()
            };
            let run = |channels_last: bool| {
                let each = |count: usize, of: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
                    let places = 0..CHANNELS * count;
                    match channels_last {
                        true => places.map(|at| of(at % CHANNELS, at / CHANNELS)).collect(),
                        false => places.map(|at| of(at / count, at % count)).collect(),
                    }
                };
                let shape = |count: usize| if channels_last { [1, count, CHANNELS] } else { [1, CHANNELS, count] };
                let weights: Vec<f32> = (0..CHANNELS * taps).map(|at| weight(at / taps, at % taps)).collect();
                let trial = contrib().int("dilation", dilation as i64).int("channels_last", channels_last.into());
                let trial = trial.input(&shape(length), &each(length, &|channel, at| value(channel, kept + at)));
                let mut trial = trial.input(&[CHANNELS, 1, taps], &weights).absent();
                if has_past {
                    trial = trial.input(&shape(kept), &each(kept, &value));
                }
                let outputs = trial.run().unwrap();
                let expected = [each(length, &result), each(kept, &|channel, at| value(channel, length + at))];
                for (output, expected) in outputs.iter().zip(expected) {
                    let place = format!("{length} positions, {taps} taps {dilation} apart, {channels_last} {has_past}");
                    assert_eq!(output.as_slice::<f32>().unwrap(), expected, "{place}");
                }
            };
            [false, true].into_iter().for_each(run);
        }
    }
}

#[test]
fn results_of_a_gate_are_in_both_layouts_the_same() {
    let silu = |x: f32| x / (1.0 + (-x).exp());
    let row = |last: i64| {
        let trial = contrib().text("activation", "silu").int("channels_last", last).threads(2);
        trial.input(&[1, if last == 1 { 3 } else { 1 }, if last == 1 { 1 } else { 3 }], &[1f32, 2.0, 3.0])
    };
    for last in [0, 1] {
        let trial = row(last).input(&[1, 1, 2], &[1f32, 0.5]);
        trial.gives_about(if last == 1 { &[1, 3, 1] } else { &[1, 1, 3] }, &[silu(0.5), silu(2.0), silu(3.5)]);
    }
}

#[test]
fn sequences_of_any_length_have_states_of_their_own() {
    // Sequences of two positions, of none and of one; weights 1, 10, 100.
    let row = |ends: &[i32]| {
        let trial = Trial::new("VarlenCausalConvWithState").of_domain("com.microsoft").version(1).outputs(3);
        let trial = trial.int("state_update_capacity", 2).input(&[3, 1], &[1f32, 2.0, 3.0]);
        let trial = trial.input(&[1, 1, 3], &[1f32, 10.0, 100.0]).input(&[4], ends).absent();
        trial.input(&[3, 1, 2], &[4f32, 5.0, 6.0, 7.0, 8.0, 9.0]).input(&[3], &[1i32, 1, 5])
    };
    row(&[0, 2, 2, 3]).gives(&[3, 1], &[154f32, 215.0, 398.0]);
    let outputs = row(&[0, 2, 2, 3]).run().unwrap();
    assert_eq!(outputs[1].as_slice::<f32>().unwrap(), [1.0, 2.0, 6.0, 7.0, 9.0, 3.0]);
    assert_eq!(outputs[2].shape(), [3, 2, 1]);
    assert_eq!(outputs[2].as_slice::<f32>().unwrap(), [1.0, 0.0, 0.0, 0.0, 3.0, 0.0]);
    row(&[0, 2, 1, 3]).is_refused("of 3 positions");
    row(&[0, 2, 2, 3]).int("state_update_capacity", 0).is_refused("belong together");
    row(&[0, 2, 2, 3]).int("state_update_capacity", 9).is_refused("state_update_capacity = 9");
}
