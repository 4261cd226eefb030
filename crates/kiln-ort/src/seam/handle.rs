//! Handles: the form in which C programs hold the crate's values.
//!
//! A handle is the address of a *slot*. Slots are never freed, and a slot that was emptied is used again only after
//! [`REST`] others: so a handle that is used after its release, is released twice, or never was a handle is detected
//! without reading memory that may belong to another object.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use kiln_fork::Mutex;

use crate::error::{Code, Error, Result};

/// Slots that are emptied before the first of these is used again.
const REST: usize = 1024;
/// Slots in the first chunk; each next one has twice as many.
const FIRST: usize = 256;
/// Most chunks: more slots than memory can hold.
const CHUNKS: usize = 32;

/// A kind of value that C programs hold.
pub(crate) trait Kind: Send + Sync + Sized + 'static {
    /// C's name of the type.
    const NAME: &'static str;

    /// The slots of all values of this kind.
    fn slots() -> &'static Slots<Self>;
}

/// Makes types kinds: `kind!(Env = "OrtEnv")`.
macro_rules! kind {
    ($($kind:ty = $name:literal),+ $(,)?) => {
        $(impl $crate::seam::Kind for $kind {
            const NAME: &'static str = $name;

            fn slots() -> &'static $crate::seam::handle::Slots<$kind> {
                static SLOTS: $crate::seam::handle::Slots<$kind> = $crate::seam::handle::Slots::new();
                &SLOTS
            }
        })+
    };
}
pub(crate) use kind;

/// The object that a handle points to. Aligned so that no two slots share a cache line.
#[repr(align(64))]
pub(crate) struct Slot<T> {
    value: Mutex<Option<Arc<T>>>,
}

/// All slots of a kind.
pub(crate) struct Slots<T> {
    /// Chunk `i` has `FIRST << i` slots; null until it is needed.
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    free: Mutex<Free>,
}

/// The empty slots, as addresses.
struct Free {
    /// Number of chunks.
    chunks: usize,
    /// Slots of the last chunk that were never used.
    fresh: std::ops::Range<usize>,
    /// Emptied slots, the earliest first.
    emptied: VecDeque<usize>,
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Slots<T> {
        Slots {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            free: Mutex::new(Free { chunks: 0, fresh: 0..0, emptied: VecDeque::new() }),
        }
    }

    /// The slot at an address, if the address is a slot's.
    fn at(&self, address: usize) -> Option<&'static Slot<T>> {
        for (number, chunk) in self.chunks.iter().enumerate() {
            let start = chunk.load(Ordering::Acquire);
            if start.is_null() {
                return None;
            }
            let offset = address.wrapping_sub(start.addr());
            let size = size_of::<Slot<T>>();
            if offset < (FIRST << number) * size {
                // SAFETY: the chunk has that many slots, is never freed, and was published after its slots were made;
                // a multiple of a slot's size below the chunk's is the offset of a slot.
                return offset.is_multiple_of(size).then(|| unsafe { &*start.byte_add(offset) });
            }
        }
        None
    }

    /// The address of an empty slot.
    fn take(&self) -> Result<usize> {
        let mut free = self.free.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if free.emptied.len() > REST
            && let Some(slot) = free.emptied.pop_front()
        {
            return Ok(slot);
        }
        if free.fresh.is_empty() {
            let number = free.chunks;
            let out_of_memory = || Error::new(Code::Fail, "there is no memory for another handle");
            let chunk = self.chunks.get(number).ok_or_else(out_of_memory)?;
            let count = FIRST << number;
            let mut slots: Vec<Slot<T>> = Vec::new();
            slots.try_reserve_exact(count).map_err(|_| out_of_memory())?;
            slots.extend((0..count).map(|_| Slot { value: Mutex::new(None) }));
            let slots = slots.leak();
            free.fresh = slots.as_ptr_range().start.addr()..slots.as_ptr_range().end.addr();
            free.chunks += 1;
            chunk.store(slots.as_mut_ptr(), Ordering::Release);
        }
        let slot = free.fresh.start;
        free.fresh.start += size_of::<Slot<T>>();
        Ok(slot)
    }

    fn give_back(&self, slot: usize) {
        self.free.lock().unwrap_or_else(std::sync::PoisonError::into_inner).emptied.push_back(slot);
    }
}

