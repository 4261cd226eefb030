//! CropAndResize: boxes of images, each resized to the same size.
//!
//! A box is [y1, x1, y2, x2] in units of the image, 0 being the centre of its first element and 1 that of its last one.
//! Samples are spread evenly from edge to edge; a single one lies in the middle.

use kiln_kernels::Parallel;
use kiln_kernels::memory::{Collect, Pace};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::{LoadCx, OpError, Operator, integers, refused, required, task_count, try_each_chunk};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("com.microsoft", "CropAndResize", make)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Nearest,
    Bilinear,
}

struct CropAndResize {
    mode: Mode,
    /// The value of samples outside of the image.
    outside: f32,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let mode = match cx.node.attributes().text("mode") {
        "bilinear" => Mode::Bilinear,
        "nearest" => Mode::Nearest,
        other => return Err(OpError::invalid(cx.node, format!("mode = {other}"))),
    };
    Ok(Box::new(CropAndResize { mode, outside: cx.node.attributes().float("extrapolation_value") }))
}

/// Looking up a sample takes as long as moving this many bytes.
const SAMPLING: usize = 16;

/// Where `count` samples between two edges lie among `size` elements; `None` for samples outside.
fn places([start, end]: [f32; 2], count: usize, size: usize) -> Vec<Option<f32>> {
    let last = size as f32 - 1.0;
    let step = (end - start) * last / (count.max(2) - 1) as f32;
    let place = |index: usize| match index {
        _ if count == 1 => (0.5 * (f64::from(start) + f64::from(end)) * f64::from(last)) as f32,
        0 => start * last,
        index if index + 1 == count => end * last,
        index => start * last + index as f32 * step,
    };
    (0..count).map(place).map(|place| Some(place).filter(|place| (0.0..=last).contains(place))).collected()
}

/// Images [batch, channels, height, width] and the boxes on them.
struct Crops<'a> {
    node: &'a CropAndResize,
    images: &'a [f32],
    channels: usize,
    size: [usize; 2],
    boxes: &'a [f32],
    /// The image of each box.
    batches: &'a [i64],
    crop: [usize; 2],
}

impl Crops<'_> {
    /// The samples of boxes from number `first` on, until `to` is full.
    fn sample(&self, first: usize, to: &mut [f32]) {
        let [height, width] = self.size;
        let (area, each) = (height * width, self.crop[0] * self.crop[1]);
        let mut pace = Pace::default();
        for (number, to) in (first..).zip(to.chunks_exact_mut(self.channels * each)) {
            let corners = &self.boxes[number * 4..][..4];
            let rows = places([corners[0], corners[2]], self.crop[0], height);
            let columns = places([corners[1], corners[3]], self.crop[1], width);
            let image = &self.images[self.batches[number] as usize * self.channels * area..][..self.channels * area];
            // An image without elements has no sample inside of it.
            for (channel, to) in to.chunks_exact_mut(each).enumerate() {
                let plane = &image[channel * area..][..area];
                for (row, to) in rows.iter().zip(to.chunks_exact_mut(columns.len())) {
                    pace.step(4 * columns.len());
                    for (column, to) in columns.iter().zip(to) {
                        *to = match (row, column) {
                            (Some(row), Some(column)) => self.node.value(plane, width, *row, *column),
                            _ => self.node.outside,
                        };
                    }
                }
            }
        }
    }
}

impl CropAndResize {
    /// The value of a plane at a place inside of it.
    fn value(&self, plane: &[f32], width: usize, row: f32, column: f32) -> f32 {
        let at = |row: f32, column: f32| plane[row as usize * width + column as usize];
        if self.mode == Mode::Nearest {
            return at(row.round(), column.round());
        }
        let between = |a: f32, b: f32, part: f32| a + (b - a) * part;
        let (left, right, part) = (column.floor(), column.ceil(), column - column.floor());
        let [top, bottom] = [row.floor(), row.ceil()].map(|row| between(at(row, left), at(row, right), part));
        between(top, bottom, row - row.floor())
    }
}

