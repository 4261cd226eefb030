//! Memory that is refused: by the system, or because its request was ended.
//!
//! A model's sizes determine the memory of its tensors, tables and scratch, and the standard library ends the process
//! if it is refused memory. So allocations whose sizes depend on a model are made here, and return an error
//! ([`Refused`]). Work that cannot return an error *raises* it: it unwinds with the error, like the standard library's
//! option `-Z oom=panic`. Code that catches the panics of a node, of a request or of loading tells it from a fault by
//! [`Refused::of_panic`].
//!
//! Making much memory present takes seconds, so it is done in pieces, and between pieces the thread checks whether the
//! work is still wanted ([`until`], [`is_over`]). [`ceiling`] counts the memory of the whole process, and limits it.

pub mod ceiling;

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use bytemuck::Zeroable;
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};

/// A refused request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The system has too little, or a limit of the process, its user or its control group forbids it.
    #[error("the system has no {bytes} bytes of memory left")]
    System {
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// It would exceed the ceiling of the process, and everything that can be given up has been.
    #[error(
        "{bytes} bytes more would pass the {limit} bytes that the process may hold; it holds {}: {held}",
        held.total()
    )]
    Ceiling {
        /// Bytes that were asked for.
        bytes: usize,
        /// The ceiling.
        limit: usize,
        /// The memory that is held, by holder.
        held: ceiling::Held,
    },
    /// The request, or loading, was ended before all of it was present.
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
    /// The error that it raised. A panic unwinds further.
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

/// Runs `work`; meanwhile [`is_over`] calls `asked` on this thread, or is false if it is `None`. Nested work calls the
/// inner one.
pub fn until<T>(asked: Option<&IsOver>, work: impl FnOnce() -> T) -> T {
    /// Restores the outer one, also when unwinding.
    struct Restore(Option<IsOver>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ASKED.set(self.0.take());
        }
    }
    let _restore = Restore(ASKED.replace(asked.cloned()));
    work()
}

/// Runs a part of the work of a thread that calls `asked`, on that thread or another: a thread without a check of its
/// own calls `asked` meanwhile.
pub fn beside<T>(asked: Option<&IsOver>, work: impl FnOnce() -> T) -> T {
    let own = ASKED.with_borrow(Option::is_some);
    if own || asked.is_none() { work() } else { until(asked, work) }
}

/// The check of this thread, for other threads that take part in its work.
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

/// Bytes of address space or data that are left to other uses where the process has a limit: stacks, code, and the
/// structures of models, whose allocations are small and cannot fail without ending the process.
const LEFT_TO_OTHERS: usize = 64 << 20;

/// Allocations of at least this many bytes are compared with the limits of the process first.
const HELD_AGAINST_LIMITS: usize = 1 << 20;

