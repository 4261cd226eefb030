//! Operators that move elements, under ONNX Runtime's names: Trilu, GatherND, ExpandDims, Pad.

use super::given::Given;
use super::{Expanded, MICROSOFT};
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, int};

const fn row(
    name: &'static str,
    inputs: [usize; 2],
    attributes: &'static [&'static str],
    expand: fn(&Given<'_>, &mut Draft) -> Result<(), ModelError>,
) -> Expanded {
    Expanded { domain: MICROSOFT, name, inputs, outputs: 1, attributes, expand }
}

pub(super) const OPERATORS: &[Expanded] = &[
    row("Trilu", [1, 2], &["upper"], renamed),
    row("GatherND", [2, 2], &[], renamed),
    row("ExpandDims", [2, 2], &[], expand_dims),
    row("Pad", [2, 3], &["mode"], pad),
];

/// ONNX's operator of the same name.
fn renamed(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let inputs: Vec<&str> = (0..given.count()).map(|index| given.optional(index)).collect();
    draft.node("", given.op(), &inputs, given.result().to_owned(), given.copied(&["upper"]));
    Ok(())
}

/// A new axis, whose place is a number of 32 bits.
fn expand_dims(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let axis = draft.op("Cast", &[given.required(1)?], "axis", vec![int("to", 7)]);
    let one = draft.list(&[1], "axis/shape");
    let axes = draft.op("Reshape", &[&axis, &one], "axes", Vec::new());
    draft.node("", "Unsqueeze", &[given.required(0)?, &axes], given.result().to_owned(), Vec::new());
    Ok(())
}

/// The amounts may lie in a matrix of one row.
fn pad(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let flat = draft.list(&[-1], "pads/shape");
    let pads = draft.op("Reshape", &[given.required(1)?, &flat], "pads", Vec::new());
    let inputs = [given.required(0)?, &pads, given.optional(2)];
    let count = 2 + usize::from(given.input(2).is_some());
    draft.node("", "Pad", &inputs[..count], given.result().to_owned(), given.copied(&["mode"]));
    Ok(())
}
