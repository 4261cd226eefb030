//! Operators on tensors with channels last: NhwcConv, NhwcFusedConv, QLinearConv, NhwcMaxPool, GroupNorm, SkipGroupNorm.
//! ONNX's own operators between two transposes, which the layout pass takes out again.

use super::given::Given;
use super::products::fused_conv_of;
use super::{Expanded, MICROSOFT};
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, float, int, ints};

pub(super) const OPERATORS: &[Expanded] = &[
    Expanded::microsoft(
        "NhwcConv",
        [2, 3],
        &["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"],
        nhwc_conv,
    ),
    Expanded::microsoft(
        "NhwcFusedConv",
        [2, 4],
        &["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", "activation", "activation_params"],
        nhwc_conv,
    ),
    Expanded::microsoft(
        "NhwcMaxPool",
        [1, 1],
        &["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"],
        nhwc_max_pool,
    ),
    Expanded::microsoft(
        "QLinearConv",
        [8, 9],
        &["auto_pad", "channels_last", "dilations", "group", "kernel_shape", "pads", "strides"],
        qlinear_conv,
    ),
    Expanded::microsoft("GroupNorm", [3, 3], &["activation", "channels_last", "epsilon", "groups"], group_norm),
    Expanded {
        domain: MICROSOFT,
        name: "SkipGroupNorm",
        inputs: [4, 5],
        outputs: 2,
        attributes: &["activation", "channels_last", "epsilon", "groups"],
        expand: skip_group_norm,
    },
];

/// The orders of axes that bring channels to the front, and back to the end.
pub(super) fn channel_orders(spatial: usize) -> [Vec<i64>; 2] {
    let spatial = spatial as i64;
    let front = [0, spatial + 1].into_iter().chain(1..=spatial).collect();
    let back = std::iter::once(0).chain(2..spatial + 2).chain([1]).collect();
    [front, back]
}

/// Without a kernel's shape there are two spatial axes, as the operator's definition has it.
fn nhwc_conv(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let [front, back] = channel_orders(given.ints("kernel_shape")?.map_or(2, <[i64]>::len));
    let mut first = |of: &str, name: &str| draft.op("Transpose", &[of], name, vec![ints("perm", &front)]);
    let x = first(given.required(0)?, "channels first");
    let residual = given.input(3).map(|residual| first(residual, "residual first"));
    let made = draft.named("made");
    fused_conv_of(given, draft, [&x, residual.as_deref().unwrap_or_default()], &made)?;
    draft.node("", "Transpose", &[&made], given.result().to_owned(), vec![ints("perm", &back)]);
    Ok(())
}

/// ONNX's operator of the same name, on channels last where the node says so. Weights have their channels in front.
fn qlinear_conv(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let attributes = given.copied(&["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"]);
    let mut inputs: Vec<&str> = (0..given.count()).map(|index| given.optional(index)).collect();
    if given.int("channels_last", 0)? == 0 {
        draft.node("", "QLinearConv", &inputs, given.result().to_owned(), attributes);
        return Ok(());
    }
    let [front, back] = channel_orders(given.ints("kernel_shape")?.map_or(2, <[i64]>::len));
    let x = draft.op("Transpose", &[given.required(0)?], "channels first", vec![ints("perm", &front)]);
    inputs[0] = &x;
    let made = draft.op("QLinearConv", &inputs, "made", attributes);
    draft.node("", "Transpose", &[&made], given.result().to_owned(), vec![ints("perm", &back)]);
    Ok(())
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

/// GroupNormalization of an image, followed by x sigmoid(x) where the node asks for it.
fn normalised(given: &Given<'_>, draft: &mut Draft, x: &str) -> Result<(), ModelError> {
    let is_last = given.int("channels_last", 1)? != 0;
    let is_active = match given.int("activation", 0)? {
        0 => false,
        1 => true,
        other => return Err(given.unsupported(format!("attribute \"activation\" = {other}"))),
    };
    let groups = given.heads("groups")?;
    let [front, back] = channel_orders(2);
    let mut x = x.to_owned();
    if is_last {
        x = draft.op("Transpose", &[&x], "channels first", vec![ints("perm", &front)]);
    }
    // The parameters may be of another type.
    let gamma = draft.op("CastLike", &[given.required(1)?, &x], "gamma", Vec::new());
    let beta = draft.op("CastLike", &[given.required(2)?, &x], "beta", Vec::new());
    let attributes = vec![int("num_groups", groups), float("epsilon", given.float("epsilon", 1e-5)?)];
    let mut made = draft.op("GroupNormalization", &[&x, &gamma, &beta], "normalised", attributes);
    if is_active {
        let gate = draft.op("Sigmoid", &[&made], "gate", Vec::new());
        made = draft.op("Mul", &[&made, &gate], "active", Vec::new());
    }
    let (op, attributes) = if is_last { ("Transpose", vec![ints("perm", &back)]) } else { ("Identity", Vec::new()) };
    draft.node("", op, &[&made], given.result().to_owned(), attributes);
    Ok(())
}

fn group_norm(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    normalised(given, draft, given.required(0)?)
}

/// [`normalised`] of X + skip + bias. `skip` is an image, or one position for the whole image: [N, C], or with two axes
/// of 1.
fn skip_group_norm(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let (x, skip) = (given.required(0)?, given.required(3)?);
    let (channel, [start, end]) = if given.int("channels_last", 1)? != 0 { (3, [1, 3]) } else { (1, [2, 4]) };
    let (batch, channels) = (draft.sizes(x, 0, 1, "batch"), draft.sizes(x, channel, channel + 1, "channels"));
    let image = draft.sizes(x, start, end, "image");
    // The number of elements tells the form: one position has batch * channels.
    let position = draft.op("Mul", &[&batch, &channels], "position", Vec::new());
    let count = draft.op("Size", &[skip], "skip/count", Vec::new());
    let is_position = draft.op("Equal", &[&count, &position], "skip/is position", Vec::new());
    let one = draft.list(&[1, 1], "one position");
    let positions = draft.op("Where", &[&is_position, &one, &image], "positions", Vec::new());
    let order = if channel == 3 { [&batch, &positions, &channels] } else { [&batch, &channels, &positions] };
    let shape = draft.op("Concat", &order.map(String::as_str), "skip/shape", vec![int("axis", 0)]);
    let skip = draft.op("Reshape", &[skip, &shape], "skip", vec![int("allowzero", 1)]);
    let sum = given.output(1).map_or_else(|| draft.named("sum"), str::to_owned);
    match given.input(4) {
        None => draft.node("", "Add", &[x, &skip], sum.clone(), Vec::new()),
        Some(bias) => {
            let mut bias = bias.to_owned();
            if channel == 1 {
                let axes = draft.list(&[1, 2], "bias/axes");
                bias = draft.op("Unsqueeze", &[&bias, &axes], "bias", Vec::new());
            }
            let skipped = draft.op("Add", &[x, &skip], "skipped", Vec::new());
            draft.node("", "Add", &[&skipped, &bias], sum.clone(), Vec::new());
        }
    }
    normalised(given, draft, &sum)
}
