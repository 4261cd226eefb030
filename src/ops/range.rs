//! Range: evenly spaced numbers from scalars.

use half::{bf16, f16};

use super::{Operator, one, refused, required};
use crate::graph::node::InferByValue;
use crate::graph::node::Specs;
use crate::graph::{Io, Node, NodeError, Prepared, RunCx};
use crate::tensor::{DType, Element, Tensor};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "Range", |_| Ok(Box::new(Range)))];

struct Range;

fn scalar<T: Element>(inputs: &[Option<&Tensor>], index: usize) -> Result<T, NodeError> {
    match required(inputs, index)?.as_slice::<T>()? {
        &[value] => Ok(value),
        values => Err(refused(format!("input {index} must be one number, found {}", values.len()))),
    }
}

fn scalars<T: Element>(inputs: &[Option<&Tensor>]) -> Result<[T; 3], NodeError> {
    Ok([scalar(inputs, 0)?, scalar(inputs, 1)?, scalar(inputs, 2)?])
}

/// `max(0, ceil((limit - start) / delta))` of floats.
fn count_floats([start, limit, delta]: [f64; 3]) -> Result<usize, NodeError> {
    let count = ((limit - start) / delta).ceil();
    // 2^53: beyond it neighbouring counts are not distinct any more.
    if delta == 0.0 || count.is_nan() || count > 9_007_199_254_740_992.0 {
        return Err(refused(format!("no range from {start} to {limit} in steps of {delta}")));
    }
    // A negative count saturates to none.
    Ok(count as usize)
}

/// The same of integers; wide enough that no difference overflows.
fn count_integers([start, limit, delta]: [i128; 3]) -> Result<usize, NodeError> {
    let error = || refused(format!("no range from {start} to {limit} in steps of {delta}"));
    let (distance, step) = if delta < 0 { (start - limit, -delta) } else { (limit - start, delta) };
    match step {
        0 => Err(error()),
        _ if distance <= 0 => Ok(0),
        _ => usize::try_from((distance + step - 1) / step).map_err(|_| error()),
    }
}

fn fill<T: Element>(
    inputs: &[Option<&Tensor>],
    output: &mut Tensor,
    value: impl Fn(T, usize, T) -> T,
) -> Result<(), NodeError> {
    let (start, delta) = (scalar(inputs, 0)?, scalar(inputs, 2)?);
    let elements = output.as_mut_slice::<T>()?.iter_mut();
    elements.enumerate().for_each(|(index, to)| *to = value(start, index, delta));
    Ok(())
}

impl InferByValue for Range {
    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let dtype = required(inputs, 0)?.dtype();
        let count = match dtype {
            DType::F32 => count_floats(scalars::<f32>(inputs)?.map(f64::from)),
            DType::F64 => count_floats(scalars(inputs)?),
            DType::F16 => count_floats(scalars::<f16>(inputs)?.map(f64::from)),
            DType::BF16 => count_floats(scalars::<bf16>(inputs)?.map(f64::from)),
            DType::I16 => count_integers(scalars::<i16>(inputs)?.map(i128::from)),
            DType::I32 => count_integers(scalars::<i32>(inputs)?.map(i128::from)),
            DType::I64 => count_integers(scalars::<i64>(inputs)?.map(i128::from)),
            other => return Err(NodeError::Unsupported(format!("a range of {other}"))),
        }?;
        one(dtype, [count])
    }
}

impl Node for Range {
    fn family(&self) -> &'static str {
        "Range"
    }

    fn value_inputs(&self) -> u64 {
        0b111
    }

    fn by_value(&self) -> Option<&dyn InferByValue> {
        Some(self)
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
    use crate::ops::trial::Trial;

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
