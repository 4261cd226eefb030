//! A buffer that several tasks write, each in places of its own.

/// The start of such a buffer. Whoever writes through it owns the place by the way work was split.
#[derive(Clone, Copy)]
pub(crate) struct Shared(*mut f32);

// SAFETY: it is an address. Each write through it has a reason of its own why no other task touches that place.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    /// The start of a buffer that stays borrowed while tasks run.
    pub(crate) fn new(buffer: &mut [f32]) -> Shared {
        Shared(buffer.as_mut_ptr())
    }

    /// The address of an element.
    pub(crate) fn at(&self, index: usize) -> *mut f32 {
        self.0.wrapping_add(index)
    }
}
