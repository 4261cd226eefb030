//! Solvers of an emulated device: plain loops, the same for every algorithm.
//!
//! The innermost loop runs along an image's row, so that the compiler vectorises it, and planes and rows of the output
//! are split over threads where that pays: networks of some hundred million products run in a second.

use std::sync::Arc;

use super::super::{ConvProblem, Epilogue, MatMulProblem, Notes, Operands, Problem, Region, Solver};
use super::script::{Failure, Proposal};
use super::{Shared, count, spend};
use crate::error::{KernelError, Result};
use crate::reference::chain::unary;

/// The least multiply-adds for which several threads are faster than one.
const WORTH_THREADS: u64 = 1 << 21;

/// A problem and the way of solving it.
#[derive(Debug)]
pub(super) struct Prepared {
    problem: Problem,
    proposal: Proposal,
    /// Elements of the left operand, the right operand and the output.
    extents: [u64; 3],
    shared: Arc<Shared>,
}

fn unsupported<T>(reason: &str) -> Result<T> {
    Err(KernelError::Unsupported { family: "emulated", reason: reason.to_owned() })
}

impl Prepared {
    pub(super) fn new(problem: Problem, proposal: Proposal, shared: Arc<Shared>) -> Result<Prepared> {
        let Some(extents) = problem.extents().filter(|extents| extents.iter().all(|&count| count < 1 << 40)) else {
            return unsupported("more elements than any device holds");
        };
        if let Problem::Conv(conv) = &problem {
            let divides = |channels: u32| channels.checked_rem(conv.groups) == Some(0);
            if !divides(conv.channels) || !divides(conv.filters) || conv.strides.contains(&0) {
                return unsupported("groups that do not divide the channels, or steps of zero");
            }
        }
        Ok(Prepared { problem, proposal, extents, shared })
    }
}

impl Solver for Prepared {
    fn workspace(&self) -> u64 {
        self.proposal.workspace
    }

    fn notes(&self) -> Notes {
        self.proposal.notes
    }

    fn run(&self, operands: &Operands<'_>, workspace: Option<&Region>) -> Result<()> {
        count(&self.shared.counters.runs);
        if self.proposal.failure == Some(Failure::Run) {
            return Err(KernelError::Device { call: "run", reason: "as scripted".to_owned() });
        }
        let mut held = self.shared.memory.hold();
        let need = self.proposal.workspace;
        match workspace {
            Some(region) => held.check(region, "workspace", need)?,
            None if need > 0 => {
                return Err(KernelError::Bounds {
                    family: "emulated",
                    operand: "workspace",
                    have: 0,
                    need: usize::try_from(need).unwrap_or(usize::MAX),
                });
            }
            None => {}
        }
        let epilogue = self.problem.epilogue();
        if epilogue.bias != operands.bias.is_some() || epilogue.residual != operands.residual.is_some() {
            return unsupported("operands that are not those of the problem");
        }
        let [left, right, output] = self.extents;
        let bias = operands.bias.map(|region| held.floats(region, "bias", self.problem.columns())).transpose()?;
        let residual = operands.residual.map(|region| held.floats(region, "residual", output)).transpose()?;
        let added = EpilogueOperands { epilogue, bias, residual };
        let left = held.floats(operands.left, "left", left)?;
        let right = held.floats(operands.right, "right", right)?;
        held.check(operands.output, "output", output * 4)?;
        let mut result = vec![0f32; output as usize];
        match &self.problem {
            Problem::Conv(conv) => convolve(conv, left, right, &added, &mut result),
            Problem::MatMul(product) => multiply(product, left, right, &added, &mut result),
        }
        held.write(operands.output, "output", bytemuck::cast_slice(&result))?;
        spend(self.proposal.nanos);
        Ok(())
    }

    fn size(&self) -> usize {
        // The same as for plans of cuDNN.
        200 << 10
    }
}

/// The epilogue.
struct EpilogueOperands<'a> {
    epilogue: Epilogue,
    bias: Option<&'a [f32]>,
    residual: Option<&'a [f32]>,
}

impl EpilogueOperands<'_> {
    /// Applies it to elements that begin at `first` in the output; `column` gives the index of each element's bias.
    fn apply(&self, first: usize, column: impl Fn(usize) -> usize, elements: &mut [f32]) {
        if self.epilogue.is_none() {
            return;
        }
        for (index, element) in elements.iter_mut().enumerate() {
            *element += self.bias.map_or(0.0, |bias| bias[column(index)]);
            *element += self.residual.map_or(0.0, |residual| residual[first + index]);
            if let Some(activation) = self.epilogue.activation {
                *element = unary(activation, *element);
            }
        }
    }
}

