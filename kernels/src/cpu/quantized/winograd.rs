//! 3x3 convolutions at stride 1 by the Winograd transform F(2,3), in integers and exactly.
//!
//! A tile of 2x2 outputs sees 4x4 inputs. Transformed inputs, of 10 bits and a sign, and transformed weights, scaled by
//! four so that they are integers, of 12, are multiplied as 16-bit pairs: 16 products of matrices instead of 36
//! products for each tile. Their sums, transformed back, are four times the convolution's, modulo 2^32: with at most
//! [`MOST_CHANNELS`] channels 32 bits hold the sum, and its quarter is exact. So this way gives the same bits as the
//! others.
//!
//! A task goes through its tiles block by block: it transforms the inputs of a block, which then stay in L2, and for
//! each panel of filters multiplies and transforms back.

use super::blocks::QuantizedBlocks;
use super::epilogue::Epilogue;
use super::micro_kernel::MicroKernel;
use super::operands::{LINE, Operands};
use super::tile::{Form, LeftRows, QuantizedArgs, QuantizedCode, most_rows};
use super::weights::{CHANNELS, TRANSFORMED, WinogradPanels};
use crate::cpu::CodeSource;
use crate::cpu::conv::ConvShape;
use crate::cpu::gemm::Tiles;
use crate::cpu::gemm::model::l2_bytes;
use crate::cpu::gemm::rows::part;
use crate::cpu::multiversion::multiversion;
use crate::error::Result;
use crate::isa::Isa;
use crate::parallel::{Disjoint, Parallel};
use crate::problem::quantized::Output;

/// Columns of the widest panel: of AVX-512.
const MOST_WIDTH: usize = 64;

/// A quantised Winograd convolution.
#[derive(Clone, Debug)]
pub(super) struct Winograd {
    isa: Isa,
    shape: ConvShape,
    output: Output,
    tile: MicroKernel,
    pub(super) panels: WinogradPanels,
    /// Rows and columns of tiles of an image.
    down: usize,
    along: usize,
    /// Tiles of a block.
    block: usize,
    vectors: usize,
    tasks: usize,
}

/// Range of tiles of a block, numbered over all images.
type Range = std::ops::Range<usize>;

