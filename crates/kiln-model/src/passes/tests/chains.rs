//! Element-wise nodes that are fused.

use super::*;

fn chained(build: GraphBuilder, y: ValueId) -> Graph {
    rewritten_by(build, y, &["chain", "dead"])
}

fn steps(node: &NodeDesc) -> String {
    let Some(Attr::Chain(program)) = node.attrs.get("program") else { panic!("{} is no chain", node.op) };
    format!("{:?}", program.steps)
}

#[test]
fn gelu_in_its_long_form_is_one_step() {
    let (mut build, x) = with_x(&[-2, -3, 8]);
    let [root, one, half] = [std::f32::consts::SQRT_2, 1.0, 0.5].map(|v| scalar(&mut build, v));
    let scaled = build.op("Div", &[x, root], &[]);
    let erf = build.op("Erf", &[scaled], &[]);
    let sum = build.op("Add", &[erf, one], &[]);
    let product = build.op("Mul", &[x, sum], &[]);
    let y = build.op("Mul", &[product, half], &[]);
    let graph = chained(build, y);
    assert_eq!((ops(&graph), steps(&graph.nodes[0])), (vec!["Chain".to_owned()], "[Unary(Gelu, 0)]".to_owned()));
}

#[test]
fn a_diamond_is_one_chain() {
    let (mut build, x) = with_x(&[-2, 8]);
    let other = input(&mut build, "other", &[-2, 8]);
    let sum = build.op("Add", &[x, other], &[]);
    let (left, right) = (build.op("Exp", &[sum], &[]), build.op("Tanh", &[sum], &[]));
    let y = build.op("Div", &[left, right], &[]);
    let graph = chained(build, y);
    assert_eq!((ops(&graph), graph.nodes[0].inputs.len()), (vec!["Chain".to_owned()], 2));
}

#[test]
fn what_is_read_elsewhere_or_computed_on_fewer_elements_stays_apart() {
    let (mut build, x) = with_x(&[-2, 8]);
    let a = build.op("Exp", &[x], &[]);
    build.output("a", a);
    let y = build.op("Tanh", &[a], &[]);
    assert_eq!(ops(&chained(build, y)), ["Exp", "Tanh"]);

    let (mut build, x) = with_x(&[-2, 8]);
    let row = input(&mut build, "row", &[1, 8]);
    let row = build.op("Exp", &[row], &[]);
    let y = build.op("Mul", &[x, row], &[]);
    assert_eq!(ops(&chained(build, y)), ["Exp", "Mul"]);
}

#[test]
fn a_row_of_unknown_length_that_meets_another_is_as_large() {
    // Sizes that broadcast with each other are equal, but for the rare 1.
    let (mut build, x) = with_x(&[-1, 8]);
    let other = input(&mut build, "other", &[-1, 8]);
    let exp = build.op("Exp", &[x], &[]);
    let y = build.op("Mul", &[exp, other], &[]);
    assert_eq!(ops(&chained(build, y)), ["Chain"]);
}

#[test]
fn comparisons_and_choices_are_steps() {
    let (mut build, x) = with_x(&[-2, 8]);
    let zero = scalar(&mut build, 0.0);
    let positive = build.op("Greater", &[x, zero], &[]);
    let root = build.op("Sqrt", &[x], &[]);
    let y = build.op("Where", &[positive, root, zero], &[]);
    let graph = chained(build, y);
    assert_eq!(ops(&graph), ["Chain"]);
    assert!(steps(&graph.nodes[0]).contains("Select"), "{}", steps(&graph.nodes[0]));
}

#[test]
fn only_floats_and_booleans_are_chained() {
    for dtype in [DType::I64, DType::F64, DType::F16] {
        let mut build = GraphBuilder::new("g", 17);
        let x = build.input("x", dtype, [2.into()]);
        let a = build.op("Abs", &[x], &[]);
        let y = build.op("Neg", &[a], &[]);
        assert_eq!(ops(&chained(build, y)), ["Abs", "Neg"], "{dtype}");
    }
}

#[test]
fn a_number_with_more_dimensions_than_its_operand_is_an_operand_itself() {
    let (mut build, x) = with_x(&[8]);
    let number = build.constant(Tensor::from_vec([1, 1], vec![2.0f32]).unwrap());
    let exp = build.op("Exp", &[x], &[]);
    let y = build.op("Mul", &[exp, number], &[]);
    // Inside the chain, as a constant, it would no longer make a matrix of the vector.
    assert_eq!(ops(&chained(build, y)), ["Exp", "Mul"]);
}

#[test]
fn a_long_row_of_nodes_is_cut_where_a_chain_ends() {
    let (mut build, mut x) = with_x(&[-2, 8]);
    for round in 0..200 {
        let op = ["Sin", "Cos", "Tanh", "Erf"][round % 4];
        x = build.op(op, &[x], &[]);
    }
    let graph = chained(build, x);
    assert!((4..=8).contains(&graph.nodes.len()), "{} chains", graph.nodes.len());
}

/// The normalisation of the last axis in small operators, with or without a bias.
fn decomposed(axes: i64, power: f32, bias: bool) -> Vec<String> {
    let (mut build, x) = with_x(&[-2, -3, 8]);
    let axes = [("axes", Attr::Ints(vec![axes]))];
    let mean = build.op("ReduceMean", &[x], &axes);
    let centred = build.op("Sub", &[x, mean], &[]);
    let two = scalar(&mut build, power);
    let square = build.op("Pow", &[centred, two], &[]);
    let variance = build.op("ReduceMean", &[square], &axes);
    let epsilon = scalar(&mut build, 1e-5);
    let sum = build.op("Add", &[variance, epsilon], &[]);
    let root = build.op("Sqrt", &[sum], &[]);
    let quotient = build.op("Div", &[centred, root], &[]);
    let row = floats(&mut build, &[8]);
    let mut y = build.op("Mul", &[row, quotient], &[]);
    if bias {
        y = build.op("Add", &[y, row], &[]);
    }
    ops(&optimised(build, y))
}

#[test]
fn layer_normalisation_in_small_operators_becomes_one() {
    assert_eq!(decomposed(-1, 2.0, true), ["LayerNormalization"]);
    assert_eq!(decomposed(2, 2.0, false), ["LayerNormalization"]);
    for (axes, power) in [(1, 2.0), (-1, 3.0)] {
        let kept = decomposed(axes, power, true);
        assert!(kept.len() > 2 && !kept.contains(&"LayerNormalization".to_owned()), "{kept:?}");
    }
}
