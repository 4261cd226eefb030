//! Scaling and shifting by channel (batch normalisation), and normalisation by instance or group of channels.
//!
//! These run at the speed of memory as plain loops over slices, in either layout, so they are the same at every level.
//! Moments take two passes, mean first, because the variance as a difference of two large numbers would be nothing but
//! rounding. Sums are taken in blocks, and the blocks' sums in `f64`.

use super::{Channels, bounds, unsupported};
use crate::error::Result;
use crate::parallel::{Disjoint, Parallel, part};

/// `y = x * factor + summand` by channel, ready to run.
#[derive(Debug)]
pub struct Affine {
    shape: Channels,
    elements: usize,
    tasks: usize,
}

impl Affine {
    /// Prepares images of that shape, split into at most `tasks` tasks.
    pub fn new(shape: Channels, tasks: usize) -> Result<Affine> {
        Ok(Affine { shape, elements: shape.elements()?, tasks: tasks.max(1) })
    }

    /// Computes it.
    pub fn run(
        &self,
        input: &[f32],
        factor: &[f32],
        summand: &[f32],
        output: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let Channels { batch, channels, spatial, last } = self.shape;
        bounds("input", input.len(), self.elements)?;
        bounds("output", output.len(), self.elements)?;
        bounds("factor", factor.len(), channels)?;
        bounds("summand", summand.len(), channels)?;
        if self.elements == 0 {
            return Ok(());
        }
        // A line is contiguous: a place's channels, or a channel's places.
        let (lines, length) = if last { (batch * spatial, channels) } else { (batch * channels, spatial) };
        let output = Disjoint::new(output);
        let tasks = self.tasks.min(lines);
        parallel.run(tasks, &|task| {
            for line in part(lines, tasks, task) {
                let here = line * length..(line + 1) * length;
                // SAFETY: each line belongs to one task.
                let (output, input) = (unsafe { output.part(here.clone()) }, &input[here]);
                if last {
                    for (((to, x), factor), summand) in output.iter_mut().zip(input).zip(factor).zip(summand) {
                        *to = x * factor + summand;
                    }
                } else {
                    let (factor, summand) = (factor[line % channels], summand[line % channels]);
                    output.iter_mut().zip(input).for_each(|(to, x)| *to = x * factor + summand);
                }
            }
        });
        Ok(())
    }
}

/// Places whose values are added up in `f32` before a sum of sums begins.
const BLOCK: usize = 256;

/// Instance and group normalisation, ready to run.
#[derive(Debug)]
pub struct Groups {
    shape: Channels,
    elements: usize,
    groups: usize,
    tasks: usize,
}

impl Groups {
    /// Prepares images whose channels form `groups` equal groups; one group a channel is instance normalisation.
    pub fn new(shape: Channels, groups: usize, tasks: usize) -> Result<Groups> {
        if shape.channels != 0 && (groups == 0 || !shape.channels.is_multiple_of(groups)) {
            return Err(unsupported(format!("{} channels in {groups} groups", shape.channels)));
        }
        Ok(Groups { shape, elements: shape.elements()?, groups, tasks: tasks.max(1) })
    }

    /// Blocks that the places of an image are added up in, channels last.
    fn blocks(&self) -> usize {
        self.shape.spatial.div_ceil(BLOCK).max(1)
    }

