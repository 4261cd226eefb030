//! Memory that is not to be had: refused by the system, or wanted by a request whose time is over.
//!
//! A model's sizes decide how much memory its tensors, tables and scratch take, and where the standard library is
//! refused memory it ends the process. What is sized by a model therefore asks here, and gets an error ([`Refused`]).
//! Work that cannot return one *raises* it: an unwinding that carries the error, as the standard library's own option
//! `-Z oom=panic` does. Who catches the panics of a node, of a request or of loading tells it from a fault by
//! [`Refused::of_panic`].
//!
//! Making much memory present takes seconds, so it is done in pieces, and between pieces the thread asks whether the
//! work is still wanted ([`until`], [`is_over`]). Depends on nothing but the standard library.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use bytemuck::Zeroable;
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};

/// Memory that was asked for and not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The system has not as much, or a limit of the process, its user or its control group forbids it.
    #[error("the system has no {bytes} bytes of memory left")]
    System {
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// The time of the request, or of loading, was over before all of it was present.
    #[error("the time was over before {bytes} bytes of memory were there")]
    Over {
        /// Bytes that were asked for.
        bytes: usize,
    },
}

impl Refused {
    /// Unwinds with this error. No panic hook is called, because nothing is at fault.
    pub fn raise(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }

    /// The error that an unwinding carries; `None` for a panic.
    #[must_use]
    pub fn of_panic(payload: &(dyn Any + Send)) -> Option<Refused> {
        payload.downcast_ref().copied()
    }

    /// Runs work that may raise.
    ///
    /// # Errors
    ///
    /// What it raised. A panic unwinds further.
    pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Refused> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
            .map_err(|payload| Refused::of_panic(&*payload).unwrap_or_else(|| std::panic::resume_unwind(payload)))
    }
}

/// Whether work is no longer wanted. Called from any thread, some thousand times a second.
pub type IsOver = Arc<dyn Fn() -> bool + Send + Sync>;

thread_local! {
    /// Asked by [`is_over`].
    static ASKED: RefCell<Option<IsOver>> = const { RefCell::new(None) };
}

/// Runs `work`, during which [`is_over`] asks `asked` on this thread; nothing is asked where it is `None`. Work within
/// work asks the inner one.
pub fn until<T>(asked: Option<&IsOver>, work: impl FnOnce() -> T) -> T {
    /// Puts the outer one back, also in an unwinding.
    struct Restore(Option<IsOver>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ASKED.set(self.0.take());
        }
    }
    let _restore = Restore(ASKED.replace(asked.cloned()));
    work()
}

/// What this thread asks, for other threads that take part in its work.
#[must_use]
pub fn asked() -> Option<IsOver> {
    ASKED.with_borrow(Option::clone)
}

/// Whether the work of this thread is no longer wanted.
#[must_use]
pub fn is_over() -> bool {
    ASKED.with_borrow(|asked| asked.as_ref().is_some_and(|asked| asked()))
}

/// Raises [`Refused::Over`] where the work of this thread, which takes `bytes` bytes, is no longer wanted.
pub fn raise_if_over(bytes: usize) {
    if is_over() {
        Refused::Over { bytes }.raise();
    }
}

/// Bytes of address space or data that is left to all else where the process has a limit of them: stacks, code,
/// and the structures of models, whose allocations are small and cannot fail without ending the process.
const LEFT_TO_OTHERS: usize = 64 << 20;

/// Bytes from which on room is held against the limits of the process before it is asked for.
const HELD_AGAINST_LIMITS: usize = 1 << 20;

/// Bytes that the process's own limits on address space and data (`ulimit -v`, `ulimit -d`) leave to tensors and tables
/// beyond what it has claimed; `usize::MAX` without a limit.
#[must_use]
pub fn unclaimed_bytes() -> usize {
    let limit = |resource| getrlimit(resource).current.and_then(|bytes| usize::try_from(bytes).ok());
    let (space, data) = (limit(Resource::As), limit(Resource::Data));
    if space.is_none() && data.is_none() {
        return usize::MAX;
    }
    // In pages: size of the address space, then five numbers, the last of them of data and stacks.
    let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let claimed = |place: usize| {
        let pages = told.split_whitespace().nth(place).and_then(|pages| pages.parse::<usize>().ok());
        pages.unwrap_or(0).saturating_mul(page_size())
    };
    let left = |limit: Option<usize>, place: usize| {
        limit.map_or(usize::MAX, |limit| limit.saturating_sub(claimed(place)).saturating_sub(LEFT_TO_OTHERS))
    };
    left(space, 0).min(left(data, 5))
}

