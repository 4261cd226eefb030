//! How plain operators divide their work between threads. No operator is known here.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use kiln_kernels::Parallel;
use kiln_kernels::parallel::for_each_chunk;
use kiln_run::NodeError;
use kiln_run::exec::tasks_for_bytes;

/// Tasks for work that takes as long as moving `bytes` bytes; at least one.
pub(crate) fn task_count(bytes: usize, parallel: &dyn Parallel) -> usize {
    tasks_for_bytes(bytes as u64, u32::try_from(parallel.threads()).unwrap_or(u32::MAX)) as usize
}

/// Elements that a task writes when `parallel` shares out `total` elements of `width` bytes. An operator that does more
/// than move its elements gives as their width the bytes that could be moved in that time.
pub(crate) fn share(total: usize, width: usize, parallel: &dyn Parallel) -> usize {
    // Whole cache lines of the narrowest element, so that no two tasks write one.
    total.div_ceil(task_count(total.saturating_mul(width), parallel)).next_multiple_of(64)
}

/// Calls `task(index, chunk)` for the consecutive pieces of `data`, each `length` elements long but the last, on all
/// threads; the error of a task that failed.
pub(crate) fn try_each_chunk<T: Send>(
    parallel: &dyn Parallel,
    data: &mut [T],
    length: usize,
    task: &(dyn Fn(usize, &mut [T]) -> Result<(), NodeError> + Sync),
) -> Result<(), NodeError> {
    let outcome = Mutex::new(Ok(()));
    for_each_chunk(parallel, data, length, &|index, chunk| {
        if let Err(error) = task(index, chunk) {
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Err(error);
        }
    });
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Lines along an axis that lie side by side: all of one block of the axes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// The block's number.
    pub(crate) block: usize,
    /// The lines' places along the axes behind.
    pub(crate) columns: Range<usize>,
}

/// A range of the lines along an axis, in order of their first elements, by blocks; `inner` is how many a block has.
pub(crate) fn sides(lines: Range<usize>, inner: usize) -> impl Iterator<Item = Side> {
    let blocks = lines.start / inner.max(1)..lines.end.div_ceil(inner.max(1));
    blocks.map(move |block| {
        let first = block * inner;
        Side { block, columns: lines.start.max(first) - first..lines.end.min(first + inner) - first }
    })
}

#[cfg(test)]
mod tests {
    use kiln_kernels::parallel::Pool;

    use super::*;
    use crate::refused;

    #[test]
    fn lines_are_grouped_by_blocks() {
        let side = |block, columns| Side { block, columns };
        assert_eq!(sides(2..8, 3).collect::<Vec<_>>(), [side(0, 2..3), side(1, 0..3), side(2, 0..2)]);
        assert_eq!(sides(1..2, 3).collect::<Vec<_>>(), [side(0, 1..2)]);
        assert_eq!(sides(4..6, 1).collect::<Vec<_>>(), [side(4, 0..1), side(5, 0..1)]);
        assert_eq!(sides(0..0, 0).count(), 0);
    }

    #[test]
    fn a_task_that_fails_fails_the_work() {
        let pool = Pool::new(3, "tasks").unwrap();
        let mut data = vec![0; 100];
        let fail_at = |wanted: usize| {
            move |index: usize, chunk: &mut [usize]| {
                chunk.fill(index + 1);
                if index == wanted { Err(refused("that one")) } else { Ok(()) }
            }
        };
        assert!(try_each_chunk(&pool, &mut data, 30, &fail_at(7)).is_ok());
        assert!(data.iter().enumerate().all(|(at, &value)| value == at / 30 + 1));
        assert!(try_each_chunk(&pool, &mut data, 30, &fail_at(3)).unwrap_err().to_string().contains("that one"));
    }
}
