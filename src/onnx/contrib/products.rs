//! Products and convolutions with what the optimiser fuses into them: transposes, scales, activations, residuals.

use super::Expanded;
use super::activations::{Parameters, activate};
use super::given::Given;
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, float, int, ints, text};

/// The attributes of convolutions.
const CONV: &[&str] = &["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"];

pub(super) const OPERATORS: &[Expanded] = &[
    Expanded::microsoft(
        "FusedMatMul",
        [2, 2],
        &["alpha", "transA", "transB", "transBatchA", "transBatchB"],
        fused_matmul,
    ),
    Expanded::microsoft(
        "TransposeMatMul",
        [2, 2],
        &["alpha", "transA", "transB", "transBatchA", "transBatchB"],
        fused_matmul,
    ),
    Expanded::microsoft(
        "FusedGemm",
        [2, 3],
        &["alpha", "beta", "transA", "transB", "activation", "activation_alpha", "activation_beta", "activation_gamma"],
        fused_gemm,
    ),
    Expanded::microsoft("GemmFastGelu", [2, 3], &[], gemm_fast_gelu),
    Expanded::microsoft(
        "FusedConv",
        [2, 4],
        &["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", "activation", "activation_params"],
        fused_conv,
    ),
    Expanded::microsoft(
        "NhwcMaxPool",
        [1, 1],
        &["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"],
        nhwc_max_pool,
    ),
];

/// alpha op(A) op(B), which transposes the last two axes of either; Kiln's fused product is the same.
fn fused_matmul(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    given.only("transBatchA", 0)?;
    given.only("transBatchB", 0)?;
    let attributes = vec![
        float("alpha", given.float("alpha", 1.0)?),
        int("trans_a", i64::from(given.int("transA", 0)? != 0)),
        int("trans_b", i64::from(given.int("transB", 0)? != 0)),
    ];
    let inputs = [given.required(0)?, given.required(1)?];
    draft.node("kiln", "FusedMatMul", &inputs, given.result().to_owned(), attributes);
    Ok(())
}

fn fused_gemm(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let inputs = &[given.required(0)?, given.required(1)?, given.optional(2)];
    let attributes = given.copied(&["alpha", "beta", "transA", "transB"]);
    let activation = given.text("activation", "")?;
    if activation.is_empty() {
        draft.node("", "Gemm", inputs, given.result().to_owned(), attributes);
        return Ok(());
    }
    let product = draft.op("Gemm", inputs, "product", attributes);
    let number = |name: &str| if given.has(name) { given.float(name, 0.0).map(Some) } else { Ok(None) };
    let [alpha, beta, gamma] = [number("activation_alpha")?, number("activation_beta")?, number("activation_gamma")?];
    let parameters = Parameters { alpha, beta, gamma };
    activate(given, draft, &product, &parameters, given.result())
}

fn gemm_fast_gelu(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let mut product = draft.op("MatMul", &[given.required(0)?, given.required(1)?], "product", Vec::new());
    if let Some(bias) = given.input(2) {
        product = draft.op("Add", &[&product, bias], "biased", Vec::new());
    }
    draft.node("", "Gelu", &[&product], given.result().to_owned(), vec![text("approximate", "tanh")]);
    Ok(())
}

/// activation(conv(X, W, B) + Z)
fn fused_conv(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let inputs = &[given.required(0)?, given.required(1)?, given.optional(2)];
    let (residual, is_active) = (given.input(3), !given.text("activation", "")?.is_empty());
    let sums = match residual.is_some() || is_active {
        true => draft.named("conv"),
        false => given.result().to_owned(),
    };
    draft.node("", "Conv", inputs, sums.clone(), given.copied(CONV));
    let total = match residual {
        None => sums,
        Some(residual) => {
            let total = if is_active { draft.named("sum") } else { given.result().to_owned() };
            draft.node("", "Add", &[&sums, residual], total.clone(), Vec::new());
            total
        }
    };
    if !is_active {
        return Ok(());
    }
    let parameters = given.floats("activation_params")?;
    let (alpha, beta) = (parameters.first().copied(), parameters.get(1).copied());
    let parameters = Parameters { alpha, beta, gamma: None };
    activate(given, draft, &total, &parameters, given.result())
}

/// The orders of axes that bring channels to the front, and back to the end.
pub(super) fn channel_orders(spatial: usize) -> [Vec<i64>; 2] {
    let spatial = spatial as i64;
    let front = [0, spatial + 1].into_iter().chain(1..=spatial).collect();
    let back = std::iter::once(0).chain(2..spatial + 2).chain([1]).collect();
    [front, back]
}

fn nhwc_max_pool(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let Some(kernel) = given.ints("kernel_shape")? else {
        return Err(given.malformed("it has no kernel_shape".to_owned()));
    };
    let [front, back] = channel_orders(kernel.len());
    let x = draft.op("Transpose", &[given.required(0)?], "channels first", vec![ints("perm", &front)]);
    let attributes = given.copied(&["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"]);
    let pooled = draft.op("MaxPool", &[&x], "pooled", attributes);
    draft.node("", "Transpose", &[&pooled], given.result().to_owned(), vec![ints("perm", &back)]);
    Ok(())
}
