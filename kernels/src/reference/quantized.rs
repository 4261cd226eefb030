//! The plain form of quantised convolution, the oracle of its kernels.

use crate::problem::conv::ConvShape;
use crate::problem::quantized::{Output, Terms, WeightSource};

/// Convolves `x` (channels last, padded with zero points); returns the bytes of the output's elements.
///
/// # Panics
///
/// Where an operand is shorter than the shape says.
#[must_use]
pub fn quantized(
    shape: &ConvShape,
    x: &[u8],
    weights: &WeightSource<'_>,
    terms: &Terms<'_>,
    output: Output,
) -> Vec<u8> {
    let [depth, height, width] = shape.output();
    let mut y = Vec::with_capacity(shape.output_len() * output.bytes());
    for image in 0..shape.batch() {
        for at in (0..depth * height * width).map(|at| [at / width / height, at / width % height, at % width]) {
            for filter in 0..shape.filters() {
                let bias = terms.bias.map_or(0, |bias| i64::from(bias[filter]));
                // The sum of at most 2^30 elements of 17 bits each fits 64 bits; hardware keeps the low 32.
                let sum = (bias + sum(shape, x, weights, terms, image, at, filter)) as i32;
                finish(sum, filter, terms, output, &mut y);
            }
        }
    }
    y
}

fn sum(
    shape: &ConvShape,
    x: &[u8],
    weights: &WeightSource<'_>,
    terms: &Terms<'_>,
    image: usize,
    at: [usize; 3],
    filter: usize,
) -> i64 {
    let byte = |byte: u8, signed: bool| if signed { i64::from(byte as i8) } else { i64::from(byte) };
    let [_, rows, line] = shape.kernel();
    let group = filter / shape.group_filters();
    let mut total = 0;
    for tap in 0..shape.taps() {
        let kernel = [tap / line / rows, tap / line % rows, tap % line];
        let input_at = |dim: usize| {
            let padded = at[dim] * shape.strides()[dim] + kernel[dim] * shape.dilations()[dim];
            padded.checked_sub(shape.pads()[dim]).filter(|&at| at < shape.input()[dim])
        };
        let (Some(d), Some(h), Some(w)) = (input_at(0), input_at(1), input_at(2)) else { continue };
        let position = ((image * shape.input()[0] + d) * shape.input()[1] + h) * shape.input()[2] + w;
        for channel in 0..shape.group_channels() {
            let a = byte(x[position * shape.channels() + group * shape.group_channels() + channel], terms.signed);
            let w = weights.data[filter * weights.filter + channel * weights.channel + tap * weights.tap];
            let zero = weights.zeros[if weights.zeros.len() == 1 { 0 } else { filter }];
            total += (a - i64::from(terms.left_zero)) * (byte(w, weights.signed) - i64::from(zero));
        }
    }
    total
}

fn finish(sum: i32, filter: usize, terms: &Terms<'_>, output: Output, y: &mut Vec<u8>) {
    if output == Output::Sums {
        return y.extend(sum.to_ne_bytes());
    }
    let scale = terms.scale[if terms.scale.len() == 1 { 0 } else { filter }];
    let real = sum as f32 * scale + terms.shift.map_or(0.0, |shift| shift[filter]);
    let clamped = if real.is_nan() { real } else { real.max(terms.low).min(terms.high) };
    if output == Output::Floats {
        return y.extend(clamped.to_ne_bytes());
    }
    let (least, greatest) = output.bounds();
    let rounded = f64::from(clamped).round_ties_even() as i64 + i64::from(terms.zero);
    y.push(rounded.clamp(least.into(), greatest.into()) as u8);
}