/// A handle as C passes it: the address of a live slot, null, or any number.
#[repr(transparent)]
pub(crate) struct Handle<T>(*const Slot<T>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: a handle is a number until it is looked up, and the value found may be shared among threads.
unsafe impl<T: Send + Sync> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Handle<T> {}

impl<T> Handle<T> {
    pub(crate) const NULL: Handle<T> = Handle(std::ptr::null());

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Its address, for lists that C's header types by one pointer.
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }
}

impl<T: Kind> Handle<T> {
    /// A handle of a new value.
    pub(crate) fn new(value: T) -> Result<Handle<T>> {
        Handle::of(Arc::new(value))
    }

    /// A handle of a value that others may share.
    pub(crate) fn of(value: Arc<T>) -> Result<Handle<T>> {
        let slots = T::slots();
        let address = slots.take()?;
        let slot = slots.at(address).ok_or_else(|| Error::new(Code::Fail, "a handle was lost"))?;
        *slot.value.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(value);
        Ok(Handle(slot))
    }

    /// The value of the argument `what`.
    ///
    /// # Errors
    ///
    /// For null, and for a handle that is not live or not of this kind.
    pub(crate) fn get(self, what: &str) -> Result<Arc<T>> {
        if self.is_null() {
            return Err(Error::null(what));
        }
        self.live().ok_or_else(|| {
            let reason = format!("{what} is not a live {}: it was released, or never was one", T::NAME);
            Error::new(Code::InvalidArgument, reason)
        })
    }

    /// As [`get`](Handle::get), where null means no value.
    pub(crate) fn optional(self, what: &str) -> Result<Option<Arc<T>>> {
        if self.is_null() { Ok(None) } else { self.get(what).map(Some) }
    }

    /// The value, if the handle is live.
    pub(crate) fn live(self) -> Option<Arc<T>> {
        let slot = T::slots().at(self.0.addr())?;
        slot.value.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Ends the handle and returns its value; `None` for null and for handles that are not live.
    pub(crate) fn release(self) -> Option<Arc<T>> {
        let slots = T::slots();
        let slot = slots.at(self.0.addr())?;
        let value = slot.value.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()?;
        slots.give_back(self.0.addr());
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(usize);

    kind!(Thing = "Thing");

    #[test]
    fn a_handle_gives_its_value_until_it_is_released_and_never_again() {
        let handle = Handle::new(Thing(7)).unwrap();
        assert_eq!(handle.get("x").unwrap().0, 7);
        assert_eq!(handle.release().unwrap().0, 7);
        assert!(handle.release().is_none());
        let error = handle.get("x").err().unwrap().to_string();
        assert_eq!(error, "x is not a live Thing: it was released, or never was one");
        // As many others as must be emptied before a slot is used again.
        let others: Vec<_> = (0..REST).map(|number| Handle::new(Thing(number)).unwrap()).collect();
        others.iter().for_each(|other| drop(other.release()));
        assert!(handle.live().is_none());
    }

    #[test]
    fn what_is_no_handle_is_refused_wherever_it_points() {
        let handle = Handle::new(Thing(1)).unwrap();
        for offset in 1..size_of::<Slot<Thing>>() {
            assert!(Handle::<Thing>(handle.0.wrapping_byte_add(offset)).live().is_none());
        }
        for address in [1, 64, 4096, usize::MAX, usize::MAX - 63] {
            assert!(Handle::<Thing>(std::ptr::without_provenance(address)).get("x").is_err());
        }
        assert_eq!(Handle::<Thing>::NULL.get("x").err().unwrap().to_string(), "x is null");
        assert!(Handle::<Thing>::NULL.optional("x").unwrap().is_none());
        drop(handle.release());
    }

    #[test]
    fn there_are_as_many_handles_as_a_program_wants() {
        let many: Vec<_> = (0..5000).map(|number| Handle::new(Thing(number)).unwrap()).collect();
        assert!(many.iter().enumerate().all(|(number, handle)| handle.get("x").unwrap().0 == number));
        many.iter().for_each(|handle| drop(handle.release()));
    }
}
