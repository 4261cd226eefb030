//! Regions of images: RoiAlign pools each.

use kiln_kernels::cpu::regions::{Extent, Pooler, Region, Regions};
use kiln_kernels::memory::Collect;
use kiln_run::exec::regions::RegionsProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::gather::whole_numbers;
use super::wide::{filled, lent, widened};
use super::{LoadCx, OpError, Operator, index_of, refused, required, size_attribute};

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

impl RoiAlign {
    fn along(&self, edges: [f64; 2], bins: usize) -> Result<Extent, NodeError> {
        let offset = if self.half_pixel { 0.5 } else { 0.0 };
        let [start, end] = edges.map(|edge| edge * self.scale - offset);
        let extent = if self.half_pixel { end - start } else { (end - start).max(1.0) };
        let bin = extent / bins as f64;
        let samples = if self.samples > 0 { self.samples as f64 } else { bin.ceil() };
        if samples.is_nan() || samples > MOST_SAMPLES {
            return Err(refused(format!("a region from {start} to {end} in {bins} bins")));
        }
        Ok(Extent { start, bin, samples })
    }

    fn regions(&self, edges: &[f64], images: &Tensor, count: usize) -> Result<Vec<Region>, NodeError> {
        let region = |(edges, &image): (&[f64], &i64)| {
            Ok(Region {
                image: index_of(image, count)?,
                rows: self.along([edges[1], edges[3]], self.bins[0])?,
                columns: self.along([edges[0], edges[2]], self.bins[1])?,
            })
        };
        edges.chunks_exact(4).zip(whole_numbers(images)?.iter()).map(region).try_collected()
    }
}

