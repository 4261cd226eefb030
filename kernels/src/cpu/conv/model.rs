//! The cost model's pick of [`ConvBlocks`].

use super::amx::band;
use super::blocks::{ConvBlocks, Strategy};
use super::depthwise::slide;
use super::lines;
use super::weights::WeightLayout;
use super::winograd::{WinogradTile, cost, suits};
use crate::cpu::Elements;
use crate::cpu::amx::{PANEL, TILE_ROWS};
use crate::cpu::gemm::model::l2_bytes;
use crate::cpu::gemm::most_rows;
use crate::cpu::gemm::rows::part;
use crate::cpu::machine::Speeds;
use crate::cpu::numerics::Numerics;
use crate::isa::Isa;
use crate::problem::conv::ConvShape;
use crate::problem::description::count;

/// Channels below which a whole line of the window is one tap: the few elements of a single position would not pay for
/// loading its pointers.
pub(super) const FEW_CHANNELS: usize = 16;

/// Bytes of lines that are copied at a time (im2col): with panels and outputs beside them they stay in L2.
const COPIED: usize = 64 << 10;

impl ConvBlocks {
    /// Blocks for `shape` on `threads` threads, of the strategy that is fastest by the cost model.
    #[must_use]
    pub fn pick(isa: Isa, shape: &ConvShape, elements: Elements, numerics: Numerics, threads: usize) -> ConvBlocks {
        if elements == Elements::Bf16Tiles {
            return on_amx(isa, shape, threads);
        }
        let transformed = match numerics {
            // The tile for one image on one thread, whatever the batch, the threads and the measured speeds: how it is
            // cut changes no sum.
            Numerics::Invariant => {
                let one = ConvShape { batch: 1, ..*shape };
                match cost::pick(isa, &one, elements, numerics, 1, &Speeds::default()) {
                    Some(ConvBlocks { strategy: Strategy::Winograd(tile), .. }) => {
                        ConvBlocks::winograd(isa, shape, elements, tile, threads)
                    }
                    _ => None,
                }
            }
            _ => {
                let (busy, speeds) = (busy_threads(isa, shape, threads), Speeds::of_process(isa));
                cost::pick(isa, shape, elements, numerics, busy, &speeds)
            }
        };
        transformed.unwrap_or_else(|| ConvBlocks::untransformed(isa, shape, elements, threads))
    }

    /// Blocks for `shape`, of the strategies that add up products on vectors without transforms.
    #[must_use]
    pub fn untransformed(isa: Isa, shape: &ConvShape, elements: Elements, threads: usize) -> ConvBlocks {
        let threads = busy_threads(isa, shape, threads);
        match shape.weights().layout(isa, elements) {
            WeightLayout::Panels { vectors } | WeightLayout::Pairs { vectors } | WeightLayout::Halves { vectors } => {
                dense(isa, shape, elements, vectors, threads)
            }
            WeightLayout::Rows | WeightLayout::Amx => depthwise(isa, shape, threads),
        }
    }

    /// Blocks for `shape` with Winograd tiles of that size, worth it or not; `None` if the shape has no such tiles.
    #[must_use]
    pub fn winograd(
        isa: Isa,
        shape: &ConvShape,
        elements: Elements,
        tile: WinogradTile,
        threads: usize,
    ) -> Option<ConvBlocks> {
        suits(shape).then(|| cost::blocks(isa, shape, elements, tile, busy_threads(isa, shape, threads)))
    }

    /// Whether a numerics policy allows the strategy.
    #[must_use]
    pub fn allowed(&self, numerics: Numerics) -> bool {
        match self.strategy {
            Strategy::Winograd(tile) => cost::allowed(numerics).contains(&tile),
            _ => true,
        }
    }
}

/// The number of threads that have enough work.
fn busy_threads(isa: Isa, shape: &ConvShape, threads: usize) -> usize {
    threads.min(shape.work() / Speeds::of_process(isa).worth_a_thread).max(1)
}

