//! The copy of a band's input, padded with its zero point and laid out as a [`Grid`].

use crate::cpu::conv::ConvShape;
use crate::cpu::conv::amx::grid::{CopiedLine, Grid, Stretch};

/// Makes the copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Im2col {
    channels: usize,
    /// Input positions from one position of the copy to the next.
    stride: usize,
    lines: Option<Line>,
}

/// Whole lines with padding.
#[derive(Clone, Copy, Debug)]
struct Line {
    pad: usize,
    width: usize,
}

impl Im2col {
    pub(super) fn new(shape: &ConvShape, lines: bool) -> Im2col {
        let lines = lines.then_some(Line { pad: shape.pads()[2], width: shape.input()[2] });
        Im2col { channels: shape.channels(), stride: shape.strides()[2], lines }
    }

    /// Bytes of a position of the copy.
    pub(super) fn position(&self) -> usize {
        self.channels * if self.lines.is_some() { self.stride } else { 1 }
    }

    /// Copies a line of the grid. Padding is `zero`.
    pub(super) fn copy(&self, x: &[u8], grid: &Grid, line: &CopiedLine, zero: u8, to: &mut [u8]) {
        match &self.lines {
            None => self.line(x, grid.stretch(line.region, line.number), zero, to),
            Some(whole) => match grid.gathered(line.region, line.number) {
                None => to.fill(zero),
                Some(from) => self.whole(*whole, x, from, zero, to),
            },
        }
    }

    /// One line: the positions that the input has, padding around them.
    fn line(&self, x: &[u8], stretch: Option<Stretch>, zero: u8, to: &mut [u8]) {
        let Some(Stretch { places, from }) = stretch else {
            to.fill(zero);
            return;
        };
        let channels = self.channels;
        to[..places.start * channels].fill(zero);
        to[places.end * channels..].fill(zero);
        let to = &mut to[places.start * channels..places.end * channels];
        let x = &x[from * channels..];
        if self.stride == 1 || channels == 0 {
            // Positions without gaps on either side are one run.
            to.copy_from_slice(&x[..to.len()]);
            return;
        }
        for (to, from) in to.chunks_exact_mut(channels).zip(x.chunks(self.stride * channels)) {
            to.copy_from_slice(&from[..channels]);
        }
    }

    /// One line of the input with padding, as far as outputs read it.
    fn whole(&self, Line { pad, width }: Line, x: &[u8], from: usize, zero: u8, to: &mut [u8]) {
        let (before, length) = ((pad * self.channels).min(to.len()), width * self.channels);
        let kept = length.min(to.len() - before);
        to[..before].fill(zero);
        to[before..before + kept].copy_from_slice(&x[from * length..][..kept]);
        to[before + kept..].fill(zero);
    }
}
