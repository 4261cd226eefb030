//! The packed layout of convolution weights. It depends on the weights, the groups and, if transposed, on strides and
//! dilations, but not on the shape of the input.
//!
//! Dense weights are packed panels, a set for each group and, in a transposed convolution, for each *class*: the
//! positions of the window that reach outputs of one remainder modulo the stride (see [`shape`](super::shape)).
//! Depthwise weights are a row of all channels for each position. Where bf16 pairs are multiplied without widening, a
//! row of a panel holds two neighbouring channels of a tap. For AMX panels consist of bf16 pairs, each tap's channels
//! padded with zeros to whole steps; where channels are few, a line of the window is one tap. Weights that a model
//! stores as `f16` have panels of `f16`.

use std::ops::Range;

use super::input::bounds;
use super::shape::{MOST_PHASES, class_taps};
use crate::cpu::amx::PANEL;
use crate::cpu::gemm::{Panels, Source, panel_vectors};
use crate::cpu::{Elements, PackedWeightsMut};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::memory::{self, Collect};
use crate::problem::conv::ConvShape;

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
    /// Strides and dilations of a transposed convolution: they decide the classes.
    pub transposed: Option<[[usize; 3]; 2]>,
}

/// How weights are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightLayout {
    /// Packed panels of that many vectors.
    Panels {
        /// Vectors of a panel.
        vectors: usize,
    },
    /// A row of channels for each kernel position.
    Rows,
    /// Packed panels of bf16 pairs for AMX.
    Amx,
    /// Packed panels of that many vectors of bf16 pairs.
    Pairs {
        /// Vectors of a panel.
        vectors: usize,
    },
    /// Packed panels of that many vectors of `f16`, row after row.
    Halves {
        /// Vectors of a panel.
        vectors: usize,
    },
}

impl WeightLayout {
    /// The type of packed weights.
    #[must_use]
    pub const fn elements(self) -> Elements {
        match self {
            WeightLayout::Panels { .. } | WeightLayout::Rows => Elements::F32,
            WeightLayout::Amx => Elements::Bf16Tiles,
            WeightLayout::Pairs { .. } => Elements::Bf16Dot,
            WeightLayout::Halves { .. } => Elements::F16,
        }
    }
}

/// Some filters, which are packed like weights of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Their sizes.
    pub sizes: Weights,
    /// Their range of the model's elements.
    pub elements: Range<usize>,
    /// Their range of the packed words.
    pub packed: Range<usize>,
}

/// Channels below which a line of the window is one tap on AMX.
const FEW_CHANNELS: usize = 16;

/// The least elements of a tap's reduction, and with several groups the least filters of a group, for which AMX pays:
/// it computes 32 by 32.
const WORTH_AMX: usize = 8;

/// The least channels and, with several groups, filters of a group for which multiplying bf16 pairs pays.
const WORTH_PAIRS: usize = 8;

impl ConvShape {
    /// The sizes of its weights.
    #[must_use]
    pub fn weights(&self) -> Weights {
        Weights {
            channels: self.channels(),
            filters: self.filters(),
            groups: self.groups(),
            kernel: self.kernel(),
            transposed: self.transposed.then_some([self.strides(), self.dilations()]),
        }
    }
}

impl Weights {
    /// Whether the sizes can be packed.
    ///
    /// # Errors
    ///
    /// For sizes that cannot be packed; the error says which.
    pub fn validate(&self) -> Result<()> {
        let refuse = |reason: String| Err(KernelError::Unsupported { family: "conv", reason });
        if let Some([strides, _]) = self.transposed {
            let phases = strides.iter().try_fold(1usize, |count, &stride| count.checked_mul(stride));
            if phases.is_none_or(|phases| phases == 0 || phases > MOST_PHASES) {
                return refuse(format!("a transposed convolution with strides {strides:?}"));
            }
        }
        // A panel may round the filters of each group up to the widest tile.
        let elements =
            [self.kernel[0], self.kernel[1], self.kernel[2], self.channels, self.group_filters().saturating_add(64)];
        let bytes = elements.iter().try_fold(4usize, |total, &size| total.checked_mul(size.max(1)));
        let groups = self.group_channels().checked_mul(self.groups) == Some(self.channels);
        if !groups || bytes.is_none_or(|bytes| bytes > isize::MAX as usize / 8) {
            return refuse(format!("weights of sizes {self:?}"));
        }
        Ok(())
    }

