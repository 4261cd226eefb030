//! Outputs whose size depends on the elements of the inputs: NonZero, Compress, Unique.
//!
//! The inputs that decide are value inputs: the selection is made when they change, kept, and copied out by each run.

mod unique;

use std::sync::Arc;

use kiln_kernels::memory::{self, Collect, Pace, raise_if_over};
use kiln_run::node::InferByValue;
use kiln_run::node::{PrepareCx, Specs};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{BoolByte, DType, Shape, Tensor, TensorSpec};

use super::{Blocks, LoadCx, OpError, Operator, around, axis_of, one, rearrange, required};

/// The operators of this file and of `unique`.
pub(super) const OPERATORS: &[Operator] =
    &[("", "NonZero", |_| Ok(Box::new(NonZero))), ("", "Compress", make_compress), ("", "Unique", unique::make)];

struct NonZero;

/// Which bits of an element make it other than zero: a negative zero is a zero too, although it has a bit set.
fn mask(dtype: DType) -> u64 {
    if dtype.is_float() { !(1 << (8 * dtype.size() - 1)) } else { u64::MAX }
}

/// The bits of the elements of a tensor.
fn elements<T: bytemuck::Pod>(tensor: &Tensor) -> impl ExactSizeIterator<Item = T> {
    bytemuck::cast_slice(tensor.bytes()).iter().copied()
}

/// `with_marks!(input, function(arguments))` calls the function with the arguments and an iterator that says of each
/// element whether it is other than zero.
macro_rules! with_marks {
    ($input:expr, $function:ident ( $($argument:expr)? )) => {{
        let (input, mask) = ($input, mask($input.dtype()));
        let is_marked = |bits: u64| bits & mask != 0;
        match input.dtype().size() {
            0 => $function($($argument,)? input.as_strings()?.iter().map(|text| !text.is_empty())),
            1 => $function($($argument,)? elements::<u8>(input).map(|bits| is_marked(bits.into()))),
            2 => $function($($argument,)? elements::<u16>(input).map(|bits| is_marked(bits.into()))),
            4 => $function($($argument,)? elements::<u32>(input).map(|bits| is_marked(bits.into()))),
            _ => $function($($argument,)? elements::<u64>(input).map(is_marked)),
        }
    }};
}

/// How many elements are not zero.
fn count(input: &Tensor) -> Result<usize, NodeError> {
    fn of(mut marks: impl ExactSizeIterator<Item = bool>) -> usize {
        let mut count = 0;
        while marks.len() > 0 {
            count += marks.by_ref().take(Pace::UNITS).map(usize::from).sum::<usize>();
            raise_if_over(0);
        }
        count
    }
    Ok(with_marks!(input, of()))
}

/// Places of the elements that are not zero, in order.
fn places(input: &Tensor, count: usize) -> Result<Vec<usize>, NodeError> {
    fn of(count: usize, marks: impl Iterator<Item = bool>) -> Vec<usize> {
        let mut places = memory::with_capacity(count);
        let mut pace = Pace::default();
        let marked = marks.inspect(|_| pace.step(1)).enumerate().filter(|(_, mark)| *mark);
        marked.map(|(place, _)| place).collected_into(&mut places);
        places
    }
    Ok(with_marks!(input, of(count)))
}

impl InferByValue for NonZero {
    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let input = required(inputs, 0)?;
        one(DType::I64, [input.shape().len(), count(input)?])
    }
}

impl Node for NonZero {
    fn family(&self) -> &'static str {
        "NonZero"
    }

    fn value_inputs(&self) -> u64 {
        1
    }

    fn by_value(&self) -> Option<&dyn InferByValue> {
        Some(self)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, mut output) = (io.input(0)?, io.alloc(0)?);
        let mut places = places(input, io.spec(0).shape[1])?;
        let lines = output.as_mut_slice::<i64>()?.chunks_exact_mut(places.len().max(1));
        // The remainder is the place along the last axis; the quotient counts along the axes before it.
        for (line, &size) in lines.rev().zip(input.shape().iter().rev()) {
            for (line, places) in line.chunks_mut(Pace::UNITS).zip(places.chunks_mut(Pace::UNITS)) {
                for (to, place) in line.iter_mut().zip(places) {
                    *to = (*place % size) as i64;
                    *place /= size;
                }
                raise_if_over(0);
            }
        }
        io.push(output);
        Ok(())
    }
}

struct Compress {
    /// Without an axis the input is one line.
    axis: Option<i64>,
}

fn make_compress(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Compress { axis: cx.node.attributes().integer("axis") }))
}

impl Compress {
    /// The output's shape, and the blocks to keep.
    fn selected(&self, inputs: &[Option<&Tensor>]) -> Result<(Shape, Blocks), NodeError> {
        let (input, condition) = (required(inputs, 0)?, required(inputs, 1)?.as_slice::<BoolByte>()?);
        let flat = [input.len()];
        let (shape, axis) = match self.axis {
            Some(axis) => (input.shape(), axis_of(axis, input.shape().len())?),
            None => (&flat[..], 0),
        };
        let (_, size, inner) = around(shape, axis);
        // As in ONNX Runtime, conditions beyond the elements are not read.
        let kept = condition.iter().take(size).enumerate().filter(|(_, condition)| condition.get());
        let places: Vec<usize> = kept.map(|(place, _)| place).collected();
        let mut shape = Shape::from_slice(shape);
        shape[axis] = places.len();
        Ok((shape, Blocks { places, size, inner }))
    }
}

impl InferByValue for Compress {
    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        one(required(inputs, 0)?.dtype(), self.selected(inputs)?.0)
    }
}

impl Node for Compress {
    fn family(&self) -> &'static str {
        "Compress"
    }

    fn value_inputs(&self) -> u64 {
        1 << 1
    }

    fn by_value(&self) -> Option<&dyn InferByValue> {
        Some(self)
    }

    fn prepare_params(
        &self,
        _: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let blocks = self.selected(inputs)?.1;
        let held = size_of_val(&blocks.places[..]);
        Ok(Prepared::holding(Arc::new(blocks), held))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let output = rearrange(&prepared.get::<Blocks>()?.copied(cx.parallel), &[io.input(0)?], io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
