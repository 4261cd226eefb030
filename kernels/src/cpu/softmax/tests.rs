//! Softmax and its logarithm at every level against the reference, with canaries around the output and NaN around the
//! input.

use super::*;
use crate::cpu::EmitEach;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, integers, levels};

fn around(outer: usize, length: usize, inner: usize) -> Around {
    Around { outer: outer as u64, length: length as u64, inner: inner as u64 }
}

/// Runs into another buffer and in place, which must agree to the bit.
fn run(around: Around, logarithm: bool, input: &[f32], isa: Isa, tasks: usize) -> Vec<f32> {
    let softmax = Softmax::new(around, logarithm, isa, tasks, &EmitEach).unwrap();
    let mut output = Canaried::new(input.len());
    softmax.run(Poisoned::new(input).inside(), output.inside(), &Scoped).unwrap();
    let output = output.open();
    let mut place = Canaried::new(input.len());
    place.inside().copy_from_slice(input);
    softmax.run_in_place(place.inside(), &Scoped).unwrap();
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&output), bits(&place.open()), "{around:?} at {isa}: in place");
    output
}

#[track_caller]
fn check(shape: Around, logarithm: bool, input: &[f32], isa: Isa, tasks: usize) {
    let found = run(shape, logarithm, input, isa, tasks);
    let each = shape.length() * shape.inner();
    let mut want = vec![0.0; input.len()];
    for (input, want) in input.chunks_exact(each).zip(want.chunks_exact_mut(each)) {
        reference::softmax::softmax(logarithm, input, shape.inner(), shape.length(), shape.inner(), want);
    }
    for (at, (&found, &want)) in found.iter().zip(&want).enumerate() {
        // A logarithm is a difference of two numbers, and its error is that of the larger number.
        let bound = if logarithm { 3e-6 + 3e-7 * want.abs() } else { 2e-6 * want.abs() + 1e-37 };
        let same = found == want || found.is_nan() && want.is_nan();
        let place = format!("{shape:?} at {isa}, logarithm {logarithm}, element {at}");
        assert!(same || (found - want).abs() <= bound, "{place}: {found} for {want}");
    }
}

/// Values whose exponentials lie several decades apart.
fn values(count: usize) -> Vec<f32> {
    integers(count, 3).iter().enumerate().map(|(at, x)| 5.0 * x + at as f32 % 17.0 / 16.0).collect()
}

#[test]
fn rows_and_columns_of_any_length_sum_to_one() {
    for isa in levels() {
        for logarithm in [false, true] {
            for length in [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 100, 129] {
                for (outer, inner) in [(1, 1), (5, 1), (2, 3), (1, 16), (1, 33), (3, 70)] {
                    let shape = around(outer, length, inner);
                    let input = values(outer * length * inner);
                    check(shape, logarithm, &input, isa, 1 + length % 4);
                }
            }
        }
    }
}

/// Arrays that are turned, in blocks of both sizes, in one block, and in fewer blocks than tasks.
#[test]
fn short_rows_and_few_columns_sum_to_one() {
    for isa in levels() {
        for logarithm in [false, true] {
            for length in [2, 3, 7, 8, 17, 20, 21, 63, 64, 90] {
                for (outer, inner) in [(1, 2), (2, 4), (3, 7), (16, 3), (37, 5), (70, 2), (48, 1), (131, 1), (5000, 1)]
                {
                    let shape = around(outer, length, inner);
                    let input = values(outer * length * inner);
                    check(shape, logarithm, &input, isa, 1 + length % 3);
                }
            }
        }
    }
}

#[test]
fn numbers_of_any_size_neither_overflow_nor_disturb_their_neighbours() {
    let rows: [&[f32]; 6] = [
        &[1e30, -1e30, 1e30],
        &[-500.0, -501.0, -600.0],
        &[88.0, 0.0, -88.0, -104.0],
        &[f32::NEG_INFINITY, 0.0, 1.0],
        &[0.0, -87.0, -87.5, -200.0, -1e38],
        &[-3e38; 9],
    ];
    for isa in levels() {
        for row in rows {
            for logarithm in [false, true] {
                check(around(1, row.len(), 1), logarithm, row, isa, 1);
                let columns: Vec<f32> = row.iter().flat_map(|&x| [x, 0.0]).collect();
                check(around(1, row.len(), 2), logarithm, &columns, isa, 1);
                check(around(50, row.len(), 1), logarithm, &row.repeat(50), isa, 1);
                check(around(50, row.len(), 2), logarithm, &columns.repeat(50), isa, 1);
            }
        }
    }
}

#[test]
fn nan_and_infinities_that_cancel_make_nan_of_their_row_alone() {
    for isa in levels() {
        for special in [f32::NAN, f32::INFINITY] {
            for at in [0, 5, 12] {
                let mut input = values(3 * 13);
                input[13 + at] = special;
                let found = run(around(3, 13, 1), false, &input, isa, 1);
                assert!(found[13..26].iter().any(|x| x.is_nan()), "{special} at {at} at {isa}");
                assert!(found[..13].iter().chain(&found[26..]).all(|x| x.is_finite()), "{special} at {at} at {isa}");
            }
        }
        assert!(run(around(1, 9, 1), false, &[f32::NEG_INFINITY; 9], isa, 1).iter().all(|x| x.is_nan()));
    }
}

#[test]
fn small_buffers_are_refused_and_empty_ones_are_done() {
    for isa in levels() {
        let softmax = Softmax::new(around(2, 3, 1), false, isa, 1, &EmitEach).unwrap();
        let refused = softmax.run(&[0.0; 5], &mut [0.0; 6], &Scoped);
        assert!(matches!(refused, Err(KernelError::Bounds { operand: "input", .. })));
        let refused = softmax.run_in_place(&mut [0.0; 5], &Scoped);
        assert!(matches!(refused, Err(KernelError::Bounds { operand: "data", .. })));
        for empty in [around(0, 3, 1), around(3, 0, 1), around(usize::MAX / 8, 1, 0)] {
            Softmax::new(empty, false, isa, 1, &EmitEach).unwrap().run(&[], &mut [], &Scoped).unwrap();
        }
        let huge = Softmax::new(around(usize::MAX, 2, 1), false, isa, 1, &EmitEach);
        assert!(matches!(huge, Err(KernelError::Unsupported { .. })));
    }
}
