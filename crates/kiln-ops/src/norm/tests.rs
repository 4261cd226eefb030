//! Rows of the normalisations: small numbers whose results can be computed by hand.

use kiln_model::Attr;

use crate::trial::Trial;

/// Without an epsilon to speak of.
fn exact(op: &str) -> Trial {
    Trial::new(op).attr("epsilon", Attr::Float(0.0))
}

#[test]
fn layers_are_normalised_from_the_axis_on() {
    let rows = || exact("LayerNormalization").input(&[2, 2], &[1f32, 3.0, 10.0, 30.0]);
    rows().input(&[2], &[1f32, 2.0]).gives_about(&[2, 2], &[-1., 2., -1., 2.]);
    rows().input(&[2], &[1f32, 1.0]).input(&[2], &[5f32, 6.0]).gives_about(&[2, 2], &[4., 7., 4., 7.]);
    let whole = rows().int("axis", 0).input(&[2, 2], &[1f32; 4]);
    whole.gives_about(&[2, 2], &[-0.872_041, -0.697_633, -0.087_204, 1.656_879]);
    rows().int("axis", 2).input(&[2], &[1f32; 2]).is_refused("axis 2");
    rows().input(&[3], &[1f32; 3]).is_refused("broadcast");
}

#[test]
fn means_and_deviations_are_outputs_too() {
    let rows = exact("LayerNormalization").outputs(3).input(&[2, 2], &[1f32, 3.0, 10.0, 30.0]).input(&[2], &[1f32; 2]);
    let outputs = rows.run().unwrap();
    assert_eq!(outputs[1].shape(), [2, 1]);
    assert_eq!(outputs[1].as_slice::<f32>().unwrap(), [2.0, 20.0]);
    assert_eq!(outputs[2].as_slice::<f32>().unwrap(), [1.0, 0.1]);
}

#[test]
fn scales_of_any_shape_that_broadcasts_are_stretched() {
    let rows = || exact("LayerNormalization").input(&[2, 2], &[1f32, 3.0, 10.0, 30.0]);
    rows().input(&[], &[2f32]).gives_about(&[2, 2], &[-2., 2., -2., 2.]);
    rows().input(&[1, 2], &[2f32, 3.0]).gives_about(&[2, 2], &[-2., 3., -2., 3.]);
    rows().input(&[2, 1], &[2f32, 3.0]).gives_about(&[2, 2], &[-2., 2., -3., 3.]);
    rows().input(&[2, 2], &[1f32, 2.0, 3.0, 4.0]).gives_about(&[2, 2], &[-1., 2., -3., 4.]);
    let one_row = exact("LayerNormalization").input(&[1, 2], &[1f32, 3.0]);
    one_row.input(&[1, 1], &[2f32]).gives_about(&[1, 2], &[-2., 2.]);
}

#[test]
fn root_mean_squares_leave_the_mean_alone() {
    let rows = exact("RMSNormalization").input(&[1, 2], &[1f32, 7.0]).input(&[2], &[1f32, 2.0]);
    rows.gives_about(&[1, 2], &[0.2, 2.8]);
}

#[test]
fn batches_are_normalised_by_known_moments_in_either_layout() {
    let batch = |shape: &[usize], x: &[f32]| {
        let batch = exact("BatchNormalization").input(shape, x).input(&[2], &[1f32, 2.0]).input(&[2], &[0f32, 5.0]);
        batch.input(&[2], &[1f32, 2.0]).input(&[2], &[1f32, 4.0])
    };
    batch(&[1, 2, 2], &[1., 2., 2., 4.]).gives_about(&[1, 2, 2], &[0., 1., 5., 7.]);
    batch(&[1, 2, 2], &[1., 2., 2., 4.]).int("channels_last", 1).gives_about(&[1, 2, 2], &[0., 5., 1., 7.]);
    batch(&[1, 2], &[1., 4.]).gives_about(&[1, 2], &[0., 7.]);
    batch(&[1, 3], &[0.; 3]).is_refused("2 elements for 3 channels");
    batch(&[1, 2], &[1., 4.]).int("spatial", 0).is_refused("spatial");
    batch(&[0, 2, 9], &[]).gives::<f32>(&[0, 2, 9], &[]);
}

