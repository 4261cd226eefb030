//! Small trees, whose leaves are known.

use kiln_model::Attr;
use kiln_tensor::Tensor;

use crate::trial::Trial;

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
fn nodes_may_stand_in_any_order_and_have_any_numbers() {
    // The trees of `stumps`, whose nodes 0, 1 and 2 are numbered 7, -3 and 2.
    let row = Trial::new("TreeEnsembleRegressor")
        .ints("nodes_treeids", &[0, 1, 0, 1, 0, 1])
        .ints("nodes_nodeids", &[2, 7, 7, 2, -3, -3])
        .ints("nodes_featureids", &[0, 1, 0, 0, 0, 0])
        .ints("nodes_truenodeids", &[0, -3, -3, 0, 0, 0])
        .ints("nodes_falsenodeids", &[0, 2, 2, 0, 0, 0])
        .attr("nodes_values", Attr::Floats(vec![0.0, 1.5, 0.5, 0.0, 0.0, 0.0]))
        .attr("nodes_modes", texts(&["LEAF", "BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"]))
        .ints("target_treeids", &[0, 0, 1, 1])
        .ints("target_nodeids", &[-3, 2, -3, 2])
        .ints("target_ids", &[0; 4])
        .attr("target_weights", Attr::Floats(vec![1.0, 2.0, 10.0, 20.0]));
    row.input(&[3, 2], &ROWS).gives(&[3, 1], &[11f32, 12.0, 21.0]);
}

#[test]
fn weights_of_nodes_that_are_no_leaves_are_never_reached() {
    let row = regressor(["BRANCH_LEQ"; 2]).ints("target_treeids", &[0, 0, 0, 1, 1]);
    let row = row.ints("target_nodeids", &[0, 1, 2, 1, 2]).ints("target_ids", &[0; 5]);
    let row = row.attr("target_weights", Attr::Floats(vec![100.0, 1.0, 2.0, 10.0, 20.0]));
    row.input(&[3, 2], &ROWS).gives(&[3, 1], &[11f32, 12.0, 21.0]);
}

#[test]
fn trees_that_make_no_sense_are_refused() {
    let row = || regressor(["BRANCH_LEQ"; 2]);
    row().ints("nodes_truenodeids", &[0, 0, 0, 1, 0, 0]).input(&[1, 2], &[0f32; 2]).is_refused("back into itself");
    row().ints("nodes_truenodeids", &[9, 0, 0, 1, 0, 0]).input(&[1, 2], &[0f32; 2]).is_refused("leads nowhere");
    row().ints("nodes_nodeids", &[0, 1, 1, 0, 1, 2]).input(&[1, 2], &[0f32; 2]).is_refused("two nodes 1");
    row().ints("target_nodeids", &[7, 2, 1, 2]).input(&[1, 2], &[0f32; 2]).is_refused("a weight of node 7");
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

/// The place among the leaves of a full tree that a row ends in, one test after the other.
fn descended(branches: &[(usize, f32)], row: &[f32]) -> usize {
    let mut place = 0;
    while let Some(&(feature, split)) = branches.get(place) {
        place = 2 * place + if row[feature] <= split { 1 } else { 2 };
    }
    place - branches.len()
}

#[test]
fn many_rows_and_trees_end_where_each_row_would_alone() {
    const FEATURES: usize = 5;
    let mut seed = 1u32;
    let mut draw = |end: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % end
    };
    // Full trees of three depths, so that descents of different lengths go together.
    let trees: Vec<Vec<(usize, f32)>> = (0..37)
        .map(|tree| {
            let count = (1 << (2 + 2 * (tree % 3))) - 1;
            (0..count).map(|_| (draw(FEATURES as u32) as usize, draw(100) as f32)).collect()
        })
        .collect();
    let (mut nodes, mut leaves) = (Vec::new(), Vec::new());
    for (tree, branches) in trees.iter().enumerate() {
        for node in 0..=2 * branches.len() {
            match branches.get(node) {
                Some(&(feature, split)) => nodes.push((tree, node, "BRANCH_LEQ", feature, split)),
                None => {
                    nodes.push((tree, node, "LEAF", 0, 0.0));
                    leaves.push((tree, node, draw(1000) as f32 / 64.0));
                }
            }
        }
    }
    let weight = |tree: usize, leaf: usize| leaves.iter().filter(|own| own.0 == tree).nth(leaf).unwrap().2;
    let numbers = |of: &dyn Fn(&(usize, usize, &str, usize, f32)) -> i64| nodes.iter().map(of).collect::<Vec<i64>>();
    let child = |node: &(usize, usize, &str, usize, f32), side: i64| match node.2 {
        "LEAF" => 0,
        _ => 2 * node.1 as i64 + side,
    };
    let ensemble = || {
        Trial::new("TreeEnsembleRegressor")
            .ints("nodes_treeids", &numbers(&|node| node.0 as i64))
            .ints("nodes_nodeids", &numbers(&|node| node.1 as i64))
            .ints("nodes_featureids", &numbers(&|node| node.3 as i64))
            .ints("nodes_truenodeids", &numbers(&|node| child(node, 1)))
            .ints("nodes_falsenodeids", &numbers(&|node| child(node, 2)))
            .attr("nodes_modes", texts(&nodes.iter().map(|node| node.2).collect::<Vec<_>>()))
            .attr("nodes_values", Attr::Floats(nodes.iter().map(|node| node.4).collect()))
            .ints("target_treeids", &leaves.iter().map(|leaf| leaf.0 as i64).collect::<Vec<_>>())
            .ints("target_nodeids", &leaves.iter().map(|leaf| leaf.1 as i64).collect::<Vec<_>>())
            .ints("target_ids", &vec![0; leaves.len()])
            .attr("target_weights", Attr::Floats(leaves.iter().map(|leaf| leaf.2).collect()))
    };
    for count in [1, 15, 16, 17, 131] {
        let rows: Vec<f32> = (0..count * FEATURES).map(|_| draw(100) as f32).collect();
        let sums: Vec<f32> = rows
            .chunks_exact(FEATURES)
            .map(|row| (0..trees.len()).map(|tree| weight(tree, descended(&trees[tree], row))).sum())
            .collect();
        ensemble().input(&[count, FEATURES], &rows).gives(&[count, 1], &sums);
        // Numbers between those of 32 bits end where the next greater one does.
        let above: Vec<f64> = rows.iter().map(|&value| f64::from(value) - 1e-9).collect();
        ensemble().input(&[count, FEATURES], &above).gives(&[count, 1], &sums);
    }
}

