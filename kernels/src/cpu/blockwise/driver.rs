//! The driver of products by block-quantised weights.
//!
//! A few rows are multiplied with codes directly, and so is any number of rows that may be bytes, unless AMX multiplies
//! them. For more rows of `f32`, each task dequantises a part of a panel into scratch of its own and multiplies it with
//! all rows before it goes on.

use std::ops::Range;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::FAMILY;
use super::amx::{Amx, AmxOperands};
use super::bytes::ByteRows;
use super::dots::{DotOperands, Dots};
use super::expand::{Expand, ExpandedNumbers};
use super::layout::BlockPanels;
use super::products::Products;
use super::row::{Row, RowOperands};
use super::streams::{Ahead, STREAMS};
use crate::cpu::gemm::micro_kernel::MicroKernel;
use crate::cpu::gemm::rows::part;
use crate::cpu::gemm::tile::{LeftRows, RightColumns, TileArgs, TileCode};
use crate::cpu::gemm::tile_size::least_waste;
use crate::cpu::gemm::{Tiles, most_rows};
use crate::cpu::machine::Caches;
use crate::cpu::{CodeSource, Precision};
use crate::error::{KernelError, Result};
use crate::isa::{Extension, Extensions, Isa};
use crate::jit::Given;
use crate::parallel::{Disjoint, Parallel, Piece, Pieces, Reads, for_each_chunk, has_shares, in_shares};
use crate::problem::blockwise::{BlockFormat, ZeroPoints};
use crate::problem::description::{count, sizes};

/// Most rows of `f32` whose products read codes. For more rows, storing and loading numbers takes less time than
/// decoding them again for each row: on a Zen 4 from four rows on with AVX2, and from eight on with AVX-512. The second
/// is less here, because processors with two units for vectors of 64 bytes multiply stored numbers faster.
const fn rows_that_read_codes(isa: Isa) -> usize {
    match isa {
        Isa::Avx512 => 5,
        Isa::Avx2 | Isa::Portable => 3,
    }
}

/// Vectors that a panel is wide, and the share of the peak, in percent, that the tallest tile of `f32` reaches with it.
/// No panel is wider: more rows of bytes have room in registers, and one row reads more panels side by side.
const PANEL_VECTORS: [(usize, usize); 2] = [(2, 97), (1, 85)];

/// Panels that all rows see before the next panels are begun: rows of C stay in L2 while the reduction goes on.
const PANEL_BLOCK: usize = 4;

/// Bytes of quantised rows that are multiplied with all panels before the next rows are begun: they stay in L2.
const ROW_BYTES: usize = 512 << 10;

/// The most bytes of a panel that all these rows see before its next blocks: they stay in L1, beside a group of rows.
const PANEL_BYTES: usize = 18 << 10;

/// The forms in which left-hand rows may be multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum LeftElements {
    /// As the `f32` that they are.
    #[default]
    Floats,
    /// As bytes, by blocks with steps of their own (`accuracy_level` 4), or rounded to `bf16`, which loses less; where
    /// that is faster.
    Bytes,
    /// Rounded to `bf16` (`--precision bf16`), where that is faster.
    Bf16,
}

impl LeftElements {
    /// The form where weights of that precision are asked for: `bf16` lets rows be rounded as well.
    #[must_use]
    pub fn at_precision(self, precision: Precision) -> LeftElements {
        match (self, precision) {
            (LeftElements::Floats, Precision::Bf16) => LeftElements::Bf16,
            _ => self,
        }
    }
}

/// A product's sizes, weights and bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct BlockProductShape {
    /// Rows.
    pub m: u64,
    /// Columns.
    pub n: u64,
    /// Length of the reduction.
    pub k: u64,
    /// How weights are quantised.
    pub format: BlockFormat,
    /// Whether a row is added to every row.
    pub bias: bool,
    /// The form in which rows may be multiplied.
    pub left: LeftElements,
}

sizes!(BlockProductShape { m: usize, n: usize, k: usize });

/// How the work is cut: a builder's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlockProductBlocks {
    /// Blocks of a column that are dequantised at a time, where rows are many.
    pub k_blocks: u32,
    /// Tasks, each with some panels.
    pub tasks: u32,
    /// The instructions that multiply rows in lower precision, where they may.
    pub dots: Option<Products>,
}

