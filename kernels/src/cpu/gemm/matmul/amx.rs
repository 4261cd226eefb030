//! Matrix products on AMX: the part of the driver that differs from tiles of vectors.
//!
//! Left-hand rows are converted once into tile rows whose AMX steps follow each other, so that they are read front to
//! back. Rows stored as `bf16`, a whole number of steps long, are read in place. A chunk of tile rows that fits L2 is
//! multiplied with all panels before the next chunk; its sums stay in L1 from the first part of the reduction to the
//! last.

use std::ops::Range;

use super::shape::Place;
use super::{Extras, Left, Matmul, MatmulBlocks, MatmulShape, MatmulStored};
use crate::cpu::amx::{
    self, BLOCK, Block, EpilogueArgs, EpilogueCode, Multiply, MultiplyArgs, PANEL, STEP, STEP_WORDS, TALLEST, TILE_ROWS,
};
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::Bf16Convert;
use crate::cpu::{Activations, CodeKey, CodeSource, Elements, Emitted, PackedWeights, Stored};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::Given;
use crate::parallel::{Disjoint, Parallel, for_each_chunk};

/// Words of one step of a tile row.
const STEP_OF_ROWS: usize = TILE_ROWS * STEP_WORDS;
/// Tile rows by one panel whose sums wait for their epilogue: 32 KiB of sums.
const SUMS: usize = 16;
/// Most panels of one call, side by side.
const GROUP: usize = 4;

/// The sums of [`SUMS`] tile rows by a panel.
type Sums = amx::Sums<f32, { SUMS * BLOCK }>;

/// The kernels of an AMX product.
#[derive(Clone, Debug)]
pub(super) struct AmxKernels {
    multiply: Multiply,
    epilogue: Emitted<EpilogueCode>,
    convert: Bf16Convert,
    stored: MatmulStored,
    /// Whether left-hand rows are read in place.
    in_place: bool,
}

/// The buffers of one run, as tasks see them.
pub(super) struct AmxBuffers<'a> {
    pub(super) left: LeftRows<'a>,
    pub(super) right: PackedWeights<'a>,
    /// The result, in bytes.
    pub(super) c: Disjoint<'a, u8>,
    pub(super) extras: Extras<'a, Activations<'a>>,
    pub(super) given: Given,
}

/// Left-hand matrices as AMX reads them. Strides are in bytes.
#[derive(Clone, Copy)]
pub(super) struct LeftRows<'a> {
    /// The matrices that are read in place; empty if all are in scratch.
    in_place: &'a [u8],
    /// All matrices in scratch; for matrices read in place, the last rows of each that do not fill a tile row.
    scratch: &'a [u8],
    /// Strides of the rows of a tile row and of the steps of a row.
    row_stride: usize,
    left_stride: usize,
}

impl AmxKernels {
    /// The kernels for `shape`, if AMX computes it: `bf16` weights packed for AMX and more than one row.
    pub(super) fn new(
        isa: Isa,
        shape: &MatmulShape,
        stored: MatmulStored,
        activation: Option<UnaryOp>,
        source: &dyn CodeSource,
    ) -> Result<Option<AmxKernels>> {
        if shape.elements() != Elements::Bf16Tiles || shape.m == 1 {
            return Ok(None);
        }
        // Parts with an odd number of tile rows end in a block of one.
        let multiply = Multiply::new(isa, 1..=TALLEST, source)?;
        let MatmulStored { left, residual, output } = stored;
        let epilogue = EpilogueCode { isa, activation, residual, output };
        let epilogue = Emitted::new(epilogue, CodeKey::Epilogue, source)?;
        let whole = |distance: usize| distance.is_multiple_of(STEP);
        let rows = matches!(shape.left, Left::Rows { stride } if whole(stride) && whole(shape.k));
        let in_place = left == Stored::Bf16 && rows && shape.batch.iter().all(|dim| whole(dim.left));
        Ok(Some(AmxKernels { multiply, epilogue, convert: Bf16Convert::new(isa, source)?, stored, in_place }))
    }

    /// Words of scratch for each left-hand matrix.
    pub(super) fn left_words(&self, shape: &MatmulShape) -> usize {
        match shape.left {
            Left::Rows { stride } if self.in_place => match shape.m.is_multiple_of(TILE_ROWS) {
                true => 0,
                false => TILE_ROWS * stride / 2,
            },
            _ => tile_rows(shape.m) * TILE_ROWS * shape.elements().words(shape.k),
        }
    }
}

/// Tile rows that hold `rows` rows.
pub(super) fn tile_rows(rows: usize) -> usize {
    rows.div_ceil(TILE_ROWS)
}