impl Winograd {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        output: Output,
        blocks: QuantizedBlocks,
        vectors: usize,
        source: &dyn CodeSource,
    ) -> Result<Winograd> {
        let code = QuantizedCode {
            isa,
            form: Form::Words,
            vectors: vectors as u8,
            left: LeftRows::Strided,
            output: Output::Sums,
        };
        let [down, along] = [shape.output()[1].div_ceil(2), shape.output()[2].div_ceil(2)];
        let bytes = TRANSFORMED * shape.channels() * 2;
        let tiles = shape.batch() * shape.output()[0] * down * along;
        let tasks = blocks.row_tasks() * blocks.unit_tasks();
        // Half of L2, and equal blocks.
        let most = (l2_bytes() / 2 / bytes.max(1)).clamp(8, 128);
        let own = tiles.div_ceil(tasks.max(1)).max(1);
        Ok(Winograd {
            isa,
            shape,
            output,
            tile: MicroKernel::new(code, source)?,
            panels: WinogradPanels::new(isa, &shape.weights(), vectors),
            down,
            along,
            block: own.div_ceil(own.div_ceil(most)),
            vectors,
            tasks,
        })
    }

    /// Words of a task's transformed inputs, and of the sums of a panel.
    fn words(&self) -> [usize; 2] {
        [TRANSFORMED * self.block * self.shape.channels() / 2 + LINE, TRANSFORMED * self.block * self.panels.width]
            .map(|words| words.next_multiple_of(LINE))
    }

    /// Words of a position of padding.
    fn blank_words(&self) -> usize {
        self.shape.channels().div_ceil(4).next_multiple_of(LINE)
    }

    pub(super) fn scratch_len(&self) -> usize {
        self.blank_words() + self.tasks * self.words().iter().sum::<usize>()
    }

    /// Computes all outputs; `scratch` is [`Winograd::scratch_len`] long at least.
    pub(super) fn run(&self, operands: &Operands<'_>, y: &mut [u8], scratch: &mut [i32], parallel: &dyn Parallel) {
        let (blank, rest) = scratch.split_at_mut(self.blank_words());
        let blank: &mut [u8] = bytemuck::cast_slice_mut(blank);
        blank.fill(operands.left_zero as u8);
        let blank = &blank[..self.shape.channels()];
        let tiles = self.shape.batch() * self.shape.output()[0] * self.down * self.along;
        let [inputs, sums] = self.words();
        let y = Disjoint::new(y);
        crate::parallel::for_each_chunk(
            parallel,
            &mut rest[..self.tasks * (inputs + sums)],
            inputs + sums,
            &|task, own| {
                let (inputs, sums) = own.split_at_mut(inputs);
                let inputs: &mut [i16] = bytemuck::cast_slice_mut(inputs);
                let all = part(tiles, self.tasks, task);
                for first in all.clone().step_by(self.block) {
                    if parallel.is_stopped() {
                        return;
                    }
                    let block = first..all.end.min(first + self.block);
                    self.transform(operands, blank, block.clone(), inputs);
                    (0..self.panels.panels)
                        .for_each(|panel| self.panel(operands, block.clone(), panel, inputs, sums, &y));
                }
            },
        );
    }

    /// Image (and depth), and the first output of a tile.
    fn place(&self, tile: usize) -> [usize; 3] {
        [tile / self.along / self.down, tile / self.along % self.down * 2, tile % self.along * 2]
    }

    /// Transforms the inputs of a block: `[frequency][tile][channel]`.
    fn transform(&self, operands: &Operands<'_>, blank: &[u8], block: Range, to: &mut [i16]) {
        let shape = &self.shape;
        let ([depth, height, width], channels) = (shape.input(), shape.channels());
        let count = block.len();
        for (number, tile) in block.enumerate() {
            let [plane, h, w] = self.place(tile);
            let (image, d) = (plane / shape.output()[0], (plane % shape.output()[0]).wrapping_sub(shape.pads()[0]));
            let rows: [&[u8]; TRANSFORMED] = std::array::from_fn(|at| {
                // Positions before the first wrap to positions beyond any size.
                let (h, w) = ((h + at / 4).wrapping_sub(shape.pads()[1]), (w + at % 4).wrapping_sub(shape.pads()[2]));
                if d >= depth || h >= height || w >= width {
                    return blank;
                }
                &operands.x[(((image * depth + d) * height + h) * width + w) * channels..][..channels]
            });
            let to = &mut to[number * channels..];
            transform_tile(self.isa, &rows, operands.signed, operands.left_zero as i16, count * channels, to);
        }
    }

    /// Computes the outputs of a block for a panel of filters.
    fn panel(
        &self,
        operands: &Operands<'_>,
        block: Range,
        panel: usize,
        inputs: &[i16],
        sums: &mut [i32],
        y: &Disjoint<'_, u8>,
    ) {
        let (width, channels, count) = (self.panels.width, self.shape.channels(), block.len());
        let zeros = [0i32; MOST_WIDTH];
        let none = Epilogue { output: Output::Sums, scale: &[], shift: &[], low: 0.0, high: 0.0, zero: 0 };
        let cut = Tiles::new(count, most_rows(self.isa, self.vectors));
        let mut args = QuantizedArgs {
            taps: 1,
            lda: channels * 2,
            ldc: width * 4,
            ..QuantizedArgs::with_epilogue(&zeros, &none, 0)
        };
        args.reduce_over(0, channels / 2);
        let given = operands.given.clone().read("zeros", &zeros);
        for frequency in 0..TRANSFORMED {
            let unit = (frequency * self.panels.panels + panel) * self.panels.panel_words();
            args.b = operands.weights.at(unit);
            for run in cut.runs(0..cut.count()) {
                let row = frequency * count + run.row;
                args.rows = run.height;
                args.tiles.set(run.count);
                args.a.set(inputs[row * channels..].as_ptr().cast());
                args.a_tile_stride = run.height * args.lda;
                args.c.set(sums[row * width..].as_mut_ptr().cast());
                args.c_tile_stride = run.height * args.ldc;
                // SAFETY: rows are whole and inside the task's own words, which have slack behind them; channels are a
                // multiple of a group; the panel is whole, and zeros are as many as the widest tile has columns.
                unsafe { self.tile.call(&args, &given) };
            }
        }
        let shape = &self.shape;
        let column = panel * width;
        let columns = width.min(shape.filters() - column);
        let element = self.output.bytes();
        for (number, tile) in block.enumerate() {
            let [plane, h, w] = self.place(tile);
            let line = columns * element;
            let to: [Option<&mut [u8]>; 4] = std::array::from_fn(|at| {
                let (h, w) = (h + at / 2, w + at % 2);
                if h >= shape.output()[1] || w >= shape.output()[2] {
                    return None;
                }
                let position = (plane * shape.output()[1] + h) * shape.output()[2] + w;
                let first = (position * shape.filters() + column) * element;
                // SAFETY: this tile is this task's.
                Some(unsafe { y.part(first..first + line) })
            });
            let back = Back {
                sums: &sums[number * width..],
                step: count * width,
                columns: column..column + columns,
                start: operands.start,
                epilogue: operands.epilogue,
            };
            epilogue_tile(self.isa, &back, to);
        }
    }
}

