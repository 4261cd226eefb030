//! What a convolution costs on tiles and directly, and how its work is cut.

use super::matrices::WinogradTile;
use super::{Grid, suits};
use crate::cpu::conv::driver::{ConvBlocks, Strategy};
use crate::cpu::conv::shape::ConvShape;
use crate::cpu::gemm::model::second_cache;
use crate::cpu::gemm::tile::{most_rows, panel_vectors};
use crate::cpu::numerics::Numerics;
use crate::isa::Isa;

/// Fewest tiles of a group that are worth reading all weights for.
const FEW_TILES: usize = 24;

/// The sizes of tiles that a policy allows.
pub(in crate::cpu::conv) fn allowed(numerics: Numerics) -> &'static [WinogradTile] {
    match numerics {
        Numerics::Strict => &[],
        Numerics::Precise => &[WinogradTile::Two],
        Numerics::Default => &[WinogradTile::Two, WinogradTile::Four],
    }
}

/// Blocks for a shape on tiles.
pub(in crate::cpu::conv) fn blocks(isa: Isa, shape: &ConvShape, tile: WinogradTile, threads: usize) -> ConvBlocks {
    let vectors = panel_vectors(isa, shape.filters);
    let most = most_rows(isa, vectors).max(1);
    // The points of a group are read for each block of filters: they should stay in half of the second cache. Weights
    // are read for each group, from further away: groups must not be small.
    let row_bytes = tile.points() * shape.channels.next_multiple_of(isa.lanes()).max(1) * 4;
    let tiles = (second_cache(isa) / 2 / row_bytes).clamp(FEW_TILES, 16 * most) / most * most;
    let total = Grid::new(shape, tile, 1).total();
    let mut groups = total.div_ceil(tiles).max(1);
    let (mut row_tasks, mut unit_tasks) = (1, 1);
    if threads > 1 {
        if total >= threads * FEW_TILES {
            groups = groups.next_multiple_of(threads);
            row_tasks = threads;
        } else {
            let units = shape.filters.div_ceil(vectors * isa.lanes()).max(1);
            unit_tasks = threads.min(units);
        }
    }
    let row_block = total.div_ceil(groups).max(1);
    let row_tasks = row_tasks.min(Grid::new(shape, tile, row_block).groups()).max(1);
    ConvBlocks { strategy: Strategy::Winograd(tile), vectors, row_block, row_tasks, unit_tasks }
}

/// The size of tiles that is faster than the direct convolution of that shape, if any that `numerics` allows is.
pub(in crate::cpu::conv) fn pick(
    isa: Isa,
    shape: &ConvShape,
    numerics: Numerics,
    threads: usize,
) -> Option<ConvBlocks> {
    if !suits(shape) {
        return None;
    }
    let (blocks, cost) = allowed(numerics)
        .iter()
        .map(|&tile| blocks(isa, shape, tile, threads))
        .map(|blocks| (blocks, on_tiles(isa, shape, &blocks)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (cost < direct(isa, shape)).then_some(blocks)
}

/// What reading a vector of packed weights from memory costs, in multiply-adds of one vector. Measured in a network
/// whose weights no cache holds.
const WEIGHT_FROM_MEMORY: f64 = 8.0;

/// The same for reading it again from a cache.
const WEIGHT_FROM_CACHE: f64 = 3.0;

/// What a transform costs for each point of a vector of channels, in multiply-adds of one vector. Measured where there
/// are few channels.
const TRANSFORMED_POINT: f64 = 6.0;

/// The time of a direct convolution, in multiply-adds of one vector.
fn direct(isa: Isa, shape: &ConvShape) -> f64 {
    let lanes = isa.lanes();
    let positions = shape.output_len() as f64 / shape.filters.max(1) as f64;
    let columns = shape.filters.next_multiple_of(panel_vectors(isa, shape.filters) * lanes) / lanes;
    shape.taps() as f64 * shape.channels as f64 * columns as f64 * (positions + WEIGHT_FROM_MEMORY)
}

/// The time of the same on tiles.
fn on_tiles(isa: Isa, shape: &ConvShape, blocks: &ConvBlocks) -> f64 {
    let Strategy::Winograd(tile) = blocks.strategy else { return f64::INFINITY };
    let grid = Grid::new(shape, tile, blocks.row_block);
    let (tiles, points, lanes) = (grid.total() as f64, tile.points() as f64, isa.lanes());
    let vectors = shape.channels.div_ceil(lanes) as f64;
    let columns = (shape.filters.next_multiple_of(blocks.vectors * lanes) / lanes) as f64;
    // Weights are read once for each group.
    let read = WEIGHT_FROM_MEMORY + WEIGHT_FROM_CACHE * grid.groups().saturating_sub(1) as f64;
    let products = shape.channels as f64 * columns * (tiles + read);
    points * (products + tiles * TRANSFORMED_POINT * (vectors + columns))
}
