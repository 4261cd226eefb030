//! Fourier transforms: DFT and STFT, for any length.

use std::f64::consts::TAU;
use std::ops::{Add, Mul, Sub};

use kiln_kernels::memory::{self, Collect, Pace};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Shape, Tensor, TensorSpec};

use super::wide::{Wide, Width, narrow, widened};
use super::{LoadCx, OpError, Operator, axis_of, integer, lines, optional, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "DFT", make_dft), ("", "STFT", |_| Ok(Box::new(Stft)))];

/// The type that transforms are computed in: `f64` for `f64`, `f32` for every narrower type.
trait Real: Wide + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    fn of(value: f64) -> Self;

    fn wide(self) -> f64;
}

impl Real for f32 {
    fn of(value: f64) -> f32 {
        value as f32
    }

    fn wide(self) -> f64 {
        self.into()
    }
}

impl Real for f64 {
    fn of(value: f64) -> f64 {
        value
    }

    fn wide(self) -> f64 {
        self
    }
}

/// Real and imaginary part.
type Complex<T> = [T; 2];

fn sum<T: Real>([a, b]: Complex<T>, [c, d]: Complex<T>) -> Complex<T> {
    [a + c, b + d]
}

fn difference<T: Real>([a, b]: Complex<T>, [c, d]: Complex<T>) -> Complex<T> {
    [a - c, b - d]
}

fn times<T: Real>([a, b]: Complex<T>, [c, d]: Complex<T>) -> Complex<T> {
    [a * c - b * d, a * d + b * c]
}

/// A real multiple.
fn scaled<T: Real>([a, b]: Complex<T>, factor: T) -> Complex<T> {
    [a * factor, b * factor]
}

/// A multiple of the imaginary unit.
fn imaginary_multiple<T: Real>([a, b]: Complex<T>, factor: T) -> Complex<T> {
    [T::default() - b * factor, a * factor]
}

/// Transforms of one length and direction.
///
/// The length is a product of fours, a two, and odd primes. Each factor is a pass over all values, which transforms
/// groups of that many values and stores them in the order that the next pass reads (after Stockham, without a final
/// bit reversal). Small primes above five are transformed as the definition says, larger ones as a [`Chirp`].
struct Transform<T> {
    /// The powers of the first root of one, in the direction of the transform.
    roots: Vec<Complex<T>>,
    factors: Vec<usize>,
    /// For the largest factor, where it is too large for the definition.
    chirp: Option<Box<Chirp>>,
    /// The direction: 1 is back.
    sign: f64,
}

/// The largest factor that is transformed by the definition, which costs its square.
const BY_DEFINITION: usize = 61;

/// The largest prime factor that is transformed at all: tables for it take tens of MiB.
const LARGEST_PRIME: usize = 1 << 18;

/// The transform of a large prime length as a convolution with a chirp (Bluestein), which transforms of a power of two
/// compute. In `f64`, because the chirp's products cancel.
struct Chirp {
    /// The chirp, as long as the prime.
    chirp: Vec<Complex<f64>>,
    /// The transform of its conjugate, laid around the ends of the power of two.
    spectrum: Vec<Complex<f64>>,
    there: Transform<f64>,
    back: Transform<f64>,
}

impl Chirp {
    fn new(length: usize, sign: f64) -> Chirp {
        let padded = (2 * length).next_power_of_two();
        let there = Transform::new(padded, false);
        // The square is reduced first, because the angle of a large square has no exact digits left.
        let angle = |index: usize| sign * TAU * (index * index % (2 * length)) as f64 / (2 * length) as f64;
        let chirp: Vec<Complex<f64>> = (0..length).map(|index| [angle(index).cos(), angle(index).sin()]).collected();
        let mut around = memory::zeroed(padded);
        for (index, &[re, im]) in chirp.iter().enumerate() {
            around[index] = [re, -im];
            around[(padded - index) % padded] = [re, -im];
        }
        let spectrum = there.run(&around);
        Chirp { chirp, spectrum, there, back: Transform::new(padded, true) }
    }

