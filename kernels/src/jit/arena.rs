//! Executable memory: chunks that hold many kernels each, never writable and executable at one address.
//!
//! A chunk is a memory file that is mapped twice: one alias is written, the other executed. Installing a kernel is then
//! a copy, without a system call and without interrupting other cores (0.2 us against 6-16 us for changing page
//! protections). Where the system refuses two mappings, a chunk is anonymous memory whose pages are changed from
//! writable to executable, and a kernel owns whole pages, because neighbouring kernels may be running meanwhile. Where
//! both are refused there is an error, and the plain references run.
//!
//! # Reuse
//!
//! Memory of a dropped kernel goes back to a free list. A core that ran the old bytes may still have them in its
//! pipeline, and x86 guarantees that a core sees the change only after a serialising instruction. So before a freed
//! range is reused, `membarrier` makes every core of this process execute one. On kernels of Linux without it, freed
//! ranges stay unused until their whole chunk is free; then the chunk is unmapped.
//!
//! # Forking
//!
//! A forked child shares the memory files with its parent and may run the kernels in them, however long it lives. So
//! neither writes there. The child starts new chunks for new kernels. In the parent, the memory of kernels that existed
//! at the fork is not reused; when their whole chunk is free, it is unmapped.
//!
//! Handles bytes and addresses; [`code`](super::code) gives the bytes their meaning.

mod chunk;

use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock, PoisonError};

use chunk::Chunk;
pub(super) use chunk::Schemes;

use crate::fork::{self, Mutex, MutexGuard, Origin};

/// Bytes of a chunk: a hundred kernels of typical size, so that mapping a chunk is rare, and two hundred chunks are far
/// from the limit on mappings.
const CHUNK_BYTES: usize = 256 << 10;

/// Executable memory in use by this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeMemory {
    /// Bytes that sealed kernels occupy.
    pub used: usize,
    /// Bytes mapped for them; memory that is mapped twice counts once.
    pub mapped: usize,
}

/// A set of chunks and the free ranges in them.
#[derive(Debug)]
pub(super) struct Arena {
    state: Mutex<State>,
    schemes: Schemes,
}

#[derive(Debug)]
struct State {
    chunks: Vec<(ChunkId, Chunk)>,
    next: ChunkId,
    /// The process that mapped the chunks.
    origin: Origin,
}

type ChunkId = u64;

/// Sealed bytes. Dropping the block gives its memory back.
#[derive(Debug)]
pub(super) struct Block {
    arena: Arc<Arena>,
    chunk: ChunkId,
    offset: usize,
    size: usize,
    address: NonNull<u8>,
    /// How many children the process had forked when this block was placed.
    children: u32,
}

// SAFETY: a block is exclusively its owner's, it is not written while it exists, and the arena behind it is locked.
unsafe impl Send for Block {}
// SAFETY: as above; shared references only read and execute.
unsafe impl Sync for Block {}

impl Arena {
    /// An arena that may use these schemes of mapping; tests restrict them.
    pub(super) fn new(schemes: Schemes) -> Arc<Arena> {
        let state = State { chunks: Vec::new(), next: 0, origin: Origin::here() };
        Arc::new(Arena { state: Mutex::new(state), schemes })
    }

    /// The arena of this process.
    pub(super) fn global() -> &'static Arc<Arena> {
        static GLOBAL: LazyLock<Arc<Arena>> = LazyLock::new(|| {
            // Perf looks up names for anonymous memory only: it takes a memory file for a library that was deleted.
            Arena::new(Schemes { dual: !super::symbols::on(), ..Schemes::ALL })
        });
        let _stay = fork::stay();
        &GLOBAL
    }

    /// Maps the first chunk, if there is none. Where the system refuses, the first kernel reports it.
    pub(super) fn make_ready(&self) {
        let mut state = self.lock();
        state.notice_fork();
        if state.chunks.is_empty()
            && let Ok(chunk) = Chunk::map(self.schemes, CHUNK_BYTES)
        {
            state.add(chunk);
        }
    }

    /// Copies `bytes` into executable memory.
    pub(super) fn place(self: &Arc<Arena>, bytes: &[u8]) -> io::Result<Block> {
        let mut state = self.lock();
        state.notice_fork();
        let range = match state.find(bytes.len()) {
            Some(range) => range,
            None => {
                let chunk = Chunk::map(self.schemes, bytes.len().max(CHUNK_BYTES))?;
                state.add(chunk);
                state.find(bytes.len()).ok_or_else(|| io::Error::other("a fresh chunk has no room"))?
            }
        };
        let (index, offset, size) = range;
        let (id, chunk) = &mut state.chunks[index];
        let address = match chunk.write(offset, size, bytes) {
            Ok(address) => address,
            Err(error) => {
                chunk.release(offset, size);
                return Err(error);
            }
        };
        let children = fork::children();
        Ok(Block { arena: Arc::clone(self), chunk: *id, offset, size, address, children })
    }

    /// The memory in use now.
    pub(super) fn usage(&self) -> CodeMemory {
        let state = self.lock();
        CodeMemory {
            used: state.chunks.iter().map(|(_, chunk)| chunk.used()).sum(),
            mapped: state.chunks.iter().map(|(_, chunk)| chunk.len()).sum(),
        }
    }

    /// A panic while the lock is held leaves the lists as they were before or after one whole change.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// First fit, so that code stays dense in the first chunks.
    fn find(&mut self, bytes: usize) -> Option<(usize, usize, usize)> {
        self.chunks.iter_mut().enumerate().find_map(|(index, (_, chunk))| {
            let (offset, size) = chunk.reserve(bytes)?;
            Some((index, offset, size))
        })
    }

    fn add(&mut self, chunk: Chunk) {
        self.chunks.push((self.next, chunk));
        self.next += 1;
    }

    /// In a forked child, the chunks are shared with the parent. They stay mapped, because kernels in them may be
    /// called, but are not written again.
    fn notice_fork(&mut self) {
        if !self.origin.is_here() {
            self.origin = Origin::here();
            chunk::announce_process();
            std::mem::take(&mut self.chunks).into_iter().for_each(std::mem::forget);
        }
    }
}

impl Block {
    /// The first byte, in the executable alias.
    pub(super) fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Bytes that it occupies: a multiple of the arena's unit.
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut state = self.arena.lock();
        state.notice_fork();
        let Some(index) = state.chunks.iter().position(|(id, _)| *id == self.chunk) else {
            return;
        };
        // No thread forks while the arena is locked.
        match self.children == fork::children() {
            true => state.chunks[index].1.release(self.offset, self.size),
            false => state.chunks[index].1.retire(self.offset, self.size),
        }
        // One empty chunk is kept, so that a program around its bound does not map and unmap repeatedly.
        let spare = state.chunks.iter().filter(|(_, chunk)| chunk.used() == 0).count() > 1;
        if state.chunks[index].1.used() == 0 && (spare || state.chunks[index].1.exhausted()) {
            state.chunks.remove(index);
        }
    }
}

#[cfg(test)]
mod tests;
