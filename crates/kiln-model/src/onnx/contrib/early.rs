//! Operators that ONNX's first releases had for a trial, and that ONNX Runtime still runs: Affine, Crop, DynamicSlice,
//! ImageScaler, ParametricSoftplus, Scale, ScaledTanh. Early converters of CoreML and Caffe2 wrote them.

use super::Expanded;
use super::given::Given;
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, floats};

pub(super) const OPERATORS: &[Expanded] = &[
    Expanded::onnx("Affine", [1, 1], &["alpha", "beta"], affine),
    Expanded::onnx("Crop", [1, 1], &["border", "scale"], crop),
    Expanded::onnx("DynamicSlice", [3, 4], &[], dynamic_slice),
    Expanded::onnx("ImageScaler", [1, 1], &["bias", "scale"], image_scaler),
    Expanded::onnx("ParametricSoftplus", [1, 1], &["alpha", "beta"], |given, draft| scaled(given, draft, "Softplus")),
    Expanded::onnx("Scale", [1, 1], &["scale"], scale),
    Expanded::onnx("ScaledTanh", [1, 1], &["alpha", "beta"], |given, draft| scaled(given, draft, "Tanh")),
];

/// X times a number, as value `name`.
fn times(draft: &mut Draft, x: &str, factor: f32, name: &str) -> String {
    let factor = draft.number(factor, x, &format!("{name}/factor"));
    draft.op("Mul", &[x, &factor], name, Vec::new())
}

/// alpha X + beta
fn affine(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let x = given.required(0)?;
    let scaled = times(draft, x, given.float("alpha", 1.0)?, "scaled");
    let beta = draft.number(given.float("beta", 0.0)?, x, "beta");
    draft.node("", "Add", &[&scaled, &beta], given.result().to_owned(), Vec::new());
    Ok(())
}

/// scale X
fn scale(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let x = given.required(0)?;
    let factor = draft.number(given.float("scale", 1.0)?, x, "factor");
    draft.node("", "Mul", &[x, &factor], given.result().to_owned(), Vec::new());
    Ok(())
}

/// alpha function(beta X); neither has a default.
fn scaled(given: &Given<'_>, draft: &mut Draft, function: &str) -> Result<(), ModelError> {
    if let Some(missing) = ["alpha", "beta"].into_iter().find(|name| !given.has(name)) {
        return Err(given.malformed(format!("it has no {missing}")));
    }
    let x = given.required(0)?;
    let inner = times(draft, x, given.float("beta", 1.0)?, "inner");
    let made = draft.op(function, &[&inner], "made", Vec::new());
    let alpha = draft.number(given.float("alpha", 1.0)?, x, "alpha");
    draft.node("", "Mul", &[&made, &alpha], given.result().to_owned(), Vec::new());
    Ok(())
}

/// scale X + bias, one number of the bias a channel, which are axis 1 of four.
fn image_scaler(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let x = given.required(0)?;
    let bias = given.floats("bias")?;
    if bias.is_empty() {
        return Err(given.malformed("it has no bias".to_owned()));
    }
    let scaled = times(draft, x, given.float("scale", 1.0)?, "scaled");
    let bias = draft.op("Constant", &[], "bias/numbers", vec![floats("value_floats", bias)]);
    let axes = draft.list(&[1, 2], "bias/axes");
    let bias = draft.op("Unsqueeze", &[&bias, &axes], "bias/channels", Vec::new());
    let bias = draft.op("CastLike", &[&bias, x], "bias", Vec::new());
    draft.node("", "Add", &[&scaled, &bias], given.result().to_owned(), Vec::new());
    Ok(())
}

/// An image without borders (left, top, right, bottom), or of a size (height, width) from the left and top ones on.
fn crop(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let Some(&[left, top, right, bottom]) = given.ints("border")? else {
        return Err(given.malformed("its border has no four sizes".to_owned()));
    };
    let sizes = match given.ints("scale")? {
        None => None,
        Some(&[height, width]) => Some([height, width]),
        Some(other) => return Err(given.malformed(format!("scale = {other:?}"))),
    };
    if [left, top, right, bottom].into_iter().chain(sizes.into_iter().flatten()).any(|size| size < 0) {
        return Err(given.malformed("a border or a size is negative".to_owned()));
    }
    let before = |border: i64| if border == 0 { i64::MAX } else { -border };
    let ends = match sizes {
        Some([height, width]) => [top.saturating_add(height), left.saturating_add(width)],
        None => [before(bottom), before(right)],
    };
    let [starts, ends] = [([top, left], "starts"), (ends, "ends")].map(|(list, name)| draft.list(&list, name));
    let axes = draft.list(&[2, 3], "axes");
    draft.node("", "Slice", &[given.required(0)?, &starts, &ends, &axes], given.result().to_owned(), Vec::new());
    Ok(())
}

/// Slice with its limits as inputs, before Slice itself had them.
fn dynamic_slice(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let inputs: Vec<&str> = (0..given.count()).map(|index| given.optional(index)).collect();
    draft.node("", "Slice", &inputs, given.result().to_owned(), Vec::new());
    Ok(())
}
