//! Rotations at every level against the definition, to the bit, with canaries around the output and NaN around the
//! input.

use super::*;
use crate::cpu::EmitEach;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, levels};

fn rotation([batch, positions, heads]: [u64; 3], [size, rotated]: [u64; 2]) -> Rotation {
    Rotation { batch, positions, heads, size, rotated, interleaved: false, heads_first: false }
}

/// Numbers whose products are rounded.
fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 1009) as f32 / 1009.0 - 0.5).collect()
}

/// The definition, element by element.
fn wanted(form: Rotation, input: &[f32], angles: Angles<'_>) -> Vec<f32> {
    let mut output = input.to_vec();
    let (positions, heads, pairs) = (form.positions(), form.heads(), form.pairs());
    for (row, output) in output.chunks_exact_mut(form.size()).enumerate() {
        let line = match form.heads_first {
            true => row / (heads * positions) * positions + row % positions,
            false => row / heads,
        };
        let first = angles.lines[line] * pairs;
        for pair in 0..pairs {
            let places = if form.interleaved { [2 * pair, 2 * pair + 1] } else { [pair, pair + pairs] };
            let [x, y] = places.map(|place| output[place]);
            let (cosine, sine) = (angles.cosines[first + pair], angles.sines[first + pair]);
            output[places[0]] = cosine * x - sine * y;
            output[places[1]] = sine * x + cosine * y;
        }
    }
    output
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn check(form: Rotation, isa: Isa, tasks: usize) {
    let input = values(form.elements().unwrap(), 1);
    let known = form.positions() + 3;
    let [cosines, sines] = [2, 3].map(|seed| Poisoned::new(&values(known * form.pairs(), seed)));
    let lines: Vec<usize> = (0..form.lines()).map(|line| (line * 5 + 2) % known).collect();
    let angles = Angles { cosines: cosines.inside(), sines: sines.inside(), lines: &lines };
    let want = bits(&wanted(form, &input, angles));
    let rotary = Rotary::new(form, isa, tasks, &EmitEach).unwrap();
    let mut output = Canaried::new(input.len());
    rotary.run(Poisoned::new(&input).inside(), angles, output.inside(), &Scoped).unwrap();
    assert_eq!(bits(&output.open()), want, "{form:?} at {isa}");
    let mut place = Canaried::new(input.len());
    place.inside().copy_from_slice(&input);
    rotary.run_in_place(place.inside(), angles, &Scoped).unwrap();
    assert_eq!(bits(&place.open()), want, "{form:?} at {isa}: in place");
}

#[test]
fn heads_of_any_size_are_rotated_in_either_order() {
    let sizes = [2, 4, 6, 8, 14, 16, 18, 30, 32, 34, 62, 64, 66, 80, 96, 126, 128, 130, 258];
    for isa in levels() {
        for (interleaved, heads_first) in [(false, false), (false, true), (true, false), (true, true)] {
            for size in sizes {
                for (heads, rest) in [([1, 3, 2], 0), ([2, 4, 3], 5), ([2, 1, 5], 1), ([3, 5, 1], 16), ([1, 1, 1], 70)]
                {
                    let form = Rotation { interleaved, heads_first, ..rotation(heads, [size + rest, size]) };
                    check(form, isa, 1 + size as usize % 3);
                }
            }
            check(Rotation { interleaved, heads_first, ..rotation([1, 2, 2], [37, 0]) }, isa, 2);
        }
    }
}

#[test]
fn numbers_that_are_none_stay_in_their_pair() {
    for isa in levels() {
        for interleaved in [false, true] {
            let form = Rotation { interleaved, ..rotation([1, 1, 3], [40, 36]) };
            let mut input = values(120, 4);
            (input[40 + 7], input[40 + 30]) = (f32::NAN, f32::INFINITY);
            let (cosines, sines) = (values(18, 5), values(18, 6));
            let angles = Angles { cosines: &cosines, sines: &sines, lines: &[0] };
            let want = wanted(form, &input, angles);
            let mut found = vec![0.0; 120];
            Rotary::new(form, isa, 1, &EmitEach).unwrap().run(&input, angles, &mut found, &Scoped).unwrap();
            for (found, want) in found.iter().zip(want) {
                assert!(*found == want || found.is_nan() && want.is_nan(), "{found} for {want} at {isa}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_done_of_nothing() {
    for isa in levels() {
        let rotary = Rotary::new(rotation([1, 2, 3], [6, 4]), isa, 1, &EmitEach).unwrap();
        let run = |input: usize, output: usize, angles: usize, lines: &[usize]| {
            let (cosines, sines) = (vec![1.0; angles], vec![0.0; angles]);
            let angles = Angles { cosines: &cosines, sines: &sines, lines };
            match rotary.run(&vec![1.0; input], angles, &mut vec![0.0; output], &Scoped) {
                Ok(()) => "",
                Err(KernelError::Bounds { operand, .. }) => operand,
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(run(36, 36, 8, &[3, 0]), "");
        assert_eq!(run(35, 36, 8, &[3, 0]), "input");
        assert_eq!(run(36, 35, 8, &[3, 0]), "output");
        assert_eq!(run(36, 36, 7, &[3, 0]), "cosines");
        assert_eq!(run(36, 36, 8, &[0, 4]), "cosines");
        assert_eq!(run(36, 36, 8, &[usize::MAX, 0]), "cosines");
        assert_eq!(run(36, 36, 8, &[0]), "lines");
        let nothing = Angles { cosines: &[], sines: &[], lines: &[] };
        for (heads, size) in [([0, 2, 3], 4), ([2, 0, 3], 4), ([2, 2, 0], 4), ([u64::MAX / 8, 1, 1], 0)] {
            let empty = Rotary::new(rotation(heads, [size, 0]), isa, 1, &EmitEach).unwrap();
            empty.run(&[], nothing, &mut [], &Scoped).unwrap();
        }
        for (heads, [size, rotated]) in [([u64::MAX, 2, 1], [2, 2]), ([1, 1, 1], [4, 3]), ([1, 1, 1], [4, 6])] {
            let refused = Rotary::new(rotation(heads, [size, rotated]), isa, 1, &EmitEach);
            assert!(matches!(refused, Err(KernelError::Unsupported { .. })), "{heads:?} of {size}");
        }
    }
}
