//! A quantised product or convolution that is ready to run.
//!
//! The left-hand side is first brought into the form that kernels multiply (16-bit integers without their zero point, or
//! unsigned bytes) in scratch; lines are lengthened by their padding there where a run is a line of the window. Then
//! rows are cut into tiles as those of other convolutions are, and a task does some of them for some panels.

use std::ops::Range;

use super::depthwise;
use super::finish::Finish;
use super::prepare;
use super::tile::{FAMILY, Form, LeftRows, Output, QuantizedArgs, QuantizedCode, Tile, most_rows};
use super::weights::{DEPTHWISE_CHANNELS, Layout, Panelling, packed_bytes};
use crate::cpu::CodeSource;
use crate::cpu::conv::ConvShape;
use crate::cpu::conv::table::{Field, Tables};
use crate::cpu::gemm::Tiles;
use crate::cpu::gemm::rows::part;
use crate::cpu::gemm::shared::Shared;
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::parallel::Parallel;

/// How the work is cut: a builder's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizedBlocks {
    /// Tiles of rows that are done before the next are begun.
    pub row_block: usize,
    /// Parts that rows are split into for threads.
    pub row_tasks: usize,
    /// Parts that the panels of all groups are split into.
    pub unit_tasks: usize,
}

/// What is multiplied and what becomes of it, besides the operands: of one run, since models may compute it.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Whether left-hand bytes are signed.
    pub signed: bool,
    /// The left-hand zero point.
    pub left_zero: i32,
    /// Added to the sums of each filter.
    pub bias: Option<&'a [i32]>,
    /// Factor of the sums: one for all or one for each filter. Sums that are stored have none.
    pub scale: &'a [f32],
    /// Added to the scaled sums of each filter.
    pub shift: Option<&'a [f32]>,
    /// Bounds of the result; of bytes before they are rounded and moved by the zero point.
    pub low: f32,
    /// The upper one.
    pub high: f32,
    /// The output's zero point.
    pub zero: i32,
}

/// A product or convolution that is ready to run.
#[derive(Clone, Debug)]
pub struct Quantized {
    isa: Isa,
    shape: ConvShape,
    layout: Layout,
    output: Output,
    blocks: QuantizedBlocks,
    dense: Option<Dense>,
    packed: usize,
}

/// What panels need.
#[derive(Clone, Debug)]
struct Dense {
    tile: Tile,
    tables: Tables,
    tiles: Tiles,
    panelling: Panelling,
    /// The length of lines that are lengthened by their padding.
    line: Option<usize>,
    pointwise: bool,
    /// Most rows of a tile.
    tallest: usize,
}

/// Elements behind the prepared input that kernels may read: a group of bytes, or a block of channels.
const SLACK: usize = 64;

/// Where the parts of scratch start, in 32-bit words.
struct Parts {
    padding: usize,
    start: usize,
    scale: usize,
    shift: usize,
    end: usize,
}

impl QuantizedBlocks {
    /// Whether a driver can take these blocks: a builder's choice may come from a file.
    #[must_use]
    pub fn fits(&self) -> bool {
        const MOST: usize = 1 << 16;
        let cut = [self.row_block, self.row_tasks, self.unit_tasks];
        cut.iter().all(|&count| count > 0 && count <= MOST) && self.row_tasks * self.unit_tasks <= MOST
    }
}

