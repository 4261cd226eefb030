//! Concat and Split: parts of one axis, side by side in one tensor.
//!
//! Elements of any type are copied in runs as long as the layout allows, split between threads where there are many.
//! Parts of a Split along the first axis that has more than one element stay inside the whole tensor; a Concat before a
//! convolution is not computed, because the convolution reads its inputs in parts. [`pad`] and [`repeat`] are the other
//! operators that write a larger output than they read.

mod device;
mod pad;
mod repeat;
#[cfg(test)]
mod tests;
mod together;

use kiln_kernels::Parallel;
use kiln_kernels::parallel::{copy, for_each_chunk};
use kiln_run::DeviceCx;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Shape, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::{
    LoadCx, Movement, OpError, Operator, around, axis_of, counted, rearrange, refused, required, share, spread,
};

/// This group's operators.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "Concat", make_concat),
    ("", "Split", make_split),
    ("", "Pad", pad::make),
    ("", "Tile", repeat::make_tile),
    ("", "Expand", repeat::make_expand),
];

struct Concat {
    axis: i64,
}

fn make_concat(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    if cx.node.inputs.is_empty() {
        return Err(OpError::invalid(cx.node, "no inputs"));
    }
    // Version 1 had a default; later ones demand the attribute.
    Ok(Box::new(Concat { axis: cx.node.attributes().int("axis") }))
}

impl Node for Concat {
    fn family(&self) -> &'static str {
        "concat"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let first = required(inputs, 0)?.dtype();
        match inputs.iter().flatten().find(|part| part.dtype() != first) {
            Some(part) => Err(refused(format!("{} does not join {first}", part.dtype()))),
            None => Ok(()),
        }
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        self.on_device(cx, inputs, outputs)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let mut parts = Parts::new();
        while let Some(part) = io.optional(parts.len()) {
            parts.push(part);
        }
        let output = join(&parts, self.axis, io.alloc(0)?, cx.parallel)?;
        drop(parts);
        io.push(output);
        Ok(())
    }
}

/// Tensors to be joined.
type Parts<'t> = SmallVec<[&'t Tensor; 8]>;

/// Type and shape of these tensors one behind the other along an axis; at least one is needed.
pub(crate) fn joined_spec(parts: &[&Tensor], axis: i64) -> Result<TensorSpec, NodeError> {
    let first = parts.first().ok_or_else(|| refused("there is nothing to join"))?;
    let axis = axis_of(axis, first.shape().len())?;
    let mut shape = Shape::from_slice(first.shape());
    for (index, next) in parts.iter().enumerate().skip(1) {
        let fits = next.dtype() == first.dtype()
            && next.shape().len() == shape.len()
            && (0..shape.len()).all(|other| other == axis || next.shape()[other] == shape[other]);
        if !fits {
            let (have, want) = (next.spec(), first.spec());
            return Err(refused(format!("input {index}, {have:?}, does not join {want:?} along axis {axis}")));
        }
        shape[axis] = shape[axis].checked_add(next.shape()[axis]).ok_or_else(|| refused("the sum overflows"))?;
    }
    counted(first.dtype(), shape)
}

/// Writes the tensors into `to`, which is of their [`joined_spec`].
pub(crate) fn join(parts: &[&Tensor], axis: i64, to: Tensor, parallel: &dyn Parallel) -> Result<Tensor, NodeError> {
    let axis = axis_of(axis, to.shape().len())?;
    let runs = parts.iter().map(|part| around(part.shape(), axis)).map(|(_, count, inner)| count * inner).collect();
    rearrange(&Joined { runs, parallel }, parts, to)
}

/// Rows made of one run from each source.
struct Joined<'a> {
    /// Elements of each source's run.
    runs: Vec<usize>,
    parallel: &'a dyn Parallel,
}

/// Bytes of a run that takes longer to look up than to copy: a cache line.
const SHORT: usize = 64;

/// Bytes of a block of rows that is written part by part: half of an L1 of 32 KiB.
const BLOCK: usize = 16 << 10;

impl Joined<'_> {
    /// Writes the rows from number `first` on: all runs of one source, then all of the next.
    fn join_rows<T: Clone>(&self, from: &[&[T]], first: usize, to: &mut [T], length: usize) {
        let mut start = 0;
        for (part, &run) in from.iter().zip(&self.runs).filter(|(_, run)| **run > 0) {
            spread(&part[first * run..], run, &mut to[start..], length);
            start += run;
        }
    }
}

