//! Convolutions of integers, element of the window by element: plain, for models that were quantised with them.

use kiln_kernels::memory::{self, Collect, Pace};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::{eight_bits, requantised, requantiser, single};
use crate::sliding::{Slide, Sliding};
use crate::wide::{narrow, widened};
use crate::{LoadCx, OpError, refused, required};

struct Conv {
    sliding: Sliding,
    groups: usize,
    requantised: bool,
}

pub(super) fn make(cx: &LoadCx<'_>, requantised: bool) -> Result<Box<dyn Node>, OpError> {
    let groups = usize::try_from(cx.node.attributes().int("group")).ok().filter(|&groups| groups > 0);
    let groups = groups.ok_or_else(|| OpError::invalid(cx.node, "group must be positive"))?;
    Ok(Box::new(Conv { sliding: Sliding::read(cx.node, "kernel_shape")?, groups, requantised }))
}

/// Sizes that fit together.
struct Sizes {
    batch: usize,
    channels: usize,
    filters: usize,
    slide: Slide,
}

impl Conv {
    /// Numbers of the inputs: image and weights, their zero points.
    fn places(&self) -> [usize; 4] {
        if self.requantised { [0, 3, 2, 5] } else { [0, 1, 2, 3] }
    }

    fn sizes(&self, image: &[usize], weights: &[usize]) -> Result<Sizes, NodeError> {
        let error = || refused(format!("weights of {weights:?} in {} groups over {image:?}", self.groups));
        let (&[batch, channels, ref input @ ..], &[filters, each, ref kernel @ ..]) = (image, weights) else {
            return Err(error());
        };
        let fits = filters % self.groups == 0 && each.checked_mul(self.groups) == Some(channels);
        if !fits || input.is_empty() {
            return Err(error());
        }
        Ok(Sizes { batch, channels, filters, slide: self.sliding.over(input, kernel)? })
    }

    /// The sums for every image and filter.
    fn sums(&self, sizes: &Sizes, input: &[i32], weights: &[i32]) -> Vec<i32> {
        let (each, filters) = (sizes.channels / self.groups, sizes.filters / self.groups);
        let (area, positions) = (sizes.slide.input.iter().product::<usize>(), sizes.slide.positions());
        let window: usize = sizes.slide.kernel.iter().product();
        let mut sums = memory::zeroed::<i32>(sizes.batch * sizes.filters * positions);
        if sums.is_empty() {
            return sums;
        }
        let mut pace = Pace::default();
        for element in 0..window {
            let taps = sizes.slide.taps(element);
            for (line, sums) in sums.chunks_exact_mut(positions).enumerate() {
                let (image, filter) = (line / sizes.filters, line % sizes.filters);
                for channel in 0..each {
                    let factor = weights[(filter * each + channel) * window + element];
                    let plane = (image * sizes.channels + filter / filters * each + channel) * area;
                    pace.step(1);
                    for taps in taps.chunks(Pace::UNITS / 8) {
                        pace.step(8 * taps.len());
                        for &(to, from) in taps {
                            sums[to] = sums[to].wrapping_add(factor.wrapping_mul(input[plane + from]));
                        }
                    }
                }
            }
        }
        sums
    }
}

/// Elements less their zero point: one for all, or one for each index of the first axis.
fn centred(tensor: &Tensor, zero: Option<&Tensor>) -> Result<Vec<i32>, NodeError> {
    let zeros = zero.map_or(Ok(vec![0]), widened::<i64>)?;
    let lines = tensor.shape()[0];
    if zeros.len() != 1 && zeros.len() != lines {
        return Err(refused(format!("{} zero points for {lines} filters", zeros.len())));
    }
    let values = widened::<i64>(tensor)?;
    let each = (values.len() / lines.max(1)).max(1);
    let line = |(number, values): (usize, &[i64])| {
        let zero = zeros[if zeros.len() == 1 { 0 } else { number }];
        values.iter().map(|value| (value - zero) as i32).collected()
    };
    Ok(values.chunks_exact(each).enumerate().flat_map(line).collected())
}

