//! Attention: softmax(Q K^T) V by heads, with masks, a causal frontier, windows and a cache of earlier keys and values.
//!
//! Heads are either an axis before the positions (four axes) or packed in the last axis (three); [`Heads`] hides which.
//! `tiled` has the executors; cases that their keys cannot state (windows, filled lengths, scores as an output) are
//! computed here by plain loops over rows, a head a task. `mask` says what a query may see there. `fused` is the node
//! that a pass makes of attention in small operators. All of them compute in `f32`, the softmax too, whichever precision
//! a node states for it; other floats are converted.

mod fused;
mod mask;
mod tiled;

use std::sync::Mutex;

use kiln_kernels::Parallel;
use kiln_kernels::memory::{self, Collect};
use kiln_model::NodeDesc;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use self::mask::Mask;
use super::convert::through_f32;
use super::wide::narrow;
use super::{LoadCx, OpError, Operator, optional, refused, required, size_attribute, type_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] =
    &[("", "Attention", |cx| through_f32(cx, make)), ("kiln", "FusedAttention", fused::make)];

/// Which scores the fourth output has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// The products, after the cap.
    Products,
    /// With the mask added.
    Masked,
    /// After the softmax.
    Probabilities,
}

struct Attention {
    heads: Option<[usize; 2]>,
    scale: Option<f32>,
    cap: f32,
    causal: bool,
    /// How many positions before and after its own a query sees.
    window: [Option<usize>; 2],
    shown: Shown,
    outputs: usize,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node: &NodeDesc = cx.node;
    let count = |name| size_attribute(node, name, 1);
    let packed = node.attrs.contains_key("q_num_heads") || node.attrs.contains_key("kv_num_heads");
    let side = |name| match node.attributes().int(name) {
        -1 => Ok(None),
        value => usize::try_from(value).map(Some).map_err(|_| OpError::invalid(node, format!("{name} = {value}"))),
    };
    let shown = match node.attributes().int("qk_matmul_output_mode") {
        0 | 1 => Shown::Products,
        2 => Shown::Masked,
        3 => Shown::Probabilities,
        other => return Err(OpError::invalid(node, format!("qk_matmul_output_mode = {other}"))),
    };
    // Checked, though all of these types are computed in `f32`.
    type_attribute(node, "softmax_precision")?;
    Ok(Box::new(Attention {
        heads: if packed { Some([count("q_num_heads")?, count("kv_num_heads")?]) } else { None },
        scale: node.attributes().number("scale"),
        cap: node.attributes().float("softcap"),
        causal: node.attributes().int("is_causal") != 0,
        window: [side("left_window_size")?, side("right_window_size")?],
        shown,
        outputs: node.outputs.len(),
    }))
}

/// The layout of the rows of heads and positions in a tensor.
#[derive(Clone, Copy, Debug)]
struct Heads {
    batch: usize,
    heads: usize,
    positions: usize,
    size: usize,
    /// Whether heads are packed in the last axis, behind the positions.
    packed: bool,
}

impl Heads {
    fn of(shape: &[usize], heads: Option<usize>) -> Result<Heads, NodeError> {
        match (shape, heads) {
            (&[batch, heads, positions, size], given) if given.is_none_or(|given| given == heads) => {
                Ok(Heads { batch, heads, positions, size, packed: false })
            }
            (&[batch, positions, hidden], Some(heads)) if hidden % heads == 0 => {
                Ok(Heads { batch, heads, positions, size: hidden / heads, packed: true })
            }
            _ => Err(refused(format!("no {heads:?} heads in shape {shape:?}"))),
        }
    }

    fn row<'v>(&self, values: &'v [f32], batch: usize, head: usize, position: usize) -> &'v [f32] {
        let place = match self.packed {
            true => (batch * self.positions + position) * self.heads + head,
            false => (batch * self.heads + head) * self.positions + position,
        };
        &values[place * self.size..][..self.size]
    }
}

/// The shapes of one run.
#[derive(Clone, Copy, Debug)]
struct Plan {
    query: Heads,
    key: Heads,
    value: Heads,
    /// Positions in the cache.
    past: usize,
}

impl Plan {
    /// Keys that a query may see, the cache's included.
    fn keys(&self) -> usize {
        self.past + self.key.positions
    }
}

