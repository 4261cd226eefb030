//! Aligned bytes from the system. Knows neither tensors nor who reuses what.
//!
//! Small pieces come from the heap. Large ones are mapped, and present from the start: a page that is first touched by a
//! kernel costs a fault, and for one that writes as fast as memory allows, faults would be most of its time. What fills a
//! huge page starts one: the prefetchers of a core stop at the end of a page, and each page costs a look into the page
//! tables, so weights were read a third faster out of 2 MiB pages than out of 4 KiB ones.

use std::sync::LazyLock;

use memmap2::{Advice, MmapMut};

/// One cache line, the unit and alignment of all tensor memory.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(super) struct Line([u8; LINE]);

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// Bytes from which on memory is mapped: smaller pieces would waste pages and calls.
const MAPPED: usize = 1 << 18;

/// The size of a huge page on x86-64, and the alignment that makes one possible.
const HUGE: usize = 2 << 20;

/// At least as many bytes as were asked for, rounded up to whole cache lines, and aligned to them.
#[derive(Debug)]
pub(super) enum Memory {
    /// From the heap.
    Heap(Vec<Line>),
    /// The bytes of a mapping that are in use.
    Mapped {
        /// The mapping.
        map: MmapMut,
        /// Where they start.
        start: usize,
        /// How many they are.
        len: usize,
    },
}

/// Bytes of memory that this machine has; as many as there can be where it does not say.
#[must_use]
pub fn installed_bytes() -> usize {
    static INSTALLED: LazyLock<usize> = LazyLock::new(|| {
        let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = told.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
        kib.map_or(usize::MAX, |kib| kib.saturating_mul(1024))
    });
    *INSTALLED
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::Heap(Vec::new())
    }
}

impl Memory {
    /// That many bytes of zeros, rounded up to whole cache lines.
    pub(super) fn zeroed(bytes: usize) -> Memory {
        let lines = bytes.div_ceil(LINE);
        if let Some(mapped) = Memory::mapped(lines * LINE) {
            return mapped;
        }
        Memory::Heap(vec![Line([0; LINE]); lines])
    }

    /// Mapped memory; none where it is not worth a mapping or the system has none.
    fn mapped(len: usize) -> Option<Memory> {
        if len < MAPPED {
            return None;
        }
        // Room to start at a multiple of a huge page. What is never touched costs no memory.
        let room = if len < HUGE { 0 } else { HUGE };
        let map = MmapMut::map_anon(len.checked_add(room)?).ok()?;
        let start = if room == 0 { 0 } else { map.as_ptr().align_offset(HUGE) };
        // Both only save time: where they are refused, pages are small or come one by one when they are touched.
        let _ = map.advise(Advice::HugePage);
        let _ = map.advise_range(Advice::PopulateWrite, start, len);
        Some(Memory::Mapped { map, start, len })
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Memory::Heap(lines) => bytemuck::cast_slice(lines),
            Memory::Mapped { map, start, len } => &map[*start..][..*len],
        }
    }

    /// All bytes, to be written.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Heap(lines) => bytemuck::cast_slice_mut(lines),
            Memory::Mapped { map, start, len } => &mut map[*start..][..*len],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_any_size_is_aligned_whole_lines_of_zeros() {
        for bytes in [0, 1, 64, 65, MAPPED - 1, MAPPED, HUGE - 1, 3 << 20, (3 << 20) + 1] {
            let mut memory = Memory::zeroed(bytes);
            assert_eq!(memory.bytes().len(), bytes.next_multiple_of(LINE));
            let aligned = if bytes < HUGE { LINE } else { HUGE };
            assert_eq!(memory.bytes().as_ptr().addr() % aligned, 0);
            assert!(memory.bytes().iter().all(|&byte| byte == 0));
            memory.bytes_mut().fill(1);
            assert!(memory.bytes().iter().all(|&byte| byte == 1));
        }
    }
}
