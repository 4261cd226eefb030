//! Reductions on every element type, in plain Rust: what runs where no kernel does, and the oracle where one does.
//!
//! The reduced axes are read innermost through a [`View`], a row of them at a time. Where lines lie side by side, rows
//! of their elements are combined.

use std::ops::Range;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use kiln_kernels::Parallel;
use kiln_kernels::memory::{self, Pace};
use kiln_model::NodeDesc;
use kiln_model::operators::shapes::is_whole_scalar;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::arithmetic::{Arithmetic, Binary, Unary};
use super::{LoadCx, OpError, Reader};
use crate::wide::{Wide, Width, limits, widened};
use crate::{Axes, Run, Side, View, axes_of, integers, optional, required, sides, task_count, try_each_chunk};

/// Makes the node of any `Reduce*` operator, for inputs of any numeric type, and booleans in ReduceMax and ReduceMin.
///
/// Axes are an attribute or input 1, in every version of each operator. The type is looked at when the node runs.
pub fn make_reduce(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    Ok(Box::new(Reduce {
        kind: Kind::of(node)?,
        fixed_axes: node.ints("axes").map(<[i64]>::to_vec),
        none_means_none: node.attributes().int("noop_with_empty_axes") != 0,
    }))
}

/// The axes that a reduction reduces: those of the attribute, or of input 1; all where none are named, or none where
/// `none_means_none`.
pub(crate) fn reduced_axes(
    fixed: Option<&[i64]>,
    none_means_none: bool,
    inputs: &[Option<&Tensor>],
) -> Result<Axes, NodeError> {
    let rank = required(inputs, 0)?.shape().len();
    let given = match (fixed, optional(inputs, 1)) {
        (Some(axes), _) => axes.to_vec(),
        (None, Some(input)) => integers(input)?,
        (None, None) => Vec::new(),
    };
    if given.is_empty() && !none_means_none {
        return Ok((0..rank).collect());
    }
    if is_whole_scalar(&given, rank) {
        return Ok(Axes::new());
    }
    axes_of(&given, rank)
}

struct Reduce {
    kind: Kind,
    fixed_axes: Option<Vec<i64>>,
    /// Without axes nothing is reduced, instead of everything.
    none_means_none: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    L1,
    L2,
    SumSquare,
    LogSum,
    LogSumExp,
}

impl Kind {
    fn of(node: &NodeDesc) -> Result<Kind, OpError> {
        Ok(match node.op.as_str() {
            "ReduceSum" => Kind::Sum,
            "ReduceMean" => Kind::Mean,
            "ReduceMax" => Kind::Max,
            "ReduceMin" => Kind::Min,
            "ReduceProd" => Kind::Prod,
            "ReduceL1" => Kind::L1,
            "ReduceL2" => Kind::L2,
            "ReduceSumSquare" => Kind::SumSquare,
            "ReduceLogSum" => Kind::LogSum,
            "ReduceLogSumExp" => Kind::LogSumExp,
            other => return Err(OpError::Unknown(other.to_owned())),
        })
    }

    fn width(self, dtype: DType) -> Result<Width, NodeError> {
        // These have intermediate results that are no integers.
        if dtype.is_float() || matches!(self, Kind::Mean | Kind::L2 | Kind::LogSum | Kind::LogSumExp) {
            return Ok(Width::F64);
        }
        Width::of(dtype)
    }

    /// What combines two elements.
    fn step(self) -> Binary {
        match self {
            Kind::Max => Binary::Max,
            Kind::Min => Binary::Min,
            Kind::Prod => Binary::Mul,
            _ => Binary::Add,
        }
    }

    /// Replaces elements by what is combined of each.
    fn begin<W: Arithmetic>(self, values: &mut [W]) -> Result<(), NodeError> {
        match self {
            Kind::L1 => W::unary(Unary::Abs, values),
            Kind::L2 | Kind::SumSquare => {
                let same = memory::copied(values);
                W::long_binary(Binary::Mul, values, &same)
            }
            _ => Ok(()),
        }
    }

    /// The result for a combination of `count` elements.
    fn end<W: Arithmetic>(self, value: W, count: usize) -> Result<W, NodeError> {
        match self {
            Kind::Mean => Ok(value.divided(count)),
            Kind::L2 => value.root(),
            Kind::LogSum => value.log(),
            _ => Ok(value),
        }
    }

    /// Reduces a row, whose values are overwritten.
    fn row<W: Arithmetic>(self, row: &mut [W], empty: W) -> Result<W, NodeError> {
        self.begin(row)?;
        Ok(W::fold(self.step(), row)?.unwrap_or(empty))
    }
}

