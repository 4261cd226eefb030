//! Memory of a caller's, lent to be read: the elements of an array of another language's, for example.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

/// Bytes that belong to a caller, which keeps them readable and unchanged as long as this lives. They are never
/// written.
pub struct Foreign {
    start: NonNull<u8>,
    len: usize,
    /// What keeps the bytes alive; dropped with this.
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the bytes are readable from any thread and unchanged while it lives, as `new` asks, and the owner may be
// sent.
unsafe impl Send for Foreign {}
// SAFETY: as above; the bytes are only read, and the owner may be shared.
unsafe impl Sync for Foreign {}

impl Foreign {
    /// The `len` bytes from `start` on, which live as long as `owner` does.
    ///
    /// # Safety
    ///
    /// Until `owner` is dropped, the bytes must be initialised and readable from any thread, lie within one allocation
    /// of at most `isize::MAX` bytes, and not be written.
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, len: usize, owner: impl Any + Send + Sync) -> Foreign {
        Foreign { start, len, _owner: Box::new(owner) }
    }

    /// The bytes that `owner` gives, which are asked for once.
    #[must_use]
    pub fn of(owner: impl AsRef<[u8]> + Any + Send + Sync) -> Foreign {
        let owner = Box::new(owner);
        let bytes = (*owner).as_ref();
        let (start, len) = (NonNull::from(bytes).cast(), bytes.len());
        Foreign { start, len, _owner: owner }
    }

    /// All bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: by the promise to `new`, or because the owner, which stays where it is and is not touched, has lent
        // them; it lives as long as this does.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign").field("start", &self.start).field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_bytes_are_where_the_caller_has_them_and_the_owner_goes_last() {
        let owner: Arc<Vec<u8>> = Arc::new((0..100).collect());
        let start = NonNull::from(&owner[10]);
        // SAFETY: the vector is held by the owner and no longer written.
        let foreign = unsafe { Foreign::new(start, 50, owner.clone()) };
        assert_eq!(foreign.bytes(), &owner[10..60]);
        assert_eq!(foreign.bytes().as_ptr(), start.as_ptr().cast_const());
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(foreign);
        assert_eq!(Arc::strong_count(&owner), 1);
        assert_eq!(Foreign::of([1u8, 2, 3]).bytes(), [1, 2, 3], "an owner is not moved once it has been asked");
    }
}
