//! Normalisations: of rows ([`rows`]), by channel ([`channels`]), by place ([`places`]), and over any axes ([`axes`]).
//!
//! All compute in `f32`; other floats are converted around them. Statistics of batches are only taken in training, for
//! which a plain loop is enough.

mod axes;
mod channels;
#[cfg(feature = "device")]
mod device;
mod places;
mod rows;

use kiln_kernels::cpu::norm::Channels as Images;

use super::convert::{first_through_f32, through_f32};
use super::stored::STORED;
use super::{Operator, refused, required};
use crate::graph::NodeError;
use crate::tensor::{DType, Tensor, TensorError};

/// This group's operators.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "LayerNormalization", |cx| match cx.node.attrs.contains_key(STORED) {
        true => rows::make(cx, true),
        false => first_through_f32(cx, |cx| rows::make(cx, true)),
    }),
    ("", "RMSNormalization", |cx| match cx.node.attrs.contains_key(STORED) {
        true => rows::make(cx, false),
        false => through_f32(cx, |cx| rows::make(cx, false)),
    }),
    ("", "BatchNormalization", |cx| {
        // Of operator sets 7 and 8.
        let each_place = cx.node.version < 9 && cx.node.attributes().int("spatial") == 0;
        through_f32(cx, if each_place { places::make } else { channels::make_batch })
    }),
    ("", "InstanceNormalization", |cx| through_f32(cx, channels::make_instance)),
    ("", "GroupNormalization", |cx| through_f32(cx, channels::make_group)),
    ("", "LRN", |cx| through_f32(cx, channels::make_local)),
    ("", "MeanVarianceNormalization", |cx| through_f32(cx, axes::make_mean_variance)),
    ("", "LpNormalization", |cx| through_f32(cx, axes::make_lp)),
];

/// Input `index`, of `f32`.
fn floats<'t>(inputs: &[Option<&'t Tensor>], index: usize) -> Result<&'t Tensor, NodeError> {
    let input = required(inputs, index)?;
    match input.dtype() {
        DType::F32 => Ok(input),
        found => Err(TensorError::Type { expected: DType::F32, found }.into()),
    }
}

/// The images in a tensor `[N, C, ...]`, or `[N, ..., C]` where channels come last.
fn images(shape: &[usize], last: bool) -> Result<Images, NodeError> {
    let (channels, spatial): (usize, &[usize]) = match *shape {
        [_, ref spatial @ .., channels] if last => (channels, spatial),
        [_, channels, ref spatial @ ..] if !last => (channels, spatial),
        // One channel, which has no axis of its own.
        [_] if !last => (1, &[]),
        _ => return Err(refused(format!("shape {shape:?} is not that of images with channels"))),
    };
    let spatial = spatial.iter().product::<usize>() as u64;
    Ok(Images { batch: shape[0] as u64, channels: channels as u64, spatial, last })
}

/// Input `index`, which has one number a channel.
fn of_channels<'t>(inputs: &[Option<&'t Tensor>], index: usize, channels: u64) -> Result<&'t Tensor, NodeError> {
    let values = floats(inputs, index)?;
    if values.len() as u64 != channels {
        return Err(refused(format!("input {index} has {} elements for {channels} channels", values.len())));
    }
    Ok(values)
}

/// Its numbers.
fn by_channel<'t>(inputs: &[Option<&'t Tensor>], index: usize, channels: u64) -> Result<&'t [f32], NodeError> {
    Ok(of_channels(inputs, index, channels)?.as_slice()?)
}

#[cfg(test)]
mod tests;
