//! The greatest and least along an axis: ArgMax, ArgMin, TopK, Hardmax.
//!
//! TopK ranks NaN above every number, so that orders are total. ArgMax, ArgMin and Hardmax compare from the front and
//! take the first extreme element (or the last): a NaN is found where it comes first, and never replaces a number.
//! ONNX's text says nothing of NaN; all of this is what ONNX Runtime does.
//!
//! ArgMax and ArgMin of `f32` run on emitted instructions. For other elements they are plain Rust, as TopK and Hardmax
//! are.

use std::cmp::Ordering;

use half::{bf16, f16};
use kiln_kernels::Parallel;
use kiln_kernels::cpu::extreme::{Extreme, Extremes, Wanted};
use kiln_kernels::memory::{self, Collect, Pace};
use kiln_model::operators::shapes::is_whole_scalar;
use kiln_run::exec::extreme::ExtremeProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Element, Tensor, TensorSpec};

use super::convert::narrow_through_f32;
use super::wide::{CHUNK, Wide, Width, dispatch, load_long};
use super::{
    Elements, LoadCx, OpError, Operator, Run, Side, around, axis_of, integer, lines, rearrange, refused, required,
    sides, task_count, try_each_chunk,
};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "ArgMax", |cx| narrow_through_f32(cx, |cx| make_arg(cx, Ordering::Greater))),
    ("", "ArgMin", |cx| narrow_through_f32(cx, |cx| make_arg(cx, Ordering::Less))),
    ("", "TopK", make_top),
    ("", "Hardmax", |cx| {
        let since_13 = cx.node.version >= 13;
        Ok(Box::new(Hardmax { axis: cx.node.attributes().int("axis"), flat: !since_13 }))
    }),
];

/// A total order.
pub(crate) fn rank<W: Wide>(a: W, b: W) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| is_number(b).cmp(&is_number(a)))
}

/// A number that orders values as they rank: equal values have the same number, and NaN has the greatest.
pub(crate) trait Ordinal: Wide {
    fn ordinal(self) -> u64;
}

macro_rules! ordinal_floats {
    ($($float:ident)*) => {$(
        impl Ordinal for $float {
            fn ordinal(self) -> u64 {
                if self.is_nan() {
                    return u64::MAX;
                }
                // Both zeros are one value. The bits of negative numbers count downwards.
                let bits = (self + 0.0).to_bits();
                let sign = 1 << (8 * size_of::<$float>() - 1);
                u64::from(if bits & sign == 0 { bits | sign } else { !bits })
            }
        }
    )*};
}

ordinal_floats!(f32 f64);

impl Ordinal for i64 {
    fn ordinal(self) -> u64 {
        self as u64 ^ 1 << 63
    }
}

impl Ordinal for u64 {
    fn ordinal(self) -> u64 {
        self
    }
}

/// The place of the first (or last) element that compares as `wanted` with all others.
fn place<W: Wide>(line: &[W], wanted: Ordering, last: bool) -> usize {
    let mut best = 0;
    for (index, &value) in line.iter().enumerate().skip(1) {
        let order = value.partial_cmp(&line[best]);
        if order == Some(wanted) || last && order == Some(Ordering::Equal) {
            best = index;
        }
    }
    best
}

struct Arg {
    wanted: Ordering,
    axis: i64,
    last: bool,
}

fn make_arg(cx: &LoadCx<'_>, wanted: Ordering) -> Result<Box<dyn Node>, OpError> {
    let last = cx.node.attributes().int("select_last_index") != 0;
    Ok(Box::new(Arg { wanted, axis: cx.node.attributes().int("axis"), last }))
}

impl Arg {
    /// The problem of an input of `f32`. Other elements, and lines that are too long for 32 bits, have no kernel.
    fn problem(&self, input: &Tensor) -> Result<Option<ExtremeProblem>, NodeError> {
        if input.dtype() != DType::F32 {
            return Ok(None);
        }
        let (outer, length, inner) = around(input.shape(), axis_of(self.axis, input.shape().len())?);
        let [outer, length, inner] = [outer, length, inner].map(|size| size as u64);
        let wanted = if self.wanted == Ordering::Greater { Wanted::Greatest } else { Wanted::Least };
        let extreme = Extreme { outer, length, inner, wanted, last: self.last };
        Ok(extreme.lines().map(|_| ExtremeProblem { extreme }))
    }

