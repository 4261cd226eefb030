//! Cost of a convolution by Winograd and directly, and how its work is cut.

use super::grid::{few, panels};
use super::matrices::WinogradTile;
use super::{Grid, suits};
use crate::cpu::Elements;
use crate::cpu::conv::blocks::{ConvBlocks, Strategy};
use crate::cpu::gemm::model::l2_bytes;
use crate::cpu::gemm::{most_rows, panel_vectors};
use crate::cpu::machine::Speeds;
use crate::cpu::numerics::Numerics;
use crate::isa::Isa;
use crate::problem::conv::ConvShape;
use crate::problem::description::count;

/// The least tiles of a group for which reading all weights pays.
const FEW_TILES: usize = 24;

/// Bytes of a group's points where weights are transformed along the way: a quarter of L3.
const POINTS: usize = 8 << 20;

/// Most tiles of such a group: transforming the weights then costs 2 % of multiplying, and a panel's products fill half
/// of L2.
const MOST_TILES: usize = 128;

/// The sizes of tiles that a policy allows.
pub(in crate::cpu::conv) fn allowed(numerics: Numerics) -> &'static [WinogradTile] {
    match numerics {
        Numerics::Strict => &[],
        Numerics::Precise => &[WinogradTile::Two],
        Numerics::Default | Numerics::Invariant => &[WinogradTile::Two, WinogradTile::Four],
    }
}

/// Blocks for a shape on tiles.
pub(in crate::cpu::conv) fn blocks(
    isa: Isa,
    shape: &ConvShape,
    elements: Elements,
    tile: WinogradTile,
    threads: usize,
) -> ConvBlocks {
    let vectors = panel_vectors(isa, shape.filters());
    let most = most_rows(isa, vectors).max(1);
    let total = Grid::new(shape, tile, 1).total();
    let panels = panels(shape, vectors * isa.lanes());
    let row_bytes = tile.points() * shape.channels().next_multiple_of(isa.lanes()).max(1) * 4;
    let (ahead, units) = (few(tile, &panels), panels.count().max(1));
    let tiles = if ahead {
        // The points of a group are read for each block of filters: they should stay in half of L2, however small L2
        // is. Transformed weights are read for each group, from L3 or memory: groups must not be small.
        let near = if isa == Isa::Avx512 { l2_bytes() } else { l2_bytes() / 2 };
        (near / row_bytes).clamp(FEW_TILES, 16 * most)
    } else {
        // A panel's weights are transformed for each group, and then stay in L2.
        (POINTS / row_bytes).clamp(FEW_TILES, MOST_TILES)
    };
    let tiles = tiles / most * most;
    let mut groups = total.div_ceil(tiles).max(1);
    let (mut row_tasks, mut unit_tasks) = (1, 1);
    if threads > 1 {
        if ahead && total >= threads * FEW_TILES {
            groups = groups.next_multiple_of(threads);
            row_tasks = threads;
        } else {
            unit_tasks = threads.min(units);
            // Too few panels for all threads: several groups at a time.
            row_tasks = (threads / unit_tasks).min(total / FEW_TILES).max(1);
            groups = groups.next_multiple_of(row_tasks);
        }
    }
    let row_block = total.div_ceil(groups).max(1);
    let row_tasks = row_tasks.min(Grid::new(shape, tile, row_block).groups()).max(1);
    ConvBlocks {
        strategy: Strategy::Winograd(tile),
        elements,
        vectors: vectors as u8,
        row_block: count(row_block),
        row_tasks: count(row_tasks),
        unit_tasks: count(unit_tasks),
    }
}