/// The reduction of no elements: zero, one, or the type's least or greatest value.
fn of_nothing<W: Wide>(kind: Kind, dtype: DType) -> Result<W, NodeError> {
    // The only other type is booleans: false and true.
    let (least, greatest) = limits(dtype).unwrap_or((0, 1));
    let value = match (kind, dtype.is_float()) {
        (Kind::Max, true) => Tensor::scalar(f64::NEG_INFINITY),
        (Kind::Min, true) => Tensor::scalar(f64::INFINITY),
        (Kind::Max, false) => Tensor::scalar(least),
        (Kind::Min, false) => Tensor::scalar(greatest),
        (Kind::Prod, _) => Tensor::scalar(1i64),
        _ => Tensor::scalar(0i64),
    };
    Ok(widened::<W>(&value)?[0])
}

impl Reduce {
    /// The axes to reduce.
    fn axes(&self, inputs: &[Option<&Tensor>]) -> Result<Axes, NodeError> {
        reduced_axes(self.fixed_axes.as_deref(), self.none_means_none, inputs)
    }

    fn compute<W: Arithmetic>(&self, io: &Io<'_>, parallel: &dyn Parallel) -> Result<Tensor, NodeError> {
        let (input, mut output) = (io.input(0)?, io.alloc(0)?);
        let axes = self.axes(&io.inputs())?;
        let count: usize = axes.iter().map(|&axis| input.shape()[axis]).product();
        let (dtype, size) = (output.dtype(), output.dtype().size());
        let tasks = task_count(input.len().saturating_mul(size_of::<W>()), parallel);
        let share = output.len().div_ceil(tasks);
        if let Some(inner) = lines_side_by_side(input.shape(), &axes).filter(|_| self.kind != Kind::LogSumExp) {
            let columns = Columns { node: self, input, count, inner };
            try_each_chunk(parallel, output.bytes_mut(), share * size, &|index, bytes| {
                let first = index * share;
                columns.reduce::<W>(first..first + bytes.len() / size, dtype, bytes)
            })?;
            return Ok(output);
        }
        if let Some(fold) = native_rows(self.kind, dtype).filter(|_| is_last(input.shape(), &axes) && count > 0) {
            let from = input.bytes();
            try_each_chunk(parallel, output.bytes_mut(), share * size, &|index, bytes| {
                let mut pace = Pace::default();
                let rows = (Pace::UNITS / count).max(1);
                for (at, to) in bytes.chunks_mut(rows * size).enumerate() {
                    pace.step(rows * count);
                    let first = (index * share + at * rows) * count * size;
                    fold(&from[first..][..to.len() * count], count, to);
                }
                Ok(())
            })?;
            return Ok(output);
        }
        let (view, empty) = (View::with_inner(input.shape(), &axes), of_nothing::<W>(self.kind, input.dtype())?);
        try_each_chunk(parallel, output.bytes_mut(), share * size, &|index, bytes| {
            let cursor = View::cursor_at(&view, index * share * count);
            let mut reader = Reader { tensor: input, cursor, pace: Pace::default() };
            let (mut row, mut pace) = (memory::zeroed(count), Pace::default());
            for to in bytes.chunks_exact_mut(size) {
                pace.step(1 + count);
                reader.read(&mut row)?;
                W::store(&[self.finish(&mut row, empty)?], dtype, to)?;
            }
            Ok(())
        })?;
        Ok(output)
    }

    fn finish<W: Arithmetic>(&self, row: &mut [W], empty: W) -> Result<W, NodeError> {
        let count = row.len();
        if self.kind == Kind::LogSumExp {
            return W::log_sum_exp(row);
        }
        let value = self.kind.row(row, empty)?;
        self.kind.end(value, count)
    }
}

/// Folds rows of that many elements as they are stored.
type Rows = fn(&[u8], usize, &mut [u8]);

/// The loop over rows of whole numbers, where folding elements as they are stored gives the bits of the wide type.
fn native_rows(kind: Kind, dtype: DType) -> Option<Rows> {
    macro_rules! rows {
        ($type:ident) => {
            match kind {
                Kind::Sum => |from, count, to| fold_rows(from, count, to, $type::wrapping_add),
                Kind::Prod => |from, count, to| fold_rows(from, count, to, $type::wrapping_mul),
                Kind::Max => |from, count, to| fold_rows(from, count, to, $type::max),
                Kind::Min => |from, count, to| fold_rows(from, count, to, $type::min),
                _ => return None,
            }
        };
    }
    Some(match dtype {
        DType::I32 => rows!(i32),
        DType::I64 => rows!(i64),
        _ => return None,
    })
}

