//! Normalisations at every level against the references, with canaries around the output and NaN around the input.

use kiln_key::F32Bits;

use super::*;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, integers, levels};
use crate::cpu::precision::to_bf16;
use crate::cpu::{ActivationsMut, EmitEach, Stored};
use crate::isa::Isa;
use crate::reference;

fn values(count: usize, seed: u32) -> Vec<f32> {
    integers(count, seed).iter().enumerate().map(|(at, x)| 0.5 + x / 3.0 + at as f32 % 11.0 / 32.0).collect()
}

#[track_caller]
fn close(found: &[f32], want: &[f32], place: &str) {
    assert_eq!(found.len(), want.len(), "{place}");
    for (at, (&found, &want)) in found.iter().zip(want).enumerate() {
        assert!((found - want).abs() <= 4e-6 * want.abs().max(1.0), "{place}, element {at}: {found} for {want}");
    }
}

/// Every form that the row code has.
fn forms(rows: usize, length: usize) -> impl Iterator<Item = RowForm> {
    (0..16).map(move |bits| RowForm {
        rows: rows as u64,
        length: length as u64,
        centred: bits & 1 != 0,
        scale: bits & 2 != 0,
        bias: bits & 4 != 0,
        moments: bits & 8 != 0,
        output: Stored::F32,
    })
}

fn check_rows(form: RowForm, isa: Isa, tasks: usize, by_row: bool) {
    let (rows, length, centred) = (form.rows(), form.length(), form.centred);
    let input = values(rows * length, 1);
    let numbers = if by_row { rows * length } else { length };
    let (scale, bias) = (Poisoned::new(&values(numbers, 2)), Poisoned::new(&values(numbers, 3)));
    let operands = RowOperands {
        scale: form.scale.then_some(scale.inside()),
        bias: form.bias.then_some(bias.inside()),
        epsilon: 1e-3,
    };
    let norm = RowNorm::new(form, isa, tasks, &EmitEach).unwrap();
    let place = format!("{form:?} at {isa}");
    for in_place in [false, true] {
        let mut output = Canaried::new(rows * length);
        let (mut mean, mut deviation) = (Canaried::new(rows), Canaried::new(rows));
        let moments = form.moments.then(|| (mean.inside(), deviation.inside()));
        if in_place {
            output.inside().copy_from_slice(&input);
            norm.run_in_place(operands, RowResults { output: output.inside().into(), moments }, &Scoped).unwrap();
        } else {
            let results = RowResults { output: output.inside().into(), moments };
            norm.run(Poisoned::new(&input).inside(), operands, results, &Scoped).unwrap();
        }
        let (output, mean, deviation) = (output.open(), mean.open(), deviation.open());
        for row in 0..rows {
            let here = row * length..(row + 1) * length;
            let own = |values: Option<&[f32]>| {
                values.map(|values| if by_row { values[here.clone()].to_vec() } else { values.to_vec() })
            };
            let (scale, bias) = (own(operands.scale), own(operands.bias));
            let mut want = vec![0.0; length];
            let moments = Moments { centred, epsilon: 1e-3 };
            let found =
                reference::norm::row(&input[here.clone()], scale.as_deref(), bias.as_deref(), moments, &mut want);
            close(&output[here], &want, &place);
            if form.moments {
                close(&[mean[row], deviation[row]], &[found.0, found.1], &place);
            }
        }
    }
}

#[test]
fn rows_of_any_length_are_normalised_in_every_form() {
    for isa in levels() {
        for length in [1, 7, 8, 9, 16, 33, 64, 100] {
            for form in forms(3, length) {
                check_rows(form, isa, 2, false);
            }
        }
        for form in forms(5, 21) {
            check_rows(form, isa, 1, true);
        }
    }
}

