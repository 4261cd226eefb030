//! Convolutions of few channels, as of images: a whole line of the window is one tap.
//!
//! In a line of the input, the rows of outputs have one stride. The taps, which are lines of the window, have one
//! stride too, so no tile needs an indirection table. No tile leaves its output line. Tiles that see padding read
//! copies padded with zeros, made a few lines at a time, so that they are still in L1 or L2 when they are multiplied;
//! all others read the input in place.
//!
//! Knows the shape and tiles, but not how weights are packed.

use std::ops::Range;

use smallvec::SmallVec;

use super::blocks::{ConvBlocks, ConvStored};
use super::extras::EpilogueOperands;
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::micro_kernel::MicroKernel;
use crate::cpu::gemm::most_rows;
use crate::cpu::gemm::rows::{Run, part};
use crate::cpu::gemm::tile::{LeftRows, RightColumns, TileArgs, TileCode};
use crate::cpu::gemm::{Panels, Tiles};
use crate::cpu::{ActivationsMut, CodeSource};
use crate::error::Result;
use crate::isa::Isa;
use crate::parallel::{Disjoint, Parallel};
use crate::problem::conv::ConvShape;

/// A convolution on copied lines.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    shape: ConvShape,
    isa: Isa,
    code: TileCode,
    tile: MicroKernel,
    /// Tiles of an output line.
    tiles: Tiles,
    panels: Panels,
    /// Output lines of a plane whose windows lie inside the input's lines.
    inner_lines: Range<usize>,
    /// Tiles of a line whose windows lie inside the input's columns.
    inner_tiles: Range<usize>,
    /// Output lines whose inputs are copied at a time.
    block: usize,
    row_tasks: usize,
    unit_tasks: usize,
}

/// The buffers of one run, as tasks see them.
struct Buffers<'a> {
    x: &'a [f32],
    weights: &'a [f32],
    y: Disjoint<'a, u8>,
    extras: EpilogueOperands<'a>,
    scratch: Disjoint<'a, f32>,
}

/// Whether a convolution can be computed on copied lines.
pub(super) fn suits(shape: &ConvShape) -> bool {
    shape.groups() == 1 && shape.dilations() == [1; 3] && !shape.transposed && shape.kernel()[0] == 1
}

/// Whether a driver can take these blocks for a shape that [`suits`]: the size of scratch must not overflow.
pub(super) fn fits(blocks: &ConvBlocks, shape: &ConvShape) -> bool {
    let lines =
        blocks.row_block().checked_mul(shape.strides()[1]).and_then(|lines| lines.checked_add(shape.kernel()[1]));
    let tasks = blocks.row_tasks() * blocks.unit_tasks();
    let elements = lines.and_then(|lines| lines.checked_mul(line(shape))?.checked_mul(tasks));
    elements.is_some_and(|elements| elements <= isize::MAX as usize / 8)
}

/// Elements of a copied line.
pub(super) fn line(shape: &ConvShape) -> usize {
    ((shape.output()[2].max(1) - 1) * shape.strides()[2] + shape.kernel()[2]) * shape.channels()
}

/// Outputs along a dimension whose taps all lie inside the input.
fn inside(shape: &ConvShape, dim: usize) -> Range<usize> {
    let (stride, pad, size) = (shape.strides()[dim], shape.pads()[dim], shape.output()[dim]);
    let end = (shape.input()[dim] + pad).checked_sub(shape.kernel()[dim]).map_or(0, |last| last / stride + 1).min(size);
    pad.div_ceil(stride).min(end)..end
}

/// Most multiply-adds of a call, so that a cancelled request ends within some milliseconds.
const CALL: usize = 1 << 27;