/// Calls `each` with every part of that length and its number, on several threads where that pays.
fn split(output: &mut [f32], length: usize, products: u64, each: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let parts = output.len().checked_div(length).unwrap_or(0);
    if parts == 0 {
        return;
    }
    let threads =
        if products < WORTH_THREADS { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    let share = parts.div_ceil(threads);
    let run = |first: usize, some: &mut [f32]| {
        some.chunks_exact_mut(length).enumerate().for_each(|(index, part)| each(first + index, part));
    };
    if threads == 1 {
        return run(0, output);
    }
    std::thread::scope(|scope| {
        for (index, some) in output.chunks_mut(share * length).enumerate() {
            scope.spawn(move || run(index * share, some));
        }
    });
}

/// Positions `low..high` of the dense side whose partner on the strided side, `position * stride + offset`, is below
/// `size`.
fn partners(dense: usize, size: usize, stride: i64, offset: i64) -> std::ops::Range<usize> {
    let reach = |distance: i64| (distance.max(0) as u64).div_ceil(stride as u64).min(dense as u64) as usize;
    let high = reach(size as i64 - offset);
    reach(-offset).min(high)..high
}

/// A convolution or its transpose, plane by plane of the output.
fn convolve(conv: &ConvProblem, input: &[f32], weights: &[f32], epilogue: &EpilogueOperands<'_>, output: &mut [f32]) {
    let size = |sizes: [u32; 3]| sizes.map(|size| size as usize);
    let (from, to, kernel) = (size(conv.input), size(conv.output), size(conv.kernel));
    let [in_plane, out_plane, taps] = [from, to, kernel].map(|sizes| sizes.iter().product::<usize>());
    let [channels, filters, groups] = [conv.channels, conv.filters, conv.groups].map(|count| count as usize);
    let (group_in, group_out) = (channels / groups, filters / groups);
    // The dense side and the strided side.
    let (dense, strided) = if conv.transposed { (from, to) } else { (to, from) };
    let products = (output.len() * group_in * taps) as u64;
    split(output, out_plane, products, &|number, plane| {
        let (image, filter) = (number / filters, number % filters);
        let (group, within) = (filter / group_out, filter % group_out);
        for channel in 0..group_in {
            let source = &input[(image * channels + group * group_in + channel) * in_plane..][..in_plane];
            let place = match conv.transposed {
                false => filter * group_in + channel,
                true => (group * group_in + channel) * group_out + within,
            };
            let weights = &weights[place * taps..][..taps];
            for (tap, &weight) in weights.iter().enumerate() {
                let at = [tap / (kernel[1] * kernel[2]), tap / kernel[2] % kernel[1], tap % kernel[2]];
                let offset =
                    |axis: usize| (at[axis] as i64) * i64::from(conv.dilations[axis]) - i64::from(conv.pads[axis]);
                let stride = |axis: usize| i64::from(conv.strides[axis]);
                let range = |axis: usize| partners(dense[axis], strided[axis], stride(axis), offset(axis));
                let partner = |axis: usize, position: usize| (position as i64 * stride(axis) + offset(axis)) as usize;
                let columns = range(2);
                if columns.is_empty() {
                    continue;
                }
                let (first, step) = (partner(2, columns.start), stride(2) as usize);
                for depth in range(0) {
                    for row in range(1) {
                        let near = (depth * dense[1] + row) * dense[2];
                        let far = (partner(0, depth) * strided[1] + partner(1, row)) * strided[2] + first;
                        let near = near + columns.start..near + columns.end;
                        if conv.transposed {
                            let places = plane[far..].iter_mut().step_by(step);
                            places.zip(&source[near]).for_each(|(sum, value)| *sum += weight * value);
                        } else if step == 1 {
                            let values = &source[far..][..columns.len()];
                            plane[near].iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
                        } else {
                            let values = source[far..].iter().step_by(step);
                            plane[near].iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
                        }
                    }
                }
            }
        }
        epilogue.apply(number * out_plane, |_| filter, plane);
    });
}

/// Matrix products, row by row of the output.
fn multiply(product: &MatMulProblem, left: &[f32], right: &[f32], epilogue: &EpilogueOperands<'_>, output: &mut [f32]) {
    let [m, n, k] = [product.m, product.n, product.k].map(|size| size as usize);
    let scale = f32::from_bits(product.scale);
    let products = output.len() as u64 * k as u64;
    split(output, n, products, &|number, row| {
        let (batch, line) = (number / m, number % m);
        let left = &left[if product.one_left { 0 } else { batch * m * k }..][..m * k];
        let right = &right[if product.one_right { 0 } else { batch * k * n }..][..k * n];
        for term in 0..k {
            let factor = if product.trans_left { left[term * m + line] } else { left[line * k + term] };
            if product.trans_right {
                let column = right[term..].iter().step_by(k);
                row.iter_mut().zip(column).for_each(|(sum, value)| *sum += factor * value);
            } else {
                let values = &right[term * n..][..n];
                row.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
            }
        }
        row.iter_mut().for_each(|sum| *sum *= scale);
        epilogue.apply(number * n, |column| column, row);
    });
}