sizes!(BlockProductBlocks { k_blocks: usize, tasks: usize });

impl BlockProductShape {
    /// The packed weights at that level.
    #[must_use]
    pub fn panels(&self, isa: Isa) -> BlockPanels {
        let width = least_waste(isa, self.n(), &PANEL_VECTORS) * isa.lanes();
        BlockPanels { k: self.k(), n: self.n(), width, format: self.format }
    }

    /// Whether it can be computed at all: a key may be from a file.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        const MOST: u64 = isize::MAX as u64 / 64;
        let fits = |a: u64, b: u64| a.checked_mul(b).is_some_and(|all| all <= MOST);
        // The widest panel of any level, and the longest word.
        let (k, n) = (self.k.saturating_add(256), self.n.saturating_add(64));
        self.format.is_valid()
            && self.k > 0
            && fits(self.m, k)
            && fits(self.m, n)
            && self.k.checked_next_multiple_of(u64::from(self.format.block)).is_some_and(|k| fits(k, n))
    }

    /// The instructions that multiply rows in lower precision, in code of that level with these extensions; `None`
    /// where rows stay `f32`.
    #[must_use]
    pub fn dots(&self, isa: Isa, extensions: Extensions) -> Option<Products> {
        let on_vectors = Products::pick(isa, extensions).filter(|_| self.takes_bytes());
        let panels = self.panels(isa);
        let has_tiles = isa == Isa::Avx512 && extensions.contains(Extension::Amx);
        let takes = has_tiles && self.takes_bf16() && Amx::takes(&panels, Amx::blocks_at_once(&panels));
        if takes && self.m >= Products::least_rows_of_tiles(on_vectors) {
            Some(Products::Bf16Tiles)
        } else {
            on_vectors
        }
    }

    /// Whether rows may be bytes whose products are exact.
    fn takes_bytes(&self) -> bool {
        self.left == LeftElements::Bytes && Dots::takes(&self.format)
    }

    /// Whether rows may be `bf16`.
    fn takes_bf16(&self) -> bool {
        self.left == LeftElements::Bf16 || self.takes_bytes()
    }

    /// Whether rows are so few that products read codes.
    fn reads_codes(&self, isa: Isa) -> bool {
        isa.is_jit() && self.m() <= rows_that_read_codes(isa)
    }
}

impl BlockProductBlocks {
    /// The cost model's pick: numbers of a part of a panel take an eighth of L2 (fewer on AMX), every task has a panel
    /// at least, and rows are in lower precision where they may.
    #[must_use]
    pub fn pick(isa: Isa, extensions: Extensions, shape: &BlockProductShape, threads: usize) -> BlockProductBlocks {
        const NUMBERS: usize = 1 << 17;
        let panels = shape.panels(isa);
        let rows = NUMBERS / (panels.width * 4);
        let dots = shape.dots(isa, extensions);
        let k_blocks = match dots {
            Some(Products::Bf16Tiles) => Amx::blocks_at_once(&panels),
            _ => (rows / shape.format.block()).clamp(1, panels.blocks().max(1)),
        };
        let tasks = count(threads.clamp(1, panels.count().max(1)));
        BlockProductBlocks { k_blocks: count(k_blocks), tasks, dots }
    }

    /// Whether a driver can take them for that shape and level: a choice may come from a file.
    #[must_use]
    pub fn fits(&self, shape: &BlockProductShape, isa: Isa) -> bool {
        let panels = shape.panels(isa);
        let takes = |products| match products {
            Products::Bf16Tiles => shape.takes_bf16() && Amx::takes(&panels, self.k_blocks()),
            Products::Fours | Products::Pairs => shape.takes_bytes(),
        };
        self.dots.is_none_or(|products| takes(products) && products.usable(isa))
            && (1..=panels.blocks().max(1)).contains(&self.k_blocks())
            && (1..=panels.count().max(1)).contains(&self.tasks())
    }
}

/// A product that is ready to run.
#[derive(Clone, Debug)]
pub struct BlockProduct {
    shape: BlockProductShape,
    blocks: BlockProductBlocks,
    isa: Isa,
    panels: BlockPanels,
    kernels: Kernels,
}