impl Attention {
    fn plan(&self, inputs: &[Option<&Tensor>]) -> Result<Plan, NodeError> {
        let [q, k, v] = [required(inputs, 0)?.shape(), required(inputs, 1)?.shape(), required(inputs, 2)?.shape()];
        let query = Heads::of(q, self.heads.map(|[heads, _]| heads))?;
        let heads = self.heads.map(|[_, heads]| heads);
        let (key, value) = (Heads::of(k, heads)?, Heads::of(v, heads)?);
        let fits = query.batch == key.batch
            && [key.batch, key.heads, key.positions] == [value.batch, value.heads, value.positions]
            && query.size == key.size
            && key.heads > 0
            && query.heads % key.heads == 0;
        let past = match (optional(inputs, 4), optional(inputs, 5)) {
            (None, None) => Some(0),
            (Some(keys), Some(values)) => match (keys.shape(), values.shape()) {
                (&[b, h, past, size], &[vb, vh, same, vsize])
                    if [b, h, size] == [key.batch, key.heads, key.size]
                        && [vb, vh, vsize] == [value.batch, value.heads, value.size]
                        && past == same
                        && past.checked_add(key.positions).is_some() =>
                {
                    Some(past)
                }
                _ => None,
            },
            _ => None,
        };
        match past {
            Some(past) if fits => Ok(Plan { query, key, value, past }),
            _ => Err(refused(format!("queries of {q:?}, keys of {k:?}, values of {v:?} and their cache do not fit"))),
        }
    }
}

/// The cache with the new positions behind it, heads first.
fn joined(past: Option<&Tensor>, new: &Tensor, heads: Heads, past_positions: usize) -> Result<Vec<f32>, NodeError> {
    let (old, new) = (past.map(Tensor::as_slice::<f32>).transpose()?.unwrap_or_default(), new.as_slice::<f32>()?);
    let mut all = memory::with_capacity(old.len() + new.len());
    let block = past_positions * heads.size;
    for line in 0..heads.batch * heads.heads {
        all.extend_from_slice(&old[line * block..][..block]);
        for position in 0..heads.positions {
            all.extend_from_slice(heads.row(new, line / heads.heads, line % heads.heads, position));
        }
    }
    Ok(all)
}

/// The product of two rows, in eight partial sums, which the compiler turns into one vector.
fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0f32; 8];
    let (left_chunks, right_chunks) = (left.chunks_exact(8), right.chunks_exact(8));
    let rest: f32 = left_chunks.remainder().iter().zip(right_chunks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in left_chunks.zip(right_chunks) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum::<f32>() + rest
}

/// Exponentials over their sum; zeros where everything is hidden.
fn softmax(scores: &mut [f32]) {
    let greatest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if greatest == f32::NEG_INFINITY {
        return scores.fill(0.0);
    }
    scores.iter_mut().for_each(|score| *score = (*score - greatest).exp());
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// The operands that all heads share.
struct Shared<'a> {
    node: &'a Attention,
    plan: Plan,
    query: &'a [f32],
    key: Vec<f32>,
    value: Vec<f32>,
    mask: Mask,
}

/// Results of one head: rows of the output, and scores to show.
#[derive(Default)]
struct Head {
    rows: Vec<f32>,
    scores: Vec<f32>,
}