    /// Elements of scratch that [`Groups::run`] needs: the sums of blocks, then two numbers for each image's channels.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        if self.shape.last { self.shape.batch * self.shape.channels * (self.blocks() + 2) } else { 0 }
    }

    /// Normalises; `scale` and `bias` are by channel.
    pub fn run(
        &self,
        input: &[f32],
        (scale, bias): (&[f32], &[f32]),
        epsilon: f32,
        output: &mut [f32],
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        bounds("input", input.len(), self.elements)?;
        bounds("output", output.len(), self.elements)?;
        bounds("scale", scale.len(), self.shape.channels)?;
        bounds("bias", bias.len(), self.shape.channels)?;
        bounds("scratch", scratch.len(), self.scratch_len())?;
        if self.elements == 0 {
            return Ok(());
        }
        let output = Disjoint::new(&mut output[..self.elements]);
        if self.shape.last {
            self.channels_last(input, scale, bias, epsilon, &output, scratch, parallel);
        } else {
            self.channels_first(input, scale, bias, epsilon, &output, parallel);
        }
        Ok(())
    }

    /// A group is contiguous.
    fn channels_first(
        &self,
        input: &[f32],
        scale: &[f32],
        bias: &[f32],
        epsilon: f32,
        output: &Disjoint<'_, f32>,
        parallel: &dyn Parallel,
    ) {
        let Channels { batch, channels, spatial, .. } = self.shape;
        let each = channels / self.groups;
        let units = batch * self.groups;
        let tasks = self.tasks.min(units);
        parallel.run(tasks, &|task| {
            for unit in part(units, tasks, task) {
                let here = unit * each * spatial..(unit + 1) * each * spatial;
                // SAFETY: each group of an image belongs to one task.
                let (output, input) = (unsafe { output.part(here.clone()) }, &input[here]);
                let mean = (sum(input, |x| x) / input.len() as f64) as f32;
                let variance = sum(input, |x| (x - mean) * (x - mean)) / input.len() as f64;
                let deviation = 1.0 / (variance + f64::from(epsilon)).sqrt();
                let first = unit % self.groups * each;
                let lines = output.chunks_exact_mut(spatial).zip(input.chunks_exact(spatial));
                for (channel, (output, input)) in (first..).zip(lines) {
                    let (factor, summand) = ((deviation * f64::from(scale[channel])) as f32, bias[channel]);
                    output.iter_mut().zip(input).for_each(|(to, x)| *to = (x - mean) * factor + summand);
                }
            }
        });
    }

    /// Channels lie side by side, so they are added up side by side, and groups afterwards.
    #[allow(clippy::too_many_arguments, reason = "the arguments of `run`")]
    fn channels_last(
        &self,
        input: &[f32],
        scale: &[f32],
        bias: &[f32],
        epsilon: f32,
        output: &Disjoint<'_, f32>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) {
        let Channels { batch, channels, spatial, .. } = self.shape;
        let blocks = self.blocks();
        let units = batch * blocks;
        let (sums, numbers) = scratch.split_at_mut(units * channels);
        let (means, factors) = numbers[..2 * batch * channels].split_at_mut(batch * channels);
        let tasks = self.tasks.min(units);
        // The places of a unit: its image, and where they lie.
        let place = |unit: usize| {
            let places = part(spatial, blocks, unit % blocks);
            let first = unit / blocks * spatial;
            (unit / blocks, (first + places.start) * channels..(first + places.end) * channels)
        };
        let add_up = |sums: &mut [f32], means: &[f32]| {
            let sums = Disjoint::new(sums);
            parallel.run(tasks, &|task| {
                for unit in part(units, tasks, task) {
                    let (image, here) = place(unit);
                    // SAFETY: each unit has its own sums, and belongs to one task.
                    let sums = unsafe { sums.part(unit * channels..(unit + 1) * channels) };
                    sums.fill(0.0);
                    for line in input[here].chunks_exact(channels) {
                        match means.get(image * channels..(image + 1) * channels) {
                            None => sums.iter_mut().zip(line).for_each(|(sum, x)| *sum += x),
                            Some(means) => {
                                for ((sum, x), mean) in sums.iter_mut().zip(line).zip(means) {
                                    *sum += (x - mean) * (x - mean);
                                }
                            }
                        }
                    }
                }
            });
        };
        let each = channels / self.groups;
        // The mean over a group of what was added up.
        let mean_of = |sums: &[f32], image: usize, group: usize| {
            let blocks = sums[image * blocks * channels..(image + 1) * blocks * channels].chunks_exact(channels);
            let sum: f64 = blocks.flat_map(|sums| &sums[group * each..(group + 1) * each]).map(|&x| f64::from(x)).sum();
            sum / (each * spatial) as f64
        };
        let groups = || (0..batch).flat_map(|image| (0..self.groups).map(move |group| (image, group)));
        add_up(sums, &[]);
        for (image, group) in groups() {
            let first = image * channels + group * each;
            means[first..first + each].fill(mean_of(sums, image, group) as f32);
        }
        add_up(sums, means);
        for (image, group) in groups() {
            let deviation = 1.0 / (mean_of(sums, image, group) + f64::from(epsilon)).sqrt();
            for channel in group * each..(group + 1) * each {
                factors[image * channels + channel] = (deviation * f64::from(scale[channel])) as f32;
            }
        }
        let (means, factors) = (&*means, &*factors);
        parallel.run(tasks, &|task| {
            for unit in part(units, tasks, task) {
                let (image, here) = place(unit);
                let numbers = image * channels..(image + 1) * channels;
                let (means, factors) = (&means[numbers.clone()], &factors[numbers]);
                // SAFETY: each unit has its own places, and belongs to one task.
                let (output, input) = (unsafe { output.part(here.clone()) }, &input[here]);
                for (output, input) in output.chunks_exact_mut(channels).zip(input.chunks_exact(channels)) {
                    let numbers = means.iter().zip(factors).zip(bias);
                    for ((to, x), ((mean, factor), summand)) in output.iter_mut().zip(input).zip(numbers) {
                        *to = (x - mean) * factor + summand;
                    }
                }
            }
        });
    }
}

/// The sum of `term` of each value, in lanes that the compiler makes vectors of.
fn sum(values: &[f32], term: impl Fn(f32) -> f32) -> f64 {
    const LANES: usize = 16;
    let block = |block: &[f32]| {
        let mut lanes = [0f32; LANES];
        let whole = block.chunks_exact(LANES);
        let rest: f32 = whole.remainder().iter().map(|&x| term(x)).sum();
        for chunk in whole {
            lanes.iter_mut().zip(chunk).for_each(|(lane, &x)| *lane += term(x));
        }
        f64::from(lanes.iter().sum::<f32>() + rest)
    };
    values.chunks(LANES * BLOCK).map(block).sum()
}