impl Quantized {
    /// Makes it ready: gets its kernels from `source`. The weights are packed as [`Layout::of`] says.
    ///
    /// # Errors
    ///
    /// For sizes that make no sense, blocks that do not fit, and whatever keeps kernels from being made.
    pub fn new(
        isa: Isa,
        shape: ConvShape,
        form: Form,
        output: Output,
        blocks: QuantizedBlocks,
        source: &dyn CodeSource,
    ) -> Result<Quantized> {
        shape.validate()?;
        if shape.transposed || !blocks.fits() || !form.usable(isa) {
            let reason = format!("{blocks:?} and {form:?} do not fit {shape:?}");
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        let sizes = shape.weights();
        let layout = Layout::of(isa, &sizes, shape.dilations, form);
        let packed = packed_bytes(isa, &sizes, layout);
        let dense = match layout {
            Layout::Rows => None,
            Layout::Panels { form, vectors, lines } => {
                Some(Dense::new(isa, &shape, form, output, vectors, lines, source)?)
            }
        };
        Ok(Quantized { isa, shape, layout, output, blocks, dense, packed })
    }

    /// How weights have to be packed.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The level that it is made for.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Bytes of an element of the prepared input.
    fn left_bytes(&self) -> usize {
        self.dense.as_ref().map_or(2, |dense| dense.panelling.form.left_bytes())
    }

    /// Elements of the prepared input.
    fn prepared_len(&self) -> usize {
        let [depth, height, width] = self.shape.input;
        let width = self.dense.as_ref().and_then(|dense| dense.line).unwrap_or(width);
        self.shape.batch * depth * height * width * self.shape.channels
    }

    fn columns(&self) -> usize {
        match &self.dense {
            Some(dense) => dense.panelling.columns(),
            None => self.shape.channels.next_multiple_of(DEPTHWISE_CHANNELS),
        }
    }

    fn parts(&self) -> Parts {
        let words = |elements: usize| ((elements + SLACK) * self.left_bytes()).div_ceil(4);
        let row = self.dense.as_ref().map_or(0, |dense| dense.panelling.run.max(self.shape.channels));
        let padding = words(self.prepared_len());
        let start = padding + words(row);
        let columns = self.columns();
        let rows = if self.output == Output::Sums { 0 } else { columns };
        Parts { padding, start, scale: start + columns, shift: start + columns + rows, end: start + columns + 2 * rows }
    }

    /// Words of scratch that [`Quantized::run`] needs.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        self.parts().end
    }

