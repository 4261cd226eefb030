//! Strided readings of dense tensors: slices, broadcasts and permutations as one thing.
//!
//! A [`View`] says where the elements of an output are in an input: a first element, and for each output axis the
//! number of steps and their length. Axes that continue each other are merged when the view is made, so that contiguous
//! elements are one long run. A [`Cursor`] hands out those runs in the output's order, in pieces of any length; copying
//! and computing operators read through it. Element types are not known here.

use kiln_kernels::gpu::source::copy::{CopyKernel, Strided};
use kiln_kernels::memory::{self, Pace, raise_if_over};
use kiln_run::NodeError;
use smallvec::SmallVec;

use super::{Axes, around, refused, strides};

/// One axis of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    count: usize,
    /// Elements of the input from one to the next; 0 repeats, negative goes backwards.
    stride: isize,
}

/// Which elements of a dense tensor are read, and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    start: usize,
    steps: SmallVec<[Step; 6]>,
    len: usize,
}

/// The elements taken along one axis: `count` elements from `start` on, `step` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) start: usize,
    pub(crate) count: usize,
    pub(crate) step: isize,
}

/// Elements at even distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: usize,
    pub(crate) count: usize,
    pub(crate) stride: isize,
}

impl View {
    /// `from` stretched to `to` after numpy's rules; `to` must be the shape that both broadcast to.
    pub(crate) fn broadcast(from: &[usize], to: &[usize]) -> Result<View, NodeError> {
        let mismatch = || refused(format!("shape {from:?} does not broadcast to {to:?}"));
        let offset = to.len().checked_sub(from.len()).ok_or_else(mismatch)?;
        let mut steps = SmallVec::new();
        for (axis, &count) in to.iter().enumerate() {
            let own = if axis < offset { 1 } else { from[axis - offset] };
            if own != count && own != 1 {
                return Err(mismatch());
            }
            let stride = if own == 1 { 0 } else { strides(from)[axis - offset] as isize };
            steps.push(Step { count, stride });
        }
        Ok(View::new(0, steps))
    }

    /// A part of each axis; one cut an axis, inside of the shape.
    pub(crate) fn cut(shape: &[usize], cuts: &[Cut]) -> View {
        let strides = strides(shape);
        let empty = cuts.iter().any(|cut| cut.count == 0);
        let start = if empty { 0 } else { cuts.iter().zip(&strides).map(|(cut, stride)| cut.start * stride).sum() };
        let step = |(cut, &stride): (&Cut, &usize)| Step { count: cut.count, stride: cut.step * stride as isize };
        View::new(start, cuts.iter().zip(&strides).map(step).collect())
    }

    /// All elements, with axis `order[i]` of the shape as axis `i` of the view.
    pub(crate) fn permuted(shape: &[usize], order: &[usize]) -> View {
        let strides = strides(shape);
        let step = |&axis: &usize| Step { count: shape[axis], stride: strides[axis] as isize };
        View::new(0, order.iter().map(step).collect())
    }

    /// All elements, those along `inner` innermost and the other axes before them in their order.
    pub(crate) fn with_inner(shape: &[usize], inner: &[usize]) -> View {
        let outer = (0..shape.len()).filter(|axis| !inner.contains(axis));
        let order: Axes = outer.chain(inner.iter().copied()).collect();
        View::permuted(shape, &order)
    }

    fn new(start: usize, steps: SmallVec<[Step; 6]>) -> View {
        let len = steps.iter().map(|step| step.count).product();
        let mut merged: SmallVec<[Step; 6]> = SmallVec::new();
        for step in steps {
            match merged.last_mut() {
                _ if step.count == 1 => {}
                // The outer axis steps exactly over the inner one, or neither moves at all.
                Some(outer) if outer.stride == step.stride * step.count as isize => {
                    *outer = Step { count: outer.count * step.count, stride: step.stride };
                }
                _ => merged.push(step),
            }
        }
        View { start, steps: merged, len }
    }

    /// Whether it reads a dense stretch from the first element on, in order.
    pub(crate) fn is_whole(&self) -> bool {
        self.start == 0 && matches!(self.steps.as_slice(), [] | [Step { stride: 1, .. }])
    }

    /// A kernel that copies the view's elements, of `width` bytes each, one behind the other.
    pub(crate) fn copying(&self, width: usize) -> Result<CopyKernel, NodeError> {
        let counts: SmallVec<[u64; 6]> = self.steps.iter().map(|step| step.count as u64).collect();
        let from: SmallVec<[i64; 6]> = self.steps.iter().map(|step| step.stride as i64).collect();
        let sizes: SmallVec<[usize; 6]> = self.steps.iter().map(|step| step.count).collect();
        let to: SmallVec<[i64; 6]> = strides(&sizes).iter().map(|&stride| stride as i64).collect();
        Ok(CopyKernel::new(width as u8, &counts, Strided::new(self.start as i64, &from), Strided::new(0, &to))?)
    }

