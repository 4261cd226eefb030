//! The pool that lends memory to tensors.
//!
//! A run of a graph allocates and frees the same sizes again and again, and with changing shapes other ones. Used
//! memory is kept because fresh pages cost more than most operators take to fill them. Large buffers are cut out of
//! [free extents](super::extents), which join when they are freed. Small ones come from the heap or from slots, in
//! classes of about an eighth of a power of two; the least recently used is freed first.
//!
//! Much large memory beyond the bound goes back to the system on [another thread](leaving). Until then it is free
//! memory of the pool as the rest, and the first to be lent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use kiln_kernels::Parallel;
use kiln_kernels::extent::leaving::{self, Leaving};
use kiln_kernels::extent::{Extent, HUGE_PAGE};
use kiln_kernels::memory::{Refused, is_over};
use kiln_kernels::parallel::for_each_chunk;

use super::extents::FreeExtents;
use super::memory::{LINE, Memory};
use super::system::{Missing, installed_bytes, make_present};
use crate::fork::{Mutex, MutexGuard, stay};
use crate::knobs;

/// Free memory, bounded in bytes.
#[derive(Debug)]
pub struct BufferPool {
    free: Mutex<Free>,
    /// Bytes that are lent.
    lent: AtomicUsize,
    /// The most that was lent at once since [`BufferPool::usage`] was asked last.
    peak: AtomicUsize,
    /// The most that may be lent at once.
    most: usize,
    /// About how many bytes are on their way back to the system.
    leaving: Arc<AtomicUsize>,
    /// This pool, for who gives its memory back.
    this: Weak<BufferPool>,
}

/// What a pool has, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// The most that was lent at once since the last look.
    pub(crate) peak: usize,
    /// What is free, or on its way back to the system.
    pub(crate) free: usize,
    /// The most large memory that ever was present.
    pub(crate) most_present: usize,
}

/// What a pool has beyond its bound.
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
    /// Small memory by bytes; of each size, the last was freed last and is the most likely in a cache.
    sizes: BTreeMap<usize, Vec<Kept>>,
    /// Bytes of small memory.
    bytes: usize,
    /// Counts buffers that are given back.
    clock: u64,
    /// Whether what is beyond the limit is on its way back to the system.
    is_leaving: bool,
}

#[derive(Debug)]
struct Kept {
    memory: Memory,
    since: u64,
}

