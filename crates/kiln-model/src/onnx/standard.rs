//! Operators that the standard defines as functions and that are expanded, because a kernel would gain nothing:
//! FlexAttention, whose scores and probabilities a model changes by its own graphs.
//!
//! The expansion is the definition's: the same operators in the same order, so that roundings agree.

use super::draft::{Draft, float, int, ints};
use super::proto::NodeProto;
use super::{ModelError, contrib, place_of};

/// The version of ONNX's own operators in the expansions.
pub(super) const WRITTEN_FOR: i64 = 26;

/// The nodes that a node is expanded into.
pub(super) struct Expansion {
    /// The nodes.
    pub(super) draft: Draft,
    /// Whether graphs of the model are among them, which are written for the model's own operator set.
    pub(super) has_graphs: bool,
}

/// The expansion of `node`, if it is one of a function of the standard or of an operator of ONNX Runtime that other
/// operators compute. `number` tells expansions apart.
pub(super) fn expansion(node: &NodeProto, number: usize) -> Result<Option<Expansion>, ModelError> {
    match (node.domain(), node.op_type()) {
        ("ai.onnx.preview", "FlexAttention") => {
            let draft = flex_attention(node, number)?;
            Ok(Some(Expansion { draft, has_graphs: true }))
        }
        _ => Ok(contrib::expansion(node, number)?.map(|draft| Expansion { draft, has_graphs: false })),
    }
}

/// Softmax(modified(Q K^T)) V by heads; several heads of queries may share one of keys.
fn flex_attention(node: &NodeProto, number: usize) -> Result<Draft, ModelError> {
    let malformed = |reason: &str| ModelError::Malformed { place: place_of(node), reason: reason.to_owned() };
    let ([query, key, value], [output]) = (node.input.as_slice(), node.output.as_slice()) else {
        return Err(malformed("it takes three inputs and makes one output"));
    };
    let attribute = |name: &str| node.attribute.iter().find(|attribute| attribute.name() == name);
    let mut draft = Draft::new(format!("FlexAttention%{number}/"));
    let d = &mut draft;
    let batch = d.sizes(query, 0, 1, "batch");
    let heads = d.sizes(query, 1, 2, "heads");
    let shared = d.sizes(key, 1, 2, "shared");
    let positions = d.sizes(key, -2, -1, "positions");
    let repeat = d.op("Div", &[&heads, &shared], "repeat", Vec::new());
    let axis = d.op("Constant", &[], "axis", vec![ints("value_ints", &[2])]);
    let mut aligned = |of: &str, label: &str| {
        let apart = d.op("Unsqueeze", &[of, &axis], &format!("{label}/apart"), Vec::new());
        let size = d.sizes(of, 3, 4, &format!("{label}/size"));
        let to = [batch.as_str(), &shared, &repeat, &positions, &size];
        let to = d.op("Concat", &to, &format!("{label}/repeated"), vec![int("axis", 0)]);
        let repeated = d.op("Expand", &[&apart, &to], &format!("{label}/expanded"), Vec::new());
        let to = d.op("Concat", &[&batch, &heads, &positions, &size], &format!("{label}/flat"), vec![int("axis", 0)]);
        d.op("Reshape", &[&repeated, &to], &format!("{label}/aligned"), Vec::new())
    };
    let (keys, values) = (aligned(key, "key"), aligned(value, "value"));
    let scale = match attribute("scale") {
        Some(scale) => d.op("Constant", &[], "scale", vec![float("value_float", scale.f())]),
        None => {
            let size = d.sizes(query, 3, 4, "size");
            let size = d.op("Cast", &[&size], "size/float", vec![int("to", 1)]);
            let root = d.op("Sqrt", &[&size], "size/root", Vec::new());
            d.op("Reciprocal", &[&root], "scale", Vec::new())
        }
    };
    let root = d.op("Sqrt", &[&scale], "scale/root", Vec::new());
    let root = d.op("CastLike", &[&root, query], "scale/like", Vec::new());
    let query_scaled = d.op("Mul", &[query, &root], "query/scaled", Vec::new());
    let keys = d.op("Mul", &[&keys, &root], "key/scaled", Vec::new());
    let keys = d.op("Transpose", &[&keys], "key/transposed", vec![ints("perm", &[0, 1, 3, 2])]);
    let scores = d.op("MatMul", &[&query_scaled, &keys], "scores", Vec::new());
    // The type of the softmax is the attribute's, or at least single precision.
    let precision = attribute("softmax_precision").map(|precision| int("to", precision.i()));
    let widened = d.named("scores/widened");
    match precision.clone() {
        Some(to) => d.node("", "Cast", &[&scores], widened.clone(), vec![to]),
        None => d.node("kiln", "Widen", &[&scores], widened.clone(), Vec::new()),
    }
    let modified = |d: &mut Draft, on: String, name: &str| match attribute(name).and_then(|given| given.g.as_ref()) {
        None => Ok(on),
        Some(graph) => d.inline(graph, &on, name).ok_or_else(|| malformed("its graphs have one input and one output")),
    };
    let scores = modified(d, widened, "score_mod")?;
    let chances = d.op("Softmax", &[&scores], "chances", vec![int("axis", 3)]);
    let chances = modified(d, chances, "prob_mod")?;
    let values = d.op("CastLike", &[&values, &chances], "value/widened", Vec::new());
    let made = d.op("MatMul", &[&chances, &values], "made", Vec::new());
    d.node("", "CastLike", &[&made, value], output.clone(), Vec::new());
    Ok(draft)
}