    fn run<T: Real>(&self, values: &mut [Complex<T>]) {
        let mut padded = memory::zeroed(self.spectrum.len());
        for ((to, value), &factor) in padded.iter_mut().zip(&*values).zip(&self.chirp) {
            *to = times(value.map(T::wide), factor);
        }
        let mut spectrum = self.there.run(&padded);
        spectrum.iter_mut().zip(&self.spectrum).for_each(|(value, &by)| *value = times(*value, by));
        let made = self.back.run(&spectrum);
        for ((to, made), &factor) in values.iter_mut().zip(made).zip(&self.chirp) {
            *to = times(made, factor).map(T::of);
        }
    }
}

/// Refuses lengths with prime factors whose tables would be too large.
fn transformable(length: usize) -> Result<(), NodeError> {
    match factors(length).last() {
        Some(&prime) if prime > LARGEST_PRIME => Err(NodeError::Unsupported(format!(
            "a transform of length {length}, whose factor {prime} is too large a prime"
        ))),
        _ => Ok(()),
    }
}

/// The factors of a length, a two first: it combines the values that are farthest from each other.
fn factors(length: usize) -> Vec<usize> {
    let (mut factors, mut rest) = (Vec::new(), length.max(1));
    while rest.is_multiple_of(4) {
        factors.push(4);
        rest /= 4;
    }
    if rest.is_multiple_of(2) {
        factors.insert(0, 2);
        rest /= 2;
    }
    let mut prime = 3;
    while prime * prime <= rest && prime <= LARGEST_PRIME {
        while rest.is_multiple_of(prime) {
            factors.push(prime);
            rest /= prime;
        }
        prime += 2;
    }
    if rest > 1 {
        factors.push(rest);
    }
    factors
}

impl<T: Real> Transform<T> {
    fn new(length: usize, inverse: bool) -> Transform<T> {
        let sign = if inverse { 1.0 } else { -1.0 };
        let root = |index: usize| {
            let angle = sign * TAU * index as f64 / length as f64;
            [T::of(angle.cos()), T::of(angle.sin())]
        };
        let factors = factors(length);
        let large = factors.last().copied().filter(|&factor| factor > BY_DEFINITION);
        let chirp = large.map(|factor| Box::new(Chirp::new(factor, sign)));
        Transform { roots: (0..length).map(root).collected(), factors, chirp, sign }
    }

    fn run(&self, values: &[Complex<T>]) -> Vec<Complex<T>> {
        let (mut from, mut to) = (memory::copied(values), memory::zeroed(values.len()));
        let mut done = 1;
        let (mut group, mut pace) = (Vec::new(), Pace::default());
        for &factor in &self.factors {
            let inner = values.len() / (done * factor);
            for block in 0..done {
                for index in 0..inner {
                    pace.step(factor * factor.min(BY_DEFINITION));
                    group.clear();
                    group.extend((0..factor).map(|part| from[index + inner * (part + factor * block)]));
                    self.butterfly(&mut group);
                    for (part, &value) in group.iter().enumerate() {
                        let root = part * done * index;
                        let value = if root == 0 { value } else { times(value, self.roots[root]) };
                        to[index + inner * (block + done * part)] = value;
                    }
                }
            }
            std::mem::swap(&mut from, &mut to);
            done *= factor;
        }
        if self.sign > 0.0 {
            let share = T::of(1.0 / values.len() as f64);
            from.iter_mut().for_each(|value| *value = scaled(*value, share));
        }
        from
    }

