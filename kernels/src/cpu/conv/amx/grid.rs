//! Where positions of the input lie in the copy for AMX.
//!
//! Tile rows are sixteen neighbouring positions, and lines are seldom a multiple of sixteen long. So lines are laid end
//! to end with their padding between them, and tile rows run on across the ends of lines: a tap is one offset for all
//! positions. Sums of positions that are no outputs are dropped. Where two lines meet, the padding behind one is the
//! padding before the other. Planes and images follow each other in the same way.
//!
//! With a stride, the positions of each remainder modulo the stride form a *region*. In a region neighbouring outputs
//! read neighbouring positions, as without a stride; remainders that no tap reads are not copied. A *place* is a
//! position of a region.

use std::ops::Range;

use smallvec::SmallVec;

use crate::cpu::amx::TILE_ROWS;
use crate::cpu::conv::shape::Phase;
use crate::cpu::gemm::rows::part;
use crate::problem::conv::ConvShape;

/// One dimension. Output `o` reads place `o + reach` of a remainder, which is input position `place * step + remainder
/// - base`.
#[derive(Clone, Debug)]
struct Axis {
    step: usize,
    base: isize,
    /// Positions of the input.
    size: usize,
    /// Places that outputs read.
    extent: usize,
    /// Places from one line (plane, image) to the next.
    period: usize,
    /// Remainders that taps read.
    remainders: SmallVec<[usize; 4]>,
    /// The farthest place that the first output reads.
    reach: usize,
}

impl Axis {
    /// The axis for taps at these offsets, up to `count` outputs with stride `step`, and an input of `size` positions.
    fn new(taps: impl Iterator<Item = isize> + Clone, step: usize, count: usize, size: usize) -> Axis {
        let base = -taps.clone().min().unwrap_or(0);
        let place = |at: isize| ((at + base) as usize / step, (at + base) as usize % step);
        let mut remainders: SmallVec<[usize; 4]> = taps.clone().map(|at| place(at).1).collect();
        remainders.sort_unstable();
        remainders.dedup();
        let reach = taps.map(|at| place(at).0).max().unwrap_or(0);
        let mut axis = Axis { step, base, size, extent: count + reach, period: 0, remainders, reach };
        let inside = axis.remainders.iter().map(|&remainder| axis.inside(remainder));
        let (first, end) =
            inside.fold((axis.extent, 0), |(first, end), range| (first.min(range.start), end.max(range.end)));
        // The padding on both sides is shared, as long as no two outputs meet.
        axis.period = axis.extent - first.min(axis.extent - end).min(reach);
        axis
    }

    /// Places of a remainder that the input has positions for.
    fn inside(&self, remainder: usize) -> Range<usize> {
        let up = |position: isize| {
            let step = self.step as isize;
            ((position + step - 1).div_euclid(step).max(0) as usize).min(self.extent)
        };
        let zero = self.base - remainder as isize;
        up(zero)..up(zero + self.size as isize)
    }

    /// The input position of a place that has one.
    fn position(&self, place: usize, remainder: usize) -> usize {
        ((place * self.step + remainder) as isize - self.base) as usize
    }

    /// The index of a tap's remainder, and the offset in places from an output to the tap.
    fn tap(&self, at: isize) -> (usize, usize) {
        let from = (at + self.base) as usize;
        let remainder = self.remainders.iter().position(|&remainder| remainder == from % self.step);
        (remainder.unwrap_or(0), from / self.step)
    }
}

/// The layout of the copy of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    batch: usize,
    axes: [Axis; 3],
}

/// The part of a copied line that comes from the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Places in the line.
    pub(crate) places: Range<usize>,
    /// The input's position for the first place, counted over all dimensions.
    pub(crate) from: usize,
}

/// A line of the copy of a band.
#[derive(Clone, Debug)]
pub(crate) struct CopiedLine {
    /// Its region.
    pub(crate) region: usize,
    /// Its number among the grid's lines.
    pub(crate) number: usize,
    /// Its places in the copy.
    pub(crate) places: Range<usize>,
}

/// Positions that the copy of a whole batch has at most; `None` where they cannot be counted.
pub(crate) fn most_positions(shape: &ConvShape) -> Option<u128> {
    let along = |dim: usize| {
        let reach = (shape.kernel()[dim] - 1) * shape.dilations()[dim];
        (shape.input()[dim].max(shape.output()[dim]) + shape.pads()[dim] + reach + TILE_ROWS) as u128
    };
    let regions: u128 = (0..3).map(|dim| shape.strides()[dim].min(shape.kernel()[dim]) as u128).product();
    (0..3).try_fold(shape.batch() as u128, |total, dim| total.checked_mul(along(dim)))?.checked_mul(regions)
}