/// Bytes that the process's own limits on address space and data (`ulimit -v`, `ulimit -d`) still leave to tensors and
/// tables; `usize::MAX` without a limit.
#[must_use]
pub fn unclaimed_bytes() -> usize {
    let limit = |resource| getrlimit(resource).current.and_then(|bytes| usize::try_from(bytes).ok());
    let (space, data) = (limit(Resource::As), limit(Resource::Data));
    if space.is_none() && data.is_none() {
        return usize::MAX;
    }
    // In pages: the size of the address space, then five numbers; the last is data and stacks.
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

/// Compares much memory with the limits of the process and its ceiling.
fn check_limits(bytes: usize) -> Result<(), Refused> {
    if bytes < HELD_AGAINST_LIMITS {
        return Ok(());
    }
    if bytes > unclaimed_bytes() {
        return Err(Refused::System { bytes });
    }
    ceiling::check(bytes)
}

/// Room for `count` elements, a number that depends on a model. Raises [`Refused::System`] where there is none.
#[must_use]
pub fn with_capacity<T>(count: usize) -> Vec<T> {
    try_with_capacity(count).unwrap_or_else(|refused| refused.raise())
}

/// `count` zeros, a number that depends on a model, from the system's zero pages. Raises [`Refused::System`] where
/// there is no memory.
#[must_use]
pub fn zeroed<T: Zeroable>(count: usize) -> Vec<T> {
    let bytes = count.saturating_mul(size_of::<T>());
    let refused = Refused::System { bytes };
    // Checked here because the allocation below multiplies without a check.
    if bytes > isize::MAX as usize {
        refused.raise();
    }
    hold(bytes);
    bytemuck::allocation::try_zeroed_vec(count).unwrap_or_else(|()| refused.raise())
}

/// `count` times `value`, a number that depends on a model. Raises [`Refused::System`] where there is no memory.
#[must_use]
pub fn filled<T: Clone>(value: T, count: usize) -> Vec<T> {
    let mut elements = with_capacity(count);
    while elements.len() < count {
        elements.resize(count.min(elements.len() + piece_of::<T>()), value.clone());
        if elements.len() < count {
            raise_if_over(count.saturating_mul(size_of::<T>()));
        }
    }
    elements
}

/// Makes room for `more` further elements, and for half of the present number, so that a growing list is seldom moved.
/// Raises [`Refused::System`] where there is none.
pub fn reserve<T>(elements: &mut Vec<T>, more: usize) {
    let (length, free) = (elements.len(), elements.capacity() - elements.len());
    if more > free {
        let more = more.max(length / 2);
        let bytes = length.saturating_add(more).saturating_mul(size_of::<T>());
        hold(bytes);
        if elements.try_reserve_exact(more).is_err() {
            Refused::System { bytes }.raise();
        }
    }
}

/// Compares `bytes` bytes of many small pieces with the limits of the process before the first one is allocated. Raises
/// [`Refused`] where they are too many.
pub fn hold(bytes: usize) {
    check_limits(bytes).unwrap_or_else(|refused| refused.raise());
}

/// A copy of `elements`, whose number depends on a model. Raises [`Refused`] where there is no memory for it, or this
/// thread's work is ended before all elements are there.
#[must_use]
pub fn copied<T: Clone>(elements: &[T]) -> Vec<T> {
    let mut all = with_capacity(elements.len());
    for piece in elements.chunks(piece_of::<T>()) {
        all.extend_from_slice(piece);
        raise_if_over(size_of_val(elements));
    }
    all
}

/// Elements that are gathered between two checks whether this thread's work was ended: one may take some microseconds.
const PIECE: usize = 1 << 12;

/// Iterators whose elements become a list of a length that depends on a model.
pub trait Collect: Iterator + Sized {
    /// As [`Iterator::collect`] into a list. Raises [`Refused`] where there is no memory for it, or this thread's work
    /// is ended before all elements are there.
    #[must_use]
    fn collected(self) -> Vec<Self::Item> {
        let mut all = Vec::new();
        self.collected_into(&mut all);
        all
    }

    /// Appends the elements to a list, and raises as [`Collect::collected`] does.
    fn collected_into(mut self, all: &mut Vec<Self::Item>) {
        let (least, most) = self.size_hint();
        reserve(all, least);
        if most == Some(least) && least <= PIECE {
            return all.extend(self);
        }
        loop {
            let (before, piece) = (all.len(), (all.capacity() - all.len()).min(PIECE));
            all.extend(self.by_ref().take(piece));
            if all.len() < before + piece {
                return;
            }
            raise_if_over(size_of_val(all.as_slice()));
            if all.len() == all.capacity() {
                let Some(next) = self.next() else { return };
                reserve(all, 1);
                all.push(next);
            }
        }
    }

    /// As [`Collect::collected`] of the values, up to the first error.
    ///
    /// # Errors
    ///
    /// The first error.
    fn try_collected<T, E>(self) -> Result<Vec<T>, E>
    where
        Self: Iterator<Item = Result<T, E>>,
    {
        let (mut all, mut failed) = (Vec::new(), None);
        // Errors are seldom, so the announced length is reserved.
        reserve(&mut all, self.size_hint().0);
        let mut elements = self;
        let values = std::iter::from_fn(|| match elements.next()? {
            Ok(value) => Some(value),
            Err(error) => {
                failed = Some(error);
                None
            }
        });
        values.collected_into(&mut all);
        failed.map_or(Ok(all), Err)
    }
}

impl<I: Iterator> Collect for I {}

/// Counts the work of a loop, and sometimes checks whether it was ended: seldom enough for loops over single elements
/// that count line by line, and at least every few milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    done: usize,
}