#[test]
fn numbers_of_64_bits_keep_their_side_of_a_split_of_32() {
    let nearest = [0.5f64, 0.5 - 1e-12, 0.5 + 1e-12];
    let rows: Vec<f64> = nearest.iter().flat_map(|&value| [value, 0.0]).collect();
    let of = |mode: &str, expected: [f32; 3]| regressor([mode; 2]).input(&[3, 2], &rows).gives(&[3, 1], &expected);
    of("BRANCH_LEQ", [11.0, 11.0, 12.0]);
    of("BRANCH_LT", [12.0, 11.0, 12.0]);
    of("BRANCH_GTE", [21.0, 22.0, 21.0]);
    of("BRANCH_GT", [22.0, 22.0, 21.0]);
    // Tests of both kinds, and of equality.
    let mixed = |modes: [&str; 2], expected: [f32; 3]| regressor(modes).input(&[3, 2], &rows).gives(&[3, 1], &expected);
    mixed(["BRANCH_LT", "BRANCH_LEQ"], [12.0, 11.0, 12.0]);
    mixed(["BRANCH_EQ", "BRANCH_LEQ"], [11.0, 12.0, 12.0]);
}

#[test]
fn extreme_splits_divide_as_they_are_compared() {
    let at = |mode: &str, split: f32, expected: [f32; 4]| {
        let splits = Attr::Floats(vec![split, 0.0, 0.0, 1.5, 0.0, 0.0]);
        let row = regressor([mode, "BRANCH_LEQ"]).attr("nodes_values", splits);
        let rows = [f32::NEG_INFINITY, 0.0, 0.0, 0.0, f32::INFINITY, 0.0, f32::NAN, 0.0];
        row.input(&[4, 2], &rows).gives(&[4, 1], &expected.map(|own| own + 10.0));
    };
    let [yes, no] = [1.0, 2.0];
    at("BRANCH_LT", f32::NEG_INFINITY, [no; 4]);
    at("BRANCH_GTE", f32::NEG_INFINITY, [yes, yes, yes, no]);
    at("BRANCH_LEQ", f32::INFINITY, [yes, yes, yes, no]);
    at("BRANCH_GT", f32::INFINITY, [no; 4]);
    at("BRANCH_GTE", f32::INFINITY, [no, no, yes, no]);
    for mode in ["BRANCH_LT", "BRANCH_LEQ", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ"] {
        at(mode, f32::NAN, [no; 4]);
    }
    at("BRANCH_NEQ", f32::NAN, [yes; 4]);
}

#[test]
fn members_lead_one_way_and_branches_may_share_what_they_lead_to() {
    let members = Attr::Tensor(Tensor::from_slice([4], &[1f32, 3.0, 4.0, f32::NAN]).unwrap());
    let row = stump(6).attr("membership_values", members);
    row.input(&[5, 1], &[0f32, 1.0, 3.0, 4.0, 5.0]).gives(&[5, 1], &[20f32, 10.0, 10.0, 10.0, 20.0]);
    // Nodes 1 and 2 lead to the same leaves, and node 0 leads to both nodes.
    let shared = Trial::new("TreeEnsembleRegressor")
        .ints("nodes_treeids", &[0; 5])
        .ints("nodes_nodeids", &[0, 1, 2, 3, 4])
        .ints("nodes_featureids", &[0; 5])
        .ints("nodes_truenodeids", &[1, 3, 3, 0, 0])
        .ints("nodes_falsenodeids", &[2, 4, 4, 0, 0])
        .attr("nodes_values", Attr::Floats(vec![5.0, 2.0, 8.0, 0.0, 0.0]))
        .attr("nodes_modes", texts(&["BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF"]))
        .ints("target_treeids", &[0, 0])
        .ints("target_nodeids", &[3, 4])
        .ints("target_ids", &[0, 0])
        .attr("target_weights", Attr::Floats(vec![1.0, 2.0]));
    shared.input(&[4, 1], &[1f32, 4.0, 7.0, 9.0]).gives(&[4, 1], &[1f32, 2.0, 1.0, 2.0]);
}
