//! The description of regions of images that are pooled.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::description::sizes;

/// Images, and regions of them whose bins are pooled. Where the regions lie is an argument of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Regions {
    /// Images.
    pub images: u64,
    /// Planes of an image.
    pub channels: u64,
    /// Rows and columns of a plane.
    pub size: [u64; 2],
    /// Regions of all images.
    pub regions: u64,
    /// Bins of a region along rows and along columns.
    pub bins: [u64; 2],
    /// Samples of a bin along an axis; 0 where a region's length decides.
    pub samples: u64,
    /// The greatest element of the samples instead of their mean.
    pub max: bool,
}

sizes!(Regions { images: usize, channels: usize, size: [usize; 2], regions: usize, bins: [usize; 2] });

impl Regions {
    /// Elements of all images and bins of all regions, in all channels; `None` where memory could not hold that many.
    #[must_use]
    pub fn elements(&self) -> Option<[usize; 2]> {
        let counted = |count: u64, [rows, columns]: [u64; 2]| {
            // Blocks of channels are filled up.
            let channels = self.channels.checked_next_multiple_of(MOST_LANES as u64)?;
            let sizes = [count, channels, rows, columns];
            let bytes = sizes.iter().try_fold(8u64, |bytes, &size| bytes.checked_mul(size.max(1)))?;
            let elements = [count, self.channels, rows, columns].iter().product::<u64>();
            (bytes <= isize::MAX as u64).then_some(elements as usize)
        };
        Some([counted(self.images, self.size)?, counted(self.regions, self.bins)?])
    }
}

/// Most channels that are pooled at once.
pub const MOST_LANES: usize = 16;

/// A region of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// The image's number.
    pub image: usize,
    /// The region along rows.
    pub rows: Extent,
    /// The region along columns.
    pub columns: Extent,
}

/// A region along one axis, in elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// Where the first bin starts.
    pub start: f64,
    /// Length of a bin.
    pub bin: f64,
    /// Samples of a bin. A negative number means none.
    pub samples: f64,
}

impl Extent {
    /// Where a sample of a bin lies.
    #[inline]
    #[must_use]
    pub fn place(&self, bin: usize, sample: usize) -> f64 {
        self.start + self.bin * (bin as f64 + (sample as f64 + 0.5) / self.samples)
    }
}

/// Two neighbours along an axis with their weights; nothing for a sample more than one element outside.
pub type Neighbours = Option<[(usize, f64); 2]>;

/// What a sample reads of an axis of `size` elements.
#[inline]
#[must_use]
pub fn neighbours(place: f64, size: usize) -> Neighbours {
    if !(-1.0..=size as f64).contains(&place) {
        return None;
    }
    let last = size as f64 - 1.0;
    let place = place.clamp(0.0, last);
    let low = place.floor();
    let high = (low + 1.0).min(last);
    Some([(low as usize, 1.0 - (place - low)), (high as usize, place - low)])
}
