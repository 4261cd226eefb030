//! Experts against numbers from their definition, and refusals.

use kiln_model::Attr;

use crate::trial::Trial;

/// Two experts of one element: the first doubles, the second multiplies by -3; each then adds nothing and passes on.
fn two(k: i64) -> Trial {
    let trial = Trial::new("MoE").version(1).int("k", k).text("activation_type", "identity");
    // Softmax of the scores: 1/4 and 3/4; 3/4 and 1/4.
    trial.input(&[2, 1], &[10f32, 100.0]).input(&[2, 2], &[0f32, 3f32.ln(), 3f32.ln(), 0.0])
}

fn experts(trial: Trial) -> Trial {
    trial.input(&[2, 1, 1], &[2f32, -3.0]).absent().input(&[2, 1, 1], &[1f32, 1.0])
}

#[test]
fn rows_go_through_the_experts_that_they_score_highest() {
    experts(two(1)).gives_about(&[2, 1], &[0.75 * -30.0, 0.75 * 200.0]);
    experts(two(1)).int("normalize_routing_weights", 1).gives_about(&[2, 1], &[-30.0, 200.0]);
    experts(two(2)).gives_about(&[2, 1], &[0.25 * 20.0 + 0.75 * -30.0, 0.75 * 200.0 + 0.25 * -300.0]);
    let biased = two(1).input(&[2, 1, 1], &[2f32, -3.0]).input(&[2, 1], &[1f32, 2.0]);
    let biased = biased.input(&[2, 1, 1], &[1f32, 1.0]).input(&[2, 1], &[100f32, 200.0]);
    biased.gives_about(&[2, 1], &[0.75 * (-30.0 + 2.0 + 200.0), 0.75 * (200.0 + 1.0 + 100.0)]);
}

