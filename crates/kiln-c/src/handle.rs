//! Handles: numbers in the form of pointers, which are looked up and never followed.
//!
//! Each number is given once in a process, to one value of one kind. So a handle that was released, is of another kind,
//! or never existed is recognised.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use kiln_fork::Mutex;

use crate::error::{Error, KilnCode, Result};

/// The first number. Those below are statuses that take no memory.
const FIRST: usize = 16;

/// The next number, for all kinds.
static NEXT: AtomicUsize = AtomicUsize::new(FIRST);

/// The live values of one kind.
pub(crate) struct Handles<T> {
    live: Mutex<BTreeMap<usize, Arc<T>>>,
}

/// A kind of value that C programs hold.
pub(crate) trait Kind: Send + Sync + Sized + 'static {
    /// C's name of the type.
    const NAME: &'static str;

    /// The live values of the kind.
    fn handles() -> &'static Handles<Self>;
}

/// Makes types kinds: `kind!(KilnSession = "KilnSession")`.
macro_rules! kind {
    ($kind:ty = $name:literal) => {
        impl $crate::handle::Kind for $kind {
            const NAME: &'static str = $name;

            fn handles() -> &'static $crate::handle::Handles<$kind> {
                static HANDLES: $crate::handle::Handles<$kind> = $crate::handle::Handles::new();
                &HANDLES
            }
        }
    };
}
pub(crate) use kind;

impl<T> Handles<T> {
    pub(crate) const fn new() -> Handles<T> {
        Handles { live: Mutex::new(BTreeMap::new()) }
    }

    fn with<R>(&self, what: impl FnOnce(&mut BTreeMap<usize, Arc<T>>) -> R) -> R {
        what(&mut self.live.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A handle of a new value.
pub(crate) fn give<T: Kind>(value: T) -> *mut T {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    T::handles().with(|live| live.insert(number, Arc::new(value)));
    std::ptr::without_provenance_mut(number)
}

/// The value of the argument `what`.
///
/// # Errors
///
/// For null, and for anything but a live handle of this kind.
pub(crate) fn get<T: Kind>(handle: *const T, what: &str) -> Result<Arc<T>> {
    if handle.is_null() {
        return Err(Error::null(what));
    }
    find(handle).ok_or_else(|| {
        let reason = format!("{what} is no live {}: it was released, or never was one", T::NAME);
        Error::new(KilnCode::NotLive, reason)
    })
}

/// As [`get`], where null means that there is none.
pub(crate) fn optional<T: Kind>(handle: *const T, what: &str) -> Result<Option<Arc<T>>> {
    if handle.is_null() { Ok(None) } else { get(handle, what).map(Some) }
}

/// The value, if the handle is live.
pub(crate) fn find<T: Kind>(handle: *const T) -> Option<Arc<T>> {
    T::handles().with(|live| live.get(&handle.addr()).cloned())
}

/// Ends the handle. The value is dropped with its last user, outside of all locks.
pub(crate) fn release<T: Kind>(handle: *const T) {
    let value = T::handles().with(|live| live.remove(&handle.addr()));
    drop(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(usize);
    kind!(Thing = "Thing");

    struct Other;
    kind!(Other = "Other");

    #[test]
    fn a_handle_gives_its_value_until_it_is_released_and_never_again() {
        let handle = give(Thing(7));
        assert_eq!(get(handle, "x").unwrap().0, 7);
        release(handle);
        release(handle);
        let error = get(handle, "x").err().unwrap();
        assert_eq!(error.message, "x is no live Thing: it was released, or never was one");
        assert_ne!(give(Thing(8)), handle);
    }

    #[test]
    fn a_value_in_use_outlives_its_handle() {
        let handle = give(Thing(1));
        let used = get(handle, "x").unwrap();
        release(handle);
        assert_eq!(used.0, 1);
    }

    #[test]
    fn what_is_no_handle_of_the_kind_is_refused_wherever_it_points() {
        let other = give(Other);
        for address in [1, 15, 4096, other.addr(), usize::MAX] {
            assert!(get(std::ptr::without_provenance::<Thing>(address), "x").is_err());
        }
        assert_eq!(get(std::ptr::null::<Thing>(), "x").err().unwrap().message, "x is null");
        assert!(optional(std::ptr::null::<Thing>(), "x").unwrap().is_none());
    }
}
