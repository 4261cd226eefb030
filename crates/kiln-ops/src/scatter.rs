//! Writing elements by index: ScatterElements (and Scatter, its first name), ScatterND, TensorScatter.
//!
//! Where nothing is combined, elements of any type are moved; sums, products and extremes are computed wide and
//! narrowed at the end. Indices are data and are checked before anything is written.

mod lines;
mod singles;
mod texts;

use kiln_kernels::Parallel;
use kiln_kernels::memory::{self, Collect, Pace};
use kiln_model::NodeDesc;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Element, Tensor, TensorError, TensorSpec};
use lines::{Lines, agree_beside, only_index};
use texts::combine_texts;

use super::gather::whole_numbers;
use super::generic::{Arithmetic, Binary, compute};
use super::wide::{lent, narrow, widened};
use super::{
    LoadCx, Movement, OpError, Operator, around, as_output, axis_of, element_places, index_of, rearrange, refused,
    required, tuple_places,
};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    // It replaces, and has no attribute that says so.
    ("", "Scatter", |cx| Ok(make_elements(cx, None))),
    ("", "ScatterElements", |cx| Ok(make_elements(cx, reduction(cx.node)?))),
    ("", "ScatterND", |cx| Ok(Box::new(Scatter { target: Target::Parts, reduction: reduction(cx.node)? }))),
    ("", "TensorScatter", make_cache),
];

struct Scatter {
    target: Target,
    /// How an update is combined with the element that is there; without it, the update replaces the element.
    reduction: Option<Binary>,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    /// Each index names one element, along this axis.
    Elements { axis: i64 },
    /// Each tuple of indices names a part.
    Parts,
}

fn make_elements(cx: &LoadCx<'_>, reduction: Option<Binary>) -> Box<dyn Node> {
    Box::new(Scatter { target: Target::Elements { axis: cx.node.attributes().int("axis") }, reduction })
}

fn reduction(node: &NodeDesc) -> Result<Option<Binary>, OpError> {
    Ok(match node.attributes().text("reduction") {
        "none" => None,
        "add" => Some(Binary::Add),
        "mul" => Some(Binary::Mul),
        "max" => Some(Binary::Max),
        "min" => Some(Binary::Min),
        other => return Err(OpError::unsupported(node, format!("reduction = {other}"))),
    })
}

impl Target {
    /// Checks that the shapes of data, indices and updates fit together; returns how many elements one index names.
    fn block(self, data: &[usize], indices: &[usize], updates: &[usize]) -> Result<usize, NodeError> {
        let mismatch = || refused(format!("updates {updates:?} at indices {indices:?} do not fit data {data:?}"));
        match self {
            Target::Elements { axis } => {
                let axis = axis_of(axis, data.len())?;
                let within = |(at, (index, dim)): (usize, (&usize, &usize))| at == axis || index <= dim;
                let fits = indices == updates
                    && indices.len() == data.len()
                    && indices.iter().zip(data).enumerate().all(within);
                if fits { Ok(1) } else { Err(mismatch()) }
            }
            Target::Parts => {
                let (&depth, tuples) = indices.split_last().ok_or_else(mismatch)?;
                let part = data.get(depth..).filter(|_| depth > 0).ok_or_else(mismatch)?;
                let fits = updates.len() == tuples.len() + part.len()
                    && updates.starts_with(tuples)
                    && updates.ends_with(part);
                if fits { Ok(part.iter().product()) } else { Err(mismatch()) }
            }
        }
    }

    /// The blocks of the data that the blocks of updates go to; `block` is what one index names.
    fn put(self, data: &[usize], indices: &Tensor, block: usize, parallel: &dyn Parallel) -> Result<Put, NodeError> {
        match self {
            Target::Elements { axis } => {
                let axis = axis_of(axis, data.len())?;
                if let Some(put) = whole_rows(data, indices, axis)? {
                    return Ok(put);
                }
                Ok(Put { places: element_places(data, indices, axis, parallel)?, block })
            }
            Target::Parts => {
                let depth = indices.shape().last().copied().unwrap_or(0);
                Ok(Put { places: tuple_places(&data[..depth], indices)?, block })
            }
        }
    }
}

