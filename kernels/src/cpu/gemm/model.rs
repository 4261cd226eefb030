//! The cost model's pick of [`MatmulBlocks`]: a few rules, each with its reason, that measure nothing.
//!
//! A tile of `r` rows and `c` columns multiplies `r * c` pairs for `r + c` loaded elements. Its left-hand rows are read
//! once for each panel, its panel once for each tile. A panel in L2 feeds the micro-kernel at full speed. So panels
//! have to stay in L2, while rows may come from L3 or memory: they are a fraction of the traffic.

use super::matmul::{Epilogue, Matmul, MatmulBlocks, MatmulShape, Right};
use super::reduction::UNROLL;
use super::tile_size::{most_rows, panel_vectors};
use crate::cpu::Elements;
use crate::cpu::amx::{TALLEST, TILE_ROWS};
use crate::cpu::machine::{Caches, Speeds};
use crate::isa::Isa;
use crate::problem::description::count;

/// The most bytes of L2 that blocks are made for. On a processor with 2 MiB, blocks for all 2 MiB were no faster.
const MOST_OF_L2: usize = 1 << 20;

/// Bytes of L2 that one thread may count on.
pub(crate) fn l2_bytes() -> usize {
    Caches::of_machine().l2.min(MOST_OF_L2)
}

/// Bytes of L1 for the part of a panel that several tiles read. With AVX-512 that is half of Intel's L1 and three
/// quarters of Zen 4's, where half took 2 to 4 % longer on two threads (bert_base, 16 and 40 tokens).
fn l1_bytes(isa: Isa) -> usize {
    let fastest = if isa == Isa::Avx512 { 24 << 10 } else { 16 << 10 };
    fastest.min(Caches::of_machine().l1 / 4 * 3)
}

/// The most tiles below each other for which reading the weights decides the time; more tiles reuse weights more often.
const FEW_TILES: usize = 8;

/// Microseconds of one core's work above which a task may be split in two, so that a delayed thread leaves work to the
/// others.
const LARGE_TASK: usize = 128;

/// [`LARGE_TASK`] on AMX, which multiplies twenty times as fast. Each task reads all its weights again: 512x384x384 on
/// two threads takes 0.8 of the time in two tasks that it takes in eight.
const LARGE_TASK_ON_AMX: usize = 32 * LARGE_TASK;

impl MatmulBlocks {
    /// Blocks for `shape` on `threads` threads.
    #[must_use]
    pub fn pick(isa: Isa, shape: &MatmulShape, epilogue: &Epilogue, threads: usize) -> MatmulBlocks {
        let vectors = match shape.right {
            Right::Packed { vectors, .. } => vectors,
            _ => panel_vectors(isa, shape.n),
        };
        let width = vectors * isa.lanes();
        let pack = match shape.right {
            Right::Packed { .. } => false,
            Right::Columns { .. } => true,
            Right::Rows { stride } => {
                // Packing an element costs about a quarter of a cycle, using it once in a tile a sixteenth. Rows whose
                // stride is a multiple of a page all map to the same few sets of L1.
                let collides = (stride * 4).is_multiple_of(4096) && shape.k > 8;
                let worth = if collides { 2 * most_rows(isa, vectors) } else { 96 };
                shape.m > worth || (epilogue.scale != 1.0 && epilogue.bias)
            }
        };
        if shape.elements() == Elements::Bf16Tiles && shape.m > 1 {
            return MatmulBlocks::on_amx(isa, shape, vectors, threads);
        }
        let cache = l2_bytes();
        let rows_of_a_word = shape.elements().rows_of_a_word();
        let element = if shape.widens(isa, vectors) { 4 } else { 4 / rows_of_a_word };
        let k_block = match shape.right {
            // While weights come from memory, few other reads are under way: the tiles after the first find their part
            // of the panel in L1. Storing sums and loading them again for the next part costs less.
            Right::Packed { .. } if (2..=FEW_TILES).contains(&shape.m.div_ceil(most_rows(isa, vectors).max(1))) => {
                equal_parts(shape.k, l1_bytes(isa) / (width * element)).next_multiple_of(UNROLL)
            }
            _ => equal_parts(shape.k, (cache / 2 / (width * element)).max(256)),
        };
        // Parts of a reduction start with a whole row of words.
        let k_block = k_block.next_multiple_of(rows_of_a_word);
        let panel = k_block * width * element;
        let rows = most_rows(isa, vectors) * k_block * 4;
        let (batch_tasks, row_tasks, panel_tasks) = split(isa, shape, vectors, threads);
        MatmulBlocks {
            vectors: vectors as u8,
            pack,
            row_block: count((cache / 2 / rows.max(1)).max(4)),
            panel_block: count((cache / 4 / panel.max(1)).max(1)),
            k_block: count(k_block),
            batch_tasks: count(batch_tasks),
            row_tasks: count(row_tasks),
            panel_tasks: count(panel_tasks),
        }
    }
}

