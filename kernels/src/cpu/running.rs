//! Running sums and products along an axis, in loops that the compiler vectorises.
//!
//! Each line is kept in `f64` and rounded at each element, so results are the same bits at every level and for any
//! number of tasks. Where lines lie side by side, a row of them runs at once; lines along the last axis run one element
//! after the other, several lines beside each other, because each element waits for the one before it. The oracle is
//! [`reference::running`](crate::reference::running).

use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::memory::{self, Pace};
use crate::parallel::{Disjoint, Parallel, part};

pub use crate::problem::running::Running;

use super::multiversion::multiversion;

const FAMILY: &str = "running";

/// Running sums or products ready to be computed.
#[derive(Debug)]
pub struct Runner {
    running: Running,
    elements: usize,
    isa: Isa,
    tasks: usize,
}

/// Lines side by side whose values are kept at once: they stay in L1.
const COLUMNS: usize = 512;

/// Lines along the last axis that run beside each other.
const BESIDE: usize = 8;

impl Runner {
    /// Prepares running values, split into at most `tasks` tasks.
    pub fn new(running: Running, isa: Isa, tasks: usize) -> Result<Runner> {
        let reason = || KernelError::Unsupported { family: FAMILY, reason: format!("{running:?}") };
        Ok(Runner { running, elements: running.elements().ok_or_else(reason)?, isa, tasks: tasks.max(1) })
    }

    /// Writes the running values of `input`.
    pub fn run(&self, input: &[f32], output: &mut [f32], parallel: &dyn Parallel) -> Result<()> {
        for (operand, have) in [("input", input.len()), ("output", output.len())] {
            if have < self.elements {
                return Err(KernelError::Bounds { family: FAMILY, operand, have, need: self.elements });
            }
        }
        if self.elements == 0 {
            return Ok(());
        }
        let (input, output) = (&input[..self.elements], &mut output[..self.elements]);
        if self.running.inner() == 1 {
            self.lines(input, output, parallel)
        } else {
            self.columns(input, output, parallel)
        }
        Ok(())
    }

    /// Lines along the last axis: each task has some of them.
    fn lines(&self, input: &[f32], output: &mut [f32], parallel: &dyn Parallel) {
        let (count, length) = (self.running.outer(), self.running.length());
        let output = Disjoint::new(output);
        // Lines between two looks at whether the request goes on.
        let together = STEPS.div_ceil(length).next_multiple_of(BESIDE);
        let tasks = self.tasks.min(count);
        parallel.run(tasks, &|task| {
            let mut pace = Pace::default();
            let lines = part(count, tasks, task);
            for first in lines.clone().step_by(together) {
                if parallel.is_stopped() {
                    return;
                }
                let elements = first * length..lines.end.min(first + together) * length;
                // SAFETY: each line is one task's.
                let to = unsafe { output.part(elements.clone()) };
                beside(&input[elements], self.running, to, &mut pace);
            }
        });
    }

    /// Lines side by side: each task has some of them, of one block or of several.
    fn columns(&self, input: &[f32], output: &mut [f32], parallel: &dyn Parallel) {
        let Running { product, reverse, .. } = self.running;
        let (outer, length, inner) = (self.running.outer(), self.running.length(), self.running.inner());
        let output = Disjoint::new(output);
        // Pieces of a block, at least one for each task where there are as many vectors.
        let width = COLUMNS.min((outer * inner).div_ceil(self.tasks).next_multiple_of(16));
        let pieces = inner.div_ceil(width);
        // Rows that are computed by one call: short ones lie one after the other.
        let together = if pieces == 1 { STEPS.div_ceil(inner).min(length) } else { 1 };
        let tasks = self.tasks.min(outer * pieces);
        parallel.run(tasks, &|task| {
            let mut pace = Pace::default();
            let mut values = memory::zeroed::<f64>(width.min(inner));
            for piece in part(outer * pieces, tasks, task) {
                let (block, first) = (piece / pieces, piece % pieces * width);
                let values = &mut values[..width.min(inner - first)];
                values.fill(if product { 1.0 } else { 0.0 });
                for step in (0..length).step_by(together) {
                    if parallel.is_stopped() {
                        return;
                    }
                    let rows = together.min(length - step);
                    pace.step(1 + rows * values.len() / 2);
                    let row = if reverse { length - step - rows } else { step };
                    let start = (block * length + row) * inner + first;
                    let elements = start..start + rows * values.len();
                    // SAFETY: each piece is one task's, and pieces have different columns.
                    let to = unsafe { output.part(elements.clone()) };
                    if product {
                        multiply_rows(self.isa, &input[elements], self.running, values, to);
                    } else {
                        add_rows(self.isa, &input[elements], self.running, values, to);
                    }
                }
            }
        });
    }
}