    /// Reads from the start.
    pub(crate) fn cursor(&self) -> Cursor<'_> {
        let (inner, outer) = match self.steps.split_last() {
            Some((inner, outer)) => (*inner, outer),
            None => (Step { count: 1, stride: 1 }, &[][..]),
        };
        Cursor { outer, inner, index: SmallVec::from_elem(0, outer.len()), row: self.start, within: 0, left: self.len }
    }

    /// Reads from element `first` of the view's order on.
    pub(crate) fn cursor_at(&self, first: usize) -> Cursor<'_> {
        let mut cursor = self.cursor();
        let first = first.min(self.len);
        cursor.left -= first;
        if cursor.left == 0 {
            return cursor;
        }
        cursor.within = first % cursor.inner.count;
        let mut rows = first / cursor.inner.count;
        for (step, index) in cursor.outer.iter().zip(&mut cursor.index).rev() {
            *index = rows % step.count;
            rows /= step.count;
            cursor.row = cursor.row.wrapping_add_signed(step.stride * *index as isize);
        }
        cursor
    }

    /// Copies the view's elements, in its order.
    pub(crate) fn copy<T: Clone>(&self, from: &[T], to: &mut [T]) {
        self.copy_from(0, from, to);
    }

    /// As [`View::copy`], from element `first` of the view's order on, until `to` is full. Raises
    /// [`Refused::Over`](memory::Refused::Over) where the request ends before it is done.
    pub(crate) fn copy_from<T: Clone>(&self, first: usize, from: &[T], to: &mut [T]) {
        let (mut cursor, piece) = (self.cursor_at(first), memory::piece_of::<T>());
        // A short run takes as long as one of this many elements.
        let least = piece >> 16;
        let (mut rest, mut until_asked) = (to, piece);
        while let Some(run) = cursor.next(rest.len().min(until_asked)) {
            let (now, later) = rest.split_at_mut(run.count);
            run.read(from, now);
            rest = later;
            until_asked = until_asked.saturating_sub(run.count.max(least));
            if until_asked == 0 {
                until_asked = piece;
                raise_if_over(size_of_val(rest));
            }
        }
    }
}

impl Run {
    /// The place of element `index` of the run.
    pub(crate) fn at(&self, index: usize) -> usize {
        self.start.wrapping_add_signed(self.stride * index as isize)
    }

    /// Converts the run's elements one by one.
    pub(crate) fn map<T: Copy, U: Copy>(&self, from: &[T], to: &mut [U], convert: impl Fn(T) -> U) {
        match self.stride {
            1 => {
                let dense = &from[self.start..self.start + self.count];
                to.iter_mut().zip(dense).for_each(|(to, &from)| *to = convert(from));
            }
            0 => to.fill(convert(from[self.start])),
            _ => to.iter_mut().enumerate().for_each(|(index, to)| *to = convert(from[self.at(index)])),
        }
    }

    /// Copies the run's elements.
    pub(crate) fn read<T: Clone>(&self, from: &[T], to: &mut [T]) {
        match self.stride {
            1 => kiln_kernels::parallel::copy(&from[self.start..self.start + self.count], to),
            0 => to.fill(from[self.start].clone()),
            step if step > 0 => {
                let spaced = from[self.start..].iter().step_by(step.unsigned_abs());
                to.iter_mut().zip(spaced).for_each(|(to, from)| *to = from.clone());
            }
            step => {
                let spaced = from[..=self.start].iter().rev().step_by(step.unsigned_abs());
                to.iter_mut().zip(spaced).for_each(|(to, from)| *to = from.clone());
            }
        }
    }
}

/// The lines of a dense tensor along an axis, in order of their first elements; no line where the tensor has no
/// elements. Checks between lines whether the request has ended, and raises [`Refused::Over`](memory::Refused::Over)
/// then.
pub(crate) fn lines(shape: &[usize], axis: usize) -> impl Iterator<Item = Run> + use<> {
    let ((before, count, after), mut pace) = (around(shape, axis), Pace::default());
    let before = if count == 0 || after == 0 { 0 } else { before };
    let all = (0..before).flat_map(move |outer| {
        (0..after).map(move |inner| Run { start: outer * count * after + inner, count, stride: after as isize })
    });
    all.inspect(move |run| pace.step(run.count))
}

/// Iterates over two views of one length: the place in their common order, and the next run of each, equally long.
pub(crate) fn in_step(views: [&View; 2], mut visit: impl FnMut(usize, [Run; 2])) {
    let (mut first, mut second) = (views[0].cursor(), views[1].cursor());
    let (mut at, mut pace) = (0, Pace::default());
    loop {
        let most = first.row_left().min(second.row_left()).min(Pace::UNITS);
        let (Some(a), Some(b)) = (first.next(most), second.next(most)) else {
            return;
        };
        visit(at, [a, b]);
        at += a.count;
        pace.step(a.count);
    }
}

