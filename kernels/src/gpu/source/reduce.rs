//! Reductions of the middle axis of `[outer, length, inner]` to `[outer, inner]`.
//!
//! Contiguous rows are reduced by a warp or a block. Columns are reduced by neighbouring threads, whose loads coalesce:
//! short columns by one thread each, long ones by eight. Several axes are several reductions: the first applies the
//! map, the last the post-op.

use serde::{Deserialize, Serialize};

use super::fold::Team;
use super::functions::literal;
use super::{
    Kernel, KernelCode, THREADS, index_type, is_wide, launch_blocks, launch_each, operand, parameters, product, source,
};
use crate::cpu::reduce::{Fold, Map, PostOp, Reduction};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device reduce";

/// Columns of a block, and the slices that each column is divided into, where columns are long.
const COLUMNS: u64 = 32;
const SLICES: u64 = 8;

/// The least elements of a long column: four for each of its threads.
const LONG: u64 = 4 * SLICES;

/// The threads that reduce to an element of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Shape {
    /// A team, along a row.
    Row(Team),
    /// A thread, along a column.
    Column,
    /// Eight threads of different warps, along a column.
    Slices,
}

/// What shapes the instructions of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceCode {
    /// The threads that reduce to an element.
    pub shape: Shape,
    /// The fold.
    pub fold: Fold,
    /// Applied to elements before the fold.
    pub map: Map,
    /// Applied to results, after the scaling.
    pub post_op: PostOp,
    /// Whether indices have 64 bits.
    pub wide: bool,
}

/// A reduction at its sizes.
#[derive(Debug)]
pub struct ReduceKernel {
    code: ReduceCode,
    outer: u64,
    length: u64,
    inner: u64,
    scale: f32,
    elements: u64,
    outputs: u64,
}

impl ReduceKernel {
    /// Reduces the middle axis; no elements give the fold's identity. Inputs: the tensor.
    ///
    /// # Errors
    ///
    /// Unsupported for sizes beyond any memory.
    pub fn new(outer: u64, length: u64, inner: u64, fold: Fold, map: Map, post_op: PostOp) -> Result<ReduceKernel> {
        let (elements, outputs) = (product(FAMILY, &[outer, length, inner])?, product(FAMILY, &[outer, inner])?);
        let shape = match inner {
            1 => Shape::Row(Team::of(length)),
            _ if length < LONG => Shape::Column,
            _ => Shape::Slices,
        };
        let code = ReduceCode { shape, fold, map, post_op, wide: is_wide(elements.max(outputs)) };
        Ok(ReduceKernel { code, outer, length, inner, scale: 1.0, elements, outputs })
    }

    /// A reduction of ONNX.
    ///
    /// # Errors
    ///
    /// As [`new`](ReduceKernel::new).
    pub fn of(reduction: Reduction, outer: u64, length: u64, inner: u64) -> Result<ReduceKernel> {
        let pass = reduction.pass();
        let kernel = ReduceKernel::new(outer, length, inner, pass.fold, pass.map, pass.post_op)?;
        Ok(if reduction == Reduction::Mean { kernel.scaled(1.0 / length as f32) } else { kernel })
    }

    /// The same reduction, with folds multiplied by `scale` before the post-op; logarithms of sums are not multiplied.
    #[must_use]
    pub fn scaled(self, scale: f32) -> ReduceKernel {
        ReduceKernel { scale, ..self }
    }
}

/// A fold's name, the expression that combines `value` and `other`, and its identity.
fn combination(fold: Fold) -> (&'static str, &'static str, f32) {
    match fold {
        Fold::Add => ("add", "value + other", 0.0),
        Fold::Mul => ("mul", "value * other", 1.0),
        // A comparison with NaN is false, so NaN wins on either side.
        Fold::Max => ("max", "value != value || value > other ? value : other", f32::NEG_INFINITY),
        Fold::Min => ("min", "value != value || value < other ? value : other", f32::INFINITY),
        // The maximum, which is subtracted first; a NaN that the maximum loses shows in the sum.
        Fold::LogAddExp => ("most", "fmaxf(value, other)", f32::NEG_INFINITY),
    }
}

