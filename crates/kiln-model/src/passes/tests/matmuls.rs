//! Fusion into products.

use super::*;

#[test]
fn a_linear_layer_becomes_one_node() {
    let (mut build, x) = with_x(&[-2, -3, 4]);
    let (w, b) = (floats(&mut build, &[4, 8]), floats(&mut build, &[8]));
    let product = build.op("MatMul", &[x, w], &[]);
    let sum = build.op("Add", &[b, product], &[]);
    let y = build.op("Relu", &[sum], &[]);
    assert_eq!(ops(&optimised(build, y)), ["FusedMatMul+bias+Relu"]);
}

#[test]
fn bias_then_residual_then_nothing_more() {
    let (mut build, x) = with_x(&[-2, -3, 8]);
    let (w, b) = (floats(&mut build, &[8, 8]), floats(&mut build, &[1, 1, 8]));
    let product = build.op("MatMul", &[x, w], &[]);
    let sum = build.op("Add", &[product, b], &[]);
    let sum = build.op("Add", &[x, sum], &[]);
    let y = build.op("LayerNormalization", &[sum, b], &[]);
    assert_eq!(ops(&optimised(build, y)), ["FusedMatMul+bias+residual", "LayerNormalization"]);
}

#[test]
fn a_sum_that_may_broadcast_is_no_residual_and_a_column_no_bias() {
    let cases: [(&str, &[i64]); 3] =
        [("a size of its own", &[-1, -3, 8]), ("one batch", &[1, -3, 8]), ("a column", &[-3, 1])];
    for (case, dims) in cases {
        let (mut build, x) = with_x(&[-2, -3, 8]);
        let w = floats(&mut build, &[8, 8]);
        let other = input(&mut build, "other", dims);
        let product = build.op("MatMul", &[x, w], &[]);
        let y = build.op("Add", &[product, other], &[]);
        assert_eq!(ops(&optimised(build, y)), ["MatMul", "Add"], "{case}");
    }
}

#[test]
fn a_bias_of_more_columns_than_the_product_is_none() {
    let (mut build, x) = with_x(&[-2, 4]);
    let (w, b) = (floats(&mut build, &[4, 1]), floats(&mut build, &[8]));
    let product = build.op("MatMul", &[x, w], &[]);
    let y = build.op("Add", &[product, b], &[]);
    assert_eq!(ops(&optimised(build, y)), ["MatMul", "Add"]);
}

#[test]
fn what_is_added_to_the_rows_of_a_product_by_a_vector_is_no_bias() {
    let (mut build, x) = with_x(&[-2, 3, 4]);
    let (w, b) = (floats(&mut build, &[4]), floats(&mut build, &[3]));
    let product = build.op("MatMul", &[x, w], &[]);
    let y = build.op("Add", &[product, b], &[]);
    assert_eq!(ops(&optimised(build, y)), ["MatMul", "Add"]);
}

#[test]
fn scales_on_either_side_become_alpha() {
    let (mut build, q) = with_x(&[-2, 4, -3, 16]);
    let k = input(&mut build, "k", &[-2, 4, 16, -3]);
    let (two, eight) = (scalar(&mut build, 2.0), scalar(&mut build, 8.0));
    let scaled = build.op("Mul", &[two, q], &[]);
    let product = build.op("MatMul", &[scaled, k], &[]);
    let scores = build.op("Div", &[product, eight], &[]);
    let y = build.op("Softmax", &[scores], &[]);
    let graph = optimised(build, y);
    assert_eq!(ops(&graph), ["FusedMatMul", "Softmax"]);
    assert_eq!(graph.nodes[0].attributes().float("alpha"), 0.25);
}

#[test]
fn the_half_of_a_gelu_is_not_the_next_alpha() {
    let (mut build, x) = with_x(&[-2, 4]);
    let (w, b, v) = (floats(&mut build, &[4, 8]), floats(&mut build, &[8]), floats(&mut build, &[8, 4]));
    let [root, one, half] = [std::f32::consts::SQRT_2, 1.0, 0.5].map(|v| scalar(&mut build, v));
    let product = build.op("MatMul", &[x, w], &[]);
    let sum = build.op("Add", &[product, b], &[]);
    let scaled = build.op("Div", &[sum, root], &[]);
    let erf = build.op("Erf", &[scaled], &[]);
    let more = build.op("Add", &[erf, one], &[]);
    let gate = build.op("Mul", &[sum, more], &[]);
    let gelu = build.op("Mul", &[gate, half], &[]);
    let y = build.op("MatMul", &[gelu, v], &[]);
    assert_eq!(ops(&optimised(build, y)), ["FusedMatMul+bias+Gelu", "MatMul"]);
}

#[test]
fn a_scale_after_the_bias_is_not_alpha() {
    let (mut build, x) = with_x(&[-2, 4]);
    let (w, b, two) = (floats(&mut build, &[4, 8]), floats(&mut build, &[8]), scalar(&mut build, 2.0));
    let product = build.op("MatMul", &[x, w], &[]);
    let sum = build.op("Add", &[product, b], &[]);
    let y = build.op("Mul", &[sum, two], &[]);
    assert_eq!(ops(&optimised(build, y)), ["FusedMatMul+bias", "Mul"]);
}

#[test]
fn transposes_of_the_last_two_axes_become_flags() {
    let (mut build, a) = with_x(&[4, -2, 16]);
    let b = input(&mut build, "b", &[4, -3, -2]);
    let transposed = [a, b].map(|value| build.op("Transpose", &[value], &[("perm", [0, 2, 1].into())]));
    let y = build.op("MatMul", &transposed, &[]);
    assert_eq!(ops(&optimised(build, y)), ["FusedMatMul+trans_a+trans_b"]);
}

