//! Depthwise convolution of quantised tensors: each channel has a filter of its own.
//!
//! Vectors hold channels. Two positions of the window below each other are multiplied at once, or four where bytes are
//! multiplied by bytes. For that, each line of the input is interleaved with the lines below it, element by element,
//! into *groups* of 16-bit integers or bytes, with its padding. A task keeps the lines of groups that its next output
//! lines read, so that each line is written once. Below the last line of a window weights are zero.

use super::blocks::QuantizedBlocks;
use super::dense::{Edge, Strip};
use super::micro_kernel::MicroKernel;
use super::operands::{LINE, Operands};
use super::prepare;
use super::tile::{Form, LeftRows, QuantizedArgs, QuantizedCode, most_rows};
use super::weights::ChannelPanels;
use crate::cpu::CodeSource;
use crate::cpu::conv::ConvShape;
use crate::cpu::gemm::Tiles;
use crate::cpu::gemm::rows::part;
use crate::error::Result;
use crate::isa::Isa;
use crate::parallel::{Disjoint, Parallel};
use crate::problem::quantized::Output;

/// A quantised depthwise convolution.
#[derive(Clone, Debug)]
pub(super) struct Channels {
    isa: Isa,
    shape: ConvShape,
    output: Output,
    tile: MicroKernel,
    pub(super) panels: ChannelPanels,
    /// Tiles of an output line.
    tiles: Tiles,
    /// Positions of a line of groups.
    positions: usize,
    /// Lines of groups that a task keeps.
    kept: usize,
    tasks: usize,
}

