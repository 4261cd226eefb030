//! One new position over a cache, split by positions. The keys of a head are cut into chunks of [`CHUNK`] positions,
//! counted from position 0. Each chunk has a softmax of its own, and the chunks that a query sees are merged in their
//! order: results depend on neither the threads, nor the other sequences of a run, nor the room of the cache.
//!
//! Where whole heads keep all threads busy, a task merges each chunk of a head as soon as it is computed. Else tasks
//! share the chunks of a head. These come in waves, whose results wait in scratch until the wave is merged, so that no
//! length changes the size of scratch.

use std::ops::Range;

use super::cached::Seen;
use super::emit::{RowState, STATE};
use super::shape::CHUNK;
use super::{Attention, Buffers, Sums, Unit};
use crate::cpu::multiversion::multiversion;
use crate::parallel::{Parallel, part};

/// Chunks of a wave for each task.
const WAVE: usize = 8;

/// Elements of results below which merging on another thread costs more than it saves.
const WORTH_A_THREAD: usize = 1 << 14;

/// A chunk of one head.
struct Chunk {
    batch: usize,
    head: usize,
    /// The number of the chunk in its head, and the head's number of chunks.
    at: usize,
    of: usize,
    keys: Range<usize>,
}

/// Where the result of a chunk waits: the states and the sums of its queries.
#[derive(Clone, Copy)]
struct Slot {
    state: *mut RowState,
    sums: Sums,
}

impl Attention {
    /// Whether keys are split into chunks. Nothing that depends on threads or lengths decides it.
    pub(super) fn is_split(&self) -> bool {
        self.stream.is_some() && self.shape.is_step()
    }

    /// Elements of scratch of all slots and of the states of the head that is merged.
    pub(super) fn partial_len(&self) -> usize {
        if self.is_split() { self.slots() * self.slot_len() + self.shape.queries() * STATE } else { 0 }
    }

    fn slots(&self) -> usize {
        match self.tasks() {
            1 => 1,
            tasks => tasks * WAVE,
        }
    }

    /// Elements from row to row of the sums of a slot.
    fn slot_row(&self) -> usize {
        self.shape.value_size().next_multiple_of(16)
    }

    fn slot_len(&self) -> usize {
        self.shape.queries() * (self.slot_row() + STATE)
    }

    fn slot(&self, buffers: &Buffers<'_>, number: usize) -> Slot {
        let first = buffers.scratch.at(self.tasks() * self.layout.end + number * self.slot_len());
        let state = first.wrapping_add(self.shape.queries() * self.slot_row()).cast();
        Slot { state, sums: Sums { first, stride: self.slot_row() } }
    }

    /// Chunks that the queries of a head see, and the first key of the first chunk: the start of a block, where a
    /// window leaves out earlier blocks.
    fn chunks(&self, seen: &Seen) -> (Range<usize>, usize) {
        let (start, end) = (seen.start(0), seen.end(0));
        let first = start / CHUNK;
        let from = first * CHUNK + (start % CHUNK) / self.blocks.keys() * self.blocks.keys();
        (first..end.div_ceil(CHUNK).max(first + 1), from)
    }

    /// The chunk of that number among those of all heads.
    fn chunk(&self, buffers: &Buffers<'_>, mut number: usize) -> Option<Chunk> {
        for batch in 0..self.shape.batch() {
            let seen = Seen::of(&self.shape, buffers.cache, batch);
            let (chunks, from) = self.chunks(&seen);
            let all = chunks.len() * self.shape.heads();
            if number < all {
                let (head, at) = (number / chunks.len(), number % chunks.len());
                let start = if at == 0 { from } else { (chunks.start + at) * CHUNK };
                let end = seen.end(0).min((chunks.start + at + 1) * CHUNK);
                return Some(Chunk { batch, head, at, of: chunks.len(), keys: start..end });
            }
            number -= all;
        }
        None
    }

