//! One chunk of executable memory: its mappings and its free ranges. All system calls on code memory stand here.

use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::LazyLock;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use rustix::thread::{MembarrierCommand, membarrier};

/// Kernels start on cache lines.
const LINE: usize = 64;
/// The smallest page of x86-64, the unit of protection.
const PAGE: usize = 4096;
/// `int3`: a stray jump into freed memory traps.
const TRAP: u8 = 0xCC;

/// Ways of getting executable memory that may be tried, in this order.
#[derive(Clone, Copy, Debug)]
pub(in crate::jit) struct Schemes {
    /// A memory file mapped twice.
    pub(in crate::jit) dual: bool,
    /// Anonymous pages flipped from writable to executable.
    pub(in crate::jit) flip: bool,
}

impl Schemes {
    /// Both schemes.
    pub(in crate::jit) const ALL: Schemes = Schemes { dual: true, flip: true };
}

/// Part of the address space, unmapped on drop.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    fn new(start: *mut c_void, len: usize) -> io::Result<Mapping> {
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Mapping { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this value, and every block in it is gone before its chunk is dropped.
        // A failure leaves the range mapped, which costs address space alone.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A free range of bytes.
#[derive(Clone, Copy, Debug)]
struct Free {
    offset: usize,
    len: usize,
}

/// One chunk.
#[derive(Debug)]
pub(super) struct Chunk {
    exec: Mapping,
    /// The alias for writing; none where pages are flipped.
    write: Option<Mapping>,
    /// Free ranges by offset, neighbours merged.
    free: Vec<Free>,
    used: usize,
    /// Bytes from here on have never held code.
    fresh: usize,
    /// Whether a part of the chunk is never used again.
    retired: bool,
}

// SAFETY: the mappings are owned by the chunk and only reached through it.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Maps a chunk of at least `bytes` by the first scheme that works.
    pub(super) fn map(schemes: Schemes, bytes: usize) -> io::Result<Chunk> {
        let len = bytes
            .checked_next_multiple_of(PAGE)
            .ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, "a kernel larger than the address space"))?;
        let mut refused = io::Error::new(io::ErrorKind::Unsupported, "no scheme is allowed");
        if schemes.dual {
            match Chunk::map_dual(len) {
                Ok(chunk) => return Ok(chunk),
                Err(error) => refused = error,
            }
        }
        if schemes.flip { Chunk::map_flip(len) } else { Err(refused) }
    }

    fn map_dual(len: usize) -> io::Result<Chunk> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Linux before 6.3 does not know the flag for an executable file, and does not need it.
        let file = memfd_create(c"kiln-code", flags | MemfdFlags::EXEC)
            .or_else(|_| memfd_create(c"kiln-code", flags))
            .map_err(io::Error::from)?;
        ftruncate(&file, len as u64)?;
        let map = |protection| {
            // SAFETY: a new mapping at an address of the system's choice touches no memory in use.
            let start = unsafe { mmap(null_mut(), len, protection, MapFlags::SHARED | MapFlags::POPULATE, &file, 0) }?;
            Mapping::new(start, len)
        };
        let write = map(ProtFlags::READ | ProtFlags::WRITE)?;
        // From now on the file cannot be mapped writable, nor the executable alias be made so. Linux before 5.1 lacks
        // this seal; the aliases are apart there all the same.
        let _ = fcntl_add_seals(&file, SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL);
        let exec = map(ProtFlags::READ | ProtFlags::EXEC)?;
        Ok(Chunk::over(exec, Some(write), len))
    }

    fn map_flip(len: usize) -> io::Result<Chunk> {
        // SAFETY: as for the other scheme.
        let start = unsafe { mmap_anonymous(null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE) }?;
        let exec = Mapping::new(start, len)?;
        // Changing the protection now, not at the first kernel, detects a refusal while the next scheme can still be
        // tried.
        // SAFETY: nothing uses the range yet.
        unsafe { mprotect(start, PAGE, MprotectFlags::READ | MprotectFlags::EXEC) }?;
        Ok(Chunk::over(exec, None, len))
    }

    fn over(exec: Mapping, write: Option<Mapping>, len: usize) -> Chunk {
        Chunk { exec, write, free: vec![Free { offset: 0, len }], used: 0, fresh: 0, retired: false }
    }

    pub(super) fn len(&self) -> usize {
        self.exec.len
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Whether a part of the chunk will never hold code again.
    pub(super) fn exhausted(&self) -> bool {
        self.retired || self.free.is_empty()
    }

    /// Takes memory for `bytes` out of the free ranges: offset and size.
    pub(super) fn reserve(&mut self, bytes: usize) -> Option<(usize, usize)> {
        let size = bytes.checked_next_multiple_of(if self.write.is_some() { LINE } else { PAGE })?;
        let fits = |free: &Free| free.len >= size;
        let mut index = self.free.iter().position(fits)?;
        if self.free[index].offset < self.fresh && !can_synchronise_cores() {
            self.forget_released();
            index = self.free.iter().position(fits)?;
        }
        let free = &mut self.free[index];
        let offset = free.offset;
        free.offset += size;
        free.len -= size;
        if free.len == 0 {
            self.free.remove(index);
        }
        self.used += size;
        Some((offset, size))
    }

    /// Writes code into a reserved range and returns where it can be executed.
    pub(super) fn write(&mut self, offset: usize, size: usize, bytes: &[u8]) -> io::Result<NonNull<u8>> {
        assert!(bytes.len() <= size && offset + size <= self.exec.len, "a kernel stays inside its reserved range");
        // SAFETY: the offset lies inside the mapping.
        let exec = unsafe { self.exec.start.add(offset) };
        match &self.write {
            Some(write) => {
                // SAFETY: the range is inside the writable alias and reserved for this kernel, so nothing runs or reads
                // it.
                unsafe { write.start.add(offset).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
            }
            None => {
                let start = exec.as_ptr().cast();
                // SAFETY: the pages are this kernel's alone, so nothing runs them while they are writable.
                unsafe {
                    mprotect(start, size, MprotectFlags::READ | MprotectFlags::WRITE)?;
                    exec.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
                    mprotect(start, size, MprotectFlags::READ | MprotectFlags::EXEC)?;
                }
            }
        }
        if offset < self.fresh {
            synchronise_cores();
        }
        self.fresh = self.fresh.max(offset + size);
        Ok(exec)
    }

    /// Takes ranges that have held code out of the free ranges, where they are only safe to use again after unmapping.
    /// Ranges that have never held code stay available.
    fn forget_released(&mut self) {
        for free in &mut self.free {
            let held = self.fresh.saturating_sub(free.offset).min(free.len);
            free.offset += held;
            free.len -= held;
        }
        self.free.retain(|free| free.len > 0);
    }

    /// Gives back a range that a forked child may still run: where the memory is shared, nothing is ever placed there
    /// again.
    pub(super) fn retire(&mut self, offset: usize, size: usize) {
        if self.write.is_none() {
            return self.release(offset, size);
        }
        self.used -= size;
        self.retired = true;
    }

    /// Gives a reserved range back.
    pub(super) fn release(&mut self, offset: usize, size: usize) {
        self.used -= size;
        if let Some(write) = &self.write {
            // SAFETY: the range is inside the writable alias, and its kernel is gone.
            unsafe { write.start.add(offset).write_bytes(TRAP, size) };
        }
        let at = self.free.partition_point(|free| free.offset < offset);
        self.free.insert(at, Free { offset, len: size });
        if at + 1 < self.free.len() && self.free[at].offset + self.free[at].len == self.free[at + 1].offset {
            self.free[at].len += self.free.remove(at + 1).len;
        }
        if at > 0 && self.free[at - 1].offset + self.free[at - 1].len == self.free[at].offset {
            self.free[at - 1].len += self.free.remove(at).len;
        }
    }
}

/// Whether this process may ask for a serialising instruction on every core that runs it. Checked once, when a range is
/// first used again: in a process with threads the check takes the system up to 20 ms, which a process that only frees
/// code does not need.
fn can_synchronise_cores() -> bool {
    static REGISTERED: LazyLock<bool> = LazyLock::new(announce_process);
    *REGISTERED
}

/// Registers this process for such requests; a forked child registers again. Returns whether that succeeded.
pub(super) fn announce_process() -> bool {
    membarrier(MembarrierCommand::RegisterPrivateExpeditedSyncCore).is_ok()
}

/// Makes every core that runs this process forget instructions that it has fetched ahead.
fn synchronise_cores() {
    if can_synchronise_cores() {
        // It cannot fail once registered.
        let _ = membarrier(MembarrierCommand::PrivateExpeditedSyncCore);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_cores_cannot_be_synchronised_what_has_held_code_is_not_used_again() {
        let mut chunk = Chunk::map(Schemes::ALL, 4 * PAGE).unwrap();
        let ranges = [PAGE; 2].map(|bytes| {
            let (offset, size) = chunk.reserve(bytes).unwrap();
            chunk.write(offset, size, &vec![TRAP; bytes]).unwrap();
            (offset, size)
        });
        for (offset, size) in ranges {
            chunk.release(offset, size);
        }
        assert_eq!(chunk.free.iter().map(|free| free.len).collect::<Vec<_>>(), [4 * PAGE], "neighbours are merged");
        chunk.forget_released();
        assert_eq!(chunk.reserve(PAGE), Some((2 * PAGE, PAGE)), "what has never held code stays available");
        assert_eq!(chunk.reserve(PAGE), Some((3 * PAGE, PAGE)));
        assert_eq!(chunk.reserve(PAGE), None);
        assert!(chunk.exhausted());
    }
}
