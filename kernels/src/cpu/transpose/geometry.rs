//! The shape of a permutation without the parts that do not matter. Depends on no code and no threads.
//!
//! Axes of length 1 vanish, and axes that stay neighbours become one. What remains is either nothing to do, runs of
//! contiguous bytes that move unchanged, or a stack of planes: the input's contiguous axis (*columns*) against the axis
//! that is contiguous in the output (*rows*).

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Most axes after collapsing.
pub const MAX_RANK: usize = 8;

/// A permutation in its shortest form. Axis `i` of the output is axis `perm[i]` of the input.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Collapsed {
    /// Dimensions of the input.
    pub shape: SmallVec<[u64; 6]>,
    /// A permutation of the axes.
    pub perm: SmallVec<[u8; MAX_RANK]>,
}

impl Collapsed {
    /// Collapses a permutation. `perm` is a permutation of `0..shape.len()`.
    #[must_use]
    pub fn new(shape: &[usize], perm: &[usize]) -> Collapsed {
        // Runs of input axes that stay neighbours in the output, in output order: first axis and length.
        let mut runs: SmallVec<[(usize, usize); MAX_RANK]> = SmallVec::new();
        let mut last = None;
        for &axis in perm.iter().filter(|&&axis| shape[axis] != 1) {
            let follows = last.is_some_and(|last| last < axis && shape[last + 1..axis].iter().all(|&dim| dim == 1));
            match runs.last_mut().filter(|_| follows) {
                Some(run) => run.1 *= shape[axis],
                None => runs.push((axis, shape[axis])),
            }
            last = Some(axis);
        }
        let mut order: SmallVec<[usize; MAX_RANK]> = (0..runs.len()).collect();
        order.sort_by_key(|&run| runs[run].0);
        let mut perm: SmallVec<[u8; MAX_RANK]> = SmallVec::from_elem(0, runs.len());
        for (place, &run) in order.iter().enumerate() {
            perm[run] = place as u8;
        }
        Collapsed { shape: order.iter().map(|&run| runs[run].1 as u64).collect(), perm }
    }

    /// Whether this is a permutation of at most [`MAX_RANK`] axes whose bytes can be counted. Keys from a record are
    /// checked for this before anything is built from them.
    #[must_use]
    pub fn is_valid(&self, element: usize) -> bool {
        let rank = self.shape.len();
        let mut seen = [false; MAX_RANK];
        let mut permutes = |axis: usize| axis < rank && !std::mem::replace(&mut seen[axis], true);
        let bytes = self.shape.iter().try_fold(element, |bytes, &dim| bytes.checked_mul((dim as usize).max(1)));
        rank <= MAX_RANK
            // Elements of no bytes would hide a count that overflows.
            && element > 0
            && self.perm.len() == rank
            && self.perm.iter().all(|&axis| permutes(usize::from(axis)))
            && bytes.is_some_and(|bytes| bytes <= isize::MAX as usize)
    }

    /// Number of axes.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().map(|&dim| dim as usize).product()
    }
}

/// One axis of a traversal: its length, and its strides in input and output, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Length of the axis.
    pub extent: usize,
    /// Stride in the input.
    pub input: usize,
    /// Stride in the output.
    pub output: usize,
}

/// The axes of a collapsed permutation in output order, with their strides.
#[must_use]
pub fn axes(collapsed: &Collapsed) -> SmallVec<[Axis; MAX_RANK]> {
    let mut inputs: SmallVec<[usize; MAX_RANK]> = SmallVec::from_elem(1, collapsed.rank());
    for axis in (1..collapsed.rank()).rev() {
        inputs[axis - 1] = inputs[axis] * collapsed.shape[axis] as usize;
    }
    let mut output = 1;
    let mut axes: SmallVec<[Axis; MAX_RANK]> = SmallVec::new();
    for axis in collapsed.perm.iter().rev().map(|&axis| usize::from(axis)) {
        let extent = collapsed.shape[axis] as usize;
        axes.push(Axis { extent, input: inputs[axis], output });
        output *= extent;
    }
    axes.reverse();
    axes
}

/// A stack of matrices to be transposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planes {
    /// The axes that select the matrix, outermost in the output first.
    pub outer: SmallVec<[Axis; MAX_RANK]>,
    /// The axis that is contiguous in the output: the rows of the matrix in the input.
    pub rows: Axis,
    /// The axis that is contiguous in the input.
    pub columns: Axis,
}

impl Planes {
    /// The matrices of a permutation whose last axis moves; `None` where it stays.
    #[must_use]
    pub fn new(collapsed: &Collapsed) -> Option<Planes> {
        let mut outer = axes(collapsed);
        let rows = outer.pop()?;
        let column = outer.iter().position(|axis| axis.input == 1)?;
        let columns = outer.remove(column);
        Some(Planes { outer, rows, columns })
    }

    /// Number of matrices.
    #[must_use]
    pub fn count(&self) -> usize {
        self.outer.iter().map(|axis| axis.extent).product()
    }
}

/// The offsets in input and output of position `index` of a traversal of `axes`. The last axis moves fastest.
#[must_use]
pub fn offsets(axes: &[Axis], mut index: usize) -> (usize, usize) {
    let (mut input, mut output) = (0, 0);
    for axis in axes.iter().rev() {
        let place = index % axis.extent;
        index /= axis.extent;
        input += place * axis.input;
        output += place * axis.output;
    }
    (input, output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_axes_that_part_remain() {
        let cases: &[(&[usize], &[usize], &[u64], &[u8])] = &[
            // Shape, permutation, collapsed shape, collapsed permutation.
            (&[2, 3, 4], &[0, 1, 2], &[24], &[0]),
            (&[1, 64, 112, 112], &[0, 2, 3, 1], &[64, 12544], &[1, 0]),
            (&[2, 64, 7, 5], &[0, 2, 3, 1], &[2, 64, 35], &[0, 2, 1]),
            (&[2, 12, 37, 64], &[0, 2, 1, 3], &[2, 12, 37, 64], &[0, 2, 1, 3]),
            (&[5, 1, 7], &[2, 1, 0], &[5, 7], &[1, 0]),
            (&[5, 1, 7], &[1, 0, 2], &[35], &[0]),
            (&[1, 1], &[1, 0], &[], &[]),
            (&[], &[], &[], &[]),
            (&[2, 3, 4, 5], &[2, 3, 0, 1], &[6, 20], &[1, 0]),
        ];
        for &(shape, perm, want_shape, want_perm) in cases {
            let collapsed = Collapsed::new(shape, perm);
            assert_eq!(collapsed.shape.as_slice(), want_shape, "{shape:?} by {perm:?}");
            assert_eq!(collapsed.perm.as_slice(), want_perm, "{shape:?} by {perm:?}");
        }
    }

    #[test]
    fn planes_name_the_two_contiguous_axes() {
        let planes = Planes::new(&Collapsed::new(&[2, 64, 35], &[0, 2, 1])).unwrap();
        assert_eq!(planes.rows, Axis { extent: 64, input: 35, output: 1 });
        assert_eq!(planes.columns, Axis { extent: 35, input: 1, output: 64 });
        assert_eq!(planes.outer.as_slice(), &[Axis { extent: 2, input: 2240, output: 2240 }]);
        assert!(Planes::new(&Collapsed::new(&[2, 3, 4], &[1, 0, 2])).is_none());
    }
}
