//! Sums and products of quantised tensors, element by element: QLinearAdd as ONNX Runtime's quantiser writes it, and
//! the nodes that the pass `quantized` makes of the QDQ form. Also reads the parameters that all operators between
//! quantised products have.
//!
//! No tensor of numbers is made: bytes are scaled, combined and rounded in one pass. An operand that is broadcast along
//! an axis is repeated block by block, in L1.

use kiln_kernels::Isa;
use kiln_kernels::cpu::quantized::bytes::{Addend, Factor, Rounding, add, multiply};
use kiln_kernels::memory::Collect;
use kiln_kernels::parallel::for_each_chunk;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorError, TensorSpec};

use super::{bounds, eight_bits, requantiser, single};
use crate::{LoadCx, OpError, View, optional, required};

/// Bounds of the result as a real number.
pub(super) struct Bounds {
    low: f32,
    high: f32,
    isa: Isa,
}

impl Bounds {
    pub(super) fn of(cx: &LoadCx<'_>) -> Bounds {
        let (low, high) = bounds(cx.node);
        Bounds { low, high, isa: cx.build.isa }
    }

    /// How the result is rounded to `scale`.
    pub(super) fn rounding(&self, signed: bool, zero: i32, scale: f64) -> Rounding {
        let scale = scale as f32;
        Rounding { signed, zero, low: self.low / scale, high: self.high / scale }
    }
}

/// The scale and zero point at that place of the inputs.
pub(super) fn parameters(inputs: &[Option<&Tensor>], at: usize) -> Result<(f64, i32), NodeError> {
    let zero = optional(inputs, at + 1).map(single::<i64>).transpose()?.unwrap_or(0);
    Ok((single(required(inputs, at)?)?, zero as i32))
}

/// Refuses a result that is not eight bits wide.
pub(super) fn eight_bits_each(outputs: &[TensorSpec]) -> Result<(), NodeError> {
    match outputs.iter().find(|spec| !matches!(spec.dtype, DType::I8 | DType::U8)) {
        Some(spec) => Err(TensorError::Type { expected: DType::U8, found: spec.dtype }.into()),
        None => Ok(()),
    }
}

/// How two elements are combined.
#[derive(Clone, Copy)]
enum Combination {
    Sum,
    Product,
}

/// Inputs: an operand, its scale and zero point, the other operand with its own, the result's.
struct Between {
    combination: Combination,
    bounds: Bounds,
}

pub(super) fn sum(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Between { combination: Combination::Sum, bounds: Bounds::of(cx) }))
}

pub(super) fn product(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Between { combination: Combination::Product, bounds: Bounds::of(cx) }))
}

impl Node for Between {
    fn family(&self) -> &'static str {
        "quantized"
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        eight_bits(required(inputs, 0)?)?;
        eight_bits(required(inputs, 3)?)?;
        for at in [1, 4, 6] {
            parameters(inputs, at)?;
        }
        eight_bits_each(outputs)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let mut y = io.alloc(0)?;
        self.combine(&io.inputs(), &mut y, cx)?;
        io.push(y);
        Ok(())
    }
}

/// Elements of a task.
const TASK: usize = 1 << 15;

/// Elements of a block of an operand that is spread.
const BLOCK: usize = 1 << 12;

impl Between {
    fn combine(&self, inputs: &[Option<&Tensor>], y: &mut Tensor, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (scale, zero) = parameters(inputs, 6)?;
        let (rounding, isa) = (self.bounds.rounding(y.dtype() == DType::I8, zero, scale), self.bounds.isa);
        let [a, b] = [addend(inputs, 0, scale)?, addend(inputs, 3, scale)?];
        let factors = [a, b].map(|Addend { data, signed, zero, .. }| Factor { data, signed, zero });
        let factor = requantiser(single(required(inputs, 1)?)?, single(required(inputs, 4)?)?, scale as f32);
        let views = [Spread::of(required(inputs, 0)?, y.shape())?, Spread::of(required(inputs, 3)?, y.shape())?];
        for_each_chunk(cx.parallel, y.bytes_mut(), TASK, &|index, to| {
            let mut blocks = [[0; BLOCK]; 2];
            for (block, to) in to.chunks_mut(BLOCK).enumerate() {
                let first = index * TASK + block * BLOCK;
                let [to_a, to_b] = blocks.each_mut();
                let data = [views[0].read(first, to.len(), to_a), views[1].read(first, to.len(), to_b)];
                match self.combination {
                    Combination::Sum => {
                        let [a, b] = [Addend { data: data[0], ..a }, Addend { data: data[1], ..b }];
                        add(isa, a, b, rounding, to);
                    }
                    Combination::Product => {
                        let [a, b] = factors;
                        let factors = [Factor { data: data[0], ..a }, Factor { data: data[1], ..b }];
                        multiply(isa, factors, factor, rounding, to);
                    }
                }
            }
        });
        Ok(())
    }
}

