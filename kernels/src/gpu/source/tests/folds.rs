//! Poolings and reductions against the references.

use super::super::testing::{near, numbers, run_f32};
use super::*;
use crate::cpu::pool::{PoolShape, Window};
use crate::cpu::reduce::{Fold, Map, PostOp};
use crate::reference;

/// Two images of three channels with that many axes, all alike except the last, which is one longer.
pub(super) fn images(axes: usize, size: u64, kernel: u64, stride: u64, dilation: u64, pad: u64) -> PoolShape {
    let axis = |input: u64| {
        let window = Window { input, output: 0, kernel, stride, dilation, before: pad, after: pad };
        // One window more than fits, as where the output's size is rounded up.
        Window { output: (input + 2 * pad).saturating_sub(window.span()) / stride + 2, ..window }
    };
    let mut all = [Window::NONE; 3];
    all[3 - axes..].fill(axis(size));
    all[2] = axis(size + 1);
    PoolShape { batch: 2, channels: 3, axes: all, channels_last: false }
}

#[test]
fn poolings_are_those_of_the_reference() {
    let cases: &[(usize, u64, u64, u64, u64, u64)] = &[
        (1, 1, 1, 1, 1, 0),
        (1, 37, 3, 2, 1, 1),
        (1, 17, 3, 1, 4, 2),
        (2, 7, 2, 2, 1, 0),
        (2, 13, 3, 2, 1, 1),
        (2, 11, 3, 3, 2, 2),
        (2, 3, 5, 1, 1, 4),
        (3, 5, 2, 1, 2, 1),
        (3, 6, 3, 2, 1, 1),
    ];
    let kinds = [PoolKind::Max, PoolKind::Average { include_pad: true }, PoolKind::Average { include_pad: false }];
    for &(axes, size, kernel, stride, dilation, pad) in cases {
        let shape = images(axes, size, kernel, stride, dilation, pad);
        let mut x = numbers(shape.inputs(), 31);
        x[0] = f32::NAN;
        for kind in kinds {
            let mut wanted = vec![0.0; shape.outputs()];
            reference::pool::pool(kind, &shape, &x, &mut wanted);
            let kernel = PoolKernel::new(kind, &shape).unwrap();
            near(&run_f32(&kernel, &[Some(&x)], wanted.len()), &wanted, 16.0, 1.0, &(kind, shape));
        }
    }
}

#[test]
fn axes_with_paddings_of_their_own_and_nothing_at_all_are_pooled() {
    let mut shape = images(2, 9, 3, 2, 1, 0);
    shape.axes[1] = Window { before: 2, after: 1, kernel: 4, ..shape.axes[1] };
    let x = numbers(shape.inputs(), 32);
    let mut wanted = vec![0.0; shape.outputs()];
    reference::pool::pool(PoolKind::Max, &shape, &x, &mut wanted);
    let kernel = PoolKernel::new(PoolKind::Max, &shape).unwrap();
    near(&run_f32(&kernel, &[Some(&x)], wanted.len()), &wanted, 0.0, 1.0, &shape);
    shape.batch = 0;
    assert!(run_f32(&PoolKernel::new(PoolKind::Max, &shape).unwrap(), &[Some(&[])], 0).is_empty());
}

#[test]
fn poolings_that_it_has_not_are_refused() {
    let shape = images(2, 9, 3, 2, 1, 0);
    assert!(PoolKernel::new(PoolKind::Lp { p: 2 }, &shape).is_err());
    assert!(PoolKernel::new(PoolKind::Max, &PoolShape { channels_last: true, ..shape }).is_err());
}

#[test]
fn reductions_are_those_of_the_reference() {
    let cases: &[(u64, u64, u64)] = &[
        (1, 1, 1),
        (0, 5, 1),
        (3, 0, 1),
        (3, 0, 2),
        (13, 7, 1),
        (3, 1024, 1),
        (2, 5003, 1),
        (2, 7, 5),
        (3, 31, 40),
        (2, 101, 1),
        (2, 101, 33),
        (1, 1000, 70),
        (3, 64, 2),
    ];
    for &(outer, length, inner) in cases {
        let [rows, count, columns] = [outer, length, inner].map(|size| size as usize);
        // Products stay near one, and logarithms have positive arguments.
        let x: Vec<f32> = numbers(rows * count * columns, 41).iter().map(|x| 1.0 + x.abs() / 4096.0).collect();
        for reduction in Reduction::ALL {
            let mut wanted = vec![reduction.of_nothing(); rows * columns];
            if count > 0 {
                let scale = if reduction == Reduction::Mean { 1.0 / count as f32 } else { 1.0 };
                for (from, to) in x.chunks(count * columns).zip(wanted.chunks_mut(columns)) {
                    reference::reduce::reduce(reduction.pass(), scale, from, columns, count, to);
                }
            }
            let kernel = ReduceKernel::of(reduction, outer, length, inner).unwrap();
            near(&run_f32(&kernel, &[Some(&x)], wanted.len()), &wanted, 64.0, 1e-3, &(reduction, &kernel));
        }
    }
}

#[test]
fn nan_and_infinities_are_reduced_as_the_reference_does() {
    let rows = [
        [1.0, f32::NAN, 3.0, -5.0],
        [f32::NEG_INFINITY; 4],
        [1.0, f32::INFINITY, 2.0, 3.0],
        [500.0, 501.0, -1000.0, f32::NEG_INFINITY],
    ];
    for reduction in [Reduction::Max, Reduction::Min, Reduction::LogSumExp, Reduction::L1, Reduction::Sum] {
        let wanted: Vec<f32> = rows
            .iter()
            .map(|row| {
                let mut to = [0.0];
                reference::reduce::reduce(reduction.pass(), 1.0, row, 1, 4, &mut to);
                to[0]
            })
            .collect();
        let along = ReduceKernel::of(reduction, 4, 4, 1).unwrap();
        near(&run_f32(&along, &[Some(rows.as_flattened())], 4), &wanted, 4.0, 1.0, &reduction);
        let transposed: Vec<f32> = (0..16).map(|at| rows[at % 4][at / 4]).collect();
        let across = ReduceKernel::of(reduction, 1, 4, 4).unwrap();
        near(&run_f32(&across, &[Some(&transposed)], 4), &wanted, 4.0, 1.0, &reduction);
    }
}

#[test]
fn several_passes_map_first_and_finish_last() {
    // The root of the sum of squares over the first and the last axis of three.
    let x = numbers(5 * 3 * 7, 43);
    let first = ReduceKernel::new(15, 7, 1, Fold::Add, Map::Square, PostOp::None).unwrap();
    let last = ReduceKernel::new(1, 5, 3, Fold::Add, Map::Identity, PostOp::Sqrt).unwrap();
    let between = run_f32(&first, &[Some(&x)], 15);
    let wanted: Vec<f32> = (0..3)
        .map(|middle| {
            let squares = x.iter().enumerate().filter(|(at, _)| at / 7 % 3 == middle).map(|(_, x)| x * x);
            squares.sum::<f32>().sqrt()
        })
        .collect();
    near(&run_f32(&last, &[Some(&between)], 3), &wanted, 8.0, 1.0, &"two passes");
}
