//! A handle of a library that is destroyed when it is dropped.

use std::fmt;

use super::status::{Status, check};
use crate::error::Result;

/// A handle, and the call that gives it back.
pub(super) struct Owned<T: Copy, S: Status> {
    raw: T,
    destroy: unsafe fn(T) -> S,
}

impl<T, S: Status> Owned<*mut T, S> {
    /// The handle that `create` writes.
    ///
    /// # Safety
    ///
    /// `create` writes a handle where it reports success, and `destroy` gives that handle back.
    pub(super) unsafe fn new(
        call: &'static str,
        create: impl FnOnce(*mut *mut T) -> S,
        destroy: unsafe fn(*mut T) -> S,
    ) -> Result<Owned<*mut T, S>> {
        let mut raw = std::ptr::null_mut();
        check(call, create(&raw mut raw))?;
        Ok(Owned { raw, destroy })
    }
}

impl<T: Copy, S: Status> Owned<T, S> {
    /// The handle, which must not be kept longer than this.
    pub(super) fn raw(&self) -> T {
        self.raw
    }
}

impl<T: Copy, S: Status> Drop for Owned<T, S> {
    fn drop(&mut self) {
        // SAFETY: it was made by `new`, whose caller vouched that this destroys it, and this is its only owner.
        let _ = unsafe { (self.destroy)(self.raw) };
    }
}

impl<T: Copy + fmt::Debug, S: Status> fmt::Debug for Owned<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owned({:?})", self.raw)
    }
}