#[derive(Clone, Debug)]
enum Kernels {
    /// Rows that are multiplied with codes.
    Rows(Row),
    /// Rows of bytes: groups of rows side by side, and a last group of fewer rows.
    Bytes { groups: Dots, rest: Option<Dots> },
    /// Many rows of `bf16`.
    Tiled(Amx),
    /// Rows that are multiplied with numbers.
    Tiles { expand: Expand, tile: MicroKernel, tiles: Tiles },
}

/// Rows and panels of C.
struct Part {
    rows: Range<usize>,
    panels: Piece,
}

/// The operands of one run, as tasks see them.
struct Buffers<'a> {
    left: &'a [f32],
    weights: &'a [u8],
    bias: Option<&'a [f32]>,
    scratch: Disjoint<'a, f32>,
    c: Disjoint<'a, f32>,
    given: Given,
}

impl BlockProduct {
    /// Makes a product ready: gets its kernels from `source`. `ahead` is the best distance for a single row, and
    /// changes no result.
    ///
    /// # Errors
    ///
    /// For shapes and blocks that are not valid, and where kernels cannot be made.
    pub fn new(
        isa: Isa,
        shape: BlockProductShape,
        blocks: BlockProductBlocks,
        ahead: Ahead,
        source: &dyn CodeSource,
    ) -> Result<BlockProduct> {
        let refuse = |reason: String| Err(KernelError::Unsupported { family: FAMILY, reason });
        if !shape.is_valid() {
            return refuse(format!("a product of {shape:?}"));
        }
        if !blocks.fits(&shape, isa) {
            return refuse(format!("{blocks:?} do not fit {shape:?}"));
        }
        let panels = shape.panels(isa);
        // Codes are multiplied in another order than numbers. Bytes are multiplied in one order, however many rows
        // there are.
        let kernels = if blocks.dots == Some(Products::Bf16Tiles) {
            Kernels::Tiled(Amx::new(isa, shape.m(), panels, blocks.k_blocks(), blocks.tasks(), source)?)
        } else if let Some(products) = blocks.dots {
            let rows = Dots::rows_of(isa, products, &panels, shape.m());
            let dots = |rows, streams| Dots::new(isa, ByteRows { panels, rows, products }, streams, ahead, source);
            let groups = dots(rows, STREAMS)?;
            let rest = shape.m() % rows;
            let rest = (rest > 0).then(|| dots(rest, groups.kernels.most())).transpose()?;
            Kernels::Bytes { groups, rest }
        } else if shape.reads_codes(isa) && !source.in_order() {
            Kernels::Rows(Row::new(isa, panels, ahead, source)?)
        } else {
            let vectors = panels.width / isa.lanes();
            let tiles = Tiles::new(shape.m(), most_rows(isa, vectors));
            let key = TileCode::sums(isa, vectors as u8, LeftRows::Strided, RightColumns::Packed);
            let tile = MicroKernel::new(key, [tiles], source)?;
            Kernels::Tiles { expand: Expand::new(isa, panels, ExpandedNumbers::F32, source)?, tile, tiles }
        };
        Ok(BlockProduct { shape, blocks, isa, panels, kernels })
    }

    /// Length of the reduction, up to whole words.
    fn padded(&self) -> usize {
        self.panels.words() * self.shape.format.codes.per_word()
    }

    /// Rows that are dequantised at a time.
    fn expanded_rows(&self) -> usize {
        self.padded().min(self.blocks.k_blocks() * self.shape.format.block())
    }

    /// Elements of rows that are copied because the reduction ends inside of a word.
    fn copied_len(&self) -> usize {
        if self.padded() == self.shape.k() { 0 } else { self.shape.m() * self.padded() }
    }

    /// Elements of the sums of blocks of all rows.
    fn sums_len(&self) -> usize {
        match self.shape.format.zeros {
            ZeroPoints::Middle => 0,
            ZeroPoints::Bytes | ZeroPoints::F32 => self.shape.m() * self.panels.blocks(),
        }
    }

