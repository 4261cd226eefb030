//! Depthwise convolution of quantised tensors: each channel has a filter of its own.
//!
//! Channels are done a few registers at a time, the window's positions one after another, in Rust that the compiler turns
//! into vector code: the sums of a block of channels stay in registers while the window is gone through.

use super::finish::Finish;
use super::prepare::twice;
use super::weights::DEPTHWISE_CHANNELS as BLOCK;
use crate::cpu::conv::ConvShape;
use crate::isa::Isa;

/// What a line needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) shape: &'a ConvShape,
    /// The whole input as words without gaps, with [`BLOCK`] words behind it.
    pub(super) x: &'a [i16],
    /// A row of words for each position of the window, of a multiple of [`BLOCK`].
    pub(super) weights: &'a [i16],
    /// What each channel's sum starts from.
    pub(super) start: &'a [i32],
    pub(super) finish: Finish<'a>,
    /// Image, depth and height of the output line.
    pub(super) at: [usize; 3],
}

/// The positions of the window along one dimension that lie inside.
fn inside(shape: &ConvShape, dim: usize, output: usize) -> std::ops::Range<usize> {
    let start = output * shape.strides[dim];
    let step = shape.dilations[dim];
    let first = shape.pads[dim].saturating_sub(start).div_ceil(step);
    let last = (shape.input[dim] + shape.pads[dim]).saturating_sub(start).div_ceil(step);
    first.min(shape.kernel[dim])..last.min(shape.kernel[dim])
}

twice! {
    /// Computes one line of outputs.
    pub(super) fn line(line: &Line<'_>, y: &mut [u8]) {
        let shape = line.shape;
        let [image, d, h] = line.at;
        let channels = shape.channels;
        let (depths, heights) = (inside(shape, 0, d), inside(shape, 1, h));
        let row = channels.next_multiple_of(BLOCK);
        let along = |dim: usize, output: usize, tap: usize| {
            output * shape.strides[dim] + tap * shape.dilations[dim] - shape.pads[dim]
        };
        let bytes = line.finish.output.bytes();
        for (w, y) in y.chunks_exact_mut((channels * bytes).max(1)).enumerate() {
            let widths = inside(shape, 2, w);
            for channel in (0..channels).step_by(BLOCK) {
                let mut sums = [0i32; BLOCK];
                sums.copy_from_slice(&line.start[channel..][..BLOCK]);
                for kd in depths.clone() {
                    for kh in heights.clone() {
                        let plane = (image * shape.input[0] + along(0, d, kd)) * shape.input[1] + along(1, h, kh);
                        for kw in widths.clone() {
                            let at = (plane * shape.input[2] + along(2, w, kw)) * channels + channel;
                            let tap = (kd * shape.kernel[1] + kh) * shape.kernel[2] + kw;
                            let x = &line.x[at..][..BLOCK];
                            let weights = &line.weights[tap * row + channel..][..BLOCK];
                            for lane in 0..BLOCK {
                                let product = i32::from(x[lane]) * i32::from(weights[lane]);
                                sums[lane] = sums[lane].wrapping_add(product);
                            }
                        }
                    }
                }
                let own = BLOCK.min(channels - channel);
                line.finish.row(&sums[..own], channel, &mut y[channel * bytes..][..own * bytes]);
            }
        }
    }
}
