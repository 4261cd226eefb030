//! Range: evenly spaced numbers from scalars.

use half::{bf16, f16};
use kiln_kernels::memory::{Pace, raise_if_over};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Element, Tensor, TensorSpec};

use super::{Operator, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "Range", |_| Ok(Box::new(Range)))];

/// The types that ranges are computed in.
const TYPES: &[DType] = &[DType::F32, DType::F64, DType::F16, DType::BF16, DType::I16, DType::I32, DType::I64];

struct Range;

fn scalar<T: Element>(inputs: &[Option<&Tensor>], index: usize) -> Result<T, NodeError> {
    match required(inputs, index)?.as_slice::<T>()? {
        &[value] => Ok(value),
        values => Err(refused(format!("input {index} must be one number, found {}", values.len()))),
    }
}

fn fill<T: Element>(
    inputs: &[Option<&Tensor>],
    output: &mut Tensor,
    value: impl Fn(T, usize, T) -> T,
) -> Result<(), NodeError> {
    let (start, delta) = (scalar(inputs, 0)?, scalar(inputs, 2)?);
    for (number, piece) in output.as_mut_slice::<T>()?.chunks_mut(Pace::UNITS).enumerate() {
        piece.iter_mut().zip(number * Pace::UNITS..).for_each(|(to, index)| *to = value(start, index, delta));
        raise_if_over(0);
    }
    Ok(())
}

impl Node for Range {
    fn family(&self) -> &'static str {
        "Range"
    }

    fn value_inputs(&self) -> u64 {
        0b111
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let dtype = outputs[0].dtype;
        if !TYPES.contains(&dtype) {
            return Err(NodeError::Unsupported(format!("a range of {dtype}")));
        }
        match inputs.iter().flatten().find(|input| input.dtype() != dtype) {
            Some(other) => Err(refused(format!("a range of {dtype} with a bound of {}", other.dtype()))),
            None => Ok(()),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let mut output = io.alloc(0)?;
        let inputs = [Some(io.input(0)?), None, Some(io.input(2)?)];
        match output.dtype() {
            DType::F32 => fill::<f32>(&inputs, &mut output, |start, index, delta| start + delta * index as f32),
            DType::F64 => fill::<f64>(&inputs, &mut output, |start, index, delta| start + delta * index as f64),
            DType::F16 => fill::<f16>(&inputs, &mut output, |start, index, delta| {
                f16::from_f32(start.to_f32() + delta.to_f32() * index as f32)
            }),
            DType::BF16 => fill::<bf16>(&inputs, &mut output, |start, index, delta| {
                bf16::from_f32(start.to_f32() + delta.to_f32() * index as f32)
            }),
            // Every element lies between start and limit; the product alone may wrap on the way.
            DType::I16 => fill::<i16>(&inputs, &mut output, |start, index, delta| {
                start.wrapping_add(delta.wrapping_mul(index as i16))
            }),
            DType::I32 => fill::<i32>(&inputs, &mut output, |start, index, delta| {
                start.wrapping_add(delta.wrapping_mul(index as i32))
            }),
            _ => fill::<i64>(&inputs, &mut output, |start, index, delta| {
                start.wrapping_add(delta.wrapping_mul(index as i64))
            }),
        }?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Trial;

    fn range<T: Element>(start: T, limit: T, delta: T) -> Trial {
        Trial::new("Range").input(&[], &[start]).input(&[], &[limit]).input(&[], &[delta])
    }

    #[test]
    fn ranges_stop_before_their_limit() {
        range(0i64, 5, 2).gives(&[3], &[0i64, 2, 4]);
        range(5i32, 0, -2).gives(&[3], &[5i32, 3, 1]);
        range(0i64, -5, 2).gives::<i64>(&[0], &[]);
        range(1f32, 2.0, 0.25).gives(&[4], &[1f32, 1.25, 1.5, 1.75]);
        range(1f64, -1.0, -0.5).gives(&[4], &[1f64, 0.5, 0.0, -0.5]);
        range(-30_000i16, 30_000, 20_000).gives(&[3], &[-30_000i16, -10_000, 10_000]);
        range(i64::MIN, i64::MAX, i64::MAX).gives(&[3], &[i64::MIN, -1, i64::MAX - 1]);
        range(f16::ONE, f16::from_f32(3.0), f16::ONE).gives(&[2], &[f16::ONE, f16::from_f32(2.0)]);
    }

    #[test]
    fn ranges_without_an_end_are_refused() {
        range(0i64, 5, 0).is_refused("no range");
        range(0f32, f32::INFINITY, 1.0).is_refused("no range");
        range(0f32, f32::NAN, 1.0).is_refused("no range");
        range(0f32, 1.0, 0.0).is_refused("no range");
        range(i64::MIN, i64::MAX, 1).is_refused("too large");
        Trial::new("Range").input(&[2], &[0i64, 1]).input(&[], &[5i64]).input(&[], &[1i64]).is_refused("one number");
    }
}
