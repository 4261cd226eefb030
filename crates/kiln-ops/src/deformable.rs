//! DeformConv: a convolution whose window's elements are each moved by an offset, and weighed by a mask.

use kiln_kernels::memory;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::sliding::{Slide, Sliding};
use super::wide::{narrow, widened};
use super::{LoadCx, OpError, Operator, optional, refused, required, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "DeformConv", make)];

struct DeformConv {
    sliding: Sliding,
    groups: usize,
    offset_groups: usize,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let groups = size_attribute(cx.node, "group", 1)?;
    let offset_groups = size_attribute(cx.node, "offset_group", 1)?;
    Ok(Box::new(DeformConv { sliding: Sliding::read(cx.node, "kernel_shape")?, groups, offset_groups }))
}

struct Sizes {
    channels: usize,
    filters: usize,
    slide: Slide,
}

impl DeformConv {
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let [image, weights, offsets] =
            [required(inputs, 0)?.shape(), required(inputs, 1)?.shape(), required(inputs, 2)?.shape()];
        let error = || refused(format!("weights of {weights:?} and offsets of {offsets:?} over {image:?}"));
        let (&[batch, channels, height, width], &[filters, each, kernel_height, kernel_width]) = (image, weights)
        else {
            return Err(error());
        };
        let slide = self.sliding.over(&[height, width], &[kernel_height, kernel_width])?;
        let moved = |parts: usize| {
            let lines = self.offset_groups.checked_mul(kernel_height * kernel_width)?.checked_mul(parts)?;
            Some([batch, lines, slide.output[0], slide.output[1]])
        };
        let shape = |index| optional(inputs, index).map(Tensor::shape);
        let fits = each.checked_mul(self.groups) == Some(channels)
            && filters % self.groups == 0
            && channels % self.offset_groups == 0
            && Some(offsets) == moved(2).as_ref().map(|shape| &shape[..])
            && shape(3).is_none_or(|bias| bias == [filters])
            && shape(4).is_none_or(|mask| Some(mask) == moved(1).as_ref().map(|shape| &shape[..]));
        if fits { Ok(Sizes { channels, filters, slide }) } else { Err(error()) }
    }
}

/// The value between elements; zero outside.
fn between(plane: &[f64], [height, width]: [usize; 2], y: f64, x: f64) -> f64 {
    let (top, left) = (y.floor(), x.floor());
    let at = |y: f64, x: f64| {
        let inside = (0.0..height as f64).contains(&y) && (0.0..width as f64).contains(&x);
        if inside { plane[y as usize * width + x as usize] } else { 0.0 }
    };
    let (down, right) = (y - top, x - left);
    (1.0 - down) * ((1.0 - right) * at(top, left) + right * at(top, left + 1.0))
        + down * ((1.0 - right) * at(top + 1.0, left) + right * at(top + 1.0, left + 1.0))
}

impl Node for DeformConv {
    fn family(&self) -> &'static str {
        "DeformConv"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        match inputs.iter().flatten().find(|tensor| !tensor.dtype().is_float()) {
            Some(tensor) => Err(NodeError::Unsupported(format!("elements of type {}", tensor.dtype()))),
            None => Ok(()),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let Sizes { channels, filters, slide, .. } = self.sizes(&io.inputs())?;
        let (input, weights, offsets, to) =
            (widened::<f64>(io.input(0)?)?, widened::<f64>(io.input(1)?)?, widened::<f64>(io.input(2)?)?, io.alloc(0)?);
        let bias = io.optional(3).map(widened::<f64>).transpose()?;
        let mask = io.optional(4).map(widened::<f64>).transpose()?;
        let (window, positions) = (slide.kernel.iter().product::<usize>(), slide.positions());
        let (each, own_filters) = (channels / self.groups, filters / self.groups);
        let (size, area) = ([slide.input[0], slide.input[1]], slide.input[0] * slide.input[1]);
        let mut output = memory::zeroed::<f64>(to.len());
        for (index, sum) in output.iter_mut().enumerate() {
            let (line, position) = (index / positions, index % positions);
            let (image, filter) = (line / filters, line % filters);
            *sum = bias.as_ref().map_or(0.0, |bias| bias[filter]);
            for channel in 0..each {
                cx.check_stop()?;
                let from = filter / own_filters * each + channel;
                let plane = &input[(image * channels + from) * area..][..area];
                let group = from / (channels / self.offset_groups);
                for element in 0..window {
                    let moved = (image * self.offset_groups + group) * window + element;
                    let offset = |part: usize| offsets[(2 * moved + part) * positions + position];
                    let [y, x] = slide.place(position, element);
                    let seen = between(plane, size, y as f64 + offset(0), x as f64 + offset(1));
                    let weight = mask.as_ref().map_or(1.0, |mask| mask[moved * positions + position]);
                    *sum += weights[(filter * each + channel) * window + element] * weight * seen;
                }
            }
        }
        let output = narrow(&output, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    fn deform(offsets: &[f32; 8]) -> Trial {
        let image: Vec<f32> = (0..9).map(|v| v as f32).collect();
        let trial = Trial::new("DeformConv").input(&[1, 1, 3, 3], &image).input(&[1, 1, 1, 1], &[2f32]);
        trial.ints("strides", &[2, 2]).input(&[1, 2, 2, 2], offsets)
    }

    #[test]
    fn elements_of_the_window_move_and_are_weighed() {
        deform(&[0.0; 8]).gives(&[1, 1, 2, 2], &[0f32, 4.0, 12.0, 16.0]);
        deform(&[0.5, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0]).gives(&[1, 1, 2, 2], &[4f32, 4.0, 12.0, 16.0]);
        deform(&[-9.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, f32::NAN]).absent().run().unwrap();
        let whole = deform(&[0.0; 8]).input(&[1], &[1f32]).input(&[1, 1, 2, 2], &[1f32, 0.0, 0.5, 1.0]);
        whole.gives(&[1, 1, 2, 2], &[1f32, 1.0, 7.0, 17.0]);
        deform(&[0.0; 8]).input(&[2], &[0f32; 2]).is_refused("weights");
        deform(&[0.0; 8]).int("offset_group", 2).is_refused("weights");
    }
}
