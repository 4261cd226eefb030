//! Depthwise convolution of quantised tensors: each channel has a filter of its own.
//!
//! Vectors hold channels. Two positions of the window below each other are multiplied at once, or four where bytes are
//! multiplied by bytes. Bytes on AVX-512 are interleaved in registers ([`lines`](super::lines)), from lines of the
//! input with their padding. Elsewhere each line is interleaved with the lines below it, element by element, into
//! *groups* of 16-bit integers or bytes. A task keeps the lines that its next output lines read, so that each line is
//! written once. Below the last line of a window weights are zero.

use std::ops::Range;

use super::blocks::QuantizedBlocks;
use super::lines::{GROUP, INTERLEAVED, LinesArgs, LinesCode};
use super::micro_kernel::MicroKernel;
use super::operands::{LINE, Operands};
use super::prepare;
use super::strip::{Edge, Strip};
use super::tile::{Form, LeftRows, QuantizedArgs, QuantizedCode, most_rows};
use super::weights::ChannelPanels;
use crate::cpu::code_parts::Emitted;
use crate::cpu::conv::ConvShape;
use crate::cpu::gemm::Tiles;
use crate::cpu::gemm::rows::part;
use crate::cpu::{CodeKey, CodeSource};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::Given;
use crate::parallel::{Disjoint, Parallel};
use crate::problem::quantized::Output;

/// A quantised depthwise convolution.
#[derive(Clone, Debug)]
pub(super) struct Channels {
    isa: Isa,
    shape: ConvShape,
    output: Output,
    kernel: Kernel,
    pub(super) panels: ChannelPanels,
    /// Tiles of an output line.
    tiles: Tiles,
    /// Positions of a kept line.
    positions: usize,
    /// Lines that a task keeps.
    kept: usize,
    tasks: usize,
}

