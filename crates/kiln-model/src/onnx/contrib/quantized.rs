//! Operators on quantised tensors. Element-wise ones become the float operator between DequantizeLinear and
//! QuantizeLinear; fusion returns to bytes where a kernel takes them. Products become integer products that are cast
//! and scaled.

use super::activations::softmax_of_rows;
use super::channels::channel_orders;
use super::given::Given;
use super::{Expanded, renamed};
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, int, ints};

pub(super) const OPERATORS: &[Expanded] = &[
    Expanded::microsoft("QuantizeLinear", [2, 3], &["axis", "block_size", "output_dtype", "saturate"], renamed),
    Expanded::microsoft("DequantizeLinear", [2, 3], &["axis", "block_size"], renamed),
    Expanded::microsoft("DynamicQuantizeMatMul", [3, 5], &[], dynamic_matmul),
    Expanded::microsoft("MatMulIntegerToFloat", [4, 7], &[], matmul_to_float),
    Expanded::microsoft("MatMulInteger16", [2, 2], &[], matmul_of_16_bits),
    Expanded::microsoft("QLinearMul", [7, 8], &[], |g, d| between_two(g, d, "Mul")),
    Expanded::microsoft("QLinearConcat", [5, 255], &["axis"], concat),
    Expanded::microsoft("QLinearSigmoid", [4, 5], &[], |g, d| function(g, d, "Sigmoid", &[])),
    Expanded::microsoft("QLinearLeakyRelu", [4, 5], &["alpha"], |g, d| function(g, d, "LeakyRelu", &["alpha"])),
    Expanded::microsoft("QLinearSoftmax", [5, 5], &["axis", "opset"], softmax),
    Expanded::microsoft(
        "QLinearAveragePool",
        [4, 5],
        &["auto_pad", "ceil_mode", "channels_last", "count_include_pad", "kernel_shape", "pads", "strides"],
        average_pool,
    ),
    Expanded::microsoft("QLinearReduceMean", [4, 5], &["axes", "keepdims"], reduce_mean),
    Expanded::microsoft("QLinearWhere", [9, 9], &[], select),
];

