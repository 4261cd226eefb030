//! Picking elements by index: Gather, GatherElements, GatherND.
//!
//! Indices are data, so they are checked on every run. Contiguous parts behind the gathered
//! axis are copied as wholes: an embedding look-up is one memory copy a token. A table of numbers in compact form stays
//! compact, and the picked rows are widened.

use std::borrow::Cow;
use std::sync::Arc;

use kiln_kernels::gpu::source::gather::GatherKernel;
use kiln_kernels::memory::{self, Collect, Pace};
use kiln_kernels::parallel::{Parallel, for_each_chunk};
use kiln_run::DeviceCx;
use kiln_run::device::{ON_DEVICE, Operand};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Compact, Shape, Tensor, TensorSpec};

use super::{
    Blocks, LoadCx, Movement, OpError, Operator, around, axis_of, index_of, rearrange, refused, required, strides,
    task_count, try_each_chunk,
};

mod quantized;

pub(super) use quantized::OPERATORS as QUANTIZED;

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "Gather", |cx| Ok(Box::new(Gather::new(cx)))),
    ("", "GatherElements", |cx| Ok(Box::new(GatherElements { axis: cx.node.attributes().int("axis") }))),
    ("", "GatherND", make_nd),
];

/// Every index as a place along an axis of that size.
fn places(indices: &Tensor, size: usize) -> Result<Vec<usize>, NodeError> {
    whole_numbers(indices)?.iter().map(|&index| index_of(index, size)).try_collected()
}

/// The elements of a tensor of integers, copied only where they are of another type.
pub(crate) fn whole_numbers(tensor: &Tensor) -> Result<Cow<'_, [i64]>, NodeError> {
    Ok(match tensor.as_slice::<i64>() {
        Ok(numbers) => Cow::Borrowed(numbers),
        Err(_) => Cow::Owned(tensor.to_i64_vec()?),
    })
}

struct Gather {
    axis: i64,
    /// The data, where they are constant, in compact form, and lie in rows.
    table: Option<Table>,
    /// The indices, where they are constant and the node runs on a device, which gets them once for each shape.
    indices: Option<Tensor>,
}

/// Rows of numbers in compact form.
struct Table {
    form: Arc<Compact>,
    /// The number of the first row's first element in the form.
    first: usize,
}

/// Elements of a task: below, a task would be shorter than its wake-up.
const SHARE: usize = 1 << 15;

impl Gather {
    fn new(cx: &LoadCx<'_>) -> Gather {
        let axis = cx.node.attributes().int("axis");
        let data = cx.graph.constant_input(cx.node, 0);
        let in_rows =
            |data: &&Tensor| axis_of(axis, data.shape().len()).is_ok_and(|axis| around(data.shape(), axis).0 == 1);
        let form = data.filter(in_rows).and_then(Tensor::compact_form);
        let table = form.map(|(form, first)| {
            // No request reads files.
            form.stored.fetch();
            Table { form, first }
        });
        let indices = cx.graph.constant_input(cx.node, 1).filter(|_| cx.node.is_marked(ON_DEVICE)).cloned();
        Gather { axis, table, indices }
    }
}

impl Table {
    /// Widens the rows at these places; the length of `to` gives the elements of each.
    fn rows(&self, places: &[usize], to: &mut [f32], parallel: &dyn Parallel) {
        let inner = to.len() / places.len().max(1);
        if inner == 0 {
            return;
        }
        let share = (SHARE / inner).max(1);
        for_each_chunk(parallel, to, share * inner, &|index, to| {
            for (place, row) in places[index * share..].iter().zip(to.chunks_exact_mut(inner)) {
                self.form.write(self.first + place * inner, row);
            }
        });
    }
}

