//! Small trees, whose leaves are known.

use crate::graph::Attr;
use crate::ops::trial::Trial;
use crate::tensor::Tensor;

fn texts(all: &[&str]) -> Attr {
    Attr::Strs(all.iter().map(|&text| text.to_owned()).collect())
}

/// Two trees of one test each, of features 0 and 1, whose leaves weigh 1, 2 and 10, 20 for these targets.
fn stumps(op: &str, of: &str, targets: [i64; 4], modes: [&str; 2]) -> Trial {
    let trial = Trial::new(op)
        .ints("nodes_treeids", &[0, 0, 0, 1, 1, 1])
        .ints("nodes_nodeids", &[0, 1, 2, 0, 1, 2])
        .ints("nodes_featureids", &[0, 0, 0, 1, 0, 0])
        .ints("nodes_truenodeids", &[1, 0, 0, 1, 0, 0])
        .ints("nodes_falsenodeids", &[2, 0, 0, 2, 0, 0])
        .attr("nodes_values", Attr::Floats(vec![0.5, 0.0, 0.0, 1.5, 0.0, 0.0]))
        .attr("nodes_modes", texts(&[modes[0], "LEAF", "LEAF", modes[1], "LEAF", "LEAF"]));
    trial
        .ints(&format!("{of}_treeids"), &[0, 0, 1, 1])
        .ints(&format!("{of}_nodeids"), &[1, 2, 1, 2])
        .ints(&format!("{of}_ids"), &targets)
        .attr(&format!("{of}_weights"), Attr::Floats(vec![1.0, 2.0, 10.0, 20.0]))
}

fn regressor(modes: [&str; 2]) -> Trial {
    stumps("TreeEnsembleRegressor", "target", [0; 4], modes)
}

const ROWS: [f32; 6] = [0.5, 1.5, 1.0, 1.0, 0.0, 2.0];

#[test]
fn leaves_add_up_average_or_compete() {
    let row = || regressor(["BRANCH_LEQ"; 2]).input(&[3, 2], &ROWS);
    row().gives(&[3, 1], &[11f32, 12.0, 21.0]);
    row().text("aggregate_function", "AVERAGE").gives(&[3, 1], &[5.5f32, 6.0, 10.5]);
    row().text("aggregate_function", "MIN").gives(&[3, 1], &[1f32, 2.0, 1.0]);
    row().text("aggregate_function", "MAX").gives(&[3, 1], &[10f32, 10.0, 20.0]);
    row().attr("base_values", Attr::Floats(vec![100.0])).gives(&[3, 1], &[111f32, 112.0, 121.0]);
    regressor(["BRANCH_LEQ"; 2]).input(&[3, 2], &ROWS.map(f64::from)).gives(&[3, 1], &[11f32, 12.0, 21.0]);
}

#[test]
fn every_test_of_a_feature_is_its_own() {
    let of = |mode: &str, expected: [f32; 3]| regressor([mode, mode]).input(&[3, 2], &ROWS).gives(&[3, 1], &expected);
    of("BRANCH_LT", [22.0, 12.0, 21.0]);
    of("BRANCH_GTE", [11.0, 21.0, 12.0]);
    of("BRANCH_GT", [22.0, 21.0, 12.0]);
    of("BRANCH_EQ", [11.0, 22.0, 22.0]);
    of("BRANCH_NEQ", [22.0, 11.0, 11.0]);
}

#[test]
fn a_missing_feature_goes_where_the_node_says() {
    let row = |tracks: i64| {
        let row = regressor(["BRANCH_LEQ"; 2]).ints("nodes_missing_value_tracks_true", &[tracks, 0, 0, tracks, 0, 0]);
        row.input(&[1, 2], &[f32::NAN, f32::NAN])
    };
    row(0).gives(&[1, 1], &[22f32]);
    row(1).gives(&[1, 1], &[11f32]);
}

#[test]
fn the_greatest_sum_names_the_class() {
    let row = || stumps("TreeEnsembleClassifier", "class", [0, 1, 2, 1], ["BRANCH_LEQ"; 2]).outputs(2);
    let labels = row().attr("classlabels_strings", texts(&["a", "b", "c"])).input(&[3, 2], &ROWS);
    labels.gives_strings(&[3], &["c", "c", "b"]);
    let scores = row().ints("classlabels_int64s", &[7, 8, 9]).input(&[3, 2], &ROWS).run().unwrap();
    assert_eq!(scores[0].as_slice::<i64>().unwrap(), [9, 9, 8]);
    assert_eq!(scores[1].as_slice::<f32>().unwrap(), [1.0, 0.0, 10.0, 0.0, 2.0, 10.0, 1.0, 20.0, 0.0]);
}