impl Lines {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        blocks: ConvBlocks,
        stored: ConvStored,
        activation: Option<UnaryOp>,
        panels: Panels,
        source: &dyn CodeSource,
    ) -> Result<Lines> {
        let ConvStored { residual, output, .. } = stored;
        let sums = TileCode::sums(isa, blocks.vectors() as u8, LeftRows::Lines, RightColumns::Packed);
        let code = TileCode { activation, residual, output, ..sums };
        let tiles = Tiles::new(shape.output()[2], most_rows(isa, blocks.vectors()));
        let tile = MicroKernel::new(code, [tiles], source)?;
        let lines = shape.batch() * shape.output()[0] * shape.output()[1];
        let row_tasks = blocks.row_tasks().min(lines * tiles.count()).max(1);
        let block = blocks.row_block().min(shape.output()[1]).min(lines.div_ceil(row_tasks)).max(1);
        let unit_tasks = blocks.unit_tasks().min(panels.count()).max(1);
        let inner_lines = inside(&shape, 1);
        let columns = inside(&shape, 2);
        // A line may be millions of tiles long.
        let end = tiles.leading(|tile| tiles.start(tile + 1) <= columns.end);
        let start = tiles.leading(|tile| tiles.start(tile) < columns.start).min(end);
        let inner_tiles = start..end;
        Ok(Lines { shape, isa, code, tile, tiles, panels, inner_lines, inner_tiles, block, row_tasks, unit_tasks })
    }

    /// The tiles of an output line that read the input in place.
    fn inner(&self, line: usize) -> Range<usize> {
        let (plane, line) = (line / self.shape.output()[1], line % self.shape.output()[1]);
        let inside = self.depth(plane).1 < self.shape.input()[0] && self.inner_lines.contains(&line);
        if inside { self.inner_tiles.clone() } else { 0..0 }
    }

    /// Image and depth in the input of a plane of outputs; a depth before the first wraps to one beyond any size.
    fn depth(&self, plane: usize) -> (usize, usize) {
        let (image, d) = (plane / self.shape.output()[0], plane % self.shape.output()[0]);
        (image, (d * self.shape.strides()[0]).wrapping_sub(self.shape.pads()[0]))
    }

    /// Elements of scratch that [`Lines::run`] needs.
    pub(super) fn scratch_len(&self) -> usize {
        self.row_tasks * self.unit_tasks * self.copied()
    }

    /// Elements that a task copies at a time.
    fn copied(&self) -> usize {
        self.inputs(self.block) * line(&self.shape)
    }

    /// Input lines that `lines` output lines read.
    fn inputs(&self, lines: usize) -> usize {
        (lines - 1) * self.shape.strides()[1] + self.shape.kernel()[1]
    }

    /// Convolves. The driver has checked that every buffer is as long as the shape says.
    pub(super) fn run(
        &self,
        x: &[f32],
        weights: &[f32],
        mut y: ActivationsMut<'_>,
        extras: EpilogueOperands<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) {
        let y = Disjoint::new(y.bytes_mut());
        let buffers = Buffers { x, weights, y, extras, scratch: Disjoint::new(scratch) };
        let [depth, height, _] = self.shape.output();
        let tiles = self.shape.batch() * depth * height * self.tiles.count();
        parallel.run(self.row_tasks * self.unit_tasks, &|task| {
            let mine = part(tiles, self.row_tasks, task / self.unit_tasks);
            let units = part(self.panels.count(), self.unit_tasks, task % self.unit_tasks);
            if !units.is_empty() {
                self.task(&buffers, mine, units, task * self.copied(), parallel);
            }
        });
    }

    /// Some tiles, numbered line by line, of some panels, with copies from `scratch` on.
    fn task(
        &self,
        buffers: &Buffers<'_>,
        tiles: Range<usize>,
        units: Range<usize>,
        scratch: usize,
        parallel: &dyn Parallel,
    ) {
        let (per, height) = (self.tiles.count(), self.shape.output()[1]);
        let mut next = tiles.start;
        while next < tiles.end && !parallel.is_stopped() {
            // Output lines that share copied lines are of one plane. They see a line outside the input all or not at
            // all.
            let (first, plane) = (next / per, next / per / height * height);
            let ends = [self.inner_lines.start, self.inner_lines.end, height].map(|line| plane + line);
            let last = ends.into_iter().filter(|&end| end > first).fold(first + self.block, usize::min);
            let block = next..tiles.end.min(last * per);
            self.copy(buffers, &block, scratch);
            self.multiply(buffers, &block, units.clone(), scratch, parallel);
            next = block.end;
        }
    }

    /// Runs of a line's tiles, one for each call of the micro-kernel, and whether the run reads the input in place
    /// (`inner`).
    fn runs(&self, inner: &Range<usize>, tiles: Range<usize>) -> SmallVec<[(Run, bool); 4]> {
        let [start, end] = [inner.start, inner.end].map(|tile| tile.clamp(tiles.start, tiles.end));
        let parts = [(tiles.start..start, false), (start..end, true), (end..tiles.end, false)];
        parts.into_iter().flat_map(|(tiles, inside)| self.tiles.runs(tiles).map(move |run| (run, inside))).collect()
    }

    /// Offset of the input of an output line, as if there were columns for the padding.
    fn place(&self, buffers: &Buffers<'_>, line: usize) -> *const f32 {
        let shape = &self.shape;
        let (plane, line) = (line / shape.output()[1], line % shape.output()[1]);
        let (image, d) = self.depth(plane);
        let h = (line * shape.strides()[1]).wrapping_sub(shape.pads()[1]);
        let first = ((image * shape.input()[0]).wrapping_add(d).wrapping_mul(shape.input()[1])).wrapping_add(h);
        let column = first.wrapping_mul(shape.input()[2]).wrapping_sub(shape.pads()[2]);
        buffers.x.as_ptr().wrapping_add(column.wrapping_mul(shape.channels()))
    }

    /// Copies the input of a block's tiles that do not read in place; of a line, only the part that these tiles read.
    fn copy(&self, buffers: &Buffers<'_>, block: &Range<usize>, scratch: usize) {
        let per = self.tiles.count();
        let (first, last) = (block.start / per, (block.end - 1) / per);
        let own = if first == last { block.start - first * per..block.end - first * per } else { 0..per };
        let inner = self.inner(first);
        let inner = inner.start.clamp(own.start, own.end)..inner.end.clamp(own.start, own.end);
        let bordering = if inner.is_empty() { [own, 0..0] } else { [own.start..inner.start, inner.end..own.end] };
        for tiles in bordering.into_iter().filter(|tiles| !tiles.is_empty()) {
            let at = |row: usize| row * self.shape.strides()[2] * self.shape.channels();
            let window = self.shape.kernel()[2] * self.shape.channels();
            let columns = at(self.tiles.start(tiles.start))..at(self.tiles.start(tiles.end) - 1) + window;
            self.copy_columns(buffers, first..last + 1, columns, scratch);
        }
    }

    /// Copies those elements of each input line that some output lines read.
    fn copy_columns(&self, buffers: &Buffers<'_>, lines: Range<usize>, columns: Range<usize>, scratch: usize) {
        let shape = &self.shape;
        let [depth, height, width] = shape.input();
        let (plane, line_of_plane) = (lines.start / shape.output()[1], lines.start % shape.output()[1]);
        let (image, d) = self.depth(plane);
        // A position before the first wraps to one beyond any size.
        let h = (line_of_plane * shape.strides()[1]).wrapping_sub(shape.pads()[1]);
        let before = (shape.pads()[2] * shape.channels()).clamp(columns.start, columns.end);
        let own = (shape.pads()[2] + width).saturating_mul(shape.channels()).clamp(before, columns.end);
        for index in 0..self.inputs(lines.len()) {
            let first = scratch + index * line(shape) + columns.start;
            // SAFETY: this part of scratch is one task's.
            let to = unsafe { buffers.scratch.part(first..first + columns.len()) };
            let h = h.wrapping_add(index);
            if d >= depth || h >= height {
                to.fill(0.0);
                continue;
            }
            let from = ((image * depth + d) * height + h) * width * shape.channels();
            let from = &buffers.x[from..from + width * shape.channels()];
            let start = before.saturating_sub(shape.pads()[2] * shape.channels()).min(from.len());
            to[..before - columns.start].fill(0.0);
            to[before - columns.start..own - columns.start].copy_from_slice(&from[start..start + own - before]);
            to[own - columns.start..].fill(0.0);
        }
    }

    /// Multiplies a block of tiles with some panels; copied lines start at `scratch`.
    fn multiply(
        &self,
        buffers: &Buffers<'_>,
        block: &Range<usize>,
        units: Range<usize>,
        scratch: usize,
        parallel: &dyn Parallel,
    ) {
        let shape = &self.shape;
        let (per, width) = (self.tiles.count(), self.panels.width);
        let mut args = TileArgs::empty();
        args.lda = shape.strides()[2] * shape.channels() * 4;
        args.taps = shape.kernel()[1];
        let output = self.code.output.bytes();
        args.ldc = shape.filters() * output;
        args.reduce_over(0, shape.kernel()[2] * shape.channels());
        buffers.extras.add_residual(&mut args, &self.code, buffers.y.at(0));
        args.summarise();
        let first = block.start / per;
        let window = shape.kernel()[1] * shape.kernel()[2] * shape.channels();
        let most = (CALL / (window * width * shape.output()[2].div_ceil(per)).max(1)).max(1);
        // Cutting short lines takes longer than multiplying them, so their cut is kept.
        let (inner, place) = (self.inner(first), self.place(buffers, first));
        let whole = self.runs(&inner, 0..per);
        for panel in units {
            args.keep_columns(self.panels.columns_of(panel), width, self.isa.lanes());
            args.b = buffers.weights.as_ptr().wrapping_add(panel * self.panels.panel_len()).cast();
            let bias = buffers.extras.bias;
            args.bias = bias.map_or(std::ptr::null(), |bias| bias.as_ptr().wrapping_add(panel * width));
            let mut next = block.start;
            while next < block.end && !parallel.is_stopped() {
                let index = next / per;
                let end = block.end.min((index + 1) * per).min(next + most);
                let tiles = next - index * per..end - index * per;
                let part;
                let runs = if tiles == (0..per) {
                    &whole
                } else {
                    part = self.runs(&inner, tiles);
                    &part
                };
                let copied = scratch + (index - first) * shape.strides()[1] * line(shape);
                let in_place =
                    place.wrapping_add((index - first) * shape.strides()[1] * shape.input()[2] * shape.channels());
                for (run, inside) in runs {
                    let (from, step) = match inside {
                        true => (in_place, shape.input()[2] * shape.channels()),
                        false => (buffers.scratch.at(copied).cast_const(), line(shape)),
                    };
                    args.tap_stride = step * 4;
                    args.rows = run.height;
                    args.tiles.set(run.count);
                    args.a.set(from.wrapping_add(run.row * shape.strides()[2] * shape.channels()).cast());
                    args.a_tile_stride = run.height * args.lda;
                    let position = index * shape.output()[2] + run.row;
                    args.c.set(buffers.y.at((position * shape.filters() + panel * width) * output));
                    args.c_tile_stride = run.height * args.ldc;
                    // SAFETY: the rows of these outputs lie inside the copy, or inside the input where every tap of the
                    // tiles is inside it; tasks have disjoint rows or columns of C.
                    unsafe { self.tile.call(&args, buffers.extras.given) };
                }
                next = end;
            }
        }
    }
}