    /// The type of these weights where a product's weights have type `wanted`: `f32`; bf16 pairs if they suit the
    /// instructions that would multiply them; or `f16`, but not for depthwise filters and not where whole lines are
    /// taps.
    #[must_use]
    pub fn elements(&self, wanted: Elements) -> Elements {
        let suits = match wanted {
            Elements::F32 | Elements::Bf16 => false,
            Elements::F16 => !self.is_depthwise() && (self.channels >= FEW_CHANNELS || self.kernel[2] == 1),
            Elements::Bf16Dot => self.pairs_up() && self.enough_for_pairs(),
            Elements::Bf16Tiles => self.suits_amx(),
        };
        if suits { wanted } else { Elements::F32 }
    }

    /// Whether every group's channels are whole pairs, so that positions stored as `bf16` are rows of pairs.
    pub(crate) fn pairs_up(&self) -> bool {
        !self.is_depthwise() && self.group_channels().is_multiple_of(2) && self.channels > 0
    }

    /// Whether pairs have enough to multiply: a tap loads a pointer for each of its few pairs, and a panel is padded to
    /// whole vectors of filters.
    fn enough_for_pairs(&self) -> bool {
        self.group_channels() >= WORTH_PAIRS && (self.groups == 1 || self.group_filters() >= WORTH_PAIRS)
    }

    /// Whether AMX is worth it.
    fn suits_amx(&self) -> bool {
        let reduction = self.group_channels() * if self.gathers() { self.kernel[2] } else { 1 };
        let enough = reduction >= WORTH_AMX && (self.groups == 1 || self.group_filters() >= WORTH_AMX);
        enough && self.classes().iter().all(|class| !class.is_empty())
    }

    /// Whether a line of the kernel is one tap on AMX.
    pub(crate) fn gathers(&self) -> bool {
        self.transposed.is_none() && self.groups == 1 && self.channels < FEW_CHANNELS && self.kernel[2] > 1
    }

    /// Words of a tap of a group on AMX.
    pub(crate) fn amx_words(&self) -> usize {
        let positions = if self.gathers() { self.kernel[2] } else { 1 };
        Elements::Bf16Tiles.words(positions * self.group_channels())
    }