/// The bytes of an operand in the order of the result's elements.
enum Spread<'a> {
    /// One for each element.
    Whole(&'a [u8]),
    /// All of them again and again: `period` bytes, followed by enough repetitions for a block that starts anywhere.
    Repeated { period: usize, bytes: Vec<u8> },
    /// Repeated along axes that others follow.
    Viewed { bytes: &'a [u8], view: View },
}

impl<'a> Spread<'a> {
    fn of(operand: &'a Tensor, shape: &[usize]) -> Result<Spread<'a>, NodeError> {
        let (view, bytes) = (View::broadcast(operand.shape(), shape)?, operand.bytes());
        let leading = operand.shape().iter().take_while(|&&size| size == 1).count();
        let is_last = shape.ends_with(&operand.shape()[leading..]);
        Ok(if view.is_whole() {
            Spread::Whole(bytes)
        } else if is_last && (1..=BLOCK).contains(&bytes.len()) {
            let period = bytes.len();
            Spread::Repeated { period, bytes: bytes.iter().copied().cycle().take(period + BLOCK).collected() }
        } else {
            Spread::Viewed { bytes, view }
        })
    }

    /// `count` elements from element `first` of the result on; in `block`, which has room for them, where they do not
    /// lie in order.
    fn read<'b>(&'b self, first: usize, count: usize, block: &'b mut [u8]) -> &'b [u8] {
        match self {
            Spread::Whole(bytes) => &bytes[first..first + count],
            Spread::Repeated { period, bytes } => &bytes[first % period..][..count],
            Spread::Viewed { bytes, view } => {
                view.copy_from(first, bytes, &mut block[..count]);
                &block[..count]
            }
        }
    }
}

/// The operand at that place; its scale is over `unit`.
pub(super) fn addend<'a>(inputs: &[Option<&'a Tensor>], at: usize, unit: f64) -> Result<Addend<'a>, NodeError> {
    let tensor = required(inputs, at)?;
    let (scale, zero) = parameters(inputs, at + 1)?;
    Ok(Addend { data: tensor.bytes(), signed: tensor.dtype() == DType::I8, zero, scale: scale / unit })
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn sums_of_bytes_broadcast_and_saturate() {
        let sum = |a: &[u8]| {
            let a = Trial::new("QuantizedAdd").made_by(super::sum).input(&[a.len()], a);
            a.input(&[], &[0.5f32]).input(&[], &[10u8])
        };
        let row = || sum(&[10, 14, 255]).input(&[], &[4i8]).input(&[], &[0.25f32]).absent().input(&[], &[1f32]);
        row().input(&[], &[100u8]).gives(&[3], &[101u8, 103, 224]);
        row().absent().gives(&[3], &[1u8, 3, 124]);
        row().attr("high", kiln_model::Attr::Float(2.0)).input(&[], &[0i8]).gives(&[3], &[1i8, 2, 2]);
        sum(&[1]).input(&[1], &[4i32]).input(&[], &[1f32]).absent().input(&[], &[1f32]).is_refused("int32");
        sum(&[1]).input(&[1], &[4u8]).input(&[2], &[1f32; 2]).absent().input(&[], &[1f32]).is_refused("where one");
    }

    #[test]
    fn products_of_bytes_broadcast_and_saturate() {
        let product = |a: &[u8]| {
            let a = Trial::new("QuantizedMul").input(&[2, a.len() / 2], a).input(&[], &[0.5f32]).input(&[], &[10u8]);
            a.input(&[2, 1], &[4i8, -100]).input(&[], &[0.25f32]).absent()
        };
        let row = || product(&[10, 14, 255, 10, 14, 6]).input(&[], &[0.5f32]);
        row().input(&[], &[100u8]).gives(&[2, 3], &[100u8, 104, 255, 100, 0, 200]);
        row().absent().attr("high", kiln_model::Attr::Float(1.5)).gives(&[2, 3], &[0u8, 3, 3, 0, 0, 3]);
        row()
            .input(&[], &[-7i8])
            .attr("low", kiln_model::Attr::Float(-3.0))
            .gives(&[2, 3], &[-7i8, -3, 127, -7, -13, 93]);
    }

    #[test]
    fn operands_are_spread_over_blocks_as_numpy_spreads_them() {
        // More than a task, with axes that no block divides.
        let shape = [3, 61, 67, 7];
        let count: usize = shape.iter().product();
        let bytes = |count: usize| (0..count).map(|at| (at * 31 % 251) as u8).collect::<Vec<u8>>();
        let x = bytes(count);
        for gate_shape in [[1, 1, 1, 7], [1, 1, 1, 1], [3, 1, 1, 7], [1, 61, 67, 1], [1, 1, 67, 7], [1, 61, 67, 7]] {
            let gate = bytes(gate_shape.iter().product());
            let expected: Vec<u8> = (x.iter().enumerate())
                .map(|(at, &x)| {
                    let places = [at / (61 * 67 * 7), at / (67 * 7) % 61, at / 7 % 67, at % 7];
                    let place = (0..4).fold(0, |all, axis| all * gate_shape[axis] + places[axis] % gate_shape[axis]);
                    (f32::from(x) * f32::from(gate[place]) / 256.0).round_ties_even() as u8
                })
                .collect();
            for threads in [1, 2] {
                let trial = Trial::new("QuantizedMul").threads(threads);
                let trial = trial.input(&shape, &x).input(&[], &[0.0625f32]).absent();
                let trial = trial.input(&gate_shape, &gate).input(&[], &[0.0625f32]).absent();
                trial.input(&[], &[1f32]).absent().gives(&shape, &expected);
            }
        }
    }
}
