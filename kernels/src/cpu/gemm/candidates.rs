//! Cuts of a matrix product that are worth a measurement besides the cost model's.
//!
//! All cuts run the same kernels on the same numbers: they differ in time and in the order of additions. A packed
//! right-hand side stays as it is packed. Knows no clock.

use super::matmul::{Epilogue, MatmulBlocks, MatmulShape, Right};
use super::model::tile_rows;
use super::tile_size::MOST_VECTORS;
use crate::cpu::Elements;
use crate::cpu::amx::STEP;
use crate::isa::Isa;
use crate::problem::description::count;

/// The shortest part of a reduction for which storing sums pays.
const SHORT_REDUCTION: usize = 128;

impl MatmulBlocks {
    /// At most `most` different cuts that a driver takes for that shape: the cost model's pick first, then cuts that
    /// differ from it in one thing, then cuts that differ in two.
    #[must_use]
    pub fn candidates(
        isa: Isa,
        shape: &MatmulShape,
        epilogue: &Epilogue,
        threads: usize,
        most: usize,
    ) -> Vec<MatmulBlocks> {
        let pick = MatmulBlocks::pick(isa, shape, epilogue, threads);
        let mut found = vec![pick];
        let once = changes(isa, shape, &pick, threads);
        let twice = once.iter().flat_map(|first| changes(isa, shape, first, threads));
        let takes_factor = |blocks: &MatmulBlocks| blocks.takes(epilogue);
        let mut effects = vec![effect(isa, shape, &pick)];
        for blocks in once.iter().copied().chain(twice) {
            if found.len() >= most.max(1) {
                break;
            }
            let own = effect(isa, shape, &blocks);
            if takes_factor(&blocks) && blocks.fits(shape, isa) && !effects.contains(&own) {
                effects.push(own);
                found.push(blocks);
            }
        }
        found
    }
}

/// Cuts that differ from that one in a single thing, the most promising first.
fn changes(isa: Isa, shape: &MatmulShape, from: &MatmulBlocks, threads: usize) -> Vec<MatmulBlocks> {
    let (tiles, panels) = extent(isa, shape, from.vectors());
    let batches = shape.batches().max(1);
    let mut found = Vec::new();
    if threads > 1 {
        // Rows, columns, batches: each cut once into a part for every thread, and once finer, so that a delayed thread
        // leaves work to others.
        let whole = [(1, 1, threads), (1, threads, 1), (threads, 1, 1)];
        let finer = [4, 2].into_iter().flat_map(|by| whole.map(|(b, r, p)| (b, r * by, p * by)));
        let both = [(1, threads / 2, 2), (1, 2, threads), (batches, 1, threads), (batches, threads, 1), (1, 1, 1)];
        for (batch_tasks, row_tasks, panel_tasks) in whole.into_iter().chain(finer).chain(both) {
            let within = batch_tasks <= batches && row_tasks <= tiles && panel_tasks <= panels;
            if within && row_tasks > 0 {
                let (batch_tasks, row_tasks, panel_tasks) = (count(batch_tasks), count(row_tasks), count(panel_tasks));
                found.push(MatmulBlocks { batch_tasks, row_tasks, panel_tasks, ..*from });
            }
        }
    }
    if matches!(shape.right, Right::Rows { .. }) {
        found.insert(0, MatmulBlocks { pack: !from.pack, ..*from });
    }
    for parts in [2, 3, 4] {
        // Elements may lie in pairs or in steps of AMX, which a cut must not divide.
        let whole = if shape.elements() == Elements::Bf16Tiles { STEP } else { 2 };
        let k_block = shape.k.div_ceil(parts).next_multiple_of(whole);
        if k_block >= SHORT_REDUCTION {
            found.push(MatmulBlocks { k_block: count(k_block), ..*from });
        }
    }
    found.push(MatmulBlocks { k_block: count(shape.k.max(1)), ..*from });
    for row_block in [from.row_block() / 2, from.row_block() * 2, tiles] {
        found.push(MatmulBlocks { row_block: count(row_block.clamp(1, tiles)), ..*from });
    }
    for panel_block in [from.panel_block() / 2, from.panel_block() * 2, panels] {
        found.push(MatmulBlocks { panel_block: count(panel_block.clamp(1, panels)), ..*from });
    }
    if !matches!(shape.right, Right::Packed { .. }) {
        found.extend((1..=MOST_VECTORS as u8).map(|vectors| MatmulBlocks { vectors, ..*from }));
    }
    found
}

/// The part of a cut that makes a difference: two cuts with equal effects do the same in the same order.
fn effect(isa: Isa, shape: &MatmulShape, blocks: &MatmulBlocks) -> MatmulBlocks {
    let (tiles, panels) = extent(isa, shape, blocks.vectors());
    let row_block = blocks.row_block().min(tiles.div_ceil(blocks.row_tasks().max(1)));
    let k_block = blocks.k_block().min(shape.k.max(1));
    let mine = panels.div_ceil(blocks.panel_tasks().max(1));
    // A task multiplies one panel after another with all its rows. With a single block of rows and a single one of the
    // reduction, the grouping of panels makes no difference.
    let whole = row_block >= tiles.div_ceil(blocks.row_tasks().max(1)) && k_block >= shape.k;
    let panel_block = if whole { mine } else { blocks.panel_block().min(mine) };
    MatmulBlocks { row_block: count(row_block), k_block: count(k_block), panel_block: count(panel_block), ..*blocks }
}

/// Tiles of rows and panels of columns.
fn extent(isa: Isa, shape: &MatmulShape, vectors: usize) -> (usize, usize) {
    let tiles = shape.m.div_ceil(tile_rows(isa, shape, vectors)).max(1);
    (tiles, shape.n.div_ceil((vectors * isa.lanes()).max(1)).max(1))
}

#[cfg(test)]
mod tests;
