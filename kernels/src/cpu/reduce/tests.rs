//! Every reduction at every level against its definition in `f64`, with canaries around the output and NaN around the
//! input.

use super::*;
use crate::cpu::EmitEach;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, integers, levels};

/// The definition: `values` are the elements that one element of the output is folded from.
fn defined(reduction: Reduction, values: &[f64]) -> f64 {
    let sum = |term: fn(f64) -> f64| values.iter().map(|&x| term(x)).sum::<f64>();
    let extreme = |better: fn(f64, f64) -> bool, first: f64| {
        values.iter().fold(first, |best, &x| if x.is_nan() || better(x, best) { x } else { best })
    };
    match reduction {
        Reduction::Sum => sum(|x| x),
        Reduction::Mean => sum(|x| x) / values.len() as f64,
        Reduction::Max => extreme(|x, best| x > best, f64::NEG_INFINITY),
        Reduction::Min => extreme(|x, best| x < best, f64::INFINITY),
        Reduction::Prod => values.iter().product(),
        Reduction::SumSquare => sum(|x| x * x),
        Reduction::L1 => sum(f64::abs),
        Reduction::L2 => sum(|x| x * x).sqrt(),
        Reduction::LogSum => sum(|x| x).ln(),
        Reduction::LogSumExp => {
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let least = if most.is_infinite() { 0.0 } else { most };
            values.iter().map(|x| (x - least).exp()).sum::<f64>().ln() + least
        }
    }
}

/// The elements that each element of the output is folded from, by a loop over all elements.
fn gathered(shape: &[usize], axes: &[usize], input: &[f32]) -> Vec<Vec<f64>> {
    let kept = |axis: &usize| !axes.contains(axis);
    let count = (0..shape.len()).filter(kept).map(|axis| shape[axis]).product();
    let mut groups = vec![vec![]; count];
    for (flat, &x) in input.iter().enumerate() {
        let (mut rest, mut to, mut step) = (flat, 0, 1);
        for axis in (0..shape.len()).rev() {
            if kept(&axis) {
                to += rest % shape[axis] * step;
                step *= shape[axis];
            }
            rest /= shape[axis];
        }
        groups[to].push(f64::from(x));
    }
    groups
}

fn run(reduction: Reduction, shape: &[usize], axes: &[usize], input: &[f32], isa: Isa, tasks: usize) -> Vec<f32> {
    let collapsed = Collapsed::new(shape, |axis| axes.contains(&axis));
    let reduce = Reduce::new(reduction, &collapsed, isa, tasks, &EmitEach).unwrap();
    let input = Poisoned::new(input);
    let (mut output, mut scratch) = (Canaried::new(collapsed.output_len()), Canaried::new(reduce.scratch_len()));
    reduce.run(input.inside(), output.inside(), scratch.inside(), &Scoped).unwrap();
    scratch.open();
    output.open()
}

#[track_caller]
fn check(reduction: Reduction, shape: &[usize], axes: &[usize], input: &[f32], isa: Isa, tasks: usize) {
    let found = run(reduction, shape, axes, input, isa, tasks);
    for (at, (&found, values)) in found.iter().zip(gathered(shape, axes, input)).enumerate() {
        let want = defined(reduction, &values);
        // Sums are as accurate as their largest terms allow; the logarithm magnifies their error near zero.
        let scale = values.iter().map(|x| x.abs()).fold(want.abs(), f64::max).max(1e-6);
        let near = (f64::from(found) - want).abs() <= 4e-6 * scale * (values.len() as f64).sqrt().max(1.0);
        let same = f64::from(found) == want || found.is_nan() && want.is_nan();
        let place = format!("{reduction:?} of {shape:?} over {axes:?} at {isa}, element {at} of {tasks} tasks");
        assert!(near || same, "{place}: {found} for {want}");
    }
}

/// Positive numbers around 1, so that products and logarithms stay in a range that can be compared.
fn values(count: usize) -> Vec<f32> {
    integers(count, 7).iter().enumerate().map(|(at, x)| 1.0 + x / 64.0 + at as f32 % 13.0 / 512.0).collect()
}

#[test]
fn every_reduction_of_rows_and_columns_of_any_length() {
    for isa in levels() {
        for reduction in Reduction::ALL {
            for length in [1, 2, 7, 8, 9, 16, 31, 32, 33, 64, 100, 129] {
                let input = values(3 * length * 5);
                check(reduction, &[3 * 5, length], &[1], &input, isa, 2);
                check(reduction, &[length, 3 * 5], &[0], &input, isa, 2);
                check(reduction, &[5, 3, length], &[1], &input, isa, 3);
                check(reduction, &[1, 3, length], &[1], &input[..3 * length], isa, 7);
            }
        }
    }
}