impl Movement for Joined<'_> {
    fn run<T: Clone + Send + Sync>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        let length: usize = self.runs.iter().sum();
        let width = size_of::<T>();
        let share = share(to.len(), width, self.parallel);
        if self.runs.iter().any(|run| run * width <= SHORT) {
            let (rows, block) = (share.div_ceil(length), (BLOCK / (length * width)).max(1));
            for_each_chunk(self.parallel, to, rows * length, &|index, chunk| {
                for (number, block_rows) in chunk.chunks_mut(block * length).enumerate() {
                    self.join_rows(from, index * rows + number * block, block_rows, length);
                }
            });
            return Ok(());
        }
        for_each_chunk(self.parallel, to, share, &|index, chunk| {
            let first = index * share;
            let (mut row, mut within, mut part) = (first / length, first % length, 0);
            while within >= self.runs[part] {
                within -= self.runs[part];
                part += 1;
            }
            let mut rest = chunk;
            while !rest.is_empty() {
                let run = self.runs[part];
                let (now, later) = rest.split_at_mut((run - within).min(rest.len()));
                let start = row * run + within;
                copy(&from[part][start..start + now.len()], now);
                (rest, within, part) = (later, 0, part + 1);
                if part == self.runs.len() {
                    (row, part) = (row + 1, 0);
                }
            }
        });
        Ok(())
    }
}

struct Split {
    axis: i64,
}

fn make_split(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let count = node.outputs.len();
    if count == 0 {
        return Err(OpError::invalid(node, "no outputs"));
    }
    if let Some(asked) = node.attributes().integer("num_outputs").filter(|&asked| asked != count as i64) {
        return Err(OpError::invalid(node, format!("num_outputs is {asked}, the node has {count} outputs")));
    }
    Ok(Box::new(Split { axis: node.attributes().int("axis") }))
}

impl Node for Split {
    fn family(&self) -> &'static str {
        "split"
    }

    fn value_inputs(&self) -> u64 {
        1 << 1
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        self.on_device(cx, inputs, outputs)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let input = io.input(0)?;
        let axis = axis_of(self.axis, input.shape().len())?;
        let (rows, dim, inner) = around(input.shape(), axis);
        let width = input.dtype().size();
        let runs: SmallVec<[usize; 8]> = io.specs().iter().map(|spec| spec.shape[axis] * inner).collect();
        if rows > 1 && together::pays(&runs, input) {
            let outputs = (0..runs.len()).map(|index| io.alloc(index));
            let mut outputs = outputs.collect::<Result<SmallVec<[Tensor; 8]>, _>>()?;
            let to = outputs.iter_mut().map(Tensor::bytes_mut).collect();
            together::divide(input.bytes(), &runs, width, to, cx.parallel);
            outputs.into_iter().for_each(|output| io.push(output));
            return Ok(());
        }
        let mut start = 0;
        for (index, run) in runs.into_iter().enumerate() {
            let input = io.input(0)?;
            // With a single row, every part is contiguous and stays where it is.
            let shared = if rows == 1 { input.part(start, io.spec(index).shape.iter().copied())? } else { None };
            let output = match shared {
                Some(part) => part,
                None => {
                    let part = Part { start, run, stride: dim * inner, width, parallel: cx.parallel };
                    rearrange(&part, &[input], io.alloc(index)?)?
                }
            };
            io.push(output);
            start += run;
        }
        Ok(())
    }
}

/// One run out of every row of the source.
struct Part<'a> {
    start: usize,
    run: usize,
    stride: usize,
    width: usize,
    parallel: &'a dyn Parallel,
}

impl Movement for Part<'_> {
    fn run<T: Clone + Send + Sync>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        let share = share(to.len(), self.width, self.parallel);
        for_each_chunk(self.parallel, to, share, &|index, chunk| {
            let first = index * share;
            let (mut row, mut within) = (first / self.run, first % self.run);
            let mut rest = chunk;
            while !rest.is_empty() {
                let (now, later) = rest.split_at_mut((self.run - within).min(rest.len()));
                let start = row * self.stride + self.start + within;
                copy(&from[0][start..start + now.len()], now);
                (rest, row, within) = (later, row + 1, 0);
            }
        });
        Ok(())
    }
}