#[test]
fn training_takes_the_moments_of_the_batch_and_mixes_them_into_the_running_ones() {
    for (last, x) in [(0, [1f32, 3.0, 10.0, 30.0]), (1, [1f32, 10.0, 3.0, 30.0])] {
        let batch = exact("BatchNormalization").int("training_mode", 1).int("channels_last", last).outputs(3);
        let batch = batch.attr("momentum", Attr::Float(0.5)).input(&[1, 2, 2], &x).input(&[2], &[1f32; 2]);
        let outputs = batch.input(&[2], &[0f32; 2]).input(&[2], &[4f32, 0.0]).input(&[2], &[1f32, 0.0]).run().unwrap();
        let want = if last == 0 { [-1f32, 1.0, -1.0, 1.0] } else { [-1f32, -1.0, 1.0, 1.0] };
        let about = |found: &[f32], want: &[f32]| found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5 * b.abs());
        assert!(about(outputs[0].as_slice().unwrap(), &want));
        assert!(about(outputs[1].as_slice().unwrap(), &[3.0, 10.0]));
        assert!(about(outputs[2].as_slice().unwrap(), &[1.0, 50.0]));
    }
}

#[test]
fn training_before_version_14_gives_the_moments_of_the_batch_too() {
    for wide in [false, true] {
        let trial = Trial::new("BatchNormalization").version(9).int("training_mode", 1).outputs(5);
        let trial = trial.attr("momentum", Attr::Float(0.5)).attr("epsilon", Attr::Float(3.0));
        let input = |trial: Trial, shape: &[usize], values: &[f32]| match wide {
            true => trial.input(shape, &values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>()),
            false => trial.input(shape, values),
        };
        let mut trial = input(trial, &[1, 1, 2], &[1.0, 3.0]);
        for value in [1.0, 0.0, 4.0, 9.0] {
            trial = input(trial, &[1], &[value]);
        }
        let outputs = trial.run().unwrap();
        let found = |at: usize| match wide {
            true => outputs[at].as_slice::<f64>().unwrap()[0] as f32,
            false => outputs[at].as_slice::<f32>().unwrap()[0],
        };
        // The result at 1, the running mean and variance, the batch's mean and 1 / sqrt(variance + epsilon).
        assert_eq!([0, 1, 2, 3, 4].map(found), [-0.5, 3.0, 5.0, 2.0, 0.5]);
    }
}

#[test]
fn instances_and_groups_are_normalised_by_their_own_moments() {
    let numbers = |trial: Trial| trial.input(&[2], &[1f32, 2.0]).input(&[2], &[0f32, 5.0]);
    let instance = || exact("InstanceNormalization").input(&[1, 2, 2], &[1f32, 3.0, 10.0, 30.0]);
    numbers(instance()).gives_about(&[1, 2, 2], &[-1., 1., 3., 7.]);
    let last = exact("InstanceNormalization").int("channels_last", 1).input(&[1, 2, 2], &[1f32, 10.0, 3.0, 30.0]);
    numbers(last).gives_about(&[1, 2, 2], &[-1., 3., 1., 7.]);
    let group = || exact("GroupNormalization").input(&[1, 2, 2], &[1f32, 3.0, 1.0, 3.0]);
    numbers(group().int("num_groups", 1)).gives_about(&[1, 2, 2], &[-1., 1., 3., 7.]);
    let by_group = group().version(18).int("num_groups", 1).input(&[1], &[2f32]).input(&[1], &[1f32]);
    by_group.gives_about(&[1, 2, 2], &[-1., 3., -1., 3.]);
    numbers(group().int("num_groups", 3)).is_refused("equal groups");
    numbers(group()).is_refused("num_groups");
}

