//! Weights in blocks: the width of a block, and weights in ONNX's order.
//!
//! ONNX's order is [output channels, input channels, kernel]. In blocks of `width`, weights are in one of two orders:
//!
//! - [output blocks, input channels, kernel, output channel of the block], where the input is an image or each channel
//!   is a group;
//! - [output blocks, input blocks, kernel, input channel of the block, output channel of the block].

use kiln_kernels::memory;
use kiln_tensor::{Tensor, TensorError};

use super::WIDTHS;
use super::survey::{Convolution, Demand, Form, Required, Stored};
use crate::onnx::ModelError;

/// A score decides on a width if it is above this many standard deviations of the score of weights that all have one
/// scale.
const SURE: f64 = 5.0;

/// The width of a file's blocks.
///
/// # Errors
///
/// Where no width fulfils all demands of the file.
pub(super) fn width<'a, Weights: Iterator<Item = &'a Stored>>(
    demands: impl Iterator<Item = &'a Demand> + Clone,
    weights: impl Fn() -> Weights,
) -> Result<usize, ModelError> {
    let against = WIDTHS.map(|width| demands.clone().find(|demand| !demand.what.holds(width)));
    match against {
        [None, Some(_)] => Ok(WIDTHS[0]),
        [Some(_), None] => Ok(WIDTHS[1]),
        [None, None] => Ok(likelier(weights()).unwrap_or_else(own_width)),
        [Some(narrow), Some(wide)] => {
            let said = |demand: &Demand| match demand.what {
                Required::Multiple(channels) => format!("{channels} channels in whole blocks"),
                Required::Above(channels) => format!("an image of {channels} channels"),
                Required::Exactly(channels) => format!("blocks of {channels} channels"),
                Required::Fills { channels, filled } => format!("{channels} channels that are filled up to {filled}"),
            };
            let [first, second] = WIDTHS;
            let reason = format!(
                "no width of blocks fits: {} are not in blocks of {first}, nor are {} ({}) in blocks of {second}",
                said(narrow),
                said(wide),
                wide.node
            );
            Err(ModelError::Malformed { place: narrow.node.clone(), reason })
        }
    }
}

/// The width that ONNX Runtime has on this machine.
fn own_width() -> usize {
    if is_x86_feature_detected!("avx512f") { WIDTHS[1] } else { WIDTHS[0] }
}

/// The width that keeps channels apart by their weights, if the weights decide.
fn likelier<'a>(weights: impl Iterator<Item = &'a Stored>) -> Option<usize> {
    let (mut score, mut variance) = (0.0, 0.0);
    for Stored { tensor, form } in weights {
        let (shape, own) = (tensor.shape(), tensor.unread());
        let Ok(values) = own.as_slice::<f32>() else { continue };
        let (outputs, inputs) = (shape[0], shape[1]);
        let (each, kernel) = (values.len() / outputs, shape[2] * shape[3]);
        let of_outputs = WIDTHS.map(|width| scales(values, width, outputs, |row| [row / each * width, 1]));
        // Input channels have scales too, which must not be mistaken for those of output channels.
        let of_inputs = WIDTHS.map(|width| match form {
            Form::Whole => scales(values, width, inputs, |row| {
                [row / (kernel * width) % (inputs / width) * width + row % width, 0]
            }),
            Form::Image | Form::Depthwise => Scales::default(),
        });
        for ([narrow, wide], channels) in [(of_outputs, outputs), (of_inputs, inputs)] {
            score += wide.unlikeliness - narrow.unlikeliness;
            // Of two sums over the channels of (n / 4) (square / mean - 1)^2, where each square is of n weights.
            let spread = (narrow.kurtosis.max(wide.kurtosis) - 1.0).max(0.0) / 2.0;
            variance += channels as f64 * spread * spread;
        }
        // Stops early where the score is clear enough.
        if score.abs() > 8.0 * SURE * f64::sqrt(variance) {
            break;
        }
    }
    let is_sure = score.abs() > SURE * f64::sqrt(variance);
    is_sure.then_some(if score > 0.0 { WIDTHS[0] } else { WIDTHS[1] })
}

/// How well one scale for each channel explains the weights.
#[derive(Default)]
struct Scales {
    /// The negative logarithm of the likelihood of all weights but zeros, each channel being normally distributed with
    /// its own scale.
    unlikeliness: f64,
    /// The mean of the channels' kurtoses; 3 where each is normally distributed.
    kurtosis: f64,
}

/// The scales of `channels` channels of weights that are in rows of `width`. `place` gives the channel of a row's first
/// element, and the step in channels from one element to the next.
fn scales(values: &[f32], width: usize, channels: usize, place: impl Fn(usize) -> [usize; 2]) -> Scales {
    // Counts, squares and fourth powers, without zeros, which fill up blocks.
    let mut moments: Vec<[f64; 3]> = memory::zeroed(channels);
    for (row, values) in values.chunks_exact(width).enumerate() {
        if row.is_multiple_of(1 << 16) {
            memory::raise_if_over(0);
        }
        let [first, step] = place(row);
        for (index, value) in values.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            let square = f64::from(*value) * f64::from(*value);
            let [count, squares, fourths] = &mut moments[first + index * step];
            *count += 1.0;
            *squares += square;
            *fourths += square * square;
        }
    }
    let used = moments.iter().filter(|[count, squares, _]| *count > 0.0 && squares.is_normal());
    let kurtoses = used.clone().map(|[count, squares, fourths]| fourths * count / (squares * squares));
    let kurtosis = kurtoses.sum::<f64>() / used.clone().count().max(1) as f64;
    let unlikeliness = used.map(|[count, squares, _]| count / 2.0 * (squares / count).ln()).sum();
    Scales { unlikeliness, kurtosis }
}

/// The first channels of weights in ONNX's order: `outputs` of the output channels, and `inputs` of a group's input
/// channels.
pub(super) fn read_back(
    from: &Convolution<'_>,
    width: usize,
    outputs: usize,
    inputs: usize,
) -> Result<Tensor, TensorError> {
    let [_, all, height, columns] = from.dims;
    let kernel = height * columns;
    let own = from.weights.unread();
    let values = own.as_slice::<f32>()?;
    let mut made: Vec<f32> = memory::zeroed(outputs * inputs * kernel);
    let (within, blocks) = match from.form {
        Form::Whole => (width, all / width),
        Form::Image | Form::Depthwise => (1, all),
    };
    for (output, rows) in made.chunks_exact_mut(inputs * kernel).enumerate() {
        memory::raise_if_over(0);
        let first = output / width * blocks;
        for (input, row) in rows.chunks_exact_mut(kernel).enumerate() {
            let block = (first + input / within) * kernel;
            for (place, value) in row.iter_mut().enumerate() {
                *value = values[((block + place) * within + input % within) * width + output % width];
            }
        }
    }
    Tensor::from_vec([outputs, inputs, height, columns], made)
}
