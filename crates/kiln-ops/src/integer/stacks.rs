//! Products of two stacks of matrices: which matrices meet, loops for parameters of any kind, and pair by pair on an
//! executor for one matrix by one matrix.

use kiln_kernels::cpu::quantized::bytes::Plus;
use kiln_kernels::cpu::quantized::{PackedIntegers, Quantized, Terms, WeightSource};
use kiln_kernels::memory::{self, Pace};
use kiln_kernels::parallel::{Parallel, Serial, for_each_chunk};
use kiln_run::{NodeError, RunCx};
use kiln_tensor::Shape;

use crate::{broadcast, refused};

/// A product of two stacks of matrices.
#[derive(Clone, Debug)]
pub(super) struct Product {
    /// The stack that both broadcast to.
    pub(super) stack: Shape,
    left: Shape,
    right: Shape,
    pub(super) rows: usize,
    pub(super) inner: usize,
    pub(super) columns: usize,
}

/// Multiply-adds of one matrix by one matrix below which the loops are faster than a call of an executor, which checks
/// its operands and packs the right-hand matrix.
const LEAST_WORK: usize = 1 << 9;

/// Multiply-adds of all pairs below which a thread would take longer to wake than it saves.
const WORTH_A_THREAD: usize = 1 << 18;

/// Pairs for each thread from which they are divided even if threads get different numbers of them.
const MANY: usize = 4;

impl Product {
    /// The product of tensors of these shapes, as ONNX's MatMul reads them.
    pub(super) fn of(left: &[usize], right: &[usize]) -> Result<Product, NodeError> {
        let mismatch = || refused(format!("no product of shapes {left:?} and {right:?}"));
        // A vector is one row on the left and one column on the right.
        let matrix = |shape: &[usize], is_left: bool| -> Result<Shape, NodeError> {
            match shape {
                [] => Err(mismatch()),
                &[size] if is_left => Ok(Shape::from_slice(&[1, size])),
                &[size] => Ok(Shape::from_slice(&[size, 1])),
                _ => Ok(Shape::from_slice(shape)),
            }
        };
        let (a, b) = (matrix(left, true)?, matrix(right, false)?);
        let (a_stack, a_matrix) = a.split_at(a.len() - 2);
        let (b_stack, b_matrix) = b.split_at(b.len() - 2);
        let stack = broadcast([a_stack, b_stack])?;
        let (rows, inner, columns) = (a_matrix[0], a_matrix[1], b_matrix[1]);
        if b_matrix[0] != inner {
            return Err(mismatch());
        }
        Ok(Product { stack, left: a_stack.into(), right: b_stack.into(), rows, inner, columns })
    }

    /// Matrices of the result.
    pub(super) fn matrices(&self) -> usize {
        self.stack.iter().product()
    }

    /// Whether the right-hand side is not one matrix.
    pub(super) fn has_right_stack(&self) -> bool {
        self.right.iter().product::<usize>() != 1
    }

    /// Multiply-adds of one pair of matrices, or the most that can be counted.
    fn work(&self) -> usize {
        self.rows.saturating_mul(self.inner).saturating_mul(self.columns)
    }

    /// Whether calls of an executor, one for each pair of matrices, are faster than the loops.
    pub(super) fn suits_executors(&self) -> bool {
        self.work() >= LEAST_WORK
    }

    /// The numbers of the left-hand and the right-hand matrix that make matrix `index` of the result.
    fn pair(&self, index: usize) -> [usize; 2] {
        [&self.left, &self.right].map(|own| {
            let (mut rest, mut step, mut place) = (index, 1, 0);
            for (size, own) in self.stack.iter().rev().zip(own.iter().rev()) {
                place += if *own == 1 { 0 } else { rest % size * step };
                rest /= size;
                step *= own;
            }
            place
        })
    }

