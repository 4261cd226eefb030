//! Operators that ONNX has, too, under ONNX Runtime's names: Trilu, GatherND, ExpandDims, Pad, Unique, Range,
//! GridSample, and SampleOp, which is the identity.

use super::given::Given;
use super::{Expanded, MICROSOFT, renamed};
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, int};

pub(super) const OPERATORS: &[Expanded] = &[
    Expanded::microsoft("Trilu", [1, 2], &["upper"], renamed),
    Expanded::microsoft("GatherND", [2, 2], &[], renamed),
    Expanded::microsoft("ExpandDims", [2, 2], &[], expand_dims),
    Expanded::microsoft("Pad", [2, 3], &["mode"], pad),
    Expanded::microsoft("Range", [2, 3], &[], range),
    Expanded::microsoft("GridSample", [2, 2], &["align_corners", "mode", "padding_mode"], renamed),
    Expanded::microsoft("SampleOp", [1, 1], &[], same),
    Expanded { domain: MICROSOFT, name: "Unique", inputs: [1, 1], outputs: 3, attributes: &[], expand: unique },
];

/// Adds an axis. Its place is a 32-bit integer, which ONNX's operator does not take.
fn expand_dims(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let axis = draft.op("Cast", &[given.required(1)?], "axis", vec![int("to", 7)]);
    let one = draft.list(&[1], "axis/shape");
    let axes = draft.op("Reshape", &[&axis, &one], "axes", Vec::new());
    draft.node("", "Unsqueeze", &[given.required(0)?, &axes], given.result().to_owned(), Vec::new());
    Ok(())
}

/// In steps of 1 where none is given. Bounds may be lists of one number.
fn range(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let start = given.required(0)?;
    let delta = match given.input(2) {
        Some(delta) => delta.to_owned(),
        None => draft.number(1.0, start, "delta"),
    };
    let none = draft.list(&[], "shape");
    let bounds = [("start", start), ("limit", given.required(1)?), ("step", &delta)];
    let bounds = bounds.map(|(name, bound)| draft.op("Reshape", &[bound, &none], name, Vec::new()));
    let [start, limit, delta] = bounds.each_ref().map(String::as_str);
    draft.node("", "Range", &[start, limit, delta], given.result().to_owned(), Vec::new());
    Ok(())
}

fn same(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    draft.node("", "Identity", &[given.required(0)?], given.result().to_owned(), Vec::new());
    Ok(())
}

/// The amounts may lie in a matrix of one row.
fn pad(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let flat = draft.list(&[-1], "pads/shape");
    let pads = draft.op("Reshape", &[given.required(1)?, &flat], "pads", Vec::new());
    let inputs = [given.required(0)?, &pads, given.optional(2)];
    draft.node("", "Pad", &inputs, given.result().to_owned(), given.copied(&["mode"]));
    Ok(())
}

/// Distinct elements in the order of first occurrence, with the place of each input element among them and their
/// counts.
fn unique(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let outputs = [given.result(), "", given.output(1).unwrap_or_default(), given.output(2).unwrap_or_default()];
    draft.many("Unique", &[given.required(0)?], &outputs, vec![int("sorted", 0)]);
    Ok(())
}