    /// Computes a step. Buffers have been checked.
    pub(super) fn run_split(&self, buffers: &Buffers<'_>, parallel: &dyn Parallel) {
        let (heads, units) = (self.shape.heads(), self.shape.units());
        let of_batch = |batch: usize| self.chunks(&Seen::of(&self.shape, buffers.cache, batch)).0.len();
        let chunks = (0..self.shape.batch()).map(|batch| of_batch(batch) * heads).sum::<usize>();
        // The most chunks of a task with whole heads.
        let tasks = self.tasks().min(units);
        let of_task = |task: usize| part(units, tasks, task).map(|unit| of_batch(unit / heads)).sum::<usize>();
        let largest = (0..tasks).map(of_task).max().unwrap_or(0);
        if chunks == units || largest.saturating_mul(8) <= chunks.div_ceil(self.tasks()).saturating_mul(9) {
            parallel.run(tasks, &|task| self.whole_heads(buffers, task, part(units, tasks, task), parallel));
            return;
        }
        for start in (0..chunks).step_by(self.slots()) {
            if parallel.is_stopped() {
                return;
            }
            let wave = start..chunks.min(start + self.slots());
            let tasks = self.tasks().min(wave.len());
            parallel.run(tasks, &|task| {
                for number in part(wave.len(), tasks, task) {
                    if parallel.is_stopped() {
                        return;
                    }
                    self.compute(buffers, task, wave.start + number, number);
                }
            });
            let queries = self.shape.queries();
            let results = wave.len() * queries * self.shape.value_size();
            let tasks = (results / WORTH_A_THREAD).clamp(1, queries.min(self.tasks()));
            parallel.run(tasks, &|task| self.merge_wave(buffers, wave.clone(), part(queries, tasks, task)));
        }
    }

    /// Whole heads, one after the other.
    fn whole_heads(&self, buffers: &Buffers<'_>, task: usize, units: Range<usize>, parallel: &dyn Parallel) {
        let scratch = buffers.scratch.at(task * self.layout.end);
        for unit in units {
            let unit = self.unit(buffers, unit / self.shape.heads(), unit % self.shape.heads());
            let (chunks, from) = self.chunks(&unit.seen);
            if parallel.is_stopped() {
                return;
            }
            let slot = self.slot(buffers, task);
            let running = scratch.wrapping_add(self.layout.state).cast::<RowState>();
            for chunk in chunks.clone() {
                let keys = from.max(chunk * CHUNK)..unit.seen.end(0).min((chunk + 1) * CHUNK);
                if chunk == chunks.start {
                    // The states of the head wait in the slot while its other chunks are computed.
                    self.part_of(buffers, &unit, scratch, keys, Part { is_first: true, sums: self.sums_of(&unit) });
                    self.copy_states(running, slot.state);
                    continue;
                }
                if parallel.is_stopped() {
                    return;
                }
                self.part_of(buffers, &unit, scratch, keys, Part { is_first: false, sums: slot.sums });
                for row in 0..self.shape.queries() {
                    // SAFETY: states and sums are this task's own, and have a row for each query.
                    unsafe { self.merge(slot.state.add(row), &*running.add(row), &unit, slot.sums, row) };
                }
            }
            if unit.seen.end(0) > 0 {
                self.finish_rows(&unit, slot.state, 0..self.shape.queries());
            }
        }
    }

    /// Computes a chunk into a slot.
    fn compute(&self, buffers: &Buffers<'_>, task: usize, number: usize, slot: usize) {
        let Some(chunk) = self.chunk(buffers, number) else { return };
        let unit = self.unit(buffers, chunk.batch, chunk.head);
        let (scratch, slot) = (buffers.scratch.at(task * self.layout.end), self.slot(buffers, slot));
        let part = Part { is_first: chunk.at == 0, sums: slot.sums };
        self.part_of(buffers, &unit, scratch, chunk.keys, part);
        self.copy_states(scratch.wrapping_add(self.layout.state).cast(), slot.state);
    }

    /// Merges the chunks of a wave into the results of these queries of their heads.
    fn merge_wave(&self, buffers: &Buffers<'_>, wave: Range<usize>, queries: Range<usize>) {
        let running = buffers.scratch.at(self.tasks() * self.layout.end + self.slots() * self.slot_len());
        let running = running.cast::<RowState>();
        for number in wave.clone() {
            let Some(chunk) = self.chunk(buffers, number) else { return };
            let unit = self.unit(buffers, chunk.batch, chunk.head);
            let (slot, to) = (self.slot(buffers, number - wave.start), self.sums_of(&unit));
            for row in queries.clone() {
                // SAFETY: a row belongs to one task: its state, its results and its part of every slot. They lie in
                // scratch and in the output that `check` measured.
                unsafe {
                    if chunk.at == 0 {
                        running.add(row).write(*slot.state.add(row));
                        let (from, to) = (slot.sums.row(row), to.row(row));
                        std::ptr::copy_nonoverlapping(from, to, self.shape.value_size());
                    } else {
                        self.merge(running.add(row), &*slot.state.add(row), &unit, slot.sums, row);
                    }
                }
            }
            if chunk.at + 1 == chunk.of && !chunk.keys.is_empty() {
                self.finish_rows(&unit, running, queries.clone());
            }
        }
    }

