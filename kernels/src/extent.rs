//! Extents: exclusive pieces of reserved address space, split and joined by their owners.
//!
//! Memory whose division changes all the time, as for tensors of changing shapes, should not be given back to the
//! system and requested again: fresh pages cost more than most operators take to fill them. Address space is reserved
//! once, which costs nothing; its pages become present when they are populated, and stay present. Each byte belongs to
//! exactly one extent, as each byte of a slice does after `split_at_mut`. Depends on none of its users.

mod foreign;
pub mod leaving;
mod mapped;
mod pace;

use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use memmap2::{Advice, MmapMut, MmapOptions, UncheckedAdvice};
use rustix::mm::{MprotectFlags, mprotect};
use rustix::param::page_size;

pub use foreign::{Foreign, ForeignMut};
use leaving::Leaving;
pub use mapped::{FileId, Mapped, MappedPart};
use pace::Pace;

use crate::memory;

/// The size of a huge page on x86-64, to which a reservation is aligned.
///
/// Hardware prefetchers stop at the end of a page, and each page takes an entry of the TLB: weights were read a third
/// faster from 2 MiB pages than from 4 KiB ones.
pub const HUGE_PAGE: usize = 2 << 20;

/// A multiple of every system's ordinary page size: some have pages of 64 KiB. Memory is reserved in units of it.
const LARGEST_PAGE: usize = 1 << 16;

/// Bytes for which the kind of pages is chosen at once.
const PIECE: usize = 8 << 20;

/// Bytes of small pages that become present between two checks whether they are still wanted: 0.3 ms, and up to 10 ms
/// where a virtual machine's host has to provide them.
const STEP: usize = 1 << 20;

/// The pace of huge pages in this process.
static PACE: Pace = Pace::new();

/// The end at which [guarded](Extent::guarded) memory is next to a page that faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// The byte before the first one faults.
    Start,
    /// The byte after the last one faults.
    End,
}

/// Reserved address space, unmapped with its last extent.
#[derive(Debug)]
struct Region {
    /// Taken by `drop` alone.
    map: ManuallyDrop<MmapMut>,
    /// Whether huge pages were requested.
    huge: bool,
    /// The mapping's first byte.
    base: NonNull<u8>,
    /// About how many bytes have been populated and not discarded.
    present: AtomicUsize,
}

impl Region {
    fn of(map: MmapMut, base: NonNull<u8>, huge: bool) -> Arc<Region> {
        Arc::new(Region { map: ManuallyDrop::new(map), huge, base, present: AtomicUsize::new(0) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: taken once, and the region is not used after this.
        let map = unsafe { ManuallyDrop::take(&mut self.map) };
        if *self.present.get_mut() >= leaving::LEAST {
            leaving::leave(Box::new(Unused { map, given: 0 }));
        }
    }
}

/// A mapping without extents, to be unmapped once its pages have been given back.
struct Unused {
    map: MmapMut,
    /// Bytes from its first on that have been given back.
    given: usize,
}

impl Leaving for Unused {
    fn give_piece(&mut self) -> bool {
        let piece = leaving::PIECE.min(self.bytes());
        // SAFETY: nothing has an address in the mapping any more.
        let _ = unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, self.given, piece) };
        self.given += piece;
        self.bytes() > 0
    }

    fn bytes(&self) -> usize {
        self.map.len() - self.given
    }

    fn takes_addresses(&self) -> bool {
        true
    }
}

// SAFETY: `base` is the address of the mapping, which the region owns; only extents, whose ranges are disjoint, read or
// write through it.
unsafe impl Send for Region {}
// SAFETY: a shared region only gives its address, and advice about pages that the calling extent covers.
unsafe impl Sync for Region {}

/// Gives the free pages of the C library's heap back to the system (glibc only).
pub fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes the heap's own locks and touches nothing that is allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Exclusive bytes of reserved address space: zeros that are not present until they are populated or written.
#[derive(Debug)]
pub struct Extent {
    region: Arc<Region>,
    /// Offset of the first byte from the region's.
    start: usize,
    len: usize,
}

impl Extent {
    /// Reserves at least `bytes` bytes of address space: in whole, aligned huge pages, or in small pages if they do not
    /// fill a huge page, which wastes less.
    ///
    /// # Errors
    ///
    /// If the system refuses: address space is bounded too, for example by limits of the process.
    pub fn reserve(bytes: usize) -> io::Result<Extent> {
        let too_many = || io::Error::from(io::ErrorKind::OutOfMemory);
        let huge = bytes >= HUGE_PAGE;
        let unit = if huge { HUGE_PAGE } else { LARGEST_PAGE };
        let len = bytes.max(1).checked_next_multiple_of(unit).ok_or_else(too_many)?;
        let room = if huge { len.checked_add(HUGE_PAGE).ok_or_else(too_many)? } else { len };
        let mut map = MmapOptions::new().len(room).no_reserve_swap().map_anon()?;
        let base = NonNull::new(map.as_mut_ptr()).ok_or_else(too_many)?;
        let start = if huge { base.as_ptr().align_offset(HUGE_PAGE).min(HUGE_PAGE) } else { 0 };
        if huge {
            // Only for speed: if it is refused, pages are small.
            let _ = map.advise(Advice::HugePage);
        }
        Ok(Extent { region: Region::of(map, base, huge), start, len })
    }

