//! Many rows on [AMX](crate::cpu::amx), as `bf16`.
//!
//! Rows are rounded once. Each task dequantises some blocks of a panel to pairs of `bf16` in scratch ([`expand`]) and
//! multiplies them with many rows before it goes on. Sums are `f32` in tile registers over all of these blocks, so the
//! end of a block costs nothing. A product of bytes on AMX would end with each block, because each has scales of its
//! own: a block of 32 took 24 ns, half of them for scaling and adding its sums, where its product by `bf16` takes 7.
//! The rows of a tile that the matrix does not have keep what scratch held: their sums are never stored.
//!
//! A block of rows and the part of the reduction that is dequantised at a time stay in L2 while panels pass. Sums are
//! stored to L1 and written to C from there, several panels side by side, so that longer runs of each row of C are
//! written at once. Where the reduction has several parts, the sums of later parts are added to C.
//!
//! [`expand`]: super::expand

use std::ops::Range;

use super::expand::{Expand, ExpandedNumbers};
use super::layout::BlockPanels;
use crate::cpu::amx::{
    self, BLOCK, Block, EpilogueArgs, EpilogueCode, Held, Multiply, MultiplyArgs, PANEL, STEP, STEP_WORDS, TALLEST,
    TILE_ROWS,
};
use crate::cpu::gemm::Bf16Convert;
use crate::cpu::gemm::rows::part;
use crate::cpu::{CodeKey, CodeSource, Emitted, Stored};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::Given;
use crate::parallel::{Disjoint, Parallel, for_each_chunk};

/// Words that scratch is aligned to: a cache line.
const ALIGNMENT: usize = 16;

/// Words of one step of a tile row.
const STEP_OF_ROWS: usize = TILE_ROWS * STEP_WORDS;

/// Bytes of rows, over a part of the reduction, that all panels see before the next rows: they stay in L2.
const ROW_BYTES: usize = 1 << 20;

/// Most elements of a column that are dequantised at a time, unless a block is longer.
const ELEMENTS: usize = 1024;

/// Tile rows by one panel whose sums wait for their epilogue: 32 KiB of sums.
const SUMS: usize = 16;
/// Most panels that are dequantised at a time.
const GROUP: usize = 4;

/// The sums of [`SUMS`] tile rows by a panel.
type Sums = amx::Sums<f32, { SUMS * BLOCK }>;

/// A product on AMX.
#[derive(Clone, Debug)]
pub(super) struct Amx {
    /// Rows of the matrix.
    m: usize,
    panels: BlockPanels,
    /// Blocks of a column that are dequantised at a time.
    k_blocks: usize,
    tasks: usize,
    convert: Bf16Convert,
    expand: Expand,
    multiply: Multiply,
    epilogue: Emitted<EpilogueCode>,
}

/// The operands of a run, which are as long as the product says.
pub(super) struct AmxOperands<'a> {
    pub(super) left: &'a [f32],
    pub(super) weights: &'a [u8],
    pub(super) bias: Option<&'a [f32]>,
    pub(super) c: &'a mut [f32],
    pub(super) given: Given,
}

/// The operands as tasks see them.
struct Buffers<'a> {
    /// Rounded rows, tile row after tile row.
    rows: &'a [f32],
    weights: &'a [u8],
    bias: Option<&'a [f32]>,
    c: Disjoint<'a, f32>,
    given: Given,
}

/// Some tile rows by some blocks of panels side by side.
struct Cut {
    tiles: Range<usize>,
    panels: Range<usize>,
    blocks: Range<usize>,
}

impl Amx {
    /// Whether AMX multiplies panels of that width, `k_blocks` blocks at a time: parts of the reduction are whole
    /// steps.
    pub(super) fn takes(panels: &BlockPanels, k_blocks: usize) -> bool {
        panels.width == PANEL
            && ((k_blocks * panels.format.block()).is_multiple_of(STEP) || k_blocks >= panels.blocks())
    }