impl Shared<'_> {
    fn head(&self, number: usize, parallel: &dyn Parallel) -> Head {
        let plan = &self.plan;
        let (batch, head) = (number / plan.query.heads, number % plan.query.heads);
        let own = batch * plan.key.heads + head / (plan.query.heads / plan.key.heads);
        let keys = &self.key[own * plan.keys() * plan.key.size..][..plan.keys() * plan.key.size];
        let values = &self.value[own * plan.keys() * plan.value.size..][..plan.keys() * plan.value.size];
        // Each side gets the root of the scale, as in the definition: that decides what overflows.
        let scale = self.node.scale.unwrap_or(1.0 / (plan.query.size as f32).sqrt());
        let factor = scale.abs().sqrt();
        let scaled = |row: &[f32]| -> Vec<f32> { row.iter().map(|value| value * factor).collected() };
        let keys = scaled(keys);
        let mut result = Head::default();
        for position in 0..plan.query.positions {
            if parallel.is_stopped() {
                break;
            }
            let query = scaled(plan.query.row(self.query, batch, head, position));
            let mut scores: Vec<f32> = match plan.key.size {
                0 => memory::zeroed(plan.keys()),
                size => keys.chunks_exact(size).map(|key| dot(&query, key)).collected(),
            };
            if scale < 0.0 {
                scores.iter_mut().for_each(|score| *score = -*score);
            }
            if self.node.cap > 0.0 {
                scores.iter_mut().for_each(|score| *score = (*score / self.node.cap).tanh() * self.node.cap);
            }
            self.weigh(&mut scores, [batch, head, position], &mut result);
            let mut row = memory::zeroed::<f32>(plan.value.size);
            if plan.value.size > 0 {
                for (weight, value) in scores.iter().zip(values.chunks_exact(plan.value.size)) {
                    row.iter_mut().zip(value).for_each(|(to, value)| *to += weight * value);
                }
            }
            result.rows.extend(row);
        }
        result
    }

    /// Masks scores and turns them into probabilities, showing them as the node asks.
    fn weigh(&self, scores: &mut [f32], place: [usize; 3], result: &mut Head) {
        let shows = self.node.outputs > 3;
        if shows && self.node.shown == Shown::Products {
            result.scores.extend_from_slice(scores);
        }
        let hidden = self.mask.apply(scores, place);
        if shows && self.node.shown == Shown::Masked {
            result.scores.extend_from_slice(scores);
        }
        if hidden {
            scores.fill(0.0)
        } else {
            softmax(scores)
        }
        if shows && self.node.shown == Shown::Probabilities {
            result.scores.extend_from_slice(scores);
        }
    }
}

impl Node for Attention {
    fn family(&self) -> &'static str {
        "attention"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let (dtype, value_dtype) = (required(inputs, 0)?.dtype(), required(inputs, 2)?.dtype());
        if !dtype.is_float() || !value_dtype.is_float() {
            return Err(NodeError::Unsupported(format!("queries of type {dtype}")));
        }
        Mask::check(self, &self.plan(inputs)?, inputs)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        Ok(tiled::prepare(self, cx, inputs)?.map_or(Prepared::NONE, Prepared::new))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        if let Ok(executor) = prepared.get() {
            return tiled::execute(self, executor, io, cx);
        }
        let plan = self.plan(&io.inputs())?;
        let query = io.input(0)?.clone();
        let shared = Shared {
            node: self,
            plan,
            query: query.as_slice()?,
            key: joined(io.optional(4), io.input(1)?, plan.key, plan.past)?,
            value: joined(io.optional(5), io.input(2)?, plan.value, plan.past)?,
            mask: Mask::of(self, &plan, &io.inputs())?,
        };
        let heads = plan.query.batch * plan.query.heads;
        let results: Vec<Mutex<Head>> = (0..heads).map(|_| Mutex::default()).collected();
        cx.parallel.run(heads, &|number| {
            if let Ok(mut slot) = results[number].lock() {
                *slot = shared.head(number, cx.parallel);
            }
        });
        cx.check_whole()?;
        let results: Vec<Head> = results.into_iter().map(|slot| slot.into_inner().unwrap_or_default()).collected();
        let rows: Vec<f32> = match plan.query.packed {
            false => results.iter().flat_map(|head| head.rows.iter().copied()).collected(),
            true => packed(&results, &plan),
        };
        let output = narrow(&rows, io.alloc(0)?)?;
        io.push(output);
        let scores = || results.iter().flat_map(|head| head.scores.iter().copied()).collected();
        for index in 1..self.outputs.min(4) {
            let values = match index {
                1 => narrow(&shared.key, io.alloc(1)?)?,
                2 => narrow(&shared.value, io.alloc(2)?)?,
                _ => narrow(&scores(), io.alloc(3)?)?,
            };
            io.push(values);
        }
        Ok(())
    }
}

/// Rows with the heads of a position beside each other.
fn packed(heads: &[Head], plan: &Plan) -> Vec<f32> {
    let (query, size) = (plan.query, plan.value.size);
    let mut rows = memory::with_capacity(heads.iter().map(|head| head.rows.len()).sum());
    for batch in 0..query.batch {
        for position in 0..query.positions {
            let own = &heads[batch * query.heads..][..query.heads];
            own.iter().for_each(|head| rows.extend_from_slice(&head.rows[position * size..][..size]));
        }
    }
    rows
}

#[cfg(test)]
mod tests;