fn fold_rows<T: Pod>(from: &[u8], count: usize, to: &mut [u8], step: impl Fn(T, T) -> T + Copy) {
    let (from, to): (&[T], &mut [T]) = (cast_slice(from), cast_slice_mut(to));
    match count {
        2 => fold_rows_of::<T, 2>(from, to, step),
        3 => fold_rows_of::<T, 3>(from, to, step),
        4 => fold_rows_of::<T, 4>(from, to, step),
        _ => {
            for (row, to) in from.chunks_exact(count).zip(to) {
                *to = row[1..].iter().fold(row[0], |folded, &value| step(folded, value));
            }
        }
    }
}

fn fold_rows_of<T: Pod, const COUNT: usize>(from: &[T], to: &mut [T], step: impl Fn(T, T) -> T) {
    for (row, to) in from.as_chunks::<COUNT>().0.iter().zip(to) {
        *to = row[1..].iter().fold(row[0], |folded, &value| step(folded, value));
    }
}

/// Whether the reduced axes are the last ones.
fn is_last(shape: &[usize], axes: &[usize]) -> bool {
    let kept = (0..shape.len()).rev().find(|axis| !axes.contains(axis) && shape[*axis] != 1);
    kept.is_none_or(|kept| axes.iter().all(|&axis| axis > kept || shape[axis] == 1))
}

/// How many lines lie side by side, where the reduced axes follow each other and more than one element is behind them.
fn lines_side_by_side(shape: &[usize], axes: &[usize]) -> Option<usize> {
    let (&first, &last) = (axes.iter().min()?, axes.iter().max()?);
    let inner: usize = shape[last + 1..].iter().product();
    let is_dense = (first..=last).all(|axis| axes.contains(&axis) || shape[axis] == 1);
    (is_dense && inner > 1 && !shape.contains(&0)).then_some(inner)
}

/// Lines along an axis that lie side by side: whole rows of their elements are combined.
struct Columns<'a> {
    node: &'a Reduce,
    input: &'a Tensor,
    /// Elements of a line.
    count: usize,
    /// Lines that lie side by side.
    inner: usize,
}

/// Elements that are combined at once: they stay in L2. A few neighbours of a row are worth more elements than that.
const TOGETHER: usize = 1 << 14;
const NEIGHBOURS: usize = 8;
const MOST: usize = 1 << 18;

impl Columns<'_> {
    /// Reduces those lines. The elements of each are combined in the order of [`Arithmetic::fold`].
    fn reduce<W: Arithmetic>(&self, lines: Range<usize>, dtype: DType, to: &mut [u8]) -> Result<(), NodeError> {
        let Columns { node: Reduce { kind, .. }, input, count, inner } = *self;
        let most = (TOGETHER / count).max(NEIGHBOURS.min(MOST / count)).clamp(1, lines.len().max(1));
        let (mut block, mut rest, mut pace) = (memory::zeroed(count * most), to, Pace::default());
        for Side { block: number, columns } in sides(lines, inner) {
            for first in columns.clone().step_by(most) {
                let width = most.min(columns.end - first);
                let block = &mut block[..count * width];
                for (row, to) in block.chunks_exact_mut(width).enumerate() {
                    pace.step(width);
                    let start = (number * count + row) * inner + first;
                    W::load(input.dtype(), input.bytes(), Run { start, count: width, stride: 1 }, to)?;
                }
                kind.begin(block)?;
                let mut length = count;
                while length > 1 {
                    let half = length / 2;
                    let (left, right) = block[..length * width].split_at_mut((length - half) * width);
                    W::long_binary(kind.step(), &mut left[..half * width], right)?;
                    length -= half;
                }
                for value in &mut block[..width] {
                    *value = kind.end(*value, count)?;
                }
                let (now, later) = std::mem::take(&mut rest).split_at_mut(width * dtype.size());
                W::store(&block[..width], dtype, now)?;
                rest = later;
            }
        }
        Ok(())
    }
}

