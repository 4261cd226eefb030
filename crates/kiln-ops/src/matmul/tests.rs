//! MatMul, Gemm and the fused product as ONNX and numpy have them.

use std::sync::Arc;

use kiln_kernels::Isa;
use kiln_kernels::cpu::chain::{Program, Storage};
use smallvec::smallvec;

use super::super::trial::Trial;
use super::*;

fn count(shape: &[usize]) -> Vec<f32> {
    (0..shape.iter().product::<usize>()).map(|i| (i % 7) as f32 - 3.0).collect()
}

#[test]
fn vectors_become_matrices_and_batches_broadcast() {
    for (a, b, output) in [
        (&[3][..], &[3][..], &[][..]),
        (&[3], &[3, 4], &[4]),
        (&[2, 3], &[3], &[2]),
        (&[2, 3], &[3, 4], &[2, 4]),
        (&[5, 2, 3], &[3, 4], &[5, 2, 4]),
        (&[5, 2, 3], &[5, 3, 4], &[5, 2, 4]),
        (&[2, 3], &[5, 3, 4], &[5, 2, 4]),
        (&[5, 1, 2, 3], &[4, 3, 2], &[5, 4, 2, 2]),
        (&[6, 5, 2, 3], &[6, 1, 3, 2], &[6, 5, 2, 2]),
        (&[0, 3], &[3, 4], &[0, 4]),
        (&[2, 0], &[0, 4], &[2, 4]),
    ] {
        let trial = Trial::new("MatMul").input(a, &count(a)).input(b, &count(b));
        let outputs = trial.run().unwrap_or_else(|error| panic!("{a:?} {b:?}: {error}"));
        assert_eq!(outputs[0].shape(), output, "{a:?} {b:?}");
        let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<f64>>();
        let trial = Trial::new("MatMul").input(a, &wide(count(a))).input(b, &wide(count(b)));
        let exact = trial.run().unwrap();
        let exact: Vec<f32> = exact[0].as_slice::<f64>().unwrap().iter().map(|&value| value as f32).collect();
        assert_eq!(outputs[0].as_slice::<f32>().unwrap(), exact, "{a:?} {b:?}");
    }
}

#[test]
fn rows_of_f64_are_sums_in_order_however_many_they_are_and_however_stored() {
    [1, 3, 4, 150].into_iter().for_each(rows_of_f64);
}

fn rows_of_f64(m: usize) {
    let (n, k) = (21, 9);
    let number = |at: usize| ((at * 7919 + 13) % 1009) as f64 / 504.5 - 1.0;
    let (left, right) =
        (|row: usize, at: usize| number(row * k + at), |at: usize, column: usize| number(at * n + column));
    let mut expected = Vec::new();
    for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
        // Only the sum is rounded where one instruction multiplies and adds.
        let add = |sum: f64, at: usize| match Isa::detect() >= Isa::Avx2 {
            true => left(row, at).mul_add(right(at, column), sum),
            false => sum + left(row, at) * right(at, column),
        };
        expected.push((0..k).fold(0.0, add));
    }
    for [turned_left, turned_right] in [[0, 0], [1, 0], [0, 1], [1, 1]] {
        let a: Vec<f64> = match turned_left {
            0 => (0..m * k).map(|at| left(at / k, at % k)).collect(),
            _ => (0..m * k).map(|at| left(at % m, at / m)).collect(),
        };
        let b: Vec<f64> = match turned_right {
            0 => (0..k * n).map(|at| right(at / n, at % n)).collect(),
            _ => (0..k * n).map(|at| right(at % k, at / k)).collect(),
        };
        let [a_shape, b_shape] =
            [if turned_left == 0 { [m, k] } else { [k, m] }, if turned_right == 0 { [k, n] } else { [n, k] }];
        let trial = Trial::new("Gemm").int("transA", turned_left).int("transB", turned_right);
        trial.input(&a_shape, &a).input(&b_shape, &b).gives(&[m, n], &expected);
    }
}

#[test]
fn a_known_product() {
    let (a, b) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0f32, 0.0, -1.0, 2.0, 0.5, 1.0]);
    Trial::new("MatMul").input(&[2, 3], &a).input(&[3, 2], &b).gives(&[2, 2], &[0.5f32, 7.0, 2.0, 16.0]);
    let integers = |values: &[f32]| values.iter().map(|&value| (2.0 * value) as i32).collect::<Vec<i32>>();
    let trial = Trial::new("MatMul").input(&[2, 3], &integers(&a)).input(&[3, 2], &integers(&b));
    trial.gives(&[2, 2], &[2i32, 28, 8, 64]);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    for (a, b) in [(&[2, 3][..], &[4, 5][..]), (&[], &[3]), (&[2, 2, 3], &[3, 3, 4]), (&[3], &[4])] {
        let trial = Trial::new("MatMul").input(a, &count(a)).input(b, &count(b));
        trial.is_refused("");
    }
    Trial::new("Gemm").input(&[1, 2, 3], &count(&[6])).input(&[3, 4], &count(&[12])).is_refused("Gemm");
    let trial = Trial::new("Gemm").input(&[2, 3], &count(&[6])).input(&[3, 4], &count(&[12]));
    trial.input(&[3], &count(&[3])).is_refused("cannot be added");
}