impl Node for CropAndResize {
    fn family(&self) -> &'static str {
        "CropAndResize"
    }

    fn value_inputs(&self) -> u64 {
        1 << 3
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let (images, boxes, batches) = (required(inputs, 0)?, required(inputs, 1)?, required(inputs, 2)?);
        images.as_slice::<f32>()?;
        boxes.as_slice::<f32>()?;
        if outputs[0].shape[2..].contains(&0) {
            return Err(refused(format!("crops of {:?}", &outputs[0].shape[2..])));
        }
        match boxes.shape() {
            &[count, _] if batches.shape() == [count] => Ok(()),
            boxes => Err(refused(format!("boxes of shape {boxes:?} with images of shape {:?}", batches.shape()))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (images, boxes, mut output) = (io.input(0)?, io.input(1)?, io.alloc(0)?);
        let batches = integers(io.input(2)?)?;
        let &[count, channels, height, width] = images.shape() else { return Err(refused("no images")) };
        let outside = batches.iter().position(|&image| !usize::try_from(image).is_ok_and(|image| image < count));
        if let Some(number) = outside {
            let image = batches[number];
            return Err(refused(format!("box {number} is of image {image}, where there are {count}")));
        }
        let crop = [output.shape()[2], output.shape()[3]];
        let crops = Crops {
            node: self,
            images: images.as_slice()?,
            channels,
            size: [height, width],
            boxes: boxes.as_slice()?,
            batches: &batches,
            crop,
        };
        if !output.is_empty() {
            let each = channels * crop[0] * crop[1];
            let tasks = task_count(output.len().saturating_mul(SAMPLING), cx.parallel);
            let share = batches.len().div_ceil(tasks);
            let parallel: &dyn Parallel = cx.parallel;
            try_each_chunk(parallel, output.as_mut_slice()?, share * each, &|task, to| {
                cx.check_stop()?;
                crops.sample(task * share, to);
                Ok(())
            })?;
        }
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    /// Boxes of the image 0 1 2, 3 4 5, 6 7 8.
    fn crops(boxes: &[f32], crop: [i32; 2]) -> Trial {
        let image: Vec<f32> = (0..9).map(|at| at as f32).collect();
        let count = boxes.len() / 4;
        let trial = Trial::new("CropAndResize").input(&[1, 1, 3, 3], &image).input(&[count, 4], boxes);
        trial.input(&[count], &vec![0i32; count]).input(&[2], &crop)
    }

    #[test]
    fn samples_are_spread_from_edge_to_edge() {
        let whole = [0.0, 0.0, 1.0, 1.0];
        crops(&whole, [2, 2]).gives(&[1, 1, 2, 2], &[0f32, 2.0, 6.0, 8.0]);
        crops(&whole, [1, 2]).gives(&[1, 1, 1, 2], &[3f32, 5.0]);
        let turned = [1.0, 0.0, 0.0, 0.5];
        crops(&turned, [3, 1]).gives(&[1, 1, 3, 1], &[6.5f32, 3.5, 0.5]);
        crops(&[0.25, 0.25, 0.25, 0.25], [1, 1]).gives(&[1, 1, 1, 1], &[2f32]);
        crops(&[0.25, 0.25, 0.25, 0.25], [1, 1]).text("mode", "nearest").gives(&[1, 1, 1, 1], &[4f32]);
        crops(&[], [2, 1]).gives::<f32>(&[0, 1, 2, 1], &[]);
    }

    #[test]
    fn samples_outside_of_the_image_have_a_value_of_their_own() {
        let beyond = [0.2, 0.5, 1.5, 0.5];
        crops(&beyond, [2, 2])
            .attr("extrapolation_value", kiln_model::Attr::Float(-1.0))
            .gives_about(&[1, 1, 2, 2], &[2.2, 2.2, -1.0, -1.0]);
        crops(&[f32::NAN, 0.0, 1.0, 1.0], [1, 1]).gives(&[1, 1, 1, 1], &[0f32]);
        let none = Trial::new("CropAndResize").input::<f32>(&[1, 2, 0, 3], &[]).input(&[1, 4], &[0f32; 4]);
        none.input(&[1], &[0i32]).input(&[2], &[1i32, 1]).gives(&[1, 2, 1, 1], &[0f32; 2]);
    }

    #[test]
    fn boxes_of_images_that_are_not_there_are_refused() {
        let of = |image: i32| {
            let trial = Trial::new("CropAndResize").input(&[1, 1, 1, 1], &[0f32]).input(&[1, 4], &[0f32; 4]);
            trial.input(&[1], &[image]).input(&[2], &[1i32, 1])
        };
        of(1).is_refused("box 0 is of image 1, where there are 1");
        of(-1).is_refused("image -1");
        crops(&[0.0; 4], [0, 1]).is_refused("crops of [0, 1]");
        crops(&[0.0; 4], [-1, 1]).is_refused("-1");
        crops(&[0.0; 4], [1, 1]).text("mode", "cubic").is_refused("mode = cubic");
    }
}