    /// The transform of a few values, in place.
    fn butterfly(&self, values: &mut [Complex<T>]) {
        let cosine = |circles: f64| T::of((TAU * circles).cos());
        let sine = |circles: f64| T::of(self.sign * (TAU * circles).sin());
        match *values {
            [] | [_] => {}
            [a, b] => values.copy_from_slice(&[sum(a, b), difference(a, b)]),
            [a, b, c] => {
                let (outer, apart) = (sum(b, c), difference(b, c));
                let (even, odd) = (sum(a, scaled(outer, T::of(-0.5))), imaginary_multiple(apart, sine(1.0 / 3.0)));
                values.copy_from_slice(&[sum(a, outer), sum(even, odd), difference(even, odd)]);
            }
            [a, b, c, d] => {
                let (even, other) = (sum(a, c), sum(b, d));
                let (odd, other_odd) = (difference(a, c), imaginary_multiple(difference(b, d), T::of(self.sign)));
                let made = [sum(even, other), sum(odd, other_odd), difference(even, other), difference(odd, other_odd)];
                values.copy_from_slice(&made);
            }
            [a, b, c, d, e] => {
                let (outer, inner) = (sum(b, e), sum(c, d));
                let (outer_apart, inner_apart) = (difference(b, e), difference(c, d));
                let [near, far] = [0.2, 0.4].map(cosine);
                let [near_sine, far_sine] = [0.2, 0.4].map(sine);
                let even = |x, y| sum(sum(a, scaled(outer, x)), scaled(inner, y));
                let first = (
                    even(near, far),
                    sum(imaginary_multiple(outer_apart, near_sine), imaginary_multiple(inner_apart, far_sine)),
                );
                let second = (
                    even(far, near),
                    difference(imaginary_multiple(outer_apart, far_sine), imaginary_multiple(inner_apart, near_sine)),
                );
                values.copy_from_slice(&[
                    sum(sum(a, outer), inner),
                    sum(first.0, first.1),
                    sum(second.0, second.1),
                    difference(second.0, second.1),
                    difference(first.0, first.1),
                ]);
            }
            _ if self.chirp.as_ref().is_some_and(|chirp| chirp.chirp.len() == values.len()) => {
                self.chirp.iter().for_each(|chirp| chirp.run(values));
            }
            _ => {
                let (count, step) = (values.len(), self.roots.len() / values.len());
                let made: Vec<Complex<T>> = (0..count)
                    .map(|frequency| {
                        let root = |number: usize| self.roots[frequency * number % count * step];
                        (1..count).fold(values[0], |all, number| sum(all, times(values[number], root(number))))
                    })
                    .collect();
                values.copy_from_slice(&made);
            }
        }
    }
}

/// Makes the spectrum of a real signal exactly its own conjugated mirror image, which rounding may have spoilt. That
/// makes the first value and the one in the middle real.
fn mirror<T: Real>(spectrum: &mut [Complex<T>]) {
    let (count, half, mut pace) = (spectrum.len(), T::of(0.5), Pace::default());
    for low in 0..=count / 2 {
        pace.step(1);
        let high = (count - low) % count;
        let ([a, b], [c, d]) = (spectrum[low], spectrum[high]);
        let [re, im] = [(a + c) * half, (b - d) * half];
        (spectrum[low], spectrum[high]) = ([re, im], [re, T::default() - im]);
    }
}

struct Dft {
    inverse: bool,
    one_sided: bool,
    /// The attribute of operator set 17; without it the axis is input 2.
    axis: Option<i64>,
}

fn make_dft(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let flag = |name| cx.node.attributes().int(name) != 0;
    let axis = (cx.node.version < 20).then(|| cx.node.attributes().int("axis"));
    Ok(Box::new(Dft { inverse: flag("inverse"), one_sided: flag("onesided"), axis }))
}

impl Dft {
    /// The axis of a signal that is transformed.
    fn axis(&self, inputs: &[Option<&Tensor>]) -> Result<usize, NodeError> {
        let named = match self.axis {
            Some(axis) => axis,
            None => optional(inputs, 2).map_or(Ok(-2), integer)?,
        };
        axis_of(named, required(inputs, 0)?.shape().len())
    }

    /// The length of a transform, given the output's shape by the rule.
    fn length(&self, inputs: &[Option<&Tensor>], output: &[usize]) -> Result<usize, NodeError> {
        let axis = self.axis(inputs)?;
        match optional(inputs, 1) {
            _ if !self.one_sided || self.inverse => Ok(output[axis]),
            Some(length) => usize::try_from(integer(length)?).map_err(|_| refused("a negative length")),
            None => Ok(required(inputs, 0)?.shape()[axis]),
        }
    }

    /// The values to transform: the line's own, with zeros where it is too short, or those that a half spectrum stands
    /// for.
    fn prepare<T: Real>(&self, line: &[Complex<T>], length: usize) -> Vec<Complex<T>> {
        let at = |index: usize| line.get(index).copied().unwrap_or_default();
        if !(self.inverse && self.one_sided) {
            return (0..length).map(at).collected();
        }
        let mirrored = |index: usize| {
            let [re, im] = at(length - index);
            [re, T::default() - im]
        };
        (0..length).map(|index| if index <= length / 2 { at(index) } else { mirrored(index) }).collected()
    }
}

