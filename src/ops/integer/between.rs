//! Sums and means of quantised tensors: QLinearAdd and QLinearGlobalAveragePool as ONNX Runtime's quantiser writes
//! them, and what the pass `quantized` makes of their QDQ form.
//!
//! No tensor of numbers is made: bytes are scaled, summed and rounded in one pass.

use kiln_kernels::Isa;
use kiln_kernels::cpu::quantized::bytes::{Addend, Rounding, add, means};
use kiln_kernels::memory;

use super::{bounds, eight_bits, single};
use crate::graph::{Io, Node, NodeError, Prepared, RunCx};
use crate::ops::{LoadCx, OpError, View, optional, required};
use crate::tensor::{DType, Tensor, TensorError, TensorSpec};

/// Bounds of the result as a real number.
struct Bounds {
    low: f32,
    high: f32,
    isa: Isa,
}

impl Bounds {
    fn of(cx: &LoadCx<'_>) -> Bounds {
        let (low, high) = bounds(cx.node);
        Bounds { low, high, isa: cx.build.isa }
    }

    /// How the result is rounded to `scale`.
    fn rounding(&self, signed: bool, zero: i32, scale: f64) -> Rounding {
        let scale = scale as f32;
        Rounding { signed, zero, low: self.low / scale, high: self.high / scale }
    }
}

/// The scale and zero point at that place of the inputs.
fn parameters(inputs: &[Option<&Tensor>], at: usize) -> Result<(f64, i32), NodeError> {
    let zero = optional(inputs, at + 1).map(single::<i64>).transpose()?.unwrap_or(0);
    Ok((single(required(inputs, at)?)?, zero as i32))
}

/// Refuses a result that is not eight bits wide.
fn eight_bits_each(outputs: &[TensorSpec]) -> Result<(), NodeError> {
    match outputs.iter().find(|spec| !matches!(spec.dtype, DType::I8 | DType::U8)) {
        Some(spec) => Err(TensorError::Type { expected: DType::U8, found: spec.dtype }.into()),
        None => Ok(()),
    }
}

/// Inputs: an operand, its scale and zero point, the other operand with its own, the result's.
struct Sum(Bounds);

pub(super) fn sum(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Sum(Bounds::of(cx))))
}

impl Node for Sum {
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
        self.add(&io.inputs(), &mut y, cx)?;
        io.push(y);
        Ok(())
    }
}

impl Sum {
    fn add(&self, inputs: &[Option<&Tensor>], y: &mut Tensor, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (scale, zero) = parameters(inputs, 6)?;
        let rounding = self.0.rounding(y.dtype() == DType::I8, zero, scale);
        let spread = [spread(required(inputs, 0)?, y.shape())?, spread(required(inputs, 3)?, y.shape())?];
        let a = addend(inputs, 0, spread[0].as_deref(), scale)?;
        let b = addend(inputs, 3, spread[1].as_deref(), scale)?;
        add(self.0.isa, a, b, rounding, y.bytes_mut(), cx.parallel);
        Ok(())
    }
}

/// The bytes of an operand that has another shape than the result.
fn spread(operand: &Tensor, shape: &[usize]) -> Result<Option<Vec<u8>>, NodeError> {
    if operand.shape() == shape {
        return Ok(None);
    }
    let mut bytes = memory::zeroed(shape.iter().product());
    View::broadcast(operand.shape(), shape)?.copy(operand.bytes(), &mut bytes);
    Ok(Some(bytes))
}

/// The operand at that place, with `bytes` instead of its own where they are given.
fn addend<'a>(
    inputs: &[Option<&'a Tensor>],
    at: usize,
    bytes: Option<&'a [u8]>,
    unit: f64,
) -> Result<Addend<'a>, NodeError> {
    let tensor = required(inputs, at)?;
    let (scale, zero) = parameters(inputs, at + 1)?;
    let data = bytes.unwrap_or_else(|| tensor.bytes());
    Ok(Addend { data, signed: tensor.dtype() == DType::I8, zero, scale: scale / unit })
}

/// Inputs: the operand, its scale and zero point, the result's.
struct Mean {
    bounds: Bounds,
    channels_last: bool,
}

pub(super) fn mean(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Mean { bounds: Bounds::of(cx), channels_last: cx.node.attributes().int("channels_last") != 0 }))
}

impl Node for Mean {
    fn family(&self) -> &'static str {
        "quantized"
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        eight_bits(required(inputs, 0)?)?;
        for at in [1, 3] {
            parameters(inputs, at)?;
        }
        eight_bits_each(outputs)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let mut y = io.alloc(0)?;
        self.mean(&io.inputs(), &mut y)?;
        io.push(y);
        Ok(())
    }
}

impl Mean {
    fn mean(&self, inputs: &[Option<&Tensor>], y: &mut Tensor) -> Result<(), NodeError> {
        let (scale, zero) = parameters(inputs, 3)?;
        let rounding = self.bounds.rounding(y.dtype() == DType::I8, zero, scale);
        let x = addend(inputs, 0, None, scale)?;
        let shape = required(inputs, 0)?.shape();
        let channels = shape[if self.channels_last { shape.len() - 1 } else { 1 }];
        let positions = shape.iter().product::<usize>().checked_div(shape[0] * channels).unwrap_or(0);
        means(self.bounds.isa, x, [shape[0], channels, positions], self.channels_last, rounding, y.bytes_mut());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::trial::Trial;

    #[test]
    fn sums_of_bytes_broadcast_and_saturate() {
        let sum = |a: &[u8]| {
            let a = Trial::new("QuantizedAdd").made_by(super::sum).input(&[a.len()], a);
            a.input(&[], &[0.5f32]).input(&[], &[10u8])
        };
        let row = || sum(&[10, 14, 255]).input(&[], &[4i8]).input(&[], &[0.25f32]).absent().input(&[], &[1f32]);
        row().input(&[], &[100u8]).gives(&[3], &[101u8, 103, 224]);
        row().absent().gives(&[3], &[1u8, 3, 124]);
        row().attr("high", crate::graph::Attr::Float(2.0)).input(&[], &[0i8]).gives(&[3], &[1i8, 2, 2]);
        sum(&[1]).input(&[1], &[4i32]).input(&[], &[1f32]).absent().input(&[], &[1f32]).is_refused("int32");
        sum(&[1]).input(&[1], &[4u8]).input(&[2], &[1f32; 2]).absent().input(&[], &[1f32]).is_refused("where one");
    }

    #[test]
    fn means_of_bytes_in_both_orders() {
        let x = Trial::new("QuantizedGlobalAveragePool").made_by(super::mean);
        let x = x.input(&[1, 2, 2], &[1u8, 3, 10, 30]).input(&[], &[1f32]).input(&[], &[0u8]);
        let x = x.input(&[], &[2f32]).input(&[], &[5u8]);
        x.gives(&[1, 2, 1], &[6u8, 15]);
        x.int("channels_last", 1).gives(&[1, 1, 2], &[8u8, 13]);
    }
}
