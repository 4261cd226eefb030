//! Blocks of arrays that are transposed into scratch, so that elements at the same position in each array become
//! neighbours.
//!
//! Rows that are shorter than a vector are computed this way: a row at a time would fill few lanes, and would pay for
//! the fold across lanes. A block and its scratch stay in a cache near the core.

use std::ops::Range;

use super::CodeSource;
use super::transpose::{Collapsed, Method, Transpose};
use crate::error::Result;
use crate::isa::Isa;
use crate::parallel::{Serial, part};

/// Elements of a block where more than a vector's lanes of arrays fit: the block, its scratch and its result stay in an
/// L1 of 48 KiB.
const BLOCK: usize = 4096;

/// Which rows are computed faster in transposed blocks than one at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortRows {
    /// The most elements of a row.
    pub(crate) length: usize,
    /// The least number of rows.
    pub(crate) count: usize,
}

impl ShortRows {
    /// Where a row costs a softmax, or a largest element. Measured at both levels on a Xeon (family 6, model 207):
    /// either way took as long for rows of 20 to 28, and for 32 to 64 rows.
    pub(crate) const OF_EXTREMES: ShortRows = ShortRows { length: 20, count: 48 };
    /// Where a row costs a sum. Measured likewise: rows of 10 to 20, and 100 to 200 rows.
    pub(crate) const OF_SUMS: ShortRows = ShortRows { length: 8, count: 256 };

    /// Whether rows of an array `[outer, length]` are among them at that level.
    pub(crate) fn has(self, outer: usize, length: usize, isa: Isa) -> bool {
        isa.is_jit() && (2..=self.length).contains(&length) && outer >= self.count
    }
}

/// An array `[outer, each]` cut into blocks.
#[derive(Debug)]
pub(crate) struct Turned {
    outer: usize,
    each: usize,
    count: usize,
    there: [Transpose; 2],
}

/// How blocks are transposed back.
#[derive(Debug)]
pub(crate) struct Back([Transpose; 2]);

impl Turned {
    /// Blocks of as many arrays as stay in L1, or as a vector has lanes; at least one block for each of `tasks` tasks
    /// where there are as many arrays. Neither dimension is 0.
    pub(crate) fn arrays(outer: usize, each: usize, tasks: usize, isa: Isa, source: &dyn CodeSource) -> Result<Turned> {
        let arrays = (BLOCK / each).min(outer.div_ceil(tasks)).max(isa.lanes());
        let count = (outer / arrays).max(1);
        let least = outer / count;
        let there = both(|more| turn(least + more, each, isa, source))?;
        Ok(Turned { outer, each, count, there })
    }

    /// The way back from blocks of [`Turned::arrays`].
    pub(crate) fn back(&self, isa: Isa, source: &dyn CodeSource) -> Result<Back> {
        let least = self.outer / self.count;
        Ok(Back(both(|more| turn(self.each, least + more, isa, source))?))
    }

    /// Blocks of one matrix of `rows` by `columns`, and the way back.
    pub(crate) fn matrices(
        outer: usize,
        [rows, columns]: [usize; 2],
        isa: Isa,
        source: &dyn CodeSource,
    ) -> Result<(Turned, Back)> {
        let there = both(|_| turn(rows, columns, isa, source))?;
        let back = both(|_| turn(columns, rows, isa, source))?;
        Ok((Turned { outer, each: rows * columns, count: outer, there }, Back(back)))
    }

    /// The number of blocks.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Elements of the largest block.
    pub(crate) fn scratch(&self) -> usize {
        self.outer.div_ceil(self.count) * self.each
    }

    /// The arrays of a block.
    pub(crate) fn block(&self, index: usize) -> Range<usize> {
        part(self.outer, self.count, index)
    }

    /// The elements of a block.
    pub(crate) fn elements(&self, index: usize) -> Range<usize> {
        let arrays = self.block(index);
        arrays.start * self.each..arrays.end * self.each
    }

    /// Transposes block `index` into scratch.
    pub(crate) fn turn(&self, index: usize, block: &[f32], scratch: &mut [f32]) {
        run(&self.there[self.size(index)], block, scratch);
    }

    /// Transposes scratch back into block `index`.
    pub(crate) fn turn_back(&self, back: &Back, index: usize, scratch: &[f32], block: &mut [f32]) {
        run(&back.0[self.size(index)], scratch, block);
    }

    /// 0 for a block of the smaller size, 1 for one that has an array more.
    fn size(&self, index: usize) -> usize {
        self.block(index).len() - self.outer / self.count
    }
}

/// What `make` returns for blocks of the smaller size, and for those that have an array more.
fn both(make: impl Fn(usize) -> Result<Transpose>) -> Result<[Transpose; 2]> {
    Ok([make(0)?, make(1)?])
}

fn turn(rows: usize, columns: usize, isa: Isa, source: &dyn CodeSource) -> Result<Transpose> {
    let collapsed = Collapsed::new(&[rows, columns], &[1, 0]);
    let method = Method::pick(&collapsed, size_of::<f32>(), isa);
    Transpose::new(collapsed, size_of::<f32>(), isa, method, 1, source)
}

fn run(turn: &Transpose, from: &[f32], to: &mut [f32]) {
    turn.turn(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to), &Serial);
}
