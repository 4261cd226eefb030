//! Normalisations of `f64`, in plain Rust: the same as those of `f32` beside them, element by element.

use kiln_kernels::cpu::norm::Channels as Images;
use kiln_kernels::cpu::reduce::Reduction;
use kiln_kernels::memory::{self, Collect, Pace};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::axes::{self, OverAxes};
use super::channels::{Channels, Form};
use super::rows::RowNorm;
use crate::wide::{lent, narrow};
use crate::{LoadCx, OpError, View, axis_of, optional, required};

/// A normalisation as its operator's file reads it.
struct Double<N>(N);

/// Makes the node of a normalisation by channels.
pub(super) fn channels(read: Channels) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Double(read)))
}

/// Makes the node of a normalisation of rows.
pub(super) fn rows(cx: &LoadCx<'_>, centred: bool) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Double(RowNorm::read(cx, centred)?)))
}

/// Makes the node of a normalisation over axes.
pub(super) fn axes(read: OverAxes) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Double(read)))
}

fn float(inputs: &[Option<&Tensor>], index: usize) -> Result<(), NodeError> {
    match required(inputs, index)?.dtype() {
        dtype if dtype.is_float() => Ok(()),
        dtype => Err(NodeError::Unsupported(format!("input {index} of type {dtype}"))),
    }
}

/// Mean, and the mean square of the distance from it (from zero where it is not `centred`).
fn moments(values: impl Iterator<Item = f64> + Clone, centred: bool) -> [f64; 2] {
    let (count, sum) = values.clone().fold((0f64, 0f64), |(count, sum), x| (count + 1.0, sum + x));
    let mean = if centred { sum / count } else { 0.0 };
    [mean, values.map(|x| (x - mean).powi(2)).sum::<f64>() / count]
}

impl Node for Double<RowNorm> {
    fn family(&self) -> &'static str {
        "norm"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let shape = required(inputs, 0)?.shape();
        axis_of(self.0.axis, shape.len())?;
        for index in [Some(0), Some(1), optional(inputs, 2).map(|_| 2)].into_iter().flatten() {
            float(inputs, index)?;
            View::broadcast(required(inputs, index)?.shape(), shape)?;
        }
        Ok(())
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let input = io.input(0)?;
        let (shape, x) = (input.shape(), lent::<f64>(input)?);
        let axis = axis_of(self.0.axis, shape.len())?;
        let length = shape[axis..].iter().product::<usize>().max(1);
        let scale = stretched(io.input(1)?, shape)?;
        let bias = io.optional(2).map(|bias| stretched(bias, shape)).transpose()?;
        let mut y = memory::zeroed::<f64>(x.len());
        let rows: usize = shape[..axis].iter().product();
        let (mut means, mut deviations) = (memory::zeroed::<f64>(rows), memory::zeroed::<f64>(rows));
        let mut pace = Pace::default();
        for (row, (y, x)) in y.chunks_exact_mut(length).zip(x.chunks_exact(length)).enumerate() {
            pace.step(4 * length);
            let [mean, variance] = moments(x.iter().copied(), self.0.centred);
            let deviation = 1.0 / (variance + f64::from(self.0.epsilon)).sqrt();
            (means[row], deviations[row]) = (mean, deviation);
            for (at, (y, x)) in y.iter_mut().zip(x).enumerate() {
                let at = row * length + at;
                *y = (x - mean) * deviation * scale[at] + bias.as_ref().map_or(0.0, |bias| bias[at]);
            }
        }
        let made: Vec<Tensor> = [(0, y), (1, means), (2, deviations)]
            .into_iter()
            .take(self.0.outputs)
            .map(|(index, values)| narrow(&values, io.alloc(index)?))
            .collect::<Result<_, _>>()?;
        made.into_iter().for_each(|output| io.push(output));
        Ok(())
    }
}