#[test]
fn trees_that_make_no_sense_are_refused() {
    let row = || regressor(["BRANCH_LEQ"; 2]);
    row().ints("nodes_truenodeids", &[0, 0, 0, 1, 0, 0]).input(&[1, 2], &[0f32; 2]).is_refused("back into itself");
    row().ints("nodes_truenodeids", &[9, 0, 0, 1, 0, 0]).input(&[1, 2], &[0f32; 2]).is_refused("leads nowhere");
    row().ints("nodes_nodeids", &[0, 1, 1, 0, 1, 2]).input(&[1, 2], &[0f32; 2]).is_refused("two nodes 1");
    row().ints("target_nodeids", &[0, 2, 1, 2]).input(&[1, 2], &[0f32; 2]).is_refused("a weight of node 0");
    row().ints("target_ids", &[0, 0, 0, 1]).input(&[1, 2], &[0f32; 2]).is_refused("for target 1");
    row().input(&[1, 1], &[0f32]).is_refused("1 features, and the trees ask for 2");
    regressor(["BRANCH_LEQ", "BRANCH_MEMBER"]).input(&[1, 2], &[0f32; 2]).is_refused("BRANCH_MEMBER");
    row().text("post_transform", "PROBIT").input(&[1, 2], &[0f32; 2]).is_refused("PROBIT");
}

/// One split of feature 0 at 2 into the leaves 10 and 20.
fn stump(mode: u8) -> Trial {
    let tensor = |values: &[f32]| Attr::Tensor(Tensor::from_slice([values.len()], values).unwrap());
    Trial::new("TreeEnsemble")
        .attr("nodes_modes", Attr::Tensor(Tensor::from_slice([1], &[mode]).unwrap()))
        .attr("nodes_splits", tensor(&[2.0]))
        .attr("leaf_weights", tensor(&[10.0, 20.0]))
        .ints("leaf_targetids", &[0, 0])
        .ints("nodes_featureids", &[0])
        .ints("nodes_trueleafs", &[1])
        .ints("nodes_truenodeids", &[0])
        .ints("nodes_falseleafs", &[1])
        .ints("nodes_falsenodeids", &[1])
        .ints("tree_roots", &[0])
}

#[test]
fn rows_end_in_the_leaf_that_their_features_lead_to() {
    let on = |trial: Trial| trial.input(&[4, 1], &[1f32, 2.0, 3.0, f32::NAN]);
    on(stump(0)).gives(&[4, 1], &[10f32, 10.0, 20.0, 20.0]);
    on(stump(1)).gives(&[4, 1], &[10f32, 20.0, 20.0, 20.0]);
    on(stump(2)).gives(&[4, 1], &[20f32, 10.0, 10.0, 20.0]);
    on(stump(3)).gives(&[4, 1], &[20f32, 20.0, 10.0, 20.0]);
    on(stump(4)).gives(&[4, 1], &[20f32, 10.0, 20.0, 20.0]);
    on(stump(5)).gives(&[4, 1], &[10f32, 20.0, 10.0, 10.0]);
    on(stump(0).ints("nodes_missing_value_tracks_true", &[1])).gives(&[4, 1], &[10f32, 10.0, 20.0, 10.0]);
    on(stump(0).ints("tree_roots", &[0, 0])).gives(&[4, 1], &[20f32, 20.0, 40.0, 40.0]);
    on(stump(0).ints("tree_roots", &[0, 0]).int("aggregate_function", 0)).gives(&[4, 1], &[10f32, 10.0, 20.0, 20.0]);
    on(stump(0).int("post_transform", 1)).gives(&[4, 1], &[1f32; 4]);
}

#[test]
fn trees_that_lead_nowhere_or_back_are_refused() {
    let on = |trial: Trial| trial.input(&[1, 1], &[1f32]);
    on(stump(0).ints("nodes_trueleafs", &[0])).is_refused("back into itself");
    on(stump(0).ints("nodes_truenodeids", &[2])).is_refused("leads nowhere");
    on(stump(0).ints("nodes_featureids", &[1])).is_refused("no feature 1");
    on(stump(0).ints("tree_roots", &[-1])).is_refused("tree_roots");
    on(stump(6)).gives(&[1, 1], &[20f32]);
    on(stump(9)).is_refused("nodes_modes");
    stump(0).input(&[1], &[1f32]).is_refused("no rows");
}
