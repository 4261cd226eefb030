//! The pool that lends memory to tensors.
//!
//! A run of a graph allocates and frees the same sizes again and again, and with changing shapes other ones. Used
//! memory is kept because fresh pages cost more than most operators take to fill them. Large buffers are cut out of
//! [free extents](super::extents), which join when they are freed. Small ones come from the heap or from slots, in
//! classes of about an eighth of a power of two; the least recently used is freed first.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use kiln_kernels::Parallel;
use kiln_kernels::extent::{Extent, HUGE_PAGE};
use kiln_kernels::memory::Refused;
use kiln_kernels::parallel::for_each_chunk;

use super::extents::FreeExtents;
use super::memory::{LINE, Memory};
use super::system::{installed_bytes, make_present};
use crate::fork::{Mutex, MutexGuard};
use crate::knobs;

/// Free memory, bounded in bytes.
#[derive(Debug)]
pub struct BufferPool {
    free: Mutex<Free>,
    /// Bytes that are lent.
    lent: AtomicUsize,
    /// The most that may be lent at once.
    most: usize,
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
        Arc::new(BufferPool { free, lent: AtomicUsize::new(0), most })
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
        self.lent.fetch_add(memory.bytes().len(), Ordering::Relaxed);
        Ok(memory)
    }

    fn lend_close(&self, bytes: usize) -> Result<Memory, Refused> {
        let mut free = self.lock();
        let found = free.extents.take(bytes).ok_or(Refused::System { bytes })?;
        let (mut extent, rest) = found.divide(bytes);
        // Before the pages are present, which takes long, so that another thread meanwhile continues in this one's last
        // huge page.
        free.extents.insert(rest);
        self.bound(free);
        match make_present(&mut extent) {
            Ok(()) => Ok(Memory::Piece(extent)),
            Err(refused) => {
                extent.discard();
                self.lock().extents.insert_discarded(extent);
                Err(refused)
            }
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
        self.lent.fetch_add(memory.bytes().len(), Ordering::Relaxed);
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
            Err((found, refused)) => {
                self.lock().extents.insert_half(found);
                Err(refused)
            }
        }
    }

    /// Makes that many bytes of large memory present ahead of their use, on all threads; not more than the pool keeps.
    pub fn prepare(&self, bytes: usize, parallel: &dyn Parallel) {
        let mut free = self.lock();
        let bytes = bytes.min(free.limit).min(self.most);
        if bytes < LARGE || bytes <= free.extents.bytes() {
            return;
        }
        let Some(found) = free.extents.take(bytes) else { return };
        drop(free);
        let mut pieces = found.pieces(PIECE);
        for_each_chunk(parallel, &mut pieces, 1, &|_, pieces| {
            pieces.iter_mut().for_each(|piece| {
                // What is not present yet becomes so at its first access.
                let _ = piece.populate();
            })
        });
        let mut free = self.lock();
        pieces.into_iter().for_each(|piece| free.extents.insert(piece));
        self.bound(free);
    }

    /// The most bytes of large memory that were ever present at once.
    #[must_use]
    pub fn most_present(&self) -> usize {
        self.lock().extents.most_present()
    }

    /// Gives all free memory back to the system, and keeps none from now on.
    pub(super) fn retire(&self) {
        let mut free = self.lock();
        free.limit = 0;
        self.bound(free);
    }

    /// Gives all free memory back to the system. What is lent is kept again once it comes back.
    pub fn trim(&self) {
        self.shrink(self.lock(), 0);
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes held for reuse.
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
            let limit = free.limit;
            self.shrink(free, limit);
        }
    }

    /// Frees what is beyond `limit`: large memory first.
    #[cold]
    fn shrink(&self, mut free: MutexGuard<'_, Free>, limit: usize) {
        let most = limit.saturating_sub(free.bytes);
        let mut excess = free.extents.excess(most);
        let mut victims = Vec::new();
        while free.bytes > limit {
            victims.extend(free.oldest());
        }
        // Outside of the lock: giving memory back takes long.
        drop(free);
        drop(victims);
        excess.iter_mut().for_each(Extent::discard);
        let mut free = self.lock();
        excess.into_iter().for_each(|extent| free.extents.insert_absent(extent));
    }
}

impl Free {
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
        pool.prepare(6 << 20, &kiln_kernels::Serial);
        assert_eq!((pool.free_bytes(), pool.most_present()), (6 << 20, 6 << 20));
        drop([lent(&pool, 4 << 20), lent(&pool, 2 << 20)]);
        pool.prepare(5 << 20, &kiln_kernels::Serial);
        assert_eq!(pool.most_present(), 6 << 20, "nothing had to be added");
        let more = lent(&pool, 7 << 20);
        assert_eq!(pool.most_present(), 8 << 20, "what is missing comes in whole huge pages");
        drop(more);
        pool.prepare(100 << 20, &kiln_kernels::Serial);
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
}