/// A place in the order of a view.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'v> {
    outer: &'v [Step],
    inner: Step,
    index: SmallVec<[usize; 6]>,
    row: usize,
    within: usize,
    left: usize,
}

impl Cursor<'_> {
    /// The next run, of at most `most` elements; nothing at the end.
    pub(crate) fn next(&mut self, most: usize) -> Option<Run> {
        if self.left == 0 || most == 0 {
            return None;
        }
        let count = most.min(self.inner.count - self.within);
        let start = self.row.wrapping_add_signed(self.inner.stride * self.within as isize);
        self.left -= count;
        self.within += count;
        if self.within == self.inner.count {
            self.within = 0;
            self.advance();
        }
        Some(Run { start, count, stride: self.inner.stride })
    }

    /// Elements until the run in progress ends; 0 at the end of the view.
    pub(crate) fn row_left(&self) -> usize {
        if self.left == 0 { 0 } else { self.inner.count - self.within }
    }

    fn advance(&mut self) {
        for (step, index) in self.outer.iter().zip(&mut self.index).rev() {
            *index += 1;
            if *index < step.count {
                self.row = self.row.wrapping_add_signed(step.stride);
                return;
            }
            // Back to the first of this axis; the next outer one moves on.
            self.row = self.row.wrapping_add_signed(-step.stride * (step.count - 1) as isize);
            *index = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(view: &View, piece: usize) -> Vec<usize> {
        let mut cursor = view.cursor();
        let mut all = Vec::new();
        while let Some(run) = cursor.next(piece) {
            all.extend((0..run.count).map(|i| run.at(i)));
        }
        assert_eq!(all.len(), view.len);
        all
    }

    #[test]
    fn views_read_what_nested_loops_read_in_pieces_of_any_size() {
        let expand = View::broadcast(&[2, 1, 3], &[2, 2, 3]).unwrap();
        let reverse = View::cut(&[2, 3], &[Cut { start: 0, count: 2, step: 1 }, Cut { start: 2, count: 2, step: -2 }]);
        let transposed = View::permuted(&[2, 3], &[1, 0]);
        let inner = View::with_inner(&[2, 2, 2], &[1]);
        let scalar = View::broadcast(&[], &[2, 2]).unwrap();
        for piece in [1, 2, 3, usize::MAX] {
            assert_eq!(read(&expand, piece), [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
            assert_eq!(read(&reverse, piece), [2, 0, 5, 3]);
            assert_eq!(read(&transposed, piece), [0, 3, 1, 4, 2, 5]);
            assert_eq!(read(&inner, piece), [0, 2, 1, 3, 4, 6, 5, 7]);
            assert_eq!(read(&scalar, piece), [0, 0, 0, 0]);
        }
    }

    #[test]
    fn a_cursor_starts_anywhere() {
        let view = View::permuted(&[2, 3, 4], &[2, 0, 1]);
        let all = read(&view, usize::MAX);
        for first in 0..=all.len() + 1 {
            let mut cursor = view.cursor_at(first);
            let mut rest = Vec::new();
            while let Some(run) = cursor.next(usize::MAX) {
                rest.extend((0..run.count).map(|i| run.at(i)));
            }
            assert_eq!(rest, all[first.min(all.len())..], "from {first}");
        }
    }

    #[test]
    fn what_is_contiguous_is_one_run() {
        let all = View::broadcast(&[4, 5, 6], &[1, 4, 5, 6]).unwrap();
        assert_eq!(all.cursor().next(usize::MAX), Some(Run { start: 0, count: 120, stride: 1 }));
        let rows = View::cut(&[4, 30], &[Cut { start: 1, count: 2, step: 1 }, Cut { start: 0, count: 30, step: 1 }]);
        assert_eq!(rows.cursor().next(usize::MAX), Some(Run { start: 30, count: 60, stride: 1 }));
    }

    #[test]
    fn empty_views_read_nothing_and_mismatches_are_refused() {
        assert_eq!(View::broadcast(&[1, 0], &[3, 0]).unwrap().cursor().next(8), None);
        assert!(View::broadcast(&[2], &[3]).is_err());
        assert!(View::broadcast(&[1, 1], &[1]).is_err());
    }

    #[test]
    fn copies_follow_the_view() {
        let from: Vec<String> = (0..6).map(|i| i.to_string()).collect();
        let mut to = vec![String::new(); 6];
        View::permuted(&[2, 3], &[1, 0]).copy(&from, &mut to);
        assert_eq!(to, ["0", "3", "1", "4", "2", "5"]);
    }
}
