//! Aligned bytes from the system. Knows neither tensors nor pools.
//!
//! The smallest pieces come from the heap, small ones from slots of their size ([`super::slab`]). Large ones are pieces
//! of reserved address space, and present from the start: the first touch of a page costs a fault, which would be most
//! of the time of a kernel that is bound by memory.

use kiln_kernels::extent::{Extent, Foreign, ForeignMut};
use kiln_kernels::memory::ceiling::{Claim, Holder};
use kiln_kernels::memory::{Refused, try_with_capacity};

use super::slab::Slot;
use super::system::{make_present, reserve};

/// One cache line, the unit and alignment of all tensor memory.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(super) struct Line([u8; LINE]);

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// From this many bytes on, memory without a pool is mapped. Mapping smaller pieces would waste pages and calls. Larger
/// pieces, of ever different sizes, would leave gaps in the heap: it grew to 132 MB with 21 in use.
const MAPPED: usize = 1 << 16;

/// At least as many bytes as requested, rounded up to whole cache lines, and aligned to them.
#[derive(Debug)]
#[expect(dead_code, reason = "claims are held for as long as the memory they count, and never read")]
pub(super) enum Memory {
    /// From the heap.
    Heap(Vec<Line>, Claim),
    /// A slot for small tensors.
    Slot(Slot, Claim),
    /// A mapping of its own whose pages are present.
    Mapped(Extent, Claim),
    /// A piece of a pool's address space whose pages are present, which the pool has counted; or exactly the requested
    /// bytes, between pages that fault.
    Piece(Extent),
    /// A caller's, lent for reading: a writer copies it first ([`Memory::own`]).
    Foreign(Foreign),
    /// A caller's, lent for writing.
    ForeignMut(ForeignMut),
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::Heap(Vec::new(), Claim::none(Holder::Tensors))
    }
}

impl Memory {
    /// That many bytes of zeros, rounded up to whole cache lines.
    ///
    /// # Errors
    ///
    /// Where the system has too little memory, or this thread's work is ended before the memory is present.
    pub(super) fn zeroed(bytes: usize) -> Result<Memory, Refused> {
        if let Some(guarded) = Memory::guarded(bytes) {
            return Ok(guarded);
        }
        let lines = bytes.div_ceil(LINE);
        if lines * LINE >= MAPPED {
            return Memory::mapped(lines * LINE);
        }
        let mut memory = Memory::small(lines, Holder::Tensors)?;
        memory.bytes_mut().fill(0);
        Ok(memory)
    }

    /// Exactly that many zeros between pages that fault; `None` if `KILN_GUARD` is off or the system gives no mapping.
    pub(super) fn guarded(bytes: usize) -> Option<Memory> {
        let flush = kiln_knobs::guard().filter(|_| bytes > 0)?;
        Extent::guarded(bytes, flush).ok().map(Memory::Piece)
    }

    /// `lines` lines and hardly more, with arbitrary contents, counted for `holder`; fewer than would be mapped.
    ///
    /// # Errors
    ///
    /// Where the system has too little memory, or the process's ceiling is reached.
    pub(super) fn small(lines: usize, holder: Holder) -> Result<Memory, Refused> {
        let bytes = lines * LINE;
        let claim = Claim::of(holder, Slot::bytes_for(bytes).unwrap_or(bytes))?;
        if let Some(slot) = Slot::take(bytes) {
            return Ok(Memory::Slot(slot, claim));
        }
        let mut heap = try_with_capacity(lines)?;
        heap.resize(lines, Line([0; LINE]));
        Ok(Memory::Heap(heap, claim))
    }

    /// Mapped memory, whose pages are present.
    fn mapped(len: usize) -> Result<Memory, Refused> {
        let claim = Claim::of(Holder::Tensors, len)?;
        let mut extent = reserve(len)?;
        // The rest of the last page is never touched, and is unmapped with the mapping.
        drop(extent.split_off(len));
        make_present(&mut extent).map_err(|missing| missing.refused)?;
        Ok(Memory::Mapped(extent, claim))
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Memory::Heap(lines, _) => bytemuck::cast_slice(lines),
            Memory::Slot(slot, _) => slot.bytes(),
            Memory::Mapped(extent, _) | Memory::Piece(extent) => extent.bytes(),
            Memory::Foreign(foreign) => foreign.bytes(),
            Memory::ForeignMut(foreign) => foreign.bytes(),
        }
    }

    /// Replaces memory that belongs to a caller by a copy that may be written. Raises [`Refused`] where there is no
    /// memory for it.
    pub(super) fn own(&mut self) {
        if let Memory::Foreign(foreign) = self {
            let mut copy = Memory::zeroed(foreign.bytes().len()).unwrap_or_else(|refused| refused.raise());
            copy.bytes_mut()[..foreign.bytes().len()].copy_from_slice(foreign.bytes());
            *self = copy;
        }
    }

    /// All bytes, for writing; a caller's read-only bytes are copied first.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.own();
        match self {
            Memory::Heap(lines, _) => bytemuck::cast_slice_mut(lines),
            Memory::Slot(slot, _) => slot.bytes_mut(),
            Memory::Mapped(extent, _) | Memory::Piece(extent) => extent.bytes_mut(),
            Memory::ForeignMut(foreign) => foreign.bytes_mut(),
            // A copy was made above.
            Memory::Foreign(_) => &mut [],
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::extent::HUGE_PAGE;

    use super::*;

    #[test]
    fn memory_of_any_size_is_aligned_whole_lines_of_zeros() {
        for bytes in [0, 1, 64, 65, 1023, 1024, 5000, MAPPED - 1, MAPPED, HUGE_PAGE - 1, 3 << 20, (3 << 20) + 1] {
            let mut memory = Memory::zeroed(bytes).unwrap();
            let lines = bytes.next_multiple_of(LINE);
            assert!((lines..=lines + lines / 8).contains(&memory.bytes().len()), "{bytes}");
            assert_eq!(memory.bytes().as_ptr().addr() % LINE, 0);
            assert!(memory.bytes().iter().all(|&byte| byte == 0));
            memory.bytes_mut().fill(1);
            assert!(memory.bytes().iter().all(|&byte| byte == 1));
        }
    }
}
