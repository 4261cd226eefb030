//! The operator on attention executors: `f32` inputs that an executor's shape can state. Plain loops do the rest.
//!
//! Packed heads are read where they are. A cache is copied once, into the operator's outputs for it, and attention
//! reads it there.

use std::sync::Arc;

use kiln_kernels::cpu::Stored;
use kiln_kernels::cpu::attention::{Attention as Executor, AttentionShape, Held, KeyRange, Operands, Strides};
use kiln_kernels::parallel::for_each_chunk;
use kiln_kernels::{Parallel, Serial};
use kiln_run::exec::attention::AttentionKey;
use kiln_run::{Io, NodeError, PrepareCx, RunCx};
use kiln_tensor::{DType, Tensor};

use super::{Attention, Heads, Plan};
use crate::{optional, strides};

/// Strides of an operand's batches, heads and rows.
fn steps(heads: Heads) -> Strides {
    let Heads { heads: count, positions, size, .. } = heads;
    let (head, row) = if heads.packed { (size, count * size) } else { (positions * size, size) };
    Strides { batch: (count * positions * size) as u64, head: head as u64, row: row as u64 }
}

/// The key of the executor that computes this, if there is one.
fn key(node: &Attention, plan: &Plan, inputs: &[Option<&Tensor>], cx: &PrepareCx<'_>) -> Option<AttentionKey> {
    let mask = optional(inputs, 3);
    let floats = [0, 1, 2, 4, 5].into_iter().filter_map(|index| optional(inputs, index));
    let fits = floats.into_iter().all(|tensor| tensor.dtype() == DType::F32)
        && node.window == [None; 2]
        && node.outputs <= 3
        && optional(inputs, 6).is_none()
        && mask.is_none_or(|mask| matches!(mask.dtype(), DType::F32 | DType::Bool))
        && mask.is_none_or(|mask| mask.shape().last() == Some(&plan.keys()) && mask.shape().len() <= 4);
    if !fits {
        return None;
    }
    let Plan { query, key, value, past } = *plan;
    let beside = mask.map(|mask| {
        let (shape, all) = (mask.shape(), strides(mask.shape()));
        // Axes from the last one on; those that are missing or one repeat.
        let step = |from_end: usize| match shape.len().checked_sub(from_end) {
            Some(axis) if shape[axis] > 1 => all[axis] as u64,
            _ => 0,
        };
        Strides { batch: step(4), head: step(3), row: step(2) }
    });
    let is_condition = mask.is_some_and(|mask| mask.dtype() == DType::Bool);
    let cached = |heads: Heads| match grows(inputs) {
        true => Heads { positions: plan.keys(), packed: false, ..heads },
        false => heads,
    };
    let shape = AttentionShape {
        batch: query.batch as u64,
        heads: query.heads as u64,
        shared: (query.heads / key.heads) as u64,
        queries: query.positions as u64,
        keys: plan.keys() as u64,
        size: query.size as u64,
        value_size: value.size as u64,
        query: steps(query),
        key: steps(cached(key)),
        key_columns: false,
        value: steps(cached(value)),
        output: steps(Heads { size: value.size, ..query }),
        mask: beside.filter(|_| !is_condition),
        keep: beside.filter(|_| is_condition),
        inverted: false,
        fill: f32::NEG_INFINITY.into(),
        scale: node.scale.unwrap_or(1.0 / (query.size as f32).sqrt()).into(),
        cap: (node.cap > 0.0).then(|| node.cap.into()),
        causal: node.causal.then_some(past as u64),
        range: KeyRange::Shape,
        held: Held::F32,
        blind_is_zero: true,
        elements: cx.computed_elements(),
        stored: Stored::F32,
        written: Stored::F32,
    };
    Some(cx.key(shape))
}

/// Whether there is a cache that the new positions join.
fn grows(inputs: &[Option<&Tensor>]) -> bool {
    optional(inputs, 4).is_some()
}

/// The executor for these inputs; `None` where plain loops are needed.
pub(super) fn prepare(
    node: &Attention,
    cx: &PrepareCx<'_>,
    inputs: &[Option<&Tensor>],
) -> Result<Option<Arc<Executor>>, NodeError> {
    key(node, &node.plan(inputs)?, inputs, cx).map(|key| cx.executor(&key)).transpose()
}

/// Computes all outputs.
pub(super) fn execute(node: &Attention, executor: &Executor, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
    let plan = node.plan(&io.inputs())?;
    let grows = grows(&io.inputs());
    // The cache with the new positions behind it, where it is an output.
    let present = |index: usize, heads: Heads| -> Result<Option<Tensor>, NodeError> {
        let wanted = node.outputs > index;
        if !wanted && !grows {
            return Ok(None);
        }
        let count = heads.batch * heads.heads * plan.keys() * heads.size;
        let mut tensor = if wanted { io.alloc(index)? } else { cx.scratch::<f32>(count)? };
        let past = io.optional(index + 3).map(Tensor::as_slice::<f32>).transpose()?.unwrap_or_default();
        join(past, io.input(index)?.as_slice()?, heads, plan.past, tensor.as_mut_slice()?, cx.parallel);
        Ok(Some(tensor))
    };
    let (keys, values) = (present(1, plan.key)?, present(2, plan.value)?);
    let mut output = io.alloc(0)?;
    let mask = io.optional(3);
    let read = |joined: &Option<Tensor>, index: usize| -> Result<Tensor, NodeError> {
        Ok(joined.as_ref().filter(|_| grows).unwrap_or(io.input(index)?).clone())
    };
    let (key, value) = (read(&keys, 1)?, read(&values, 2)?);
    let operands = Operands {
        query: io.input(0)?.as_slice()?,
        key: key.as_slice()?,
        value: value.as_slice()?,
        mask: mask.filter(|mask| mask.dtype() == DType::F32).map(Tensor::as_slice).transpose()?,
        // A boolean is a byte.
        keep: mask.filter(|mask| mask.dtype() == DType::Bool).map(Tensor::bytes),
    };
    let mut scratch = cx.scratch::<f32>(executor.scratch_len())?;
    executor.run(&operands, output.as_mut_slice()?, scratch.as_mut_slice()?, cx.parallel)?;
    drop((key, value));
    io.push(output);
    for (index, joined) in [keys, values].into_iter().enumerate() {
        if let Some(joined) = joined.filter(|_| node.outputs > index + 1) {
            io.push(joined);
        }
    }
    Ok(())
}

/// Old and new positions of each head, one copy each, heads side by side.
fn join(old: &[f32], new: &[f32], heads: Heads, past: usize, to: &mut [f32], parallel: &dyn Parallel) {
    // Elements from which waking a thread pays: a quarter of a MiB.
    const WORTH_A_THREAD: usize = 1 << 16;
    let (before, line) = (past * heads.size, (past + heads.positions) * heads.size);
    let parallel = if to.len() < WORTH_A_THREAD { &Serial } else { parallel };
    for_each_chunk(parallel, to, line, &|index, to| {
        let (kept, added) = to.split_at_mut(before);
        kept.copy_from_slice(&old[index * before..][..before]);
        if !heads.packed {
            return added.copy_from_slice(&new[index * added.len()..][..added.len()]);
        }
        let (batch, head) = (index / heads.heads, index % heads.heads);
        for (position, to) in added.chunks_exact_mut(heads.size.max(1)).enumerate() {
            to.copy_from_slice(heads.row(new, batch, head, position));
        }
    });
}
