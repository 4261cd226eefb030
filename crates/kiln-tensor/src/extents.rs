//! Free extents: a pool's large memory, divided anew for every graph and every shape.
//!
//! Memory lies in a few reserved stretches of address space, so that a freed extent joins its free neighbours and can
//! be divided in another way. A request of other shapes then fits into the pages of the request before, and one of
//! larger shapes adds only the missing pages. The smallest free extent that fits is taken, and among equal ones the one
//! at the lowest address, so that equal requests get equal addresses. Depends on no tensor.

use kiln_kernels::extent::{Extent, HUGE_PAGE};
use kiln_kernels::memory::ceiling::{self, Full, Holder};
use kiln_kernels::memory::unclaimed_bytes;

use super::system::{Missing, make_present, reserve};

/// Address space that is reserved at once: more than most models need; it costs nothing until it is present.
const RESERVED: usize = 1 << 30;

/// Where address space is limited, at most this part of the rest is reserved at once.
const SHARE: usize = 8;

/// Free memory. There is at most one free extent more than there are taken ones, and mostly there are a few: a linear
/// search takes less time than a tree would.
#[derive(Debug, Default)]
pub(super) struct FreeExtents {
    /// Extents whose pages are present.
    present: Apart,
    /// Extents whose pages are not present.
    absent: Apart,
    /// Bytes of `present`.
    bytes: usize,
    /// Bytes that are present, free or taken.
    present_bytes: usize,
    /// The maximum of `present_bytes`.
    most_present: usize,
    /// The holder for which present bytes are counted.
    holder: Holder,
}

/// Extents by address; no two are adjacent.
#[derive(Debug, Default)]
struct Apart(Vec<Extent>);

/// Memory that was taken.
pub(super) struct Found {
    /// The part with present pages; may be empty.
    present: Extent,
    /// The extent after it, whose pages are still to be populated.
    fresh: Option<Extent>,
}

impl FreeExtents {
    /// No memory yet; pages that become present are counted for `holder`.
    pub(super) fn of(holder: Holder) -> FreeExtents {
        let (present, absent) = (Apart::default(), Apart::default());
        FreeExtents { present, absent, bytes: 0, present_bytes: 0, most_present: 0, holder }
    }

    /// Bytes that are free and present.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most bytes that were ever present at once, free or taken.
    pub(super) fn most_present(&self) -> usize {
        self.most_present
    }

    /// An extent of that many bytes; `None` if the system gives no more address space.
    ///
    /// # Errors
    ///
    /// [`Full`] where the missing pages would exceed the process's ceiling.
    pub(super) fn take(&mut self, bytes: usize) -> Result<Option<Found>, Full> {
        if let Some(present) = self.present.take_tightest(bytes) {
            self.bytes -= bytes;
            return Ok(Some(Found { present, fresh: None }));
        }
        if let Some(found) = self.grow(bytes)? {
            return Ok(Some(found));
        }
        let ahead = bytes.max(RESERVED.min(unclaimed_bytes() / SHARE));
        let stretch = reserve(ahead).or_else(|_| reserve(bytes)).or_else(|_| {
            self.unmap_free();
            reserve(bytes)
        });
        let Ok(stretch) = stretch else { return Ok(None) };
        self.absent.insert(stretch);
        self.grow(bytes)
    }

    /// Drops all free memory. Address space of stretches that are free as a whole goes back to the system.
    fn unmap_free(&mut self) {
        let unmapped = std::mem::take(&mut self.bytes);
        self.present_bytes -= unmapped;
        for extent in self.present.0.drain(..).chain(self.absent.0.drain(..)) {
            extent.unmap();
        }
        ceiling::give_back(self.holder, unmapped);
    }

    /// Takes back an extent of which only the first `present` bytes became present.
    pub(super) fn insert_missing(&mut self, mut extent: Extent, present: usize) {
        let absent = extent.split_off(present);
        self.present_bytes = self.present_bytes.saturating_sub(absent.len());
        ceiling::give_back(self.holder, absent.len());
        self.insert(extent);
        self.absent.insert(absent);
    }

    /// Whether there is an extent of that many bytes whose pages are present.
    pub(super) fn has(&self, bytes: usize) -> bool {
        self.present.0.iter().any(|extent| extent.len() >= bytes)
    }

    /// Bytes that are present, free or taken.
    pub(super) fn present_bytes(&self) -> usize {
        self.present_bytes
    }

    /// Takes a free extent together with the missing pages after it.
    fn grow(&mut self, bytes: usize) -> Result<Option<Found>, Full> {
        let length_before = |absent: &Extent| self.present.before(absent).map_or(0, |at| self.present.0[at].len());
        let fits = |absent: &Extent| absent.len() + length_before(absent) >= bytes;
        let Some(at) = self.absent.0.iter().position(fits) else { return Ok(None) };
        let absent = &self.absent.0[at];
        // Whole huge pages: the rest of a huge page becomes present anyway.
        let end = (absent.address() + (bytes - length_before(absent))).next_multiple_of(HUGE_PAGE);
        let missing = (end - absent.address()).min(absent.len());
        ceiling::take(self.holder, missing)?;
        let mut fresh = self.absent.0.remove(at);
        let present = match self.present.before(&fresh) {
            Some(before) => self.present.0.remove(before),
            None => {
                let rest = fresh.split_off(0);
                std::mem::replace(&mut fresh, rest)
            }
        };
        self.bytes -= present.len();
        let rest = fresh.split_off(missing);
        self.absent.insert(rest);
        self.present_bytes += fresh.len();
        self.most_present = self.most_present.max(self.present_bytes);
        Ok(Some(Found { present, fresh: Some(fresh) }))
    }

