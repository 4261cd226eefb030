//! Pooling: the operation on a window, where windows start, and which of their taps lie on the input.

use std::ops::Range;

use super::description::sizes;

/// The operation on a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, kiln_key::Mutate)]
pub enum PoolKind {
    /// The largest element; NaN is passed over. Minus infinity where the window has no element.
    Max,
    /// The mean. Padding counts as zeros if `include_pad`, and otherwise does not count.
    Average {
        /// Whether padding counts.
        include_pad: bool,
    },
    /// The `p`-th root of the sum of `p`-th powers of absolute values.
    Lp {
        /// The exponent, at least 1.
        p: u32,
    },
}

/// The windows along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, kiln_key::Mutate)]
pub struct Window {
    /// Elements of the input.
    pub input: u64,
    /// Windows, one an element of the output.
    pub output: u64,
    /// Elements of a window.
    pub kernel: u64,
    /// From one window to the next.
    pub stride: u64,
    /// From one element of a window to the next.
    pub dilation: u64,
    /// Padding before the input.
    pub before: u64,
    /// Padding after the input.
    pub after: u64,
}

/// The taps of a window that lie on the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taps {
    /// The position of the first tap.
    pub first: usize,
    /// Their number.
    pub count: usize,
}

/// Bound of every field: the product of two fields is far from an overflow.
const LIMIT: u64 = 1 << 31;

impl Window {
    /// An axis that the image does not have.
    pub const NONE: Window = Window { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0 };

    /// Whether arithmetic on the fields cannot overflow. Keys from a record must be checked for this.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let steps = [self.kernel, self.stride, self.dilation];
        let sizes = [self.input, self.output, self.before, self.after];
        steps.iter().all(|step| (1..=LIMIT).contains(step)) && sizes.iter().all(|size| *size <= LIMIT)
    }

    /// Positions from the first tap of a window to its last, inclusive.
    #[must_use]
    pub fn span(&self) -> u64 {
        (self.kernel - 1) * self.dilation + 1
    }

    /// The taps of window `index` that lie on the input.
    #[must_use]
    pub fn taps(&self, index: usize) -> Taps {
        let start = index as i64 * self.stride as i64 - self.before as i64;
        let dilation = self.dilation as i64;
        let skipped = if start < 0 { (-start + dilation - 1) / dilation } else { 0 };
        let count = self.reach(start, self.input as i64) - skipped;
        if count <= 0 {
            return Taps { first: 0, count: 0 };
        }
        Taps { first: (start + skipped * dilation) as usize, count: count as usize }
    }

    /// The number of taps of window `index` that lie on the input or its padding.
    #[must_use]
    pub fn padded_taps(&self, index: usize) -> usize {
        let start = index as i64 * self.stride as i64 - self.before as i64;
        self.reach(start, (self.input + self.after) as i64).max(0) as usize
    }

    /// The number of taps, of a window that starts at `start`, that lie before `end`.
    fn reach(&self, start: i64, end: i64) -> i64 {
        ((end - start + self.dilation as i64 - 1) / self.dilation as i64).min(self.kernel as i64)
    }

    /// The windows that lie entirely on the input.
    #[must_use]
    pub fn interior(&self) -> Range<usize> {
        let output = self.output as usize;
        let first = (self.before.div_ceil(self.stride) as usize).min(output);
        let end = match (self.input + self.before).checked_sub(self.span()) {
            Some(room) => ((room / self.stride) as usize + 1).min(output),
            None => 0,
        };
        first..end.max(first)
    }
}

/// Pooling of images with up to three axes; fewer axes leave the first ones [`Window::NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, kiln_key::Mutate)]
pub struct PoolShape {
    /// Images.
    pub batch: u64,
    /// Channels of an image.
    pub channels: u64,
    /// Depth, height, width.
    pub axes: [Window; 3],
    /// Channels last (`[N, D, H, W, C]`); else channels first (`[N, C, D, H, W]`).
    pub channels_last: bool,
}

sizes!(PoolShape { batch: usize, channels: usize });

impl PoolShape {
    /// Whether no product of sizes overflows, for elements of 8 bytes.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let count = |sizes: [u64; 3]| {
            let outer = [self.batch(), self.channels(), 8];
            let sizes = sizes.into_iter().map(|size| size as usize).chain(outer);
            sizes.map(|size| size.max(1)).try_fold(1usize, usize::checked_mul).is_some_and(|all| all < 1 << 62)
        };
        self.axes.iter().all(Window::is_valid)
            && count(self.axes.map(|axis| axis.input))
            && count(self.axes.map(|axis| axis.output))
    }

    /// Positions of one image of the input.
    #[must_use]
    pub fn input_pixels(&self) -> usize {
        self.axes.iter().map(|axis| axis.input as usize).product()
    }

    /// Positions of one image of the output.
    #[must_use]
    pub fn output_pixels(&self) -> usize {
        self.axes.iter().map(|axis| axis.output as usize).product()
    }

    /// Elements of the input.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.batch() * self.channels() * self.input_pixels()
    }

    /// Elements of the output.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.batch() * self.channels() * self.output_pixels()
    }
}

impl PoolKind {
    /// The factor of a mean, for a window with `taps` on the input and `padded` on input and padding.
    #[must_use]
    pub fn scale(self, taps: usize, padded: usize) -> f32 {
        match self {
            PoolKind::Average { include_pad: true } => 1.0 / padded.max(1) as f32,
            PoolKind::Average { include_pad: false } => 1.0 / taps.max(1) as f32,
            PoolKind::Max | PoolKind::Lp { .. } => 1.0,
        }
    }

    /// The result of a window without taps on the input.
    #[must_use]
    pub fn nothing(self) -> f32 {
        match self {
            PoolKind::Max => f32::NEG_INFINITY,
            PoolKind::Average { .. } | PoolKind::Lp { .. } => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tap of a window, one by one.
    fn taps(window: &Window, index: usize) -> (Vec<i64>, usize) {
        let places = (0..window.kernel as i64)
            .map(|tap| index as i64 * window.stride as i64 - window.before as i64 + tap * window.dilation as i64);
        let padded = places.clone().filter(|&place| place < (window.input + window.after) as i64).count();
        (places.filter(|place| (0..window.input as i64).contains(place)).collect(), padded)
    }

    #[test]
    fn taps_are_those_found_one_by_one() {
        for input in [1, 2, 5, 8] {
            for kernel in 1..5 {
                for (stride, dilation) in [(1, 1), (2, 1), (3, 2), (1, 3)] {
                    for (before, after) in [(0, 0), (1, 1), (0, 2), (3, 4)] {
                        let window = Window { input, output: 6, kernel, stride, dilation, before, after };
                        for index in 0..6 {
                            let (places, padded) = taps(&window, index);
                            let taps = window.taps(index);
                            assert_eq!(taps.count, places.len(), "{window:?} {index}");
                            assert_eq!(window.padded_taps(index), padded, "{window:?} {index}");
                            if let Some(&first) = places.first() {
                                assert_eq!(taps.first as i64, first, "{window:?} {index}");
                            }
                            let whole = places.len() == kernel as usize;
                            assert_eq!(window.interior().contains(&index), whole, "{window:?} {index}");
                        }
                    }
                }
            }
        }
    }
}
