//! Memory in huge pages, for what is large, lives long and is read from end to end: packed weights.
//!
//! A product of few rows is bound by how fast its weights stream in. The prefetchers of a core stop at the end of a
//! page, and each page costs a look into the page tables: the same stream out of 2 MiB pages was read a third faster
//! than out of 4 KiB ones (docs/performance.md).

use memmap2::{Advice, MmapMut};

/// The size of a huge page on x86-64, and the alignment that makes one possible.
const HUGE: usize = 2 << 20;

/// Zeroed memory that the system was asked to back by huge pages. Where it does not, the pages are small.
#[derive(Debug)]
pub struct Pages {
    map: MmapMut,
    start: usize,
    len: usize,
}

impl Pages {
    /// `bytes` bytes of zeros; none where they would not fill a huge page, or the system has no memory to map.
    #[must_use]
    pub fn zeroed(bytes: usize) -> Option<Pages> {
        if bytes < HUGE {
            return None;
        }
        // Room to start at a multiple of a huge page. What is never touched costs no memory.
        let map = MmapMut::map_anon(bytes.checked_add(HUGE)?).ok()?;
        // Advice may be refused, by old systems or by policy.
        let _ = map.advise(Advice::HugePage);
        let start = map.as_ptr().align_offset(HUGE);
        Some(Pages { map, start, len: bytes })
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.map[self.start..][..self.len]
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_starts_a_huge_page_and_is_zero() {
        let mut pages = Pages::zeroed(HUGE + 12).unwrap();
        assert_eq!(pages.bytes().as_ptr() as usize % HUGE, 0);
        assert_eq!(pages.bytes().len(), HUGE + 12);
        assert!(pages.bytes().iter().all(|&byte| byte == 0));
        pages.bytes_mut()[HUGE + 11] = 7;
        assert_eq!(pages.bytes()[HUGE + 11], 7);
    }

    #[test]
    fn small_or_absurd_sizes_get_none() {
        assert!(Pages::zeroed(HUGE - 1).is_none());
        assert!(Pages::zeroed(usize::MAX - 5).is_none());
        assert!(Pages::zeroed(isize::MAX as usize - HUGE).is_none());
    }
}
