//! The plain form of normalisations: one element at a time, moments in `f64`, rounded once.

use crate::problem::norm::{Channels, Local, Moments};

/// Mean and reciprocal standard deviation of some elements. If not centred, the mean is zero and the deviation the root
/// of the mean square.
#[must_use]
pub fn moments<'a>(values: impl Iterator<Item = &'a f32> + Clone, centred: bool, epsilon: f32) -> (f64, f64) {
    let (count, sum) = values.clone().fold((0f64, 0f64), |(count, sum), &x| (count + 1.0, sum + f64::from(x)));
    let mean = if centred { sum / count } else { 0.0 };
    let squares: f64 = values.map(|&x| (f64::from(x) - mean).powi(2)).sum();
    (mean, 1.0 / (squares / count + f64::from(epsilon)).sqrt())
}

/// One row of a layer or RMS normalisation; returns the moments that it used.
pub fn row(
    input: &[f32],
    scale: Option<&[f32]>,
    bias: Option<&[f32]>,
    moments_of: Moments,
    output: &mut [f32],
) -> (f32, f32) {
    let (mean, deviation) = moments(input.iter(), moments_of.centred, moments_of.epsilon);
    for (at, (to, &x)) in output.iter_mut().zip(input).enumerate() {
        let scale = scale.map_or(1.0, |scale| f64::from(scale[at]));
        let bias = bias.map_or(0.0, |bias| f64::from(bias[at]));
        *to = ((f64::from(x) - mean) * deviation * scale + bias) as f32;
    }
    (mean as f32, deviation as f32)
}

/// Instance and group normalisation: moments over an image's group of channels, scale and bias by channel.
#[must_use]
pub fn groups(shape: Channels, groups: usize, epsilon: f32, input: &[f32], scale: &[f32], bias: &[f32]) -> Vec<f32> {
    let mut output = vec![0.0; input.len()];
    let group_channels = shape.channels() / groups.max(1);
    for image in 0..shape.batch() {
        for group in 0..groups {
            let channels = group * group_channels..(group + 1) * group_channels;
            let positions = channels.flat_map(|channel| (0..shape.spatial()).map(move |position| (channel, position)));
            let of_group = positions.clone().map(|(channel, position)| &input[shape.at(image, channel, position)]);
            let (mean, deviation) = moments(of_group, true, epsilon);
            for (channel, position) in positions {
                let at = shape.at(image, channel, position);
                let x = (f64::from(input[at]) - mean) * deviation;
                output[at] = (x * f64::from(scale[channel]) + f64::from(bias[channel])) as f32;
            }
        }
    }
    output
}

/// Local response normalisation across channels.
pub fn local(shape: Channels, local: Local, input: &[f32], output: &mut [f32]) {
    let (before, after) = local.reach();
    for image in 0..shape.batch() {
        for position in 0..shape.spatial() {
            for channel in 0..shape.channels() {
                let window = channel.saturating_sub(before)..shape.channels().min(channel.saturating_add(after + 1));
                let squares: f64 = window.map(|near| f64::from(input[shape.at(image, near, position)]).powi(2)).sum();
                let base = f64::from(local.bias.get()) + f64::from(local.alpha.get()) / local.size as f64 * squares;
                let at = shape.at(image, channel, position);
                output[at] = (f64::from(input[at]) / base.powf(f64::from(local.beta.get()))) as f32;
            }
        }
    }
}
