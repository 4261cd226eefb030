//! Functions with a bias before them: BiasGelu, FastGelu, Gelu, BiasAdd, BiasSplitGelu, BiasSoftmax; and the
//! activations at the end of products.

use super::Expanded;
use super::given::Given;
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, float, int, text};
use crate::operators::{self, Applied};

pub(super) const OPERATORS: &[Expanded] = &[
    Expanded::microsoft("BiasGelu", [2, 2], &[], |g, d| gelu(g, d, "none")),
    Expanded::microsoft("FastGelu", [1, 2], &[], |g, d| gelu(g, d, "tanh")),
    Expanded::microsoft("Gelu", [1, 1], &[], |g, d| gelu(g, d, "none")),
    Expanded::microsoft("BiasAdd", [3, 3], &[], bias_add),
    Expanded::microsoft("BiasSplitGelu", [2, 2], &[], bias_split_gelu),
    Expanded::microsoft("BiasSoftmax", [2, 2], &["axis", "is_inner_broadcast"], bias_softmax),
];

/// Gelu(X + bias)
fn gelu(given: &Given<'_>, draft: &mut Draft, approximate: &str) -> Result<(), ModelError> {
    let x = given.required(0)?;
    let x = match given.input(1) {
        Some(bias) => draft.op("Add", &[x, bias], "biased", Vec::new()),
        None => x.to_owned(),
    };
    draft.node("", "Gelu", &[&x], given.result().to_owned(), vec![text("approximate", approximate)]);
    Ok(())
}

/// X + bias + skip
fn bias_add(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let biased = draft.op("Add", &[given.required(0)?, given.required(1)?], "biased", Vec::new());
    draft.node("", "Add", &[&biased, given.required(2)?], given.result().to_owned(), Vec::new());
    Ok(())
}

/// The first half of X + bias times the Gelu of the second half.
fn bias_split_gelu(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let biased = draft.op("Add", &[given.required(0)?, given.required(1)?], "biased", Vec::new());
    let (left, right) = (draft.named("left"), draft.named("right"));
    draft.many("Split", &[&biased], &[&left, &right], vec![int("axis", -1), int("num_outputs", 2)]);
    let gate = draft.op("Gelu", &[&right], "gate", Vec::new());
    draft.node("", "Mul", &[&left, &gate], given.result().to_owned(), Vec::new());
    Ok(())
}

/// Softmax over all axes from `axis` on, taken as one row; its result is `output`.
pub(super) fn softmax_of_rows(draft: &mut Draft, x: &str, axis: i64, output: &str) {
    let shape = draft.op("Shape", &[x], "shape", Vec::new());
    let rows = draft.op("Flatten", &[x], "rows", vec![int("axis", axis)]);
    let made = draft.op("Softmax", &[&rows], "made/rows", vec![int("axis", 1)]);
    draft.node("", "Reshape", &[&made, &shape], output.to_owned(), vec![int("allowzero", 1)]);
}

/// `is_inner_broadcast` is not needed: the shape of the bias says which axes repeat.
fn bias_softmax(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    given.int("is_inner_broadcast", 0)?;
    let biased = draft.op("Add", &[given.required(0)?, given.required(1)?], "biased", Vec::new());
    softmax_of_rows(draft, &biased, given.int("axis", 1)?, given.result());
    Ok(())
}

/// Parameters of an activation, by their names as attributes or by their places in `activation_params`.
pub(super) struct Parameters {
    pub(super) alpha: Option<f32>,
    pub(super) beta: Option<f32>,
    pub(super) gamma: Option<f32>,
}

/// Adds the activation at the end of a product; its result is `output`.
pub(super) fn activate(
    given: &Given<'_>,
    draft: &mut Draft,
    value: &str,
    parameters: &Parameters,
    output: &str,
) -> Result<(), ModelError> {
    let name = given.text("activation", "")?;
    if name == "Clip" {
        let (Some(low), Some(high)) = (parameters.alpha, parameters.beta) else {
            return Err(given.malformed("activation \"Clip\" without bounds".to_owned()));
        };
        let (low, high) = (draft.number(low, value, "low"), draft.number(high, value, "high"));
        draft.node("", "Clip", &[value, &low, &high], output.to_owned(), Vec::new());
        return Ok(());
    }
    let row = operators::find("", &name).filter(|row| row.applied != Applied::Nowhere);
    let row = row.ok_or_else(|| given.unsupported(format!("attribute \"activation\" = {name:?}")))?;
    let Parameters { alpha, beta, gamma } = *parameters;
    let numbers = [("alpha", alpha), ("beta", beta), ("gamma", gamma)];
    let takes = |attribute: &str| row.attribute_names().any(|own| own == attribute);
    let taken = numbers.into_iter().filter(|(attribute, _)| takes(attribute));
    let attributes = taken.filter_map(|(attribute, number)| Some(float(attribute, number?))).collect();
    draft.node("", &name, &[value], output.to_owned(), attributes);
    Ok(())
}
