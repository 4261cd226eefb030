//! Sums, products and extremes of updates along an axis, where indices and data agree in all other axes.
//!
//! Lines along the axis never meet, so each thread takes some of them. It keeps them wide until all updates have been
//! combined: an element is rounded once, however many updates it gets. Where a row of indices is one index throughout,
//! as after an Expand, the whole row is combined in one loop. Lines along the last axis lie in memory as wholes.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use kiln_kernels::Parallel;
use kiln_kernels::memory::{self, Pace};
use kiln_kernels::parallel::part;
use kiln_run::NodeError;
use kiln_tensor::Tensor;

use crate::gather::whole_numbers;
use crate::generic::{Arithmetic, Binary};
use crate::{Run, Side, around, index_of, refused, sides, task_count};

/// Elements that are combined between two checks whether the request goes on.
const UNSEEN: usize = 1 << 16;

/// Whether two shapes agree in all axes but one.
pub(super) fn agree_beside(axis: usize, indices: &[usize], data: &[usize]) -> bool {
    indices.iter().zip(data).enumerate().all(|(at, (have, want))| at == axis || have == want)
}

/// The index that all of these are, if they are one.
pub(super) fn only_index(indices: &[i64]) -> Option<i64> {
    let first = *indices.first()?;
    // All are looked at, so that the compiler compares vectors.
    (indices.iter().fold(0, |differ, &index| differ | (index ^ first)) == 0).then_some(first)
}

/// Updates to be combined with the data along an axis.
pub(super) struct Lines<'a> {
    step: Binary,
    indices: Cow<'a, [i64]>,
    updates: &'a Tensor,
    /// Elements of the data along the axis.
    size: usize,
    /// Updates along the axis.
    count: usize,
    /// Lines of a block, side by side.
    inner: usize,
    blocks: usize,
}

impl<'a> Lines<'a> {
    /// `None` where the updates cover only a part of another axis.
    pub(super) fn new(
        step: Binary,
        axis: usize,
        data: &[usize],
        [indices, updates]: [&'a Tensor; 2],
    ) -> Result<Option<Lines<'a>>, NodeError> {
        if !agree_beside(axis, indices.shape(), data) {
            return Ok(None);
        }
        let (blocks, size, inner) = around(data, axis);
        let (indices, count) = (whole_numbers(indices)?, indices.shape()[axis]);
        Ok(Some(Lines { step, indices, updates, size, count, inner, blocks }))
    }

    /// Combines the updates with `data`.
    pub(super) fn combine<W: Arithmetic>(
        &self,
        mut data: Tensor,
        parallel: &dyn Parallel,
    ) -> Result<Tensor, NodeError> {
        let lines = self.blocks * self.inner;
        let tasks = task_count(self.updates.len().saturating_mul(size_of::<W>()), parallel).min(lines.max(1));
        let results: Vec<Mutex<Result<Vec<W>, NodeError>>> = (0..tasks).map(|_| Mutex::new(Ok(Vec::new()))).collect();
        parallel.run(tasks, &|task| {
            let combined = self.combined(&data, part(lines, tasks, task), parallel);
            *results[task].lock().unwrap_or_else(PoisonError::into_inner) = combined;
        });
        let (dtype, width) = (data.dtype(), data.dtype().size());
        let (bytes, mut pace) = (data.bytes_mut(), Pace::default());
        for (task, result) in results.into_iter().enumerate() {
            let values = result.into_inner().unwrap_or_else(PoisonError::into_inner)?;
            let mut rest = values.as_slice();
            if self.inner == 1 {
                let start = part(lines, tasks, task).start * self.size;
                let bytes = bytes[start * width..][..rest.len() * width].chunks_mut(UNSEEN * width);
                for (values, bytes) in rest.chunks(UNSEEN).zip(bytes) {
                    pace.step(values.len());
                    W::store(values, dtype, bytes)?;
                }
                continue;
            }
            for Side { block, columns } in sides(part(lines, tasks, task), self.inner) {
                for row in 0..self.size {
                    pace.step(columns.len());
                    // A task that was skipped because the request has ended has left nothing.
                    let Some((now, later)) = rest.split_at_checked(columns.len()) else { break };
                    let start = (block * self.size + row) * self.inner + columns.start;
                    W::store(now, dtype, &mut bytes[start * width..][..now.len() * width])?;
                    rest = later;
                }
            }
        }
        Ok(data)
    }

