//! Scaling and shifting by channel (batch normalisation), and normalisation by instance or group of channels.
//!
//! Sums are passes of [reductions](crate::cpu::reduce); results are computed by [chains](crate::cpu::chain). Where
//! there is no code, plain loops take the sums. Moments take two passes, mean first, because the variance as a
//! difference of two large numbers would lose its digits. Sums are taken in blocks in `f32`, the sums of blocks in
//! `f64`. All passes over a group come before the next group, so that only the first reads memory. An image with
//! channels last may be larger than a cache, so there both passes are over a block of positions before the next block.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Channels, bounds, unsupported};
use crate::cpu::chain::{BinaryOp, Builder, Chain, ChainPlan, Geometry, MAX_UNROLL, Operand, Storage, Target};
use crate::cpu::reduce::{Fold, Map, Order, Pass, PostOp, ReduceArgs, ReduceCode, ReduceKernel};
use crate::cpu::{CodeKey, CodeSource};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::parallel::{Disjoint, Parallel, Serial, part};

/// `y = x * factor + summand` by channel, ready to run: a chain that broadcasts.
#[derive(Debug)]
pub struct Affine {
    shape: Channels,
    elements: usize,
    chain: Option<Chain>,
}

impl Affine {
    /// Prepares images of that shape, split into at most `tasks` tasks.
    pub fn new(shape: Channels, isa: Isa, tasks: usize, source: &dyn CodeSource) -> Result<Affine> {
        let elements = shape.elements()?;
        let ([batch, channels, spatial], last) = (shape.sizes(), shape.last);
        let mut program = Builder::new(&[Storage::F32; 3]);
        let product = program.binary(BinaryOp::Mul, 0, 1);
        program.binary(BinaryOp::Add, product, 2);
        let chain = if last {
            chain(program, &[batch * spatial, channels], &[&[channels][..]; 2], isa, tasks, source)
        } else {
            chain(program, &[batch, channels, spatial], &[&[channels, 1][..]; 2], isa, tasks, source)
        };
        Ok(Affine { shape, elements, chain: if elements == 0 { None } else { Some(chain?) } })
    }

    /// Computes `y` for the whole batch.
    pub fn run(
        &self,
        input: &[f32],
        factor: &[f32],
        summand: &[f32],
        output: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        bounds("input", input.len(), self.elements)?;
        bounds("output", output.len(), self.elements)?;
        bounds("factor", factor.len(), self.shape.channels())?;
        bounds("summand", summand.len(), self.shape.channels())?;
        let Some(chain) = &self.chain else { return Ok(()) };
        let operands = [input, factor, summand].map(Operand::F32);
        chain.run(&operands, &mut Target::F32(&mut output[..self.elements]), parallel)
    }
}

/// A chain over an output of shape `whole`, to which all operands but the first are broadcast.
fn chain(
    program: Builder,
    whole: &[usize],
    others: &[&[usize]],
    isa: Isa,
    tasks: usize,
    source: &dyn CodeSource,
) -> Result<Chain> {
    let program = program.finish(Storage::F32).ok_or_else(|| unsupported("an empty chain".to_owned()))?;
    let shapes: SmallVec<[&[usize]; 4]> = std::iter::once(whole).chain(others.iter().copied()).collect();
    let geometry = Geometry::new(whole, &shapes)?;
    let unroll = Chain::unroll_for(isa, &program, &geometry, MAX_UNROLL);
    Chain::new(isa, &program, &geometry, ChainPlan { unroll, tasks }, source)
}

/// Positions whose values are added up in `f32` before their sum goes to `f64`.
const BLOCK: usize = 256;

/// Elements of a contiguous row that are added up in `f32`, in several lanes.
const ROW: usize = 16 * BLOCK;
/// The least channels for which rows of a block are read from end to end: four vectors of AVX-512. With fewer channels,
/// columns are added up one vector at a time.
const STREAMED: usize = 64;
/// The least elements of a task.
const TASK: usize = 1 << 14;

/// The operands of a normalisation by groups besides its input.
#[derive(Clone, Copy, Debug)]
pub struct GroupOperands<'a> {
    /// Factors, one a channel.
    pub scale: &'a [f32],
    /// Summands, one a channel.
    pub bias: &'a [f32],
    /// Added to the variance.
    pub epsilon: f32,
}

