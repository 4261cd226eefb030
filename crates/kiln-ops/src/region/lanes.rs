//! Regions pooled for sixteen channels at a time, of images whose channels lie side by side in memory.
//!
//! Channels of an image are planes, so a sample would be looked up once for each channel. Where samples read more
//! elements than the images have, all images are first copied into blocks of [`LANES`] channels: an element of a block
//! is one vector.

use kiln_kernels::Parallel;
use kiln_kernels::memory;
use kiln_kernels::parallel::for_each_chunk;

use super::{Bin, Image, Neighbours, Number, Region, RoiAlign, Tables, UNSEEN};
use crate::task_count;

/// Channels of a block.
pub(super) const LANES: usize = 16;

/// Copying an element takes as long as moving this many bytes.
const COPYING: usize = 16;

/// Images in blocks of channels; the last block is filled up with zeros.
pub(super) struct Blocks {
    values: Vec<[f32; LANES]>,
    channels: usize,
    height: usize,
    width: usize,
}

impl Blocks {
    /// Copies images of `f32`, on all threads.
    pub(super) fn of(image: &Image<'_, f32>, parallel: &dyn Parallel) -> Blocks {
        let &Image { values, channels, height, width } = image;
        let (area, blocks) = (height * width, channels.div_ceil(LANES));
        let images = values.len() / (channels * area);
        let mut blocked = memory::zeroed::<[f32; LANES]>(images * blocks * area);
        let tasks = task_count(values.len().saturating_mul(COPYING), parallel);
        let each = (images * blocks).div_ceil(tasks).max(1);
        for_each_chunk(parallel, &mut blocked, each * area, &|index, to| {
            for (number, to) in to.chunks_exact_mut(area).enumerate() {
                let (image, block) = ((index * each + number) / blocks, (index * each + number) % blocks);
                let first = image * channels + block * LANES;
                let planes = LANES.min(channels - block * LANES);
                side_by_side(&values[first * area..(first + planes) * area], to);
            }
        });
        Blocks { values: blocked, channels, height, width }
    }

    /// The elements of block `block` of an image.
    fn block(&self, batch: usize, block: usize) -> &[[f32; LANES]] {
        let area = self.height * self.width;
        &self.values[(batch * self.channels.div_ceil(LANES) + block) * area..][..area]
    }
}

/// Writes elements of planes side by side.
fn side_by_side(planes: &[f32], to: &mut [[f32; LANES]]) {
    // Neighbours of a line of the cache are copied together.
    const STRIP: usize = 16;
    let area = to.len();
    for (strip, to) in to.chunks_mut(STRIP).enumerate() {
        for (lane, plane) in planes.chunks_exact(area).enumerate() {
            let from = &plane[strip * STRIP..][..to.len()];
            to.iter_mut().zip(from).for_each(|(to, &from)| to[lane] = from);
        }
    }
}

impl RoiAlign {
    /// Pools all regions, which are shared out between threads block by block.
    pub(super) fn pool_blocks(
        &self,
        image: &Blocks,
        regions: &[Region],
        work: usize,
        parallel: &dyn Parallel,
        output: &mut [f32],
    ) {
        let area = self.bins[0] * self.bins[1];
        // Tasks have whole regions, whose tables they make once.
        let each = regions.len().div_ceil(task_count(work, parallel)).max(1);
        for_each_chunk(parallel, output, each * image.channels * area, &|index, output| {
            let regions = &regions[index * each..];
            let mut unseen = 0;
            for (region, to) in regions.iter().zip(output.chunks_exact_mut(image.channels * area)) {
                let tables = Tables {
                    region: 0,
                    rows: region.rows.bins(self.bins[0], image.height, self.max),
                    columns: region.columns.bins(self.bins[1], image.width, self.max),
                };
                for (block, to) in to.chunks_mut(LANES * area).enumerate() {
                    let values = image.block(region.batch, block);
                    for bin in 0..area {
                        let samples = [&tables.rows[bin / self.bins[1]], &tables.columns[bin % self.bins[1]]];
                        unseen += LANES * samples[0].len() * samples[1].len();
                        if unseen >= UNSEEN {
                            unseen = 0;
                            if parallel.is_stopped() {
                                return;
                            }
                        }
                        let Some(pooled) = self.pooled_lanes(values, image.width, samples, parallel) else { return };
                        to.iter_mut().skip(bin).step_by(area).zip(pooled).for_each(|(to, pooled)| *to = pooled);
                    }
                }
            }
        });
    }

    /// Pools the samples of a bin; `None` where the request has ended before all are read.
    fn pooled_lanes(
        &self,
        values: &[[f32; LANES]],
        width: usize,
        [rows, columns]: [&Bin; 2],
        parallel: &dyn Parallel,
    ) -> Option<[f32; LANES]> {
        let piece = (UNSEEN / (LANES * columns.len()).max(1)).max(1);
        let ends = |row: usize| row > 0 && row.is_multiple_of(piece) && parallel.is_stopped();
        if self.max {
            return greatest(values, width, [&rows.neighbours, &columns.neighbours], ends);
        }
        let mut sums = [0.0; LANES];
        for (number, &(row, by_row)) in rows.taps.iter().enumerate() {
            if ends(number) {
                return None;
            }
            let line = &values[row * width..][..width];
            for &(column, by_column) in &columns.taps {
                let weight = (by_row * by_column) as f32;
                for (sum, value) in sums.iter_mut().zip(&line[column]) {
                    *sum += value * weight;
                }
            }
        }
        let samples = (rows.samples * columns.samples).max(1) as f32;
        Some(sums.map(|sum| sum / samples))
    }
}

/// The greatest weighted neighbours of samples, not of their sums: so ONNX defines it. Samples outside count as zero.
/// `None` where it `ends` at a row.
fn greatest(
    values: &[[f32; LANES]],
    width: usize,
    [rows, columns]: [&[Neighbours]; 2],
    ends: impl Fn(usize) -> bool,
) -> Option<[f32; LANES]> {
    let mut greatest: Option<[f32; LANES]> = None;
    let mut meet = |parts: [f32; LANES]| match &mut greatest {
        None => greatest = Some(parts),
        Some(most) => most.iter_mut().zip(parts).for_each(|(most, part)| *most = part.larger(*most)),
    };
    for (number, row) in rows.iter().enumerate() {
        if ends(number) {
            return None;
        }
        for column in columns {
            let (Some(row), Some(column)) = (row, column) else {
                meet([0.0; LANES]);
                continue;
            };
            for &(y, by_row) in row {
                for &(x, by_column) in column {
                    let weight = (by_row * by_column) as f32;
                    meet(values[y * width + x].map(|value| value * weight));
                }
            }
        }
    }
    Some(greatest.unwrap_or_default())
}
