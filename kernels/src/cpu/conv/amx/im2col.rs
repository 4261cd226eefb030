//! The copy of a band's input in bf16, laid out as a [`Grid`]; with few channels an im2col of lines.

use super::grid::{CopiedLine, Grid, Stretch};
use crate::cpu::amx::STEP_WORDS;
use crate::cpu::conv::input::ConvPart;
use crate::cpu::gemm::{Bf16Convert, Bf16ConvertRows};
use crate::cpu::{Activations, CodeSource};
use crate::error::Result;
use crate::isa::Isa;
use crate::problem::conv::ConvShape;

/// Makes the copy.
#[derive(Clone, Debug)]
pub(super) struct Im2col {
    convert: Bf16Convert,
    /// Steps of the reduction of a tap.
    steps: usize,
    groups: usize,
    channels: usize,
    /// Input positions from one position of the copy to the next.
    stride: usize,
    gathered: Option<Gathered>,
}

/// A copy in which each position holds the elements that a line of the window reads (im2col).
#[derive(Clone, Copy, Debug)]
struct Gathered {
    kernel: usize,
    dilation: usize,
    pad: usize,
    width: usize,
}

/// A line of the input with its padding. A task writes it again for each line that it gathers.
#[derive(Debug, Default)]
pub(super) struct PaddedLine {
    f32: Vec<f32>,
    bf16: Vec<u16>,
}

impl Im2col {
    pub(super) fn new(isa: Isa, shape: &ConvShape, source: &dyn CodeSource) -> Result<Im2col> {
        let weights = shape.weights();
        let gathered = Gathered {
            kernel: shape.kernel()[2],
            dilation: shape.dilations()[2],
            pad: shape.pads()[2],
            width: shape.input()[2],
        };
        Ok(Im2col {
            convert: Bf16Convert::new(isa, source)?,
            steps: weights.amx_words() / STEP_WORDS,
            groups: shape.groups(),
            channels: shape.channels(),
            stride: if shape.transposed { 1 } else { shape.strides()[2] },
            gathered: weights.gathers().then_some(gathered),
        })
    }

    /// Words of a position of the copy.
    pub(super) fn position(&self) -> usize {
        self.groups * self.steps * STEP_WORDS
    }

    /// Words of a step that are multiplied; with a single step, those that are not padding.
    pub(super) fn words(&self) -> usize {
        let seen = self.gathered.map_or(self.channels / self.groups, |windows| windows.kernel * self.channels);
        if self.steps == 1 { seen.div_ceil(2) } else { STEP_WORDS }
    }