/// An integer product, as numbers: sums scale + bias.
struct Product<'a> {
    operands: [&'a str; 2],
    zero_points: [&'a str; 2],
    scale: &'a str,
    bias: Option<&'a str>,
}

fn scaled(given: &Given<'_>, draft: &mut Draft, product: &Product<'_>) {
    let ([a, b], [a_zero, b_zero]) = (product.operands, product.zero_points);
    let sums = draft.op("MatMulInteger", &[a, b, a_zero, b_zero], "sums", Vec::new());
    let sums = draft.op("Cast", &[&sums], "sums/float", vec![int("to", 1)]);
    match product.bias {
        None => draft.node("", "Mul", &[&sums, product.scale], given.result().to_owned(), Vec::new()),
        Some(bias) => {
            let scaled = draft.op("Mul", &[&sums, product.scale], "scaled", Vec::new());
            draft.node("", "Add", &[&scaled, bias], given.result().to_owned(), Vec::new());
        }
    }
}

/// A product of an operand that is quantised with one scale and of weights in bytes.
fn dynamic_matmul(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let (a, b) = (given.required(0)?, given.required(1)?);
    let made = ["bytes", "scale", "zero"].map(|name| draft.named(&format!("a/{name}")));
    draft.many("DynamicQuantizeLinear", &[a], &[&made[0], &made[1], &made[2]], Vec::new());
    let scale = draft.op("Mul", &[&made[1], given.required(2)?], "scale", Vec::new());
    let zero_points = [made[2].as_str(), given.optional(3)];
    scaled(given, draft, &Product { operands: [&made[0], b], zero_points, scale: &scale, bias: given.input(4) });
    Ok(())
}

fn matmul_to_float(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let operands = [given.required(0)?, given.required(1)?];
    let scale = draft.op("Mul", &[given.required(2)?, given.required(3)?], "scale", Vec::new());
    let zero_points = [given.optional(4), given.optional(5)];
    scaled(given, draft, &Product { operands, zero_points, scale: &scale, bias: given.input(6) });
    Ok(())
}

/// A product of 16 bits, whose sums are of 32.
fn matmul_of_16_bits(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let a = draft.op("Cast", &[given.required(0)?], "a", vec![int("to", 6)]);
    let b = draft.op("Cast", &[given.required(1)?], "b", vec![int("to", 6)]);
    draft.node("", "MatMul", &[&a, &b], given.result().to_owned(), Vec::new());
    Ok(())
}

/// The numbers of a quantised tensor: input `index`, whose scale and zero point follow.
fn numbers(given: &Given<'_>, draft: &mut Draft, index: usize, name: &str) -> Result<String, ModelError> {
    let inputs = [given.required(index)?, given.required(index + 1)?, given.optional(index + 2)];
    Ok(draft.op("DequantizeLinear", &inputs, name, Vec::new()))
}

/// Quantises the result by the scale in input `index` and the zero point after it, which is 0 of the type of `like` if
/// left out.
fn quantized(given: &Given<'_>, draft: &mut Draft, value: &str, index: usize, like: &str) -> Result<(), ModelError> {
    let zero = match given.input(index + 1) {
        Some(zero) => zero.to_owned(),
        None => draft.number(0.0, like, "zero"),
    };
    let inputs = [value, given.required(index)?, &zero];
    draft.node("", "QuantizeLinear", &inputs, given.result().to_owned(), Vec::new());
    Ok(())
}

fn between_two(given: &Given<'_>, draft: &mut Draft, op: &str) -> Result<(), ModelError> {
    let (a, b) = (numbers(given, draft, 0, "a")?, numbers(given, draft, 3, "b")?);
    let made = draft.op(op, &[&a, &b], "made", Vec::new());
    quantized(given, draft, &made, 6, given.required(0)?)
}

fn function(given: &Given<'_>, draft: &mut Draft, op: &str, attributes: &[&str]) -> Result<(), ModelError> {
    let x = numbers(given, draft, 0, "x")?;
    let made = draft.op(op, &[&x], "made", given.copied(attributes));
    quantized(given, draft, &made, 3, given.required(0)?)
}

/// The scale and the zero point of the result come first, then three inputs for each part.
fn concat(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    if given.count() % 3 != 2 {
        return Err(given.malformed(format!("it has {} inputs, not threes behind two", given.count())));
    }
    if !given.has("axis") {
        return Err(given.malformed("it has no axis".to_owned()));
    }
    let places = (2..given.count()).step_by(3);
    let parts: Vec<String> =
        places.map(|index| numbers(given, draft, index, &format!("part {index}"))).collect::<Result<_, _>>()?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let joined = draft.op("Concat", &parts, "joined", given.copied(&["axis"]));
    quantized(given, draft, &joined, 0, given.required(2)?)
}

/// Before operator set 13 all axes from `axis` on were one row.
fn softmax(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let x = numbers(given, draft, 0, "x")?;
    let axis = given.int("axis", -1)?;
    let made = if given.int("opset", 13)? >= 13 {
        draft.op("Softmax", &[&x], "made", vec![int("axis", axis)])
    } else {
        let made = draft.named("made");
        softmax_of_rows(draft, &x, axis, &made);
        made
    };
    quantized(given, draft, &made, 3, given.required(0)?)
}

fn average_pool(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let Some(kernel) = given.ints("kernel_shape")? else {
        return Err(given.malformed("it has no kernel_shape".to_owned()));
    };
    let is_last = given.int("channels_last", 0)? != 0;
    let [front, back] = channel_orders(kernel.len());
    let attributes = given.copied(&["auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"]);
    if !is_last {
        let x = numbers(given, draft, 0, "x")?;
        let made = draft.op("AveragePool", &[&x], "pooled", attributes);
        return quantized(given, draft, &made, 3, given.required(0)?);
    }
    // The transpose moves bytes, so that the pool stays between a DequantizeLinear and a QuantizeLinear.
    let moved = draft.op("Transpose", &[given.required(0)?], "channels first", vec![ints("perm", &front)]);
    let x = draft.op("DequantizeLinear", &[&moved, given.required(1)?, given.optional(2)], "x", Vec::new());
    let pooled = draft.op("AveragePool", &[&x], "pooled", attributes);
    let zero = match given.input(4) {
        Some(zero) => zero.to_owned(),
        None => draft.number(0.0, given.required(0)?, "zero"),
    };
    let bytes = draft.op("QuantizeLinear", &[&pooled, given.required(3)?, &zero], "bytes", Vec::new());
    draft.node("", "Transpose", &[&bytes], given.result().to_owned(), vec![ints("perm", &back)]);
    Ok(())
}

fn reduce_mean(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let x = numbers(given, draft, 0, "x")?;
    let axes = given.ints("axes")?.map(|axes| draft.list(axes, "axes"));
    let inputs = [x.as_str(), axes.as_deref().unwrap_or_default()];
    let made = draft.op("ReduceMean", &inputs, "made", given.copied(&["keepdims"]));
    quantized(given, draft, &made, 3, given.required(0)?)
}

fn select(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let (x, y) = (numbers(given, draft, 1, "x")?, numbers(given, draft, 4, "y")?);
    let made = draft.op("Where", &[given.required(0)?, &x, &y], "made", Vec::new());
    quantized(given, draft, &made, 7, given.required(1)?)
}
