//! Many rows of bytes on [AMX](crate::cpu::amx).
//!
//! A tile is the integer sum of sixteen rows by sixteen columns over one block. A step of AMX has up to 64 elements: a
//! block of 16 or 32 takes one step of shorter rows, a block of 128 or 256 several steps. Each task unpacks some blocks
//! of a panel into scratch ([`unpack`]) and multiplies them with all rows ([`multiply`]) before it goes on, so that
//! codes are unpacked once. Sums begin and go on as in [`dots`](super::dots), with the same bits.
//!
//! The rows of a tile that the matrix does not have are zeros. Where a tile has such rows, or columns that the matrix
//! does not have, its sums go through scratch.

mod multiply;
mod unpack;

use std::ops::Range;

pub use self::multiply::BlockTileCode;
use self::multiply::{SETS, TileArgs};
pub use self::unpack::BlockUnpackCode;
use self::unpack::Unpack;
use super::bytes::ByteRows;
use super::layout::BlockPanels;
use super::products::Products;
use crate::cpu::amx::{self, LANES, TILE_ROWS};
use crate::cpu::gemm::rows::part;
use crate::cpu::{CodeKey, CodeSource, Emitted};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::Given;
use crate::parallel::{Disjoint, Parallel, for_each_chunk};

/// Words that scratch is aligned to: a cache line.
const ALIGNMENT: usize = 16;

/// The integer sums of a set of tiles each.
type Sums = amx::Sums<i32, { SETS * TILE_ROWS * LANES }>;

/// A product on AMX.
#[derive(Clone, Debug)]
pub(super) struct Amx {
    isa: Isa,
    /// Rows of the matrix.
    m: usize,
    /// The rows of a tile.
    rows: ByteRows,
    /// Blocks of a column that are unpacked at a time.
    k_blocks: usize,
    tasks: usize,
    unpack: Unpack,
    kernel: Emitted<BlockTileCode>,
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
    /// Rows as bytes, tile row after tile row.
    rows: &'a [u32],
    weights: &'a [u8],
    bias: Option<&'a [f32]>,
    c: Disjoint<'a, f32>,
    given: Given,
}

/// The scratch of one task.
struct Room<'a> {
    /// Unpacked codes.
    codes: &'a mut [u8],
    /// The sums of a tile row by a panel, and a panel's bias.
    edge: &'a mut [f32],
    bias: &'a mut [f32],
    sums: Sums,
}

/// Some blocks of a panel.
struct Cut {
    panel: usize,
    blocks: Range<usize>,
}

impl Amx {
    /// The product of `m` rows by the panels of a matrix, `k_blocks` blocks at a time, in `tasks` tasks.
    pub(super) fn new(
        isa: Isa,
        m: usize,
        panels: BlockPanels,
        k_blocks: usize,
        tasks: usize,
        source: &dyn CodeSource,
    ) -> Result<Amx> {
        let code = BlockTileCode { isa, zeros: panels.format.zeros };
        Ok(Amx {
            isa,
            m,
            rows: ByteRows { panels, rows: TILE_ROWS, products: Products::Tiles },
            k_blocks,
            tasks,
            unpack: Unpack::new(isa, panels, source)?,
            kernel: Emitted::new(code, CodeKey::BlockTile, source)?,
        })
    }

    /// Words of all rows as bytes.
    fn rows_len(&self) -> usize {
        self.m.div_ceil(TILE_ROWS) * self.rows.len()
    }

    /// Words of unpacked codes.
    fn codes_len(&self) -> usize {
        self.rows.panels.width / LANES * self.unpack.len(self.k_blocks.min(self.rows.panels.blocks())) / 4
    }

    /// Words of a task.
    fn room_len(&self) -> usize {
        self.codes_len() + (TILE_ROWS + 1) * self.rows.panels.width
    }

    /// Words of scratch that [`Amx::run`] needs.
    pub(super) fn scratch_len(&self) -> usize {
        self.rows_len() + self.tasks * self.room_len() + ALIGNMENT
    }

    /// Multiplies; `scratch` is [`Amx::scratch_len`] long at least.
    pub(super) fn run(&self, operands: AmxOperands<'_>, scratch: &mut [f32], parallel: &dyn Parallel) {
        let AmxOperands { left, weights, bias, c, given } = operands;
        let aligned = scratch.as_ptr().align_offset(4 * ALIGNMENT).min(ALIGNMENT);
        let (rows, rest) = scratch[aligned..].split_at_mut(self.rows_len());
        let (each, rows) = (TILE_ROWS * self.rows.panels.k, bytemuck::cast_slice_mut(rows));
        for_each_chunk(parallel, rows, self.rows.len(), &|tile, to| {
            let left = &left[tile * each..self.m.min((tile + 1) * TILE_ROWS) * self.rows.panels.k];
            if left.len() < each {
                to.fill(0);
            }
            self.rows.quantise(self.isa, left, to);
        });
        let buffers = Buffers { rows, weights, bias, c: Disjoint::new(c), given };
        let (rooms, room, panels) = (Disjoint::new(rest), self.room_len(), &self.rows.panels);
        parallel.run(self.tasks, &|task| {
            // SAFETY: scratch has a room for each task.
            let room = unsafe { rooms.part(task * room..(task + 1) * room) };
            let (codes, room) = room.split_at_mut(self.codes_len());
            let (edge, bias) = room.split_at_mut(TILE_ROWS * panels.width);
            let mut room = Room { codes: bytemuck::cast_slice_mut(codes), edge, bias, sums: Sums::uninit() };
            for panel in part(panels.count(), self.tasks, task) {
                for first in (0..panels.blocks()).step_by(self.k_blocks) {
                    if parallel.is_stopped() {
                        return;
                    }
                    let blocks = first..panels.blocks().min(first + self.k_blocks);
                    self.cut(&buffers, &Cut { panel, blocks }, &mut room);
                }
            }
        });
    }