    /// The input; a scalar as one line of one element.
    fn lines(&self, input: &Tensor) -> Result<Tensor, NodeError> {
        let rank = input.shape().len();
        Ok(if is_whole_scalar(&[self.axis], rank) { input.reshaped([1])? } else { input.clone() })
    }

    fn prepare(&self, input: &Tensor, cx: &PrepareCx<'_>) -> Result<Prepared, NodeError> {
        match self.problem(input)? {
            Some(problem) => Ok(Prepared::new(cx.executor(&cx.key(problem))?)),
            None => Ok(Prepared::NONE),
        }
    }

    /// The wanted places in all lines, by what [`Arg::prepare`] has prepared.
    fn find_all(
        &self,
        prepared: &Prepared,
        input: &Tensor,
        found: &mut [i64],
        cx: &RunCx<'_>,
    ) -> Result<(), NodeError> {
        match self.problem(input)? {
            Some(_) => Ok(prepared.get::<Extremes>()?.run(input.as_slice()?, found, cx.parallel)?),
            None => dispatch!(Width::of(input.dtype())?, arg(self, input, found, cx.parallel)),
        }
    }

    /// The wanted places in the lines from number `first` of all lines on.
    fn find<W: Wide>(&self, input: &Tensor, axis: usize, first: usize, found: &mut [i64]) -> Result<(), NodeError> {
        if input.shape()[axis + 1..].iter().product::<usize>() == 1 {
            let count = input.shape()[axis];
            let mut line = memory::zeroed::<W>(count);
            let mut pace = Pace::default();
            for (number, found) in found.iter_mut().enumerate() {
                pace.step(count);
                let run = Run { start: (first + number) * count, count, stride: 1 };
                load_long(input, run, &mut line)?;
                *found = self.place(&line) as i64;
            }
            return Ok(());
        }
        let columns = Columns { input, axis, first };
        match (self.wanted, self.last) {
            (Ordering::Greater, false) => columns.find(found, |new: W, old| new > old),
            (Ordering::Greater, true) => columns.find(found, |new: W, old| new >= old),
            (_, false) => columns.find(found, |new: W, old| new < old),
            (_, true) => columns.find(found, |new: W, old| new <= old),
        }
    }

    /// The wanted place in a line.
    fn place<W: Wide>(&self, line: &[W]) -> usize {
        // Without NaN, vectors find the extreme, and then its place.
        let extreme = match self.wanted {
            Ordering::Greater => extreme(line, |value, best| value > best),
            _ => extreme(line, |value, best| value < best),
        };
        let at = |best: W| match self.last {
            false => line.iter().position(|&value| value == best),
            true => line.iter().rposition(|&value| value == best),
        };
        extreme.and_then(at).unwrap_or_else(|| place(line, self.wanted, self.last))
    }
}

/// Lines that lie side by side, from number `first` of all lines on.
struct Columns<'a> {
    input: &'a Tensor,
    axis: usize,
    first: usize,
}

impl Columns<'_> {
    /// For each line, the place of the element that replaces all others, some columns at a time.
    fn find<W: Wide>(&self, found: &mut [i64], replaces: impl Fn(W, W) -> bool) -> Result<(), NodeError> {
        let (_, count, inner) = around(self.input.shape(), self.axis);
        let load = |start, to: &mut [W]| {
            let run = Run { start, count: to.len(), stride: 1 };
            W::load(self.input.dtype(), self.input.bytes(), run, to)
        };
        let (mut best, mut row) = ([W::default(); CHUNK], [W::default(); CHUNK]);
        let lines = self.first..self.first + found.len();
        let (mut rest, mut pace) = (found, Pace::default());
        for Side { block, columns } in sides(lines, inner) {
            for start in columns.clone().step_by(CHUNK) {
                let (found, later) = rest.split_at_mut(CHUNK.min(columns.end - start));
                rest = later;
                let (best, row) = (&mut best[..found.len()], &mut row[..found.len()]);
                load(block * count * inner + start, best)?;
                found.fill(0);
                for place in 1..count {
                    pace.step(row.len());
                    load((block * count + place) * inner + start, row)?;
                    for ((&value, best), found) in row.iter().zip(&mut *best).zip(&mut *found) {
                        let replaces = replaces(value, *best);
                        *best = if replaces { value } else { *best };
                        *found = if replaces { place as i64 } else { *found };
                    }
                }
            }
        }
        Ok(())
    }
}

