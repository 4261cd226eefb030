//! Biases of attention by relative positions: RelativePositionBias, whose buckets are those of T5, and
//! GatedRelativePositionBias.

use super::Expanded;
use super::given::Given;
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, int, ints};

pub(super) const OPERATORS: &[Expanded] = &[
    Expanded::microsoft("RelativePositionBias", [3, 3], &["is_bidirectional", "max_distance"], relative),
    Expanded::microsoft("GatedRelativePositionBias", [6, 7], &["num_heads"], gated),
];

/// ONNX's numbers of element types.
const FLOAT: i64 = 1;
const INT64: i64 = 7;

/// The positions 0, 1, ... of a length, along that axis of two.
fn positions(draft: &mut Draft, length: &str, axis: i64, name: &str) -> String {
    let [zero, one] = [0, 1].map(|value| draft.whole(value, &format!("{name}/{value}")));
    // Lengths are lists of one number, or numbers.
    let length = draft.op("Squeeze", &[length], &format!("{name}/length"), Vec::new());
    let all = draft.op("Range", &[&zero, &length, &one], &format!("{name}/all"), Vec::new());
    let axis = draft.list(&[axis], &format!("{name}/axis"));
    draft.op("Unsqueeze", &[&all, &axis], name, Vec::new())
}

/// Each short distance has a row of the table, and each range of longer distances has one; the lengths of ranges grow
/// by a constant factor. Keys after the query use the second half of the table, or the bucket of distance 0.
///
/// The table's shape is [buckets, heads], but its elements are in the order of [heads, buckets]: onnxruntime's
/// optimiser transposes only the elements.
fn relative(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let (table, is_both) = (given.required(0)?, given.int("is_bidirectional", 0)? != 0);
    let longest = match given.int("max_distance", 0)? {
        longest if longest > 0 => longest,
        other => return Err(given.malformed(format!("max_distance = {other}"))),
    };
    let queries = positions(draft, given.required(1)?, 1, "queries");
    let keys = positions(draft, given.required(2)?, 0, "keys");
    let ahead = draft.op("Sub", &[&keys, &queries], "ahead", Vec::new());
    let [zero, one, two] = [0, 1, 2].map(|value| draft.whole(value, &format!("{value}")));
    let rows = draft.sizes(table, 0, 1, "rows");
    let buckets = if is_both { draft.op("Div", &[&rows, &two], "buckets", Vec::new()) } else { rows };
    let distance = if is_both {
        draft.op("Abs", &[&ahead], "distance", Vec::new())
    } else {
        let behind = draft.op("Neg", &[&ahead], "behind", Vec::new());
        draft.op("Max", &[&behind, &zero], "distance", Vec::new())
    };
    let exact = draft.op("Div", &[&buckets, &two], "exact", Vec::new());
    let is_exact = draft.op("Less", &[&distance, &exact], "is exact", Vec::new());
    let float = |draft: &mut Draft, of: &str, name: &str| draft.op("Cast", &[of], name, vec![int("to", FLOAT)]);
    let exact_number = float(draft, &exact, "exact/float");
    // Distance 0 has a bucket of its own, so its logarithm is never used.
    let at_least = draft.op("Max", &[&distance, &one], "at least one", Vec::new());
    let number = float(draft, &at_least, "distance/float");
    let ratio = draft.op("Div", &[&number, &exact_number], "ratio", Vec::new());
    let ratio = draft.op("Log", &[&ratio], "ratio/log", Vec::new());
    let longest = draft.whole(longest, "longest");
    let longest = float(draft, &longest, "longest/float");
    let range = draft.op("Div", &[&longest, &exact_number], "range", Vec::new());
    let range = draft.op("Log", &[&range], "range/log", Vec::new());
    let part = draft.op("Div", &[&ratio, &range], "part", Vec::new());
    let wide = draft.op("Sub", &[&buckets, &exact], "wide", Vec::new());
    let wide = float(draft, &wide, "wide/float");
    let place = draft.op("Mul", &[&part, &wide], "place", Vec::new());
    let place = draft.op("Cast", &[&place], "place/int", vec![int("to", INT64)]);
    let place = draft.op("Add", &[&place, &exact], "place/behind", Vec::new());
    let last = draft.op("Sub", &[&buckets, &one], "last", Vec::new());
    let place = draft.op("Min", &[&place, &last], "place/known", Vec::new());
    let mut bucket = draft.op("Where", &[&is_exact, &distance, &place], "bucket", Vec::new());
    if is_both {
        let is_ahead = draft.op("Greater", &[&ahead, &zero], "is ahead", Vec::new());
        let half = draft.op("Where", &[&is_ahead, &buckets, &zero], "half", Vec::new());
        bucket = draft.op("Add", &[&bucket, &half], "bucket/half", Vec::new());
    }
    let (rows, heads) = (draft.sizes(table, 0, 1, "table/buckets"), draft.sizes(table, 1, 2, "table/heads"));
    let shape = draft.op("Concat", &[&heads, &rows], "table/shape", vec![int("axis", 0)]);
    let by_head = draft.op("Reshape", &[table, &shape], "table/by head", vec![int("allowzero", 1)]);
    // [heads, queries, keys]
    let heads = draft.op("Gather", &[&by_head, &bucket], "heads", vec![int("axis", 1)]);
    let axis = draft.list(&[0], "axis");
    draft.node("", "Unsqueeze", &[&heads, &axis], given.result().to_owned(), Vec::new());
    Ok(())
}

