//! A caller's memory, lent for reading or writing: for example the elements of an array in another language.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

/// Bytes that belong to a caller, who keeps them readable while this lives, and unchanged while they are read. They are
/// never written.
pub struct Foreign {
    start: NonNull<u8>,
    len: usize,
    /// Keeps the bytes alive; dropped with this.
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
    /// of at most `isize::MAX` bytes, and not be written while a slice from [`bytes`](Foreign::bytes) lives.
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, len: usize, owner: impl Any + Send + Sync) -> Foreign {
        Foreign { start, len, _owner: Box::new(owner) }
    }

    /// The bytes of `owner`, which is asked for them once.
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

/// Bytes that belong to a caller, who neither reads nor writes them while this lives.
pub struct ForeignMut {
    start: NonNull<u8>,
    len: usize,
    /// Keeps the bytes alive; dropped with this. A pointer instead of a box, because a box that is moved claims
    /// exclusive access to bytes inside it.
    owner: NonNull<dyn Any + Send>,
}

// SAFETY: the bytes may be read and written from any thread, as `new` asks, and the owner may be sent.
unsafe impl Send for ForeignMut {}
// SAFETY: a shared one only gives the bytes to be read; the owner is touched by `drop` alone.
unsafe impl Sync for ForeignMut {}

impl ForeignMut {
    /// The `len` bytes from `start` on, which live as long as `owner` does.
    ///
    /// # Safety
    ///
    /// Until `owner` is dropped, the bytes must be initialised, readable and writable from any thread, lie within one
    /// allocation of at most `isize::MAX` bytes, and be accessed by nothing else.
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, len: usize, owner: impl Any + Send) -> ForeignMut {
        ForeignMut { start, len, owner: leak(owner) }
    }

    /// The bytes of `owner`, which is asked for them once.
    #[must_use]
    pub fn of(owner: impl AsMut<[u8]> + Any + Send) -> ForeignMut {
        let mut owner = leak(owner);
        // SAFETY: it was leaked just now, and nothing else has its address.
        let bytes = NonNull::from(unsafe { owner.as_mut() }.as_mut());
        ForeignMut { start: bytes.cast(), len: bytes.len(), owner }
    }

    /// All bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: by the promise to `new`, or because the owner, which stays where it is and is not touched, has lent
        // them; it lives as long as this does. They are not written while this is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// All bytes, to be written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and this one is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for ForeignMut {
    fn drop(&mut self) {
        // SAFETY: `leak` made it of a box, and it is dropped once.
        drop(unsafe { Box::from_raw(self.owner.as_ptr()) });
    }
}

impl fmt::Debug for ForeignMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignMut").field("start", &self.start).field("len", &self.len).finish_non_exhaustive()
    }
}

/// The address of a value that stays where it is until it is made a box again.
fn leak<T>(value: T) -> NonNull<T> {
    NonNull::from(Box::leak(Box::new(value)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};

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

    #[test]
    fn bytes_to_be_written_are_the_callers_own() {
        let owner: Arc<Vec<AtomicU8>> = Arc::new((0..100).map(AtomicU8::new).collect());
        let start = NonNull::from(&owner[10]).cast();
        // SAFETY: the vector is held by the owner, and its atoms may be written through a shared reference; nothing
        // reads them meanwhile.
        let mut foreign = unsafe { ForeignMut::new(start, 50, owner.clone()) };
        assert_eq!(foreign.bytes(), (10..60).collect::<Vec<u8>>());
        assert_eq!(Arc::strong_count(&owner), 2);
        let moved = std::thread::spawn(move || {
            foreign.bytes_mut().fill(7);
            foreign
        });
        drop(moved.join().unwrap());
        assert_eq!(Arc::strong_count(&owner), 1);
        let read = |at: usize| owner[at].load(Ordering::Relaxed);
        assert_eq!([9, 10, 59, 60].map(read), [9, 7, 7, 60]);
        let mut inside = ForeignMut::of([1u8, 2, 3]);
        inside.bytes_mut()[1] = 5;
        let moved = [inside];
        assert_eq!(moved[0].bytes(), [1, 5, 3], "an owner is not moved once it has been asked");
    }
}