impl Node for Dft {
    fn family(&self) -> &'static str {
        "DFT"
    }

    fn value_inputs(&self) -> u64 {
        0b110
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let dtype = outputs[0].dtype;
        if !dtype.is_float() {
            return Err(NodeError::Unsupported(format!("elements of type {dtype}")));
        }
        transformable(self.length(inputs, &outputs[0].shape)?)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        match Width::of(io.input(0)?.dtype())? {
            Width::F64 => self.transform::<f64>(io),
            _ => self.transform::<f32>(io),
        }
    }
}

impl Dft {
    fn transform<T: Real>(&self, io: &mut Io<'_>) -> Result<(), NodeError> {
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        let (axis, length) = (self.axis(&io.inputs())?, self.length(&io.inputs(), to.shape())?);
        let last = input.shape().len() - 1;
        let (parts, out_parts) = (input.shape()[last], to.shape()[last]);
        let values = widened::<T>(input)?;
        let transform = Transform::new(length, self.inverse);
        // Lines of pairs or single numbers, with the last axis taken away.
        let without_last = |shape: &[usize]| Shape::from_slice(&shape[..shape.len() - 1]);
        let mut output = memory::zeroed(to.len());
        let mut pace = Pace::default();
        let runs = lines(&without_last(input.shape()), axis).zip(lines(&without_last(to.shape()), axis));
        for (run, out) in runs {
            pace.step(64 + length);
            let line: Vec<Complex<T>> = (0..run.count)
                .map(|index| run.at(index) * parts)
                .map(|at| [values[at], if parts == 2 { values[at + 1] } else { T::default() }])
                .collected();
            let mut spectrum = transform.run(&self.prepare(&line, length));
            if parts == 1 && !self.inverse {
                mirror(&mut spectrum);
            }
            for (index, value) in spectrum.into_iter().enumerate().take(out.count) {
                pace.step(1);
                output[out.at(index) * out_parts..][..out_parts].copy_from_slice(&value[..out_parts]);
            }
        }
        let output = narrow(&output, to)?;
        io.push(output);
        Ok(())
    }
}

struct Stft;

/// The number of values of a frame: input 3, or the length of the window or of the signal.
fn frame_length(inputs: &[Option<&Tensor>]) -> Result<usize, NodeError> {
    match (optional(inputs, 3), optional(inputs, 2)) {
        (Some(length), _) => usize::try_from(integer(length)?).map_err(|_| refused("a negative length")),
        (None, Some(window)) => Ok(window.len()),
        (None, None) => Ok(required(inputs, 0)?.shape()[1]),
    }
}

impl Node for Stft {
    fn family(&self) -> &'static str {
        "STFT"
    }

    fn value_inputs(&self) -> u64 {
        0b1010
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let dtype = outputs[0].dtype;
        if !dtype.is_float() {
            return Err(NodeError::Unsupported(format!("elements of type {dtype}")));
        }
        transformable(frame_length(inputs)?)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        match Width::of(io.input(0)?.dtype())? {
            Width::F64 => self.transform::<f64>(io),
            _ => self.transform::<f32>(io),
        }
    }
}

