//! The shape of a reduction, reduced to the axes that matter, and the passes that compute it.
//!
//! Neighbouring axes that are both kept, or both reduced, become one axis; axes of one element are dropped. The rest
//! alternate between kept and reduced. Reduced axes are folded innermost first, one pass each. A pass that adds up long
//! columns is split into sums of parts and the sum of these sums, which is more accurate and gives work to several
//! threads.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{Fold, Map, Order, Pass, PostOp, Reduction};
use crate::parallel::part;

/// Dimensions that alternate between kept and reduced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Collapsed {
    /// Dimensions, outermost first.
    pub dims: SmallVec<[u64; 4]>,
    /// Whether the first dimension is reduced.
    pub reduced_first: bool,
}

impl Collapsed {
    /// The reduction of a tensor of that shape over some of its axes.
    #[must_use]
    pub fn new(shape: &[usize], reduced: impl Fn(usize) -> bool) -> Collapsed {
        let mut collapsed = Collapsed { dims: SmallVec::new(), reduced_first: false };
        let mut last = None;
        for (axis, &dim) in shape.iter().enumerate().filter(|&(_, &dim)| dim != 1) {
            match collapsed.dims.last_mut().filter(|_| last == Some(reduced(axis))) {
                Some(whole) => *whole *= dim as u64,
                None => {
                    if last.is_none() {
                        collapsed.reduced_first = reduced(axis);
                    }
                    collapsed.dims.push(dim as u64);
                    last = Some(reduced(axis));
                }
            }
        }
        collapsed
    }

    /// Whether that dimension is reduced.
    #[must_use]
    pub fn is_reduced(&self, index: usize) -> bool {
        index.is_multiple_of(2) == self.reduced_first
    }

    fn product(&self, of: impl Fn(usize) -> bool) -> usize {
        (0..self.dims.len()).filter(|&index| of(index)).map(|index| self.dims[index] as usize).product()
    }

    /// Elements of the input.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.product(|_| true)
    }

    /// Elements of the output.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.product(|index| !self.is_reduced(index))
    }

    /// Elements of the input that one element of the output is folded from.
    #[must_use]
    pub fn reduced_len(&self) -> usize {
        self.product(|index| self.is_reduced(index))
    }

    /// Whether its sizes are within bounds.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let bytes = self.dims.iter().try_fold(4usize, |bytes, &dim| bytes.checked_mul((dim as usize).max(1)));
        bytes.is_some_and(|bytes| bytes <= isize::MAX as usize)
    }
}

/// One pass over an array `[outer, reduce, inner]`. Its middle axis is divided into `parts` parts, and each part is
/// folded into one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) outer: usize,
    pub(super) reduce: usize,
    pub(super) inner: usize,
    pub(super) parts: usize,
    pub(super) pass: Pass,
    pub(super) scale: f32,
}

/// Elements of a row that are added up before a sum of sums begins: 64 to 128 additions in each lane.
const ROW: usize = 1 << 12;
/// Rows of a column that are added up before a sum of sums begins: each column is one chain of additions.
const COLUMN: usize = 1 << 8;
/// Bytes of a row from which on rows are read from end to end ([`Order::Streams`]).
const STREAM: usize = 512;
const NEAR: usize = 1 << 19;
/// Elements of a cache line: the unit in which threads share columns.
pub(super) const LINE: usize = 16;
/// The least elements of a part for a thread of its own; for less, the fork costs more than it saves.
const SHARE: usize = 1 << 14;

impl Step {
    pub(super) fn output_len(&self) -> usize {
        self.outer * self.parts * self.inner
    }

    /// The order in which elements are folded. Rows that are further apart than hardware prefetchers follow are read
    /// from end to end, unless L2 holds all rows.
    pub(super) fn order(&self) -> Order {
        let row = self.inner * size_of::<f32>();
        match self.inner {
            1 => Order::Rows,
            _ if row >= STREAM && self.reduce.saturating_mul(row) > NEAR => Order::Streams,
            _ => Order::Columns,
        }
    }

    /// The step over a transposed block of `rows` rows, which lie side by side.
    pub(super) fn turned(&self, rows: usize) -> Step {
        Step { outer: 1, inner: rows, ..*self }
    }

    /// The rows of the middle axis that part `index` folds.
    pub(super) fn part(&self, index: usize) -> std::ops::Range<usize> {
        part(self.reduce, self.parts, index)
    }