#[test]
fn many_short_rows_are_folded_side_by_side() {
    for isa in levels() {
        for reduction in Reduction::ALL {
            for (rows, length) in [(50, 3), (300, 2), (1031, 8), (777, 20), (3001, 5)] {
                let input = values(rows * length);
                check(reduction, &[rows, length], &[1], &input, isa, 1);
                check(reduction, &[rows, length], &[1], &input, isa, 3);
            }
        }
    }
}

#[test]
fn long_columns_of_long_rows_are_folded_in_the_order_of_memory() {
    let (rows, columns) = (521, 259);
    let mut input = values(rows * columns);
    input[300 * columns + 258] = f32::NAN;
    for isa in levels() {
        for reduction in [Reduction::Sum, Reduction::Max, Reduction::L2, Reduction::LogSum] {
            check(reduction, &[rows, columns], &[0], &input, isa, 1);
            check(reduction, &[rows, columns], &[0], &input, isa, 3);
        }
    }
}

#[test]
fn any_axes_of_any_shape() {
    let cases: &[(&[usize], &[usize])] = &[
        (&[], &[]),
        (&[1], &[0]),
        (&[7], &[]),
        (&[4, 3, 5], &[0, 2]),
        (&[4, 3, 5, 2], &[1, 3]),
        (&[2, 3, 2, 3, 4], &[0, 2, 4]),
        (&[3, 1, 40], &[0, 1]),
        (&[2, 70, 3, 20], &[1, 2]),
    ];
    for isa in levels() {
        for reduction in Reduction::ALL {
            for (shape, axes) in cases {
                let input = values(shape.iter().product());
                for tasks in [1, 5] {
                    check(reduction, shape, axes, &input, isa, tasks);
                }
            }
        }
    }
}

#[test]
fn long_sums_stay_accurate() {
    let count = 300_000;
    let input = vec![0.1f32; count];
    for isa in levels().into_iter().filter(|&isa| isa <= Isa::detect()) {
        for (shape, axes) in [([1, count], [1]), ([count / 3, 3], [0])] {
            for sum in run(Reduction::Mean, &shape, &axes, &input, isa, 2) {
                // A single chain of additions would be off by one part in a hundred.
                assert!((f64::from(sum) - f64::from(0.1f32)).abs() < 3e-7, "{shape:?} at {isa}: {sum}");
            }
        }
    }
}

#[test]
fn nan_wins_wherever_it_stands_and_infinities_count() {
    for isa in levels() {
        for reduction in [Reduction::Max, Reduction::Min, Reduction::Sum, Reduction::LogSumExp] {
            for length in [3, 8, 45] {
                for at in [0, length / 2, length - 1] {
                    for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                        let mut input = values(length);
                        input[at] = special;
                        check(reduction, &[length], &[0], &input, isa, 1);
                        let wide: Vec<f32> = input.iter().flat_map(|&x| [1.0, x, -1.0]).collect();
                        check(reduction, &[length, 3], &[0], &wide, isa, 1);
                    }
                }
            }
            let all = vec![f32::NEG_INFINITY; 40];
            check(reduction, &[40], &[0], &all, isa, 1);
            check(reduction, &[4, 10], &[0], &all, isa, 1);
        }
    }
}

#[test]
fn nothing_is_reduced_to_the_neutral_element_and_small_buffers_are_refused() {
    for isa in levels() {
        for reduction in Reduction::ALL {
            let found = run(reduction, &[2, 0], &[1], &[], isa, 1);
            let want = reduction.of_nothing();
            assert!(found.iter().all(|x| x.to_bits() == want.to_bits()), "{reduction:?}: {found:?}");
        }
        let collapsed = Collapsed::new(&[2, 3], |axis| axis == 1);
        let reduce = Reduce::new(Reduction::Sum, &collapsed, isa, 1, &EmitEach).unwrap();
        let refused = reduce.run(&[0.0; 5], &mut [0.0; 2], &mut [], &Scoped);
        assert!(matches!(refused, Err(KernelError::Bounds { operand: "input", .. })));
        let refused = reduce.run(&[0.0; 6], &mut [0.0; 1], &mut [], &Scoped);
        assert!(matches!(refused, Err(KernelError::Bounds { operand: "output", .. })));
    }
}