/// Rows of updates over rows of the data, where each row of indices is one index throughout, as after an Expand: so
/// detectors gather the features of their regions from several images. `None` where a row has several indices, or
/// updates cover a part of another axis.
fn whole_rows(data: &[usize], indices: &Tensor, axis: usize) -> Result<Option<Put>, NodeError> {
    let (_, size, inner) = around(data, axis);
    let count = indices.shape()[axis];
    if inner < 2 || count == 0 || !agree_beside(axis, indices.shape(), data) {
        return Ok(None);
    }
    let numbers = whole_numbers(indices)?;
    let (mut places, mut pace) = (memory::with_capacity(numbers.len() / inner), Pace::default());
    for (row, indices) in numbers.chunks_exact(inner).enumerate() {
        pace.step(inner / 8);
        let Some(index) = only_index(indices) else { return Ok(None) };
        places.push(row / count * size + index_of(index, size)?);
    }
    Ok(Some(Put { places, block: inner }))
}

/// Blocks of updates over blocks of the output.
struct Put {
    places: Vec<usize>,
    block: usize,
}

impl Put {
    fn combine<W: Arithmetic>(&self, step: Binary, updates: &[W], values: &mut [W]) -> Result<(), NodeError> {
        let mut pace = Pace::default();
        for (&place, update) in self.places.iter().zip(updates.chunks_exact(self.block.max(1))) {
            pace.step(1 + self.block);
            W::long_binary(step, &mut values[place * self.block..][..self.block], update)?;
        }
        Ok(())
    }
}

impl Movement for Put {
    fn run<T: Clone>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        let mut pace = Pace::default();
        for (&place, update) in self.places.iter().zip(from[0].chunks_exact(self.block.max(1))) {
            pace.step(1 + self.block / 8);
            to[place * self.block..][..self.block].clone_from_slice(update);
        }
        Ok(())
    }
}

/// As [`combine`] for lines along an axis.
fn combine_lines<W: Arithmetic>(lines: &Lines<'_>, data: Tensor, cx: &RunCx<'_>) -> Result<Tensor, NodeError> {
    lines.combine::<W>(data, cx.parallel)
}

/// Combines blocks of updates with blocks of the data: in place where they are of the type that is computed in, and the
/// blocks of `f32` that get one update.
fn combine<W: Arithmetic + Element>(
    step: Binary,
    put: &Put,
    updates: &Tensor,
    mut data: Tensor,
) -> Result<Tensor, NodeError> {
    if data.dtype() == DType::F32 && put.places.len() < singles::MOST {
        singles::combine(step, put, updates.as_slice()?, data.as_mut_slice()?)?;
        return Ok(data);
    }
    let updates = lent::<W>(updates)?;
    if let Ok(values) = data.as_mut_slice() {
        put.combine(step, &updates, values)?;
        return Ok(data);
    }
    let mut values = widened::<W>(&data)?;
    put.combine(step, &updates, &mut values)?;
    narrow(&values, data)
}

