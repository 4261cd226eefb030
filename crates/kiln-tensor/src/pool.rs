//! The pool that lends memory to tensors.
//!
//! A run of a graph allocates and frees the same sizes again and again, and other sizes when shapes change. Freed
//! memory is kept, because fresh pages cost more time than most operators take to fill them. Large buffers are cut out
//! of [free extents](super::extents), which join when they are freed. Small ones come from the heap or from slots, in
//! classes of about an eighth of a power of two; the least recently used is freed first.
//!
//! Large memory beyond the bound goes back to the system on [another thread](leaving) if it is much. Until then it is
//! free memory like the rest, and the first to be lent.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use kiln_fork::{Mutex, MutexGuard, stay};
use kiln_kernels::Parallel;
use kiln_kernels::extent::leaving::{self, Leaving};
use kiln_kernels::extent::{Extent, HUGE_PAGE};
use kiln_kernels::memory::ceiling::{self, Holder, Keeps, Spare};
use kiln_kernels::memory::{Refused, is_over};
use kiln_kernels::parallel::for_each_chunk;

use super::extents::FreeExtents;
use super::memory::{LINE, Memory};
use super::system::{Missing, installed_bytes, make_present};

/// Free memory, bounded in bytes.
#[derive(Debug)]
pub struct BufferPool {
    free: Mutex<Free>,
    /// Bytes that are lent.
    lent: AtomicUsize,
    /// The most bytes lent at once since the last call of [`BufferPool::usage`].
    peak: AtomicUsize,
    /// The most bytes that may be lent at once.
    most: usize,
    /// The holder for which its memory is counted.
    holder: Holder,
    /// About how many bytes are on their way back to the system.
    leaving: Arc<AtomicUsize>,
    /// This pool, for the thread that gives its memory back.
    this: Weak<BufferPool>,
}

/// The memory of a pool, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The most that was lent at once since the last call.
    pub peak: usize,
    /// Free memory, including memory on its way back to the system.
    pub free: usize,
    /// The most large memory that was ever present.
    pub most_present: usize,
}

/// Memory of a pool beyond its bound.
struct Excess {
    pool: Weak<BufferPool>,
    /// As the pool's `leaving`, to be read without owning the pool.
    bytes: Arc<AtomicUsize>,
}

impl Leaving for Excess {
    fn give_piece(&mut self) -> bool {
        self.pool.upgrade().is_some_and(|pool| pool.give_piece())
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct Free {
    /// The most bytes that are kept.
    limit: usize,
    /// Large memory.
    extents: FreeExtents,
    /// Small memory by bytes. The last entry of a size was freed last and is the most likely in a cache.
    sizes: BTreeMap<usize, Vec<Kept>>,
    /// Bytes of small memory.
    bytes: usize,
    /// Counts buffers that are given back.
    clock: u64,
    /// Whether memory beyond the limit is on its way back to the system.
    is_leaving: bool,
}

#[derive(Debug)]
struct Kept {
    memory: Memory,
    since: u64,
}

/// Buffers of this many bytes and more are cut out of extents.
pub const LARGE: usize = 1 << 16;

/// Bytes that one thread populates at a time.
const PIECE: usize = 2 * HUGE_PAGE;

impl BufferPool {
    /// A pool that keeps at most `limit` free bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<BufferPool> {
        BufferPool::bounded(limit, installed_bytes())
    }

    /// A pool that keeps at most `limit` free bytes and lends at most about `most` at once: tensors beyond that are
    /// refused ([`TensorError::Memory`](super::TensorError::Memory)) instead of ending the process.
    #[must_use]
    pub fn bounded(limit: usize, most: usize) -> Arc<BufferPool> {
        BufferPool::of(Holder::Tensors, limit, most)
    }

    /// A pool of packed weights or constants of models. Its free memory is given up when the process reaches its
    /// ceiling.
    #[must_use]
    pub fn of_weights(limit: usize) -> Arc<BufferPool> {
        let pool = BufferPool::of(Holder::Weights, limit, installed_bytes());
        let keeper: Weak<dyn Keeps> = pool.this.clone();
        ceiling::keep(keeper);
        pool
    }

    fn of(holder: Holder, limit: usize, most: usize) -> Arc<BufferPool> {
        let free = Mutex::new(Free { limit, extents: FreeExtents::of(holder), ..Free::default() });
        let (lent, peak, leaving) = (AtomicUsize::new(0), AtomicUsize::new(0), Arc::default());
        Arc::new_cyclic(|this| BufferPool { free, lent, peak, most, holder, leaving, this: this.clone() })
    }

    /// Counts memory that is lent from now on.
    fn note_lent(&self, memory: &Memory) {
        let bytes = memory.bytes().len();
        let lent = self.lent.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Mostly the peak was higher before: then nothing is written.
        if lent > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(lent, Ordering::Relaxed);
        }
    }