    /// Some blocks of a panel by all rows.
    fn cut(&self, buffers: &Buffers<'_>, cut: &Cut, room: &mut Room<'_>) {
        let (n, panels) = (self.rows.panels.n, &self.rows.panels);
        let (first, width) = (cut.panel * panels.width, panels.width);
        let weights = &buffers.weights[cut.panel * panels.panel_bytes()..][..panels.panel_bytes()];
        self.unpack.run(weights, cut.blocks.start, cut.blocks.len(), room.codes, &buffers.given);
        let whole = if panels.columns_of(cut.panel) == width { self.m / TILE_ROWS } else { 0 };
        if whole > 0 {
            let mut args = self.args(buffers, cut, 0);
            (args.tiles, args.c, args.ldc) = (whole, buffers.c.at(first), n * 4);
            (args.from, args.from_stride) = match (cut.blocks.start, buffers.bias) {
                (0, None) => (std::ptr::null(), 0),
                (0, Some(bias)) => (bias[first..].as_ptr(), 0),
                _ => (buffers.c.at(first).cast_const(), n * 4),
            };
            // SAFETY: the matrix has the rows of these tiles and the columns of the panel, which are this task's.
            unsafe { self.vectors(args, buffers, cut, room) };
        }
        for tile in whole..self.m.div_ceil(TILE_ROWS) {
            self.edge(buffers, cut, tile, room);
        }
    }

    /// A tile row that is not whole, because the matrix ends in its rows or columns: its sums are in scratch.
    fn edge(&self, buffers: &Buffers<'_>, cut: &Cut, tile: usize, room: &mut Room<'_>) {
        let (n, width, columns) = (self.rows.panels.n, self.rows.panels.width, self.rows.panels.columns_of(cut.panel));
        let place = |row: usize| {
            let at = (tile * TILE_ROWS + row) * n + cut.panel * width;
            at..at + columns
        };
        let rows = TILE_ROWS.min(self.m - tile * TILE_ROWS);
        let mut args = self.args(buffers, cut, tile);
        (args.tiles, args.c, args.ldc) = (1, room.edge.as_mut_ptr(), width * 4);
        match (cut.blocks.start, buffers.bias) {
            (0, None) => {}
            (0, Some(bias)) => {
                room.bias.fill(0.0);
                room.bias[..columns].copy_from_slice(&bias[cut.panel * width..][..columns]);
                args.from = room.bias.as_ptr();
            }
            _ => {
                room.edge.fill(0.0);
                for (row, sums) in room.edge.chunks_exact_mut(width).take(rows).enumerate() {
                    // SAFETY: columns of this task's panel.
                    sums[..columns].copy_from_slice(unsafe { buffers.c.part(place(row)) });
                }
                (args.from, args.from_stride) = (args.c.cast_const(), args.ldc);
            }
        }
        // SAFETY: scratch has whole tiles of sums and a whole panel's bias, which this task alone uses.
        unsafe { self.vectors(args, buffers, cut, room) };
        for (row, sums) in room.edge.chunks_exact(width).take(rows).enumerate() {
            // SAFETY: columns of this task's panel.
            unsafe { buffers.c.part(place(row)) }.copy_from_slice(&sums[..columns]);
        }
    }

    /// The arguments of some blocks from tile row `tile` on, without results and without the columns of a panel.
    fn args(&self, buffers: &Buffers<'_>, cut: &Cut, tile: usize) -> TileArgs {
        let ByteRows { panels, .. } = &self.rows;
        let (block, first) = (panels.format.block(), cut.blocks.start);
        let rows = buffers.rows[tile * self.rows.len()..].as_ptr();
        TileArgs {
            tile_stride: self.rows.len() * 4,
            heads: rows.wrapping_add(2 * TILE_ROWS * first),
            bytes: rows.wrapping_add(self.rows.heads_len() + TILE_ROWS * block / 4 * first),
            blocks: cut.blocks.len(),
            block_stride: panels.block_bytes(),
            middle: f32::from(panels.format.codes.middle()),
            ..TileArgs::of_blocks(block)
        }
    }

    /// Multiplies tile rows, one after another, by each vector of the columns of a panel.
    ///
    /// # Safety
    ///
    /// Results, and the sums that they begin with, are whole panels of whole tiles. No other task touches those
    /// results.
    unsafe fn vectors(&self, mut args: TileArgs, buffers: &Buffers<'_>, cut: &Cut, room: &mut Room<'_>) {
        let panels = &self.rows.panels;
        let head = cut.panel * panels.panel_bytes() + cut.blocks.start * panels.block_bytes();
        let (scales, zeros) = buffers.weights[head..][..panels.head_bytes()].split_at(panels.width * 4);
        let given = buffers.given.clone().write("sums", std::slice::from_mut(&mut room.sums));
        args.sums = room.sums.first();
        let (c, from) = (args.c, args.from);
        for vector in 0..panels.width / LANES {
            args.codes = room.codes[vector * self.unpack.len(cut.blocks.len())..].as_ptr();
            args.scales = scales[vector * LANES * 4..].as_ptr();
            args.zeros = zeros[vector * LANES * panels.format.zeros.bytes()..].as_ptr();
            args.c = c.wrapping_add(vector * LANES);
            args.from = if from.is_null() { from } else { from.wrapping_add(vector * LANES) };
            // SAFETY: the caller's contract; rows span all blocks, scratch the codes of these blocks, and the panel
            // their heads.
            unsafe { self.kernel.call(&args, &given) };
        }
    }
}
