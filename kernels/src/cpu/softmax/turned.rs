//! Arrays whose rows or columns would fill few lanes of a vector: blocks are transposed into scratch that stays in a
//! cache, computed there, and transposed back.
//!
//! Where there are many arrays, a block has several, and elements at the same position in each become neighbours:
//! columns, as many as the block has arrays for each column that there was. Where there are few, a block is one array,
//! and its columns become rows.

use std::ops::Range;

use super::Around;
use super::emit::SoftmaxArgs;
use crate::cpu::CodeSource;
use crate::cpu::turned::{Back, ShortRows, Turned};
use crate::error::Result;
use crate::isa::Isa;

/// Most elements of as many arrays as a vector has lanes, which have to stay in an L2.
const LARGE: usize = 1 << 16;

/// Elements of an axis from which on columns become rows. Measured at both levels on a Xeon (family 6, model 207).
const LONG: usize = 64;

/// Whether blocks are computed as rows or as columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    Rows,
    Columns,
}

/// How an array is cut into blocks, and how each block is turned.
#[derive(Debug)]
pub(super) struct Blocks {
    around: Around,
    lines: Lines,
    turned: Turned,
    back: Back,
}

impl Blocks {
    /// How to compute that array in turned blocks; `None` where its rows or columns fill vectors as they lie.
    pub(super) fn new(around: Around, isa: Isa, tasks: usize, source: &dyn CodeSource) -> Result<Option<Blocks>> {
        let Some(lines) = lines(around, isa, tasks, source.in_order()) else { return Ok(None) };
        let [outer, length, inner] = [around.outer(), around.length(), around.inner()];
        let (turned, back) = match lines {
            Lines::Rows => Turned::matrices(outer, [length, inner], isa, source)?,
            Lines::Columns => {
                let turned = Turned::arrays(outer, length * inner, tasks, isa, source)?;
                let back = turned.back(isa, source)?;
                (turned, back)
            }
        };
        Ok(Some(Blocks { around, lines, turned, back }))
    }

    /// Whether blocks are columns once they are turned.
    pub(super) fn are_columns(&self) -> bool {
        self.lines == Lines::Columns
    }

    /// The number of blocks.
    pub(super) fn count(&self) -> usize {
        self.turned.count()
    }

    /// Elements of the largest block.
    pub(super) fn scratch(&self) -> usize {
        self.turned.scratch()
    }

    /// The elements of a block.
    pub(super) fn elements(&self, index: usize) -> Range<usize> {
        self.turned.elements(index)
    }

    /// Turns a block into scratch; returns the arguments that compute it there.
    pub(super) fn turn(&self, index: usize, block: &[f32], scratch: &mut [f32]) -> SoftmaxArgs {
        self.turned.turn(index, block, scratch);
        let [length, inner] = [self.around.length(), self.around.inner()];
        let (rows, length) = match self.lines {
            Lines::Rows => (inner, length),
            Lines::Columns => (length, inner * self.turned.block(index).len()),
        };
        let dst = scratch.as_mut_ptr();
        SoftmaxArgs { src: dst, dst, rows, length, stride: length * size_of::<f32>() }
    }

    /// Turns scratch back into a block of the result.
    pub(super) fn turn_back(&self, index: usize, scratch: &[f32], block: &mut [f32]) {
        self.turned.turn_back(&self.back, index, scratch, block);
    }
}

/// What turned blocks are computed as; `None` where the array is computed as it lies.
///
/// Rows and columns add their terms in different orders. An array whose additions must have one order (`in_order`) is
/// never computed as one or the other by how many arrays there are.
fn lines(around: Around, isa: Isa, tasks: usize, in_order: bool) -> Option<Lines> {
    let [outer, length, inner] = [around.outer(), around.length(), around.inner()];
    let lanes = isa.lanes();
    if !isa.is_jit() || length == 1 || inner >= lanes {
        return None;
    }
    if inner == 1 {
        return (ShortRows::OF_EXTREMES.has(outer, length, isa) && !in_order).then_some(Lines::Columns);
    }
    if outer >= lanes.saturating_mul(tasks) && length.saturating_mul(inner * lanes) <= LARGE {
        return Some(Lines::Columns);
    }
    (length >= LONG && !in_order).then_some(Lines::Rows)
}
