//! Memory of tensors: cache-line aligned, and lent by a [pool](BufferPool) that gets it back by itself, or read from a file
//! when somebody asks for it. Does not know how a pool finds memory.

use std::sync::{Arc, OnceLock, PoisonError};

use kiln_kernels::extent::Foreign;

use super::backing::Backing;
use super::memory::Memory;
use super::pool::BufferPool;
use crate::fork::{Mutex, stay};

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

    /// Bytes that belong to a caller. They are read where they are; who writes gets a copy.
    #[must_use]
    pub fn foreign(bytes: Foreign) -> Buffer {
        let len = bytes.bytes().len();
        Buffer::of(Memory::Foreign(bytes), len, None)
    }

    /// That many bytes of a file from `offset` on, which are read when they are first asked for.
    #[must_use]
    pub fn deferred(backing: Arc<Backing>, offset: u64, bytes: usize) -> Buffer {
        let pool = Some(backing.pool().clone());
        let later = Mutex::new(Some(Deferred { backing, offset }));
        Buffer { memory: OnceLock::new(), later, pool, asked: bytes, home: Home::default() }
    }

    /// So many bytes of the same file from byte `start` of these on, to be read once more; none where these were read or never lay in
    /// a file.
    pub(super) fn unread(&self, start: usize, bytes: usize) -> Option<Buffer> {
        self.place().map(|(backing, offset)| Buffer::deferred(backing, offset + start as u64, bytes))
    }

    /// The file that the bytes are still in, and where they begin there.
    pub(super) fn place(&self) -> Option<(Arc<Backing>, u64)> {
        let later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        later.as_ref().map(|later| (later.backing.clone(), later.offset))
    }

    pub(super) fn of(memory: Memory, asked: usize, pool: Option<Arc<BufferPool>>) -> Buffer {
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
        match self.memory.get() {
            Some(memory) => memory.bytes(),
            None => {
                // A child must not wait for a thread of its parent's that reads.
                let _stay = stay();
                self.memory.get_or_init(|| self.read()).bytes()
            }
        }
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
