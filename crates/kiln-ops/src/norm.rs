//! Normalisations: of rows ([`rows`]), by channel ([`channels`]), by place ([`places`]), and over any axes ([`axes`]).
//!
//! All compute in `f32` or `f64` ([`double`]); other floats are converted around them. Statistics of batches are only
//! taken in training, for which a plain loop is enough.

mod axes;
mod channels;
mod device;
mod double;
mod places;
mod rows;

use kiln_kernels::cpu::norm::Channels as Images;
use kiln_run::NodeError;
use kiln_tensor::{DType, Tensor, TensorError};

use super::convert::{first_through_f32, through_f32};
use super::double::with_double;
use super::stored::STORED;
use super::{MakeNode, Operator, refused, required};

/// This group's operators.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "LayerNormalization", |cx| match cx.node.attrs.contains_key(STORED) {
        true => rows::make(cx, true),
        false => with_double(cx, |cx| double::rows(cx, true), |cx| first_through_f32(cx, |cx| rows::make(cx, true))),
    }),
    ("", "RMSNormalization", |cx| match cx.node.attrs.contains_key(STORED) {
        true => rows::make(cx, false),
        false => with_double(cx, |cx| double::rows(cx, false), |cx| through_f32(cx, |cx| rows::make(cx, false))),
    }),
    ("", "BatchNormalization", |cx| {
        // Of operator sets 7 and 8.
        let each_place = cx.node.version < 9 && cx.node.attributes().int("spatial") == 0;
        match each_place {
            true => through_f32(cx, places::make),
            false => with_double(
                cx,
                |cx| double::channels(channels::batch(cx)?),
                |cx| through_f32(cx, |cx| Ok(Box::new(channels::batch(cx)?))),
            ),
        }
    }),
    ("", "InstanceNormalization", |cx| {
        let other: MakeNode = |cx| through_f32(cx, |cx| Ok(Box::new(channels::instance(cx)?)));
        with_double(cx, |cx| double::channels(channels::instance(cx)?), other)
    }),
    ("", "GroupNormalization", |cx| {
        let other: MakeNode = |cx| through_f32(cx, |cx| Ok(Box::new(channels::group(cx)?)));
        with_double(cx, |cx| double::channels(channels::group(cx)?), other)
    }),
    ("", "LRN", |cx| {
        let other: MakeNode = |cx| through_f32(cx, |cx| Ok(Box::new(channels::local(cx)?)));
        with_double(cx, |cx| double::channels(channels::local(cx)?), other)
    }),
    ("", "MeanVarianceNormalization", |cx| {
        let other: MakeNode = |cx| through_f32(cx, |cx| Ok(Box::new(axes::mean_variance(cx)?)));
        with_double(cx, |cx| double::axes(axes::mean_variance(cx)?), other)
    }),
    ("", "LpNormalization", |cx| {
        let other: MakeNode = |cx| through_f32(cx, |cx| Ok(Box::new(axes::lp(cx)?)));
        with_double(cx, |cx| double::axes(axes::lp(cx)?), other)
    }),
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
fn counted<'t>(inputs: &[Option<&'t Tensor>], index: usize, channels: u64) -> Result<&'t Tensor, NodeError> {
    let values = required(inputs, index)?;
    if values.len() as u64 != channels {
        return Err(refused(format!("input {index} has {} elements for {channels} channels", values.len())));
    }
    Ok(values)
}

/// Its numbers.
fn by_channel<'t>(inputs: &[Option<&'t Tensor>], index: usize, channels: u64) -> Result<&'t [f32], NodeError> {
    Ok(counted(inputs, index, channels)?.as_slice()?)
}

#[cfg(test)]
mod tests;