/// Elements that are compared at once: several vectors of any level.
const LANES: usize = 16;

/// The element that is better than all others; `None` where an element is NaN, or there are none.
fn extreme<W: Wide>(line: &[W], better: impl Fn(W, W) -> bool) -> Option<W> {
    let &first = line.first()?;
    let pick = |best: W, value: W| if better(value, best) { value } else { best };
    let (chunks, rest) = line.as_chunks::<LANES>();
    let (mut best, mut numbers) = ([first; LANES], [true; LANES]);
    for chunk in chunks {
        for ((best, numbers), &value) in best.iter_mut().zip(&mut numbers).zip(chunk) {
            *best = pick(*best, value);
            *numbers &= is_number(value);
        }
    }
    let numbers = numbers.iter().all(|&numbers| numbers) && rest.iter().copied().all(is_number);
    numbers.then(|| rest.iter().chain(&best).fold(first, |best, &value| pick(best, value)))
}

/// Whether a value is a number, and not NaN.
#[allow(clippy::eq_op, reason = "NaN alone differs from itself, and this comparison has vectors")]
fn is_number<W: Wide>(value: W) -> bool {
    value == value
}

fn arg<W: Wide>(node: &Arg, input: &Tensor, found: &mut [i64], parallel: &dyn Parallel) -> Result<(), NodeError> {
    let axis = axis_of(node.axis, input.shape().len())?;
    let each = found.len().div_ceil(task_count(input.byte_len(), parallel));
    try_each_chunk(parallel, found, each, &|index, found| node.find::<W>(input, axis, index * each, found))
}

impl Node for Arg {
    fn family(&self) -> &'static str {
        if self.wanted == Ordering::Greater { "ArgMax" } else { "ArgMin" }
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        Width::of(input.dtype())?;
        if input.is_empty() && !outputs[0].shape.contains(&0) {
            return Err(refused(format!("axis {} of shape {:?} has no elements", self.axis, input.shape())));
        }
        Ok(())
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        self.prepare(&self.lines(required(inputs, 0)?)?, cx)
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, mut output) = (self.lines(io.input(0)?)?, io.alloc(0)?);
        self.find_all(prepared, &input, output.as_mut_slice()?, cx)?;
        io.push(output);
        Ok(())
    }
}

struct TopK {
    /// The attribute of operator set 9 and before; without it input 1 is the number.
    count: Option<i64>,
    axis: i64,
    largest: bool,
}

fn make_top(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let count = cx.node.attributes().integer("k");
    // Sorted results are also right for a node that does not ask for an order.
    Ok(Box::new(TopK {
        count,
        axis: cx.node.attributes().int("axis"),
        largest: cx.node.attributes().int("largest") != 0,
    }))
}

impl TopK {
    fn count(&self, inputs: &[Option<&Tensor>]) -> Result<(usize, usize), NodeError> {
        let shape = required(inputs, 0)?.shape();
        let axis = axis_of(self.axis, shape.len())?;
        let count = match self.count {
            Some(count) => count,
            None => integer(required(inputs, 1)?)?,
        };
        let fits = usize::try_from(count).ok().filter(|&count| count <= shape[axis]);
        Ok((axis, fits.ok_or_else(|| refused(format!("{count} of the {} elements of axis {axis}", shape[axis])))?))
    }
}

/// An element of a line by its rank: entries that come first are less, and of equal elements the first in the line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    ordinal: u64,
    place: usize,
}

/// Puts the first `count` entries to the start, in order.
pub(crate) fn order_first<T: Ord>(entries: &mut [T], count: usize) {
    if entries.len() < Pace::UNITS {
        if count < entries.len() {
            entries.select_nth_unstable(count);
        }
        return entries[..count].sort_unstable();
    }
    // Ordering that many takes seconds.
    let mut pace = Pace::default();
    let mut compare = |a: &T, b: &T| {
        pace.step(1);
        a.cmp(b)
    };
    if count < entries.len() {
        entries.select_nth_unstable_by(count, &mut compare);
    }
    entries[..count].sort_unstable_by(&mut compare);
}

