//! Products on the matrix unit: the part of the driver that differs from tiles of vectors.
//!
//! Left-hand rows are rounded once into tile rows, whose steps follow each other, so that the unit reads them front to back.
//! A chunk of tile rows that fits a cache sees all panels before the next one does; its sums stay in the nearest cache from the
//! first part of the reduction to the last.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::{Buffers, Left, Matmul, MatmulShape};
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::Halve;
use crate::cpu::matrix::fetch::Fetches;
use crate::cpu::matrix::{
    Finish, FinishArgs, FinishCode, Multiply, MultiplyArgs, PANEL, STEP, STEP_WORDS, TALLEST, TILE_ROWS,
};
use crate::cpu::{CodeSource, Elements};
use crate::error::Result;
use crate::isa::Isa;
use crate::parallel::{Parallel, for_each_chunk};

/// Words of a tile row's step.
const STEP_OF_ROWS: usize = TILE_ROWS * STEP_WORDS;
/// Tile rows, by a panel, whose sums are put down before they are ended: 32 KiB of them.
const SUMS: usize = 16;
/// Most panels side by side.
const GROUP: usize = 4;

/// The sums of [`SUMS`] tile rows.
#[repr(align(64))]
struct Sums(MaybeUninit<[f32; SUMS * TILE_ROWS * PANEL]>);

/// The kernels.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    multiply: Multiply,
    finish: Finish,
    halve: Halve,
}

impl Unit {
    /// The kernels for that shape, where the unit computes it: all but single rows.
    pub(super) fn new(
        isa: Isa,
        shape: &MatmulShape,
        activation: Option<UnaryOp>,
        source: &dyn CodeSource,
    ) -> Result<Option<Unit>> {
        if shape.elements() != Elements::Bf16Tiles || shape.m == 1 {
            return Ok(None);
        }
        // Parts of the rows end in a lone tile row where their number is odd.
        let multiply = Multiply::new(isa, 1..=TALLEST, source)?;
        let finish = Finish::new(FinishCode::plain(isa, activation), source)?;
        Ok(Some(Unit { multiply, finish, halve: Halve::new(isa, source)? }))
    }
}

/// Tile rows of that many rows.
pub(super) fn tile_rows(rows: usize) -> usize {
    rows.div_ceil(TILE_ROWS)
}

/// Words of one left-hand matrix as the unit reads it.
pub(super) fn left_words(shape: &MatmulShape) -> usize {
    tile_rows(shape.m) * TILE_ROWS * shape.elements().words(shape.k)
}

impl Matmul {
    /// Rounds left-hand matrices into tile rows. Rows that there are none of stay as they are: nobody looks at their sums.
    pub(super) fn round_left(
        &self,
        unit: &Unit,
        (left, turned): (&[f32], &[f32]),
        words: &mut [f32],
        parallel: &dyn Parallel,
    ) {
        let (m, k) = (self.shape.m, self.shape.k);
        let (tiles, length) = (tile_rows(m), TILE_ROWS * self.panels.rows);
        for_each_chunk(parallel, words, length.max(1), &|index, words| {
            let (matrix, first) = (index / tiles, index % tiles * TILE_ROWS);
            for row in first..m.min(first + TILE_ROWS) {
                let from = match self.shape.left {
                    Left::Rows { stride } => &left[self.shape.left_start(matrix) + row * stride..],
                    Left::Columns { .. } => &turned[(matrix * m + row) * k..],
                };
                let to = &mut words[(row - first) * STEP_WORDS..];
                // SAFETY: the last step of the last row of a tile row ends with its words.
                unsafe { unit.halve.spread(&from[..k], to.as_mut_ptr(), STEP_OF_ROWS) };
            }
        });
    }

