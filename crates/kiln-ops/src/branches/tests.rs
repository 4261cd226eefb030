//! Results from the definitions, and refusals.

use kiln_model::Attr;

use crate::trial::Trial;

fn trial(op: &str) -> Trial {
    Trial::new(op).of_domain("com.microsoft").version(1)
}

#[test]
fn branches_are_normalised_each_by_itself() {
    let row = |shape: &[usize], branches: i64| {
        let trial = trial("BranchwiseRMSNorm").int("num_branches", branches).attr("epsilon", Attr::Float(0.0));
        trial.input(shape, &[1f32, 7.0, 2.0, -2.0])
    };
    // Means of squares 25 and 4.
    let expected = [0.2f32, 1.4, 1.0, -1.0];
    row(&[1, 2, 2], 0).gives_about(&[1, 2, 2], &expected);
    row(&[1, 4], 2).gives_about(&[1, 4], &expected);
    row(&[1, 4], 2).input(&[2], &[1f32, 10.0]).gives_about(&[1, 4], &[0.2, 14.0, 1.0, -10.0]);
    row(&[1, 2, 2], 0).input(&[2, 2], &[1f32, 10.0, 2.0, 3.0]).gives_about(&[1, 2, 2], &[0.2, 14.0, 2.0, -3.0]);
    row(&[1, 2, 2], 0).input(&[4], &[1f32, 10.0, 2.0, 3.0]).gives_about(&[1, 2, 2], &[0.2, 14.0, 2.0, -3.0]);
    row(&[1, 4], 2).input(&[3], &[1f32; 3]).is_refused("input 1 has shape [3]");
    row(&[1, 4], 3).is_refused("no branches");
    row(&[4], 0).is_refused("no branches");
}

#[test]
fn branches_are_mixed_before_and_after_a_block() {
    let before = |shape: &[usize], branches: i64| {
        let trial = trial("HyperConnectionPreMix").int("num_branches", branches);
        trial.attr("reduction_scale", Attr::Float(0.5)).input(shape, &[1f32, 2.0, 3.0, 4.0])
    };
    before(&[1, 2, 2], 0).input(&[1, 2], &[1f32, 10.0]).gives(&[1, 2], &[15.5f32, 21.0]);
    before(&[1, 4], 2).input(&[1, 2, 1], &[1f32, 10.0]).gives(&[1, 2], &[15.5f32, 21.0]);
    before(&[1, 2, 2], 0).input(&[1, 2, 2], &[1f32, 0.0, 10.0, 1.0]).gives(&[1, 2], &[15.5f32, 2.0]);
    before(&[1, 4], 2).input(&[1, 4], &[1f32, 0.0, 10.0, 1.0]).gives(&[1, 2], &[15.5f32, 2.0]);
    before(&[1, 2, 2], 0).input(&[1, 4], &[1f32; 4]).is_refused("input 1 has shape [1, 4]");
    let after = |branches: i64| {
        let trial = trial("HyperConnectionPostMix").int("num_branches", branches);
        let trial = trial.input(if branches > 0 { &[1, 4] } else { &[1, 2, 2] }, &[1f32, 2.0, 3.0, 4.0]);
        trial.input(&[1, 2], &[100f32, 200.0])
    };
    after(0).input(&[1, 2], &[1f32, 2.0]).gives(&[1, 2, 2], &[101f32, 202.0, 203.0, 404.0]);
    let mixed = after(2).input(&[1, 2, 2], &[1f32, 0.0, 0.0, 1.0]).input(&[1, 2, 2], &[1f32, 2.0, 3.0, 4.0]);
    // The first branch becomes x0 + 3 x1, the second 2 x0 + 4 x1.
    mixed.gives(&[1, 4], &[110f32, 14.0, 14.0, 220.0]);
    after(0).input(&[1, 2], &[1f32, 2.0]).input(&[1, 2], &[1f32, 2.0]).is_refused("input 3 has shape [1, 2]");
}

#[test]
fn values_pass_where_keys_meet_queries() {
    let row = |query: &[f32]| {
        let trial = trial("EngramGate").attr("epsilon", Attr::Float(0.0)).input(&[1, 1, 1, 2], &[1f32, 7.0]);
        let trial = trial.input(&[1, 1, 1, 2], query).input(&[1, 1, 2], &[3f32, 4.0]);
        trial.input(&[1, 2], &[1f32, 1.0]).input(&[1, 2], &[2f32, 2.0])
    };
    // Normalised (0.2, 1.4) and (1, 1), times (2, 2): 3.2 over the root of two elements.
    let product = 3.2f32 / 2f32.sqrt();
    let gate = |product: f32| 1.0 / (1.0 + (-product.abs().sqrt() * product.signum()).exp());
    row(&[5.0, 5.0]).gives_about(&[1, 1, 1, 2], &[3.0 * gate(product), 4.0 * gate(product)]);
    row(&[-5.0, -5.0]).gives_about(&[1, 1, 1, 2], &[3.0 * gate(-product), 4.0 * gate(-product)]);
    // Orthogonal vectors let half of the value pass.
    row(&[7.0, -1.0]).gives_about(&[1, 1, 1, 2], &[1.5, 2.0]);
    let both = row(&[5.0, 5.0]).outputs(2).input(&[1, 2], &[1f32, 10.0]).run().unwrap();
    let length = 12.5f32.sqrt();
    let normed = both[1].as_slice::<f32>().unwrap();
    assert!((normed[0] - 3.0 / length).abs() < 1e-5 && (normed[1] - 40.0 / length).abs() < 1e-4, "{normed:?}");
    row(&[5.0, 5.0]).outputs(2).is_refused("no input 5");
}