    /// Blocks of a column that are dequantised at a time: about as many elements in each part of the reduction,
    /// [`ELEMENTS`] at most, and whole steps.
    pub(super) fn blocks_at_once(panels: &BlockPanels) -> usize {
        let block = panels.format.block();
        let step = if block.is_multiple_of(STEP) { 1 } else { 2 };
        let most = (ELEMENTS / block).max(step);
        let parts = panels.blocks().div_ceil(most).max(1);
        panels.blocks().div_ceil(parts).next_multiple_of(step).clamp(1, panels.blocks().max(1))
    }

    /// The product of `m` rows by the panels of a matrix, `k_blocks` blocks at a time, in `tasks` tasks.
    pub(super) fn new(
        isa: Isa,
        m: usize,
        panels: BlockPanels,
        k_blocks: usize,
        tasks: usize,
        source: &dyn CodeSource,
    ) -> Result<Amx> {
        let epilogue = EpilogueCode { isa, activation: None, residual: Stored::F32, output: Stored::F32 };
        Ok(Amx {
            m,
            panels,
            k_blocks,
            tasks,
            convert: Bf16Convert::new(isa, source)?,
            expand: Expand::new(isa, panels, ExpandedNumbers::Bf16Pairs, source)?,
            multiply: Multiply::new(isa, 1..=TALLEST, source)?,
            epilogue: Emitted::new(epilogue, CodeKey::Epilogue, source)?,
        })
    }

    /// Steps of the reduction over some elements.
    fn steps(elements: usize) -> usize {
        elements.div_ceil(STEP)
    }

    /// Words of a tile row.
    fn tile_len(&self) -> usize {
        Amx::steps(self.panels.k) * STEP_OF_ROWS
    }

    /// Words of all rounded rows.
    fn rows_len(&self) -> usize {
        self.m.div_ceil(TILE_ROWS) * self.tile_len()
    }

    /// Elements of a part of the reduction.
    fn part_len(&self) -> usize {
        self.panels.k.min(self.k_blocks * self.panels.format.block())
    }

    /// Words of the pairs of a panel.
    fn pairs_len(&self) -> usize {
        Amx::steps(self.part_len()) * STEP_WORDS * PANEL
    }

    /// Words of scratch that [`Amx::run`] needs.
    pub(super) fn scratch_len(&self) -> usize {
        self.rows_len() + self.tasks * GROUP * self.pairs_len() + ALIGNMENT
    }

    /// Multiplies; `scratch` is [`Amx::scratch_len`] long at least.
    pub(super) fn run(&self, operands: AmxOperands<'_>, scratch: &mut [f32], parallel: &dyn Parallel) {
        let AmxOperands { left, weights, bias, c, given } = operands;
        let aligned = scratch.as_ptr().align_offset(4 * ALIGNMENT).min(ALIGNMENT);
        let (rows, rest) = scratch[aligned..].split_at_mut(self.rows_len());
        let k = self.panels.k;
        for_each_chunk(parallel, rows, self.tile_len(), &|tile, to| {
            let left = &left[tile * TILE_ROWS * k..self.m.min((tile + 1) * TILE_ROWS) * k];
            for (row, left) in left.chunks_exact(k).enumerate() {
                self.convert.spread(left, &mut to[row * STEP_WORDS..], STEP_OF_ROWS);
            }
        });
        let buffers = Buffers { rows, weights, bias, c: Disjoint::new(c), given };
        let (rooms, room) = (Disjoint::new(rest), GROUP * self.pairs_len());
        let (tiles, blocks) = (self.m.div_ceil(TILE_ROWS), self.panels.blocks());
        let at_once = (ROW_BYTES / (2 * TILE_ROWS * self.part_len())).max(TALLEST);
        parallel.run(self.tasks, &|task| {
            // SAFETY: scratch has a room for each task.
            let pairs = unsafe { rooms.part(task * room..(task + 1) * room) };
            let held = self.multiply.hold();
            let panels = part(self.panels.count(), self.tasks, task);
            for first_tile in (0..tiles).step_by(at_once) {
                for first in (0..blocks).step_by(self.k_blocks) {
                    for panel in panels.clone().step_by(GROUP) {
                        if parallel.is_stopped() {
                            return;
                        }
                        let cut = Cut {
                            tiles: first_tile..tiles.min(first_tile + at_once),
                            panels: panel..panels.end.min(panel + GROUP),
                            blocks: first..blocks.min(first + self.k_blocks),
                        };
                        self.dequantise(&buffers, &cut, pairs);
                        self.multiply(&held, &buffers, &cut, pairs);
                    }
                }
            }
        });
    }

