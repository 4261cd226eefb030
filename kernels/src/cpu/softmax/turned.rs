//! Arrays whose rows or columns would fill few lanes of a vector: blocks are transposed into scratch that stays in a
//! cache, computed there, and transposed back.
//!
//! Where the axis is long, a block is one array of the outer dimensions, and its columns become rows. Where the axis
//! is short, a block has several arrays, and elements at the same position in each become neighbours: columns, as many
//! as the block has arrays for each column that there was.

use std::ops::Range;

use super::Around;
use super::emit::SoftmaxArgs;
use crate::cpu::CodeSource;
use crate::cpu::transpose::{Collapsed, Method, Transpose};
use crate::error::Result;
use crate::isa::Isa;
use crate::parallel::{Serial, part};

/// Elements of a block of several arrays where more than a vector's lanes of them fit: the block, its scratch and its
/// result stay in an L1 of 48 KiB.
const BLOCK: usize = 4096;

/// Most elements of as many arrays as a vector has lanes, which have to stay in an L2.
const LARGE: usize = 1 << 16;

// The constants below were measured at both levels on a Xeon (family 6, model 207), where softmax as it lies took as
// long as turned blocks.

/// Elements of an axis from which on columns become rows.
const LONG: usize = 64;

/// Elements of an axis up to which rows become columns.
const SHORT: usize = 20;

/// Rows from which on it is worth turning them.
const MANY: usize = 48;

/// Whether blocks are computed as rows or as columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    Rows,
    Columns,
}

/// How an array is cut into blocks, and how each block is turned.
#[derive(Debug)]
pub(super) struct Turned {
    around: Around,
    lines: Lines,
    count: usize,
    /// Blocks of the least number of arrays, and those of one more.
    blocks: [Block; 2],
}

/// A block of `arrays` arrays.
#[derive(Debug)]
pub(super) struct Block {
    arrays: usize,
    there: Transpose,
    back: Transpose,
}

impl Turned {
    /// How to compute that array in turned blocks; `None` where its rows or columns fill vectors as they lie.
    pub(super) fn new(around: Around, isa: Isa, tasks: usize, source: &dyn CodeSource) -> Result<Option<Turned>> {
        let Some(lines) = lines(around, isa, tasks, source.in_order()) else { return Ok(None) };
        let [outer, length, inner] = [around.outer(), around.length(), around.inner()];
        let arrays = match lines {
            Lines::Rows => 1,
            Lines::Columns => (BLOCK / (length * inner)).min(outer.div_ceil(tasks)).max(isa.lanes()),
        };
        let count = (outer / arrays).max(1);
        let least = outer / count;
        let block = |arrays: usize| {
            let sides = match lines {
                Lines::Rows => [length, inner],
                Lines::Columns => [arrays, length * inner],
            };
            Block::new(arrays, sides, isa, source)
        };
        Ok(Some(Turned { around, lines, count, blocks: [block(least)?, block(least + 1)?] }))
    }

    /// Whether blocks are columns once they are turned.
    pub(super) fn columns(&self) -> bool {
        self.lines == Lines::Columns
    }

    /// The number of blocks.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Elements of the largest block.
    pub(super) fn scratch(&self) -> usize {
        let most = usize::from(!self.around.outer().is_multiple_of(self.count));
        self.blocks[most].arrays * self.each()
    }

    /// Block `index`, and its elements in the array.
    pub(super) fn block(&self, index: usize) -> (&Block, Range<usize>) {
        let arrays = part(self.around.outer(), self.count, index);
        let block = &self.blocks[usize::from(arrays.len() != self.blocks[0].arrays)];
        (block, arrays.start * self.each()..arrays.end * self.each())
    }

    /// The arguments that compute a turned block in place.
    pub(super) fn arguments(&self, block: &Block, scratch: &mut [f32]) -> SoftmaxArgs {
        let [length, inner] = [self.around.length(), self.around.inner()];
        let (rows, length) = match self.lines {
            Lines::Rows => (inner, length),
            Lines::Columns => (length, inner * block.arrays),
        };
        let dst = scratch.as_mut_ptr();
        SoftmaxArgs { src: dst, dst, rows, length, stride: length * size_of::<f32>() }
    }

    /// Elements of each array.
    fn each(&self) -> usize {
        self.around.length() * self.around.inner()
    }
}

impl Block {
    /// A block that is a matrix of these sides as it lies.
    fn new(arrays: usize, [rows, columns]: [usize; 2], isa: Isa, source: &dyn CodeSource) -> Result<Block> {
        let turn = |sides: [usize; 2]| {
            let collapsed = Collapsed::new(&sides, &[1, 0]);
            let method = Method::pick(&collapsed, size_of::<f32>(), isa);
            Transpose::new(collapsed, size_of::<f32>(), isa, method, 1, source)
        };
        Ok(Block { arrays, there: turn([rows, columns])?, back: turn([columns, rows])? })
    }

    /// Transposes the block of the input into scratch.
    pub(super) fn turn(&self, input: &[f32], scratch: &mut [f32]) {
        self.there.turn(bytemuck::cast_slice(input), bytemuck::cast_slice_mut(scratch), &Serial);
    }

    /// Transposes scratch into the block of the output.
    pub(super) fn turn_back(&self, scratch: &[f32], output: &mut [f32]) {
        self.back.turn(bytemuck::cast_slice(scratch), bytemuck::cast_slice_mut(output), &Serial);
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
        return (length <= SHORT && outer >= MANY && !in_order).then_some(Lines::Columns);
    }
    if outer >= lanes.saturating_mul(tasks) && length.saturating_mul(inner * lanes) <= LARGE {
        return Some(Lines::Columns);
    }
    (length >= LONG && !in_order).then_some(Lines::Rows)
}