impl Node for RoiAlign {
    fn family(&self) -> &'static str {
        "RoiAlign"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let (image, regions, batches) = (required(inputs, 0)?, required(inputs, 1)?, required(inputs, 2)?);
        match (image.shape(), regions.shape(), batches.shape()) {
            (&[_, _, height, width], &[count, 4], &[same]) if count == same && height > 0 && width > 0 => {
                super::wide::Width::of(image.dtype()).map(drop)
            }
            (image, regions, _) => Err(refused(format!("regions of shape {regions:?} in images of {image:?}"))),
        }
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let (&[images, channels, height, width], &[regions, _]) =
            (required(inputs, 0)?.shape(), required(inputs, 1)?.shape())
        else {
            return Err(refused("images and regions of other ranks"));
        };
        let [images, channels, height, width, regions] =
            [images, channels, height, width, regions].map(|size| size as u64);
        let (bins, samples) = (self.bins.map(|size| size as u64), self.samples as u64);
        let regions = Regions { images, channels, size: [height, width], regions, bins, samples, max: self.max };
        Ok(Prepared::new(cx.executor(&cx.key(RegionsProblem { regions }))?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let pooler = prepared.get::<Pooler>()?;
        let (image, to) = (io.input(0)?, io.alloc(0)?);
        let batch = image.shape().first().copied().unwrap_or(0);
        let regions = self.regions(&widened::<f64>(io.input(1)?)?, io.input(2)?, batch)?;
        let output = if image.dtype() == DType::F32 {
            let spec = TensorSpec { dtype: DType::F32, shape: [pooler.scratch()].into_iter().collect() };
            let (mut scratch, mut to) = (Tensor::from_pool(cx.buffers, spec)?, to);
            pooler.run(image.as_slice()?, &regions, scratch.as_mut_slice()?, to.as_mut_slice()?, cx.parallel)?;
            to
        } else {
            let values = lent::<f64>(image)?;
            filled(to, |output| Ok(pooler.run_double(&values, &regions, output, cx.parallel)?))?
        };
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::Attr;

    use crate::trial::Trial;

    #[test]
    fn regions_are_pooled_in_bins() {
        let image: Vec<f32> = (0..16).map(|v| v as f32).collect();
        let row = |mode: &str, region: [f32; 4]| {
            let trial = Trial::new("RoiAlign").text("mode", mode).int("output_height", 2).int("output_width", 1);
            let trial = trial.int("sampling_ratio", 1).input(&[1, 1, 4, 4], &image);
            trial.input(&[1, 4], &region).input(&[1], &[0i64])
        };
        row("avg", [0.5, 0.5, 2.5, 2.5]).gives_about(&[1, 1, 2, 1], &[3.0, 7.0]);
        row("avg", [-100.0, -100.0, -90.0, -90.0]).gives_about(&[1, 1, 2, 1], &[0.0, 0.0]);
        row("max", [0.5, 0.5, 2.5, 2.5]).gives_about(&[1, 1, 2, 1], &[2.5, 4.5]);
        let outside = Trial::new("RoiAlign").input(&[1, 1, 4, 4], &image).input(&[1, 4], &[0f32, 0.0, 1.0, 1.0]);
        outside.input(&[1], &[1i64]).is_refused("outside of 0..1");
        let huge = Trial::new("RoiAlign").input(&[1, 1, 4, 4], &image).input(&[1, 4], &[0f32, 0.0, 1e30, 1.0]);
        huge.input(&[1], &[0i64]).is_refused("a region");
        let nan = Trial::new("RoiAlign").input(&[1, 1, 4, 4], &image).input(&[1, 4], &[f32::NAN; 4]);
        nan.attr("spatial_scale", Attr::Float(0.5)).input(&[1], &[0i64]).run().unwrap_err();
    }

    #[test]
    fn channels_side_by_side_give_what_planes_one_by_one_give() {
        // Regions that reach beyond the image on each side, and one without elements.
        let edges = [[-3.0, -4.0, 6.0, 3.0], [1.5, 2.25, 9.0, 20.0], [4.0, 4.0, 4.0, 4.0], [-9.0, -9.0, -5.0, -5.0]];
        let regions: Vec<f32> = (0..12).flat_map(|at| edges[at % 4].map(|edge: f32| edge + at as f32 / 16.0)).collect();
        let batches: Vec<i64> = (0..12).map(|at| at % 2).collect();
        for channels in [8, 16, 21] {
            let area = 7 * 9;
            let image: Vec<f32> = (0..2 * channels * area).map(|at| ((at * 37) % 101) as f32 - 50.0).collect();
            for mode in ["avg", "max"] {
                for (ratio, threads) in [(0, 1), (1, 3), (3, 2)] {
                    let pool = |channels: usize, image: &[f32]| {
                        let trial = Trial::new("RoiAlign").text("mode", mode).int("sampling_ratio", ratio);
                        let trial = trial.int("output_height", 3).int("output_width", 2).threads(threads);
                        let trial = trial.input(&[2, channels, 7, 9], image).input(&[12, 4], &regions);
                        trial.input(&[12], &batches).run().unwrap().remove(0)
                    };
                    let together = pool(channels, &image);
                    for channel in 0..channels {
                        let plane = |batch: usize| &image[(batch * channels + channel) * area..][..area];
                        let alone = pool(1, &[plane(0), plane(1)].concat());
                        let bins = together.as_slice::<f32>().unwrap().chunks(6).skip(channel).step_by(channels);
                        for (bins, alone) in bins.zip(alone.as_slice::<f32>().unwrap().chunks(6)) {
                            assert_eq!(bins, alone, "{channels} {mode} {ratio}, channel {channel}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn planes_of_many_regions_are_the_same_on_any_number_of_threads() {
        let image: Vec<f32> = (0..2 * 5 * 9 * 11).map(|at| ((at * 37) % 101) as f32).collect();
        let regions: Vec<f32> =
            (0..40).flat_map(|at| [-2.0, 0.25, 3.5, 7.0].map(|edge| edge + at as f32 / 8.0)).collect();
        let batches: Vec<i64> = (0..40).map(|at| at % 2).collect();
        for mode in ["avg", "max"] {
            let on = |threads| {
                let trial = Trial::new("RoiAlign").text("mode", mode).int("output_height", 3).int("output_width", 5);
                let trial = trial.int("sampling_ratio", 3).input(&[2, 5, 9, 11], &image).input(&[40, 4], &regions);
                trial.input(&[40], &batches).threads(threads).run().unwrap().remove(0)
            };
            let alone = on(1);
            assert!(alone.same(&on(3)));
            // A region by itself, in its own image.
            let trial = Trial::new("RoiAlign").text("mode", mode).int("output_height", 3).int("output_width", 5);
            let trial = trial.int("sampling_ratio", 3).input(&[1, 5, 9, 11], &image[5 * 9 * 11..]);
            let last = trial.input(&[1, 4], &regions[39 * 4..]).input(&[1], &[0i64]);
            last.gives(&[1, 5, 3, 5], &alone.as_slice::<f32>().unwrap()[39 * 75..]);
        }
    }
}
