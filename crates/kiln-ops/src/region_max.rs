//! Regions of images: MaxRoiPool takes the greatest whole element of each bin.
//!
//! The standard leaves open where bins begin and end; they are those of onnxruntime. Edges are rounded to elements,
//! halves away from zero, and both belong to the region.

use kiln_kernels::Parallel;
use kiln_kernels::memory::{Collect, Pace};
use kiln_kernels::parallel::for_each_chunk;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Element, Tensor, TensorSpec};

use super::wide::{Wide, filled, lent, widened};
use super::{LoadCx, OpError, Operator, index_of, refused, required, task_count};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "MaxRoiPool", make)];

struct MaxRoiPool {
    bins: [usize; 2],
    scale: f32,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let shape = node.ints("pooled_shape").unwrap_or_default();
    let bins = match shape {
        &[rows, columns] if rows > 0 && columns > 0 => [rows as usize, columns as usize],
        _ => return Err(OpError::invalid(node, format!("pooled_shape {shape:?}, which is not two positive sizes"))),
    };
    Ok(Box::new(MaxRoiPool { bins, scale: node.attributes().float("spatial_scale") }))
}

/// A region along one axis.
#[derive(Clone, Copy)]
struct Extent {
    start: f32,
    /// Length of a bin.
    bin: f32,
}

impl Extent {
    /// The elements of a bin, within an axis of `size` elements.
    fn elements(self, bin: usize, size: usize) -> std::ops::Range<usize> {
        let inside = |edge: f32| (edge + self.start).clamp(0.0, size as f32) as usize;
        inside((bin as f32 * self.bin).floor())..inside(((bin + 1) as f32 * self.bin).ceil())
    }
}

/// A region of an image.
struct Region {
    batch: usize,
    rows: Extent,
    columns: Extent,
}

impl MaxRoiPool {
    fn along(&self, edges: [f64; 2], bins: usize) -> Result<Extent, NodeError> {
        let [start, end] = edges.map(|edge| (edge as f32 * self.scale).round());
        if !start.is_finite() || !end.is_finite() {
            return Err(refused(format!("a region from {start} to {end}")));
        }
        Ok(Extent { start, bin: (end - start + 1.0).max(1.0) / bins as f32 })
    }

    /// Regions of rows of an image's number, left, top, right and bottom.
    fn regions(&self, rows: &[f64], count: usize) -> Result<Vec<Region>, NodeError> {
        let region = |row: &[f64]| {
            Ok(Region {
                batch: index_of(row[0] as i64, count)?,
                rows: self.along([row[2], row[4]], self.bins[0])?,
                columns: self.along([row[1], row[3]], self.bins[1])?,
            })
        };
        rows.chunks_exact(5).map(region).try_collected()
    }

    /// Pools all regions, their planes shared out between threads.
    fn pool<W: Wide + Element + PartialOrd>(&self, io: &Io<'_>, parallel: &dyn Parallel) -> Result<Tensor, NodeError> {
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        let &[batches, channels, height, width] = input.shape() else {
            return Err(refused("no images"));
        };
        let regions = self.regions(&widened::<f64>(io.input(1)?)?, batches)?;
        if to.is_empty() {
            return Ok(to);
        }
        let (values, area) = (lent::<W>(input)?, self.bins[0] * self.bins[1]);
        // At most all elements of a plane, and an element more of each bin's border.
        let work = regions.len() * channels * (height * width + 4 * area);
        let planes = (regions.len() * channels).div_ceil(task_count(work, parallel));
        filled(to, |output| {
            for_each_chunk(parallel, output, planes * area, &|index, output| {
                let mut pace = Pace::default();
                for (number, bins) in output.chunks_exact_mut(area).enumerate() {
                    let (number, channel) = {
                        let plane = index * planes + number;
                        (plane / channels, plane % channels)
                    };
                    let region = &regions[number];
                    let plane = &values[(region.batch * channels + channel) * height * width..][..height * width];
                    for (bin, to) in bins.iter_mut().enumerate() {
                        let columns = region.columns.elements(bin % self.bins[1], width);
                        let mut most: Option<W> = None;
                        for row in region.rows.elements(bin / self.bins[1], height) {
                            pace.step(1 + columns.len());
                            for &value in plane[row * width..].get(columns.clone()).unwrap_or_default() {
                                // Numbers go before NaN.
                                let stays = |most: &W| *most >= value || value.partial_cmp(&value).is_none();
                                most = Some(most.filter(stays).unwrap_or(value));
                            }
                        }
                        // A bin that is outside of the image has no element.
                        *to = most.unwrap_or_default();
                    }
                }
            });
            Ok(())
        })
    }
}