/// Instance and group normalisation, ready to run.
#[derive(Debug)]
pub struct Groups {
    shape: Channels,
    elements: usize,
    groups: usize,
    tasks: usize,
    sums: Option<Sums>,
    /// `(x - mean) * factor + summand`, over a group, or over an image with channels last.
    result: Option<Chain>,
}

/// The code of sums, and of sums of squares around a centre.
#[derive(Debug)]
struct Sums {
    plain: Arc<Code>,
    squares: Arc<Code>,
}

impl Groups {
    /// Prepares images whose channels form `groups` equal groups; one group a channel is instance normalisation.
    pub fn new(shape: Channels, groups: usize, isa: Isa, tasks: usize, source: &dyn CodeSource) -> Result<Groups> {
        let ([_, channels, spatial], last) = (shape.sizes(), shape.last);
        if channels != 0 && (groups == 0 || !channels.is_multiple_of(groups)) {
            return Err(unsupported(format!("{channels} channels in {groups} groups")));
        }
        let (elements, tasks) = (shape.elements()?, tasks.max(1));
        if elements == 0 {
            return Ok(Groups { shape, elements, groups, tasks, sums: None, result: None });
        }
        let order = order(&shape);
        let code = |map, centred| {
            let pass = Pass { map, fold: Fold::Add, post_op: PostOp::None };
            source.code(&CodeKey::Reduce(ReduceCode { isa, pass, order, centred }))
        };
        let sums = match isa.is_jit() {
            true => Some(Sums { plain: code(Map::Identity, false)?, squares: code(Map::Square, true)? }),
            false => None,
        };
        let mut program = Builder::new(&[Storage::F32; 4]);
        let centred = program.binary(BinaryOp::Sub, 0, 1);
        let scaled = program.binary(BinaryOp::Mul, centred, 2);
        program.binary(BinaryOp::Add, scaled, 3);
        let result = if last {
            chain(program, &[spatial, channels], &[&[channels][..]; 3], isa, tasks, source)?
        } else {
            let (one, each): (&[usize], &[usize]) = (&[1, 1], &[channels / groups, 1]);
            chain(program, &[channels / groups, spatial], &[one, each, each], isa, 1, source)?
        };
        Ok(Groups { shape, elements, groups, tasks, sums, result: Some(result) })
    }

    /// Blocks that the positions of an image are divided into, channels last.
    fn blocks(&self) -> usize {
        self.shape.spatial().div_ceil(BLOCK).max(1)
    }