/// Whether a value is greater than another, or one of both is NaN.
#[allow(clippy::neg_cmp_op_on_partial_ord, reason = "NaN is neither below nor equal")]
fn not_below<W: Wide>(value: W, other: W) -> bool {
    !(value <= other)
}

/// Whether a value is less than another, or one of both is NaN.
#[allow(clippy::neg_cmp_op_on_partial_ord, reason = "NaN is neither above nor equal")]
fn not_above<W: Wide>(value: W, other: W) -> bool {
    !(value >= other)
}

/// Values of a line that are compared at once with the last entry that is kept.
const GROUP: usize = 32;

/// Leaves the first `count` entries of a line in `entries`, in order, and sorts few others. `beats` says of a value
/// whether it may come before another one; it is asked before ordinals are.
fn leading<W: Ordinal>(
    line: &[W],
    count: usize,
    ordinal: impl Fn(W) -> u64,
    beats: impl Fn(W, W) -> bool,
    entries: &mut Vec<Entry>,
) {
    let room = count + count.max(4 * GROUP);
    let mut last: Option<Entry> = None;
    let mut pace = Pace::default();
    for (group, values) in line.chunks(GROUP).enumerate() {
        pace.step(GROUP);
        let is_beaten = |last: Entry| values.iter().fold(false, |any, &value| any | beats(value, line[last.place]));
        if last.is_some_and(|last| !is_beaten(last)) {
            continue;
        }
        let ranked = values.iter().enumerate().map(|(at, &value)| (group * GROUP + at, ordinal(value)));
        // Of equal elements the first comes first, so a later one never replaces it.
        let ahead = ranked.filter(|&(_, ordinal)| last.is_none_or(|last| ordinal < last.ordinal));
        entries.extend(ahead.map(|(place, ordinal)| Entry { ordinal, place }));
        if entries.len() > room {
            last = Some(*entries.select_nth_unstable(count - 1).1);
            entries.truncate(count);
        }
    }
    order_first(entries, count);
}

/// For each line, the places of its first `count` elements by rank, line by line.
fn top<W: Ordinal>(
    input: &Tensor,
    axis: usize,
    count: usize,
    largest: bool,
    parallel: &dyn Parallel,
) -> Result<Vec<usize>, NodeError> {
    let (blocks, length, inner) = around(input.shape(), axis);
    let mut places = memory::zeroed(blocks * inner * count);
    let lines = (blocks * inner).div_ceil(task_count(input.len().saturating_mul(RANKING), parallel));
    try_each_chunk(parallel, &mut places, lines * count, &|index, places| {
        let (mut line, mut entries) = (memory::zeroed(length), memory::with_capacity(length));
        let mut pace = Pace::default();
        for (number, places) in places.chunks_exact_mut(count).enumerate() {
            let (block, column) = ((index * lines + number) / inner, (index * lines + number) % inner);
            let run = Run { start: block * length * inner + column, count: length, stride: inner as isize };
            load_long(input, run, &mut line)?;
            let ordinal = |value: W| if largest { !value.ordinal() } else { value.ordinal() };
            entries.clear();
            match (count <= length / 4, largest) {
                (true, true) => leading(&line, count, ordinal, not_below, &mut entries),
                (true, false) => leading(&line, count, ordinal, not_above, &mut entries),
                (false, _) => {
                    let ranked = line.iter().enumerate();
                    let ranked = ranked.map(|(place, &value)| Entry { ordinal: ordinal(value), place });
                    ranked.collected_into(&mut entries);
                    pace.step(length);
                    order_first(&mut entries, count);
                }
            }
            places.iter_mut().zip(&entries).for_each(|(to, entry)| *to = entry.place);
        }
        Ok(())
    })?;
    Ok(places)
}

/// Ranking an element of a line takes as long as moving this many bytes.
const RANKING: usize = 64;