    /// The layout of these weights at that level, for every strategy that takes those elements.
    #[must_use]
    pub fn layout(&self, isa: Isa, elements: Elements) -> WeightLayout {
        let vectors = || panel_vectors(isa, self.group_filters());
        match elements {
            Elements::Bf16Tiles => WeightLayout::Amx,
            Elements::Bf16Dot => WeightLayout::Pairs { vectors: vectors() },
            Elements::F32 | Elements::Bf16 | Elements::F16 if self.is_depthwise() => WeightLayout::Rows,
            Elements::F16 => WeightLayout::Halves { vectors: vectors() },
            Elements::F32 | Elements::Bf16 => WeightLayout::Panels { vectors: vectors() },
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

    /// Positions of the window by class, each as its index.
    fn classes(&self) -> Vec<Vec<usize>> {
        let [_, height, width] = self.kernel;
        let Some([strides, dilations]) = self.transposed else {
            return vec![(0..self.kernel.iter().product()).collected()];
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
                            along(2, rw).map(|w| (d * height + h) * width + w).collected_into(&mut taps);
                        }
                    }
                    classes.push(taps);
                }
            }
        }
        classes
    }

    /// The panels of each class of one group, in words: none where weights are rows of channels.
    pub(crate) fn panels(&self, isa: Isa, layout: WeightLayout) -> Vec<Panels> {
        let (vectors, words) = match layout {
            WeightLayout::Rows => return Vec::new(),
            WeightLayout::Amx => return self.amx_panels(),
            WeightLayout::Panels { vectors } => (vectors, Elements::F32.words(self.group_channels())),
            WeightLayout::Pairs { vectors } => (vectors, Elements::Bf16Dot.words(self.group_channels())),
            WeightLayout::Halves { vectors } => {
                let mut panels = self.class_panels(1, self.group_channels(), vectors * isa.lanes());
                panels.iter_mut().for_each(|panels| panels.rows = Elements::F16.words(panels.rows));
                return panels;
            }
        };
        self.class_panels(1, words, vectors * isa.lanes())
    }

    /// The panels of words of each class of one group, for AMX.
    pub(crate) fn amx_panels(&self) -> Vec<Panels> {
        let positions = if self.gathers() { self.kernel[2] } else { 1 };
        self.class_panels(positions, self.amx_words(), PANEL)
    }

    /// The panels of each class of one group, with `words` words for each tap and `positions` positions in a tap.
    fn class_panels(&self, positions: usize, words: usize, width: usize) -> Vec<Panels> {
        let panels =
            |taps: Vec<usize>| Panels { rows: taps.len() / positions * words, columns: self.group_filters(), width };
        self.classes().into_iter().map(panels).collect()
    }

    /// Elements when packed, or words that hold two elements.
    #[must_use]
    pub fn packed_len(&self, isa: Isa, layout: WeightLayout) -> usize {
        if layout == WeightLayout::Rows {
            return self.len();
        }
        self.groups * self.panels(isa, layout).iter().map(Panels::len).sum::<usize>()
    }

    /// Packs weights.
    ///
    /// # Errors
    ///
    /// Where a buffer does not have the right length, or `out` has other elements than the layout.
    pub fn pack(&self, isa: Isa, layout: WeightLayout, weights: &[f32], out: PackedWeightsMut<'_>) -> Result<()> {
        bounds("weights", weights.len(), self.len())?;
        bounds("packed weights", out.words(), self.packed_len(isa, layout))?;
        let taps: usize = self.kernel.iter().product();
        match (layout, out) {
            (WeightLayout::Rows, PackedWeightsMut::F32(out)) => {
                for (tap, row) in out.chunks_exact_mut(self.channels.max(1)).enumerate() {
                    for (channel, value) in row.iter_mut().enumerate() {
                        *value = weights[channel * taps + tap];
                    }
                }
                Ok(())
            }
            (WeightLayout::Panels { .. }, PackedWeightsMut::F32(out)) => {
                let panels = self.panels(isa, layout);
                self.pack_panels(&panels, weights, out, 1, |panels, source, out| panels.pack(source, 1.0, out))
            }
            (WeightLayout::Halves { .. }, PackedWeightsMut::F16(out)) => {
                let panels = self.panels(isa, layout);
                self.pack_panels(&panels, weights, out, 2, |panels, source, out| panels.pack_halves(source, out))
            }
            (WeightLayout::Amx, PackedWeightsMut::Bf16(out)) if self.gathers() => self.pack_lines(weights, out),
            (WeightLayout::Amx | WeightLayout::Pairs { .. }, PackedWeightsMut::Bf16(out)) => {
                let panels = self.panels(isa, layout);
                self.pack_panels(&panels, weights, out, 2, |panels, source, out| panels.pack_pairs(source, 1.0, out))
            }
            _ => {
                let reason = format!("{layout:?} in room for other elements");
                Err(KernelError::Unsupported { family: "conv", reason })
            }
        }
    }

    /// The parts that can be packed one by one, in order: together they are all weights.
    #[must_use]
    pub fn parts(&self, isa: Isa, layout: WeightLayout) -> Vec<Part> {
        let width = match layout {
            WeightLayout::Panels { vectors } | WeightLayout::Pairs { vectors } | WeightLayout::Halves { vectors }
                if self.transposed.is_none() =>
            {
                vectors * isa.lanes()
            }
            // A single group might count as weights of few channels, which are packed in another way.
            WeightLayout::Amx if self.groups == 1 && self.transposed.is_none() && !self.gathers() => PANEL,
            _ => 0,
        };
        if width == 0 || self.is_empty() {
            return vec![Part { sizes: *self, elements: 0..self.len(), packed: 0..self.packed_len(isa, layout) }];
        }
        let (channels, filters) = (self.group_channels(), self.group_filters());
        let (mut element, mut packed) = (0, 0);
        let mut parts = Vec::new();
        for _ in 0..self.groups {
            for first in (0..filters).step_by(width) {
                let sizes = Weights { channels, filters: width.min(filters - first), groups: 1, ..*self };
                let ends = [element + sizes.len(), packed + sizes.packed_len(isa, layout)];
                parts.push(Part { sizes, elements: element..ends[0], packed: packed..ends[1] });
                [element, packed] = ends;
            }
        }
        parts
    }

    /// Packs lines of the window as taps of AMX.
    fn pack_lines(&self, weights: &[f32], out: &mut [u16]) -> Result<()> {
        let (taps, channels) = (self.kernel.iter().product::<usize>(), self.channels);
        // A line's elements follow each other once channels are innermost.
        let mut turned = memory::zeroed::<f32>(weights.len());
        for (from, to) in weights.chunks_exact(taps * channels).zip(turned.chunks_exact_mut(taps * channels)) {
            for (index, value) in to.iter_mut().enumerate() {
                *value = from[index % channels * taps + index / channels];
            }
        }
        let line = self.kernel[2] * channels;
        let outer = (0..taps * channels).step_by(line).collected();
        let source =
            Source { data: &turned, outer: &outer, inner: line, inner_stride: 1, column_stride: taps * channels };
        self.amx_panels()[0].pack_pairs(&source, 1.0, out)
    }

    /// Packs the panels of all groups and classes. A word of a panel has `each` elements of `T`.
    fn pack_panels<T>(
        &self,
        class_panels: &[Panels],
        weights: &[f32],
        mut out: &mut [T],
        each: usize,
        pack: impl Fn(&Panels, &Source<'_>, &mut [T]) -> Result<()>,
    ) -> Result<()> {
        let taps: usize = self.kernel.iter().product();
        let (channels, filters) = (self.group_channels(), self.group_filters());
        let (inner_stride, column_stride) =
            if self.transposed.is_some() { (filters * taps, taps) } else { (taps, channels * taps) };
        let classes = self.classes();
        for group in 0..self.groups {
            let start = group * channels * filters * taps;
            for (class, panels) in classes.iter().zip(class_panels) {
                let outer = class.iter().map(|tap| start + tap).collected();
                let source = Source { data: weights, outer: &outer, inner: channels, inner_stride, column_stride };
                let (here, rest) = out.split_at_mut(each * panels.len());
                pack(panels, &source, here)?;
                out = rest;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_packed_part_by_part_are_those_packed_at_once() {
        let plain = Weights { channels: 24, filters: 200, groups: 1, kernel: [1, 3, 3], transposed: None };
        let cases = [
            plain,
            Weights { channels: 3, ..plain },
            Weights { groups: 2, ..plain },
            Weights { channels: 200, groups: 200, ..plain },
            Weights { filters: 7, kernel: [1, 1, 1], ..plain },
            Weights { transposed: Some([[1, 2, 2], [1; 3]]), ..plain },
            Weights { channels: 0, filters: 1 << 40, ..plain },
        ];
        for sizes in cases {
            let weights: Vec<f32> = (0..sizes.len()).map(|element| element as f32 * 1.01).collect();
            let all = [Elements::F32, Elements::F16, Elements::Bf16Dot, Elements::Bf16Tiles];
            for elements in all.map(|wanted| sizes.elements(wanted)) {
                for isa in [Isa::Avx2, Isa::Avx512] {
                    let layout = sizes.layout(isa, elements);
                    let mut whole = vec![u32::MAX; sizes.packed_len(isa, layout)];
                    sizes.pack(isa, layout, &weights, PackedWeightsMut::new(layout.elements(), &mut whole)).unwrap();
                    let nan = |word: &u32| f32::from_bits(*word).is_nan();
                    assert!(!whole.iter().any(nan), "all of it is written: {sizes:?} {layout:?}");
                    let mut parts = vec![u32::MAX; whole.len()];
                    for part in sizes.parts(isa, layout) {
                        let room = PackedWeightsMut::new(layout.elements(), &mut parts[part.packed]);
                        part.sizes.pack(isa, layout, &weights[part.elements], room).unwrap();
                    }
                    assert_eq!(parts, whole, "{sizes:?} {layout:?}");
                }
            }
        }
        assert_eq!(plain.parts(Isa::Avx512, WeightLayout::Panels { vectors: 4 }).len(), 4);
    }
}
