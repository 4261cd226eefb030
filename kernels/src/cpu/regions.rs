//! Regions of images whose bins are pooled: means and maxima of samples between elements.
//!
//! A caller says where the regions lie, because it depends on data. [`Method::Planes`] pools one channel at a time.
//! [`Method::Blocks`] copies all images into blocks of [`MOST_LANES`] channels first, so that an element of a block is
//! a vector and a sample is looked up once for all channels of a block. Both give a bin the same bits at every level,
//! alone and beside others. The oracle is [`reference::regions`](crate::reference::regions).

mod lanes;
mod samples;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::parallel::{Disjoint, Parallel, part};

pub use crate::problem::regions::{Extent, MOST_LANES, Region, Regions};

use lanes::Lanes;
use samples::{Bin, Tables};

const FAMILY: &str = "regions";

/// How images are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Method {
    /// Channel by channel, where they are.
    Planes,
    /// After channels have been laid side by side.
    Blocks,
}

impl Method {
    /// The method that moves and multiplies less.
    #[must_use]
    pub fn pick(regions: &Regions) -> Method {
        let elements = regions.size[0].saturating_mul(regions.size[1]).saturating_mul(regions.images);
        let few = regions.channels < MOST_LANES as u64 / 2;
        // A sample reads four elements.
        if few || regions.sampled().saturating_mul(4) < elements { Method::Planes } else { Method::Blocks }
    }
}

impl Regions {
    /// Samples of all regions in a channel. Where the length of a region decides, a bin has two along each axis.
    #[must_use]
    pub fn sampled(&self) -> u64 {
        let along = if self.samples == 0 { 2 } else { self.samples };
        let of_bin = along.saturating_mul(along);
        self.regions.saturating_mul(self.bins[0].saturating_mul(self.bins[1])).saturating_mul(of_bin)
    }
}

/// Pooled regions ready to be computed.
#[derive(Debug)]
pub struct Pooler {
    regions: Regions,
    /// Elements of all images, and bins of all regions.
    elements: [usize; 2],
    isa: Isa,
    method: Method,
    tasks: usize,
}

/// Samples between two looks at whether the request goes on.
const UNSEEN: usize = 1 << 14;

impl Pooler {
    /// Prepares the pooling, split into at most `tasks` tasks.
    pub fn new(regions: Regions, isa: Isa, method: Method, tasks: usize) -> Result<Pooler> {
        let reason = || KernelError::Unsupported { family: FAMILY, reason: format!("{regions:?}") };
        let elements = regions.elements().ok_or_else(reason)?;
        Ok(Pooler { regions, elements, isa, method, tasks: tasks.max(1) })
    }

    /// Elements of the memory that a run needs besides its operands.
    #[must_use]
    pub fn scratch(&self) -> usize {
        match self.method {
            Method::Planes => 0,
            Method::Blocks => self.blocks() * self.area() * MOST_LANES,
        }
    }

    /// Writes the bins of regions: for each region, planes of bins of all channels.
    pub fn run(
        &self,
        values: &[f32],
        regions: &[Region],
        scratch: &mut [f32],
        output: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let need = self.scratch();
        if scratch.len() < need {
            return Err(KernelError::Bounds { family: FAMILY, operand: "scratch", have: scratch.len(), need });
        }
        let (values, output) = self.operands(values, regions, output)?;
        if output.is_empty() {
            return Ok(());
        }
        match self.method {
            Method::Planes => self.pool::<f32, 1>(bytemuck::cast_slice(values), regions, output, parallel),
            Method::Blocks => {
                let blocks: &mut [[f32; MOST_LANES]] = bytemuck::cast_slice_mut(&mut scratch[..need]);
                self.side_by_side(values, blocks, parallel);
                self.pool::<f32, MOST_LANES>(blocks, regions, output, parallel);
            }
        }
        Ok(())
    }

    /// The same in `f64`, channel by channel.
    pub fn run_double(
        &self,
        values: &[f64],
        regions: &[Region],
        output: &mut [f64],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let (values, output) = self.operands(values, regions, output)?;
        if !output.is_empty() {
            self.pool::<f64, 1>(bytemuck::cast_slice(values), regions, output, parallel);
        }
        Ok(())
    }

