//! Dense products: tiles of left-hand rows by packed panels of filters.
//!
//! The left-hand side is converted in scratch to the elements that micro-kernels multiply: 16-bit integers less their
//! zero point, or unsigned bytes. If the window is one position, each block of rows is converted right before its
//! tiles, so that it stays in L2. Otherwise the whole input is converted first, and lines get their padding if a run is
//! a line of the window. Then a task computes some tiles of rows by some panels.

use std::ops::Range;

use super::blocks::QuantizedBlocks;
use super::micro_kernel::MicroKernel;
use super::operands::{LINE, Operands};
use super::prepare;
use super::strip::{Edge, Strip};
use super::tile::{Form, LeftRows, QuantizedArgs, QuantizedCode, most_rows};
use super::weights::{Layout, Panelling};
use crate::cpu::CodeSource;
use crate::cpu::conv::ConvShape;
use crate::cpu::conv::table::{Field, MOST_POINTERS, Tables};
use crate::cpu::gemm::Tiles;
use crate::cpu::gemm::rows::part;
use crate::error::Result;
use crate::isa::Isa;
use crate::parallel::{Disjoint, Parallel};
use crate::problem::description::count;
use crate::problem::quantized::Output;

/// A dense product.
#[derive(Clone, Debug)]
pub(super) struct Dense {
    isa: Isa,
    shape: ConvShape,
    blocks: QuantizedBlocks,
    output: Output,
    tile: MicroKernel,
    tables: Tables,
    tiles: Tiles,
    pub(super) panelling: Panelling,
    /// Length of input lines with their padding.
    line: Option<usize>,
    /// Whether the window is one position, without padding.
    pointwise: bool,
    /// Most rows of a tile.
    tallest: usize,
}

/// Elements behind the converted input that micro-kernels may read: a group of bytes, or a block of channels.
const SLACK: usize = 64;