/// Rows [tokens, width] scattered to their places among all positions, as [batch * positions, width]. The first
/// elements of `places` [batch, positions] are these places; positions without a token are 0.
fn unpacked(draft: &mut Draft, tokens: &str, places: &str) -> String {
    let (count, width) = (draft.sizes(tokens, 0, 1, "tokens"), draft.sizes(tokens, 1, 2, "width"));
    let all = draft.list(&[-1], "all");
    let places = draft.op("Cast", &[places], "places", vec![int("to", INT64)]);
    let places = draft.op("Reshape", &[&places, &all], "places/all", Vec::new());
    let (start, axis) = (draft.list(&[0], "places/start"), draft.list(&[1], "places/axis"));
    let positions = draft.sizes(&places, 0, 1, "places/count");
    let own = draft.op("Slice", &[&places, &start, &count], "places/own", Vec::new());
    let own = draft.op("Unsqueeze", &[&own, &axis], "places/rows", Vec::new());
    let shape = draft.op("Concat", &[&positions, &width], "rows/shape", vec![int("axis", 0)]);
    let rows = draft.op("ConstantOfShape", &[&shape], "rows/zero", Vec::new());
    let rows = draft.op("CastLike", &[&rows, tokens], "rows/empty", Vec::new());
    draft.op("ScatterND", &[&rows, &own, tokens], "rows/own", Vec::new())
}

/// Biases times a gate of each query and head: u (r a - 1) + 2, where u and r are the sigmoids of the sums over the two
/// halves of a product.
fn gated(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let (heads, weights) = (given.heads("num_heads")?, given.required(3)?);
    let (query, sequences) = match given.input(6) {
        None => (given.required(0)?.to_owned(), given.required(0)?),
        Some(places) => (unpacked(draft, given.required(0)?, places), places),
    };
    let query = draft.op("Add", &[&query, given.required(1)?], "query", Vec::new());
    let joined = |draft: &mut Draft, parts: &[&str], name: &str| draft.op("Concat", parts, name, vec![int("axis", 0)]);
    let (positions, heads) = (draft.sizes(sequences, 0, 2, "positions"), draft.list(&[heads], "heads"));
    let size = draft.sizes(weights, 0, 1, "size");
    let shape = joined(draft, &[&positions, &heads, &size], "query/shape");
    let query = draft.op("Reshape", &[&query, &shape], "query/heads", vec![int("allowzero", 1)]);
    let query = draft.op("Transpose", &[&query], "query/first", vec![ints("perm", &[0, 2, 1, 3])]);
    let product = draft.op("MatMul", &[&query, weights], "product", Vec::new());
    let product = draft.op("Add", &[&product, given.required(4)?], "biased", Vec::new());
    let (rows, columns) = (draft.sizes(&product, 0, 3, "rows"), draft.sizes(weights, 1, 2, "columns"));
    let two = draft.list(&[2], "halves/two");
    let half = draft.op("Div", &[&columns, &two], "half", Vec::new());
    let shape = joined(draft, &[&rows, &two, &half], "halves/shape");
    let halves = draft.op("Reshape", &[&product, &shape], "halves", vec![int("allowzero", 1)]);
    let axis = draft.list(&[-1], "axis");
    let sums = draft.op("ReduceSum", &[&halves, &axis], "sums", vec![int("keepdims", 0)]);
    let gates = draft.op("Sigmoid", &[&sums], "gates", Vec::new());
    let (update, reset) = (draft.named("update"), draft.named("reset"));
    draft.many("Split", &[&gates], &[&update, &reset], vec![int("axis", -1), int("num_outputs", 2)]);
    let factor = draft.op("Mul", &[&reset, given.required(5)?], "factor", Vec::new());
    let one = draft.number(1.0, &factor, "one");
    let two = draft.number(2.0, &factor, "two");
    let factor = draft.op("Sub", &[&factor, &one], "factor/less", Vec::new());
    let gate = draft.op("Mul", &[&update, &factor], "gate", Vec::new());
    let gate = draft.op("Add", &[&gate, &two], "gate/more", Vec::new());
    draft.node("", "Mul", &[&gate, given.required(2)?], given.result().to_owned(), Vec::new());
    Ok(())
}