impl Node for Reduce {
    fn family(&self) -> &'static str {
        "generic"
    }

    fn value_inputs(&self) -> u64 {
        u64::from(self.fixed_axes.is_none()) << 1
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let dtype = required(inputs, 0)?.dtype();
        let booleans = matches!(self.kind, Kind::Max | Kind::Min);
        let stored_only = dtype.is_minifloat() || dtype.is_small_integer();
        if dtype == DType::String || stored_only || dtype == DType::Bool && !booleans {
            return Err(NodeError::Unsupported(format!("elements of type {dtype}")));
        }
        Ok(())
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let output = match self.kind.width(io.input(0)?.dtype())? {
            Width::F32 | Width::F64 => self.compute::<f64>(io, cx.parallel)?,
            Width::I64 => self.compute::<i64>(io, cx.parallel)?,
            Width::U64 => self.compute::<u64>(io, cx.parallel)?,
        };
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, bools};

    fn reduce(op: &str) -> Trial {
        Trial::new(op).made_by(make_reduce)
    }

    #[test]
    fn every_reduction_of_every_kind_of_number() {
        let row = |op| reduce(op).int("keepdims", 0).input(&[2, 3], &[1i32, -2, 3, 4, 5, -6]).input(&[1], &[1i64]);
        let table = [
            ("ReduceSum", [2, 3]),
            ("ReduceMean", [0, 1]),
            ("ReduceMax", [3, 5]),
            ("ReduceMin", [-2, -6]),
            ("ReduceProd", [-6, -120]),
            ("ReduceL1", [6, 15]),
            ("ReduceL2", [3, 8]),
            ("ReduceSumSquare", [14, 77]),
        ];
        for (op, expected) in table {
            row(op).gives(&[2], &expected);
        }
        reduce("ReduceLogSum").input(&[2], &[0.5f64, 0.5]).gives(&[1], &[0f64]);
        reduce("ReduceLogSumExp").input(&[2], &[1000f64, f64::NEG_INFINITY]).gives(&[1], &[1000f64]);
        reduce("ReduceMax").input(&[2], &bools([false, true])).gives(&[1], &bools([true]));
        reduce("ReduceSum").input(&[2], &[u64::MAX, 2]).gives(&[1], &[1u64]);
        reduce("ReduceSum").input(&[2], &bools([false, true])).is_refused("bool");
    }

    #[test]
    fn axes_come_from_the_attribute_the_input_or_not_at_all() {
        let ramp: Vec<i64> = (0..8).collect();
        let cube = || reduce("ReduceSum").input(&[2, 2, 2], &ramp);
        cube().gives(&[1, 1, 1], &[28i64]);
        cube().int("noop_with_empty_axes", 1).gives(&[2, 2, 2], &ramp);
        cube().ints("axes", &[0, -1]).gives(&[1, 2, 1], &[10i64, 18]);
        cube().int("keepdims", 0).input(&[1], &[-2i64]).gives(&[2, 2], &[2i64, 4, 10, 12]);
        cube().input(&[2], &[0i64, 0]).is_refused("twice");
    }

    #[test]
    fn lines_side_by_side_and_on_several_threads_have_the_bits_of_single_lines() {
        let shape = [3, 37, 50];
        let values: Vec<f64> = (0..3 * 37 * 50).map(|at| ((at * 7919) % 1009) as f64 / 311.0 - 1.5).collect();
        for op in ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"]
        {
            for axis in 0..3 {
                let whole = |threads| reduce(op).int("keepdims", 0).ints("axes", &[axis]).threads(threads);
                let all = whole(3).input(&shape, &values).run().unwrap().remove(0);
                assert!(all.same(&whole(1).input(&shape, &values).run().unwrap().remove(0)), "{op} {axis}");
                let steps = [37 * 50, 50, 1];
                let (step, count) = (steps[axis as usize], shape[axis as usize]);
                for (at, &result) in all.as_slice::<f64>().unwrap().iter().enumerate() {
                    let first = at / step * step * count + at % step;
                    let line: Vec<f64> = (0..count).map(|place| values[first + place * step]).collect();
                    reduce(op).int("keepdims", 0).input(&[count], &line).gives(&[], &[result]);
                }
            }
        }
    }

    #[test]
    fn nothing_reduces_to_the_neutral_element() {
        let nothing = |op| reduce(op).ints("axes", &[1]).int("keepdims", 0);
        nothing("ReduceSum").input::<i8>(&[2, 0], &[]).gives(&[2], &[0i8, 0]);
        nothing("ReduceProd").input::<f32>(&[1, 0], &[]).gives(&[1], &[1f32]);
        nothing("ReduceMax").input::<i16>(&[1, 0], &[]).gives(&[1], &[i16::MIN]);
        nothing("ReduceMin").input::<f32>(&[1, 0], &[]).gives(&[1], &[f32::INFINITY]);
        nothing("ReduceMin").input::<u64>(&[1, 0], &[]).gives(&[1], &[u64::MAX]);
        nothing("ReduceLogSumExp").input::<f32>(&[1, 0], &[]).gives(&[1], &[f32::NEG_INFINITY]);
        nothing("ReduceSum").input::<i8>(&[0, 3], &[]).gives::<i8>(&[0], &[]);
    }
}