impl Grid {
    /// The grid of a convolution with these phases. In lines of windows (`gathered`), an output's place is its first
    /// position.
    pub(crate) fn new(shape: &ConvShape, phases: &[Phase], gathered: bool) -> Grid {
        let step = |dim: usize| phases.first().map_or(1, |phase| phase.step[dim]);
        let count = |dim: usize| phases.iter().map(|phase| phase.count[dim]).max().unwrap_or(0);
        let axis = |dim: usize| {
            let taps = phases.iter().flat_map(|phase| &phase.taps).map(|tap| tap.at[dim]);
            Axis::new(taps, step(dim), count(dim), shape.input()[dim])
        };
        let last = match gathered {
            true => {
                let one = Axis::new(std::iter::once(-(shape.pads()[2] as isize)), step(2), count(2), shape.input()[2]);
                Axis { period: one.extent, ..one }
            }
            false => axis(2),
        };
        Grid { batch: shape.batch(), axes: [axis(0), axis(1), last] }
    }

    /// The grid of whole lines with padding. A place is as many positions as outputs are apart; an output's window
    /// starts at its place and covers the following ones.
    pub(crate) fn of_lines(shape: &ConvShape, phases: &[Phase]) -> Grid {
        let mut grid = Grid::new(shape, phases, true);
        let line = &mut grid.axes[2];
        line.extent += (shape.kernel()[2] - 1) / shape.strides()[2];
        line.period = line.extent;
        grid
    }

    /// Places of a line.
    pub(crate) fn line(&self) -> usize {
        self.axes[2].period
    }

    /// Lines that outputs may start in.
    pub(crate) fn lines(&self) -> usize {
        self.batch * self.axes[0].period * self.axes[1].period
    }

    /// Input lines behind the last of a range of lines that its outputs read.
    pub(crate) fn halo(&self) -> usize {
        self.axes[0].reach * self.axes[1].period + self.axes[1].reach
    }

    /// Number of regions.
    pub(crate) fn regions(&self) -> usize {
        self.axes.iter().map(|axis| axis.remainders.len()).product()
    }

    /// Places behind the last line that its outputs read; they are zero.
    pub(crate) fn overhang(&self) -> usize {
        self.axes[2].extent - self.axes[2].period
    }

    /// Places of a region for `lines` output lines, with room for tile rows that read on behind their last output.
    pub(crate) fn region(&self, lines: usize) -> usize {
        (lines + self.halo()) * self.line() + self.overhang() + TILE_ROWS - 1
    }

    /// The copied lines that the output lines `lines` read, as far as task `task` of `tasks` copies them. Regions have
    /// room for bands of up to `most` lines.
    pub(crate) fn copied_lines(
        &self,
        lines: &Range<usize>,
        most: usize,
        tasks: usize,
        task: usize,
    ) -> impl Iterator<Item = CopiedLine> {
        let (start, all, regions, room) = (lines.start, lines.len() + self.halo(), self.regions(), self.region(most));
        part(regions * all, tasks, task).map(move |index| {
            // Lines first: a thread then multiplies mostly the lines that it has copied.
            let (line, region) = (index / regions, index % regions);
            let first = region * room + line * self.line();
            let last = if line + 1 == all { self.overhang() } else { 0 };
            CopiedLine { region, number: start + line, places: first..first + self.line() + last }
        })
    }

    /// Whether outputs follow each other without gaps, so that the ends of lines do not matter.
    pub(crate) fn is_dense(&self, phase: &Phase) -> bool {
        phase.stride == [1; 3] && (0..3).all(|dim| self.axes[dim].period == phase.count[dim])
    }

    /// Offset in places from an output to a tap, in regions of `region` places each.
    pub(crate) fn tap(&self, at: [isize; 3], region: usize) -> usize {
        let [(d, depth), (h, height), (w, width)] = [0, 1, 2].map(|dim| self.axes[dim].tap(at[dim]));
        let index = (d * self.axes[1].remainders.len() + h) * self.axes[2].remainders.len() + w;
        index * region + (depth * self.axes[1].period + height) * self.line() + width
    }

    /// The part of a region's line that comes from the input; `None` if it is all padding.
    pub(crate) fn stretch(&self, region: usize, line: usize) -> Option<Stretch> {
        let [depth, height, width] = &self.axes;
        let (rest, w) = (region / width.remainders.len(), region % width.remainders.len());
        let (d, h) = (rest / height.remainders.len(), rest % height.remainders.len());
        let (d, h, w) = (depth.remainders[d], height.remainders[h], width.remainders[w]);
        let [image, d_place, h_place] = self.places(line);
        if image >= self.batch || !depth.inside(d).contains(&d_place) || !height.inside(h).contains(&h_place) {
            return None;
        }
        let places = width.inside(w);
        let line = (image * depth.size + depth.position(d_place, d)) * height.size + height.position(h_place, h);
        let from = line * width.size + if places.is_empty() { 0 } else { width.position(places.start, w) };
        (!places.is_empty()).then_some(Stretch { places, from })
    }

