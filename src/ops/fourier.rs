//! Fourier transforms: DFT and STFT, in `f64`, for any length.

use std::f64::consts::TAU;

use super::wide::{narrow, widened};
use super::{LoadCx, OpError, Operator, axis_of, integer, lines, one, optional, refused, required};
use crate::graph::node::Specs;
use crate::graph::{Io, Node, NodeError, Prepared, RunCx};
use crate::tensor::{Shape, Tensor};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "DFT", make_dft), ("", "STFT", make_stft)];

/// Real and imaginary part.
type Complex = [f64; 2];

fn times([a, b]: Complex, [c, d]: Complex) -> Complex {
    [a * c - b * d, a * d + b * c]
}

/// Transforms of one length and direction.
struct Transform {
    /// The powers of the first root of one, in the direction of the transform.
    roots: Vec<Complex>,
    inverse: bool,
}

impl Transform {
    fn new(length: usize, inverse: bool) -> Transform {
        let sign = if inverse { 1.0 } else { -1.0 };
        let root = |index: usize| {
            let angle = sign * TAU * index as f64 / length as f64;
            [angle.cos(), angle.sin()]
        };
        Transform { roots: (0..length).map(root).collect(), inverse }
    }

    fn run(&self, values: &[Complex]) -> Vec<Complex> {
        let mut output = vec![[0.0; 2]; values.len()];
        self.part(values, 1, &mut output);
        if self.inverse {
            let count = values.len() as f64;
            output.iter_mut().flatten().for_each(|part| *part /= count);
        }
        output
    }

    /// The transform of every `step`-th value, by the smallest prime factor of how many there are: that many
    /// transforms of a part each, joined. Lengths without small factors cost their square.
    fn part(&self, values: &[Complex], step: usize, output: &mut [Complex]) {
        let count = output.len();
        if count == 1 {
            output[0] = values[0];
            return;
        }
        let prime = (2..).take_while(|p| p * p <= count).find(|p| count.is_multiple_of(*p)).unwrap_or(count);
        let rest = count / prime;
        let mut parts = vec![[0.0; 2]; count];
        for (number, part) in parts.chunks_exact_mut(rest).enumerate() {
            self.part(&values[number * step..], step * prime, part);
        }
        for (frequency, to) in output.iter_mut().enumerate() {
            let joined = (0..prime).map(|number| {
                // `step` times, because the roots are those of the whole length.
                let turn = self.roots[frequency * number % count * step];
                times(turn, parts[number * rest + frequency % rest])
            });
            *to = joined.fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d]);
        }
    }
}

struct Dft {
    inverse: bool,
    one_sided: bool,
    /// The attribute of operator set 17; without it the axis is input 2.
    axis: Option<i64>,
}

fn make_dft(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let flag = |name| cx.node.int(name, 0) != 0;
    let axis = (cx.node.version < 20).then(|| cx.node.int("axis", 1));
    Ok(Box::new(Dft { inverse: flag("inverse"), one_sided: flag("onesided"), axis }))
}

/// What a transform does to a tensor.
struct Extent {
    axis: usize,
    /// Values that are transformed at once.
    length: usize,
    output: Shape,
}

/// Whether the last axis holds real numbers or pairs.
fn parts_of(shape: &[usize]) -> Result<usize, NodeError> {
    match shape.last() {
        Some(&parts @ (1 | 2)) if shape.len() >= 2 => Ok(parts),
        _ => Err(refused(format!("no real or complex signal in shape {shape:?}"))),
    }
}

impl Dft {
    fn extent(&self, inputs: &[Option<&Tensor>]) -> Result<Extent, NodeError> {
        let shape = required(inputs, 0)?.shape();
        parts_of(shape)?;
        let given = match self.axis {
            Some(axis) => axis,
            None => optional(inputs, 2).map_or(Ok(-2), integer)?,
        };
        let axis = axis_of(given, shape.len())?;
        // A one-sided spectrum holds what a real signal of this length leads to.
        let full = if self.inverse && self.one_sided { 2 * shape[axis].saturating_sub(1) } else { shape[axis] };
        let length = match optional(inputs, 1) {
            Some(length) => integer(length)?,
            None => full as i64,
        };
        let length = usize::try_from(length).ok().filter(|&length| length > 0 && axis + 1 < shape.len());
        let length = length.ok_or_else(|| refused(format!("no transform along axis {given} of shape {shape:?}")))?;
        let mut output = Shape::from_slice(shape);
        let last = output.len() - 1;
        (output[axis], output[last]) = match (self.one_sided, self.inverse) {
            (true, false) => (length / 2 + 1, 2),
            (true, true) => (length, 1),
            (false, _) => (length, 2),
        };
        Ok(Extent { axis, length, output })
    }

    /// The values to transform: the line's own, with zeros where it is too short, or those a half spectrum stands for.
    fn prepare(&self, line: &[Complex], length: usize) -> Vec<Complex> {
        let at = |index: usize| line.get(index).copied().unwrap_or_default();
        if !(self.inverse && self.one_sided) {
            return (0..length).map(at).collect();
        }
        let mirrored = |index: usize| {
            let [re, im] = at(length - index);
            [re, -im]
        };
        (0..length).map(|index| if index <= length / 2 { at(index) } else { mirrored(index) }).collect()
    }
}