    /// Exactly `bytes` zeros between two pages on which every access faults. The bytes touch the page at one end; at
    /// the other end, the rest of a page may lie between. Finds kernels that read or write outside of their operands.
    ///
    /// # Errors
    ///
    /// If the system refuses: mappings are bounded, too.
    pub fn guarded(bytes: usize, flush: Flush) -> io::Result<Extent> {
        let too_many = || io::Error::from(io::ErrorKind::OutOfMemory);
        let page = page_size();
        let inside = bytes.max(1).checked_next_multiple_of(page).ok_or_else(too_many)?;
        let whole = inside.checked_add(2 * page).ok_or_else(too_many)?;
        let mut map = MmapOptions::new().len(whole).map_anon()?;
        let base = NonNull::new(map.as_mut_ptr()).ok_or_else(too_many)?;
        for guard in [0, page + inside] {
            // SAFETY: a page of the mapping just made, which no extent covers.
            unsafe { mprotect(base.add(guard).as_ptr().cast(), page, MprotectFlags::empty())? };
        }
        let slack = if flush == Flush::End { inside - bytes } else { 0 };
        Ok(Extent { region: Region::of(map, base, false), start: page + slack, len: bytes })
    }

    /// How many bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte.
    #[must_use]
    pub fn address(&self) -> usize {
        self.region.base.addr().get() + self.start
    }