impl Node for Gather {
    fn family(&self) -> &'static str {
        "Gather"
    }

    fn kept_inputs(&self) -> u64 {
        u64::from(self.table.is_some())
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let (data, indices) = (required(inputs, 0)?, required(inputs, 1)?);
        let axis = axis_of(self.axis, data.shape().len())?;
        let (outer, size, inner) = around(data.shape(), axis);
        // The processor has the indices and checks them, in every request if they may change: the device has nothing to
        // report.
        let picked = if let Some(constant) = &self.indices {
            places(constant, size)?;
            cx.table(constant.bytes())?
        } else {
            cx.indices(1, size);
            Operand::Input(1)
        };
        let fault = cx.scratch(4);
        let [outer, size, inner, count] = [outer, size, inner, indices.len()].map(|size| size as u64);
        let kernel =
            GatherKernel::new(data.dtype().size() as u8, outer, size, inner, count, indices.dtype().size() as u8)?;
        cx.kernel(kernel, &[Some(Operand::Input(0)), Some(picked), Some(fault)], Operand::Output(0))
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let data = io.input(0)?;
        let axis = axis_of(self.axis, data.shape().len())?;
        let (_, size, inner) = around(data.shape(), axis);
        if let Some(table) = &self.table {
            let (places, mut output) = (places(io.input(1)?, size)?, io.alloc(0)?);
            table.rows(&places, output.as_mut_slice()?, cx.parallel);
            io.push(output);
            return Ok(());
        }
        let blocks = Blocks { places: places(io.input(1)?, size)?, size, inner };
        let output = rearrange(&blocks.copied(cx.parallel), &[data], io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

struct GatherElements {
    axis: i64,
}

impl GatherElements {
    fn axis(&self, data: &[usize], indices: &[usize]) -> Result<usize, NodeError> {
        let axis = axis_of(self.axis, data.len())?;
        let fits = |(at, (index, data)): (usize, (&usize, &usize))| at == axis || index <= data;
        if data.len() != indices.len() || !indices.iter().zip(data).enumerate().all(fits) {
            return Err(refused(format!("indices of shape {indices:?} do not fit data of shape {data:?}")));
        }
        Ok(axis)
    }
}

impl Node for GatherElements {
    fn family(&self) -> &'static str {
        "GatherElements"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.axis(required(inputs, 0)?.shape(), required(inputs, 1)?.shape()).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (data, indices) = (io.input(0)?, io.input(1)?);
        let axis = self.axis(data.shape(), indices.shape())?;
        let numbers = whole_numbers(indices)?;
        let along = Along::new(data.shape(), axis, indices.shape(), &numbers);
        let output = rearrange(&Gathered { along, parallel: cx.parallel }, &[data], io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

/// An index takes as long as moving this many bytes.
const PLACING: usize = 16;

/// Indices that have their own coordinates in the data, except along an axis, where each is the coordinate.
struct Along<'a> {
    data: &'a [usize],
    steps: Shape,
    axis: usize,
    /// The indices' dimensions but the last.
    outer: &'a [usize],
    /// The last one.
    length: usize,
    numbers: &'a [i64],
}

impl<'a> Along<'a> {
    fn new(data: &'a [usize], axis: usize, indices: &'a [usize], numbers: &'a [i64]) -> Along<'a> {
        let (&length, outer) = indices.split_last().unwrap_or((&1, &[]));
        Along { data, steps: strides(data), axis, outer, length, numbers }
    }

    /// Calls `line(to, numbers, start, step)` for each line of `to` along the last axis: the element of the index at
    /// place `i` lies at `start` plus the index times the axis's stride plus `i` times `step`.
    fn each_line<T: Send>(
        &self,
        to: &mut [T],
        parallel: &dyn Parallel,
        line: impl Fn(&mut [T], &[i64], usize, usize) -> Result<(), NodeError> + Sync,
    ) -> Result<(), NodeError> {
        if to.is_empty() {
            return Ok(());
        }
        let step = usize::from(self.axis + 1 != self.data.len());
        let tasks = task_count(to.len().saturating_mul(PLACING), parallel);
        let each = (to.len() / self.length).div_ceil(tasks) * self.length;
        try_each_chunk(parallel, to, each, &|index, to| {
            let mut pace = Pace::default();
            let numbers = self.numbers[index * each..].chunks_exact(self.length);
            for (row, (to, numbers)) in to.chunks_exact_mut(self.length).zip(numbers).enumerate() {
                pace.step(self.length);
                // The coordinates before the last axis move once a line.
                let (mut rest, mut start) = (index * each / self.length + row, 0);
                for (at, &dim) in self.outer.iter().enumerate().rev() {
                    start += if at == self.axis { 0 } else { rest % dim * self.steps[at] };
                    rest /= dim;
                }
                line(to, numbers, start, step)?;
            }
            Ok(())
        })
    }
}

/// The elements that indices name along an axis.
struct Gathered<'a> {
    along: Along<'a>,
    parallel: &'a dyn Parallel,
}

impl Movement for Gathered<'_> {
    fn run<T: Clone + Send + Sync>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        let (from, size, stride) = (from[0], self.along.data[self.along.axis], self.along.steps[self.along.axis]);
        self.along.each_line(to, self.parallel, |to, numbers, start, step| {
            for (at, (to, &number)) in to.iter_mut().zip(numbers).enumerate() {
                to.clone_from(&from[start + index_of(number, size)? * stride + at * step]);
            }
            Ok(())
        })
    }
}

/// For each index, the place in `data` with the index's own coordinates, except along `axis`, where it is the index.
pub(crate) fn element_places(
    data: &[usize],
    indices: &Tensor,
    axis: usize,
    parallel: &dyn Parallel,
) -> Result<Vec<usize>, NodeError> {
    let numbers = whole_numbers(indices)?;
    let mut places = memory::zeroed(numbers.len());
    let along = Along::new(data, axis, indices.shape(), &numbers);
    let (size, stride) = (data[axis], along.steps[axis]);
    along.each_line(&mut places, parallel, |places, numbers, start, step| {
        for (at, (place, &number)) in places.iter_mut().zip(numbers).enumerate() {
            *place = start + index_of(number, size)? * stride + at * step;
        }
        Ok(())
    })?;
    Ok(places)
}

struct GatherNd {
    batch_axes: usize,
}

fn make_nd(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let batch_axes = usize::try_from(cx.node.attributes().int("batch_dims"))
        .map_err(|_| OpError::invalid(cx.node, "batch_dims must not be negative"))?;
    Ok(Box::new(GatherNd { batch_axes }))
}

impl GatherNd {
    /// How many axes of the data a tuple of indices names.
    fn depth(&self, data: &[usize], indices: &[usize]) -> Result<usize, NodeError> {
        let depth = indices.last().copied().unwrap_or(0);
        let batch = self.batch_axes;
        let fits = depth >= 1
            && batch < indices.len()
            && depth.checked_add(batch).is_some_and(|axes| axes <= data.len())
            && data[..batch] == indices[..batch];
        if fits {
            return Ok(depth);
        }
        Err(refused(format!("indices of shape {indices:?} name no parts of {data:?} behind {batch} batch axes")))
    }
}

impl Node for GatherNd {
    fn family(&self) -> &'static str {
        "GatherND"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.depth(required(inputs, 0)?.shape(), required(inputs, 1)?.shape()).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (data, indices) = (io.input(0)?, io.input(1)?);
        let depth = self.depth(data.shape(), indices.shape())?;
        let (batch, rest) = data.shape().split_at(self.batch_axes);
        let groups: usize = batch.iter().product();
        let mut places = tuple_places(&rest[..depth], indices)?;
        // Tuples of each batch name parts of that batch.
        let (each, parts) = (places.len() / groups.max(1), rest[..depth].iter().product::<usize>());
        for (group, places) in places.chunks_mut(each.max(1)).enumerate() {
            places.iter_mut().for_each(|place| *place += group * parts);
        }
        let blocks = Blocks { places, size: groups * parts, inner: rest[depth..].iter().product() };
        let output = rearrange(&blocks.copied(cx.parallel), &[data], io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

/// For each tuple of indices (the last axis of `indices`), its place among parts of shape `shape`.
pub(crate) fn tuple_places(shape: &[usize], indices: &Tensor) -> Result<Vec<usize>, NodeError> {
    let strides = strides(shape);
    let place = |tuple: &[i64]| {
        let axes = tuple.iter().zip(shape).zip(&strides);
        axes.map(|((&index, &size), stride)| Ok(index_of(index, size)? * stride)).sum::<Result<usize, NodeError>>()
    };
    whole_numbers(indices)?.chunks_exact(shape.len()).map(place).try_collected()
}

#[cfg(test)]
mod tests;