impl Dense {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        output: Output,
        blocks: QuantizedBlocks,
        layout: Layout,
        source: &dyn CodeSource,
    ) -> Result<Dense> {
        let (form, vectors, lines) = match layout {
            Layout::Panels { form, vectors, lines } => (form, vectors, lines),
            Layout::Transformed { vectors } | Layout::Channels { vectors, .. } => (Form::Words, vectors, false),
        };
        let pointwise = shape.taps() == 1 && shape.pads() == [0; 3];
        let left = if pointwise { LeftRows::Strided } else { LeftRows::Table };
        let multiplied = if form == Form::Few { Form::Bytes } else { form };
        let tile =
            MicroKernel::new(QuantizedCode { isa, form: multiplied, vectors: vectors as u8, left, output }, source)?;
        let panelling = Panelling::new(isa, &shape.weights(), form, vectors, lines);
        let mut phase = shape.phases().swap_remove(0);
        let width = lines.then(|| (shape.output()[2].max(1) - 1) * shape.strides()[2] + shape.kernel()[2]);
        // Lines without padding keep their length.
        let line = width.filter(|&width| shape.pads()[2] > 0 || width > shape.input()[2]);
        if lines {
            phase.taps.dedup_by_key(|tap| [tap.at[0], tap.at[1]]);
            phase.taps.iter_mut().for_each(|tap| tap.at[2] = 0);
        }
        let size = [shape.input()[0], shape.input()[1], line.unwrap_or(shape.input()[2])];
        let tallest = most_rows(isa, vectors);
        let tiles = Tiles::new(phase.rows(shape.batch()), tallest);
        // The table counts in bytes.
        let tables = Tables::new(&phase, size, shape.channels() * form.left_bytes());
        let row_block = blocks.row_block().min(MOST_POINTERS / (tables.taps() * tallest).max(1)).max(1);
        let blocks = QuantizedBlocks { row_block: count(row_block), ..blocks };
        Ok(Dense { isa, shape, blocks, output, tile, tables, tiles, panelling, line, pointwise, tallest })
    }

    /// Rows converted at a time, if the window is one position.
    fn block_rows(&self) -> usize {
        self.blocks.row_block().min(self.tiles.count()) * self.tallest
    }

    /// Whether micro-kernels read the input where it is: as unsigned bytes, in lines without padding, no row of which is
    /// read beyond its end, because all its groups are whole.
    fn reads_in_place(&self, operands: &Operands<'_>) -> bool {
        let bytes = self.panelling.form.left_bytes() == 1 && !operands.signed;
        let whole = self.panelling.run_groups * self.panelling.form.group() == self.panelling.run;
        bytes && whole && self.line.is_none() && (!self.pointwise || self.shape.is_pointwise())
    }

    /// Elements converted at a time.
    fn prepared_len(&self) -> usize {
        let [depth, height, width] = self.shape.input();
        match self.pointwise {
            true => self.block_rows() * self.shape.channels(),
            false => self.shape.batch() * depth * height * self.line.unwrap_or(width) * self.shape.channels(),
        }
    }

    fn words(&self, elements: usize) -> usize {
        ((elements + SLACK) * self.panelling.form.left_bytes()).div_ceil(4).next_multiple_of(LINE)
    }

    pub(super) fn scratch_len(&self) -> usize {
        match self.pointwise {
            true => self.blocks.row_tasks() * self.blocks.unit_tasks() * self.words(self.prepared_len()),
            false => self.words(self.prepared_len()) + self.words(self.panelling.run.max(self.shape.channels())),
        }
    }

    /// Computes all outputs; `scratch` is [`Dense::scratch_len`] long at least.
    pub(super) fn run(&self, operands: &Operands<'_>, y: &mut [u8], scratch: &mut [i32], parallel: &dyn Parallel) {
        let words = self.words(self.prepared_len());
        let (field, own): (Field<'_, u8>, &mut [i32]) = match self.pointwise {
            true => (Field { data: &[], zeros: &[] }, scratch),
            false => {
                let (prepared, padding) = scratch.split_at_mut(words);
                // Unsigned bytes still include the zero point, so padding has its value.
                let blank = if self.panelling.form.left_bytes() == 2 { 0 } else { operands.unsigned_zero() as u8 };
                bytemuck::cast_slice_mut::<i32, u8>(padding).fill(blank);
                let data = match self.reads_in_place(operands) {
                    true => operands.x,
                    false => {
                        self.prepare(operands, prepared, blank, parallel);
                        bytemuck::cast_slice(prepared)
                    }
                };
                (Field { data, zeros: bytemuck::cast_slice(padding) }, &mut [])
            }
        };
        let buffers = Buffers { field, own: Disjoint::new(own), words, y: Disjoint::new(y) };
        let (rows, units) = (self.blocks.row_tasks(), self.blocks.unit_tasks());
        parallel.run(rows * units, &|task| {
            let tiles = part(self.tiles.count(), rows, task / units);
            let all = self.panelling.groups * self.panelling.panels;
            self.task(operands, &buffers, task, tiles, part(all, units, task % units), parallel);
        });
    }

    /// Converts bytes to the elements that micro-kernels multiply.
    fn convert(&self, operands: &Operands<'_>, from: &[u8], to: &mut [u8]) {
        let Operands { signed, left_zero, .. } = *operands;
        match self.panelling.form.left_bytes() {
            2 => prepare::words(self.isa, from, signed, left_zero as i16, bytemuck::cast_slice_mut(to)),
            _ => prepare::unsigned(self.isa, from, signed, to),
        }
    }

    /// Converts the whole left-hand side, with `blank` as padding.
    fn prepare(&self, operands: &Operands<'_>, to: &mut [i32], blank: u8, parallel: &dyn Parallel) {
        let (x, bytes) = (operands.x, self.panelling.form.left_bytes());
        let to: &mut [u8] = bytemuck::cast_slice_mut(to);
        let (to, slack) = to.split_at_mut(self.prepared_len() * bytes);
        slack.fill(0);
        // Rows of a task: enough to pay for a task.
        const PART: usize = 1 << 15;
        let Some(line) = self.line else {
            crate::parallel::for_each_chunk(parallel, to, PART * bytes, &|index, to| {
                self.convert(operands, &x[index * PART..][..to.len() / bytes], to);
            });
            return;
        };
        let channels = self.shape.channels();
        let (from, line) = (self.shape.input()[2] * channels, line * channels);
        let before = (self.shape.pads()[2] * channels).min(line);
        let kept = from.min(line - before);
        let lines = (PART / line.max(1)).max(1);
        crate::parallel::for_each_chunk(parallel, to, lines * line * bytes, &|index, to| {
            for (at, to) in to.chunks_exact_mut((line * bytes).max(1)).enumerate() {
                to[..before * bytes].fill(blank);
                let from = &x[(index * lines + at) * from..][..kept];
                self.convert(operands, from, &mut to[before * bytes..][..kept * bytes]);
                to[(before + kept) * bytes..].fill(blank);
            }
        });
    }

    /// Converts some left-hand rows, if the window is one position.
    fn gather(&self, operands: &Operands<'_>, rows: Range<usize>, to: &mut [u8]) {
        let (channels, bytes) = (self.shape.channels(), self.panelling.form.left_bytes());
        if self.shape.is_pointwise() {
            let from = &operands.x[rows.start * channels..rows.end * channels];
            return self.convert(operands, from, &mut to[..from.len() * bytes]);
        }
        let ([depth, height, width], input) = (self.shape.output(), self.shape.input());
        for (row, to) in rows.zip(to.chunks_exact_mut((channels * bytes).max(1))) {
            let [w, h, d] = [row % width, row / width % height, row / width / height % depth];
            let image = row / width / height / depth;
            let [d, h, w] = [d * self.shape.strides()[0], h * self.shape.strides()[1], w * self.shape.strides()[2]];
            let from = ((image * input[0] + d) * input[1] + h) * input[2] + w;
            self.convert(operands, &operands.x[from * channels..][..channels], to);
        }
    }

    /// Task number `task`: multiplies some tiles of rows with some panels.
    fn task(
        &self,
        operands: &Operands<'_>,
        buffers: &Buffers<'_>,
        task: usize,
        tiles: Range<usize>,
        units: Range<usize>,
        parallel: &dyn Parallel,
    ) {
        let mut table = Vec::new();
        let mut edge = Edge::default();
        for block in tiles.clone().step_by(self.blocks.row_block()) {
            if parallel.is_stopped() {
                return;
            }
            let block = block..tiles.end.min(block + self.blocks.row_block());
            let first = self.tiles.start(block.start);
            table.clear();
            let mut data = buffers.field.data.as_ptr();
            if self.pointwise && self.reads_in_place(operands) {
                data = operands.x[first * self.shape.channels()..].as_ptr();
            } else if self.pointwise {
                // SAFETY: a task's words are its own.
                let own = unsafe { buffers.own.part(task * buffers.words..(task + 1) * buffers.words) };
                let own: &mut [u8] = bytemuck::cast_slice_mut(own);
                let end = self.tiles.start(block.end);
                let (rows, slack) =
                    own.split_at_mut((end - first) * self.shape.channels() * self.panelling.form.left_bytes());
                self.gather(operands, first..end, rows);
                slack[..SLACK].fill(0);
                data = rows.as_ptr();
            } else {
                for run in self.tiles.runs(block.clone()) {
                    for tile in 0..run.count {
                        self.tables.tile(&buffers.field, run.row + tile * run.height, run.height, &mut table);
                    }
                }
            }
            let rows = Rows { data, first, table: &table, tiles: block };
            units.clone().for_each(|unit| self.panel(operands, buffers, unit, &rows, &mut edge));
        }
    }

    /// Multiplies some tiles of rows with one panel.
    fn panel(&self, operands: &Operands<'_>, buffers: &Buffers<'_>, unit: usize, rows: &Rows<'_>, edge: &mut Edge) {
        let (panelling, shape, epilogue) = (&self.panelling, &self.shape, &operands.epilogue);
        let element = self.output.bytes();
        let (group, panel) = (unit / panelling.panels, unit % panelling.panels);
        let width = panelling.width;
        let columns = width.min(shape.group_filters() - panel * width);
        let column = group * shape.group_filters() + panel * width;
        let mut args = QuantizedArgs {
            taps: if self.pointwise { 1 } else { panelling.runs },
            lda: shape.channels() * panelling.form.left_bytes(),
            b: operands.weights.at(unit * panelling.panel_words()),
            ..QuantizedArgs::with_epilogue(&operands.start[unit * width..], epilogue, unit * width)
        };
        args.reduce_over(group * shape.group_channels() * panelling.form.left_bytes(), panelling.run_groups);
        let mut pointers = 0;
        let given = operands.given.clone().read("table", rows.table);
        for run in self.tiles.runs(rows.tiles.clone()) {
            args.rows = run.height;
            args.tiles.set(run.count);
            args.a.set(rows.data.wrapping_add((run.row - rows.first) * args.lda));
            args.a_tile_stride = run.height * args.lda;
            args.table.set(rows.table.as_ptr().wrapping_add(pointers));
            pointers += if self.pointwise { 0 } else { run.count * run.height * args.taps };
            let to = Strip {
                first: buffers.y.at((run.row * shape.filters() + column) * element),
                distance: shape.filters() * element,
                rows: run.count * run.height,
                columns: columns * element,
                width: width * element,
            };
            // SAFETY: pointers of the table lie in the converted input, or point at padding as long as a run and a row;
            // strided rows lie in the task's own words; all have room behind them for the last group. Or they lie in
            // the input itself, whose groups are whole. Panels, starts and factors are whole, and tasks have disjoint
            // rows or columns.
            unsafe { self.tile.write(&to, edge, &mut args, &given) };
        }
    }
}

/// The rows of a block, as tiles read them.
struct Rows<'a> {
    /// The first row, or the start of the whole input.
    data: *const u8,
    /// The index of the first row, if `left` points at it.
    first: usize,
    table: &'a [*const u8],
    tiles: Range<usize>,
}

/// The buffers of one run, as tasks see them.
struct Buffers<'a> {
    field: Field<'a, u8>,
    /// Each task's own words, where the window is one position.
    own: Disjoint<'a, i32>,
    words: usize,
    y: Disjoint<'a, u8>,
}
