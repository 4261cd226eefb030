//! The description of a convolution, plain or transposed, of up to three spatial dimensions; missing dimensions have
//! size 1.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::description::sizes;

/// Sizes of a convolution. Spatial sizes are depth, height, width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ConvShape {
    /// Images.
    pub batch: u64,
    /// Input channels, of all groups.
    pub channels: u64,
    /// Output channels, of all groups.
    pub filters: u64,
    /// Groups that the channels are split into.
    pub groups: u64,
    /// Input positions.
    pub input: [u64; 3],
    /// Output positions.
    pub output: [u64; 3],
    /// Kernel positions.
    pub kernel: [u64; 3],
    /// Strides: input positions from one output to the next; output positions from one input to the next if transposed.
    pub strides: [u64; 3],
    /// Dilations: input positions from one tap to the next.
    pub dilations: [u64; 3],
    /// Padding before the first position. The padding after the last follows from the output's size.
    pub pads: [u64; 3],
    /// Whether it is the transposed operation.
    pub transposed: bool,
}

sizes!(ConvShape {
    batch: usize,
    channels: usize,
    filters: usize,
    groups: usize,
    input: [usize; 3],
    output: [usize; 3],
    kernel: [usize; 3],
    strides: [usize; 3],
    dilations: [usize; 3],
    pads: [usize; 3],
});

impl ConvShape {
    /// Positions of the kernel.
    #[must_use]
    pub fn taps(&self) -> usize {
        self.kernel().iter().product()
    }

    /// Elements of the input.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.batch() * self.input().iter().product::<usize>() * self.channels()
    }

    /// Elements of the output.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.batch() * self.output().iter().product::<usize>() * self.filters()
    }

    /// Input channels of a group.
    #[must_use]
    pub fn group_channels(&self) -> usize {
        self.channels() / self.groups().max(1)
    }

    /// Output channels of a group.
    #[must_use]
    pub fn group_filters(&self) -> usize {
        self.filters() / self.groups().max(1)
    }

    /// Multiply-adds, padding included.
    #[must_use]
    pub fn work(&self) -> usize {
        let positions = if self.transposed { self.input() } else { self.output() };
        let [depth, height, width] = positions;
        [self.batch(), depth, height, width, self.filters(), self.group_channels(), self.taps()]
            .into_iter()
            .fold(1, usize::saturating_mul)
    }

    /// Whether the window is one position at stride 1, without padding: a matrix product.
    #[must_use]
    pub fn is_pointwise(&self) -> bool {
        !self.transposed
            && self.taps() == 1
            && self.strides() == [1; 3]
            && self.pads() == [0; 3]
            && self.input() == self.output()
    }
}
