//! Regions of images: RoiAlign pools each.

use super::wide::{narrow, widened};
use super::{LoadCx, OpError, Operator, index_of, refused, required, size_attribute};
use crate::graph::{Io, Node, NodeError, Prepared, RunCx};
use crate::tensor::{Tensor, TensorSpec};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "RoiAlign", make_align)];

/// Most samples along an axis of a bin. Beyond it a region would cost more than the image is large.
const MOST_SAMPLES: f64 = 4096.0;

struct RoiAlign {
    /// Whether coordinates are those of the elements' edges, and half an element is subtracted.
    half_pixel: bool,
    max: bool,
    bins: [usize; 2],
    samples: usize,
    scale: f64,
}

fn make_align(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let half_pixel = match node.attributes().text("coordinate_transformation_mode") {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => return Err(OpError::unsupported(node, format!("coordinate_transformation_mode = {other}"))),
    };
    let max = match node.attributes().text("mode") {
        "avg" => false,
        "max" => true,
        other => return Err(OpError::unsupported(node, format!("mode = {other}"))),
    };
    let bins = [size_attribute(node, "output_height", 1)?, size_attribute(node, "output_width", 1)?];
    let (samples, scale) =
        (size_attribute(node, "sampling_ratio", 0)?, f64::from(node.attributes().float("spatial_scale")));
    Ok(Box::new(RoiAlign { half_pixel, max, bins, samples, scale }))
}

/// Two neighbours along an axis with their weights.
type Neighbours = [(usize, f64); 2];

impl RoiAlign {
    /// For each bin along one axis, its samples. A sample more than one element outside sees nothing.
    fn along(&self, edges: [f64; 2], bins: usize, size: usize) -> Result<Vec<Vec<Option<Neighbours>>>, NodeError> {
        let offset = if self.half_pixel { 0.5 } else { 0.0 };
        let [start, end] = edges.map(|edge| edge * self.scale - offset);
        let extent = if self.half_pixel { end - start } else { (end - start).max(1.0) };
        let bin = extent / bins as f64;
        let samples = if self.samples > 0 { self.samples as f64 } else { bin.ceil() };
        // A negative number of samples saturates to none below.
        if samples.is_nan() || samples > MOST_SAMPLES {
            return Err(refused(format!("a region from {start} to {end} in {bins} bins")));
        }
        let last = size as f64 - 1.0;
        let sample = |place: f64| {
            if !(-1.0..=size as f64).contains(&place) {
                return None;
            }
            let place = place.clamp(0.0, last);
            let low = place.floor();
            let high = (low + 1.0).min(last);
            Some([(low as usize, 1.0 - (place - low)), (high as usize, place - low)])
        };
        let of_bin = |number: usize| {
            let place = |index: usize| start + bin * (number as f64 + (index as f64 + 0.5) / samples);
            (0..samples as usize).map(|index| sample(place(index))).collect()
        };
        Ok((0..bins).map(of_bin).collect())
    }

    /// The value of a bin, computed a row of samples at a time.
    fn pooled(
        &self,
        plane: &[f64],
        width: usize,
        [rows, columns]: [&[Option<Neighbours>]; 2],
        cx: &RunCx<'_>,
    ) -> Result<f64, NodeError> {
        let (mut sum, mut greatest) = (0.0, None::<f64>);
        for row in rows {
            cx.check_stop()?;
            for column in columns {
                // What is outside counts as zero.
                let mut parts = [0.0; 4];
                if let (Some(row), Some(column)) = (row, column) {
                    for (index, part) in parts.iter_mut().enumerate() {
                        let ((y, wy), (x, wx)) = (row[index / 2], column[index % 2]);
                        *part = plane[y * width + x] * wy * wx;
                    }
                }
                sum += parts.iter().sum::<f64>();
                // The greatest of the weighted neighbours, not of their sum: so ONNX defines it.
                greatest = parts.into_iter().chain(greatest).reduce(f64::max);
            }
        }
        let count = (rows.len() * columns.len()).max(1) as f64;
        Ok(if self.max { greatest.unwrap_or(0.0) } else { sum / count })
    }
}

impl Node for RoiAlign {
    fn family(&self) -> &'static str {
        "RoiAlign"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let (picture, regions, batches) = (required(inputs, 0)?, required(inputs, 1)?, required(inputs, 2)?);
        match (picture.shape(), regions.shape(), batches.shape()) {
            (&[_, _, height, width], &[count, 4], &[same]) if count == same && height > 0 && width > 0 => {
                super::wide::Width::of(picture.dtype()).map(drop)
            }
            (picture, regions, _) => Err(refused(format!("regions of shape {regions:?} in images of {picture:?}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (picture, regions, to) = (io.input(0)?, io.input(1)?, io.alloc(0)?);
        let &[batches, channels, height, width] = picture.shape() else {
            return Err(refused("no images"));
        };
        let (values, edges) = (widened::<f64>(picture)?, widened::<f64>(regions)?);
        let mut output = Vec::with_capacity(to.len());
        for (region, batch) in edges.chunks_exact(4).zip(io.input(2)?.to_i64_vec()?) {
            let batch = index_of(batch, batches)?;
            let rows = self.along([region[1], region[3]], self.bins[0], height)?;
            let columns = self.along([region[0], region[2]], self.bins[1], width)?;
            for channel in 0..channels {
                let plane = &values[(batch * channels + channel) * height * width..][..height * width];
                for row in &rows {
                    for column in &columns {
                        output.push(self.pooled(plane, width, [row, column], cx)?);
                    }
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
    use crate::graph::Attr;
    use crate::ops::trial::Trial;

    #[test]
    fn regions_are_pooled_in_bins() {
        let picture: Vec<f32> = (0..16).map(|v| v as f32).collect();
        let row = |mode: &str, region: [f32; 4]| {
            let trial = Trial::new("RoiAlign").text("mode", mode).int("output_height", 2).int("output_width", 1);
            let trial = trial.int("sampling_ratio", 1).input(&[1, 1, 4, 4], &picture);
            trial.input(&[1, 4], &region).input(&[1], &[0i64])
        };
        row("avg", [0.5, 0.5, 2.5, 2.5]).gives_about(&[1, 1, 2, 1], &[3.0, 7.0]);
        row("avg", [-100.0, -100.0, -90.0, -90.0]).gives_about(&[1, 1, 2, 1], &[0.0, 0.0]);
        row("max", [0.5, 0.5, 2.5, 2.5]).gives_about(&[1, 1, 2, 1], &[2.5, 4.5]);
        let outside = Trial::new("RoiAlign").input(&[1, 1, 4, 4], &picture).input(&[1, 4], &[0f32, 0.0, 1.0, 1.0]);
        outside.input(&[1], &[1i64]).is_refused("outside of 0..1");
        let huge = Trial::new("RoiAlign").input(&[1, 1, 4, 4], &picture).input(&[1, 4], &[0f32, 0.0, 1e30, 1.0]);
        huge.input(&[1], &[0i64]).is_refused("a region");
        let nan = Trial::new("RoiAlign").input(&[1, 1, 4, 4], &picture).input(&[1, 4], &[f32::NAN; 4]);
        nan.attr("spatial_scale", Attr::Float(0.5)).input(&[1], &[0i64]).run().unwrap_err();
    }
}