    /// Convolves `x` (channels last) with packed weights; `y` holds the bytes of the output's elements, channels last.
    ///
    /// # Errors
    ///
    /// Where a buffer is not as long as the shape says, or a zero point is not of its type.
    pub fn run(
        &self,
        x: &[u8],
        weights: &[u8],
        y: &mut [u8],
        terms: &Terms<'_>,
        scratch: &mut [i32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        self.check(x, weights, y, terms, scratch)?;
        if y.is_empty() {
            return Ok(());
        }
        let parts = self.parts();
        let (prepared, rest) = scratch.split_at_mut(parts.padding);
        let (padding, rest) = rest.split_at_mut(parts.start - parts.padding);
        let (start, rest) = rest.split_at_mut(parts.scale - parts.start);
        let (scale, shift) = rest.split_at_mut(parts.shift - parts.scale);
        self.prepare(x, terms, prepared, padding, parallel);
        self.spread(weights, terms, start, scale, shift);
        let (least, greatest) = self.output.bounds();
        let (mut low, mut high) = (terms.low, terms.high);
        if self.output.bytes() == 1 {
            low = low.max((least - terms.zero) as f32);
            high = high.min((greatest - terms.zero) as f32);
        }
        let finish = Finish {
            output: self.output,
            scale: bytemuck::cast_slice(scale),
            shift: &bytemuck::cast_slice(shift)[..scale.len()],
            low,
            high,
            zero: terms.zero,
        };
        let Some(dense) = &self.dense else {
            self.depthwise(bytemuck::cast_slice(prepared), weights, start, finish, y, parallel);
            return Ok(());
        };
        let run = Run { shape: &self.shape, blocks: &self.blocks, dense, weights, start, finish };
        let field = Field { data: prepared.as_ptr().cast::<u8>(), zeros: padding.as_ptr().cast::<u8>() };
        let buffers = Buffers { field, y: Shared::new(y) };
        let (rows, units) = (self.blocks.row_tasks, self.blocks.unit_tasks);
        parallel.run(rows * units, &|task| {
            let tiles = part(dense.tiles.count(), rows, task / units);
            let all = dense.panelling.groups * dense.panelling.panels;
            run.task(&buffers, tiles, part(all, units, task % units));
        });
        Ok(())
    }

    fn check(&self, x: &[u8], weights: &[u8], y: &[u8], terms: &Terms<'_>, scratch: &[i32]) -> Result<()> {
        let filters = self.shape.filters;
        let bounds = |operand: &'static str, have: usize, need: usize| match have == need {
            true => Ok(()),
            false => Err(KernelError::Bounds { family: FAMILY, operand, have, need }),
        };
        bounds("input", x.len(), self.shape.input_len())?;
        bounds("weights", weights.len(), self.packed)?;
        bounds("output", y.len(), self.shape.output_len() * self.output.bytes())?;
        bounds("bias", terms.bias.map_or(filters, <[i32]>::len), filters)?;
        bounds("shift", terms.shift.map_or(filters, <[f32]>::len), filters)?;
        if self.output != Output::Sums && terms.scale.len() != 1 {
            bounds("scale", terms.scale.len(), filters)?;
        }
        let need = self.scratch_len();
        if scratch.len() < need {
            return Err(KernelError::Bounds { family: FAMILY, operand: "scratch", have: scratch.len(), need });
        }
        let left = if terms.signed { -128..=127 } else { 0..=255 };
        let (least, greatest) = self.output.bounds();
        if !left.contains(&terms.left_zero) || !(least..=greatest).contains(&terms.zero) {
            let reason = "a zero point that is not of its tensor's type".to_owned();
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        Ok(())
    }

    /// The left-hand side in the form that kernels multiply, and a row of what padding is in it.
    fn prepare(&self, x: &[u8], terms: &Terms<'_>, to: &mut [i32], padding: &mut [i32], parallel: &dyn Parallel) {
        let bytes = self.left_bytes();
        let convert = |from: &[u8], to: &mut [u8]| match bytes {
            2 => {
                prepare::words(self.isa, from, terms.signed, terms.left_zero as i16, bytemuck::cast_slice_mut(to));
            }
            _ => prepare::unsigned(self.isa, from, terms.signed, to),
        };
        // Bytes keep their zero point, and so does padding in them.
        let zero = (terms.left_zero + if terms.signed { 128 } else { 0 }) as u8;
        let blank = if bytes == 2 { 0 } else { zero };
        bytemuck::cast_slice_mut::<i32, u8>(padding).fill(blank);
        let to: &mut [u8] = bytemuck::cast_slice_mut(to);
        let (to, slack) = to.split_at_mut(self.prepared_len() * bytes);
        slack.fill(0);
        // A task's part: enough that it is worth being one.
        const PART: usize = 1 << 15;
        let Some(line) = self.dense.as_ref().and_then(|dense| dense.line) else {
            crate::parallel::for_each_chunk(parallel, to, PART * bytes, &|index, to| {
                convert(&x[index * PART..][..to.len() / bytes], to);
            });
            return;
        };
        let channels = self.shape.channels;
        let (from, line) = (self.shape.input[2] * channels, line * channels);
        let before = (self.shape.pads[2] * channels).min(line);
        let kept = from.min(line - before);
        let lines = (PART / line.max(1)).max(1);
        crate::parallel::for_each_chunk(parallel, to, lines * line * bytes, &|index, to| {
            for (at, to) in to.chunks_exact_mut((line * bytes).max(1)).enumerate() {
                to[..before * bytes].fill(blank);
                convert(&x[(index * lines + at) * from..][..kept], &mut to[before * bytes..][..kept * bytes]);
                to[(before + kept) * bytes..].fill(blank);
            }
        });
    }

    /// Starts, factors and addends of all columns, those that are nobody's too.
    fn spread(&self, weights: &[u8], terms: &Terms<'_>, start: &mut [i32], scale: &mut [i32], shift: &mut [i32]) {
        let (groups, panels) = match &self.dense {
            Some(dense) => (dense.panelling.groups, dense.panelling.panels * dense.panelling.width),
            None => (1, start.len()),
        };
        let filters = self.shape.filters / groups.max(1);
        let scale: &mut [f32] = bytemuck::cast_slice_mut(scale);
        let shift: &mut [f32] = bytemuck::cast_slice_mut(shift);
        let bytes = self.dense.as_ref().filter(|dense| dense.panelling.form == Form::Bytes);
        let zero = terms.left_zero + if terms.signed { 128 } else { 0 };
        for group in 0..groups {
            let (own, other) = (group * filters..(group + 1) * filters, group * panels);
            let start = &mut start[other..][..panels];
            start.fill(0);
            if let Some(bias) = terms.bias {
                start[..filters].copy_from_slice(&bias[own.clone()]);
            }
            if let Some(dense) = bytes {
                let sums = &weights[dense.panelling.sums_at() + other * 4..][..panels * 4];
                for (start, sum) in start.iter_mut().zip(sums.as_chunks::<4>().0) {
                    *start = start.wrapping_sub(zero.wrapping_mul(i32::from_ne_bytes(*sum)));
                }
            }
            if scale.is_empty() {
                continue;
            }
            let (scale, shift) = (&mut scale[other..][..panels], &mut shift[other..][..panels]);
            scale.fill(0.0);
            match terms.scale {
                &[one] => scale[..filters].fill(one),
                all => scale[..filters].copy_from_slice(&all[own.clone()]),
            }
            shift.fill(0.0);
            if let Some(all) = terms.shift {
                shift[..filters].copy_from_slice(&all[own]);
            }
        }
    }

    fn depthwise(
        &self,
        x: &[i16],
        weights: &[u8],
        start: &[i32],
        finish: Finish<'_>,
        y: &mut [u8],
        parallel: &dyn Parallel,
    ) {
        let shape = &self.shape;
        let mut aligned = Vec::new();
        let weights = bytemuck::try_cast_slice(weights).unwrap_or_else(|_| {
            aligned.extend(weights.chunks_exact(2).map(|pair| i16::from_ne_bytes([pair[0], pair[1]])));
            &aligned
        });
        let [depth, height, width] = shape.output;
        let lines = shape.batch * depth * height;
        let bytes = width * shape.channels * finish.output.bytes();
        let each = lines.div_ceil(self.blocks.row_tasks).max(1);
        crate::parallel::for_each_chunk(parallel, y, each * bytes, &|task, y| {
            for (index, y) in y.chunks_exact_mut(bytes).enumerate() {
                let number = task * each + index;
                let at = [number / height / depth, number / height % depth, number % height];
                depthwise::line(self.isa, &depthwise::Line { shape, x, weights, start, finish, at }, y);
            }
        });
    }
}

impl Dense {
    fn new(
        isa: Isa,
        shape: &ConvShape,
        form: Form,
        output: Output,
        vectors: usize,
        lines: bool,
        source: &dyn CodeSource,
    ) -> Result<Dense> {
        let pointwise = shape.is_pointwise();
        let left = if pointwise { LeftRows::Strided } else { LeftRows::Table };
        // Both kinds of bytes are stored by the same instructions.
        let stored = if output == Output::Signed { Output::Unsigned } else { output };
        let code = QuantizedCode { isa, form, vectors: vectors as u8, left, output: stored };
        let tile = Tile::new(code, source)?;
        let panelling = Panelling::new(isa, &shape.weights(), form, vectors, lines);
        let mut phase = shape.phases().swap_remove(0);
        let width = lines.then(|| (shape.output[2].max(1) - 1) * shape.strides[2] + shape.kernel[2]);
        // Lines that no padding lengthens are as long as they were.
        let line = width.filter(|&width| shape.pads[2] > 0 || width > shape.input[2]);
        if lines {
            phase.taps.dedup_by_key(|tap| [tap.at[0], tap.at[1]]);
            phase.taps.iter_mut().for_each(|tap| tap.at[2] = 0);
        }
        let size = [shape.input[0], shape.input[1], line.unwrap_or(shape.input[2])];
        let tallest = most_rows(isa, vectors);
        let tiles = Tiles::new(phase.rows(shape.batch), tallest);
        // The table counts in bytes.
        let tables = Tables::new(&phase, size, shape.channels * form.left_bytes());
        Ok(Dense { tile, tables, tiles, panelling, line, pointwise, tallest })
    }
}

/// The buffers of one run, as tasks see them.
struct Buffers {
    field: Field<u8>,
    y: Shared<u8>,
}

// SAFETY: tasks read through the field's addresses, and write only what their part of the split owns.
unsafe impl Sync for Buffers {}

/// What tasks share besides.
struct Run<'a> {
    shape: &'a ConvShape,
    blocks: &'a QuantizedBlocks,
    dense: &'a Dense,
    weights: &'a [u8],
    start: &'a [i32],
    finish: Finish<'a>,
}