    /// The sums of elements less their zero points, by loops, matrix by matrix.
    pub(super) fn sums(&self, left: &[i32], right: &[i32]) -> Vec<i32> {
        let mut sums = memory::zeroed::<i32>(self.matrices() * self.rows * self.columns);
        if sums.is_empty() || self.inner == 0 {
            return sums;
        }
        let mut pace = Pace::default();
        for (index, sums) in sums.chunks_exact_mut(self.rows * self.columns).enumerate() {
            let [a, b] = self.pair(index);
            let a = &left[a * self.rows * self.inner..][..self.rows * self.inner];
            let b = &right[b * self.inner * self.columns..][..self.inner * self.columns];
            pace.step(1);
            for (row, sums) in a.chunks_exact(self.inner).zip(sums.chunks_exact_mut(self.columns)) {
                for (&factor, line) in row.iter().zip(b.chunks_exact(self.columns)) {
                    pace.step(1 + self.columns / 8);
                    let pairs = sums.iter_mut().zip(line);
                    pairs.for_each(|(sum, &value)| *sum = sum.wrapping_add(factor.wrapping_mul(value)));
                }
            }
        }
        sums
    }

    /// All pairs on an executor of one: `x` and `right` hold the stacks' bytes, `y` the bytes of the result; `source`
    /// reads one right-hand matrix. Where there are enough pairs, threads divide them, else each product.
    pub(super) fn on_executor<'a>(
        &self,
        executor: &Quantized,
        [x, right]: [&'a [u8]; 2],
        source: &(dyn Fn(&'a [u8]) -> WeightSource<'a> + Sync),
        y: &mut [u8],
        terms: &Terms<'_>,
        cx: &RunCx<'_>,
    ) -> Result<(), NodeError> {
        let (matrices, threads) = (self.matrices(), cx.parallel.threads());
        if y.is_empty() {
            return Ok(());
        }
        let bytes = y.len() / matrices;
        let is_worth = self.work().saturating_mul(matrices) >= WORTH_A_THREAD;
        let divided = is_worth && (matrices.is_multiple_of(threads) || matrices >= MANY * threads);
        let (tasks, inside): (_, &dyn Parallel) = if divided { (threads, &Serial) } else { (1, cx.parallel) };
        let [packed, own] = [executor.packed().words(), executor.scratch_len()];
        let mut scratch = cx.scratch::<i32>(tasks * (packed + own))?;
        let each = matrices.div_ceil(tasks);
        let mut tasks: Vec<Task<'_>> = y
            .chunks_mut(each * bytes)
            .zip(scratch.as_mut_slice()?.chunks_exact_mut(packed + own))
            .enumerate()
            .map(|(number, (y, scratch))| Task { first: number * each, y, scratch, result: Ok(()) })
            .collect();
        let (left_len, right_len) = (self.rows * self.inner, self.inner * self.columns);
        let run = |task: &mut Task<'_>| -> Result<(), NodeError> {
            let (words, scratch) = task.scratch.split_at_mut(packed);
            let words: &mut [u32] = bytemuck::cast_slice_mut(words);
            let mut held = None;
            for (index, y) in (task.first..).zip(task.y.chunks_exact_mut(bytes)) {
                if cx.parallel.is_stopped() {
                    break;
                }
                let [a, b] = self.pair(index);
                if held.replace(b) != Some(b) {
                    executor.pack(&source(&right[b * right_len..][..right_len]), words)?;
                }
                let plus = terms.plus.map(|plus| Plus { data: &plus.data[index * bytes..][..bytes], ..plus });
                let weights = PackedIntegers::new(executor.packed(), words)?;
                let x = &x[a * left_len..][..left_len];
                executor.run(x, weights, y, &Terms { plus, ..*terms }, scratch, inside)?;
            }
            Ok(())
        };
        let parallel: &dyn Parallel = if divided { cx.parallel } else { &Serial };
        for_each_chunk(parallel, &mut tasks, 1, &|_, tasks| tasks.iter_mut().for_each(|task| task.result = run(task)));
        tasks.into_iter().try_for_each(|task| task.result)
    }
}

/// Consecutive matrices of a result, which one thread computes.
struct Task<'a> {
    /// The number of the first.
    first: usize,
    y: &'a mut [u8],
    /// Room for a packed matrix, then the executor's.
    scratch: &'a mut [i32],
    result: Result<(), NodeError>,
}
