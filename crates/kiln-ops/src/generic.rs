//! Every element-wise operator of ONNX on every element type, in plain Rust.
//!
//! Operators on `f32` have emitted kernels; this code runs on all other types, and is the oracle for `f32`. An operand
//! is a [`View`] broadcast to the output's shape; chunks of all operands are widened, computed and narrowed one after
//! the other ([`super::wide`]), so that there is one loop for an operator and not one for each of its types.
//!
//! - `operation` reads operators and attributes; an operator's meaning is its row in the table of operators.
//! - `arithmetic` computes operators on numbers.
//! - `native` computes them on elements as they are stored, where that gives the same bits.
//! - `reduce` has the reductions, on the same arithmetic.
//! - `select` has Where and the work on strings.

mod arithmetic;
mod native;
mod operation;
mod reduce;
mod select;

pub(crate) use arithmetic::{Arithmetic, Binary};
use kiln_kernels::Parallel;
use kiln_kernels::memory::Pace;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorError, TensorSpec};
use operation::{Computes, Operation};
pub use reduce::make_reduce;
pub(crate) use reduce::reduced_axes;
use select::{Text, Where};

use super::view::Cursor;
use super::wide::{CHUNK, Width};
use super::{LoadCx, OpError, Run, View, broadcast, rearrange, refused, required, share, try_each_chunk};

/// Makes the node of any element-wise operator, for inputs of any element type that ONNX allows it.
///
/// The types are looked at when the node runs, so one node serves them all.
pub fn make_elementwise(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Elementwise { operation: Operation::of(cx.node)? }))
}

/// `compute!(dtype, function::<_>(arguments))` calls the function for the type that computes elements of `dtype`.
macro_rules! compute {
    ($dtype:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        match $crate::wide::Width::of($dtype)? {
            $crate::wide::Width::F32 | $crate::wide::Width::F64 => $function::<f64>($($argument),*),
            $crate::wide::Width::I64 => $function::<i64>($($argument),*),
            $crate::wide::Width::U64 => $function::<u64>($($argument),*),
        }
    };
}
pub(crate) use compute;

struct Elementwise {
    operation: Operation,
}