impl Node for Dft {
    fn family(&self) -> &'static str {
        "DFT"
    }

    fn value_inputs(&self) -> u64 {
        0b110
    }

    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let dtype = required(inputs, 0)?.dtype();
        if !dtype.is_float() {
            return Err(NodeError::Unsupported(format!("elements of type {dtype}")));
        }
        one(dtype, self.extent(inputs)?.output)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let extent = self.extent(&io.inputs())?;
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        let parts = parts_of(input.shape())?;
        let values = widened::<f64>(input)?;
        let transform = Transform::new(extent.length, self.inverse);
        // Lines of pairs or single numbers, with the last axis taken away.
        let without_last = |shape: &[usize]| Shape::from_slice(&shape[..shape.len() - 1]);
        let (from, out_parts) = (without_last(input.shape()), extent.output[extent.output.len() - 1]);
        let mut output = vec![0f64; to.len()];
        let runs = lines(&from, extent.axis).zip(lines(&without_last(&extent.output), extent.axis));
        for (run, out) in runs {
            let line: Vec<Complex> = (0..run.count)
                .map(|index| run.at(index) * parts)
                .map(|at| [values[at], if parts == 2 { values[at + 1] } else { 0.0 }])
                .collect();
            let spectrum = transform.run(&self.prepare(&line, extent.length));
            for (index, value) in spectrum.into_iter().enumerate().take(out.count) {
                output[out.at(index) * out_parts..][..out_parts].copy_from_slice(&value[..out_parts]);
            }
        }
        let output = narrow(&output, to)?;
        io.push(output);
        Ok(())
    }
}

struct Stft {
    one_sided: bool,
}

fn make_stft(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Stft { one_sided: cx.node.int("onesided", 1) != 0 }))
}

/// Frames of a signal.
struct Frames {
    batches: usize,
    count: usize,
    step: usize,
    length: usize,
    bins: usize,
}

impl Stft {
    fn frames(&self, inputs: &[Option<&Tensor>]) -> Result<Frames, NodeError> {
        let signal = required(inputs, 0)?.shape();
        let (batches, samples) = match *signal {
            [batches, samples] | [batches, samples, 1 | 2] => (batches, samples),
            _ => return Err(refused(format!("no batch of signals in shape {signal:?}"))),
        };
        let window = optional(inputs, 2).map(Tensor::len);
        let size = |value: i64| usize::try_from(value).ok().filter(|&value| value > 0);
        let step = size(integer(required(inputs, 1)?)?);
        let length = match (optional(inputs, 3), window) {
            (Some(length), _) => size(integer(length)?),
            (None, window) => window.or(Some(samples)).filter(|&length| length > 0),
        };
        match (step, length) {
            (Some(step), Some(length)) if length <= samples && window.is_none_or(|window| window <= length) => {
                let bins = if self.one_sided { length / 2 + 1 } else { length };
                Ok(Frames { batches, count: 1 + (samples - length) / step, step, length, bins })
            }
            _ => Err(refused(format!("no frames of {length:?} every {step:?} of {samples} samples"))),
        }
    }
}

impl Node for Stft {
    fn family(&self) -> &'static str {
        "STFT"
    }

    fn value_inputs(&self) -> u64 {
        0b1010
    }

    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let (dtype, frames) = (required(inputs, 0)?.dtype(), self.frames(inputs)?);
        if !dtype.is_float() {
            return Err(NodeError::Unsupported(format!("elements of type {dtype}")));
        }
        one(dtype, [frames.batches, frames.count, frames.bins, 2])
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let frames = self.frames(&io.inputs())?;
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        let parts = if let &[_, _, parts] = input.shape() { parts } else { 1 };
        let (values, samples) = (widened::<f64>(input)?, input.shape()[1]);
        let window = match io.optional(2) {
            Some(window) => widened::<f64>(window)?,
            None => vec![1.0; frames.length],
        };
        let transform = Transform::new(frames.length, false);
        let mut output = Vec::with_capacity(to.len());
        for frame in 0..frames.batches * frames.count {
            let start = (frame / frames.count * samples + frame % frames.count * frames.step) * parts;
            let mut weighted = vec![[0.0; 2]; frames.length];
            for (index, (value, weight)) in weighted.iter_mut().zip(&window).enumerate() {
                let at = start + index * parts;
                *value = [values[at] * weight, if parts == 2 { values[at + 1] * weight } else { 0.0 }];
            }
            output.extend(transform.run(&weighted).into_iter().take(frames.bins).flatten());
        }
        let output = narrow(&output, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::trial::Trial;

    #[test]
    fn any_length_agrees_with_the_definition_and_comes_back() {
        for length in [1, 2, 3, 4, 6, 7, 12, 30, 49] {
            let signal: Vec<Complex> = (0..length).map(|i| [(i * i % 7) as f64, (i % 3) as f64 - 1.0]).collect();
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
        row(2).input(&[], &[1i64]).is_refused("no transform");
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
