//! Ways of convolving that are worth a measurement besides the cost model's: every strategy that the policy allows, and
//! the cuts of each that the model was least sure of.
//!
//! All candidates are the same kernels on the same numbers, so none can be wrong. They differ in time, in how weights
//! are packed, and in the order of additions (a transform within what the policy allows). Knows no clock.

use super::blocks::{ConvBlocks, Strategy};
use super::model::FEW_CHANNELS;
use super::winograd::{Grid, cost};
use crate::cpu::Elements;
use crate::cpu::amx::TILE_ROWS;
use crate::cpu::gemm::most_rows;
use crate::cpu::numerics::Numerics;
use crate::isa::Isa;
use crate::problem::conv::ConvShape;
use crate::problem::description::count;

impl ConvBlocks {
    /// At most `most` different ways that a driver takes for that shape: the cost model's pick first, then the other
    /// strategies, then other cuts of all strategies, in order of promise.
    #[must_use]
    pub fn candidates(
        isa: Isa,
        shape: &ConvShape,
        elements: Elements,
        numerics: Numerics,
        threads: usize,
        most: usize,
    ) -> Vec<ConvBlocks> {
        let mut bases = vec![ConvBlocks::pick(isa, shape, elements, numerics, threads)];
        if elements != Elements::Bf16Tiles {
            let transformed = cost::allowed(numerics).iter().rev();
            let transformed = transformed.filter_map(|&tile| ConvBlocks::winograd(isa, shape, elements, tile, threads));
            let plain = ConvBlocks::untransformed(isa, shape, elements, threads);
            let others: Vec<ConvBlocks> = transformed.chain([plain]).chain(other_taps(shape, plain)).collect();
            for other in others {
                if bases.iter().all(|base| base.strategy != other.strategy) {
                    bases.push(other);
                }
            }
        }
        let cuts: Vec<Vec<ConvBlocks>> = bases.iter().map(|base| cuts(isa, shape, base, threads)).collect();
        let deepest = cuts.iter().map(Vec::len).max().unwrap_or(0);
        let cuts = (0..deepest).flat_map(|rank| cuts.iter().filter_map(move |cuts| cuts.get(rank).copied()));
        let mut found: Vec<ConvBlocks> = Vec::new();
        for blocks in bases.iter().copied().chain(cuts) {
            if found.len() == most.max(1) {
                break;
            }
            if !found.contains(&blocks) && blocks.allowed(numerics) && blocks.fits(shape, isa) {
                found.push(blocks);
            }
        }
        found
    }
}

/// Single positions as taps where the model takes whole lines, and the other way round; their weights are packed alike.
fn other_taps(shape: &ConvShape, plain: ConvBlocks) -> Option<ConvBlocks> {
    match plain.strategy {
        // The unit of a block differs: tiles for `Direct`, lines for `Lines`.
        Strategy::Lines => Some(ConvBlocks { strategy: Strategy::Direct, row_block: 32, ..plain }),
        Strategy::Direct
            if plain.elements == Elements::F32 && shape.channels() <= 4 * FEW_CHANNELS && shape.kernel()[2] > 1 =>
        {
            let row_block = shape.output()[1].clamp(1, 8);
            Some(ConvBlocks { strategy: Strategy::Lines, row_block: count(row_block), ..plain })
        }
        _ => None,
    }
}

/// Other cuts of the same strategy, the most promising first.
fn cuts(isa: Isa, shape: &ConvShape, base: &ConvBlocks, threads: usize) -> Vec<ConvBlocks> {
    let Extent { rows, units } = Extent::of(isa, shape, base);
    let mut splits = vec![(base.row_tasks(), base.unit_tasks())];
    if threads > 1 {
        // The two plain cuts, then finer ones, so that a delayed thread leaves work to others, then rows and columns at
        // once.
        let halves = (threads / 2, 2);
        let plain = [(threads, 1), (1, threads), (4 * threads, 1), (2 * threads, 1), (1, 2 * threads), halves, (1, 1)];
        let plain = plain.into_iter().filter(|&(r, u)| r > 0 && r <= rows && u <= units);
        splits.extend(plain.filter(|&split| split != (base.row_tasks(), base.unit_tasks())));
    }
    let mut found = Vec::new();
    for (rank, &(row_tasks, unit_tasks)) in splits.iter().enumerate() {
        // The rows, or panels, that a task sees bound the effect of a larger block.
        let most = rows.div_ceil(row_tasks);
        let mut lengths = vec![base.row_block()];
        let blocked = base.strategy != Strategy::Depthwise && units.div_ceil(unit_tasks) > 1;
        if blocked || matches!(base.strategy, Strategy::Winograd(_) | Strategy::Lines | Strategy::Amx) {
            lengths.extend([base.row_block() / 2, base.row_block() * 2, base.row_block() / 4, base.row_block() * 4]);
        }
        for (further, length) in lengths.into_iter().enumerate() {
            let row_block = if length == base.row_block() { length } else { length.min(most) };
            // Few tiles of a group would read all weights too often; few tiles of a block make too many tables.
            let small = row_block != base.row_block() && row_block < if blocked { 2 } else { 8 };
            if !small {
                found.push((
                    rank + further,
                    ConvBlocks {
                        row_block: count(row_block),
                        row_tasks: count(row_tasks),
                        unit_tasks: count(unit_tasks),
                        ..*base
                    },
                ));
            }
        }
    }
    found.retain(|(_, blocks)| blocks != base);
    found.sort_by_key(|&(distance, _)| distance);
    found.into_iter().map(|(_, blocks)| blocks).collect()
}

/// How many rows there are to cut, in the unit of [`ConvBlocks::row_block`], and how many columns.
struct Extent {
    rows: usize,
    units: usize,
}

impl Extent {
    fn of(isa: Isa, shape: &ConvShape, blocks: &ConvBlocks) -> Extent {
        let positions = shape.output_len() / shape.filters().max(1);
        let panels = |filters: usize| filters.div_ceil((blocks.vectors() * isa.lanes()).max(1)).max(1);
        match blocks.strategy {
            Strategy::Lines => Extent {
                rows: (shape.batch() * shape.output()[0] * shape.output()[1]).max(1),
                units: panels(shape.filters()),
            },
            Strategy::Depthwise => Extent {
                rows: (shape.batch() * shape.output()[0] * shape.output()[1]).max(1),
                units: (shape.channels() / isa.lanes()).max(1),
            },
            Strategy::Winograd(tile) => {
                Extent { rows: Grid::new(shape, tile, 1).total().max(1), units: panels(shape.filters()) }
            }
            Strategy::Pointwise | Strategy::Direct | Strategy::Amx => {
                let phases = if shape.transposed { shape.strides().iter().product::<usize>().max(1) } else { 1 };
                let tile = if blocks.strategy == Strategy::Amx { TILE_ROWS } else { most_rows(isa, blocks.vectors()) };
                let rows = (positions / phases).div_ceil(tile.max(1)).max(1);
                Extent { rows, units: shape.groups() * panels(shape.group_filters()) }
            }
        }
    }
}

#[cfg(test)]
mod tests;
