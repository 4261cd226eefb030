//! The description of normalisations: how moments are taken, images with channels, windows of channels.

use kiln_key::{F32Bits, Mutate};
use serde::{Deserialize, Serialize};

use super::description::sizes;

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
    /// Images, channels and positions, in the type in which memory is counted.
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
}

/// Local response normalisation: `x / (bias + alpha / size * sum of squares)^beta`, over the `size` channels around
/// each channel.
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