    /// Elements of scratch that [`Groups::run`] needs: the factors of all groups; for one image with channels last, the
    /// means of its blocks, the sums of squares around them, means and factors.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        let ([batch, channels, _], last) = (self.shape.sizes(), self.shape.last);
        if last { channels * (2 * self.blocks() + 2) } else { batch * channels }
    }

    /// Normalises.
    pub fn run(
        &self,
        input: &[f32],
        operands: GroupOperands<'_>,
        output: &mut [f32],
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let GroupOperands { scale, bias, epsilon } = operands;
        bounds("input", input.len(), self.elements)?;
        bounds("output", output.len(), self.elements)?;
        bounds("scale", scale.len(), self.shape.channels())?;
        bounds("bias", bias.len(), self.shape.channels())?;
        bounds("scratch", scratch.len(), self.scratch_len())?;
        let Some(result) = &self.result else { return Ok(()) };
        let (input, output) = (&input[..self.elements], &mut output[..self.elements]);
        if !self.shape.last {
            return self.channels_first(result, input, operands, output, scratch, parallel);
        }
        let image = self.shape.channels() * self.shape.spatial();
        let images = input.chunks_exact(image).zip(output.chunks_exact_mut(image));
        for (input, output) in images {
            let (means, factors) = self.numbers(input, scale, epsilon, scratch, parallel);
            let operands = [input, means, factors, &bias[..self.shape.channels()]].map(Operand::F32);
            result.run(&operands, &mut Target::F32(output), parallel)?;
        }
        Ok(())
    }

    /// Normalises images with channels first, where a group is contiguous.
    fn channels_first(
        &self,
        result: &Chain,
        input: &[f32],
        operands: GroupOperands<'_>,
        output: &mut [f32],
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let GroupOperands { scale, bias, epsilon } = operands;
        let [batch, channels, spatial] = self.shape.sizes();
        let each = channels / self.groups;
        let units = batch * self.groups;
        let tasks = self.tasks.min(units);
        let (output, scratch) = (Disjoint::new(output), Disjoint::new(scratch));
        let failure = std::sync::Mutex::new(Ok(()));
        parallel.run(tasks, &|task| {
            for unit in part(units, tasks, task) {
                let here = unit * each * spatial..(unit + 1) * each * spatial;
                // SAFETY: each group of an image belongs to one task, and so do its factors.
                let (output, factors) =
                    unsafe { (output.part(here.clone()), scratch.part(unit * each..(unit + 1) * each)) };
                let input = &input[here];
                let mean = (self.total(input, None) / input.len() as f64) as f32;
                let variance = self.total(input, Some(mean)) / input.len() as f64;
                let deviation = 1.0 / (variance + f64::from(epsilon)).sqrt();
                let own = unit % self.groups * each..(unit % self.groups + 1) * each;
                for (factor, &scale) in factors.iter_mut().zip(&scale[own.clone()]) {
                    *factor = (deviation * f64::from(scale)) as f32;
                }
                let mean = [mean];
                let operands = [input, &mean, factors, &bias[own]].map(Operand::F32);
                if let Err(error) = result.run(&operands, &mut Target::F32(output), &Serial) {
                    *failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Err(error);
                }
            }
        });
        failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The sum of contiguous values, or of the squares of their deviations from `centre`.
    fn total(&self, values: &[f32], centre: Option<f32>) -> f64 {
        let Some(sums) = &self.sums else {
            return match centre {
                None => sum(values, |x| x),
                Some(centre) => sum(values, |x| (x - centre) * (x - centre)),
            };
        };
        const ROWS: usize = 64;
        let kernel = ReduceKernel { order: order(&self.shape), centred: centre.is_some() };
        let (code, centre) = (if centre.is_some() { &sums.squares } else { &sums.plain }, centre.unwrap_or(0.0));
        let mut total = 0.0;
        for values in values.chunks(ROWS * ROW) {
            let mut sums = [0f32; ROWS];
            // Whole rows, then one shorter row.
            let (rows, length) = if values.len() < ROW { (1, values.len()) } else { (values.len() / ROW, ROW) };
            let (src, dst, left) = (values.as_ptr(), sums.as_mut_ptr(), &values[rows * length..]);
            let args = ReduceArgs { src, dst, rows, length, stride: length * 4, scale: 1.0, centre: &raw const centre };
            let given = Given::new().read("values", values).read("centre", std::slice::from_ref(&centre));
            let given = given.write("sums", &mut sums);
            // SAFETY: the rows lie inside of the values, and each has a sum; the code takes `ReduceArgs`.
            unsafe { code.call(&args, &kernel, &given) };
            total += sums[..rows].iter().map(|&sum| f64::from(sum)).sum::<f64>();
            if !left.is_empty() {
                let (src, dst) = (left.as_ptr(), sums.as_mut_ptr());
                let args = ReduceArgs { src, dst, rows: 1, length: left.len(), ..args };
                // SAFETY: as before, one row.
                unsafe { code.call(&args, &kernel, &given) };
                total += f64::from(sums[0]);
            }
        }
        total
    }

    /// The means and factors of the channels of one image with channels last. Channels are added up side by side, then
    /// combined to groups. A block's squares are taken around the block's own means, which depend on no other block, so
    /// a block is read once from memory and once from a cache. The squares around the group's mean are these, plus the
    /// squared difference of both means for each position.
    fn numbers<'s>(
        &self,
        input: &[f32],
        scale: &[f32],
        epsilon: f32,
        scratch: &'s mut [f32],
        parallel: &dyn Parallel,
    ) -> (&'s [f32], &'s [f32]) {
        let [_, channels, spatial] = self.shape.sizes();
        let blocks = self.blocks();
        let (centres, numbers) = scratch.split_at_mut(blocks * channels);
        let (squares, numbers) = numbers.split_at_mut(blocks * channels);
        let (means, factors) = numbers[..2 * channels].split_at_mut(channels);
        let tasks = self.tasks.min(blocks).min(input.len().div_ceil(TASK));
        let (all_centres, all_squares) = (Disjoint::new(centres), Disjoint::new(squares));
        parallel.run(tasks, &|task| {
            // Backwards, so that caches hold the first positions when the pass over results starts there.
            for block in part(blocks, tasks, task).rev() {
                let places = part(spatial, blocks, block);
                let here = &input[places.start * channels..places.end * channels];
                let own = block * channels..(block + 1) * channels;
                // SAFETY: each block has its own sums, and belongs to one task.
                let (centres, squares) = unsafe { (all_centres.part(own.clone()), all_squares.part(own)) };
                self.add_block(here, &[], centres);
                let count = places.len() as f32;
                centres.iter_mut().for_each(|sum| *sum /= count);
                self.add_block(here, centres, squares);
            }
        });
        let each = channels / self.groups;
        // Blocks with one position more come first.
        let (count, longer) = (spatial / blocks, spatial % blocks);
        let average = |group: usize, term: &dyn Fn(f64, f64, f64) -> f64| {
            let rows = centres.chunks_exact(channels).zip(squares.chunks_exact(channels)).enumerate();
            let of_row = |(block, (centres, squares)): (usize, (&[f32], &[f32]))| {
                let count = (count + usize::from(block < longer)) as f64;
                let own = group * each..(group + 1) * each;
                let numbers = centres[own.clone()].iter().zip(&squares[own]);
                numbers.map(|(&centre, &squares)| term(count, f64::from(centre), f64::from(squares))).sum::<f64>()
            };
            rows.map(of_row).sum::<f64>() / (each * spatial) as f64
        };
        for group in 0..self.groups {
            let mean = average(group, &|count, centre, _| count * centre);
            let variance =
                average(group, &|count, centre, squares| squares + count * (centre - mean) * (centre - mean));
            let deviation = 1.0 / (variance + f64::from(epsilon)).sqrt();
            for channel in group * each..(group + 1) * each {
                means[channel] = mean as f32;
                factors[channel] = (deviation * f64::from(scale[channel])) as f32;
            }
        }
        (means, factors)
    }

    /// Adds up the positions of a block for each channel or, where there are `means`, the squares of their deviations
    /// from these.
    fn add_block(&self, places: &[f32], means: &[f32], sums: &mut [f32]) {
        let channels = sums.len();
        if let Some(code) = &self.sums {
            let code = if means.is_empty() { &code.plain } else { &code.squares };
            let (rows, length, stride) = (places.len() / channels, channels, channels * 4);
            let given = Given::new().read("places", places).read("means", means).write("sums", sums);
            let (src, dst) = (places.as_ptr(), sums.as_mut_ptr());
            let args = ReduceArgs { src, dst, rows, length, stride, scale: 1.0, centre: means.as_ptr() };
            let kernel = ReduceKernel { order: order(&self.shape), centred: !means.is_empty() };
            // SAFETY: the rows lie inside of the places, sums and means are as long as a row, and a block has a place
            // at least; the code takes `ReduceArgs`.
            unsafe { code.call(&args, &kernel, &given) };
            return;
        }
        sums.fill(0.0);
        for line in places.chunks_exact(channels) {
            if means.is_empty() {
                sums.iter_mut().zip(line).for_each(|(sum, x)| *sum += x);
            } else {
                let around = sums.iter_mut().zip(line).zip(means);
                around.for_each(|((sum, x), mean)| *sum += (x - mean) * (x - mean));
            }
        }
    }
}

/// Long rows are read from end to end, as in reductions.
fn order(shape: &Channels) -> Order {
    match shape.last {
        false => Order::Rows,
        true if shape.channels() >= STREAMED => Order::Streams,
        true => Order::Columns,
    }
}

/// The sum of `term` of each value, in independent lanes so that the compiler vectorises it.
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
