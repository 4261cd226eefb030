//! Attention with sinks: one more score for each query, the same in all steps, which takes weight and has no value
//! (gpt-oss). Exporters join these scores to the others and cut their weights off behind the softmax.

use kiln_model::facts;
use kiln_model::ir::{NodeDesc, ValueId};
use kiln_tensor::Tensor;

use super::Matcher;

/// Scores with sinks behind them.
pub(super) struct Joined {
    /// The output of the softmax, before the weights of sinks are cut off.
    pub(super) softmax: ValueId,
    /// The scores of keys alone.
    pub(super) scores: ValueId,
    /// The scores of sinks, with an element for each head.
    pub(super) sinks: Tensor,
}

/// The scores and sinks behind weights whose last column is cut off.
pub(super) fn joined(matcher: &Matcher<'_, '_>, weights: ValueId) -> Option<Joined> {
    let maker = |value: ValueId| matcher.trial.maker(value);
    let cut = maker(weights).filter(|node| node.is("Slice") && cuts_last(matcher, node))?;
    let softmax = matcher.through(cut.input(0)?);
    let mut all = matcher.through(maker(softmax).filter(|node| node.is("Softmax"))?.input(0)?);
    // A softmax does not change where the greatest score is subtracted before.
    if let Some(node) = maker(all).filter(|node| node.is("Sub")) {
        maker(node.input(1)?).filter(|of| of.is("ReduceMax") && of.input(0) == node.input(0))?;
        all = node.input(0)?;
    }
    let join = maker(all).filter(|node| node.is("Concat") && [3, -1].contains(&node.attributes().int("axis")))?;
    let &[Some(scores), Some(sinks)] = &join.inputs[..] else { return None };
    let repeated = maker(sinks).filter(|node| node.is("Expand")).and_then(|node| node.input(0)).unwrap_or(sinks);
    let sinks = matcher.trial.graph.constant(repeated)?;
    let heads = match *sinks.shape() {
        [1, heads, 1, 1] | [heads, 1, 1] => heads,
        _ => return None,
    };
    Some(Joined { softmax, scores, sinks: sinks.clone().reshaped([heads]).ok()? })
}

/// Whether Slice cuts off the last element of the last of four axes.
fn cuts_last(matcher: &Matcher<'_, '_>, slice: &NodeDesc) -> bool {
    let number = |index: usize| {
        let numbers = matcher.trial.graph.constant(slice.input(index)?)?.to_i64_vec().ok()?;
        (numbers.len() == 1).then(|| numbers[0])
    };
    let axis = number(3).and_then(|axis| facts::axis(axis, 4));
    number(1) == Some(0)
        && number(2) == Some(-1)
        && axis == Some(3)
        && (slice.input(4).is_none() || number(4) == Some(1))
}

/// The sinks, if there is one for each head.
pub(super) fn of_heads(sinks: Option<Tensor>, heads: usize) -> Result<Option<Tensor>, &'static str> {
    match sinks {
        Some(sinks) if sinks.len() != heads => Err("it has other sinks than heads"),
        sinks => Ok(sinks),
    }
}