#[test]
fn results_are_rounded_to_bf16_where_they_are_stored_so() {
    for isa in levels() {
        for (rows, length) in [(1, 1), (3, 16), (5, 70), (4, 131)] {
            let form = RowForm { output: Stored::Bf16, ..forms(rows, length).nth(7).unwrap() };
            let (input, scale, bias) = (values(rows * length, 1), values(length, 2), values(length, 3));
            let operands = RowOperands { scale: Some(&scale), bias: Some(&bias), epsilon: 1e-3 };
            if isa != Isa::Avx512 {
                assert!(RowNorm::new(form, isa, 2, &EmitEach).is_err());
                continue;
            }
            let (mut whole, mut halves) = (vec![0.0; rows * length], Canaried::<u16>::new(rows * length));
            for output in [Stored::F32, Stored::Bf16] {
                let norm = RowNorm::new(RowForm { output, ..form }, isa, 2, &EmitEach).unwrap();
                let output = match output {
                    Stored::F32 => ActivationsMut::F32(&mut whole),
                    Stored::Bf16 => ActivationsMut::Bf16(halves.inside()),
                };
                norm.run(&input, operands, RowResults { output, moments: None }, &Scoped).unwrap();
            }
            let rounded: Vec<u16> = whole.iter().map(|&value| to_bf16(value)).collect();
            assert_eq!(halves.open(), rounded, "{rows} rows of {length}");
            let norm = RowNorm::new(form, isa, 2, &EmitEach).unwrap();
            let foreign = RowResults { output: ActivationsMut::F32(&mut whole), moments: None };
            assert!(norm.run(&input, operands, foreign, &Scoped).is_err(), "f32 where bf16 was announced");
        }
    }
}

#[test]
fn a_large_mean_does_not_swallow_the_deviation() {
    let input: Vec<f32> = (0..64).map(|at| 1000.0 + (at % 2) as f32).collect();
    for isa in levels() {
        let form = RowForm {
            rows: 1,
            length: 64,
            centred: true,
            scale: false,
            bias: false,
            moments: false,
            output: Stored::F32,
        };
        let mut output = vec![0.0; 64];
        let results = RowResults { output: (&mut output[..]).into(), moments: None };
        let operands = RowOperands::default();
        RowNorm::new(form, isa, 1, &EmitEach).unwrap().run(&input, operands, results, &Scoped).unwrap();
        assert!(output.iter().all(|x| (x.abs() - 1.0).abs() < 1e-5), "{isa}: {output:?}");
    }
}

#[test]
fn operands_that_are_not_of_the_form_are_refused() {
    let form =
        RowForm { rows: 2, length: 3, centred: true, scale: true, bias: false, moments: false, output: Stored::F32 };
    let norm = RowNorm::new(form, Isa::Portable, 1, &EmitEach).unwrap();
    let scale = [1.0; 4];
    let operands = |length: usize| RowOperands { scale: Some(&scale[..length]), ..RowOperands::default() };
    let refused = |input: &[f32], operands: RowOperands<'_>, output: &mut [f32]| {
        norm.run(input, operands, RowResults { output: output.into(), moments: None }, &Scoped).is_err()
    };
    assert!(!refused(&[0.0; 6], operands(3), &mut [0.0; 6]));
    assert!(refused(&[0.0; 5], operands(3), &mut [0.0; 6]));
    assert!(refused(&[0.0; 6], operands(3), &mut [0.0; 5]));
    assert!(refused(&[0.0; 6], operands(4), &mut [0.0; 6]));
    assert!(refused(&[0.0; 6], RowOperands::default(), &mut [0.0; 6]));
    let (mut mean, mut deviation, mut sixth) = ([0.0; 2], [0.0; 2], [0.0; 6]);
    let results = RowResults { output: (&mut sixth[..]).into(), moments: Some((&mut mean, &mut deviation)) };
    assert!(norm.run(&[0.0; 6], operands(3), results, &Scoped).is_err());
}

/// Images around every limit of the loops.
fn images() -> impl Iterator<Item = Channels> {
    let sizes = [(1, 6, 1), (2, 6, 7), (1, 6, 33), (3, 12, 20), (1, 24, 700), (2, 600, 3)];
    sizes
        .into_iter()
        .flat_map(|(batch, channels, spatial)| [false, true].map(|last| Channels { batch, channels, spatial, last }))
}