    /// Keeps the first `at` bytes, or all if there are fewer, and returns the rest.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Extent {
        let at = at.min(self.len);
        let rest = Extent { region: self.region.clone(), start: self.start + at, len: self.len - at };
        self.len = at;
        rest
    }

    /// Whether `next` starts where this extent ends, in the same region.
    #[must_use]
    pub fn meets(&self, next: &Extent) -> bool {
        Arc::ptr_eq(&self.region, &next.region) && self.start + self.len == next.start
    }

    /// Appends the bytes that follow.
    ///
    /// # Errors
    ///
    /// `next`, unchanged, if it does not follow.
    pub fn join(&mut self, next: Extent) -> Result<(), Extent> {
        if !self.meets(&next) {
            return Err(next);
        }
        self.len += next.len;
        Ok(())
    }

    /// All bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the range lies in the mapping, which lives as long as the region, and is readable; it belongs to no
        // other extent, so it is not written while this one is borrowed.
        unsafe { std::slice::from_raw_parts(self.region.base.add(self.start).as_ptr(), self.len) }
    }

    /// All bytes, to be written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and this one is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.region.base.add(self.start).as_ptr(), self.len) }
    }

    /// Makes pages present now, by system calls instead of a fault for each: in huge pages as long as they come [fast
    /// enough](pace). Between pieces of a mebibyte or two, which take a few milliseconds at most, it checks whether
    /// they are still wanted ([`memory::until`]). Returns the number of first bytes whose pages are present: all,
    /// unless they are no longer wanted.
    pub fn populate_wanted(&mut self) -> usize {
        let (mut at, end) = (self.start, self.start + self.len);
        while at < end && (at == self.start || !memory::is_over()) {
            let most = (end - at).min(PIECE);
            let small = if self.region.huge { PACE.small(most) } else { most };
            if small > 0 {
                at += self.populate_small(at, small);
                continue;
            }
            let place = self.region.base.addr().get() + at;
            let len = (HUGE_PAGE - place % HUGE_PAGE).min(end - at);
            let began = Instant::now();
            self.advise(Advice::PopulateWrite, at, len);
            PACE.note(began.elapsed(), len == HUGE_PAGE);
            at += len;
        }
        self.region.present.fetch_add(at - self.start, Ordering::Relaxed);
        at - self.start
    }

    /// Makes small pages present as long as they are wanted, and at least the first ones. Returns their bytes.
    fn populate_small(&self, at: usize, len: usize) -> usize {
        if self.region.huge {
            self.advise(Advice::NoHugePage, at, len);
        }
        let mut done = 0;
        while done < len && (done == 0 || !memory::is_over()) {
            let step = (len - done).min(STEP);
            self.advise(Advice::PopulateWrite, at + done, step);
            done += step;
        }
        if self.region.huge {
            // Small pages that are present may still be joined.
            self.advise(Advice::HugePage, at, len);
        }
        done
    }

    /// Only for speed: if it is refused, pages become present at the first access.
    fn advise(&self, advice: Advice, at: usize, len: usize) {
        let _ = self.region.map.advise_range(advice, at, len);
    }

    /// Drops the extent. If it is the last one of its address space, that is unmapped before this returns.
    pub fn unmap(self) {
        if Arc::strong_count(&self.region) == 1 {
            self.region.present.store(0, Ordering::Relaxed);
        }
    }

    /// Gives the pages that are entirely inside back to the system; their bytes read as zeros then. At each end, less
    /// than a page stays.
    pub fn discard(&mut self) {
        let page = page_size();
        let first = self.start.next_multiple_of(page);
        let end = (self.start + self.len) / page * page;
        if let Some(inside) = end.checked_sub(first).filter(|&inside| inside > 0) {
            // SAFETY: the pages belong to this extent alone, which is borrowed exclusively, and any bytes are valid.
            let _ = unsafe { self.region.map.unchecked_advise_range(UncheckedAdvice::DontNeed, first, inside) };
            let less = |present: usize| Some(present.saturating_sub(inside));
            let _always = self.region.present.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_zeros_in_whole_pages() {
        for (bytes, page) in [(0, LARGEST_PAGE), (1, LARGEST_PAGE), (HUGE_PAGE, HUGE_PAGE), (HUGE_PAGE + 1, HUGE_PAGE)]
        {
            let extent = Extent::reserve(bytes).unwrap();
            assert_eq!(extent.len(), bytes.max(1).next_multiple_of(page));
            assert!(page < HUGE_PAGE || extent.address().is_multiple_of(HUGE_PAGE));
            assert!(extent.bytes().iter().all(|&byte| byte == 0));
        }
        assert!(Extent::reserve(usize::MAX).is_err());
    }

    #[test]
    fn what_is_split_can_be_written_by_two_threads_and_joined() {
        let mut left = Extent::reserve(HUGE_PAGE).unwrap();
        let mut right = left.split_off(1000);
        assert_eq!((left.len(), right.len()), (1000, HUGE_PAGE - 1000));
        assert_eq!(left.address() + 1000, right.address());
        std::thread::scope(|scope| {
            scope.spawn(|| left.bytes_mut().fill(1));
            scope.spawn(|| right.bytes_mut().fill(2));
        });
        assert!(right.join(left.split_off(0)).is_err(), "in this order they do not meet");
        left = Extent::reserve(1).unwrap();
        assert!(right.join(left).is_err(), "nor do two reservations");
    }

    #[test]
    fn guarded_memory_lies_between_pages_without_access() {
        for (bytes, flush) in [1, 63, 4096, 10_000].into_iter().flat_map(|n| [(n, Flush::Start), (n, Flush::End)]) {
            let mut extent = Extent::guarded(bytes, flush).unwrap();
            assert_eq!(extent.bytes(), vec![0; bytes]);
            extent.bytes_mut().fill(1);
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let is_closed = |address: usize| {
                maps.lines().any(|line| {
                    let (range, rest) = line.split_once(' ').unwrap();
                    let (first, end) = range.split_once('-').unwrap();
                    let [first, end] = [first, end].map(|hex| usize::from_str_radix(hex, 16).unwrap());
                    (first..end).contains(&address) && rest.starts_with("---p")
                })
            };
            let slack = bytes.next_multiple_of(page_size()) - bytes;
            let (before, behind) = if flush == Flush::Start { (0, slack) } else { (slack, 0) };
            assert!(is_closed(extent.address() - before - 1), "{bytes} {flush:?}\n{maps}");
            assert!(is_closed(extent.address() + bytes + behind), "{bytes} {flush:?}\n{maps}");
        }
    }

    #[test]
    fn joined_bytes_are_those_of_both() {
        let mut left = Extent::reserve(HUGE_PAGE).unwrap();
        let mut right = left.split_off(64);
        left.bytes_mut().fill(1);
        right.bytes_mut().fill(2);
        left.join(right).unwrap();
        assert_eq!(left.len(), HUGE_PAGE);
        assert_eq!((left.bytes()[63], left.bytes()[64]), (1, 2));
    }

    #[test]
    fn only_whole_pages_inside_are_given_back() {
        let page = page_size();
        let mut before = Extent::reserve(HUGE_PAGE).unwrap();
        // A mapping starts at a page, which need not be a multiple of the largest page size.
        let lead = before.start.next_multiple_of(page) - before.start;
        let mut inside = before.split_off(lead + 100);
        let mut after = inside.split_off(3 * page);
        for extent in [&mut before, &mut inside, &mut after] {
            assert_eq!(extent.populate_wanted(), extent.len());
            extent.bytes_mut().fill(7);
        }
        inside.discard();
        assert!(before.bytes().iter().chain(after.bytes()).all(|&byte| byte == 7));
        assert_eq!(inside.bytes()[0], 7, "this page begins in the extent before");
        assert!(inside.bytes()[page..2 * page].iter().all(|&byte| byte == 0));
        assert_eq!(inside.bytes()[3 * page - 1], 7, "this page ends in the extent after");
    }
}