    /// Steps of some blocks.
    fn steps_of(&self, blocks: &Range<usize>) -> usize {
        let block = self.panels.format.block();
        Amx::steps(self.panels.k.min(blocks.end * block) - blocks.start * block)
    }

    /// Dequantises some blocks of panels; the last step is filled up with zeros.
    fn dequantise(&self, buffers: &Buffers<'_>, cut: &Cut, pairs: &mut [f32]) {
        let (panels, block) = (&self.panels, self.panels.format.block());
        let given = self.expand.given(buffers.given.clone());
        let own = self.expand.len(panels.k.min(cut.blocks.end * block) - cut.blocks.start * block);
        let each = self.steps_of(&cut.blocks) * STEP_WORDS * PANEL;
        for (panel, pairs) in cut.panels.clone().zip(pairs.chunks_exact_mut(each)) {
            let weights = &buffers.weights[panel * panels.panel_bytes()..][..panels.panel_bytes()];
            let (own, rest) = pairs.split_at_mut(own);
            self.expand.run(weights, cut.blocks.start, own, &given);
            rest.fill(0.0);
        }
    }

    /// Multiplies some tile rows by dequantised panels.
    fn multiply(&self, held: &Held<'_>, buffers: &Buffers<'_>, cut: &Cut, pairs: &[f32]) {
        let (n, steps) = (self.panels.n, self.steps_of(&cut.blocks));
        let (group, first) = (cut.panels.len(), cut.panels.start * PANEL);
        let (tap, mut rows, mut sums) = (0isize, [std::ptr::null(); SUMS], Sums::uninit());
        let mut args = MultiplyArgs::empty();
        (args.row_stride, args.left_stride) = (STEP_WORDS * 4, STEP_OF_ROWS * 4);
        (args.right, args.panels) = (pairs.as_ptr(), group);
        args.panel_stride = steps * STEP_WORDS * PANEL * 4;
        (args.out_stride, args.out_panel_stride) = (group * PANEL * 4, PANEL * 4);
        (args.taps, args.tap_count, args.steps) = (&raw const tap, 1, steps);
        let given = buffers.given.clone().read("tap", std::slice::from_ref(&tap)).read("tile rows", &rows);
        let given = given.write("sums", std::slice::from_mut(&mut sums));
        let begun = cut.blocks.start * self.panels.format.block() / STEP * STEP_OF_ROWS;
        let bias = buffers.bias.filter(|_| cut.blocks.start == 0);
        let mut end = EpilogueArgs::of_columns((n - first).min(group * PANEL)).biased(bias, first);
        (end.area.from, end.area.from_stride, end.area.to_stride) = (sums.first(), group * PANEL * 4, n * 4);
        for tile in cut.tiles.clone().step_by(SUMS / group) {
            let count = (SUMS / group).min(cut.tiles.end - tile);
            for (index, row) in rows[..count].iter_mut().enumerate() {
                *row = buffers.rows[(tile + index) * self.tile_len() + begun..].as_ptr().cast();
            }
            for Block { height, first, count } in Block::all(count) {
                (args.blocks, args.rows) = (count, rows[first..].as_ptr());
                args.out = sums.first().wrapping_add(first * group * BLOCK);
                // SAFETY: scratch holds all tile rows and the pairs of these panels over these steps; the sums are
                // this task's and hold all tile rows of `group` panels.
                unsafe { held.call(height, &mut args, &given) };
            }
            let at = tile * TILE_ROWS * n + first;
            end.area.rows = (count * TILE_ROWS).min(self.m - tile * TILE_ROWS);
            end.area.to = buffers.c.at(at).cast();
            if cut.blocks.start > 0 {
                (end.residual, end.residual_stride) = (buffers.c.at(at).cast_const().cast(), n * 4);
            }
            // SAFETY: all sums have been stored. The product has checked that bias and C span what its shape says, and
            // tasks have columns of their own.
            unsafe { self.epilogue.call(&end, &given) };
        }
    }
}
