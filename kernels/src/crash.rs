//! The current work of a thread, in words, for the last line of a crash.
//!
//! Work with a name puts a *mark* on its thread while it runs ([`within`]): a session with its model, the graph with
//! each node, a builder with its key. Marks are on the stack and point to the mark around them, so that setting one is
//! two stores to the thread's own memory, some nanoseconds. The pool's threads carry the marks of the thread that
//! forked ([`Trail`]).
//!
//! Marks are read only when a process crashes: a program that has called [`watch`] writes them to standard error when a
//! signal kills it ([`signals`]), and its panic hook gets them from [`trail`]. Libraries set marks and never call
//! `watch`.

mod signals;

use std::fmt::{self, Display, Write};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering, compiler_fence};

pub use signals::{is_watched, watch};

thread_local! {
    /// The innermost mark. Atomic because signal handlers read it at any time.
    static INNERMOST: AtomicPtr<Mark<'static>> = const { AtomicPtr::new(ptr::null_mut()) };
}

/// A mark, on the stack of the [`within`] that set it.
struct Mark<'a> {
    what: &'a dyn Display,
    /// The mark around it, or null. It is further down on the same stack, or on the stack of a thread that waits.
    outer: *const Mark<'static>,
}

/// Runs `run` with the mark `what`.
///
/// A signal handler may format `what` at any moment and more than once: its `Display` must not lock or allocate, which
/// is true for plain data, texts and numbers.
#[inline]
pub fn within<R>(what: &dyn Display, run: impl FnOnce() -> R) -> R {
    let outer = INNERMOST.with(|innermost| innermost.load(Ordering::Relaxed));
    if outer.is_null() {
        signals::prepare_thread();
    }
    let mark = Mark { what, outer };
    let _unmark = Unmark::set(&mark, outer);
    run()
}

/// Restores the mark around it, also when a panic unwinds.
struct Unmark<'a> {
    outer: *mut Mark<'static>,
    _mark: PhantomData<&'a Mark<'a>>,
}

impl<'a> Unmark<'a> {
    #[inline]
    fn set(mark: &'a Mark<'a>, outer: *mut Mark<'static>) -> Unmark<'a> {
        let innermost = ptr::from_ref(mark).cast_mut().cast::<Mark<'static>>();
        INNERMOST.with(|slot| slot.store(innermost, Ordering::Relaxed));
        // Signal handlers run on this very thread, so the order of the compiler is the order that they see.
        compiler_fence(Ordering::SeqCst);
        Unmark { outer, _mark: PhantomData }
    }
}

impl Drop for Unmark<'_> {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        INNERMOST.with(|slot| slot.store(self.outer, Ordering::Relaxed));
    }
}

/// The marks of one thread, for other threads that work for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trail(*const Mark<'static>);

impl Trail {
    /// No marks.
    pub(crate) const NONE: Trail = Trail(ptr::null());

    /// The marks of this thread.
    #[inline]
    pub(crate) fn here() -> Trail {
        Trail(INNERMOST.with(|innermost| innermost.load(Ordering::Relaxed)))
    }

    /// Runs `run` with these marks on this thread.
    ///
    /// # Safety
    ///
    /// The thread that set the marks keeps them until `run` has returned: it waits for this one.
    #[inline]
    pub(crate) unsafe fn follow<R>(self, run: impl FnOnce() -> R) -> R {
        signals::prepare_thread();
        let outer = INNERMOST.with(|innermost| innermost.load(Ordering::Relaxed));
        INNERMOST.with(|slot| slot.store(self.0.cast_mut(), Ordering::Relaxed));
        let _unmark = Unmark { outer, _mark: PhantomData };
        run()
    }
}

/// The current work of this thread, outermost first, in one line; empty without marks.
#[must_use]
pub fn trail() -> String {
    let mut text = String::new();
    let mut first = true;
    // Writing to a string cannot fail.
    let _ = each_mark(&mut |what| {
        if !std::mem::take(&mut first) {
            text.push_str(SEPARATOR);
        }
        write!(text, "{what}")
    });
    text.replace(['\n', '\r'], " ")
}

/// Between two marks.
const SEPARATOR: &str = ", ";

/// The most marks that are written: of deeper nesting, the outermost ones and the innermost ones.
const DEEPEST: usize = 32;

/// Passes this thread's marks to `tell`, outermost first. Does not allocate or lock.
fn each_mark(tell: &mut dyn FnMut(&dyn Display) -> fmt::Result) -> fmt::Result {
    let mut marks = [ptr::null::<Mark<'static>>(); DEEPEST];
    let mut depth = 0;
    let mut mark = INNERMOST.with(|innermost| innermost.load(Ordering::Relaxed)).cast_const();
    // SAFETY: marks in the slot are alive: each is in a `within` that has not returned, on this thread's stack or on
    // that of a thread that waits for this one, and is not written meanwhile.
    while let Some(found) = unsafe { mark.as_ref() } {
        if depth < DEEPEST {
            marks[depth] = mark;
            depth += 1;
        } else {
            marks[DEEPEST - 1] = mark;
        }
        mark = found.outer;
    }
    for mark in marks[..depth].iter().rev() {
        // SAFETY: as above.
        tell(unsafe { (**mark).what })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parallel, Pool};

    #[test]
    fn marks_nest_and_go_with_what_they_mark() {
        assert_eq!(trail(), "");
        within(&"model a", || {
            within(&format_args!("node {}", 7), || assert_eq!(trail(), "model a, node 7"));
            let caught = std::panic::catch_unwind(|| within(&"node 8", || panic!("{}", trail())));
            assert_eq!(*caught.unwrap_err().downcast::<String>().unwrap(), "model a, node 8");
            assert_eq!(trail(), "model a");
        });
        assert_eq!(trail(), "");
    }

    #[test]
    fn a_mark_of_several_lines_is_told_in_one() {
        within(&"a\nb", || assert_eq!(trail(), "a b"));
    }

    #[test]
    fn nesting_without_end_is_told_with_its_outermost_and_innermost_marks() {
        fn nest(depth: usize) -> String {
            within(&depth, || if depth == 0 { trail() } else { nest(depth - 1) })
        }
        let told = nest(1000);
        assert_eq!(told.split(SEPARATOR).count(), DEEPEST);
        assert!(told.starts_with("1000, 30, 29, ") && told.ends_with(", 1, 0"), "{told}");
    }

    #[test]
    fn threads_of_a_pool_carry_the_marks_of_who_forked() {
        let pool = Pool::new(4, "marks").unwrap();
        for round in 0..200 {
            within(&format_args!("round {round}"), || {
                pool.run(8, &|_| assert_eq!(trail(), format!("round {round}")));
            });
            pool.run(8, &|_| assert_eq!(trail(), ""));
        }
    }
}
