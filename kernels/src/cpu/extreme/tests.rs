//! Searches at every level against the definition, with canaries around the output and NaN around the input.

use super::*;
use crate::cpu::EmitEach;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, levels};

/// The greatest and the least element, each the first or the last of equal ones.
const FORMS: [Extreme; 4] = {
    let first = Extreme { outer: 0, length: 0, inner: 0, wanted: Wanted::Greatest, last: false };
    let least = Extreme { wanted: Wanted::Least, ..first };
    [first, Extreme { last: true, ..first }, least, Extreme { last: true, ..least }]
};

/// The definition, line by line.
fn wanted(form: Extreme, input: &[f32]) -> Vec<i64> {
    let (length, inner) = (form.length(), form.inner());
    let line = |line: usize| {
        let element = |place: usize| input[(line / inner * length + place) * inner + line % inner];
        let mut best = 0;
        for place in 1..length {
            let (new, old) = (element(place), element(best));
            let is_better = if form.wanted == Wanted::Greatest { new > old } else { new < old };
            if is_better || form.last && new == old {
                best = place;
            }
        }
        best as i64
    };
    (0..form.lines().unwrap()).map(line).collect()
}

fn check(form: Extreme, input: &[f32], isa: Isa, tasks: usize) {
    let want = wanted(form, input);
    let extremes = Extremes::new(form, isa, tasks, &EmitEach).unwrap();
    let mut output = Canaried::new(want.len());
    extremes.run(Poisoned::new(input).inside(), output.inside(), &Scoped).unwrap();
    assert_eq!(output.open(), want, "{form:?} at {isa}");
}

fn form([outer, length, inner]: [u64; 3], of: Extreme) -> Extreme {
    Extreme { outer, length, inner, ..of }
}

/// `count` elements with few different values.
fn few(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 1009 % 6) as f32 - 2.0).collect()
}

#[test]
fn lines_of_any_length_along_either_axis() {
    let lengths = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 130, 200];
    for isa in levels() {
        for of in FORMS {
            for length in lengths {
                for (outer, inner) in [(1, 1), (5, 1), (131, 1), (3000, 1), (1, length), (2, length), (3, 2)] {
                    let form = form([outer, if inner == length { 5 } else { length }, inner], of);
                    let count = (form.outer * form.length * form.inner) as usize;
                    check(form, &few(count, length as usize), isa, 1 + length as usize % 4);
                }
            }
        }
    }
}

#[test]
fn an_extreme_is_found_wherever_it_stands() {
    for isa in levels() {
        for of in FORMS {
            for at in (0..150).step_by(7) {
                let sign = if of.wanted == Wanted::Greatest { 1.0 } else { -1.0 };
                let mut line: Vec<f32> = (0..150).map(|place| ((place * 37) % 41) as f32).collect();
                line[at] = 50.0 * sign;
                check(form([1, 150, 1], of), &line, isa, 1);
                // An equal element further on.
                line[(at + 70) % 150] = 50.0 * sign;
                check(form([1, 150, 1], of), &line, isa, 1);
                check(form([1, 75, 2], of), &line, isa, 1);
                check(form([1, 2, 75], of), &line, isa, 1);
            }
        }
    }
}

#[test]
fn what_is_no_number_is_found_only_at_the_front() {
    for isa in levels() {
        for of in FORMS {
            for (first, every) in [(0, 150), (0, 3), (1, 2), (16, 150), (149, 150), (0, 1), (1, 1)] {
                let mut line = few(150, first);
                line.iter_mut().skip(first).step_by(every).for_each(|value| *value = f32::NAN);
                for shape in [[1, 150, 1], [3, 50, 1], [1, 50, 3], [1, 3, 50], [2, 25, 3]] {
                    check(form(shape, of), &line, isa, 2);
                }
            }
            for value in [f32::NEG_INFINITY, f32::INFINITY, f32::MIN, f32::MAX, -0.0, f32::from_bits(1)] {
                let mut line = vec![value; 99];
                check(form([1, 99, 1], of), &line, isa, 1);
                // Zeros of both signs are equal.
                line[57] = 0.0;
                for shape in [[1, 99, 1], [1, 33, 3], [1, 3, 33]] {
                    check(form(shape, of), &line, isa, 1);
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_done_of_nothing() {
    for isa in levels() {
        let of = FORMS[0];
        let extremes = Extremes::new(form([2, 3, 4], of), isa, 1, &EmitEach).unwrap();
        let run = |input: usize, output: usize| match extremes.run(&vec![1.0; input], &mut vec![0; output], &Scoped) {
            Ok(()) => "",
            Err(KernelError::Bounds { operand, .. }) => operand,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(run(24, 8), "");
        assert_eq!(run(23, 8), "input");
        assert_eq!(run(24, 7), "output");
        for shape in [[0, 3, 4], [2, 3, 0], [0, 0, 4]] {
            Extremes::new(form(shape, of), isa, 1, &EmitEach).unwrap().run(&[], &mut [], &Scoped).unwrap();
        }
        for shape in [[2, 0, 4], [1, 1 << 31, 1], [u64::MAX, 2, 2], [1 << 61, 1, 1]] {
            let refused = Extremes::new(form(shape, of), isa, 1, &EmitEach);
            assert!(matches!(refused, Err(KernelError::Unsupported { .. })), "{shape:?}");
        }
    }
}
