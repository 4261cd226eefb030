//! Free extents: where a pool's large memory is divided anew for every graph and every shape.
//!
//! All of it lies in a few reserved stretches of address space, so that what is freed joins its free neighbours and can be
//! divided another way. A request of other shapes then fits in the pages of the one before, and one of larger shapes adds
//! what is missing. The tightest free extent is taken, and of equal ones the lowest, so that the same requests find the same
//! places. Knows no tensor.

use std::collections::{BTreeMap, BTreeSet};

use kiln_kernels::extent::{Extent, HUGE_PAGE};

/// Address space that is reserved at once: more than most models ever need, and nothing where little is known of memory.
const RESERVED: usize = 1 << 30;

/// What is free.
#[derive(Debug, Default)]
pub(super) struct FreeExtents {
    /// Those whose pages are present, by address. No two of them meet.
    present: BTreeMap<usize, Extent>,
    /// The same by length, then address.
    lengths: BTreeSet<(usize, usize)>,
    /// Those whose pages are not, by address. No two of them meet.
    absent: BTreeMap<usize, Extent>,
    /// Bytes of those that are present.
    bytes: usize,
    /// Bytes that are present, free or taken.
    present_bytes: usize,
    /// The most that ever were.
    most_present: usize,
}

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
        if let Some(&(length, address)) = self.lengths.range((bytes, 0)..).next() {
            let mut present = self.remove(length, address)?;
            let rest = present.split_off(bytes);
            self.insert(rest);
            return Some(Found { present, fresh: None });
        }
        self.grow(bytes).or_else(|| {
            let stretch = Extent::reserve(bytes.max(RESERVED)).or_else(|_| Extent::reserve(bytes)).ok()?;
            self.absent.insert(stretch.address(), stretch);
            self.grow(bytes)
        })
    }

    /// A free extent with the pages that are missing after it.
    fn grow(&mut self, bytes: usize) -> Option<Found> {
        let before = |absent: &Extent| {
            let (_, before) = self.present.range(..absent.address()).next_back()?;
            before.meets(absent).then(|| (before.len(), before.address()))
        };
        let enough = |absent: &&Extent| absent.len() + before(absent).map_or(0, |(length, _)| length) >= bytes;
        let absent = self.absent.values().find(enough)?;
        let (at, before) = (absent.address(), before(absent));
        let mut fresh = self.absent.remove(&at)?;
        let present = match before {
            Some((length, address)) => self.remove(length, address)?,
            None => {
                let rest = fresh.split_off(0);
                std::mem::replace(&mut fresh, rest)
            }
        };
        // Whole huge pages: the rest of one would come with it anyway.
        let missing = bytes - present.len();
        let rest = fresh.split_off((fresh.address() + missing).next_multiple_of(HUGE_PAGE) - fresh.address());
        if !rest.is_empty() {
            self.absent.insert(rest.address(), rest);
        }
        self.present_bytes += fresh.len();
        self.most_present = self.most_present.max(self.present_bytes);
        Some(Found { present, fresh: Some(fresh) })
    }

    /// Takes an extent with present pages back.
    pub(super) fn insert(&mut self, extent: Extent) {
        if extent.is_empty() {
            return;
        }
        self.bytes += extent.len();
        let joined = join(&mut self.present, extent, |gone| {
            self.lengths.remove(&(gone.len(), gone.address()));
        });
        self.lengths.insert((joined.len(), joined.address()));
        self.present.insert(joined.address(), joined);
    }

    /// Takes out what is beyond `most` bytes, from the highest addresses down, to be discarded.
    pub(super) fn excess(&mut self, most: usize) -> Vec<Extent> {
        let mut out = Vec::new();
        while self.bytes > most {
            let Some((&address, extent)) = self.present.last_key_value() else { break };
            let Some(mut extent) = self.remove(extent.len(), address) else { break };
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
        let joined = join(&mut self.absent, extent, |_| ());
        self.absent.insert(joined.address(), joined);
    }

    fn remove(&mut self, length: usize, address: usize) -> Option<Extent> {
        self.lengths.remove(&(length, address));
        self.bytes -= length;
        self.present.remove(&address)
    }
}

/// The extent with the neighbours of it, which leave the map.
fn join(free: &mut BTreeMap<usize, Extent>, extent: Extent, mut gone: impl FnMut(&Extent)) -> Extent {
    let mut joined = extent;
    let before = free.range(..joined.address()).next_back().filter(|(_, before)| before.meets(&joined));
    if let Some(address) = before.map(|(&address, _)| address)
        && let Some(mut before) = free.remove(&address)
    {
        gone(&before);
        // They meet.
        let _ = before.join(joined);
        joined = before;
    }
    let after = joined.address() + joined.len();
    if free.get(&after).is_some_and(|after| joined.meets(after))
        && let Some(after) = free.remove(&after)
    {
        gone(&after);
        let _ = joined.join(after);
    }
    joined
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
