//! Regions of images: RoiAlign pools each.

use kiln_kernels::Parallel;
use kiln_kernels::memory::{self, Collect, Pace};
use kiln_kernels::parallel::for_each_chunk;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Element, Tensor, TensorSpec};

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
    fn pool<W: Copy + Into<f64>>(&self, pooling: &Pooling<'_, W>, first: usize, planes: &mut [W]) {
        let Pooling { image, regions, parallel, narrowed } = *pooling;
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
                *to = narrowed(pooled);
            }
        }
    }

    /// Pools the samples of a bin; `None` where the request has ended before all are read.
    fn pooled<W: Copy + Into<f64>>(
        &self,
        plane: Plane<'_, W>,
        [rows, columns]: [&Bin; 2],
        parallel: &dyn Parallel,
    ) -> Option<f64> {
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
            return Some(most.unwrap_or(0.0));
        }
        let mut sum = 0.0;
        for (number, rows) in rows.taps.chunks(piece).enumerate() {
            if !goes_on(number) {
                return None;
            }
            sum += total(plane, [rows, &columns.taps]);
        }
        Some(sum / (rows.samples * columns.samples).max(1) as f64)
    }

    /// Pools all regions, their planes shared out between threads; `narrowed` makes elements of results.
    fn align<W: Wide + Element + Into<f64>>(
        &self,
        io: &Io<'_>,
        parallel: &dyn Parallel,
        narrowed: fn(f64) -> W,
    ) -> Result<Tensor, NodeError> {
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        let &[batches, channels, height, width] = input.shape() else {
            return Err(refused("no images"));
        };
        let regions = self.regions(&widened::<f64>(io.input(1)?)?, io.input(2)?, batches)?;
        if to.is_empty() {
            return Ok(to);
        }
        let samples = |extent: &Extent, bins: usize| extent.samples.max(1.0) * bins as f64;
        let of_region = |region: &Region| samples(&region.rows, self.bins[0]) * samples(&region.columns, self.bins[1]);
        let work = regions.iter().map(of_region).sum::<f64>() * (channels * SAMPLING) as f64;
        let values = lent::<W>(input)?;
        let image = Image { values: &values, channels, height, width };
        let pooling = Pooling { image, regions: &regions, parallel, narrowed };
        let planes = (regions.len() * channels).div_ceil(task_count(work as usize, parallel));
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

impl<W: Copy + Into<f64>> Plane<'_, W> {
    /// The four neighbours of a sample with their weights.
    #[inline]
    fn parts(&self, row: [(usize, f64); 2], column: [(usize, f64); 2]) -> [f64; 4] {
        let part = |(y, wy): (usize, f64), (x, wx): (usize, f64)| -> f64 {
            let value: f64 = self.values[y * self.width + x].into();
            value * wy * wx
        };
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
    narrowed: fn(f64) -> W,
}

/// The sum of samples: weights of rows and of columns are factors of each element's weight. Samples outside are zero.
fn total<W: Copy + Into<f64>>(plane: Plane<'_, W>, [rows, columns]: [&[(usize, f64)]; 2]) -> f64 {
    let mut sum = 0.0;
    for &(row, by_row) in rows {
        let line = &plane.values[row * plane.width..][..plane.width];
        let of_row: f64 = columns.iter().map(|&(column, weight)| line[column].into() * weight).sum();
        sum += of_row * by_row;
    }
    sum
}

/// The greatest of `before` and the weighted neighbours of samples, not of their sums: so ONNX defines it.
fn greatest<W: Copy + Into<f64>>(
    plane: Plane<'_, W>,
    [rows, columns]: [&[Neighbours]; 2],
    before: Option<f64>,
) -> Option<f64> {
    let mut greatest = before;
    for &row in rows {
        for &column in columns {
            // Samples outside count as zero.
            let parts = row.zip(column).map_or([0.0; 4], |(row, column)| plane.parts(row, column));
            greatest = parts.into_iter().chain(greatest).reduce(f64::max);
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
        let output = match io.input(0)?.dtype() {
            DType::F32 => self.align::<f32>(io, cx.parallel, |value| value as f32)?,
            _ => self.align::<f64>(io, cx.parallel, |value| value)?,
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