impl Node for TopK {
    fn family(&self) -> &'static str {
        "TopK"
    }

    fn value_inputs(&self) -> u64 {
        u64::from(self.count.is_none()) << 1
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        Width::of(required(inputs, 0)?.dtype()).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (axis, count) = self.count(&io.inputs())?;
        let (input, values, mut indices) = (io.input(0)?, io.alloc(0)?, io.alloc(1)?);
        let mut places = memory::zeroed(indices.len());
        if !indices.is_empty() {
            let found = dispatch!(Width::of(input.dtype())?, top(input, axis, count, self.largest, cx.parallel))?;
            let numbers = indices.as_mut_slice::<i64>()?;
            let runs = lines(input.shape(), axis).zip(lines(values.shape(), axis));
            let mut pace = Pace::default();
            for ((from, to), found) in runs.zip(found.chunks_exact(count)) {
                for (number, &place) in found.iter().enumerate() {
                    pace.step(1);
                    numbers[to.at(number)] = place as i64;
                    places[to.at(number)] = from.at(place);
                }
            }
        }
        let values = rearrange(&Elements { places: &places, parallel: cx.parallel }, &[input], values)?;
        io.push(values);
        io.push(indices);
        Ok(())
    }
}

/// One at the place of the greatest element of a line, zero elsewhere.
struct Hardmax {
    axis: i64,
    /// Before operator set 13 the line was everything from the axis on.
    flat: bool,
}

/// The search that Hardmax makes, in an array `[outer, length, inner]`.
const FIRST_GREATEST: Arg = Arg { wanted: Ordering::Greater, axis: 1, last: false };

impl Hardmax {
    /// The input as an array whose middle axis is searched.
    fn lines(&self, input: &Tensor) -> Result<Tensor, NodeError> {
        let axis = axis_of(self.axis, input.shape().len())?;
        let (outer, length, inner) = match around(input.shape(), axis) {
            (outer, length, inner) if self.flat => (outer, length * inner, 1),
            lines => lines,
        };
        Ok(input.reshaped([outer, length, inner])?)
    }

    /// Sets the element of `output`, which has zeros, at the greatest element of each line.
    fn mark<T: Element>(
        &self,
        prepared: &Prepared,
        input: &Tensor,
        one: T,
        output: &mut Tensor,
        cx: &RunCx<'_>,
    ) -> Result<(), NodeError> {
        if input.is_empty() {
            return Ok(());
        }
        let lines = self.lines(input)?;
        let &[outer, length, inner] = lines.shape() else { return Ok(()) };
        let mut places = memory::zeroed(outer * inner);
        FIRST_GREATEST.find_all(prepared, &lines, &mut places, cx)?;
        let output = output.as_mut_slice::<T>()?;
        for (line, place) in places.into_iter().enumerate() {
            output[(line / inner * length + place as usize) * inner + line % inner] = one;
        }
        Ok(())
    }
}

