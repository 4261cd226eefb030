//! The operands of a matrix product: sizes, batches, and their layout. Knows no kernel and no data.

use smallvec::SmallVec;

use crate::cpu::Elements;
use crate::cpu::gemm::tile_size::most_rows;
use crate::isa::Isa;

/// How the left-hand matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// Row-major: rows `stride` apart.
    Rows {
        /// Stride of rows.
        stride: usize,
    },
    /// Transposed: columns `stride` apart. It is transposed to rows before use.
    Columns {
        /// Stride of columns.
        stride: usize,
    },
}

/// How the right-hand matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// In panels of that many vectors.
    Packed {
        /// Vectors of a panel.
        vectors: usize,
        /// The elements of the panels.
        elements: Elements,
    },
    /// Row-major: rows `stride` apart.
    Rows {
        /// Stride of rows.
        stride: usize,
    },
    /// Transposed: columns `stride` apart.
    Columns {
        /// Stride of columns.
        stride: usize,
    },
}

/// One batch dimension. Steps are in elements; 0 repeats the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchDim {
    /// Matrices.
    pub size: usize,
    /// Stride of left-hand matrices in elements.
    pub left: usize,
    /// Stride of right-hand matrices in elements.
    pub right: usize,
}

/// The operands and their sizes. C is row-major without gaps, batch by batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatmulShape {
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Length of the reduction.
    pub k: usize,
    /// Batch dimensions, outermost first; none for a single product.
    pub batch: SmallVec<[BatchDim; 3]>,
    /// The left-hand side.
    pub left: Left,
    /// The right-hand side.
    pub right: Right,
}

impl MatmulShape {
    /// Whether all sizes computed from these can be counted: sizes may come from a file.
    #[must_use]
    pub fn is_addressable(&self) -> bool {
        const MOST: usize = isize::MAX as usize / 8;
        // The widest panel of any level: columns are rounded up to whole panels.
        const WIDEST: usize = 64;
        let product = |factors: &[usize]| {
            // A zero must not hide that the other factors overflow on the way.
            factors.iter().try_fold(1usize, |total, &factor| total.checked_mul(factor.max(1)))
        };
        let largest = || {
            let sizes: SmallVec<[usize; 4]> = self.batch.iter().map(|dim| dim.size).collect();
            let batches = product(&sizes)?;
            let columns = self.n.checked_next_multiple_of(WIDEST)?;
            let left = match self.left {
                Left::Rows { stride } | Left::Columns { stride } => stride,
            };
            let right = match self.right {
                Right::Rows { stride } | Right::Columns { stride } => stride,
                Right::Packed { .. } => 0,
            };
            let mut reach = 0usize;
            for dim in &self.batch {
                reach = reach.checked_add(dim.size.checked_mul(dim.left.max(dim.right))?)?;
            }
            let products = [
                product(&[batches, self.m, columns])?,
                product(&[batches, self.k, columns])?,
                product(&[batches, self.m, self.k])?,
                product(&[left.max(right), self.m.max(self.k).max(columns)])?.checked_add(reach)?,
            ];
            products.into_iter().max()
        };
        largest().is_some_and(|largest| largest <= MOST)
    }

    /// The elements of the right-hand side when it is multiplied: where it is not packed beforehand, `f32`.
    #[must_use]
    pub fn elements(&self) -> Elements {
        match self.right {
            Right::Packed { elements, .. } => elements,
            Right::Rows { .. } | Right::Columns { .. } => Elements::F32,
        }
    }

    /// Whether panels of `f16` are widened in parts, which all rows then read. Where rows have few tiles, registers
    /// widen them instead: a conversion takes both ports of multiply-adds once for each tile, and widening takes a
    /// store once.
    #[must_use]
    pub fn widens(&self, isa: Isa, vectors: usize) -> bool {
        /// Most tiles below each other that read `f16`.
        const FEW: usize = 4;
        self.elements() == Elements::F16 && self.m.div_ceil(most_rows(isa, vectors).max(1)) > FEW
    }

    /// Whether the right-hand side comes packed.
    pub(super) fn right_is_packed(&self) -> bool {
        matches!(self.right, Right::Packed { .. })
    }

    /// Products of the batch.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.batch.iter().map(|dim| dim.size).product()
    }

    /// Right-hand matrices that differ.
    #[must_use]
    pub fn right_matrices(&self) -> usize {
        self.batch.iter().filter(|dim| dim.right > 0).map(|dim| dim.size).product()
    }

    pub(super) fn left_matrices(&self) -> usize {
        self.batch.iter().filter(|dim| dim.left > 0).map(|dim| dim.size).product()
    }

    /// Where the operands of product `index` are.
    pub(super) fn place(&self, mut index: usize) -> Place {
        let mut place = Place::default();
        let (mut lefts, mut rights) = (1, 1);
        for dim in self.batch.iter().rev() {
            let at = index % dim.size;
            index /= dim.size;
            place.left += at * dim.left;
            place.right += at * dim.right;
            if dim.left > 0 {
                place.left_index += at * lefts;
                lefts *= dim.size;
            }
            if dim.right > 0 {
                place.right_index += at * rights;
                rights *= dim.size;
            }
        }
        place
    }

    /// The start of left-hand matrix number `index`, counted over the matrices that differ.
    pub(super) fn left_start(&self, mut index: usize) -> usize {
        let mut start = 0;
        for dim in self.batch.iter().rev().filter(|dim| dim.left > 0) {
            start += index % dim.size * dim.left;
            index /= dim.size;
        }
        start
    }

    /// The start of right-hand matrix number `index`, counted over the matrices that differ.
    pub(super) fn right_start(&self, mut index: usize) -> usize {
        let mut start = 0;
        for dim in self.batch.iter().rev().filter(|dim| dim.right > 0) {
            start += index % dim.size * dim.right;
            index /= dim.size;
        }
        start
    }

    /// Elements that one matrix of either side spans, if that can be counted.
    pub(super) fn spans(&self) -> Option<(usize, usize)> {
        let span = |outer: usize, stride: usize, inner: usize| -> Option<usize> {
            if outer == 0 || inner == 0 { Some(0) } else { ((outer - 1).checked_mul(stride)?).checked_add(inner) }
        };
        let left = match self.left {
            Left::Rows { stride } => span(self.m, stride, self.k)?,
            Left::Columns { stride } => span(self.k, stride, self.m)?,
        };
        let right = match self.right {
            Right::Packed { .. } => 0,
            Right::Rows { stride } => span(self.k, stride, self.n)?,
            Right::Columns { stride } => span(self.n, stride, self.k)?,
        };
        Some((left, right))
    }
}

/// Where the operands of one product are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) left: usize,
    pub(super) right: usize,
    /// Its number among the matrices that differ.
    pub(super) left_index: usize,
    pub(super) right_index: usize,
}