    /// Steps of the reduction of a tap.
    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    /// Copies a line of the grid; `padded` is room for a line of the input.
    pub(super) fn copy(
        &self,
        parts: &[ConvPart<'_>],
        grid: &Grid,
        line: &CopiedLine,
        padded: &mut PaddedLine,
        to: &mut [f32],
    ) {
        let Some(gathered) = &self.gathered else {
            return self.line(parts, grid.stretch(line.region, line.number), to);
        };
        match (grid.gathered(line.region, line.number), parts[0].x) {
            (None, _) => to.fill(0.0),
            (Some(from), Activations::F32(x)) => self.gather(gathered, x, from, &mut padded.f32, to),
            (Some(from), Activations::Bf16(x)) => self.gather_bf16(gathered, x, from, &mut padded.bf16, to),
        }
    }

    /// Whether the channels of a position can come from several tensors.
    pub(super) fn takes_parts(&self) -> bool {
        self.gathered.is_none() && self.groups == 1
    }

    /// One line: the positions that the input has, zeros around them. All parts but the last fill whole steps.
    fn line(&self, parts: &[ConvPart<'_>], stretch: Option<Stretch>, to: &mut [f32]) {
        let Some(Stretch { places, from }) = stretch.filter(|stretch| !stretch.places.is_empty()) else {
            to.fill(0.0);
            return;
        };
        let position = self.position();
        to[..places.start * position].fill(0.0);
        to[places.end * position..].fill(0.0);
        let to = &mut to[places.start * position..places.end * position];
        let mut before = 0;
        for part in parts {
            match part.x {
                Activations::F32(x) => self.round(&x[from * part.channels..], part.channels, &mut to[before..]),
                Activations::Bf16(x) => {
                    let to: &mut [u16] = bytemuck::cast_slice_mut(to);
                    self.copy_bf16(&x[from * part.channels..], part.channels, 2 * before, to);
                }
            }
            before += part.channels / 2;
        }
    }

    /// Converts a line's positions of one part of the input with `channels` channels.
    fn round(&self, x: &[f32], channels: usize, to: &mut [f32]) {
        let (position, group) = (self.position(), channels / self.groups);
        let count = to.len().div_ceil(position);
        for index in 0..self.groups {
            let rows =
                Bf16ConvertRows { count, length: group, from_stride: self.stride * channels, to_stride: position };
            self.convert.rows(&x[index * group..], &mut to[index * self.steps * STEP_WORDS..], &rows);
        }
    }

    /// Converts a line of the input into windows; `line` is room for it with its padding.
    fn gather(&self, windows: &Gathered, x: &[f32], from: usize, line: &mut Vec<f32>, to: &mut [f32]) {
        let Gathered { kernel, dilation, .. } = *windows;
        let (channels, places) = (self.channels, to.len() / self.position());
        self.pad(windows, x, from, places, line);
        let mut rows = Bf16ConvertRows {
            count: places,
            length: kernel * channels,
            from_stride: self.stride * channels,
            to_stride: self.position(),
        };
        if dilation == 1 {
            self.convert.rows(line, to, &rows);
            return;
        }
        let apart: Vec<f32> = (0..places)
            .flat_map(|place| (0..kernel).map(move |tap| place * self.stride + tap * dilation))
            .flat_map(|position| line[position * channels..][..channels].iter().copied())
            .collect();
        rows.from_stride = rows.length;
        self.convert.rows(&apart, to, &rows);
    }

    /// Writes a line of the input with its padding, as far as `places` windows read it.
    fn pad<T: Default + std::marker::Copy>(
        &self,
        windows: &Gathered,
        x: &[T],
        from: usize,
        places: usize,
        line: &mut Vec<T>,
    ) {
        let Gathered { kernel, dilation, pad, width } = *windows;
        let (channels, zero) = (self.channels, T::default());
        let x = &x[from * width * channels..][..width * channels];
        let reach = (places - 1) * self.stride + (kernel - 1) * dilation + 1;
        line.clear();
        line.resize(pad.min(reach) * channels, zero);
        line.extend_from_slice(&x[..width.min(reach.saturating_sub(pad)) * channels]);
        line.resize(reach * channels, zero);
    }

    /// As [`Im2col::round`], for input stored as `bf16`. The part's channels start at element `before` of each
    /// position.
    fn copy_bf16(&self, x: &[u16], channels: usize, before: usize, to: &mut [u16]) {
        let (position, group, padded) = (2 * self.position(), channels / self.groups, 2 * self.steps * STEP_WORDS);
        if self.stride == 1 && position == channels {
            // Positions without gaps on either side are one run.
            to.copy_from_slice(&x[..to.len()]);
            return;
        }
        for (to, from) in to.chunks_exact_mut(position).zip(x.chunks(self.stride * channels)) {
            // A step's padding behind a part is overwritten by the next part.
            for (to, from) in to[before..].chunks_mut(padded).zip(from[..channels].chunks_exact(group)) {
                to[..group].copy_from_slice(from);
                to[group..].fill(0);
            }
        }
    }

    /// As [`Im2col::gather`], for input stored as `bf16`.
    fn gather_bf16(&self, windows: &Gathered, x: &[u16], from: usize, line: &mut Vec<u16>, to: &mut [f32]) {
        let (channels, position) = (self.channels, 2 * self.position());
        let to: &mut [u16] = bytemuck::cast_slice_mut(to);
        self.pad(windows, x, from, to.len() / position, line);
        for (place, to) in to.chunks_exact_mut(position).enumerate() {
            let from = &line[place * self.stride * channels..];
            let (own, rest) = to.split_at_mut(windows.kernel * channels);
            for (tap, to) in own.chunks_exact_mut(channels).enumerate() {
                to.copy_from_slice(&from[tap * windows.dilation * channels..][..channels]);
            }
            rest.fill(0);
        }
    }
}