    /// The input line, counted over all dimensions, that a line of windows is made of; `None` if it is all padding.
    pub(crate) fn gathered(&self, region: usize, line: usize) -> Option<usize> {
        let [depth, height, _] = &self.axes;
        let (d, h) = (region / height.remainders.len(), region % height.remainders.len());
        let (d, h) = (depth.remainders[d], height.remainders[h]);
        let [image, d_place, h_place] = self.places(line);
        let inside = image < self.batch && depth.inside(d).contains(&d_place) && height.inside(h).contains(&h_place);
        inside.then(|| (image * depth.size + depth.position(d_place, d)) * height.size + height.position(h_place, h))
    }

    /// The first output of a phase in a line, as a position of the whole output; `None` if the line has no output.
    pub(crate) fn output(&self, phase: &Phase, line: usize, output: [usize; 3]) -> Option<usize> {
        let [image, d, h] = self.places(line);
        if image >= self.batch || d >= phase.count[0] || h >= phase.count[1] {
            return None;
        }
        let at = |dim: usize, index: usize| phase.start[dim] + index * phase.stride[dim];
        Some(((image * output[0] + at(0, d)) * output[1] + at(1, h)) * output[2] + phase.start[2])
    }

    /// Adds the places, counted from the first line, at which tile rows start that cover a phase's outputs in these
    /// lines.
    pub(crate) fn cover(&self, phase: &Phase, lines: Range<usize>, output: [usize; 3], starts: &mut Vec<usize>) {
        if self.is_dense(phase) {
            starts.extend((0..lines.len() * self.line()).step_by(TILE_ROWS));
            return;
        }
        let mut covered = 0;
        for (index, line) in lines.enumerate() {
            if self.output(phase, line, output).is_some() {
                let first = index * self.line();
                let from = first.max(covered);
                let tiles = (first + phase.count[2]).saturating_sub(from).div_ceil(TILE_ROWS);
                starts.extend((0..tiles).map(|tile| from + tile * TILE_ROWS));
                covered = from + tiles * TILE_ROWS;
            }
        }
    }

    /// Passes on which rows of the tile rows at `starts`, in a band of these lines, are outputs. For each run of
    /// outputs: its first row, counted over all tile rows, the position of its first output in the whole output, and
    /// its number of rows. Outputs of a run are the phase's stride apart.
    pub(crate) fn outputs(
        &self,
        phase: &Phase,
        lines: &Range<usize>,
        starts: &[usize],
        output: [usize; 3],
        mut run: impl FnMut(usize, usize, usize),
    ) {
        let (line, last) = (self.line(), lines.len() * self.line());
        // Lines without gaps between their outputs form one line.
        let (stride, count) = if self.is_dense(phase) { (last, last) } else { (line, phase.count[2]) };
        let mut tile = 0;
        while tile < starts.len() {
            let next = starts[tile..].windows(2).take_while(|pair| pair[1] == pair[0] + TILE_ROWS).count() + 1;
            let start = starts[tile];
            let end = (start + next * TILE_ROWS).min(last);
            let mut at = start;
            while at < end {
                let (index, place) = (at / stride, at % stride);
                let rows = count.saturating_sub(place).min(end - at);
                let first = self.output(phase, lines.start + index, output);
                if let (Some(first), true) = (first, rows > 0) {
                    run(tile * TILE_ROWS + at - start, first + place * phase.stride[2], rows);
                }
                at += (stride - place).min(end - at);
            }
            tile += next;
        }
    }

    /// Output lines of a band whose copy takes about `bytes` bytes, where a line of the copy takes `line`;
    /// `weights_in_l2` says whether weights stay in L2 meanwhile.
    pub(crate) fn band(&self, line: usize, bytes: usize, weights_in_l2: bool) -> usize {
        // Input lines that two bands read are copied twice.
        let band = (bytes / line.max(1)).saturating_sub(self.halo()).max(2 * self.halo());
        // A short second band would read all weights once more.
        let band = if !weights_in_l2 && self.lines() <= band + band / 2 { self.lines() } else { band };
        band.clamp(1, self.lines().max(1))
    }

    /// Image, place along the depth, and place along the height of a line.
    fn places(&self, line: usize) -> [usize; 3] {
        let (height, depth) = (self.axes[1].period.max(1), self.axes[0].period.max(1));
        [line / height / depth, line / height % depth, line % height]
    }
}
