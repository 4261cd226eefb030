//! Memory of tensors: cache-line aligned, and lent by a pool that gets it back by itself.
//!
//! A run of a graph allocates and frees the same sizes again and again, and with changing shapes other ones. Memory that
//! was used before is worth keeping: fresh pages cost more than most operators take to fill them. So [`BufferPool`]
//! rounds sizes to classes of about an eighth of a power of two, lends the smallest free buffer that is large enough
//! even if it is a good deal larger, and lets go what was not used for longest.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::backing::Backing;
use super::memory::{LINE, Memory, installed_bytes};

/// Aligned bytes. Dropping one that a pool lent gives its memory back to the pool.
#[derive(Debug)]
pub struct Buffer {
    /// Empty until the bytes are asked for, where they come from a file.
    memory: OnceLock<Memory>,
    /// Where they come from then.
    later: Mutex<Option<Deferred>>,
    pool: Option<Arc<BufferPool>>,
    /// Bytes asked for when it was made.
    asked: usize,
    /// Who wants it back when nobody uses it any more, if anybody; else it goes to the pool.
    home: Home,
}

/// A place that a buffer belongs to: a number of a holder, and of a place there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Home {
    /// The holder; 0 is none.
    pub(crate) holder: u64,
    /// The place.
    pub(crate) place: u32,
}

/// Bytes that are still in a file.
#[derive(Debug)]
struct Deferred {
    backing: Arc<Backing>,
    offset: u64,
}

impl Buffer {
    /// At least `bytes` bytes of zeros, owned.
    #[must_use]
    pub fn zeroed(bytes: usize) -> Buffer {
        Buffer::of(Memory::zeroed(bytes), bytes, None)
    }

    /// That many bytes of a file from `offset` on, which are read when they are first asked for.
    #[must_use]
    pub fn deferred(backing: Arc<Backing>, offset: u64, bytes: usize) -> Buffer {
        let pool = Some(backing.pool().clone());
        let later = Mutex::new(Some(Deferred { backing, offset }));
        Buffer { memory: OnceLock::new(), later, pool, asked: bytes, home: Home::default() }
    }

    fn of(memory: Memory, asked: usize, pool: Option<Arc<BufferPool>>) -> Buffer {
        Buffer { memory: OnceLock::from(memory), later: Mutex::new(None), pool, asked, home: Home::default() }
    }

    /// The same buffer, belonging there.
    pub(crate) fn at_home(self, home: Home) -> Buffer {
        let mut buffer = self;
        buffer.home = home;
        buffer
    }

    /// Where it belongs.
    #[inline]
    pub(crate) fn home(&self) -> Home {
        self.home
    }

    /// How many bytes there are at least, without reading any.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.get().map_or(self.asked, |memory| memory.bytes().len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes, rounded up to whole cache lines.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.memory.get_or_init(|| self.read()).bytes()
    }

    /// All bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let _ = self.bytes();
        self.memory.get_mut().map_or(&mut [], Memory::bytes_mut)
    }

    /// Reads what was deferred.
    fn read(&self) -> Memory {
        let later = self.later.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Deferred { backing, offset }) = later else { return Memory::default() };
        let mut memory = backing.pool().lend_exactly(self.asked);
        backing.read(offset, &mut memory.bytes_mut()[..self.asked]);
        memory
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let (Some(pool), Some(memory)) = (self.pool.take(), self.memory.take()) {
            pool.give_back(memory);
        }
    }
}

/// Freed memory by size, bounded in bytes.
#[derive(Debug)]
pub struct BufferPool {
    free: Mutex<Free>,
    /// Bytes that are out.
    lent: AtomicUsize,
    /// How many may be out at once.
    most: usize,
}

#[derive(Debug, Default)]
struct Free {
    /// Most bytes kept.
    limit: usize,
    /// By bytes; the last of a size was freed last, so its lines are the warmest.
    sizes: BTreeMap<usize, Vec<Kept>>,
    bytes: usize,
    /// Counts what is given back.
    clock: u64,
}

#[derive(Debug)]
struct Kept {
    memory: Memory,
    since: u64,
}

/// Buffers from this size on are lent in place of much smaller ones: below, the heap has warm memory of its own.
const LARGE: usize = 1 << 16;