impl Stft {
    fn transform<T: Real>(&self, io: &mut Io<'_>) -> Result<(), NodeError> {
        let (length, step) = (frame_length(&io.inputs())?, integer(io.input(1)?)? as usize);
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        let &[batches, count, bins, _] = to.shape() else { return Err(refused("no frames")) };
        let parts = if let &[_, _, parts] = input.shape() { parts } else { 1 };
        let (values, samples) = (widened::<T>(input)?, input.shape()[1]);
        let window = match io.optional(2) {
            Some(window) => widened::<T>(window)?,
            None => memory::filled(T::of(1.0), length),
        };
        let transform = Transform::new(length, false);
        let mut output = memory::with_capacity(to.len());
        let mut pace = Pace::default();
        for frame in 0..batches * count {
            pace.step(64 + length);
            let start = (frame / count * samples + frame % count * step) * parts;
            let mut weighted = memory::zeroed(length);
            for (index, (value, &weight)) in weighted.iter_mut().zip(&window).enumerate() {
                let at = start + index * parts;
                *value = [values[at] * weight, if parts == 2 { values[at + 1] * weight } else { T::default() }];
            }
            let mut spectrum = transform.run(&weighted);
            if parts == 1 {
                mirror(&mut spectrum);
            }
            output.extend(spectrum.into_iter().take(bins).flatten());
        }
        let output = narrow(&output, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Trial;

    #[test]
    fn any_length_agrees_with_the_definition_and_comes_back() {
        for length in [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 30, 32, 40, 49, 60, 67, 202, 211] {
            let signal: Vec<Complex<f64>> = (0..length).map(|i| [(i * i % 7) as f64, (i % 3) as f64 - 1.0]).collect();
            let spectrum = Transform::new(length, false).run(&signal);
            for (k, &[re, im]) in spectrum.iter().enumerate() {
                let mut sum = [0.0; 2];
                for (n, &value) in signal.iter().enumerate() {
                    let angle = -TAU * (k * n % length) as f64 / length as f64;
                    let [a, b] = times(value, [angle.cos(), angle.sin()]);
                    sum = [sum[0] + a, sum[1] + b];
                }
                assert!((sum[0] - re).abs() < 1e-9 && (sum[1] - im).abs() < 1e-9, "{length} {k}");
            }
            let back = Transform::new(length, true).run(&spectrum);
            let close = back.iter().zip(&signal).all(|(a, b)| (a[0] - b[0]).abs() < 1e-9 && (a[1] - b[1]).abs() < 1e-9);
            assert!(close, "{length}");
        }
    }

    #[test]
    fn rounding_does_not_break_the_symmetry_of_real_signals() {
        for length in [1usize, 2, 7, 10] {
            let signal: Vec<Complex<f32>> = (0..length).map(|i| [(i as f32).sin(), 0.0]).collect();
            let mut spectrum = Transform::new(length, false).run(&signal);
            mirror(&mut spectrum);
            for k in 0..length {
                let [re, im] = spectrum[(length - k) % length];
                assert_eq!(spectrum[k], [re, 0.0 - im], "{length} {k}");
            }
        }
    }

    #[test]
    fn spectra_of_real_signals_are_one_sided_there_and_back() {
        let there = Trial::new("DFT").int("onesided", 1).input(&[1, 4, 1], &[1f32, 2.0, 3.0, 4.0]);
        there.gives_about(&[1, 3, 2], &[10.0, 0.0, -2.0, 2.0, -2.0, 0.0]);
        let back = Trial::new("DFT").int("onesided", 1).int("inverse", 1);
        back.input(&[1, 3, 2], &[10f32, 0.0, -2.0, 2.0, -2.0, 0.0]).gives_about(&[1, 4, 1], &[1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn signals_are_cut_or_filled_to_the_length_asked_for() {
        let row = |length: i64| Trial::new("DFT").input(&[2, 1], &[1f32, 2.0]).input(&[], &[length]);
        row(1).gives_about(&[1, 2], &[1.0, 0.0]);
        row(4).gives_about(&[4, 2], &[3.0, 0.0, 1.0, -2.0, -1.0, 0.0, 1.0, 2.0]);
        row(0).is_refused("no transform");
        row(i64::MAX).is_refused("too large");
        row(1_048_573).is_refused("too large a prime");
        row(2).input(&[], &[1i64]).is_refused("no transform");
        row(2).input(&[], &[2i64]).is_refused("axis 2 does not exist");
        Trial::new("DFT")
            .version(17)
            .int("axis", 0)
            .input(&[2, 1], &[1f32, 2.0])
            .gives_about(&[2, 2], &[3.0, 0.0, -1.0, 0.0]);
        Trial::new("DFT").input(&[2, 3], &[0f32; 6]).is_refused("no real or complex");
    }

    #[test]
    fn frames_are_weighted_and_transformed() {
        let row = || Trial::new("STFT").input(&[1, 4, 1], &[1f32, 2.0, 3.0, 4.0]).input(&[], &[2i64]);
        row().input(&[2], &[1f32, 0.5]).gives_about(&[1, 2, 2, 2], &[2.0, 0.0, 0.0, 0.0, 5.0, 0.0, 1.0, 0.0]);
        row()
            .absent()
            .input(&[], &[2i64])
            .int("onesided", 0)
            .gives_about(&[1, 2, 2, 2], &[3.0, 0.0, -1.0, 0.0, 7.0, 0.0, -1.0, 0.0]);
        row().absent().input(&[], &[5i64]).is_refused("no frames");
        Trial::new("STFT").input(&[1, 4, 1], &[0f32; 4]).input(&[], &[0i64]).is_refused("no frames");
    }
}