impl Elementwise {
    /// The operands, checked: those that broadcast together, without Where's condition.
    fn operands<'t>(&self, inputs: &[Option<&'t Tensor>]) -> Result<Vec<&'t Tensor>, NodeError> {
        let given = |range: std::ops::Range<usize>| range.map(|i| required(inputs, i)).collect::<Result<Vec<_>, _>>();
        let operands = match self.operation.computes {
            Computes::Unary(_) | Computes::Clip { .. } => given(0..1)?,
            Computes::Binary(_) | Computes::Concat | Computes::Gated(_) => given(0..2)?,
            Computes::Where => given(1..3)?,
            Computes::Fold { .. } => given(0..inputs.len().max(1))?,
        };
        self.operation.same_type(&operands)?;
        Ok(operands)
    }

    /// The bounds of a Clip.
    fn bounds<W: Arithmetic>(&self, io: &Io<'_>) -> Result<[Option<W>; 2], NodeError> {
        let Computes::Clip { low, high } = self.operation.computes else {
            return Ok([None, None]);
        };
        let bound = |fixed: Option<f64>, index| match (fixed, io.optional(index)) {
            (Some(value), _) => Ok(Some(super::wide::widened::<W>(&Tensor::scalar(value))?[0])),
            (None, Some(input)) if input.len() == 1 && input.dtype() == io.spec(0).dtype => {
                Ok(Some(super::wide::widened::<W>(input)?[0]))
            }
            (None, Some(input)) => {
                Err(refused(format!("a bound of type {} and shape {:?}", input.dtype(), input.shape())))
            }
            (None, None) => Ok(None),
        };
        Ok([bound(low, 1)?, bound(high, 2)?])
    }

    fn compute<W: Arithmetic>(
        &self,
        operands: &[&Tensor],
        io: &Io<'_>,
        parallel: &dyn Parallel,
    ) -> Result<Tensor, NodeError> {
        let mut output = io.alloc(0)?;
        let (dtype, shape) = (output.dtype(), output.shape().to_vec());
        let views = operands.iter().map(|operand| View::broadcast(operand.shape(), &shape));
        let views = views.collect::<Result<Vec<_>, _>>()?;
        let bounds = self.bounds::<W>(io)?;
        let share = share(output.len(), WORK, parallel);
        try_each_chunk(parallel, output.bytes_mut(), share * dtype.size(), &|index, bytes| {
            let reader = |(view, &tensor)| Reader {
                tensor,
                cursor: View::cursor_at(view, index * share),
                pace: Pace::default(),
            };
            let mut readers: Vec<Reader<'_>> = views.iter().zip(operands).map(reader).collect();
            self.compute_part::<W>(&mut readers, bounds, dtype, bytes)
        })?;
        Ok(output)
    }

    /// The loop over elements as they are stored, if there is one for these operands.
    fn stored_loop(&self, operands: &[&Tensor]) -> Option<native::Loop> {
        let (first, others) = operands.split_first()?;
        let dtype = first.dtype();
        match self.operation.computes {
            Computes::Unary(function) => native::unary(function, dtype),
            Computes::Binary(function) if others.iter().all(|other| other.dtype() == dtype) => {
                native::binary(function, dtype)
            }
            Computes::Fold { step, mean: false } if others.len() == 1 && others[0].dtype() == dtype => {
                native::binary(step, dtype)
            }
            _ => None,
        }
    }

    fn compute_stored(
        &self,
        each: native::Loop,
        operands: &[&Tensor],
        io: &Io<'_>,
        parallel: &dyn Parallel,
    ) -> Result<Tensor, NodeError> {
        let mut output = io.alloc(0)?;
        let shape = output.shape().to_vec();
        let views = operands.iter().map(|operand| View::broadcast(operand.shape(), &shape));
        let views = views.collect::<Result<Vec<_>, _>>()?;
        let (width, size) = (operands[0].dtype().size(), output.dtype().size());
        let share = share(output.len(), width * operands.len() + size, parallel);
        try_each_chunk(parallel, output.bytes_mut(), share * size, &|index, bytes| {
            let reader = |at: usize| {
                let at = at.min(operands.len() - 1);
                Reader {
                    tensor: operands[at],
                    cursor: View::cursor_at(&views[at], index * share),
                    pace: Pace::default(),
                }
            };
            let (mut left, mut right) = (reader(0), reader(1));
            let (mut left_chunk, mut right_chunk) = ([0; native::CHUNK], [0; native::CHUNK]);
            let mut rest = bytes;
            while !rest.is_empty() {
                // Rows that are long enough are read one by one, so that neighbours are read where they lie.
                let row = left.cursor.row_left().min(right.cursor.row_left());
                let most = if row < SHORT_ROW { native::CHUNK } else { row.min(native::CHUNK) };
                let count = most.min(rest.len() / size);
                let (bytes, later) = rest.split_at_mut(count * size);
                rest = later;
                let a = left.stored(count, width, &mut left_chunk);
                let b = if operands.len() > 1 { right.stored(count, width, &mut right_chunk) } else { a };
                each(a, b, bytes);
            }
            Ok(())
        })?;
        Ok(output)
    }

    /// Computes a part of the output from where the readers stand.
    fn compute_part<W: Arithmetic>(
        &self,
        readers: &mut [Reader<'_>],
        [low, high]: [Option<W>; 2],
        dtype: DType,
        part: &mut [u8],
    ) -> Result<(), NodeError> {
        let operands = readers.len();
        let Some((first, others)) = readers.split_first_mut() else {
            return Err(refused("an operator without operands"));
        };
        let (mut left, mut right) = ([W::default(); CHUNK], [W::default(); CHUNK]);
        let mut pace = Pace::default();
        for bytes in part.chunks_mut(CHUNK * dtype.size()) {
            pace.step(CHUNK * operands);
            let count = bytes.len() / dtype.size();
            let (left, right) = (&mut left[..count], &mut right[..count]);
            first.read(left)?;
            match self.operation.computes {
                Computes::Unary(function) => W::unary(function, left)?,
                Computes::Binary(function) => {
                    others[0].read(right)?;
                    W::binary(function, left, right)?;
                }
                Computes::Fold { step, mean } => {
                    for other in &mut *others {
                        other.read(right)?;
                        W::binary(step, left, right)?;
                    }
                    if mean {
                        left.iter_mut().for_each(|value| *value = value.divided(operands));
                    }
                }
                Computes::Clip { .. } => clip(left, low, high),
                Computes::Gated(function) => {
                    W::unary(function, left)?;
                    others[0].read(right)?;
                    W::binary(Binary::Mul, left, right)?;
                }
                Computes::Where | Computes::Concat => {}
            }
            W::store(left, dtype, bytes)?;
        }
        Ok(())
    }

    fn output(&self, io: &Io<'_>, parallel: &dyn Parallel) -> Result<Tensor, NodeError> {
        let inputs = io.inputs();
        let operands = self.operands(&inputs)?;
        let text = operands[0].dtype() == DType::String;
        match self.operation.computes {
            Computes::Where => {
                let sources = [operands[0].shape(), operands[1].shape()];
                let movement = Where { condition: io.input(0)?, shape: &io.spec(0).shape, sources };
                rearrange(&movement, &operands, io.alloc(0)?)
            }
            Computes::Concat => Text::Concat.run(operands[0], operands[1], io.alloc(0)?),
            Computes::Binary(Binary::Equal) if text => Text::Equal.run(operands[0], operands[1], io.alloc(0)?),
            _ => match (self.stored_loop(&operands), self.operation.width(&operands)?) {
                (Some(each), _) => self.compute_stored(each, &operands, io, parallel),
                (None, Width::F32 | Width::F64) => self.compute::<f64>(&operands, io, parallel),
                (None, Width::I64) => self.compute::<i64>(&operands, io, parallel),
                (None, Width::U64) => self.compute::<u64>(&operands, io, parallel),
            },
        }
    }
}

