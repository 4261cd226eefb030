//! A buffer that several tasks write, each in disjoint parts.

/// The start of such a buffer. A task writes only the elements that the split of the work gives it.
#[derive(Clone, Copy)]
pub(crate) struct Shared<T = f32>(*mut T);

// SAFETY: it is an address. Each write through it states why no other task touches those elements.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    /// The start of a buffer that stays borrowed while tasks run.
    pub(crate) fn new(buffer: &mut [T]) -> Shared<T> {
        Shared(buffer.as_mut_ptr())
    }

    /// The start of memory that stays borrowed or allocated while tasks run.
    pub(crate) fn from_ptr(start: *mut T) -> Shared<T> {
        Shared(start)
    }

    /// The address of an element.
    pub(crate) fn at(&self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }
}