impl Node for Scatter {
    fn family(&self) -> &'static str {
        match self.target {
            Target::Elements { .. } => "ScatterElements",
            Target::Parts => "ScatterND",
        }
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let (data, indices, updates) = (required(inputs, 0)?, required(inputs, 1)?, required(inputs, 2)?);
        if updates.dtype() != data.dtype() {
            return Err(TensorError::Type { expected: data.dtype(), found: updates.dtype() }.into());
        }
        if data.dtype() == DType::String && self.reduction == Some(Binary::Mul) {
            return Err(NodeError::Unsupported("products of strings".to_owned()));
        }
        self.target.block(data.shape(), indices.shape(), updates.shape()).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let data = as_output(io, 0)?;
        let (indices, updates) = (io.input(1)?, io.input(2)?);
        let block = self.target.block(data.shape(), indices.shape(), updates.shape())?;
        let numbers = self.reduction.filter(|_| data.dtype() != DType::String);
        if let (Target::Elements { axis }, Some(step)) = (self.target, numbers) {
            let axis = axis_of(axis, data.shape().len())?;
            if let Some(lines) = Lines::new(step, axis, data.shape(), [indices, updates])? {
                let output = compute!(data.dtype(), combine_lines(&lines, data, cx))?;
                io.push(output);
                return Ok(());
            }
        }
        let put = self.target.put(data.shape(), indices, block, cx.parallel)?;
        let output = match self.reduction {
            None => rearrange(&put, &[updates], data)?,
            Some(step) if data.dtype() == DType::String => combine_texts(step, &put, updates, data)?,
            Some(step) => compute!(data.dtype(), combine(step, &put, updates, data))?,
        };
        io.push(output);
        Ok(())
    }
}

/// Writes the newest part of a sequence into a cache, for each batch at its own place.
struct CacheUpdate {
    axis: i64,
    circular: bool,
}

fn make_cache(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let circular = match cx.node.attributes().text("mode") {
        "linear" => false,
        "circular" => true,
        other => return Err(OpError::unsupported(cx.node, format!("mode = {other}"))),
    };
    Ok(Box::new(CacheUpdate { axis: cx.node.attributes().int("axis"), circular }))
}

impl CacheUpdate {
    /// The sequence axis, where cache and update fit together.
    fn axis(&self, cache: &[usize], update: &[usize]) -> Result<usize, NodeError> {
        let axis = axis_of(self.axis, cache.len())?;
        let same = |(at, (cache, update)): (usize, (&usize, &usize))| at == axis || cache == update;
        let fits = cache.len() == update.len()
            && axis > 0
            && update[axis] <= cache[axis]
            && cache.iter().zip(update).enumerate().all(same);
        if fits { Ok(axis) } else { Err(refused(format!("an update of shape {update:?} does not fit {cache:?}"))) }
    }

    /// For each step of the update in each batch, its place along the cache's axis.
    fn steps(&self, io: &Io<'_>, batches: usize, length: usize, size: usize) -> Result<Vec<usize>, NodeError> {
        let starts = match io.optional(2) {
            Some(tensor) => tensor.to_i64_vec()?,
            None => memory::zeroed(batches),
        };
        if starts.len() != batches {
            return Err(refused(format!("{} write indices for {batches} batches", starts.len())));
        }
        let mut places = memory::with_capacity(batches.saturating_mul(length));
        for start in starts {
            let first = usize::try_from(start).ok().filter(|&start| start < size.max(1));
            let first = first.ok_or_else(|| refused(format!("write index {start} is outside of 0..{size}")))?;
            if !self.circular && first + length > size {
                return Err(refused(format!("{length} steps from {start} on do not fit into {size}")));
            }
            (first..first + length).map(|place| place % size.max(1)).collected_into(&mut places);
        }
        Ok(places)
    }
}

impl Node for CacheUpdate {
    fn family(&self) -> &'static str {
        "TensorScatter"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.axis(required(inputs, 0)?.shape(), required(inputs, 1)?.shape()).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let cache = io.take(0)?;
        let update = io.input(1)?;
        let axis = self.axis(cache.shape(), update.shape())?;
        let (outer, size, block) = around(cache.shape(), axis);
        let (batches, length) = (cache.shape()[0], update.shape()[axis]);
        let steps = self.steps(io, batches, length, size)?;
        // Every line before the axis belongs to one batch.
        let each = outer / batches.max(1);
        let mut places = memory::with_capacity(outer.saturating_mul(length).min(update.len()));
        if !update.is_empty() {
            let mut pace = Pace::default();
            for line in 0..outer {
                pace.step(length);
                places.extend(steps[line / each * length..][..length].iter().map(|step| line * size + step));
            }
        }
        let output = rearrange(&Put { places, block }, &[update], cache)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