#[test]
fn heads_are_transposed_by_rows() {
    // [batch, steps, heads, width] to [batch, heads, width, steps]: the remaining transpose keeps the last axis.
    let (mut build, q) = with_x(&[-2, 4, -3, 16]);
    let k = input(&mut build, "k", &[-2, -3, 4, 16]);
    let transposed = build.op("Transpose", &[k], &[("perm", [0, 2, 3, 1].into())]);
    let y = build.op("MatMul", &[q, transposed], &[]);
    let graph = optimised(build, y);
    assert_eq!(ops(&graph), ["Transpose", "FusedMatMul+trans_b"]);
    assert_eq!(graph.nodes[0].ints("perm"), Some(&[0, 2, 1, 3][..]));
}

#[test]
fn gemm_with_a_row_becomes_the_fused_matmul() {
    type Third = fn(&mut GraphBuilder) -> Option<ValueId>;
    let cases: [(&str, Third, &str); 6] = [
        ("nothing", |_| None, "FusedMatMul+trans_b"),
        ("a vector", |b| Some(floats(b, &[8])), "FusedMatMul+bias+trans_b"),
        ("a row", |b| Some(floats(b, &[1, 8])), "FusedMatMul+bias+trans_b"),
        ("a number", |b| Some(scalar(b, 1.0)), "FusedMatMul+bias+trans_b"),
        ("a column", |b| Some(floats(b, &[3, 1])), "Gemm"),
        ("a matrix", |b| Some(floats(b, &[3, 8])), "Gemm"),
    ];
    for (case, third, expected) in cases {
        let (mut build, x) = with_x(&[3, 4]);
        let w = floats(&mut build, &[8, 4]);
        let inputs: Vec<ValueId> = [x, w].into_iter().chain(third(&mut build)).collect();
        let y = build.op("Gemm", &inputs, &[("transB", 1.into()), ("beta", 2.0.into())]);
        let graph = optimised(build, y);
        assert_eq!(ops(&graph), [expected], "{case}");
        if let Some(bias) =
            graph.constant_input(&graph.nodes[0], 2).filter(|_| case != "a column" && case != "a matrix")
        {
            let first = if case == "a number" { 2.0 } else { 1.0 };
            assert_eq!(
                (bias.shape(), bias.as_slice::<f32>().unwrap()[0]),
                (&[8][..], first),
                "{case}: beta is in the bias"
            );
        }
    }
}

#[test]
fn a_flattened_linear_layer_works_on_the_original() {
    let (mut build, x) = with_x(&[-2, -3, 4]);
    let (flat, w, b) = (ints(&mut build, &[-1, 4]), floats(&mut build, &[4, 8]), floats(&mut build, &[8]));
    let rows = build.op("Reshape", &[x, flat], &[]);
    let product = build.op("Gemm", &[rows, w, b], &[]);
    let shape = build.op("Shape", &[x], &[]);
    let (zero, two, eight) = (ints(&mut build, &[0]), ints(&mut build, &[2]), ints(&mut build, &[8]));
    let lead = build.op("Slice", &[shape, zero, two], &[]);
    let target = build.op("Concat", &[lead, eight], &[("axis", 0.into())]);
    let y = build.op("Reshape", &[product, target], &[]);
    assert_eq!(ops(&optimised(build, y)), ["FusedMatMul+bias"]);
}

#[test]
fn joined_heads_are_multiplied_where_they_are() {
    // [batch, heads, steps, width] is joined, flattened, multiplied and restored, then added to what came before.
    let (mut build, x) = with_x(&[-2, -3, 12]);
    let heads = input(&mut build, "heads", &[-2, 3, -3, 4]);
    let transposed = build.op("Transpose", &[heads], &[("perm", [0, 2, 1, 3].into())]);
    let (flat, w, b) = (ints(&mut build, &[-1, 12]), floats(&mut build, &[12, 12]), floats(&mut build, &[12]));
    let rows = build.op("Reshape", &[transposed, flat], &[]);
    let product = build.op("Gemm", &[rows, w, b], &[]);
    let shape = build.op("Shape", &[x], &[]);
    let restored = build.op("Reshape", &[product, shape], &[]);
    let y = build.op("Add", &[x, restored], &[]);
    let graph = optimised(build, y);
    assert_eq!(ops(&graph), ["Transpose", "Reshape", "FusedMatMul+bias+residual"]);
    assert_eq!(graph.constant_input(&graph.nodes[1], 1).unwrap().as_slice::<i64>().unwrap(), [0, 0, 12]);
}

#[test]
fn a_product_that_is_read_twice_stays_apart() {
    let (mut build, x) = with_x(&[-2, 8]);
    let (w, b) = (floats(&mut build, &[8, 8]), floats(&mut build, &[8]));
    let product = build.op("MatMul", &[x, w], &[]);
    build.output("product", product);
    let y = build.op("Add", &[product, b], &[]);
    assert_eq!(ops(&optimised(build, y)), ["MatMul", "Add"]);
}

#[test]
fn integers_stay_with_the_plain_operators() {
    let mut build = GraphBuilder::new("g", 17);
    let x = build.input("x", DType::I32, [2.into(), 2.into()]);
    let product = build.op("MatMul", &[x, x], &[]);
    let y = build.op("Add", &[product, x], &[]);
    assert_eq!(ops(&optimised(build, y)), ["MatMul", "Add"]);
}