multiversion! {
    /// Transforms the 4x4 positions of a tile into rows with stride `step`.
    fn transform_tile(rows: &[&[u8]; TRANSFORMED], signed: bool, zero: i16, step: usize, to: &mut [i16]) {
        let channels = rows[0].len();
        let (flip, zero) = if signed { (0x80u8, zero + 128) } else { (0, zero) };
        for first in (0..channels).step_by(CHANNELS) {
            let mut lines = [[[0i16; CHANNELS]; 4]; 4];
            for (at, row) in rows.iter().enumerate() {
                let row = &row[first..first + CHANNELS];
                for (to, &byte) in lines[at / 4][at % 4].iter_mut().zip(row) {
                    *to = i16::from(byte ^ flip) - zero;
                }
            }
            let mut down = [[[0i16; CHANNELS]; 4]; 4];
            for w in 0..4 {
                for c in 0..CHANNELS {
                    let [a, b, d, e] = [lines[0][w][c], lines[1][w][c], lines[2][w][c], lines[3][w][c]];
                    [down[0][w][c], down[1][w][c], down[2][w][c], down[3][w][c]] = [a - d, b + d, d - b, b - e];
                }
            }
            for h in 0..4 {
                let mut out = [[0i16; CHANNELS]; 4];
                for c in 0..CHANNELS {
                    let [a, b, d, e] = [down[h][0][c], down[h][1][c], down[h][2][c], down[h][3][c]];
                    [out[0][c], out[1][c], out[2][c], out[3][c]] = [a - d, b + d, d - b, b - e];
                }
                for (w, out) in out.iter().enumerate() {
                    to[(h * 4 + w) * step + first..][..CHANNELS].copy_from_slice(out);
                }
            }
        }
    }
}

/// Columns that are transformed back at a time.
const COLUMNS: usize = 8;

/// The sums of a tile for some columns, whose frequencies have stride `step`, and their epilogue.
struct Back<'a> {
    sums: &'a [i32],
    step: usize,
    columns: Range,
    start: &'a [i32],
    epilogue: Epilogue<'a>,
}

multiversion! {
    /// Transforms the sums of a tile back, applies the epilogue and stores the outputs.
    fn epilogue_tile(back: &Back<'_>, to: [Option<&mut [u8]>; 4]) {
        let Back { sums, step, start, epilogue, .. } = back;
        let (column, columns) = (back.columns.start, back.columns.len());
        let mut to = to;
        let element = epilogue.output.bytes();
        for first in (0..columns).step_by(COLUMNS) {
            let mut across = [[[0i32; COLUMNS]; 2]; 4];
            for (h, across) in across.iter_mut().enumerate() {
                let row = |w: usize| -> &[i32] { &sums[(h * 4 + w) * *step + first..][..COLUMNS] };
                let [a, b, d, e] = [row(0), row(1), row(2), row(3)];
                for c in 0..COLUMNS {
                    across[0][c] = a[c].wrapping_add(b[c]).wrapping_add(d[c]);
                    across[1][c] = b[c].wrapping_sub(d[c]).wrapping_sub(e[c]);
                }
            }
            let own = COLUMNS.min(columns - first);
            for at in 0..4 {
                let Some(to) = &mut to[at] else { continue };
                let w = at % 2;
                let mut sums = [0i32; COLUMNS];
                let start = &start[column + first..][..COLUMNS];
                for c in 0..COLUMNS {
                    let [a, b, d, e] = [across[0][w][c], across[1][w][c], across[2][w][c], across[3][w][c]];
                    let all = if at < 2 { a.wrapping_add(b).wrapping_add(d) } else { b.wrapping_sub(d).wrapping_sub(e) };
                    sums[c] = (all >> 2).wrapping_add(start[c]);
                }
                let to = &mut to[first * element..][..own * element];
                if own == COLUMNS {
                    epilogue.row(&sums, column + first, to);
                } else {
                    epilogue.row(&sums[..own], column + first, to);
                }
            }
        }
    }
}