/// The kernel, and with it what kept lines hold.
#[derive(Clone, Debug)]
enum Kernel {
    /// Lines of groups, a word an element.
    Groups(MicroKernel),
    /// Lines of the input, a byte an element.
    Lines(Emitted<LinesCode>),
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
        let [stride, dilation] = [shape.strides()[2], shape.dilations()[2]];
        let kernel = match LinesCode::of(isa, &shape.weights(), form, [stride, dilation], output) {
            Some(code) => Kernel::Lines(Emitted::new(code, CodeKey::QuantizedLines, source)?),
            None => Kernel::Groups(MicroKernel::new(code, source)?),
        };
        let one = matches!(kernel, Kernel::Groups(_)) && height <= form.group();
        let kept = depth * if one { 1 } else { all };
        Ok(Channels {
            isa,
            shape,
            output,
            kernel,
            panels,
            tiles: Tiles::new(shape.output()[2], most_rows(isa, vectors)),
            positions: (shape.output()[2].max(1) - 1) * shape.strides()[2] + (width - 1) * shape.dilations()[2] + 1,
            kept,
            tasks: blocks.row_tasks() * blocks.unit_tasks(),
        })
    }

    /// Words of a kept line, with room behind it for reads of a panel's width.
    fn line_words(&self) -> usize {
        let elements = self.positions * self.shape.channels() + self.panels.width;
        let words = if matches!(self.kernel, Kernel::Lines(_)) { elements.div_ceil(4) } else { elements };
        words.next_multiple_of(LINE)
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
        self.lines_of(operands, blank, [image, d, h], ring, &mut work.table);
        match &self.kernel {
            Kernel::Groups(tile) => self.run_groups(tile, operands, line * width, y, work),
            Kernel::Lines(code) => self.run_lines(code, operands, line * width, y, work),
        }
    }

    /// Image, depth and height of the input line under a tap of the window; depth and height may lie in the padding.
    fn place(&self, [image, depth, height]: [usize; 3], [kd, kh]: [usize; 2]) -> [isize; 3] {
        let shape = &self.shape;
        let at = |dim: usize, output: usize, tap: usize| {
            (output * shape.strides()[dim] + tap * shape.dilations()[dim]) as isize - shape.pads()[dim] as isize
        };
        [image as isize, at(0, depth, kd), at(1, height, kh)]
    }

    /// Fills the table with the lines of the window of an output line: with each tap of the lines of groups, or with the
    /// lines of the input, group after group. Behind the last one, where weights are zero, that line stands again.
    fn lines_of(
        &self,
        operands: &Operands<'_>,
        blank: &[u8],
        output: [usize; 3],
        ring: &mut Ring<'_>,
        table: &mut Vec<*const u8>,
    ) {
        let ([depth, height, _], words) = (self.shape.kernel(), self.line_words());
        let mut line = |tap: [usize; 2]| {
            let at = self.place(output, tap);
            let write = |to: &mut [i32]| match self.kernel {
                Kernel::Groups(_) => self.group(operands, blank, at, to),
                Kernel::Lines(_) => self.padded(operands, blank, at, to),
            };
            let slot = ring.slot(at, write, words);
            ring.lines[slot * words..].as_ptr().cast::<u8>()
        };
        for (kd, group) in (0..depth).flat_map(|kd| (0..height.div_ceil(self.panels.group)).map(move |kh| (kd, kh))) {
            let first = group * self.panels.group;
            match self.kernel {
                Kernel::Groups(_) => {
                    let step = self.shape.dilations()[2] * self.shape.channels() * size_of::<i32>();
                    let line = line([kd, first]);
                    table.extend((0..self.panels.line).map(|tap| line.wrapping_add(tap * step)));
                }
                Kernel::Lines(_) => table.extend((first..first + GROUP).map(|kh| line([kd, kh.min(height - 1)]))),
            }
        }
    }

    /// Computes an output line from lines of groups. `position` is the number of its first position.
    fn run_groups(
        &self,
        tile: &MicroKernel,
        operands: &Operands<'_>,
        position: usize,
        y: &Disjoint<'_, u8>,
        work: &mut Work,
    ) {
        let shape = &self.shape;
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
                let to = self.strip(y, position + run.row, run.count * run.height, column..column + self.panels.width);
                // SAFETY: every position that a window reads lies in the lines of groups, which have a panel's width
                // behind them; panels, starts and factors are whole; the line is this task's alone.
                unsafe { tile.write(&to, &mut work.edge, &mut args, &given) };
            }
        }
    }

    /// As [`Channels::run_groups`], from lines of the input.
    fn run_lines(
        &self,
        code: &Emitted<LinesCode>,
        operands: &Operands<'_>,
        position: usize,
        y: &Disjoint<'_, u8>,
        work: &mut Work,
    ) {
        let (channels, width) = (self.shape.channels(), self.panels.width);
        let given = operands.given.clone().read("table", &work.table).read("order of bytes", &INTERLEAVED);
        let whole = channels / width * width;
        for run in self.tiles.runs(0..self.tiles.count()) {
            for columns in [0..whole, whole..self.panels.panels * width].into_iter().filter(|part| !part.is_empty()) {
                let first = columns.start;
                let step = self.shape.strides()[2] * channels;
                let mut args = LinesArgs {
                    rows: run.height,
                    tiles: run.count.into(),
                    vectors: columns.len() / width,
                    table: work.table.as_ptr(),
                    groups: work.table.len() / GROUP,
                    at: (run.row * step + first).into(),
                    tile_stride: run.height * step,
                    channels,
                    weights: operands.weights.at(first / width * self.panels.panel_words()),
                    ..LinesArgs::with_epilogue(operands.start, &operands.epilogue, first)
                };
                let call = |to: *mut u8, distance: usize, given: &Given| {
                    args.c.set(to);
                    args.ldc = distance;
                    args.c_tile_stride = args.rows * distance;
                    // SAFETY: every position that a window reads lies in kept lines, which have a vector's width
                    // behind them; weights, starts and factors are whole.
                    unsafe { code.call(&args, given) };
                };
                let to = self.strip(y, position + run.row, run.count * run.height, columns);
                // SAFETY: the line is this task's alone.
                unsafe { work.edge.write(&to, &given, call) };
            }
        }
    }

    /// The outputs of `rows` positions from `position` on in these columns; the last ones may lie behind the channels.
    fn strip(&self, y: &Disjoint<'_, u8>, position: usize, rows: usize, columns: Range<usize>) -> Strip {
        let (channels, element) = (self.shape.channels(), self.output.bytes());
        Strip {
            first: y.at((position * channels + columns.start) * element),
            distance: channels * element,
            rows,
            columns: columns.len().min(channels - columns.start) * element,
            width: columns.len() * element,
        }
    }

    /// Writes a line of the input with its padding.
    fn padded(&self, operands: &Operands<'_>, blank: &[u8], at: [isize; 3], to: &mut [i32]) {
        let to: &mut [u8] = bytemuck::cast_slice_mut(to);
        let (before, row) = self.row(operands, blank, at);
        let zero = operands.unsigned_zero();
        to[..before].fill(zero as u8);
        to[before + row.len()..].fill(zero as u8);
        prepare::unsigned(self.isa, row, operands.signed, &mut to[before..before + row.len()]);
    }

    /// The elements of a line of the input that windows read, and the number of elements of padding before them.
    fn row<'a>(
        &self,
        operands: &Operands<'a>,
        blank: &'a [u8],
        [image, depth, height]: [isize; 3],
    ) -> (usize, &'a [u8]) {
        let shape = &self.shape;
        let length = shape.input()[2] * shape.channels();
        let end = self.positions * shape.channels();
        let before = (shape.pads()[2] * shape.channels()).min(end);
        let kept = length.min(end - before);
        if depth as usize >= shape.input()[0] || height as usize >= shape.input()[1] {
            return (before, &blank[..kept]);
        }
        let number = (image as usize * shape.input()[0] + depth as usize) * shape.input()[1] + height as usize;
        (before, &operands.x[number * length..][..kept])
    }

    /// Writes the groups of a line: its elements with those of the lines below it in the window.
    fn group(&self, operands: &Operands<'_>, blank: &[u8], at: [isize; 3], to: &mut [i32]) {
        let last = self.shape.kernel()[1] - 1;
        // Lines below the window are multiplied by zero: the last line serves for them.
        let below = |lines: usize| {
            let height = at[2] + (lines.min(last) * self.shape.dilations()[1]) as isize;
            self.row(operands, blank, [at[0], at[1], height])
        };
        let (before, row) = below(0);
        let kept = row.len();
        let zero = operands.unsigned_zero();
        let quads = self.panels.group == 4;
        let padding = if quads { i32::from_ne_bytes([zero as u8; 4]) } else { zero | zero << 16 };
        to[..before].fill(padding);
        to[before + kept..].fill(padding);
        let to = &mut to[before..before + kept];
        match quads {
            true => prepare::quads(self.isa, [0, 1, 2, 3].map(|lines| below(lines).1), operands.signed, to),
            false => prepare::pairs(self.isa, row, below(1).1, operands.signed, to),
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
