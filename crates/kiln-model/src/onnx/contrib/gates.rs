//! Functions, sums and norms with a gate: ScaledSiLU, GatedAdd, GatedRMSNorm; and the gates of linear attention,
//! LinearAttentionGate.
//!
//! 16-bit numbers are rounded where ONNX Runtime rounds them; in between they are `f32`.

use super::given::Given;
use super::{Expanded, MICROSOFT};
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, float, int};

pub(super) const OPERATORS: &[Expanded] = &[
    Expanded::microsoft("ScaledSiLU", [1, 2], &["alpha"], scaled_silu),
    Expanded::microsoft("GatedAdd", [3, 4], &[], gated_add),
    Expanded::microsoft("GatedRMSNorm", [3, 3], &["activation", "epsilon"], gated_norm),
    Expanded {
        domain: MICROSOFT,
        name: "LinearAttentionGate",
        inputs: [3, 4],
        outputs: 2,
        attributes: &[],
        expand: attention_gates,
    },
];

/// ONNX's number of `f32`.
const FLOAT: i64 = 1;

fn as_float(draft: &mut Draft, x: &str, name: &str) -> String {
    draft.op("Cast", &[x], name, vec![int("to", FLOAT)])
}

/// z sigmoid(z) of z = scale x
fn scaled_silu(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let x = given.required(0)?;
    let wide = as_float(draft, x, "x");
    let scale = match given.input(1) {
        Some(scale) => as_float(draft, scale, "scale"),
        None => draft.op("Constant", &[], "scale", vec![float("value_float", given.float("alpha", 1.0)?)]),
    };
    let scaled = draft.op("Mul", &[&wide, &scale], "scaled", Vec::new());
    let z = draft.op("CastLike", &[&scaled, x], "z", Vec::new());
    let gate = draft.op("Sigmoid", &[&z], "gate", Vec::new());
    draft.node("", "Mul", &[&z, &gate], given.result().to_owned(), Vec::new());
    Ok(())
}

/// X + Y gate
fn gated_add(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    given.without_inputs(&[(3, "gate_weight")])?;
    let gated = draft.op("Mul", &[given.required(1)?, given.required(2)?], "gated", Vec::new());
    draft.node("", "Add", &[given.required(0)?, &gated], given.result().to_owned(), Vec::new());
    Ok(())
}

/// The logarithm of a state's decay, scale softplus(a + bias), and the rate of its correction, sigmoid(b).
fn attention_gates(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let (a, bias, scale) = (given.required(0)?, given.required(1)?, given.required(2)?);
    let wide = as_float(draft, a, "a");
    let sum = draft.op("Add", &[&wide, bias], "sum", Vec::new());
    let softplus = draft.op("Softplus", &[&sum], "softplus", Vec::new());
    let decay = draft.op("Mul", &[&softplus, scale], "decay", Vec::new());
    draft.node("", "CastLike", &[&decay, a], given.result().to_owned(), Vec::new());
    if let Some(rate) = given.output(1) {
        let b = given.required(3)?;
        let wide = as_float(draft, b, "b");
        let made = draft.op("Sigmoid", &[&wide], "rate", Vec::new());
        draft.node("", "CastLike", &[&made, b], rate.to_owned(), Vec::new());
    }
    Ok(())
}

/// The norm of `of` as `f32` over rows of as many elements as the scale has, [rows, elements of a row].
fn norm_of_rows(draft: &mut Draft, of: &str, scale: &str, epsilon: f32) -> String {
    let wide = as_float(draft, of, "wide");
    let scale = as_float(draft, scale, "scale");
    let (any, length) = (draft.list(&[-1], "any"), draft.op("Shape", &[&scale], "length", Vec::new()));
    let shape = draft.op("Concat", &[&any, &length], "rows/shape", vec![int("axis", 0)]);
    let rows = draft.op("Reshape", &[&wide, &shape], "rows", Vec::new());
    let attributes = vec![int("axis", -1), float("epsilon", epsilon)];
    draft.op("RMSNormalization", &[&rows, &scale], "rows/normalised", attributes)
}

/// RMSNormalization over rows of as many elements as the scale has, times the activation of the gate.
fn gated_norm(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let (x, gate) = (given.required(0)?, given.required(2)?);
    let normalised = norm_of_rows(draft, x, given.required(1)?, given.float("epsilon", 1e-5)?);
    let shape = draft.op("Shape", &[x], "shape", Vec::new());
    let normalised = draft.op("Reshape", &[&normalised, &shape], "normalised", vec![int("allowzero", 1)]);
    let gate = as_float(draft, gate, "gate");
    let mut activated = draft.op("Sigmoid", &[&gate], "gate/sigmoid", Vec::new());
    match given.text("activation", "silu")?.as_str() {
        "silu" | "swish" => activated = draft.op("Mul", &[&gate, &activated], "gate/silu", Vec::new()),
        "sigmoid" => {}
        other => return Err(given.unsupported(format!("attribute \"activation\" = {other:?}"))),
    }
    let made = draft.op("Mul", &[&normalised, &activated], "made", Vec::new());
    draft.node("", "CastLike", &[&made, x], given.result().to_owned(), Vec::new());
    Ok(())
}
