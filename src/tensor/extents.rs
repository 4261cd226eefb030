//! Free extents: where a pool's large memory is divided anew for every graph and every shape.
//!
//! All of it lies in a few reserved stretches of address space, so that what is freed joins its free neighbours and can be
//! divided another way. A request of other shapes then fits in the pages of the one before, and one of larger shapes adds
//! what is missing. The tightest free extent is taken, and of equal ones the lowest, so that the same requests find the same
//! places. Knows no tensor.

use kiln_kernels::extent::{Extent, HUGE_PAGE};

/// Address space that is reserved at once: more than most models ever need, and nothing where little is known of memory.
const RESERVED: usize = 1 << 30;

/// What is free. Free extents are at most one more than those that are taken, and mostly a few: looking at each in turn takes
/// less time than a tree would.
#[derive(Debug, Default)]
pub(super) struct FreeExtents {
    /// Those whose pages are present.
    present: Apart,
    /// Those whose pages are not.
    absent: Apart,
    /// Bytes of those that are present.
    bytes: usize,
    /// Bytes that are present, free or taken.
    present_bytes: usize,
    /// The most that ever were.
    most_present: usize,
}

/// Extents by address, no two of which meet.
#[derive(Debug, Default)]
struct Apart(Vec<Extent>);

/// Memory that was found.
pub(super) struct Found {
    /// With present pages; may be empty.
    present: Extent,
    /// What follows it, to be populated.
    fresh: Option<Extent>,
}

impl FreeExtents {
    /// Bytes whose pages are present.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most bytes that were ever present at once, free or taken.
    pub(super) fn most_present(&self) -> usize {
        self.most_present
    }

    /// An extent of that many bytes, none where the system gives no more address space.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Found> {
        if let Some(present) = self.present.take_tightest(bytes) {
            self.bytes -= bytes;
            return Some(Found { present, fresh: None });
        }
        self.grow(bytes).or_else(|| {
            let stretch = Extent::reserve(bytes.max(RESERVED)).or_else(|_| Extent::reserve(bytes)).ok()?;
            self.absent.insert(stretch);
            self.grow(bytes)
        })
    }

    /// A free extent with the pages that are missing after it.
    fn grow(&mut self, bytes: usize) -> Option<Found> {
        let length_before = |absent: &Extent| self.present.before(absent).map_or(0, |at| self.present.0[at].len());
        let at = self.absent.0.iter().position(|absent| absent.len() + length_before(absent) >= bytes)?;
        let mut fresh = self.absent.0.remove(at);
        let present = match self.present.before(&fresh) {
            Some(before) => self.present.0.remove(before),
            None => {
                let rest = fresh.split_off(0);
                std::mem::replace(&mut fresh, rest)
            }
        };
        self.bytes -= present.len();
        // Whole huge pages: the rest of one would come with it anyway.
        let missing = bytes - present.len();
        let rest = fresh.split_off((fresh.address() + missing).next_multiple_of(HUGE_PAGE) - fresh.address());
        self.absent.insert(rest);
        self.present_bytes += fresh.len();
        self.most_present = self.most_present.max(self.present_bytes);
        Some(Found { present, fresh: Some(fresh) })
    }

    /// Takes an extent with present pages back.
    pub(super) fn insert(&mut self, extent: Extent) {
        self.bytes += extent.len();
        self.present.insert(extent);
    }

    /// Takes out what is beyond `most` bytes, from the highest addresses down, to be discarded.
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
        self.absent.insert(extent);
    }
}

impl Apart {
    /// So many bytes from the beginning of the tightest extent that has them, of equal ones the lowest.
    fn take_tightest(&mut self, bytes: usize) -> Option<Extent> {
        let fits = self.0.iter().enumerate().filter(|(_, extent)| extent.len() >= bytes);
        let (at, _) = fits.min_by_key(|(_, extent)| extent.len())?;
        if self.0[at].len() == bytes {
            return Some(self.0.remove(at));
        }
        let rest = self.0[at].split_off(bytes);
        Some(std::mem::replace(&mut self.0[at], rest))
    }

    /// Where the extent is that ends where this one begins.
    fn before(&self, extent: &Extent) -> Option<usize> {
        let before = self.place(extent).checked_sub(1)?;
        self.0[before].meets(extent).then_some(before)
    }

    /// How many lie before it.
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
        // That extents meet is known wherever they are joined.
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
    /// All of it, in pieces of that many bytes to be populated by several threads.
    pub(super) fn pieces(self, bytes: usize) -> Vec<Extent> {
        let mut pieces = Vec::new();
        for mut rest in [Some(self.present), self.fresh].into_iter().flatten() {
            while !rest.is_empty() {
                let next = rest.split_off(bytes);
                pieces.push(std::mem::replace(&mut rest, next));
            }
        }
        pieces
    }

    /// The extent of that many bytes, whose pages may be missing, and what is left, whose pages come with it.
    pub(super) fn divide(self, bytes: usize) -> (Extent, Extent) {
        let Found { mut present, fresh } = self;
        if let Some(fresh) = fresh {
            // It follows.
            let _ = present.join(fresh);
        }
        let rest = present.split_off(bytes);
        (present, rest)
    }

    /// Has its pages present, which takes long if there are many: the extent of that many bytes, and what is left of its pages.
    pub(super) fn settle(self, bytes: usize) -> (Extent, Option<Extent>) {
        let Found { mut present, fresh } = self;
        let Some(mut fresh) = fresh else { return (present, None) };
        fresh.populate();
        // It follows.
        let _ = present.join(fresh);
        let rest = present.split_off(bytes);
        (present, Some(rest))
    }
}