/// Buffers of this many bytes and more are cut out of extents.
pub(crate) const LARGE: usize = 1 << 16;

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
        let free = Mutex::new(Free { limit, ..Free::default() });
        let (lent, peak, leaving) = (AtomicUsize::new(0), AtomicUsize::new(0), Arc::default());
        Arc::new_cyclic(|this| BufferPool { free, lent, peak, most, leaving, this: this.clone() })
    }

    /// Counts memory that is lent from now on.
    fn note_lent(&self, memory: &Memory) {
        let bytes = memory.bytes().len();
        let lent = self.lent.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Mostly another request has lent more: then nothing is written.
        if lent > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(lent, Ordering::Relaxed);
        }
    }

    /// Bytes that may still be lent. Requests at the same time may together get a little more.
    pub(crate) fn room(&self) -> usize {
        self.most.saturating_sub(self.lent.load(Ordering::Relaxed))
    }

    /// Memory of at least `bytes` bytes, hardly more, that is kept for long. Large ones follow each other closely, so
    /// that none takes a huge page for its end alone: of weights of 2.25 MiB each, that would be nearly half.
    ///
    /// # Errors
    ///
    /// Where the system has not as much, or the work of this thread is over before it is present.
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
        let mut free = self.lock();
        let found = free.extents.take(bytes).ok_or(Refused::System { bytes })?;
        let (mut extent, rest) = found.divide(bytes);
        // Before the pages are present, which takes long, so that another thread meanwhile continues in this one's last
        // huge page.
        free.extents.insert(rest);
        self.bound(free);
        match make_present(&mut extent) {
            Ok(()) => Ok(Memory::Piece(extent)),
            Err(missing) => Err(self.take_back(extent, missing)),
        }
    }

    /// Memory that is kept: not much larger than `bytes`.
    ///
    /// # Errors
    ///
    /// As [`BufferPool::lend`].
    pub(super) fn lend_exactly(&self, bytes: usize) -> Result<Memory, Refused> {
        self.lend(bytes, 1)
    }

    /// Memory of `bytes` bytes; from the heap, it may have `slack` times as many.
    ///
    /// # Errors
    ///
    /// Where the system has not as much, or the work of this thread is over before it is present.
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
        found.map_or_else(|| Memory::small(lines), Ok)
    }

    fn lend_large(&self, bytes: usize) -> Result<Memory, Refused> {
        self.await_room(bytes)?;
        let found = self.lock().extents.take(bytes).ok_or(Refused::System { bytes })?;
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

    /// Takes memory back that was not lent because pages are missing.
    fn take_back(&self, extent: Extent, missing: Missing) -> Refused {
        let mut free = self.lock();
        free.extents.insert_missing(extent, missing.present);
        self.bound(free);
        missing.refused
    }

    /// Gives memory that is on its way back to the system at once where this pool would else have more at a time than
    /// it may lend.
    ///
    /// # Errors
    ///
    /// Where the work of this thread is over before there is room.
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

    /// Makes that many bytes of large memory present ahead of their use, on all threads; not more than the pool keeps.
    /// Asks before each piece of some milliseconds whether that is still wanted, and stops where it is not.
    pub fn prepare(&self, bytes: usize, parallel: &dyn Parallel, is_wanted: &(dyn Fn() -> bool + Sync)) {
        let mut free = self.lock();
        let bytes = bytes.min(free.limit).min(self.most);
        if bytes < LARGE || bytes <= free.extents.bytes() {
            return;
        }
        let Some(found) = free.extents.take(bytes) else { return };
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
    pub(crate) fn lent_bytes(&self) -> usize {
        self.lent.load(Ordering::Relaxed)
    }

    /// What the pool has now. The next look's peak begins here.
    pub(crate) fn usage(&self) -> Usage {
        let lent = self.lent.load(Ordering::Relaxed);
        let peak = self.peak.swap(lent, Ordering::Relaxed).max(lent);
        let free = self.lock();
        Usage { peak, free: free.bytes + free.extents.bytes(), most_present: free.extents.most_present() }
    }

    /// Gives free memory back to the system until no more than `most` bytes are free, a piece at a time, for as long as
    /// `goes_on` says so. No fork happens while a piece is on its way, so that a child loses none.
    pub(crate) fn trim_to(&self, most: usize, goes_on: &dyn Fn() -> bool) {
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

    /// Gives all free memory back to the system before it returns. What is lent is kept again once it comes back.
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
        if knobs::guard().is_some() {
            // It is unmapped at once, so that later accesses fault.
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

    /// Frees what is beyond the limit; of large memory, much is left to another thread.
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

    /// Gives a piece of what is beyond the limit back to the system. Whether there is more.
    fn give_piece(&self) -> bool {
        // A child of a fork that happened meanwhile would have lost the piece.
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

    /// Frees what is beyond `limit`: large memory first.
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

    /// Removes what was given back first.
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

/// A number of lines rounded up to one that memory is kept in: there are eight from a power of two to the next.
fn rounded(lines: usize) -> usize {
    if lines <= 8 {
        return lines;
    }
    lines.next_multiple_of(1 << (lines.ilog2() - 3))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::tensor::Buffer;

    fn lent(pool: &Arc<BufferPool>, bytes: usize) -> Buffer {
        Buffer::lent(pool, bytes).unwrap()
    }

    fn lent_to_keep(pool: &Arc<BufferPool>, bytes: usize) -> Buffer {
        Buffer::lent_to_keep(pool, bytes).unwrap()
    }

    fn address(buffer: &Buffer) -> usize {
        buffer.bytes().as_ptr().addr()
    }

    #[test]
    fn classes_are_monotone_and_at_most_an_eighth_larger() {
        let mut last = 0;
        for lines in 1..100_000 {
            let size = rounded(lines);
            assert!(size >= lines && size <= lines + lines / 8 + 1, "{lines} became {size}");
            assert_eq!(rounded(size), size, "a class size is its own class");
            assert!(size >= last, "{lines}");
            last = size;
        }
    }

    #[test]
    fn freed_memory_is_lent_again() {
        let pool = BufferPool::new(1 << 20);
        let first = lent(&pool, 1000);
        let place = address(&first);
        drop(first);
        assert_eq!(pool.free_bytes(), 1024);
        assert_eq!(address(&lent(&pool, 1010)), place);
        assert_eq!(pool.free_bytes(), 1024);
    }

    #[test]
    fn large_memory_is_divided_anew_for_other_sizes() {
        let pool = BufferPool::new(1 << 26);
        let buffers = [3 << 20, 2 << 20, 3 << 20].map(|bytes| lent(&pool, bytes));
        let places: Vec<usize> = buffers.iter().map(address).collect();
        drop(buffers);
        assert_eq!(pool.free_bytes(), 8 << 20);
        let whole = lent(&pool, 8 << 20);
        assert_eq!((address(&whole), pool.free_bytes()), (places[0], 0), "three neighbours became one");
        drop(whole);
        let parts: Vec<Buffer> = (0..8).map(|_| lent(&pool, 1 << 20)).collect();
        assert_eq!(pool.free_bytes(), 0, "and one became eight");
        drop(parts);
        assert_eq!(pool.free_bytes(), 8 << 20);
    }

    #[test]
    fn kept_buffers_lie_close_whatever_is_asked_for_at_once() {
        let pool = BufferPool::new(8 << 20);
        let bytes = (2 << 20) + (1 << 18);
        let buffers: Vec<Buffer> = std::thread::scope(|scope| {
            let ask = || (0..16).map(|_| lent_to_keep(&pool, bytes)).collect::<Vec<_>>();
            let threads = [scope.spawn(ask), scope.spawn(ask)];
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let places: Vec<usize> = buffers.iter().map(address).collect();
        let span = places.iter().max().unwrap() + bytes - places.iter().min().unwrap();
        assert_eq!(span, 32 * bytes, "nothing lies between them");
        assert!(pool.most_present() <= 32 * bytes + HUGE_PAGE);
        assert_eq!(lent_to_keep(&pool, 100).bytes().len(), 128);
        assert!(lent_to_keep(&pool, 0).is_empty());
        drop(buffers);
        assert!(pool.free_bytes() <= 8 << 20);
    }

    #[test]
    fn memory_is_prepared_for_as_long_as_it_is_wanted() {
        let pool = BufferPool::new(1 << 30);
        let asked = AtomicUsize::new(0);
        pool.prepare(10 * PIECE, &kiln_kernels::Serial, &|| asked.fetch_add(1, Ordering::Relaxed) < 3);
        assert_eq!(pool.free_bytes(), 3 * PIECE);
        pool.prepare(10 * PIECE, &kiln_kernels::Serial, &|| false);
        assert_eq!(pool.free_bytes(), 3 * PIECE, "what is present stays so");
        let all = lent(&pool, 10 * PIECE);
        drop(all);
        assert_eq!(pool.free_bytes(), 10 * PIECE);
    }

    #[test]
    fn a_larger_size_adds_only_the_pages_that_are_missing() {
        let pool = BufferPool::new(1 << 26);
        let first = lent(&pool, 6 << 20);
        let place = address(&first);
        drop(first);
        let larger = lent(&pool, 10 << 20);
        assert_eq!((address(&larger), pool.free_bytes()), (place, 0));
    }

    #[test]
    fn prepared_memory_is_what_is_lent_and_no_more_than_the_pool_keeps() {
        let pool = BufferPool::new(8 << 20);
        pool.prepare(6 << 20, &kiln_kernels::Serial, &|| true);
        assert_eq!((pool.free_bytes(), pool.most_present()), (6 << 20, 6 << 20));
        drop([lent(&pool, 4 << 20), lent(&pool, 2 << 20)]);
        pool.prepare(5 << 20, &kiln_kernels::Serial, &|| true);
        assert_eq!(pool.most_present(), 6 << 20, "nothing had to be added");
        let more = lent(&pool, 7 << 20);
        assert_eq!(pool.most_present(), 8 << 20, "what is missing comes in whole huge pages");
        drop(more);
        pool.prepare(100 << 20, &kiln_kernels::Serial, &|| true);
        assert!(pool.free_bytes() <= 8 << 20);
    }

    #[test]
    fn buffers_in_use_lie_apart_whatever_was_freed_between_them() {
        let pool = BufferPool::new(1 << 24);
        let mut seed = 3u32;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below
        };
        let mut held: Vec<(Buffer, u8)> = Vec::new();
        for round in 0..2000 {
            if held.len() > 12 || (!held.is_empty() && next(2) == 0) {
                let (buffer, mark) = held.swap_remove(next(held.len()));
                assert!(buffer.bytes().iter().step_by(4096).all(|&byte| byte == mark));
                assert_eq!(buffer.bytes().last(), Some(&mark));
            } else {
                let mark = (round % 251) as u8;
                let mut buffer = lent(&pool, 1 + next(4 << 20));
                buffer.bytes_mut().fill(mark);
                held.push((buffer, mark));
            }
            assert!(pool.free_bytes() <= 1 << 24);
        }
        drop(held);
        assert_eq!(pool.lent.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_trimmed_pool_has_nothing_free_and_keeps_what_comes_back() {
        let pool = BufferPool::new(1 << 26);
        let held = lent(&pool, 3 << 20);
        drop([lent(&pool, 1000), lent(&pool, 5 << 20)]);
        assert!(pool.free_bytes() > 0);
        pool.trim();
        assert_eq!(pool.free_bytes(), 0);
        drop(held);
        assert!(pool.free_bytes() >= 3 << 20);
    }

    #[test]
    fn a_pool_is_trimmed_to_what_is_wanted_for_as_long_as_that_goes_on() {
        let pool = BufferPool::new(1 << 30);
        let held = lent(&pool, 3 << 20);
        drop([lent(&pool, 1000), lent(&pool, 5 << 20), lent(&pool, 200 << 20)]);
        let Usage { peak, free, .. } = pool.usage();
        assert_eq!(peak, (208 << 20) + 1024);
        assert!(free >= 205 << 20);
        assert_eq!(pool.usage().peak, 3 << 20, "since the look before");
        pool.trim_to(0, &|| false);
        assert_eq!(pool.free_bytes(), free);
        let asked = AtomicUsize::new(0);
        pool.trim_to(0, &|| asked.fetch_add(1, Ordering::Relaxed) < 2);
        assert_eq!(pool.free_bytes(), free - 2 * leaving::PIECE, "a piece at a time");
        pool.trim_to(7 << 20, &|| true);
        assert_eq!(pool.free_bytes(), 7 << 20);
        pool.trim_to(0, &|| true);
        assert_eq!((pool.free_bytes(), pool.lent_bytes()), (0, 3 << 20));
        drop(held);
        assert!(pool.free_bytes() >= 3 << 20);
    }

    #[test]
    fn a_full_pool_lets_the_oldest_go() {
        let pool = BufferPool::new(512);
        drop(lent(&pool, 1000));
        assert_eq!(pool.free_bytes(), 0, "more than the pool may hold");
        let buffers = [64, 128, 256, 192].map(|bytes| lent(&pool, bytes));
        drop(buffers);
        assert_eq!(pool.free_bytes(), 256 + 192, "the first two went first");
    }

    #[test]
    fn large_memory_beyond_the_limit_goes_back_to_the_system() {
        let pool = BufferPool::new(3 << 20);
        drop([lent(&pool, 2 << 20), lent(&pool, 2 << 20)]);
        assert_eq!(pool.free_bytes(), 3 << 20);
        drop([lent(&pool, 4 << 20), lent(&pool, 2 << 20)]);
        assert_eq!(pool.free_bytes(), 3 << 20);
        pool.retire();
        assert_eq!(pool.free_bytes(), 0);
        drop(lent(&pool, 2 << 20));
        assert_eq!(pool.free_bytes(), 0, "nothing is kept any more");
    }

    /// Work of the thread that gives memory back, which takes until the test lets it end.
    struct Gate(mpsc::Receiver<()>);

    impl Leaving for Gate {
        fn give_piece(&mut self) -> bool {
            self.0.recv().is_ok()
        }

        fn bytes(&self) -> usize {
            0
        }
    }

    /// Keeps all that is left to the thread meanwhile from being given back, until the sender is dropped.
    fn closed() -> mpsc::Sender<()> {
        let (open, gate) = mpsc::channel();
        leaving::leave(Box::new(Gate(gate)));
        open
    }

    /// Waits until the pool has so much free memory and none on its way.
    fn await_free(pool: &BufferPool, bytes: usize) {
        let begun = Instant::now();
        while pool.free_bytes() > bytes || leaving_bytes(pool) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} bytes stay", pool.free_bytes());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(pool.free_bytes(), bytes);
    }

    fn leaving_bytes(pool: &BufferPool) -> usize {
        pool.leaving.load(Ordering::Relaxed)
    }

    #[test]
    fn much_memory_beyond_the_limit_is_on_its_way_when_it_has_been_given_back() {
        let pool = BufferPool::new(3 << 20);
        let buffer = lent(&pool, 256 << 20);
        let place = address(&buffer);
        let open = closed();
        drop(buffer);
        assert_eq!((pool.free_bytes(), leaving_bytes(&pool)), (256 << 20, 253 << 20), "it is on its way");
        let again = lent(&pool, 200 << 20);
        assert_eq!((address(&again), pool.free_bytes()), (place, 56 << 20), "and is lent before it is gone");
        drop(again);
        assert_eq!((pool.free_bytes(), pool.most_present()), (256 << 20, 256 << 20));
        drop(open);
        await_free(&pool, 3 << 20);
        assert_eq!(pool.lent.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn memory_on_its_way_is_given_back_at_once_by_who_trims_and_by_who_needs_the_room() {
        let pool = BufferPool::bounded(0, 300 << 20);
        let open = closed();
        for _ in 0..3 {
            drop(lent(&pool, 200 << 20));
            drop(lent(&pool, 280 << 20));
            drop(lent_to_keep(&pool, 290 << 20));
        }
        assert!(pool.most_present() <= 300 << 20, "memory on its way counts: {}", pool.most_present());
        drop([lent(&pool, 100 << 20), lent(&pool, 100 << 20)]);
        assert!(pool.free_bytes() >= 200 << 20);
        pool.trim();
        assert_eq!(pool.free_bytes(), 0);
        drop(open);
        await_free(&pool, 0);
    }

    #[test]
    fn work_that_is_over_leaves_what_it_had_got_and_returns() {
        let pool = BufferPool::bounded(0, 2 << 30);
        let asked = AtomicUsize::new(0);
        let after = move || asked.fetch_add(1, Ordering::Relaxed) >= 200;
        let is_over: kiln_kernels::memory::IsOver = Arc::new(after);
        let open = closed();
        let ended = kiln_kernels::memory::until(Some(&is_over), || pool.lend(1 << 30, 1).map(drop));
        assert_eq!(ended, Err(Refused::Over { bytes: 1 << 30 }));
        let left = pool.free_bytes();
        assert!((100 << 20..512 << 20).contains(&left), "{left} bytes were present, and are on their way");
        assert_eq!((pool.lent.load(Ordering::Relaxed), leaving_bytes(&pool)), (0, left));
        // Nor does it give back what it would need the room of.
        let tight = BufferPool::bounded(0, 300 << 20);
        drop(lent(&tight, 200 << 20));
        let ended = kiln_kernels::memory::until(Some(&is_over), || tight.lend(280 << 20, 1).map(drop));
        assert_eq!((ended, tight.free_bytes()), (Err(Refused::Over { bytes: 280 << 20 }), 200 << 20));
        drop(open);
        await_free(&pool, 0);
        await_free(&tight, 0);
    }

    #[test]
    fn eight_callers_have_no_more_at_a_time_than_the_pool_may_lend() {
        let (each, callers) = (72 << 20, 8);
        let pool = BufferPool::bounded(0, callers * each);
        std::thread::scope(|scope| {
            for caller in 0..callers {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..20 {
                        let mut buffer = lent(pool, each - (((caller + round) % 3) << 20));
                        buffer.bytes_mut()[..100].fill(caller as u8);
                        std::thread::yield_now();
                        assert!(buffer.bytes()[..100].iter().all(|&byte| byte == caller as u8));
                    }
                });
            }
        });
        // Each may be a huge page larger, and callers that ask at the same time may each find the same room.
        assert!(pool.most_present() <= 2 * callers * each, "{}", pool.most_present());
        await_free(&pool, 0);
        assert_eq!(pool.lent.load(Ordering::Relaxed), 0);
    }
}