    /// Combines those lines of the data with their updates: block by block, all rows of their columns.
    fn combined<W: Arithmetic>(
        &self,
        data: &Tensor,
        lines: Range<usize>,
        parallel: &dyn Parallel,
    ) -> Result<Vec<W>, NodeError> {
        if self.inner == 1 {
            return self.combined_whole(data, lines, parallel);
        }
        let mut all = memory::zeroed(lines.len() * self.size);
        let mut rest = all.as_mut_slice();
        let (mut update, mut unseen) = (memory::zeroed(lines.len().min(self.inner)), 0);
        let mut pace = Pace::default();
        for Side { block, columns } in sides(lines, self.inner) {
            let count = columns.len();
            let (values, later) = rest.split_at_mut(count * self.size);
            rest = later;
            let run = |row: usize, rows: usize| {
                let start = (block * rows + row) * self.inner + columns.start;
                Run { start, count, stride: 1 }
            };
            for (row, to) in values.chunks_exact_mut(count).enumerate() {
                pace.step(count);
                W::load(data.dtype(), data.bytes(), run(row, self.size), to)?;
            }
            let update = &mut update[..count];
            for row in 0..self.count {
                unseen += count;
                if unseen >= UNSEEN {
                    unseen = 0;
                    if parallel.is_stopped() {
                        return Ok(Vec::new());
                    }
                }
                let run = run(row, self.count);
                W::load(self.updates.dtype(), self.updates.bytes(), run, update)?;
                self.combine_row(&self.indices[run.start..][..count], update, values)?;
            }
        }
        Ok(all)
    }

    /// As [`Lines::combined`] for lines along the last axis.
    fn combined_whole<W: Arithmetic>(
        &self,
        data: &Tensor,
        lines: Range<usize>,
        parallel: &dyn Parallel,
    ) -> Result<Vec<W>, NodeError> {
        let mut all = memory::zeroed(lines.len() * self.size);
        for (at, values) in all.chunks_mut(UNSEEN).enumerate() {
            if parallel.is_stopped() {
                return Ok(Vec::new());
            }
            let start = lines.start * self.size + at * UNSEEN;
            W::load(data.dtype(), data.bytes(), Run { start, count: values.len(), stride: 1 }, values)?;
        }
        let (mut update, mut rest) = (memory::zeroed(self.count), all.as_mut_slice());
        for line in lines {
            let (values, later) = rest.split_at_mut(self.size);
            rest = later;
            let run = Run { start: line * self.count, count: self.count, stride: 1 };
            W::load(self.updates.dtype(), self.updates.bytes(), run, &mut update)?;
            for (indices, update) in self.indices[run.start..][..self.count].chunks(UNSEEN).zip(update.chunks(UNSEEN)) {
                if parallel.is_stopped() {
                    return Ok(Vec::new());
                }
                self.combine_each(indices, update, |place, _| place, values)?;
            }
        }
        Ok(all)
    }

    /// Combines each update with the value whose place `place` gives for its index and its own place.
    fn combine_each<W: Arithmetic>(
        &self,
        indices: &[i64],
        update: &[W],
        place: impl Fn(usize, usize) -> usize,
        values: &mut [W],
    ) -> Result<(), NodeError> {
        let combine = W::combiner(self.step).ok_or_else(|| refused(format!("a scatter by {:?}", self.step)))?;
        for (at, (&index, &update)) in indices.iter().zip(update).enumerate() {
            let value = &mut values[place(index_of(index, self.size)?, at)];
            *value = combine(*value, update);
        }
        Ok(())
    }

    /// Combines a row of updates with the rows of `values` that its indices name.
    fn combine_row<W: Arithmetic>(&self, indices: &[i64], update: &[W], values: &mut [W]) -> Result<(), NodeError> {
        let count = indices.len();
        if let Some(index) = only_index(indices) {
            let row = &mut values[index_of(index, self.size)? * count..][..count];
            return W::binary(self.step, row, update);
        }
        self.combine_each(indices, update, |row, column| row * count + column, values)
    }
}
