//! Which experts are chosen, from the definition.

use kiln_model::{Attr, ValueId};

use crate::trial::Trial;

fn router(bias: &[f32]) -> Trial {
    let trial = Trial::new("MoEGroupRouter").of_domain("com.microsoft").version(1);
    trial.input(&[1, 4], &[0f32, 1.0, 2.0, 0.5]).input(&[bias.len()], bias)
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn experts_come_from_the_best_groups() {
    let (score, none) = (|x: f32| sigmoid(x).ln(), -10000.0);
    router(&[0.0; 4]).int("top_k", 2).gives_about(&[1, 4], &[none, score(1.0), score(2.0), none]);
    // A group's score is that of its best one or two experts.
    let grouped = |best: i64, bias: &[f32]| router(bias).int("top_k", 1).int("n_group", 2).int("group_topk", best);
    grouped(1, &[0.0; 4]).gives_about(&[1, 4], &[none, none, score(2.0), none]);
    grouped(2, &[0.0, 0.3, 0.0, 0.0]).gives_about(&[1, 4], &[none, score(1.0), none, none]);
    // The bias chooses, and is no part of the result.
    router(&[9.0, 0.0, 0.0, 0.0]).int("top_k", 1).gives_about(&[1, 4], &[score(0.0), none, none, none]);
    let sentinel = router(&[0.0; 4]).int("top_k", 1).attr("router_sentinel", Attr::Float(-1.0));
    sentinel.gives_about(&[1, 4], &[-1.0, -1.0, score(2.0), -1.0]);
    // Of equal scores the first is chosen.
    let equal = Trial::new("MoEGroupRouter").of_domain("com.microsoft").version(1).int("top_k", 2);
    equal.input(&[1, 3], &[1f32; 3]).input(&[3], &[0f32; 3]).gives_about(&[1, 3], &[score(1.0), score(1.0), none]);
}

#[test]
fn scores_may_be_all_that_is_asked_for() {
    let scores = |trial: Trial| {
        let outputs =
            trial.outputs_at(&[None, Some(ValueId(1001)), Some(ValueId(1002))]).int("top_k", 1).run().unwrap();
        outputs[1..].iter().map(|tensor| tensor.as_slice::<f32>().unwrap().to_vec()).collect::<Vec<_>>()
    };
    let found = scores(router(&[0.0, 0.5, 0.0, 0.0]));
    let plain = [0.0, 1.0, 2.0, 0.5].map(sigmoid);
    assert_eq!(found[1], plain);
    assert_eq!(found[0], [plain[0], plain[1] + 0.5, plain[2], plain[3]]);
    // Rows of 256 ones and weights of a quarter of a thousandth each, or of none.
    let projected = Trial::new("MoEGroupRouter").of_domain("com.microsoft").version(1).input(&[1, 256], &[1f32; 256]);
    let weights: Vec<f32> = (0..512).map(|at| if at < 256 { 1.0 / 256.0 } else { 0.0 }).collect();
    let found = scores(projected.input(&[2], &[0f32; 2]).input(&[2, 256], &weights));
    assert!((found[1][0] - sigmoid(1.0)).abs() < 1e-6 && found[1][1] == 0.5, "{found:?}");
}

#[test]
fn what_cannot_be_chosen_is_refused() {
    router(&[0.0; 4]).int("top_k", 5).is_refused("5 of 4 experts");
    router(&[0.0; 4]).int("top_k", 3).int("n_group", 2).is_refused("3 of 4 experts");
    router(&[0.0; 4]).int("top_k", 1).int("n_group", 3).is_refused("groups of them");
    router(&[0.0; 4]).int("top_k", 1).int("topk_group", 2).is_refused("topk_group = 2");
    router(&[0.0; 4]).int("top_k", 0).is_refused("top_k");
    router(&[0.0; 3]).int("top_k", 1).is_refused("bias");
    router(&[0.0; 4]).int("top_k", 1).outputs(2).is_refused("outputs are the first one");
    let weights = router(&[0.0; 4]).int("top_k", 1).input(&[4, 4], &[0f32; 16]);
    weights.is_refused("without scores");
}
