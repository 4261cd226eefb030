//! Unique: the distinct elements, or slices along an axis, with where each is first, which each element is, and how
//! many.

use std::cmp::Ordering;
use std::sync::Arc;

use kiln_kernels::memory::{self, Collect, Pace};
use kiln_run::node::InferByValue;
use kiln_run::node::{PrepareCx, Specs};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Shape, Tensor, TensorSpec};

use crate::wide::{Wide, Width, dispatch, narrow, widened};
use crate::{Blocks, LoadCx, Movement, OpError, View, around, axis_of, counted, rank, rearrange, required};

struct Unique {
    axis: Option<i64>,
    sorted: bool,
    /// Outputs wanted, of at most four.
    outputs: usize,
}

pub(super) fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Unique {
        axis: cx.node.attributes().integer("axis"),
        sorted: cx.node.attributes().int("sorted") != 0,
        outputs: cx.node.outputs.len().clamp(1, 4),
    }))
}

/// The distinct elements or slices.
#[derive(Debug, Default)]
struct Found {
    /// The first place of each distinct one.
    first: Vec<usize>,
    /// For each element or slice, the number of the distinct one that it equals.
    which: Vec<i64>,
    counts: Vec<i64>,
}

/// Groups equal ones among `count` slices of `length` elements each.
fn group([count, length]: [usize; 2], sorted: bool, compare: impl Fn(usize, usize) -> Ordering) -> Found {
    let mut order: Vec<usize> = (0..count).collected();
    let mut pace = Pace::default();
    order.sort_by(|&a, &b| {
        pace.step(1 + length / 8);
        compare(a, b)
    });
    // The sort is stable, so the first of a group is its first in the input.
    let mut groups: Vec<&[usize]> = order.chunk_by(|&a, &b| compare(a, b) == Ordering::Equal).collected();
    if !sorted {
        groups.sort_unstable_by(|a, b| {
            pace.step(1);
            a[0].cmp(&b[0])
        });
    }
    let (first, counts) = (memory::with_capacity(groups.len()), memory::with_capacity(groups.len()));
    let mut found = Found { first, which: memory::zeroed(count), counts };
    for (number, group) in groups.into_iter().enumerate() {
        pace.step(group.len());
        found.first.push(group[0]);
        found.counts.push(group.len() as i64);
        group.iter().for_each(|&member| found.which[member] = number as i64);
    }
    found
}

/// Slices of `length` numbers, compared from their first on.
fn group_numbers<W: Wide>(slices: &Tensor, count: usize, length: usize, sorted: bool) -> Result<Found, NodeError> {
    let values = widened::<W>(slices)?;
    let slice = |index: usize| &values[index * length..][..length];
    let compare = |a: &[W], b: &[W]| a.iter().zip(b).map(|(&a, &b)| rank(a, b)).find(|order| order.is_ne());
    Ok(group([count, length], sorted, |a, b| compare(slice(a), slice(b)).unwrap_or(Ordering::Equal)))
}

struct Copy(View);

impl Movement for Copy {
    fn run<T: Clone>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        self.0.copy(from[0], to);
        Ok(())
    }
}

impl Unique {
    /// The shape that is searched, and the axis in it.
    fn seen(&self, input: &Tensor) -> Result<(Shape, usize), NodeError> {
        match self.axis {
            Some(axis) => Ok((Shape::from_slice(input.shape()), axis_of(axis, input.shape().len())?)),
            None => Ok((Shape::from_slice(&[input.len()]), 0)),
        }
    }

    fn find(&self, input: &Tensor) -> Result<Found, NodeError> {
        let (shape, axis) = self.seen(input)?;
        let (before, count, after) = around(&shape, axis);
        // With the axis first, each slice is contiguous.
        let order: Vec<usize> = [axis].into_iter().chain((0..shape.len()).filter(|&other| other != axis)).collect();
        let copy = Copy(View::permuted(&shape, &order));
        let slices = rearrange(&copy, &[input], Tensor::zeros(input.spec().clone())?)?;
        let length = before * after;
        if input.dtype() == DType::String {
            let texts = slices.as_strings()?;
            let slice = |index: usize| &texts[index * length..][..length];
            return Ok(group([count, length], self.sorted, |a, b| slice(a).cmp(slice(b))));
        }
        dispatch!(Width::of(input.dtype())?, group_numbers(&slices, count, length, self.sorted))
    }
}

impl InferByValue for Unique {
    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let input = required(inputs, 0)?;
        let found = self.find(input)?;
        let (mut shape, axis) = self.seen(input)?;
        shape[axis] = found.first.len();
        let mut specs = Specs::from_elem(counted(input.dtype(), shape)?, 1);
        for count in [found.first.len(), found.which.len(), found.counts.len()] {
            specs.push(counted(DType::I64, [count])?);
        }
        specs.truncate(self.outputs);
        Ok(specs)
    }
}

impl Node for Unique {
    fn family(&self) -> &'static str {
        "Unique"
    }

    fn value_inputs(&self) -> u64 {
        1
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
        let found = self.find(required(inputs, 0)?)?;
        let held = size_of_val(&found.first[..]) + size_of_val(&found.which[..]) + size_of_val(&found.counts[..]);
        Ok(Prepared::holding(Arc::new(found), held))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let found = prepared.get::<Found>()?;
        let input = io.input(0)?;
        let (shape, axis) = self.seen(input)?;
        let (_, size, inner) = around(&shape, axis);
        let blocks = Blocks { places: memory::copied(&found.first), size, inner };
        let values = rearrange(&blocks.copied(cx.parallel), &[input], io.alloc(0)?)?;
        io.push(values);
        let first: Vec<i64> = found.first.iter().map(|&place| place as i64).collected();
        for (index, list) in [&first, &found.which, &found.counts].into_iter().enumerate().take(self.outputs - 1) {
            let output = narrow(list, io.alloc(index + 1)?)?;
            io.push(output);
        }
        Ok(())
    }
}