    /// Bytes that may still be lent. Concurrent requests may together get a little more.
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.lent.load(Ordering::Relaxed))
    }

    /// Memory of at least `bytes` bytes, hardly more, that is kept for long. Large pieces are packed closely, so that
    /// none takes a huge page for its end alone: for weights of 2.25 MiB each, that would waste nearly half.
    ///
    /// # Errors
    ///
    /// Where the system has too little memory, or this thread's work is ended before the memory is present.
    pub(super) fn lend_to_keep(&self, bytes: usize) -> Result<Memory, Refused> {
        let lines = bytes.div_ceil(LINE);
        let memory = match (self.lend_guarded(bytes), lines * LINE) {
            (Some(guarded), _) => guarded,
            (None, bytes) if bytes < LARGE => self.lend_small(rounded(lines), 1)?,
            (None, bytes) => self.lend_close(bytes)?,
        };
        self.note_lent(&memory);
        Ok(memory)
    }

    fn lend_close(&self, bytes: usize) -> Result<Memory, Refused> {
        self.await_room(bytes)?;
        let found = ceiling::within(|| {
            let mut free = self.lock();
            let Some(found) = free.extents.take(bytes)? else { return Ok(None) };
            let (extent, rest) = found.divide(bytes);
            // Given back before the pages are present, which takes long, so that another thread can meanwhile continue
            // in the last huge page.
            free.extents.insert(rest);
            self.bound(free);
            Ok(Some(extent))
        })?;
        let mut extent = found.ok_or(Refused::System { bytes })?;
        match make_present(&mut extent) {
            Ok(()) => Ok(Memory::Piece(extent)),
            Err(missing) => Err(self.take_back(extent, missing)),
        }
    }

    /// Memory that is not much larger than `bytes`, for buffers that are kept.
    ///
    /// # Errors
    ///
    /// As [`BufferPool::lend`].
    pub(super) fn lend_exactly(&self, bytes: usize) -> Result<Memory, Refused> {
        self.lend(bytes, 1)
    }

    /// Memory of `bytes` bytes; small memory may have up to `slack` times as many.
    ///
    /// # Errors
    ///
    /// Where the system has too little memory, or this thread's work is ended before the memory is present.
    pub(super) fn lend(&self, bytes: usize, slack: usize) -> Result<Memory, Refused> {
        let lines = bytes.div_ceil(LINE).max(1);
        let memory = match (self.lend_guarded(bytes), lines * LINE) {
            (Some(guarded), _) => guarded,
            (None, bytes) if bytes < LARGE => self.lend_small(rounded(lines), slack)?,
            (None, bytes) => self.lend_large(bytes)?,
        };
        self.note_lent(&memory);
        Ok(memory)
    }

    /// Memory between pages that fault, with `KILN_GUARD`: filled with NaN, because lent memory has arbitrary contents.
    fn lend_guarded(&self, bytes: usize) -> Option<Memory> {
        let mut memory = Memory::guarded(bytes)?;
        memory.bytes_mut().fill(0xFF);
        Some(memory)
    }

    fn lend_small(&self, lines: usize, slack: usize) -> Result<Memory, Refused> {
        let bytes = lines * LINE;
        let found = self.lock().find(bytes, bytes * slack);
        found.map_or_else(|| Memory::small(lines, self.holder), Ok)
    }

    fn lend_large(&self, bytes: usize) -> Result<Memory, Refused> {
        self.await_room(bytes)?;
        let found = ceiling::within(|| self.lock().extents.take(bytes))?.ok_or(Refused::System { bytes })?;
        // Outside of the lock: fresh pages take long.
        match found.populate_part(bytes) {
            Ok((extent, None)) => Ok(Memory::Piece(extent)),
            Ok((extent, Some(rest))) => {
                let mut free = self.lock();
                free.extents.insert(rest);
                self.bound(free);
                Ok(Memory::Piece(extent))
            }
            Err((extent, missing)) => Err(self.take_back(extent, missing)),
        }
    }

    /// Takes back memory that was not lent because pages are missing.
    fn take_back(&self, extent: Extent, missing: Missing) -> Refused {
        let mut free = self.lock();
        free.extents.insert_missing(extent, missing.present);
        self.bound(free);
        missing.refused
    }

    /// Gives memory on its way back to the system back at once, where this pool would otherwise have more present than
    /// it may lend.
    ///
    /// # Errors
    ///
    /// Where this thread's work is ended before there is room.
    fn await_room(&self, bytes: usize) -> Result<(), Refused> {
        loop {
            if self.leaving.load(Ordering::Relaxed) == 0 {
                return Ok(());
            }
            let free = self.lock();
            if !free.is_leaving || free.extents.has(bytes) || free.extents.present_bytes() + bytes <= self.most {
                return Ok(());
            }
            drop(free);
            if is_over() {
                return Err(Refused::Over { bytes });
            }
            self.give_piece();
        }
    }

    /// Makes `bytes` bytes of large memory present ahead of their use, on all threads; no more than the pool keeps.
    /// Before each piece, which takes some milliseconds, it checks `is_wanted`, and stops if it is false.
    pub fn prepare(&self, bytes: usize, parallel: &dyn Parallel, is_wanted: &(dyn Fn() -> bool + Sync)) {
        let mut free = self.lock();
        let bytes = bytes.min(free.limit).min(self.most);
        if bytes < LARGE || bytes <= free.extents.bytes() {
            return;
        }
        // Only where there is room: no other memory is given up for it.
        let Ok(Some(found)) = free.extents.take(bytes) else { return };
        drop(free);
        let (present, fresh) = found.pieces(PIECE);
        let mut pieces: Vec<(Extent, usize)> = fresh.into_iter().map(|piece| (piece, 0)).collect();
        for_each_chunk(parallel, &mut pieces, 1, &|_, pieces| {
            for (piece, present) in pieces {
                if is_wanted() {
                    *present = piece.populate_wanted();
                }
            }
        });
        let mut free = self.lock();
        free.extents.insert(present);
        pieces.into_iter().for_each(|(piece, present)| free.extents.insert_missing(piece, present));
        self.bound(free);
    }

    /// The most bytes of large memory that were ever present at once.
    #[must_use]
    pub fn most_present(&self) -> usize {
        self.lock().extents.most_present()
    }

    /// Bytes that are lent.
    #[inline]
    pub fn lent_bytes(&self) -> usize {
        self.lent.load(Ordering::Relaxed)
    }

    /// The memory of the pool now. The peak of the next call begins here.
    pub fn usage(&self) -> Usage {
        let lent = self.lent.load(Ordering::Relaxed);
        let peak = self.peak.swap(lent, Ordering::Relaxed).max(lent);
        let free = self.lock();
        Usage { peak, free: free.bytes + free.extents.bytes(), most_present: free.extents.most_present() }
    }

    /// Gives free memory back to the system, a piece at a time, until at most `most` bytes are free or `goes_on` is
    /// false. No fork happens while a piece is given back, so a child process loses none.
    pub fn trim_to(&self, most: usize, goes_on: &dyn Fn() -> bool) {
        while goes_on() {
            let _whole = stay();
            let mut free = self.lock();
            let excess = free.extents.bytes().saturating_sub(most.saturating_sub(free.bytes));
            if excess == 0 {
                let victims = free.beyond(most);
                drop(free);
                return drop(victims);
            }
            let left = free.extents.bytes() - excess.min(leaving::PIECE);
            let piece = free.extents.excess(left);
            drop(free);
            drop(self.discard(piece));
        }
    }

    /// Gives all free memory back to the system, and keeps none from now on.
    pub(super) fn retire(&self) {
        let mut free = self.lock();
        free.limit = 0;
        self.bound(free);
    }

    /// Gives all free memory back to the system before it returns. Memory that is lent now is kept again once it comes
    /// back.
    pub fn trim(&self) {
        self.shrink(self.lock(), 0);
        leaving::go_on();
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes held for reuse, or on their way back to the system.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        let free = self.lock();
        free.bytes + free.extents.bytes()
    }

    pub(super) fn give_back(&self, memory: Memory) {
        let size = memory.bytes().len();
        self.lent.fetch_sub(size, Ordering::Relaxed);
        if kiln_knobs::guard().is_some() {
            // Guarded memory is unmapped at once, so that later accesses fault.
            return;
        }
        let mut free = self.lock();
        match memory {
            Memory::Piece(extent) => free.extents.insert(extent),
            memory => {
                free.clock += 1;
                let since = free.clock;
                free.bytes += size;
                free.sizes.entry(size).or_default().push(Kept { memory, since });
            }
        }
        self.bound(free);
    }

    fn bound(&self, free: MutexGuard<'_, Free>) {
        if free.bytes + free.extents.bytes() > free.limit {
            self.give_excess(free);
        }
    }

    /// Frees memory beyond the limit; much large memory is left to another thread.
    #[cold]
    fn give_excess(&self, mut free: MutexGuard<'_, Free>) {
        let limit = free.limit;
        let excess = free.excess();
        if excess < leaving::LEAST && !free.is_leaving {
            return self.shrink(free, limit);
        }
        let victims = free.beyond(limit);
        self.leaving.store(excess, Ordering::Relaxed);
        let goes_on = std::mem::replace(&mut free.is_leaving, true);
        drop(free);
        drop(victims);
        if goes_on {
            return leaving::go_on();
        }
        leaving::leave(Box::new(Excess { pool: self.this.clone(), bytes: self.leaving.clone() }));
    }

    /// Gives a piece of the memory beyond the limit back to the system. Returns whether there is more.
    fn give_piece(&self) -> bool {
        // A process forked meanwhile would lose the piece.
        let _whole = stay();
        let mut free = self.lock();
        let most = free.extents.bytes() - free.excess().min(leaving::PIECE);
        let piece = free.extents.excess(most);
        drop(free);
        let mut free = self.discard(piece);
        let excess = free.excess();
        self.leaving.store(excess, Ordering::Relaxed);
        free.is_leaving = excess > 0;
        free.is_leaving
    }

    /// Frees memory beyond `limit`, large memory first.
    #[cold]
    fn shrink(&self, mut free: MutexGuard<'_, Free>, limit: usize) {
        let most = limit.saturating_sub(free.bytes);
        let excess = free.extents.excess(most);
        let victims = free.beyond(limit);
        // Outside of the lock: giving memory back takes long.
        drop(free);
        drop(victims);
        drop(self.discard(excess));
    }

    /// Gives the pages of extents of this pool back to the system.
    fn discard(&self, mut extents: Vec<Extent>) -> MutexGuard<'_, Free> {
        extents.iter_mut().for_each(Extent::discard);
        let mut free = self.lock();
        extents.into_iter().for_each(|extent| free.extents.insert_absent(extent));
        free
    }
}