impl Matmul {
    /// The left-hand matrices as AMX reads them: in place, or converted in `scratch`.
    pub(super) fn left_for_amx<'a>(
        &self,
        amx: &AmxKernels,
        left: Activations<'a>,
        scratch: &'a mut [f32],
        parallel: &dyn Parallel,
    ) -> LeftRows<'a> {
        if let (true, Left::Rows { stride }, Activations::Bf16(elements)) = (amx.in_place, self.shape.left, left) {
            self.copy_last_rows(elements, stride, bytemuck::cast_slice_mut(scratch));
            let (in_place, scratch) = (bytemuck::cast_slice(elements), bytemuck::cast_slice(scratch));
            return LeftRows { in_place, scratch, row_stride: stride * 2, left_stride: STEP * 2 };
        }
        let transposed = match self.shape.left {
            Left::Rows { .. } => 0,
            Left::Columns { .. } => self.shape.left_matrices() * self.shape.m * self.shape.k,
        };
        let (transposed, words) = scratch.split_at_mut(transposed);
        if let (Left::Columns { stride }, Activations::F32(left)) = (self.shape.left, left) {
            self.transpose_left(left, stride, transposed, parallel);
        }
        self.round_left(amx, left, transposed, words, parallel);
        let scratch = bytemuck::cast_slice(words);
        LeftRows { in_place: &[], scratch, row_stride: STEP_WORDS * 4, left_stride: STEP_OF_ROWS * 4 }
    }

    /// Copies the rows of each matrix that do not fill a tile row to scratch, where a whole tile row is readable. The
    /// missing rows keep what scratch held: their sums are never stored.
    fn copy_last_rows(&self, elements: &[u16], stride: usize, to: &mut [u16]) {
        let (m, k) = (self.shape.m, self.shape.k);
        for (matrix, to) in to.chunks_exact_mut((TILE_ROWS * stride).max(1)).enumerate() {
            let first = m / TILE_ROWS * TILE_ROWS;
            for (row, to) in (first..m).zip(to.chunks_exact_mut(stride)) {
                to[..k].copy_from_slice(&elements[self.shape.left_start(matrix) + row * stride..][..k]);
            }
        }
    }

    /// Converts left-hand matrices, or their transposed copies, into tile rows; the missing rows of a last tile row
    /// keep what scratch held.
    fn round_left(
        &self,
        amx: &AmxKernels,
        left: Activations<'_>,
        transposed: &[f32],
        words: &mut [f32],
        parallel: &dyn Parallel,
    ) {
        let (m, k) = (self.shape.m, self.shape.k);
        let (tiles, length) = (tile_rows(m), TILE_ROWS * self.panels.rows);
        for_each_chunk(parallel, words, length.max(1), &|index, words| {
            let (matrix, first) = (index / tiles, index % tiles * TILE_ROWS);
            for row in first..m.min(first + TILE_ROWS) {
                let start = match self.shape.left {
                    Left::Rows { stride } => self.shape.left_start(matrix) + row * stride,
                    Left::Columns { .. } => (matrix * m + row) * k,
                };
                let to = &mut words[(row - first) * STEP_WORDS..];
                let from = match (self.shape.left, left) {
                    (Left::Columns { .. }, _) => &transposed[start..][..k],
                    (Left::Rows { .. }, Activations::F32(left)) => &left[start..][..k],
                    (Left::Rows { .. }, Activations::Bf16(left)) => {
                        spread_bf16(&left[start..][..k], to);
                        continue;
                    }
                };
                amx.convert.spread(from, to, STEP_OF_ROWS);
            }
        });
    }

    /// Address of a tile row.
    fn tile_row(&self, amx: &AmxKernels, left: &LeftRows<'_>, place: &Place, tile: usize) -> *const u8 {
        let words = amx.left_words(&self.shape);
        let scratch = left.scratch.as_ptr().wrapping_add(place.left_index * words * 4);
        match self.shape.left {
            Left::Rows { stride } if amx.in_place => match (tile + 1) * TILE_ROWS <= self.shape.m {
                true => left.in_place.as_ptr().wrapping_add((place.left + tile * TILE_ROWS * stride) * 2),
                false => scratch,
            },
            _ => scratch.wrapping_add(tile * TILE_ROWS * self.panels.rows * 4),
        }
    }

    /// A part of one product: some tile rows by some panels.
    pub(super) fn product_on_amx(
        &self,
        amx: &AmxKernels,
        buffers: &AmxBuffers<'_>,
        batch: usize,
        tiles: Range<usize>,
        panels: Range<usize>,
        parallel: &dyn Parallel,
    ) {
        let shape = &self.shape;
        let place = shape.place(batch);
        let right: *const f32 = buffers.right.at(place.right).cast();
        let (output, beside) = (amx.stored.output.bytes(), amx.stored.residual.bytes());
        let mut sums = Sums::uninit();
        if self.panels.rows == 0 {
            sums.fill(0.0);
        }
        let mut args = MultiplyArgs::empty();
        (args.row_stride, args.left_stride) = (buffers.left.row_stride, buffers.left.left_stride);
        args.panel_stride = self.panels.panel_len() * 4;
        args.out_panel_stride = PANEL * 4;
        let tap = 0isize;
        (args.taps, args.tap_count) = (&raw const tap, 1);
        let held = amx.multiply.hold();
        let mut rows = [std::ptr::null(); SUMS];
        let given = buffers.given.clone().read("tap", std::slice::from_ref(&tap)).read("tile rows", &rows);
        let given = given.write("sums", std::slice::from_mut(&mut sums));
        let k_block = self.blocks.k_block().div_ceil(STEP) * STEP_WORDS;
        for chunk in tiles.clone().step_by(self.blocks.row_block()) {
            let chunk = chunk..tiles.end.min(chunk + self.blocks.row_block());
            for first in chunk.clone().step_by(SUMS) {
                let count = SUMS.min(chunk.end - first);
                // Several panels side by side, so that longer runs of each row of the result are written at once.
                let group = (SUMS / count).min(GROUP);
                for panel in panels.clone().step_by(group) {
                    if parallel.is_stopped() {
                        return;
                    }
                    let group = group.min(panels.end - panel);
                    args.panels = group;
                    args.out_stride = group * PANEL * 4;
                    self.prefetch_panels(&mut args, right, panel + group, panels.end, count.div_ceil(TALLEST));
                    for k in (0..self.panels.rows).step_by(k_block) {
                        for (index, row) in rows[..count].iter_mut().enumerate() {
                            let start = self.tile_row(amx, &buffers.left, &place, first + index);
                            *row = start.wrapping_add(k / STEP_WORDS * args.left_stride);
                        }
                        args.steps = (self.panels.rows - k).min(k_block) / STEP_WORDS;
                        args.right = right.wrapping_add(panel * self.panels.panel_len() + k * PANEL);
                        args.resume = usize::from(k > 0);
                        for Block { height, first, count } in Block::all(count) {
                            args.blocks = count;
                            args.rows = rows[first..].as_ptr();
                            args.out = sums.first().wrapping_add(first * group * BLOCK);
                            // SAFETY: `check` made sure that the panels are whole and that scratch holds all tile rows;
                            // the sums are this task's and hold all tile rows of `group` panels.
                            unsafe { held.call(height, &mut args, &given) };
                        }
                    }
                    let columns = (shape.n - panel * PANEL).min(group * PANEL);
                    let mut end = EpilogueArgs::of_columns(columns).biased(buffers.extras.bias, panel * PANEL);
                    end.scale = self.epilogue.scale;
                    let row = first * TILE_ROWS;
                    let at = (batch * shape.m + row) * shape.n + panel * PANEL;
                    if let Some(residual) = buffers.extras.residual {
                        end.residual = residual.as_ptr().wrapping_add(at * beside);
                        end.residual_stride = shape.n * beside;
                    }
                    end.area.rows = (count * TILE_ROWS).min(shape.m - row);
                    (end.area.from, end.area.from_stride) = (sums.first(), group * PANEL * 4);
                    (end.area.to, end.area.to_stride) = (buffers.c.at(at * output), shape.n * output);
                    // SAFETY: all sums have been stored; `check` made sure that bias, residual and C span what the
                    // shape says, and tasks have disjoint parts of C.
                    unsafe { amx.epilogue.call(&end, &given) };
                }
            }
        }
    }

    /// Sets the prefetch of the panels after the next call's: their bytes, spread over the blocks that read each step.
    fn prefetch_panels(&self, args: &mut MultiplyArgs, right: *const f32, next: usize, end: usize, blocks: usize) {
        // A single block reads its panels in order and once, which the hardware prefetchers follow.
        let worth = blocks > 1 && next < end;
        let step = (STEP_WORDS * PANEL * 4).div_ceil(blocks).min(AHEAD);
        match worth {
            true => args.prefetch_onwards(right.wrapping_add(next * self.panels.panel_len()).cast(), step),
            false => args.prefetch_nothing(),
        }
    }
}

/// Copies a row's steps into a tile row, the last step padded with zeros.
fn spread_bf16(row: &[u16], words: &mut [f32]) {
    for (from, to) in row.chunks(STEP).zip(words.chunks_mut(STEP_OF_ROWS)) {
        let (to, rest) = bytemuck::cast_slice_mut(&mut to[..STEP_WORDS]).split_at_mut(from.len());
        to.copy_from_slice(from);
        rest.fill(0u16);
    }
}

/// The most bytes that a step prefetches: a quarter of the bytes that it reads.
const AHEAD: usize = 512;

/// Whether AMX can take these blocks.
pub(super) fn fits(shape: &MatmulShape, blocks: &MatmulBlocks, isa: Isa) -> bool {
    let k_block = blocks.k_block();
    shape.elements() != Elements::Bf16Tiles
        || blocks.vectors() * isa.lanes() == PANEL && (k_block.is_multiple_of(STEP) || k_block >= shape.k)
}