#[test]
fn channels_are_scaled_and_shifted_in_either_layout() {
    for (shape, isa) in images().flat_map(|shape| levels().into_iter().map(move |isa| (shape, isa))) {
        let input = values(shape.batch() * shape.channels() * shape.spatial(), 1);
        let (factor, summand) = (values(shape.channels(), 2), values(shape.channels(), 3));
        let mut output = Canaried::new(input.len());
        let affine = Affine::new(shape, isa, 3, &EmitEach).unwrap();
        affine.run(&input, &factor, &summand, output.inside(), &Scoped).unwrap();
        let mut want = vec![0.0; input.len()];
        for image in 0..shape.batch() {
            for channel in 0..shape.channels() {
                for place in 0..shape.spatial() {
                    let at = shape.at(image, channel, place);
                    want[at] = input[at] * factor[channel] + summand[channel];
                }
            }
        }
        assert_eq!(output.open(), want, "{shape:?}");
    }
}

#[test]
fn groups_are_normalised_in_either_layout() {
    for (shape, isa) in images().flat_map(|shape| levels().into_iter().map(move |isa| (shape, isa))) {
        for groups in [1, 3, shape.channels()] {
            let input = values(shape.batch() * shape.channels() * shape.spatial(), 1);
            let (scale, bias) = (values(shape.channels(), 2), values(shape.channels(), 3));
            let norm = Groups::new(shape, groups, isa, 3, &EmitEach).unwrap();
            let (mut output, mut scratch) = (Canaried::new(input.len()), Canaried::new(norm.scratch_len()));
            let operands = GroupOperands { scale: &scale, bias: &bias, epsilon: 1e-3 };
            norm.run(&input, operands, output.inside(), scratch.inside(), &Scoped).unwrap();
            scratch.open();
            let want = reference::norm::groups(shape, groups, 1e-3, &input, &scale, &bias);
            close(&output.open(), &want, &format!("{shape:?} in {groups} groups at {isa}"));
        }
    }
    let shape = Channels { batch: 1, channels: 6, spatial: 1, last: true };
    let refused = |groups| Groups::new(shape, groups, Isa::Portable, 1, &EmitEach).is_err();
    assert!(refused(4) && refused(0));
}

#[test]
fn blocks_of_an_image_may_have_means_far_apart() {
    // Three blocks of positions, and the least channels that are read from end to end.
    let (channels, spatial) = (64, 700);
    for (last, isa) in [false, true].into_iter().flat_map(|last| levels().into_iter().map(move |isa| (last, isa))) {
        let shape = Channels { batch: 1, channels: channels as u64, spatial: spatial as u64, last };
        let mut input = values(channels * spatial, 1);
        for (channel, place) in (0..channels).flat_map(|channel| (0..spatial).map(move |place| (channel, place))) {
            input[shape.at(0, channel, place)] += place as f32 - (channel * 10) as f32;
        }
        let (scale, bias) = (values(channels, 2), values(channels, 3));
        for groups in [4, channels] {
            let norm = Groups::new(shape, groups, isa, 2, &EmitEach).unwrap();
            let (mut output, mut scratch) = (vec![0.0; input.len()], vec![0.0; norm.scratch_len()]);
            let operands = GroupOperands { scale: &scale, bias: &bias, epsilon: 1e-3 };
            norm.run(&input, operands, &mut output, &mut scratch, &Scoped).unwrap();
            let want = reference::norm::groups(shape, groups, 1e-3, &input, &scale, &bias);
            close(&output, &want, &format!("{shape:?} in {groups} groups at {isa}"));
        }
    }
}

#[test]
fn responses_are_normalised_in_either_layout() {
    for shape in images() {
        for (size, beta) in [(1, 0.75), (5, 0.75), (4, 0.5), (1000, 1.25)] {
            let local = Local { size, alpha: 0.1.into(), beta: F32Bits::new(beta), bias: 1.5.into() };
            let input = values(shape.batch() * shape.channels() * shape.spatial(), 1);
            let mut output = Canaried::new(input.len());
            LocalNorm::new(shape, local, 3).unwrap().run(&input, output.inside(), &Scoped).unwrap();
            let mut want = vec![0.0; input.len()];
            reference::norm::local(shape, local, &input, &mut want);
            close(&output.open(), &want, &format!("{shape:?}, {local:?}"));
        }
    }
}
