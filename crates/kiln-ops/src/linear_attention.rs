//! LinearAttention, ONNX's and ONNX Runtime's: a state for each head of values, which decays, is corrected by what it
//! already holds for a key (the delta rule), takes in each position's key and value, and answers its queries.
//!
//! States are walked by an executor in `f32`, and in `f64` where the queries are.

use kiln_kernels::Result as KernelResult;
use kiln_kernels::cpu::linear_attention::{
    Decay, LinearAttention as Executor, Positions, Real, StateHeads, Written, plain,
};
use kiln_run::exec::linear_attention::LinearAttentionProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Element, Tensor, TensorSpec};

use super::wide::{Wide, filled, lent};
use super::{LoadCx, OpError, Operator, optional, refused, required, size_attribute, task_count};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "LinearAttention", make), ("com.microsoft", "LinearAttention", make)];

/// Most states of single positions that a window keeps.
const WIDEST: i64 = 8;

struct LinearAttention {
    queries: usize,
    /// Heads of values; each has a state.
    heads: usize,
    scale: Option<f64>,
    /// Whether the state decays, and whether it is corrected by what it already holds for a key (the delta rule).
    decays: bool,
    corrects: bool,
    /// How many of the last positions have their states kept; `None` for only the last one, without an axis.
    window: Option<usize>,
    /// Whether heads of keys, and heads of queries, may be fewer than those of values.
    is_loose: bool,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let (decays, corrects) = match node.attributes().text("update_rule") {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(OpError::unsupported(node, format!("update_rule = {other}"))),
    };
    let (queries, heads) = (size_attribute(node, "q_num_heads", 1)?, size_attribute(node, "kv_num_heads", 1)?);
    let is_loose = node.domain == "com.microsoft";
    if queries % heads != 0 && !(is_loose && heads % queries == 0) {
        return Err(OpError::invalid(node, format!("{queries} heads of queries and {heads} of values")));
    }
    let window = if is_loose { node.attributes().int("state_window") } else { 0 };
    if !(0..=WIDEST).contains(&window) {
        return Err(OpError::invalid(node, format!("state_window = {window}")));
    }
    let scale = f64::from(node.attributes().float("scale"));
    let window = usize::try_from(window).ok().filter(|&window| window > 0);
    let scale = (scale != 0.0).then_some(scale);
    Ok(Box::new(LinearAttention { queries, heads, scale, decays, corrects, window, is_loose }))
}

/// Sizes of one run.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    steps: usize,
    heads: StateHeads,
    /// Whether each head has a rate of its own, instead of one for all.
    rate_each: bool,
}

/// Refuses a state of another shape.
fn shaped(inputs: &[Option<&Tensor>], shape: &[usize]) -> Result<(), NodeError> {
    match optional(inputs, 3) {
        Some(tensor) if tensor.shape() != shape => {
            Err(refused(format!("input 3 has shape {:?} where {shape:?} is needed", tensor.shape())))
        }
        _ => Ok(()),
    }
}

impl LinearAttention {
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let (queries, heads) = (self.queries, self.heads);
        let (query, key, value) =
            (required(inputs, 0)?.shape(), required(inputs, 1)?.shape(), required(inputs, 2)?.shape());
        let differ = || refused(format!("queries of {query:?}, keys of {key:?}, values of {value:?}"));
        let (&[batch, steps, query_size], &[.., key_size], &[.., value_size]) = (query, key, value) else {
            return Err(differ());
        };
        let size = query_size / queries;
        let keys = match key_size.checked_div(size) {
            Some(keys) if self.is_loose && keys > 0 && heads % keys == 0 => keys,
            _ => heads,
        };
        let fits = query_size % queries == 0
            && Some(key_size) == size.checked_mul(keys)
            && value_size % heads == 0
            && [key.len(), value.len()] == [3, 3]
            && key[..2] == query[..2]
            && value[..2] == query[..2];
        if !fits {
            return Err(differ());
        }
        let (key, value) = (size, value_size / heads);
        match self.window {
            Some(window) => shaped(inputs, &[window, batch, heads, key, value])?,
            None => shaped(inputs, &[batch, heads, key, value])?,
        }
        let last = |index: usize, wanted: bool, choices: [usize; 2]| match optional(inputs, index).map(Tensor::shape) {
            _ if !wanted => Ok(0),
            Some(&[b, t, size]) if [b, t] == [batch, steps] && choices.contains(&size) => Ok(size),
            found => Err(refused(format!("input {index} has shape {found:?}"))),
        };
        let decay = match last(4, self.decays, [heads, heads.saturating_mul(key)])? {
            _ if !self.decays => Decay::None,
            size if size == heads => Decay::Head,
            _ => Decay::Row,
        };
        let rate_each = last(5, self.corrects, [heads, 1])? == heads;
        let [queries, keys, heads, key, value] = [queries, keys, heads, key, value].map(|size| size as u64);
        let heads = StateHeads { queries, keys, heads, key, value, decay, corrects: self.corrects };
        Ok(Sizes { batch, steps, heads, rate_each })
    }
}