impl ReduceCode {
    pub(super) fn source(self) -> Source {
        let (name, combine, identity) = combination(self.fold);
        let folds = match self.fold {
            Fold::LogAddExp => vec![(name, combine), ("add", "value + other")],
            _ => vec![(name, combine)],
        };
        let helpers = match self.shape {
            Shape::Row(team) => team.text(&folds),
            Shape::Column => folds.iter().map(|(name, _)| alone(name)).collect(),
            Shape::Slices => folds.iter().map(|(name, combine)| slices(name, combine)).collect(),
        };
        // The first output and the step to the next; then the first element, step and stride of the reduction; and
        // whether this thread writes.
        let (first, step, from, by, stride, writes) = match self.shape {
            Shape::Row(_) => ("TEAM_ROW", "TEAM_ROWS", "TEAM_PLACE", "TEAM_SIZE", "1", "TEAM_PLACE == 0"),
            Shape::Column => ("KILN_START", "KILN_STEP", "0", "1", "(Index)inner", "1"),
            Shape::Slices => {
                let writes = "KILN_THREAD_Y == 0 && column < (Index)inner";
                ("KILN_BLOCK_X", "KILN_BLOCKS_X", "KILN_THREAD_Y", "8", "(Index)inner", writes)
            }
        };
        // A block's columns belong to one matrix; threads beyond the last column fold nothing.
        let place = match self.shape {
            Shape::Row(_) => {
                "        Index to = unit, start = unit * (Index)length;\n        Index end = (Index)length;\n"
            }
            Shape::Column => {
                "        Index to = unit, end = (Index)length;\n        \
                 Index start = unit / (Index)inner * (Index)length * (Index)inner + unit % (Index)inner;\n"
            }
            Shape::Slices => {
                "        Index blocks = ((Index)inner + 31) / 32, slice = unit / blocks;\n        \
                 Index column = unit % blocks * 32 + KILN_THREAD_X;\n        \
                 Index to = slice * (Index)inner + column;\n        \
                 Index start = slice * (Index)length * (Index)inner + column;\n        \
                 Index end = column < (Index)inner ? (Index)length : 0;\n"
            }
        };
        let map = match self.map {
            Map::Identity => "x",
            Map::Abs => "fabsf(x)",
            Map::Square => "x * x",
        };
        let each = |start: &str, line: &str| {
            format!(
                "        value = {start};\n        for (Index at = {from}; at < end; at += {by}) {{\n            \
                 float x = in[start + at * {stride}];\n            {line}\n        }}\n"
            )
        };
        let identity = literal(identity.into());
        let mut folding = each(&identity, &format!("float other = {map};\n            value = {combine};"));
        folding += &format!("        value = fold_{name}(value);\n");
        if self.fold == Fold::LogAddExp {
            // Infinite maxima are subtracted as zero: their exponential is right by itself.
            folding += "        float most = fabsf(value) == KILN_BITS(0x7f800000u) ? 0.0f : value;\n";
            folding += &each("0.0f", &format!("value += expf({map} - most);"));
            folding += "        value = logf(fold_add(value)) + most;\n";
        } else {
            folding += "        value *= scale;\n";
        }
        let finish = match self.post_op {
            PostOp::None => "value",
            PostOp::Sqrt => "sqrtf(value)",
            PostOp::Log => "logf(value)",
        };
        let body = format!(
            "    for (Index unit = {first}; unit < (Index)units; unit += {step}) {{\n{place}        float value;\n{folding}        \
             if ({writes}) out[to] = {finish};\n    }}\n"
        );
        let list = [("const float*", "in"), ("float*", "out"), ("long long", "units"), ("long long", "length")];
        let list: Vec<_> = list.into_iter().chain([("long long", "inner"), ("float", "scale")]).collect();
        source("kiln_reduce", &format!("{}{helpers}", index_type(self.wide)), &parameters(&list), &body)
    }
}

/// A fold by one thread.
fn alone(name: &str) -> String {
    format!("KILN_DEVICE float fold_{name}(float value) {{ return value; }}\n")
}

/// A fold over the threads of a block that have the same column.
fn slices(name: &str, combine: &str) -> String {
    format!(
        "KILN_DEVICE float fold_{name}(float value)
{{
    KILN_SHARED float parts[{SLICES}][{COLUMNS}];
    KILN_SYNC();
    parts[KILN_THREAD_Y][KILN_THREAD_X] = value;
    KILN_SYNC();
    value = parts[0][KILN_THREAD_X];
    for (u32 part = 1; part < {SLICES}; ++part) {{
        float other = parts[part][KILN_THREAD_X];
        value = {combine};
    }}
    return value;
}}
"
    )
}

impl Kernel for ReduceKernel {
    fn code(&self) -> KernelCode {
        KernelCode::Reduce(self.code)
    }

    fn launch(&self, module: &dyn Module, inputs: &[Option<&Region>], output: &Region) -> Result<()> {
        let input = operand(FAMILY, inputs, 0, self.elements, 4)?;
        output.holds(FAMILY, "output", self.outputs, 4)?;
        if self.outputs == 0 {
            return Ok(());
        }
        let units = match self.code.shape {
            Shape::Row(_) | Shape::Column => self.outputs,
            Shape::Slices => self.outer * self.inner.div_ceil(COLUMNS),
        };
        let [count, length, inner] = [units, self.length, self.inner].map(|size| Arg::I64(size as i64));
        let (from, to) = (Arg::Memory(Some(input)), Arg::Memory(Some(output)));
        let args = [from, to, count, length, inner, Arg::F32(self.scale)];
        match self.code.shape {
            Shape::Row(team) => launch_blocks(module, team.blocks(units), [THREADS, 1, 1], &args),
            Shape::Column => launch_each(module, units, &args),
            Shape::Slices => launch_blocks(module, units, [COLUMNS as u32, SLICES as u32, 1], &args),
        }
    }
}
