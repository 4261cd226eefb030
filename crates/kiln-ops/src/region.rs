//! Regions of images: RoiAlign pools each.

mod lanes;

use std::ops::{Add, Div, Mul};

use kiln_kernels::Parallel;
use kiln_kernels::memory::{self, Collect, Pace};
use kiln_kernels::parallel::for_each_chunk;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Element, Tensor, TensorSpec};

use self::lanes::{Blocks, LANES};
use super::gather::whole_numbers;
use super::wide::{Wide, filled, lent, widened};
use super::{LoadCx, OpError, Operator, index_of, refused, required, size_attribute, task_count};

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

/// Elements that are pooled in their own precision, in the same order whether they are pooled one by one or side by side:
/// a region has the same bits alone and beside others.
trait Number: Copy + Default + Send + Sync + Add<Output = Self> + Mul<Output = Self> + Div<Output = Self> {
    /// The nearest number of a weight.
    fn of(weight: f64) -> Self;

    /// The larger of two; a number beside a NaN.
    fn larger(self, other: Self) -> Self;
}

impl Number for f32 {
    fn of(weight: f64) -> f32 {
        weight as f32
    }

    fn larger(self, other: f32) -> f32 {
        self.max(other)
    }
}

impl Number for f64 {
    fn of(weight: f64) -> f64 {
        weight
    }

    fn larger(self, other: f64) -> f64 {
        self.max(other)
    }
}

/// Two neighbours along an axis with their weights; nothing for a sample more than one element outside.
type Neighbours = Option<[(usize, f64); 2]>;

/// A region along one axis.
#[derive(Clone, Copy)]
struct Extent {
    start: f64,
    /// Length of a bin.
    bin: f64,
    /// Samples of a bin. A negative number means none.
    samples: f64,
}

/// A region of an image.
struct Region {
    batch: usize,
    rows: Extent,
    columns: Extent,
}

/// Samples between two checks whether the request goes on.
const UNSEEN: usize = 1 << 14;