/// One expert whose inner elements are 2 and -1 before the activation, and whose results are their sum.
fn one(activation: &str) -> Trial {
    let trial = Trial::new("MoE").version(1).text("activation_type", activation);
    trial.input(&[1, 1], &[1f32]).input(&[1, 1], &[7f32])
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn activations() {
    let plain = |name: &str| one(name).input(&[1, 2, 1], &[2f32, -1.0]).absent().input(&[1, 1, 2], &[1f32, 1.0]);
    plain("relu").gives_about(&[1, 1], &[2.0]);
    plain("identity").gives_about(&[1, 1], &[1.0]);
    plain("silu").gives_about(&[1, 1], &[2.0 * sigmoid(2.0) - sigmoid(-1.0)]);
    plain("gelu").gives_about(&[1, 1], &[1.954_597_7 - 0.158_808]);
    plain("tanh").is_refused("tanh");
}

#[test]
fn gates_let_the_other_half_through() {
    let swiglu = |fusion: i64, up: [f32; 4]| {
        let trial = one("swiglu").int("swiglu_fusion", fusion).input(&[1, 4, 1], &up).absent();
        trial.input(&[1, 1, 2], &[1f32, 10.0])
    };
    let wanted = 2.0 * sigmoid(2.0) * 5.0 + 10.0 * (-3.0 * sigmoid(-3.0) * 7.0);
    swiglu(1, [2.0, 5.0, -3.0, 7.0]).gives_about(&[1, 1], &[wanted]);
    swiglu(2, [2.0, -3.0, 5.0, 7.0]).gives_about(&[1, 1], &[wanted]);
    let beside = one("swiglu").input(&[1, 2, 1], &[2f32, -3.0]).absent().input(&[1, 1, 2], &[1f32, 10.0]).absent();
    beside.input(&[1, 2, 1], &[5f32, 7.0]).gives_about(&[1, 1], &[wanted]);
    let beside = one("relu").input(&[1, 2, 1], &[2f32, -3.0]).absent().input(&[1, 1, 2], &[1f32, 10.0]).absent();
    beside.input(&[1, 2, 1], &[5f32, 7.0]).gives_about(&[1, 1], &[10.0]);
    let limited = swiglu(1, [2.0, 5.0, -3.0, -7.0]).attr("swiglu_limit", Attr::Float(1.5));
    let limited = limited.attr("activation_alpha", Attr::Float(1.702)).attr("activation_beta", Attr::Float(1.0));
    let (first, second) = (1.5 * sigmoid(1.5 * 1.702) * 2.5, -3.0 * sigmoid(-3.0 * 1.702) * -0.5);
    limited.gives_about(&[1, 1], &[first + 10.0 * second]);
    swiglu(0, [1.0; 4]).is_refused("swiglu_fusion = 0");
    swiglu(3, [1.0; 4]).is_refused("swiglu_fusion = 3");
}

#[test]
fn what_does_not_fit_is_refused() {
    experts(two(3)).is_refused("k = 3 of 2 experts");
    experts(two(0)).is_refused("k = 0");
    experts(two(1)).int("use_sparse_mixer", 1).is_refused("use_sparse_mixer = 1");
    experts(two(1)).int("swiglu_limit_after_activation", 1).is_refused("swiglu_limit_after_activation = 1");
    two(1).input(&[2, 1, 2], &[1f32; 4]).absent().input(&[2, 1, 1], &[1f32; 2]).is_refused("[2, 1, 2]");
    two(1).input(&[2, 1, 1], &[1f32; 2]).absent().input(&[2, 2, 1], &[1f32; 4]).is_refused("[2, 2, 1]");
    two(1).input(&[2, 1], &[1f32; 2]).absent().input(&[2, 1, 1], &[1f32; 2]).is_refused("rank 3");
    let bias = two(1).input(&[2, 1, 1], &[1f32; 2]).input(&[1, 1], &[1f32]).input(&[2, 1, 1], &[1f32; 2]);
    bias.is_refused("a bias of shape [1, 1]");
    let router = Trial::new("MoE").version(1).input(&[2, 1], &[1f32; 2]).input(&[1, 2], &[1f32; 2]);
    experts(router).is_refused("input 1 has shape [1, 2]");
    let scalar = Trial::new("MoE").version(1).input(&[2], &[1f32; 2]).input(&[1, 2], &[1f32; 2]);
    experts(scalar).is_refused("input 0 has shape [2]");
}

/// Sixteen codes of each number of bits, as they are counted up.
fn counted(bits: usize, rows: usize) -> Vec<u8> {
    let codes: Vec<u8> = (0..16 * rows).map(|at| (at % 16) as u8 & (u8::MAX >> (8 - bits))).collect();
    codes
        .chunks(8 / bits)
        .map(|codes| codes.iter().rev().fold(0, |byte: u8, code| byte.wrapping_shl(bits as u32) | code))
        .collect()
}

/// One expert of codes that becomes sixteen elements of one, and one of sixteen. The second product has a scale of 1
/// and codes one above the middle: it is a sum.
fn codes(bits: usize, block: bool, zeros: Option<u8>) -> Trial {
    let trial = Trial::new("QMoE").version(1).int("expert_weight_bits", bits as i64);
    let trial = trial.text("activation_type", "identity").input(&[1, 16], &[1f32; 16]).input(&[1, 1], &[1f32]);
    let scales = |n: usize| if block { vec![1, n, 1] } else { vec![1, n] };
    let trial = if block { trial.int("block_size", 16) } else { trial };
    // Codes one above the middle.
    let above = (1u32 << (bits - 1)) + 1;
    let sum = (0..8 / bits).fold(0u32, |byte, _| byte << bits | above) as u8;
    let up = trial.input(&[1, 16, 2 * bits], &counted(bits, 16)).input(&scales(16), &[0.5f32; 16]).absent();
    let down = up.input(&[1, 16, 2 * bits], &vec![sum; 32 * bits]).input(&scales(16), &[1f32; 16]);
    let down = (0..4).fold(down, |trial, _| trial.absent());
    match zeros {
        Some(zero) if block => down.input(&[1, 16, 1], &[zero; 16]),
        Some(zero) => {
            let packed = (0..8 / bits).fold(0, |byte: u8, _| byte.wrapping_shl(bits as u32) | zero);
            down.input(&[1, 2 * bits], &vec![packed; 2 * bits])
        }
        None => down,
    }
}

#[test]
fn codes_of_two_four_and_eight_bits() {
    for block in [false, true] {
        // Sixteen times the sum of a row's codes less the zero point, times its scale of one half.
        for (bits, sum, middle) in [(2, 24.0, 2u8), (4, 120.0, 8), (8, 120.0, 128)] {
            let wanted = |zero: u8| vec![16.0 * 0.5 * (sum - 16.0 * f32::from(zero)); 16];
            codes(bits, block, None).gives_about(&[1, 16], &wanted(middle));
            codes(bits, block, Some(1)).gives_about(&[1, 16], &wanted(1));
            codes(bits, block, Some(middle)).gives_about(&[1, 16], &wanted(middle));
        }
    }
}

#[test]
fn weights_of_a_router_stand_beside_its_scores() {
    let trial = Trial::new("QMoE").version(1).int("expert_weight_bits", 8).text("activation_type", "identity");
    let trial = trial.int("k", 2).input(&[1, 16], &[1f32; 16]).input(&[1, 3], &[1f32, 5.0, 3.0]);
    // Each expert has 16 equal codes: the middle plus the given number.
    let bytes = |values: [u8; 3]| values.into_iter().flat_map(|value| [128 + value; 16]).collect::<Vec<u8>>();
    let up = trial.input(&[3, 1, 16], &bytes([1, 2, 3])).input(&[3, 1], &[1f32; 3]).absent();
    let down = up.input(&[3, 16, 1], &bytes([1, 1, 1])).input(&[3, 16], &[1f32; 48]);
    let down = (0..7).fold(down, |trial, _| trial.absent()).input(&[1, 3], &[9f32, 0.5, 2.0]);
    // The second and the third are chosen.
    down.gives_about(&[1, 16], &[0.5 * 32.0 + 2.0 * 48.0; 16]);
}

#[test]
fn what_cannot_be_packed_is_refused() {
    codes(4, true, None).int("block_size", 32).is_refused("block_size = 32");
    codes(4, true, None).int("block_size", 8).is_refused("block_size = 8");
    codes(4, true, None).int("block_size", -16).is_refused("block_size = -16");
    codes(4, true, None).int("expert_weight_bits", 3).is_refused("3 bits");
    codes(4, true, None).int("fc2_expert_weight_bits", 8).is_refused("block_size = 16 for rows of 8");
    codes(4, true, None).int("weights_prepacked", 1).is_refused("weights_prepacked = 1");
    codes(4, true, None).text("quant_type", "fp4").is_refused("quant_type = fp4");
    codes(4, false, None).int("block_size", 16).is_refused("input 3 is");
    codes(4, true, Some(1)).int("k", 2).is_refused("k = 2 of 1 experts");
}
