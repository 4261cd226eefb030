//! Tables of matrix multiplication.

use crate::harness::{Layer, Step};
use crate::reference::{Array, broadcast_shape, build, matmul, transpose};

#[test]
fn matmul_by_packed_weights() {
    let steps: &[Step<'_>] = &[&[&[2, 3, 29]], &[&[1, 1, 29]], &[&[1, 1, 29]], &[&[1, 50, 29]], &[&[2, 3, 29]]];
    for n in [1, 8, 19, 70] {
        Layer::new("MatMul", 13)
            .dynamic(&[-1, -1, 29])
            .weights(&[29, n])
            .check(steps, |x| vec![matmul(&Array::of(&x[0]), &Array::of(&x[1])).tensor()]);
    }
}

#[test]
fn matmul_of_two_dynamic_operands_with_batches() {
    let steps: &[Step<'_>] = &[
        &[&[1, 3, 7, 9], &[1, 3, 9, 5]],
        &[&[2, 3, 1, 9], &[2, 3, 9, 21]],
        &[&[2, 3, 1, 9], &[2, 3, 9, 21]],
        &[&[2, 1, 4, 9], &[1, 3, 9, 16]],
        &[&[1, 3, 7, 9], &[1, 3, 9, 5]],
    ];
    Layer::new("MatMul", 13)
        .dynamic(&[-1, -1, -1, 9])
        .dynamic(&[-1, -1, 9, -1])
        .check(steps, |x| vec![matmul(&Array::of(&x[0]), &Array::of(&x[1])).tensor()]);
}

#[test]
fn gemm_with_every_transposition_and_bias() {
    let steps: &[Step<'_>] = &[&[&[4, 12]], &[&[9, 12]], &[&[9, 12]], &[&[4, 12]]];
    for (trans_b, bias) in [(0, vec![15]), (1, vec![1, 15]), (1, vec![1])] {
        let weights: &[usize] = if trans_b == 1 { &[15, 12] } else { &[12, 15] };
        Layer::new("Gemm", 13)
            .int("transB", trans_b)
            .attr("alpha", kiln_model::ir::Attr::Float(0.5))
            .attr("beta", kiln_model::ir::Attr::Float(2.0))
            .dynamic(&[-1, 12])
            .weights(weights)
            .weights(&bias)
            .check(steps, |x| {
                let (a, w, c) = (Array::of(&x[0]), Array::of(&x[1]), Array::of(&x[2]));
                let product = matmul(&a, &if trans_b == 1 { transpose(&w, &[1, 0]) } else { w });
                let shape = broadcast_shape(&[&product.shape, &c.shape]);
                vec![build(&shape, |at| 0.5 * product.get(at) + 2.0 * c.broadcast(at)).tensor()]
            });
    }
}

#[test]
fn gemm_of_a_transposed_dynamic_operand() {
    let steps: &[Step<'_>] = &[&[&[12, 4]], &[&[12, 9]], &[&[12, 9]], &[&[12, 4]]];
    Layer::new("Gemm", 13)
        .int("transA", 1)
        .dynamic(&[12, -1])
        .weights(&[12, 15])
        .check(steps, |x| vec![matmul(&transpose(&Array::of(&x[0]), &[1, 0]), &Array::of(&x[1])).tensor()]);
}

/// Relative positions of attention over an image: the batch of the product is not the outermost axis.
#[test]
fn einsum_of_rows_and_tables_of_positions() {
    let steps: &[Step<'_>] = &[
        &[&[2, 4, 5, 9], &[4, 7, 9]],
        &[&[1, 6, 2, 9], &[6, 3, 9]],
        &[&[1, 6, 2, 9], &[6, 3, 9]],
        &[&[2, 4, 5, 9], &[4, 7, 9]],
    ];
    Layer::new("Einsum", 12)
        .attr("equation", "bhwc,hkc->bhwk".into())
        .dynamic(&[-1, -1, -1, 9])
        .dynamic(&[-1, -1, 9])
        .check(steps, |x| {
            let [image, table] = [0, 1].map(|at| Array::of(&x[at]));
            vec![matmul(&image, &transpose(&table, &[0, 2, 1])).tensor()]
        });
}

#[test]
fn einsum_that_moves_its_operands_and_its_output() {
    let steps: &[Step<'_>] = &[
        &[&[2, 3, 5, 8], &[2, 4, 5, 8]],
        &[&[1, 7, 2, 8], &[1, 3, 2, 8]],
        &[&[1, 7, 2, 8], &[1, 3, 2, 8]],
        &[&[2, 3, 5, 8], &[2, 4, 5, 8]],
    ];
    Layer::new("Einsum", 12)
        .attr("equation", "bihd,bjhd->ijbh".into())
        .dynamic(&[-1, -1, -1, 8])
        .dynamic(&[-1, -1, -1, 8])
        .check(steps, |x| {
            let [left, right] = [0, 1].map(|at| Array::of(&x[at]));
            let product = matmul(&transpose(&left, &[0, 2, 1, 3]), &transpose(&right, &[0, 2, 3, 1]));
            vec![transpose(&product, &[2, 3, 0, 1]).tensor()]
        });
}

#[test]
fn matmul_by_weights_in_lower_precision() {
    let steps: &[Step<'_>] = &[&[&[2, 3, 29]], &[&[1, 1, 29]], &[&[1, 1, 29]], &[&[1, 50, 29]], &[&[2, 3, 29]]];
    for n in [1, 8, 19, 70] {
        Layer::new("MatMul", 13)
            .dynamic(&[-1, -1, 29])
            .weights(&[29, n])
            .halved(1)
            .check(steps, |x| vec![matmul(&Array::of(&x[0]), &Array::of(&x[1])).tensor()]);
    }
}

#[test]
fn gemm_by_weights_in_lower_precision_adds_its_bias_in_full() {
    let steps: &[Step<'_>] = &[&[&[4, 12]], &[&[9, 12]], &[&[9, 12]], &[&[4, 12]]];
    Layer::new("Gemm", 13).int("transB", 1).dynamic(&[-1, 12]).weights(&[15, 12]).weights(&[15]).halved(1).check(
        steps,
        |x| {
            let product = matmul(&Array::of(&x[0]), &transpose(&Array::of(&x[1]), &[1, 0]));
            let bias = Array::of(&x[2]);
            vec![build(&product.shape, |at| product.get(at) + bias.broadcast(at)).tensor()]
        },
    );
}