impl Keeps for BufferPool {
    fn used_at(&self) -> u64 {
        0
    }

    fn let_go(&self, spare: Spare, _: usize) -> bool {
        if spare == Spare::Memory {
            self.trim();
        }
        false
    }

    fn plans(&self) -> usize {
        0
    }
}

impl Free {
    /// Bytes of large memory beyond the limit.
    fn excess(&self) -> usize {
        self.extents.bytes().saturating_sub(self.limit.saturating_sub(self.bytes))
    }

    /// Removes small memory beyond `limit` bytes.
    fn beyond(&mut self, limit: usize) -> Vec<Memory> {
        let mut victims = Vec::new();
        while self.bytes > limit {
            victims.extend(self.oldest());
        }
        victims
    }

    /// The smallest free small memory of `least` to `most` bytes.
    fn find(&mut self, least: usize, most: usize) -> Option<Memory> {
        let (&found, kept) = self.sizes.range_mut(least..=most).next()?;
        let last = kept.pop();
        if kept.is_empty() {
            self.sizes.remove(&found);
        }
        self.bytes -= found;
        last.map(|kept| kept.memory)
    }

    /// Removes the small memory that was given back first.
    fn oldest(&mut self) -> Option<Memory> {
        let first = |kept: &[Kept]| kept.first().map_or(u64::MAX, |kept| kept.since);
        let (&size, kept) = self.sizes.iter_mut().min_by_key(|(_, kept)| first(kept))?;
        let oldest = kept.remove(0);
        if kept.is_empty() {
            self.sizes.remove(&size);
        }
        self.bytes -= size;
        Some(oldest.memory)
    }
}

/// A number of lines rounded up to a size class: there are eight from a power of two to the next.
fn rounded(lines: usize) -> usize {
    if lines <= 8 {
        return lines;
    }
    lines.next_multiple_of(1 << (lines.ilog2() - 3))
}