    /// A part of one product: some tile rows, some panels.
    pub(super) fn product_on_unit(
        &self,
        unit: &Unit,
        buffers: &Buffers<'_>,
        batch: usize,
        tiles: Range<usize>,
        panels: Range<usize>,
        parallel: &dyn Parallel,
    ) {
        let shape = &self.shape;
        let place = shape.place(batch);
        let (length, words) = (TILE_ROWS * self.panels.rows, left_words(shape));
        let left = buffers.left.wrapping_add(place.left_index * words);
        let right = buffers.right.as_ptr().wrapping_add(place.right);
        let c = buffers.c.at(batch * shape.m * shape.n);
        let mut sums = Sums(MaybeUninit::uninit());
        if self.panels.rows == 0 {
            sums.0.write([0.0; SUMS * TILE_ROWS * PANEL]);
        }
        let mut args = MultiplyArgs::empty();
        (args.row_step, args.left_step) = (STEP_WORDS * 4, STEP_OF_ROWS * 4);
        args.right_next = self.panels.panel_len() * 4;
        args.out_next = PANEL * 4;
        let tap = 0isize;
        (args.taps, args.tap_count) = (&raw const tap, 1);
        let held = unit.multiply.hold();
        let mut rows = [std::ptr::null(); SUMS];
        let k_block = self.blocks.k_block.div_ceil(STEP) * STEP_WORDS;
        for chunk in tiles.clone().step_by(self.blocks.row_block) {
            let chunk = chunk..tiles.end.min(chunk + self.blocks.row_block);
            for first in chunk.clone().step_by(SUMS) {
                let count = SUMS.min(chunk.end - first);
                // Several panels side by side, so that whole stretches of a row of the result are written at once.
                let group = (SUMS / count).min(GROUP);
                for panel in panels.clone().step_by(group) {
                    if parallel.is_stopped() {
                        return;
                    }
                    let group = group.min(panels.end - panel);
                    args.panels = group;
                    args.out_step = group * PANEL * 4;
                    self.fetch_ahead(&mut args, right, panel + group, panels.end, count.div_ceil(TALLEST));
                    for k in (0..self.panels.rows).step_by(k_block) {
                        for (index, row) in rows[..count].iter_mut().enumerate() {
                            *row = left.wrapping_add((first + index) * length + k * TILE_ROWS).cast();
                        }
                        args.steps = (self.panels.rows - k).min(k_block) / STEP_WORDS;
                        args.right = right.wrapping_add(panel * self.panels.panel_len() + k * PANEL);
                        args.resume = usize::from(k > 0);
                        let pairs = count / TALLEST;
                        for (height, from, blocks) in [(TALLEST, 0, pairs), (1, pairs * TALLEST, count % TALLEST)] {
                            if blocks > 0 {
                                args.blocks = blocks;
                                args.rows = rows[from..].as_ptr();
                                let before = from * TILE_ROWS * group * PANEL;
                                args.out = sums.0.as_mut_ptr().cast::<f32>().wrapping_add(before);
                                // SAFETY: `check` made sure that the panels are whole and that scratch holds all tile
                                // rows; sums are ours and hold `count` tile rows of `group` panels, and a block writes
                                // those of its own tile rows.
                                unsafe { held.call(height, &mut args) };
                            }
                        }
                    }
                    let columns = (shape.n - panel * PANEL).min(group * PANEL);
                    let mut end = FinishArgs::of_columns(columns).biased(buffers.extras.bias, panel * PANEL);
                    end.scale = self.epilogue.scale;
                    let row = first * TILE_ROWS;
                    if let Some(residual) = buffers.extras.residual {
                        let from = (batch * shape.m + row) * shape.n + panel * PANEL;
                        end.residual = residual.as_ptr().wrapping_add(from).cast();
                        end.residual_step = shape.n * 4;
                    }
                    end.rows = (count * TILE_ROWS).min(shape.m - row);
                    (end.from, end.from_step) = (sums.0.as_ptr().cast(), group * PANEL * 4);
                    (end.to, end.to_step) = (c.wrapping_add(row * shape.n + panel * PANEL).cast(), shape.n * 4);
                    // SAFETY: all sums have just been put down; `check` made sure that bias, residual and C span what the
                    // shape says, and tasks have disjoint parts of C.
                    unsafe { unit.finish.call(&end) };
                }
            }
        }
    }

    /// Has the steps of the next panels fetch those after them: their own bytes, spread over the blocks that see each step.
    fn fetch_ahead(&self, args: &mut MultiplyArgs, right: *const f32, next: usize, end: usize, blocks: usize) {
        // One block reads its panels in order, once, as processors expect it.
        let worth = blocks > 1 && next < end;
        let step = (STEP_WORDS * PANEL * 4).div_ceil(blocks).min(AHEAD);
        args.fetches = match worth {
            true => Fetches::onwards(right.wrapping_add(next * self.panels.panel_len()).cast(), step),
            false => Fetches::nothing(),
        };
    }
}

/// Most bytes that a step fetches: a quarter of what it reads.
const AHEAD: usize = 512;

/// Refuses blocks that the unit cannot take.
pub(super) fn fits(shape: &MatmulShape, vectors: usize, k_block: usize, isa: Isa) -> bool {
    shape.elements() != Elements::Bf16Tiles
        || vectors * isa.lanes() == PANEL && (k_block.is_multiple_of(STEP) || k_block >= shape.k)
}