impl Node for LinearAttention {
    fn family(&self) -> &'static str {
        "LinearAttention"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        match inputs.iter().flatten().find(|tensor| !tensor.dtype().is_float()) {
            Some(tensor) => Err(NodeError::Unsupported(format!("elements of type {}", tensor.dtype()))),
            None => Ok(()),
        }
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let Sizes { heads, .. } = self.sizes(inputs)?;
        if required(inputs, 0)?.dtype() == DType::F64 {
            return Ok(Prepared::NONE);
        }
        Ok(Prepared::new(cx.executor(&cx.key(LinearAttentionProblem { heads }))?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let sizes = self.sizes(&io.inputs())?;
        // A position costs as much as moving the states.
        let states = sizes.heads.elements().unwrap_or(usize::MAX).saturating_mul(size_of::<f32>());
        let work = states.saturating_mul(sizes.batch).saturating_mul(sizes.steps);
        let (tasks, parallel) = (task_count(work, cx.parallel), cx.parallel);
        if io.input(0)?.dtype() == DType::F64 {
            let walk = |positions: Positions<'_, f64>, written: Written<'_, f64>| {
                plain(&sizes.heads, positions, written, tasks, parallel)
            };
            return self.run(sizes, io, walk);
        }
        let executor = prepared.get::<Executor>()?;
        self.run(sizes, io, |positions, written| executor.run(positions, written, tasks, parallel))
    }
}

/// The types that states are computed in.
pub(super) trait Number: Wide + Element + Real {}

impl<F: Wide + Element + Real> Number for F {}

impl LinearAttention {
    fn run<F: Number>(
        &self,
        sizes: Sizes,
        io: &mut Io<'_>,
        walk: impl FnOnce(Positions<'_, F>, Written<'_, F>) -> KernelResult<()>,
    ) -> Result<(), NodeError> {
        let Sizes { batch, steps, heads, rate_each } = sizes;
        let own = io.optional(3).is_some_and(|past| past.dtype() == F::DTYPE);
        let in_place = own && self.window.is_none() && io.can_reuse(3, 1);
        let present = if in_place { io.take(3)? } else { io.alloc(1)? };
        let past = if in_place { None } else { io.optional(3).map(lent::<F>).transpose()? };
        let given = |index| io.optional(index).map(lent::<F>).transpose().map(Option::unwrap_or_default);
        let (queries, keys, values, decays, rates) = (given(0)?, given(1)?, given(2)?, given(4)?, given(5)?);
        let positions = Positions {
            batch,
            steps,
            queries: &queries,
            keys: &keys,
            values: &values,
            decays: &decays,
            rates: &rates,
            rate_each,
            scale: F::of(self.scale.unwrap_or(1.0 / (heads.key() as f64).sqrt())),
        };
        // The states before the last one come first.
        let earlier = (self.window.unwrap_or(1) - 1) * batch * heads.heads() * heads.area();
        let mut states = None;
        let output = filled(io.alloc(0)?, |answers: &mut [F]| {
            states = Some(filled(present, |states: &mut [F]| {
                let (earlier, states) = states.split_at_mut(earlier);
                match &past {
                    Some(past) => states.copy_from_slice(&past[earlier.len()..]),
                    None if in_place => {}
                    None => states.fill(F::default()),
                }
                Ok(walk(positions, Written { states, earlier, answers })?)
            })?);
            Ok(())
        })?;
        io.push(output);
        states.into_iter().for_each(|states| io.push(states));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
