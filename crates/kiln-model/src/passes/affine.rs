//! Folds per-channel multiplications and additions after a convolution into its weights and bias: batch normalisation,
//! and `Mul`, `Add`, `Sub` and `Div` with constants. After a batch normalisation without a convolution before it, into
//! its scale and shift.

use kiln_tensor::{DType, Tensor};

use super::PassCx;
use super::edit::Edit;
use crate::facts::Facts;
use crate::ir::{Graph, NodeDesc, ValueId};

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let is_candidate = |node: &NodeDesc| {
            node.domain.is_empty() && matches!(node.op.as_str(), "BatchNormalization" | "Mul" | "Add" | "Sub" | "Div")
        };
        let Some(node) = edit.cloned(slot, is_candidate) else { continue };
        fold(&mut edit, slot, &node, &cx.facts);
    }
    edit.finish()
}

/// y = scale * x + shift, per channel.
pub(super) struct Affine {
    pub(super) scale: Vec<f64>,
    pub(super) shift: Vec<f64>,
}

/// The scale and shift of a batch normalisation, if its parameters are constants.
pub(super) fn of_batch_norm(edit: &Edit<'_>, node: &NodeDesc) -> Option<Affine> {
    // Old versions could normalise each position separately, and every version can train.
    let attributes = node.attributes();
    if attributes.flag("training_mode") || attributes.int("spatial") != 1 || node.version < 7 {
        return None;
    }
    let mut parameters = [1, 2, 3, 4].map(|index| {
        let values = edit.constant(node, index).and_then(|tensor| tensor.as_slice::<f32>().ok());
        values.map(|values| values.iter().map(|&value| f64::from(value)).collect::<Vec<f64>>())
    });
    let [gamma, beta, mean, var] = parameters.each_mut().map(Option::take);
    let (gamma, beta, mean, var) = (gamma?, beta?, mean?, var?);
    let channels = gamma.len();
    if [&beta, &mean, &var].iter().any(|values| values.len() != channels) {
        return None;
    }
    let epsilon = f64::from(attributes.float("epsilon"));
    let scale: Vec<f64> = gamma.iter().zip(&var).map(|(gamma, var)| gamma / (var + epsilon).sqrt()).collect();
    let shift = beta.iter().zip(&mean).zip(&scale).map(|((beta, mean), scale)| beta - mean * scale).collect();
    Some(Affine { scale, shift })
}

/// The scale and shift that `node` applies to its operand of `channels` channels and `rank` dimensions, and the index
/// of that operand.
fn affine_of(edit: &Edit<'_>, node: &NodeDesc, operand: usize, channels: usize, rank: usize) -> Option<Affine> {
    if node.op == "BatchNormalization" {
        return of_batch_norm(edit, node).filter(|affine| operand == 0 && affine.scale.len() == channels);
    }
    let values = per_channel(edit.constant(node, 1 - operand)?, channels, rank)?;
    let (ones, zeros) = (vec![1.0; channels], vec![0.0; channels]);
    let negated = |values: &[f64]| values.iter().map(|value| -value).collect::<Vec<f64>>();
    let (scale, shift) = match (node.op.as_str(), operand) {
        ("Mul", _) => (values, zeros),
        ("Add", _) => (ones, values),
        ("Sub", 0) => (ones, negated(&values)),
        ("Sub", _) => (negated(&ones), values),
        ("Div", 0) if values.iter().all(|&value| value != 0.0) => {
            (values.iter().map(|value| 1.0 / value).collect(), zeros)
        }
        _ => return None,
    };
    Some(Affine { scale, shift })
}

/// A constant with one element for each channel (axis 1 of `rank`), or one for all channels.
fn per_channel(constant: &Tensor, channels: usize, rank: usize) -> Option<Vec<f64>> {
    let values = constant.as_slice::<f32>().ok()?;
    let shape = constant.shape();
    let lead = rank.checked_sub(shape.len())?;
    let fits = shape.iter().enumerate().all(|(place, &dim)| dim == 1 || (lead + place == 1 && dim == channels));
    if !fits || !(values.len() == 1 || values.len() == channels) {
        return None;
    }
    Some(values.iter().map(|&value| f64::from(value)).cycle().take(channels).collect())
}

fn fold(edit: &mut Edit<'_>, slot: usize, node: &NodeDesc, facts: &Facts) {
    let operands = if node.op == "BatchNormalization" { 1 } else { 2 };
    if node.outputs.iter().skip(1).any(Option::is_some) {
        return;
    }
    for operand in 0..operands {
        let Some((maker, before)) = node.input(operand).and_then(|value| edit.sole_maker(value)) else { continue };
        let before = before.clone();
        let folded = if before.is("BatchNormalization") {
            into_batch_norm(edit, node, operand, &before, facts)
        } else {
            into_convolution(edit, node, operand, &before, facts)
        };
        if let Some(mut folded) = folded {
            folded.outputs = vec![node.outputs[0]];
            edit.take(maker);
            edit.put(slot, folded);
            return;
        }
    }
}

