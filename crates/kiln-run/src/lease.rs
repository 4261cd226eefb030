//! The small buffers that a run state keeps for one plan: one for each place of its memory plan.
//!
//! The plan has computed the size of each place, and which small outputs share it one after the other, so that the
//! shortest steps allocate nothing. A buffer comes from the session's pool when its place is first used, or when the
//! state serves another plan with a larger one, and goes back when the stretch runs without a plan. A place is a hint:
//! where its buffer is still in use (it left with an output, for example), the step allocates from the pool.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_tensor::buffer::Home;
use kiln_tensor::{Buffer, BufferPool, Tensor};

/// Numbers of leases; 0 means none.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The place in the memory plan of an output of a planned step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The index of the place.
    pub(super) number: u32,
    /// Bytes of the place.
    pub(super) bytes: usize,
}

/// The buffers of one plan in one run state.
pub(super) struct Lease {
    /// The plan's number; 0 before the first.
    plan: u64,
    /// This lease's number, which its buffers carry.
    holder: u64,
    places: Vec<Cell<Option<Arc<Buffer>>>>,
}

impl Default for Lease {
    fn default() -> Lease {
        Lease { plan: 0, holder: NEXT.fetch_add(1, Ordering::Relaxed), places: Vec::new() }
    }
}

impl Lease {
    /// Makes it the lease of the plan with that number and `places` places.
    pub(super) fn serve(&mut self, plan: u64, places: usize) {
        if self.plan != plan {
            self.plan = plan;
            self.places.resize_with(places, Cell::default);
        }
    }

    /// Gives all buffers back.
    pub(super) fn release(&mut self) {
        self.plan = 0;
        // From now on indices mean other places; buffers that are still in use then go to the pool.
        self.holder = NEXT.fetch_add(1, Ordering::Relaxed);
        self.places.clear();
    }

    /// The buffer of a place; `None` where it is in use, or the pool has no room for it.
    #[inline]
    pub(super) fn lend(&self, place: &Place, pool: &Arc<BufferPool>) -> Option<Arc<Buffer>> {
        match self.places.get(place.number as usize).and_then(Cell::take) {
            Some(buffer) if buffer.len() >= place.bytes => Some(buffer),
            // There is no buffer, or one of another plan that is smaller.
            _ => self.fetch(place, pool),
        }
    }

    #[cold]
    fn fetch(&self, place: &Place, pool: &Arc<BufferPool>) -> Option<Arc<Buffer>> {
        if kiln_knobs::guard().is_some() {
            // Guarded memory has exactly the size of its tensor.
            return None;
        }
        let home = Home { holder: self.holder, place: place.number };
        if place.bytes > pool.room() {
            return None;
        }
        // Where memory is refused, the step gets the reason from the pool itself.
        let buffer = Buffer::lent(pool, place.bytes).ok()?;
        Some(Arc::new(buffer.at_home(home)))
    }

    /// Keeps the buffer of a tensor that is not read any more, if it belongs to this lease.
    #[inline]
    pub(super) fn recycle(&self, tensor: Tensor) {
        let Some(buffer) = tensor.into_buffer() else { return };
        let home = buffer.home();
        if home.holder == self.holder
            && Arc::strong_count(&buffer) == 1
            && let Some(place) = self.places.get(home.place as usize)
        {
            place.set(Some(buffer));
        }
    }

    /// Bytes of the buffers that the lease keeps.
    pub(super) fn bytes(&mut self) -> usize {
        self.places.iter_mut().filter_map(|place| place.get_mut().as_ref().map(|buffer| buffer.len())).sum()
    }
}