#[test]
fn gemm_adds_whatever_broadcasts() {
    let (a, b) = (count(&[3, 4]), count(&[4, 5]));
    for c in [&[][..], &[1], &[5], &[1, 5], &[3, 1], &[3, 5]] {
        for (alpha, beta) in [(1.0, 1.0), (0.5, 2.0), (1.0, 0.0), (2.0, 1.0)] {
            for (trans_a, trans_b) in [(false, false), (true, false), (false, true), (true, true)] {
                let transpose = |from: &[f32], rows: usize, columns: usize| -> Vec<f32> {
                    (0..rows * columns).map(|i| from[i % rows * columns + i / rows]).collect()
                };
                let mut trial = Trial::new("Gemm")
                    .attr("alpha", Attr::Float(alpha))
                    .attr("beta", Attr::Float(beta))
                    .int("transA", i64::from(trans_a))
                    .int("transB", i64::from(trans_b));
                trial = if trans_a { trial.input(&[4, 3], &transpose(&a, 3, 4)) } else { trial.input(&[3, 4], &a) };
                trial = if trans_b { trial.input(&[5, 4], &transpose(&b, 4, 5)) } else { trial.input(&[4, 5], &b) };
                let third: Vec<f32> = count(c).iter().map(|value| value + 1.0).collect();
                let mut expected = vec![0.0; 15];
                for (index, value) in expected.iter_mut().enumerate() {
                    let (row, column) = (index / 5, index % 5);
                    let product: f32 = (0..4).map(|k| a[row * 4 + k] * b[k * 5 + column]).sum();
                    let at = match c {
                        [] | [1] => 0,
                        [5] | [1, 5] => column,
                        [3, 1] => row,
                        _ => index,
                    };
                    *value = alpha * product + beta * third[at];
                }
                trial.input(c, &third).gives(&[3, 5], &expected);
            }
        }
    }
    Trial::new("Gemm").input(&[1, 2], &[1.0f32, 2.0]).input(&[2, 1], &[3.0f32, 4.0]).gives(&[1, 1], &[11.0f32]);
}

#[test]
fn gemm_of_integers_is_cut_off_once_and_wraps() {
    let gemm = |alpha, beta| {
        let trial = Trial::new("Gemm").attr("alpha", Attr::Float(alpha)).attr("beta", Attr::Float(beta));
        trial.input(&[1, 1], &[3i32]).input(&[1, 1], &[1i32]).input(&[1], &[5i32])
    };
    // 1.5 and 2.5 are 4, not 1 and 2.
    gemm(0.5, 0.5).gives(&[1, 1], &[4]);
    gemm(-0.5, 0.0).gives(&[1, 1], &[-1]);
    let large = |beta, third: i64| {
        let trial = Trial::new("Gemm").attr("beta", Attr::Float(beta)).input(&[1, 1], &[i64::MAX]);
        trial.input(&[1, 1], &[1i64]).input(&[1], &[third])
    };
    large(1.0, 2).gives(&[1, 1], &[i64::MIN + 1]);
    large(0.0, 7).gives(&[1, 1], &[i64::MAX]);
}

#[test]
fn a_fused_product_adds_bias_and_residual_before_the_activation() {
    let relu =
        Program { inputs: smallvec![Storage::F32], steps: vec![Step::Unary(UnaryOp::Relu, 0)], output: Storage::F32 };
    let fused = |trial: Trial| trial.made_by(make_fused);
    let trial = fused(Trial::new("FusedMatMul").attr("activation", Attr::Chain(Arc::new(relu))).int("trans_b", 1));
    let trial = trial.input(&[2, 2], &[1.0f32, 2.0, -3.0, 1.0]).input(&[2, 2], &[1.0f32, 1.0, 2.0, 0.0]);
    // The products are 3, 2, -2 and -6.
    let with_bias = trial.input(&[2], &[0.5f32, -4.0]);
    with_bias.gives(&[2, 2], &[3.5f32, 0.0, 0.0, 0.0]);
    with_bias.input(&[2, 2], &[0.0f32, 3.0, 2.0, 11.0]).gives(&[2, 2], &[3.5f32, 1.0, 0.5, 1.0]);
    let scaled = fused(Trial::new("FusedMatMul").attr("alpha", Attr::Float(0.5)));
    scaled.input(&[1, 1], &[3.0f32]).input(&[1, 1], &[5.0f32]).gives(&[1, 1], &[7.5f32]);
}
