//! Products by weights that are dequantised by blocks read them as they are stored.

use super::*;

/// A product by the transposed or plain constant of 64 by 8 bytes, dequantised by blocks of that length along an axis.
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
