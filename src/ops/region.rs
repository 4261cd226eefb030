//! Regions of pictures: RoiAlign pools each, NonMaxSuppression drops those that another one covers.

use std::sync::Arc;

use super::wide::{narrow, widened};
use super::{LoadCx, OpError, Operator, index_of, one, optional, rank, refused, required};
use crate::graph::node::{PrepareCx, Specs};
use crate::graph::{Io, Node, NodeError, Prepared, RunCx};
use crate::tensor::{DType, Tensor, TensorSpec};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "RoiAlign", make_align), ("", "NonMaxSuppression", make_suppression)];

/// Most samples along an axis of a bin. Beyond it a region would cost more than the picture is large.
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
    // Before operator set 16 there was no such attribute, and no half element.
    let newer = if node.version >= 16 { "half_pixel" } else { "output_half_pixel" };
    let half_pixel = match node.string("coordinate_transformation_mode", newer) {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => return Err(OpError::unsupported(node, format!("coordinate_transformation_mode = {other}"))),
    };
    let max = match node.string("mode", "avg") {
        "avg" => false,
        "max" => true,
        other => return Err(OpError::unsupported(node, format!("mode = {other}"))),
    };
    let size = |name, default, least| {
        let value = usize::try_from(node.int(name, default)).ok().filter(|&value| value >= least);
        value.ok_or_else(|| OpError::invalid(node, format!("{name} = {}", node.int(name, default))))
    };
    let bins = [size("output_height", 1, 1)?, size("output_width", 1, 1)?];
    let (samples, scale) = (size("sampling_ratio", 0, 0)?, f64::from(node.float("spatial_scale", 1.0)));
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

    /// The value of a bin, of whose samples a row is taken at a time.
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

    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let (picture, regions, batches) = (required(inputs, 0)?, required(inputs, 1)?, required(inputs, 2)?);
        match (picture.shape(), regions.shape(), batches.shape()) {
            (&[_, channels, height, width], &[count, 4], &[same]) if count == same && height > 0 && width > 0 => {
                super::wide::Width::of(picture.dtype())?;
                one(picture.dtype(), [count, channels, self.bins[0], self.bins[1]])
            }
            (picture, regions, _) => Err(refused(format!("regions of shape {regions:?} in pictures of {picture:?}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (picture, regions, to) = (io.input(0)?, io.input(1)?, io.alloc(0)?);
        let &[batches, channels, height, width] = picture.shape() else {
            return Err(refused("no pictures"));
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

struct Suppression {
    /// Whether a box is centre and size, instead of two corners.
    centred: bool,
}

fn make_suppression(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Suppression { centred: cx.node.int("center_point_box", 0) != 0 }))
}

/// Lower and upper edge along two axes.
type Edges = [[f32; 2]; 2];

fn overlap(a: Edges, b: Edges) -> f32 {
    let common = (0..2).map(|axis| a[axis][1].min(b[axis][1]) - a[axis][0].max(b[axis][0]));
    if common.clone().any(|length| length <= 0.0) {
        return 0.0;
    }
    let area = |edges: Edges| (edges[0][1] - edges[0][0]) * (edges[1][1] - edges[1][0]);
    let common: f32 = common.product();
    let union = area(a) + area(b) - common;
    if area(a) <= 0.0 || area(b) <= 0.0 || union <= 0.0 { 0.0 } else { common / union }
}

impl Suppression {
    fn edges(&self, corners: &[f32]) -> Edges {
        let &[a, b, c, d] = corners else { return Edges::default() };
        if self.centred {
            return [[b - d / 2.0, b + d / 2.0], [a - c / 2.0, a + c / 2.0]];
        }
        // Any two opposite corners will do.
        [[a.min(c), a.max(c)], [b.min(d), b.max(d)]]
    }

    /// Batch, class and number of each box that stays.
    fn select(&self, inputs: &[Option<&Tensor>]) -> Result<Vec<i64>, NodeError> {
        let (boxes, scores) = (required(inputs, 0)?, required(inputs, 1)?);
        let (&[batches, count, 4], &[same, classes, each]) = (boxes.shape(), scores.shape()) else {
            return Err(refused(format!("boxes of {:?} with scores of {:?}", boxes.shape(), scores.shape())));
        };
        if batches != same || count != each {
            return Err(refused(format!("boxes of {:?} with scores of {:?}", boxes.shape(), scores.shape())));
        }
        let most = match optional(inputs, 2).map(Tensor::to_i64_vec).transpose()?.as_deref() {
            Some(&[most]) => usize::try_from(most).unwrap_or(0),
            _ => 0,
        };
        let threshold = |index| match optional(inputs, index).map(Tensor::as_slice::<f32>).transpose()? {
            Some(&[value]) => Ok::<_, NodeError>(Some(value)),
            _ => Ok(None),
        };
        let (most_overlap, least_score) = (threshold(3)?.unwrap_or(0.0), threshold(4)?);
        let (boxes, scores) = (boxes.as_slice::<f32>()?, scores.as_slice::<f32>()?);
        let mut selected = Vec::new();
        for (number, scores) in scores.chunks_exact(count.max(1)).enumerate() {
            let (batch, class) = (number / classes, number % classes);
            let edges: Vec<Edges> =
                boxes[batch * count * 4..][..count * 4].chunks_exact(4).map(|c| self.edges(c)).collect();
            let mut order: Vec<usize> =
                (0..count).filter(|&i| least_score.is_none_or(|least| scores[i] > least)).collect();
            order.sort_by(|&a, &b| rank(scores[b], scores[a]));
            let mut kept: Vec<usize> = Vec::new();
            for candidate in order {
                if kept.len() >= most {
                    break;
                }
                if kept.iter().all(|&other| overlap(edges[candidate], edges[other]) <= most_overlap) {
                    kept.push(candidate);
                }
            }
            selected.extend(kept.into_iter().flat_map(|kept| [batch as i64, class as i64, kept as i64]));
        }
        Ok(selected)
    }
}

impl Node for Suppression {
    fn family(&self) -> &'static str {
        "NonMaxSuppression"
    }

    fn value_inputs(&self) -> u64 {
        0b11111
    }

    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        one(DType::I64, [self.select(inputs)?.len() / 3, 3])
    }

    fn prepare_params(
        &self,
        _: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        Ok(Prepared::new(Arc::new(self.select(inputs)?)))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let output = narrow(prepared.get::<Vec<i64>>()?, io.alloc(0)?)?;
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

    #[test]
    fn boxes_that_a_better_one_covers_are_dropped() {
        let boxes = [0f32, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, 0.0, 10.0, 1.0, 11.0];
        let row = |most: i64, least: f32| {
            let trial =
                Trial::new("NonMaxSuppression").input(&[1, 3, 4], &boxes).input(&[1, 1, 3], &[0.9f32, 0.95, 0.5]);
            trial.input(&[1], &[most]).input(&[1], &[0.5f32]).input(&[1], &[least])
        };
        row(3, 0.0).gives(&[2, 3], &[0i64, 0, 1, 0, 0, 2]);
        row(1, 0.0).gives(&[1, 3], &[0i64, 0, 1]);
        row(3, 0.6).gives(&[1, 3], &[0i64, 0, 1]);
        row(0, 0.0).gives::<i64>(&[0, 3], &[]);
        row(-5, 0.0).gives::<i64>(&[0, 3], &[]);
        let none = Trial::new("NonMaxSuppression").input::<f32>(&[1, 0, 4], &[]).input::<f32>(&[1, 2, 0], &[]);
        none.input(&[1], &[3i64]).gives::<i64>(&[0, 3], &[]);
        let wrong = Trial::new("NonMaxSuppression").input(&[1, 3, 4], &boxes).input(&[1, 1, 2], &[0f32; 2]);
        wrong.is_refused("with scores");
    }
}