/// Room for `count` elements.
///
/// # Errors
///
/// [`Refused::System`] where there is none.
pub fn try_with_capacity<T>(count: usize) -> Result<Vec<T>, Refused> {
    let bytes = count.saturating_mul(size_of::<T>());
    check_limits(bytes)?;
    let mut room = Vec::new();
    room.try_reserve_exact(count).map_err(|_| Refused::System { bytes })?;
    Ok(room)
}

/// Holds much memory against the limits of the process.
fn check_limits(bytes: usize) -> Result<(), Refused> {
    if bytes >= HELD_AGAINST_LIMITS && bytes > unclaimed_bytes() { Err(Refused::System { bytes }) } else { Ok(()) }
}

/// Room for `count` elements, where a model decides how many. Raises [`Refused::System`] where there is none.
#[must_use]
pub fn with_capacity<T>(count: usize) -> Vec<T> {
    try_with_capacity(count).unwrap_or_else(|refused| refused.raise())
}

/// `count` zeros, where a model decides how many, from the system's zero pages. Raises [`Refused::System`] where there
/// is no memory.
#[must_use]
pub fn zeroed<T: Zeroable>(count: usize) -> Vec<T> {
    let bytes = count.saturating_mul(size_of::<T>());
    let refused = Refused::System { bytes };
    // Checked here because the allocation below multiplies without a check.
    if bytes > isize::MAX as usize || check_limits(bytes).is_err() {
        refused.raise();
    }
    bytemuck::allocation::try_zeroed_vec(count).unwrap_or_else(|()| refused.raise())
}

/// `count` times `value`, where a model decides how many. Raises [`Refused::System`] where there is no memory.
#[must_use]
pub fn filled<T: Clone>(value: T, count: usize) -> Vec<T> {
    let mut elements = with_capacity(count);
    elements.resize(count, value);
    elements
}

/// Whatever `elements` yields, whose number a model decides. Raises [`Refused`] where there is no memory for as many as
/// it announces, or the work of this thread is over before all of them are there.
#[must_use]
pub fn collected<T>(elements: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    const PIECE: usize = 1 << 16;
    let mut all = with_capacity(elements.len());
    let mut elements = elements;
    while elements.len() > 0 {
        all.extend(elements.by_ref().take(PIECE));
        raise_if_over(size_of::<T>().saturating_mul(elements.len()));
    }
    all
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// More bytes than any address space has.
    const TOO_MANY: usize = 1 << 55;

    #[test]
    fn what_no_system_gives_is_raised_and_caught_as_an_error() {
        let refused = Err(Refused::System { bytes: TOO_MANY });
        assert_eq!(Refused::catch(|| zeroed::<u8>(TOO_MANY)), refused);
        assert_eq!(Refused::catch(|| filled(1u8, TOO_MANY)), refused);
        assert_eq!(Refused::catch(|| with_capacity::<u8>(TOO_MANY)), refused);
        assert_eq!(Refused::catch(|| collected([0u8; 3].into_iter())), Ok(vec![0; 3]));
        assert!(Refused::catch(|| zeroed::<u64>(usize::MAX)).is_err());
        assert_eq!((zeroed::<u32>(3), filled(7u8, 2)), (vec![0; 3], vec![7; 2]));
    }

    #[test]
    fn a_panic_is_no_refusal() {
        let panicked = std::panic::catch_unwind(|| Refused::catch(|| std::panic::resume_unwind(Box::new("a fault"))));
        let payload = panicked.map(|_: Result<(), _>| ()).unwrap_err();
        assert_eq!((Refused::of_panic(&*payload), payload.downcast_ref()), (None, Some(&"a fault")));
    }

    #[test]
    fn the_innermost_work_is_asked_and_the_outer_one_after_an_unwinding() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let never: IsOver = Arc::new(move || counted.fetch_add(1, Ordering::Relaxed) > 99);
        let always: IsOver = Arc::new(|| true);
        assert!(!is_over(), "nothing is asked");
        until(Some(&never), || {
            assert!(!is_over());
            let ended = Refused::catch(|| until(Some(&always), || raise_if_over(8)));
            assert_eq!(ended, Err(Refused::Over { bytes: 8 }));
            assert!(!is_over() && asked().is_some());
            assert!(!until(None, is_over), "inner work may go without");
        });
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}