multiversion! {
    fn add_rows(from: &[f32], running: Running, values: &mut [f64], to: &mut [f32]) {
        rows(from, running, values, to, |value, from| value + from);
    }
}

multiversion! {
    fn multiply_rows(from: &[f32], running: Running, values: &mut [f64], to: &mut [f32]) {
        rows(from, running, values, to, |value, from| value * from);
    }
}

/// Rows one after the other, each with as many elements as there are values.
#[inline(always)]
fn rows(from: &[f32], running: Running, values: &mut [f64], to: &mut [f32], combine: impl Fn(f64, f64) -> f64) {
    match values.len() {
        2 => rows_of::<2>(from, running, values, to, combine),
        3 => rows_of::<3>(from, running, values, to, combine),
        4 => rows_of::<4>(from, running, values, to, combine),
        width => {
            let rows = from.chunks_exact(width).zip(to.chunks_exact_mut(width));
            in_turn(rows, running, |from, to, exclusive| row(from, exclusive, values, to, &combine));
        }
    }
}

/// As [`rows`], where values stay in registers.
#[inline(always)]
fn rows_of<const WIDTH: usize>(
    from: &[f32],
    running: Running,
    values: &mut [f64],
    to: &mut [f32],
    combine: impl Fn(f64, f64) -> f64,
) {
    let mut kept = [0.0; WIDTH];
    kept.copy_from_slice(values);
    let rows = from.as_chunks::<WIDTH>().0.iter().zip(to.as_chunks_mut::<WIDTH>().0);
    in_turn(rows, running, |from, to, exclusive| row(from, exclusive, &mut kept, to, &combine));
    values.copy_from_slice(&kept);
}

/// Takes the rows of the input and of the output in the order in which values run, and says whether a row leaves out
/// its own elements.
#[inline(always)]
fn in_turn<From, To>(
    rows: impl DoubleEndedIterator<Item = (From, To)>,
    running: Running,
    mut take: impl FnMut(From, To, bool),
) {
    match (running.reverse, running.exclusive) {
        (false, false) => rows.for_each(|(from, to)| take(from, to, false)),
        (false, true) => rows.for_each(|(from, to)| take(from, to, true)),
        (true, exclusive) => rows.rev().for_each(|(from, to)| take(from, to, exclusive)),
    }
}

#[inline(always)]
fn row(from: &[f32], exclusive: bool, values: &mut [f64], to: &mut [f32], combine: impl Fn(f64, f64) -> f64) {
    let elements = from.iter().zip(values).zip(to);
    if exclusive {
        for ((&from, value), to) in elements {
            *to = *value as f32;
            *value = combine(*value, f64::from(from));
        }
    } else {
        for ((&from, value), to) in elements {
            *value = combine(*value, f64::from(from));
            *to = *value as f32;
        }
    }
}

/// Steps between two looks at whether the request goes on.
const STEPS: usize = 1 << 12;

/// Lines along the last axis: [`BESIDE`] beside each other, then half as many of those that are left, down to one.
fn beside(from: &[f32], running: Running, to: &mut [f32], pace: &mut Pace) {
    let (from, to) = lines::<BESIDE>(from, running, to, pace);
    let (from, to) = lines::<{ BESIDE / 2 }>(from, running, to, pace);
    let (from, to) = lines::<{ BESIDE / 4 }>(from, running, to, pace);
    lines::<1>(from, running, to, pace);
}

/// The lines that make up groups of `COUNT`, the lines of a group beside each other; returns the other lines.
fn lines<'a, const COUNT: usize>(
    from: &'a [f32],
    running: Running,
    to: &'a mut [f32],
    pace: &mut Pace,
) -> (&'a [f32], &'a mut [f32]) {
    let group = COUNT * running.length();
    let done = from.len() / group * group;
    let ((from, rest), (to, later)) = (from.split_at(done), to.split_at_mut(done));
    for (from, to) in from.chunks_exact(group).zip(to.chunks_exact_mut(group)) {
        if running.product {
            group_of::<COUNT>(from, running, to, pace, |value, from| value * from);
        } else {
            group_of::<COUNT>(from, running, to, pace, |value, from| value + from);
        }
    }
    (rest, later)
}

