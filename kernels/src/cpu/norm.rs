//! Normalisations of `f32`.
//!
//! [`rows`] normalises rows (layer and RMS normalisation) with code from [`emit`]; [`channels`] scales and shifts by
//! channel and normalises by instance or group; [`local`] is local response normalisation. The oracles are in
//! [`reference::norm`](crate::reference::norm). Depends on no ONNX attributes.

pub mod channels;
pub mod emit;
pub mod local;
pub mod rows;
#[cfg(test)]
mod tests;

use kiln_key::{F32Bits, Mutate};
use serde::{Deserialize, Serialize};

pub use channels::{Affine, GroupOperands, Groups};
pub use emit::{RowNormArgs, RowNormCode};
pub use local::LocalNorm;
pub use rows::{RowForm, RowNorm, RowOperands, RowResults};

use crate::cpu::description::sizes;
use crate::error::{KernelError, Result};

pub(crate) const FAMILY: &str = "norm";

/// How the moments of a row are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Whether the mean is subtracted; else it counts as zero.
    pub centred: bool,
    /// Added to the variance.
    pub epsilon: f32,
}

/// The shape of images with channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Channels {
    /// Images.
    pub batch: u64,
    /// Channels.
    pub channels: u64,
    /// Positions of an image: the product of its spatial dimensions.
    pub spatial: u64,
    /// Channels last (NHWC); else channels first (NCHW).
    pub last: bool,
}

sizes!(Channels { batch: usize, channels: usize, spatial: usize });

impl Channels {
    /// Images, channels and positions, as memory is counted.
    #[must_use]
    pub fn sizes(&self) -> [usize; 3] {
        [self.batch(), self.channels(), self.spatial()]
    }

    /// The index of an element.
    #[must_use]
    pub fn at(&self, image: usize, channel: usize, place: usize) -> usize {
        if self.last {
            (image * self.spatial() + place) * self.channels() + channel
        } else {
            (image * self.channels() + channel) * self.spatial() + place
        }
    }

    /// Elements; an error where they cannot be counted.
    pub(crate) fn elements(&self) -> Result<usize> {
        let dims = self.sizes();
        let bytes = dims.iter().try_fold(4usize, |bytes, &dim| bytes.checked_mul(dim.max(1)));
        match bytes {
            Some(bytes) if bytes <= isize::MAX as usize => Ok(dims.iter().product()),
            _ => Err(unsupported(format!("{self:?} is too large"))),
        }
    }
}

/// Local response normalisation: `x / (bias + alpha / size * sum of squares)^beta`, over `size` channels around each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Local {
    /// Channels in the window, at least 1.
    pub size: u64,
    /// Factor of the mean square.
    pub alpha: F32Bits,
    /// Exponent.
    pub beta: F32Bits,
    /// Summand.
    pub bias: F32Bits,
}

sizes!(Local { size: usize });

impl Local {
    /// Channels of the window before and after the channel itself.
    #[must_use]
    pub fn reach(&self) -> (usize, usize) {
        let before = self.size().saturating_sub(1) / 2;
        (before, self.size().saturating_sub(1) - before)
    }
}

pub(crate) fn unsupported(reason: String) -> KernelError {
    KernelError::Unsupported { family: FAMILY, reason }
}

pub(crate) fn bounds(operand: &'static str, have: usize, need: usize) -> Result<()> {
    if have < need { Err(KernelError::Bounds { family: FAMILY, operand, have, need }) } else { Ok(()) }
}
