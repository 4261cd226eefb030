//! Products by weights that are dequantised by blocks read them as they are stored.

use super::*;

/// A product by the plain or transposed constant of 64 by 8 bytes, dequantised by blocks of `block` along `axis`.
fn product(op: &str, [axis, block]: [i64; 2], attrs: &[(&str, Attr)]) -> Graph {
    let mut build = GraphBuilder::new("g", 21);
    let x = input(&mut build, "x", &[-1, 64]);
    let shape = if axis == 0 { [64usize, 8] } else { [8, 64] };
    let mut blocks = shape;
    blocks[axis as usize] = 64usize.div_ceil(block as usize);
    let weights = build.constant(Tensor::from_vec(shape, (0..512).map(|at| at as u8 as i8).collect()).unwrap());
    let scales = build.constant(Tensor::from_vec(blocks, vec![0.5f32; blocks.iter().product()]).unwrap());
    let weights =
        build.op("DequantizeLinear", &[weights, scales], &[("axis", axis.into()), ("block_size", block.into())]);
    let y = build.op(op, &[x, weights], attrs);
    rewritten_by(build, y, &["blockwise", "dead"])
}

fn operators(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.op.as_str()).collect()
}

#[test]
fn products_by_blocks_read_what_is_stored() {
    assert_eq!(operators(&product("MatMul", [0, 32], &[])), ["BlockwiseMatMul"]);
    assert_eq!(operators(&product("Gemm", [0, 16], &[])), ["BlockwiseMatMul"]);
    assert_eq!(operators(&product("Gemm", [1, 64], &[("transB", 1.into())])), ["BlockwiseMatMul"]);
}

#[test]
fn other_blocks_and_factors_stay() {
    for graph in [product("MatMul", [0, 8], &[]), product("Gemm", [0, 32], &[("alpha", Attr::Float(2.0))])] {
        assert_eq!(operators(&graph).len(), 2);
    }
}

/// A graph whose weights are rounded to `bits` bits. `make` builds its output from the input `x`, rows of 64.
fn rounded(bits: Option<u8>, make: impl FnOnce(&mut GraphBuilder, ValueId) -> ValueId) -> Graph {
    let mut build = GraphBuilder::new("g", 21);
    let x = input(&mut build, "x", &[-1, 64]);
    let y = make(&mut build, x);
    let passes = ["gemm", "matmul", "round_weights", "residual", "dead"];
    let options = passes.iter().fold(PassOptions::none(), |options, pass| options.with(pass));
    rewritten(build, y, &options.with_code_bits(bits))
}

fn numbers(build: &mut GraphBuilder, shape: &[usize]) -> ValueId {
    let count = shape.iter().product();
    build.constant(Tensor::from_vec(shape.iter().copied(), vec![0.5f32; count]).unwrap())
}

#[test]
fn weights_are_rounded_where_integers_are_asked_for_and_biases_stay() {
    let biased = |build: &mut GraphBuilder, x: ValueId| {
        let (w, b) = (numbers(build, &[64, 8]), numbers(build, &[8]));
        let product = build.op("MatMul", &[x, w], &[]);
        build.op("Add", &[product, b], &[])
    };
    for bits in [4u8, 8] {
        let graph = rounded(Some(bits), biased);
        assert_eq!(operators(&graph), ["BlockwiseMatMul"]);
        let [node] = &graph.nodes[..] else { panic!("one node") };
        assert_eq!(node.attributes().int("bits"), i64::from(bits));
        assert!(node.input(4).is_some(), "the bias");
    }
    assert_eq!(operators(&rounded(None, biased)).len(), 1);
    assert_ne!(operators(&rounded(None, biased)), ["BlockwiseMatMul"]);
    let transposed = rounded(Some(4), |build, x| {
        let w = numbers(build, &[8, 64]);
        build.op("Gemm", &[x, w], &[("transB", 1.into())])
    });
    assert_eq!(operators(&transposed), ["BlockwiseMatMul"]);
}

#[test]
fn what_is_no_plain_product_by_a_matrix_keeps_its_numbers() {
    let short = rounded(Some(4), |build, x| {
        let (left, w) = (numbers(build, &[64, 16]), numbers(build, &[16, 8]));
        let narrow = build.op("MatMul", &[x, left], &[]);
        build.op("MatMul", &[narrow, w], &[])
    });
    assert_eq!(operators(&short), ["BlockwiseMatMul", "MatMul"], "a reduction shorter than a block");
    let scaled = rounded(Some(4), |build, x| {
        let w = numbers(build, &[64, 8]);
        build.op("Gemm", &[x, w], &[("alpha", Attr::Float(2.0))])
    });
    let stacked = rounded(Some(4), |build, x| {
        let w = numbers(build, &[2, 64, 8]);
        build.op("MatMul", &[x, w], &[])
    });
    let computed = rounded(Some(4), |build, x| build.op("Gemm", &[x, x], &[("transB", 1.into())]));
    for graph in [scaled, stacked, computed] {
        assert!(!operators(&graph).contains(&"BlockwiseMatMul"), "{:?}", operators(&graph));
    }
}