/// A tensor repeated to a whole shape that it broadcasts to.
fn stretched(operand: &Tensor, shape: &[usize]) -> Result<Vec<f64>, NodeError> {
    let values = lent::<f64>(operand)?;
    let mut whole = memory::zeroed(shape.iter().product());
    if !whole.is_empty() {
        View::broadcast(operand.shape(), shape)?.copy(&values, &mut whole);
    }
    Ok(whole)
}

impl Double<Channels> {
    /// The positions of a group of channels in one image, or in all.
    fn places(
        images: Images,
        image: Option<usize>,
        channels: std::ops::Range<usize>,
    ) -> impl Iterator<Item = usize> + Clone {
        let batch = image.map_or(0..images.batch(), |image| image..image + 1);
        batch.flat_map(move |image| {
            let channels = channels.clone();
            channels.flat_map(move |channel| (0..images.spatial()).map(move |place| images.at(image, channel, place)))
        })
    }

    /// Local response normalisation.
    fn local(images: Images, [size, alpha, beta, bias]: [f64; 4], x: &[f64], y: &mut [f64]) {
        let (before, channels) = ((size as usize - 1) / 2, images.channels());
        let after = size as usize - 1 - before;
        let mut pace = Pace::default();
        for image in 0..images.batch() {
            for channel in 0..channels {
                let window =
                    channel.saturating_sub(before)..channels.min(channel.saturating_add(after).saturating_add(1));
                pace.step(images.spatial().saturating_mul(8 + window.len()));
                for place in 0..images.spatial() {
                    let squares: f64 = window.clone().map(|near| x[images.at(image, near, place)].powi(2)).sum();
                    let at = images.at(image, channel, place);
                    y[at] = x[at] / (bias + alpha / size * squares).powf(beta);
                }
            }
        }
    }
}

impl Node for Double<Channels> {
    fn family(&self) -> &'static str {
        "norm"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let count = inputs.iter().flatten().count();
        (0..count).try_for_each(|index| float(inputs, index))?;
        self.0.check_sizes(inputs)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let input = io.input(0)?;
        let images = self.0.images(input.shape())?;
        let x = lent::<f64>(input)?;
        let mut y = memory::zeroed::<f64>(x.len());
        let given = |index: usize| lent::<f64>(io.input(index)?);
        let mut made = Vec::new();
        let channels = images.channels();
        match self.0.form {
            Form::Batch { epsilon, .. } | Form::Training { epsilon, .. } => {
                let (scale, bias, mean, variance) = (given(1)?, given(2)?, given(3)?, given(4)?);
                let (mut now, mut pace) = ([mean.to_vec(), variance.to_vec()], Pace::default());
                for channel in 0..channels {
                    pace.step(images.batch().saturating_mul(4 * images.spatial()));
                    let places = Self::places(images, None, channel..channel + 1);
                    if matches!(self.0.form, Form::Training { .. }) && !x.is_empty() {
                        let [mean, variance] = moments(places.clone().map(|at| x[at]), true);
                        (now[0][channel], now[1][channel]) = (mean, variance);
                    }
                    let factor = scale[channel] / (now[1][channel] + f64::from(epsilon)).sqrt();
                    places.for_each(|at| y[at] = (x[at] - now[0][channel]) * factor + bias[channel]);
                }
                if let Form::Training { momentum, outputs, .. } = self.0.form {
                    let momentum = f64::from(momentum);
                    let mixed = |old: &[f64], now: &[f64]| -> Vec<f64> {
                        old.iter().zip(now).map(|(old, now)| old * momentum + now * (1.0 - momentum)).collected()
                    };
                    let [own_mean, own_variance] = now;
                    let running_mean = mixed(&mean, &own_mean);
                    let running_variance = mixed(&variance, &own_variance);
                    let deviation =
                        own_variance.iter().map(|variance| 1.0 / (variance + f64::from(epsilon)).sqrt()).collected();
                    let moments = [running_mean, running_variance, own_mean, deviation];
                    for (index, values) in (1..outputs).zip(moments) {
                        made.push(narrow(&values, io.alloc(index)?)?);
                    }
                }
            }
            Form::Groups { epsilon, groups, by_group } => {
                let (scale, bias) = (given(1)?, given(2)?);
                let groups = groups.map_or(channels, |groups| groups as usize).max(1);
                let (each, mut pace) = (channels / groups, Pace::default());
                for number in 0..if x.is_empty() { 0 } else { images.batch() * groups } {
                    let (image, group) = (number / groups, number % groups);
                    pace.step((4 * each).saturating_mul(images.spatial()));
                    let of = |channels| Self::places(images, Some(image), channels);
                    let values = of(group * each..(group + 1) * each).map(|at| x[at]);
                    let [mean, variance] = moments(values, true);
                    let deviation = 1.0 / (variance + f64::from(epsilon)).sqrt();
                    for channel in group * each..(group + 1) * each {
                        let own = if by_group { group } else { channel };
                        of(channel..channel + 1)
                            .for_each(|at| y[at] = (x[at] - mean) * deviation * scale[own] + bias[own]);
                    }
                }
            }
            Form::Local { size, alpha, beta, bias } => {
                let [alpha, beta, bias] = [alpha, beta, bias].map(f64::from);
                Self::local(images, [size as f64, alpha, beta, bias], &x, &mut y);
            }
        }
        let output = narrow(&y, io.alloc(0)?)?;
        io.push(output);
        made.into_iter().for_each(|output| io.push(output));
        Ok(())
    }
}

