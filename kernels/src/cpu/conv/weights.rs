//! The packed layout of convolution weights. It depends on the weights, the groups and, if transposed, on strides and
//! dilations: on nothing that changes with the shape of the input.
//!
//! Dense weights are panels, a set for each group and, in a transposed convolution, for each *class*: the kernel
//! positions that reach outputs of one remainder modulo the stride (see [`shape`](super::shape)). Depthwise weights
//! are a row of all channels for each kernel position.

use super::shape::{MOST_PHASES, class_taps};
use crate::cpu::gemm::{Panels, Source, panel_vectors};
use crate::error::{KernelError, Result};
use crate::isa::Isa;

/// Sizes of convolution weights as the model has them: `[filters, channels / groups, kernel...]`, or transposed
/// `[channels, filters / groups, kernel...]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Weights {
    /// Input channels, of all groups.
    pub channels: usize,
    /// Output channels, of all groups.
    pub filters: usize,
    /// Groups.
    pub groups: usize,
    /// Kernel positions.
    pub kernel: [usize; 3],
    /// Strides and dilations, if it is a transposed convolution's: they decide which positions belong together.
    pub transposed: Option<[[usize; 3]; 2]>,
}

/// How weights are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightLayout {
    /// Panels of that many vectors.
    Panels {
        /// Vectors of a panel.
        vectors: usize,
    },
    /// A row of channels for each kernel position.
    Rows,
}

impl Weights {
    /// Whether the sizes can be packed.
    ///
    /// # Errors
    ///
    /// Names what is wrong.
    pub fn validate(&self) -> Result<()> {
        let refuse = |reason: String| Err(KernelError::Unsupported { family: "conv", reason });
        if let Some([strides, _]) = self.transposed {
            let phases = strides.iter().try_fold(1usize, |count, &stride| count.checked_mul(stride));
            if phases.is_none_or(|phases| phases == 0 || phases > MOST_PHASES) {
                return refuse(format!("a transposed convolution with strides {strides:?}"));
            }
        }
        // A panel may round the filters of each group up to the widest tile.
        let elements = [self.kernel[0], self.kernel[1], self.kernel[2], self.channels, self.group_filters() + 64];
        let bytes = elements.iter().try_fold(4usize, |total, &size| total.checked_mul(size.max(1)));
        let groups = self.group_channels().checked_mul(self.groups) == Some(self.channels);
        if !groups || bytes.is_none_or(|bytes| bytes > isize::MAX as usize / 8) {
            return refuse(format!("weights of sizes {self:?}"));
        }
        Ok(())
    }

    /// The layout of these weights at that level, for every strategy.
    #[must_use]
    pub fn layout(&self, isa: Isa) -> WeightLayout {
        if self.is_depthwise() {
            WeightLayout::Rows
        } else {
            WeightLayout::Panels { vectors: panel_vectors(isa, self.group_filters()) }
        }
    }

    /// Whether every channel has one filter of its own.
    #[must_use]
    pub fn is_depthwise(&self) -> bool {
        self.transposed.is_none() && self.groups > 1 && self.groups == self.channels && self.groups == self.filters
    }

    fn group_filters(&self) -> usize {
        self.filters / self.groups.max(1)
    }

    fn group_channels(&self) -> usize {
        self.channels / self.groups.max(1)
    }

    /// Elements as the model has them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.filters * self.group_channels() * self.kernel.iter().product::<usize>()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Kernel positions by class, each as its place in the kernel.
    fn classes(&self) -> Vec<Vec<usize>> {
        let [_, height, width] = self.kernel;
        let Some([strides, dilations]) = self.transposed else {
            return vec![(0..self.kernel.iter().product()).collect()];
        };
        let mut classes = Vec::new();
        let along =
            |dim: usize, remainder: usize| class_taps(self.kernel[dim], strides[dim].max(1), dilations[dim], remainder);
        for rd in 0..strides[0].max(1) {
            for rh in 0..strides[1].max(1) {
                for rw in 0..strides[2].max(1) {
                    let mut taps = Vec::new();
                    for d in along(0, rd) {
                        for h in along(1, rh) {
                            taps.extend(along(2, rw).map(|w| (d * height + h) * width + w));
                        }
                    }
                    classes.push(taps);
                }
            }
        }
        classes
    }

    /// The panels of each class of one group.
    pub(crate) fn class_panels(&self, width: usize) -> Vec<Panels> {
        let panels = |taps: Vec<usize>| {
            let rows = taps.len() * self.group_channels();
            Panels { rows, columns: self.group_filters(), width }
        };
        self.classes().into_iter().map(panels).collect()
    }

    /// Elements when packed.
    #[must_use]
    pub fn packed_len(&self, isa: Isa, layout: WeightLayout) -> usize {
        match layout {
            WeightLayout::Rows => self.len(),
            WeightLayout::Panels { vectors } => {
                let width = vectors * isa.lanes();
                self.groups * self.class_panels(width).iter().map(Panels::len).sum::<usize>()
            }
        }
    }

    /// Packs weights.
    ///
    /// # Errors
    ///
    /// Where either buffer is not as long as it has to be.
    pub fn pack(&self, isa: Isa, layout: WeightLayout, weights: &[f32], out: &mut [f32]) -> Result<()> {
        let bounds = |operand: &'static str, have: usize, need: usize| match have == need {
            true => Ok(()),
            false => Err(KernelError::Bounds { family: "conv", operand, have, need }),
        };
        bounds("weights", weights.len(), self.len())?;
        bounds("packed weights", out.len(), self.packed_len(isa, layout))?;
        let taps: usize = self.kernel.iter().product();
        match layout {
            WeightLayout::Rows => {
                for (tap, row) in out.chunks_exact_mut(self.channels.max(1)).enumerate() {
                    for (channel, value) in row.iter_mut().enumerate() {
                        *value = weights[channel * taps + tap];
                    }
                }
                Ok(())
            }
            WeightLayout::Panels { vectors } => self.pack_panels(vectors * isa.lanes(), weights, out),
        }
    }

    fn pack_panels(&self, width: usize, weights: &[f32], mut out: &mut [f32]) -> Result<()> {
        let taps: usize = self.kernel.iter().product();
        let (channels, filters) = (self.group_channels(), self.group_filters());
        let (inner_stride, column_stride) =
            if self.transposed.is_some() { (filters * taps, taps) } else { (taps, channels * taps) };
        let classes = self.classes();
        for group in 0..self.groups {
            let start = group * channels * filters * taps;
            for class in &classes {
                let outer: Vec<usize> = class.iter().map(|tap| start + tap).collect();
                let source = Source { data: weights, outer: &outer, inner: channels, inner_stride, column_stride };
                let panels = Panels { rows: class.len() * channels, columns: filters, width };
                let (here, rest) = out.split_at_mut(panels.len());
                panels.pack(&source, 1.0, here)?;
                out = rest;
            }
        }
        Ok(())
    }
}