impl Node for Conv {
    fn family(&self) -> &'static str {
        if self.requantised { "QLinearConv" } else { "ConvInteger" }
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let [image, weights, ..] = self.places();
        let (image, weights) = (required(inputs, image)?, required(inputs, weights)?);
        eight_bits(image)?;
        eight_bits(weights)?;
        self.sizes(image.shape(), weights.shape()).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let [image, weights, image_zero, weights_zero] = self.places();
        let (image, weights, to) = (io.input(image)?, io.input(weights)?, io.alloc(0)?);
        let sizes = self.sizes(image.shape(), weights.shape())?;
        let zero = io.optional(image_zero).map(single::<i64>).transpose()?.unwrap_or(0);
        let centred_image: Vec<i32> = widened::<i64>(image)?.into_iter().map(|value| (value - zero) as i32).collected();
        let sums = self.sums(&sizes, &centred_image, &centred(weights, io.optional(weights_zero))?);
        let output = if self.requantised {
            let filter = |index: usize| index / sizes.slide.positions() % sizes.filters;
            let scales = widened::<f32>(io.input(4)?)?;
            let bias = io.optional(8).map(widened::<i64>).transpose()?.unwrap_or_else(|| memory::zeroed(sizes.filters));
            if scales.len() != 1 && scales.len() != sizes.filters || bias.len() != sizes.filters {
                return Err(refused(format!(
                    "{} scales and {} biases for {} filters",
                    scales.len(),
                    bias.len(),
                    sizes.filters
                )));
            }
            let (scale, to_scale) = (single::<f32>(io.input(1)?)?, single::<f32>(io.input(6)?)?);
            let real = sums.into_iter().enumerate().map(|(index, sum)| {
                let filter = filter(index);
                let own = scales[if scales.len() == 1 { 0 } else { filter }];
                sum.wrapping_add(bias[filter] as i32) as f32 * requantiser(scale, own, to_scale)
            });
            requantised(real, single::<i64>(io.input(7)?)?, to)?
        } else {
            let sums: Vec<i64> = sums.into_iter().map(i64::from).collected();
            narrow(&sums, to)?
        };
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn windows_sum_products_less_zero_points() {
        let row = || Trial::new("ConvInteger").input(&[1, 1, 3, 3], &[2u8, 3, 4, 5, 6, 7, 8, 9, 10]);
        row().input(&[1, 1, 2, 2], &[1u8; 4]).input(&[], &[1u8]).gives(&[1, 1, 2, 2], &[12i32, 16, 24, 28]);
        let padded = row().ints("pads", &[1, 1, 1, 1]).input(&[1, 1, 2, 2], &[1u8; 4]).input(&[], &[1u8]);
        padded.gives(&[1, 1, 4, 4], &[1i32, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9]);
        row().input(&[2, 1, 3, 3], &[1u8; 18]).absent().input(&[2], &[0u8, 1]).gives(&[1, 2, 1, 1], &[54i32, 0]);
    }

    #[test]
    fn groups_see_their_own_channels() {
        let row = Trial::new("ConvInteger").int("group", 2).input(&[1, 2, 2], &[1i8, 2, 3, 4]);
        row.input(&[2, 1, 1], &[1i8, -1]).gives(&[1, 2, 2], &[1i32, 2, -3, -4]);
        let broken = Trial::new("ConvInteger").int("group", 2).input(&[1, 2, 2], &[1i8, 2, 3, 4]);
        broken.input(&[2, 2, 1], &[1i8; 4]).is_refused("in 2 groups");
        Trial::new("ConvInteger").int("group", 0).is_refused("group");
    }

    #[test]
    fn requantised_sums_have_a_bias_and_a_scale_of_each_filter() {
        let image = Trial::new("QLinearConv").input(&[1, 1, 2], &[10u8, 20]).input(&[], &[0.5f32]).input(&[], &[0u8]);
        let weights = image.input(&[2, 1, 1], &[2i8, -4]).input(&[2], &[1f32, 0.5]).input(&[], &[0i8]);
        let row = weights.input(&[], &[1f32]).input(&[], &[0u8]).input(&[2], &[4i32, 100]);
        row.gives(&[1, 2, 2], &[12u8, 22, 15, 5]);
    }
}
