//! Products and convolutions that the optimiser has fused with transposes, scales, activations or residuals; and
//! distances, which are products.

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
        "ConvTransposeWithDynamicPads",
        [3, 4],
        &["auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides"],
        conv_transpose,
    ),
    Expanded::microsoft("CDist", [2, 2], &["metric"], distances),
];

/// alpha op(A) op(B), where op may transpose the last two axes; this is Kiln's fused product. An operand may be stored
/// with its rows before the axes of its stack, too.
fn fused_matmul(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let attributes = vec![
        float("alpha", given.float("alpha", 1.0)?),
        int("trans_a", i64::from(given.int("transA", 0)? != 0)),
        int("trans_b", i64::from(given.int("transB", 0)? != 0)),
    ];
    let mut operands = Vec::new();
    for (input, flag) in ["transBatchA", "transBatchB"].into_iter().enumerate() {
        let stored = given.required(input)?;
        operands.push(match given.int(flag, 0)? {
            0 => stored.to_owned(),
            _ => stack_first(draft, stored, flag),
        });
    }
    let inputs: Vec<&str> = operands.iter().map(String::as_str).collect();
    draft.node("kiln", "FusedMatMul", &inputs, given.result().to_owned(), attributes);
    Ok(())
}

/// Matrices whose axes are [rows, stack..., columns] as [stack..., rows, columns].
fn stack_first(draft: &mut Draft, of: &str, name: &str) -> String {
    let rows = draft.sizes(of, 0, 1, &format!("{name}/rows"));
    let stack = draft.sizes(of, 1, -1, &format!("{name}/stack"));
    let columns = draft.sizes(of, -1, i64::MAX, &format!("{name}/columns"));
    let any = draft.list(&[-1], &format!("{name}/any"));
    let flat = shaped(draft, of, &[&rows, &any, &columns], &format!("{name}/flat"));
    let moved = draft.op("Transpose", &[&flat], &format!("{name}/moved"), vec![ints("perm", &[1, 0, 2])]);
    shaped(draft, &moved, &[&stack, &rows, &columns], name)
}

/// The elements of a value in the shape that these lists of sizes make.
fn shaped(draft: &mut Draft, of: &str, sizes: &[&str], name: &str) -> String {
    let to = draft.op("Concat", sizes, &format!("{name}/shape"), vec![int("axis", 0)]);
    draft.op("Reshape", &[of, &to], name, Vec::new())
}

/// A transposed convolution. Input 2 says how much is cut off at the beginning and at the end of each spatial axis.
/// `Pad` with negative amounts cuts it off. The bias is added after that, also where `Pad` adds positions: no tap
/// reaches those.
fn conv_transpose(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let auto = given.text("auto_pad", "NOTSET")?;
    if auto != "NOTSET" {
        return Err(given.unsupported(format!("attribute \"auto_pad\" = {auto:?}")));
    }
    let attributes = given.copied(&["dilations", "group", "kernel_shape", "output_padding", "strides"]);
    let inputs = [given.required(0)?, given.required(1)?];
    let whole = draft.op("ConvTranspose", &inputs, "whole", attributes);
    let cut = given.required(2)?;
    let (shape, other) = (draft.list(&[2, -1], "pads/shape"), draft.list(&[0; 4], "others/list"));
    let ends = draft.op("Reshape", &[cut, &shape], "cut", Vec::new());
    let pads = draft.op("Neg", &[&ends], "pads/spatial", Vec::new());
    // Batches and channels stay.
    let square = draft.list(&[2, 2], "others/shape");
    let others = draft.op("Reshape", &[&other, &square], "others", Vec::new());
    let rows = draft.op("Concat", &[&others, &pads], "pads/rows", vec![int("axis", 1)]);
    let flat = draft.list(&[-1], "pads/flat");
    let pads = draft.op("Reshape", &[&rows, &flat], "pads", Vec::new());
    let Some(bias) = given.input(3) else {
        draft.node("", "Pad", &[&whole, &pads], given.result().to_owned(), Vec::new());
        return Ok(());
    };
    let made = draft.op("Pad", &[&whole, &pads], "made", Vec::new());
    // [channels, 1, ...], with a one for each spatial axis.
    let (spatial, one) = (draft.sizes(&ends, 1, 2, "spatial"), draft.list(&[1], "one"));
    let ones = draft.op("Expand", &[&one, &spatial], "ones", Vec::new());
    let shape = draft.op("Concat", &[&flat, &ones], "bias/shape", vec![int("axis", 0)]);
    let bias = draft.op("Reshape", &[bias, &shape], "bias", Vec::new());
    draft.node("", "Add", &[&made, &bias], given.result().to_owned(), Vec::new());
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

fn fused_conv(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    fused_conv_of(given, draft, [given.required(0)?, given.optional(3)], given.result())
}

/// Adds activation(conv(X, W, B) + Z) for these X and Z; its result is `output`. Z is optional.
pub(super) fn fused_conv_of(
    given: &Given<'_>,
    draft: &mut Draft,
    [x, residual]: [&str; 2],
    output: &str,
) -> Result<(), ModelError> {
    let inputs = &[x, given.required(1)?, given.optional(2)];
    let (has_residual, is_active) = (!residual.is_empty(), !given.text("activation", "")?.is_empty());
    let sums = if has_residual || is_active { draft.named("conv") } else { output.to_owned() };
    draft.node("", "Conv", inputs, sums.clone(), given.copied(CONV));
    let mut total = sums;
    if has_residual {
        let sum = if is_active { draft.named("sum") } else { output.to_owned() };
        draft.node("", "Add", &[&total, residual], sum.clone(), Vec::new());
        total = sum;
    }
    if !is_active {
        return Ok(());
    }
    let parameters = given.floats("activation_params")?;
    let (alpha, beta) = (parameters.first().copied(), parameters.get(1).copied());
    let parameters = Parameters { alpha, beta, gamma: None };
    activate(given, draft, &total, &parameters, output)
}

/// Distances of all rows of A from all rows of B, as |a|^2 + |b|^2 - 2 a b: one product instead of a difference for
/// each pair.
fn distances(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let is_root = match given.text("metric", "sqeuclidean")?.as_str() {
        "sqeuclidean" => false,
        "euclidean" => true,
        other => return Err(given.unsupported(format!("attribute \"metric\" = {other:?}"))),
    };
    let (a, b) = (given.required(0)?, given.required(1)?);
    let axis = draft.list(&[1], "axis");
    let of_a = draft.op("ReduceSumSquare", &[a, &axis], "a/squares", Vec::new());
    let of_b = draft.op("ReduceSumSquare", &[b, &axis], "b/squares", vec![int("keepdims", 0)]);
    let columns = draft.op("Transpose", &[b], "b/columns", vec![ints("perm", &[1, 0])]);
    let product = draft.op("MatMul", &[a, &columns], "product", Vec::new());
    let factor = draft.number(-2.0, a, "factor");
    let product = draft.op("Mul", &[&product, &factor], "product/twice", Vec::new());
    let sum = draft.op("Add", &[&of_a, &of_b], "squares", Vec::new());
    let sum = draft.op("Add", &[&sum, &product], "sum", Vec::new());
    // For equal rows, rounding may give a negative number.
    let zero = draft.number(0.0, a, "zero");
    if !is_root {
        draft.node("", "Max", &[&sum, &zero], given.result().to_owned(), Vec::new());
        return Ok(());
    }
    let sum = draft.op("Max", &[&sum, &zero], "square", Vec::new());
    draft.node("", "Sqrt", &[&sum], given.result().to_owned(), Vec::new());
    Ok(())
}