impl Node for Hardmax {
    fn family(&self) -> &'static str {
        "Hardmax"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        axis_of(self.axis, input.shape().len())?;
        match input.dtype() {
            dtype if dtype.is_float() => Ok(()),
            dtype => Err(NodeError::Unsupported(format!("elements of type {dtype}"))),
        }
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        FIRST_GREATEST.prepare(&self.lines(required(inputs, 0)?)?, cx)
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, mut output) = (io.input(0)?, io.alloc(0)?);
        memory::fill(output.bytes_mut(), &0);
        match input.dtype() {
            DType::F64 => self.mark(prepared, input, 1.0, &mut output, cx)?,
            DType::F16 => self.mark(prepared, input, f16::ONE, &mut output, cx)?,
            DType::BF16 => self.mark(prepared, input, bf16::ONE, &mut output, cx)?,
            _ => self.mark(prepared, input, 1f32, &mut output, cx)?,
        }
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Trial;

    #[test]
    fn extremes_are_found_at_their_first_or_last_place() {
        let arg = |op: &str| Trial::new(op).int("keepdims", 0).int("axis", 1).input(&[2, 3], &[2i32, 5, 5, 1, 1, 3]);
        arg("ArgMax").gives(&[2], &[1i64, 2]);
        arg("ArgMax").int("select_last_index", 1).gives(&[2], &[2i64, 2]);
        arg("ArgMin").gives(&[2], &[0i64, 0]);
        arg("ArgMin").int("select_last_index", 1).gives(&[2], &[0i64, 1]);
        arg("ArgMax").int("axis", -2).int("keepdims", 1).gives(&[1, 3], &[0i64, 0, 0]);
        Trial::new("ArgMax").input(&[3], &[1f32, f32::NAN, 2.0]).gives(&[1], &[2i64]);
        Trial::new("ArgMax").input::<f32>(&[0, 2], &[]).is_refused("no elements");
        Trial::new("ArgMax").int("axis", 1).input::<f32>(&[0, 2], &[]).gives::<i64>(&[0, 1], &[]);
        Trial::new("ArgMax").int("axis", 2).input::<f32>(&[0, 2], &[]).is_refused("axis 2");
        for axis in [0, -1] {
            Trial::new("ArgMax").int("axis", axis).input(&[], &[7f32]).gives(&[], &[0i64]);
            Trial::new("ArgMin").int("axis", axis).input(&[], &[7i64]).gives(&[], &[0i64]);
        }
        Trial::new("ArgMax").int("axis", 1).input(&[], &[7f32]).is_refused("axis 1");
    }

    #[test]
    fn the_first_few_come_in_order_and_equals_by_place() {
        let top = |values: &[f32], count: i64| {
            Trial::new("TopK").outputs(2).input(&[values.len()], values).input(&[1], &[count])
        };
        let both = |trial: Trial| {
            let outputs = trial.run().unwrap();
            (outputs[0].as_slice::<f32>().unwrap().to_vec(), outputs[1].as_slice::<i64>().unwrap().to_vec())
        };
        assert_eq!(both(top(&[1.0, 3.0, 3.0, 2.0], 3)), (vec![3.0, 3.0, 2.0], vec![1, 2, 3]));
        assert_eq!(both(top(&[1.0, 3.0, 1.0, 2.0], 3).int("largest", 0)), (vec![1.0, 1.0, 2.0], vec![0, 2, 3]));
        assert_eq!(both(top(&[1.0], 0)), (vec![], vec![]));
        top(&[1.0], 2).is_refused("2 of the 1");
        top(&[1.0], -1).is_refused("-1 of the 1");
        let columns = Trial::new("TopK").outputs(2).int("axis", 0).input(&[2, 2], &[1u8, 9, 7, 2]).input(&[1], &[1i64]);
        columns.gives(&[1, 2], &[7u8, 9]);
        Trial::new("TopK").version(9).outputs(2).int("k", 1).input(&[2], &[f16::ONE, f16::NAN]).run().unwrap();
    }

    #[test]
    fn few_of_many_are_what_a_whole_order_gives() {
        let values: Vec<f32> = (0..3000)
            .map(|at| match (at * 7919) % 1009 {
                13 => f32::NAN,
                17 => f32::INFINITY,
                19 => -0.0,
                other => ((other % 97) as f32 - 48.0) / 4.0,
            })
            .collect();
        for (largest, count) in [(1, 1), (0, 1), (1, 50), (0, 50), (1, 700), (0, 700)] {
            let found = Trial::new("TopK")
                .outputs(2)
                .int("largest", largest)
                .input(&[1, values.len()], &values)
                .input(&[1], &[count as i64])
                .run()
                .unwrap();
            let mut places: Vec<i64> = (0..values.len() as i64).collect();
            places.sort_by(|&a, &b| {
                let order = super::rank(values[a as usize], values[b as usize]);
                if largest == 1 { order.reverse() } else { order }
            });
            assert_eq!(found[1].as_slice::<i64>().unwrap(), &places[..count], "{largest} {count}");
        }
    }

    #[test]
    fn extremes_of_long_lines_and_of_many_columns_are_those_of_a_search_one_by_one() {
        let values: Vec<f32> = (0..600).map(|at| ((at * 37) % 41) as f32 - 20.0).collect();
        let with_nan = || values.iter().enumerate().map(|(at, &value)| if at == 333 { f32::NAN } else { value });
        for values in [values.clone(), with_nan().collect(), vec![-0.0; 600], vec![f32::NEG_INFINITY; 600]] {
            for (shape, axis) in [([2, 300], 1), ([2, 300], 0), ([600, 1], 0), ([1, 600], 1)] {
                for (op, wanted) in [("ArgMax", Ordering::Greater), ("ArgMin", Ordering::Less)] {
                    for last in [false, true] {
                        let lines =
                            lines(&shape, axis).map(|run| (0..run.count).map(|at| values[run.at(at)]).collect());
                        let want: Vec<i64> =
                            lines.map(|line: Vec<f32>| super::place(&line, wanted, last) as i64).collect();
                        let trial = Trial::new(op).int("keepdims", 0).int("axis", axis as i64).input(&shape, &values);
                        trial.int("select_last_index", i64::from(last)).gives(&[want.len()], &want);
                    }
                }
            }
        }
    }

    #[test]
    fn comparisons_from_the_front_decide_where_something_is_not_a_number() {
        let nan = f32::NAN;
        let rows = [[1.0, nan, 3.0, 2.0], [nan, nan, 0.0, 1.0], [5.0, 4.0, nan, nan], [-1.0, -2.0, -3.0, nan]];
        // Results of ONNX Runtime 1.32, of lines along either axis.
        for (op, last, want) in [
            ("ArgMax", 0, [2i64, 0, 0, 0]),
            ("ArgMax", 1, [2, 0, 0, 0]),
            ("ArgMin", 0, [0, 0, 1, 2]),
            ("ArgMin", 1, [0, 0, 1, 2]),
        ] {
            let trial = || Trial::new(op).int("keepdims", 0).int("select_last_index", last);
            trial().int("axis", 1).input(&[4, 4], rows.as_flattened()).gives(&[4], &want);
            let columns: Vec<f32> = (0..16).map(|at| rows[at % 4][at / 4]).collect();
            trial().int("axis", 0).input(&[4, 4], &columns).gives(&[4], &want);
        }
    }

    #[test]
    fn ordinals_rise_with_the_rank() {
        let floats = [f64::NEG_INFINITY, -1e300, -1.0, -1e-310, -0.0, 1e-310, 1.0, f64::INFINITY, f64::NAN];
        assert!(floats.is_sorted_by(|a, b| a.ordinal() < b.ordinal()));
        assert!(floats.map(|value| value as f32).is_sorted_by(|a, b| a.ordinal() <= b.ordinal()));
        assert_eq!((0.0f32.ordinal(), (-f64::NAN).ordinal()), ((-0.0f32).ordinal(), f64::NAN.ordinal()));
        assert!([i64::MIN, -1, 0, 1, i64::MAX].is_sorted_by(|a, b| a.ordinal() < b.ordinal()));
    }

    #[test]
    fn the_first_few_of_columns_are_found_on_every_thread() {
        let values: Vec<f32> = (0..40_000).map(|at| ((at * 7919) % 10_007) as f32).collect();
        let row = |threads| {
            let trial = Trial::new("TopK").outputs(2).int("axis", 0).input(&[200, 200], &values).input(&[1], &[7i64]);
            trial.threads(threads).run().unwrap()
        };
        let (alone, together) = (row(1), row(3));
        assert!(alone.iter().zip(&together).all(|(a, b)| a.same(b)));
        let column: Vec<f32> = (0..200).map(|row| values[row * 200 + 199]).collect();
        let mut order: Vec<usize> = (0..200).collect();
        order.sort_by(|&a, &b| column[b].total_cmp(&column[a]));
        let (found, indices) = (together[0].as_slice::<f32>().unwrap(), together[1].as_slice::<i64>().unwrap());
        let at = |place: usize| (found[place * 200 + 199], indices[place * 200 + 199] as usize);
        assert!((0..7).all(|place| at(place) == (column[order[place]], order[place])));
    }

    #[test]
    fn hardmax_marks_the_first_greatest_of_each_line() {
        let row = || Trial::new("Hardmax").input(&[2, 2, 2], &[1f32, 1.0, 0.0, 2.0, 5.0, 3.0, 4.0, 6.0]);
        row().gives(&[2, 2, 2], &[1f32, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
        row().version(11).gives(&[2, 2, 2], &[0f32, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        row().int("axis", 0).gives(&[2, 2, 2], &[0f32, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
        row().int("axis", 1).gives(&[2, 2, 2], &[1f32, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
        Trial::new("Hardmax").input(&[3], &[1f64, 3.0, 3.0]).gives(&[3], &[0f64, 1.0, 0.0]);
        let halves = [1.0, -3.0, 2.0].map(f16::from_f32);
        Trial::new("Hardmax").input(&[3], &halves).gives(&[3], &[f16::ZERO, f16::ZERO, f16::ONE]);
        Trial::new("Hardmax").input::<f32>(&[2, 0], &[]).gives::<f32>(&[2, 0], &[]);
    }
}