impl Pace {
    /// Units between two checks, of some nanoseconds each: elements that are computed, or cache lines that are copied.
    pub const UNITS: usize = 1 << 18;

    /// Counts `units` of work. Raises [`Refused::Over`] where this thread's work is no longer wanted.
    #[inline]
    pub fn step(&mut self, units: usize) {
        self.done += units;
        if self.done >= Pace::UNITS {
            self.done = 0;
            raise_if_over(0);
        }
    }
}

/// Fills `to`, of any size. Raises [`Refused::Over`] where this thread's work is ended first.
pub fn fill<T: Clone>(to: &mut [T], value: &T) {
    let piece = piece_of::<T>();
    for to in to.chunks_mut(piece) {
        to.fill(value.clone());
        if to.len() == piece {
            raise_if_over(0);
        }
    }
}

/// The number of elements that are copied in a few milliseconds at most. An element with memory of its own may be a
/// text of some KiB.
#[must_use]
pub const fn piece_of<T>() -> usize {
    let bytes = if std::mem::needs_drop::<T>() { 1 << 14 } else { size_of::<T>() };
    match (8usize << 20).checked_div(bytes) {
        Some(0) => 1,
        Some(elements) => elements,
        None => usize::MAX,
    }
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
        assert_eq!(Refused::catch(|| [0u8; 3].into_iter().collected()), Ok(vec![0; 3]));
        assert_eq!(
            Refused::catch(|| reserve(&mut Vec::<u8>::new(), TOO_MANY)),
            Err(Refused::System { bytes: TOO_MANY })
        );
        assert!(Refused::catch(|| zeroed::<u64>(usize::MAX)).is_err());
        assert_eq!((zeroed::<u32>(3), filled(7u8, 2)), (vec![0; 3], vec![7; 2]));
    }

    #[test]
    fn lists_of_any_length_are_gathered_whether_it_is_announced_or_not() {
        for count in [0, 1, 7, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
            let all: Vec<usize> = (0..count).collect();
            assert_eq!((0..count).collected(), all);
            assert_eq!((0..count).filter(|_| true).collected(), all, "nothing is announced");
            assert_eq!((0..count).map(Ok::<usize, ()>).try_collected(), Ok(all.clone()));
            assert_eq!(copied(&all), all);
            let mut behind = vec![9];
            (0..count).collected_into(&mut behind);
            assert_eq!(behind[1..], all);
            assert_eq!(filled(7u64, count), vec![7; count]);
            let mut to = vec![0u16; count];
            fill(&mut to, &3);
            assert_eq!(to, vec![3; count]);
        }
        let failing = (0..9).map(|place| if place < 4 { Ok(place) } else { Err(place) });
        assert_eq!(failing.try_collected(), Err(4));
    }

    #[test]
    fn long_loops_ask_now_and_then() {
        let always: IsOver = Arc::new(|| true);
        until(Some(&always), || {
            let mut pace = Pace::default();
            pace.step(Pace::UNITS - 1);
            let ended = Refused::catch(|| pace.step(1));
            assert_eq!(ended, Err(Refused::Over { bytes: 0 }));
            assert!(Refused::catch(|| (0..2 * PIECE).filter(|_| true).collected()).is_err());
            let asked = asked();
            let there = std::thread::scope(|scope| scope.spawn(|| beside(asked.as_ref(), is_over)).join().unwrap());
            assert!(there && beside(None, is_over), "a thread keeps its own question");
        });
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