/// Bounds as `min(max(x, low), high)`; NaN stays.
fn clip<W: Arithmetic>(values: &mut [W], low: Option<W>, high: Option<W>) {
    // Each element is written, so that the loops become vectors.
    if let Some(low) = low {
        values.iter_mut().for_each(|value| *value = if *value < low { low } else { *value });
    }
    if let Some(high) = high {
        values.iter_mut().for_each(|value| *value = if *value > high { high } else { *value });
    }
}

/// Elements of a row below which rows are gathered, because a call for each would cost more than copying it.
const SHORT_ROW: usize = 128;

/// Widening, computing and narrowing an element takes as long as moving this many bytes.
const WORK: usize = 16;

/// Reads an operand in the output's order.
struct Reader<'t> {
    tensor: &'t Tensor,
    cursor: Cursor<'t>,
    pace: Pace,
}

impl Reader<'_> {
    /// The next elements as they are stored: where they lie if they are neighbours, else in `chunk`.
    fn stored<'c>(&'c mut self, count: usize, width: usize, chunk: &'c mut native::Buffer) -> &'c [u8] {
        let from = self.tensor.bytes();
        self.pace.step(count);
        if self.cursor.row_left() >= count
            && let Some(run) = self.cursor.next(count)
        {
            if run.stride == 1 {
                return &from[run.start * width..][..count * width];
            }
            native::gather(from, run, width, &mut bytemuck::cast_slice_mut(chunk)[..count * width]);
        } else {
            let to: &mut [u8] = bytemuck::cast_slice_mut(chunk);
            let mut filled = 0;
            while let Some(run) = self.cursor.next(count - filled) {
                native::gather(from, run, width, &mut to[filled * width..][..run.count * width]);
                filled += run.count;
            }
        }
        &bytemuck::cast_slice(chunk)[..count * width]
    }

    /// Widens the next elements.
    fn read<W: Arithmetic>(&mut self, to: &mut [W]) -> Result<(), NodeError> {
        let mut filled = 0;
        while let Some(run) = self.cursor.next((to.len() - filled).min(Pace::UNITS)) {
            W::load(self.tensor.dtype(), self.tensor.bytes(), run, &mut to[filled..filled + run.count])?;
            filled += run.count;
            self.pace.step(run.count);
        }
        Ok(())
    }
}

impl Node for Elementwise {
    fn family(&self) -> &'static str {
        "generic"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let operands = self.operands(inputs)?;
        self.operation.result(operands[0].dtype())?;
        if matches!(self.operation.computes, Computes::Where) {
            let found = required(inputs, 0)?.dtype();
            if found != DType::Bool {
                return Err(TensorError::Type { expected: DType::Bool, found }.into());
            }
        }
        // A slope stretches to its input, never the other way.
        let shape = operands[0].shape();
        if self.operation.keeps_first() && broadcast(operands.iter().map(|operand| operand.shape()))?[..] != *shape {
            return Err(refused(format!("a slope of shape {:?} for {shape:?}", operands[1].shape())));
        }
        Ok(())
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let output = self.output(io, cx.parallel)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
