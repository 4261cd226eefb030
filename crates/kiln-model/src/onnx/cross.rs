//! Attention over keys of another sequence. Where MultiHeadAttention of com.microsoft gets keys and values as [batch,
//! heads, positions, size], its bias is the queries' alone: those of keys and values were added when they were made.

use std::collections::HashSet;

use super::contrib::MICROSOFT;
use super::declared_dims;
use super::draft::int;
use super::proto::{NodeProto, ValueInfoProto};

/// The attribute that marks such a node for its expansion, which does not know ranks.
pub(super) const KEYS_ARE_BIASED: &str = "keys_are_biased";

/// The inputs of the node that are keys and biases.
const KEYS: usize = 1;
const BIAS: usize = 3;

/// Marks nodes with a bias whose keys are declared with four axes.
pub(super) fn mark<'a>(nodes: &mut [NodeProto], declared: impl Iterator<Item = &'a ValueInfoProto>) {
    let has_bias = |node: &NodeProto| {
        let is_there = node.input.get(BIAS).is_some_and(|name| !name.is_empty());
        is_there && node.domain() == MICROSOFT && node.op_type() == "MultiHeadAttention"
    };
    let mut nodes = nodes.iter_mut().filter(|node| has_bias(node)).peekable();
    if nodes.peek().is_none() {
        return;
    }
    let of_four = declared.filter(|info| declared_dims(info).is_some_and(|dims| dims.len() == 4));
    let of_four: HashSet<&str> = of_four.map(ValueInfoProto::name).collect();
    for node in nodes.filter(|node| of_four.contains(node.input[KEYS].as_str())) {
        node.attribute.push(int(KEYS_ARE_BIASED, 1));
    }
}
