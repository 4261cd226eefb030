//! The fork-join trait through which kernel families use threads, with helpers to divide memory between them.

use std::marker::PhantomData;
use std::ops::Range;

mod copy;
mod line;
mod pieces;
mod pool;
mod reads;
mod shares;

pub use copy::{copy, copy_runs};
pub use pieces::{Piece, Pieces};
pub use pool::Pool;
pub use reads::{Reads, Runs};
pub use shares::{has_shares, in_shares};

/// A fork-join over numbered tasks. The caller's thread takes part; `run` returns when every task has returned.
pub trait Parallel: Sync {
    /// Threads that take part, the caller included; at least 1.
    fn threads(&self) -> usize;

    /// Calls `task(0)` to `task(tasks - 1)`, each exactly once, in any order and on any of the threads.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));

    /// Calls `task` once on the caller's thread, with 0, and once on each other thread that comes before the caller is
    /// done, with its number: 1 to [`threads`](Parallel::threads) less 1, the same in every fork. For work that threads
    /// take from each other, because any of them may have to do all of it.
    fn each_thread(&self, task: &(dyn Fn(usize) + Sync)) {
        task(0);
    }

    /// Announces what the next fork reads. Threads learn what follows it, and prefetch that while they wait.
    fn expect(&self, _: Reads) {}

    /// Whether the request has been cancelled. Drivers check between blocks of work that take long together, and then
    /// return with their outputs unfinished; the caller that cancelled discards these.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// The caller's thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Parallel for Serial {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        for index in 0..tasks {
            task(index);
        }
    }
}

/// Keeps the threads awake, and for a while after, because a fork will follow soon. A thread takes longer to wake than
/// many kernels take to run.
pub fn keep_awake(parallel: &dyn Parallel) {
    parallel.run(parallel.threads(), &|_| ());
}

/// Calls `task(index, chunk)` for the consecutive pieces of `data`, each `length` elements long but the last.
///
/// Safe code writes one buffer from several threads by this: no piece is given to two tasks.
pub fn for_each_chunk<T: Send>(
    parallel: &dyn Parallel,
    data: &mut [T],
    length: usize,
    task: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let length = length.max(1);
    let total = data.len();
    let data = Disjoint::new(data);
    parallel.run(total.div_ceil(length), &|index| {
        let start = index * length;
        // SAFETY: `run` calls each index once, and indices own disjoint ranges.
        task(index, unsafe { data.part(start..total.min(start + length)) });
    });
}

/// Calls `task(index, part)` for these parts of `data`, in any order and on any thread.
///
/// # Panics
///
/// If a part begins before the end of the part before it, or is not in `data`.
pub fn for_each_part<T: Send>(
    parallel: &dyn Parallel,
    data: &mut [T],
    parts: &[Range<usize>],
    task: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let end = parts.iter().fold(0, |end, part| {
        assert!(end <= part.start && part.start <= part.end, "part {part:?} behind {end}");
        part.end
    });
    assert!(end <= data.len(), "parts to {end} of {}", data.len());
    let data = Disjoint::new(data);
    parallel.run(parts.len(), &|index| {
        // SAFETY: `run` calls each index once, and no two parts overlap.
        task(index, unsafe { data.part(parts[index].clone()) });
    });
}

/// A buffer that tasks write in ranges that do not overlap: the only splitter of mutable memory between threads. It
/// keeps the buffer borrowed. [`for_each_chunk`] and [`for_each_part`] are its safe forms.
#[derive(Debug)]
pub(crate) struct Disjoint<'a, T> {
    start: *mut T,
    length: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it is an address. Only unsafe code reads or writes through it, and states why no other task touches those
// elements; they are `Send`.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}

// Not derived, which would ask for elements that can be copied.
impl<T> Clone for Disjoint<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Disjoint<'_, T> {}

impl<'a, T: Send> Disjoint<'a, T> {
    /// The whole buffer, which nothing else accesses meanwhile.
    pub(crate) fn new(data: &'a mut [T]) -> Disjoint<'a, T> {
        Disjoint { start: data.as_mut_ptr(), length: data.len(), borrow: PhantomData }
    }

    /// The buffer from element `index` on, for a task that splits its own part further.
    ///
    /// # Panics
    ///
    /// If there are fewer elements: a driver that computes such an index is broken.
    pub(crate) fn from(&self, index: usize) -> Disjoint<'a, T> {
        assert!(index <= self.length, "element {index} of {}", self.length);
        Disjoint { start: self.at(index), length: self.length - index, borrow: PhantomData }
    }

    /// The elements of `range`.
    ///
    /// # Panics
    ///
    /// If the range is not inside the buffer: the driver that computed it is wrong.
    ///
    /// # Safety
    ///
    /// No two ranges that are in use at the same time overlap.
    #[allow(clippy::mut_from_ref, reason = "the caller vouches that parts do not overlap")]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.length, "{range:?} of {}", self.length);
        // SAFETY: inside the borrowed buffer, and the caller vouches for the rest.
        unsafe { std::slice::from_raw_parts_mut(self.at(range.start), range.len()) }
    }

    /// The address of an element, for kernels whose tasks write strided parts.
    pub(crate) fn at(&self, index: usize) -> *mut T {
        self.start.wrapping_add(index)
    }
}

