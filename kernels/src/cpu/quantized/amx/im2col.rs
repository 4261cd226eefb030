//! The copy of a band's input, padded with its zero point and laid out as a [`Grid`].

use super::Buffers;
use crate::cpu::conv::ConvShape;
use crate::cpu::conv::amx::grid::{Grid, Stretch};
use crate::cpu::gemm::rows::part;
use crate::parallel::Parallel;

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

    /// Copies what the output lines `lines` read; a band has up to `most` lines.
    pub(super) fn run(
        &self,
        buffers: &Buffers<'_>,
        grid: &Grid,
        (lines, most): (&std::ops::Range<usize>, usize),
        tasks: usize,
        parallel: &dyn Parallel,
    ) {
        let (position, all) = (self.position(), lines.len() + grid.halo());
        let (x, zero) = (buffers.operands.x, buffers.operands.left_zero as u8);
        parallel.run(tasks, &|task| {
            for index in part(grid.regions() * all, tasks, task) {
                // Lines first: a thread then multiplies mostly the lines that it has copied.
                let (index, region) = (index / grid.regions(), index % grid.regions());
                let at = (region * grid.region(most) + index * grid.line()) * position;
                let mut places = grid.line();
                if index + 1 == all {
                    places += grid.overhang();
                }
                // SAFETY: lines of regions are disjoint parts of scratch, which was checked to hold them.
                let to = unsafe { std::slice::from_raw_parts_mut(buffers.bytes.at(at), places * position) };
                let number = lines.start + index;
                match &self.lines {
                    None => self.line(x, grid.stretch(region, number), zero, to),
                    Some(line) => match grid.gathered(region, number) {
                        None => to.fill(zero),
                        Some(from) => self.whole(*line, x, from, zero, to),
                    },
                }
            }
        });
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
