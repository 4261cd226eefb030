//! A convolution's input: one tensor, or several whose channels follow each other, as if they had been joined.

use crate::cpu::{Activations, Stored};
use crate::error::{KernelError, Result};
use crate::problem::conv::ConvShape;

/// A convolution's input, channels last.
#[derive(Clone, Copy, Debug)]
pub enum ConvInput<'a> {
    /// One tensor.
    Whole(Activations<'a>),
    /// Several tensors with the same positions, where [`Conv::takes_parts`](super::Conv::takes_parts) allows it.
    Parts(&'a [ConvPart<'a>]),
}

/// All positions of some of an input's channels.
#[derive(Clone, Copy, Debug)]
pub struct ConvPart<'a> {
    /// Its elements.
    pub x: Activations<'a>,
    /// Its channels.
    pub channels: usize,
}

impl<'a> From<Activations<'a>> for ConvInput<'a> {
    fn from(x: Activations<'a>) -> Self {
        ConvInput::Whole(x)
    }
}

impl<'a> From<&'a [f32]> for ConvInput<'a> {
    fn from(x: &'a [f32]) -> Self {
        ConvInput::Whole(x.into())
    }
}

impl<'a> ConvInput<'a> {
    /// The parts; a single tensor is one part.
    pub(super) fn parts<'s>(&'s self, channels: usize, one: &'s mut Option<ConvPart<'a>>) -> &'s [ConvPart<'a>] {
        match self {
            ConvInput::Whole(x) => std::slice::from_ref(one.insert(ConvPart { x: *x, channels })),
            ConvInput::Parts(parts) => parts,
        }
    }
}

/// Whether each part but the last has a whole multiple of `unit` channels. Every part then starts at a multiple, which
/// suits kernels that take `unit` channels at a time.
pub(super) fn starts_at(parts: &[usize], unit: usize) -> bool {
    parts.split_last().is_some_and(|(_, before)| before.iter().all(|channels| channels.is_multiple_of(unit)))
}

/// Refuses an operand of another length than the one needed.
pub(super) fn bounds(operand: &'static str, have: usize, need: usize) -> Result<()> {
    if have == need { Ok(()) } else { Err(KernelError::Bounds { family: "conv", operand, have, need }) }
}

/// The type of all parts, where they are as large as the shape says.
pub(super) fn check(parts: &[ConvPart<'_>], shape: &ConvShape) -> Result<Stored> {
    bounds("channels", parts.iter().map(|part| part.channels).sum(), shape.channels())?;
    let positions = shape.input_len() / shape.channels().max(1);
    for part in parts {
        bounds("input", part.x.len(), positions * part.channels)?;
    }
    let mut stored = parts.iter().map(|part| part.x.stored());
    let first = stored.next().unwrap_or_default();
    if stored.any(|stored| stored != first) {
        let reason = "parts of an input that are stored in two ways".to_owned();
        return Err(KernelError::Unsupported { family: "conv", reason });
    }
    Ok(first)
}