/// The input of tasks of a driver that may work in place: a separate buffer, or the output that they write. It keeps
/// the buffer borrowed.
#[derive(Debug)]
pub(crate) struct InPlaceInput<'a, T> {
    start: *const T,
    borrow: PhantomData<&'a [T]>,
}

// SAFETY: it is an address. Only unsafe code reads through it, and states why no other task writes those elements
// meanwhile; they are `Sync`.
unsafe impl<T: Sync> Sync for InPlaceInput<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Send for InPlaceInput<'_, T> {}

impl<'a, T> InPlaceInput<'a, T> {
    /// A separate buffer.
    pub(crate) fn apart(data: &'a [T]) -> InPlaceInput<'a, T> {
        InPlaceInput { start: data.as_ptr(), borrow: PhantomData }
    }

    /// The output, whose memory holds the input before it is written.
    pub(crate) fn of_output(output: &Disjoint<'a, T>) -> InPlaceInput<'a, T> {
        InPlaceInput { start: output.start, borrow: PhantomData }
    }

    /// The elements of `range`.
    ///
    /// # Safety
    ///
    /// The buffer has them, and no task writes them while they are in use.
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &[T] {
        // SAFETY: the caller vouches for both.
        unsafe { std::slice::from_raw_parts(self.at(range.start), range.len()) }
    }

    /// The address of an element.
    pub(crate) fn at(&self, index: usize) -> *const T {
        self.start.wrapping_add(index)
    }
}

/// Part `index` of `parts` nearly equal consecutive parts of `0..total`.
#[must_use]
pub fn part(total: usize, parts: usize, index: usize) -> Range<usize> {
    let parts = parts.max(1);
    let (each, longer) = (total / parts, total % parts);
    let start = |index: usize| index * each + index.min(longer);
    start(index)..start(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_part_is_a_part_of_the_buffer() {
        let mut data = [0; 10];
        let all = Disjoint::new(&mut data);
        let rest = all.from(4);
        // SAFETY: the two parts do not overlap.
        unsafe {
            all.part(0..4).fill(1);
            rest.part(1..6).fill(2);
        }
        assert_eq!(rest.at(0).cast_const(), all.at(4).cast_const());
        assert_eq!(data, [1, 1, 1, 1, 0, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn an_input_in_place_is_read_where_the_output_is_written() {
        let (own, mut data) = ([7, 8], [1, 2, 3]);
        let output = Disjoint::new(&mut data);
        let (in_place, apart) = (InPlaceInput::of_output(&output), InPlaceInput::apart(&own));
        assert_eq!(in_place.at(2), output.at(2).cast_const());
        assert_eq!(apart.at(1), own[1..].as_ptr());
        // SAFETY: nothing writes meanwhile.
        assert_eq!(unsafe { [in_place.at(2).read(), apart.at(1).read()] }, [3, 8]);
    }

    #[test]
    #[should_panic(expected = "2..7 of 6")]
    fn a_part_beyond_the_buffer_is_refused() {
        let mut data = [0; 10];
        let rest = Disjoint::new(&mut data).from(4);
        // SAFETY: it is the only part.
        let _ = unsafe { rest.part(2..7) };
    }

    #[test]
    fn chunks_cover_the_data_once_in_order() {
        for (total, length) in [(0, 4), (1, 4), (4, 4), (5, 4), (1000, 7), (3, 0)] {
            let mut data = vec![0usize; total];
            for_each_chunk(&Serial, &mut data, length, &|index, chunk| {
                for (place, value) in chunk.iter_mut().enumerate() {
                    *value += index * length.max(1) + place + 1;
                }
            });
            assert!(data.iter().enumerate().all(|(place, &value)| value == place + 1), "{total} by {length}");
        }
    }

    #[test]
    fn parts_of_the_data_are_given_once_each() {
        let mut data: Vec<usize> = (0..10).collect();
        for_each_part(&Serial, &mut data, &[1..3, 3..3, 6..10], &|index, part| {
            part.iter_mut().for_each(|element| *element += 100 * (index + 1));
        });
        assert_eq!(data, [0, 101, 102, 3, 4, 5, 306, 307, 308, 309]);
    }

    #[test]
    #[should_panic(expected = "part 2..4 behind 3")]
    fn parts_that_overlap_are_refused() {
        for_each_part(&Serial, &mut [0; 9], &[1..3, 2..4], &|_, _| ());
    }

    #[test]
    #[should_panic(expected = "parts to 10 of 9")]
    fn parts_behind_the_data_are_refused() {
        for_each_part(&Serial, &mut [0; 9], &[1..3, 4..10], &|_, _| ());
    }

    #[test]
    fn parts_are_consecutive_and_differ_by_one_at_most() {
        for (total, parts) in [(0, 3), (1, 3), (10, 3), (12, 4), (7, 1)] {
            let mut next = 0;
            for index in 0..parts {
                let range = part(total, parts, index);
                assert_eq!(range.start, next);
                assert!(range.len().abs_diff(total / parts) <= 1);
                next = range.end;
            }
            assert_eq!(next, total);
        }
    }
}