/// The size of tiles that `numerics` allows and that is faster than the direct convolution of that shape, if there is
/// one.
pub(in crate::cpu::conv) fn pick(
    isa: Isa,
    shape: &ConvShape,
    elements: Elements,
    numerics: Numerics,
    threads: usize,
    speeds: &Speeds,
) -> Option<ConvBlocks> {
    if !suits(shape) {
        return None;
    }
    let (blocks, cost) = allowed(numerics)
        .iter()
        .map(|&tile| blocks(isa, shape, elements, tile, threads))
        .map(|blocks| (blocks, on_tiles(isa, shape, &blocks, speeds)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (cost < direct(isa, shape, elements, speeds)).then_some(blocks)
}

/// The cost of transforming weights, for each point of a vector of weights, in multiply-adds of one vector: the
/// transform is three, the rest is storing and reading twice as many bytes with AVX-512. Measured with few tiles of
/// either size, on one and two threads; with AVX-512 on one thread, where 256 channels of 14x14 and 512 of 7x7 say 16
/// to 18.
const fn transformed_weight(isa: Isa, elements: Elements) -> f64 {
    match (isa, elements) {
        // Half as many bytes are read: 256 channels of 16x16 take 0.75 of the direct time, of 14x14 as long.
        (Isa::Avx512, Elements::Bf16Dot) => 12.0,
        (Isa::Avx512, _) => 16.0,
        (Isa::Portable | Isa::Avx2, _) => 6.0,
    }
}

/// The cost of a tap for a row of a tile that multiplies pairs, in multiply-adds of one vector: loading the tap's
/// pointer, and the ends of a loop of half as many steps. 16 channels and filters of 256x256 take 1.2 times as long as
/// on tiles.
const TAP_OF_PAIRS: f64 = 3.5;

/// The cost of a transform for each point of a vector of channels, in multiply-adds of one vector. Measured with few
/// channels.
const TRANSFORMED_POINT: f64 = 12.0;

/// The time of a direct convolution, in multiply-adds of one vector of `f32`. With pairs, half as many bytes of weights
/// come from memory.
fn direct(isa: Isa, shape: &ConvShape, elements: Elements, speeds: &Speeds) -> f64 {
    let lanes = isa.lanes();
    let positions = shape.output_len() as f64 / shape.filters().max(1) as f64;
    let columns = shape.filters().next_multiple_of(panel_vectors(isa, shape.filters()) * lanes) / lanes;
    let steps = shape.taps() as f64 * elements.left_words(shape.channels()) as f64;
    let panels = shape.filters().div_ceil(panel_vectors(isa, shape.filters()) * lanes) as f64;
    let (product, pointers) =
        if elements == Elements::Bf16Dot { (speeds.vector_of_pairs, TAP_OF_PAIRS) } else { (1.0, 0.0) };
    let products = steps * columns as f64 * (positions * product + speeds.weight_from_memory);
    products + shape.taps() as f64 * positions * panels * pointers
}

/// The time of the same convolution on tiles.
fn on_tiles(isa: Isa, shape: &ConvShape, blocks: &ConvBlocks, speeds: &Speeds) -> f64 {
    let Strategy::Winograd(tile) = blocks.strategy else { return f64::INFINITY };
    let grid = Grid::new(shape, tile, blocks.row_block());
    let (tiles, points, lanes) = (grid.total() as f64, tile.points() as f64, isa.lanes());
    let vectors = shape.channels().div_ceil(lanes) as f64;
    let columns = (shape.filters().next_multiple_of(blocks.vectors() * lanes) / lanes) as f64;
    let ahead = blocks.unit_tasks() == 1 && few(tile, &panels(shape, blocks.vectors() * lanes));
    let transforms = if ahead { 1 } else { grid.groups() } as f64;
    let read = shape.taps() as f64 * speeds.weight_from_memory;
    let weights = points * transformed_weight(isa, blocks.elements) * transforms + read;
    let products = shape.channels() as f64 * columns * (points * tiles + weights);
    products + points * tiles * TRANSFORMED_POINT * (vectors + columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::machine::Figures;

    fn shape(size: u64, channels: u64) -> ConvShape {
        ConvShape {
            batch: 1,
            channels,
            filters: channels,
            groups: 1,
            input: [1, size, size],
            output: [1, size, size],
            kernel: [1, 3, 3],
            strides: [1; 3],
            dilations: [1; 3],
            pads: [0, 1, 1],
            transposed: false,
        }
    }

    #[test]
    fn costs_are_finite_and_rise_with_work_whatever_the_figures_say() {
        let extremes = [1, 1 << 16, u32::MAX];
        for (f32, memory) in extremes.into_iter().flat_map(|f32| extremes.map(|memory| (f32, memory))) {
            let speeds = Speeds::of(&Figures { f32, bf16_pairs: memory, memory, ..Figures::default() });
            for elements in [Elements::F32, Elements::Bf16Dot] {
                let costs = [7, 14, 28, 56, 112].map(|size| {
                    let shape = shape(size, 64);
                    let tiles = blocks(Isa::Avx512, &shape, elements, WinogradTile::Four, 1);
                    [direct(Isa::Avx512, &shape, elements, &speeds), on_tiles(Isa::Avx512, &shape, &tiles, &speeds)]
                });
                assert!(costs.as_flattened().iter().all(|cost| cost.is_finite() && *cost > 0.0), "{costs:?}");
                assert!(costs.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] < pair[1][1]), "{costs:?}");
            }
        }
    }

    #[test]
    fn pairs_no_faster_than_f32_speak_for_tiles_of_f32() {
        let shape = shape(14, 256);
        let costs = |speeds: &Speeds| {
            let tiles = blocks(Isa::Avx512, &shape, Elements::Bf16Dot, WinogradTile::Four, 1);
            let direct = direct(Isa::Avx512, &shape, Elements::Bf16Dot, speeds);
            direct / on_tiles(Isa::Avx512, &shape, &tiles, speeds)
        };
        let usual = Speeds::default();
        assert!(costs(&Speeds { vector_of_pairs: 2.0, ..usual }) > costs(&usual));
    }
}