#[test]
fn responses_are_normalised_by_the_channels_around() {
    let local = |size| {
        let local = Trial::new("LRN").int("size", size).attr("alpha", Attr::Float(3.0)).attr("beta", Attr::Float(0.5));
        local.attr("bias", Attr::Float(0.0))
    };
    let want = [1.0 / 5f32.sqrt(), 2.0 / 14f32.sqrt(), 3.0 / 13f32.sqrt()];
    local(3).input(&[1, 3, 1], &[1f32, 2.0, 3.0]).gives_about(&[1, 3, 1], &want);
    local(3).int("channels_last", 1).input(&[1, 1, 3], &[1f32, 2.0, 3.0]).gives_about(&[1, 1, 3], &want);
    local(0).input(&[1, 3, 1], &[1f32; 3]).is_refused("size = 0");
}

#[test]
fn any_axes_may_be_normalised_by_mean_and_variance() {
    let x = [1f32, 3.0, 10.0, 30.0];
    let over = |axes: &[i64]| Trial::new("MeanVarianceNormalization").ints("axes", axes).input(&[2, 2], &x);
    over(&[1]).gives_about(&[2, 2], &[-1., 1., -1., 1.]);
    over(&[-2]).gives_about(&[2, 2], &[-1., -1., 1., 1.]);
    let images = Trial::new("MeanVarianceNormalization").input(&[2, 1, 1, 2], &x);
    images.gives_about(&[2, 1, 1, 2], &[-0.872_041, -0.697_633, -0.087_204, 1.656_879]);
    over(&[2]).is_refused("axis 2");
    // Axes that are kept lie before, between and behind those that are not.
    let shape = [2, 3, 4, 5, 6];
    let values: Vec<f32> = (0..720).map(|at| ((at * 37) % 101) as f32).collect();
    for axes in [&[0, 2][..], &[1, 3], &[0, 1, 4], &[2], &[0, 1, 2, 3, 4]] {
        let same = |a: usize, b: usize| {
            let place = |mut at: usize| {
                let mut places = [0; 5];
                shape.iter().zip(&mut places).rev().for_each(|(&dim, place)| (*place, at) = (at % dim, at / dim));
                places
            };
            let (a, b) = (place(a), place(b));
            (0..5).all(|axis| axes.contains(&(axis as i64)) || a[axis] == b[axis])
        };
        let want: Vec<f32> = (0..720)
            .map(|at| {
                let group: Vec<f64> =
                    (0..720).filter(|&other| same(at, other)).map(|at| f64::from(values[at])).collect();
                let mean = group.iter().sum::<f64>() / group.len() as f64;
                let variance = group.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / group.len() as f64;
                ((f64::from(values[at]) - mean) / variance.sqrt()) as f32
            })
            .collect();
        let over = Trial::new("MeanVarianceNormalization").ints("axes", axes).input(&shape, &values);
        over.gives_about(&shape, &want);
    }
}

#[test]
fn vectors_are_divided_by_their_norm_and_zeros_stay() {
    let over =
        |axis, p| Trial::new("LpNormalization").int("axis", axis).int("p", p).input(&[2, 2], &[3f32, 0.0, -4.0, 0.0]);
    over(0, 2).gives_about(&[2, 2], &[0.6, 0., -0.8, 0.]);
    over(-1, 1).gives_about(&[2, 2], &[1., 0., -1., 0.]);
    over(-1, 3).is_refused("p = 3");
}

#[test]
fn moments_of_halves_stay_wide() {
    use half::f16;
    let halves = |values: &[f32]| values.iter().map(|&value| f16::from_f32(value)).collect::<Vec<_>>();
    let row = exact("LayerNormalization").outputs(3).input(&[1, 2], &halves(&[1.0, 3.0]));
    let outputs = row.input(&[2], &halves(&[1.0, 1.0])).run().unwrap();
    assert_eq!(outputs[0].as_slice::<f16>().unwrap(), halves(&[-1.0, 1.0]));
    assert_eq!(outputs[1].as_slice::<f32>().unwrap(), [2.0]);
    assert_eq!(outputs[2].dtype(), kiln_tensor::DType::F32);
}