    /// The sums of these keys, and the states of the queries in the task's scratch.
    fn part_of(&self, buffers: &Buffers<'_>, unit: &Unit<'_>, scratch: *mut f32, keys: Range<usize>, part: Part) {
        let queries = self.shape.queries();
        let state = scratch.wrapping_add(self.layout.state).cast::<RowState>();
        for row in 0..queries {
            // Only the first chunk starts with the score of the sink.
            let nothing = RowState { most: f32::NEG_INFINITY, sum: 0.0, factor: 1.0, unused: 0.0 };
            let start = if part.is_first { unit.state(row) } else { nothing };
            // SAFETY: `ScratchLayout` has a state for each query, and they are this task's own.
            unsafe { state.add(row).write(start) };
        }
        match keys.is_empty() {
            true => self.clear(part.sums, queries),
            false => self.walk(buffers, unit, scratch, 0..queries, keys, part.sums),
        }
    }

    /// Where a head's results are summed up.
    fn sums_of(&self, unit: &Unit<'_>) -> Sums {
        Sums { first: unit.output.cast(), stride: self.shape.output.row() }
    }

    fn copy_states(&self, from: *const RowState, to: *mut RowState) {
        // SAFETY: scratch has a state for each query on both sides, which are the task's own and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to, self.shape.queries()) };
    }

    /// Merges the sums of a query's next chunk into its results.
    ///
    /// # Safety
    ///
    /// State and results of that query, and the row of `sums`, are there and no other task's.
    unsafe fn merge(&self, running: *mut RowState, next: &RowState, unit: &Unit<'_>, sums: Sums, row: usize) {
        let size = self.shape.value_size();
        // SAFETY: the caller's contract.
        let (running, to, from) = unsafe {
            let to = std::slice::from_raw_parts_mut(self.sums_of(unit).row(row), size);
            (&mut *running, to, std::slice::from_raw_parts(sums.row(row), size))
        };
        let most = running.most.max(next.most);
        // Where no key has been seen, all exponentials are 0.
        let level = if most == f32::NEG_INFINITY { 0.0 } else { most };
        let factors = [running.most, next.most].map(|most| (most - level).exp());
        running.most = most;
        running.sum = running.sum * factors[0] + next.sum * factors[1];
        add(self.isa, to, from, factors);
    }

    /// Divides the sums of these queries by the sums of their weights.
    fn finish_rows(&self, unit: &Unit<'_>, state: *mut RowState, queries: Range<usize>) {
        for row in queries.clone() {
            // SAFETY: there is a state for each query, and these are the task's own.
            self.close(unsafe { &mut *state.add(row) });
        }
        let Sums { stride, .. } = self.sums_of(unit);
        let first = self.sums_of(unit).row(queries.start);
        let state = state.wrapping_add(queries.start);
        let args = self.scaling(Sums { first, stride }, first.cast(), stride * 4, state, queries.len());
        // SAFETY: `check` made sure of the output, whose rows are the task's own, as states are.
        unsafe { self.kernels.finish(&args, unit.given) };
    }
}

/// A part of a head's keys.
struct Part {
    /// Whether no key is before it.
    is_first: bool,
    /// Where its sums go.
    sums: Sums,
}

impl Sums {
    fn row(self, row: usize) -> *mut f32 {
        self.first.wrapping_add(row * self.stride)
    }
}

multiversion! {
    /// Both sums, each times its factor.
    fn add(to: &mut [f32], next: &[f32], factors: [f32; 2]) {
        let [own, other] = factors;
        to.iter_mut().zip(next).for_each(|(to, next)| *to = *to * own + *next * other);
    }
}

#[cfg(test)]
mod tests;