fn depthwise(isa: Isa, shape: &ConvShape, threads: usize) -> ConvBlocks {
    let lines = shape.batch() * shape.output()[0] * shape.output()[1];
    let vectors = shape.channels() / isa.lanes();
    let (mut row_tasks, mut unit_tasks) = (1, 1);
    if threads > 1 {
        // Two or four lines are computed together. A few tasks for each thread let others take over from a delayed
        // thread; where there are too few lines for an even split, channels may be split instead.
        let together = slide::most_rows(isa);
        if lines < 8 * threads && vectors >= 8 * threads {
            unit_tasks = threads;
        } else {
            row_tasks = (threads * 4).min(lines.div_ceil(together)).max(threads.min(lines)).max(1);
            if together > 2 {
                // Tasks of nearly four lines each, a whole number for each thread.
                row_tasks = row_tasks.next_multiple_of(threads).min(lines);
            }
        }
    }
    ConvBlocks {
        strategy: Strategy::Depthwise,
        elements: Elements::F32,
        vectors: 1,
        row_block: 1,
        row_tasks: count(row_tasks),
        unit_tasks: count(unit_tasks),
    }
}

/// Speed of AMX over that of vectors, all told.
const AMX_SPEED: usize = 4;

/// The ratio of weights to inputs from which on weights are split first: at 2.25 splitting rows is faster, at 18
/// splitting columns.
const LARGER_WEIGHTS: usize = 4;

fn on_amx(isa: Isa, shape: &ConvShape, threads: usize) -> ConvBlocks {
    let threads = threads.min(shape.work() / (AMX_SPEED * Speeds::of_process(isa).worth_a_thread)).max(1);
    let row_block = band(shape, threads);
    let phases = if shape.transposed { shape.strides().iter().product::<usize>().max(1) } else { 1 };
    let units = shape.groups() * shape.group_filters().div_ceil(PANEL);
    let tiles = (shape.output_len() / shape.filters().max(1) / phases).div_ceil(TILE_ROWS).max(1);
    let (mut row_tasks, mut unit_tasks) = (1, 1);
    if threads > 1 {
        // The operand that is split is read once in all, the other once by each task. Rows are split where there are
        // enough rows, unless weights are far larger: a thread finds many of its lines in its own L2, and no weights in
        // any L2.
        let rows_first = shape.input_len() >= shape.weights().len() / LARGER_WEIGHTS;
        let even = |count: usize| count >= 4 * threads || count.is_multiple_of(threads);
        if even(tiles) && (rows_first || !even(units)) {
            row_tasks = threads;
        } else if units >= threads {
            unit_tasks = threads;
        } else {
            row_tasks = threads.min(tiles);
            unit_tasks = (threads / row_tasks).clamp(1, units.max(1));
        }
    }
    ConvBlocks {
        strategy: Strategy::Amx,
        elements: Elements::Bf16Tiles,
        vectors: (PANEL / isa.lanes()) as u8,
        row_block: count(row_block),
        row_tasks: count(row_tasks),
        unit_tasks: count(unit_tasks),
    }
}

/// A number of things in nearly equal parts.
#[derive(Clone, Copy, Debug)]
struct Split {
    total: usize,
    parts: usize,
}

impl Split {
    /// The lengths of its parts.
    fn lengths(self) -> impl Iterator<Item = usize> {
        (0..self.parts).map(move |index| part(self.total, self.parts, index).len())
    }
}

/// Tiles times units of the busiest thread. `threads` threads take the parts of both, each the next one when it is
/// idle.
fn longest(threads: usize, tiles: Split, units: Split) -> usize {
    let mut busy = vec![0; threads.max(1)];
    for rows in tiles.lengths() {
        for columns in units.lengths() {
            if let Some(least) = busy.iter_mut().min() {
                *least += rows * columns;
            }
        }
    }
    busy.into_iter().max().unwrap_or(0)
}