    /// Elements of scratch that [`BlockProduct::run`] needs.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        match &self.kernels {
            // The last panel's bias and sums.
            Kernels::Rows(_) => self.copied_len() + self.sums_len() + 2 * self.panels.width,
            Kernels::Bytes { groups, rest } => {
                let groups_len = self.shape.m() / groups.rows.rows * groups.rows.len();
                let last = (1 + groups.rows.rows) * self.panels.width;
                groups_len + rest.as_ref().map_or(0, |rest| rest.rows.len()) + last
            }
            Kernels::Tiled(amx) => amx.scratch_len(),
            Kernels::Tiles { .. } => self.blocks.tasks() * self.expanded_rows() * self.panels.width,
        }
    }

    /// Multiplies.
    ///
    /// # Errors
    ///
    /// Where an operand is shorter than the shape says, or there is no bias although one was announced.
    pub fn run(
        &self,
        left: &[f32],
        weights: &[u8],
        bias: Option<&[f32]>,
        c: &mut [f32],
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let (m, n, k) = (self.shape.m(), self.shape.n(), self.shape.k());
        for (operand, have, need) in [
            ("left", left.len(), m * k),
            ("weights", weights.len(), self.panels.bytes()),
            ("bias", bias.map_or(0, <[f32]>::len), if self.shape.bias { n } else { 0 }),
            ("C", c.len(), m * n),
            ("scratch", scratch.len(), self.scratch_len()),
        ] {
            if have < need {
                return Err(KernelError::Bounds { family: FAMILY, operand, have, need });
            }
        }
        if m == 0 || n == 0 {
            return Ok(());
        }
        let bias = bias.filter(|_| self.shape.bias).map(|bias| &bias[..n]);
        let given = Given::new().read("left", left).read("weights", weights).maybe("bias", bias);
        let given = given.write("C", c).write("scratch", scratch);
        match &self.kernels {
            Kernels::Rows(row) => {
                let given = row.given(given);
                let (copied, rest) = scratch.split_at_mut(self.copied_len());
                let (sums, scratch) = rest.split_at_mut(self.sums_len());
                let left = self.whole_words(left, copied);
                self.add_blocks(left, sums);
                let (scratch, c) = (Disjoint::new(scratch), Disjoint::new(c));
                let buffers = Buffers { left, weights, bias, scratch, c, given };
                self.shared(row.kernels.sizes(), weights, parallel, &|panels| {
                    self.few_rows(row, sums, &buffers, panels);
                });
            }
            Kernels::Bytes { groups, rest } => {
                let last = scratch.len() - (1 + groups.rows.rows) * self.panels.width;
                let (rows, scratch) = scratch.split_at_mut(last);
                let rows = self.quantised(groups, rest.as_ref(), &left[..m * k], rows, parallel);
                let (scratch, c) = (Disjoint::new(scratch), Disjoint::new(c));
                let buffers = Buffers { left, weights, bias, scratch, c, given };
                let multiply = |rows_of: Range<usize>, panels: Piece| {
                    self.rows_of_bytes(groups, rest.as_ref(), rows, &buffers, Part { rows: rows_of, panels });
                };
                // One group reads each panel once.
                if m <= groups.rows.rows {
                    self.shared(groups.kernels.sizes(), weights, parallel, &|panels| multiply(0..m, panels));
                } else {
                    let chunk = (ROW_BYTES / (4 * groups.rows.len())).max(1) * groups.rows.rows;
                    self.tasks(parallel, &|_, panels| {
                        let pieces = groups.kernels.pieces(panels);
                        for first in (0..m).step_by(chunk).take_while(|_| !parallel.is_stopped()) {
                            pieces.all().for_each(|panels| multiply(first..m.min(first + chunk), panels));
                        }
                    });
                }
            }
            Kernels::Tiled(amx) => amx.run(AmxOperands { left, weights, bias, c, given }, scratch, parallel),
            Kernels::Tiles { expand, tile, tiles } => {
                let given = expand.given(given);
                let (scratch, c) = (Disjoint::new(scratch), Disjoint::new(c));
                let buffers = Buffers { left, weights, bias, scratch, c, given };
                self.tasks(parallel, &|task, panels| {
                    for block in panels.clone().step_by(PANEL_BLOCK) {
                        if parallel.is_stopped() {
                            return;
                        }
                        let block = block..panels.end.min(block + PANEL_BLOCK);
                        self.many_rows(expand, tile, *tiles, &buffers, task, block);
                    }
                });
            }
        }
        Ok(())
    }

    /// Rows of one group, which read each panel once, so that memory bounds them. Threads take panels from each other:
    /// one that has prefetched its own is done sooner. `pieces` are the panels of a piece, and of one of the last pieces.
    fn shared(&self, pieces: [usize; 2], weights: &[u8], parallel: &dyn Parallel, product: &(dyn Fn(Piece) + Sync)) {
        if !has_shares(parallel, self.blocks.tasks()) {
            return self.tasks(parallel, &|_, panels| Pieces::new(panels, pieces).all().for_each(product));
        }
        let (units, bytes) = (self.panels.count(), self.panels.panel_bytes());
        let (address, room) = (weights.as_ptr() as usize, Caches::of_machine().room_ahead());
        in_shares(parallel, Reads { address, units, bytes, pieces, room }, product);
    }

    /// All tasks, each some panels.
    fn tasks(&self, parallel: &dyn Parallel, product: &(dyn Fn(usize, Range<usize>) + Sync)) {
        let tasks = self.blocks.tasks();
        parallel.run(tasks, &|task| product(task, part(self.panels.count(), tasks, task)));
    }

    /// The left-hand rows, each padded with zeros to whole words.
    fn whole_words<'a>(&self, left: &'a [f32], copied: &'a mut [f32]) -> &'a [f32] {
        if copied.is_empty() {
            return left;
        }
        let rows = left.chunks_exact(self.shape.k());
        for (row, to) in rows.zip(copied.chunks_exact_mut(self.padded())) {
            let (own, padding) = to.split_at_mut(row.len());
            own.copy_from_slice(row);
            padding.fill(0.0);
        }
        copied
    }

    /// Adds up each block of the left-hand rows.
    fn add_blocks(&self, left: &[f32], sums: &mut [f32]) {
        // Independent sums, so that additions do not wait for each other.
        const LANES: usize = 16;
        let rows = left.chunks_exact(self.padded());
        for (row, sums) in rows.zip(sums.chunks_exact_mut(self.panels.blocks())) {
            for (block, sum) in row.chunks(self.shape.format.block()).zip(sums) {
                let (lanes, rest) = block.as_chunks::<LANES>();
                let mut total = [0.0f32; LANES];
                lanes.iter().for_each(|lanes| total.iter_mut().zip(lanes).for_each(|(total, value)| *total += value));
                *sum = total.iter().sum::<f32>() + rest.iter().sum::<f32>();
            }
        }
    }

    /// A piece without the matrix's last panel, where that has fewer columns than kernels write; and that panel.
    fn split_last(&self, piece: Piece) -> (Option<Piece>, Option<Piece>) {
        let narrow = self.shape.n() / self.panels.width;
        if piece.units().last() != Some(narrow) {
            return (Some(piece), None);
        }
        // Only small pieces end with the last panel, so there is a kernel for the others.
        let whole = Piece { count: piece.count - 1, ..piece };
        (Some(whole).filter(|whole| whole.count > 0), Some(Piece::one(narrow)))
    }

    /// Some panels of a few rows.
    fn few_rows(&self, row: &Row, sums: &[f32], buffers: &Buffers<'_>, piece: Piece) {
        let (n, width) = (self.shape.n(), self.panels.width);
        let (whole, last) = self.split_last(piece);
        for panels in [whole, last].into_iter().flatten() {
            let weights = buffers.weights[panels.first * self.panels.panel_bytes()..].as_ptr();
            for index in 0..self.shape.m() {
                let at = index * n + panels.first * width;
                let operands = RowOperands {
                    left: buffers.left[index * self.padded()..].as_ptr(),
                    sums: sums.get(index * self.panels.blocks()..).map_or(std::ptr::null(), <[f32]>::as_ptr),
                    panels: weights,
                    bias: buffers.bias.map_or(std::ptr::null(), |bias| bias[panels.first * width..].as_ptr()),
                    c: buffers.c.at(at),
                };
                // SAFETY: `run` has checked all operands against the shape: the row spans whole words, the sums all
                // blocks, the weights all panels, bias and C whole panels. Pieces have panels of their own, so that
                // only one task has the narrower panel.
                unsafe {
                    match last == Some(panels) {
                        false => row.run(operands, panels, &buffers.given),
                        true => self.last_panel(row, operands, at, buffers),
                    }
                }
            }
        }
    }

    /// The last panel of a row, where it has fewer columns than kernels write: its bias and its sums are in scratch.
    ///
    /// # Safety
    ///
    /// As for [`Row::run`], with bias and C over the columns that there are; C's are those from element `at` on. No
    /// other task uses scratch.
    unsafe fn last_panel(&self, row: &Row, operands: RowOperands, at: usize, buffers: &Buffers<'_>) {
        let (n, width) = (self.shape.n(), self.panels.width);
        let columns = n % width;
        // SAFETY: scratch holds two rows of a panel, which this task alone uses.
        let (bias, sums) = unsafe { buffers.scratch.part(0..2 * width) }.split_at_mut(width);
        let mut operands = RowOperands { c: sums.as_mut_ptr(), ..operands };
        if let Some(from) = buffers.bias {
            bias.fill(0.0);
            bias[..columns].copy_from_slice(&from[n - columns..]);
            operands.bias = bias.as_ptr();
        }
        // SAFETY: the caller's contract; bias and sums span a whole panel.
        unsafe { row.run(operands, Piece::one(n / width), &buffers.given) };
        // SAFETY: columns of this task's panel.
        unsafe { buffers.c.part(at..at + columns) }.copy_from_slice(&sums[..columns]);
    }

    /// Left-hand rows as bytes, group after group.
    fn quantised<'a>(
        &self,
        groups: &Dots,
        rest: Option<&Dots>,
        left: &[f32],
        scratch: &'a mut [f32],
        parallel: &dyn Parallel,
    ) -> &'a [u32] {
        let (each, k) = (groups.rows, self.shape.k());
        let whole = self.shape.m() / each.rows;
        let words: &mut [u32] = bytemuck::cast_slice_mut(scratch);
        let (of_groups, of_rest) = words.split_at_mut(whole * each.len());
        for_each_chunk(parallel, of_groups, each.len(), &|group, to| {
            each.quantise(self.isa, &left[group * each.rows * k..][..each.rows * k], to);
        });
        if let Some(rest) = rest {
            rest.rows.quantise(self.isa, &left[whole * each.rows * k..], of_rest);
        }
        words
    }

    /// Some rows by some panels: a panel is multiplied with all of these rows before the next ones.
    fn rows_of_bytes(&self, groups: &Dots, rest: Option<&Dots>, rows: &[u32], buffers: &Buffers<'_>, part: Part) {
        let (n, width, each) = (self.shape.n(), self.panels.width, groups.rows.rows);
        // A single group reads each panel once. Others read parts of one size, since each part is a call.
        let blocks = match part.rows.len() > each {
            true => self.panels.blocks().div_ceil(self.panels.panel_bytes().div_ceil(PANEL_BYTES)),
            false => self.panels.blocks(),
        };
        let (whole, last) = self.split_last(part.panels);
        for panels in [whole, last].into_iter().flatten() {
            for start in (0..self.panels.blocks()).step_by(blocks) {
                let blocks = start..self.panels.blocks().min(start + blocks);
                for first in part.rows.clone().step_by(each) {
                    let dots = rest.filter(|_| self.shape.m() - first < each).unwrap_or(groups);
                    let column = panels.first * width;
                    let operands = DotOperands {
                        rows: rows[first / each * groups.rows.len()..].as_ptr(),
                        panels: buffers.weights[panels.first * self.panels.panel_bytes()..].as_ptr(),
                        bias: buffers.bias.map_or(std::ptr::null(), |bias| bias[column..].as_ptr()),
                        c: buffers.c.at(first * n + column),
                        ldc: n * 4,
                    };
                    // SAFETY: `run` has checked all operands against the shape: quantised rows span all words, the
                    // weights all panels, bias and C whole panels. Pieces have panels of their own, so that only one
                    // task has the narrower panel.
                    unsafe {
                        match last == Some(panels) {
                            false => dots.run(operands, blocks.clone(), panels, &buffers.given),
                            true => self.last_panel_of_bytes(dots, operands, blocks.clone(), first, buffers),
                        }
                    }
                }
            }
        }
    }

    /// The last panel of rows from `first` on, where it has fewer columns than kernels write: its bias and its sums are
    /// in scratch.
    ///
    /// # Safety
    ///
    /// As for [`Dots::run`], with bias and C over the columns that there are. No other task uses scratch.
    unsafe fn last_panel_of_bytes(
        &self,
        dots: &Dots,
        operands: DotOperands,
        blocks: Range<usize>,
        first: usize,
        buffers: &Buffers<'_>,
    ) {
        let (n, width, rows) = (self.shape.n(), self.panels.width, dots.rows.rows);
        let columns = n % width;
        // SAFETY: scratch holds a row of a panel and the sums of a group, which this task alone uses.
        let (bias, sums) = unsafe { buffers.scratch.part(0..(1 + rows) * width) }.split_at_mut(width);
        let mut operands = DotOperands { c: sums.as_mut_ptr(), ldc: width * 4, ..operands };
        if let Some(from) = buffers.bias {
            bias.fill(0.0);
            bias[..columns].copy_from_slice(&from[n - columns..]);
            operands.bias = bias.as_ptr();
        }
        let place = |row: usize| {
            let at = (first + row) * n + n - columns;
            at..at + columns
        };
        if blocks.start > 0 {
            sums.fill(0.0);
            for (row, sums) in sums.chunks_exact_mut(width).enumerate() {
                // SAFETY: columns of this task's panel.
                sums[..columns].copy_from_slice(unsafe { buffers.c.part(place(row)) });
            }
        }
        // SAFETY: the caller's contract; bias and sums span a whole panel.
        unsafe { dots.run(operands, blocks, Piece::one(n / width), &buffers.given) };
        for (row, sums) in sums.chunks_exact(width).enumerate() {
            // SAFETY: columns of this task's panel.
            unsafe { buffers.c.part(place(row)) }.copy_from_slice(&sums[..columns]);
        }
    }

    /// Some panels of many rows, one part of the reduction after another.
    fn many_rows(
        &self,
        expand: &Expand,
        tile: &MicroKernel,
        tiles: Tiles,
        buffers: &Buffers<'_>,
        task: usize,
        panels: Range<usize>,
    ) {
        let (n, k, width) = (self.shape.n(), self.shape.k(), self.panels.width);
        let room = self.expanded_rows() * width;
        // SAFETY: scratch has a room for each task.
        let numbers = unsafe { buffers.scratch.part(task * room..(task + 1) * room) };
        let mut args = TileArgs::empty();
        (args.lda, args.ldc) = (k * 4, n * 4);
        for first in (0..k).step_by(self.expanded_rows()) {
            let rows = self.expanded_rows().min(self.padded() - first);
            args.reduce_over(first, rows.min(k - first));
            args.resume = usize::from(first > 0);
            for panel in panels.clone() {
                let from = &buffers.weights[panel * self.panels.panel_bytes()..][..self.panels.panel_bytes()];
                let numbers = &mut numbers[..rows * width];
                expand.run(from, first / self.shape.format.block(), numbers, &buffers.given);
                args.keep_columns(self.panels.columns_of(panel), width, self.isa.lanes());
                args.bias = buffers.bias.map_or(std::ptr::null(), |bias| bias[panel * width..].as_ptr());
                args.b = numbers.as_ptr().cast();
                for run in tiles.runs(0..tiles.count()) {
                    args.rows = run.height;
                    args.tiles.set(run.count);
                    args.a.set(buffers.left[run.row * k..].as_ptr().cast());
                    args.a_tile_stride = run.height * args.lda;
                    args.c.set(buffers.c.at(run.row * n + panel * width).cast());
                    args.c_tile_stride = run.height * args.ldc;
                    // SAFETY: `run` has checked all operands against the shape, and tasks have panels of their own.
                    unsafe { tile.call(&args, &buffers.given) };
                }
            }
        }
    }
}
