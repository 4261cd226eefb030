//! Which keys a query attends to: the model's mask, causality, a window, and how much of the cache is filled.

use kiln_kernels::memory::{self, Collect};
use kiln_run::NodeError;
use kiln_tensor::{BoolByte, DType, Shape, Tensor};

use super::{Attention, Plan};
use crate::wide::widened;
use crate::{View, optional, refused};

/// Everything that is added to scores.
pub(super) struct Mask {
    /// The model's mask for every batch, head, query and covered key, if there is one.
    given: Option<Vec<f32>>,
    /// Keys that the model's mask covers; those behind it are hidden.
    covered: usize,
    heads: usize,
    queries: usize,
    causal: bool,
    window: [Option<usize>; 2],
    /// Keys before the first query, for each batch. Negative where the queries begin before the keys.
    offsets: Vec<i64>,
    /// Filled positions of the cache, for each batch, where the model says.
    filled: Option<Vec<i64>>,
}

impl Mask {
    /// Refuses masks that do not fit the plan.
    pub(super) fn check(node: &Attention, plan: &Plan, inputs: &[Option<&Tensor>]) -> Result<(), NodeError> {
        let _ = node;
        if let Some(given) = optional(inputs, 3) {
            let covered = given.shape().last().copied().unwrap_or(1);
            if covered > plan.keys() {
                return Err(refused(format!("a mask of shape {:?} for {} keys", given.shape(), plan.keys())));
            }
            View::broadcast(given.shape(), &whole(plan, covered))?;
            if given.dtype() == DType::String {
                return Err(NodeError::Unsupported(format!("a mask of type {}", given.dtype())));
            }
        }
        match optional(inputs, 6) {
            Some(filled) if filled.shape() != [plan.query.batch] || plan.past > 0 => {
                Err(refused(format!("filled lengths of shape {:?} for {} batches", filled.shape(), plan.query.batch)))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn of(node: &Attention, plan: &Plan, inputs: &[Option<&Tensor>]) -> Result<Mask, NodeError> {
        Mask::check(node, plan, inputs)?;
        let filled = optional(inputs, 6).map(Tensor::to_i64_vec).transpose()?;
        let offsets = match &filled {
            Some(filled) => filled.iter().map(|filled| filled.saturating_sub(plan.query.positions as i64)).collected(),
            None => memory::filled(plan.past as i64, plan.query.batch),
        };
        let mut covered = plan.keys();
        let mut given = None;
        if let Some(tensor) = optional(inputs, 3) {
            covered = tensor.shape().last().copied().unwrap_or(1);
            let shape = whole(plan, covered);
            let mut all = memory::zeroed::<f32>(shape.iter().product());
            View::broadcast(tensor.shape(), &shape)?.copy(&added(tensor)?, &mut all);
            given = Some(all);
        }
        let (heads, queries) = (plan.query.heads, plan.query.positions);
        Ok(Mask { given, covered, heads, queries, causal: node.causal, window: node.window, offsets, filled })
    }

    /// Adds the mask to the scores of one query; returns whether every key is hidden.
    pub(super) fn apply(&self, scores: &mut [f32], [batch, head, query]: [usize; 3]) -> bool {
        let given = self.given.as_ref().map(|given| {
            let row = (batch * self.heads + head) * self.queries + query;
            &given[row * self.covered..][..self.covered]
        });
        let place = self.offsets[batch].saturating_add(query as i64);
        let mut hidden = true;
        for (key, score) in scores.iter_mut().enumerate() {
            let bias = match given {
                Some(given) => given.get(key).copied().unwrap_or(f32::NEG_INFINITY),
                None => 0.0,
            };
            let bias = if self.sees(batch, place, key as i64) { bias } else { f32::NEG_INFINITY };
            hidden &= bias == f32::NEG_INFINITY;
            *score += bias;
        }
        hidden
    }

    fn sees(&self, batch: usize, place: i64, key: i64) -> bool {
        let before = place.saturating_sub(key);
        let [left, right] = self.window;
        (!self.causal || before >= 0)
            && left.is_none_or(|left| before <= left as i64)
            && right.is_none_or(|right| before.saturating_neg() <= right as i64)
            && self.filled.as_ref().is_none_or(|filled| key < filled[batch])
    }
}

fn whole(plan: &Plan, covered: usize) -> Shape {
    Shape::from_slice(&[plan.query.batch, plan.query.heads, plan.query.positions, covered])
}

/// A mask as numbers to add: a boolean that is false hides its key.
fn added(mask: &Tensor) -> Result<Vec<f32>, NodeError> {
    if mask.dtype() != DType::Bool {
        return widened::<f32>(mask);
    }
    let seen = mask.as_slice::<BoolByte>()?.iter();
    Ok(seen.map(|seen| if seen.get() { 0.0 } else { f32::NEG_INFINITY }).collected())
}
