//! Support vector machines against numbers computed by hand.

use kiln_model::Attr;

use crate::trial::Trial;

fn floats(trial: Trial, name: &str, values: &[f32]) -> Trial {
    trial.attr(name, Attr::Floats(values.to_vec()))
}

/// Two vectors of one feature each: -1 and 2, weighed by 0.5 and -2, and a bias of 0.25.
fn regressor(kind: &str) -> Trial {
    let trial = Trial::new("SVMRegressor").text("kernel_type", kind).int("n_supports", 2);
    let trial = floats(floats(trial, "kernel_params", &[0.5, 1.0, 2.0]), "support_vectors", &[-1.0, 2.0]);
    floats(floats(trial, "coefficients", &[0.5, -2.0]), "rho", &[0.25])
}

#[test]
fn kernels_are_weighed_and_added() {
    let x = |trial: Trial| trial.input(&[2, 1], &[1f32, -2.0]);
    x(regressor("LINEAR")).gives(&[2, 1], &[-0.5 - 4.0 + 0.25f32, 1.0 + 8.0 + 0.25]);
    // (x v / 2 + 1)^2
    x(regressor("POLY")).gives_about(&[2, 1], &[0.5 * 0.25 - 2.0 * 4.0 + 0.25, 0.5 * 4.0 - 2.0 + 0.25]);
    let radial = |distance: f32| (-0.5 * distance * distance).exp();
    let expected = [radial(2.0) * 0.5 - 2.0 * radial(1.0) + 0.25, radial(1.0) * 0.5 - 2.0 * radial(4.0) + 0.25];
    x(regressor("RBF")).gives_about(&[2, 1], &expected);
    let sigmoid = |product: f32| (0.5 * product + 1.0).tanh();
    let expected = [sigmoid(-1.0) * 0.5 - 2.0 * sigmoid(2.0) + 0.25, sigmoid(2.0) * 0.5 - 2.0 * sigmoid(-4.0) + 0.25];
    x(regressor("SIGMOID")).gives_about(&[2, 1], &expected);
    x(regressor("LINEAR").int("one_class", 1)).gives(&[2, 1], &[-1f32, 1.0]);
    regressor("LINEAR").input(&[1, 1], &[1i64]).gives(&[1, 1], &[-4.25f32]);
}

#[test]
fn without_vectors_coefficients_are_those_of_features() {
    let linear = || floats(floats(Trial::new("SVMRegressor"), "coefficients", &[1.0, -2.0]), "rho", &[0.5]);
    linear().input(&[2, 2], &[1f32, 1.0, 0.0, 3.0]).gives(&[2, 1], &[-0.5f32, -5.5]);
    linear().input(&[1, 3], &[0f32; 3]).is_refused("3 features for vectors of 2");
}

/// Three classes with one vector each, of one feature: -1, 0 and 1; the machines compare products alone.
fn classifier() -> Trial {
    let trial = Trial::new("SVMClassifier").outputs(2).ints("classlabels_ints", &[7, 8, 9]);
    let trial = trial.ints("vectors_per_class", &[1, 1, 1]);
    let trial = floats(floats(trial, "support_vectors", &[-1.0, 0.0, 1.0]), "rho", &[0.0, 0.0, 0.0]);
    // Of row 0 the first is for classes 0 and 1; of row 1 for 0 and 2, and so on.
    floats(trial, "coefficients", &[1.0, 1.0, -1.0, 2.0, 1.0, -3.0])
}

#[test]
fn the_class_with_the_most_votes_is_the_label() {
    // Sums of pairs: (0, 1): -x, (0, 2): -2 x - x, (1, 2): -3 x.
    let outputs = classifier().input(&[2, 1], &[1f32, -2.0]).run().expect("it is valid");
    assert_eq!(outputs[0].as_slice::<i64>().expect("labels"), [9, 7]);
    assert_eq!(outputs[1].as_slice::<f32>().expect("scores"), [-1.0, -3.0, -3.0, 2.0, 6.0, 6.0]);
}

#[test]
fn probabilities_of_pairs_are_coupled() {
    let even = floats(floats(classifier(), "prob_a", &[0.0; 3]), "prob_b", &[0.0; 3]);
    let outputs = even.input(&[1, 1], &[1f32]).run().expect("it is valid");
    let scores = outputs[1].as_slice::<f32>().expect("scores");
    assert!(scores.iter().all(|score| (score - 1.0 / 3.0).abs() < 1e-3), "{scores:?}");
    let steep = floats(floats(classifier(), "prob_a", &[-4.0; 3]), "prob_b", &[0.0; 3]);
    let outputs = steep.input(&[1, 1], &[-1f32]).run().expect("it is valid");
    let scores = outputs[1].as_slice::<f32>().expect("scores");
    assert!(scores[0] > 0.9 && (scores.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{scores:?}");
}

#[test]
fn numbers_that_do_not_belong_together_are_refused() {
    let x = |trial: Trial| trial.input(&[1, 1], &[0f32]);
    x(floats(regressor("LINEAR"), "coefficients", &[1.0])).is_refused("1 coefficients for 2 support vectors");
    x(regressor("PRECOMPUTED")).is_refused("attribute kernel_type = \"PRECOMPUTED\"");
    x(regressor("RBF").attr("kernel_params", Attr::Floats(vec![1.0]))).is_refused("three kernel_params");
    x(regressor("LINEAR").text("post_transform", "PROBIT")).is_refused("attribute post_transform = \"PROBIT\"");
    x(classifier().ints("vectors_per_class", &[1, 1])).is_refused("vectors of 2 classes for 3 labels");
    x(classifier().ints("vectors_per_class", &[1, -1, 1])).is_refused("vectors_per_class has -1");
    x(floats(classifier(), "rho", &[0.0])).is_refused("3 pairs");
    x(floats(classifier(), "prob_a", &[0.0; 3])).is_refused("3 prob_a and 0 prob_b");
}