/// How many times larger than asked for a lent buffer may be.
fn slack(bytes: usize) -> usize {
    if bytes < LARGE { 2 } else { 16 }
}

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

    /// Bytes that may still be lent. Of requests that ask at the same time, one may get a little more.
    pub(crate) fn room(&self) -> usize {
        self.most.saturating_sub(self.lent.load(Ordering::Relaxed))
    }

    /// A buffer of at least `bytes` bytes that hold whatever was in them.
    #[must_use]
    pub fn take(pool: &Arc<BufferPool>, bytes: usize) -> Buffer {
        let size = class_of(bytes.div_ceil(LINE).max(1)) * LINE;
        let found = pool.lock().take(size, slack(size));
        let memory = found.unwrap_or_else(|| Memory::zeroed(size));
        pool.lent.fetch_add(memory.bytes().len(), Ordering::Relaxed);
        Buffer::of(memory, bytes, Some(pool.clone()))
    }

    /// Memory for bytes that may stay: at most an eighth larger than they are.
    fn lend_exactly(&self, bytes: usize) -> Memory {
        let size = bytes.next_multiple_of(LINE);
        let found = self.lock().find(size, size + size / 8);
        let memory = found.unwrap_or_else(|| Memory::zeroed(size));
        self.lent.fetch_add(memory.bytes().len(), Ordering::Relaxed);
        memory
    }

    /// Lets go of all free memory, and keeps none from now on.
    pub(super) fn retire(&self) {
        let kept = std::mem::take(&mut *self.lock());
        // Giving memory back to the system takes long; nobody should wait for it.
        drop(kept);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes held for reuse.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.lock().bytes
    }

    fn give_back(&self, memory: Memory) {
        let size = memory.bytes().len();
        self.lent.fetch_sub(size, Ordering::Relaxed);
        let mut free = self.lock();
        if size > free.limit {
            return;
        }
        free.clock += 1;
        let since = free.clock;
        free.bytes += size;
        free.sizes.entry(size).or_default().push(Kept { memory, since });
        let mut victims = Vec::new();
        while free.bytes > free.limit {
            victims.extend(free.oldest());
        }
        // Giving memory back to the system takes long; nobody should wait for it.
        drop(free);
        drop(victims);
    }
}

impl Free {
    /// The smallest free memory of at least `size` bytes, if it is not `slack` times too large for that.
    fn take(&mut self, size: usize, slack: usize) -> Option<Memory> {
        self.find(size, size.saturating_mul(slack))
    }

    /// The smallest free memory of `least` to `most` bytes.
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

/// A number of lines rounded up to its class: eight classes a power of two.
fn class_of(lines: usize) -> usize {
    if lines <= 8 {
        return lines;
    }
    lines.next_multiple_of(1 << (lines.ilog2() - 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_monotone_and_at_most_an_eighth_larger() {
        let mut last = 0;
        for lines in 1..100_000 {
            let size = class_of(lines);
            assert!(size >= lines && size <= lines + lines / 8 + 1, "{lines} became {size}");
            assert_eq!(class_of(size), size, "a class size is its own class");
            assert!(size >= last, "{lines}");
            last = size;
        }
    }

    #[test]
    fn freed_memory_is_lent_again() {
        let pool = BufferPool::new(1 << 20);
        let first = BufferPool::take(&pool, 1000);
        let address = first.bytes().as_ptr();
        drop(first);
        assert_eq!(pool.free_bytes(), 1024);
        assert_eq!(BufferPool::take(&pool, 1010).bytes().as_ptr(), address);
        assert_eq!(pool.free_bytes(), 1024);
    }

    #[test]
    fn the_smallest_that_is_large_enough_is_lent_unless_it_is_far_too_large() {
        let pool = BufferPool::new(1 << 24);
        let buffers = [1 << 20, 1 << 18, 1 << 21].map(|bytes| BufferPool::take(&pool, bytes));
        let addresses = buffers.each_ref().map(|buffer| buffer.bytes().as_ptr());
        drop(buffers);
        let taken = BufferPool::take(&pool, 300_000);
        assert_eq!(taken.bytes().as_ptr(), addresses[0]);
        let free = pool.free_bytes();
        let small = BufferPool::take(&pool, 100);
        assert_eq!(pool.free_bytes(), free, "a few bytes do not take a quarter of a mebibyte");
        drop((taken, small));
        assert_eq!(BufferPool::take(&pool, 1 << 21).bytes().as_ptr(), addresses[2]);
    }

    #[test]
    fn a_full_pool_lets_the_oldest_go() {
        let pool = BufferPool::new(512);
        drop(BufferPool::take(&pool, 1000));
        assert_eq!(pool.free_bytes(), 0, "more than the pool may hold");
        let buffers = [64, 128, 256, 192].map(|bytes| BufferPool::take(&pool, bytes));
        drop(buffers);
        assert_eq!(pool.free_bytes(), 256 + 192, "the first two went first");
    }
}
