//! Sums of quantised tensors: QLinearAdd as ONNX Runtime's quantiser writes it, and the node that the pass `quantized`
//! makes of its QDQ form. Also reads the parameters that all operators between quantised products have.
//!
//! No tensor of numbers is made: bytes are scaled, summed and rounded in one pass.

use kiln_kernels::Isa;
use kiln_kernels::cpu::quantized::bytes::{Addend, Rounding, add};
use kiln_kernels::memory;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorError, TensorSpec};

use super::{bounds, eight_bits, single};
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
pub(super) fn addend<'a>(
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
}