impl Run<'_> {
    /// Some tiles of rows for some panels.
    fn task(&self, buffers: &Buffers, tiles: Range<usize>, units: Range<usize>) {
        let (dense, shape) = (self.dense, self.shape);
        let form = dense.panelling.form;
        let element = self.finish.output.bytes();
        let mut table = Vec::new();
        let mut edge = Vec::new();
        for block in tiles.clone().step_by(self.blocks.row_block) {
            let block = block..tiles.end.min(block + self.blocks.row_block);
            table.clear();
            for run in dense.tiles.runs(block.clone()).filter(|_| !dense.pointwise) {
                for tile in 0..run.count {
                    dense.tables.tile(&buffers.field, run.row + tile * run.height, run.height, &mut table);
                }
            }
            for unit in units.clone() {
                let (group, panel) = (unit / dense.panelling.panels, unit % dense.panelling.panels);
                let width = dense.panelling.width;
                let columns = width.min(shape.group_filters() - panel * width);
                let column = group * shape.group_filters() + panel * width;
                let mut args = QuantizedArgs {
                    rows: 0,
                    tiles: 0.into(),
                    a: buffers.field.data.into(),
                    lda: shape.channels * form.left_bytes(),
                    a_step: 0,
                    table: table.as_ptr().into(),
                    taps: if dense.pointwise { 1 } else { dense.panelling.runs },
                    first: 0,
                    unrolled: 0,
                    end: 0,
                    b: self.weights[unit * dense.panelling.panel_bytes()..].as_ptr(),
                    c: std::ptr::null_mut::<u8>().into(),
                    ldc: 0,
                    c_step: 0,
                    start: self.start[unit * width..].as_ptr(),
                    scale: self.finish.scale.get(unit * width..).unwrap_or_default().as_ptr(),
                    shift: self.finish.shift.get(unit * width..).unwrap_or_default().as_ptr(),
                    low: self.finish.low,
                    high: self.finish.high,
                    zero: self.finish.zero,
                };
                args.reduce_over(group * shape.group_channels() * form.left_bytes(), dense.panelling.run_groups);
                let mut pointers = 0;
                for run in dense.tiles.runs(block.clone()) {
                    args.rows = run.height;
                    args.tiles.set(run.count);
                    args.a.set(buffers.field.data.wrapping_add(run.row * args.lda));
                    args.a_step = run.height * args.lda;
                    args.table.set(table.as_ptr().wrapping_add(pointers));
                    pointers += if dense.pointwise { 0 } else { run.count * run.height * args.taps };
                    let to = buffers.y.at((run.row * shape.filters + column) * element);
                    if columns == width {
                        args.ldc = shape.filters * element;
                        args.c.set(to);
                    } else {
                        edge.resize(self.blocks.row_block * dense.tallest * width * element, 0u8);
                        args.ldc = width * element;
                        args.c.set(edge.as_mut_ptr());
                    }
                    args.c_step = run.height * args.ldc;
                    // SAFETY: pointers of the table lie inside the prepared input, or point at padding as long as a run
                    // and a row; both have slack for the last group. Panels, starts and factors are whole, rows of the
                    // output are inside a buffer that was checked or in the edge's, and tasks have disjoint rows or columns.
                    unsafe { dense.tile.call(&args) };
                    if columns < width {
                        let rows = edge.chunks_exact(args.ldc).take(run.count * run.height);
                        for (row, from) in rows.enumerate() {
                            let to = to.wrapping_add(row * shape.filters * element);
                            // SAFETY: this task owns these columns of these rows, which lie inside the output.
                            let to = unsafe { std::slice::from_raw_parts_mut(to, columns * element) };
                            to.copy_from_slice(&from[..to.len()]);
                        }
                    }
                }
            }
        }
    }
}