#[inline(always)]
fn group_of<const COUNT: usize>(
    from: &[f32],
    running: Running,
    to: &mut [f32],
    pace: &mut Pace,
    combine: impl Fn(f64, f64) -> f64,
) {
    let length = running.length();
    let mut values = [if running.product { 1.0f64 } else { 0.0 }; COUNT];
    let from: [&[f32]; COUNT] = std::array::from_fn(|line| &from[line * length..][..length]);
    for first in (0..length).step_by(STEPS) {
        let steps = STEPS.min(length - first);
        pace.step(steps * COUNT);
        for step in first..first + steps {
            let place = if running.reverse { length - 1 - step } else { step };
            for (line, value) in values.iter_mut().enumerate() {
                let before = *value;
                *value = combine(before, f64::from(from[line][place]));
                to[line * length + place] = if running.exclusive { before } else { *value } as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::canaries::{Canaried, Poisoned, Scoped};
    use crate::reference;

    fn check(running: Running, isa: Isa, tasks: usize) {
        let count = running.elements().unwrap();
        let input: Vec<f32> = (0..count).map(|at| ((at * 7919 + 3) % 1009) as f32 / 504.5 - 0.4).collect();
        let Running { product, exclusive, reverse, .. } = running;
        let (length, inner) = (running.length(), running.inner());
        let mut want = vec![f32::NAN; count];
        for line in 0..running.outer() * inner {
            let lines = line / inner * length * inner + line % inner..(line / inner + 1) * length * inner;
            let (from, to) = (&input[lines.clone()], &mut want[lines]);
            reference::running::run(product, exclusive, reverse, from, inner, to);
        }
        let mut output = Canaried::new(count);
        let runner = Runner::new(running, isa, tasks).unwrap();
        runner.run(Poisoned::new(&input).inside(), output.inside(), &Scoped).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
        assert_eq!(bits(&output.open()), bits(&want), "{running:?} at {isa} in {tasks} tasks");
    }

    #[test]
    fn lines_along_any_axis_have_the_bits_of_the_definition() {
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            for flags in 0..8 {
                let [product, exclusive, reverse] = [flags & 1 != 0, flags & 2 != 0, flags & 4 != 0];
                let sizes = [
                    (1, 1, 1),
                    (3, 7, 1),
                    (19, 33, 1),
                    (3000, 2, 1),
                    (3, 5000, 1),
                    (1, 5, 70),
                    (2, 9, 16),
                    (4, 3, 3),
                    (2, 3000, 2),
                    (1, 1400, 3),
                    (1, 1025, 4),
                    (2, 900, 5),
                    (1, 3, 1100),
                    (2, 1, 9),
                ];
                for (outer, length, inner) in sizes {
                    let running = Running { outer, length, inner, product, exclusive, reverse };
                    for tasks in [1, 3] {
                        check(running, isa, tasks);
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_is_done_of_nothing() {
        let form = Running { outer: 2, length: 3, inner: 4, product: false, exclusive: false, reverse: false };
        let runner = Runner::new(form, Isa::Portable, 1).unwrap();
        let operand = |input: usize, output: usize| match runner.run(&vec![0.0; input], &mut vec![0.0; output], &Scoped)
        {
            Err(KernelError::Bounds { operand, .. }) => operand,
            other => panic!("{other:?}"),
        };
        assert_eq!([operand(23, 24), operand(24, 23)], ["input", "output"]);
        for (outer, length, inner) in [(0, 3, 4), (2, 0, 4), (2, 3, 0), (2, 0, 1)] {
            let empty = Runner::new(Running { outer, length, inner, ..form }, Isa::Portable, 2).unwrap();
            empty.run(&[], &mut [], &Scoped).unwrap();
        }
        let large = Running { outer: u64::MAX, ..form };
        assert!(matches!(Runner::new(large, Isa::Portable, 1), Err(KernelError::Unsupported { .. })));
    }
}