fn dense(isa: Isa, shape: &ConvShape, elements: Elements, vectors: usize, threads: usize) -> ConvBlocks {
    let few = elements == Elements::F32 && shape.channels() < FEW_CHANNELS && shape.kernel()[2] > 1;
    let strategy = if shape.is_pointwise() {
        Strategy::Pointwise
    } else if few && lines::suits(shape) {
        Strategy::Lines
    } else {
        Strategy::Direct
    };
    let blocks = tiled(isa, shape, Tiling { strategy, elements, vectors }, threads);
    if strategy != Strategy::Lines {
        return blocks;
    }
    // Copies stay in L2, but lines that two blocks read are copied twice.
    let bytes = lines::line(shape) * shape.strides()[1] * 4;
    let row_block = (COPIED / bytes.max(1)).clamp(4, 16).min(shape.output()[1].max(1));
    ConvBlocks { row_block: count(row_block), ..blocks }
}

/// The operand that is cut into tiles.
struct Tiling {
    strategy: Strategy,
    elements: Elements,
    /// Vectors that a tile is wide.
    vectors: usize,
}

/// Blocks of tiles that read the input at a stride or through indirection tables.
fn tiled(isa: Isa, shape: &ConvShape, tiling: Tiling, threads: usize) -> ConvBlocks {
    let Tiling { strategy, elements, vectors } = tiling;
    let most = most_rows(isa, vectors).max(1);
    let units = shape.groups() * shape.group_filters().div_ceil(vectors * isa.lanes()).max(1);
    let phases = if shape.transposed { shape.strides().iter().product::<usize>().max(1) } else { 1 };
    let tiles = (shape.output_len() / shape.filters().max(1) / phases).div_ceil(most).max(1);
    // Rows of a block are read again for every panel: they should stay in half of L2, next to the panel that is
    // streamed. An indirection table costs eight bytes for each tap of a row, and is read as often.
    let spread: usize = shape.strides().iter().product::<usize>().min(shape.taps());
    let row_bytes = elements.left_words(shape.channels()) * spread * 4 + shape.taps() * 8;
    let rows = (l2_bytes() / 2 / row_bytes.max(1)).clamp(8 * most, 64 * most);
    let row_block = rows.div_ceil(most).min(tiles);
    // Rows first: each thread then reads its own part of the input. Columns where there are not enough rows.
    let (mut row_tasks, mut unit_tasks) = (1, 1);
    if threads > 1 {
        let want = threads.div_ceil(phases);
        let spare = (tiles / row_block / want).clamp(1, 4);
        row_tasks = (want * spare).min(tiles);
        // An uneven split of few tiles leaves threads idle; columns may divide more evenly, or parts of both.
        let time = |[row_tasks, unit_tasks]: [usize; 2]| {
            longest(want, Split { total: tiles, parts: row_tasks }, Split { total: units, parts: unit_tasks })
        };
        let even = (tiles * units).div_ceil(want);
        if row_tasks < want || time([row_tasks, 1]) * 100 > even * 104 {
            // A part of a single panel makes its own tables, and leaves its output in the cache of the core that ran
            // it: such a part has to save enough.
            let cuts = [([row_tasks, 1], 100), ([1, want.min(units)], 100), ([want.min(tiles), units], 108)];
            let best = cuts.into_iter().min_by_key(|&(cut, percent)| time(cut) * percent);
            [row_tasks, unit_tasks] = best.map_or([row_tasks, 1], |(cut, _)| cut);
        }
    }
    ConvBlocks {
        strategy,
        elements,
        vectors: vectors as u8,
        row_block: count(row_block),
        row_tasks: count(row_tasks),
        unit_tasks: count(unit_tasks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_of_some_threads_takes_parts_in_turn() {
        let busiest = |threads, [tiles, row_tasks]: [usize; 2], [units, unit_tasks]: [usize; 2]| {
            longest(threads, Split { total: tiles, parts: row_tasks }, Split { total: units, parts: unit_tasks })
        };
        assert_eq!(busiest(2, [9, 2], [5, 1]), 25, "nine tiles of five panels in two parts");
        assert_eq!(busiest(2, [9, 1], [5, 2]), 27);
        assert_eq!(busiest(2, [9, 2], [5, 5]), 23, "one panel at a time");
        assert_eq!(busiest(2, [9, 1], [8, 2]), 36);
        assert_eq!(busiest(4, [1, 1], [1, 1]), 1);
        assert_eq!(busiest(3, [0, 1], [4, 2]), 0);
    }
}
