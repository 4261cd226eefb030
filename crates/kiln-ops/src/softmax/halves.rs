//! Softmax of `f16` as the standard defines it: the greatest element of a line is subtracted, exponentials are divided
//! by their sum, and each of these operators rounds to `f16`. The cases of the standard's suite hold these roundings.
//!
//! Lines are computed some at a time, because a sum adds one element after the other: the sums of several lines do not
//! wait for each other.

use std::sync::OnceLock;

use half::f16;
use kiln_kernels::cpu::halves::{narrow, widen};
use kiln_kernels::{Isa, memory};

/// Lines that are computed at a time, and the elements of longer lines from which there are fewer.
const LINES: usize = 8;
const MOST: usize = 1 << 16;

/// Elements from which a table of all exponentials pays: making it takes as long as these.
const WORTH_A_TABLE: usize = 1 << 15;

/// Arguments that are no more than 0: their bits without the sign go from zero to those of infinity.
const ARGUMENTS: usize = 0x7c00 + 1;

/// Lines of so many elements that are computed at a time.
pub(super) fn lines(length: usize) -> usize {
    (MOST / length.max(1)).clamp(1, LINES)
}

/// Rounded exponentials, of a table or computed.
#[derive(Clone, Copy)]
pub(super) struct Powers(Option<&'static [f16]>);

fn power(argument: f16) -> f16 {
    f16::from_f32(argument.to_f32().exp())
}

impl Powers {
    /// For that many elements.
    pub(super) fn new(elements: usize) -> Powers {
        static TABLE: OnceLock<Vec<f16>> = OnceLock::new();
        let all = || (0..ARGUMENTS as u16).map(|bits| power(f16::from_bits(bits | 1 << 15))).collect();
        Powers((elements >= WORTH_A_TABLE).then(|| &TABLE.get_or_init(all)[..]))
    }

    /// Replaces arguments that are no more than 0, or no numbers, by their exponentials.
    fn of(self, arguments: &mut [f16]) {
        let Powers(Some(table)) = self else {
            return arguments.iter_mut().for_each(|argument| *argument = power(*argument));
        };
        for argument in arguments {
            let known = table.get(usize::from(argument.to_bits() & 0x7fff));
            *argument = known.copied().unwrap_or(f16::NAN);
        }
    }
}

/// Memory for some lines.
struct Scratch {
    numbers: Vec<f32>,
    halves: Vec<f16>,
}

impl Scratch {
    fn new(elements: usize) -> Scratch {
        Scratch { numbers: memory::zeroed(elements), halves: memory::zeroed(elements) }
    }

    /// Computes lines of `length` numbers in place, which are numbers of `f16`, and leaves the results in `halves`.
    fn compute(&mut self, isa: Isa, length: usize, powers: Powers) {
        let Scratch { numbers, halves } = self;
        for line in numbers.chunks_exact_mut(length) {
            let greatest = greatest(line);
            line.iter_mut().for_each(|number| *number -= greatest);
        }
        narrow(isa, numbers, halves);
        powers.of(halves);
        widen(isa, halves, numbers);
        let (mut sums, lines) = ([0f32; LINES], numbers.len() / length);
        for at in 0..length {
            for (line, sum) in sums[..lines].iter_mut().enumerate() {
                *sum += numbers[line * length + at];
            }
        }
        for (line, sum) in numbers.chunks_exact_mut(length).zip(sums) {
            let sum = f16::from_f32(sum).to_f32();
            line.iter_mut().for_each(|number| *number /= sum);
        }
        narrow(isa, numbers, halves);
    }
}

/// The greatest element that is a number.
fn greatest(line: &[f32]) -> f32 {
    let (chunks, rest) = line.as_chunks::<16>();
    let mut most = [f32::NEG_INFINITY; 16];
    for chunk in chunks {
        most.iter_mut().zip(chunk).for_each(|(most, &number)| *most = most.max(number));
    }
    most.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Computes up to [`lines`] lines of `length` elements that follow each other.
pub(super) fn rows(isa: Isa, length: usize, powers: Powers, from: &[f16], to: &mut [f16]) {
    let mut scratch = Scratch::new(from.len());
    widen(isa, from, &mut scratch.numbers);
    scratch.compute(isa, length, powers);
    to.copy_from_slice(&scratch.halves);
}

/// Computes all columns of an array [`length`, `columns`], some at a time.
pub(super) fn columns(isa: Isa, [length, columns]: [usize; 2], powers: Powers, from: &[f16], to: &mut [f16]) {
    for first in (0..columns).step_by(lines(length)) {
        let count = lines(length).min(columns - first);
        let mut scratch = Scratch::new(count * length);
        for (line, numbers) in scratch.numbers.chunks_exact_mut(length).enumerate() {
            let column = from[first + line..].iter().step_by(columns);
            numbers.iter_mut().zip(column).for_each(|(number, element)| *number = element.to_f32());
        }
        scratch.compute(isa, length, powers);
        for (line, halves) in scratch.halves.chunks_exact(length).enumerate() {
            to[first + line..].iter_mut().step_by(columns).zip(halves).for_each(|(to, half)| *to = *half);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition's operators one after the other, of every `step`-th of `count` elements.
    fn step_by_step(from: &[f16], to: &mut [f16], count: usize, step: usize) {
        let at = |index: usize| from[index * step].to_f32();
        let greatest = (0..count).map(at).fold(f32::NEG_INFINITY, f32::max);
        let rounded = |value: f32| f16::from_f32(value).to_f32();
        let mut sum = 0f32;
        for index in 0..count {
            let power = f16::from_f32(rounded(at(index) - greatest).exp());
            sum += power.to_f32();
            to[index * step] = power;
        }
        let sum = rounded(sum);
        (0..count).for_each(|index| to[index * step] = f16::from_f32(to[index * step].to_f32() / sum));
    }

    /// Whether both are the same numbers, or both are none.
    fn same(found: &[f16], expected: &[f16]) -> bool {
        let equal = |(one, other): (&f16, &f16)| one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan();
        found.len() == expected.len() && found.iter().zip(expected).all(equal)
    }

    #[test]
    fn the_table_has_what_is_computed() {
        let arguments: Vec<f16> = (1 << 15..=u16::MAX).chain([0]).map(f16::from_bits).collect();
        let [mut looked_up, mut computed] = [arguments.clone(), arguments];
        Powers::new(WORTH_A_TABLE).of(&mut looked_up);
        Powers::new(0).of(&mut computed);
        assert!(same(&looked_up, &computed));
    }

    #[test]
    fn lines_and_columns_have_the_roundings_of_the_definition() {
        let special = [f16::NAN, f16::INFINITY, f16::NEG_INFINITY, f16::MAX, f16::NEG_ZERO];
        for (length, columns_of, some) in
            [(1, 1, false), (7, 5, true), (33, 9, false), (1000, 3, true), (70_000, 2, false)]
        {
            let from: Vec<f16> = (0..length * columns_of)
                .map(|at| match (some, at * 31 % 97) {
                    (true, rest @ 0..5) => special[rest],
                    (_, rest) => f16::from_f32(rest as f32 / 11.0 - 4.0 - (at % 1009) as f32 / 300.0),
                })
                .collect();
            for (isa, powers) in [(Isa::Portable, Powers::new(0)), (Isa::detect(), Powers::new(WORTH_A_TABLE))] {
                let (mut found, mut expected) = (from.clone(), from.clone());
                columns(isa, [length, columns_of], powers, &from, &mut found);
                (0..columns_of)
                    .for_each(|first| step_by_step(&from[first..], &mut expected[first..], length, columns_of));
                assert!(same(&found, &expected), "{columns_of} columns of {length}");
                for (from, found) in from.chunks(length * lines(length)).zip(found.chunks_mut(length * lines(length))) {
                    rows(isa, length, powers, from, found);
                }
                for (from, to) in from.chunks(length).zip(expected.chunks_mut(length)) {
                    step_by_step(from, to, length, 1);
                }
                assert!(same(&found, &expected), "{columns_of} lines of {length}");
            }
        }
    }
}