impl Node for Double<OverAxes> {
    fn family(&self) -> &'static str {
        "norm"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        float(inputs, 0)?;
        self.0.axes(required(inputs, 0)?.shape()).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let input = io.input(0)?;
        let (shape, mut values) = (input.shape(), memory::copied(&lent::<f64>(input)?));
        let (kept, count) = self.0.kept(shape)?;
        let each = (values.len() / count.max(1)) as f64;
        let total = |values: &[f64], of: &dyn Fn(f64) -> f64| -> Result<Vec<f64>, NodeError> {
            let mut sums = memory::zeroed::<f64>(count);
            in_places(&kept, shape, |at, place| sums[place] += of(values[at]))?;
            Ok(sums)
        };
        if !values.is_empty() {
            match &self.0.form {
                axes::Form::MeanVariance => {
                    let means = total(&values, &|x| x)?;
                    in_places(&kept, shape, |at, place| values[at] -= means[place] / each)?;
                    let squares = total(&values, &|x| x * x)?;
                    let epsilon = f64::from(axes::DEVIATION_EPSILON);
                    in_places(&kept, shape, |at, place| values[at] /= (squares[place] / each).sqrt() + epsilon)?;
                }
                axes::Form::Lp(norm) => {
                    let norms = match norm {
                        Reduction::L1 => total(&values, &f64::abs)?,
                        _ => total(&values, &|x| x * x)?.into_iter().map(f64::sqrt).collect(),
                    };
                    // Zeros stay zeros.
                    in_places(&kept, shape, |at, place| {
                        values[at] = if norms[place] == 0.0 { 0.0 } else { values[at] / norms[place] };
                    })?;
                }
            }
        }
        let output = narrow(&values, io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

/// Calls `visit` with each element's number in a tensor of `shape`, and its place in the tensor of shape `kept` that it
/// is reduced to.
fn in_places(kept: &[usize], shape: &[usize], mut visit: impl FnMut(usize, usize)) -> Result<(), NodeError> {
    let view = View::broadcast(kept, shape)?;
    let (mut cursor, mut first, mut pace) = (view.cursor(), 0, Pace::default());
    while let Some(run) = cursor.next(Pace::UNITS) {
        pace.step(run.count);
        (0..run.count).for_each(|index| visit(first + index, run.at(index)));
        first += run.count;
    }
    Ok(())
}
