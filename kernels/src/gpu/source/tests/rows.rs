//! Softmaxes and normalisations against the references.

use super::super::testing::{near, numbers, run_f32};
use super::*;
use crate::cpu::norm::Moments;
use crate::reference;

#[test]
fn softmaxes_are_those_of_the_reference() {
    let cases: &[(u64, u64, u64)] = &[
        (1, 1, 1),
        (3, 0, 2),
        (0, 5, 1),
        (19, 7, 1),
        (3, 33, 1),
        (2, 1000, 1),
        (3, 1025, 1),
        (1, 5003, 1),
        (2, 5, 3),
        (1, 21, 300),
    ];
    for &(outer, length, inner) in cases {
        let [rows, count, columns] = [outer, length, inner].map(|size| size as usize);
        let mut x = numbers(rows * count * columns, 11);
        // A row far away from zero would overflow if its largest element were not subtracted.
        x.iter_mut().take(count * columns).for_each(|x| *x += 500.0);
        for logarithm in [false, true] {
            let mut wanted = vec![0.0; x.len()];
            let slice = (count * columns).max(1);
            for (from, to) in x.chunks(slice).zip(wanted.chunks_mut(slice)) {
                reference::softmax::softmax(logarithm, from, columns, count, columns, to);
            }
            let kernel = SoftmaxKernel::new(outer, length, inner, logarithm).unwrap();
            near(&run_f32(&kernel, &[Some(&x)], x.len()), &wanted, 64.0, 1e-3, &kernel);
        }
    }
}

#[test]
fn a_softmax_of_no_numbers_has_none() {
    let kernel = SoftmaxKernel::new(3, 5, 1, false).unwrap();
    let mut x = numbers(15, 2);
    x[2] = f32::NAN;
    x[7] = f32::NEG_INFINITY;
    x[10..].fill(f32::NEG_INFINITY);
    let y = run_f32(&kernel, &[Some(&x)], 15);
    assert!(y[..5].iter().all(|y| y.is_nan()), "{y:?}");
    assert!(y[5..10].iter().all(|y| y.is_finite()) && y[7] == 0.0, "{y:?}");
    assert!(y[10..].iter().all(|y| y.is_nan()), "{y:?}");
}

/// The formula, in double precision.
fn normalised(x: &[f32], length: usize, moments: Moments, scale: impl Fn(usize, usize) -> (f64, f64)) -> Vec<f32> {
    let row = |(row, values): (usize, &[f32])| {
        let (mean, deviation) = reference::norm::moments(values.iter(), moments.centred, moments.epsilon);
        let scaled = values.iter().enumerate().map(|(at, &x)| {
            let (scale, bias) = scale(row, at);
            ((f64::from(x) - mean) * deviation * scale + bias) as f32
        });
        scaled.collect::<Vec<f32>>()
    };
    x.chunks(length.max(1)).enumerate().flat_map(row).collect()
}

#[test]
fn normalisations_are_those_of_the_formula() {
    // Rows, length, period, neighbours that share a scale: layer, instance and group normalisation among them.
    let cases: &[(u64, u64, u64, u64)] = &[
        (1, 1, 1, 1),
        (5, 0, 1, 1),
        (0, 7, 1, 1),
        (37, 12, 1, 1),
        (3, 768, 1, 1),
        (2, 1025, 1, 1),
        (6, 49, 3, 49),
        (6, 3136, 3, 3136),
        (4, 30, 2, 10),
        (4, 3000, 2, 600),
    ];
    for &(rows, length, period, step) in cases {
        for (centred, scaled, biased) in [(true, true, true), (false, true, false), (true, false, false)] {
            let x: Vec<f32> = numbers((rows * length) as usize, 21).iter().map(|x| x + 100.0).collect();
            let each = (length / step) as usize;
            let (scale, bias) = (numbers(period as usize * each, 22), numbers(period as usize * each, 23));
            let wanted = normalised(&x, length as usize, Moments { epsilon: 1e-5, centred }, |row, at| {
                let of = row % period as usize * each + at / step as usize;
                (if scaled { scale[of].into() } else { 1.0 }, if biased { bias[of].into() } else { 0.0 })
            });
            let scaling = scaled.then_some(Scaling { period, step });
            let kernel = RowNormKernel::new(rows, length, 1e-5, centred, scaling, biased).unwrap();
            let given = run_f32(&kernel, &[Some(&x), scaled.then_some(&scale), biased.then_some(&bias)], x.len());
            // Numbers near 100 less their mean are about 2, and have the last digit of numbers near 100.
            near(&given, &wanted, 512.0, 1.0, &kernel);
        }
    }
}

#[test]
fn normalisations_that_do_not_fit_are_refused() {
    assert!(RowNormKernel::new(2, 10, 1e-5, true, None, true).is_err());
    for (period, step) in [(0, 1), (1, 0), (1, 3)] {
        assert!(RowNormKernel::new(2, 10, 1e-5, true, Some(Scaling { period, step }), false).is_err());
    }
    assert!(SoftmaxKernel::new(1 << 40, 1 << 40, 1, false).is_err());
}