    /// Takes an extent with present pages back.
    pub(super) fn insert(&mut self, extent: Extent) {
        self.bytes += extent.len();
        self.present.insert(extent);
    }

    /// Removes extents beyond `most` bytes, from the highest addresses down, to be discarded.
    pub(super) fn excess(&mut self, most: usize) -> Vec<Extent> {
        let mut out = Vec::new();
        while self.bytes > most {
            let Some(mut extent) = self.present.0.pop() else { break };
            self.bytes -= extent.len();
            let kept = most.saturating_sub(self.bytes).min(extent.len());
            let beyond = extent.split_off(kept);
            self.present_bytes -= beyond.len();
            out.push(beyond);
            self.insert(extent);
        }
        out
    }

    /// Takes a discarded extent back.
    pub(super) fn insert_absent(&mut self, extent: Extent) {
        ceiling::give_back(self.holder, extent.len());
        self.absent.insert(extent);
    }
}

impl Drop for FreeExtents {
    /// All memory is free then: a pool lives at least as long as the memory that it has lent.
    fn drop(&mut self) {
        ceiling::give_back(self.holder, self.present_bytes);
    }
}

impl Apart {
    /// The first `bytes` bytes of the smallest extent that has them, among equal ones the lowest.
    fn take_tightest(&mut self, bytes: usize) -> Option<Extent> {
        let fits = self.0.iter().enumerate().filter(|(_, extent)| extent.len() >= bytes);
        let (at, _) = fits.min_by_key(|(_, extent)| extent.len())?;
        if self.0[at].len() == bytes {
            return Some(self.0.remove(at));
        }
        let rest = self.0[at].split_off(bytes);
        Some(std::mem::replace(&mut self.0[at], rest))
    }

    /// The index of the extent that ends where this one begins.
    fn before(&self, extent: &Extent) -> Option<usize> {
        let before = self.place(extent).checked_sub(1)?;
        self.0[before].meets(extent).then_some(before)
    }

    /// The number of extents before it.
    fn place(&self, extent: &Extent) -> usize {
        let address = extent.address();
        self.0.partition_point(|other| other.address() < address)
    }

    /// Adds an extent, joined with its neighbours.
    fn insert(&mut self, extent: Extent) {
        if extent.is_empty() {
            return;
        }
        let at = self.place(&extent);
        let meets_next = self.0.get(at).is_some_and(|next| extent.meets(next));
        // Whether extents meet is checked wherever they are joined.
        if let Some(before) = at.checked_sub(1).filter(|&before| self.0[before].meets(&extent)) {
            let _ = self.0[before].join(extent);
            if meets_next {
                let next = self.0.remove(at);
                let _ = self.0[before].join(next);
            }
        } else if meets_next {
            let next = std::mem::replace(&mut self.0[at], extent);
            let _ = self.0[at].join(next);
        } else {
            self.0.insert(at, extent);
        }
    }
}

impl Found {
    /// The part whose pages are present, and the rest in pieces of `bytes` bytes, to be populated by several threads.
    pub(super) fn pieces(self, bytes: usize) -> (Extent, Vec<Extent>) {
        let Found { present, fresh } = self;
        let mut pieces = Vec::new();
        if let Some(mut rest) = fresh {
            while !rest.is_empty() {
                let next = rest.split_off(bytes);
                pieces.push(std::mem::replace(&mut rest, next));
            }
        }
        (present, pieces)
    }

    /// The first `bytes` bytes, whose pages may be missing, and the rest.
    pub(super) fn divide(self, bytes: usize) -> (Extent, Extent) {
        let Found { mut present, fresh } = self;
        if let Some(fresh) = fresh {
            // Cannot fail: the extents are adjacent.
            let _ = present.join(fresh);
        }
        let rest = present.split_off(bytes);
        (present, rest)
    }

    /// Populates its pages, which takes long if there are many; returns the first `bytes` bytes, and the rest of the
    /// pages.
    ///
    /// # Errors
    ///
    /// All of its memory, with the bytes that are present and the reason why the others are not.
    pub(super) fn populate_part(self, bytes: usize) -> Result<(Extent, Option<Extent>), (Extent, Missing)> {
        let Found { mut present, fresh } = self;
        let Some(mut fresh) = fresh else { return Ok((present, None)) };
        let before = present.len();
        let made = make_present(&mut fresh);
        // Cannot fail: the extents are adjacent.
        let _ = present.join(fresh);
        if let Err(missing) = made {
            return Err((present, Missing { present: before + missing.present, ..missing }));
        }
        let rest = present.split_off(bytes);
        Ok((present, Some(rest)))
    }
}
