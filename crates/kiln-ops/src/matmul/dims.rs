//! Which matrix product two shapes ask for, after numpy: vectors become matrices, batches broadcast.

use kiln_run::NodeError;
use kiln_run::exec::matmul::{BatchStep, Stored};
use kiln_tensor::Shape;
use smallvec::SmallVec;

use super::super::{broadcast, refused};

/// One side as the model has it.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) shape: &'a [usize],
    /// Whether its last two dimensions are swapped. A vector has nothing to swap.
    pub(super) transposed: bool,
}

/// A product, in batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) left: Stored,
    pub(super) right: Stored,
    /// Batch dimensions that are left after joining neighbours: matrices, and whether each side has its own.
    pub(super) batch: SmallVec<[BatchDim; 3]>,
    /// Shape of the result.
    pub(super) output: Shape,
}

/// One batch dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchDim {
    pub(super) size: usize,
    pub(super) left: bool,
    pub(super) right: bool,
}

impl Problem {
    /// The product of two operands.
    pub(super) fn new(left: Operand<'_>, right: Operand<'_>) -> Result<Problem, NodeError> {
        let mismatch = || refused(format!("a matrix product of shapes {:?} and {:?}", left.shape, right.shape));
        let (left_batch, m, left_k, left_stored) = match *left.shape {
            [] => return Err(mismatch()),
            [k] => (&[][..], 1, k, Stored::Rows),
            [ref batch @ .., k, m] if left.transposed => (batch, m, k, Stored::Columns),
            [ref batch @ .., m, k] => (batch, m, k, Stored::Rows),
        };
        let (right_batch, k, n, right_stored) = match *right.shape {
            [] => return Err(mismatch()),
            [k] => (&[][..], k, 1, Stored::Rows),
            [ref batch @ .., n, k] if right.transposed => (batch, k, n, Stored::Columns),
            [ref batch @ .., k, n] => (batch, k, n, Stored::Rows),
        };
        if left_k != k {
            return Err(mismatch());
        }
        let whole = broadcast([left_batch, right_batch])?;
        let mut output = whole.clone();
        if left.shape.len() > 1 {
            output.push(m);
        }
        if right.shape.len() > 1 {
            output.push(n);
        }
        let mut problem = Problem { m, n, k, left: left_stored, right: right_stored, batch: SmallVec::new(), output };
        problem.join(&whole, left_batch, right_batch);
        Ok(problem)
    }

    /// Joins batch dimensions where both sides run on, and rows with the batch where the right-hand side is one matrix.
    fn join(&mut self, whole: &[usize], left: &[usize], right: &[usize]) {
        let own = |shape: &[usize], dim: usize| {
            let offset = whole.len() - shape.len();
            dim >= offset && shape[dim - offset] > 1
        };
        for (dim, &size) in whole.iter().enumerate().filter(|&(_, &size)| size != 1) {
            let next = BatchDim { size, left: own(left, dim), right: own(right, dim) };
            match self.batch.last_mut() {
                Some(last) if last.left == next.left && last.right == next.right => last.size *= size,
                _ => self.batch.push(next),
            }
        }
        if let [BatchDim { size, left: true, right: false }] = *self.batch
            && self.left == Stored::Rows
        {
            self.m *= size;
            self.batch.clear();
        }
    }

    /// The batch as executors take it, with right-hand matrices of that many elements.
    pub(super) fn steps(&self, right_matrix: usize) -> SmallVec<[BatchStep; 3]> {
        let (mut left, mut right) = (self.m * self.k, right_matrix);
        let mut steps: SmallVec<[BatchStep; 3]> = SmallVec::new();
        for dim in self.batch.iter().rev() {
            let step = |own: bool, next: &mut usize| {
                let step = if own { *next as u64 } else { 0 };
                *next *= if own { dim.size } else { 1 };
                step
            };
            let (left, right) = (step(dim.left, &mut left), step(dim.right, &mut right));
            steps.push(BatchStep { size: dim.size as u64, left, right });
        }
        steps.reverse();
        steps
    }

    /// Products of the batch.
    pub(super) fn batches(&self) -> usize {
        self.batch.iter().map(|dim| dim.size).product()
    }

    /// Which matrix of each side product `index` takes.
    pub(super) fn matrices(&self, mut index: usize) -> (usize, usize) {
        let (mut left, mut right, mut lefts, mut rights) = (0, 0, 1, 1);
        for dim in self.batch.iter().rev() {
            let at = index % dim.size;
            index /= dim.size;
            if dim.left {
                left += at * lefts;
                lefts *= dim.size;
            }
            if dim.right {
                right += at * rights;
                rights *= dim.size;
            }
        }
        (left, right)
    }
}