/// Looking up a sample takes as long as moving this many bytes.
const SAMPLING: usize = 32;

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

    fn regions(&self, edges: &[f64], batches: &Tensor, count: usize) -> Result<Vec<Region>, NodeError> {
        let region = |(edges, &batch): (&[f64], &i64)| {
            Ok(Region {
                batch: index_of(batch, count)?,
                rows: self.along([edges[1], edges[3]], self.bins[0])?,
                columns: self.along([edges[0], edges[2]], self.bins[1])?,
            })
        };
        edges.chunks_exact(4).zip(whole_numbers(batches)?.iter()).map(region).try_collected()
    }

    /// Pools planes of bins from number `first` of all planes on: each region has one for each channel.
    fn pool<W: Number>(&self, pooling: &Pooling<'_, W>, first: usize, planes: &mut [W]) {
        let Pooling { image, regions, parallel } = *pooling;
        let mut unseen = 0;
        let mut tables: Option<Tables> = None;
        for (number, bins) in planes.chunks_exact_mut(self.bins[0] * self.bins[1]).enumerate() {
            let (number, channel) = ((first + number) / image.channels, (first + number) % image.channels);
            let region = &regions[number];
            if tables.as_ref().is_some_and(|tables| tables.region != number) {
                tables = None;
            }
            let Tables { rows, columns, .. } = tables.get_or_insert_with(|| Tables {
                region: number,
                rows: region.rows.bins(self.bins[0], image.height, self.max),
                columns: region.columns.bins(self.bins[1], image.width, self.max),
            });
            let plane = image.plane(region.batch, channel);
            for (bin, to) in bins.iter_mut().enumerate() {
                let samples = [&rows[bin / self.bins[1]], &columns[bin % self.bins[1]]];
                unseen += samples[0].len() * samples[1].len();
                if unseen >= UNSEEN {
                    unseen = 0;
                    if parallel.is_stopped() {
                        return;
                    }
                }
                let Some(pooled) = self.pooled(plane, samples, parallel) else { return };
                *to = pooled;
            }
        }
    }

    /// Pools the samples of a bin; `None` where the request has ended before all are read.
    fn pooled<W: Number>(&self, plane: Plane<'_, W>, [rows, columns]: [&Bin; 2], parallel: &dyn Parallel) -> Option<W> {
        let piece = (UNSEEN / columns.len().max(1)).max(1);
        let goes_on = |number: usize| number == 0 || !parallel.is_stopped();
        if self.max {
            let mut most = None;
            for (number, rows) in rows.neighbours.chunks(piece).enumerate() {
                if !goes_on(number) {
                    return None;
                }
                most = greatest(plane, [rows, &columns.neighbours], most);
            }
            return Some(most.unwrap_or_default());
        }
        let mut sum = W::default();
        for (number, rows) in rows.taps.chunks(piece).enumerate() {
            if !goes_on(number) {
                return None;
            }
            sum = total(plane, [rows, &columns.taps], sum);
        }
        Some(sum / W::of((rows.samples * columns.samples).max(1) as f64))
    }

    /// Samples of all regions in a channel.
    fn samples(&self, regions: &[Region]) -> f64 {
        let samples = |extent: &Extent, bins: usize| extent.samples.max(1.0) * bins as f64;
        let of_region = |region: &Region| samples(&region.rows, self.bins[0]) * samples(&region.columns, self.bins[1]);
        regions.iter().map(of_region).sum()
    }

    /// Pools all regions of images of `f32`: block by block where samples read more than the images have.
    fn align_floats(&self, io: &Io<'_>, regions: &[Region], parallel: &dyn Parallel) -> Result<Tensor, NodeError> {
        let (input, mut to) = (io.input(0)?, io.alloc(0)?);
        let (image, samples) = (Image::new(input, input.as_slice::<f32>()?)?, self.samples(regions));
        let read = 4.0 * samples * image.channels as f64;
        let few = image.channels < LANES / 2 || regions.len() < parallel.threads();
        if few || to.is_empty() || read < input.len() as f64 {
            return self.align::<f32>(io, regions, parallel);
        }
        let blocks = Blocks::of(&image, parallel);
        // A block of channels takes as long as one channel by itself.
        let work = samples * (image.channels.div_ceil(LANES) * SAMPLING) as f64;
        self.pool_blocks(&blocks, regions, work as usize, parallel, to.as_mut_slice()?);
        Ok(to)
    }

    /// Pools all regions, their planes shared out between threads.
    fn align<W: Number + Wide + Element>(
        &self,
        io: &Io<'_>,
        regions: &[Region],
        parallel: &dyn Parallel,
    ) -> Result<Tensor, NodeError> {
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        if to.is_empty() {
            return Ok(to);
        }
        let values = lent::<W>(input)?;
        let image = Image::new(input, &values)?;
        let work = self.samples(regions) * (image.channels * SAMPLING) as f64;
        let pooling = Pooling { image, regions, parallel };
        let planes = (regions.len() * image.channels).div_ceil(task_count(work as usize, parallel));
        let area = self.bins[0] * self.bins[1];
        filled(to, |output| {
            for_each_chunk(parallel, output, planes * area, &|index, output| {
                self.pool(&pooling, index * planes, output);
            });
            Ok(())
        })
    }
}

impl Extent {
    /// The bins in an axis of `size` elements: their samples one by one, or what the samples read in total.
    fn bins(&self, bins: usize, size: usize, one_by_one: bool) -> Vec<Bin> {
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
        let mut pace = Pace::default();
        let of_bin = |number: usize| {
            pace.step(4 * self.samples as usize);
            let place = |index: usize| self.start + self.bin * (number as f64 + (index as f64 + 0.5) / self.samples);
            let samples = self.samples as usize;
            let neighbours = (0..samples).map(|index| sample(place(index)));
            let mut kept = Vec::new();
            let mut taps = memory::with_capacity(if one_by_one { 0 } else { (2 * samples).min(size) });
            if one_by_one {
                kept = neighbours.collected();
            } else {
                neighbours.flatten().flatten().for_each(|(at, weight)| add_tap(&mut taps, at, weight));
            }
            Bin { samples, neighbours: kept, taps }
        };
        (0..bins).map(of_bin).collected()
    }
}