    /// Parts of the middle axis, for accuracy and, where `outer` gives less than one part a task, for `tasks` tasks.
    /// With `in_order`, for accuracy alone.
    fn split(&self, tasks: usize, in_order: bool) -> usize {
        let accurate = match self.pass.fold {
            // Long rows are shared between tasks whole, as rows of sums are: memory delivers a third less when tasks
            // read halves of rows.
            Fold::Max | Fold::Min if self.order() != Order::Streams => 1,
            _ => self.reduce.div_ceil(if self.inner == 1 { ROW } else { COLUMN }),
        };
        // At most half of the axis, so that every pass makes it shorter.
        let shares = (self.reduce * self.inner / SHARE).min(self.reduce / 2);
        let units = self.outer * self.inner.div_ceil(LINE);
        let shared = if units < tasks && !in_order { tasks.div_ceil(units.max(1)).min(shares) } else { 1 };
        accurate.max(shared).max(1)
    }
}

/// The passes of a reduction whose input is not empty.
pub(super) fn steps(reduction: Reduction, collapsed: &Collapsed, tasks: usize, in_order: bool) -> SmallVec<[Step; 2]> {
    let Pass { map, fold, post_op } = reduction.pass();
    let mut steps = SmallVec::<[Step; 2]>::new();
    let mut push = |outer: usize, mut reduce: usize, inner: usize| {
        loop {
            let map = if steps.is_empty() { map } else { Map::Identity };
            let pass = Pass { map, fold, post_op: PostOp::None };
            let mut step = Step { outer, reduce, inner, parts: 1, pass, scale: 1.0 };
            step.parts = step.split(tasks, in_order);
            steps.push(step);
            if step.parts == 1 {
                return;
            }
            reduce = step.parts;
        }
    };
    let mut dims: SmallVec<[usize; 4]> = collapsed.dims.iter().map(|&dim| dim as usize).collect();
    let mut at = dims.len();
    while at > 0 {
        at -= 1;
        if collapsed.is_reduced(at) {
            push(dims[..at].iter().product(), dims[at], dims[at + 1..].iter().product());
            dims[at] = 1;
        }
    }
    if steps.is_empty() {
        // No axis is reduced, but elements are squared or their logarithm is taken.
        let pass = Pass { map, fold, post_op: PostOp::None };
        steps.push(Step { outer: 1, reduce: 1, inner: collapsed.output_len(), parts: 1, pass, scale: 1.0 });
    }
    if let Some(last) = steps.last_mut() {
        last.pass.post_op = post_op;
        if reduction == Reduction::Mean {
            last.scale = 1.0 / collapsed.reduced_len() as f32;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_kind_are_one_axis_and_ones_are_none() {
        let cases: &[(&[usize], &[usize], &[u64], bool)] = &[
            (&[2, 3, 4], &[2], &[6, 4], false),
            (&[2, 3, 4], &[0, 1], &[6, 4], true),
            (&[2, 1, 4], &[1], &[8], false),
            (&[2, 3, 4, 5], &[0, 2], &[2, 3, 4, 5], true),
            (&[1, 1, 7], &[0, 2], &[7], true),
            (&[], &[], &[], false),
            (&[2, 0, 4], &[1], &[2, 0, 4], false),
        ];
        for &(shape, axes, dims, reduced_first) in cases {
            let collapsed = Collapsed::new(shape, |axis| axes.contains(&axis));
            assert_eq!(collapsed.dims[..], *dims, "{shape:?} over {axes:?}");
            assert_eq!(collapsed.reduced_first && !dims.is_empty(), reduced_first, "{shape:?} over {axes:?}");
            assert_eq!(collapsed.input_len(), shape.iter().product::<usize>());
        }
    }

    #[test]
    fn long_sums_are_summed_in_parts_and_the_inner_axis_goes_first() {
        let collapsed = Collapsed { dims: SmallVec::from_slice(&[10_000, 3, 100_000]), reduced_first: true };
        let steps = steps(Reduction::Mean, &collapsed, 4, false);
        let sizes: Vec<_> = steps.iter().map(|step| (step.outer, step.reduce, step.inner, step.parts)).collect();
        assert_eq!(sizes, [(30_000, 100_000, 1, 25), (30_000, 25, 1, 1), (1, 10_000, 3, 40), (1, 40, 3, 1)]);
        assert_eq!(steps.iter().filter(|step| step.scale != 1.0).count(), 1, "divided once");
    }
}