fn into_batch_norm(
    edit: &mut Edit<'_>,
    node: &NodeDesc,
    operand: usize,
    before: &NodeDesc,
    facts: &Facts,
) -> Option<NodeDesc> {
    // Two batch normalisations in a row stay: each is cheap, and the variance of one cannot be folded into the other.
    if node.op == "BatchNormalization" || before.outputs.iter().skip(1).any(Option::is_some) {
        return None;
    }
    let rank = facts.rank(before.input(0)?).filter(|&rank| rank >= 2)?;
    let (gamma, beta) = (edit.constant(before, 1)?, edit.constant(before, 2)?);
    let (gamma, beta) = (gamma.as_slice::<f32>().ok()?, beta.as_slice::<f32>().ok()?);
    let channels = gamma.len();
    if beta.len() != channels {
        return None;
    }
    let Affine { scale, shift } = affine_of(edit, node, operand, channels, rank)?;
    let new_gamma: Vec<f32> = gamma.iter().zip(&scale).map(|(&g, s)| (f64::from(g) * s) as f32).collect();
    let moved = beta.iter().zip(scale.iter().zip(&shift));
    let new_beta: Vec<f32> = moved.map(|(&b, (scale, shift))| (f64::from(b) * scale + shift) as f32).collect();
    let mut folded = before.clone();
    folded.inputs[1] = Some(vector(edit, "gamma", new_gamma)?);
    folded.inputs[2] = Some(vector(edit, "beta", new_beta)?);
    Some(folded)
}

fn vector(edit: &mut Edit<'_>, stem: &str, values: Vec<f32>) -> Option<ValueId> {
    let tensor = Tensor::from_vec([values.len()], values).ok()?;
    Some(edit.add_constant(stem, tensor))
}

fn into_convolution(
    edit: &mut Edit<'_>,
    node: &NodeDesc,
    operand: usize,
    conv: &NodeDesc,
    facts: &Facts,
) -> Option<NodeDesc> {
    let transposed = conv.is("ConvTranspose") || conv.is_fused("FusedConvTranspose");
    let plain = conv.is("Conv") || conv.is_fused("FusedConv");
    if !(transposed || plain) || conv.input(3).is_some() || conv.attrs.contains_key("activation") {
        return None;
    }
    let weights = edit.constant(conv, 1).filter(|weights| weights.dtype() == DType::F32)?.clone();
    let (shape, groups) = (weights.shape().to_vec(), usize::try_from(conv.attributes().int("group")).ok()?);
    let rank = shape.len();
    if rank < 3 || groups == 0 || facts.rank(conv.input(0)?).is_some_and(|other| other != rank) {
        return None;
    }
    let channels = if transposed { shape[1].checked_mul(groups)? } else { shape[0] };
    let bias = match conv.input(2) {
        None => vec![0.0; channels],
        Some(_) => edit.constant(conv, 2)?.as_slice::<f32>().ok()?.iter().map(|&value| f64::from(value)).collect(),
    };
    let Affine { scale, shift } = affine_of(edit, node, operand, channels, rank)?;
    if bias.len() != channels {
        return None;
    }
    let weights = scaled_weights(weights, &scale, transposed, groups)?;
    let bias = bias.iter().zip(scale.iter().zip(&shift)).map(|(bias, (scale, shift))| (bias * scale + shift) as f32);
    let bias = vector(edit, "bias", bias.collect())?;
    let mut folded = conv.clone();
    folded.inputs.resize(folded.inputs.len().max(3), None);
    folded.inputs[1] = Some(edit.add_constant("weights", weights));
    folded.inputs[2] = Some(bias);
    Some(folded)
}

/// The weights with each output channel multiplied by its scale.
fn scaled_weights(mut weights: Tensor, scale: &[f64], transposed: bool, groups: usize) -> Option<Tensor> {
    if scale.iter().all(|&scale| scale == 1.0) {
        return Some(weights);
    }
    let shape = weights.shape().to_vec();
    let taps: usize = shape[2..].iter().product();
    let values = weights.as_mut_slice::<f32>().ok()?;
    let (outer, inner) = (shape[0], shape[1]);
    let inputs_per_group = (outer / groups).max(1);
    for (block, taps) in values.chunks_exact_mut(taps.max(1)).enumerate() {
        // Conv: [output, input of group]; ConvTranspose: [input, output of group].
        let (row, column) = (block / inner.max(1), block % inner.max(1));
        let channel = if transposed { row / inputs_per_group * inner + column } else { row };
        let scale = *scale.get(channel)?;
        for value in taps {
            *value = (f64::from(*value) * scale) as f32;
        }
    }
    Some(weights)
}