impl MatmulBlocks {
    /// Blocks for AMX.
    fn on_amx(isa: Isa, shape: &MatmulShape, vectors: usize, threads: usize) -> MatmulBlocks {
        // Rows of a chunk stay in L2 while all panels are multiplied with them.
        let row = TILE_ROWS * shape.elements().words(shape.k) * 4;
        let (batch_tasks, row_tasks, panel_tasks) = split(isa, shape, vectors, threads);
        MatmulBlocks {
            vectors: vectors as u8,
            pack: false,
            row_block: count((l2_bytes() / row.max(1)).max(4)),
            panel_block: 1,
            // Where several blocks read a panel, the part of it that stays in L1 beside the rows of a block: 1.3 times
            // as fast on 128x768x768 as the whole reduction at once.
            k_block: if shape.m > TALLEST * TILE_ROWS { 256 } else { count(shape.k.max(1)) },
            batch_tasks: count(batch_tasks),
            row_tasks: count(row_tasks),
            panel_tasks: count(panel_tasks),
        }
    }
}

/// Rows of the tallest tile: of vectors, or of AMX.
pub(super) fn tile_rows(isa: Isa, shape: &MatmulShape, vectors: usize) -> usize {
    if shape.elements() == Elements::Bf16Tiles { TILE_ROWS } else { most_rows(isa, vectors).max(1) }
}

/// The length of `total` in nearly equal parts of at most `most`; at least 1.
fn equal_parts(total: usize, most: usize) -> usize {
    total.div_ceil(total.div_ceil(most).max(1)).max(1)
}

/// Rows whose products take as long as widening the panels of `f16` that they multiply: 3.5 on a Zen 4 with panels in
/// L2.
const ROWS_OF_WIDENING: f64 = 4.0;

/// Splits batch, rows and panels over threads.
fn split(isa: Isa, shape: &MatmulShape, vectors: usize, threads: usize) -> (usize, usize, usize) {
    let batches = shape.batches();
    let work = [batches, shape.m, shape.n, shape.k].into_iter().fold(1usize, usize::saturating_mul);
    let speeds = Speeds::of_process(isa);
    let threads = threads.min(work / speeds.worth_a_thread).max(1);
    if threads == 1 {
        return (1, 1, 1);
    }
    let on_amx = shape.elements() == Elements::Bf16Tiles && shape.m > 1;
    let large = if on_amx { LARGE_TASK_ON_AMX } else { LARGE_TASK } * speeds.worth_a_thread;
    let tasks = threads * (work / large / threads).clamp(1, 4);
    if batches >= threads {
        // Whole products of a batch share neither packed panels nor left-hand rows.
        return (tasks.min(batches), 1, 1);
    }
    let tiles = shape.m.div_ceil(tile_rows(isa, shape, vectors)).max(1);
    let panels = shape.n.div_ceil(vectors * isa.lanes()).max(1);
    let parts = tasks.div_ceil(batches.max(1));
    // Each part of the columns reads the left-hand side again, each part of the rows the right-hand side. Where the
    // right-hand side is widened first, each part of the rows widens it again; reading costs nothing beside that.
    let widens = shape.widens(isa, vectors);
    let cost = |rows: usize, columns: usize| {
        let busiest = tiles.div_ceil(rows) * panels.div_ceil(columns) * rows * columns;
        let read = shape.m * columns + shape.n * rows;
        let again = match widens {
            true => ROWS_OF_WIDENING * rows as f64 / shape.m as f64,
            false => 0.1 * read as f64 / (shape.m + shape.n) as f64,
        };
        (busiest as f64 / (tiles * panels) as f64) * (1.0 + again)
    };
    let candidates = (1..=parts).map(|rows| (rows.min(tiles), parts.div_ceil(rows).min(panels)));
    let best = candidates.min_by(|&(r, c), &(s, d)| {
        // Fewer parts than threads leave threads idle, which costs more than reading operands again.
        let idle = |parts: usize| (threads.div_ceil(batches.max(1))).saturating_sub(parts);
        idle(r * c).cmp(&idle(s * d)).then(cost(r, c).total_cmp(&cost(s, d)))
    });
    let (rows, columns) = best.unwrap_or((1, 1));
    (batches.max(1), rows, columns)
}

impl Matmul {
    /// A product ready to run with the cost model's blocks.
    ///
    /// # Errors
    ///
    /// Those of [`Matmul::new`].
    pub fn picked(
        isa: Isa,
        shape: MatmulShape,
        epilogue: Epilogue,
        threads: usize,
        source: &dyn crate::cpu::CodeSource,
    ) -> crate::error::Result<Matmul> {
        let blocks = MatmulBlocks::pick(isa, &shape, &epilogue, threads);
        Matmul::new(isa, shape, blocks, epilogue, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::gemm::Left;

    #[test]
    fn panels_of_f16_that_are_widened_are_split_before_rows() {
        let pick = |elements: Elements, [m, n, k]: [usize; 3]| {
            let right = Right::Packed { vectors: elements.panel_vectors(Isa::Avx512, n), elements };
            let shape = MatmulShape { m, n, k, batch: Default::default(), left: Left::Rows { stride: k }, right };
            let blocks = MatmulBlocks::pick(Isa::Avx512, &shape, &Epilogue::default(), 2);
            [blocks.row_tasks(), blocks.panel_tasks()]
        };
        let [rows, panels] = pick(Elements::F32, [512, 384, 384]);
        assert!(rows > 1 && panels > 1, "{rows} by {panels}: this shows nothing");
        assert_eq!(pick(Elements::F16, [512, 384, 384]), [1, 6]);
        // There is only one panel.
        assert_eq!(pick(Elements::F16, [512, 64, 384]), [2, 1]);
    }
}
