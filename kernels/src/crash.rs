//! What a thread is doing, in words, for the one line that a crash may still write.
//!
//! What does something by name puts a *mark* on the thread for as long as it takes ([`within`]): a session its model,
//! the graph each node, a builder its key. Marks lie on the stack and point at the mark that they lie within, so that
//! setting one is two stores to the thread's own memory and costs nanoseconds. The pool's threads carry the marks of
//! the thread that forked ([`Trail`]).
//!
//! Marks are read only when something goes wrong: a program that has called [`watch`] says them on standard error when it
//! dies of a signal ([`signals`]), and [`trail`] gives them to its panic hook. Libraries set marks and never call `watch`.

mod signals;

use std::fmt::{self, Display, Write};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering, compiler_fence};

pub use signals::{is_watched, watch};

thread_local! {
    /// The innermost mark. Atomic because signal handlers read it in the middle of everything.
    static INNERMOST: AtomicPtr<Mark<'static>> = const { AtomicPtr::new(ptr::null_mut()) };
}

/// A mark, on the stack of the [`within`] that set it.
struct Mark<'a> {
    what: &'a dyn Display,
    /// The mark that it lies within, or null. It lies further down on the same stack, or on that of a waiting thread.
    outer: *const Mark<'static>,
}

/// Runs `run` with a mark that says what it is.
///
/// `what` may be asked by a signal handler, at any moment and more than once: its `Display` must take no lock and no
/// memory. Derived ones of plain data, texts and numbers do not.
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

/// Puts the mark before back, also where a panic unwinds.
struct Unmark<'a> {
    outer: *mut Mark<'static>,
    _mark: PhantomData<&'a Mark<'a>>,
}

impl<'a> Unmark<'a> {
    #[inline]
    fn set(mark: &'a Mark<'a>, outer: *mut Mark<'static>) -> Unmark<'a> {
        let innermost = ptr::from_ref(mark).cast_mut().cast::<Mark<'static>>();
        INNERMOST.with(|slot| slot.store(innermost, Ordering::Relaxed));
        // Signal handlers run on this very thread: what the compiler keeps in order is in order.
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

/// The marks of one thread, for others that work for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trail(*const Mark<'static>);

impl Trail {
    /// No marks.
    pub(crate) const NONE: Trail = Trail(ptr::null());

    /// This thread's.
    #[inline]
    pub(crate) fn here() -> Trail {
        Trail(INNERMOST.with(|innermost| innermost.load(Ordering::Relaxed)))
    }

    /// Runs `run` with these marks on this thread.
    ///
    /// # Safety
    ///
    /// The thread whose marks they are keeps them until `run` has returned: it waits for this one.
    #[inline]
    pub(crate) unsafe fn follow<R>(self, run: impl FnOnce() -> R) -> R {
        signals::prepare_thread();
        let outer = INNERMOST.with(|innermost| innermost.load(Ordering::Relaxed));
        INNERMOST.with(|slot| slot.store(self.0.cast_mut(), Ordering::Relaxed));
        let _unmark = Unmark { outer, _mark: PhantomData };
        run()
    }
}

/// What this thread is doing, outermost first, in one line; empty where nothing is marked.
#[must_use]
pub fn trail() -> String {
    let mut text = String::new();
    let mut first = true;
    // A text takes all that is written.
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

/// The deepest nesting that is told of: the outermost marks and the innermost ones of anything deeper.
const DEEPEST: usize = 32;

/// Gives this thread's marks, outermost first. Takes no memory and no lock.
fn each_mark(tell: &mut dyn FnMut(&dyn Display) -> fmt::Result) -> fmt::Result {
    let mut marks = [ptr::null::<Mark<'static>>(); DEEPEST];
    let mut depth = 0;
    let mut mark = INNERMOST.with(|innermost| innermost.load(Ordering::Relaxed)).cast_const();
    // SAFETY: marks in the slot are alive: each lies in a `within` that has not returned, on this thread's stack or on that
    // of a thread that waits for this one, and is not written while it does.
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
