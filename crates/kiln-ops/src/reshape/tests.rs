//! The shapes that Reshape and its relatives give, and their refusals.

use kiln_tensor::Tensor;

use crate::trial::Trial;

fn ramp(shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::from_vec(shape.iter().copied(), (0..count).map(|i| i as f32).collect()).unwrap()
}

#[test]
fn reshape_resolves_zero_and_minus_one() {
    let cases: &[(&[usize], &[i64], i64, Option<&[usize]>)] = &[
        (&[2, 3], &[3, 2], 0, Some(&[3, 2])),
        (&[2, 3], &[-1], 0, Some(&[6])),
        (&[2, 3], &[0, -1], 0, Some(&[2, 3])),
        (&[2, 3, 4], &[0, 2, -1, 0], 0, None),
        (&[2, 3, 4], &[0, 2, -1], 0, Some(&[2, 2, 6])),
        (&[1], &[], 0, Some(&[])),
        (&[0, 3], &[3, 0], 1, Some(&[3, 0])),
        (&[0, 3], &[0, 5], 0, Some(&[0, 5])),
        (&[2, 3], &[4, 2], 0, None),
        (&[2, 3], &[-1, 4], 0, None),
        (&[2, 3], &[-1, -1], 0, None),
        (&[2, 3], &[-2, -3], 0, None),
        (&[2, 3], &[2, 3, 0], 0, None),
        (&[0, 3], &[-1, 3], 0, Some(&[0, 3])),
        (&[0, 3], &[0, -1], 0, Some(&[0, 3])),
        (&[0, 3, 4], &[0, -1], 0, Some(&[0, 12])),
        (&[0, 3, 1], &[0, 1, -1], 0, Some(&[0, 1, 3])),
        (&[2, 0, 4], &[2, 0, -1], 0, Some(&[2, 0, 4])),
        (&[0, 3], &[0, 2, -1], 0, None),
        // Invalid by the standard, but what exporters write for every batch.
        (&[0, 3], &[0, -1], 1, Some(&[0, 3])),
        (&[0, 4, 2], &[0, 1, 4, -1], 1, Some(&[0, 1, 4, 2])),
        (&[0, 4], &[-1, 0], 1, Some(&[4, 0])),
        (&[3, 0, 0], &[0, -1], 1, Some(&[0, 3])),
        (&[0, 3], &[0, 2, -1], 1, None),
        (&[2, 3], &[0, -1], 1, None),
        (&[2, 3], &[0, 0, -1], 0, Some(&[2, 3, 1])),
        (&[4], &[i64::MAX, 4], 0, None),
        (&[4], &[i64::MIN, 4], 0, None),
    ];
    for &(from, target, allow_zero, expected) in cases {
        let trial = Trial::new("Reshape").int("allowzero", allow_zero).tensor(ramp(from));
        let trial = trial.input(&[target.len()], target);
        let found = trial.run();
        match expected {
            Some(shape) => assert_eq!(found.unwrap()[0].shape(), shape, "{from:?} to {target:?}"),
            None => assert!(found.is_err(), "{from:?} to {target:?} gave {found:?}"),
        }
    }
}

#[test]
fn reshaping_copies_nothing() {
    let input = ramp(&[4, 6]);
    let trial = Trial::new("Reshape").tensor(input.clone()).input(&[1], &[24i64]);
    assert!(trial.run().unwrap()[0].shares_bytes(&input));
}

#[test]
fn flatten_splits_the_axes_in_two() {
    for (axis, expected) in [(0, [1, 24]), (1, [2, 12]), (2, [6, 4]), (3, [24, 1]), (-1, [6, 4]), (-3, [1, 24])] {
        let output = Trial::new("Flatten").int("axis", axis).tensor(ramp(&[2, 3, 4])).run().unwrap();
        assert_eq!(output[0].shape(), expected, "axis {axis}");
    }
    Trial::new("Flatten").int("axis", 4).tensor(ramp(&[2, 3, 4])).is_refused("axis 4");
    Trial::new("Flatten").int("axis", 0).tensor(ramp(&[])).gives(&[1, 1], &[0f32]);
}

#[test]
fn squeeze_and_unsqueeze_take_axes_as_attribute_or_input() {
    Trial::new("Squeeze").tensor(ramp(&[1, 3, 1])).gives(&[3], &[0f32, 1.0, 2.0]);
    Trial::new("Squeeze").ints("axes", &[-1]).version(11).tensor(ramp(&[1, 3, 1])).gives(&[1, 3], &[0f32, 1.0, 2.0]);
    Trial::new("Squeeze").tensor(ramp(&[1, 3])).input(&[1], &[0i64]).gives(&[3], &[0f32, 1.0, 2.0]);
    Trial::new("Squeeze").tensor(ramp(&[1, 3])).input(&[1], &[1i64]).is_refused("is not 1");
    Trial::new("Unsqueeze").ints("axes", &[0, -1]).version(11).tensor(ramp(&[2])).gives(&[1, 2, 1], &[0f32, 1.0]);
    Trial::new("Unsqueeze").tensor(ramp(&[2])).input(&[2], &[2i64, 0]).gives(&[1, 2, 1], &[0f32, 1.0]);
    Trial::new("Unsqueeze").tensor(ramp(&[2])).input(&[], &[1i64]).gives(&[2, 1], &[0f32, 1.0]);
    Trial::new("Unsqueeze").tensor(ramp(&[2])).input(&[2], &[0i64, -3]).is_refused("twice");
    Trial::new("Unsqueeze").tensor(ramp(&[2])).input(&[1], &[i64::MIN]).is_refused("axis");
    Trial::new("Unsqueeze").tensor(ramp(&[2])).is_refused("no axes");
}