impl Channels {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        output: Output,
        blocks: QuantizedBlocks,
        form: Form,
        vectors: usize,
        source: &dyn CodeSource,
    ) -> Result<Channels> {
        let code = QuantizedCode { isa, form, vectors: vectors as u8, left: LeftRows::Own, output };
        let panels = ChannelPanels::new(isa, &shape.weights(), form, vectors);
        let [depth, height, width] = shape.kernel();
        // From the first line that a window reads to its last, and one more for the next window to start with; windows
        // of one group share no line.
        let all = ((height - 1) * shape.dilations()[1] + 2).min(shape.input()[1] + 2 * height).max(height);
        let kept = depth * if height <= form.group() { 1 } else { all };
        Ok(Channels {
            isa,
            shape,
            output,
            tile: MicroKernel::new(code, source)?,
            panels,
            tiles: Tiles::new(shape.output()[2], most_rows(isa, vectors)),
            positions: (shape.output()[2].max(1) - 1) * shape.strides()[2] + (width - 1) * shape.dilations()[2] + 1,
            kept,
            tasks: blocks.row_tasks() * blocks.unit_tasks(),
        })
    }

    /// Words of a line of groups, with room behind it for reads of a panel's width.
    fn line_words(&self) -> usize {
        (self.positions * self.shape.channels() + self.panels.width).next_multiple_of(LINE)
    }

    /// Words of a line of padding, in bytes.
    fn blank_words(&self) -> usize {
        (self.shape.input()[2] * self.shape.channels()).div_ceil(4).next_multiple_of(LINE)
    }

    pub(super) fn scratch_len(&self) -> usize {
        self.blank_words() + self.tasks * self.kept * self.line_words()
    }

    /// Computes all outputs; `scratch` is [`Channels::scratch_len`] long at least.
    pub(super) fn run(&self, operands: &Operands<'_>, y: &mut [u8], scratch: &mut [i32], parallel: &dyn Parallel) {
        let (blank, rings) = scratch.split_at_mut(self.blank_words());
        let blank: &mut [u8] = bytemuck::cast_slice_mut(blank);
        blank.fill(operands.left_zero as u8);
        let blank = &*blank;
        let [depth, height, _] = self.shape.output();
        let lines = self.shape.batch() * depth * height;
        let words = self.kept * self.line_words();
        let y = Disjoint::new(y);
        crate::parallel::for_each_chunk(parallel, &mut rings[..self.tasks * words], words, &|task, ring| {
            let mut ring = Ring { lines: ring, seen: vec![None; self.kept], stamp: 0 };
            let mut work = Work { table: Vec::new(), edge: Edge::default() };
            for line in part(lines, self.tasks, task) {
                if parallel.is_stopped() {
                    return;
                }
                self.line(operands, blank, line, &y, &mut ring, &mut work);
            }
        });
    }

    /// Computes one output line.
    fn line(
        &self,
        operands: &Operands<'_>,
        blank: &[u8],
        line: usize,
        y: &Disjoint<'_, u8>,
        ring: &mut Ring<'_>,
        work: &mut Work,
    ) {
        let shape = &self.shape;
        let [depth, height, width] = shape.output();
        let [image, d, h] = [line / height / depth, line / height % depth, line % height];
        ring.stamp += 1;
        work.table.clear();
        for number in 0..self.panels.lines {
            let groups = shape.kernel()[1].div_ceil(self.panels.group);
            let [kd, kh] = [number / groups, number % groups * self.panels.group];
            let place = |dim: usize, output: usize, tap: usize| {
                (output * shape.strides()[dim] + tap * shape.dilations()[dim]) as isize - shape.pads()[dim] as isize
            };
            let at = [image as isize, place(0, d, kd), place(1, h, kh)];
            let slot = ring.slot(at, |to| self.group(operands, blank, at, to), self.line_words());
            let step = shape.dilations()[2] * shape.channels();
            let first = ring.lines[slot * self.line_words()..].as_ptr();
            work.table.extend((0..self.panels.line).map(|tap| first.wrapping_add(tap * step).cast::<u8>()));
        }
        let element = self.output.bytes();
        let given = operands.given.clone().read("table", &work.table);
        for panel in 0..self.panels.panels {
            let column = panel * self.panels.width;
            let mut args = QuantizedArgs {
                taps: work.table.len(),
                lda: shape.strides()[2] * shape.channels() * 4,
                b: operands.weights.at(panel * self.panels.panel_words()),
                ..QuantizedArgs::with_epilogue(&operands.start[column..], &operands.epilogue, column)
            };
            for run in self.tiles.runs(0..self.tiles.count()) {
                args.rows = run.height;
                args.tiles.set(run.count);
                args.a.set(std::ptr::without_provenance(run.row * args.lda + column * 4));
                args.a_tile_stride = run.height * args.lda;
                args.table.set(work.table.as_ptr());
                let to = Strip {
                    first: y.at(((line * width + run.row) * shape.channels() + column) * element),
                    distance: shape.channels() * element,
                    rows: run.count * run.height,
                    columns: self.panels.width.min(shape.channels() - column) * element,
                    width: self.panels.width * element,
                };
                // SAFETY: every position that a window reads lies in the lines of groups, which have a panel's width
                // behind them; panels, starts and factors are whole; the line is this task's alone.
                unsafe { work.edge.write(&to, &mut args, &self.tile, &given) };
            }
        }
    }

    /// Writes the groups of a line: its elements with those of the lines below it in the window.
    fn group(&self, operands: &Operands<'_>, blank: &[u8], at: [isize; 3], to: &mut [i32]) {
        let shape = &self.shape;
        let length = shape.input()[2] * shape.channels();
        let row = |height: isize| {
            if at[1] as usize >= shape.input()[0] || height as usize >= shape.input()[1] {
                return &blank[..length];
            }
            let number = (at[0] as usize * shape.input()[0] + at[1] as usize) * shape.input()[1] + height as usize;
            &operands.x[number * length..][..length]
        };
        let end = self.positions * shape.channels();
        let before = (shape.pads()[2] * shape.channels()).min(end);
        let kept = length.min(end - before);
        let zero = operands.left_zero + if operands.signed { 128 } else { 0 };
        let quads = self.panels.group == 4;
        let padding = if quads { i32::from_ne_bytes([zero as u8; 4]) } else { zero | zero << 16 };
        to[..before].fill(padding);
        to[before + kept..].fill(padding);
        let to = &mut to[before..before + kept];
        // Lines below the window are multiplied by zero: the last line serves for them.
        let last = shape.kernel()[1] - 1;
        let below = |lines: usize| &row(at[2] + (lines.min(last) * shape.dilations()[1]) as isize)[..kept];
        match quads {
            true => prepare::quads(self.isa, [0, 1, 2, 3].map(below), operands.signed, to),
            false => prepare::pairs(self.isa, below(0), below(1), operands.signed, to),
        }
    }
}

/// State of a task from line to line.
struct Work {
    table: Vec<*const u8>,
    edge: Edge,
}

/// The lines of groups that a task keeps.
struct Ring<'a> {
    lines: &'a mut [i32],
    /// Image, depth and height of each kept line, and the stamp of its last use.
    seen: Vec<Option<([isize; 3], usize)>>,
    stamp: usize,
}

impl Ring<'_> {
    /// The index of a line of groups. If it is not kept, `write` writes it over the least recently used line. That line
    /// does not have the current stamp as long as more lines are kept than a window reads.
    fn slot(&mut self, at: [isize; 3], write: impl FnOnce(&mut [i32]), words: usize) -> usize {
        let found = self.seen.iter().position(|seen| seen.is_some_and(|(place, _)| place == at));
        let slot = found.unwrap_or_else(|| {
            let age = |slot: &usize| self.seen[*slot].map_or(0, |(_, stamp)| stamp);
            let oldest = (0..self.seen.len()).min_by_key(age).unwrap_or(0);
            write(&mut self.lines[oldest * words..][..words]);
            oldest
        });
        self.seen[slot] = Some((at, self.stamp));
        slot
    }
}