    /// The parts of operands that a run reads and writes.
    fn operands<'a, W>(
        &self,
        values: &'a [W],
        regions: &[Region],
        output: &'a mut [W],
    ) -> Result<(&'a [W], &'a mut [W])> {
        let have = [values.len(), regions.len(), output.len()];
        let need = [self.elements[0], self.regions.regions(), self.elements[1]];
        for ((operand, have), need) in ["values", "regions", "output"].into_iter().zip(have).zip(need) {
            if have < need {
                return Err(KernelError::Bounds { family: FAMILY, operand, have, need });
            }
        }
        let images = self.regions.images();
        if let Some(Region { image, .. }) = regions.iter().find(|region| region.image >= images) {
            let reason = format!("a region of image {image} of {images}");
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        Ok((&values[..self.elements[0]], &mut output[..self.elements[1]]))
    }

    fn area(&self) -> usize {
        let [height, width] = self.regions.size();
        height * width
    }

    /// Blocks of channels of all images.
    fn blocks(&self) -> usize {
        self.regions.images() * self.regions.channels().div_ceil(MOST_LANES)
    }

    /// Lays channels side by side, on all threads; the last block of an image is filled up with zeros.
    fn side_by_side(&self, values: &[f32], to: &mut [[f32; MOST_LANES]], parallel: &dyn Parallel) {
        let (channels, area, count) = (self.regions.channels(), self.area(), self.blocks());
        let blocks = channels.div_ceil(MOST_LANES);
        let to = Disjoint::new(to);
        let tasks = self.tasks.min(count);
        parallel.run(tasks, &|task| {
            for number in part(count, tasks, task) {
                if parallel.is_stopped() {
                    return;
                }
                let (image, block) = (number / blocks, number % blocks);
                let first = image * channels + block * MOST_LANES;
                let planes = MOST_LANES.min(channels - block * MOST_LANES);
                // SAFETY: each block is one task's.
                let to = unsafe { to.part(number * area..(number + 1) * area) };
                lanes::side_by_side(&values[first * area..(first + planes) * area], to);
            }
        });
    }

    /// Pools all regions of images in blocks of `N` channels. Regions and their blocks are shared out between threads.
    fn pool<W: Copy + Default + Send + Sync, const N: usize>(
        &self,
        values: &[[W; N]],
        regions: &[Region],
        output: &mut [W],
        parallel: &dyn Parallel,
    ) where
        [W; N]: Lanes,
    {
        let ([height, width], bins, channels) = (self.regions.size(), self.regions.bins(), self.regions.channels());
        let (of_image, area) = (height * width, bins[0] * bins[1]);
        let blocks = channels.div_ceil(N);
        let items = self.regions.regions() * blocks;
        let output = Disjoint::new(output);
        let tasks = self.tasks.min(items);
        parallel.run(tasks, &|task| {
            let mut unseen = 0;
            let mut known: Option<(usize, Tables)> = None;
            for item in part(items, tasks, task) {
                let (number, block) = (item / blocks, item % blocks);
                let region = &regions[number];
                let (_, tables) = match known.take() {
                    Some(known_one) if known_one.0 == number => known.insert(known_one),
                    _ => known.insert((number, Tables::new(region, [height, width], bins, self.regions.max))),
                };
                let values = &values[(region.image * blocks + block) * of_image..][..of_image];
                let planes = N.min(channels - block * N);
                let first = (number * channels + block * N) * area;
                // SAFETY: each block of a region is one task's.
                let to = unsafe { output.part(first..first + planes * area) };
                for bin in 0..area {
                    let samples = [&tables.rows[bin / bins[1]], &tables.columns[bin % bins[1]]];
                    unseen += N * samples[0].len() * samples[1].len();
                    if unseen >= UNSEEN {
                        unseen = 0;
                        if parallel.is_stopped() {
                            return;
                        }
                    }
                    let Some(pooled) = self.pooled(values, width, samples, parallel) else { return };
                    to.iter_mut().skip(bin).step_by(area).zip(pooled).for_each(|(to, pooled)| *to = pooled);
                }
            }
        });
    }

    /// Pools the samples of a bin; `None` where the request has ended before all are read.
    fn pooled<L: Lanes>(
        &self,
        values: &[L],
        width: usize,
        [rows, columns]: [&Bin; 2],
        parallel: &dyn Parallel,
    ) -> Option<L> {
        let piece = (UNSEEN / (columns.len() * size_of::<L>()).max(1)).max(1);
        let goes_on = |number: usize| number == 0 || !parallel.is_stopped();
        if self.regions.max {
            let mut most = None;
            for (number, rows) in rows.neighbours.chunks(piece).enumerate() {
                if !goes_on(number) {
                    return None;
                }
                lanes::greatest(values, width, [rows, &columns.neighbours], &mut most);
            }
            return Some(most.unwrap_or_else(L::zeroed));
        }
        let mut sum = L::zeroed();
        for (number, rows) in rows.taps.chunks(piece).enumerate() {
            if !goes_on(number) {
                return None;
            }
            L::total(self.isa, values, width, [rows, &columns.taps], &mut sum);
        }
        Some(sum.over((rows.samples * columns.samples).max(1) as f64))
    }
}