impl Node for MaxRoiPool {
    fn family(&self) -> &'static str {
        "MaxRoiPool"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let (image, regions) = (required(inputs, 0)?, required(inputs, 1)?);
        match (image.shape(), regions.shape()) {
            (&[_, _, height, width], &[_, 5]) if height > 0 && width > 0 => {
                super::wide::Width::of(image.dtype()).map(drop)
            }
            (image, regions) => Err(refused(format!("regions of shape {regions:?} in images of {image:?}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let output = match io.input(0)?.dtype() {
            DType::F32 => self.pool::<f32>(io, cx.parallel)?,
            _ => self.pool::<f64>(io, cx.parallel)?,
        };
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::Attr;

    use crate::trial::Trial;

    fn pool(shape: &[i64]) -> Trial {
        let image: Vec<f32> = (0..32).map(|v| v as f32).collect();
        Trial::new("MaxRoiPool").attr("pooled_shape", Attr::Ints(shape.to_vec())).input(&[2, 1, 4, 4], &image)
    }

    #[test]
    fn bins_take_their_greatest_element() {
        // Both edges belong to a region: rows 0 to 2 and columns 1 to 2 in bins that share the row between them.
        let inside = pool(&[2, 1]).input(&[1, 5], &[0f32, 1.0, 0.0, 2.0, 2.0]);
        inside.gives(&[1, 1, 2, 1], &[6f32, 10.0]);
        // Halves are rounded away from zero: column 1 to 3, row 3.
        let halves = pool(&[1, 3]).attr("spatial_scale", Attr::Float(0.5)).input(&[1, 5], &[1f32, 1.0, 5.0, 5.0, 5.0]);
        halves.gives(&[1, 1, 1, 3], &[29f32, 30.0, 31.0]);
        // Beyond the image a bin is zero; a region that ends before it begins has one element.
        let image = Trial::new("MaxRoiPool")
            .attr("pooled_shape", Attr::Ints(vec![1, 1]))
            .input(&[1, 1, 1, 3], &[f32::NAN, -2.0, f32::NAN]);
        image.input(&[1, 5], &[0f32, 0.0, 0.0, 2.0, 0.0]).gives(&[1, 1, 1, 1], &[-2f32]);
        let outside = pool(&[1, 2]).input(&[2, 5], &[0f32, 3.0, 0.0, 6.0, 0.0, 1.0, 2.0, 2.0, 1.0, 1.0]);
        outside.gives(&[2, 1, 1, 2], &[3f32, 0.0, 26.0, 26.0]);
    }

    #[test]
    fn regions_of_no_image_and_of_no_size_are_refused() {
        pool(&[1, 1]).input(&[1, 5], &[2f32, 0.0, 0.0, 1.0, 1.0]).is_refused("outside of 0..2");
        pool(&[1, 1]).input(&[1, 5], &[0f32, f32::NAN, 0.0, 1.0, 1.0]).is_refused("a region from NaN");
        pool(&[1, 1]).input(&[1, 4], &[0f32; 4]).is_refused("regions of shape [1, 4]");
        pool(&[1, 1]).input(&[0, 5], &[] as &[f32]).gives(&[0, 1, 1, 1], &[] as &[f32]);
    }

    #[test]
    fn planes_of_many_regions_are_the_same_on_any_number_of_threads() {
        let image: Vec<f32> = (0..2 * 5 * 9 * 11).map(|at| ((at * 37) % 101) as f32).collect();
        let row = |at: usize| [(at % 2) as f32, at as f32 / 8.0 - 2.0, at as f32 / 9.0, at as f32 / 4.0, 8.0];
        let regions: Vec<f32> = (0..400).flat_map(row).collect();
        let on = |threads| {
            let trial = Trial::new("MaxRoiPool").attr("pooled_shape", Attr::Ints(vec![3, 4]));
            let trial = trial.input(&[2, 5, 9, 11], &image).input(&[400, 5], &regions);
            trial.threads(threads).run().unwrap().remove(0)
        };
        assert!(on(1).same(&on(3)));
    }
}
