//! The geometry of a convolution, checked once; and its phases.
//!
//! Positions have three spatial dimensions; missing dimensions have size 1. A *phase* is a set of output positions at a
//! constant stride that see the same taps: a plain convolution has one, a transposed one has one for each remainder of
//! the output position modulo the stride. For each phase, output number `i` along a dimension reads input position `i *
//! step + tap`.

use smallvec::SmallVec;

use crate::error::{KernelError, Result};
use crate::memory::{self, Collect};
use crate::problem::conv::ConvShape;

/// A tap: its offset from a row's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tap {
    pub(crate) at: [isize; 3],
}

/// Output positions that see the same taps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    /// The taps' class among the weights' classes.
    pub(crate) class: usize,
    /// The taps, in the order of the kernel's positions.
    pub(crate) taps: Vec<Tap>,
    /// Stride of origins in the input.
    pub(crate) step: [usize; 3],
    /// Output positions.
    pub(crate) count: [usize; 3],
    /// The first output position.
    pub(crate) start: [usize; 3],
    /// The stride of output positions.
    pub(crate) stride: [usize; 3],
}

impl Phase {
    /// Rows: output positions of the whole batch.
    pub(crate) fn rows(&self, batch: usize) -> usize {
        batch * self.count.iter().product::<usize>()
    }
}

/// Most phases of a transposed convolution, strides of 64 by 64: each has a plan of its own, and sizes come from files.
pub(crate) const MOST_PHASES: usize = 1 << 12;

/// No size in a convolution may exceed this, so that positions fit 32 bits and their differences cannot overflow.
const MOST: usize = 1 << 30;

impl ConvShape {
    /// Whether all sizes make sense together and can be counted.
    ///
    /// # Errors
    ///
    /// For sizes that make no sense; the error says which.
    pub fn validate(&self) -> Result<()> {
        let refuse = |reason: String| Err(KernelError::Unsupported { family: "conv", reason });
        if self.groups() == 0
            || !self.channels().is_multiple_of(self.groups())
            || !self.filters().is_multiple_of(self.groups())
        {
            let (channels, filters, groups) = (self.channels(), self.filters(), self.groups());
            return refuse(format!("{channels} channels and {filters} filters cannot be split into {groups} groups"));
        }
        for dim in 0..3 {
            if self.kernel()[dim] == 0 || self.strides()[dim] == 0 || self.dilations()[dim] == 0 {
                return refuse("kernel sizes, strides and dilations must be positive".to_owned());
            }
            let large =
                [self.input()[dim], self.output()[dim], self.kernel()[dim], self.strides()[dim], self.dilations()[dim]];
            if large.into_iter().chain([self.pads()[dim]]).any(|size| size > MOST) {
                return refuse(format!("a spatial size of {self:?} is too large"));
            }
            let reach = [(self.kernel()[dim] - 1, self.dilations()[dim]), (self.output()[dim], self.strides()[dim])];
            if reach.into_iter().any(|(count, by)| count.saturating_mul(by) > MOST) {
                return refuse(format!("the reach of {self:?} is too large"));
            }
        }
        self.weights().validate()?;
        let count = |sizes: &[usize]| {
            // A zero must not hide an overflow of the other factors.
            sizes.iter().try_fold(4usize, |total, &size| total.checked_mul(size.max(1)))
        };
        let [depth, height, width] = self.input();
        let [out_depth, out_height, out_width] = self.output();
        let kernel_width = self.kernel()[2];
        let elements = [
            count(&[self.batch(), depth, height, width, self.channels()]),
            // Copied lines are at most as long as the output's width reaches in the input.
            count(&[self.batch(), depth, height, out_width * self.strides()[2] + kernel_width, self.channels()]),
            count(&[self.batch(), out_depth, out_height, out_width, self.filters()]),
        ];
        if elements.into_iter().any(|bytes| bytes.is_none_or(|bytes| bytes > isize::MAX as usize / 8)) {
            return refuse(format!("{self:?} is too large"));
        }
        Ok(())
    }

    /// The phases, in the order of their first output positions.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        if !self.transposed {
            let along = |dim: usize| -> Vec<(usize, isize)> {
                (0..self.kernel()[dim])
                    .map(|tap| (tap, (tap * self.dilations()[dim]) as isize - self.pads()[dim] as isize))
                    .collected()
            };
            let taps = product(&along(0), &along(1), &along(2));
            let (step, count) = (self.strides(), self.output());
            return vec![Phase { class: 0, taps, step, count, start: [0; 3], stride: [1; 3] }];
        }
        let mut phases = Vec::new();
        let first = |dim: usize| self.strides()[dim].min(self.output()[dim]);
        for depth in 0..first(0) {
            for height in 0..first(1) {
                for width in 0..first(2) {
                    phases.push(self.phase([depth, height, width]));
                }
            }
        }
        phases
    }

    /// The phase of a transposed convolution whose first output position is `start`.
    fn phase(&self, start: [usize; 3]) -> Phase {
        let mut class = 0;
        let mut along: SmallVec<[Vec<(usize, isize)>; 3]> = SmallVec::new();
        let mut count = [0; 3];
        for dim in 0..3 {
            let stride = self.strides()[dim];
            let remainder = (start[dim] + self.pads()[dim]) % stride;
            class = class * stride + remainder;
            count[dim] = (self.output()[dim] - start[dim]).div_ceil(stride);
            along.push(
                class_taps(self.kernel()[dim], stride, self.dilations()[dim], remainder)
                    .map(|tap| {
                        let reach = (start[dim] + self.pads()[dim]) as isize - (tap * self.dilations()[dim]) as isize;
                        // Exact: the tap is of this remainder's class.
                        (tap, reach / stride as isize)
                    })
                    .collected(),
            );
        }
        let taps = product(&along[0], &along[1], &along[2]);
        Phase { class, taps, step: [1; 3], count, start, stride: self.strides() }
    }
}

/// Kernel positions along one dimension whose outputs have that remainder modulo the stride, padding aside.
pub(crate) fn class_taps(
    kernel: usize,
    stride: usize,
    dilation: usize,
    remainder: usize,
) -> impl Iterator<Item = usize> {
    (0..kernel).filter(move |tap| (tap * dilation) % stride == remainder)
}

fn product(depth: &[(usize, isize)], height: &[(usize, isize)], width: &[(usize, isize)]) -> Vec<Tap> {
    let mut taps = memory::with_capacity(depth.len() * height.len() * width.len());
    for &(_, d) in depth {
        for &(_, h) in height {
            taps.extend(width.iter().map(|&(_, w)| Tap { at: [d, h, w] }));
        }
    }
    taps
}
