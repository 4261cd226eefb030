//! Memory of small tensors, in slots of size classes, apart from the C library's heap.
//!
//! Outputs of a few kilobytes live for a request; executors and plans of about that size live for thousands of shapes.
//! Mixed in one heap, they leave gaps that are too small for tensors of the next shapes: after 60,000 shapes of a
//! strided convolution, 15 of 91 MiB of glibc's heap were in use. Here slots of equal size are together, so that freed
//! slots fit later tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use kiln_fork::{Mutex, MutexGuard};
use kiln_kernels::extent::Extent;

use super::system::reserve;

/// Bytes of the smallest slot. Smaller tensors come from the heap, like executors, and fit its gaps.
const LEAST: usize = 1 << 10;

/// From this many bytes on, memory is mapped separately.
const MOST: usize = 1 << 16;

/// Bytes of address space of a chunk of slots: eight of the largest slots. Pages are present after the first write.
const CHUNK: usize = 1 << 19;

/// Size classes for each power of two.
const STEPS: usize = 8;

const CLASSES: usize = STEPS * (MOST.ilog2() - LEAST.ilog2()) as usize;

/// Chunks of slots of one size.
struct Class {
    /// By the address of their first byte.
    chunks: BTreeMap<usize, Chunk>,
    /// Chunks with a free slot. The lowest is used first, so that the others become empty.
    open: BTreeSet<usize>,
}

struct Chunk {
    /// Slots that were given back; the last one is the most likely in a cache.
    free: Vec<Extent>,
    /// Slots that were never lent.
    rest: Extent,
    /// The number of lent slots.
    lent: usize,
}

static SLABS: [Mutex<Class>; CLASSES] =
    [const { Mutex::new(Class { chunks: BTreeMap::new(), open: BTreeSet::new() }) }; CLASSES];

/// A lent slot. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Slot {
    extent: Option<Extent>,
    class: usize,
    /// The address of its chunk.
    chunk: usize,
}

/// The class of the smallest slots of at least that many bytes; `None` if no slots have such a size.
fn class_of(bytes: usize) -> Option<usize> {
    if !(LEAST..MOST).contains(&bytes) {
        return None;
    }
    let power = bytes.ilog2();
    let place = (bytes - (1 << power)).div_ceil((1 << power) / STEPS);
    // The last step of a power of two is the first one of the next.
    Some((power - LEAST.ilog2()) as usize * STEPS + place).filter(|&class| class < CLASSES)
}

/// Bytes of a class's slots.
fn size_of(class: usize) -> usize {
    let power = LEAST << (class / STEPS);
    power + class % STEPS * (power / STEPS)
}

fn lock(class: usize) -> MutexGuard<'static, Class> {
    SLABS[class].lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    /// Bytes of the slot that [`Slot::take`] gives for `bytes` bytes; `None` if no slots have such a size.
    pub(super) fn bytes_for(bytes: usize) -> Option<usize> {
        class_of(bytes).map(size_of)
    }

    /// A slot of at least that many bytes, with arbitrary contents; `None` if no slots have such a size or the system
    /// has no memory.
    pub(super) fn take(bytes: usize) -> Option<Slot> {
        let class = class_of(bytes)?;
        let mut slabs = lock(class);
        let place = match slabs.open.first() {
            Some(place) => *place,
            None => {
                let rest = reserve(CHUNK).ok()?;
                let place = rest.address();
                slabs.chunks.insert(place, Chunk { free: Vec::new(), rest, lent: 0 });
                slabs.open.insert(place);
                place
            }
        };
        let size = size_of(class);
        let chunk = slabs.chunks.get_mut(&place)?;
        let extent = chunk.free.pop().unwrap_or_else(|| {
            let behind = chunk.rest.split_off(size);
            std::mem::replace(&mut chunk.rest, behind)
        });
        chunk.lent += 1;
        if chunk.is_full(size) {
            slabs.open.remove(&place);
        }
        Some(Slot { extent: Some(extent), class, chunk: place })
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.extent.as_ref().map_or(&[], Extent::bytes)
    }

    /// All bytes, to be written.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.extent.as_mut().map_or(&mut [], Extent::bytes_mut)
    }
}

impl Chunk {
    fn is_full(&self, size: usize) -> bool {
        self.free.is_empty() && self.rest.len() < size
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(extent) = self.extent.take() else { return };
        let mut slabs = lock(self.class);
        let Some(chunk) = slabs.chunks.get_mut(&self.chunk) else { return };
        chunk.free.push(extent);
        chunk.lent -= 1;
        let is_empty = chunk.lent == 0;
        slabs.open.insert(self.chunk);
        // One chunk is kept, for a class whose slots are taken and given back one at a time.
        let spare = if is_empty && slabs.open.len() > 1 { slabs.remove(self.chunk) } else { None };
        drop(slabs);
        // Outside of the lock: unmapping takes long.
        drop(spare);
    }
}

impl Class {
    fn remove(&mut self, place: usize) -> Option<Chunk> {
        self.open.remove(&place);
        self.chunks.remove(&place)
    }
}

/// Gives chunks without lent slots back to the system.
pub fn trim() {
    for class in 0..CLASSES {
        let mut slabs = lock(class);
        let empty: Vec<usize> =
            slabs.chunks.iter().filter(|(_, chunk)| chunk.lent == 0).map(|(place, _)| *place).collect();
        let spare: Vec<Chunk> = empty.into_iter().filter_map(|place| slabs.remove(place)).collect();
        drop(slabs);
        drop(spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::LINE;

    #[test]
    fn slots_are_whole_lines_and_hardly_larger_than_asked_for() {
        for bytes in LEAST..MOST {
            let Some(class) = class_of(bytes) else {
                assert!(bytes > MOST / 16 * 15, "{bytes} has no slot");
                continue;
            };
            let size = size_of(class);
            assert!(
                size >= bytes && size <= bytes + bytes / STEPS && size.is_multiple_of(LINE),
                "{bytes} became {size}"
            );
            assert_eq!(class_of(size), Some(class), "a slot's size is its own class");
        }
        assert_eq!((class_of(LEAST - 1), class_of(MOST)), (None, None));
    }

    #[test]
    fn slots_are_apart_aligned_and_reused() {
        // A size of slots that other tests rarely use.
        let bytes = LEAST * 7 + 1;
        let mut slots: Vec<Slot> = (0..200).map(|_| Slot::take(bytes).expect("there is memory")).collect();
        for (number, slot) in slots.iter_mut().enumerate() {
            assert!(slot.bytes().len() >= bytes && slot.bytes().as_ptr().addr().is_multiple_of(LINE));
            slot.bytes_mut().fill(number as u8);
        }
        for (number, slot) in slots.iter().enumerate() {
            assert!(slot.bytes().iter().all(|&byte| byte == number as u8), "slot {number} was written by another");
        }
        let chunks = || lock(class_of(bytes).expect("it has a class")).chunks.len();
        assert!(chunks() >= 200 * bytes / CHUNK);
        let place = slots.pop().map(|slot| slot.bytes().as_ptr().addr());
        let again = Slot::take(bytes).expect("there is memory");
        assert_eq!(place, Some(again.bytes().as_ptr().addr()), "the warmest is used first");
        drop((slots, again));
        assert_eq!(chunks(), 1, "empty chunks go, but for one");
    }
}
