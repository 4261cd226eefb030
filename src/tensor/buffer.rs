//! Memory of tensors: cache-line aligned, and lent by a pool that gets it back by itself.
//!
//! A run of a graph allocates and frees the same sizes again and again, and with changing shapes slightly different
//! ones. [`BufferPool`] keeps freed memory in classes of about an eighth of a power of two, so that memory stays flat
//! and warm, and a buffer is at most an eighth larger than what was asked for.

use std::sync::{Arc, Mutex, PoisonError};

/// One cache line, the unit and alignment of all tensor memory.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Aligned bytes. Dropping one that a pool lent gives its memory back to the pool.
#[derive(Debug)]
pub struct Buffer {
    lines: Vec<Line>,
    pool: Option<Arc<BufferPool>>,
}

impl Buffer {
    /// At least `bytes` bytes of zeros, owned.
    #[must_use]
    pub fn zeroed(bytes: usize) -> Buffer {
        Buffer { lines: vec![Line([0; 64]); bytes.div_ceil(64)], pool: None }
    }

    /// All bytes, rounded up to whole cache lines.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.lines)
    }

    /// All bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.lines)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.give_back(std::mem::take(&mut self.lines));
        }
    }
}

/// Freed memory by size class, bounded in bytes.
#[derive(Debug)]
pub struct BufferPool {
    free: Mutex<Free>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Free {
    /// By class; the last in a class was freed last, so its lines are the warmest.
    classes: Vec<Vec<Vec<Line>>>,
    bytes: usize,
}

impl BufferPool {
    /// A pool that keeps at most `limit` free bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<BufferPool> {
        Arc::new(BufferPool { free: Mutex::new(Free::default()), limit })
    }

    /// A buffer of at least `bytes` bytes that hold whatever was in them.
    #[must_use]
    pub fn take(pool: &Arc<BufferPool>, bytes: usize) -> Buffer {
        let (class, lines) = class_of(bytes.div_ceil(64).max(1));
        let mut free = pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        let found = free.classes.get_mut(class).and_then(Vec::pop);
        if let Some(memory) = found {
            free.bytes -= memory.len() * 64;
            return Buffer { lines: memory, pool: Some(pool.clone()) };
        }
        drop(free);
        Buffer { lines: vec![Line([0; 64]); lines], pool: Some(pool.clone()) }
    }

    /// Bytes held for reuse.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    fn give_back(&self, memory: Vec<Line>) {
        let (class, lines) = class_of(memory.len());
        debug_assert_eq!(lines, memory.len(), "pool memory has a class size");
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + memory.len() * 64 > self.limit {
            drop(free);
            return;
        }
        free.bytes += memory.len() * 64;
        if free.classes.len() <= class {
            free.classes.resize_with(class + 1, Vec::new);
        }
        free.classes[class].push(memory);
    }
}

/// The class of a number of lines, and the lines of a buffer of that class: eight classes a power of two.
fn class_of(lines: usize) -> (usize, usize) {
    if lines <= 8 {
        return (lines, lines);
    }
    let log = lines.ilog2() as usize;
    let step = 1usize << (log - 3);
    let rounded = lines.div_ceil(step) * step;
    let log = rounded.ilog2() as usize;
    let step = 1usize << (log - 3);
    ((log - 3) * 8 + rounded / step, rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_distinct_monotone_and_at_most_an_eighth_larger() {
        let mut last = (0, 0);
        for lines in 1..100_000 {
            let (class, size) = class_of(lines);
            assert!(size >= lines && size <= lines + lines / 8 + 1, "{lines} became {size}");
            assert_eq!(class_of(size), (class, size), "a class size is its own class");
            assert!(class >= last.0 && (class == last.0) == (size == last.1), "{lines}");
            last = (class, size);
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
    fn a_full_pool_lets_memory_go() {
        let pool = BufferPool::new(512);
        drop(BufferPool::take(&pool, 1000));
        assert_eq!(pool.free_bytes(), 0);
    }
}