/// A bin along one axis.
struct Bin {
    /// How many samples it has.
    samples: usize,
    /// The samples, where they are looked at one by one.
    neighbours: Vec<Neighbours>,
    /// The elements that all samples read, each with the sum of its weights, where samples are added.
    taps: Vec<(usize, f64)>,
}

impl Bin {
    /// What is read along the axis.
    fn len(&self) -> usize {
        self.neighbours.len().max(self.taps.len())
    }
}

/// Adds the weight of an element. Samples lie in order along an axis, so that an element met before is one of the last
/// two.
fn add_tap(taps: &mut Vec<(usize, f64)>, at: usize, weight: f64) {
    match taps.iter_mut().rev().take(2).find(|(known, _)| *known == at) {
        Some((_, sum)) => *sum += weight,
        None => taps.push((at, weight)),
    }
}

/// Images in planes of channels.
#[derive(Clone, Copy)]
struct Image<'a, W> {
    values: &'a [W],
    channels: usize,
    height: usize,
    width: usize,
}

impl<'a, W> Image<'a, W> {
    /// The images of a tensor with these elements.
    fn new(tensor: &Tensor, values: &'a [W]) -> Result<Image<'a, W>, NodeError> {
        match tensor.shape() {
            &[_, channels, height, width] => Ok(Image { values, channels, height, width }),
            shape => Err(refused(format!("images of shape {shape:?}"))),
        }
    }

    fn plane(&self, batch: usize, channel: usize) -> Plane<'a, W> {
        let area = self.height * self.width;
        let values = &self.values[(batch * self.channels + channel) * area..][..area];
        Plane { values, width: self.width }
    }
}

/// One channel of an image.
#[derive(Clone, Copy)]
struct Plane<'a, W> {
    values: &'a [W],
    width: usize,
}

impl<W: Number> Plane<'_, W> {
    /// The four neighbours of a sample with their weights.
    #[inline]
    fn parts(&self, row: [(usize, f64); 2], column: [(usize, f64); 2]) -> [W; 4] {
        let part = |(y, wy): (usize, f64), (x, wx): (usize, f64)| self.values[y * self.width + x] * W::of(wy * wx);
        [part(row[0], column[0]), part(row[0], column[1]), part(row[1], column[0]), part(row[1], column[1])]
    }
}

/// The samples of a region's bins along both axes.
struct Tables {
    region: usize,
    rows: Vec<Bin>,
    columns: Vec<Bin>,
}

/// The operands that all tasks of a pooling share.
struct Pooling<'a, W> {
    image: Image<'a, W>,
    regions: &'a [Region],
    parallel: &'a dyn Parallel,
}

/// `before` and the sum of samples: weights of rows and of columns are factors of each element's weight. Samples outside
/// are zero.
fn total<W: Number>(plane: Plane<'_, W>, [rows, columns]: [&[(usize, f64)]; 2], before: W) -> W {
    let mut sum = before;
    for &(row, by_row) in rows {
        let line = &plane.values[row * plane.width..][..plane.width];
        for &(column, by_column) in columns {
            sum = sum + line[column] * W::of(by_row * by_column);
        }
    }
    sum
}

/// The greatest of `before` and the weighted neighbours of samples, not of their sums: so ONNX defines it.
fn greatest<W: Number>(plane: Plane<'_, W>, [rows, columns]: [&[Neighbours]; 2], before: Option<W>) -> Option<W> {
    let mut greatest = before;
    for &row in rows {
        for &column in columns {
            // Samples outside count as zero.
            let parts = row.zip(column).map_or([W::default(); 4], |(row, column)| plane.parts(row, column));
            greatest = parts.into_iter().chain(greatest).reduce(W::larger);
        }
    }
    greatest
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

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let image = io.input(0)?;
        let batches = image.shape().first().copied().unwrap_or(0);
        let regions = self.regions(&widened::<f64>(io.input(1)?)?, io.input(2)?, batches)?;
        let output = match image.dtype() {
            DType::F32 => self.align_floats(io, &regions, cx.parallel)?,
            _ => self.align::<f64>(io, &regions, cx.parallel)?,
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
