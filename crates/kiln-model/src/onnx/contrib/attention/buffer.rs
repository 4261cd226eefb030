//! A step over one buffer of past and present (DecoderMaskedMultiHeadAttention): GroupQueryAttention with as many heads
//! of keys as of queries, with the buffer as its cache.
//!
//! No step changes the size of the buffer, so all steps have the same shapes. Where a step has a mask or a bias, its
//! length is the number of positions. Beams read rows from each other: attention then runs over a copy of each beam's
//! rows, and the new rows are written into the buffer separately.

use super::{Given, Operands};
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, float, int};

/// The term that is added to scores: nothing, the bias, or the mask's number where a key is not shown. A mask is
/// [batch, positions].
fn added(given: &Given<'_>, draft: &mut Draft, operands: &Operands) -> Result<Option<String>, ModelError> {
    let Some(mask) = &operands.shown else { return Ok(operands.bias.clone()) };
    let fill = given.float("mask_filter_value", -10000.0)?;
    let zero = draft.number(0.0, mask, "mask/zero");
    let shown = draft.op("Greater", &[mask, &zero], "mask/shown", Vec::new());
    let (none, fill) =
        (draft.number(0.0, &operands.query, "mask/none"), draft.number(fill, &operands.query, "mask/fill"));
    let numbers = draft.op("Where", &[&shown, &none, &fill], "mask/numbers", Vec::new());
    let axes = draft.list(&[1, 2], "mask/axes");
    let mask = draft.op("Unsqueeze", &[&numbers, &axes], "mask", Vec::new());
    Ok(Some(match &operands.bias {
        None => mask,
        Some(bias) => draft.op("Add", &[&mask, bias], "mask/biased", Vec::new()),
    }))
}

/// The cache that attention reads and writes new rows to: the buffer, or a copy of the rows of each beam. For a copy,
/// this also adds the node that makes `present`.
fn cache(
    given: &Given<'_>,
    draft: &mut Draft,
    [past, new, position]: [&str; 3],
    present: Option<&str>,
    name: &str,
) -> Result<String, ModelError> {
    let Some(indirection) = given.input(9) else { return Ok(past.to_owned()) };
    let rows = draft.named(&format!("{name}/rows"));
    draft.node("kiln", "BeamRows", &[past, indirection, position], rows.clone(), Vec::new());
    if let Some(present) = present {
        let shape = draft.list(&[0, given.heads("num_heads")?, 1, -1], &format!("{name}/shape"));
        let new = draft.op("Reshape", &[new, &shape], &format!("{name}/new"), Vec::new());
        draft.node("", "TensorScatter", &[past, &new, position], present.to_owned(), Vec::new());
    }
    Ok(rows)
}

/// Adds the attention of one new position over the buffer `past`.
pub(super) fn attend(
    given: &Given<'_>,
    draft: &mut Draft,
    operands: &Operands,
    past: &[String; 2],
    present: [Option<String>; 2],
) -> Result<(), ModelError> {
    let Operands { query, key, value, shown, bias, scores, .. } = operands;
    let Some(length) = given.input(7) else {
        return Err(given.malformed("past_present_share_buffer without input 7 (past_sequence_length)".to_owned()));
    };
    let beside = [shown, bias].map(|name| name.as_deref().unwrap_or_default());
    let position = draft.named("position");
    let checked = [query, past[0].as_str(), length, beside[0], beside[1], given.optional(8), given.optional(9)];
    draft.node("kiln", "StepPosition", &checked, position.clone(), Vec::new());
    let total = match (shown, bias) {
        (Some(mask), _) => draft.sizes(mask, 1, 2, "total"),
        (None, Some(bias)) => draft.sizes(bias, 3, 4, "total"),
        (None, None) => draft.sizes(&past[0], 2, 3, "total"),
    };
    let added = added(given, draft, operands)?;
    let [present_keys, present_values] = present;
    let keys = cache(given, draft, [&past[0], key, &position], present_keys.as_deref(), "keys")?;
    let values = cache(given, draft, [&past[1], value, &position], present_values.as_deref(), "values")?;
    let heads = given.heads("num_heads")?;
    let mut attributes = vec![int("num_heads", heads), int("kv_num_heads", heads)];
    attributes.extend([int("past_present_share_buffer", 1), int("qk_output", i64::from(scores.is_some()))]);
    attributes.push(float("scale", given.float("scale", 0.0)?));
    let mut inputs = vec![query.as_str(), key, value, &keys, &values, &position, &total, "", "", ""];
    inputs.extend(added.as_deref());
    // With beams, `cache` has made the present outputs already, so those of attention over the copies are not wanted.
    let is_buffer = given.input(9).is_none();
    let own = |name: Option<String>, otherwise: &str| name.filter(|_| is_buffer).unwrap_or(draft.named(otherwise));
    let outputs = [own(present_keys, "present/key"), own(present_values, "present/value")];
    let all_scores = draft.named("scores");
    let mut results = vec![given.result(), &outputs[0], &outputs[1]];
    results.extend(scores.is_some().then_some(all_scores.as_str()));
    draft.of_domain("com.microsoft", "GroupQueryAttention", &inputs, &results, attributes);
    if let Some(scores) = scores {
        // Those of the positions that there are.
        let (start, one, axes) =
            (draft.list(&[0], "scores/start"), draft.list(&[1], "scores/one"), draft.list(&[3], "scores/axes"));
        let end = draft.op("Reshape", &[length, &one], "scores/before", Vec::new());
        let end = draft.op("Cast", &[&end], "scores/long", vec![int("to", 7)]);
        let end = draft.op("Add", &[&end, &one], "scores/end", Vec::new());
        draft.node("", "Slice", &[&all_scores, &start, &end, &axes], scores.clone(), Vec::new());
    }
    Ok(())
}
