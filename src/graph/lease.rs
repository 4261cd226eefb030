//! Small memory that a run state keeps for one plan: a buffer for each place that the plan has laid out.
//!
//! A plan has computed how large each place must be and which small outputs take turns in it, so that the steps that take
//! least time ask nobody for memory. Buffers come from the session's pool when a place is first used, or is larger than before
//! because the state serves another plan, and go back there when it runs without one. A place is a wish, not a promise: where its buffer is still in use (it left with an output, say),
//! the next one comes from the pool.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::knobs;
use crate::tensor::buffer::Home;
use crate::tensor::{Buffer, BufferPool, Tensor};

/// Numbers of leases; 0 is nobody's.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Where an output of a planned step gets its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the place.
    pub(super) number: u32,
    /// Bytes that the place has room for.
    pub(super) room: usize,
}

/// The buffers of one plan in one run state.
pub(super) struct Lease {
    /// The plan's number; 0 before the first.
    plan: u64,
    /// What buffers of this lease have as their home.
    holder: u64,
    places: Vec<Cell<Option<Arc<Buffer>>>>,
}

impl Default for Lease {
    fn default() -> Lease {
        Lease { plan: 0, holder: NEXT.fetch_add(1, Ordering::Relaxed), places: Vec::new() }
    }
}

impl Lease {
    /// Makes it the lease of that plan, which has so many places.
    pub(super) fn serve(&mut self, plan: u64, places: usize) {
        if self.plan != plan {
            self.plan = plan;
            self.places.resize_with(places, Cell::default);
        }
    }

    /// Gives all memory back.
    pub(super) fn release(&mut self) {
        self.plan = 0;
        // The numbers mean other places from now on; what is still in use then goes to the pool.
        self.holder = NEXT.fetch_add(1, Ordering::Relaxed);
        self.places.clear();
    }

    /// The buffer of that place; none where the pool has no room for it.
    #[inline]
    pub(super) fn lend(&self, place: &Place, pool: &Arc<BufferPool>) -> Option<Arc<Buffer>> {
        match self.places.get(place.number as usize).and_then(Cell::take) {
            Some(buffer) if buffer.len() >= place.room => Some(buffer),
            // There is none, or a smaller one of another plan.
            _ => self.fetch(place, pool),
        }
    }

    #[cold]
    fn fetch(&self, place: &Place, pool: &Arc<BufferPool>) -> Option<Arc<Buffer>> {
        if knobs::guard().is_some() {
            // Every tensor has memory of its own size.
            return None;
        }
        let home = Home { holder: self.holder, place: place.number };
        (place.room <= pool.room()).then(|| Arc::new(BufferPool::take(pool, place.room).at_home(home)))
    }

    /// Takes the memory of a tensor that nobody will read any more, if it belongs here.
    #[inline]
    pub(super) fn bury(&self, tensor: Tensor) {
        let Some(buffer) = tensor.into_buffer() else { return };
        let home = buffer.home();
        if home.holder == self.holder
            && Arc::strong_count(&buffer) == 1
            && let Some(place) = self.places.get(home.place as usize)
        {
            place.set(Some(buffer));
        }
    }

    /// Bytes that are kept now.
    pub(super) fn bytes(&mut self) -> usize {
        self.places.iter_mut().filter_map(|place| place.get_mut().as_ref().map(|buffer| buffer.len())).sum()
    }
}
