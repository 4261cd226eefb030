//! The description of weighted sums of elements at places of images.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::description::sizes;

/// Images, and places whose values are weighted sums of some elements of every plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Blend {
    /// Images, each with places of its own.
    pub images: u64,
    /// Planes of an image.
    pub channels: u64,
    /// Elements of a plane.
    pub area: u64,
    /// Places of an image.
    pub places: u64,
    /// Elements that a place reads, at least 1.
    pub taps: u64,
}

sizes!(Blend { images: usize, channels: usize, area: usize, places: usize, taps: usize });

impl Blend {
    /// Elements of all images, and values at all places; `None` where memory could not hold that many, or where places
    /// read nothing.
    #[must_use]
    pub fn elements(&self) -> Option<[usize; 2]> {
        let counted = |count: u64| {
            let sizes = [self.images, self.channels, count];
            let bytes = sizes.iter().try_fold(4u64, |bytes, &size| bytes.checked_mul(size.max(1)))?;
            // One more row of channels stands for the elements outside of an image.
            let bytes = bytes.checked_add(self.channels.checked_mul(4)?)?;
            (bytes <= isize::MAX as u64).then(|| sizes.iter().product::<u64>() as usize)
        };
        let [input, output] = [counted(self.area)?, counted(self.places)?];
        (self.taps > 0 && self.taps <= MOST_TAPS).then_some([input, output])
    }
}

/// Most elements that a place reads: cubic convolution along seven axes.
pub const MOST_TAPS: u64 = 1 << 14;
