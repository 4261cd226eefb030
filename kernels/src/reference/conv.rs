//! The plain form of convolution and transposed convolution: one multiply-add at a time over channels-last tensors,
//! sums in `f64`. Weights are in ONNX's layout, unpacked.

use crate::problem::conv::ConvShape;

/// The output of the convolution, without bias.
#[must_use]
pub fn conv(shape: &ConvShape, x: &[f32], weights: &[f32]) -> Vec<f32> {
    let mut sums = vec![0.0f64; shape.output_len()];
    let (channels, filters, taps) = (shape.group_channels(), shape.group_filters(), shape.taps());
    // One loop for both: positions on the side `far` are `near * stride + tap * dilation - pad`.
    let (near, far) = if shape.transposed { (shape.input(), shape.output()) } else { (shape.output(), shape.input()) };
    each(near, |position| {
        each(shape.kernel(), |tap| {
            let at = [0, 1, 2].map(|dim| {
                (position[dim] * shape.strides()[dim] + tap[dim] * shape.dilations()[dim])
                    .wrapping_sub(shape.pads()[dim])
            });
            if (0..3).any(|dim| at[dim] >= far[dim]) {
                return;
            }
            let (from, to) = if shape.transposed { (position, at) } else { (at, position) };
            let tap = flat(shape.kernel(), tap);
            for image in 0..shape.batch() {
                let x = &x[(image * shape.input().iter().product::<usize>() + flat(shape.input(), from))
                    * shape.channels()..];
                let y = (image * shape.output().iter().product::<usize>() + flat(shape.output(), to)) * shape.filters();
                for filter in 0..shape.filters() {
                    let group = filter / filters;
                    for channel in 0..channels {
                        let weight = if shape.transposed {
                            ((group * channels + channel) * filters + filter % filters) * taps + tap
                        } else {
                            (filter * channels + channel) * taps + tap
                        };
                        sums[y + filter] += f64::from(x[group * channels + channel]) * f64::from(weights[weight]);
                    }
                }
            }
        });
    });
    sums.into_iter().map(|sum| sum as f32).collect()
}

fn flat(size: [usize; 3], at: [usize; 3]) -> usize {
    (at[0] * size[1] + at[1]) * size[2] + at[2]
}

fn each(size: [usize; 3], mut visit: impl FnMut([usize; 3])) {
    for d in 0..size[0] {
        for h in 0..size[1] {
            for w in 0..size[2] {
                visit([d, h, w]);
            }
        }
    }
}
